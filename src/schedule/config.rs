//! Configuration of the load: phases, each with its load pattern and stop condition.

mod agentic;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::agentic::{Agentic, AgenticPart, EntryRange};
use super::{Adaptive, Control, PhaseKind, Shard, Users};
use crate::units::Nanos;

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
    pub(crate) fn own_phases(&self) -> Vec<PhaseConfig> {
        let shard = self.shard.unwrap_or(Shard::WHOLE);
        self.phases.iter().map(|phase| phase.share(shard)).collect()
    }

    /// Returns the most requests that this process may have in flight at the same time, in those
    /// phases that limit them.
    #[must_use]
    pub(crate) fn limited_in_flight(&self) -> Option<u64> {
        self.own_phases().iter().filter_map(PhaseConfig::limited_in_flight).max()
    }

    /// Returns how the times of a part of the dataset are used: those of a part from which no phase with a
    /// schedule draws are not.
    pub(crate) fn replay_of(&self, part: usize) -> Replay {
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
    pub(crate) fn measured(&self) -> impl Iterator<Item = &PhaseConfig> {
        measured(&self.phases)
    }

    /// Returns whether a phase that is measured follows the timestamps of a trace.
    #[must_use]
    pub fn is_fixed_schedule(&self) -> bool {
        self.measured().any(|phase| phase.load == LoadPattern::FixedSchedule)
    }
}

/// Returns those of `phases` that are measured, in order.
pub(crate) fn measured(phases: &[PhaseConfig]) -> impl Iterator<Item = &PhaseConfig> {
    phases.iter().filter(|phase| phase.kind == PhaseKind::Profiling)
}

/// Returns the phase that is measured, if it is the only one: several have loads of their own.
pub(crate) fn only_measured(phases: &[PhaseConfig]) -> Option<&PhaseConfig> {
    let mut measured = measured(phases);
    measured.next().filter(|_| measured.next().is_none())
}

/// What records call the phases of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct PhaseLabels(Vec<(Arc<str>, Option<u32>)>);

impl PhaseLabels {
    /// Returns the labels of `phases`.
    pub(crate) fn of(phases: &[PhaseConfig]) -> Self {
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
    pub(crate) fn get(&self, index: u32, kind: PhaseKind) -> (&str, Option<u32>) {
        match self.0.get(index as usize) {
            Some((name, measured)) => (name, *measured),
            None => (kind.as_str(), (kind == PhaseKind::Profiling).then_some(0)),
        }
    }
}

/// Returns whether several of `phases` are measured, each of which then has results of its own.
pub(crate) fn has_several(phases: &[PhaseConfig]) -> bool {
    measured(phases).nth(1).is_some()
}

/// Configuration of one phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseConfig {
    /// Its name; absent for the warmup and the measurement of a run whose phases are not listed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<Arc<str>>,
    /// Purpose of the phase.
    pub kind: PhaseKind,
    /// Whether the next phase starts once the duration of this one is over, instead of when its last
    /// request has returned.
    #[serde(skip_serializing_if = "is_false", default)]
    pub seamless: bool,
    /// Index of the part of the dataset that its sessions draw from.
    #[serde(default)]
    pub dataset: usize,
    /// How requests become due.
    pub load: LoadPattern,
    /// Maximum number of sessions in flight; `None` sets no limit.
    pub concurrency: Option<Limit>,
    /// Maximum number of requests that wait for their first content; `None` sets no limit.
    pub prefill_concurrency: Option<Limit>,
    /// When the phase stops sending requests.
    pub stop: StopCondition,
    /// Time that requests in flight have to finish after the duration is over. `None` waits as long
    /// as the timeout of each request allows.
    pub grace_period: Option<Nanos>,
    /// Requests that are cancelled on purpose.
    pub cancellation: Option<Cancellation>,
    /// Fraction of failed requests, from 0 to 1, above which the run is aborted.
    pub failed_request_threshold: Option<f64>,
    /// Whether a session ends with a turn that fails or is cancelled. Otherwise its later turns are
    /// sent without the response of that turn.
    pub end_failed_sessions: bool,
    /// How the load rises to the one above; absent for a load that does not follow verdicts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub adaptive: Option<Adaptive>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_false(is_set: &bool) -> bool {
    !*is_set
}

