//! What the sweep of a recipe says about its cells.

use serde::{Deserialize, Serialize};

use base::statistics::{linear, student_t};

use super::sweep::Results;
use crate::metrics::{MetricTag, tag};

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

/// Confidence level of the intervals of coefficients.
const LEVEL: f64 = 0.95;

/// Coefficient of determination from which a curve describes the points.
pub const GOOD_FIT: f64 = 0.85;

/// A polynomial through points.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The coefficients, that of the highest power first.
    pub coefficients: Vec<f64>,
    /// Half the widths of their 95% intervals by Student's t; absent if there are not more points than
    /// coefficients, which any points then have.
    pub half_widths: Option<Vec<f64>>,
    /// Coefficient of determination, 1 - Σ(y - ŷ)² / Σ(y - ȳ)²; 0 if all values are equal.
    r_squared: f64,
}

impl Fit {
    /// Fits a line to `points`, or a parabola if the line is not a good fit, which takes more points than it
    /// has coefficients; `None` if there are fewer than two different abscissas. A line of times that would be
    /// negative without any length goes through the origin, and a parabola of which one would be is not taken.
    #[must_use]
    pub fn to_points(points: &[(f64, f64)]) -> Option<Self> {
        let line = polynomial(points, 1)?;
        let is_negative = line.at(0.0) < 0.0;
        let line = if is_negative { through_origin(points) } else { line };
        if line.r_squared >= GOOD_FIT || points.len() <= 3 {
            return Some(line);
        }
        let is_curved = |it: &Self| it.first_exceeds_its_interval() || !line.is_flat();
        let parabola = polynomial(points, 2).filter(Self::is_positive);
        Some(parabola.filter(|it| it.r_squared > line.r_squared && is_curved(it)).unwrap_or(line))
    }

    /// Returns whether it is nowhere negative from 0 on.
    fn is_positive(&self) -> bool {
        let lowest = match self.coefficients[..] {
            [a, b, _] if a > 0.0 => self.at((-b / (2.0 * a)).max(0.0)),
            _ => 0.0,
        };
        // Apart from rounding.
        lowest.min(self.at(0.0)) >= -1e-9 * self.at(0.0).abs().max(1.0)
    }

    /// Returns the coefficient of determination; `None` if any so many points are on such a curve.
    #[must_use]
    pub fn r_squared(&self) -> Option<f64> {
        self.half_widths.as_ref().map(|_| self.r_squared)
    }

    /// Returns whether it is a line whose slope may be 0, of more points than it has coefficients.
    #[must_use]
    pub fn is_flat(&self) -> bool {
        let is_line = self.coefficients.len() == 2;
        is_line && self.half_widths.is_some() && !self.first_exceeds_its_interval()
    }

    /// Returns whether the coefficient of the highest power is not 0, apart from chance.
    fn first_exceeds_its_interval(&self) -> bool {
        let widths = self.half_widths.as_deref().unwrap_or_default();
        let first = self.coefficients.first().zip(widths.first());
        first.is_some_and(|(coefficient, half_width)| coefficient.abs() > *half_width)
    }

    /// Determines how well it describes `points`; returns the sum of the squares of the residuals.
    fn assess(&mut self, points: &[(f64, f64)]) -> f64 {
        let mean = points.iter().map(|(_, y)| y).sum::<f64>() / points.len() as f64;
        let total: f64 = points.iter().map(|(_, y)| (y - mean).powi(2)).sum();
        let rest: f64 = points.iter().map(|(x, y)| (y - self.at(*x)).powi(2)).sum();
        self.r_squared = if total > 0.0 { 1.0 - rest / total } else { 0.0 };
        rest
    }

    /// Returns by what share of their mean the fitted values of `points` differ.
    #[must_use]
    pub fn change(&self, points: &[(f64, f64)]) -> f64 {
        let fitted = || points.iter().map(|(x, _)| self.at(*x));
        let mean = fitted().sum::<f64>() / points.len() as f64;
        (fitted().fold(f64::MIN, f64::max) - fitted().fold(f64::MAX, f64::min)) / mean
    }

    fn at(&self, x: f64) -> f64 {
        self.coefficients.iter().fold(0.0, |sum, coefficient| sum * x + coefficient)
    }
}

/// Fits a line through the origin by least squares.
fn through_origin(points: &[(f64, f64)]) -> Fit {
    let square: f64 = points.iter().map(|(x, _)| x * x).sum();
    let slope = points.iter().map(|(x, y)| x * y).sum::<f64>() / square;
    let mut fit = Fit { coefficients: vec![slope, 0.0], half_widths: None, r_squared: 0.0 };
    let rest = fit.assess(points);
    let degrees = points.len() as f64 - 1.0;
    fit.half_widths = student_t::critical(LEVEL, degrees)
        .map(|critical| vec![critical * (rest / degrees / square).sqrt(), 0.0]);
    fit
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
    let scaled = linear::solved(system.clone())?;
    let unscaled =
        |(exponent, value): (usize, &f64)| value / scale.powi(i32::try_from(exponent).unwrap_or(0));
    let mut coefficients: Vec<f64> = scaled.iter().enumerate().map(unscaled).collect();
    coefficients.reverse();
    let mut fit = Fit { coefficients, half_widths: None, r_squared: 0.0 };
    let rest = fit.assess(points);
    // The diagonal of the inverse of the normal equations, times the variance of the residuals.
    let degrees = points.len() as f64 - size as f64;
    let variance = |exponent: usize| {
        let unit = |(row, mut equation): (usize, Vec<f64>)| {
            equation[size] = if row == exponent { 1.0 } else { 0.0 };
            equation
        };
        linear::solved(system.iter().cloned().enumerate().map(unit).collect())?
            .get(exponent)
            .copied()
    };
    let half_width = |exponent: usize| {
        let critical = student_t::critical(LEVEL, degrees)?;
        let error = (variance(exponent)?.max(0.0) * rest / degrees).sqrt();
        Some(critical * unscaled((exponent, &error)))
    };
    let widths = || (0..size).rev().map(half_width).collect();
    fit.half_widths = if degrees > 0.0 { widths() } else { None };
    fit.coefficients.iter().all(|it| it.is_finite()).then_some(fit)
}

