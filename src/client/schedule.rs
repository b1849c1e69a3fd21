//! When each turn is due: phases, arrival processes, stop conditions.
//!
//! Pure arithmetic, without a clock or I/O. Randomness comes from explicit seeds.

mod adaptive;
pub mod agentic;
mod arrivals;
mod budget;
mod cancellation;
mod check;
pub mod config;
mod limit;
mod plan;
mod rate;
mod rate_series;
mod replay;
mod shard;
mod start_at;
mod tenants;
pub mod tree;
mod users;

pub use adaptive::{Adaptive, AdaptiveEnd, Control, Controller, Finding, Stage, StepPolicy};
pub use agentic::{LaneLoad, ReplayStats};
pub use arrivals::{Arrivals, weibull_shape};
pub use budget::Budget;
pub(crate) use cancellation::Cancellations;
pub use check::{MAX_CONCURRENCY, check_rate};
pub use config::HeldLoad;
pub use limit::Line;
pub use plan::{Arrival, Schedule};
pub use rate::RateCurve;
pub use rate_series::parse_rate_series;
pub use replay::{settle, settle_dataset, settle_phases};
pub use shard::Shard;
pub use start_at::start_at;
pub use tenants::{Apportionment, Tenant};
pub use tree::Hold;
pub use users::Users;

use serde::{Deserialize, Serialize};

use base::units::Nanos;

/// The purpose of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PhaseKind {
    /// Brings the server to its working state. Its requests are not in the results.
    Warmup,
    /// The measurement.
    #[default]
    Profiling,
}

impl PhaseKind {
    /// Returns `warmup` or `profiling`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warmup => "warmup",
            Self::Profiling => "profiling",
        }
    }
}

/// Progress of a phase: a view of its counters, which is consistent enough for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PhaseStats {
    /// Kind of the phase.
    pub phase: PhaseKind,
    /// Index of the phase in the run.
    pub phase_index: u32,
    /// Start of the phase.
    pub start: Nanos,
    /// Time of this view, or the end of the phase once it has ended.
    pub now: Nanos,
    /// When the last request was sent; absent until no more requests will be sent.
    pub sent_end: Option<Nanos>,
    /// When the last request returned; absent until all requests have returned.
    pub requests_end: Option<Nanos>,
    /// Number of requests that the phase will send, if that is its stop condition.
    pub total_expected_requests: Option<u64>,
    /// Duration of the phase in seconds, if that is its stop condition.
    pub expected_duration_seconds: Option<f64>,
    /// Number of sessions that the phase will start, if that is its stop condition.
    pub expected_sessions: Option<u64>,
    /// Requests dispatched.
    pub requests_sent: u64,
    /// Requests that ended with any outcome. Each of them counts as completed, cancelled or failed
    /// once its response has been read.
    pub requests_returned: u64,
    /// Requests with a complete response and no error.
    pub requests_completed: u64,
    /// Requests cancelled before they returned.
    pub requests_cancelled: u64,
    /// Requests that failed and were not cancelled.
    pub request_errors: u64,
    /// Sessions started. Each of them is eventually completed, failed or cancelled.
    pub sessions_sent: u64,
    /// Sessions whose last turn was completed.
    pub sessions_completed: u64,
    /// Sessions that ended with a failed turn.
    pub sessions_failed: u64,
    /// Sessions whose last turn was cancelled, or that were cut short by the end of the phase.
    pub sessions_cancelled: u64,
    /// Turns sent.
    pub session_turns_total: u64,
    /// The state of the lanes, if the load is lanes.
    pub lanes: Option<LaneLoad>,
    /// Whether the phase ended because its duration ran out.
    pub timeout_triggered: bool,
    /// Whether requests were in flight when the duration ran out.
    pub timeout_in_flight: bool,
    /// Whether the grace period ran out as well.
    pub grace_timeout_triggered: bool,
    /// Whether the user cancelled the phase.
    pub was_cancelled: bool,
}

/// The fate of the conversations that others started, in a phase with trees of conversations; the
/// names are those of AIPerf's files.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct BranchStats {
    /// Conversations that were started and sent a request.
    pub children_spawned: u64,
    /// Those of them whose last turn was sent and succeeded.
    pub children_completed: u64,
    /// Those whose last request failed.
    pub children_errored: u64,
    /// Those whose remaining turns were not sent before the end of the phase.
    pub children_truncated: u64,
    /// Those that did not continue their parent's messages, and whose first turn had a delay.
    pub children_delayed: u64,
    /// Turns that waited for the end of other conversations.
    pub parents_suspended: u64,
    /// Turns that were sent after this wait.
    pub parents_resumed: u64,
    /// Always 0: the failure of a child does not end its parent.
    pub parents_failed_due_to_child_error: u64,
    /// Turns that were not sent after this wait, because of the end of the phase.
    pub joins_suppressed: u64,
    /// Always 0: every conversation sends requests.
    pub graphs_admitted: u64,
    /// Always 0, likewise.
    pub graphs_completed_to_end: u64,
}

