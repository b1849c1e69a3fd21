//! The facts of one request as the transport observed them: types, and what to say of an error.
//!
//! A failed or cancelled request also has a record. Its `error` names the cause, and everything
//! received until then is kept.

mod remedy;
mod server_span;
mod trace;
mod trace_context;
mod wire;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use remedy::Remedy;
pub use server_span::{OriginalSpan, ServerSpan};
pub use trace::{ArrivalClock, HttpTrace};
pub use trace_context::{TraceContext, TraceFlags, TraceShare};

use base::redact::ShownUrl;
use base::units::Nanos;
use dataset::Grown;

use crate::schedule::{Hold, PhaseKind};

/// The turn and session of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnId {
    /// Number of the session over the whole run, in order of start, or in the order of the schedule
    /// if the schedule assigns sessions.
    pub session: u64,
    /// Index of the conversation in the dataset.
    pub conversation: usize,
    /// Index of the turn in the conversation.
    pub turn: usize,
    /// Index of the first turn of the conversation that its phase sends: 0 unless it continues another
    /// one, or a lane was in the middle of it when the phase began.
    pub first: usize,
    /// Whether the session ended with this turn: its last turn, or one whose failure ended it.
    pub is_final: bool,
}

/// The place of a conversation in the tree of conversations that a session sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ancestry {
    /// Number of conversations above it; 0 for the one that the session began with.
    pub depth: u32,
    /// `X-Correlation-ID` of the conversation that started it; its own if none did.
    #[serde(with = "wire::id")]
    pub parent: Uuid,
    /// `X-Correlation-ID` of the conversation that the session began with.
    #[serde(with = "wire::id")]
    pub root: Uuid,
}

impl Ancestry {
    /// Returns the place of a conversation that begins a session.
    #[must_use]
    pub const fn of_root(correlation_id: Uuid) -> Self {
        Self { depth: 0, parent: correlation_id, root: correlation_id }
    }

    /// Returns the place of a conversation that this one, with the ID `correlation_id`, starts.
    #[must_use]
    pub const fn of_child(self, correlation_id: Uuid) -> Self {
        Self { depth: self.depth + 1, parent: correlation_id, root: self.root }
    }
}

