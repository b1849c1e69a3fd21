//! Input and output lengths that rise and fall together.

use std::f64::consts::PI;

use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

use super::Length;

/// Two distributions of lengths whose ranks are correlated: a Gaussian copula.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Correlated<'a> {
    input: &'a Length,
    output: &'a Length,
    /// Correlation of the normal variables that the lengths are functions of.
    of_normals: f64,
}

impl<'a> Correlated<'a> {
    /// Creates a pair of lengths with Spearman's `rank_correlation`, from -1 to 1. The correlation
    /// of the normal variables is 2·sin(π·ρ/6) (Pearson, "On further methods of determining
    /// correlation", 1907).
    pub(crate) fn new(input: &'a Length, output: &'a Length, rank_correlation: f64) -> Self {
        let of_normals = (2.0 * (PI * rank_correlation / 6.0).sin()).clamp(-1.0, 1.0);
        Self { input, output, of_normals }
    }

    /// Draws an input and an output length of at least one.
    pub(crate) fn draw(self, rng: &mut impl Rng) -> [u32; 2] {
        let of_input: f64 = rng.sample(StandardNormal);
        let own: f64 = rng.sample(StandardNormal);
        let of_output =
            self.of_normals * of_input + (1.0 - self.of_normals * self.of_normals).sqrt() * own;
        [self.input.count_at(of_input), self.output.count_at(of_output)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    /// Returns the ranks of the values, from 0; equal values have the mean of their ranks.
    fn ranks(values: &[u32]) -> Vec<f64> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let rank = |value: &u32| {
            let below = sorted.partition_point(|other| other < value);
            let up_to = sorted.partition_point(|other| other <= value);
            (below as f64).midpoint(up_to as f64 - 1.0)
        };
        values.iter().map(rank).collect()
    }

    fn correlation(a: &[f64], b: &[f64]) -> f64 {
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let (a_mean, b_mean) = (mean(a), mean(b));
        let product = |f: fn(f64, f64) -> f64| {
            a.iter().zip(b).map(|(a, b)| f(a - a_mean, b - b_mean)).sum::<f64>()
        };
        product(|a, b| a * b) / (product(|a, _| a * a) * product(|_, b| b * b)).sqrt()
    }

    #[test]
    fn ranks_have_the_correlation_asked_for() {
        // Of three values, two of them equal: 0, 1.5, 1.5.
        assert_eq!(ranks(&[1, 7, 7]), [0.0, 1.5, 1.5]);
        let input = Length::parse("lognormal:mean=2000,sigma=1:60;9000|500:40").unwrap();
        let output = Length::parse("exponential:mean=3000").unwrap();
        for expected in [-0.9, 0.0, 0.6, 1.0] {
            let both = Correlated::new(&input, &output, expected);
            let mut rng = Seed(6).stream("test");
            let drawn: Vec<[u32; 2]> = (0..10_000).map(|_| both.draw(&mut rng)).collect();
            let side = |at: usize| ranks(&drawn.iter().map(|pair| pair[at]).collect::<Vec<_>>());
            let found = correlation(&side(0), &side(1));
            // The standard error is at most 1/√(10,000 − 1) = 0.01.
            assert!((found - expected).abs() < 0.03, "{expected}: {found}");
        }
    }
}
