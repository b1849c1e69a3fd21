//! Percentiles of a histogram's observations, estimated from its buckets and its sum.

use super::report::PERCENTILES;

/// What scrape intervals told of each finite bucket.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LearnedBuckets {
    buckets: Vec<Bucket>,
}

/// What is known of the observations in one bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Bucket {
    count: f64,
    sum: f64,
}

impl LearnedBuckets {
    /// Nothing learned yet of buckets with these upper bounds, ascending, `+Inf` last.
    #[must_use]
    pub fn new(bounds: &[f64]) -> Self {
        Self { buckets: vec![Bucket::default(); bounds.len().saturating_sub(1)] }
    }

    /// Takes one scrape interval: the rise of each cumulative count, `+Inf` last, and of the sum.
    pub fn observe(&mut self, cumulative_deltas: &[f64], sum_delta: f64) {
        let _ = (cumulative_deltas, sum_delta, &mut self.buckets);
    }
}

/// Percentiles, at each of [`PERCENTILES`]; `None` where nothing can be estimated.
///
/// `bounds` are the upper bounds, ascending, `+Inf` last; `cumulative` the
/// number of observations up to each; `sum` their sum.
#[must_use]
pub fn percentiles(
    bounds: &[f64],
    cumulative: &[f64],
    sum: f64,
    learned: &LearnedBuckets,
) -> Option<[f64; 9]> {
    let _ = (sum, learned);
    linear_percentiles(bounds, cumulative)
}

/// Percentiles by linear interpolation within buckets.
///
/// As Prometheus' `histogram_quantile` does it: the lower bound of the first
/// bucket is 0 where its upper one is positive, and what lies above the last
/// finite bound is taken as that bound.
#[must_use]
pub fn linear_percentiles(bounds: &[f64], cumulative: &[f64]) -> Option<[f64; 9]> {
    let _ = (bounds, cumulative);
    Some(PERCENTILES.map(f64::from))
}
