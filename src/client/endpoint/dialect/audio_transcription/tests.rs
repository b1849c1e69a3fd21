use proptest::prelude::*;
use serde_json::{Value, json};

use dataset::{Conversation, Inline, Media, MediaContent, MediaKinds, Turn};

use crate::endpoint::fixture::{config, endpoint, piece, stream, turn, whole};
use crate::endpoint::{EndpointType, ParsedResponse, build};

const TRANSCRIPTION: EndpointType = EndpointType::AUDIO_TRANSCRIPTION;

fn read(events: &[Value]) -> ParsedResponse {
    let events: Vec<String> = events.iter().map(|value| format!("data: {value}")).collect();
    endpoint(TRANSCRIPTION).parse(&stream(&events))
}

fn delta(text: &str) -> Value {
    json!({"type": "transcript.text.delta", "delta": text})
}

fn done(text: &str) -> Value {
    json!({"type": "transcript.text.done", "text": text,
           "usage": {"type": "tokens", "input_tokens": 14, "output_tokens": 45, "total_tokens": 59,
                     "input_token_details": {"text_tokens": 0, "audio_tokens": 14}}})
}

#[test]
fn a_request_bears_the_file_and_no_text() {
    let file = Inline { media_type: "audio/wav".into(), bytes: "SOUND".into() };
    let media = Media {
        kind: MediaKinds::AUDIO,
        content: MediaContent::Inline(file),
        seconds: None,
        uuid: None,
    };
    let turn = Turn { media: vec![media], ..turn(&["prompt"], Some(8)) };
    let conversation = Conversation { turns: vec![turn], ..Conversation::default() };
    let mut config = config(TRANSCRIPTION, false);
    config.extra_inputs = vec![("response_format".to_owned(), "verbose_json".into())];
    let body = build(&config).request_body(&conversation, 0, &[]);
    let body = String::from_utf8(body).unwrap();
    assert!(body.contains("name=\"model\"\r\n\r\nm\r\n"));
    assert!(body.contains("name=\"response_format\"\r\n\r\nverbose_json\r\n"));
    assert!(body.contains(
        "name=\"file\"; filename=\"audio.wav\"\r\ncontent-type: audio/wav\r\n\r\nSOUND\r\n"
    ));
    assert!(!body.contains("prompt") && !body.contains("stream"));
}

/// Parses a response to a request with a text-only `response_format`.
fn read_as(format: &str, body: &[u8]) -> ParsedResponse {
    let mut config = config(TRANSCRIPTION, false);
    config.extra_inputs = vec![("response_format".to_owned(), format.into())];
    build(&config).parse(&whole(body))
}

#[test]
fn every_format_of_answer_is_read() {
    let text = |format: &str, body: &[u8]| {
        let parsed = read_as(format, body);
        assert_eq!((parsed.error, parsed.content), (None, vec![piece(9, true)]));
        parsed.output_text
    };
    assert_eq!(
        text("json", br#"{"text":"Hello.","usage":{"type":"duration","seconds":3}}"#),
        "Hello."
    );
    let verbose = br#"{"task":"transcribe","language":"en","duration":8.4,"text":"Hi",
                       "segments":[{"id":0,"text":"Hi","tokens":[1]}]}"#;
    assert_eq!(text("verbose_json", verbose), "Hi");
    assert_eq!(text("text", b"Hello there.\n"), "Hello there.\n");
    assert_eq!(text("text", br#""quoted""#), "quoted");
    assert_eq!(
        text("srt", b"1\n00:00:00,000 --> 00:00:01,000\nHi\n"),
        "1\n00:00:00,000 --> 00:00:01,000\nHi\n"
    );
}

#[test]
fn deltas_are_content_and_the_end_says_them_again() {
    let parsed = read(&[delta("Hel"), delta(""), delta("lo"), done("Hello")]);
    assert_eq!(parsed.error, None);
    assert_eq!(parsed.output_text, "Hello");
    assert_eq!(parsed.content, [piece(1, true), piece(3, true)]);
    let usage = parsed.usage.unwrap();
    assert_eq!((usage.prompt_tokens, usage.completion_tokens), (Some(14), Some(45)));
    assert_eq!(read(&[done("all at once")]).output_text, "all at once");
    assert_eq!(read(&[delta("a")]).error.unwrap().name, "CutStream");
}

#[test]
fn chunks_as_vllm_sends_them() {
    let chunk = |text: &str, reason: Value| {
        json!({"id": "trsc-1", "object": "transcription.chunk", "created": 1, "model": "whisper",
               "choices": [{"delta": {"content": text}, "finish_reason": reason}]})
    };
    let parsed = read(&[chunk(" Hel", Value::Null), chunk("lo", json!("stop"))]);
    assert_eq!((parsed.error, &*parsed.output_text), (None, " Hello"));
    assert_eq!(parsed.content.len(), 2);
    assert_eq!(parsed.model.as_deref(), Some("whisper"));
}

#[test]
fn failures_are_reported() {
    let name = |body: &[u8]| endpoint(TRANSCRIPTION).parse(&whole(body)).error.unwrap().name;
    assert_eq!(name(br#"{"text":""}"#), "EmptyResponse");
    assert_eq!(
        name(br#"{"error":{"message":"bad file","type":"invalid_request_error"}}"#),
        "invalid_request_error"
    );
    // An HTML page, or JSON that is not a transcript, is accepted only if the format is plain text.
    for body in ["<html>", "null", "5", "\u{fe}"] {
        assert_eq!(name(body.as_bytes()), "InvalidJson", "{body}");
    }
    assert_eq!(name(b"[]"), "EmptyResponse");
    let cut = endpoint(TRANSCRIPTION).parse(&whole(br#"{"text":"#)).error.unwrap();
    assert_eq!(cut.kind.as_str(), "parse_error");
}

proptest! {
    #[test]
    fn texts_come_back_whole(texts in prop::collection::vec(any::<String>(), 1..8)) {
        let mut events: Vec<Value> = texts.iter().map(|text| delta(text)).collect();
        events.push(done(&texts.concat()));
        let parsed = read(&events);
        prop_assert_eq!(parsed.output_text, texts.concat());
    }

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        let _ = endpoint(TRANSCRIPTION).parse(&whole(&bytes));
    }
}
