//! When requests of an open loop are due.
//!
//! Due times are offsets from the phase's start, each computed from the
//! schedule alone and never from when the one before was really sent.
//!
//! Arrivals are those of a process of rate 1 whose clock runs at the rate
//! wanted (time change): for exponential gaps an inhomogeneous Poisson process.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1, Gamma};

use super::Shard;
use super::config::{ArrivalPattern, Rate};
use super::rate::RateCurve;
use crate::units::Nanos;

/// The due times of a phase, in order, without end. The first is zero.
#[derive(Debug, Clone)]
pub struct Arrivals {
    curve: RateCurve,
    gaps: Gaps,
    rng: ChaCha8Rng,
    /// Where the next arrival is in the process of rate 1.
    position: f64,
    /// Arrivals so far, those of other shards too.
    count: u64,
    shard: Shard,
}

/// Gaps of mean 1.
#[derive(Debug, Clone, Copy)]
enum Gaps {
    Constant,
    /// A Poisson process.
    Exponential,
    Gamma(Gamma<f64>),
}

impl Arrivals {
    /// Arrivals at `rate`. Rates and shapes that are not positive give arrivals
    /// that are all due at once; the command line refuses them.
    #[must_use]
    pub fn new(rate: &Rate, rng: ChaCha8Rng) -> Self {
        let gaps = match rate.pattern {
            ArrivalPattern::Constant => Gaps::Constant,
            ArrivalPattern::Poisson => Gaps::Exponential,
            ArrivalPattern::Gamma { shape } => {
                Gamma::new(shape, 1.0 / shape).map_or(Gaps::Constant, Gaps::Gamma)
            }
        };
        let curve = RateCurve::new(rate);
        Self { curve, gaps, rng, position: 0.0, count: 0, shard: Shard::WHOLE }
    }

    /// This part of the arrivals.
    #[must_use]
    pub fn shard(self, shard: Shard) -> Self {
        Self { shard, ..self }
    }

    /// The next due time.
    pub fn next_due(&mut self) -> Nanos {
        while !self.shard.has(self.count) {
            self.step();
        }
        let due = Nanos::from_seconds(self.curve.time_of(self.position));
        self.step();
        due
    }

    fn step(&mut self) {
        self.count += 1;
        self.position = match &self.gaps {
            // A count, so that rounding does not add up over a long run.
            Gaps::Constant => self.count as f64,
            Gaps::Exponential => self.position + draw(&Exp1, &mut self.rng),
            Gaps::Gamma(gap) => self.position + draw(gap, &mut self.rng),
        };
    }
}

fn draw(distribution: &impl Distribution<f64>, rng: &mut impl Rng) -> f64 {
    distribution.sample(rng)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn due_seconds(pattern: ArrivalPattern, rate: f64, count: usize) -> Vec<f64> {
        due_of(&Rate::constant(rate, pattern), count)
    }

    fn due_of(rate: &Rate, count: usize) -> Vec<f64> {
        let mut arrivals = Arrivals::new(rate, ChaCha8Rng::seed_from_u64(7));
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
        let due = due_seconds(ArrivalPattern::Constant, 3.0, 3001);
        assert_eq!(due[0], 0.0);
        assert_eq!(due[3], 1.0);
        assert_eq!(due[3000], 1000.0);
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let gaps = gaps(&due_seconds(ArrivalPattern::Poisson, 50.0, 5001));
        // 1.63 / sqrt(n) is the critical distance at the 1 % level.
        assert!(kolmogorov_smirnov(&gaps, |gap| 1.0 - (-50.0 * gap).exp()) < 1.63 / 5000f64.sqrt());
    }

    #[test]
    fn gamma_gaps_of_shape_two_are_erlang() {
        let gaps = gaps(&due_seconds(ArrivalPattern::Gamma { shape: 2.0 }, 50.0, 5001));
        // Erlang of shape 2 with mean 1/50: rate 100.
        let cdf = |gap: f64| 1.0 - (-100.0 * gap).exp() * (1.0 + 100.0 * gap);
        assert!(kolmogorov_smirnov(&gaps, cdf) < 1.63 / 5000f64.sqrt());
    }

    #[test]
    fn a_seed_gives_the_same_arrivals_again() {
        let first = due_seconds(ArrivalPattern::Poisson, 10.0, 100);
        assert_eq!(first, due_seconds(ArrivalPattern::Poisson, 10.0, 100));
    }

    #[test]
    fn constant_arrivals_on_a_ramp_are_due_when_its_integral_says() {
        // 0 to 8 a second in 4 s: t² are due by t. Then 8 a second.
        let ramp = Some(Nanos::from_seconds(4.0));
        let rate = Rate { ramp, ..Rate::constant(8.0, ArrivalPattern::Constant) };
        let due = due_of(&rate, 25);
        for (count, found) in due.iter().take(17).enumerate() {
            assert!((found - (count as f64).sqrt()).abs() < 1e-9, "{count}: {found}");
        }
        assert_eq!(due[24], 5.0);
    }

    #[test]
    fn poisson_arrivals_on_a_ramp_are_exponential_on_its_clock() {
        // 0 to 50 a second in 200 s: 50·t²/400 is the clock.
        let ramp = Some(Nanos::from_seconds(200.0));
        let rate = Rate { ramp, ..Rate::constant(50.0, ArrivalPattern::Poisson) };
        let clock: Vec<f64> =
            due_of(&rate, 4001).into_iter().map(|t| 50.0 * t * t / 400.0).collect();
        let gaps = gaps(&clock);
        assert!(kolmogorov_smirnov(&gaps, |gap| 1.0 - (-gap).exp()) < 1.63 / 4000f64.sqrt());
    }
}
