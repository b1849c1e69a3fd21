//! Properties of every dialect.

use proptest::prelude::*;

use base::setting::Named as _;
use base::units::Nanos;

use super::super::EndpointType;
use super::super::fixture::{endpoint, stream};
use crate::record::{ResponseBody, SseEvent};

/// Events with and without content, of each dialect with streams.
const EVENTS: &[&str] = &[
    "",
    ": keep-alive",
    "data: null",
    "data: {broken",
    "data: 7",
    "data: {}",
    "data: [DONE]",
    "event: error\ndata: {\"message\":\"no\"}",
    r#"data: {"error":{"message":"no"}}"#,
    r#"data: {"type":"of_a_kind_to_come","delta":{"text":7},"item":[],"response":null}"#,
    r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
    r#"data: {"choices":[{"index":0,"delta":{"content":"a"}}]}"#,
    r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    r#"data: {"type":"response.created","response":{"status":"in_progress","output":[]}}"#,
    r#"data: {"type":"response.output_item.added","item":{"type":"function_call","name":"f"}}"#,
    r#"data: {"type":"response.output_text.delta","item_id":"i","delta":"a"}"#,
    r#"data: {"type":"response.output_text.delta","item_id":"i","delta":""}"#,
    r#"data: {"type":"response.reasoning_text.delta","item_id":"i","delta":"a"}"#,
    r#"data: {"type":"response.output_text.done","item_id":"i","text":"a"}"#,
    r#"data: {"type":"response.completed","response":{"status":"completed","output_text":"a"}}"#,
    r#"data: {"type":"response.failed","response":{"status":"failed"}}"#,
    r#"data: {"type":"message_start","message":{"usage":{"input_tokens":1},"content":[]}}"#,
    r#"data: {"type":"ping"}"#,
    r#"data: {"type":"content_block_start","content_block":{"type":"tool_use","name":"f"}}"#,
    r#"data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}"#,
    r#"data: {"type":"content_block_delta","delta":{"type":"signature_delta","signature":"a"}}"#,
    r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
    r#"data: {"candidates":[{"content":{"parts":[{"text":"a","thought":true}]}}]}"#,
    r#"data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]}}]}"#,
    r#"data: {"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1}}"#,
    r#"data:{"token":{"text":"a","special":false},"generated_text":null}"#,
    r#"data:{"token":{"text":"</s>","special":true},"generated_text":"a"}"#,
    r#"data:{"error":"no","error_type":"generation"}"#,
    r#"data: {"type":"image_generation.partial_image","b64_json":"AA","partial_image_index":0}"#,
    r#"data: {"type":"image_generation.completed","b64_json":""}"#,
    r#"data: {"type":"transcript.text.delta","delta":"a"}"#,
    r#"data: {"type":"transcript.text.done","text":"a"}"#,
    r#"data: {"content":"a","sources":[]}"#,
];

fn streaming() -> impl Iterator<Item = EndpointType> {
    EndpointType::ALL.iter().copied().filter(|kind| kind.traits().supports_streaming)
}

#[test]
fn every_dialect_has_events_here() {
    for kind in streaming() {
        let dialect = endpoint(kind);
        let bears = |event: &&&str| dialect.has_content(event.as_bytes());
        assert!(EVENTS.iter().filter(bears).count() > 0, "{}", kind.traits().name);
    }
}

proptest! {
    /// The first event with content is the first content of the response, and every event is an
    /// error or has content.
    #[test]
    fn an_event_alone_tells_of_the_first_content(
        picked in prop::collection::vec(prop::sample::select(EVENTS), 0..12)
    ) {
        let events: Vec<&str> = picked.into_iter().filter(|event| !event.is_empty()).collect();
        for kind in streaming() {
            let dialect = endpoint(kind);
            let parsed = dialect.parse(&stream(&events));
            let first = events.iter().position(|event| dialect.has_content(event.as_bytes()));
            let expected = first.map(|at| Nanos(at as u64 + 1));
            prop_assert_eq!(parsed.content.first().map(|piece| piece.arrival.at), expected);
            prop_assert!(parsed.error.is_some() || !parsed.content.is_empty());
        }
    }

    #[test]
    fn any_bytes_are_read(bytes: Vec<u8>, is_event_stream: bool, cut in 0..64_u32) {
        read_split(&bytes, is_event_stream, cut)?;
    }

    /// Events that are cut anywhere, or concatenated.
    #[test]
    fn events_split_anywhere_are_read(
        picked in prop::collection::vec(prop::sample::select(EVENTS), 1..4),
        is_event_stream: bool,
        cut in 0..512_u32,
    ) {
        read_split(picked.join("\n").as_bytes(), is_event_stream, cut)?;
    }
}

fn read_split(bytes: &[u8], is_event_stream: bool, cut: u32) -> Result<(), TestCaseError> {
    let end = bytes.len() as u32;
    let middle = cut.min(end);
    let event = |start, end| SseEvent { arrival: Nanos(1).into(), start, end };
    let events = vec![event(0, middle), event(middle, end), event(end, end + 5)];
    let body = ResponseBody { bytes: bytes.to_vec(), is_event_stream, events };
    for kind in EndpointType::ALL {
        let dialect = endpoint(*kind);
        let parsed = dialect.parse(&body);
        prop_assert!(parsed.error.is_some() || !parsed.content.is_empty());
        let _ = dialect.has_content(bytes);
    }
    Ok(())
}

/// Returns what a stream of `events` is in the dialect called `name`.
fn parsed(name: &str, events: &[&str]) -> crate::endpoint::ParsedResponse {
    endpoint(EndpointType::named(name).unwrap()).parse(&stream(events))
}

