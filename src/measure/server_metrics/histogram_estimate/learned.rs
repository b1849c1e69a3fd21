//! Step 1: what scrape intervals reveal about each bucket.

use super::Bucket;

/// Maximum number of intervals kept: 45 minutes at 3 Hz. Of a longer run, every second, fourth…
/// interval is kept, from its start to its end, since more would add little information.
const MAX_INTERVALS: usize = 8192;
/// Number of rounds that alternate between estimating means and spreads.
const ROUNDS: usize = 6;
/// Maximum number of passes over the buckets, and the change, in widths, below which no further
/// pass is needed.
const MAX_PASSES: usize = 20;
const NO_CHANGE: f64 = 1e-7;
/// Minimum variance of observations, relative to that of an even distribution.
const MIN_VARIANCE: f64 = 1e-12;
/// Weight of an even distribution relative to one interval.
const PRIOR_INTERVALS: f64 = 0.02;
/// Variance of the skewness of buckets, if nothing is known about it.
const PRIOR_SKEW: f64 = 0.3;
/// Variance of the cube of a normal variable around its regression on the variable.
const NORMAL_CUBE: f64 = 6.0;
/// Errors of intervals beyond so many standard deviations count as that many.
const GREATEST_ERROR: f64 = 3.0;

/// The information of scrape intervals about each bucket.
///
/// An interval with observations in one bucket yields their mean. One with observations in several
/// buckets yields a sum of means, weighted by the counts; since intervals differ, together they
/// determine each mean. The scatter of the intervals' sums around those that the means predict
/// determines the spread of the observations.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LearnedBuckets {
    buckets: Vec<Bucket>,
    intervals: Vec<Interval>,
    /// Buckets and observations of all intervals, concatenated.
    risen: Vec<(u32, f64)>,
    /// Number of consistent intervals, kept or not.
    seen: usize,
    /// How often every second interval was dropped.
    halvings: u32,
}

/// The observations between two scrapes.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Interval {
    /// The end of its buckets.
    end: usize,
    /// The sum, less what it would be with every observation at the centre of its bucket.
    excess: f64,
}

/// The estimate for a bucket's observations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) mean: f64,
    /// Uncertainty of the mean, as a variance.
    pub(super) doubt: f64,
    /// Variance of the observations around their current mean.
    variance: f64,
    /// Variance of that mean between intervals, since the load changes.
    drift: f64,
    /// Skewness of the observations.
    pub(super) skew: f64,
}

impl LearnedBuckets {
    /// Creates an empty state for buckets with these upper bounds, ascending, `+Inf` last.
    #[must_use]
    pub fn new(bounds: &[f64]) -> Self {
        Self { buckets: Bucket::all(bounds).unwrap_or_default(), ..Self::default() }
    }

    /// Adds a scrape interval: the increase of each cumulative count, `+Inf` last, and of the sum.
    /// An interval is ignored if anything decreased, or if its sum is impossible for its counts.
    pub fn observe(&mut self, cumulative_deltas: &[f64], sum_delta: f64) {
        if cumulative_deltas.len() != self.buckets.len() || !sum_delta.is_finite() {
            return;
        }
        let start = self.risen.len();
        let (mut below, mut least, mut most, mut central) = (0.0, 0.0, 0.0, 0.0);
        for (at, (&delta, bucket)) in cumulative_deltas.iter().zip(&self.buckets).enumerate() {
            if !delta.is_finite() || delta < below {
                return self.risen.truncate(start);
            }
            let count = delta - below;
            if count > 0.0 {
                self.risen.push((at as u32, count));
                least += count * bucket.least();
                most += count * bucket.high;
                central += count * bucket.centre();
            }
            below = delta;
        }
        // Sums of floats are not exact.
        let slack = 1e-9 * sum_delta.abs();
        let is_possible = (least - slack..=most + slack).contains(&sum_delta);
        if self.risen.len() == start || !is_possible {
            return self.risen.truncate(start);
        }
        self.seen += 1;
        if !(self.seen - 1).is_multiple_of(1 << self.halvings) {
            return self.risen.truncate(start);
        }
        self.intervals.push(Interval { end: self.risen.len(), excess: sum_delta - central });
        if self.intervals.len() == MAX_INTERVALS {
            self.halve();
        }
    }

    /// Drops every second interval.
    fn halve(&mut self) {
        let (mut intervals, mut risen) = (Vec::new(), Vec::new());
        for (buckets, excess) in self.each().step_by(2) {
            risen.extend_from_slice(buckets);
            intervals.push(Interval { end: risen.len(), excess });
        }
        (self.intervals, self.risen) = (intervals, risen);
        self.halvings += 1;
    }

