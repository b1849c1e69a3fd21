//! When each event of each response was sent: the ground truth for a client.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use base::input::lines::{LineFault, Lines};
use base::lock::Lock;
use base::units::{Clock, Nanos};

use super::MockServerError;

/// A request as the server observed it. Instants are those of [`Clock::now`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestLog {
    /// The `X-Request-ID` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Number of the inference request, from 1 in order of arrival.
    pub number: u64,
    /// The path of the request, with the variable parts in braces.
    pub path: Cow<'static, str>,
    /// The instant when the server accepted the connection; only in its first request.
    #[serde(rename = "connected_ns", skip_serializing_if = "Option::is_none")]
    pub connected: Option<Nanos>,
    /// The instant when the kernel received the end of the request's head, which may have waited to be
    /// read; not with TLS, nor where the system does not have such timestamps.
    #[serde(rename = "received_ns", skip_serializing_if = "Option::is_none")]
    pub received: Option<Nanos>,
    /// The instant just after the read that completed the request's head.
    #[serde(rename = "arrival_ns")]
    pub arrival: Nanos,
    /// The instant when it was admitted, which is the origin of its schedule. Equals its arrival
    /// unless it had to wait.
    #[serde(rename = "admitted_ns")]
    pub admitted: Nanos,
    /// Number of tokens of the prompts.
    pub prompt_tokens: u64,
    /// The status of the response, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The events sent, in order.
    pub events: Vec<EventLog>,
    /// Whether the last byte was handed to the kernel.
    pub complete: bool,
    /// Whether the script had the server close the connection before that; not if the client left.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cut: bool,
}

/// An event of a stream, or the whole body of a response that is not streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventLog {
    /// What the event is.
    pub kind: EventKind,
    /// The index of the choice that it belongs to; 0 if it belongs to all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub choice: u64,
    /// The due time by the script.
    #[serde(rename = "due_ns")]
    pub due: Nanos,
    /// The instant just before the write of its last byte; absent if it was not written. No client
    /// can have read the event earlier.
    #[serde(rename = "write_start_ns", skip_serializing_if = "Option::is_none")]
    pub write_start: Option<Nanos>,
    /// The instant just after that write. A client may have read the event a little earlier if this
    /// thread was interrupted.
    #[serde(rename = "written_ns", skip_serializing_if = "Option::is_none")]
    pub written: Option<Nanos>,
    /// Number of tokens in it; 0 for role, usage, error and `[DONE]`.
    pub tokens: u64,
    /// Length in bytes without the transfer encoding.
    pub bytes: u64,
}

/// What an event of a response is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The role, or another opening event without content.
    Open,
    /// Content with an empty text.
    Empty,
    /// Tokens of reasoning.
    Reasoning,
    /// Tokens of the output.
    Content,
    /// Tokens of the arguments of a tool call, or its beginning.
    ToolCall,
    /// An error in a stream.
    Error,
    /// Usage, or another closing event before the end.
    Usage,
    /// The end marker, such as `[DONE]`, and what follows it.
    End,
    /// The whole body of a response that is not streamed.
    Whole,
}

impl RequestLog {
    /// Returns when the request came to the server, though it may have been read later.
    #[must_use]
    pub fn came(&self) -> Nanos {
        self.received.unwrap_or(self.arrival)
    }
}

/// Returns the number of requests in flight after each arrival and each end, in order of time. A response
/// ends just before its last write, which its client may notice before the write returns.
pub fn in_flight<'l>(requests: impl IntoIterator<Item = &'l RequestLog>) -> Vec<(Nanos, u64)> {
    let mut changes = Vec::new();
    for request in requests {
        let end = request.events.iter().rev().find_map(|event| event.write_start);
        changes.extend([(request.came(), 1_i64), (end.unwrap_or(request.arrival), -1)]);
    }
    // An end comes before an arrival at the same instant.
    changes.sort_unstable();
    let mut now = 0_i64;
    let counted = changes.into_iter().map(|(at, change)| {
        now += change;
        (at, now.max(0).unsigned_abs())
    });
    counted.collect()
}

/// Maximum length of a line: that of a request with the maximum number of tokens.
const MAX_LINE_BYTES: u64 = 256 << 20;

