//! Compares the parts of mean latencies.

use std::collections::BTreeSet;

use serde::Serialize;

use base::statistics::interval::{self, Measured, Scale};
use base::statistics::percentile::exact_sum;

use super::{Finding, MIN_TRIALS, Row, Side};
use crate::metrics::tag::MetricTag;
use crate::metrics::time_breakdown::{DIVIDED, Divided, Growth, Part, Stage};

/// A part of a mean latency on both sides, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartRow {
    /// The latency.
    pub metric: MetricTag,
    pub stage: Stage,
    /// Mean over the runs that have the part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference_ms: Option<f64>,
    /// The interval of the difference over runs; absent with fewer than three runs on a side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<[f64; 2]>,
}

/// Returns the parts that either side has, with intervals at the confidence `level`.
pub(super) fn compare(base: &Side, new: &Side, level: f64) -> Vec<PartRow> {
    let mut rows = Vec::new();
    for metric in DIVIDED {
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

/// Returns which parts the differences of those mean latencies consist of that `rows` show to differ,
/// if all runs divide them into the same parts.
pub(super) fn growth(base: &Side, new: &Side, rows: &[Row]) -> Vec<Growth> {
    let differs = |metric: &MetricTag| {
        let is_average =
            |row: &&Row| row.metric == *metric && row.statistic == "avg" && !row.is_steady;
        rows.iter().find(is_average).is_some_and(is_shown)
    };
    let growth = |metric| Growth::between(metric, &means(base, metric)?, &means(new, metric)?);
    DIVIDED.into_iter().filter(differs).filter_map(growth).collect()
}

/// Returns whether a row shows that its statistic differs, and by more than is tolerated unless there
/// is a gate.
fn is_shown(row: &Row) -> bool {
    let excludes_none = row.interval.is_some_and(|[low, high]| low > 0.0 || high < 0.0);
    let is_told = !matches!(row.finding, Finding::CannotTell | Finding::NoDifference);
    excludes_none && is_told
}

/// Returns the mean parts of the latency `metric` over the runs of a side; `None` if a run does not
/// have the same parts as the others.
fn means(side: &Side, metric: MetricTag) -> Option<Vec<(Stage, f64)>> {
    let runs =
        side.trials.iter().map(|trial| Some(&trial.time_breakdown.as_ref()?.get(metric)?.parts));
    let runs: Vec<&Vec<Part>> = runs.collect::<Option<_>>()?;
    let stages = |parts: &[Part]| parts.iter().map(|part| part.stage).collect::<Vec<_>>();
    let of_all = stages(runs.first()?);
    if runs.iter().any(|parts| stages(parts) != of_all) {
        return None;
    }
    let mean = |(at, stage): (usize, &Stage)| {
        let of_runs = runs.iter().filter_map(|parts| parts.get(at));
        (*stage, exact_sum(of_runs.map(|part| part.mean_ms)) / runs.len() as f64)
    };
    Some(of_all.iter().enumerate().map(mean).collect())
}

/// Returns the parts of the latency `metric` of all runs of a side.
fn parts(side: &Side, metric: MetricTag) -> impl Iterator<Item = &Part> {
    let divisions = side.trials.iter().filter_map(|trial| trial.time_breakdown.as_ref());
    let divided = divisions.filter_map(move |division| division.get(metric));
    divided.flat_map(|divided: &Divided| &divided.parts)
}

#[cfg(test)]
mod tests;
