//! Counters of each phase, read while it runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::schedule::config::PhaseConfig;
use crate::schedule::{PhaseKind, PhaseStats};
use crate::units::{Clock, Nanos};

/// The counters of all phases of a run.
#[derive(Debug)]
pub struct Progress {
    phases: Vec<Arc<Counters>>,
}

impl Progress {
    /// Counters for `phases`, all at zero.
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
        Self { phases: phases.iter().enumerate().map(counters).collect() }
    }

    /// The counters of the phase of index `index`.
    #[must_use]
    pub fn phase(&self, index: usize) -> Option<&Arc<Counters>> {
        self.phases.get(index)
    }

    /// A view of every phase that has started, in order.
    #[must_use]
    pub fn snapshots(&self) -> Vec<PhaseStats> {
        self.phases.iter().filter_map(|counters| counters.snapshot()).collect()
    }

    pub(super) fn start(&self, index: usize, now: Nanos) -> Arc<Counters> {
        let counters = Arc::clone(&self.phases[index]);
        // A phase starts once.
        let _ = counters.start.set(now);
        let _ = counters.cpu_at_start.set(Clock::process_cpu());
        counters
    }

    pub(super) fn finish(&self, index: usize, now: Nanos) {
        let counters = &self.phases[index];
        let _ = counters.end.set(now);
        let before = counters.cpu_at_start.get().copied().unwrap_or_default();
        counters.cpu().process =
            share(Clock::process_cpu().since(before), now.since(counters.start()));
    }
}

/// Processor time over wall time in a phase: 1 is one core, fully used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CpuShares {
    /// Of each worker that has ended the phase.
    pub workers: Vec<f64>,
    /// Of the whole program; 0 before the phase has ended.
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
    completed: AtomicU64,
    cancelled: AtomicU64,
    errors: AtomicU64,
    peak_in_flight: AtomicU64,
    sessions_sent: AtomicU64,
    sessions_completed: AtomicU64,
    sessions_cancelled: AtomicU64,
    timeout: AtomicBool,
    grace_timeout: AtomicBool,
    was_cancelled: AtomicBool,
    cpu_at_start: OnceLock<Nanos>,
    cpu: Mutex<CpuShares>,
}

impl Counters {
    /// Counts a request that failed: called where responses are read, since
    /// failures inside a response of status 200 show only there.
    pub fn add_error(&self) {
        self.errors.fetch_add(1, Relaxed);
    }

    /// Most requests in flight at once.
    #[must_use]
    pub fn peak_in_flight(&self) -> u64 {
        self.peak_in_flight.load(Relaxed)
    }

    /// How busy workers and program were.
    #[must_use]
    pub fn cpu_shares(&self) -> CpuShares {
        self.cpu().clone()
    }

    /// A view of the counters; `None` before the phase has started.
    #[must_use]
    pub fn snapshot(&self) -> Option<PhaseStats> {
        let start = *self.start.get()?;
        let end = self.end.get().copied();
        let instant = |stamp: &AtomicU64| Some(Nanos(stamp.load(Relaxed))).filter(|at| at.0 > 0);
        // Returned before sent: requests in flight are never seen negative.
        let (completed, cancelled) = (self.completed.load(Relaxed), self.cancelled.load(Relaxed));
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
            requests_completed: completed,
            requests_cancelled: cancelled,
            request_errors: self.errors.load(Relaxed),
            sessions_sent: self.sessions_sent.load(Relaxed),
            sessions_completed: self.sessions_completed.load(Relaxed),
            sessions_cancelled: self.sessions_cancelled.load(Relaxed),
            session_turns_total: sent,
            timeout_triggered: self.timeout.load(Relaxed),
            grace_timeout_triggered: self.grace_timeout.load(Relaxed),
            was_cancelled: self.was_cancelled.load(Relaxed),
        })
    }

    /// Notes that a worker has used `used` of the time since `begin`.
    pub(super) fn add_worker_cpu(&self, used: Nanos, begin: Nanos) {
        let share = share(used, Clock::now().since(begin));
        self.cpu().workers.push(share);
    }

    fn cpu(&self) -> MutexGuard<'_, CpuShares> {
        self.cpu.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn start(&self) -> Nanos {
        self.start.get().copied().unwrap_or_default()
    }

    /// Requests that failed, as far as responses have been read, and requests
    /// that returned.
    pub(super) fn failures(&self) -> (u64, u64) {
        (self.errors.load(Relaxed), self.completed.load(Relaxed))
    }

    pub(super) fn in_flight(&self) -> u64 {
        let returned = self.completed.load(Relaxed) + self.cancelled.load(Relaxed);
        self.sent.load(Relaxed).saturating_sub(returned)
    }

    pub(super) fn request_sent(&self, at: Nanos) {
        self.sent.fetch_add(1, Relaxed);
        self.last_sent.fetch_max(at.0, Relaxed);
        self.peak_in_flight.fetch_max(self.in_flight(), Relaxed);
    }

    pub(super) fn request_returned(&self, at: Nanos, was_cancelled: bool) {
        let counter = if was_cancelled { &self.cancelled } else { &self.completed };
        counter.fetch_add(1, Relaxed);
        self.last_returned.fetch_max(at.0, Relaxed);
    }

    pub(super) fn session_started(&self) {
        self.sessions_sent.fetch_add(1, Relaxed);
    }

    pub(super) fn session_ended(&self, is_complete: bool) {
        let counter = if is_complete { &self.sessions_completed } else { &self.sessions_cancelled };
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn set_timeout(&self) {
        self.timeout.store(true, Relaxed);
    }

    pub(super) fn set_grace_timeout(&self) {
        self.grace_timeout.store(true, Relaxed);
    }

    pub(super) fn set_cancelled(&self) {
        self.was_cancelled.store(true, Relaxed);
    }
}

/// `used` of `elapsed`; 0 of no time at all.
fn share(used: Nanos, elapsed: Nanos) -> f64 {
    if elapsed > Nanos::ZERO { used.as_seconds() / elapsed.as_seconds() } else { 0.0 }
}