impl PhaseConfig {
    /// Returns the name of the phase, by default that of its kind.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.kind.as_str())
    }

    /// Returns whether the phase sends each conversation of the dataset once, since nothing else ends it. An
    /// adaptive load ends once its limit is known, and lanes after what their phase is for.
    #[must_use]
    pub(crate) fn sends_whole_dataset(&self) -> bool {
        let ends_itself = matches!(self.load, LoadPattern::Agentic(_)) || self.adaptive.is_some();
        self.stop.is_unset() && !ends_itself
    }

    /// Returns the configured rate in requests per second, after a ramp if there is one; absent if
    /// the rate changes or none is configured.
    #[must_use]
    pub(crate) fn rate(&self) -> Option<f64> {
        match &self.load {
            LoadPattern::Rate(Rate { points, .. }) => match points.as_slice() {
                [only] => Some(only.rate),
                _ => None,
            },
            LoadPattern::UserCentric { rate, .. } => Some(*rate),
            LoadPattern::ClosedLoop | LoadPattern::FixedSchedule | LoadPattern::Agentic(_) => None,
        }
    }

    /// Returns the configured rate in requests per second if it is the same from start to end.
    #[must_use]
    pub fn steady_rate(&self) -> Option<f64> {
        let has_ramp = matches!(&self.load, LoadPattern::Rate(Rate { ramp: Some(_), .. }));
        self.rate().filter(|_| !has_ramp && self.adaptive.is_none())
    }

    /// Returns the greatest level of an adaptive load: what `control` is configured to be.
    #[must_use]
    pub(crate) fn most_of(&self, control: Control) -> Option<f64> {
        let limit = match control {
            Control::Concurrency => self.concurrency?,
            Control::PrefillConcurrency => self.prefill_concurrency?,
            Control::RequestRate => return self.rate(),
        };
        Some(limit.most as f64)
    }

    /// Describes the load in a few words, such as `concurrency 16` or `25 req/s`.
    #[must_use]
    pub(crate) fn load_label(&self) -> String {
        let pace = match &self.load {
            LoadPattern::ClosedLoop if self.concurrency.is_none() => "all at once".to_owned(),
            LoadPattern::ClosedLoop => String::new(),
            LoadPattern::Rate(rate) => match rate.points.as_slice() {
                [only] => format!("{} req/s", only.rate),
                _ => "rate series".to_owned(),
            },
            LoadPattern::FixedSchedule => "fixed schedule".to_owned(),
            LoadPattern::UserCentric { rate, users } => format!("{users} users, {rate} req/s"),
            LoadPattern::Agentic(_) => {
                let lanes = self.concurrency.map_or(1, |limit| limit.most);
                return format!("{lanes} {}", if lanes == 1 { "lane" } else { "lanes" });
            }
        };
        let limit =
            |name, limit: Option<Limit>| limit.map(|limit| format!("{name} {}", limit.most));
        let limits = [
            limit("concurrency", self.concurrency),
            limit("prefill concurrency", self.prefill_concurrency),
        ];
        let parts: Vec<String> = [Some(pace).filter(|pace| !pace.is_empty())]
            .into_iter()
            .chain(limits)
            .flatten()
            .collect();
        let adaptive = if self.adaptive.is_some() { "up to " } else { "" };
        format!("{adaptive}{}", parts.join(", "))
    }

    /// Describes the load and when it ends in a few words, such as `25 req/s, 60 s`.
    #[must_use]
    pub(crate) fn load_and_end(&self) -> String {
        let StopCondition { requests, sessions, duration } = self.stop;
        let count = |count: Option<u64>, noun| count.map(|count| format!("{count} {noun}"));
        let duration = duration.map(|duration| format!("{} s", duration.as_seconds()));
        let end = [count(requests, "requests"), count(sessions, "sessions"), duration];
        let parts = [Some(self.load_label())].into_iter().chain(end).flatten();
        parts.collect::<Vec<_>>().join(", ")
    }

    /// Returns the load that the phase holds once its ramps are over; `None` if it is adaptive.
    #[must_use]
    pub(crate) fn held_load(&self) -> Option<HeldLoad> {
        self.adaptive.is_none().then(|| self.load_after_ramps())
    }

    fn load_after_ramps(&self) -> HeldLoad {
        let ramp = |limit: Option<Limit>| limit.and_then(|limit| limit.ramp);
        let rate = match &self.load {
            LoadPattern::ClosedLoop | LoadPattern::Agentic(_) => {
                let held = |limit: Limit| HeldLoad::Concurrency(limit.most);
                return self.concurrency.map_or(HeldLoad::AllAtOnce, held);
            }
            LoadPattern::Rate(rate) => rate.ramp,
            LoadPattern::FixedSchedule | LoadPattern::UserCentric { .. } => None,
        };
        let ramps = [rate, ramp(self.concurrency), ramp(self.prefill_concurrency)];
        HeldLoad::Arrivals { ramp_ns: ramps.into_iter().flatten().max().unwrap_or_default() }
    }

    /// Returns the part of this phase that `shard` drives: its share of counts, limits and rates.
    /// This is for reports and progress; the [schedule](super::Schedule) is made from the whole
    /// phase.
    #[must_use]
    pub(crate) fn share(&self, shard: Shard) -> Self {
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
            LoadPattern::ClosedLoop | LoadPattern::FixedSchedule | LoadPattern::Agentic(_) => {}
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

    /// Returns an upper estimate of the number of requests in flight at the same time; `None`
    /// without any bound. A response to a request that is sent at a rate is assumed to take 5 s.
    #[must_use]
    pub(crate) fn estimated_in_flight(&self) -> Option<u64> {
        const RESPONSE_SECONDS: f64 = 5.0;
        let paced = match &self.load {
            LoadPattern::ClosedLoop | LoadPattern::FixedSchedule | LoadPattern::Agentic(_) => None,
            LoadPattern::Rate(rate) => {
                let highest = rate.points.iter().map(|point| point.rate).fold(0.0, f64::max);
                Some((highest * RESPONSE_SECONDS).ceil() as u64)
            }
            LoadPattern::UserCentric { users, .. } => Some(*users),
        };
        let limit = self.concurrency.map(|limit| limit.most);
        [paced, limit, self.stop.requests, self.stop.sessions].into_iter().flatten().min()
    }

    /// Returns the most requests in flight at the same time, whatever the server does; `None` if only
    /// the server's speed limits them. Conversations that others start are not counted, since only
    /// the dataset knows them.
    #[must_use]
    pub(crate) fn limited_in_flight(&self) -> Option<u64> {
        let concurrency = self.concurrency.map(|limit| limit.most);
        let limit = match &self.load {
            LoadPattern::ClosedLoop => Some(concurrency.unwrap_or(u64::MAX)),
            LoadPattern::UserCentric { users, .. } => Some(concurrency.unwrap_or(*users)),
            LoadPattern::Rate(_) | LoadPattern::FixedSchedule | LoadPattern::Agentic(_) => {
                concurrency
            }
        }?;
        let counts = self.stop.requests.into_iter().chain(self.stop.sessions);
        // Without any limit, a closed loop sends its whole dataset at once.
        counts.chain([limit]).min().filter(|most| *most < u64::MAX)
    }

    /// Returns the number of sessions in flight that the phase tries to hold; absent if the
    /// concurrency only limits a load that is paced by something else.
    #[must_use]
    pub(crate) fn steady_concurrency(&self) -> Option<u64> {
        let is_loop = matches!(self.load, LoadPattern::ClosedLoop | LoadPattern::Agentic(_));
        let is_steady = is_loop || self.steady_rate().is_some();
        let is_steady = is_steady && self.adaptive.is_none();
        self.concurrency.filter(|_| is_steady).map(|limit| limit.most)
    }
}

