//! When each turn is due: phases, arrival processes, stop conditions.
//!
//! Pure arithmetic: no clock, no I/O; randomness comes from explicit seeds.

mod arrivals;
mod budget;
mod cancellation;
pub mod config;
mod limit;
mod plan;
mod rate;
mod rate_series;
mod replay;
mod shard;
mod start_at;
mod users;

pub use arrivals::Arrivals;
pub use budget::Budget;
pub use cancellation::Cancellations;
pub use limit::Line;
pub use plan::{Arrival, Schedule};
pub use rate::RateCurve;
pub use rate_series::{RateSeriesError, parse_rate_series};
pub use replay::{ScheduleError, settle};
pub use shard::Shard;
pub use start_at::{StartAtError, start_at};
pub use users::Users;

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// What a phase is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PhaseKind {
    /// Brings the server to its working state; its requests are not in the results.
    Warmup,
    /// The measurement.
    #[default]
    Profiling,
}

impl PhaseKind {
    /// `warmup` or `profiling`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warmup => "warmup",
            Self::Profiling => "profiling",
        }
    }
}

/// Progress of a phase: one consistent-enough view of its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PhaseStats {
    /// Which phase.
    pub phase: PhaseKind,
    /// Its index in the run.
    pub phase_index: u32,
    /// When it started.
    pub start: Nanos,
    /// When this view was taken; the phase's end once it has ended.
    pub now: Nanos,
    /// When the last request was sent, once no more will be.
    pub sent_end: Option<Nanos>,
    /// When the last request returned, once all have.
    pub requests_end: Option<Nanos>,
    /// Requests the phase will send, if that is its stop condition.
    pub total_expected_requests: Option<u64>,
    /// Seconds it will last, if that is its stop condition.
    pub expected_duration_seconds: Option<f64>,
    /// Sessions it will start, if that is its stop condition.
    pub expected_sessions: Option<u64>,
    /// Requests dispatched.
    pub requests_sent: u64,
    /// Requests that returned, with success or error, but were not cancelled.
    pub requests_completed: u64,
    /// Requests cancelled before they returned.
    pub requests_cancelled: u64,
    /// Requests that returned an error; part of `requests_completed`.
    pub request_errors: u64,
    /// Sessions started.
    pub sessions_sent: u64,
    /// Sessions that finished all their turns.
    pub sessions_completed: u64,
    /// Sessions cancelled before that.
    pub sessions_cancelled: u64,
    /// Turns sent.
    pub session_turns_total: u64,
    /// Whether the phase's duration ran out while requests were in flight.
    pub timeout_triggered: bool,
    /// Whether the grace period ran out as well.
    pub grace_timeout_triggered: bool,
    /// Whether the user cancelled the phase.
    pub was_cancelled: bool,
}

impl PhaseStats {
    /// Requests that await a response.
    #[must_use]
    pub const fn requests_in_flight(&self) -> u64 {
        self.requests_sent.saturating_sub(self.requests_completed + self.requests_cancelled)
    }

    /// Sessions with turns still to come.
    #[must_use]
    pub const fn sessions_in_flight(&self) -> u64 {
        self.sessions_sent.saturating_sub(self.sessions_completed + self.sessions_cancelled)
    }

    /// Seconds since the phase started.
    #[must_use]
    pub fn elapsed_seconds(&self) -> f64 {
        self.now.since(self.start).as_seconds()
    }

    /// Requests per second that were sent after the first: until the last, or for
    /// the whole duration where that ran out on requests without an answer, which
    /// may have held others back.
    #[must_use]
    pub fn send_rate(&self) -> Option<f64> {
        let until_last = self.sent_end?.since(self.start).as_seconds();
        let duration = self.expected_duration_seconds.filter(|_| self.timeout_triggered);
        let seconds = duration.map_or(until_last, |duration| duration.max(until_last));
        (seconds > 0.0 && self.requests_sent > 1).then(|| (self.requests_sent - 1) as f64 / seconds)
    }

    /// Progress in percent: the furthest of requests, time and sessions.
    #[must_use]
    pub fn progress_percent(&self) -> f64 {
        let returned = (self.requests_completed + self.requests_cancelled) as f64;
        let of = |done: f64, all: f64| if all > 0.0 { 100.0 * done / all } else { 0.0 };
        let requests = self.total_expected_requests.map_or(0.0, |all| of(returned, all as f64));
        let time =
            self.expected_duration_seconds.map_or(0.0, |all| of(self.elapsed_seconds(), all));
        let sessions = self.expected_sessions.map_or(0.0, |all| {
            of((self.sessions_completed + self.sessions_cancelled) as f64, all as f64)
        });
        requests.max(time).max(sessions).min(100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eleven requests, the last 2 s after the start, in a phase of 10 s.
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
        let held = PhaseStats { timeout_triggered: true, ..stats() };
        assert_eq!(held.send_rate(), Some(1.0));
        // Sent a little after the end: not a shorter time than it took.
        let late = PhaseStats { sent_end: Some(Nanos(25_000_000_000)), ..held };
        assert_eq!(late.send_rate(), Some(0.5));
    }

    #[test]
    fn one_request_has_no_rate() {
        assert_eq!(PhaseStats { requests_sent: 1, ..stats() }.send_rate(), None);
        assert_eq!(PhaseStats { sent_end: None, ..stats() }.send_rate(), None);
    }
}
