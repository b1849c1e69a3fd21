//! Compares the parts of mean latencies.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{MIN_TRIALS, Moments, Side, welch};
use crate::metrics::tag::{self, MetricTag};
use crate::metrics::time_breakdown::{Divided, Part, Stage};

/// A part of a mean latency on both sides, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PartRow {
    /// The latency.
    pub(crate) metric: MetricTag,
    pub(crate) stage: Stage,
    /// Mean over the runs that have the part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) base_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) new_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) difference_ms: Option<f64>,
    /// The interval of the difference over runs; absent with fewer than three runs on a side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interval_ms: Option<[f64; 2]>,
}

/// Returns the parts that either side has, with intervals at the confidence `level`.
pub(super) fn compare(base: &Side, new: &Side, level: f64) -> Vec<PartRow> {
    let mut rows = Vec::new();
    for metric in [tag::TIME_TO_FIRST_TOKEN, tag::REQUEST_LATENCY] {
        let stages: BTreeSet<Stage> = [base, new]
            .iter()
            .flat_map(|side| parts(side, metric))
            .map(|part| part.stage)
            .collect();
        for stage in stages {
            let sides = [base, new].map(|side| -> Vec<f64> {
                let found = parts(side, metric).filter(|part| part.stage == stage);
                found.map(|part| part.mean_ms).collect()
            });
            let has_trials = sides.iter().all(|values| values.len() >= MIN_TRIALS);
            let [base, new] = sides.map(|values| Moments::of(&values));
            let [base_ms, new_ms] =
                [&base, &new].map(|side| Some(side.mean).filter(|mean| mean.is_finite()));
            rows.push(PartRow {
                metric,
                stage,
                base_ms,
                new_ms,
                difference_ms: base_ms.zip(new_ms).map(|(base, new)| new - base),
                interval_ms: has_trials.then(|| welch(&base, &new, level)).flatten(),
            });
        }
    }
    rows
}

/// Returns the parts of the latency `metric` of all runs of a side.
fn parts(side: &Side, metric: MetricTag) -> impl Iterator<Item = &Part> {
    let divisions = side.trials.iter().filter_map(|trial| trial.time_breakdown.as_ref());
    let divided = divisions.filter_map(move |division| division.of(metric));
    divided.flat_map(|divided: &Divided| &divided.parts)
}

#[cfg(test)]
mod tests;
