//! How exact the mean of values is that depend on each other, as the latencies of requests that
//! wait in the same queue do.
//!
//! The variance of such a mean is that of the values times a factor for all of their correlations,
//! divided by their number. It is estimated in two steps. The correlation of neighbours is removed
//! by an autoregression of the first order, and put back afterwards (Andrews and Monahan, "An improved
//! heteroskedasticity and autocorrelation consistent covariance matrix estimator", Econometrica 60,
//! 1992). What dependence is left is in the variance of overlapping batches (Meketon and Schmeiser,
//! "Overlapping batch means: something for nothing?", Proceedings of the Winter Simulation
//! Conference, 1984).
//!
//! Both steps are estimates, so that the interval is one of Student's t. Its degrees of freedom follow
//! from the variances of the logarithms of their standard errors, which add up; that of k degrees
//! is 1/2k.

use super::percentile::exact_sum;
use super::sums::Sums;

/// Number of batches without overlap. Fewer are less exact, and more are too short for what depends
/// on each other.
const BATCHES: usize = 16;

/// The largest correlation of neighbours that is removed: beyond it, they are a trend.
const MOST_CORRELATED: f64 = 0.97;

/// How exact a sum or a mean is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exactness {
    /// The variance.
    pub variance: f64,
    /// The degrees of freedom with which the variance is known.
    pub degrees: f64,
}

impl Exactness {
    /// The dependence of values of which nothing is known.
    pub const NONE: Self = Self { variance: f64::INFINITY, degrees: 1.0 };

    /// Returns that of the sum of two independent values, by Welch's formula ("The generalization of
    /// Student's problem when several different population variances are involved", Biometrika 34,
    /// 1947).
    pub fn plus(self, other: Self) -> Self {
        let variance = self.variance + other.variance;
        if variance.is_infinite() {
            return Self::NONE;
        }
        let term = |of: Self| of.variance.powi(2) / of.degrees;
        let terms = term(self) + term(other);
        let degrees = if terms > 0.0 { variance.powi(2) / terms } else { f64::INFINITY };
        Self { variance, degrees }
    }
}

/// The effect of the dependence of values on their sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Dependence {
    /// How exact the sum of all values is.
    pub sum: Exactness,
    /// Number of values in a batch.
    pub batch: usize,
}

/// Returns how exact the sum of values is, which are added up in the order in which they depend on each
/// other, each less the mean of all; not at all of fewer than four.
pub(crate) fn dependence(values: &Sums) -> Dependence {
    let sums = values.sums();
    let n = sums.len();
    if n < 4 {
        return Dependence { sum: Exactness::NONE, batch: 1 };
    }
    let count = n as f64;
    let mean = exact_sum(sums.iter().copied()) / count;
    let centred: Vec<f64> = sums.iter().map(|value| value - mean).collect();
    let squares: f64 = centred.iter().map(|value| value * value).sum();
    let length = (n / BATCHES).max(1);
    let batch = length * values.size();
    if squares == 0.0 {
        let sum = Exactness { variance: 0.0, degrees: f64::INFINITY };
        return Dependence { sum, batch };
    }
    let neighbours: f64 = centred.iter().zip(&centred[1..]).map(|(one, next)| one * next).sum();
    let correlation = neighbours / squares;
    // The estimate is too small by (1 + 3r)/n (Kendall, "Note on bias in the estimation of
    // autocorrelation", Biometrika 41, 1954).
    let correlation = (correlation + (1.0 + 3.0 * correlation) / count).clamp(0.0, MOST_CORRELATED);
    let rest = centred.iter().zip(&centred[1..]).map(|(one, next)| next - correlation * one);
    let rest: Vec<f64> = rest.collect();
    let variance = count * batch_variance(&rest, length) / (1.0 - correlation).powi(2);
    // Overlapping batches are worth 1.5 times as many without overlap.
    let batches = 1.5 * (n / length - 1).max(1) as f64;
    let error_of_correlation = (1.0 - correlation.powi(2)) / count / (1.0 - correlation).powi(2);
    let degrees = 1.0 / (1.0 / batches + 2.0 * error_of_correlation);
    Dependence { sum: Exactness { variance, degrees }, batch }
}

/// Returns the variance of the sum of many values, divided by their number, from the sums of all
/// batches of `length` consecutive ones.
fn batch_variance(values: &[f64], length: usize) -> f64 {
    let n = values.len();
    let mean = exact_sum(values.iter().copied()) / n as f64;
    let mut sum: f64 = values[..length].iter().sum();
    let expected = mean * length as f64;
    let mut squares = (sum - expected).powi(2);
    for (gone, new) in values.iter().zip(&values[length..]) {
        sum += new - gone;
        squares += (sum - expected).powi(2);
    }
    let batches = (n - length + 1) as f64;
    // Without bias for independent values.
    squares * n as f64 / (length as f64 * batches * (n - length) as f64)
}
