//! Configuration of the load: phases, each with its load pattern and stop condition.

mod agentic;
mod phase;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use base::units::Nanos;

pub use self::agentic::{Agentic, AgenticPart, EntryRange};
pub use self::phase::{HeldLoad, PhaseConfig};
use super::{PhaseKind, Shard};

/// The phases of a run, in order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Config {
    /// Warmups and the phases that are measured, at least one of these.
    pub phases: Vec<PhaseConfig>,
    /// How the timestamps and delays of a dataset are used.
    pub replay: Replay,
    /// The shard that this process drives, if the run is shared by several processes.
    pub shard: Option<Shard>,
    /// Start of the first phase, in nanoseconds since the epoch. `None` starts as soon as
    /// everything is ready.
    pub start_at: Option<u64>,
}

impl Config {
    /// Returns the phases as this process drives them, with its share of all counts.
    #[must_use]
    pub fn own_phases(&self) -> Vec<PhaseConfig> {
        let shard = self.shard.unwrap_or(Shard::WHOLE);
        self.phases.iter().map(|phase| phase.share(shard)).collect()
    }

    /// Returns the most requests that this process may have in flight at the same time, in those
    /// phases that limit them.
    #[must_use]
    pub fn limited_in_flight(&self) -> Option<u64> {
        self.own_phases().iter().filter_map(PhaseConfig::limited_in_flight).max()
    }

    /// Returns how the times of a part of the dataset are used: those of a part from which no phase with a
    /// schedule draws are not.
    pub fn replay_of(&self, part: usize) -> Replay {
        let is_scheduled =
            |phase: &PhaseConfig| phase.dataset == part && phase.load == LoadPattern::FixedSchedule;
        let replay = self.replay.clone();
        match replay.schedule {
            UseOfTimestamps::Always if !self.phases.iter().any(is_scheduled) => {
                Replay { schedule: UseOfTimestamps::Never, idle_gap_cap: None, ..replay }
            }
            _ => replay,
        }
    }

    /// Returns the phases that are measured, in order.
    pub fn measured(&self) -> impl Iterator<Item = &PhaseConfig> {
        measured(&self.phases)
    }

    /// Returns whether a phase that is measured follows the timestamps of a trace.
    #[must_use]
    pub fn is_fixed_schedule(&self) -> bool {
        self.measured().any(|phase| phase.load == LoadPattern::FixedSchedule)
    }
}

/// Returns those of `phases` that are measured, in order.
pub fn measured(phases: &[PhaseConfig]) -> impl Iterator<Item = &PhaseConfig> {
    phases.iter().filter(|phase| phase.kind == PhaseKind::Profiling)
}

/// Returns the phase that is measured, if it is the only one: several have loads of their own.
pub fn only_measured(phases: &[PhaseConfig]) -> Option<&PhaseConfig> {
    let mut measured = measured(phases);
    measured.next().filter(|_| measured.next().is_none())
}

/// What records call the phases of a run.
#[derive(Debug, Clone, Default)]
pub struct PhaseLabels(Vec<(Arc<str>, Option<u32>)>);

impl PhaseLabels {
    /// Returns the labels of `phases`.
    pub fn from_phases(phases: &[PhaseConfig]) -> Self {
        let mut measured = 0..;
        let label = |phase: &PhaseConfig| {
            let is_measured = phase.kind == PhaseKind::Profiling;
            let index = if is_measured { measured.next() } else { None };
            (phase.name().into(), index)
        };
        Self(phases.iter().map(label).collect())
    }

    /// Returns the name of the phase with this index, and its index among those that are measured if it
    /// is one of them.
    pub fn get(&self, index: u32, kind: PhaseKind) -> (&str, Option<u32>) {
        match self.0.get(index as usize) {
            Some((name, measured)) => (name, *measured),
            None => (kind.as_str(), (kind == PhaseKind::Profiling).then_some(0)),
        }
    }
}

/// Returns whether several of `phases` are measured, each of which then has results of its own.
pub fn has_several(phases: &[PhaseConfig]) -> bool {
    measured(phases).nth(1).is_some()
}

/// How requests become due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadPattern {
    /// As soon as a slot is free.
    ClosedLoop,
    /// At arrival times of a given rate, independent of the server.
    Rate(Rate),
    /// At the timestamps of the dataset: each conversation once, in order of time.
    FixedSchedule,
    /// Each user sends turns at equal intervals. A user whose session is over continues with the
    /// next session.
    UserCentric {
        /// Rate of all users together, in requests per second.
        rate: f64,
        /// Number of users. Each has one session at any time.
        users: u64,
    },
    /// Lanes that replay trees of conversations.
    Agentic(Agentic),
}

