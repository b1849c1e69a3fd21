use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use dataset::{Inline, Media, MediaContent, MediaKinds};

use crate::endpoint::fixture::{body, config, conversation, endpoint, piece, stream, whole};
use crate::endpoint::{EndpointType, ParsedResponse, ToolCalls};
use crate::record::ErrorKind;

const RESPONSES: EndpointType = EndpointType::RESPONSES;

fn event(value: &Value) -> String {
    format!("event: {}\ndata: {value}", value["type"].as_str().unwrap())
}

fn read(events: &[Value]) -> ParsedResponse {
    let events: Vec<String> = events.iter().map(event).collect();
    endpoint(RESPONSES).parse(&stream(&events))
}

fn delta(kind: &str, text: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "item_id": "i", "output_index": 0,
           "content_index": 0, "delta": text})
}

fn completed(output: &Value) -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "model": "m",
        "output": output, "usage": {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8,
            "input_tokens_details": {"cached_tokens": 2},
            "output_tokens_details": {"reasoning_tokens": 1}}}})
}

#[test]
fn a_request_bears_its_conversation_and_instructions() {
    let message = |role, content| json!({"type": "message", "role": role, "content": content});
    assert_eq!(
        body(&config(RESPONSES, true), &conversation(), 1),
        json!({
            "input": [message("user", "context"), message("user", "one"),
                      message("assistant", "answer"), message("user", "two")],
            "model": "m", "stream": true, "instructions": "be brief", "max_output_tokens": 8
        })
    );
}

#[test]
fn several_texts_and_media_are_parts_of_one_message() {
    let mut conversation = conversation();
    let turn = &mut conversation.turns[0];
    turn.texts.push("more".into());
    let file = |media_type: &str| {
        let bytes = Bytes::from_static(b"fooba");
        MediaContent::Inline(Inline { media_type: media_type.into(), bytes })
    };
    let media = |kind, content| Media { kind, content, seconds: None, uuid: None };
    turn.media = vec![
        media(MediaKinds::IMAGE, file("image/png")),
        media(MediaKinds::IMAGE, MediaContent::Url("http://x/a.png".into())),
        media(MediaKinds::AUDIO, file("audio/wav")),
    ];
    let sent = body(&config(RESPONSES, false), &conversation, 0);
    assert_eq!(
        sent["input"][1]["content"],
        json!([
            {"type": "input_text", "text": "one"},
            {"type": "input_text", "text": "more"},
            {"type": "input_image", "image_url": "data:image/png;base64,Zm9vYmE="},
            {"type": "input_image", "image_url": "http://x/a.png"},
            {"type": "input_audio", "input_audio": {"data": "Zm9vYmE=", "format": "wav"}}
        ])
    );
    assert_eq!(sent["stream"], false);
}

