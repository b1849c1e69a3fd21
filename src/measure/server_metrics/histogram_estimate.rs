//! Percentiles of a histogram's observations, estimated from its buckets and its sum.
//!
//! There are four steps: estimate the mean of each bucket from single scrape intervals, add up the
//! sums of the finite buckets, assign the rest to the `+Inf` bucket, and distribute the
//! observations of each bucket around its mean such that they yield the sum.
//! `docs/decisions/histogram-estimate.md` gives the reasons.

use super::report::PERCENTILES;

mod learned;
mod spread;

pub use learned::LearnedBuckets;
use spread::Piece;

/// Upper limit for bounds and sums; squares of larger ones would overflow.
const GREATEST: f64 = 1e100;

/// Returns the percentiles at each of [`PERCENTILES`]; `None` if they cannot be estimated.
///
/// `bounds` are the upper bounds, ascending, `+Inf` last; `cumulative` the number of observations
/// up to each; `sum` their sum. The result is ascending and within the buckets that contain
/// observations. Ranks are those of `numpy.percentile` with the method `linear`.
#[must_use]
pub fn percentiles(
    bounds: &[f64],
    cumulative: &[f64],
    sum: f64,
    learned: &LearnedBuckets,
) -> Option<[f64; 9]> {
    let buckets = Bucket::all(bounds)?;
    let counts = per_bucket(bounds, cumulative)?;
    let total: f64 = counts.iter().sum();
    let is_non_negative = bounds[0] >= 0.0;
    let is_usable = total.is_finite() && total > 0.0 && sum.abs() <= GREATEST;
    if !is_usable || (is_non_negative && sum < 0.0) {
        return None;
    }
    if is_non_negative && sum == 0.0 {
        return Some([0.0; 9]);
    }
    let mut estimates = learned.estimates(&buckets);
    spread::balance(&mut estimates, &buckets, &counts, sum);
    let pieces: Vec<Piece> = buckets
        .iter()
        .zip(&counts)
        .zip(&estimates)
        .filter(|((_, count), _)| **count > 0.0)
        .flat_map(|((bucket, count), estimate)| spread::around(bucket, *count, estimate))
        .collect();
    let found = PERCENTILES.map(|percent| {
        spread::between_observations(&pieces, f64::from(percent) / 100.0 * (total - 1.0).max(0.0))
    });
    found.iter().all(|value| value.is_finite()).then(|| within(found, &buckets, &counts))
}

/// Returns the values in ascending order and within the buckets that contain observations, which
/// rounding may have violated.
fn within(mut values: [f64; 9], buckets: &[Bucket], counts: &[f64]) -> [f64; 9] {
    let mut holding = buckets.iter().zip(counts).filter(|(_, count)| **count > 0.0);
    let first = holding.next();
    let last = holding.next_back().or(first);
    let mut floor = first.map_or(f64::NEG_INFINITY, |(bucket, _)| bucket.low);
    let ceiling = last.map_or(f64::INFINITY, |(bucket, _)| bucket.high);
    for value in &mut values {
        *value = value.max(floor).min(ceiling);
        floor = *value;
    }
    values
}

/// Returns percentiles by linear interpolation within buckets.
///
/// This is the method of Prometheus' `histogram_quantile`: the lower bound of the first bucket is 0
/// if its upper one is positive, and observations above the last finite bound are assumed to be at
/// that bound.
#[must_use]
pub fn linear_percentiles(bounds: &[f64], cumulative: &[f64]) -> Option<[f64; 9]> {
    let buckets = Bucket::all(bounds)?;
    let counts = per_bucket(bounds, cumulative)?;
    let total: f64 = counts.iter().sum();
    if !total.is_finite() || total <= 0.0 {
        return None;
    }
    let pieces: Vec<Piece> = buckets
        .iter()
        .zip(&counts)
        .filter(|(_, count)| **count > 0.0)
        .map(|(bucket, count)| Piece {
            low: bucket.low,
            high: if bucket.is_finite() { bucket.high } else { bucket.low },
            count: *count,
        })
        .collect();
    Some(PERCENTILES.map(|p| spread::at_rank(&pieces, total * f64::from(p) / 100.0)))
}

/// The range of a bucket's observations.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bucket {
    low: f64,
    high: f64,
}

impl Bucket {
    /// Returns all buckets of a histogram; `None` if no bound is finite or they do not ascend.
    fn all(bounds: &[f64]) -> Option<Vec<Self>> {
        let first = *bounds.first().filter(|bound| bound.is_finite())?;
        // A bucket with a bound of zero or less is not bounded below; all its observations are
        // assumed to be at the upper bound.
        let mut low = first.min(0.0);
        let mut buckets = Vec::with_capacity(bounds.len());
        for &high in bounds {
            let is_absurd = high.is_finite() && high.abs() > GREATEST;
            if high.is_nan() || is_absurd || high < low || low == f64::INFINITY {
                return None;
            }
            buckets.push(Self { low, high });
            low = high;
        }
        Some(buckets)
    }

    const fn is_finite(&self) -> bool {
        self.high.is_finite()
    }

    /// Returns the smallest possible observation. The first bucket is not bounded below if its
    /// upper bound is zero or negative.
    const fn least(&self) -> f64 {
        if self.low == self.high { f64::NEG_INFINITY } else { self.low }
    }

    /// Returns the width of the bucket; for `+Inf` an estimate, which is its distance from zero.
    const fn width(&self) -> f64 {
        match self.high {
            f64::INFINITY if self.low == 0.0 => 1.0,
            f64::INFINITY => self.low.abs(),
            high => high - self.low,
        }
    }

    /// Returns the assumed mean of its observations while nothing is known about them.
    const fn centre(&self) -> f64 {
        self.low + self.width() / 2.0
    }

    /// Returns the variance of observations distributed evenly over it.
    const fn spread(&self) -> f64 {
        self.width() * self.width() / 12.0
    }

    /// Returns the maximum variance of observations with this mean; for `+Inf` an estimate, which
    /// is that of an exponential distribution.
    fn greatest_variance(&self, mean: f64) -> f64 {
        let below = mean - self.low;
        below * if self.is_finite() { self.high - mean } else { below }
    }
}

/// Returns the number of observations in each bucket; a decrease counts as none.
fn per_bucket(bounds: &[f64], cumulative: &[f64]) -> Option<Vec<f64>> {
    if bounds.len() != cumulative.len() || cumulative.iter().any(|count| !count.is_finite()) {
        return None;
    }
    let mut most = 0.0_f64;
    let rise = |&count: &f64| {
        let more = (count - most).max(0.0);
        most = most.max(count);
        more
    };
    Some(cumulative.iter().map(rise).collect())
}

#[cfg(test)]
mod tests;
