use proptest::prelude::*;
use serde_json::json;

use super::super::EndpointType;
use super::super::fixture::{config, piece, stream, whole};
use super::*;

fn detect(field: Option<&str>) -> Detect {
    let mut config = config(EndpointType::RAW, true);
    config.extra_inputs.extend(field.map(|path| (RESPONSE_FIELD.to_owned(), path.into())));
    Detect::new(&config)
}

fn read(value: &Value) -> ParsedResponse {
    detect(None).parse(&whole(value.to_string().as_bytes()))
}

#[test]
fn whole_answers_of_every_dialect() {
    for value in [
        json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}),
        json!({"choices": [{"text": "hi", "finish_reason": "stop"}]}),
        json!({"object": "response", "status": "completed", "output": [
            {"type": "message", "content": [{"type": "output_text", "text": "hi"}]}]}),
        json!({"type": "message", "role": "assistant", "stop_reason": "end_turn",
               "content": [{"type": "text", "text": "hi"}]}),
        json!({"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]}),
        json!({"generated_text": "hi"}),
        json!([{"generated_text": "hi"}]),
        json!({"text": "hi"}),
        json!({"text": ["h", "i"]}),
        json!({"response": "hi", "done": true}),
        json!("hi"),
    ] {
        let parsed = read(&value);
        assert_eq!((parsed.error, &*parsed.output_text), (None, "hi"), "{value}");
        assert_eq!(parsed.content, [piece(9, true)], "{value}");
    }
}

#[test]
fn vectors_scores_and_images_are_content_without_text() {
    for value in [
        json!({"data": [{"object": "embedding", "embedding": [0.5]}], "usage": {"prompt_tokens": 3}}),
        json!({"embeddings": [[0.5]]}),
        json!({"embedding": [0.5]}),
        json!({"results": [{"index": 0}]}),
        json!([{"index": 0, "score": 0.5}]),
        json!({"created": 1, "data": [{"b64_json": "AAAA"}]}),
        json!({"created": 1, "data": [{"url": "https://x/y.png"}]}),
        json!([0.5, 1.0]),
    ] {
        let parsed = read(&value);
        assert_eq!((parsed.error, parsed.content), (None, vec![piece(9, true)]), "{value}");
        assert_eq!(parsed.output_text, "");
    }
    let usage = read(&json!({"embeddings": [[1]], "usage": {"prompt_tokens": 3}})).usage;
    assert_eq!(usage.unwrap().prompt_tokens, Some(3));
}

#[test]
fn text_that_is_not_json_is_the_content() {
    let parsed = detect(None).parse(&whole(b"plain words"));
    assert_eq!((parsed.error, &*parsed.output_text), (None, "plain words"));
    assert!(detect(None).parse(&whole(b"{\"choices\": [")).error.is_some());
}

#[test]
fn streams_are_told_from_the_first_event_that_tells() {
    let chat = [
        r#"data: {"choices":[{"delta":{"content":"h"}}]}"#,
        r#"data: {"choices":[{"delta":{"content":"i"},"finish_reason":"stop"}]}"#,
        "data: [DONE]",
    ];
    let detect = detect(None);
    let parsed = detect.parse(&stream(&chat));
    assert_eq!((parsed.error, &*parsed.output_text), (None, "hi"));
    assert_eq!(parsed.content, [piece(1, true), piece(2, true)]);
    assert!(detect.has_content(chat[0].as_bytes()));
    assert!(!detect.has_content(br#"data: {"choices":[{"delta":{"role":"assistant"}}]}"#));
    let plain = [r#"data: {"text":"h"}"#, r#"data: {"note":1}"#, r#"data: {"text":"i"}"#];
    let parsed = detect.parse(&stream(&plain));
    assert_eq!((parsed.error, &*parsed.output_text), (None, "hi"));
    assert_eq!(parsed.content, [piece(1, true), piece(3, true)]);
}

#[test]
fn a_transcript_is_not_said_twice() {
    let parsed = detect(None).parse(&stream(&[
        r#"data: {"type":"transcript.text.delta","delta":"h"}"#,
        r#"data: {"type":"transcript.text.delta","delta":"i"}"#,
        r#"data: {"type":"transcript.text.done","text":"hi"}"#,
    ]));
    assert_eq!((parsed.error, &*parsed.output_text), (None, "hi"));
    assert_eq!(parsed.content, [piece(1, true), piece(2, true)]);
}

#[test]
fn content_is_where_the_field_says() {
    let value = json!({"text": "no", "out": {"parts": [{"t": "h"}, {"t": "i"}], "vectors": [[1]]}});
    let read = |path| detect(Some(path)).parse(&whole(value.to_string().as_bytes()));
    assert_eq!(read("out.parts[*].t").output_text, "hi");
    assert_eq!(read("out.vectors").content, [piece(9, true)]);
    assert_eq!(read("text").output_text, "no");
    // A misspelt path must not make a response without text a success.
    assert_eq!(read("out.part").error.unwrap().name, "EmptyResponse");
}

#[test]
fn failures_are_reported() {
    let error = read(&json!({"error": {"message": "no", "type": "Busy"}})).error.unwrap();
    assert_eq!((&*error.name, &*error.message), ("Busy", "no"));
    assert_eq!(read(&json!({"id": 1})).error.unwrap().name, "EmptyResponse");
    let mut config = config(EndpointType::RAW, true);
    config.extra_inputs = vec![(RESPONSE_FIELD.to_owned(), "a |".into())];
    assert!(Detect::new(&config).check().unwrap_err().contains("response_field"));
}

proptest! {
    #[test]
    fn any_body_is_read(
        body: Vec<u8>,
        shaped in r#"\{"(choices|text|token|type|data|candidates|results)":[\[\]{}",a-z0-9:]{0,20}\}"#,
    ) {
        for body in [&body[..], shaped.as_bytes()] {
            let _ = detect(None).parse(&whole(body));
            let _ = detect(None).has_content(body);
            let _ = detect(Some("a[0].b")).parse(&whole(body));
        }
    }
}
