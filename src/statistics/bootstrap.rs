//! The circular block bootstrap: how far a statistic of requests could have differed by chance.
//!
//! Requests of a run are not independent: those of a batch or a queue are slow together. Therefore
//! blocks of consecutive requests are drawn with replacement, where the last request is followed by
//! the first (Politis and Romano, "A circular block-resampling procedure for stationary data",
//! 1992). The seed is fixed, so that a comparison gives the same result when it is repeated.
//!
//! Of very many requests, several consecutive ones are drawn as one: a *term*. Sums are the same,
//! and blocks are multiples of terms. A percentile q of very many requests is not computed again for
//! each resample. A resample of which a share r is at most q, instead of the share r₀ of all, has about
//! the percentile that all requests have at p + r₀ − r: Bahadur's representation ("A note on
//! quantiles in large samples", The Annals of Mathematical Statistics 37, 1966).

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::percentile::{exact_sum, percentile, percentile_of, percentiles_in, select};
use crate::column::Column;

/// Number of resamples of each side of a comparison.
pub(crate) const RESAMPLES: usize = 2000;

/// Minimum number of requests.
pub(crate) const MIN_REQUESTS: usize = 50;

/// Minimum number of blocks that the requests must contain.
pub(crate) const MIN_BLOCKS: usize = 10;

/// Minimum number of requests on either side of a percentile.
pub(crate) const MIN_BEYOND: f64 = 10.0;

/// Number of terms from which two become one.
const MANY: usize = 1 << 18;

/// A statistic of requests in the order in which they started.
#[derive(Debug, Clone)]
pub(crate) enum Sample {
    /// The sum of the first numbers of all terms divided by that of the second: a mean, a share, or a
    /// rate.
    Ratio(Terms),
    /// A percentile (0 to 100) of the values.
    Percentile { values: Vec<f64>, percent: f64 },
    /// A percentile of many values: `value`, and whether each of the values is `below` it or equal.
    PercentileOfMany { values: Column<f64>, percent: f64, value: f64, below: Terms },
}

impl Sample {
    /// Creates the percentile (0 to 100) of `values`.
    pub(crate) fn percentile(values: Column<f64>, percent: f64) -> Self {
        Self::percentile_with(values, percent, MANY)
    }

    /// Creates a percentile, of more than `many` values as that of many.
    fn percentile_with(values: Column<f64>, percent: f64, many: usize) -> Self {
        if values.len() <= many {
            return Self::Percentile { values: values.iter().collect(), percent };
        }
        let value = percentile_of(|| values.iter(), percent).unwrap_or(f64::NAN);
        let mut below = Terms::with_most(many);
        values.iter().for_each(|one| below.push(f64::from(u8::from(one <= value)), 1.0));
        Self::PercentileOfMany { values, percent, value, below }
    }