/// One finished request.
///
/// It can be serialised in binary formats, except for the payload, which is usually shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Turn that the request belongs to.
    pub turn: TurnId,
    /// Its conversation, if that was made while the run went on. It is not serialised.
    #[serde(skip)]
    pub grown: Option<Grown>,
    /// Phase the request belongs to.
    pub phase: PhaseKind,
    /// Index of the phase in the run; the first is 0.
    pub phase_index: u32,
    /// Number of the worker that sent the request.
    pub worker: u32,
    /// Value of `X-Request-ID`.
    #[serde(with = "wire::id")]
    pub request_id: Uuid,
    /// Value of `X-Correlation-ID`; the same for all requests of a conversation.
    #[serde(with = "wire::id")]
    pub correlation_id: Uuid,
    /// ID of its trace: its own, or that of the conversation that its session began with if the
    /// session is an agent's.
    #[serde(with = "wire::id")]
    pub trace_id: Uuid,
    /// Place of its conversation in a tree; absent if the conversation neither starts others nor was
    /// started by one.
    pub ancestry: Option<Ancestry>,
    /// Number of the lane that sent it, from 0, if lanes replay traces.
    pub lane: Option<u32>,
    /// The reason for its wait after its delay, if a lane sent it.
    pub held_by: Option<Hold>,
    /// Tenant that sent it, if tenants share the load.
    #[serde(with = "wire::text_if_any")]
    pub tenant: Option<Arc<str>>,
    /// Model named in the request; empty if the dataset names none.
    #[serde(with = "wire::text")]
    pub model: Arc<str>,
    /// URL of the request.
    pub url: ShownUrl,
    /// Request body as sent.
    #[serde(skip)]
    pub payload: Bytes,
    /// Earlier responses of the server in this session, by turn; `None` for a turn that failed.
    #[serde(with = "wire::texts")]
    pub earlier_answers: Vec<Option<Arc<str>>>,
    /// Due time of the request; absent in a closed loop.
    pub due: Option<Nanos>,
    /// Whether the worker slept at the due time. If it did, its own work is not the cause of a
    /// delay.
    pub due_while_asleep: bool,
    /// Time from which only the client delayed the request: the responses that it waited for, of its
    /// session or of the one that had its slot, had arrived. Zero if it waited for neither. For the
    /// first request in a slot of a closed loop, it is when the slot opened.
    pub free_from: Nanos,
    /// When the runner took the request up.
    pub issued: Nanos,
    /// When the request was handed to the transport, before the wait for a connection, DNS, TCP and
    /// TLS. Latencies count from this time. A retry does not change it.
    pub start: Nanos,
    /// Just before the first byte of the first attempt was written; absent if nothing was written.
    pub sent: Option<Nanos>,
    /// When the response headers were complete.
    pub ack: Option<Nanos>,
    /// When the response ended or the request failed.
    pub end: Nanos,
    /// HTTP status; absent without a response.
    pub status: Option<u16>,
    /// Body of the response.
    pub body: ResponseBody,
    /// Timing of the attempt that received the response.
    pub trace: HttpTrace,
    /// Number of attempts on reused connections that died before the first response byte.
    pub retry_count: u32,
    /// When the run cancelled the request.
    pub cancelled_at: Option<Nanos>,
    /// Error of the request as far as the transport knows it; bodies are parsed later.
    #[serde(with = "wire::error")]
    pub error: Option<RequestError>,
    /// Spans that the servers have sent about the request; they are added after the queue.
    #[serde(skip)]
    pub server_spans: Vec<ServerSpan>,
}

impl RequestRecord {
    /// Returns whether a lane sent it to prepare the server, and not as a part of the conversation.
    #[must_use]
    pub fn is_preparation(&self) -> bool {
        self.lane.is_some() && self.phase == PhaseKind::Warmup
    }

    /// Returns whether the request failed, as far as that is known without reading the body: the
    /// transport reported an error, or the status is not a success.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.error.is_some() || self.status.is_some_and(|status| !(200..300).contains(&status))
    }
}

/// A response body and the positions of its events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseBody {
    /// The body's bytes, without content coding.
    #[serde(with = "wire::bytes")]
    pub bytes: Vec<u8>,
    /// Whether the response has the content type `text/event-stream`.
    pub is_event_stream: bool,
    /// Events in order of arrival. A body that is not an event stream is a single event.
    pub events: Vec<SseEvent>,
}

impl ResponseBody {
    /// Keeps the first `bytes` bytes and the events that lie completely within them.
    pub fn shorten(&mut self, bytes: usize) {
        if self.bytes.len() > bytes {
            self.bytes.truncate(bytes);
            self.bytes.shrink_to_fit();
            self.events.retain(|event| event.range().end <= bytes);
            self.events.shrink_to_fit();
        }
    }

    /// Returns the raw text of `event`: its lines, without the blank line that ends it.
    #[must_use]
    pub fn raw(&self, event: &SseEvent) -> &[u8] {
        self.bytes.get(event.range()).unwrap_or_default()
    }

    /// Returns the maximum read lag of all events, in nanoseconds; absent without events.
    #[must_use]
    pub fn max_read_lag(&self) -> Option<u32> {
        self.events.iter().map(|event| event.arrival.read_lag).max()
    }

    /// Returns the maximum arrival uncertainty of all events, in nanoseconds; absent without
    /// events.
    #[must_use]
    pub fn max_uncertainty(&self) -> Option<u32> {
        self.events.iter().map(|event| event.arrival.uncertainty).max()
    }
}

