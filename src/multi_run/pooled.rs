//! Statistics over the requests of all runs as one population.

use super::Trials;
use crate::column::Column;
use crate::metrics::{Metric, MetricFlags, MetricTag, Registry};
use crate::statistics::percentile::{distribution, exact_sum};

/// The values of a metric in all successful runs combined, in its display unit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pooled {
    pub(crate) tag: MetricTag,
    pub(crate) unit: &'static str,
    pub(crate) count: usize,
    /// Their mean.
    pub(crate) mean: f64,
    /// Sample standard deviation: squared differences over n - 1; 0 for a single value.
    pub(crate) std: f64,
    /// Median, 90th, 95th and 99th percentile, as in numpy's default method.
    pub(crate) percentiles: [f64; 4],
    /// The runs that have values, in order.
    pub(crate) per_run: Vec<Share>,
}

/// A run's contribution to the population.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Share {
    /// The run.
    pub(crate) label: String,
    /// Mean of its values.
    pub(crate) mean: f64,
    /// Number of them.
    pub(crate) count: usize,
}

/// Returns all metrics that successful requests of successful runs have, in catalogue order.
#[must_use]
pub(crate) fn pooled(trials: &Trials) -> Vec<Pooled> {
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
    let count = pooled.count as usize;
    let mean = pooled.sum / pooled.count as f64;
    let squares = exact_sum(all().map(|value| (value - mean).powi(2)));
    let std = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
    let share = |(label, column): &(&str, &Column<f64>)| Share {
        label: (*label).to_owned(),
        mean: exact_sum(column.iter()) / column.len() as f64,
        count: column.len(),
    };
    Some(Pooled {
        tag: metric.tag,
        unit: metric.display_unit.label(),
        count,
        mean,
        std,
        percentiles: [pooled.p50, pooled.p90, pooled.p95, pooled.p99],
        per_run: columns.iter().map(share).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Store;

    #[test]
    fn two_runs_by_hand() {
        let column = |values: &[f64]| Column::of(Store::default(), values.iter().copied());
        let metric = Registry::find("request_latency").unwrap();
        let pooled = pool(metric, &[("a", &column(&[1.0, 2.0])), ("b", &column(&[6.0]))]).unwrap();
        assert_eq!((pooled.count, pooled.mean, pooled.unit), (3, 3.0, "ms"));
        // Squares 4 + 1 + 9 over 2.
        assert!((pooled.std - 7.0_f64.sqrt()).abs() < 1e-12);
        // numpy.percentile([1, 2, 6], [50, 90, 95, 99])
        for (found, expected) in pooled.percentiles.iter().zip([2.0, 5.2, 5.6, 5.92]) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
        let share = |label: &str, mean, count| Share { label: label.to_owned(), mean, count };
        assert_eq!(pooled.per_run, [share("a", 1.5, 2), share("b", 6.0, 1)]);
        assert_eq!(pool(metric, &[]), None);
    }
}
