use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use dataset::{Inline, Media, MediaContent, MediaKinds};

use crate::endpoint::fixture::{body, config, conversation, endpoint, piece, stream, whole};
use crate::endpoint::{EndpointType, ParsedResponse, ToolCalls};
use crate::record::ErrorKind;

const GEMINI: EndpointType = EndpointType::GEMINI;

fn read(events: &[Value]) -> ParsedResponse {
    let events: Vec<String> = events.iter().map(|value| format!("data: {value}")).collect();
    endpoint(GEMINI).parse(&stream(&events))
}

fn parts(parts: &Value) -> Value {
    json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}]})
}

fn end(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason, "index": 0}], "modelVersion": "m-001",
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 20,
            "totalTokenCount": 35, "thoughtsTokenCount": 5}})
}

#[test]
fn a_request_bears_contents_and_the_system_message_apart() {
    let content = |role, text| json!({"role": role, "parts": [{"text": text}]});
    assert_eq!(
        body(&config(GEMINI, true), &conversation(), 1),
        json!({
            "contents": [content("user", "context"), content("user", "one"),
                         content("model", "answer"), content("user", "two")],
            "systemInstruction": {"parts": [{"text": "be brief"}]},
            "generationConfig": {"maxOutputTokens": 8}
        })
    );
    let mut with_extras = config(GEMINI, true);
    with_extras.extra_inputs =
        vec![("generationConfig".to_owned(), json!({"temperature": 0, "maxOutputTokens": 9}))];
    let sent = |at| body(&with_extras, &conversation(), at)["generationConfig"].clone();
    assert_eq!(sent(0), json!({"temperature": 0, "maxOutputTokens": 9}));
    with_extras.extra_inputs[0].1 = json!({"temperature": 0});
    let sent = body(&with_extras, &conversation(), 1)["generationConfig"].clone();
    assert_eq!(sent, json!({"temperature": 0, "maxOutputTokens": 8}));
}

#[test]
fn its_path_names_the_model_and_whether_it_streams() {
    assert_eq!(
        config(GEMINI, true).path("gemini-x"),
        "/v1beta/models/gemini-x:streamGenerateContent?alt=sse"
    );
    assert_eq!(config(GEMINI, false).path("gemini-x"), "/v1beta/models/gemini-x:generateContent");
}

#[test]
fn media_are_parts() {
    let mut conversation = conversation();
    let inline = Inline { media_type: "video/mp4".into(), bytes: Bytes::from_static(b"fooba") };
    let media = |content| Media { kind: MediaKinds::VIDEO, content, seconds: None, uuid: None };
    conversation.turns[0].media = vec![
        media(MediaContent::Inline(inline)),
        media(MediaContent::Url("http://x/a.mp4".into())),
    ];
    let sent = body(&config(GEMINI, true), &conversation, 0);
    assert_eq!(
        sent["contents"][1]["parts"],
        json!([
            {"text": "one"},
            {"inlineData": {"mimeType": "video/mp4", "data": "Zm9vYmE="}},
            {"fileData": {"fileUri": "http://x/a.mp4"}}
        ])
    );
}

#[test]
fn thoughts_are_reasoning_and_calls_are_output() {
    let parsed = read(&[
        json!({"candidates": [{"content": {"role": "model"}, "index": 0}]}),
        parts(&json!([{"text": "hm", "thought": true}])),
        parts(&json!([{"text": "Hel"}])),
        parts(&json!([{"text": ""}])),
        parts(&json!([{"text": "lo"}, {"ofAKindToCome": {}}])),
        parts(&json!([{"functionCall": {"name": "add", "args": {"a": 1}}}])),
        end("STOP"),
    ]);
    assert_eq!(parsed.error, None);
    assert_eq!(parsed.content, [piece(2, false), piece(3, true), piece(5, true), piece(6, true)]);
    assert_eq!((&*parsed.reasoning_text, &*parsed.output_text), ("hm", "Helloadd{\"a\":1}"));
    assert_eq!(parsed.tool_calls, ToolCalls { count: 1, invalid: 0 });
    assert_eq!(parsed.finish_reasons, ["STOP"]);
    assert_eq!(parsed.model.as_deref(), Some("m-001"));
    let usage = parsed.usage.unwrap();
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (Some(10), Some(25)));
    assert_eq!((usage.reasoning_tokens, usage.total_tokens), (Some(5), Some(35)));
}

#[test]
fn a_whole_answer() {
    let mut value = end("MAX_TOKENS");
    value["candidates"][0]["content"] =
        json!({"parts": [{"text": "a", "thought": true}, {"text": "b"}, {"inlineData": {}}]});
    let parsed = endpoint(GEMINI).parse(&whole(value.to_string().as_bytes()));
    assert_eq!((parsed.error, parsed.content), (None, vec![piece(9, true)]));
    assert_eq!((&*parsed.reasoning_text, &*parsed.output_text), ("a", "b"));
}

#[test]
fn failures_are_reported() {
    let error = read(&[json!({"promptFeedback": {"blockReason": "SAFETY"}})]).error.unwrap();
    assert_eq!((&*error.name, &*error.message), ("SAFETY", "the prompt was blocked: SAFETY"));
    let text = parts(&json!([{"text": "a"}]));
    let busy = json!({"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}});
    let error = read(&[text.clone(), busy]).error.unwrap();
    assert_eq!((error.kind, &*error.name), (ErrorKind::Http5xx, "UNAVAILABLE"));
    assert_eq!(read(&[text]).error.unwrap().name, "CutStream");
    assert_eq!(read(&[end("SAFETY")]).error.unwrap().name, "EmptyResponse");
}

proptest! {
    #[test]
    fn texts_come_back_whole(texts in prop::collection::vec(any::<String>(), 1..8)) {
        let mut events: Vec<Value> =
            texts.iter().map(|text| parts(&json!([{"text": text}]))).collect();
        events.push(end("STOP"));
        let parsed = read(&events);
        prop_assert_eq!(parsed.output_text, texts.concat());
        let pieces = texts.iter().filter(|text| !text.is_empty()).count();
        prop_assert_eq!(parsed.content.len(), pieces);
    }
}
