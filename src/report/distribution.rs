//! Cumulative distributions and histograms of values.

use super::chart::Point;
use crate::metrics::percentile::percentile;

/// Maximum number of points of a cumulative distribution.
const MAX_POINTS: usize = 1000;
/// Maximum number of bins of a histogram.
const MAX_BINS: usize = 60;
/// Share of the values above which a histogram ends, so that few large ones do not hide the rest.
const SHOWN_PERCENT: f64 = 99.5;

/// Returns the finite `values` in ascending order.
pub(super) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the cumulative distribution of `sorted` values, in percent. Between its points it is
/// linear, as percentiles are. Of many values, each end and every n-th in between are kept.
pub(super) fn cumulative(sorted: &[f64]) -> Vec<Point> {
    let Some(last) = sorted.len().checked_sub(1) else { return Vec::new() };
    let point = |at: usize| {
        let share = if last == 0 { 1.0 } else { at as f64 / last as f64 };
        Point::new(sorted[at], share * 100.0)
    };
    if last < MAX_POINTS {
        return (0..=last).map(point).collect();
    }
    // The ends have ten times as many points, where percentiles such as p99.9 are.
    let tail = last / 50;
    let step = |length: usize| length.div_ceil(MAX_POINTS / 3).max(1);
    let low = (0..tail).step_by(step(tail));
    let middle = (tail..last - tail).step_by(step(last - 2 * tail));
    let high = (last - tail..last).step_by(step(tail));
    low.chain(middle).chain(high).chain([last]).map(point).collect()
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
    /// Returns the bins for `sorted` values; `None` without any.
    pub(super) fn of(sorted: &[f64]) -> Option<Self> {
        let (low, high) = (*sorted.first()?, percentile(sorted, SHOWN_PERCENT)?);
        // The square root of the number of values is a common choice; more bins show noise.
        let count = ((sorted.len() as f64).sqrt().ceil() as usize).clamp(1, MAX_BINS);
        let width = (high - low) / count as f64;
        if width > 0.0 && width.is_finite() {
            return Some(Self { low, width, count });
        }
        // All values are equal.
        let width = if low == 0.0 { 1.0 } else { low.abs() / 100.0 };
        Some(Self { low: low - width / 2.0, width, count: 1 })
    }

    /// Counts the `values` in each bin. The upper bound belongs to the last bin.
    pub(super) fn histogram(self, values: &[f64]) -> Histogram {
        let Self { low, width, count } = self;
        let end = low + width * count as f64;
        let mut counts = vec![0_u64; count];
        let mut beyond = 0;
        for value in values {
            if *value > end {
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
        assert_eq!(cumulative(&[]), []);
        assert_eq!(cumulative(&[7.0]), points(&[(7.0, 100.0)]));
        assert_eq!(cumulative(&[1.0, 2.0, 4.0]), points(&[(1.0, 0.0), (2.0, 50.0), (4.0, 100.0)]));
    }

    #[test]
    fn a_long_distribution_keeps_its_ends() {
        let values: Vec<f64> = (0..100_000).map(f64::from).collect();
        let points = cumulative(&values);
        assert!(points.len() <= MAX_POINTS + 3, "{}", points.len());
        assert_eq!(points.first(), Some(&Point::new(0.0, 0.0)));
        assert_eq!(points.last(), Some(&Point::new(99_999.0, 100.0)));
        assert!(points.windows(2).all(|pair| pair[0].x < pair[1].x));
        assert!(points.iter().all(|point| point.y == Some(point.x / 99_999.0 * 100.0)));
    }

    #[test]
    fn each_value_is_in_one_bin() {
        let values: Vec<f64> = (0..400).map(f64::from).collect();
        let bins = Bins::of(&values).unwrap();
        let histogram = bins.histogram(&values);
        assert_eq!(histogram.beyond, 2);
        let counts: f64 = histogram.bins[..20].iter().filter_map(|point| point.y).sum();
        assert_eq!(counts, 398.0);
        assert_eq!(histogram.bins.len(), 21);
    }

    #[test]
    fn equal_values_have_one_bin() {
        let bins = Bins::of(&[5.0, 5.0]).unwrap();
        assert_eq!(bins.histogram(&[5.0, 5.0]).bins[0].y, Some(2.0));
        assert!(Bins::of(&[]).is_none());
        let zero = Bins::of(&[0.0]).unwrap();
        assert_eq!(zero.histogram(&[0.0]).bins, points(&[(-0.5, 1.0), (0.5, 1.0)]));
    }
}
