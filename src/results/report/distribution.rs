//! Cumulative distributions and histograms of values.
//!
//! Values are closures that return their iterator and are called several times, so that the values
//! need not be in memory.

use base::statistics::percentile::{percentile_of, sorted_at};

use super::chart::Point;

/// Maximum number of points of a cumulative distribution.
const MAX_POINTS: usize = 1000;
/// Maximum number of bins of a histogram.
const MAX_BINS: usize = 60;
/// Share of the values above which a histogram ends, so that few large ones do not hide the rest.
const SHOWN_PERCENT: f64 = 99.5;

/// Returns the cumulative distribution of `values`, in percent. Between its points it is linear, as
/// percentiles are. Of many values, each end and every n-th in between are kept.
pub(super) fn cumulative<I: Iterator<Item = f64>>(values: impl Fn() -> I) -> Vec<Point> {
    let Some(last) = values().count().checked_sub(1) else { return Vec::new() };
    let share = |at: u64| if last == 0 { 1.0 } else { at as f64 / last as f64 };
    let found = sorted_at(values, kept(last).map(|at| at as u64));
    found.into_iter().map(|(at, value)| Point::new(value, share(at) * 100.0)).collect()
}

/// Returns the indices that a cumulative distribution keeps of sorted values at 0 to `last`.
fn kept(last: usize) -> Box<dyn Iterator<Item = usize>> {
    if last < MAX_POINTS {
        return Box::new(0..=last);
    }
    // The ends have ten times as many points, where percentiles such as p99.9 are.
    let tail = last / 50;
    let step = |length: usize| length.div_ceil(MAX_POINTS / 3).max(1);
    let low = (0..tail).step_by(step(tail));
    let middle = (tail..last - tail).step_by(step(last - 2 * tail));
    let high = (last - tail..last).step_by(step(tail));
    Box::new(low.chain(middle).chain(high).chain([last]))
}

/// A histogram.
#[derive(Debug, PartialEq)]
pub(super) struct Histogram {
    /// The start of each bin with its number of values, and the end of the last one.
    pub(super) bins: Vec<Point>,
    /// The number of values above the last bin.
    pub(super) beyond: usize,
}

/// The bounds of the bins that histograms share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bins {
    low: f64,
    width: f64,
    count: usize,
}

impl Bins {
    /// Returns the bins for `values`; `None` without any.
    pub(super) fn from_values<I: Iterator<Item = f64>>(values: impl Fn() -> I) -> Option<Self> {
        let low = values().min_by(f64::total_cmp)?;
        let high = percentile_of(&values, SHOWN_PERCENT)?;
        // The square root of the number of values is a common choice; more bins show noise.
        let count = ((values().count() as f64).sqrt().ceil() as usize).clamp(1, MAX_BINS);
        let width = (high - low) / count as f64;
        if width > 0.0 && width.is_finite() {
            return Some(Self { low, width, count });
        }
        // All values are equal.
        let width = if low == 0.0 { 1.0 } else { low.abs() / 100.0 };
        Some(Self { low: low - width / 2.0, width, count: 1 })
    }

    /// Counts the `values` in each bin. The upper bound belongs to the last bin.
    pub(super) fn histogram(self, values: impl Iterator<Item = f64>) -> Histogram {
        let Self { low, width, count } = self;
        let end = low + width * count as f64;
        let mut counts = vec![0_u64; count];
        let mut beyond = 0;
        for value in values {
            if value > end {
                beyond += 1;
            } else {
                let bin = ((value - low) / width).max(0.0) as usize;
                counts[bin.min(count - 1)] += 1;
            }
        }
        let start = |bin: usize| low + width * bin as f64;
        let bins = counts.iter().enumerate().map(|(bin, n)| Point::new(start(bin), *n as f64));
        let close = counts.last().map(|n| Point::new(end, *n as f64));
        Histogram { bins: bins.chain(close).collect(), beyond }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(pairs: &[(f64, f64)]) -> Vec<Point> {
        pairs.iter().map(|(x, y)| Point::new(*x, *y)).collect()
    }

    #[test]
    fn a_distribution_passes_through_the_percentiles() {
        let cumulative_of = |values: &[f64]| cumulative(|| values.iter().copied());
        assert_eq!(cumulative_of(&[]), []);
        assert_eq!(cumulative_of(&[7.0]), points(&[(7.0, 100.0)]));
        assert_eq!(
            cumulative_of(&[4.0, 1.0, 2.0]),
            points(&[(1.0, 0.0), (2.0, 50.0), (4.0, 100.0)])
        );
    }

    #[test]
    fn a_long_distribution_keeps_its_ends() {
        // In another order: 7919 is a prime number.
        let points = cumulative(|| (0..100_000_u64).map(|at| (at * 7919 % 100_000) as f64));
        assert!(points.len() <= MAX_POINTS + 3, "{}", points.len());
        assert_eq!(points.first(), Some(&Point::new(0.0, 0.0)));
        assert_eq!(points.last(), Some(&Point::new(99_999.0, 100.0)));
        assert!(points.windows(2).all(|pair| pair[0].x < pair[1].x));
        assert!(points.iter().all(|point| point.y == Some(point.x / 99_999.0 * 100.0)));
    }

    #[test]
    fn each_value_is_in_one_bin() {
        let values = || (0..400).map(f64::from);
        let bins = Bins::from_values(values).unwrap();
        let histogram = bins.histogram(values());
        assert_eq!(histogram.beyond, 2);
        let counts: f64 = histogram.bins[..20].iter().filter_map(|point| point.y).sum();
        assert_eq!(counts, 398.0);
        assert_eq!(histogram.bins.len(), 21);
    }

    #[test]
    fn equal_values_have_one_bin() {
        let twice = || [5.0, 5.0].into_iter();
        let bins = Bins::from_values(twice).unwrap();
        assert_eq!(bins.histogram(twice()).bins[0].y, Some(2.0));
        assert!(Bins::from_values(std::iter::empty::<f64>).is_none());
        let zero = Bins::from_values(|| std::iter::once(0.0)).unwrap();
        let histogram = zero.histogram(std::iter::once(0.0));
        assert_eq!(histogram.bins, points(&[(-0.5, 1.0), (0.5, 1.0)]));
    }
}