/// Returns the value of the parameter with the index `parameter` and of a statistic for each cell
/// that has both, in ascending order of the parameter.
#[must_use]
pub fn points(
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
pub fn degraded(points: &[(f64, f64)], threshold: f64) -> Option<(f64, f64)> {
    let (_, baseline) = points.first()?;
    points.iter().skip(1).find(|(_, value)| *value > baseline * (1.0 + threshold)).copied()
}

/// Returns `steps` whole numbers from `min` to `max` at equal distances of their logarithms,
/// without repetitions.
#[must_use]
pub fn logarithmic(min: u64, max: u64, steps: u64) -> Vec<u64> {
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
        let line = Fit::to_points(&[(256.0, 14.0), (512.0, 26.0), (1024.0, 50.0)]).unwrap();
        let [slope, intercept] = line.coefficients[..] else { panic!("{line:?}") };
        assert!((slope - 12.0 / 256.0).abs() < 1e-12 && (intercept - 2.0).abs() < 1e-9, "{line:?}");
        assert!((line.r_squared - 1.0).abs() < 1e-12);
        // y = x² - 4x + 4: the line has r² = 0.
        let parabola =
            Fit::to_points(&[(0.0, 4.0), (1.0, 1.0), (2.0, 0.0), (3.0, 1.0), (4.0, 4.0)]);
        let [a, b, c] = parabola.unwrap().coefficients[..] else { panic!() };
        assert!((a - 1.0).abs() + (b + 4.0).abs() + (c - 4.0).abs() < 1e-9, "{a} {b} {c}");
        assert_eq!(Fit::to_points(&[(1.0, 5.0)]), None);
        assert_eq!(Fit::to_points(&[(2.0, 5.0), (2.0, 6.0)]), None);
        // No variation to explain.
        assert_eq!(Fit::to_points(&[(1.0, 5.0), (2.0, 5.0)]).unwrap().r_squared, 0.0);
    }

    #[test]
    fn coefficients_have_intervals() {
        // numpy.polyfit(x, y, 1, cov='unscaled') by hand: x = 1, 2, 3, 4; y = 1, 2, 2, 3: slope 0.6,
        // intercept 0.5, residuals -0.1, 0.3, -0.3, 0.1, so that s² = 0.2 / 2 = 0.1; the sum of
        // (x - 2.5)² is 5, and that of x² is 30. Student's t of 97.5% with two degrees is 4.302653.
        let fit = polynomial(&[(1.0, 1.0), (2.0, 2.0), (3.0, 2.0), (4.0, 3.0)], 1).unwrap();
        let widths = fit.half_widths.clone().unwrap();
        let expected = [0.1_f64 / 5.0, 0.1 * 30.0 / (4.0 * 5.0)].map(|it| 4.302_653 * it.sqrt());
        assert!(widths.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{widths:?}");
        assert!(fit.is_flat() == (0.6 <= widths[0]));
        // As many points as coefficients do not have residuals.
        assert_eq!(Fit::to_points(&[(1.0, 5.0), (2.0, 9.0)]).unwrap().half_widths, None);
        assert_eq!(
            Fit::to_points(&[(1.0, 5.0), (2.0, 9.0), (3.0, 1.0)]).unwrap().coefficients.len(),
            2
        );
        // A constant time with noise.
        let flat = Fit::to_points(&[(256.0, 50.1), (512.0, 49.9), (1024.0, 50.0), (2048.0, 50.1)])
            .unwrap();
        assert!(flat.is_flat() && flat.coefficients.len() == 2, "{flat:?}");
        // A slope of 78 ns a token that is more than chance: 0.14 of 50.155 ms over all lengths.
        let points = [(256.0, 50.1), (512.0, 50.12), (1024.0, 50.16), (2048.0, 50.24)];
        let fit = Fit::to_points(&points).unwrap();
        assert!(!fit.is_flat() && (fit.change(&points) - 0.14 / 50.155).abs() < 1e-9, "{fit:?}");
        // Nor is the lowest of a parabola: x² - 4x + 3 is -1 at 2.
        let points = [(0.0, 3.0), (1.0, 0.0), (3.0, 0.0), (4.0, 3.0), (5.0, 8.0)];
        let fit = Fit::to_points(&points).unwrap();
        assert!(fit.coefficients.len() == 2 && fit.coefficients[1] >= 0.0, "{fit:?}");
        // Times are not negative: 1, 3 and 5 at 1, 2 and 3 would be -1 at 0.
        let fit = Fit::to_points(&[(1.0, 1.0), (2.0, 3.0), (3.0, 5.0)]).unwrap();
        assert_eq!(fit.coefficients[1], 0.0);
        assert!((fit.coefficients[0] - 22.0 / 14.0).abs() < 1e-12, "{fit:?}");
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