impl std::iter::Sum for BranchStats {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            children_spawned: a.children_spawned + b.children_spawned,
            children_completed: a.children_completed + b.children_completed,
            children_errored: a.children_errored + b.children_errored,
            children_truncated: a.children_truncated + b.children_truncated,
            children_delayed: a.children_delayed + b.children_delayed,
            parents_suspended: a.parents_suspended + b.parents_suspended,
            parents_resumed: a.parents_resumed + b.parents_resumed,
            joins_suppressed: a.joins_suppressed + b.joins_suppressed,
            ..Self::default()
        })
    }
}

impl PhaseStats {
    /// Returns the number of requests that await a response.
    #[must_use]
    pub const fn requests_in_flight(&self) -> u64 {
        self.requests_sent.saturating_sub(self.requests_returned)
    }

    /// Returns the number of sessions with a turn in progress. The turns of a session follow one
    /// another, so this equals the number of requests in flight.
    #[must_use]
    pub const fn sessions_in_flight(&self) -> u64 {
        self.requests_in_flight()
    }

    /// Returns the seconds since the phase started.
    #[must_use]
    pub fn elapsed_seconds(&self) -> f64 {
        self.now.since(self.start).as_seconds()
    }

    /// Returns the rate of requests sent after the first, in requests per second. The rate covers
    /// the time until the last request was sent, or the whole duration if the duration ran out
    /// while requests without a response may have held others back.
    #[must_use]
    pub fn send_rate(&self) -> Option<f64> {
        let until_last = self.sent_end?.since(self.start).as_seconds();
        let duration = self.expected_duration_seconds.filter(|_| self.timeout_in_flight);
        let seconds = duration.map_or(until_last, |duration| duration.max(until_last));
        (seconds > 0.0 && self.requests_sent > 1).then(|| (self.requests_sent - 1) as f64 / seconds)
    }

    /// Returns the progress in percent: the highest of requests, time and sessions.
    #[must_use]
    pub fn progress_percent(&self) -> f64 {
        let returned = self.requests_returned as f64;
        let percent_of = |done: f64, all: f64| if all > 0.0 { 100.0 * done / all } else { 0.0 };
        let requests =
            self.total_expected_requests.map_or(0.0, |all| percent_of(returned, all as f64));
        let time = self
            .expected_duration_seconds
            .map_or(0.0, |all| percent_of(self.elapsed_seconds(), all));
        let sessions = self.expected_sessions.map_or(0.0, |all| {
            let ended = self.sessions_completed + self.sessions_failed + self.sessions_cancelled;
            percent_of(ended as f64, all as f64)
        });
        requests.max(time).max(sessions).min(100.0)
    }

    /// Returns the estimated seconds until the end of the phase, if its progress is known.
    #[must_use]
    pub fn seconds_left(&self) -> Option<f64> {
        let percent = self.progress_percent();
        (percent > 0.0 && percent < 100.0)
            .then(|| self.elapsed_seconds() * (100.0 - percent) / percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A phase of 10 s with eleven requests, the last sent 2 s after the start.
    fn stats() -> PhaseStats {
        PhaseStats {
            start: Nanos(5_000_000_000),
            sent_end: Some(Nanos(7_000_000_000)),
            expected_duration_seconds: Some(10.0),
            requests_sent: 11,
            ..PhaseStats::default()
        }
    }

    #[test]
    fn the_send_rate_counts_the_time_in_which_requests_were_held_back() {
        assert_eq!(stats().send_rate(), Some(5.0));
        let held = PhaseStats { timeout_in_flight: true, ..stats() };
        assert_eq!(held.send_rate(), Some(1.0));
        // The last request was sent a little after the end: the time that it took counts.
        let late = PhaseStats { sent_end: Some(Nanos(25_000_000_000)), ..held };
        assert_eq!(late.send_rate(), Some(0.5));
    }

    #[test]
    fn one_request_has_no_rate() {
        assert_eq!(PhaseStats { requests_sent: 1, ..stats() }.send_rate(), None);
        assert_eq!(PhaseStats { sent_end: None, ..stats() }.send_rate(), None);
    }
}
