//! The state of a phase that the workers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::sync::watch;

use base::lock::Lock;
use base::timer::Timer;
use base::units::Nanos;
use dataset::seed::Seed;
use dataset::{Conversation, Dataset, Sampler};

use super::dial::{Dial, InFlight};
use super::lanes::Lanes;
use super::progress::Counters;
use super::reach::{Reach, Rejection};
use super::slots::{Slot, Slots};
use crate::schedule::config::{Agentic, LoadPattern, PhaseConfig};
use crate::schedule::{
    Apportionment, Arrival, Cancellations, Control, PhaseKind, Schedule, Shard, Tenant, Users,
};
use crate::transport::Exchange;

/// How far a phase has been stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stop {
    /// The phase is not stopped.
    No,
    /// No more requests are sent; requests in flight may finish.
    Sending,
    /// Requests in flight are cancelled.
    Now,
}

/// Why a phase stops sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its duration is over.
    Duration,
    /// Enough is known of the measurement.
    Enough,
    /// The user interrupted the run, or it is aborted.
    Cut,
}

/// The source of the times at which requests are due.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pace {
    /// Free slots.
    Room,
    /// The arrivals of a rate, for first and later turns alike.
    Rate,
    /// The timestamps of the dataset.
    Trace,
    /// The times of the users.
    Users(Users),
    /// The times of recorded trees, which lanes replay.
    Lanes(Agentic),
}

/// The conversations that the sessions of a phase send.
#[derive(Debug)]
pub(super) struct Draws {
    /// The source of their conversations.
    pub(super) sampler: Sampler,
    /// Number of the phase's first session.
    pub(super) first_session: u64,
    /// Number of sessions of earlier phases that have drawn from the same part of the dataset.
    pub(super) drawn: u64,
}

/// A running phase, shared by the workers.
#[derive(Debug)]
pub(super) struct PhaseRun {
    pub(super) index: u32,
    pub(super) kind: PhaseKind,
    /// Whether the next phase does not wait for the last requests of this one.
    pub(super) is_seamless: bool,
    pub(super) counters: Arc<Counters>,
    pub(super) pace: Pace,
    /// The lanes of the run, if it has any.
    pub(super) lanes: Option<Arc<Lanes>>,
    pub(super) reach: Arc<Reach>,
    /// The process's share of the schedule.
    pub(super) shard: Shard,
    start: Nanos,
    draws: Draws,
    /// Index of the part of the dataset that it draws from.
    pub(super) dataset: usize,
    duration: Option<Nanos>,
    grace_period: Option<Nanos>,
    failed_request_threshold: Option<f64>,
    /// Whether a failed turn ends its session.
    pub(super) ends_failed_sessions: bool,
    least_returned: u64,
    schedule: Lock<Schedule>,
    cancellations: Option<Cancellations>,
    slots: Option<Arc<Slots>>,
    /// Which tenant gets the next slot of a closed loop.
    apportionment: Lock<Apportionment>,
    prefill_slots: Option<Arc<Slots>>,
    /// The quantity that the dial controls, if there is one.
    dial: Option<(Dial, Control)>,
    stop: watch::Sender<Stop>,
    /// Whether the conversation with which a lane begins failed before the measurement.
    has_failed_warmup: AtomicBool,
}

/// Number of requests that must return before the fraction of failed requests is meaningful.
const MIN_RETURNED: u64 = 10;

impl PhaseRun {
    /// Creates shard `shard` of the phase of index `index`, which started at the time in its
    /// counters and whose sessions send what `draws` has.
    /// `tenants` share its load, if there are any; `lanes` send it, or a `dial` sets it, if it has them.
    pub(super) fn new(
        (index, config): (u32, &PhaseConfig),
        (seed, shard): (Seed, Shard),
        counters: Arc<Counters>,
        draws: Draws,
        (dataset, tenants): (&Dataset, &[Tenant]),
        reach: Arc<Reach>,
        (lanes, dial): (Option<Arc<Lanes>>, Option<Dial>),
    ) -> Self {
        let starts = match config.load {
            LoadPattern::FixedSchedule => starts(dataset.part(config.dataset)),
            _ => Vec::new(),
        };
        let schedule =
            Schedule::new(config, seed, draws.first_session, starts, tenants).shard(shard);
        let pace = match (&config.load, schedule.users) {
            (LoadPattern::FixedSchedule, _) => Pace::Trace,
            (LoadPattern::Rate(_), _) => Pace::Rate,
            (LoadPattern::Agentic(agentic), _) => Pace::Lanes(*agentic),
            (_, Some(users)) => Pace::Users(users),
            (_, None) => Pace::Room,
        };
        let start = counters.start();
        let slots = |line| Arc::new(Slots::new(line, start));
        let control = config.adaptive.as_ref().map(|adaptive| adaptive.control);
        let run = Self {
            index,
            kind: config.kind,
            is_seamless: config.seamless,
            counters,
            pace,
            lanes,
            reach,
            shard,
            start,
            draws,
            dataset: config.dataset,
            duration: config.stop.duration,
            grace_period: config.grace_period,
            failed_request_threshold: config.failed_request_threshold,
            ends_failed_sessions: config.end_failed_sessions,
            least_returned: config
                .concurrency
                .map_or(0, |limit| shard.share(limit.most))
                .max(MIN_RETURNED),
            cancellations: schedule.cancellations,
            slots: schedule.concurrency.map(slots),
            apportionment: Lock::new(Apportionment::new(tenants)),
            prefill_slots: schedule.prefill_concurrency.map(slots),
            schedule: Lock::new(schedule),
            dial: dial.zip(control),
            stop: watch::Sender::new(Stop::No),
            has_failed_warmup: AtomicBool::new(false),
        };
        if let Some(dial) = run.dial() {
            run.set_level(dial.level(), start);
        }
        run
    }

