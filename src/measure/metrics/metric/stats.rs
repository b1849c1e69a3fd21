//! The results of a metric over a phase.

use std::fmt;

use serde::{Serialize, Serializer};

use base::statistics::{Distribution, Percent};

use super::Metric;

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

/// A statistic of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    /// The mean, or the single value.
    Avg,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The sum.
    Sum,
    /// A percentile.
    Percentile(Percent),
    /// The population's standard deviation.
    Std,
    /// The number of values.
    Count,
}

impl Statistic {
    /// Those that all distributions have, in the order of AIPerf's aggregates, then the number of
    /// values.
    pub const ALL: [Self; 15] = [
        Self::Avg,
        Self::Min,
        Self::Max,
        Self::Sum,
        Self::Percentile(Percent::whole(1)),
        Self::Percentile(Percent::whole(5)),
        Self::Percentile(Percent::whole(10)),
        Self::Percentile(Percent::whole(25)),
        Self::Percentile(Percent::whole(50)),
        Self::Percentile(Percent::whole(75)),
        Self::Percentile(Percent::whole(90)),
        Self::Percentile(Percent::whole(95)),
        Self::Percentile(Percent::whole(99)),
        Self::Std,
        Self::Count,
    ];

    /// Returns the statistic with this name in files: one of [`ALL`](Self::ALL), or another
    /// percentile, such as `p99.9`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "avg" => Some(Self::Avg),
            "min" => Some(Self::Min),
            "max" => Some(Self::Max),
            "sum" => Some(Self::Sum),
            "std" => Some(Self::Std),
            "count" => Some(Self::Count),
            _ => name.strip_prefix('p')?.parse().ok().map(Self::Percentile),
        }
    }

    /// Returns which percentile it is, if it is one that not every distribution has.
    #[must_use]
    pub fn percentile(self) -> Option<Percent> {
        match self {
            Self::Percentile(_) if Self::ALL.contains(&self) => None,
            Self::Percentile(percent) => Some(percent),
            _ => None,
        }
    }

    /// Returns its value, if `stats` have it. It may be infinite or NaN.
    #[must_use]
    pub fn value_in(self, stats: &Stats) -> Option<f64> {
        let distribution = stats.distribution.as_ref();
        match self {
            Self::Avg => Some(stats.avg),
            Self::Min => distribution.map(|it| it.min),
            Self::Max => distribution.map(|it| it.max),
            Self::Sum => distribution.map(|it| it.sum),
            Self::Percentile(percent) => distribution?.percentile(percent),
            Self::Std => distribution.map(|it| it.std),
            Self::Count => distribution.map(|it| it.count as f64),
        }
    }
}

impl Stats {
    /// Returns the statistics of a distribution, those of all and then the further percentiles; NaN
    /// for those that are not known. Only the mean without a distribution.
    pub fn all(&self) -> impl Iterator<Item = (Statistic, f64)> + use<> {
        let stats = *self;
        let further = stats.distribution.into_iter().flat_map(|it| it.further.iter());
        let further = further.map(|(percent, value)| (Statistic::Percentile(percent), value));
        Statistic::ALL
            .into_iter()
            .filter_map(move |it| Some((it, it.value_in(&stats)?)))
            .chain(further)
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Avg => f.write_str("avg"),
            Self::Min => f.write_str("min"),
            Self::Max => f.write_str("max"),
            Self::Sum => f.write_str("sum"),
            Self::Percentile(percent) => write!(f, "p{percent}"),
            Self::Std => f.write_str("std"),
            Self::Count => f.write_str("count"),
        }
    }
}

impl Serialize for Statistic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl PartialEq<&str> for Statistic {
    fn eq(&self, name: &&str) -> bool {
        Self::named(name) == Some(*self)
    }
}
