//! Counters of each phase, which can be read during the phase.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use base::lock::Lock;
use base::units::{Clock, Nanos};

use crate::record::{ErrorKind, RequestError, TurnId};
use crate::schedule::agentic::LaneCounts;
use crate::schedule::config::PhaseConfig;
use crate::schedule::{BranchStats, PhaseKind, PhaseStats, ReplayStats};

/// The counters of all phases of a run.
#[derive(Debug)]
pub struct Progress {
    phases: Vec<Arc<Counters>>,
    names: Vec<Arc<str>>,
}

impl Progress {
    /// Creates counters for `phases`, all at zero.
    #[must_use]
    pub fn new(phases: &[PhaseConfig]) -> Self {
        let counters = |(index, phase): (usize, &PhaseConfig)| {
            Arc::new(Counters {
                phase: phase.kind,
                phase_index: index as u32,
                expected_requests: phase.stop.requests,
                expected_duration_seconds: phase.stop.duration.map(Nanos::as_seconds),
                expected_sessions: phase.stop.sessions,
                ..Counters::default()
            })
        };
        Self {
            phases: phases.iter().enumerate().map(counters).collect(),
            names: phases.iter().map(|phase| phase.name().into()).collect(),
        }
    }

    /// Returns the counters of the phase of index `index`.
    #[must_use]
    pub fn phase(&self, index: usize) -> Option<&Arc<Counters>> {
        self.phases.get(index)
    }

    /// Returns the name of the phase that `stats` are of.
    #[must_use]
    pub fn name(&self, stats: &PhaseStats) -> &str {
        let name = self.names.get(stats.phase_index as usize);
        name.map_or(stats.phase.as_str(), |name| name)
    }

    /// Returns a view of every phase that has started, in order.
    #[must_use]
    pub fn snapshots(&self) -> Vec<PhaseStats> {
        self.phases.iter().filter_map(|counters| counters.snapshot()).collect()
    }

    pub(super) fn start(&self, index: usize, now: Nanos) -> Arc<Counters> {
        let counters = Arc::clone(&self.phases[index]);
        // A phase starts only once.
        let _ = counters.start.set(now);
        let _ = counters.cpu_at_start.set(Clock::process_cpu());
        counters
    }

    pub(super) fn finish(&self, index: usize, now: Nanos) {
        let counters = &self.phases[index];
        let _ = counters.end.set(now);
        let before = counters.cpu_at_start.get().copied().unwrap_or_default();
        counters.cpu.lock().process =
            share(Clock::process_cpu().since(before), now.since(counters.start()));
    }
}

/// Processor time divided by wall time in a phase; 1 is one fully used core.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CpuShares {
    /// The value of each worker that has ended the phase.
    pub workers: Vec<f64>,
    /// The value of the whole process; 0 before the phase has ended.
    pub process: f64,
}

/// The counters of one phase.
#[derive(Debug, Default)]
pub struct Counters {
    phase: PhaseKind,
    phase_index: u32,
    expected_requests: Option<u64>,
    expected_duration_seconds: Option<f64>,
    expected_sessions: Option<u64>,
    start: OnceLock<Nanos>,
    end: OnceLock<Nanos>,
    last_sent: AtomicU64,
    last_returned: AtomicU64,
    sent: AtomicU64,
    /// Requests that ended with any outcome.
    returned: AtomicU64,
    cancelled: AtomicU64,
    completed: AtomicU64,
    errors: AtomicU64,
    peak_in_flight: AtomicU64,
    held_back: AtomicU64,
    /// Time for which slots of a closed loop were open, together, in nanoseconds.
    slot_time: AtomicU64,
    /// Only conversations of trees are counted here, each at its end.
    branches: Lock<BranchStats>,
    /// Only requests of lanes are counted here.
    replay: Lock<ReplayStats>,
    /// The present state of the lanes.
    lanes: Lock<LaneCounts>,
    sessions_sent: AtomicU64,
    sessions_completed: AtomicU64,
    sessions_failed: AtomicU64,
    sessions_cancelled: AtomicU64,
    timeout: AtomicBool,
    timeout_in_flight: AtomicBool,
    grace_timeout: AtomicBool,
    was_cancelled: AtomicBool,
    cpu_at_start: OnceLock<Nanos>,
    cpu: Lock<CpuShares>,
}

