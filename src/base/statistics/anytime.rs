//! Tests that may be looked at as often as one likes, after each value, and still err no more often
//! than stated: their evidence is a supermartingale under the hypothesis, which exceeds 1/α at any
//! time with a probability of at most α (Ville's inequality).
//!
//! Values of a run depend on their neighbours, which makes them worth fewer independent ones. How
//! much fewer is estimated from the variance of the means of batches, and the counts are divided by
//! it.

/// Maximum number of batches; from then on two become one.
const MOST_BATCHES: usize = 64;

/// Minimum number of batches whose means are compared.
const MIN_BATCHES: usize = 16;

/// Minimum number of values for a decision, so that the longest batches have at least 16.
pub(crate) const MIN_VALUES: u64 = 256;

/// Correlation of neighbouring batches above which they are too short to know the variance.
const MOST_CORRELATED: f64 = 0.4;

/// The variance of 16 means may have been found too low. With a probability of 98%, the true one is
/// below the found one times 15 / 5.985, where 5.985 is the quantile of 2% of χ² with 15 degrees of
/// freedom.
const VARIANCE_LIMIT: f64 = 2.506;

/// Number of alternatives on each side of a hypothesis.
const ALTERNATIVES: u32 = 64;

/// Number of independent values at which the interval of a mean is narrowest relative to what any
/// interval of this kind can be.
const TUNED_FOR: f64 = 200.0;

/// Where the true value is relative to a bound, by the values so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It is below.
    Below,
    /// It is above.
    Above,
}

/// The values so far, in batches of consecutive ones.
#[derive(Debug, Clone)]
pub struct Batches {
    sums: Vec<f64>,
    /// Number of values of a batch; the last one may have fewer.
    size: u64,
    count: u64,
    sum: f64,
    /// Welford's mean and sum of squared differences from it.
    mean: f64,
    squares: f64,
}

impl Default for Batches {
    fn default() -> Self {
        Self { sums: Vec::new(), size: 1, count: 0, sum: 0.0, mean: 0.0, squares: 0.0 }
    }
}

