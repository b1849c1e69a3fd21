//! The phases of a run that measures several.

use serde::Serialize;

use measure::metrics::breakdown::{PhaseResult, PhaseTimes, Recovery};

use super::{Metrics, Steady};
use crate::run::{ErrorCount, RunReport};

/// A phase of a run that measures several.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Phase<'a> {
    name: &'a str,
    /// `profiling` if it is measured, or `warmup`.
    kind: &'static str,
    /// Its load in a few words.
    load: &'a str,
    /// What its requests are drawn from in a few words, if phases differ in that.
    #[serde(skip_serializing_if = "Option::is_none")]
    dataset: Option<String>,
    /// Start in nanoseconds since the epoch.
    start_ns: u64,
    /// When its last request ended, in nanoseconds since the epoch.
    end_ns: u64,
    /// Start in nanoseconds since the start of the results; negative for a warmup before it.
    start_offset_ns: i64,
    /// End in nanoseconds since the start of the results.
    end_offset_ns: i64,
    metrics: Metrics<'a>,
    steady_state: Steady<'a>,
    /// When its latencies were those of the first measured phase again, if another phase was in between
    /// and the first one has at least 20 requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery: Option<&'a Recovery>,
    /// Its failures, most frequent first.
    error_summary: Vec<ErrorCount>,
}

impl<'a> Phase<'a> {
    pub(super) fn new(index: usize, phase: &'a PhaseResult, report: &'a RunReport) -> Self {
        let developer_mode = report.run.settings.developer_mode;
        let PhaseTimes { start_wall_ns, end_wall_ns } = phase.times;
        let origin = report.outcome.start_wall_ns.cast_signed();
        let errors = phase.errors.iter().cloned();
        Self {
            name: &phase.name,
            kind: phase.kind.as_str(),
            load: &phase.load,
            dataset: report.run.setup.dataset_of(index),
            start_ns: start_wall_ns,
            end_ns: end_wall_ns,
            start_offset_ns: start_wall_ns.cast_signed().saturating_sub(origin),
            end_offset_ns: end_wall_ns.cast_signed().saturating_sub(origin),
            metrics: Metrics { results: &phase.results, developer_mode },
            steady_state: Steady::new(phase.steady_state.as_ref(), start_wall_ns, developer_mode),
            recovery: phase.recovery.as_ref(),
            error_summary: errors
                .map(|(error_details, count)| ErrorCount { error_details, count })
                .collect(),
        }
    }
}
