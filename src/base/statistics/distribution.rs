//! The distribution of values: extremes, moments and percentiles.

use super::{Percent, Percentiles};

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
    /// Percentiles besides these.
    pub further: Percentiles,
}

impl Distribution {
    /// A distribution without known values.
    pub const UNKNOWN: Self = Self {
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
        further: Percentiles::NONE,
    };

    /// The percentiles that each distribution has, in ascending order.
    pub const PERCENTS: [f64; 9] = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0];

    /// Returns the percentile `percent`, if it was computed. It may be infinite or NaN.
    #[must_use]
    pub fn percentile(&self, percent: Percent) -> Option<f64> {
        let values = [
            self.p1, self.p5, self.p10, self.p25, self.p50, self.p75, self.p90, self.p95, self.p99,
        ];
        let mut common = Self::PERCENTS.into_iter().zip(values);
        let common = common.find(|(known, _)| *known == percent.value());
        let further = || self.further.iter().find(|(known, _)| *known == percent);
        common.map(|(_, value)| value).or_else(|| further().map(|(_, value)| value))
    }
}
