//! Properties of every dialect.

use proptest::prelude::*;

use super::super::EndpointType;
use super::super::fixture::{endpoint, stream};
use crate::record::{ResponseBody, SseEvent};
use crate::units::Nanos;

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
