//! Finished records wait here for the spans of their requests.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use base::lock::{Condition, Lock};
use base::units::{Clock, Nanos};
use client::record::{OriginalSpan, RequestRecord, ServerSpan, TraceContext, TraceShare};

use super::report::ReceiverReport;
use super::table::{Key, Table};
use super::wire::{self, Source};

/// Maximum number of bytes of records that wait.
const MAX_BYTES: usize = 256 << 20;

/// Maximum number of records that wait.
const MAX_RECORDS: usize = 500_000;

/// Interval between looks at all records that wait.
const INTERVAL: Nanos = Nanos(100_000_000);

/// The spans that have arrived, and the records that wait for theirs.
///
/// A record waits until its spans are complete, and at most for a set time after its request has
/// ended. Too many records wait no longer: the oldest goes on without its spans.
#[derive(Debug)]
pub struct SpanJoin {
    state: Lock<State>,
    arrived: Condition,
    /// The requests whose spans the servers send.
    share: TraceShare,
    /// Maximum time that a record waits.
    wait: Nanos,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    table: Table,
    /// In the order in which they came.
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// When all of them were last looked at.
    looked_at: Nanos,
    report: ReceiverReport,
}

#[derive(Debug)]
struct Waiting {
    record: Box<RequestRecord>,
    key: Key,
    bytes: usize,
    until: Nanos,
}

/// A record that has waited, and its spans as they were received.
type Released = (Box<RequestRecord>, Vec<OriginalSpan>);

impl SpanJoin {
    /// Creates a place where records of requests in `share` wait at most `wait`.
    pub(super) fn new(share: TraceShare, wait: Nanos) -> Self {
        Self {
            state: Lock::default(),
            arrived: Condition::default(),
            share,
            wait,
            max_bytes: MAX_BYTES,
        }
    }

    /// Returns the longest time that a record waits.
    pub const fn wait(&self) -> Nanos {
        self.wait
    }

    /// Lets a record of `bytes` bytes wait. Returns one that does not: its request was not sampled
    /// or failed, so that the servers need not send a span.
    pub fn hold(&self, record: RequestRecord, bytes: usize) -> Option<RequestRecord> {
        if record.has_failed() || !self.share.covers(record.request_id) {
            return Some(record);
        }
        let until = record.end + self.wait;
        let id = response_id(&record.body.bytes);
        let mut state = self.state.lock();
        let response = id.map(|id| state.table.response(id));
        let key = Key { request: record.request_id, response, end: record.end };
        state.bytes += bytes;
        state.waiting.push_back(Waiting { record: Box::new(record), key, bytes, until });
        None
    }

    /// Returns the records that need not wait any longer, with their spans. Looks at most every
    /// 0.1 s.
    pub fn ready(&self) -> Vec<RequestRecord> {
        self.ready_at(Clock::now())
    }

    fn ready_at(&self, now: Nanos) -> Vec<RequestRecord> {
        let mut state = self.state.lock();
        if now.since(state.looked_at) < INTERVAL {
            return Vec::new();
        }
        state.looked_at = now;
        let mut released = Vec::new();
        while (state.bytes > self.max_bytes || state.waiting.len() > MAX_RECORDS)
            && let Some(oldest) = state.waiting.pop_front()
        {
            state.report.released_early += 1;
            released.push(state.release(oldest));
        }
        let State { table, waiting, .. } = &mut *state;
        let is_ready = |one: &mut Waiting| now >= one.until || table.is_complete(one.key, now);
        let ready: Vec<_> = extract(waiting, is_ready);
        released.extend(ready.into_iter().map(|one| state.release(one)));
        drop(state);
        released.into_iter().map(complete).collect()
    }

    /// Returns all records that wait, with the spans that have arrived.
    pub fn release_all(&self) -> Vec<RequestRecord> {
        let mut state = self.state.lock();
        let mut released = Vec::new();
        while let Some(oldest) = state.waiting.pop_front() {
            state.report.released_early += 1;
            released.push(state.release(oldest));
        }
        drop(state);
        released.into_iter().map(complete).collect()
    }

    /// Returns the number of records that wait.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    /// Waits until spans arrive, at most `timeout`.
    pub fn pause(&self, timeout: Duration) {
        drop(self.arrived.wait_timeout(self.state.lock(), timeout));
    }

