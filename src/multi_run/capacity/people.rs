//! People who think between requests: a finite source of requests for the slots of a server.
//!
//! With exponential think and service times this is the machine repairman model, M/M/c//N (Lazowska et al.,
//! "Quantitative System Performance", 1984, chapter 6). For services that vary less or more there is no formula,
//! so that it is simulated: arrivals come in bursts and wait for each other long before all slots are busy.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Exp1, StandardNormal};

use super::{Level, Model, Predicted, Prediction};
use crate::metrics::tag;
use crate::multi_run::evidence::tail;
use crate::statistics::percentile::percentile;

/// Number of requests that are simulated after the first ones.
const REQUESTS: usize = 20_000;

/// Number of users relative to those that keep all slots busy from which the slots are never idle.
const FLOODED: f64 = 2.0;

/// What happens to requests of people.
#[derive(Debug)]
pub(super) struct People {
    /// Requests per second.
    pub(super) rate: f64,
    /// How long requests wait for a slot, in seconds and in ascending order.
    pub(super) waits: Vec<f64>,
    /// Seconds for which a request is in a slot.
    pub(super) seconds: f64,
}

impl People {
    /// Simulates `users` who think for `think` seconds on average, exponentially distributed, and send requests
    /// to `slots` that take `seconds` for one, lognormally distributed with the coefficient of variation
    /// `variation`.
    pub(super) fn simulate(
        users: u64,
        think: f64,
        slots: u64,
        seconds: f64,
        variation: f64,
    ) -> Self {
        let capacity = slots as f64 / seconds;
        let busy = capacity * (think + seconds);
        if users as f64 > FLOODED * busy + slots as f64 {
            let wait = users as f64 / capacity - think - seconds;
            return Self { rate: capacity, waits: vec![wait], seconds };
        }
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let sigma = (1.0 + variation * variation).ln().sqrt();
        let think_time = |random: &mut ChaCha8Rng| -> f64 {
            let drawn: f64 = Exp1.sample(random);
            drawn * think
        };
        // Times are not negative, so that their bits are in the same order.
        let mut due: BinaryHeap<Reverse<u64>> =
            (0..users).map(|_| Reverse(think_time(&mut random).to_bits())).collect();
        let mut free: BinaryHeap<Reverse<u64>> = (0..slots).map(|_| Reverse(0)).collect();
        let next = |heap: &mut BinaryHeap<Reverse<u64>>| {
            heap.pop().map_or(0.0, |Reverse(bits)| f64::from_bits(bits))
        };
        let first = 5 * usize::try_from(users).unwrap_or(usize::MAX / 10);
        let (mut waits, mut since, mut now) = (Vec::with_capacity(REQUESTS), 0.0, 0.0);
        for number in 0..first + REQUESTS {
            now = next(&mut due);
            let served = next(&mut free).max(now);
            let normal: f64 = StandardNormal.sample(&mut random);
            let end = served + seconds * (sigma * normal - sigma * sigma / 2.0).exp();
            free.push(Reverse(end.to_bits()));
            due.push(Reverse((end + think_time(&mut random)).to_bits()));
            if number < first {
                since = now;
            } else {
                waits.push(served - now);
            }
        }
        let rate = waits.len() as f64 / (now - since);
        waits.sort_unstable_by(f64::total_cmp);
        Self { rate, waits, seconds }
    }

    /// Mean number of requests in slots and waiting for one, by Little's law.
    pub(super) fn in_flight(&self) -> f64 {
        self.rate * (self.seconds + self.mean_wait())
    }

    fn mean_wait(&self) -> f64 {
        self.waits.iter().sum::<f64>() / self.waits.len() as f64
    }

    /// Returns how long requests wait by a statistic: the mean, or a percentile.
    fn wait(&self, statistic: &str) -> Option<f64> {
        match statistic.strip_prefix('p').and_then(|text| text.parse().ok()) {
            Some(percent) => percentile(&self.waits, percent),
            None => (statistic == "avg").then(|| self.mean_wait()),
        }
    }
}

