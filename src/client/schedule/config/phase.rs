//! Configuration of one phase, and what follows from it: its load in words, and how many requests it has
//! in flight.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use base::units::Nanos;

use super::{Cancellation, Limit, LoadPattern, Rate, StopCondition};
use crate::schedule::{Adaptive, Control, PhaseKind, Shard, Users};

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
    pub fn sends_whole_dataset(&self) -> bool {
        let ends_itself = matches!(self.load, LoadPattern::Agentic(_)) || self.adaptive.is_some();
        self.stop.is_unset() && !ends_itself
    }

    /// Returns the configured rate in requests per second, after a ramp if there is one; absent if
    /// the rate changes or none is configured.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
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
    pub fn most_of(&self, control: Control) -> Option<f64> {
        let limit = match control {
            Control::Concurrency => self.concurrency?,
            Control::PrefillConcurrency => self.prefill_concurrency?,
            Control::RequestRate => return self.rate(),
        };
        Some(limit.most as f64)
    }

    /// Describes the load in a few words, such as `concurrency 16` or `25 req/s`.
    #[must_use]
    pub fn load_label(&self) -> String {
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
    pub fn load_and_end(&self) -> String {
        let StopCondition { requests, sessions, duration } = self.stop;
        let count = |count: Option<u64>, noun| count.map(|count| format!("{count} {noun}"));
        let duration = duration.map(|duration| format!("{} s", duration.as_seconds()));
        let end = [count(requests, "requests"), count(sessions, "sessions"), duration];
        let parts = [Some(self.load_label())].into_iter().chain(end).flatten();
        parts.collect::<Vec<_>>().join(", ")
    }

    /// Returns the load that the phase holds once its ramps are over; `None` if it is adaptive.
    #[must_use]
    pub fn held_load(&self) -> Option<HeldLoad> {
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
    /// This is for reports and progress; the [schedule](crate::schedule::Schedule) is made from the whole
    /// phase.
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
    pub fn estimated_in_flight(&self) -> Option<u64> {
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
    pub fn limited_in_flight(&self) -> Option<u64> {
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
    pub fn steady_concurrency(&self) -> Option<u64> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::config::ArrivalPattern;

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
        let in_flight =
            |load, concurrency| phase(load, concurrency, limit(1)).estimated_in_flight();
        assert_eq!(in_flight(LoadPattern::ClosedLoop, limit(500)), Some(500));
        assert_eq!(in_flight(LoadPattern::ClosedLoop, None), None);
        assert_eq!(in_flight(LoadPattern::FixedSchedule, None), None);
        // 2.5 requests per second for 5 s.
        assert_eq!(in_flight(rate(), None), Some(13));
        assert_eq!(in_flight(rate(), limit(4)), Some(4));
        assert_eq!(in_flight(users(), None), Some(7));
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
