//! The facts of one request, as the transport saw them. Types only.
//!
//! A failed or cancelled request is a record too: its `error` names what
//! happened, and whatever had been received is kept.

mod trace;
mod trace_context;
mod wire;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use trace::{ArrivalClock, HttpTrace};
pub use trace_context::{TraceContext, TraceShare};

use crate::schedule::PhaseKind;
use crate::units::Nanos;

/// Which turn of which session a request was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnId {
    /// Number of the session over the whole run: in order of start, or of the
    /// schedule where that says which is whose.
    pub session: u64,
    /// Index of the conversation in the dataset.
    pub conversation: usize,
    /// Index of the turn in the conversation.
    pub turn: usize,
    /// Whether this is the session's last turn.
    pub is_final: bool,
}

/// One finished request.
///
/// Serialises for binary formats, all but the payload, which is mostly shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Which turn was asked.
    pub turn: TurnId,
    /// Phase the request belongs to.
    pub phase: PhaseKind,
    /// Index of the phase in the run: 0 is the first.
    pub phase_index: u32,
    /// Number of the worker that sent it.
    pub worker: u32,
    /// `X-Request-ID`.
    #[serde(with = "wire::id")]
    pub request_id: Uuid,
    /// `X-Correlation-ID`: one per session.
    #[serde(with = "wire::id")]
    pub correlation_id: Uuid,
    /// URL the request went to, without credentials.
    #[serde(with = "wire::text")]
    pub url: Arc<str>,
    /// Request body as sent.
    #[serde(skip)]
    pub payload: Bytes,
    /// The server's earlier answers in this session that the request repeats.
    #[serde(with = "wire::texts")]
    pub earlier_answers: Vec<Arc<str>>,
    /// When the schedule wanted it sent; absent in a closed loop.
    pub due: Option<Nanos>,
    /// Whether the worker slept when it was due: then what made it late is not
    /// the worker's own work.
    pub due_while_asleep: bool,
    /// Since when nothing but the client held it up: the slots that it waited for
    /// were had, and the answer that it follows had come. Zero where it had to wait
    /// for neither.
    pub free_from: Nanos,
    /// When the runner took it up.
    pub issued: Nanos,
    /// Just before the first byte was written (of the first attempt);
    /// the attempt's start where none was.
    pub start: Nanos,
    /// When the response's headers were complete.
    pub ack: Option<Nanos>,
    /// When the response ended, or the request failed.
    pub end: Nanos,
    /// HTTP status, once there was one.
    pub status: Option<u16>,
    /// What came back.
    pub body: ResponseBody,
    /// Timing of the attempt that was answered.
    pub trace: HttpTrace,
    /// Attempts on reused connections that died before the first response byte.
    pub retry_count: u32,
    /// When the run cancelled the request.
    pub cancelled_at: Option<Nanos>,
    /// Why the request failed, if the transport knows: bodies are parsed later.
    #[serde(with = "wire::error")]
    pub error: Option<RequestError>,
}

impl RequestRecord {
    /// Whether it failed as far as can be told without reading the body: the
    /// transport's error, or a status that is no success.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.error.is_some() || self.status.is_some_and(|status| !(200..300).contains(&status))
    }
}

/// A response body and where its events lie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseBody {
    /// The body's bytes, content coding removed.
    #[serde(with = "wire::bytes")]
    pub bytes: Vec<u8>,
    /// Whether the server sent `text/event-stream`.
    pub is_event_stream: bool,
    /// Events in order of arrival. A body that is no event stream is one event.
    pub events: Vec<SseEvent>,
}

impl ResponseBody {
    /// The raw text of `event`: its lines, without the blank line that ends it.
    #[must_use]
    pub fn raw(&self, event: &SseEvent) -> &[u8] {
        self.bytes.get(event.range()).unwrap_or_default()
    }

    /// The greatest read lag of an event, in nanoseconds; absent without events.
    #[must_use]
    pub fn max_read_lag(&self) -> Option<u32> {
        self.events.iter().map(|event| event.arrival.read_lag).max()
    }

    /// The greatest uncertainty of an event's arrival, in nanoseconds; absent
    /// without events.
    #[must_use]
    pub fn max_uncertainty(&self) -> Option<u32> {
        self.events.iter().map(|event| event.arrival.uncertainty).max()
    }
}

/// When bytes came, and how well that is known.
///
/// The bytes came between `at − uncertainty` and `at`; the program had them in
/// hand at `at + read_lag`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The kernel's receive stamp; the time of the read where there is none.
    pub at: Nanos,
    /// How much later the program had read them, in nanoseconds; at most 4.29 s.
    pub read_lag: u32,
    /// How much earlier they may have come, in nanoseconds, at most 4.29 s. Zero
    /// for what a stamped read ends with; else the time since the socket was last
    /// known to be empty, since bytes that wait in it are merged under one stamp.
    pub uncertainty: u32,
}

impl Arrival {
    /// When the program had the bytes in hand.
    #[must_use]
    pub fn read_at(self) -> Nanos {
        self.at + Nanos(u64::from(self.read_lag))
    }
}

impl From<Nanos> for Arrival {
    /// Bytes whose coming is known exactly.
    fn from(at: Nanos) -> Self {
        Self { at, ..Self::default() }
    }
}

/// One server-sent event: when it was complete and where its lines are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SseEvent {
    /// Arrival of the read that completed the event.
    pub arrival: Arrival,
    /// First byte in [`ResponseBody::bytes`].
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl SseEvent {
    /// The event's place in [`ResponseBody::bytes`].
    #[must_use]
    pub const fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequestError {
    /// HTTP status where there was one, else absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<u16>,
    /// Short name: the status's reason phrase, or the failure's, as in `ConnectionRefused`.
    #[serde(rename = "type")]
    pub name: String,
    /// What happened; the server's own words where it sent some.
    pub message: String,
    /// The underlying cause, where one is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<String>,
    /// Class for `error.type`.
    #[serde(rename = "error_type")]
    pub kind: ErrorKind,
}

impl RequestError {
    /// An error without status or cause.
    #[must_use]
    pub fn new(kind: ErrorKind, name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: None, name: name.into(), message: message.into(), cause: None, kind }
    }
}

/// Classes of failure: the values of the OpenTelemetry attribute `error.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorKind {
    /// A timeout at any stage.
    #[serde(rename = "timeout")]
    Timeout,
    /// Status 5xx.
    #[serde(rename = "http_5xx")]
    Http5xx,
    /// Status 4xx.
    #[serde(rename = "http_4xx")]
    Http4xx,
    /// The response was not what the endpoint speaks.
    #[serde(rename = "parse_error")]
    Parse,
    /// Cancelled by the user or the run.
    #[serde(rename = "cancelled")]
    Cancelled,
    /// Anything else.
    #[serde(rename = "_OTHER")]
    Other,
}

impl ErrorKind {
    /// The value of `error.type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Http5xx => "http_5xx",
            Self::Http4xx => "http_4xx",
            Self::Parse => "parse_error",
            Self::Cancelled => "cancelled",
            Self::Other => "_OTHER",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_the_kernels_only_where_all_reads_were_stamped() {
        let clock = |kernel_stamps, socket_reads| {
            HttpTrace { socket_reads, kernel_stamps, ..HttpTrace::default() }.clock()
        };
        assert_eq!(clock(0, 0), None);
        assert_eq!(clock(0, 3), Some(ArrivalClock::User));
        assert_eq!(clock(2, 3), Some(ArrivalClock::Mixed));
        assert_eq!(clock(3, 3), Some(ArrivalClock::Kernel));
    }
}
