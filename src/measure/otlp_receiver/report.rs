//! What was received and joined.

use serde::{Deserialize, Serialize};

use base::units::Nanos;

/// The spans that servers have sent, and the requests that they were joined with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct ReceiverReport {
    /// Address that was listened on.
    pub address: String,
    /// Number of successful requests that were sampled, of all phases: the sum of `joined_requests`
    /// and `unjoined_requests`.
    pub sampled_requests: u64,
    /// Number of them whose spans have arrived.
    pub joined_requests: u64,
    /// Number of them without spans.
    pub unjoined_requests: u64,
    /// Number of them that did not wait for their spans until the end, since too many waited or the
    /// user ended the wait.
    pub released_early: u64,
    /// Number of spans that have arrived, also of others.
    pub spans_received: u64,
    /// Number of spans that belong to requests of the run.
    pub spans_joined: u64,
    /// Number of spans of other traces, or of requests that waited no longer.
    pub spans_foreign: u64,
    /// Number of spans that were too large or too many.
    pub spans_dropped: u64,
    /// Number of spans that arrived again.
    pub spans_duplicate: u64,
    /// Number of spans that arrived after their request had waited long enough.
    pub spans_late: u64,
    /// Number of spans that are not valid.
    pub spans_malformed: u64,
    /// Number of requests to the receiver that could not be read, or were too large.
    pub requests_malformed: u64,
    /// Number of requests to the receiver with metrics or logs, which were ignored.
    pub requests_other: u64,
    /// Longest time from the end of a span to its arrival in seconds, by the clocks of both machines.
    pub longest_delay_seconds: f64,
}

impl ReceiverReport {
    /// Returns the share of sampled requests that were joined; `None` without any.
    #[must_use]
    pub fn joined_share(&self) -> Option<f64> {
        let sampled = self.sampled_requests;
        (sampled > 0).then(|| self.joined_requests as f64 / sampled as f64)
    }

    /// Adds to this what the receiver of another process of the same run has counted.
    pub fn and(mut self, other: &Self) -> Self {
        self.sampled_requests += other.sampled_requests;
        self.joined_requests += other.joined_requests;
        self.unjoined_requests += other.unjoined_requests;
        self.released_early += other.released_early;
        self.spans_received += other.spans_received;
        self.spans_joined += other.spans_joined;
        self.spans_foreign += other.spans_foreign;
        self.spans_dropped += other.spans_dropped;
        self.spans_duplicate += other.spans_duplicate;
        self.spans_late += other.spans_late;
        self.spans_malformed += other.spans_malformed;
        self.requests_malformed += other.requests_malformed;
        self.requests_other += other.requests_other;
        self.longest_delay_seconds = self.longest_delay_seconds.max(other.longest_delay_seconds);
        self
    }
}

/// What is counted of spans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) spans_received: u64,
    pub(super) joined: u64,
    pub(super) foreign: u64,
    pub(super) dropped: u64,
    pub(super) duplicates: u64,
    pub(super) late: u64,
    pub(super) malformed: u64,
    pub(super) malformed_requests: u64,
    pub(super) other_signals: u64,
    pub(super) longest_delay: Nanos,
}
