//! The socket below hyper: it timestamps writes, and cuts or drips them as the script asks.
//!
//! Hyper merges the head and the events of a response in any way; the time at which each event left
//! is determined by counting bytes from the end of the head.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::ReadBuf;

use base::lock::Lock;
use base::timer::{Timer, Wait};
use base::units::{Clock, Nanos};

use super::tls::Stream;
use super::write_log::{EventKind, EventLog, RequestLog, WriteLog};

/// State shared by the socket and the responses on it. Pipelined requests are served, but their
/// writes are not distinguished.
#[derive(Debug)]
pub(super) struct Wire(Lock<State>);

#[derive(Debug, Default)]
struct State {
    /// When the connection was accepted; until its first request.
    connected: Option<Nanos>,
    last_read: Nanos,
    /// When the kernel received what was read then.
    last_received: Option<Nanos>,
    answer: Option<Tracked>,
}

/// When a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Came {
    /// When its connection was accepted, if it is the first one on it.
    pub(super) connected: Option<Nanos>,
    /// When the kernel received the end of its head, if that is known.
    pub(super) received: Option<Nanos>,
    /// The instant just after that was read.
    pub(super) read: Nanos,
}

/// How the body of a response is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// By its length or by the end of the connection; only the body's own bytes are sent.
    Plain,
    /// In chunks, one for each event.
    Chunked,
}

/// A response whose bytes are counted. Offsets are those on the wire, from the end of the head.
#[derive(Debug)]
pub(super) struct Tracked {
    log: Option<(RequestLog, Arc<WriteLog>)>,
    pace: Option<Pace>,
    /// When the next bytes may be written, if they have a pace.
    next_write: Nanos,
    framing: Framing,
    /// The state of the search for the blank line that ends the head.
    head_end: HeadEnd,
    written: u64,
    /// The end of all events handed over so far.
    length: u64,
    /// The end of each event in the log.
    ends: Vec<u64>,
    stamped: usize,
    cut_at: Option<u64>,
    ended: bool,
}

/// The pace of the writes of a response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Time from one write to the next.
    pub(super) interval: Nanos,
    /// Maximum number of bytes of a write.
    pub(super) bytes: usize,
}

/// An event as it is handed over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handed {
    pub(super) kind: EventKind,
    pub(super) choice: u64,
    pub(super) due: Nanos,
    pub(super) tokens: u64,
    pub(super) bytes: usize,
    /// Whether nothing follows.
    pub(super) last: bool,
    /// Number of its bytes after which the connection is closed, possibly all of them.
    pub(super) cut: Option<usize>,
}

impl Tracked {
    pub(super) fn new(log: Option<(RequestLog, Arc<WriteLog>)>, pace: Option<Pace>) -> Self {
        Self {
            log,
            pace,
            next_write: Nanos::ZERO,
            framing: Framing::Plain,
            head_end: HeadEnd::default(),
            written: 0,
            length: 0,
            ends: Vec::new(),
            stamped: 0,
            cut_at: None,
            ended: false,
        }
    }

    fn hand(&mut self, event: Handed) {
        let (before, after) = match self.framing {
            Framing::Chunked if event.bytes > 0 => (hex_digits(event.bytes) + 2, 2),
            _ => (0, 0),
        };
        let start = self.length;
        self.length += before + event.bytes as u64 + after;
        if let Some(cut) = event.cut {
            self.cut_at = Some(match cut {
                0 => start,
                _ if cut >= event.bytes => self.length,
                _ => start + before + cut as u64,
            });
        }
        if let Some((log, sink)) = &mut self.log {
            let Handed { kind, choice, due, tokens, bytes, .. } = event;
            log.events.push(EventLog {
                kind,
                choice,
                due,
                write_start: None,
                written: None,
                tokens,
                bytes: bytes as u64,
            });
            self.ends.push(self.length);
            if event.last {
                sink.settle();
            }
        }
        if event.last {
            self.ended = true;
            self.length += if self.framing == Framing::Chunked { 5 } else { 0 };
        }
    }

