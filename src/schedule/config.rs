//! What the load is: phases, each with its pattern and its end. Plain data.

use super::{PhaseKind, Shard, Users};
use crate::units::Nanos;

/// The phases of a run, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// An optional warmup, then the measurement.
    pub phases: Vec<PhaseConfig>,
    /// How the times that a dataset brings are used.
    pub replay: Replay,
    /// The part of it that this process drives, where it is one of several.
    pub shard: Option<Shard>,
    /// When the first phase starts, in nanoseconds since the epoch; `None` is as
    /// soon as all is ready.
    pub start_at: Option<u64>,
}

impl Config {
    /// The phases as this process is to drive them, with its share of what is
    /// counted.
    #[must_use]
    pub fn own_phases(&self) -> Vec<PhaseConfig> {
        let shard = self.shard.unwrap_or(Shard::WHOLE);
        self.phases.iter().map(|phase| phase.share(shard)).collect()
    }

    /// Whether the measurement sends what a trace says, when it says it.
    #[must_use]
    pub fn is_fixed_schedule(&self) -> bool {
        self.phases.last().is_some_and(|phase| phase.load == LoadPattern::FixedSchedule)
    }
}

/// One phase.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseConfig {
    /// What it is for.
    pub kind: PhaseKind,
    /// How sends become due.
    pub load: LoadPattern,
    /// Sessions in flight at most; `None` sets no bound.
    pub concurrency: Option<Limit>,
    /// Requests that wait for their first content at most; `None` sets no bound.
    pub prefill_concurrency: Option<Limit>,
    /// When no more requests are sent.
    pub stop: StopCondition,
    /// How long requests in flight may still take once the duration is over;
    /// `None` waits for them as long as each may take by itself.
    pub grace_period: Option<Nanos>,
    /// Requests that are given up on purpose.
    pub cancellation: Option<Cancellation>,
    /// Share of failed requests, from 0 to 1, above which the run is given up.
    pub failed_request_threshold: Option<f64>,
}

impl PhaseConfig {
    /// Requests a second that it asks for from its start to its end; absent
    /// where the rate changes, or nothing says one.
    #[must_use]
    pub fn steady_rate(&self) -> Option<f64> {
        match &self.load {
            LoadPattern::Rate(Rate { points, ramp: None, .. }) => match points.as_slice() {
                [only] => Some(only.rate),
                _ => None,
            },
            LoadPattern::UserCentric { rate, .. } => Some(*rate),
            _ => None,
        }
    }

    /// What `shard` is asked for of it: shares of its counts, bounds and rates.
    /// For reports and progress; the [schedule](super::Schedule) is made of the whole.
    #[must_use]
    pub fn share(&self, shard: Shard) -> Self {
        if shard.count() == 1 {
            return self.clone();
        }
        let parts = shard.count() as f64;
        let mut load = self.load.clone();
        let mut part: Box<dyn Fn(u64) -> u64> = Box::new(move |total| shard.share(total));
        match &mut load {
            LoadPattern::Rate(rate) => {
                rate.points.iter_mut().for_each(|point| point.rate /= parts);
            }
            LoadPattern::UserCentric { rate, users } => {
                let all = Users::new(*rate, *users, None);
                part = Box::new(move |total| all.shard(shard).turns_of(total));
                *rate /= parts;
                *users = shard.share(*users);
            }
            LoadPattern::ClosedLoop | LoadPattern::FixedSchedule => {}
        }
        let limit = |limit: Limit| Limit { most: shard.share(limit.most), ..limit };
        Self {
            load,
            concurrency: self.concurrency.map(limit),
            prefill_concurrency: self.prefill_concurrency.map(limit),
            stop: StopCondition {
                requests: self.stop.requests.map(&part),
                sessions: self.stop.sessions.map(&part),
                ..self.stop
            },
            ..self.clone()
        }
    }

    /// Sessions in flight that it tries to hold; absent where the concurrency
    /// is a bound on something else that paces it.
    #[must_use]
    pub fn steady_concurrency(&self) -> Option<u64> {
        let is_steady = self.load == LoadPattern::ClosedLoop || self.steady_rate().is_some();
        self.concurrency.filter(|_| is_steady).map(|limit| limit.most)
    }
}