    /// Returns the dial that sets the load, if it is adaptive.
    pub(super) fn dial(&self) -> Option<&Dial> {
        self.dial.as_ref().map(|(dial, _)| dial)
    }

    /// Sets what the dial controls to `level` from `now` on.
    pub(super) fn set_level(&self, level: f64, now: Nanos) {
        let limit = |slots: &Option<Arc<Slots>>| {
            if let Some(slots) = slots {
                slots.limit_to(level as u64, now);
            }
        };
        match self.dial.as_ref().map(|(_, control)| control) {
            Some(Control::Concurrency) => limit(&self.slots),
            Some(Control::PrefillConcurrency) => limit(&self.prefill_slots),
            Some(Control::RequestRate) => {
                self.schedule.lock().change_rate(now.since(self.start), level);
            }
            None => {}
        }
    }

    /// Counts a request that is about to be sent, if the load is adaptive.
    pub(super) fn enter(&self) -> Option<InFlight> {
        self.dial().map(Dial::enter)
    }

    /// Returns whether a session slot is to be given back, since the load was lowered.
    pub(super) fn has_surplus(&self) -> bool {
        self.dial.is_some() && self.slots.as_ref().is_some_and(|slots| slots.has_surplus())
    }

    /// Returns the next arrival; `None` after the last.
    pub(super) fn next_arrival(&self) -> Option<Arrival> {
        let arrival = self.schedule.lock().next_arrival()?;
        Some(Arrival { due: self.at(arrival.due), ..arrival })
    }

    /// Returns the instant `offset` after the phase's start.
    pub(super) fn at(&self, offset: Nanos) -> Nanos {
        self.start + offset
    }

    /// Returns the conversation of session `number`: the choice of the sampler, or on a fixed
    /// schedule the conversation that is next.
    pub(super) fn conversation(&self, number: u64) -> usize {
        let Draws { sampler, first_session, drawn } = &self.draws;
        let own = number.saturating_sub(*first_session);
        match self.pace {
            Pace::Trace => sampler.nth(own),
            _ => sampler.conversation(drawn + own),
        }
    }

    /// Returns how many session slots one of `workers` takes: its share, or if slots close and open again,
    /// any number.
    pub(super) fn slots_of_each(&self, workers: usize) -> u64 {
        let slots = self.slots.as_ref().filter(|_| self.dial.is_none());
        slots.map_or(u64::MAX, |slots| slots.of_each(workers))
    }

    /// Returns the tenant of the next slot of a closed loop, if tenants share the load.
    pub(super) fn tenant_of_slot(&self) -> Option<usize> {
        self.apportionment.lock().next()
    }

    /// Waits for a session slot; returns `None` if the phase stops sending first.
    pub(super) async fn slot(&self, timer: &Timer) -> Option<Slot> {
        self.take(self.slots.as_ref(), timer).await
    }

    /// Waits for a slot for the time to the first content of a request; returns `None` if the phase
    /// stops sending first.
    pub(super) async fn prefill_slot(&self, timer: &Timer) -> Option<Slot> {
        self.take(self.prefill_slots.as_ref(), timer).await
    }

    async fn take(&self, slots: Option<&Arc<Slots>>, timer: &Timer) -> Option<Slot> {
        let Some(slots) = slots else { return Some(Slot::default()) };
        tokio::select! {
            biased;
            slot = slots.take(timer) => Some(slot),
            () = self.stopped(Stop::Sending) => None,
        }
    }

    /// Waits until the instant `at`; returns whether the phase still sends then.
    pub(super) async fn wait_until(&self, at: Nanos, timer: &Timer) -> bool {
        tokio::select! {
            biased;
            () = timer.until(at) => self.stop() == Stop::No,
            () = self.stopped(Stop::Sending) => false,
        }
    }

    /// Returns the time between sending the request for this turn and cancelling it.
    pub(super) fn gives_up_after(&self, session: u64, turn: usize) -> Option<Nanos> {
        self.cancellations.as_ref()?.delay(session, turn)
    }

