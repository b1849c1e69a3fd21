//! How much the client may have added to the times of a single request.

use base::units::{Clock, Nanos};
use client::record::{Arrival, ArrivalClock, RequestRecord};

use crate::metrics::metric::MeasuredRecord;

/// Minimum delay between the last byte's timestamp and its read for a late read, of which
/// earlier bytes may have waited for the client. The data of a prompt read was merged by the
/// server. Only used if it is unknown how long the client waited for a core.
const LATE_READ_NS: u32 = 500_000;

/// How the client's part of an arrival's uncertainty is found.
#[derive(Debug, Clone, Copy)]
pub struct ArrivalErrors {
    /// Whether the kernel counts how long threads wait for a core, so that the uncertainty does not
    /// include the server's silence.
    pub(super) knows_waits: bool,
}

impl Default for ArrivalErrors {
    /// Returns how it is found in this process.
    fn default() -> Self {
        Self { knows_waits: Clock::thread_waited().is_some() }
    }
}

impl ArrivalErrors {
    /// Returns how much earlier bytes may have arrived because of the client, in nanoseconds;
    /// `None` if unknown.
    pub(super) fn bound(self, record: &RequestRecord, arrival: Arrival) -> Option<u32> {
        let trace = &record.trace;
        if trace.socket_reads == 0 {
            return None;
        }
        if self.knows_waits {
            return Some(arrival.uncertainty);
        }
        let was_late = arrival.read_lag >= LATE_READ_NS;
        let error = if was_late { arrival.uncertainty } else { 0 };
        // The reads without a timestamp were as late as the others.
        match trace.clock()? {
            ArrivalClock::User => None,
            ArrivalClock::Kernel => Some(error),
            ArrivalClock::Mixed => Some(error.max(record.body.max_read_lag()?)),
        }
    }

    /// Returns the errors of a request.
    pub fn of_request(self, measured: &MeasuredRecord) -> ClientErrors {
        let MeasuredRecord { record, response, .. } = measured;
        let content = &response.content;
        let [first, last] = [content.first(), content.last()].map(|piece| {
            piece.and_then(|piece| self.bound(record, piece.arrival)).unwrap_or_default()
        });
        ClientErrors {
            first_content_uncertainty: first,
            last_content_uncertainty: last,
            end_gap: content.last().and_then(|last| {
                let end = record.body.events.last()?.arrival;
                let gap = end.at.since(last.arrival.at).0;
                (end != last.arrival).then(|| u32::try_from(gap).unwrap_or(u32::MAX))
            }),
            end_uncertainty: record
                .body
                .events
                .last()
                .and_then(|end| self.bound(record, end.arrival))
                .unwrap_or_default(),
            send_delay: send_delay(record).0,
            late: Some(lateness(record).0),
        }
    }
}

/// How much the client may have added to the times of a request, in nanoseconds. All of it is in the
/// JSONL line, so that error bounds can be recomputed from the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientErrors {
    /// How much earlier the first content event may have arrived.
    pub first_content_uncertainty: u32,
    /// How much earlier the last content event may have arrived.
    pub last_content_uncertainty: u32,
    /// How long after the last content event the response's last event arrived; zero if they have
    /// the same timestamp. Absent if it is the same event, or if nothing distinguishes them.
    pub end_gap: Option<u32>,
    /// How much earlier the response may have ended.
    pub end_uncertainty: u32,
    /// How long after its start the client could have sent the request but did not.
    pub send_delay: u64,
    /// How long after it could have the client started the request: after its due time, if it had
    /// one, and after the response that it waited for. Absent if an earlier version wrote the record.
    pub late: Option<u64>,
}

/// Returns how long after it could have the client started a request, which is zero if the request had
/// nothing to wait for.
pub(super) fn lateness(record: &RequestRecord) -> Nanos {
    let possible = record.due.unwrap_or_default().max(record.free_from);
    if possible > Nanos::ZERO { record.start.since(possible) } else { Nanos::ZERO }
}

/// Returns how long after its start the client could have sent the request but did not: until its
/// first byte was offered to the socket, without the waits for a connection.
fn send_delay(record: &RequestRecord) -> Nanos {
    let trace = &record.trace;
    let Some(sent) = trace.send_start else { return Nanos::ZERO };
    // Earlier attempts on connections that were dead took time as well.
    let from = if record.retry_count > 0 { trace.reused } else { Some(record.start) };
    let ready = [trace.pool_wait_end, trace.dns_end, trace.connect_end, from];
    ready.into_iter().flatten().max().map_or(Nanos::ZERO, |ready| sent.since(ready))
}
