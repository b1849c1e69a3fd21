//! The schedule of a phase: everything that decides which request is sent when.

use base::units::Nanos;
use dataset::Seed;

use super::config::{LoadPattern, PhaseConfig, StopCondition};
use super::tenants::Superposed;
use super::{Arrivals, Budget, Cancellations, Line, Shard, Tenant, Users};

/// The schedule of a phase. Due times, session numbers and cancellations depend on indices and the
/// seed alone, and never on what happens during the run.
#[derive(Debug, Clone)]
pub struct Schedule {
    source: Source,
    /// Remaining requests and sessions.
    pub budget: Budget,
    /// Users of a user-centric load.
    pub users: Option<Users>,
    /// Requests that are cancelled on purpose.
    pub(crate) cancellations: Option<Cancellations>,
    /// Limit on sessions in flight.
    pub concurrency: Option<Line>,
    /// Limit on requests that wait for their first content.
    pub prefill_concurrency: Option<Line>,
}

/// Source of the arrivals.
#[derive(Debug, Clone)]
enum Source {
    /// No source: requests are due when a slot is free, or at the times of a user.
    None,
    Rate(Box<Arrivals>),
    /// The arrivals of several tenants.
    Tenants(Box<Superposed>),
    Trace {
        /// Due times of the sessions, in order.
        starts: Vec<Nanos>,
        /// Number of sessions of this shard so far.
        taken: u64,
        shard: Shard,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Due time since the phase's start.
    pub due: Nanos,
    /// The session to start, counted from the phase's first session. `None` starts the next session
    /// or serves a later turn.
    pub session: Option<u64>,
    /// Index of the tenant that it belongs to, if there are several.
    pub tenant: Option<usize>,
}

impl Schedule {
    /// Creates the whole schedule of a phase whose sessions are numbered from `first_session`.
    /// `starts` are the due times of the sessions of a fixed schedule, in order; `tenants` share the
    /// load, if there are any.
    #[must_use]
    pub fn new(
        config: &PhaseConfig,
        seed: Seed,
        first_session: u64,
        starts: Vec<Nanos>,
        tenants: &[Tenant],
    ) -> Self {
        let name = config.name();
        let source = match &config.load {
            LoadPattern::ClosedLoop | LoadPattern::UserCentric { .. } | LoadPattern::Agentic(_) => {
                Source::None
            }
            LoadPattern::Rate(rate) if !tenants.is_empty() => {
                Source::Tenants(Box::new(Superposed::new(rate, tenants, seed, name)))
            }
            LoadPattern::Rate(rate) => {
                let rng = seed.stream(&format!("timing.arrivals.{name}"));
                Source::Rate(Box::new(Arrivals::new(rate, rng)))
            }
            LoadPattern::FixedSchedule => Source::Trace { starts, taken: 0, shard: Shard::WHOLE },
        };
        let mut budget = Budget::new(&config.stop, first_session);
        if let LoadPattern::Agentic(_) = config.load {
            budget = budget.counts_on();
        }
        let users = match config.load {
            LoadPattern::UserCentric { rate, users } => {
                let stop = StopCondition { requests: None, ..config.stop };
                budget = Budget::new(&stop, first_session);
                Some(Users::new(rate, users, config.stop.requests))
            }
            _ => None,
        };
        Self {
            source,
            budget,
            users,
            cancellations: config.cancellation.map(|config| Cancellations::new(config, seed)),
            concurrency: config.concurrency.map(Line::new),
            prefill_concurrency: config.prefill_concurrency.map(Line::new),
        }
    }

    /// Restricts a schedule of which nothing has been taken yet to `shard`. All shards together are
    /// the whole schedule.
    #[must_use]
    pub fn shard(self, shard: Shard) -> Self {
        Self {
            source: match self.source {
                Source::None => Source::None,
                Source::Rate(arrivals) => Source::Rate(Box::new(arrivals.shard(shard))),
                Source::Tenants(all) => Source::Tenants(Box::new(all.shard(shard))),
                Source::Trace { starts, taken, .. } => Source::Trace { starts, taken, shard },
            },
            budget: self.budget.shard(shard),
            users: self.users.map(|users| users.shard(shard)),
            cancellations: self.cancellations,
            concurrency: self.concurrency.map(|line| line.shard(shard)),
            prefill_concurrency: self.prefill_concurrency.map(|line| line.shard(shard)),
        }
    }

    /// Changes the rate `at` this time after the start of the phase; arrivals that were already taken keep
    /// their times.
    pub(crate) fn change_rate(&mut self, at: Nanos, rate: f64) {
        if let Source::Rate(arrivals) = &mut self.source {
            arrivals.change_rate(at, rate);
        }
    }

