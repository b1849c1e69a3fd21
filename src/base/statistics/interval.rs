//! Intervals of statistics, and of their differences and ratios.
//!
//! The interval of a difference is recovered from those of both sides (Zou and Donner, "Construction
//! of confidence limits about effect measures: a general approach", Statistics in Medicine 27,
//! 2008): how far it reaches below the difference is how far NEW may be below its value and BASE above
//! its own, which are independent. For means this is Welch's interval, and it needs no symmetry. The
//! interval of a ratio is that of the difference of the logarithms, so that a relative difference is
//! never below -100%.

use super::dependent::{Dependence, Exactness, dependence};
use super::percentile::{exact_sum, percentile_of, percentiles_in};
use super::student_t;
use crate::column::Column;

/// The fewest degrees of freedom that an estimate has, and the most that are told from infinitely many.
const DEGREES: (f64, f64) = (1.0, 1000.0);

/// A statistic, and what its interval follows from.
#[derive(Debug, Clone)]
pub struct Measured {
    pub value: f64,
    spread: Spread,
    degrees: f64,
    /// Number of consecutive values in a batch; 1 if the values are independent.
    pub batch: usize,
    /// The number of independent values that would be as exact.
    pub independent: f64,
}

/// How far the true value may be from that of the sample.
#[derive(Debug, Clone)]
enum Spread {
    /// A standard error.
    Error(f64),
    /// A percentile of `values` is between two other percentiles of them.
    Percentile { values: Column<f64>, percent: f64 },
}

/// On which scale two statistics are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Difference,
    /// By the logarithm of the ratio, of positive values.
    Ratio,
}

impl Measured {
    /// Creates a value with the exactness of the sum over `count` values of which it is the mean.
    fn of_dependent(value: f64, squares: f64, count: usize, found: Dependence) -> Self {
        let n = count as f64;
        let Dependence { sum, batch } = found;
        let independent = if sum.variance > 0.0 { n * squares / sum.variance } else { n };
        let spread = Spread::Error(sum.variance.sqrt() / n);
        Self { value, spread, degrees: sum.degrees, batch, independent }
    }

    /// Creates the mean of values that depend on each other in their order, of which `values` is called
    /// several times; `None` without values.
    pub fn mean<I: Iterator<Item = f64>>(values: impl Fn() -> I) -> Option<Self> {
        let count = values().count();
        let mean = exact_sum(values()) / count as f64;
        // Equal values differ by rounding only.
        let from_mean = |value: f64| {
            let difference = value - mean;
            if difference.abs() <= 4.0 * f64::EPSILON * mean.abs() { 0.0 } else { difference }
        };
        let squares = exact_sum(values().map(|value| from_mean(value).powi(2)));
        let found = dependence(&values().map(from_mean).collect());
        mean.is_finite().then(|| Self::of_dependent(mean, squares, count, found))
    }

    /// Like [`mean`](Self::mean), of which each value is 0 or 1: a share that is known with at most as many
    /// degrees of freedom as there are independent values of the rarer kind.
    pub fn share<I: Iterator<Item = f64>>(values: impl Fn() -> I) -> Option<Self> {
        let mut found = Self::mean(values)?;
        let rarer = found.value.min(1.0 - found.value) * found.independent;
        found.degrees = 1.0 / (1.0 / found.degrees + 1.0 / rarer.max(1.0));
        Some(found)
    }

    /// Creates a percentile (0 to 100) of values that depend on each other in their order; `None`
    /// without values.
    ///
    /// The interval consists of the percentiles between which the share of the values that are at most
    /// the percentile is (Woodruff, "Confidence intervals for medians and other position measures",
    /// Journal of the American Statistical Association 47, 1952).
    pub fn percentile(values: Column<f64>, percent: f64) -> Option<Self> {
        let value = percentile_of(|| values.iter(), percent)?;
        let is_below = |one: f64| f64::from(u8::from(one <= value));
        let share = Self::share(|| values.iter().map(is_below))?;
        Some(Self { value, spread: Spread::Percentile { values, percent }, ..share })
    }

    /// Creates the mean of independent values, at least two.
    pub fn of_independent(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let value = exact_sum(values.iter().copied()) / count;
        let squares = exact_sum(values.iter().map(|one| (one - value).powi(2)));
        (values.len() >= 2).then(|| Self {
            value,
            spread: Spread::Error((squares / (count - 1.0) / count).sqrt()),
            degrees: count - 1.0,
            batch: 1,
            independent: count,
        })
    }

