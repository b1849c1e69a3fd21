//! The results of each phase of a run that measures several.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use base::statistics::change::Change;
use base::statistics::percentile::percentile_of;
use client::record::RequestError;
use client::schedule::config::PhaseConfig;
use client::schedule::{PhaseKind, Shard};

use super::Breakdowns;
use crate::metrics::accumulate::{Accumulator, Started};
use crate::metrics::metric::MetricResult;
use crate::metrics::steady::{SteadyState, Unsteady};
use crate::metrics::tag;

/// When a phase ran, in nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseTimes {
    /// Its start.
    pub start_wall_ns: u64,
    /// When its last request ended.
    pub end_wall_ns: u64,
}

/// The results of one phase.
#[derive(Debug, Clone)]
pub struct PhaseResult {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it is measured, or a warmup.
    pub kind: PhaseKind,
    /// Its load in a few words.
    pub load: String,
    /// When it ran.
    pub times: PhaseTimes,
    /// Its results in catalogue order.
    pub results: Vec<MetricResult>,
    /// Its steady state, or why there is none.
    pub steady_state: Result<SteadyState, Unsteady>,
    /// Its failures, most frequent first.
    pub errors: Vec<(RequestError, u64)>,
    /// When its latencies were those of the first measured phase again, if another phase was in between.
    pub recovery: Option<Recovery>,
}

/// When the latencies of a phase were those of a baseline again, after the load of another phase.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Recovery {
    /// The phase whose latencies are the measure: the first that is measured.
    #[schemars(with = "String")]
    pub baseline: Arc<str>,
    /// The phase before, after whose last request was sent the time counts.
    #[schemars(with = "String")]
    pub after: Arc<str>,
    /// The 95th percentile of the baseline's `request_latency`. Slower and failed requests are beyond its
    /// spread, which 5% of the baseline's are as well.
    pub limit_ms: f64,
    /// Whether the latencies were within the spread again before the end of the phase.
    pub recovered: bool,
    /// Seconds until the first request within it was sent; until the last request of the phase, if they
    /// were not.
    pub seconds: f64,
    /// The interval of about 95% of that time: until the last request that was beyond the spread was
    /// sent, and until the first within it.
    pub interval_seconds: [f64; 2],
}

/// The share of the baseline's requests beyond its spread.
const BEYOND: f64 = 0.05;

/// The least number of requests of a baseline, of which one is then beyond the spread.
const LEAST_OF_BASELINE: usize = 20;

impl PhaseResult {
    /// Returns its length in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.times.end_wall_ns.saturating_sub(self.times.start_wall_ns) as f64 / 1e9
    }
}

impl Breakdowns {
    /// Returns the results of each of the `phases` that began, in order; empty unless several are
    /// measured. `times` are those of the phases as far as they are known; those of others are the
    /// times of their requests. The load is that of `shard`.
    #[must_use]
    pub fn phases(
        &self,
        phases: &[PhaseConfig],
        times: &[PhaseTimes],
        shard: Shard,
    ) -> Vec<PhaseResult> {
        let phase_result = |(index, (phase, values)): (usize, (&PhaseConfig, &Accumulator))| {
            let times = times.get(index).copied().or_else(|| times_of(values))?;
            let load = phase.share(shard).held_load();
            Some(PhaseResult {
                name: phase.name().into(),
                kind: phase.kind,
                load: phase.load_label(),
                times,
                results: values.results(),
                steady_state: values.steady_state(load, times.start_wall_ns),
                errors: values.errors(),
                recovery: self.recovery(phases, index),
            })
        };
        phases.iter().zip(&self.by_phase).enumerate().filter_map(phase_result).collect()
    }

    /// Returns when the latencies of the phase with this index were those of the first measured phase
    /// again; `None` if no other phase was between them, or too little is known of one of them.
    fn recovery(&self, phases: &[PhaseConfig], index: usize) -> Option<Recovery> {
        let baseline = phases.iter().position(|phase| phase.kind == PhaseKind::Profiling)?;
        let before = index.checked_sub(1).filter(|before| *before > baseline)?;
        let latency = tag::REQUEST_LATENCY;
        let known = self.by_phase[baseline].column(latency)?;
        if known.len() < LEAST_OF_BASELINE {
            return None;
        }
        let limit_ms = percentile_of(|| known.iter(), 100.0 * (1.0 - BEYOND))?;
        let ended = self.by_phase[before].in_order(latency).last()?.start;
        let requests = self.by_phase[index].in_order(latency);
        let is_beyond = |request: &Started| request.value.is_none_or(|value| value > limit_ms);
        let beyond: Vec<bool> = requests.iter().map(is_beyond).collect();
        let change = Change::to_share(&beyond, BEYOND);
        let seconds = |at: usize| {
            let request = requests.get(at).or(requests.last())?;
            Some(request.start.saturating_sub(ended) as f64 / 1e9)
        };
        let (first, last) = (*change.interval.start(), *change.interval.end());
        let low = first.checked_sub(1).map_or(Some(0.0), seconds)?;
        Some(Recovery {
            baseline: phases[baseline].name().into(),
            after: phases[before].name().into(),
            limit_ms,
            recovered: change.before < requests.len(),
            seconds: seconds(change.before)?,
            interval_seconds: [low, seconds(last)?],
        })
    }

    /// Returns the values of the phase with this name.
    #[must_use]
    pub fn phase(&self, phases: &[PhaseConfig], name: &str) -> Option<&Accumulator> {
        let index = phases.iter().position(|phase| phase.name() == name)?;
        self.by_phase.get(index)
    }
}

/// Returns the requests per second that the phase with this name is to send, or without a name the only phase of
/// the measurement; `None` if that is not a certain number.
#[must_use]
pub fn asked_rate(phases: &[PhaseConfig], name: Option<&str>) -> Option<f64> {
    let has_name = |phase: &&PhaseConfig| match name {
        Some(name) => phase.name() == name,
        None => phase.kind == PhaseKind::Profiling,
    };
    let mut found = phases.iter().filter(has_name);
    let only = found.next().filter(|_| found.next().is_none())?;
    only.steady_rate()
}

/// Returns the times of the requests, if there are any.
fn times_of(values: &Accumulator) -> Option<PhaseTimes> {
    let spans = values.spans();
    let (start_wall_ns, ..) = *spans.first()?;
    let end_wall_ns = spans.iter().map(|(_, end, _)| *end).max()?;
    Some(PhaseTimes { start_wall_ns, end_wall_ns })
}
