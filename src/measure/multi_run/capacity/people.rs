//! Requests that come at random: of people who think between them, who are a finite source, or of so many
//! people that they are a Poisson process.
//!
//! With exponential think and service times, people at slots are the machine repairman model, M/M/c//N (Lazowska
//! et al., "Quantitative System Performance", 1984, chapter 6). For services that vary less or more there is no
//! formula, so that it is simulated: arrivals come in bursts and wait for each other long before all slots are busy.
//!
//! People at a server whose requests become slower with each other have the product form of a station whose rate
//! depends on the number in flight, whatever the distribution of the services (Baskett et al., "Open, closed, and
//! mixed networks of queues with different classes of customers", Journal of the ACM 22, 1975).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Exp1, StandardNormal};

use base::statistics::Bounded;
use base::statistics::percentile::percentile;
use base::statistics::service_curve::ServiceCurve;
use base::units::Nanos;

use super::{Demand, Level, Model, Prediction, State};
use crate::metrics::{LongRun, MetricTag, Registry, tag};
use crate::multi_run::evidence::tail;

/// Number of requests that are simulated to know what is true in the long run, and of those before them.
const REQUESTS: usize = 20_000;
const BEFORE: usize = 5_000;

/// By how much the logarithm of a probability is below the highest if it does not count: there may be a million
/// people of whom few are at the server.
const NEGLIGIBLE: f64 = 50.0;

/// Number of runs that are simulated to know what one measures.
const RUNS: usize = 100;

/// Number of users relative to those that keep all slots busy from which the slots are never idle.
const FLOODED: f64 = 2.0;

/// Where requests come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Source {
    /// So many people, who think for so many seconds on average, exponentially distributed.
    People { users: u64, think: f64 },
    /// A Poisson process, so many per second.
    Poisson(f64),
}

/// Slots whose services take `seconds`, lognormally distributed with the coefficient of variation `variation`.
#[derive(Debug, Clone, Copy)]
struct Slots {
    count: u64,
    seconds: f64,
    variation: f64,
}

/// What happens to requests.
#[derive(Debug)]
struct Served {
    /// Requests per second.
    rate: f64,
    /// How long requests wait for a slot, in seconds and in ascending order.
    waits: Vec<f64>,
    /// How long they are in it, relative to the mean and in ascending order.
    services: Vec<f64>,
}

impl Slots {
    /// Returns a whole number of slots that serve as many requests as those of a curve, which take `seconds`.
    fn whole([seconds, slots]: [f64; 2], variation: f64) -> Self {
        let count = slots.round().max(1.0);
        Self { count: count as u64, seconds: seconds * count / slots, variation }
    }

    fn slower(self, factor: f64) -> Self {
        Self { seconds: self.seconds * factor, ..self }
    }