#[test]
fn deltas_are_content_and_what_repeats_them_is_none() {
    let added = |item| json!({"type": "response.output_item.added", "item": item});
    let output =
        json!([{"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}]);
    let parsed = read(&[
        json!({"type": "response.created", "response": {"status": "in_progress", "model": "m"}}),
        added(json!({"type": "message", "content": []})),
        json!({"type": "response.content_part.added", "part": {"type": "output_text", "text": ""}}),
        delta("reasoning_text", "hm"),
        delta("output_text", "Hel"),
        delta("output_text", ""),
        delta("output_text", "lo"),
        json!({"type": "response.output_text.done", "item_id": "i", "output_index": 0,
               "content_index": 0, "text": "Hello"}),
        json!({"type": "response.of_a_kind_to_come", "delta": "?"}),
        completed(&output),
    ]);
    assert_eq!(parsed.error, None);
    assert_eq!(parsed.content, [piece(4, false), piece(5, true), piece(7, true)]);
    assert_eq!((&*parsed.reasoning_text, &*parsed.output_text), ("hm", "Hello"));
    assert_eq!(parsed.model.as_deref(), Some("m"));
    assert_eq!(parsed.finish_reasons, ["completed"]);
    let usage = parsed.usage.unwrap();
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (Some(5), Some(3)));
    assert_eq!((usage.prompt_cache_read_tokens, usage.reasoning_tokens), (Some(2), Some(1)));
}

#[test]
fn calls_refusals_and_summaries_are_content() {
    let item = json!({"type": "function_call", "name": "add", "arguments": ""});
    let done = json!({"type": "function_call", "name": "add", "arguments": "{\"a\":1}"});
    let parsed = read(&[
        delta("reasoning_summary_text", "sum"),
        json!({"type": "response.output_item.added", "item": item}),
        delta("function_call_arguments", "{\"a\":1}"),
        json!({"type": "response.output_item.done", "item": done}),
        delta("refusal", "no"),
        completed(&json!([])),
    ]);
    assert_eq!(parsed.content, [piece(1, false), piece(2, true), piece(3, true), piece(5, true)]);
    assert_eq!((&*parsed.reasoning_text, &*parsed.output_text), ("sum", "add{\"a\":1}no"));
    assert_eq!(parsed.tool_calls, ToolCalls { count: 1, invalid: 0 });
}

#[test]
fn what_only_the_end_says_counts_once() {
    let done = |index, text| {
        json!({"type": "response.output_text.done", "item_id": "i", "output_index": 0,
               "content_index": index, "text": text})
    };
    let output = json!([{"type": "message", "content": [{"text": "ab"}]}]);
    let parsed = read(&[delta("output_text", "a"), done(0, "a"), done(1, "b"), completed(&output)]);
    assert_eq!((&*parsed.output_text, parsed.content.len()), ("ab", 2));
    let parsed = read(&[completed(&output)]);
    assert_eq!((&*parsed.output_text, parsed.content.len()), ("ab", 1));
}

#[test]
fn a_whole_response() {
    let parsed = endpoint(RESPONSES).parse(&whole(
        br#"{"object":"response","status":"incomplete","model":"m","error":null,
            "incomplete_details":{"reason":"max_output_tokens"},"text":{"format":{"type":"text"}},
            "output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}]},
                {"type":"message","role":"assistant","content":[
                    {"type":"output_text","text":"a"},{"type":"refusal","refusal":"b"}]},
                {"type":"function_call","name":"f","arguments":"{}"}],
            "usage":{"input_tokens":1,"output_tokens":2}}"#,
    ));
    assert_eq!((parsed.error, parsed.content), (None, vec![piece(9, true)]));
    assert_eq!((&*parsed.reasoning_text, &*parsed.output_text), ("s", "abf{}"));
    assert_eq!(parsed.tool_calls, ToolCalls { count: 1, invalid: 0 });
    assert_eq!(parsed.finish_reasons, ["max_output_tokens"]);
}

#[test]
fn failures_are_reported() {
    let failed = |error| {
        let response = json!({"status": "failed", "error": error});
        read(&[delta("output_text", "a"), json!({"type": "response.failed", "response": response})])
    };
    let parsed = failed(json!({"code": "server_error", "message": "boom"}));
    assert_eq!(parsed.output_text, "a");
    let error = parsed.error.unwrap();
    assert_eq!((&*error.name, &*error.message), ("server_error", "boom"));
    assert_eq!(failed(Value::Null).error.unwrap().name, "failed");

    let event = json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow down"});
    let error = read(std::slice::from_ref(&event)).error.unwrap();
    assert_eq!((&*error.name, &*error.message), ("rate_limit_exceeded", "slow down"));
    let unnamed = stream(&[format!("data: {event}")]);
    assert_eq!(endpoint(RESPONSES).parse(&unnamed).error.unwrap(), error);

    let flat = br#"{"message":"Model not found","type":"Not Found","code":404}"#;
    assert_eq!(endpoint(RESPONSES).parse(&whole(flat)).error.unwrap().kind, ErrorKind::Http4xx);
    assert_eq!(read(&[delta("output_text", "a")]).error.unwrap().name, "CutStream");
}

proptest! {
    #[test]
    fn texts_come_back_whole(texts in prop::collection::vec(any::<String>(), 1..8)) {
        let mut events: Vec<Value> = texts.iter().map(|text| delta("output_text", text)).collect();
        events.push(completed(&json!([])));
        let parsed = read(&events);
        prop_assert_eq!(parsed.output_text, texts.concat());
        let pieces = texts.iter().filter(|text| !text.is_empty()).count();
        prop_assert_eq!(parsed.content.len(), pieces);
    }
}
