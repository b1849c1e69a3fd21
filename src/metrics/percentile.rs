//! Statistics of exact values.
//!
//! Percentiles are those of `numpy.percentile` with its default method
//! `linear`, method 7 of Hyndman and Fan, "Sample Quantiles in Statistical
//! Packages", The American Statistician 50 (1996): the value at position
//! `(n − 1) · p / 100` of the sorted values, interpolated between neighbours
//! the way numpy does it, so that results agree to the last bit.

use super::metric::Distribution;

/// Computes statistics of `values`, sorting them; `None` if there are none. `std` is the
/// population's.
#[must_use]
pub(crate) fn distribution(values: &mut [f64]) -> Option<Distribution> {
    values.sort_unstable_by(f64::total_cmp);
    let (min, max) = (*values.first()?, *values.last()?);
    let count = values.len() as f64;
    let sum = exact_sum(values.iter().copied());
    let mean = sum / count;
    let variance = exact_sum(values.iter().map(|value| (value - mean).powi(2))) / count;
    let at = |percent| percentile(values, percent).unwrap_or(max);
    Some(Distribution {
        count: values.len() as u64,
        sum,
        min,
        max,
        std: variance.sqrt(),
        ..percentiles(at)
    })
}

/// Returns a distribution with the percentiles that `at` returns; all else is zero.
fn percentiles(at: impl Fn(f64) -> f64) -> Distribution {
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
pub(crate) fn percentile(ascending: &[f64], percent: f64) -> Option<f64> {
    if !(0.0..=100.0).contains(&percent) {
        return None;
    }
    let last = ascending.len().checked_sub(1)?;
    let position = last as f64 * (percent / 100.0);
    let below = (position.floor() as usize).min(last);
    let above = (below + 1).min(last);
    Some(interpolate(ascending[below], ascending[above], position - below as f64))
}

/// Like [`percentile`], for values in any order, which it changes.
#[must_use]
pub(crate) fn select(values: &mut [f64], percent: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let position = last as f64 * (percent / 100.0);
    let at = (position.floor() as usize).min(last);
    let (_, below, rest) = values.select_nth_unstable_by(at, f64::total_cmp);
    let above = rest.iter().copied().min_by(f64::total_cmp).unwrap_or(*below);
    Some(interpolate(*below, above, position - at as f64))
}

/// Computes statistics of `values` and `failures` infinite values. Percentiles use the nearest
/// rank, like numpy's method `nearest`, since interpolation with infinity is not possible.
/// `None` without `values`.
#[must_use]
pub(crate) fn with_failures(mut values: Vec<f64>, failures: usize) -> Option<Distribution> {
    values.sort_unstable_by(f64::total_cmp);
    let min = *values.first()?;
    let count = values.len() + failures;
    let at = |percent: f64| {
        let place = ((count - 1) as f64 * (percent / 100.0)).round_ties_even();
        values.get(place as usize).copied().unwrap_or(f64::INFINITY)
    };
    Some(Distribution {
        count: count as u64,
        sum: f64::INFINITY,
        min,
        max: f64::INFINITY,
        std: f64::NAN,
        ..percentiles(at)
    })
}

/// Interpolates between `a` and `b` like numpy's `_lerp`, from the nearer end.
fn interpolate(a: f64, b: f64, t: f64) -> f64 {
    let step = b - a;
    if t >= 0.5 { b - step * (1.0 - t) } else { a + step * t }
}

/// Returns the sum with Neumaier's compensation (Zeitschrift für angewandte Mathematik und
/// Mechanik 54, 1974), whose error does not grow with the number of values.
#[must_use]
pub(crate) fn exact_sum(values: impl IntoIterator<Item = f64>) -> f64 {
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