    /// Simulates what happens to `requests` after so many `before` them, which are not counted; of a run, which
    /// begins with the first request, without any before.
    fn simulate(self, source: Source, before: usize, requests: usize, seed: u64) -> Served {
        let capacity = self.count as f64 / self.seconds;
        match source {
            Source::People { users, think }
                if before > 0
                    && users as f64
                        > FLOODED * capacity * (think + self.seconds) + self.count as f64 =>
            {
                let wait = users as f64 / capacity - think - self.seconds;
                return Served { rate: capacity, waits: vec![wait], services: Vec::new() };
            }
            Source::Poisson(rate) if before > 0 && rate >= capacity => {
                let waits = vec![f64::INFINITY];
                return Served { rate: capacity, waits, services: Vec::new() };
            }
            _ => {}
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let sigma = (1.0 + self.variation * self.variation).ln().sqrt();
        let exponential = |random: &mut ChaCha8Rng, mean: f64| -> f64 {
            let drawn: f64 = Exp1.sample(random);
            drawn * mean
        };
        // Times are not negative, so that their bits are in the same order.
        let (users, pause) = match source {
            Source::People { users, think } => (users, think),
            Source::Poisson(rate) => (1, rate.recip()),
        };
        let mut due: BinaryHeap<Reverse<u64>> =
            (0..users).map(|_| Reverse(exponential(&mut random, pause).to_bits())).collect();
        let mut free: BinaryHeap<Reverse<u64>> = (0..self.count).map(|_| Reverse(0)).collect();
        let next = |heap: &mut BinaryHeap<Reverse<u64>>| {
            heap.pop().map_or(0.0, |Reverse(bits)| f64::from_bits(bits))
        };
        let (mut waits, mut services) = (Vec::with_capacity(requests), Vec::new());
        let (mut spans, mut since, mut now) = (Vec::new(), 0.0, 0.0);
        for number in 0..before + requests {
            now = next(&mut due);
            let served = next(&mut free).max(now);
            let normal: f64 = StandardNormal.sample(&mut random);
            let service = (sigma * normal - sigma * sigma / 2.0).exp();
            let end = served + self.seconds * service;
            free.push(Reverse(end.to_bits()));
            let from = if matches!(source, Source::Poisson(_)) { now } else { end };
            due.push(Reverse((from + exponential(&mut random, pause)).to_bits()));
            if number < before {
                since = now;
            } else {
                waits.push(served - now);
                services.push(service);
                spans.push((Nanos::from_seconds(now).0, Nanos::from_seconds(end).0));
            }
        }
        let rate =
            if before > 0 { waits.len() as f64 / (now - since) } else { closed_rate(&spans) };
        waits.sort_unstable_by(f64::total_cmp);
        services.sort_unstable_by(f64::total_cmp);
        Served { rate, waits, services }
    }
}

/// Returns the rate of a closed loop, of requests that start and end at these times in nanoseconds.
fn closed_rate(spans: &[(u64, u64)]) -> f64 {
    let first = spans.iter().map(|(start, _)| *start).min().unwrap_or(0);
    let last = spans.iter().map(|(_, end)| *end).max().unwrap_or(0);
    let plain = spans.len() as f64 / Nanos(last - first).as_seconds();
    let metric = Registry::row(tag::REQUEST_THROUGHPUT);
    metric.map_or(plain, |metric| LongRun::by_latency(spans).value(metric, plain))
}

/// Returns a statistic of values in ascending order: the mean, or a percentile.
fn statistic_of(statistic: &str, values: &[f64]) -> Option<f64> {
    match percent(statistic) {
        Some(percent) => percentile(values, percent),
        None if values.is_empty() || statistic != "avg" => None,
        None => Some(values.iter().sum::<f64>() / values.len() as f64),
    }
}

impl Served {
    fn mean(&self) -> f64 {
        statistic_of("avg", &self.waits).unwrap_or(0.0)
    }

    /// Returns a statistic of latencies that have the mean `mean` and the statistic `base` without a wait.
    fn after(&self, statistic: &str, base: f64, mean: f64) -> Option<f64> {
        Some(combined([base, mean], [statistic_of(statistic, &self.waits)?, self.mean()]))
    }

