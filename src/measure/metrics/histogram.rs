//! A histogram for hundreds of millions of times.

/// Number of buckets per doubling, which determines the relative precision.
const BUCKETS: u32 = 128;
const BUCKET_BITS: u32 = BUCKETS.trailing_zeros();

/// A log-linear histogram of nanoseconds. Below 128 each value has its own bucket; above, each
/// doubling has 128 buckets. Count, sum and maximum are exact, percentiles at most 0.8% too high.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Histogram {
    /// Counts by bucket, up to the largest bucket used.
    counts: Vec<u64>,
    count: u64,
    sum: u64,
    max: u64,
}

impl Histogram {
    /// Adds `value` `times` times.
    pub(super) fn add(&mut self, value: u64, times: u64) {
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += times;
        self.count += times;
        self.sum = self.sum.saturating_add(value.saturating_mul(times));
        self.max = self.max.max(value);
    }

    /// Adds all values of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (own, added) in self.counts.iter_mut().zip(&other.counts) {
            *own += added;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    pub(super) const fn max(&self) -> u64 {
        self.max
    }

    /// Returns the statistics; `None` without values.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Returns the percentile `percent` by nearest rank; `None` without values.
    pub(super) fn percentile(&self, percent: f64) -> Option<u64> {
        self.ranked((percent / 100.0 * self.count as f64).ceil().max(1.0) as u64)
    }

    /// Returns the percentile `percent` by linear interpolation, as the results have it; `None`
    /// without values.
    pub(super) fn interpolated(&self, percent: f64) -> Option<f64> {
        let position = self.count.checked_sub(1)? as f64 * percent / 100.0;
        let below = self.ranked(position.floor() as u64 + 1)? as f64;
        let above = self.ranked(position.ceil() as u64 + 1)? as f64;
        Some(below + (above - below) * position.fract())
    }

    /// Returns the value with this rank, from 1, in ascending order.
    fn ranked(&self, rank: u64) -> Option<u64> {
        let mut below = 0;
        let bucket = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        Some(last_of(bucket).min(self.max))
    }
}

fn bucket(value: u64) -> usize {
    // Number of low bits that the bucket ignores.
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BUCKET_BITS + 1);
    (shift * BUCKETS) as usize + (value >> shift) as usize
}

/// Returns the largest value of a bucket.
const fn last_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let buckets = BUCKETS as u64;
    let shift = (bucket / buckets).saturating_sub(1);
    ((bucket - shift * buckets) << shift) | ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_values_are_exact() {
        let mut histogram = Histogram::default();
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
        let histogram = Histogram::default();
        assert_eq!((histogram.percentile(50.0), histogram.mean()), (None, None));
    }

    #[test]
    fn a_value_counts_as_often_as_it_is_said_to() {
        let mut histogram = Histogram::default();
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
        assert_eq!(last_of(bucket(u64::MAX)), u64::MAX);
        for at in 0..bucket(u64::MAX) {
            assert_eq!(bucket(last_of(at)), at);
            assert_eq!(bucket(last_of(at) + 1), at + 1);
        }
    }

    #[test]
    fn merged_histograms_have_the_values_of_both() {
        let (mut some, mut more, mut all) = Default::default();
        for value in [3, 70_000, 9] {
            Histogram::add(&mut some, value, 2);
            Histogram::add(&mut all, value, 2);
        }
        for value in [5_000_000_000, 9] {
            Histogram::add(&mut more, value, 1);
            Histogram::add(&mut all, value, 1);
        }
        some.merge(&more);
        assert_eq!(some, all);
    }

    proptest! {
        #[test]
        fn percentiles_are_at_most_a_bucket_too_high(
            mut values in proptest::collection::vec(any::<u64>(), 1..200),
            percent in 0.0..100.0_f64,
        ) {
            let mut histogram = Histogram::default();
            for value in &values {
                histogram.add(*value, 1);
            }
            values.sort_unstable();
            let rank = (percent / 100.0 * values.len() as f64).ceil().max(1.0) as usize;
            let exact = values[rank - 1];
            let found = histogram.percentile(percent).unwrap();
            prop_assert!(found >= exact && found - exact <= exact / 128);
        }

        #[test]
        fn interpolated_percentiles_are_those_of_the_results(
            values in proptest::collection::vec(0..1_000_000_000_000_u64, 1..200),
            percent in 0.0..100.0_f64,
        ) {
            let mut histogram = Histogram::default();
            for value in &values {
                histogram.add(*value, 1);
            }
            let mut exact: Vec<f64> = values.iter().map(|value| *value as f64).collect();
            exact.sort_by(f64::total_cmp);
            let exact = base::statistics::percentile::percentile(&exact, percent).unwrap();
            let found = histogram.interpolated(percent).unwrap();
            // A little room for rounding.
            prop_assert!(found >= exact * 0.999_999 && found <= exact * 1.008 + 1e-6);
        }
    }
}