    /// Creates a rate: a sum of `count` values, whose exactness is known, in so many `seconds`.
    pub fn of_sum(
        value: f64,
        seconds: f64,
        exactness: Exactness,
        batch: usize,
        count: usize,
    ) -> Self {
        Self {
            value,
            spread: Spread::Error(exactness.variance.sqrt() / seconds),
            degrees: exactness.degrees,
            batch,
            independent: count as f64,
        }
    }

    /// Returns the statistic times `factor`, which is positive, if it has a standard error.
    pub fn times(self, factor: f64) -> Self {
        let spread = match self.spread {
            Spread::Error(error) => Spread::Error(error * factor),
            percentile @ Spread::Percentile { .. } => percentile,
        };
        Self { value: self.value * factor, spread, ..self }
    }

    /// Returns half the width of its interval at the confidence `level`; `None` if it is unbounded.
    pub fn half_width(&self, level: f64) -> Option<f64> {
        let [low, high] = self.ends(level)?;
        Some((high - low) / 2.0)
    }

    /// Returns the ends of its interval at the confidence `level`; `None` if it is unbounded.
    pub fn ends(&self, level: f64) -> Option<[f64; 2]> {
        let t = critical(level, self.degrees)?;
        let [below, above] = self.reach(t, Scale::Difference)?;
        Some([self.value - below, self.value + above])
    }

    /// Returns how far the true value may be below and above on `scale`, at `t` standard errors; `None`
    /// if there is no limit.
    fn reach(&self, t: f64, scale: Scale) -> Option<[f64; 2]> {
        let found = match (&self.spread, scale) {
            (Spread::Error(error), Scale::Difference) => [t * error; 2],
            (Spread::Error(error), Scale::Ratio) => [t * error / self.value; 2],
            (Spread::Percentile { values, percent }, _) => {
                let ends = wilson(percent / 100.0, self.independent, t);
                let percents = ends.map(|share| (100.0 * share).clamp(0.0, 100.0));
                let found = percentiles_in(|| values.iter(), &percents)?;
                let [low, high] = <[f64; 2]>::try_from(found).ok()?;
                match scale {
                    Scale::Difference => [self.value - low, high - self.value],
                    Scale::Ratio => [(self.value / low).ln(), (high / self.value).ln()],
                }
            }
        };
        found.iter().all(|reach| reach.is_finite()).then(|| found.map(|reach| reach.max(0.0)))
    }
}

/// Returns the standard errors that an interval at the confidence `level` reaches, whose standard error has
/// so many degrees of freedom.
fn critical(level: f64, degrees: f64) -> Option<f64> {
    student_t::critical(level, degrees.clamp(DEGREES.0, DEGREES.1))
}

/// Returns the interval of a share that is `share` of `count` independent values, at `t` standard errors
/// (Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the
/// American Statistical Association 22, 1927).
fn wilson(share: f64, count: f64, t: f64) -> [f64; 2] {
    let by = t * t / count;
    let middle = (share + by / 2.0) / (1.0 + by);
    let half = (share * (1.0 - share) * by + by * by / 4.0).sqrt() / (1.0 + by);
    [middle - half, middle + half]
}

/// Returns the difference of `new` and `base` on `scale`.
pub fn shift(base: &Measured, new: &Measured, scale: Scale) -> f64 {
    match scale {
        Scale::Difference => new.value - base.value,
        Scale::Ratio => (new.value / base.value).ln(),
    }
}

/// Returns the interval of that difference at the confidence `level`;
/// `None` if it is unbounded.
pub fn difference(base: &Measured, new: &Measured, scale: Scale, level: f64) -> Option<[f64; 2]> {
    let exactness = |of: &Measured| {
        let [below, above] = of.reach(1.0, scale)?;
        let variance = f64::midpoint(below, above).powi(2);
        Some(Exactness { variance, degrees: of.degrees })
    };
    let degrees = exactness(base)?.plus(exactness(new)?).degrees;
    let t = critical(level, degrees)?;
    let ([base_below, base_above], [new_below, new_above]) =
        (base.reach(t, scale)?, new.reach(t, scale)?);
    let middle = shift(base, new, scale);
    Some([middle - new_below.hypot(base_above), middle + new_above.hypot(base_below)])
}

#[cfg(test)]
mod tests;
