//! Hand-made requests for tests: an endpoint, a conversation and its responses, with given
//! arrival times. Each word is a token.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test fails by panicking")]

use std::sync::Arc;

use uuid::Uuid;

use base::units::{Clock, Nanos};
use client::endpoint::{self, EndpointType};
use client::record::{HttpTrace, RequestRecord, ResponseBody, SseEvent, TurnId};
use client::schedule::PhaseKind;
use dataset::{Conversation, Dataset, Turn};

use super::metric::{Observation, RecordValues, Settings};
use super::output::Output;
use super::{CountTokens, Measurer, Registry};

/// The default start of requests: a monotonic instant.
pub const START: Nanos = Nanos(5_000_000_000);

/// A conversation of two turns of 10 and 6 tokens, after 5 tokens of context; both request
/// 10 output tokens.
pub fn dataset() -> Arc<Dataset> {
    let turn = |tokens| Turn {
        texts: vec!["as many words as the count says".into()],
        max_tokens: Some(10),
        input_tokens: Some(tokens),
        ..Turn::default()
    };
    let conversation = Conversation {
        system: Some("five words of system prompt".into()),
        context_tokens: Some(5),
        turns: vec![turn(10), turn(6)],
        ..Conversation::default()
    };
    Arc::new(Dataset::from_conversations(vec![conversation]))
}

pub fn registry(endpoint_type: EndpointType, settings: Settings, streaming: bool) -> Arc<Registry> {
    Arc::new(Registry::new(settings, endpoint_type.traits(), streaming).unwrap())
}

pub fn measurer(
    endpoint_type: EndpointType,
    registry: Arc<Registry>,
    dataset: Arc<Dataset>,
) -> Measurer {
    let config = endpoint::Config::new(endpoint_type, true);
    let words: Arc<CountTokens> = Arc::new(|text| text.split_whitespace().count() as u64);
    Measurer::new(endpoint::build(&config), Some(words), dataset, registry, Clock::start())
}

/// A request of the measurement of which nothing is known.
#[must_use]
pub fn observation() -> Observation {
    Observation {
        phase: PhaseKind::Profiling,
        start_wall_ns: 0,
        end_wall_ns: 0,
        requested_output_tokens: None,
        missing_answers: 0,
        output: Output::default(),
        error: None,
        values: RecordValues::default(),
    }
}

/// The request of the second turn, which repeats one response of four words; its own
/// response ends with the last event.
pub fn record(start: Nanos, body: ResponseBody) -> RequestRecord {
    RequestRecord {
        grown: None,
        turn: TurnId { session: 0, conversation: 0, turn: 1, first: 0, is_final: true },
        phase: PhaseKind::Profiling,
        phase_index: 0,
        worker: 0,
        request_id: Uuid::nil(),
        correlation_id: Uuid::nil(),
        trace_id: Uuid::nil(),
        ancestry: None,
        lane: None,
        held_by: None,
        tenant: None,
        model: "m".into(),
        url: "http://127.0.0.1/v1/chat/completions".into(),
        payload: bytes::Bytes::from_static(br#"{"max_tokens":10}"#),
        earlier_answers: vec![Some("an answer of words".into())],
        due: None,
        due_while_asleep: false,
        free_from: Nanos::ZERO,
        issued: start,
        start,
        sent: Some(start),
        ack: None,
        end: body.events.last().map_or(start, |event| event.arrival.at),
        status: Some(200),
        body,
        trace: HttpTrace::default(),
        server_spans: Vec::new(),
        retry_count: 0,
        cancelled_at: None,
        error: None,
    }
}

/// A stream of events that arrive the given number of milliseconds after `start`; each is one
/// line of data.
pub fn stream(start: Nanos, events: &[(u64, &str)]) -> ResponseBody {
    let mut body = ResponseBody { is_event_stream: true, ..ResponseBody::default() };
    for (millis, data) in events {
        let from = body.bytes.len() as u32;
        body.bytes.extend_from_slice(format!("data: {}", data.replace('\n', " ")).as_bytes());
        body.events.push(SseEvent {
            arrival: (start + Nanos(millis * 1_000_000)).into(),
            start: from,
            end: body.bytes.len() as u32,
        });
        body.bytes.extend_from_slice(b"\n\n");
    }
    body
}

/// A response body that is not streamed.
pub fn whole(start: Nanos, millis: u64, text: &str) -> ResponseBody {
    let arrival = (start + Nanos(millis * 1_000_000)).into();
    let event = SseEvent { arrival, start: 0, end: text.len() as u32 };
    ResponseBody { bytes: text.as_bytes().to_vec(), is_event_stream: false, events: vec![event] }
}

/// The data of a content event.
pub fn content(text: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#)
}

/// The data of an event with only usage.
pub fn usage(members: &str) -> String {
    format!(r#"{{"choices":[],"usage":{{{members}}}}}"#)
}
