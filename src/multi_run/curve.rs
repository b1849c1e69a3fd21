//! What the sweep of a recipe says about its cells.

use serde::{Deserialize, Serialize};

use super::sweep::Results;
use crate::metrics::{MetricTag, tag};
use crate::statistics::linear;

/// What is computed from the cells of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evaluation {
    /// Where a statistic exceeds that of the first cell by more than a fraction.
    Degradation {
        /// The metric (`--degradation-metric-tag`).
        metric: MetricTag,
        /// Its statistic (`--degradation-stat`).
        statistic: String,
        /// The fraction (`--degradation-threshold`).
        threshold: f64,
    },
    /// The time to first token as a function of the input length.
    Prefill,
    /// The inter token latency as a function of concurrency and output length.
    Decode,
    /// The Pareto front of output throughput and time to first token.
    Pareto,
    /// The highest cell that meets all conditions, and the lowest that does not.
    Breach,
}

impl Evaluation {
    /// Returns the metric and the statistic that it evaluates, if they are its own.
    #[must_use]
    pub fn subject(&self) -> Option<(MetricTag, &str)> {
        match self {
            Self::Degradation { metric, statistic, .. } => Some((*metric, statistic)),
            Self::Prefill => Some((tag::TIME_TO_FIRST_TOKEN, "avg")),
            Self::Decode => Some((tag::INTER_TOKEN_LATENCY, "avg")),
            Self::Pareto => Some((tag::TIME_TO_FIRST_TOKEN, "p95")),
            Self::Breach => None,
        }
    }
}

/// Coefficient of determination from which a curve describes the points.
pub(crate) const GOOD_FIT: f64 = 0.85;

/// A polynomial through points.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fit {
    /// The coefficients, that of the highest power first.
    pub(crate) coefficients: Vec<f64>,
    /// Coefficient of determination, 1 - Σ(y - ŷ)² / Σ(y - ȳ)²; 0 if all values are equal.
    pub(crate) r_squared: f64,
}

impl Fit {
    /// Fits a line to `points`, or a parabola if the line is not a good fit; `None` if there are
    /// fewer than two different abscissas.
    #[must_use]
    pub(crate) fn of(points: &[(f64, f64)]) -> Option<Self> {
        let line = polynomial(points, 1)?;
        if line.r_squared >= GOOD_FIT {
            return Some(line);
        }
        let parabola = polynomial(points, 2);
        Some(parabola.filter(|it| it.r_squared > line.r_squared).unwrap_or(line))
    }

    fn at(&self, x: f64) -> f64 {
        self.coefficients.iter().fold(0.0, |sum, coefficient| sum * x + coefficient)
    }
}

/// Fits a polynomial by least squares; `None` if the points do not determine it.
fn polynomial(points: &[(f64, f64)], degree: usize) -> Option<Fit> {
    // Scaled, so that the powers of large numbers remain comparable.
    let scale = points.iter().map(|(x, _)| x.abs()).fold(0.0, f64::max);
    let size = degree + 1;
    let mut system = vec![vec![0.0; size + 1]; size];
    for (x, y) in points {
        let power = |exponent: usize| (x / scale).powi(i32::try_from(exponent).unwrap_or(0));
        for (row, equation) in system.iter_mut().enumerate() {
            for (column, sum) in equation[..size].iter_mut().enumerate() {
                *sum += power(row + column);
            }
            equation[size] += power(row) * y;
        }
    }
    let scaled = linear::solved(system)?;
    let unscaled =
        |(exponent, value): (usize, &f64)| value / scale.powi(i32::try_from(exponent).unwrap_or(0));
    let mut coefficients: Vec<f64> = scaled.iter().enumerate().map(unscaled).collect();
    coefficients.reverse();
    let mut fit = Fit { coefficients, r_squared: 0.0 };
    let mean = points.iter().map(|(_, y)| y).sum::<f64>() / points.len() as f64;
    let total: f64 = points.iter().map(|(_, y)| (y - mean).powi(2)).sum();
    let rest: f64 = points.iter().map(|(x, y)| (y - fit.at(*x)).powi(2)).sum();
    if total > 0.0 {
        fit.r_squared = 1.0 - rest / total;
    }
    fit.coefficients.iter().all(|it| it.is_finite()).then_some(fit)
}