#[test]
fn failures_of_every_dialect_have_the_words_of_the_server() {
    for (dialect, content, failure, words) in [
        (
            "chat",
            r#"data: {"choices":[{"delta":{"content":"a"}}]}"#,
            r#"data: {"choices":[],"errors":[{"message":"no worker"}]}"#,
            "no worker",
        ),
        (
            "completions",
            r#"data: {"choices":[{"text":"a"}]}"#,
            r#"data: {"choices":[{"text":"","finish_reason":"error"}]}"#,
            "finish reason \"error\"",
        ),
        (
            "messages",
            r#"data: {"type":"content_block_delta","delta":{"text":"a"}}"#,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"Overloaded\"}}",
            "Overloaded",
        ),
        (
            "messages",
            r#"data: {"type":"content_block_delta","delta":{"text":"a"}}"#,
            r#"data: {"type":"message_delta","delta":{"stop_reason":"error"}}"#,
            "finish reason \"error\"",
        ),
        (
            "responses",
            r#"data: {"type":"response.output_text.delta","delta":"a"}"#,
            r#"data: {"type":"response.failed","response":{"error":{"message":"no KV"}}}"#,
            "no KV",
        ),
        (
            "responses",
            r#"data: {"type":"response.output_text.delta","delta":"a"}"#,
            r#"data: {"type":"response.cancelled","response":{"status":"cancelled"}}"#,
            "finish reason \"cancelled\"",
        ),
        (
            "gemini",
            r#"data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}]}"#,
            r#"data: {"promptFeedback":{"blockReason":"SAFETY"}}"#,
            "the prompt was blocked: SAFETY",
        ),
        (
            "huggingface_generate",
            r#"data:{"token":{"text":"a"}}"#,
            r#"data:{"error":{"message":"no shard"},"error_type":"overloaded"}"#,
            "no shard",
        ),
    ] {
        let dialect_and_event = format!("{dialect}: {failure}");
        assert!(parsed(dialect, &[content, failure]).error.is_some(), "{dialect_and_event}");
        let error = parsed(dialect, &[content, failure, "data: [DONE]"]).error.unwrap();
        assert!(error.message.contains(words), "{dialect_and_event}: {}", error.message);
    }
}

#[test]
fn an_output_that_the_limit_ended_is_complete_and_a_filtered_one_is_if_there_is_any() {
    let text = r#"data: {"type":"response.output_text.delta","delta":"a"}"#;
    let ended = |reason: &str| {
        format!(
            r#"data: {{"type":"response.incomplete","response":{{"status":"incomplete","incomplete_details":{{"reason":"{reason}"}}}}}}"#
        )
    };
    assert_eq!(parsed("responses", &[text, &ended("max_output_tokens")]).error, None);
    assert_eq!(parsed("responses", &[text, &ended("content_filter")]).error, None);
    let error = parsed("responses", &[&ended("content_filter")]).error.unwrap();
    assert!(error.message.ends_with("finish reason content_filter"), "{}", error.message);
    let safety = r#"data: {"candidates":[{"finishReason":"SAFETY"}]}"#;
    assert_eq!(parsed("gemini", &[safety]).error.unwrap().name, "EmptyResponse");
}

#[test]
fn texts_in_unknown_places_of_every_dialect_are_content() {
    let (output, reasoning) = (("a", ""), ("", "a"));
    for (dialect, event, texts) in [
        (
            "messages",
            r#"data: {"type":"content_block_delta","delta":{"type":"summary_delta","summary":"a"}}"#,
            reasoning,
        ),
        (
            "messages",
            r#"data: {"type":"content_block_start","content_block":{"type":"mcp_tool_result","content":[{"type":"text","text":"a"}]}}"#,
            ("", ""),
        ),
        (
            "gemini",
            r#"data: {"candidates":[{"content":{"parts":[{"thoughtSummary":"a"}]}}]}"#,
            reasoning,
        ),
        (
            "responses",
            r#"data: {"type":"response.output_audio_transcript.delta","delta":"a"}"#,
            output,
        ),
        ("responses", r#"data: {"type":"response.output_audio.delta","delta":"UklG"}"#, ("", "")),
        (
            "responses",
            r#"data: {"type":"response.output_text.delta","delta":{"text":"a"}}"#,
            output,
        ),
        ("completions", r#"data: {"choices":[{"text":["a"]}]}"#, output),
        ("chat", r#"data: {"choices":[{"reasoning_text":"a","delta":{}}]}"#, reasoning),
    ] {
        let found = parsed(dialect, &[event]);
        assert_eq!((&*found.output_text, &*found.reasoning_text), texts, "{event}");
        let has_content = texts != ("", "");
        assert_eq!(found.content.len(), usize::from(has_content), "{event}");
    }
}

/// The choices of Gemini's candidates, which are the same stream.
#[test]
fn candidates_are_choices() {
    let candidate = |index: u8, text: &str| {
        format!(
            r#"data: {{"candidates":[{{"index":{index},"content":{{"parts":[{{"text":"{text}"}}]}}}}]}}"#
        )
    };
    let events = [candidate(0, "a"), candidate(1, "c"), candidate(0, "b")];
    let found = parsed("gemini", &[&events[0], &events[1], &events[2]]);
    assert_eq!((&*found.output_text, &*found.output_choices), ("ab\nc", &[3][..]));
    assert_eq!(found.content.iter().map(|piece| piece.choice).collect::<Vec<_>>(), [0, 1, 0]);
}