    /// Returns how a statistic of the services differs from that of another run.
    fn beside(&self, other: &Self, statistic: &str) -> f64 {
        let found =
            statistic_of(statistic, &self.services).zip(statistic_of(statistic, &other.services));
        found.map_or(1.0, |(one, other)| one / other)
    }
}

fn percent(statistic: &str) -> Option<f64> {
    statistic.strip_prefix('p')?.parse().ok()
}

/// Returns a percentile of the sum of two times that do not depend on each other, each with its percentile and its
/// mean: above the means, the squares of its distances from them add up, as of normal distributions.
fn combined([one, mean]: [f64; 2], [other, other_mean]: [f64; 2]) -> f64 {
    let (above, other_above) = (one - mean, other - other_mean);
    if above > 0.0 && other_above > 0.0 && other_mean.is_finite() {
        mean + other_mean + above.hypot(other_above)
    } else {
        one + other
    }
}

impl State {
    /// Returns what `users` who think for `think` seconds lead to at a server with this curve.
    pub(super) fn of_people(curve: &ServiceCurve, users: u64, think: f64) -> Self {
        let mut logs = vec![0.0_f64];
        let (mut log, mut highest) = (0.0, 0.0_f64);
        for n in 1..=users {
            log += ((users - n + 1) as f64 / think / curve.rate(n as f64)).ln();
            logs.push(log);
            highest = highest.max(log);
            if log < highest - NEGLIGIBLE {
                break;
            }
        }
        let weights: Vec<f64> = logs.iter().map(|log| (log - highest).exp()).collect();
        let all = || (0..).zip(&weights).map(|(n, weight)| (f64::from(n), *weight));
        let total: f64 = weights.iter().sum();
        let in_flight = all().map(|(n, weight)| n * weight).sum::<f64>() / total;
        let rate = (users as f64 - in_flight) / think;
        // A request that comes is one more than those that it meets.
        let idle = users as f64 - in_flight;
        let met = all().map(|(n, weight)| {
            (curve.seconds(n + 1.0), weight * (users as f64 - n) / total / idle)
        });
        Self { in_flight, seconds: in_flight / rate, met: met.collect() }
    }

    /// Returns the statistic `plain`, in seconds, of a number in flight that does not vary, of those that do.
    pub(super) fn spread(&self, statistic: &str, plain: f64) -> f64 {
        let Some(percent) = percent(statistic).filter(|_| !self.met.is_empty()) else {
            return plain;
        };
        let mut sum = 0.0;
        let reaches = |(_, share): &&(f64, f64)| {
            sum += share;
            sum >= percent / 100.0
        };
        let met = self.met.iter().find(reaches).map_or(self.seconds, |(seconds, _)| *seconds);
        // The time to first token has the same share of a latency whatever it meets.
        let mean = plain.min(self.seconds);
        plain.max(combined([plain, mean], [mean * met / self.seconds - mean, 0.0]))
    }
}

impl Level {
    /// Returns a statistic, in display units, of requests that wait as the first of two runs at slots that are slower
    /// by `factor`, where none waits at this load. The second run has the services to compare with.
    fn after(
        &self,
        [waits, other]: [&Served; 2],
        metric: MetricTag,
        statistic: &str,
        factor: f64,
    ) -> Option<f64> {
        if metric != tag::TIME_TO_FIRST_TOKEN && metric != tag::REQUEST_LATENCY {
            return None;
        }
        let base = self.value(metric, statistic)?;
        let mean = self.value(metric, "avg").unwrap_or(base);
        let base = base * factor * waits.beside(other, statistic) / 1e3;
        let mean = mean * factor * waits.beside(other, "avg") / 1e3;
        Some(1e3 * waits.after(statistic, base, mean)?)
    }
}

/// Simulated runs at a rate.
#[derive(Debug)]
pub(super) struct Runs {
    /// The load at which none waits.
    lowest: Level,
    long: Served,
    simulated: Vec<Served>,
}

impl Runs {
    /// Returns what a statistic of each run is relative to that in the long run.
    pub(super) fn ratios(&self, metric: MetricTag, statistic: &str) -> Vec<f64> {
        let value = |run| self.lowest.after([run, &self.long], metric, statistic, 1.0);
        let long = value(&self.long);
        let ratio = |run| Some(value(run)? / long?);
        self.simulated.iter().filter_map(ratio).collect()
    }
}

impl Model {
    /// Returns where the requests of `demand` come from if they come at random, as far as the loads that were tried
    /// do not tell what random arrivals wait for.
    ///
    /// Of a run, that of users who do not think is simulated too, since it begins with all of them at once.
    pub(super) fn source(&self, demand: Demand, is_run: bool) -> Option<Source> {
        let are_closed = self.levels.iter().all(Level::is_closed);
        match demand {
            Demand::Users { think_seconds: 0.0, .. } if are_closed && !is_run => None,
            Demand::Users { count, think_seconds } => {
                Some(Source::People { users: count as u64, think: think_seconds })
            }
            Demand::Rate(rate) => are_closed.then_some(Source::Poisson(rate)),
        }
    }

