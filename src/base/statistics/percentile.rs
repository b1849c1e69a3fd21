//! Statistics of exact values.
//!
//! Percentiles are those of `numpy.percentile` with its default method
//! `linear`, method 7 of Hyndman and Fan, "Sample Quantiles in Statistical
//! Packages", The American Statistician 50 (1996): the value at position
//! `(n − 1) · p / 100` of the sorted values, interpolated between neighbours
//! the way numpy does it, so that results agree to the last bit.

mod ranks;

use std::collections::BTreeMap;

use super::percent::further;
use super::{Distribution, Percent, Percentiles};
pub use ranks::{Extent, at_ranks, key};

/// Computes statistics of `values`, which is called several times; `None` if there are none. `std`
/// is the population's.
#[must_use]
pub fn distribution<I>(values: impl Fn() -> I) -> Option<Distribution>
where
    I: Iterator<Item = f64>,
{
    distribution_with(values, &[])
}

/// Like [`distribution`], with further percentiles.
#[must_use]
pub fn distribution_with<I>(values: impl Fn() -> I, percents: &[Percent]) -> Option<Distribution>
where
    I: Iterator<Item = f64>,
{
    let extent = Extent::of_values(values().map(once))?;
    let count = extent.weight as f64;
    let sum = exact_sum(values());
    let mean = sum / count;
    let variance = exact_sum(values().map(|value| (value - mean).powi(2))) / count;
    let last = extent.weight - 1;
    let ranks = all(percents).flat_map(|percent| {
        let Neighbours { below, above, .. } = Neighbours::at_percent(percent, last);
        [below, above]
    });
    let found = at_ranks(|| values().map(once), &extent, ranks);
    let at = |percent| {
        let Neighbours { below, above, share } = Neighbours::at_percent(percent, last);
        interpolate(nth(&found, below), nth(&found, above), share)
    };
    Some(Distribution {
        count: extent.weight,
        sum,
        min: extent.min,
        max: extent.max,
        std: variance.sqrt(),
        further: Percentiles::compute(percents, at),
        ..percentiles(at)
    })
}

/// Iterates over the percentiles of each distribution, and over the further ones of `percents`.
fn all(percents: &[Percent]) -> impl Iterator<Item = f64> {
    Distribution::PERCENTS.into_iter().chain(further(percents).map(Percent::value))
}

/// A value that counts once.
const fn once(value: f64) -> (f64, u64) {
    (value, 1)
}

/// Returns the value of a rank that was looked for.
fn nth(found: &BTreeMap<u64, f64>, rank: u64) -> f64 {
    found.get(&rank).copied().unwrap_or(f64::NAN)
}

/// Where a percentile lies between two neighbours of sorted values.
pub struct Neighbours {
    pub below: u64,
    pub above: u64,
    /// From `below` to `above`.
    pub share: f64,
}

impl Neighbours {
    /// Returns the place of `percent` (0 to 100) of the values at 0 to `last`.
    pub fn at_percent(percent: f64, last: u64) -> Self {
        let position = last as f64 * (percent / 100.0);
        let below = (position.floor() as u64).min(last);
        Self { below, above: (below + 1).min(last), share: position - below as f64 }
    }
}

/// Returns a distribution with the percentiles that `at` returns; all else is zero.
pub fn percentiles(at: impl Fn(f64) -> f64) -> Distribution {
    Distribution {
        p1: at(1.0),
        p5: at(5.0),
        p10: at(10.0),
        p25: at(25.0),
        p50: at(50.0),
        p75: at(75.0),
        p90: at(90.0),
        p95: at(95.0),
        p99: at(99.0),
        ..Distribution::default()
    }
}

/// Returns the percentile `percent` (0 to 100) of values in ascending order; `None` if `ascending`
/// is empty or `percent` is out of range.
#[must_use]
pub fn percentile(ascending: &[f64], percent: f64) -> Option<f64> {
    if !(0.0..=100.0).contains(&percent) {
        return None;
    }
    let last = ascending.len().checked_sub(1)?;
    let Neighbours { below, above, share } = Neighbours::at_percent(percent, last as u64);
    Some(interpolate(ascending[below as usize], ascending[above as usize], share))
}