impl Counters {
    /// Counts the outcome of the request of `turn`, and the session if it ended with this turn. It
    /// is called after the response has been read, since a response with status 200 can contain a
    /// failure. Cancelled requests were already counted when they returned. Of a request that is left out of
    /// all metrics, only the session counts.
    pub fn measured(&self, turn: &TurnId, error: Option<&RequestError>, is_left_out: bool) {
        let is_cancelled = error.is_some_and(|error| error.kind == ErrorKind::Cancelled);
        let (request, session) = match error {
            None => (Some(&self.completed), &self.sessions_completed),
            Some(_) if is_cancelled => (None, &self.sessions_cancelled),
            Some(_) => (Some(&self.errors), &self.sessions_failed),
        };
        if let Some(request) = request.filter(|_| !is_left_out) {
            request.fetch_add(1, Relaxed);
        }
        if turn.is_final {
            session.fetch_add(1, Relaxed);
        }
    }

    /// Returns the maximum number of requests in flight.
    #[must_use]
    pub fn peak_in_flight(&self) -> u64 {
        self.peak_in_flight.load(Relaxed)
    }

    /// Returns the number of requests that were held back because no connection could be
    /// established.
    #[must_use]
    pub fn sends_held_back(&self) -> u64 {
        self.held_back.load(Relaxed)
    }

    /// Returns the time for which slots of a closed loop were open, together; zero in other loads.
    #[must_use]
    pub fn slot_time(&self) -> Nanos {
        Nanos(self.slot_time.load(Relaxed))
    }

    /// Returns what became of the conversations that others started.
    #[must_use]
    pub fn branches(&self) -> BranchStats {
        *self.branches.lock()
    }

    /// Counts what happened to a conversation of a tree.
    pub(super) fn count_branch(&self, count: impl FnOnce(&mut BranchStats)) {
        count(&mut self.branches.lock());
    }

    /// Returns how lanes followed the recorded run; `None` without lanes.
    #[must_use]
    pub fn replay(&self) -> Option<ReplayStats> {
        Some(self.replay.lock().summarized()).filter(|stats| stats.lanes > 0)
    }

    /// Counts what a lane did.
    pub(super) fn count_replay(&self, count: impl FnOnce(&mut ReplayStats)) {
        count(&mut self.replay.lock());
    }

    /// Counts what lanes do now.
    pub(super) fn count_lanes(&self, count: impl FnOnce(&mut LaneCounts)) {
        count(&mut self.lanes.lock());
    }

    /// Returns the processor usage of the workers and the process.
    #[must_use]
    pub fn cpu_shares(&self) -> CpuShares {
        self.cpu.lock().clone()
    }