    /// Predicts the results of requests from `source` at slots of so many seconds: what requests wait for, in
    /// addition to the statistic at the lowest load, where none waits. The ends of intervals are from slots that
    /// are as much faster and slower as the latencies that were tried tell; of a run with so many `requests`, from
    /// runs that are simulated with such slots.
    pub(super) fn simulated(
        &self,
        source: Source,
        [seconds, slots]: [f64; 2],
        requests: Option<usize>,
    ) -> Option<Prediction> {
        let lowest = self.levels.first()?;
        let slots_of_curve = Slots::whole([seconds, slots], lowest.variation);
        let by = |factor: f64| slots_of_curve.slower(factor);
        let before = match source {
            Source::People { users, .. } => {
                BEFORE.max(5 * usize::try_from(users).unwrap_or(usize::MAX / 10))
            }
            Source::Poisson(_) => BEFORE,
        };
        let middle = by(1.0).simulate(source, before, REQUESTS, 0);
        let factors = self.factors();
        let again: Vec<(f64, Served)> = match requests {
            None => {
                let tail = 100.0 * tail(self.confidence);
                let factor = |percent| percentile(&factors, percent).unwrap_or(1.0);
                let ends = [factor(tail).min(1.0), factor(100.0 - tail).max(1.0)];
                ends.map(|it| (it, by(it).simulate(source, before, REQUESTS, 0))).into()
            }
            Some(requests) => {
                let run = |at: usize| {
                    let factor = factors.get(at * factors.len() / RUNS).copied().unwrap_or(1.0);
                    (factor, by(factor).simulate(source, 0, requests, at as u64 + 1))
                };
                (0..RUNS).map(run).collect()
            }
        };
        let bounded = |value: &dyn Fn(f64, &Served, &Served) -> Option<f64>| {
            let middle = value(1.0, &middle, &middle)?;
            // The statistics without a wait are those of a run too.
            let others = again.iter().cycle().skip(1);
            let pairs = again.iter().zip(others);
            let ends = pairs.map(|((factor, waits), (_, other))| {
                value(*factor, waits, if requests.is_some() { other } else { waits })
            });
            let mut ends = ends.collect::<Option<Vec<f64>>>()?;
            if requests.is_some() {
                return Some(self.interval(middle, ends));
            }
            ends.push(middle);
            let end = |of: fn(f64, f64) -> f64| ends.iter().copied().reduce(of);
            Some(Bounded { value: middle, low: end(f64::min)?, high: end(f64::max)? })
        };
        let values = lowest.values.iter().filter_map(|(metric, statistic, _)| {
            let value = |factor: f64, waits: &Served, other: &Served| {
                lowest.after([waits, other], *metric, statistic, factor)
            };
            Some((*metric, statistic.clone(), bounded(&value)?))
        });
        let in_flight = middle.rate * (seconds + middle.mean());
        let rate = match source {
            Source::Poisson(rate) => Bounded { value: rate, low: rate, high: rate },
            Source::People { .. } => bounded(&|_, waits, _| Some(waits.rate))?,
        };
        Some(Prediction {
            in_flight,
            is_beyond: in_flight > self.levels.last().map_or(1.0, Level::in_flight),
            rate,
            values: values.collect(),
        })
    }

    /// Simulates runs of so many `requests` at `rate`, and the long run.
    ///
    /// `None` if no curve of slots was fitted, or they cannot serve the rate.
    pub(super) fn runs(&self, rate: f64, requests: usize) -> Option<Runs> {
        let curves = std::iter::once(self.curve).chain(self.other.map(|(curve, _)| curve));
        let found = curves.into_iter().find_map(|curve| match curve {
            ServiceCurve::Slots { seconds, slots, .. } => Some([seconds, slots]),
            ServiceCurve::Scalability(_) => None,
        })?;
        let lowest = self.levels.first()?.clone();
        let slots = Slots::whole(found, lowest.variation);
        let source = Source::Poisson(rate);
        let long = slots.simulate(source, BEFORE, REQUESTS, 0);
        let run = |at: usize| slots.simulate(source, 0, requests, at as u64 + 1);
        let simulated = (0..RUNS).map(run).collect();
        long.mean().is_finite().then_some(Runs { lowest, long, simulated })
    }