    /// Returns how many bytes of `buffer` may be written before the connection is cut.
    fn allowed(&self, buffer: &[u8]) -> usize {
        let Some(cut_at) = self.cut_at else { return buffer.len() };
        match self.head_end.clone().find(buffer) {
            Some(body) => {
                let rest = usize::try_from(cut_at.saturating_sub(self.written));
                buffer.len().min(body.saturating_add(rest.unwrap_or(usize::MAX)))
            }
            None => buffer.len(),
        }
    }

    /// Returns how much of `buffer` may be written, and when if it must wait.
    fn plan(&self, buffer: &[u8]) -> (usize, Option<Nanos>) {
        let allowed = self.allowed(buffer);
        match self.pace {
            None => (allowed, None),
            Some(Pace { bytes, .. }) => (allowed.min(bytes), Some(self.next_write)),
        }
    }

    /// Records that `bytes` were written from `start` to `end`.
    fn wrote(&mut self, bytes: &[u8], start: Nanos, end: Nanos) {
        let Some(body) = self.head_end.find(bytes) else { return };
        self.written += (bytes.len() - body) as u64;
        let Some((log, _)) = &mut self.log else { return };
        while self.ends.get(self.stamped).is_some_and(|offset| *offset <= self.written) {
            let event = &mut log.events[self.stamped];
            (event.write_start, event.written) = (Some(start), Some(end));
            self.stamped += 1;
        }
    }

    fn is_complete(&self) -> bool {
        self.ended && self.head_end.passed() && self.written >= self.length
    }

    fn is_cut(&self) -> bool {
        self.head_end.passed() && self.cut_at.is_some_and(|at| self.written >= at)
    }

    /// Adds the request to the log, if there is one.
    fn finish(&mut self) {
        if let Some((mut log, sink)) = self.log.take() {
            log.complete = self.is_complete();
            log.cut = !log.complete && (log.cut || self.is_cut());
            sink.add(log, self.ended);
        }
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.finish();
    }
}

fn hex_digits(n: usize) -> u64 {
    u64::from(usize::BITS - n.leading_zeros()).div_ceil(4)
}

/// Searches for the blank line that ends a head, however it is divided into writes.
#[derive(Debug, Clone, Default)]
struct HeadEnd {
    matched: usize,
}

impl HeadEnd {
    const BLANK: &[u8; 4] = b"\r\n\r\n";

    fn passed(&self) -> bool {
        self.matched == Self::BLANK.len()
    }

    /// Returns the offset in `bytes`, which follow those seen so far, at which the body begins.
    fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        for (index, byte) in bytes.iter().enumerate() {
            if self.passed() {
                return Some(index);
            }
            self.matched = if *byte == Self::BLANK[self.matched] {
                self.matched + 1
            } else {
                usize::from(*byte == b'\r')
            };
        }
        self.passed().then_some(bytes.len())
    }
}

impl Wire {
    /// Creates the state of a connection that was accepted at `connected`.
    pub(super) fn new(connected: Nanos) -> Self {
        Self(Lock::new(State { connected: Some(connected), ..State::default() }))
    }

    /// Begins a request, whose head was in the latest read.
    pub(super) fn arrival(&self) -> Came {
        let mut state = self.0.lock();
        let State { last_read: read, last_received: received, .. } = *state;
        Came { connected: state.connected.take(), received, read }
    }

    /// Attributes everything written from now on to `answer`.
    pub(super) fn begin(&self, answer: Tracked) {
        self.0.lock().answer = Some(answer);
    }

    /// Records when the request was admitted.
    pub(super) fn admit(&self, at: Nanos) {
        if let Some(Tracked { log: Some((log, _)), .. }) = &mut self.0.lock().answer {
            log.admitted = at;
        }
    }

    /// Records the status and framing of the response that begins.
    pub(super) fn head(&self, status: u16, framing: Framing) {
        if let Some(answer) = &mut self.0.lock().answer {
            answer.framing = framing;
            if let Some((log, _)) = &mut answer.log {
                log.status = Some(status);
            }
        }
    }

    /// Announces an event that is about to be written.
    pub(super) fn hand(&self, event: Handed) {
        if let Some(answer) = &mut self.0.lock().answer {
            answer.hand(event);
        }
    }

