use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use dataset::{Inline, Media, MediaContent, MediaKinds};

use crate::endpoint::fixture::{body, config, conversation, endpoint, piece, stream, whole};
use crate::endpoint::{EndpointType, ParsedResponse, ToolCalls};

const MESSAGES: EndpointType = EndpointType::MESSAGES;

fn read(events: &[Value]) -> ParsedResponse {
    let event =
        |value: &Value| format!("event: {}\ndata: {value}", value["type"].as_str().unwrap());
    let events: Vec<String> = events.iter().map(event).collect();
    endpoint(MESSAGES).parse(&stream(&events))
}

fn delta(kind: &str, member: &str, text: &str) -> Value {
    json!({"type": "content_block_delta", "index": 0, "delta": {"type": kind, member: text}})
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"type": "message", "role": "assistant",
        "content": [], "model": "m", "stop_reason": null, "usage": {"input_tokens": 25,
            "cache_creation_input_tokens": 6, "cache_read_input_tokens": 7, "output_tokens": 1}}})
}

fn block(block: &Value) -> Value {
    json!({"type": "content_block_start", "index": 0, "content_block": block})
}

fn end(reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
           "usage": {"output_tokens": 15}})
}

fn stop() -> Value {
    json!({"type": "message_stop"})
}

#[test]
fn a_request_bears_its_conversation_apart_from_the_system_message() {
    let message = |role, content| json!({"role": role, "content": content});
    assert_eq!(
        body(&config(MESSAGES, true), &conversation(), 1),
        json!({
            "model": "m",
            "messages": [message("user", "context"), message("user", "one"),
                         message("assistant", "answer"), message("user", "two")],
            "max_tokens": 8, "stream": true, "system": "be brief"
        })
    );
    let first = body(&config(MESSAGES, false), &conversation(), 0);
    assert_eq!(first["max_tokens"], 1024, "as AIPerf's, where nothing is said");
    assert_eq!(first.get("stream"), None);
}

#[test]
fn images_are_blocks_with_a_source() {
    let mut conversation = conversation();
    let inline = Inline { media_type: "image/png".into(), bytes: Bytes::from_static(b"fooba") };
    let image = |content| Media { kind: MediaKinds::IMAGE, content, seconds: None, uuid: None };
    conversation.turns[0].media = vec![
        image(MediaContent::Inline(inline)),
        image(MediaContent::Url("http://x/a.png".into())),
    ];
    let sent = body(&config(MESSAGES, true), &conversation, 0);
    assert_eq!(
        sent["messages"][1]["content"],
        json!([
            {"type": "text", "text": "one"},
            {"type": "image", "source":
                {"type": "base64", "media_type": "image/png", "data": "Zm9vYmE="}},
            {"type": "image", "source": {"type": "url", "url": "http://x/a.png"}}
        ])
    );
}

#[test]
fn only_deltas_with_text_are_content() {
    let parsed = read(&[
        start(),
        block(&json!({"type": "thinking", "thinking": "", "signature": ""})),
        json!({"type": "ping"}),
        delta("thinking_delta", "thinking", "hm"),
        delta("signature_delta", "signature", "c2ln"),
        json!({"type": "content_block_stop", "index": 0}),
        block(&json!({"type": "text", "text": ""})),
        delta("text_delta", "text", "Hel"),
        delta("of_a_kind_to_come", "what", "?"),
        delta("text_delta", "text", "lo"),
        json!({"type": "of_a_kind_to_come"}),
        end("end_turn"),
        stop(),
    ]);
    assert_eq!(parsed.error, None);
    assert_eq!(parsed.content, [piece(4, false), piece(8, true), piece(10, true)]);
    assert_eq!((&*parsed.reasoning_text, &*parsed.output_text), ("hm", "Hello"));
    assert_eq!(parsed.model.as_deref(), Some("m"));
    assert_eq!(parsed.finish_reasons, ["end_turn"]);
    let usage = parsed.usage.unwrap();
    // 25, plus 6 written to the cache and 7 read from it.
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (Some(38), Some(15)));
    assert_eq!(usage.prompt_cache_read_tokens, Some(7));
    assert_eq!(usage.prompt_cache_write_tokens, Some(6));
    assert_eq!(usage.total_tokens, None);
}

