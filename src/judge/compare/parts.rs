//! Compares the parts of mean latencies.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{MIN_TRIALS, Side};
use crate::metrics::tag::{self, MetricTag};
use crate::metrics::time_breakdown::{Divided, Part, Stage};
use crate::statistics::interval::{self, Measured, Scale};
use crate::statistics::percentile::exact_sum;

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
            let [base_ms, new_ms] = sides.each_ref().map(|values| {
                let mean = exact_sum(values.iter().copied()) / values.len() as f64;
                Some(mean).filter(|mean| mean.is_finite())
            });
            let measured = |values: &Vec<f64>| {
                Measured::of_independent(values).filter(|_| values.len() >= MIN_TRIALS)
            };
            let [base, new] = sides.each_ref().map(measured);
            let interval = |(base, new): (Measured, Measured)| {
                interval::difference(&base, &new, Scale::Difference, level)
            };
            rows.push(PartRow {
                metric,
                stage,
                base_ms,
                new_ms,
                difference_ms: base_ms.zip(new_ms).map(|(base, new)| new - base),
                interval_ms: base.zip(new).and_then(interval),
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