    /// Returns the next arrival; `None` after the last, or for a load without arrival times.
    pub(crate) fn next_arrival(&mut self) -> Option<Arrival> {
        match &mut self.source {
            Source::None => None,
            Source::Rate(arrivals) => {
                Some(Arrival { due: arrivals.next_due(), session: None, tenant: None })
            }
            Source::Tenants(all) => {
                let (due, tenant) = all.next()?;
                Some(Arrival { due, session: None, tenant: Some(tenant) })
            }
            Source::Trace { starts, taken, shard } => {
                let session = shard.nth(*taken);
                let due = *starts.get(usize::try_from(session).ok()?)?;
                if !self.budget.may_start(Some(session)) {
                    return None;
                }
                *taken += 1;
                Some(Arrival { due, session: Some(session), tenant: None })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::PhaseKind;
    use super::super::config::{ArrivalPattern, Cancellation, Limit, Rate, RatePoint};
    use super::*;

    /// A request of a dataset with one turn per session: session, due time, and whether it is
    /// cancelled.
    type Sent = (u64, Option<Nanos>, bool);

    const STARTS: u64 = 60;

    fn starts() -> Vec<Nanos> {
        (0..STARTS).map(|index| Nanos(index * index)).collect()
    }

    /// Returns all requests that `schedule` sends, as the runner drives it.
    fn sent(mut schedule: Schedule) -> Vec<Sent> {
        let mut all = Vec::new();
        let cancellations = schedule.cancellations;
        let mut add = |number: u64, due: Option<Nanos>| {
            let is_given_up = cancellations.is_some_and(|c| c.delay(number, 0).is_some());
            all.push((number, due, is_given_up));
        };
        if let Some(users) = schedule.users {
            for user in users.iter() {
                for nth in 0.. {
                    let session = Some(users.session(user, nth));
                    let Some(due) = users.due(user, nth) else { break };
                    let Some(number) = schedule.budget.start(session) else { break };
                    add(number, Some(due));
                }
            }
        } else if matches!(schedule.source, Source::None) {
            while let Some(number) = schedule.budget.start(None) {
                add(number, None);
            }
        } else {
            while schedule.budget.may_start(None)
                && let Some(arrival) = schedule.next_arrival()
            {
                add(schedule.budget.start(arrival.session).unwrap(), Some(arrival.due));
            }
        }
        all
    }

    fn load() -> impl Strategy<Value = LoadPattern> {
        let pattern = prop_oneof![
            Just(ArrivalPattern::Constant),
            Just(ArrivalPattern::Poisson),
            (0.2f64..5.0).prop_map(|shape| ArrivalPattern::Gamma { shape }),
        ];
        let point = |(at, rate): (u64, f64)| RatePoint { at: Nanos(at * 1_000_000_000), rate };
        let points = prop_oneof![
            (0.1f64..1000.0).prop_map(move |rate| vec![point((0, rate))]),
            (0.1f64..100.0, 0.1f64..100.0)
                .prop_map(move |(first, last)| vec![point((1, first)), point((3, last))]),
        ];
        let ramp = prop::option::of((1u64..5).prop_map(|seconds| Nanos(seconds * 1_000_000_000)));
        prop_oneof![
            Just(LoadPattern::ClosedLoop),
            Just(LoadPattern::FixedSchedule),
            (0.1f64..100.0, 1u64..20)
                .prop_map(|(rate, users)| LoadPattern::UserCentric { rate, users }),
            (points, ramp, pattern).prop_map(|(points, ramp, pattern)| LoadPattern::Rate(Rate {
                points,
                ramp,
                pattern
            })),
        ]
    }

    proptest! {
        #[test]
        fn shards_together_are_the_whole(
            load in load(),
            seed: u64,
            first in 0u64..10,
            total in 1u64..STARTS,
            by_sessions: bool,
            percent in prop::option::of(1f64..100.0),
            count in 1u64..6,
        ) {
            let mut stop = StopCondition::default();
            *(if by_sessions { &mut stop.sessions } else { &mut stop.requests }) = Some(total);
            let phase = PhaseConfig {
                name: None,
                kind: PhaseKind::Profiling,
                seamless: false,
                dataset: 0,
                load,
                concurrency: Some(Limit::constant(8)),
                prefill_concurrency: None,
                stop,
                grace_period: None,
                cancellation: percent.map(|percent| Cancellation { percent, delay: Nanos(1) }),
                failed_request_threshold: None,
                end_failed_sessions: false,
                adaptive: None,
            };
            let schedule = || Schedule::new(&phase, Seed(seed), first, starts(), &[]);
            let whole = sent(schedule());
            prop_assert_eq!(whole.len() as u64, total);
            let mut parts: Vec<Sent> = (0..count)
                .flat_map(|index| sent(schedule().shard(Shard::new(index, count))))
                .collect();
            parts.sort_unstable();
            let numbers: BTreeSet<u64> = parts.iter().map(|(number, ..)| *number).collect();
            prop_assert_eq!(numbers.len(), parts.len(), "no session is sent twice");
            let mut whole = whole;
            whole.sort_unstable();
            prop_assert_eq!(parts, whole);
        }
    }
}