impl Model {
    /// Predicts the results with so many users, who think for `think` seconds on average, of a server with slots
    /// of so many seconds: what requests wait for, in addition to the statistic at the lowest load, where none
    /// waits. The ends of intervals are from slots that are as much faster and slower as the latencies that
    /// were tried tell.
    pub(super) fn predict_people(
        &self,
        users: f64,
        think: f64,
        [seconds, slots]: [f64; 2],
    ) -> Option<Prediction> {
        let lowest = self.levels.first()?;
        let count = slots.round().max(1.0) as u64;
        let mut factors: Vec<f64> = self
            .again
            .iter()
            .map(|(curve, _)| curve.seconds(slots) / self.curve.seconds(slots))
            .collect();
        factors.sort_unstable_by(f64::total_cmp);
        let tail = 100.0 * tail(self.confidence);
        let factor = |percent: f64| percentile(&factors, percent).filter(|it| it.is_finite());
        let of = |factor: f64| {
            let seconds = seconds * factor;
            People::simulate(users as u64, think, count, seconds, lowest.variation)
        };
        let middle = of(1.0);
        let fast = of(factor(tail).unwrap_or(1.0).min(1.0));
        let slow = of(factor(100.0 - tail).unwrap_or(1.0).max(1.0));
        let predicted = |value: &dyn Fn(&People) -> Option<f64>| {
            let [value, a, b] = [value(&middle)?, value(&fast)?, value(&slow)?];
            Some(Predicted { value, low: value.min(a).min(b), high: value.max(a).max(b) })
        };
        let values = lowest.values.iter().filter_map(|(metric, statistic, base)| {
            let is_first = *metric == tag::TIME_TO_FIRST_TOKEN;
            if !is_first && *metric != tag::REQUEST_LATENCY {
                return None;
            }
            let value = |people: &People| {
                let base = base * people.seconds / seconds;
                Some(base + 1e3 * people.wait(statistic)?)
            };
            Some((*metric, statistic.clone(), predicted(&value)?))
        });
        let in_flight = middle.in_flight();
        Some(Prediction {
            in_flight,
            is_beyond: in_flight > self.levels.last().map_or(1.0, Level::in_flight),
            rate: predicted(&|people| Some(people.rate))?,
            values: values.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean wait and the rate of M/M/c//N by its stationary distribution.
    fn repairmen(users: u64, think: f64, slots: u64, seconds: f64) -> [f64; 2] {
        let mut weights = vec![1.0_f64];
        for n in 1..=users {
            let arrivals = (users - n + 1) as f64 / think;
            let services = n.min(slots) as f64 / seconds;
            weights.push(weights[n as usize - 1] * arrivals / services);
        }
        let total: f64 = weights.iter().sum();
        let mean = |of: &dyn Fn(u64) -> f64| {
            (0..=users).zip(&weights).map(|(n, weight)| of(n) * weight).sum::<f64>() / total
        };
        let rate = mean(&|n| n.min(slots) as f64 / seconds);
        [mean(&|n| n.saturating_sub(slots) as f64) / rate, rate]
    }

    #[test]
    fn people_wait_as_in_the_formula_for_one_who_repairs() {
        // A lognormal service with the coefficient of variation 1 has the mean and variance of an
        // exponential one, on which the rate hardly depends.
        for users in [300, 535, 700] {
            let [wait, rate] = repairmen(users, 10.0, 16, 0.227);
            let found = People::simulate(users, 10.0, 16, 0.227, 1.0);
            assert!((found.rate / rate - 1.0).abs() < 0.03, "{users}: {} {rate}", found.rate);
            let off = (found.mean_wait() - wait).abs();
            assert!(off < 0.15 * wait + 0.003, "{users}: {} {wait}", found.mean_wait());
        }
        // Far more than the slots serve: N = X (R + Z) exactly.
        let found = People::simulate(10_000, 10.0, 16, 0.227, 0.0);
        assert!((found.rate * (found.mean_wait() + 0.227 + 10.0) - 10_000.0).abs() < 1e-6);
    }
}