/// Reads a write log of JSON lines.
///
/// # Errors
///
/// Fails if a line cannot be read or is not valid, with its number.
pub fn read_write_log(log: impl BufRead) -> Result<Vec<RequestLog>, MockServerError> {
    let mut lines = Lines::new(log, MAX_LINE_BYTES);
    let mut requests = Vec::new();
    let mut last = 0;
    let failure = |line, why| MockServerError::ReadWriteLog { line, why };
    loop {
        let line = match lines.next() {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(requests),
            Err(LineFault::Read(why)) => return Err(failure(last + 1, why.to_string())),
            Err(LineFault::TooLong { number, why }) => {
                return Err(failure(number, format!("it is {why}")));
            }
        };
        last = line.number;
        let request = serde_json::from_slice(line.bytes);
        requests.push(request.map_err(|why| failure(last, why.to_string()))?);
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The destination of finished requests.
#[derive(Debug)]
pub(super) struct WriteLog {
    /// Maximum number of events kept, where each request counts as one more.
    capacity: usize,
    kept: Lock<Kept>,
    dropped: AtomicU64,
    /// Number of responses that have ended but whose last bytes are not yet written.
    settling: AtomicUsize,
    file: Lock<Option<LogFile>>,
}

#[derive(Debug, Default)]
struct Kept {
    requests: Vec<RequestLog>,
    events: usize,
}

/// The file, written by a separate thread, since a slow disk must not delay an event.
#[derive(Debug)]
struct LogFile {
    sender: SyncSender<RequestLog>,
    thread: JoinHandle<()>,
}

/// Maximum number of requests that wait for the disk.
const FILE_QUEUE: usize = 4096;
/// Maximum time that a line stays in memory.
const FLUSH_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum time that [`WriteLog::requests`] waits for last bytes.
const SETTLE: Duration = Duration::from_secs(1);

impl WriteLog {
    pub(super) fn new(capacity: usize, path: Option<&Path>) -> io::Result<Self> {
        let file = path.map(LogFile::open).transpose()?;
        Ok(Self {
            capacity,
            kept: Lock::default(),
            dropped: AtomicU64::new(0),
            settling: AtomicUsize::new(0),
            file: Lock::new(file),
        })
    }

    /// Announces that a response has ended and will soon be [added](Self::add).
    pub(super) fn settle(&self) {
        self.settling.fetch_add(1, Ordering::AcqRel);
    }

    /// Adds a completed request; `settled` if [`Self::settle`] was called for it.
    pub(super) fn add(&self, request: RequestLog, settled: bool) {
        let unwritten = match &*self.file.lock() {
            Some(file) => file.sender.try_send(request.clone()).is_err(),
            None => false,
        };
        let mut kept = self.kept.lock();
        let size = 1 + request.events.len();
        let fits = self.capacity == 0 || kept.events + size <= self.capacity;
        if self.capacity > 0 && fits {
            kept.events += size;
            kept.requests.push(request);
        }
        drop(kept);
        if unwritten || !fits {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        if settled {
            self.settling.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Returns the requests kept so far. They include each response whose last byte a client may
    /// have read: such responses are waited for, within a limit.
    pub(super) fn requests(&self) -> Vec<RequestLog> {
        let bound = Clock::now() + Nanos::from(SETTLE);
        while self.settling.load(Ordering::Acquire) > 0 && Clock::now() < bound {
            std::thread::sleep(Duration::from_micros(50));
        }
        self.kept.lock().requests.clone()
    }

    /// Returns the number of requests that were not kept, or not written to the file, for lack of
    /// room.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Writes what waits for the disk and closes the file.
    pub(super) fn close(&self) {
        let file = self.file.lock().take();
        if let Some(LogFile { sender, thread }) = file {
            drop(sender);
            let _ = thread.join();
        }
    }
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let (sender, receiver) = sync_channel(FILE_QUEUE);
        let thread = std::thread::Builder::new()
            .name("mock-write-log".to_owned())
            .spawn(move || write_lines(BufWriter::new(file), &receiver))?;
        Ok(Self { sender, thread })
    }
}

fn write_lines(mut file: BufWriter<File>, requests: &Receiver<RequestLog>) {
    loop {
        match requests.recv_timeout(FLUSH_INTERVAL) {
            Ok(request) => {
                let written = serde_json::to_writer(&mut file, &request)
                    .map_err(io::Error::from)
                    .and_then(|()| file.write_all(b"\n"));
                if let Err(error) = written {
                    tracing::warn!("the write log is given up: {error}");
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let _ = file.flush();
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if let Err(error) = file.flush() {
        tracing::warn!("the write log's end is lost: {error}");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(number: u64, events: usize) -> RequestLog {
        let event = EventLog {
            kind: EventKind::Content,
            choice: 0,
            due: Nanos(5),
            write_start: Some(Nanos(6)),
            written: Some(Nanos(7)),
            tokens: 1,
            bytes: 9,
        };
        RequestLog {
            request_id: Some(format!("id-{number}")),
            number,
            path: "/v1/completions".into(),
            connected: None,
            received: None,
            arrival: Nanos(1),
            admitted: Nanos(2),
            prompt_tokens: 3,
            status: Some(200),
            events: vec![event; events],
            complete: true,
            cut: false,
        }
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let log = WriteLog::new(6, None).unwrap();
        log.add(request(1, 2), false);
        log.add(request(2, 3), false);
        log.add(request(3, 2), false);
        let numbers: Vec<_> = log.requests().iter().map(|request| request.number).collect();
        assert_eq!(numbers, [1, 3]);
        assert_eq!(log.dropped(), 1);
    }

    #[test]
    fn the_file_has_a_line_a_request() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("writes.jsonl");
        let log = WriteLog::new(0, Some(&path)).unwrap();
        log.add(request(1, 1), false);
        let opened =
            RequestLog { connected: Some(Nanos(0)), received: Some(Nanos(1)), ..request(2, 0) };
        let cut = RequestLog { complete: false, cut: true, ..opened };
        log.add(RequestLog { request_id: None, status: None, ..cut }, false);
        log.close();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            concat!(
                r#"{"request_id":"id-1","number":1,"path":"/v1/completions","arrival_ns":1,"#,
                r#""admitted_ns":2,"prompt_tokens":3,"status":200,"events":[{"kind":"content","due_ns":5,"#,
                r#""write_start_ns":6,"written_ns":7,"#,
                r#""tokens":1,"bytes":9}],"complete":true}"#,
                "\n",
                r#"{"number":2,"path":"/v1/completions","connected_ns":0,"received_ns":1,"arrival_ns":1,"#,
                r#""admitted_ns":2,"prompt_tokens":3,"events":[],"complete":false,"cut":true}"#,
                "\n"
            )
        );
        assert_eq!((log.requests().len(), log.dropped()), (0, 0));
    }

    #[test]
    fn a_line_that_is_not_valid_is_named() {
        let error = |text: &str| read_write_log(text.as_bytes()).unwrap_err().to_string();
        let valid = serde_json::to_string(&request(1, 1)).unwrap();
        assert_eq!(read_write_log(format!("\n{valid}\n").as_bytes()).unwrap(), [request(1, 1)]);
        for (text, line, why) in [
            (format!("{valid}\n\n[]\n"), 3, "invalid length 0"),
            (format!("{valid}\n{}", &valid[..20]), 2, "EOF while parsing"),
            (valid.replace("content", "contents"), 1, "unknown variant `contents`"),
            (valid.replace("number", "count"), 1, "missing field `number`"),
        ] {
            let error = error(&text);
            assert!(error.starts_with(&format!("cannot read line {line} of the write log: ")));
            assert!(error.contains(why), "{error}");
        }
        let invalid = read_write_log(&b"{\"number\":1,\"path\":\"\xff\"}"[..]);
        assert!(matches!(invalid, Err(MockServerError::ReadWriteLog { line: 1, .. })));
    }

    fn kind() -> impl Strategy<Value = EventKind> {
        prop::sample::select(vec![
            EventKind::Open,
            EventKind::Empty,
            EventKind::Reasoning,
            EventKind::Content,
            EventKind::ToolCall,
            EventKind::Error,
            EventKind::Usage,
            EventKind::End,
            EventKind::Whole,
        ])
    }

    fn event() -> impl Strategy<Value = EventLog> {
        let times = any::<(u64, Option<u64>, Option<u64>)>();
        (kind(), times, any::<[u64; 3]>()).prop_map(|(kind, times, [choice, tokens, bytes])| {
            let (due, write_start, written) = times;
            let [write_start, written] = [write_start, written].map(|at| at.map(Nanos));
            EventLog { kind, choice, due: Nanos(due), write_start, written, tokens, bytes }
        })
    }

    fn any_request() -> impl Strategy<Value = RequestLog> {
        let texts = (any::<Option<String>>(), any::<String>());
        let times = any::<([u64; 2], [Option<u64>; 2])>();
        let rest = any::<([u64; 2], Option<u16>, [bool; 2])>();
        let events = prop::collection::vec(event(), 0..5);
        (texts, times, rest, events).prop_map(|(texts, times, rest, events)| {
            let (request_id, path) = texts;
            let ([arrival, admitted], [connected, received]) = times;
            let ([number, prompt_tokens], status, [complete, cut]) = rest;
            RequestLog {
                request_id,
                number,
                path: path.into(),
                connected: connected.map(Nanos),
                received: received.map(Nanos),
                arrival: Nanos(arrival),
                admitted: Nanos(admitted),
                prompt_tokens,
                status,
                events,
                complete,
                cut,
            }
        })
    }

    proptest! {
        #[test]
        fn a_log_is_read_as_it_was_written(log in prop::collection::vec(any_request(), 0..4)) {
            let lines = log.iter().map(|request| serde_json::to_string(request).unwrap() + "\n");
            let text: String = lines.collect();
            prop_assert_eq!(read_write_log(text.as_bytes()).unwrap(), log);
        }

        #[test]
        fn no_log_panics(bytes: Vec<u8>, text in r#"(\{"(number|path|events|arrival_ns)":[\[\]{}",a-z0-9-]{0,12}\}?\n?){0,3}"#) {
            let _ = read_write_log(&bytes[..]);
            let _ = read_write_log(text.as_bytes());
        }
    }
}
