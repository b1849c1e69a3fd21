//! A phase as the workers share it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, watch};

use super::progress::Counters;
use super::slots::Slots;
use super::timer::Timer;
use crate::dataset::seed::Seed;
use crate::dataset::{Dataset, Sampler};
use crate::schedule::config::{LoadPattern, PhaseConfig};
use crate::schedule::{Arrival, Cancellations, PhaseKind, Schedule, Shard, Users};
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

/// What makes sends due.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pace {
    /// Room for them.
    Room,
    /// The arrivals of a rate: for first turns and later ones alike.
    Rate,
    /// The times of the dataset.
    Trace,
    /// The users' own times.
    Users(Users),
}

/// A running phase.
#[derive(Debug)]
pub(super) struct PhaseRun {
    pub(super) index: u32,
    pub(super) kind: PhaseKind,
    pub(super) counters: Arc<Counters>,
    pub(super) pace: Pace,
    start: Nanos,
    first_session: u64,
    duration: Option<Nanos>,
    grace_period: Option<Nanos>,
    failed_request_threshold: Option<f64>,
    least_returned: u64,
    schedule: Mutex<Schedule>,
    cancellations: Option<Cancellations>,
    slots: Option<Slots>,
    prefill_slots: Option<Slots>,
    stop: watch::Sender<Stop>,
}

/// A slot, as long as it is held.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Absent where nothing bounds them.
    pub(super) permit: Option<OwnedSemaphorePermit>,
    /// When it was had, if it had to be waited for; else zero.
    pub(super) free_from: Nanos,
}

/// Requests that have to return before a share of failed ones means something.
const LEAST_RETURNED: u64 = 10;

impl PhaseRun {
    /// The part `shard` of the phase of index `index`, started when its counters
    /// say, whose sessions count from `first_session`.
    pub(super) fn new(
        index: u32,
        config: &PhaseConfig,
        (seed, shard): (Seed, Shard),
        counters: Arc<Counters>,
        first_session: u64,
        dataset: &Dataset,
    ) -> Self {
        let starts = match config.load {
            LoadPattern::FixedSchedule => starts(dataset),
            _ => Vec::new(),
        };
        let schedule = Schedule::new(config, seed, first_session, starts).shard(shard);
        let pace = match (&config.load, schedule.users) {
            (LoadPattern::FixedSchedule, _) => Pace::Trace,
            (LoadPattern::Rate(_), _) => Pace::Rate,
            (_, Some(users)) => Pace::Users(users),
            (_, None) => Pace::Room,
        };
        let start = counters.start();
        let slots = |line| Slots::new(line, start);
        Self {
            index,
            kind: config.kind,
            counters,
            pace,
            start,
            first_session,
            duration: config.stop.duration,
            grace_period: config.grace_period,
            failed_request_threshold: config.failed_request_threshold,
            least_returned: config
                .concurrency
                .map_or(0, |limit| shard.share(limit.most))
                .max(LEAST_RETURNED),
            cancellations: schedule.cancellations,
            slots: schedule.concurrency.map(slots),
            prefill_slots: schedule.prefill_concurrency.map(slots),
            schedule: Mutex::new(schedule),
            stop: watch::Sender::new(Stop::No),
        }
    }

    /// What is due next; `None` when nothing more will be.
    pub(super) fn next_arrival(&self) -> Option<Arrival> {
        let arrival = self.schedule().next_arrival()?;
        Some(Arrival { due: self.at(arrival.due), ..arrival })
    }

    /// The instant that is `offset` after the phase's start.
    pub(super) fn at(&self, offset: Nanos) -> Nanos {
        self.start + offset
    }

    /// The conversation of session `number`: the sampler's, or on a fixed
    /// schedule the one whose turn it is.
    pub(super) fn conversation(&self, number: u64, sampler: &Sampler) -> usize {
        match self.pace {
            Pace::Trace => number.saturating_sub(self.first_session) as usize,
            _ => sampler.conversation(number),
        }
    }

    /// A slot for a session; `None` when the phase stops sending first.
    pub(super) async fn slot(&self, timer: &Timer) -> Option<Slot> {
        self.take(self.slots.as_ref(), timer).await
    }

    /// A slot for a request's time to its first content; `None` when the phase
    /// stops sending first.
    pub(super) async fn prefill_slot(&self, timer: &Timer) -> Option<Slot> {
        self.take(self.prefill_slots.as_ref(), timer).await
    }

    async fn take(&self, slots: Option<&Slots>, timer: &Timer) -> Option<Slot> {
        let Some(slots) = slots else { return Some(Slot::default()) };
        tokio::select! {
            biased;
            slot = slots.take(timer) => Some(slot),
            () = self.stopped(Stop::Sending) => None,
        }
    }

    /// Waits until the instant `at`; whether sending goes on then.
    pub(super) async fn wait_until(&self, at: Nanos, timer: &Timer) -> bool {
        tokio::select! {
            biased;
            () = timer.until(at) => self.stop() == Stop::No,
            () = self.stopped(Stop::Sending) => false,
        }
    }

    /// How long after it is fully sent the request for this turn is given up.
    pub(super) fn gives_up_after(&self, session: u64, turn: usize) -> Option<Nanos> {
        self.cancellations.as_ref()?.delay(session, turn)
    }

    /// Whether another session may start: the `nth` of the phase, or the next.
    pub(super) fn may_start(&self, nth: Option<u64>) -> bool {
        self.stop() == Stop::No && self.schedule().budget.may_start(nth)
    }

    /// Starts a session: the `nth` of the phase, or the next. Its number.
    pub(super) fn start_session(&self, nth: Option<u64>) -> Option<u64> {
        if self.stop() > Stop::No {
            return None;
        }
        self.schedule().budget.start(nth)
    }

    /// Takes a request for a later turn; whether there was one.
    pub(super) fn next_turn(&self) -> bool {
        self.stop() == Stop::No && self.schedule().budget.next_turn()
    }

    /// The number that the next phase's first session has.
    pub(super) fn next_session(&self) -> u64 {
        self.schedule().budget.next_session()
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

    /// Whether so many requests failed that the run is to be given up, as far
    /// as the responses have been read.
    pub(super) fn has_failed(&self) -> Option<FailedShare> {
        let threshold = self.failed_request_threshold?;
        let (failed, returned) = self.counters.failures();
        let is_above = failed as f64 > threshold * returned as f64;
        (returned >= self.least_returned && is_above).then_some(FailedShare { failed, returned })
    }

    /// Sends no more: the duration is over, or somebody wishes it.
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

    /// A panic elsewhere leaves plain numbers that are still right.
    fn schedule(&self) -> std::sync::MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests that failed, of those that returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FailedShare {
    pub(super) failed: u64,
    pub(super) returned: u64,
}

/// Due times of the conversations of a fixed schedule, in their order.
fn starts(dataset: &Dataset) -> Vec<Nanos> {
    let first = |turns: &[crate::dataset::Turn]| turns.first().and_then(|turn| turn.timestamp);
    dataset.conversations.iter().map(|found| first(&found.turns).unwrap_or_default()).collect()
}