/// Arrival time of bytes, and its precision.
///
/// The bytes arrived between `at − uncertainty` and `at`. The program had read them at
/// `at + read_lag`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The kernel's receive timestamp, or the time of the read if there is none.
    pub at: Nanos,
    /// Time from arrival to the end of the read, in nanoseconds; at most 4.29 s.
    pub read_lag: u32,
    /// How much earlier the bytes may have arrived, in nanoseconds; at most 4.29 s. Zero for the
    /// last bytes of a read with a timestamp. Otherwise it is the time since the socket was last
    /// known to be empty, because the kernel merges waiting bytes under one timestamp.
    pub uncertainty: u32,
}

impl Arrival {
    /// Returns when the program had read the bytes.
    #[must_use]
    pub fn read_at(self) -> Nanos {
        self.at + Nanos(u64::from(self.read_lag))
    }
}

impl From<Nanos> for Arrival {
    /// Bytes with an exactly known arrival time.
    fn from(at: Nanos) -> Self {
        Self { at, ..Self::default() }
    }
}

/// One server-sent event: its arrival and the position of its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SseEvent {
    /// Arrival of the bytes that completed the event.
    pub arrival: Arrival,
    /// Position of the first byte in [`ResponseBody::bytes`].
    pub start: u32,
    /// Position after the last byte.
    pub end: u32,
}

impl SseEvent {
    /// Returns the event's position in [`ResponseBody::bytes`].
    #[must_use]
    pub const fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Error of a failed request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RequestError {
    /// HTTP status; absent without a response.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<u16>,
    /// Short name: the reason phrase of the status, or the name of the failure, as in
    /// `ConnectionRefused`.
    #[serde(rename = "type")]
    pub name: String,
    /// Description of the error, in the server's own words if the response has any.
    pub message: String,
    /// Underlying cause, if one is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<String>,
    /// Class of the error, for `error.type`.
    #[serde(rename = "error_type")]
    pub kind: ErrorKind,
}

impl RequestError {
    /// Creates an error without status or cause.
    #[must_use]
    pub fn new(kind: ErrorKind, name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: None, name: name.into(), message: message.into(), cause: None, kind }
    }

    /// Combines this error, which comes from a status, with an error of the transport: the body of
    /// an error response may be broken, too. A cancelled request stays cancelled.
    #[must_use]
    pub fn because_of(self, transport: Option<&Self>) -> Self {
        match transport {
            Some(other) if other.kind == ErrorKind::Cancelled => other.clone(),
            Some(other) => Self { cause: Some(other.message.clone()), ..self },
            None => self,
        }
    }

    /// Returns whether the run or the user cancelled the request, so that it did not fail.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.kind == ErrorKind::Cancelled
    }

    /// Creates the error of a request that the run cancelled. No server returned 499, but readers
    /// of records expect it there.
    #[must_use]
    pub fn cancelled(message: impl Into<String>) -> Self {
        let error = Self::new(ErrorKind::Cancelled, "RequestCancellationError", message);
        Self { code: Some(499), ..error }
    }
}

/// Classes of failure: the values of the OpenTelemetry attribute `error.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// The response does not match the endpoint's format.
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
    /// All classes.
    pub const ALL: [Self; 6] =
        [Self::Timeout, Self::Http5xx, Self::Http4xx, Self::Parse, Self::Cancelled, Self::Other];

    /// Returns what it means.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Timeout => {
                "The request took too long at some stage: name resolution, connecting, or the \
                 response (--request-timeout-seconds)."
            }
            Self::Http5xx => {
                "The server, or a proxy in front of it, responded with a status 5xx: it failed or \
                 is overloaded."
            }
            Self::Http4xx => {
                "The server rejected the request with a status 4xx: the request, its model, its \
                 credentials or its path is wrong, or there are too many requests (429)."
            }
            Self::Parse => "The response does not match the format of the endpoint type.",
            Self::Cancelled => {
                "The user or the run cancelled the request before its response ended."
            }
            Self::Other => {
                "Anything else, such as a connection that failed or ended early; the message says \
                 what."
            }
        }
    }

    /// Returns the value of `error.type`.
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
