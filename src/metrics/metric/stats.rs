//! The results of a metric over a phase.

use super::Metric;
use crate::statistics::Distribution;

/// The statistics of a metric over a phase, in its display unit.
#[derive(Debug, Clone)]
pub struct MetricResult {
    /// The metric.
    pub metric: &'static Metric,
    /// The statistics.
    pub stats: Stats,
}

/// Statistics over values. Most aggregate and derived metrics have only `avg`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stats {
    /// Mean, or the single value.
    pub avg: f64,
    /// The exact value if it is an instant, since a float cannot represent nanoseconds exactly.
    pub instant: Option<u64>,
    /// The distribution, for record metrics and metrics over time.
    pub distribution: Option<Distribution>,
}

/// A statistic of a metric, by its name in files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statistic {
    pub(crate) name: &'static str,
    read: fn(&Stats) -> Option<f64>,
}

impl Statistic {
    /// The mean, or the single value.
    pub(crate) const AVG: Self = Self { name: "avg", read: |stats| Some(stats.avg) };

    /// All statistics, in the order of AIPerf's aggregates, then the number of values.
    pub(crate) const ALL: [Self; 15] = [
        Self::AVG,
        Self::new("min", |stats| of(stats, |d| d.min)),
        Self::new("max", |stats| of(stats, |d| d.max)),
        Self::new("sum", |stats| of(stats, |d| d.sum)),
        Self::new("p1", |stats| of(stats, |d| d.p1)),
        Self::new("p5", |stats| of(stats, |d| d.p5)),
        Self::new("p10", |stats| of(stats, |d| d.p10)),
        Self::new("p25", |stats| of(stats, |d| d.p25)),
        Self::new("p50", |stats| of(stats, |d| d.p50)),
        Self::new("p75", |stats| of(stats, |d| d.p75)),
        Self::new("p90", |stats| of(stats, |d| d.p90)),
        Self::new("p95", |stats| of(stats, |d| d.p95)),
        Self::new("p99", |stats| of(stats, |d| d.p99)),
        Self::new("std", |stats| of(stats, |d| d.std)),
        Self::new("count", |stats| of(stats, |d| d.count as f64)),
    ];

    const fn new(name: &'static str, read: fn(&Stats) -> Option<f64>) -> Self {
        Self { name, read }
    }

    /// Returns the statistic called `name`.
    #[must_use]
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|statistic| statistic.name == name)
    }

    /// Returns its value, if `stats` have it. It may be infinite or NaN.
    #[must_use]
    pub(crate) fn of(self, stats: &Stats) -> Option<f64> {
        (self.read)(stats)
    }
}

fn of(stats: &Stats, field: fn(&Distribution) -> f64) -> Option<f64> {
    stats.distribution.as_ref().map(field)
}