/// Computes statistics of `values`, which is called several times, and `failures` infinite values.
/// Percentiles use the nearest rank, like numpy's method `nearest`, since interpolation with
/// infinity is not possible. `None` without `values`.
#[must_use]
pub fn with_failures<I>(
    values: impl Fn() -> I,
    failures: u64,
    percents: &[Percent],
) -> Option<Distribution>
where
    I: Iterator<Item = f64>,
{
    let extent = Extent::of_values(values().map(once))?;
    let count = extent.weight + failures;
    let rank = |percent: f64| ((count - 1) as f64 * (percent / 100.0)).round_ties_even() as u64;
    let ranks = all(percents).map(rank).filter(|rank| *rank < extent.weight);
    let found = at_ranks(|| values().map(once), &extent, ranks);
    let at = |percent| found.get(&rank(percent)).copied().unwrap_or(f64::INFINITY);
    Some(Distribution {
        count,
        sum: f64::INFINITY,
        min: extent.min,
        max: f64::INFINITY,
        std: f64::NAN,
        further: Percentiles::compute(percents, at),
        ..percentiles(at)
    })
}

/// Returns the [`percentile`] of values in any order, of which `values` is called several times.
#[must_use]
pub fn percentile_of<I>(values: impl Fn() -> I, percent: f64) -> Option<f64>
where
    I: Iterator<Item = f64>,
{
    percentiles_of(values, [percent]).map(|[value]| value)
}

/// Like [`percentile_of`], for several percentiles.
#[must_use]
pub fn percentiles_of<I, const N: usize>(
    values: impl Fn() -> I,
    percents: [f64; N],
) -> Option<[f64; N]>
where
    I: Iterator<Item = f64>,
{
    percentiles_in(values, &percents)?.try_into().ok()
}

/// Like [`percentile_of`], for a list of percentiles, in its order.
#[must_use]
pub(crate) fn percentiles_in<I>(values: impl Fn() -> I, percents: &[f64]) -> Option<Vec<f64>>
where
    I: Iterator<Item = f64>,
{
    let extent = Extent::of_values(values().map(once))?;
    let places =
        || percents.iter().map(|percent| Neighbours::at_percent(*percent, extent.weight - 1));
    let ranks = places().flat_map(|place| [place.below, place.above]);
    let found = at_ranks(|| values().map(once), &extent, ranks);
    let at = |place: Neighbours| {
        interpolate(nth(&found, place.below), nth(&found, place.above), place.share)
    };
    Some(places().map(at).collect())
}

/// Returns the values at the indices `ranks` of the sorted values, by index; `values` is called
/// several times.
#[must_use]
pub fn sorted_at<I>(
    values: impl Fn() -> I,
    ranks: impl IntoIterator<Item = u64>,
) -> BTreeMap<u64, f64>
where
    I: Iterator<Item = f64>,
{
    Extent::of_values(values().map(once))
        .map(|extent| at_ranks(|| values().map(once), &extent, ranks))
        .unwrap_or_default()
}

/// Interpolates between `a` and `b` like numpy's `_lerp`, from the nearer end.
pub fn interpolate(a: f64, b: f64, t: f64) -> f64 {
    let step = b - a;
    if t >= 0.5 { b - step * (1.0 - t) } else { a + step * t }
}

/// Returns the sum with Neumaier's compensation (Zeitschrift für angewandte Mathematik und
/// Mechanik 54, 1974), whose error does not grow with the number of values.
#[must_use]
pub fn exact_sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sum = 0.0f64;
    let mut lost = 0.0f64;
    for value in values {
        let next = sum + value;
        lost += if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
        sum = next;
    }
    sum + lost
}

#[cfg(test)]
mod tests;