    /// Returns a view of the counters; `None` before the phase has started.
    #[must_use]
    pub fn snapshot(&self) -> Option<PhaseStats> {
        let start = *self.start.get()?;
        let end = self.end.get().copied();
        let instant = |stamp: &AtomicU64| Some(Nanos(stamp.load(Relaxed))).filter(|at| at.0 > 0);
        // Read before the sent requests, so that the requests in flight are never negative.
        let returned = self.returned.load(Relaxed);
        let sent = self.sent.load(Relaxed);
        Some(PhaseStats {
            phase: self.phase,
            phase_index: self.phase_index,
            start,
            now: end.unwrap_or_else(Clock::now),
            sent_end: end.and_then(|_| instant(&self.last_sent)),
            requests_end: end.and_then(|_| instant(&self.last_returned)),
            total_expected_requests: self.expected_requests,
            expected_duration_seconds: self.expected_duration_seconds,
            expected_sessions: self.expected_sessions,
            requests_sent: sent,
            requests_returned: returned,
            requests_completed: self.completed.load(Relaxed),
            requests_cancelled: self.cancelled.load(Relaxed),
            request_errors: self.errors.load(Relaxed),
            sessions_sent: self.sessions_sent.load(Relaxed),
            sessions_completed: self.sessions_completed.load(Relaxed),
            sessions_failed: self.sessions_failed.load(Relaxed),
            sessions_cancelled: self.sessions_cancelled.load(Relaxed),
            session_turns_total: sent,
            lanes: self.lanes.lock().load(),
            timeout_triggered: self.timeout.load(Relaxed),
            timeout_in_flight: self.timeout_in_flight.load(Relaxed),
            grace_timeout_triggered: self.grace_timeout.load(Relaxed),
            was_cancelled: self.was_cancelled.load(Relaxed),
        })
    }

    /// Adds the time for which a slot of a closed loop was open.
    pub(super) fn slot_held(&self, time: Nanos) {
        self.slot_time.fetch_add(time.0, Relaxed);
    }

    /// Adds the processor time `used` of a worker since `begin`.
    pub(super) fn add_worker_cpu(&self, used: Nanos, begin: Nanos) {
        let share = share(used, Clock::now().since(begin));
        self.cpu.lock().workers.push(share);
    }

    pub(super) fn start(&self) -> Nanos {
        self.start.get().copied().unwrap_or_default()
    }

    /// Returns the number of failed requests and of all requests whose responses have been read,
    /// both without cancelled requests.
    pub(super) fn failures(&self) -> (u64, u64) {
        let failed = self.errors.load(Relaxed);
        (failed, failed + self.completed.load(Relaxed))
    }

    /// Returns whether requests are in flight and the last one was sent longer ago than this.
    pub(super) fn waits_longer_than(&self, time: Nanos) -> bool {
        let last = Nanos(self.last_sent.load(Relaxed));
        self.in_flight() > 0 && Clock::now().since(last) > time
    }

    fn in_flight(&self) -> u64 {
        self.sent.load(Relaxed).saturating_sub(self.returned.load(Relaxed))
    }

    pub(super) fn request_sent(&self, at: Nanos) {
        self.sent.fetch_add(1, Relaxed);
        self.last_sent.fetch_max(at.0, Relaxed);
        self.peak_in_flight.fetch_max(self.in_flight(), Relaxed);
    }

    pub(super) fn request_returned(&self, at: Nanos, was_cancelled: bool) {
        if was_cancelled {
            self.cancelled.fetch_add(1, Relaxed);
        }
        self.returned.fetch_add(1, Relaxed);
        self.last_returned.fetch_max(at.0, Relaxed);
    }

    pub(super) fn held_back(&self) {
        self.held_back.fetch_add(1, Relaxed);
    }

    pub(super) fn session_started(&self) {
        self.sessions_sent.fetch_add(1, Relaxed);
    }

    /// Counts a session whose turns were not all sent before the end of the phase.
    pub(super) fn session_cut_short(&self) {
        self.sessions_cancelled.fetch_add(1, Relaxed);
    }

    pub(super) fn set_timeout(&self) {
        self.timeout.store(true, Relaxed);
        self.timeout_in_flight.store(self.in_flight() > 0, Relaxed);
    }

    pub(super) fn set_grace_timeout(&self) {
        self.grace_timeout.store(true, Relaxed);
    }

    pub(super) fn set_cancelled(&self) {
        self.was_cancelled.store(true, Relaxed);
    }
}

/// Returns `used` divided by `elapsed`; 0 if no time has elapsed.
fn share(used: Nanos, elapsed: Nanos) -> f64 {
    if elapsed > Nanos::ZERO { used.as_seconds() / elapsed.as_seconds() } else { 0.0 }
}