/// The load of a phase after its ramps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldLoad {
    /// A number of requests in flight.
    Concurrency(u64),
    /// Requests at times that do not depend on the server.
    Arrivals {
        /// Time until all ramps are over, since the phase's start.
        ramp_ns: Nanos,
    },
    /// All requests as soon as the phase starts.
    AllAtOnce,
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
    pub(crate) const fn name(&self) -> &'static str {
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
    pub(crate) fn length(&self) -> Nanos {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(
        load: LoadPattern,
        concurrency: Option<Limit>,
        prefill_concurrency: Option<Limit>,
    ) -> PhaseConfig {
        PhaseConfig {
            name: None,
            kind: PhaseKind::Profiling,
            seamless: false,
            dataset: 0,
            load,
            concurrency,
            prefill_concurrency,
            stop: StopCondition::default(),
            grace_period: None,
            cancellation: None,
            failed_request_threshold: None,
            end_failed_sessions: false,
            adaptive: None,
        }
    }

    fn rate() -> LoadPattern {
        LoadPattern::Rate(Rate::constant(2.5, ArrivalPattern::Poisson))
    }

    #[test]
    fn requests_in_flight_are_estimated_by_the_closest_bound() {
        let limit = |most| Some(Limit::constant(most));
        let users = || LoadPattern::UserCentric { rate: 1.0, users: 7 };
        let of = |load, concurrency| phase(load, concurrency, limit(1)).estimated_in_flight();
        assert_eq!(of(LoadPattern::ClosedLoop, limit(500)), Some(500));
        assert_eq!(of(LoadPattern::ClosedLoop, None), None);
        assert_eq!(of(LoadPattern::FixedSchedule, None), None);
        // 2.5 requests per second for 5 s.
        assert_eq!(of(rate(), None), Some(13));
        assert_eq!(of(rate(), limit(4)), Some(4));
        assert_eq!(of(users(), None), Some(7));
        let few = StopCondition { requests: Some(3), ..StopCondition::default() };
        let few = PhaseConfig { stop: few, ..phase(users(), None, None) };
        assert_eq!(few.estimated_in_flight(), Some(3));
    }

    #[test]
    fn the_load_is_described_in_a_few_words() {
        let limit = |most| Some(Limit::constant(most));
        for (phase, label) in [
            (phase(LoadPattern::ClosedLoop, limit(16), None), "concurrency 16"),
            (phase(LoadPattern::ClosedLoop, None, None), "all at once"),
            (phase(rate(), None, None), "2.5 req/s"),
            (phase(rate(), limit(8), limit(2)), "2.5 req/s, concurrency 8, prefill concurrency 2"),
            (phase(LoadPattern::FixedSchedule, None, None), "fixed schedule"),
            (
                phase(LoadPattern::UserCentric { rate: 1.0, users: 5 }, None, None),
                "5 users, 1 req/s",
            ),
        ] {
            assert_eq!(phase.load_label(), label);
        }
    }
}
