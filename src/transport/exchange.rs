//! One request and its response, as they happen.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method};
use tokio::sync::oneshot;

use super::io_log::IoLog;
use super::stamps::ReadArrival;
use crate::record::{HttpTrace, RequestError, ResponseBody};
use crate::units::{Clock, Nanos};

/// A request to be sent.
#[derive(Debug, Clone)]
pub struct OutgoingRequest {
    /// Index of the target.
    pub target: usize,
    /// What is asked for.
    pub method: Method,
    /// Path and query, where they are not the target's own.
    pub path: Option<Arc<str>>,
    /// All headers but `Host` and `Content-Length`.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// What the sender of a request wants to be told while its exchange goes on.
#[derive(Default)]
pub struct Watch<'a> {
    /// Told when the request's last byte was handed to the kernel.
    pub sent: Option<oneshot::Sender<Nanos>>,
    /// Shown each event until it says that it has seen enough.
    pub event: Option<EventWatch<'a>>,
}

/// Is shown the raw text of an event; says whether it has seen enough.
pub type EventWatch<'a> = Box<dyn FnMut(&[u8]) -> bool + 'a>;

impl Watch<'_> {
    /// Shows the events of `body` that are past the first `seen`.
    pub(super) fn show(&mut self, body: &ResponseBody, seen: usize) {
        if let Some(event) = &mut self.event
            && body.events.iter().skip(seen).any(|next| event(body.raw(next)))
        {
            self.event = None;
        }
    }
}

/// What an exchange has come to. Whatever was received is here, also when it
/// failed or was cancelled in the middle.
#[derive(Debug)]
pub struct Exchange {
    /// Just before the first byte of the first attempt was written.
    pub start: Nanos,
    /// When the response ended or the exchange failed.
    pub end: Nanos,
    /// HTTP status, once there was one.
    pub status: Option<u16>,
    /// What came back.
    pub body: ResponseBody,
    /// Timing of the attempt that was answered.
    pub trace: HttpTrace,
    /// Attempts that died on a reused connection before the first response byte.
    pub retry_count: u32,
    /// Why it failed, if it did. A status that is no success is not a failure here.
    pub error: Option<RequestError>,
    first_send: Option<Nanos>,
    log: Option<Rc<IoLog>>,
}

impl Exchange {
    /// An exchange that begins now.
    pub(super) fn begin() -> Self {
        let now = Clock::now();
        Self {
            start: now,
            end: now,
            status: None,
            body: ResponseBody::default(),
            trace: HttpTrace::default(),
            retry_count: 0,
            error: None,
            first_send: None,
            log: None,
        }
    }

    /// An attempt begins on a connection with this log.
    pub(super) fn attempt(&mut self, log: &Rc<IoLog>, watch: &mut Watch<'_>) {
        log.reset();
        log.on_sent.replace(watch.sent.take());
        self.log = Some(Rc::clone(log));
    }

    /// The attempt failed before the server said anything: the next one starts
    /// with a clean trace, but keeps the wait for a slot and the first start. What
    /// `watch` was not told yet, it is told by the next.
    pub(super) fn retry(&mut self, watch: &mut Watch<'_>) {
        self.keep_first_send();
        self.retry_count += 1;
        watch.sent = self.log.take().and_then(|log| log.on_sent.take());
        self.trace = HttpTrace {
            pool_wait_start: self.trace.pool_wait_start,
            pool_wait_end: self.trace.pool_wait_end,
            ..HttpTrace::default()
        };
    }

    /// The last read that brought bytes; one that is done now if there was none.
    pub(super) fn last_read(&self) -> ReadArrival {
        let last_read = self.log.as_ref().and_then(|log| log.last_read.get());
        last_read.unwrap_or_else(|| ReadArrival::at(Clock::now()))
    }

    /// Copies the socket's log into the trace: what the socket does from now on,
    /// such as TLS saying goodbye, is not the exchange's.
    pub(super) fn leave_connection(&mut self) {
        self.keep_first_send();
        let Some(log) = self.log.take() else { return };
        let trace = &mut self.trace;
        // The kernel may have had the answer before the program knew that its
        // write was done: by then the request had been sent.
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
        self.start = self.first_send.unwrap_or(self.start);
        self.end = match &outcome {
            Ok(()) => self.trace.receive_end.or(self.trace.headers_received).unwrap_or(now),
            Err(_) => now,
        };
        if outcome.is_err() {
            self.trace.error_at = Some(now);
        }
        self.error = outcome.err();
        self
    }

    fn keep_first_send(&mut self) {
        let sent = self.log.as_ref().and_then(|log| log.first_write.get());
        self.first_send = self.first_send.or(sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_retried_request_to_be_sent_is_told_of_the_second_attempt() {
        let (sent, mut was_sent) = oneshot::channel();
        let mut watch = Watch { sent: Some(sent), event: None };
        let mut exchange = Exchange::begin();
        let (first, second) = (Rc::new(IoLog::default()), Rc::new(IoLog::default()));
        exchange.attempt(&first, &mut watch);
        // The connection is dead before the request is in it.
        first.before_write();
        exchange.retry(&mut watch);
        exchange.attempt(&second, &mut watch);
        second.before_write();
        second.after_write();
        second.flushed();
        assert_eq!(was_sent.try_recv().ok(), second.last_write.get());
    }
}