#[test]
fn the_use_of_a_tool_is_content() {
    let parsed = read(&[
        start(),
        block(&json!({"type": "tool_use", "id": "t", "name": "add", "input": {}})),
        delta("input_json_delta", "partial_json", ""),
        delta("input_json_delta", "partial_json", "{\"a\":1}"),
        end("tool_use"),
        stop(),
    ]);
    assert_eq!(parsed.content, [piece(2, true), piece(4, true)]);
    assert_eq!(parsed.output_text, "add{\"a\":1}");
    assert_eq!(parsed.tool_calls, ToolCalls { count: 1, invalid: 0 });
}

#[test]
fn a_tool_may_be_used_without_input() {
    let tool = || block(&json!({"type": "tool_use", "id": "t", "name": "now", "input": {}}));
    let cut = delta("input_json_delta", "partial_json", "{\"a\":");
    let parsed = read(&[start(), tool(), tool(), cut, end("tool_use"), stop()]);
    assert_eq!(parsed.tool_calls, ToolCalls { count: 2, invalid: 1 });
}

#[test]
fn a_whole_message() {
    let parsed = endpoint(MESSAGES).parse(&whole(
        br#"{"type":"message","role":"assistant","model":"m","content":[
            {"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"a"},
            {"type":"tool_use","id":"t","name":"add","input":{"a":1}}],
            "stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}"#,
    ));
    assert_eq!((parsed.error, parsed.content), (None, vec![piece(9, true)]));
    assert_eq!((&*parsed.reasoning_text, &*parsed.output_text), ("hm", "aadd{\"a\":1}"));
    assert_eq!(parsed.finish_reasons, ["tool_use"]);
    assert_eq!(parsed.tool_calls, ToolCalls { count: 1, invalid: 0 });
    assert_eq!(parsed.usage.unwrap().completion_tokens, Some(2));
}

#[test]
fn failures_are_reported() {
    let error =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let parsed = read(&[start(), delta("text_delta", "text", "a"), error.clone()]);
    assert_eq!(parsed.output_text, "a");
    let reported = parsed.error.unwrap();
    assert_eq!((&*reported.name, &*reported.message), ("overloaded_error", "Overloaded"));
    let unnamed = stream(&[format!("data: {error}")]);
    assert_eq!(endpoint(MESSAGES).parse(&unnamed).error.unwrap(), reported);
    let flat = br#"{"message":"Route not found","type":"Not Found","code":404}"#;
    assert_eq!(endpoint(MESSAGES).parse(&whole(flat)).error.unwrap().code, Some(404));

    let name = |events: &[Value]| read(events).error.map(|error| error.name);
    let text = delta("text_delta", "text", "a");
    assert_eq!(name(&[start(), text.clone()]).unwrap(), "CutStream");
    assert_eq!(name(&[start(), text.clone(), end("end_turn")]), None);
    assert_eq!(name(&[start(), text, stop()]), None);
    assert_eq!(name(&[start(), end("end_turn"), stop()]).unwrap(), "EmptyResponse");
}

proptest! {
    #[test]
    fn texts_come_back_whole(texts in prop::collection::vec(any::<String>(), 1..8)) {
        let mut events = vec![start()];
        events.extend(texts.iter().map(|text| delta("text_delta", "text", text)));
        events.push(stop());
        let parsed = read(&events);
        prop_assert_eq!(parsed.output_text, texts.concat());
        let pieces = texts.iter().filter(|text| !text.is_empty()).count();
        prop_assert_eq!(parsed.content.len(), pieces);
    }
}