    /// Returns the estimate for each of `buckets`; without information, it is an even distribution
    /// around the centre.
    ///
    /// Means: least squares over the intervals, each weighted by the inverse of its noise, and a
    /// single observation at each centre; they stay within their buckets. Spreads: expectation
    /// maximisation of the variance components, so that intervals with several buckets count too
    /// (Dempster, Laird and Rubin 1977), taking the uncertainty of the means into account.
    pub(super) fn estimates(&self, buckets: &[Bucket]) -> Vec<Estimate> {
        if self.buckets != buckets || self.intervals.is_empty() {
            let unlearned =
                |bucket| Estimate { variance: f64::INFINITY, ..Estimate::at_centre(bucket) };
            return buckets.iter().map(unlearned).collect();
        }
        let mut estimates: Vec<Estimate> = buckets.iter().map(Estimate::at_centre).collect();
        for _ in 0..ROUNDS {
            self.learn_means(&mut estimates);
            self.learn_drifts(&mut estimates);
            self.learn_variances(&mut estimates);
        }
        self.learn_skews(&mut estimates);
        estimates
    }

    /// Iterates over the buckets with observations and the excess of each interval.
    fn each(&self) -> impl Iterator<Item = (&[(u32, f64)], f64)> {
        let starts = [0].into_iter().chain(self.intervals.iter().map(|interval| interval.end));
        self.intervals
            .iter()
            .zip(starts)
            .map(|(interval, start)| (&self.risen[start..interval.end], interval.excess))
    }

    fn learn_means(&self, estimates: &mut [Estimate]) {
        let size = estimates.len();
        let (mut matrix, mut right) = (vec![0.0; size * size], vec![0.0; size]);
        for (at, estimate) in estimates.iter().enumerate() {
            matrix[at * size + at] = 1.0 / self.buckets[at].spread().max(estimate.variance);
        }
        for (risen, excess) in self.each() {
            let noise = noise(risen, estimates);
            if noise <= 0.0 {
                continue;
            }
            for &(row, count) in risen {
                right[row as usize] += count * excess / noise;
                for &(column, other) in risen {
                    matrix[row as usize * size + column as usize] += count * other / noise;
                }
            }
        }
        self.solve(&matrix, &right, estimates);
    }

    /// Performs Gauss-Seidel passes, with each mean limited to its bucket.
    fn solve(&self, matrix: &[f64], right: &[f64], estimates: &mut [Estimate]) {
        let size = right.len();
        let mut shifts: Vec<f64> = estimates
            .iter()
            .zip(&self.buckets)
            .map(|(e, bucket)| e.mean - bucket.centre())
            .collect();
        for _ in 0..MAX_PASSES {
            let mut change = 0.0_f64;
            for (at, row) in matrix.chunks_exact(size).enumerate() {
                let bucket = &self.buckets[at];
                if bucket.width() <= 0.0 {
                    continue;
                }
                let whole: f64 =
                    row.iter().zip(&shifts).map(|(weight, shift)| weight * shift).sum();
                let others = row[at].mul_add(-shifts[at], whole);
                let shift = ((right[at] - others) / row[at])
                    .clamp(bucket.low - bucket.centre(), bucket.high - bucket.centre());
                change = change.max((shift - shifts[at]).abs() / bucket.width());
                shifts[at] = shift;
            }
            if change < NO_CHANGE {
                break;
            }
        }
        for (at, estimate) in estimates.iter_mut().enumerate() {
            estimate.mean = self.buckets[at].centre() + shifts[at];
            estimate.doubt = 1.0 / matrix[at * size + at];
        }
    }

    /// Returns the part of an interval's excess that the means do not explain.
    fn left(&self, risen: &[(u32, f64)], excess: f64, estimates: &[Estimate]) -> f64 {
        let explained = |&(at, count): &(u32, f64)| {
            count * (estimates[at as usize].mean - self.buckets[at as usize].centre())
        };
        excess - risen.iter().map(explained).sum::<f64>()
    }

    /// Estimates drifts. A drifting mean makes neighbouring intervals err in the same way: their
    /// covariance is its variance, as far as it exceeds chance.
    fn learn_drifts(&self, estimates: &mut [Estimate]) {
        let mut pairs = vec![Pairs::default(); estimates.len()];
        for (risen, excess) in self.each() {
            let left = self.left(risen, excess, estimates);
            let noise = noise(risen, estimates);
            for &(at, count) in risen.iter().filter(|_| noise > 0.0) {
                let share = estimates[at as usize].noise(count) / noise;
                pairs[at as usize].add(Error { mean: share * left / count, share, count });
            }
        }
        for ((estimate, pairs), bucket) in estimates.iter_mut().zip(pairs).zip(&self.buckets) {
            estimate.drift = pairs.covariance().min(bucket.greatest_variance(estimate.mean));
            if estimate.drift > 0.0 {
                let variance = pairs.variance().min(bucket.greatest_variance(estimate.mean));
                // Without variance an interval would have zero noise and an infinite weight.
                estimate.variance = variance.max(MIN_VARIANCE * bucket.spread());
            }
        }
    }

