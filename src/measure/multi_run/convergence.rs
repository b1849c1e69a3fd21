//! Whether the trials of a cell are enough (`--convergence-metric`).

use serde::{Deserialize, Serialize};

use base::column::Column;
use base::setting::named;

use super::{Trials, aggregate};
use crate::metrics::MetricTag;

/// Minimum number of runs: with two, the spread is hardly known.
pub const MIN_RUNS: u64 = 3;

/// The condition under which the trials of a cell are enough.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The metric that decides (`--convergence-metric`).
    pub metric: MetricTag,
    /// Its statistic (`--convergence-stat`).
    pub statistic: String,
    /// What must be small enough (`--convergence-mode`).
    pub mode: Mode,
    /// How small (`--convergence-threshold`).
    pub threshold: f64,
}

/// What must be small enough.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// The width of the confidence interval divided by the magnitude of the mean.
    #[default]
    CiWidth,
    /// The standard deviation divided by the magnitude of the mean.
    Cv,
    /// The difference between the last run and those before it: the p-value of the test of
    /// Kolmogorov and Smirnov must be above the threshold.
    Distribution,
}

named! { Mode { "ci_width" => CiWidth, "cv" => Cv, "distribution" => Distribution } }

impl Mode {
    /// Returns the default threshold, as in AIPerf.
    #[must_use]
    pub const fn default_threshold(self) -> f64 {
        match self {
            Self::CiWidth => 0.1,
            Self::Cv | Self::Distribution => 0.05,
        }
    }
}

/// What the runs of a cell say about the condition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Convergence {
    /// What is compared with the threshold; absent if it does not have a value.
    pub observed: Option<f64>,
    /// Whether the runs are enough.
    pub is_reached: bool,
}

impl Config {
    /// Evaluates the successful runs of a cell.
    #[must_use]
    pub(super) fn evaluate(&self, trials: &Trials) -> Convergence {
        let spread = || aggregate::across(trials, self.metric, &self.statistic);
        let observed = match self.mode {
            Mode::CiWidth => spread().and_then(|across| {
                Some(2.0 * across.spread?.t_critical * across.spread?.se / across.mean.abs())
            }),
            Mode::Cv => spread().and_then(|across| across.spread?.cv),
            Mode::Distribution => self.p_value(trials),
        };
        let observed = observed.filter(|observed| observed.is_finite());
        let holds = observed.is_some_and(|observed| match self.mode {
            Mode::CiWidth | Mode::Cv => observed < self.threshold,
            Mode::Distribution => observed > self.threshold,
        });
        let is_reached = holds && trials.successful().count() as u64 >= MIN_RUNS;
        Convergence { observed, is_reached }
    }

    /// Compares the values of the last run with those of all before it.
    fn p_value(&self, trials: &Trials) -> Option<f64> {
        let columns = trials.successful().filter_map(|run| run.values.as_ref());
        let mut columns: Vec<_> = columns.map(|values| values.column(self.metric)).collect();
        let last = columns.pop()??;
        let earlier = columns.into_iter().flatten().flat_map(Column::iter);
        p_value(last.iter().collect(), earlier.collect())
    }
}

/// Returns the p-value of the two-sample test of Kolmogorov and Smirnov, by the asymptotic
/// distribution with the correction of Stephens (1970); `None` if a sample is empty.
fn p_value(mut a: Vec<f64>, mut b: Vec<f64>) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    a.sort_unstable_by(f64::total_cmp);
    b.sort_unstable_by(f64::total_cmp);
    let (size_a, size_b) = (a.len() as f64, b.len() as f64);
    let (mut in_a, mut in_b, mut distance) = (0, 0, 0.0_f64);
    while let (Some(left), Some(right)) = (a.get(in_a), b.get(in_b)) {
        let value = left.min(*right);
        in_a += a[in_a..].iter().take_while(|it| **it <= value).count();
        in_b += b[in_b..].iter().take_while(|it| **it <= value).count();
        distance = distance.max((in_a as f64 / size_a - in_b as f64 / size_b).abs());
    }
    let root = (size_a * size_b / (size_a + size_b)).sqrt();
    Some(tail((root + 0.12 + 0.11 / root) * distance))
}

/// Returns the probability that Kolmogorov's distribution exceeds `x`.
fn tail(x: f64) -> f64 {
    // The series does not converge at 0; below this, the probability is 1 to 12 digits.
    if x < 0.2 {
        return 1.0;
    }
    let terms = (1..=100).map(|k| {
        let term = (-2.0 * f64::from(k * k) * x * x).exp();
        if k % 2 == 1 { term } else { -term }
    });
    (2.0 * terms.sum::<f64>()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_that_of_the_tables() {
        // Smirnov (1948): 1.224 at 10%, 1.358 at 5%, 1.628 at 1%.
        for (x, p) in [(1.224, 0.1), (1.358, 0.05), (1.628, 0.01)] {
            assert!((tail(x) - p).abs() < 5e-4, "{x}: {}", tail(x));
        }
        assert_eq!(tail(0.1), 1.0);
        assert!(tail(10.0) < 1e-80);
    }

    #[test]
    fn samples_are_compared_by_the_largest_distance() {
        let to = |from: u32, to: u32| (from..to).map(f64::from).collect::<Vec<_>>();
        assert_eq!(p_value(to(0, 50), to(0, 50)), Some(1.0));
        // A distance of 1 with 10 of each: √5 + 0.12 + 0.11 / √5 is 2.405.
        let apart = p_value(to(0, 10), to(10, 20)).unwrap();
        assert!((apart - 2.0 * (-2.0 * 2.405_261_f64.powi(2)).exp()).abs() < 1e-6, "{apart}");
        // Equal values count together: none of either sample is below another of its own.
        assert_eq!(p_value(vec![1.0; 5], vec![1.0; 9]), Some(1.0));
        // Half of one sample is above the other: a distance of 0.5.
        let half = p_value(to(5, 15), to(0, 10)).unwrap();
        assert!((half - tail((5.0_f64.sqrt() + 0.12 + 0.11 / 5.0_f64.sqrt()) * 0.5)).abs() < 1e-12);
        assert_eq!(p_value(Vec::new(), to(0, 3)), None);
    }
}