impl Batches {
    /// Adds the next value.
    pub fn push(&mut self, value: f64) {
        if self.count.is_multiple_of(self.size) {
            if self.sums.len() >= MOST_BATCHES {
                self.sums = self.sums.chunks(2).map(|pair| pair.iter().sum()).collect();
                self.size *= 2;
            }
            self.sums.push(0.0);
        }
        if let Some(last) = self.sums.last_mut() {
            *last += value;
        }
        self.count += 1;
        self.sum += value;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    fn variance(&self) -> f64 {
        self.squares / (self.count as f64 - 1.0)
    }

    /// Returns how many dependent values are worth a single independent one, at least
    /// [`VARIANCE_LIMIT`]; `None` for too few values, or if even the longest batches depend on each
    /// other.
    ///
    /// Batches are joined until [`MIN_BATCHES`] are left. The largest variance of their means counts,
    /// relative to that of independent values, with what the last ones still depend on each other.
    pub(crate) fn dependence(&self) -> Option<f64> {
        let whole = self.sums.len() - usize::from(!self.count.is_multiple_of(self.size));
        if self.count < MIN_VALUES {
            return None;
        }
        let variance = self.variance();
        let (mut sums, mut size) = (self.sums.get(..whole)?.to_vec(), self.size as f64);
        let (mut worst, mut longest) = (1.0_f64, 1.0);
        while sums.len() >= MIN_BATCHES && variance > 0.0 {
            let count = sums.len() as f64;
            let mean = sums.iter().sum::<f64>() / count;
            let squares: f64 = sums.iter().map(|sum| (sum - mean).powi(2)).sum();
            let products = sums.iter().zip(sums.get(1..)?).map(|(a, b)| (a - mean) * (b - mean));
            let correlation = products.sum::<f64>() / squares;
            if sums.len() < 2 * MIN_BATCHES && correlation > MOST_CORRELATED {
                return None;
            }
            // The estimate is too low by 1 / count on average.
            let correlation = (correlation + 1.0 / count).max(0.0);
            longest = squares / (count - 1.0) / size / variance;
            worst = worst.max(longest);
            longest *= (1.0 + correlation) / (1.0 - correlation);
            sums = sums.chunks_exact(2).map(|pair| pair.iter().sum()).collect();
            size *= 2.0;
        }
        Some(worst.max(longest) * VARIANCE_LIMIT)
    }

    /// Returns on which side of `bound` the mean of 0s and 1s is, at most a share `error` of all
    /// decisions being wrong; `None` as long as that cannot be told.
    ///
    /// The evidence against a probability of at least `bound` is the likelihood of the values divided
    /// by that under `bound`, averaged over lower probabilities; likewise on the other side (the
    /// method of mixtures: Robbins, "Statistical methods related to the law of the iterated
    /// logarithm", The Annals of Mathematical Statistics 41, 1970).
    pub fn share_is(&self, bound: f64, error: f64) -> Option<Side> {
        if bound <= 0.0 {
            return (self.sum > 0.0).then_some(Side::Above);
        }
        if bound >= 1.0 {
            return (self.sum < self.count as f64).then_some(Side::Below);
        }
        let worth = self.dependence()?;
        let (ones, zeros) = (self.sum / worth, (self.count as f64 - self.sum) / worth);
        let evidence = |other: &dyn Fn(f64) -> f64| {
            let logs: Vec<f64> = (1..=ALTERNATIVES)
                .map(|step| other(f64::from(step) / f64::from(ALTERNATIVES + 1)))
                .map(|p| ones * (p / bound).ln() + zeros * ((1.0 - p) / (1.0 - bound)).ln())
                .collect();
            let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = logs.iter().map(|log| (log - most).exp()).sum();
            most + (sum / f64::from(ALTERNATIVES)).ln()
        };
        let needed = -error.ln();
        if evidence(&|step| bound * step) >= needed {
            return Some(Side::Below);
        }
        // Nearby probabilities matter most.
        let above = |step: f64| bound + (1.0 - bound) * step * step;
        (evidence(&above) >= needed).then_some(Side::Above)
    }

    /// Returns on which side of `bound` the mean is, at most a share `error` of all decisions being
    /// wrong; `None` as long as that cannot be told.
    ///
    /// The interval is that of Robbins' normal mixture with the variance of the values so far, whose
    /// error is as stated for many values (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas,
    /// "Time-uniform central limit theory and asymptotic confidence sequences", 2021).
    pub fn mean_is(&self, bound: f64, error: f64) -> Option<Side> {
        let independent = self.count as f64 / self.dependence()?;
        let tuned = (2.0 * -error.ln() + (2.0 * -error.ln()).ln_1p()) / TUNED_FOR;
        let spread = independent * tuned + 1.0;
        let reach = 2.0 * spread / (independent.powi(2) * tuned) * (spread.sqrt() / error).ln();
        let half_width = (self.variance() * reach).sqrt();
        if self.mean + half_width < bound {
            return Some(Side::Below);
        }
        (self.mean - half_width > bound).then_some(Side::Above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::simulation::{Arrivals, Server, Service, Simulated};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Adds `values` until `decide` does, and returns the decision with the number of values.
    fn decided(
        values: impl Iterator<Item = f64>,
        decide: impl Fn(&Batches) -> Option<Side>,
    ) -> (Option<Side>, u64) {
        let mut batches = Batches::default();
        for value in values {
            batches.push(value);
            if let Some(side) = decide(&batches) {
                return (Some(side), batches.count);
            }
        }
        (None, batches.count)
    }

    /// Zeros, and ones with `probability`.
    fn coins(probability: f64, count: usize, seed: u64) -> impl Iterator<Item = f64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        (0..count).map(move |_| f64::from(u8::from(random.random_bool(probability))))
    }

    #[test]
    fn a_clear_share_is_decided_soon_and_on_the_right_side() {
        for seed in 0..20 {
            let decide = |batches: &Batches| batches.share_is(0.05, 0.05);
            let (side, count) = decided(coins(0.005, 10_000, seed), decide);
            assert!(side == Some(Side::Below) && count < 800, "{side:?} after {count}");
            let (side, count) = decided(coins(0.3, 10_000, seed), decide);
            assert!(side == Some(Side::Above) && count < 400, "{side:?} after {count}");
        }
        // Without a single 1, 1% is excluded by ln(20) / 0.01 = 300 independent values at best.
        let none = std::iter::repeat_n(0.0, 3000);
        let (side, count) = decided(none, |batches| batches.share_is(0.01, 0.05));
        assert!(side == Some(Side::Below) && (300..1500).contains(&count), "{side:?}, {count}");
    }

    #[test]
    fn a_share_at_its_bound_is_seldom_decided_however_often_one_looks() {
        let decisions = (0..200).filter(|seed| {
            let coins = coins(0.1, 1500, *seed);
            decided(coins, |batches| batches.share_is(0.1, 0.05)).0 == Some(Side::Below)
        });
        // With 5%, 18 or more of 200 have a probability of 1%.
        assert!(decisions.count() < 18);
    }

    #[test]
    fn certain_shares_need_one_value() {
        let mut batches = Batches::default();
        batches.push(0.0);
        assert_eq!(batches.share_is(0.0, 0.05), None);
        assert_eq!(batches.share_is(1.0, 0.05), Some(Side::Below));
        batches.push(1.0);
        assert_eq!(batches.share_is(0.0, 0.05), Some(Side::Above));
    }

    /// Latencies of a queue, whose neighbours depend on each other.
    fn latencies(seed: u64) -> impl Iterator<Item = f64> {
        let server = Server::new(4, 0.1, Service::Exponential);
        let requests = server.run(Arrivals::Poisson(0.7 * server.capacity()), 2500, seed);
        requests.into_iter().skip(500).map(|request| Simulated::latency(&request))
    }

    #[test]
    fn dependent_values_are_worth_fewer_and_their_mean_is_seldom_decided_wrongly() {
        let mean = (0..200).flat_map(latencies).sum::<f64>() / (200.0 * 2000.0);
        let wrong = (0..200).filter(|seed| {
            decided(latencies(*seed), |batches| batches.mean_is(mean, 0.05)).0.is_some()
        });
        let wrong = wrong.count();
        // 5% on either side, 31 or more of 200 with a probability of 1%.
        assert!(wrong < 31, "{wrong}");
        let mut batches = Batches::default();
        latencies(1).for_each(|latency| batches.push(latency));
        assert!(batches.dependence().unwrap() > 2.0, "{:?}", batches.dependence());
        // A bound that is 50% away is decided in most runs.
        let told = (0..50).filter(|seed| {
            let is_below = |batches: &Batches| batches.mean_is(1.5 * mean, 0.05);
            decided(latencies(*seed), is_below).0 == Some(Side::Below)
        });
        let told = told.count();
        assert!(told >= 40, "{told}");
    }

    #[test]
    fn batches_keep_the_sum_and_the_variance() {
        let mut batches = Batches::default();
        (1..=1000).for_each(|value| batches.push(f64::from(value)));
        assert_eq!((batches.count, batches.mean), (1000, 500.5));
        assert!((batches.variance() - 1000.0 * 1001.0 / 12.0).abs() < 1e-6);
        assert!(batches.sums.len() <= MOST_BATCHES);
        assert_eq!(batches.sums.iter().sum::<f64>(), 500_500.0);
    }
}