impl LoadPattern {
    /// Returns the name of this load in AIPerf's files: that of the type of a phase, or of its timing.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ClosedLoop => "concurrency",
            Self::Rate(Rate { pattern: ArrivalPattern::Constant, .. }) => "constant",
            Self::Rate(Rate { pattern: ArrivalPattern::Poisson, .. }) => "poisson",
            Self::Rate(Rate { pattern: ArrivalPattern::Gamma { .. }, .. }) => "gamma",
            Self::Rate(Rate { pattern: ArrivalPattern::Weibull { .. }, .. }) => "weibull",
            Self::FixedSchedule => "fixed_schedule",
            Self::UserCentric { .. } => "user_centric",
            Self::Agentic(_) => "agentic_replay",
        }
    }
}

/// Arrivals at a rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The rate over time, interpolated linearly between the points. It is constant before the
    /// first and after the last point, so one point gives a constant rate.
    pub points: Vec<RatePoint>,
    /// Duration of the ramp from zero to the rate of the first point. The time of the points begins
    /// after the ramp.
    pub ramp: Option<Nanos>,
    /// Distribution of the arrivals around the rate.
    pub pattern: ArrivalPattern,
}

impl Rate {
    /// Creates a constant rate.
    #[must_use]
    pub fn constant(rate: f64, pattern: ArrivalPattern) -> Self {
        Self { points: vec![RatePoint { at: Nanos::ZERO, rate }], ramp: None, pattern }
    }

    /// Returns the time of the last point, including the ramp.
    #[must_use]
    pub fn length(&self) -> Nanos {
        self.ramp.unwrap_or_default() + self.points.last().map_or(Nanos::ZERO, |point| point.at)
    }
}

/// A rate at a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RatePoint {
    /// Time since the phase's start, or since the end of the ramp if there is one.
    pub at: Nanos,
    /// Requests per second; greater than 0.
    pub rate: f64,
}

/// Distribution of arrivals around a rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalPattern {
    /// At equal intervals.
    Constant,
    /// At exponentially distributed intervals.
    Poisson,
    /// At gamma-distributed intervals.
    Gamma {
        /// Shape of the distribution: 1 is Poisson, greater values are more even and smaller values
        /// burstier.
        shape: f64,
    },
    /// At Weibull-distributed intervals.
    Weibull {
        /// Shape of the distribution: 1 is Poisson, greater values are more even and smaller values
        /// burstier.
        shape: f64,
    },
}

/// A limit on a number of concurrent things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The limit.
    pub most: u64,
    /// Duration of the ramp from 1 to `most`, in equal steps.
    pub ramp: Option<Nanos>,
}

impl Limit {
    /// Creates a constant limit.
    #[must_use]
    pub const fn constant(most: u64) -> Self {
        Self { most, ramp: None }
    }
}

/// Requests that are cancelled on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cancellation {
    /// Percentage of the requests that are cancelled; greater than 0.
    pub percent: f64,
    /// Time between sending a request completely and cancelling it.
    pub delay: Nanos,
}

/// When a phase stops sending: at the first limit that is reached.
///
/// Without any limit it sends one session for each conversation of the dataset, or for lanes what their
/// phase is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopCondition {
    /// Number of requests.
    pub requests: Option<u64>,
    /// Number of sessions.
    pub sessions: Option<u64>,
    /// Time since the phase's start.
    pub duration: Option<Nanos>,
}

impl StopCondition {
    /// Returns whether no limit is configured.
    #[must_use]
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// How the timestamps and delays of a dataset are used. Times and offsets are on the time axis of
/// the trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replay {
    /// Whether timestamps are used as a schedule.
    pub schedule: UseOfTimestamps,
    /// The timestamp at which the schedule starts.
    pub zero: Zero,
    /// Start of the window; earlier turns are left out.
    pub from: Option<Nanos>,
    /// End of the window; later turns are left out.
    pub until: Option<Nanos>,
    /// Speed-up over the recorded times; greater than 0.
    pub speedup: f64,
    /// Whether the turns of a session follow each other without delay.
    pub ignore_delays: bool,
    /// Maximum delay before a turn, applied after the speed-up.
    pub delay_cap: Option<Nanos>,
    /// Maximum time between two successive timestamps of all conversations, applied after the
    /// speed-up.
    pub idle_gap_cap: Option<Nanos>,
    /// Maximum time between two successive turns of a conversation, applied after the speed-up.
    pub session_gap_cap: Option<Nanos>,
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
            idle_gap_cap: None,
            session_gap_cap: None,
            strict: false,
        }
    }
}

/// Whether the timestamps of the dataset are used as a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UseOfTimestamps {
    /// Always; the run fails if the dataset does not contain timestamps.
    Always,
    /// If every conversation has a timestamp. The value then limits the sessions in flight, instead
    /// of the default of a closed loop.
    IfPresent(Option<Limit>),
    /// Never.
    Never,
}

/// The time of the trace at which its replay starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Zero {
    /// The first timestamp.
    First,
    /// A given time.
    At(Nanos),
}

impl Default for Zero {
    fn default() -> Self {
        Self::At(Nanos::ZERO)
    }
}
