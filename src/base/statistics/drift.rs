//! The trend of values over time that may depend on each other.
//!
//! Means of batches that are long enough hardly depend on their neighbours (Alexopoulos and Seila,
//! "Output data analysis for simulations", Winter Simulation Conference 2001), so that the ordinary
//! regression on time holds for them.

use super::{Estimate, student_t};

/// Number of batches that only a trend sorts, even if they depend on each other: a random walk is
/// monotone for so many steps in 1 of 16,000 cases.
const MONOTONE: usize = 16;

/// Least number of batches.
const LEAST: usize = 8;

/// Confidence of the interval.
const LEVEL: f64 = 0.998;

/// Standard errors by which the correlation of neighbours may be above 0.
const MOST_CORRELATED: f64 = 0.5;

/// Returns the change of `means` from the begin to the end of the time that they divide into equal
/// parts, with the interval of 99.8%: twice as long parts are taken until neighbours hardly depend on
/// each other. `None` if they do with eight parts.
pub fn drift(means: &[f64]) -> Option<Estimate> {
    let mut means = means.to_vec();
    while means.len() >= LEAST {
        let (slope, residuals) = regression(&means);
        let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
        let products = residuals.windows(2).map(|pair| pair.iter().product::<f64>());
        let correlation = if squares > 0.0 { products.sum::<f64>() / squares } else { 0.0 };
        let count = means.len() as f64;
        // What a regression takes from the correlation of independent values.
        let correlation = (correlation + 2.0 / count).max(0.0);
        if correlation <= MOST_CORRELATED / count.sqrt() || is_monotone(&means) {
            let critical = student_t::critical(LEVEL, count - 2.0)?;
            let spread = (count * count - 1.0) * count / 12.0;
            let inflation = (1.0 + correlation) / (1.0 - correlation.min(0.9));
            let deviation = (squares * inflation / (count - 2.0) / spread).sqrt();
            return Some(Estimate {
                value: slope * count,
                half_width: critical * deviation * count,
            });
        }
        means = means.chunks_exact(2).map(|pair| pair.iter().sum::<f64>() / 2.0).collect();
    }
    None
}

/// Returns whether each of at least [`MONOTONE`] values is above, or each is below the one before.
fn is_monotone(values: &[f64]) -> bool {
    let all = |of: fn(&f64, &f64) -> bool| values.is_sorted_by(of);
    values.len() >= MONOTONE && (all(|one, other| one < other) || all(|one, other| one > other))
}

/// Returns the slope of `values` over their index, and their distances from the line.
fn regression(values: &[f64]) -> (f64, Vec<f64>) {
    let count = values.len() as f64;
    let (center, mean) = ((count - 1.0) / 2.0, values.iter().sum::<f64>() / count);
    let from_center = |at: usize| at as f64 - center;
    let square: f64 = (0..values.len()).map(|at| from_center(at).powi(2)).sum();
    let products = values.iter().enumerate().map(|(at, value)| from_center(at) * (value - mean));
    let slope = products.sum::<f64>() / square;
    let residuals =
        values.iter().enumerate().map(|(at, value)| value - mean - slope * from_center(at));
    (slope, residuals.collect())
}