    /// Returns what was joined, with the address of the receiver.
    pub(super) fn report(&self, address: SocketAddr) -> ReceiverReport {
        let state = self.state.lock();
        let counts = state.table.counts();
        ReceiverReport {
            address: address.to_string(),
            spans_received: counts.spans_received,
            spans_joined: counts.joined,
            spans_foreign: counts.foreign,
            spans_dropped: counts.dropped,
            spans_duplicate: counts.duplicates,
            spans_late: counts.late,
            spans_malformed: counts.malformed,
            requests_malformed: counts.malformed_requests,
            requests_other: counts.other_signals,
            longest_delay_seconds: counts.longest_delay.as_seconds(),
            ..state.report.clone()
        }
    }

    /// Adds spans: `give` calls its argument for each; `None` is one that cannot be read. Returns the
    /// number of spans that are not valid, and what `give` returns.
    pub(super) fn add<T>(
        &self,
        give: impl FnOnce(&mut dyn FnMut(&Source, Option<&[u8]>)) -> T,
    ) -> (u64, T) {
        let (now, wall_ns) = (Clock::now(), Clock::wall_now_ns());
        let mut invalid = 0;
        let given = give(&mut |source, span| {
            // Locked for each span, so that a processor never waits for a long request.
            let table = &mut self.state.lock().table;
            let is_valid = if let Some(span) = span {
                table.add(source, span, now, wall_ns)
            } else {
                table.add_malformed();
                false
            };
            invalid += u64::from(!is_valid);
        });
        self.arrived.notify_all();
        (invalid, given)
    }

    /// Counts a request that cannot be read, or is too large.
    pub(super) fn add_malformed_request(&self) {
        self.state.lock().table.add_malformed_request();
    }

    /// Counts a request with metrics or logs.
    pub(super) fn add_other_signal(&self) {
        self.state.lock().table.add_other_signal();
    }
}

impl State {
    /// Takes the spans of a record.
    fn release(&mut self, one: Waiting) -> Released {
        let Waiting { record, key, bytes, .. } = one;
        self.bytes -= bytes;
        let spans = self.table.claim(key);
        self.report.sampled_requests += 1;
        if spans.is_empty() {
            self.report.unjoined_requests += 1;
        } else {
            self.report.joined_requests += 1;
        }
        (record, spans)
    }
}

/// Maximum number of bytes at the start of a response in which its ID is looked for.
const HEAD: usize = 4 << 10;

/// Returns the ID at the start of a response. It is only compared with those of spans, so that
/// another member of the same name does no harm, and the response need not be parsed for it.
fn response_id(body: &[u8]) -> Option<&str> {
    const NAME: &[u8] = b"\"id\"";
    let head = body.get(..HEAD).unwrap_or(body);
    let at = head.windows(NAME.len()).position(|window| window == NAME)?;
    let value = head.get(at + NAME.len()..)?.trim_ascii_start().strip_prefix(b":")?;
    let value = value.trim_ascii_start().strip_prefix(b"\"")?;
    let end = value.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    std::str::from_utf8(value.get(..end)?).ok().filter(|id| !id.is_empty())
}

/// Removes the elements for which `is_so` holds, and returns them in order.
fn extract<T>(from: &mut VecDeque<T>, mut is_so: impl FnMut(&mut T) -> bool) -> Vec<T> {
    let (out, rest): (Vec<_>, Vec<_>) =
        std::mem::take(from).into_iter().map(|mut one| (is_so(&mut one), one)).partition(|it| it.0);
    from.extend(rest.into_iter().map(|it| it.1));
    out.into_iter().map(|it| it.1).collect()
}

/// Adds the spans to a record, in the order of their starts.
fn complete((mut record, spans): Released) -> RequestRecord {
    let parent = TraceContext::from_request_id(record.request_id).span_id;
    let decoded = spans.into_iter().filter_map(|span| wire::decode(span, parent).ok());
    let mut decoded: Vec<ServerSpan> = decoded.collect();
    decoded.sort_by_key(|span| (span.start_ns, span.id));
    record.server_spans = decoded;
    *record
}

#[cfg(test)]
mod tests;