    /// Closes the connection once everything handed over so far is written.
    pub(super) fn close_after_this(&self) {
        if let Some(answer) = &mut self.0.lock().answer {
            answer.cut_at = Some(answer.length);
        }
    }

    /// Records that the connection is closed without a response.
    pub(super) fn refuse(&self) {
        if let Some(Tracked { log: Some((log, _)), .. }) = &mut self.0.lock().answer {
            log.cut = true;
        }
    }

    /// Lets this time pass between two writes of the response, unless it has a pace.
    pub(super) fn space_writes(&self, interval: Nanos) {
        if let Some(answer) = &mut self.0.lock().answer {
            answer.pace.get_or_insert(Pace { interval, bytes: usize::MAX });
        }
    }

    /// Returns how much of `buffer` may be written, and when if it must wait.
    fn plan(&self, buffer: &[u8]) -> (usize, Option<Nanos>) {
        match &self.0.lock().answer {
            None => (buffer.len(), None),
            Some(answer) => answer.plan(buffer),
        }
    }

    /// Records that `bytes` were written from `start` to `end`, which are all that were `planned` or
    /// the beginning of them.
    ///
    /// # Errors
    ///
    /// Fails if the connection must end here.
    fn wrote(&self, bytes: &[u8], planned: usize, start: Nanos, end: Nanos) -> io::Result<()> {
        let mut state = self.0.lock();
        let Some(answer) = &mut state.answer else { return Ok(()) };
        answer.wrote(bytes, start, end);
        if let Some(pace) = answer.pace.filter(|_| bytes.len() == planned) {
            answer.next_write = end + pace.interval;
        }
        let cut = answer.is_cut();
        if answer.is_complete() {
            state.answer = None;
        }
        if cut { Err(cut_error()) } else { Ok(()) }
    }
}

fn cut_error() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the script cuts the connection here")
}

/// A client's connection.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Stream,
    wire: Arc<Wire>,
    pause: Wait,
    incoming: Box<[u8]>,
}

/// Maximum number of bytes of one read.
const READ_SIZE: usize = 16 * 1024;

impl Socket {
    pub(super) fn new(stream: Stream, wire: Arc<Wire>, timer: &Timer) -> Self {
        Self { stream, wire, pause: timer.wait(), incoming: vec![0; READ_SIZE].into_boxed_slice() }
    }
}

impl hyper::rt::Read for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let size = READ_SIZE.min(into.remaining());
        let mut buffer = ReadBuf::new(&mut this.incoming[..size]);
        let received = ready!(this.stream.poll_read(cx, &mut buffer))?;
        let mut state = this.wire.0.lock();
        (state.last_read, state.last_received) = (Clock::now(), received);
        drop(state);
        into.put_slice(buffer.filled());
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let (allowed, not_before) = this.wire.plan(buffer);
        if allowed == 0 && !buffer.is_empty() {
            return Poll::Ready(Err(cut_error()));
        }
        if let Some(at) = not_before {
            ready!(this.pause.poll_until(at, cx));
        }
        let start = Clock::now();
        let written = ready!(this.stream.poll_write(cx, &buffer[..allowed]))?;
        let end = Clock::now();
        this.wire.wrote(&buffer[..written], allowed, start, end)?;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream.poll_shutdown(cx)
    }
}

