//! Requests and responses for the tests of dialects.

use std::sync::Arc;

use serde_json::Value;

use base::units::Nanos;
use dataset::{Conversation, Text, Turn};

use super::{Config, ContentPiece, Endpoint, EndpointType, build};
use crate::record::{ResponseBody, SseEvent};

pub(super) fn config(endpoint_type: EndpointType, streaming: bool) -> Config {
    Config::new(endpoint_type, streaming)
}

pub(super) fn endpoint(endpoint_type: EndpointType) -> Arc<dyn Endpoint> {
    build(&config(endpoint_type, true))
}

/// A stream of these events; the `n`th, counted from 1, arrives at `n` ns.
pub(super) fn stream<E: AsRef<str>>(events: &[E]) -> ResponseBody {
    let mut body = ResponseBody { is_event_stream: true, ..ResponseBody::default() };
    for (index, event) in events.iter().enumerate() {
        let start = body.bytes.len() as u32;
        body.bytes.extend_from_slice(event.as_ref().as_bytes());
        let end = body.bytes.len() as u32;
        body.bytes.extend_from_slice(b"\n\n");
        body.events.push(SseEvent { arrival: Nanos(index as u64 + 1).into(), start, end });
    }
    body
}

/// A body that is not streamed; it arrives at 9 ns.
pub(super) fn whole(text: &[u8]) -> ResponseBody {
    let event = SseEvent { arrival: Nanos(9).into(), start: 0, end: text.len() as u32 };
    ResponseBody { bytes: text.to_vec(), is_event_stream: false, events: vec![event] }
}

/// Content that arrives at the given time.
pub(super) fn piece(arrival: u64, is_output: bool) -> ContentPiece {
    ContentPiece { arrival: Nanos(arrival).into(), is_output, choice: 0 }
}

pub(super) fn turn(texts: &[&str], max_tokens: Option<u32>) -> Turn {
    Turn {
        model: "m".into(),
        texts: texts.iter().map(|text| Text::from(*text)).collect(),
        max_tokens,
        ..Turn::default()
    }
}

/// A conversation with the turns `one` and `two`, the second with a limit of 8, the system message
/// `be brief` and the context `context`.
pub(super) fn conversation() -> Conversation {
    Conversation {
        id: "c".into(),
        system: Some("be brief".into()),
        user_context: Some("context".into()),
        turns: vec![turn(&["one"], None), turn(&["two"], Some(8))],
        ..Conversation::default()
    }
}

/// Returns the body of the request for turn `at`; every earlier turn has the response `answer`.
pub(super) fn body(config: &Config, conversation: &Conversation, at: usize) -> Value {
    let answers = vec![Some(Arc::from("answer")); at];
    serde_json::from_slice(&build(config).request_body(conversation, at, &answers)).unwrap()
}
