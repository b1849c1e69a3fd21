//! Tests that are repeated while data arrive.
//!
//! A test that is repeated on growing data finds a difference at last, even if there is none. With
//! alpha spending, each look may use a part of the probability of a false finding: hardly any early,
//! and nearly all of it at the end, as O'Brien and Fleming's bounds do (Lan and DeMets, "Discrete
//! sequential boundaries for clinical trials", Biometrika 70, 1983). It need not be known beforehand
//! how many looks there will be, nor when.

use super::normal;

/// Number of intervals of the grid on which densities are integrated; even.
const GRID: usize = 160;

/// Standard deviations beyond which nothing is integrated.
const FAR: f64 = 8.0;

/// A probability that is not worth a look.
const NEARLY_NOTHING: f64 = 1e-9;

/// Returns the probability of a false finding that may be used until the share `fraction` of all data:
/// the two-sided form of Lan and DeMets' spending function.
fn spent(alpha: f64, fraction: f64) -> f64 {
    let bound = normal::quantile(1.0 - alpha / 4.0) / fraction.sqrt();
    4.0 * normal::probability(-bound)
}

/// Returns the confidence level of each look's interval, so that all intervals together contain the
/// truth with the probability 1 - `alpha`. Looks are at the shares `fractions` of all data, which ascend,
/// and are above 0 and at most 1. A level of 1 means that nothing can be found yet.
///
/// The sum of the data is a Brownian motion at the looks. The density of the sums that have stayed within
/// the bounds so far is integrated from look to look (Armitage, `McPherson` and Rowe, "Repeated
/// significance tests on accumulating data", Journal of the Royal Statistical Society A 132, 1969).
pub fn levels(alpha: f64, fractions: &[f64]) -> Vec<f64> {
    let mut density: Option<Density> = None;
    let (mut used, mut before) = (0.0, 0.0);
    let mut levels = Vec::with_capacity(fractions.len());
    for fraction in fractions {
        let allowed = spent(alpha, *fraction) - used;
        if allowed < NEARLY_NOTHING {
            levels.push(1.0);
            continue;
        }
        let step = (fraction - before).max(0.0).sqrt();
        let beyond = |bound: f64| match &density {
            None => 2.0 * normal::probability(-bound / step),
            Some(density) => density.beyond(bound, step),
        };
        let bound = bisect(beyond, allowed, FAR * fraction.sqrt());
        let z = bound / fraction.sqrt();
        levels.push(if z >= FAR { 1.0 } else { 1.0 - 2.0 * normal::probability(-z) });
        used += beyond(bound);
        density = Some(match &density {
            None => Density::new(bound, |sum| normal_density(sum / step) / step),
            Some(density) => Density::new(bound, |sum| density.after(sum, step)),
        });
        before = *fraction;
    }
    levels
}

/// Returns the least bound up to `most` beyond which there is at most the probability `allowed`.
fn bisect(beyond: impl Fn(f64) -> f64, allowed: f64, most: f64) -> f64 {
    let (mut low, mut high) = (0.0, most);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if beyond(middle) > allowed { low = middle } else { high = middle }
    }
    high
}

fn normal_density(value: f64) -> f64 {
    (-value * value / 2.0).exp() / std::f64::consts::TAU.sqrt()
}

/// The density of the sums that have stayed within the bounds.
struct Density {
    /// Sums, and what the density at each adds to an integral.
    points: Vec<(f64, f64)>,
}

impl Density {
    /// Creates the density `at` each sum between -`bound` and `bound`.
    fn new(bound: f64, at: impl Fn(f64) -> f64) -> Self {
        let width = 2.0 * bound / GRID as f64;
        let point = |index: usize| {
            let sum = width * index as f64 - bound;
            // Simpson's rule.
            let weight = match index {
                0 | GRID => 1.0,
                _ if index % 2 == 1 => 4.0,
                _ => 2.0,
            };
            (sum, at(sum) * weight * width / 3.0)
        };
        Self { points: (0..=GRID).map(point).collect() }
    }

    /// Returns the probability that a sum leaves the bounds when it grows by a normal variable with the
    /// standard deviation `step`.
    fn beyond(&self, bound: f64, step: f64) -> f64 {
        let leaves = |sum: f64| {
            normal::probability((sum - bound) / step) + normal::probability((-bound - sum) / step)
        };
        self.points.iter().map(|(sum, share)| share * leaves(*sum)).sum()
    }

    /// Returns the density of `sum` after such growth.
    fn after(&self, sum: f64, step: f64) -> f64 {
        let from = |(before, share): &(f64, f64)| share * normal_density((sum - before) / step);
        self.points.iter().map(from).sum::<f64>() / step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bounds of Lan and DeMets' function of O'Brien and Fleming's type with two-sided 5%, as tables and
    /// other programs have them.
    #[test]
    fn bounds_are_those_of_the_tables() {
        for expected in [vec![2.962_6, 1.968_6], vec![4.876_9, 3.356_9, 2.680_3, 2.289_8, 2.031_0]]
        {
            let looks = expected.len();
            let fractions: Vec<f64> = (1..=looks).map(|look| look as f64 / looks as f64).collect();
            for (level, expected) in levels(0.05, &fractions).into_iter().zip(expected) {
                let bound = normal::quantile(0.5 + level / 2.0);
                assert!((bound - expected).abs() < 2e-3, "{looks} looks: {bound}, not {expected}");
            }
        }
    }

    #[test]
    fn a_single_look_has_the_whole_level() {
        let found = levels(0.05, &[1.0]);
        assert!((found[0] - 0.95).abs() < 1e-9, "{found:?}");
        assert_eq!(levels(0.05, &[0.01])[0], 1.0);
        assert!(levels(0.05, &[]).is_empty());
    }
}
