//! State of one request and its response during their exchange.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::sync::oneshot;

use base::redact::Secret;
use base::units::{Clock, Nanos};

use super::io_log::IoLog;
use super::stamps::ReadArrival;
use crate::record::{HttpTrace, RequestError, ResponseBody};

/// The headers of a request. They are written directly from what they consist of.
pub trait RequestHeaders: fmt::Debug {
    /// Passes the name and the value of each header except `Host` and `Content-Length` to `each`.
    fn visit(&self, each: &mut dyn FnMut(&HeaderName, &[u8]));

    /// Returns the headers as a map, whose values debug output does not show.
    fn to_map(&self) -> HeaderMap {
        let mut map = HeaderMap::new();
        self.visit(&mut |name, value| {
            // The values were parsed when they were set.
            if let Ok(mut value) = HeaderValue::from_bytes(value) {
                value.set_sensitive(true);
                map.append(name, value);
            }
        });
        map
    }
}

impl RequestHeaders for HeaderMap {
    fn visit(&self, each: &mut dyn FnMut(&HeaderName, &[u8])) {
        self.iter().for_each(|(name, value)| each(name, value.as_bytes()));
    }
}

/// A request to send.
#[derive(Debug, Clone)]
pub struct OutgoingRequest<'a> {
    /// Index of the target.
    pub target: usize,
    /// HTTP method.
    pub method: Method,
    /// Path and query, if they differ from those of the target.
    pub path: Option<Secret<Arc<str>>>,
    /// The headers of the request.
    pub headers: &'a dyn RequestHeaders,
    /// Request body.
    pub body: Bytes,
}

/// Notifications during an exchange.
#[derive(Default)]
pub struct Notifications<'a> {
    /// Receives the time at which the last byte of the request was handed to the kernel.
    pub sent: Option<oneshot::Sender<Nanos>>,
    /// Called with each event until it returns true.
    pub event: Option<EventWatch<'a>>,
}

/// Receives the raw text of an event; returns whether it needs no further events.
pub type EventWatch<'a> = Box<dyn FnMut(&[u8]) -> bool + 'a>;

impl Notifications<'_> {
    /// Passes on the events of `body` after the first `seen`.
    pub(super) fn show(&mut self, body: &ResponseBody, seen: usize) {
        if let Some(event) = &mut self.event
            && body.events.iter().skip(seen).any(|next| event(body.raw(next)))
        {
            self.event = None;
        }
    }
}

/// The result of an exchange. It contains everything received, even if the exchange failed or was
/// cancelled.
#[derive(Debug)]
pub struct Exchange {
    /// When the request was handed over, before any wait for a connection.
    pub start: Nanos,
    /// Just before the first byte of the first attempt was written; absent if nothing was written.
    pub sent: Option<Nanos>,
    /// When the response ended or the exchange failed.
    pub end: Nanos,
    /// HTTP status; absent without a response.
    pub status: Option<u16>,
    /// Body of the response.
    pub body: ResponseBody,
    /// Timing of the attempt that received the response.
    pub trace: HttpTrace,
    /// Number of attempts on reused connections that died before the first response byte.
    pub retry_count: u32,
    /// Error of a failed exchange. An unsuccessful status is not an error here.
    pub error: Option<RequestError>,
    log: Option<Rc<IoLog>>,
}

impl Exchange {
    /// Starts an exchange now.
    pub(super) fn begin() -> Self {
        let now = Clock::now();
        Self {
            start: now,
            sent: None,
            end: now,
            status: None,
            body: ResponseBody::default(),
            trace: HttpTrace::default(),
            retry_count: 0,
            error: None,
            log: None,
        }
    }

    /// Starts an attempt on a connection with this log.
    pub(super) fn attempt(&mut self, log: &Rc<IoLog>, watch: &mut Notifications<'_>) {
        log.reset();
        log.on_sent.replace(watch.sent.take());
        self.log = Some(Rc::clone(log));
    }

    /// Prepares a retry after an attempt that failed before the server sent anything. The next
    /// attempt has an empty trace, but keeps the wait for a slot and the first start. Pending
    /// notifications of `watch` pass to it.
    pub(super) fn retry(&mut self, watch: &mut Notifications<'_>) {
        self.keep_sent();
        self.retry_count += 1;
        watch.sent = self.log.take().and_then(|log| log.on_sent.take());
        self.trace = HttpTrace {
            pool_wait_start: self.trace.pool_wait_start,
            pool_wait_end: self.trace.pool_wait_end,
            ..HttpTrace::default()
        };
    }

    /// Returns the last read that returned bytes, or a read at the current time if there was none.
    pub(super) fn last_read(&self) -> ReadArrival {
        let last_read = self.log.as_ref().and_then(|log| log.last_read.get());
        last_read.unwrap_or_else(|| ReadArrival::at(Clock::now()))
    }

    /// Copies the socket's log into the trace. Later operations of the socket, such as the end of
    /// TLS, do not belong to the exchange.
    pub(super) fn leave_connection(&mut self) {
        self.keep_sent();
        let Some(log) = self.log.take() else { return };
        let trace = &mut self.trace;
        // The kernel may receive the response before the program records the end of its write; the
        // request had been sent by then.
        let answered = trace.headers_received.unwrap_or(Nanos(u64::MAX));
        let before_answer = |done: Nanos| done.min(answered);
        trace.send_start = log.first_write.get();
        trace.headers_sent = log.first_write_done.get().map(before_answer);
        trace.send_end = log.last_write.get().map(before_answer);
        trace.request_chunks = log.writes.get();
        trace.request_bytes = log.written.get();
        trace.response_chunks = log.reads.get();
        trace.response_bytes = log.read.get();
        trace.socket_reads = log.socket_reads.get();
        trace.kernel_stamps = log.kernel_stamps.get();
        let last_read = log.last_read.get().map(|read| read.arrival.at);
        trace.receive_end = last_read.filter(|_| trace.receive_start.is_some());
        if let Some(chunks) = &log.chunks {
            let chunks = chunks.take();
            let writes = chunks.writes.into_iter();
            trace.request_chunk_log =
                writes.map(|(done, bytes)| (before_answer(done), bytes)).collect();
            trace.response_chunk_log = chunks.reads;
        }
    }

    /// Ends the exchange.
    pub(super) fn finish(mut self, outcome: Result<(), RequestError>) -> Self {
        let now = Clock::now();
        self.leave_connection();
        self.end = match &outcome {
            Ok(()) => self.trace.receive_end.or(self.trace.headers_received).unwrap_or(now),
            Err(_) => now,
        };
        if outcome.is_err() {
            self.trace.error_at = Some(now);
            // The exchange continued until its failure, even if the last bytes came earlier.
            self.trace.receive_end = self.trace.send_start.map(|_| now);
        }
        self.error = outcome.err();
        self
    }

    fn keep_sent(&mut self) {
        let sent = self.log.as_ref().and_then(|log| log.first_write.get());
        self.sent = self.sent.or(sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_retried_request_to_be_sent_is_told_of_the_second_attempt() {
        let (sent, mut was_sent) = oneshot::channel();
        let mut watch = Notifications { sent: Some(sent), event: None };
        let mut exchange = Exchange::begin();
        let (first, second) = (Rc::new(IoLog::default()), Rc::new(IoLog::default()));
        exchange.attempt(&first, &mut watch);
        // The connection is dead before the request is written.
        first.before_write();
        exchange.retry(&mut watch);
        exchange.attempt(&second, &mut watch);
        second.before_write();
        second.after_write();
        second.flushed();
        assert_eq!(was_sent.try_recv().ok(), second.last_write.get());
    }
}