    /// Returns whether another session may start: the `nth` of the phase, or the next one.
    pub(super) fn may_start(&self, nth: Option<u64>) -> bool {
        self.stop() == Stop::No && self.schedule.lock().budget.may_start(nth)
    }

    /// Starts a session, the `nth` of the phase or the next one, and returns its number.
    pub(super) fn start_session(&self, nth: Option<u64>) -> Option<u64> {
        // Checked with the lock, so that none is numbered any more once the next phase numbers its own.
        let mut schedule = self.schedule.lock();
        if self.stop() > Stop::No { None } else { schedule.budget.start(nth) }
    }

    /// Takes a request for a later turn; returns whether one was left.
    pub(super) fn next_turn(&self) -> bool {
        self.stop() == Stop::No && self.schedule.lock().budget.next_turn()
    }

    /// Returns the number of the next phase's first session.
    pub(super) fn next_session(&self) -> u64 {
        self.schedule.lock().budget.next_session()
    }

    /// Returns how far the phase has been stopped.
    pub(super) fn stop(&self) -> Stop {
        *self.stop.borrow()
    }

    /// Waits until the phase has been stopped at least to `level`.
    pub(super) async fn stopped(&self, level: Stop) {
        // `self` owns the sender, so the channel cannot close during the wait.
        let _ = self.stop.subscribe().wait_for(|stop| *stop >= level).await;
    }

    /// Returns when sending ends because of the phase's duration.
    pub(super) fn sending_deadline(&self) -> Option<Nanos> {
        self.duration.map(|duration| self.start + duration)
    }

    /// Returns when requests in flight at `now` are cancelled.
    pub(super) fn grace_deadline(&self, now: Nanos) -> Option<Nanos> {
        self.grace_period.map(|grace| now + grace)
    }

    /// Records how the request of a session ended. If the server rejects all of them, no more are
    /// sent from now on.
    pub(super) fn observe(&self, server: usize, exchange: &Exchange) {
        if self.reach.observe(server, exchange) {
            self.stop_sending(Cause::Cut);
        }
    }

    /// Returns the reason to abort the run, as far as responses have been read: too many requests
    /// failed, the first ones were all rejected, or a closed loop never connected.
    pub(super) fn given_up(&self) -> Option<GivenUp> {
        if let Some(rejection) = self.reach.rejected() {
            return Some(GivenUp::Rejected(rejection));
        }
        if self.has_failed_warmup.load(Relaxed) {
            return Some(GivenUp::WarmupFailed);
        }
        if self.is_stuck() {
            return Some(GivenUp::WarmupStuck);
        }
        if self.is_closed_loop()
            && let Some(error) = self.reach.hopeless()
        {
            return Some(GivenUp::NeverConnected { reason: error.message });
        }
        let threshold = self.failed_request_threshold?;
        let (failed, returned) = self.counters.failures();
        let is_above = failed as f64 > threshold * returned as f64;
        (returned >= self.least_returned && is_above)
            .then_some(GivenUp::Failures { failed, returned })
    }

    /// Returns whether requests are sent as soon as a slot is free, and not at due times.
    pub(super) const fn is_closed_loop(&self) -> bool {
        matches!(self.pace, Pace::Room | Pace::Lanes(_))
    }

    /// Aborts the run, since what a lane has to send before the measurement failed.
    pub(super) fn warmup_failed(&self) {
        self.has_failed_warmup.store(true, Relaxed);
    }

    /// Returns whether the requests that prepare the server for lanes do not return.
    fn is_stuck(&self) -> bool {
        let grace = self.grace_period.filter(|_| self.asks_for_one_token());
        let idle = |grace| self.counters.waits_longer_than(grace);
        grace.is_some_and(idle)
    }

    /// Stops sending.
    pub(super) fn stop_sending(&self, cause: Cause) {
        self.raise(Stop::Sending);
        match cause {
            Cause::Duration => self.counters.set_timeout(),
            Cause::Enough => {}
            Cause::Cut => self.counters.set_cancelled(),
        }
    }

    /// Cancels requests in flight, because the grace period is over or the user aborted the run.
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

/// Reason to abort a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GivenUp {
    /// Too many of the returned requests failed.
    Failures { failed: u64, returned: u64 },
    /// No connection succeeded.
    NeverConnected { reason: String },
    /// The first requests were all rejected.
    Rejected(Rejection),
    /// A request failed that prepares the server for a lane.
    WarmupFailed,
    /// The requests that prepare the server for lanes did not return within the grace period.
    WarmupStuck,
}

/// Returns the due times of the conversations of a fixed schedule, in order.
fn starts(conversations: &[Conversation]) -> Vec<Nanos> {
    let first = |turns: &[dataset::Turn]| turns.first().and_then(|turn| turn.timestamp);
    conversations.iter().map(|found| first(&found.turns).unwrap_or_default()).collect()
}
