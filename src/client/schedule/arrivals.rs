//! Due times of requests in an open loop.
//!
//! Due times are offsets from the phase's start. Each is computed from the schedule alone, and
//! never from the time at which an earlier request was sent.
//!
//! Arrivals are those of a process of rate 1 whose clock runs at the requested rate (a time
//! change). With exponential gaps this is an inhomogeneous Poisson process.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1, Gamma, Weibull};

use base::statistics::proportion::ln_gamma;
use base::units::Nanos;

use super::Shard;
use super::config::{ArrivalPattern, Rate};
use super::rate::RateCurve;

/// Endless sequence of a phase's due times, in order. The first is zero.
#[derive(Debug, Clone)]
pub struct Arrivals {
    curve: RateCurve,
    gaps: Gaps,
    rng: ChaCha8Rng,
    /// Position of the next arrival in the process of rate 1.
    position: f64,
    /// Number of arrivals so far, including those of other shards.
    count: u64,
    shard: Shard,
}

/// Gaps with a mean of 1.
#[derive(Debug, Clone, Copy)]
enum Gaps {
    Constant,
    /// A Poisson process.
    Exponential,
    Gamma(Gamma<f64>),
    Weibull(Weibull<f64>),
}

impl Arrivals {
    /// Creates arrivals at `rate`. If the rate or the shape is not positive, all arrivals are due
    /// at once; the command line rejects such values.
    #[must_use]
    pub fn new(rate: &Rate, rng: ChaCha8Rng) -> Self {
        let gaps = match rate.pattern {
            ArrivalPattern::Constant => Gaps::Constant,
            ArrivalPattern::Poisson => Gaps::Exponential,
            ArrivalPattern::Gamma { shape } => {
                Gamma::new(shape, 1.0 / shape).map_or(Gaps::Constant, Gaps::Gamma)
            }
            // The mean is scale·Γ(1 + 1/shape).
            ArrivalPattern::Weibull { shape } => {
                let scale = (-ln_gamma(1.0 + 1.0 / shape)).exp();
                Weibull::new(scale, shape).map_or(Gaps::Constant, Gaps::Weibull)
            }
        };
        let curve = RateCurve::new(rate);
        Self { curve, gaps, rng, position: 0.0, count: 0, shard: Shard::WHOLE }
    }

    /// Restricts the arrivals to those of `shard`.
    #[must_use]
    pub fn shard(self, shard: Shard) -> Self {
        Self { shard, ..self }
    }

    /// Changes the rate `at` this time after the start.
    pub(crate) fn change_rate(&mut self, at: Nanos, rate: f64) {
        self.curve.change(at.as_seconds(), rate);
    }

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
            // Derived from a count, so that rounding errors do not add up over a long run.
            Gaps::Constant => self.count as f64,
            Gaps::Exponential => self.position + draw(&Exp1, &mut self.rng),
            Gaps::Gamma(gap) => self.position + draw(gap, &mut self.rng),
            Gaps::Weibull(gap) => self.position + draw(gap, &mut self.rng),
        };
    }
}

/// Returns the shape of the Weibull distribution with the coefficient of variation `cv`, by bisection:
/// cv² is Γ(1 + 2/k)/Γ(1 + 1/k)² − 1, which falls as the shape k grows.
pub fn weibull_shape(cv: f64) -> f64 {
    let gamma = |shape: f64| {
        let ratio = ln_gamma(1.0 + 2.0 / shape) - 2.0 * ln_gamma(1.0 + 1.0 / shape);
        ratio.exp_m1().sqrt()
    };
    let (mut low, mut high) = (0.05f64, 50.0f64);
    for _ in 0..100 {
        let middle = (low * high).sqrt();
        if gamma(middle) > cv { low = middle } else { high = middle }
    }
    high
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

    /// Returns the largest distance between the empirical distribution of the gaps and `cdf`.
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
        // 1.63 / sqrt(n) is the critical distance at the 1% level.
        assert!(kolmogorov_smirnov(&gaps, |gap| 1.0 - (-50.0 * gap).exp()) < 1.63 / 5000f64.sqrt());
    }

    #[test]
    fn gamma_gaps_of_shape_two_are_erlang() {
        let gaps = gaps(&due_seconds(ArrivalPattern::Gamma { shape: 2.0 }, 50.0, 5001));
        // Erlang distribution of shape 2 with mean 1/50, hence rate 100.
        let cdf = |gap: f64| 1.0 - (-100.0 * gap).exp() * (1.0 + 100.0 * gap);
        assert!(kolmogorov_smirnov(&gaps, cdf) < 1.63 / 5000f64.sqrt());
    }

    #[test]
    fn weibull_gaps_have_their_mean_and_variation() {
        // scipy.stats.weibull_min: of shape 1 the variation is 1, of 2 it is 0.522723, of 0.5 2.236068.
        for (cv, shape) in [(1.0, 1.0), (0.522_723_2, 2.0), (5f64.sqrt(), 0.5)] {
            assert!((weibull_shape(cv) - shape).abs() < 1e-5, "{cv}: {}", weibull_shape(cv));
        }
        let gaps = gaps(&due_seconds(ArrivalPattern::Weibull { shape: 2.0 }, 50.0, 5001));
        // The mean of 1/50 is the scale times Γ(1.5), the square root of π divided by 2.
        let scale = 0.02 / (std::f64::consts::PI.sqrt() / 2.0);
        let cdf = |gap: f64| 1.0 - (-(gap / scale).powi(2)).exp();
        assert!(kolmogorov_smirnov(&gaps, cdf) < 1.63 / 5000f64.sqrt());
    }

    #[test]
    fn a_seed_gives_the_same_arrivals_again() {
        let first = due_seconds(ArrivalPattern::Poisson, 10.0, 100);
        assert_eq!(first, due_seconds(ArrivalPattern::Poisson, 10.0, 100));
    }

    #[test]
    fn constant_arrivals_on_a_ramp_are_due_when_its_integral_says() {
        // From 0 to 8 per second in 4 s: t² arrivals are due by t. Then 8 per second.
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
        // From 0 to 50 per second in 200 s: the clock is 50·t²/400.
        let ramp = Some(Nanos::from_seconds(200.0));
        let rate = Rate { ramp, ..Rate::constant(50.0, ArrivalPattern::Poisson) };
        let clock: Vec<f64> =
            due_of(&rate, 4001).into_iter().map(|t| 50.0 * t * t / 400.0).collect();
        let gaps = gaps(&clock);
        assert!(kolmogorov_smirnov(&gaps, |gap| 1.0 - (-gap).exp()) < 1.63 / 4000f64.sqrt());
    }
}
