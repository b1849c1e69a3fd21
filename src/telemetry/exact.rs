//! The exact half of the reader: count, sum and buckets of each series, kept
//! without the SDK.

use std::collections::BTreeMap;
use std::sync::Arc;

use opentelemetry::KeyValue;

/// Finest scale of exponential histograms, in both halves: buckets 0.27 % wide.
/// (The SDK's own maximum, 20, would only make narrow data a million times finer.)
pub(super) const EXPONENTIAL_MAX_SCALE: i8 = 8;

/// What one series of one instrument must say in the final export.
#[derive(Debug, Clone)]
pub(super) struct Series {
    /// Name of the instrument.
    pub(super) name: String,
    /// The series' attributes.
    pub(super) attributes: Vec<KeyValue>,
    /// Its values.
    pub(super) exact: Exact,
}

/// Count, sum and buckets of the values of a series.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Exact {
    /// How many.
    pub(super) count: u64,
    /// Their sum.
    pub(super) sum: f64,
    /// The sum of their magnitudes: what the sum's rounding is relative to.
    pub(super) magnitude: f64,
    /// Where they lie.
    pub(super) buckets: Buckets,
}

/// Buckets of a histogram.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Buckets {
    /// A counter has none.
    #[default]
    None,
    /// Explicit bounds, inclusive above; one count more than bounds.
    Explicit(Arc<[f64]>, Vec<u64>),
    /// Base 2, at [`EXPONENTIAL_MAX_SCALE`].
    Exponential(Exponential),
}

/// Counts by bucket index: bucket `i` holds magnitudes in (b^i, b^(i+1)], with
/// b = 2^(2^-scale).
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Exponential {
    /// Values that are zero.
    pub(super) zero: u64,
    /// Positive values.
    pub(super) positive: BTreeMap<i32, u64>,
    /// Negative values, by magnitude.
    pub(super) negative: BTreeMap<i32, u64>,
}

impl Exact {
    /// For a histogram with explicit bounds.
    pub(super) fn explicit(bounds: &Arc<[f64]>) -> Self {
        let counts = vec![0; bounds.len() + 1];
        Self { buckets: Buckets::Explicit(Arc::clone(bounds), counts), ..Self::default() }
    }

    /// For an exponential histogram.
    pub(super) fn exponential() -> Self {
        Self { buckets: Buckets::Exponential(Exponential::default()), ..Self::default() }
    }

    /// Takes a finite value.
    pub(super) fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.magnitude += value.abs();
        match &mut self.buckets {
            Buckets::None => {}
            Buckets::Explicit(bounds, counts) => {
                counts[bounds.partition_point(|bound| *bound < value)] += 1;
            }
            Buckets::Exponential(buckets) => buckets.add(value),
        }
    }
}

impl Exponential {
    fn add(&mut self, value: f64) {
        if value == 0.0 {
            self.zero += 1;
            return;
        }
        let side = if value > 0.0 { &mut self.positive } else { &mut self.negative };
        let per_doubling = f64::from(1 << EXPONENTIAL_MAX_SCALE);
        let index = (value.abs().log2() * per_doubling).ceil() as i32 - 1;
        *side.entry(index).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive_above() {
        let mut exact = Exact::explicit(&Arc::from([1.0, 2.0]));
        for value in [-3.0, 1.0, 1.5, 2.0, 2.1] {
            exact.add(value);
        }
        assert_eq!(exact.buckets, Buckets::Explicit(Arc::from([1.0, 2.0]), vec![2, 2, 1]));
        assert_eq!((exact.count, exact.magnitude), (5, 9.6));
        assert!((exact.sum - 3.6).abs() < 1e-12);
    }

    #[test]
    fn powers_of_two_are_the_upper_end_of_their_bucket() {
        let mut exact = Exact::exponential();
        for value in [1.0, 2.0, 2.001, 0.0, -4.0] {
            exact.add(value);
        }
        // At scale 8 a doubling is 256 buckets: 1 ends bucket -1, 2 ends 255.
        let Buckets::Exponential(buckets) = exact.buckets else { panic!("not exponential") };
        assert_eq!(buckets.positive, BTreeMap::from([(-1, 1), (255, 1), (256, 1)]));
        assert_eq!(buckets.negative, BTreeMap::from([(511, 1)]));
        assert_eq!(buckets.zero, 1);
    }
}
