//! When requests of an open loop are due.
//!
//! Due times are offsets from the phase's start, each computed from the
//! schedule alone and never from when the one before was really sent.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp, Gamma};

use super::config::ArrivalPattern;
use crate::units::Nanos;

/// The due times of a phase, in order, without end. The first is zero.
#[derive(Debug, Clone)]
pub struct Arrivals {
    gaps: Gaps,
    rng: ChaCha8Rng,
    /// Seconds from the start to the next due time.
    next_seconds: f64,
    /// Arrivals so far.
    count: u64,
}

#[derive(Debug, Clone, Copy)]
enum Gaps {
    /// All due at once.
    None,
    /// Equal, `1/rate` seconds.
    Constant(f64),
    /// Exponential: a Poisson process.
    Exponential(Exp<f64>),
    /// Gamma of mean `1/rate`.
    Gamma(Gamma<f64>),
}

impl Arrivals {
    /// Arrivals at `rate` per second. `smoothness` is the shape of the gamma
    /// distribution: 1 is Poisson, more is more even, less is burstier.
    ///
    /// Rates and shapes that are not positive give arrivals that are all due
    /// at once; the command line refuses them.
    #[must_use]
    pub fn new(pattern: ArrivalPattern, rate: f64, smoothness: f64, rng: ChaCha8Rng) -> Self {
        let gaps = match pattern {
            ArrivalPattern::Constant if rate > 0.0 => Gaps::Constant(rate),
            ArrivalPattern::Poisson => Exp::new(rate).map_or(Gaps::None, Gaps::Exponential),
            ArrivalPattern::Gamma => {
                Gamma::new(smoothness, 1.0 / (rate * smoothness)).map_or(Gaps::None, Gaps::Gamma)
            }
            _ => Gaps::None,
        };
        Self { gaps, rng, next_seconds: 0.0, count: 0 }
    }

    /// The next due time.
    pub fn next_due(&mut self) -> Nanos {
        let due = match self.gaps {
            // A product, so that rounding does not add up over a long run.
            Gaps::Constant(rate) => self.count as f64 / rate,
            _ => self.next_seconds,
        };
        self.count += 1;
        self.next_seconds += match &self.gaps {
            Gaps::None | Gaps::Constant(_) => 0.0,
            Gaps::Exponential(gap) => draw(gap, &mut self.rng),
            Gaps::Gamma(gap) => draw(gap, &mut self.rng),
        };
        Nanos::from_seconds(due)
    }
}

fn draw(distribution: &impl Distribution<f64>, rng: &mut impl Rng) -> f64 {
    distribution.sample(rng)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn due_seconds(pattern: ArrivalPattern, rate: f64, smoothness: f64, count: usize) -> Vec<f64> {
        let mut arrivals = Arrivals::new(pattern, rate, smoothness, ChaCha8Rng::seed_from_u64(7));
        (0..count).map(|_| arrivals.next_due().as_seconds()).collect()
    }

    fn gaps(due: &[f64]) -> Vec<f64> {
        due.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    /// The largest distance between the gaps' empirical distribution and `cdf`.
    fn kolmogorov_smirnov(gaps: &[f64], cdf: impl Fn(f64) -> f64) -> f64 {
        let mut sorted = gaps.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len() as f64;
        let distance = |(i, gap): (usize, &f64)| {
            let expected = cdf(*gap);
            (expected - i as f64 / n).abs().max(((i + 1) as f64 / n - expected).abs())
        };
        sorted.iter().enumerate().map(distance).fold(0.0, f64::max)
    }

    #[test]
    fn constant_arrivals_do_not_drift() {
        let due = due_seconds(ArrivalPattern::Constant, 3.0, 1.0, 3001);
        assert_eq!(due[0], 0.0);
        assert_eq!(due[3], 1.0);
        assert_eq!(due[3000], 1000.0);
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let gaps = gaps(&due_seconds(ArrivalPattern::Poisson, 50.0, 1.0, 5001));
        // 1.63 / sqrt(n) is the critical distance at the 1 % level.
        assert!(kolmogorov_smirnov(&gaps, |gap| 1.0 - (-50.0 * gap).exp()) < 1.63 / 5000f64.sqrt());
    }

    #[test]
    fn gamma_gaps_of_shape_two_are_erlang() {
        let gaps = gaps(&due_seconds(ArrivalPattern::Gamma, 50.0, 2.0, 5001));
        // Erlang of shape 2 with mean 1/50: rate 100.
        let cdf = |gap: f64| 1.0 - (-100.0 * gap).exp() * (1.0 + 100.0 * gap);
        assert!(kolmogorov_smirnov(&gaps, cdf) < 1.63 / 5000f64.sqrt());
    }

    #[test]
    fn a_seed_gives_the_same_arrivals_again() {
        let first = due_seconds(ArrivalPattern::Poisson, 10.0, 1.0, 100);
        assert_eq!(first, due_seconds(ArrivalPattern::Poisson, 10.0, 1.0, 100));
    }

    #[test]
    fn a_burst_is_due_at_once() {
        assert_eq!(due_seconds(ArrivalPattern::ConcurrencyBurst, 0.0, 1.0, 3), [0.0; 3]);
    }
}
