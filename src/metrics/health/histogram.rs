//! A histogram for hundreds of millions of lags.

/// Number of buckets per doubling, which determines the relative precision.
const BUCKETS: u32 = 128;
const BUCKET_BITS: u32 = BUCKETS.trailing_zeros();

/// A log-linear histogram of nanoseconds up to 2^32. Below 128 each value has its own bucket;
/// above, each doubling has 128 buckets. Count, sum and maximum are exact, percentiles at most 0.8%
/// too high.
#[derive(Debug, Clone, Default)]
pub(super) struct LagHistogram {
    /// Counts by bucket, up to the largest bucket used.
    counts: Vec<u64>,
    count: u64,
    sum: u64,
    max: u32,
}

impl LagHistogram {
    /// Adds `value` `times` times.
    pub(super) fn add(&mut self, value: u32, times: u64) {
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += times;
        self.count += times;
        self.sum = self.sum.saturating_add(u64::from(value) * times);
        self.max = self.max.max(value);
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    pub(super) const fn max(&self) -> u32 {
        self.max
    }

    /// Returns the statistics; `None` without values.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Returns the percentile `percent` by nearest rank; `None` without values.
    pub(super) fn percentile(&self, percent: f64) -> Option<u32> {
        let rank = (percent / 100.0 * self.count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let bucket = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        Some(last_of(bucket).min(self.max))
    }
}

fn bucket(value: u32) -> usize {
    // Number of low bits that the bucket ignores.
    let shift = (u32::BITS - value.leading_zeros()).saturating_sub(BUCKET_BITS + 1);
    (shift * BUCKETS + (value >> shift)) as usize
}

/// Returns the largest value of a bucket.
const fn last_of(bucket: usize) -> u32 {
    let bucket = bucket as u64;
    let buckets = BUCKETS as u64;
    let shift = (bucket / buckets).saturating_sub(1);
    let next = (bucket - shift * buckets + 1) << shift;
    (next - 1) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_values_are_exact() {
        let mut histogram = LagHistogram::default();
        for value in 1..=100 {
            histogram.add(value, 1);
        }
        assert_eq!(histogram.percentile(50.0), Some(50));
        assert_eq!(histogram.percentile(99.0), Some(99));
        assert_eq!(histogram.percentile(0.0), Some(1));
        assert_eq!((histogram.count(), histogram.max(), histogram.mean()), (100, 100, Some(50.5)));
    }

    #[test]
    fn an_empty_histogram_has_no_percentiles() {
        let histogram = LagHistogram::default();
        assert_eq!((histogram.percentile(50.0), histogram.mean()), (None, None));
    }

    #[test]
    fn a_value_counts_as_often_as_it_is_said_to() {
        let mut histogram = LagHistogram::default();
        histogram.add(10, 98);
        histogram.add(5_000_000, 2);
        assert_eq!(histogram.percentile(98.0), Some(10));
        assert_eq!(histogram.percentile(99.0), Some(5_000_000));
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        // A doubling of 128 buckets from 128 on: one value each in 128..255, then two each.
        for (value, expected) in
            [(0, 0), (127, 127), (128, 128), (255, 255), (256, 256), (257, 256)]
        {
            assert_eq!(bucket(value), expected, "{value}");
        }
        assert_eq!(last_of(256), 257);
        assert_eq!(last_of(bucket(u32::MAX)), u32::MAX);
        for at in 0..bucket(u32::MAX) {
            assert_eq!(bucket(last_of(at)), at);
            assert_eq!(bucket(last_of(at) + 1), at + 1);
        }
    }

    proptest! {
        #[test]
        fn percentiles_are_at_most_a_bucket_too_high(
            mut values in proptest::collection::vec(any::<u32>(), 1..200),
            percent in 0.0..100.0_f64,
        ) {
            let mut histogram = LagHistogram::default();
            for value in &values {
                histogram.add(*value, 1);
            }
            values.sort_unstable();
            let rank = (percent / 100.0 * values.len() as f64).ceil().max(1.0) as usize;
            let exact = values[rank - 1];
            let found = histogram.percentile(percent).unwrap();
            prop_assert!(found >= exact && u64::from(found - exact) <= u64::from(exact) / 128);
        }
    }
}