impl Drop for Socket {
    /// Adds a truncated response to the log before its client can notice.
    fn drop(&mut self) {
        self.wire.0.lock().answer = None;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request() -> RequestLog {
        RequestLog {
            request_id: None,
            number: 1,
            path: "/".into(),
            connected: None,
            received: None,
            arrival: Nanos(0),
            admitted: Nanos(0),
            prompt_tokens: 0,
            status: None,
            events: Vec::new(),
            complete: false,
            cut: false,
        }
    }

    fn handed() -> Handed {
        Handed {
            kind: EventKind::Content,
            choice: 0,
            due: Nanos(0),
            tokens: 1,
            bytes: 0,
            last: false,
            cut: None,
        }
    }

    const HEAD: &str = "HTTP/1.1 200 OK\r\nx: \r y\r\n\r\n";

    proptest! {
        /// "abc" and "d" in chunks are "3\r\nabc\r\n" (8 bytes) and "1\r\nd\r\n0\r\n\r\n": the
        /// events end at offsets 8 and 14 of 19.
        #[test]
        fn stamps_are_of_the_write_with_the_last_byte(cuts in prop::collection::vec(0..50usize, 0..6)) {
            let sink = Arc::new(WriteLog::new(9, None).unwrap());
            let wire = Wire::new(Nanos(0));
            wire.begin(Tracked::new(Some((request(), sink.clone())), None));
            wire.head(200, Framing::Chunked);
            let event = |bytes, last| Handed { bytes, last, ..handed() };
            wire.hand(event(3, false));
            wire.hand(event(1, true));
            let bytes = format!("{HEAD}3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n");
            let mut ends: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            ends.push(bytes.len());
            ends.sort_unstable();
            let mut start = 0;
            for end in &ends {
                // The offset of a write is used as its time.
                let from_to = [start, *end].map(|at| Nanos(at as u64));
                let piece = &bytes.as_bytes()[start..*end];
                wire.wrote(piece, piece.len(), from_to[0], from_to[1]).unwrap();
                start = *end;
            }
            let logs = sink.requests();
            let first_at = |offset: usize| {
                let end = *ends.iter().find(|end| **end >= HEAD.len() + offset).unwrap();
                Some(Nanos(end as u64))
            };
            prop_assert_eq!(logs[0].events[0].written, first_at(8));
            prop_assert_eq!(logs[0].events[1].written, first_at(14));
            prop_assert!(logs[0].events.iter().all(|event| event.write_start < event.written));
            prop_assert!(logs[0].complete);
        }
    }

    #[test]
    fn a_cut_lets_pass_what_is_before_it() {
        let mut answer = Tracked::new(None, None);
        answer.framing = Framing::Chunked;
        answer.hand(Handed { bytes: 20, cut: Some(5), ..handed() });
        // "14\r\n" and five bytes.
        let bytes = format!("{HEAD}14\r\n{}\r\n", "x".repeat(20));
        assert_eq!(answer.allowed(bytes.as_bytes()), HEAD.len() + 4 + 5);
        answer.wrote(&bytes.as_bytes()[..HEAD.len() + 2], Nanos(1), Nanos(1));
        assert!(!answer.is_cut());
        assert_eq!(answer.allowed(&bytes.as_bytes()[HEAD.len() + 2..]), 2 + 5);
        answer.wrote(&bytes.as_bytes()[HEAD.len() + 2..HEAD.len() + 9], Nanos(2), Nanos(2));
        assert!(answer.is_cut() && !answer.is_complete());
    }

    /// The first write is free; a part of one does not count, and a drip has its own pace.
    #[test]
    fn writes_are_as_far_apart_as_asked() {
        let wire = Wire::new(Nanos(0));
        let plan = || wire.plan(&[0; 9]);
        let begin = |pace| {
            wire.begin(Tracked::new(None, pace));
            wire.space_writes(Nanos(40));
            wire.head(200, Framing::Chunked);
        };
        assert_eq!(plan(), (9, None));
        begin(None);
        assert_eq!(plan(), (9, Some(Nanos(0))));
        wire.wrote(&[0; 3], 9, Nanos(100), Nanos(101)).unwrap();
        assert_eq!(plan(), (9, Some(Nanos(0))));
        wire.wrote(&[0; 9], 9, Nanos(102), Nanos(103)).unwrap();
        assert_eq!(plan(), (9, Some(Nanos(143))));
        begin(Some(Pace { interval: Nanos(5), bytes: 1 }));
        assert_eq!(plan(), (1, Some(Nanos(0))));
        wire.wrote(&[0; 1], 1, Nanos(200), Nanos(201)).unwrap();
        assert_eq!(plan(), (1, Some(Nanos(206))));
    }

    #[test]
    fn chunk_sizes_are_written_in_hexadecimal() {
        let digits = |n: usize| format!("{n:x}").len() as u64;
        for n in [1, 9, 15, 16, 255, 256, 4095, 4096, 65_536] {
            assert_eq!(hex_digits(n), digits(n));
        }
    }
}
