//! A phase as the workers share it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::progress::Counters;
use crate::dataset::seed::Seed;
use crate::schedule::config::PhaseConfig;
use crate::schedule::{Arrivals, Budget, PhaseKind};
use crate::units::Nanos;

/// How far a phase has been told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stop {
    /// Not at all.
    No,
    /// Send no more; what is in flight may finish.
    Sending,
    /// Cancel what is in flight.
    Now,
}

/// A running phase.
#[derive(Debug)]
pub(super) struct PhaseRun {
    pub(super) index: u32,
    pub(super) kind: PhaseKind,
    pub(super) counters: Arc<Counters>,
    start: Nanos,
    duration: Option<Nanos>,
    grace_period: Option<Nanos>,
    arrivals: Option<Mutex<Arrivals>>,
    budget: Mutex<Budget>,
    slots: Option<Arc<Semaphore>>,
    stop: watch::Sender<Stop>,
}

impl PhaseRun {
    /// The phase of index `index`, started when its counters say.
    pub(super) fn new(
        index: u32,
        config: &PhaseConfig,
        seed: Seed,
        counters: Arc<Counters>,
        first_session: u64,
    ) -> Self {
        let arrivals = config.rate.map(|rate| {
            let rng = seed.stream(&format!("timing.arrivals.{}", config.kind.as_str()));
            Mutex::new(Arrivals::new(config.arrival, rate, config.smoothness, rng))
        });
        let slots = config.concurrency.map(|slots| {
            let slots = usize::try_from(slots).unwrap_or(usize::MAX);
            Arc::new(Semaphore::new(slots.min(Semaphore::MAX_PERMITS)))
        });
        Self {
            index,
            kind: config.kind,
            start: counters.start(),
            counters,
            duration: config.stop.duration,
            grace_period: config.grace_period,
            arrivals,
            budget: Mutex::new(Budget::new(&config.stop, first_session)),
            slots,
            stop: watch::Sender::new(Stop::No),
        }
    }

    /// Whether sends are due at times, rather than whenever there is room.
    pub(super) const fn is_open_loop(&self) -> bool {
        self.arrivals.is_some()
    }

    /// The next due time; `None` in a closed loop.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        let arrivals = self.arrivals.as_ref()?;
        Some(self.start + lock(arrivals).next_due())
    }

    /// A concurrency slot, once there is one; `None` inside where nothing bounds
    /// the concurrency, outside when the phase stops sending first.
    pub(super) async fn slot(&self) -> Option<Option<OwnedSemaphorePermit>> {
        let Some(slots) = &self.slots else { return Some(None) };
        if let Ok(permit) = Arc::clone(slots).try_acquire_owned() {
            return Some(Some(permit));
        }
        tokio::select! {
            permit = Arc::clone(slots).acquire_owned() => permit.ok().map(Some),
            () = self.stopped(Stop::Sending) => None,
        }
    }

    /// Whether another session may start.
    pub(super) fn may_start(&self) -> bool {
        self.stop() == Stop::No && lock(&self.budget).may_start()
    }

    /// Starts a session: its number.
    pub(super) fn start_session(&self) -> Option<u64> {
        if self.stop() > Stop::No {
            return None;
        }
        lock(&self.budget).start_session()
    }

    /// Takes a request for a later turn; whether there was one.
    pub(super) fn next_turn(&self) -> bool {
        self.stop() == Stop::No && lock(&self.budget).next_turn()
    }

    /// The number that the next session would have.
    pub(super) fn next_session(&self) -> u64 {
        lock(&self.budget).next_session()
    }

    /// How far the phase has been told to end.
    pub(super) fn stop(&self) -> Stop {
        *self.stop.borrow()
    }

    /// Waits until the phase has been told to end as far as `level`.
    pub(super) async fn stopped(&self, level: Stop) {
        // The sender is in `self`, so the channel cannot close meanwhile.
        let _ = self.stop.subscribe().wait_for(|stop| *stop >= level).await;
    }

    /// When sending ends by the phase's own duration.
    pub(super) fn sending_deadline(&self) -> Option<Nanos> {
        self.duration.map(|duration| self.start + duration)
    }

    /// When requests in flight at `now` are cancelled.
    pub(super) fn grace_deadline(&self, now: Nanos) -> Option<Nanos> {
        self.grace_period.map(|grace| now + grace)
    }

    /// Sends no more: the duration is over, or the user wishes it.
    pub(super) fn stop_sending(&self, by_user: bool) {
        self.raise(Stop::Sending);
        if by_user {
            self.counters.set_cancelled();
        } else if self.counters.in_flight() > 0 {
            self.counters.set_timeout();
        }
    }

    /// Cancels what is in flight: the grace period is over, or the user wishes it.
    pub(super) fn abort(&self, by_grace_period: bool) {
        self.raise(Stop::Now);
        if by_grace_period {
            self.counters.set_grace_timeout();
        } else {
            self.counters.set_cancelled();
        }
    }

    fn raise(&self, level: Stop) {
        self.stop.send_if_modified(|stop| {
            let rises = *stop < level;
            *stop = (*stop).max(level);
            rises
        });
    }
}

/// Locks; a panic elsewhere leaves plain numbers that are still right.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
