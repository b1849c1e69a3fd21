//! The facts of one request, as the transport saw them. Types only.
//!
//! A failed or cancelled request is a record too: its `error` names what
//! happened, and whatever had been received is kept.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::schedule::PhaseKind;
use crate::units::Nanos;

/// Which turn of which session a request was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug)]
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
    pub request_id: Uuid,
    /// `X-Correlation-ID`: one per session.
    pub correlation_id: Uuid,
    /// URL the request went to, without credentials.
    pub url: Arc<str>,
    /// Request body as sent.
    pub payload: Bytes,
    /// The server's earlier answers in this session that the request repeats.
    pub earlier_answers: Vec<Arc<str>>,
    /// When the schedule wanted it sent; absent in a closed loop.
    pub due: Option<Nanos>,
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
#[derive(Clone, Debug, Default)]
pub struct ResponseBody {
    /// The body's bytes, content coding removed.
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
}

/// When bytes came, and how well that is known.
///
/// The bytes came between `at − uncertainty` and `at`; the program had them in
/// hand at `at + read_lag`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// The kernel's receive stamp; the time of the read where there is none.
    pub at: Nanos,
    /// How much later the program had read them, in nanoseconds; at most 4.29 s.
    pub read_lag: u32,
    /// How much earlier they may have come, in nanoseconds, at most 4.29 s: the
    /// time since the program last found the socket empty.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Timing of one HTTP exchange; instants are absent where the thing did not happen.
#[derive(Clone, Debug, Default)]
pub struct HttpTrace {
    /// Began to wait for a connection slot.
    pub pool_wait_start: Option<Nanos>,
    /// Got the slot.
    pub pool_wait_end: Option<Nanos>,
    /// Asked for the host's addresses.
    pub dns_start: Option<Nanos>,
    /// Had them.
    pub dns_end: Option<Nanos>,
    /// The cache had them.
    pub dns_cache_hit: Option<Nanos>,
    /// The cache did not have them.
    pub dns_cache_miss: Option<Nanos>,
    /// TCP connect began.
    pub connect_start: Option<Nanos>,
    /// The connection was ready: TCP, and TLS where it is used.
    pub connect_end: Option<Nanos>,
    /// TLS handshake began.
    pub tls_start: Option<Nanos>,
    /// TLS handshake ended.
    pub tls_end: Option<Nanos>,
    /// An idle connection was taken.
    pub reused: Option<Nanos>,
    /// Just before the first byte was offered to the connection.
    pub send_start: Option<Nanos>,
    /// The first write was done: headers are in it.
    pub headers_sent: Option<Nanos>,
    /// The last write was done.
    pub send_end: Option<Nanos>,
    /// Response headers were complete.
    pub headers_received: Option<Nanos>,
    /// First read that bore body bytes.
    pub receive_start: Option<Nanos>,
    /// Last read of the response.
    pub receive_end: Option<Nanos>,
    /// When the exchange failed.
    pub error_at: Option<Nanos>,
    /// Writes to the connection.
    pub request_chunks: u64,
    /// Bytes written, headers and framing included.
    pub request_bytes: u64,
    /// Reads from the connection.
    pub response_chunks: u64,
    /// Bytes read, headers and framing included.
    pub response_bytes: u64,
    /// Reads from the socket, below TLS.
    pub socket_reads: u64,
    /// Those of them that the kernel stamped; the others bear the program's own time.
    pub kernel_stamps: u64,
    /// Each write and its size, when they are kept.
    pub request_chunk_log: Vec<(Nanos, u64)>,
    /// Each read and its size, when they are kept.
    pub response_chunk_log: Vec<(Nanos, u64)>,
    /// Our end.
    pub local_addr: Option<SocketAddr>,
    /// The server's end.
    pub remote_addr: Option<SocketAddr>,
    /// Request headers, secrets redacted; kept when they will be written.
    pub request_headers: Vec<(String, String)>,
    /// Response headers, secrets redacted; kept when they will be written.
    pub response_headers: Vec<(String, String)>,
    /// Reason phrase of the response: the server's own where it is not the standard one.
    pub reason: Option<Cow<'static, str>>,
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
