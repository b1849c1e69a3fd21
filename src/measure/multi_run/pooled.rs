//! Statistics over the requests of all runs as one population.

use serde::Serialize;

use base::column::Column;
use base::statistics::percentile::{distribution, exact_sum};

use super::Trials;
use crate::metrics::{Metric, MetricFlags, MetricTag, Registry};

/// The values of a metric in all successful runs combined, in its display unit.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Pooled {
    #[serde(skip)]
    pub tag: MetricTag,
    pub combined: Combined,
    /// The runs that have values, in order.
    pub(crate) per_run: Vec<Share>,
    pub unit: &'static str,
}

/// The statistics of the values of all runs.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Combined {
    pub mean: f64,
    /// Sample standard deviation: squared differences over n - 1; 0 for a single value.
    pub std: f64,
    /// Median, as in numpy's default method, like the other percentiles.
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub count: u64,
}

/// A run's contribution to the population.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Share {
    /// The run.
    pub label: String,
    /// Mean of its values.
    pub mean: f64,
    /// Number of them.
    pub count: usize,
}

/// Returns all metrics that successful requests of successful runs have, in catalogue order.
#[must_use]
pub fn pooled(trials: &Trials) -> Vec<Pooled> {
    let of_successes = |metric: &&&'static Metric| !metric.flags.contains(MetricFlags::ERROR_ONLY);
    Registry::catalogue()
        .iter()
        .filter(of_successes)
        .filter_map(|metric| {
            let columns: Vec<(&str, &Column<f64>)> = trials
                .successful()
                .filter_map(|run| {
                    let column = run.values.as_ref()?.column(metric.tag)?;
                    Some((run.member.run_label.as_str(), column))
                })
                .filter(|(_, column)| !column.is_empty())
                .collect();
            pool(metric, &columns)
        })
        .collect()
}

fn pool(metric: &'static Metric, columns: &[(&str, &Column<f64>)]) -> Option<Pooled> {
    let all = || columns.iter().flat_map(|(_, column)| column.iter());
    let pooled = distribution(all)?;
    let count = pooled.count;
    let mean = pooled.sum / count as f64;
    let squares = exact_sum(all().map(|value| (value - mean).powi(2)));
    let std = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
    let share = |(label, column): &(&str, &Column<f64>)| Share {
        label: (*label).to_owned(),
        mean: exact_sum(column.iter()) / column.len() as f64,
        count: column.len(),
    };
    Some(Pooled {
        tag: metric.tag,
        combined: Combined {
            mean,
            std,
            p50: pooled.p50,
            p90: pooled.p90,
            p95: pooled.p95,
            p99: pooled.p99,
            count,
        },
        per_run: columns.iter().map(share).collect(),
        unit: metric.display_unit.label(),
    })
}

#[cfg(test)]
mod tests {
    use base::column::Store;

    use super::*;

    #[test]
    fn two_runs_by_hand() {
        let column = |values: &[f64]| Column::from_values(Store::default(), values.iter().copied());
        let metric = Registry::find("request_latency").unwrap();
        let pooled = pool(metric, &[("a", &column(&[1.0, 2.0])), ("b", &column(&[6.0]))]).unwrap();
        let Combined { mean, std, p50, p90, p95, p99, count } = pooled.combined;
        assert_eq!((count, mean, pooled.unit), (3, 3.0, "ms"));
        // Squares 4 + 1 + 9 over 2.
        assert!((std - 7.0_f64.sqrt()).abs() < 1e-12);
        // numpy.percentile([1, 2, 6], [50, 90, 95, 99])
        for (found, expected) in [p50, p90, p95, p99].into_iter().zip([2.0, 5.2, 5.6, 5.92]) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        let share = |label: &str, mean, count| Share { label: label.to_owned(), mean, count };
        assert_eq!(pooled.per_run, [share("a", 1.5, 2), share("b", 6.0, 1)]);
        assert_eq!(pool(metric, &[]), None);
    }
}