    /// Returns by how much slots may be slower than those that were found, in ascending order.
    fn factors(&self) -> Vec<f64> {
        let most = self.most_tried();
        let (_, rate) = self.curve.peak(most);
        let factor = |(curve, _): &(ServiceCurve, f64)| rate / curve.peak(most).1;
        let mut factors: Vec<f64> =
            self.again.iter().map(factor).filter(|factor| factor.is_finite()).collect();
        factors.sort_unstable_by(f64::total_cmp);
        factors
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

    fn simulated(users: u64, variation: f64) -> Served {
        let slots = Slots { count: 16, seconds: 0.227, variation };
        slots.simulate(Source::People { users, think: 10.0 }, BEFORE, REQUESTS, 0)
    }

    /// The mean wait of M/D/1 by Pollaczek and Khinchine: at 80%, two services.
    #[test]
    fn arrivals_at_random_wait_as_in_the_formula() {
        let slots = Slots { count: 1, seconds: 0.1, variation: 0.0 };
        let found = slots.simulate(Source::Poisson(8.0), BEFORE, 200_000, 0);
        assert!((found.mean() / 0.2 - 1.0).abs() < 0.05, "{}", found.mean());
        let found = slots.simulate(Source::Poisson(11.0), BEFORE, 10, 0);
        assert_eq!(found.mean(), f64::INFINITY);
    }

    /// N = X (R + Z), and the numbers in flight of the machine repairman model, whose slots are a curve with a
    /// sharp bend.
    #[test]
    fn people_share_a_server_that_becomes_slower() {
        let slots = ServiceCurve::Slots { seconds: 0.227, slots: 16.0, bend: f64::INFINITY };
        let [wait, rate] = repairmen(535, 10.0, 16, 0.227);
        let found = State::of_people(&slots, 535, 10.0);
        assert!((found.in_flight / found.seconds / rate - 1.0).abs() < 1e-9, "{found:?}");
        assert!((found.seconds - wait - 0.227).abs() < 1e-9, "{found:?}");
        let law = ServiceCurve::Scalability([0.1, 0.005, 0.0]);
        let found = State::of_people(&law, 40, 0.9);
        let rate = found.in_flight / found.seconds;
        assert!((rate * (found.seconds + 0.9) - 40.0).abs() < 1e-9, "{found:?}");
        let shares: f64 = found.met.iter().map(|(_, share)| share).sum();
        assert!((shares - 1.0).abs() < 1e-9);
        // Of those who meet more than others, the latency is longer.
        let p95 = found.spread("p95", found.seconds);
        assert!(found.seconds < p95 && p95 < 2.0 * found.seconds, "{p95} {found:?}");
        assert_eq!(found.spread("avg", found.seconds), found.seconds);
    }

    #[test]
    fn people_wait_as_in_the_formula_for_one_who_repairs() {
        // A lognormal service with the coefficient of variation 1 has the mean and variance of an
        // exponential one, on which the rate hardly depends.
        for users in [300, 535, 700] {
            let [wait, rate] = repairmen(users, 10.0, 16, 0.227);
            let found = simulated(users, 1.0);
            assert!((found.rate / rate - 1.0).abs() < 0.03, "{users}: {} {rate}", found.rate);
            let off = (found.mean() - wait).abs();
            assert!(off < 0.15 * wait + 0.003, "{users}: {} {wait}", found.mean());
        }
        // Far more than the slots serve: N = X (R + Z) exactly.
        let found = simulated(10_000, 0.0);
        assert!((found.rate * (found.mean() + 0.227 + 10.0) - 10_000.0).abs() < 1e-6);
    }
}