/// How sends become due.
#[derive(Debug, Clone, PartialEq)]
pub enum LoadPattern {
    /// As soon as there is room.
    ClosedLoop,
    /// At times that a rate spaces, whatever the server does.
    Rate(Rate),
    /// When the dataset says: each conversation once, in order of time.
    FixedSchedule,
    /// Each user sends a turn at equal intervals; one whose session is over
    /// goes on with the next session.
    UserCentric {
        /// Requests a second of all users together.
        rate: f64,
        /// Users, each with a session at any time.
        users: u64,
    },
}

/// Arrivals by rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    /// The rate over time, linear between the points; before the first and
    /// after the last it is theirs. One point is a constant rate.
    pub points: Vec<RatePoint>,
    /// How long it climbs from zero to the first point's rate, before the
    /// points' time begins.
    pub ramp: Option<Nanos>,
    /// How arrivals are spread around the rate.
    pub pattern: ArrivalPattern,
}

impl Rate {
    /// The same rate all the time.
    #[must_use]
    pub fn constant(rate: f64, pattern: ArrivalPattern) -> Self {
        Self { points: vec![RatePoint { at: Nanos::ZERO, rate }], ramp: None, pattern }
    }

    /// The time of the last point, the ramp included.
    #[must_use]
    pub fn length(&self) -> Nanos {
        self.ramp.unwrap_or_default() + self.points.last().map_or(Nanos::ZERO, |point| point.at)
    }
}

/// A rate at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatePoint {
    /// Since the phase's start, or the ramp's end where there is one.
    pub at: Nanos,
    /// Requests a second, above 0.
    pub rate: f64,
}

/// How arrivals are spread around a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ArrivalPattern {
    /// At equal intervals.
    Constant,
    /// At exponentially distributed intervals.
    Poisson,
    /// At gamma distributed intervals.
    Gamma {
        /// Shape: 1 is Poisson, more is more even, less is burstier.
        shape: f64,
    },
}

/// A bound on how many of something there are at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Most of them.
    pub most: u64,
    /// How long the bound climbs from 1 to `most`, in equal steps.
    pub ramp: Option<Nanos>,
}

impl Limit {
    /// The same bound all the time.
    #[must_use]
    pub const fn constant(most: u64) -> Self {
        Self { most, ramp: None }
    }
}

/// Requests that are given up on purpose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cancellation {
    /// How many of them, in percent, above 0.
    pub percent: f64,
    /// Time from the moment a request is fully sent.
    pub delay: Nanos,
}

/// When a phase sends no more: at the first bound that is reached.
///
/// Without any bound it sends one session for each conversation of the dataset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StopCondition {
    /// Requests.
    pub requests: Option<u64>,
    /// Sessions.
    pub sessions: Option<u64>,
    /// Time since the phase's start.
    pub duration: Option<Nanos>,
}

impl StopCondition {
    /// Whether it has no bound of its own.
    #[must_use]
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// How the times that a dataset brings are used. Times and offsets in it are on
/// the trace's own axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// Whether timestamps are a schedule.
    pub schedule: UseOfTimestamps,
    /// Which timestamp is the schedule's start.
    pub zero: Zero,
    /// Turns before this are left out.
    pub from: Option<Nanos>,
    /// Turns after this are left out.
    pub until: Option<Nanos>,
    /// How many times faster than recorded; above 0.
    pub speedup: f64,
    /// Whether a session's turns follow each other without delay.
    pub ignore_delays: bool,
    /// Longest delay before a turn, after the speed-up.
    pub delay_cap: Option<Nanos>,
    /// Whether each turn with a timestamp is a session of its own.
    pub strict: bool,
}

impl Default for Replay {
    fn default() -> Self {
        Self {
            schedule: UseOfTimestamps::Never,
            zero: Zero::default(),
            from: None,
            until: None,
            speedup: 1.0,
            ignore_delays: false,
            delay_cap: None,
            strict: false,
        }
    }
}

/// Whether the dataset's timestamps are a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UseOfTimestamps {
    /// Always; without them there is no run.
    Always,
    /// If every conversation has one. Sessions in flight are then bounded by
    /// this and not by the default of a closed loop.
    IfPresent(Option<Limit>),
    /// Never.
    Never,
}

/// The trace's time at which its replay starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zero {
    /// The first timestamp.
    First,
    /// This time.
    At(Nanos),
}

impl Default for Zero {
    fn default() -> Self {
        Self::At(Nanos::ZERO)
    }
}