    /// Estimates skewnesses. The third moment of the error of an interval is that of its observations, so
    /// the cube of the standardized error of n observations is the skewness divided by the square root of
    /// n. As far as that may be chance, the estimate shrinks to 0.
    fn learn_skews(&self, estimates: &mut [Estimate]) {
        let mut cubes = vec![(0.0, 0.0); estimates.len()];
        for (risen, excess) in self.each() {
            let noise = noise(risen, estimates);
            let error = self.left(risen, excess, estimates) / noise.sqrt();
            let cube = error.clamp(-GREATEST_ERROR, GREATEST_ERROR).powi(3);
            for &(at, count) in risen.iter().filter(|_| noise > 0.0) {
                let share = estimates[at as usize].noise(count) / noise;
                let weight = share.powf(1.5) / count.sqrt();
                cubes[at as usize].0 += weight * cube;
                cubes[at as usize].1 += weight * weight;
            }
        }
        for (estimate, (sum, weight)) in estimates.iter_mut().zip(cubes) {
            if weight > 0.0 {
                let chance = NORMAL_CUBE / weight;
                estimate.skew = sum / weight * PRIOR_SKEW / (PRIOR_SKEW + chance);
            }
        }
    }

    fn learn_variances(&self, estimates: &mut [Estimate]) {
        let mut squares: Vec<(f64, f64)> = self
            .buckets
            .iter()
            .map(|bucket| (PRIOR_INTERVALS * bucket.spread(), PRIOR_INTERVALS))
            .collect();
        for (risen, excess) in self.each() {
            let left = self.left(risen, excess, estimates);
            let noise = noise(risen, estimates);
            for &(at, count) in risen.iter().filter(|_| noise > 0.0) {
                let estimate = &estimates[at as usize];
                let own = count * estimate.variance;
                let share = own / noise;
                let square = (share * left).powi(2) + own * (1.0 - share);
                squares[at as usize].0 += square / count + share * share * count * estimate.doubt;
                squares[at as usize].1 += 1.0;
            }
        }
        for ((estimate, bucket), (square, intervals)) in
            estimates.iter_mut().zip(&self.buckets).zip(squares)
        {
            if estimate.drift > 0.0 {
                continue;
            }
            estimate.variance = (square / intervals).min(bucket.greatest_variance(estimate.mean));
        }
    }
}

impl Estimate {
    /// Returns the variance of all observations.
    pub(super) fn spread(&self) -> f64 {
        self.variance + self.drift
    }

    /// Returns the variance of the sum of `count` observations in one interval.
    fn noise(&self, count: f64) -> f64 {
        count.mul_add(self.drift, self.variance) * count
    }

    const fn at_centre(bucket: &Bucket) -> Self {
        Self {
            mean: bucket.centre(),
            doubt: bucket.spread(),
            variance: bucket.spread(),
            drift: 0.0,
            skew: 0.0,
        }
    }
}

/// The error of an interval's mean.
#[derive(Debug, Clone, Copy)]
struct Error {
    mean: f64,
    /// The bucket's share of the interval's noise.
    share: f64,
    count: f64,
}

/// The errors of one bucket in consecutive intervals.
#[derive(Debug, Clone, Copy, Default)]
struct Pairs {
    last: Option<Error>,
    number: f64,
    products: f64,
    squares: f64,
    steps: f64,
    weight: f64,
}

impl Pairs {
    fn add(&mut self, next: Error) {
        if let Some(last) = self.last {
            self.number += 1.0;
            self.products += last.mean * next.mean;
            self.squares += f64::midpoint(last.mean * last.mean, next.mean * next.mean);
            let observations = last.count * next.count / (last.count + next.count);
            self.steps += (next.mean - last.mean).powi(2) * observations;
            self.weight += last.share * next.share;
        }
        self.last = Some(next);
    }

    /// Returns the covariance of the mean less its standard error, so that one pair yields nothing.
    fn covariance(&self) -> f64 {
        if self.weight <= 0.0 {
            return 0.0;
        }
        let beyond_chance = self.products - self.squares / self.number.sqrt();
        (beyond_chance / self.weight).max(0.0)
    }

    /// Returns the variance of observations around the current mean, from its steps (von Neumann
    /// 1941).
    fn variance(&self) -> f64 {
        self.steps / self.weight
    }
}

/// Returns the variance of the sum of these observations.
fn noise(risen: &[(u32, f64)], estimates: &[Estimate]) -> f64 {
    risen.iter().map(|&(at, count)| estimates[at as usize].noise(count)).sum()
}