    /// Returns the number of requests.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Ratio(terms) => terms.requests,
            Self::Percentile { values, .. } => values.len(),
            Self::PercentileOfMany { values, .. } => values.len(),
        }
    }

    /// Returns the number of terms that are drawn, and how many requests are in one.
    const fn terms(&self) -> (usize, usize) {
        match self {
            Self::Ratio(terms) | Self::PercentileOfMany { below: terms, .. } => {
                (terms.over.len(), terms.size)
            }
            Self::Percentile { values, .. } => (values.len(), 1),
        }
    }

    /// Returns the statistic; `None` if there are no requests or the divisor is 0.
    pub(crate) fn value(&self) -> Option<f64> {
        let value = match self {
            Self::Ratio(terms) => terms.ratio(),
            Self::Percentile { values, percent } => {
                let mut sorted = values.clone();
                sorted.sort_unstable_by(f64::total_cmp);
                percentile(&sorted, *percent)?
            }
            Self::PercentileOfMany { value, .. } => *value,
        };
        Some(value).filter(|value| value.is_finite())
    }

    /// Returns the number of requests in a block: by [`block_length`] for the terms that determine
    /// the statistic's variance, and at least n^(1/3).
    pub(crate) fn block_length(&self) -> usize {
        let Some(value) = self.value() else { return 1 };
        let (_, size) = self.terms();
        let length = match self {
            Self::Ratio(terms) => block_length(&terms.deviations(value)),
            Self::Percentile { values, .. } => {
                let below = values.iter().map(|one| f64::from(u8::from(*one <= value)));
                block_length(&below.collect::<Vec<_>>())
            }
            Self::PercentileOfMany { below, .. } => block_length(&below.deviations(below.ratio())),
        };
        (length * size).max((self.len() as f64).cbrt().ceil() as usize)
    }

    /// Returns why there are too few requests for an interval with blocks of `length`; `None` if
    /// there are enough.
    pub(crate) fn shortage(&self, length: usize) -> Option<String> {
        let n = self.len();
        if n < MIN_REQUESTS {
            return Some(format!("{n} requests, at least {MIN_REQUESTS} required"));
        }
        if let Self::Percentile { percent, .. } = self {
            let required = (MIN_BEYOND * 100.0 / percent.min(100.0 - percent)).round();
            if (n as f64) < required {
                return Some(format!("{n} requests, at least {required} required for p{percent}"));
            }
        }
        (n / length < MIN_BLOCKS).then(|| {
            format!(
                "{n} requests that depend on each other over {length} of them, at least {} required",
                length * MIN_BLOCKS
            )
        })
    }

    /// Returns the statistic of resamples with blocks of `length` requests, each of which `draw` fills
    /// with the first terms of its blocks.
    fn resampled(
        &self,
        length: usize,
        resamples: usize,
        mut draw: impl FnMut(&mut [usize]),
    ) -> Vec<f64> {
        let (n, size) = self.terms();
        let length = length.div_ceil(size).clamp(1, n.max(1));
        let mut starts = vec![0; n.div_ceil(length)];
        // The last block is shortened, so that a resample has as many terms as the run.
        let last = n - (starts.len().saturating_sub(1)) * length;
        let mut ratios = |terms: &Terms| -> Vec<f64> {
            let (over, under) = (Prefix::new(&terms.over), Prefix::new(&terms.under));
            let ratio = |_| {
                draw(&mut starts);
                let sum = |of: &Prefix| -> f64 {
                    let lengths = lengths(starts.len(), length, last);
                    starts.iter().zip(lengths).map(|(at, length)| of.block(*at, length)).sum()
                };
                sum(&over) / sum(&under)
            };
            (0..resamples).map(ratio).collect()
        };
        match self {
            Self::Ratio(terms) => ratios(terms),
            Self::Percentile { values, percent } => {
                let mut found = Vec::with_capacity(resamples);
                let mut drawn = Vec::with_capacity(n);
                for _ in 0..resamples {
                    draw(&mut starts);
                    drawn.clear();
                    for (at, length) in starts.iter().zip(lengths(starts.len(), length, last)) {
                        let end = at + length;
                        drawn.extend_from_slice(&values[*at..end.min(n)]);
                        drawn.extend_from_slice(&values[..end.saturating_sub(n)]);
                    }
                    found.extend(select(&mut drawn, *percent));
                }
                found
            }
            Self::PercentileOfMany { values, percent, below, .. } => {
                let of_all = below.ratio();
                let moved = |ratio: f64| (percent + (of_all - ratio) * 100.0).clamp(0.0, 100.0);
                let percents: Vec<f64> = ratios(below).into_iter().map(moved).collect();
                percentiles_in(|| values.iter(), &percents).unwrap_or_default()
            }
        }
    }

    /// Returns the statistic of `resamples` resamples with blocks of `length` requests. Samples that
    /// are compared need different values of `stream`.
    pub(crate) fn bootstrap(&self, length: usize, resamples: usize, stream: u64) -> Vec<f64> {
        let (n, _) = self.terms();
        let mut random = ChaCha8Rng::seed_from_u64(0);
        random.set_stream(stream);
        self.resampled(length, resamples, |starts| {
            for start in starts {
                *start = random.random_range(0..n);
            }
        })
    }
}

/// Pairs of numbers of consecutive requests. As long as there are few, each request is a term;
/// otherwise a term is the sum of several.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    over: Vec<f64>,
    under: Vec<f64>,
    /// Number of requests.
    requests: usize,
    /// Number of requests of a term; the last one may have fewer.
    size: usize,
    /// Number of terms from which two become one; even.
    most: usize,
}

impl Terms {
    fn with_most(most: usize) -> Self {
        Self { over: Vec::new(), under: Vec::new(), requests: 0, size: 1, most }
    }

