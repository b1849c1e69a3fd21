//! The distribution of values: extremes, moments and percentiles.

/// Statistics that need a distribution.
///
/// Percentiles interpolate linearly between order statistics, as numpy does by default; `std`
/// is the population's. Statistics that a metric does not have are NaN, and are absent from
/// the files.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Distribution {
    /// Number of values; 0 if they are weighted rather than counted.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Population standard deviation.
    pub std: f64,
    /// 1st percentile.
    pub p1: f64,
    /// 5th percentile.
    pub p5: f64,
    /// 10th percentile.
    pub p10: f64,
    /// 25th percentile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// 75th percentile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Distribution {
    /// A distribution without known values.
    pub(crate) const UNKNOWN: Self = Self {
        count: 0,
        sum: f64::NAN,
        min: f64::NAN,
        max: f64::NAN,
        std: f64::NAN,
        p1: f64::NAN,
        p5: f64::NAN,
        p10: f64::NAN,
        p25: f64::NAN,
        p50: f64::NAN,
        p75: f64::NAN,
        p90: f64::NAN,
        p95: f64::NAN,
        p99: f64::NAN,
    };
}