/// Returns the value of the parameter with the index `parameter` and of a statistic for each cell
/// that has both, in ascending order of the parameter.
#[must_use]
pub(crate) fn points(
    results: &Results,
    parameter: usize,
    metric: MetricTag,
    statistic: &str,
) -> Vec<(f64, f64)> {
    let Some(parameter) = results.sweep.parameters.get(parameter) else { return Vec::new() };
    let point = |cell: &super::sweep::Cell| {
        let x = cell.variation.values.get(&parameter.path)?.as_f64()?;
        Some((x, cell.value(metric, statistic)?))
    };
    let mut points: Vec<_> = results.cells.iter().filter_map(point).collect();
    points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    points
}

/// Returns the first of the `points` after the first whose value exceeds that of the first by more
/// than the fraction `threshold` of it.
#[must_use]
pub(crate) fn degraded(points: &[(f64, f64)], threshold: f64) -> Option<(f64, f64)> {
    let (_, baseline) = points.first()?;
    points.iter().skip(1).find(|(_, value)| *value > baseline * (1.0 + threshold)).copied()
}

/// Returns `steps` whole numbers from `min` to `max` at equal distances of their logarithms,
/// without repetitions.
#[must_use]
pub(crate) fn logarithmic(min: u64, max: u64, steps: u64) -> Vec<u64> {
    let (low, high) = ((min as f64).ln(), (max as f64).ln());
    let number = |step: u64| (low + (high - low) * step as f64 / (steps - 1) as f64).exp();
    let mut numbers: Vec<u64> = (0..steps).map(|step| number(step).round() as u64).collect();
    numbers.dedup();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_and_a_parabola_are_recognized() {
        let line = Fit::of(&[(256.0, 14.0), (512.0, 26.0), (1024.0, 50.0)]).unwrap();
        let [slope, intercept] = line.coefficients[..] else { panic!("{line:?}") };
        assert!((slope - 12.0 / 256.0).abs() < 1e-12 && (intercept - 2.0).abs() < 1e-9, "{line:?}");
        assert!((line.r_squared - 1.0).abs() < 1e-12);
        // y = x² - 4x + 4: the line has r² = 0.
        let parabola = Fit::of(&[(0.0, 4.0), (1.0, 1.0), (2.0, 0.0), (3.0, 1.0), (4.0, 4.0)]);
        let [a, b, c] = parabola.unwrap().coefficients[..] else { panic!() };
        assert!((a - 1.0).abs() + (b + 4.0).abs() + (c - 4.0).abs() < 1e-9, "{a} {b} {c}");
        assert_eq!(Fit::of(&[(1.0, 5.0)]), None);
        assert_eq!(Fit::of(&[(2.0, 5.0), (2.0, 6.0)]), None);
        // No variation to explain.
        assert_eq!(Fit::of(&[(1.0, 5.0), (2.0, 5.0)]).unwrap().r_squared, 0.0);
    }

    #[test]
    fn steps_are_logarithmic() {
        assert_eq!(logarithmic(1, 1000, 8), [1, 3, 7, 19, 52, 139, 373, 1000]);
        assert_eq!(logarithmic(1, 4, 8), [1, 2, 3, 4]);
        assert_eq!(logarithmic(256, 32768, 8), [256, 512, 1024, 2048, 4096, 8192, 16384, 32768]);
    }

    #[test]
    fn the_first_point_beyond_the_threshold_is_degraded() {
        let points = [(1.0, 10.0), (2.0, 12.0), (4.0, 12.5), (8.0, 30.0)];
        assert_eq!(degraded(&points, 0.2), Some((4.0, 12.5)));
        assert_eq!(degraded(&points, 2.0), None);
        assert_eq!(degraded(&[], 0.2), None);
    }

    proptest! {
        #[test]
        fn exact_lines_are_found(
            slope in -100.0..100.0_f64, intercept in -100.0..100.0_f64, xs in prop::collection::btree_set(1_u32..40_000, 2..10),
        ) {
            let points: Vec<_> = xs.iter().map(|x| {
                let x = f64::from(*x);
                (x, slope * x + intercept)
            }).collect();
            let fit = polynomial(&points, 1).unwrap();
            for (x, y) in &points {
                prop_assert!((fit.at(*x) - y).abs() < 1e-5 * (1.0 + y.abs()), "{fit:?}");
            }
        }
    }
}