    /// Adds the numbers of the next request.
    pub(crate) fn push(&mut self, over: f64, under: f64) {
        let is_new = self.requests.is_multiple_of(self.size);
        if is_new && self.over.len() >= self.most {
            for numbers in [&mut self.over, &mut self.under] {
                *numbers = numbers.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
            self.size *= 2;
        }
        match (self.over.last_mut(), self.under.last_mut()) {
            (Some(last_over), Some(last_under)) if !self.requests.is_multiple_of(self.size) => {
                *last_over += over;
                *last_under += under;
            }
            _ => {
                self.over.push(over);
                self.under.push(under);
            }
        }
        self.requests += 1;
    }

    fn ratio(&self) -> f64 {
        exact_sum(self.over.iter().copied()) / exact_sum(self.under.iter().copied())
    }

    /// Returns how far each term is from what it would be if its ratio were `value`.
    fn deviations(&self, value: f64) -> Vec<f64> {
        self.over.iter().zip(&self.under).map(|(over, under)| over - value * under).collect()
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self::with_most(MANY)
    }
}

impl Extend<(f64, f64)> for Terms {
    fn extend<I: IntoIterator<Item = (f64, f64)>>(&mut self, pairs: I) {
        pairs.into_iter().for_each(|(over, under)| self.push(over, under));
    }
}

/// Returns the lengths of `count` blocks.
fn lengths(count: usize, length: usize, last: usize) -> impl Iterator<Item = usize> {
    (1..=count).map(move |number| if number == count { last } else { length })
}

/// Sums of consecutive numbers.
struct Prefix(Vec<f64>);

impl Prefix {
    fn new(numbers: &[f64]) -> Self {
        let mut sums = Vec::with_capacity(numbers.len() + 1);
        sums.push(0.0);
        let mut sum = 0.0;
        sums.extend(numbers.iter().map(|number| {
            sum += number;
            sum
        }));
        Self(sums)
    }

    /// Returns the sum of `length` numbers from `at`, where the first follows the last.
    fn block(&self, at: usize, length: usize) -> f64 {
        let n = self.0.len() - 1;
        let end = at + length;
        if end <= n { self.0[end] - self.0[at] } else { self.0[n] - self.0[at] + self.0[end - n] }
    }
}

/// Returns the interval that contains the differences of `new` and `base`, statistics of
/// resamples, with probability `level`; `None` if one of them is not finite.
pub(crate) fn interval(base: &[f64], new: &[f64], level: f64) -> Option<[f64; 2]> {
    let mut differences: Vec<f64> = base.iter().zip(new).map(|(base, new)| new - base).collect();
    if differences.iter().any(|difference| !difference.is_finite()) {
        return None;
    }
    differences.sort_unstable_by(f64::total_cmp);
    let tail = 50.0 * (1.0 - level);
    Some([percentile(&differences, tail)?, percentile(&differences, 100.0 - tail)?])
}

/// Returns the block length with the smallest error of the variance of a mean of `terms`, for the
/// circular bootstrap: Politis and White, "Automatic block-length selection for the dependent
/// bootstrap", Econometric Reviews 23 (2004), as corrected by Patton, Politis and White (2009).
pub(crate) fn block_length(terms: &[f64]) -> usize {
    let n = terms.len();
    if n < 4 {
        return 1;
    }
    let count = n as f64;
    let mean = exact_sum(terms.iter().copied()) / count;
    let centred: Vec<f64> = terms.iter().map(|term| term - mean).collect();
    let autocovariance =
        |lag: usize| centred.iter().zip(&centred[lag..]).map(|(a, b)| a * b).sum::<f64>() / count;
    let variance = autocovariance(0);
    // Equal terms differ by rounding only.
    if variance <= f64::EPSILON * mean.powi(2) || !variance.is_finite() {
        return 1;
    }
    let window = (count.log10().ceil() as usize).max(5);
    let most = (count.sqrt().ceil() as usize + window).min(n - 1);
    let covariances: Vec<f64> = (0..=most).map(autocovariance).collect();
    let bound = 2.0 * (count.log10() / count).sqrt() * variance;
    let is_small = |covariance: &f64| covariance.abs() < bound;
    // The smallest lag after which a whole window of correlations is insignificant.
    let insignificant = covariances[1..].windows(window).position(|next| next.iter().all(is_small));
    let significant = || covariances.iter().rposition(|covariance| !is_small(covariance));
    let lag = insignificant.or_else(significant).unwrap_or(0).max(1);
    let bandwidth = (2 * lag).min(most);
    let weight = |lag: usize| (2.0 * (1.0 - lag as f64 / bandwidth as f64)).clamp(0.0, 1.0);
    let weighed = |lag: usize| 2.0 * weight(lag) * covariances[lag];
    let spectrum = variance + (1..=bandwidth).map(weighed).sum::<f64>();
    let slope: f64 = (1..=bandwidth).map(|lag| lag as f64 * weighed(lag)).sum();
    let length = (1.5 * (slope / spectrum).powi(2) * count).cbrt();
    // Where neighbours compensate each other, as the times between the starts of a closed loop do,
    // shorter blocks only widen the interval.
    let longest = if spectrum < variance {
        (count / MIN_BLOCKS as f64).floor()
    } else {
        (3.0 * count.sqrt()).min(count / 3.0)
    };
    length.min(longest).ceil().max(1.0) as usize
}

#[cfg(test)]
mod tests;
