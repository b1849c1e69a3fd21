//! Simulated runs against a queue with a known capacity, to check how often intervals and verdicts
//! are right. Times are seconds, so that the figures are those of the literature.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::environment::Environment;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Exp1, StandardNormal};

/// When requests arrive.
#[derive(Debug, Clone, Copy)]
pub enum Arrivals {
    /// So many are in flight at any time; each is sent when the one before has ended.
    Closed(usize),
    /// At equal distances, so many per second.
    Constant(f64),
    /// By a Poisson process, so many per second.
    Poisson(f64),
    /// By so many people, each of whom thinks before each request, for an exponential time with this mean.
    People { users: usize, think: f64 },
    /// In bursts of so many at once, by a Poisson process with so many requests per second.
    Bursts { rate: f64, size: usize },
}

/// How long a slot of the server is busy with a request, as a distribution with mean 1.
#[derive(Debug, Clone, Copy)]
pub enum Service {
    /// Equally long for all.
    Constant,
    /// Exponentially distributed.
    Exponential,
    /// Lognormal, with this coefficient of variation.
    Lognormal(f64),
    /// Lognormal with this coefficient of variation, where each depends on the one before with this
    /// autocorrelation of the logarithms.
    Correlated { cv: f64, correlation: f64 },
}

/// A server with slots, first come first served.
#[derive(Debug, Clone)]
pub struct Server {
    /// Number of requests that it serves at the same time.
    pub slots: usize,
    /// Mean time for which a request is in a slot.
    pub seconds: f64,
    pub service: Service,
    /// Times in which nothing is served: when each begins, and how long it takes.
    pub stalls: Vec<(f64, f64)>,
    /// How much slower it becomes per second: 0.01 is 1% of the time at the beginning.
    pub drift: f64,
    /// Sinusoidal noise of the machine: relative amplitude, and period.
    pub noise: Option<(f64, f64)>,
}

/// A simulated request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Simulated {
    /// When it was sent.
    pub start: f64,
    /// When a slot took it: the time to first token is counted until then.
    pub served: f64,
    /// When its response had ended.
    pub end: f64,
}

impl Simulated {
    pub fn latency(&self) -> f64 {
        self.end - self.start
    }

    pub fn wait(&self) -> f64 {
        self.served - self.start
    }
}

impl Server {
    /// Creates an undisturbed server.
    pub fn new(slots: usize, seconds: f64, service: Service) -> Self {
        Self { slots, seconds, service, stalls: Vec::new(), drift: 0.0, noise: None }
    }

    /// Returns the requests per second that it can serve while it is undisturbed.
    pub fn capacity(&self) -> f64 {
        self.slots as f64 / self.seconds
    }

    /// Returns a run of `count` requests, in the order in which they start. The same `seed` gives the
    /// same run.
    pub fn run(&self, arrivals: Arrivals, count: usize, seed: u64) -> Vec<Simulated> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // When each slot is free, and when each request of a closed loop has ended: bits of times,
        // which are in the order of the times since none is negative.
        let mut free: BinaryHeap<Reverse<u64>> =
            (0..self.slots).map(|_| Reverse(0.0_f64.to_bits())).collect();
        let mut ended: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
        let thought = |random: &mut ChaCha8Rng, since: f64, think: f64| {
            let drawn: f64 = Exp1.sample(random);
            Reverse((since + drawn * think).to_bits())
        };
        if let Arrivals::People { users, think } = arrivals {
            ended.extend((0..users).map(|_| thought(&mut random, 0.0, think)));
        }
        let (mut log, mut clock) = (0.0, 0.0);
        let mut requests = Vec::with_capacity(count);
        for number in 0..count {
            let start = match arrivals {
                Arrivals::Closed(most) if number < most => 0.0,
                Arrivals::Closed(_) | Arrivals::People { .. } => {
                    ended.pop().map_or(0.0, |Reverse(bits)| f64::from_bits(bits))
                }
                Arrivals::Constant(rate) => number as f64 / rate,
                Arrivals::Poisson(rate) => {
                    let gap: f64 = Exp1.sample(&mut random);
                    clock += gap / rate;
                    clock
                }
                Arrivals::Bursts { rate, size } => {
                    if number % size == 0 {
                        let gap: f64 = Exp1.sample(&mut random);
                        clock += gap * size as f64 / rate;
                    }
                    clock
                }
            };
            let slot = free.pop().map_or(0.0, |Reverse(bits)| f64::from_bits(bits));
            let served = self.after_stalls(slot.max(start));
            let factor = self.draw(&mut random, &mut log) * self.slowness(served);
            let end = self.stretched(served, self.seconds * factor);
            free.push(Reverse(end.to_bits()));
            ended.push(match arrivals {
                Arrivals::People { think, .. } => thought(&mut random, end, think),
                _ => Reverse(end.to_bits()),
            });
            requests.push(Simulated { start, served, end });
        }
        requests
    }

    fn draw(&self, random: &mut ChaCha8Rng, log: &mut f64) -> f64 {
        let lognormal = |cv: f64, normal: f64| {
            let variance = (1.0 + cv * cv).ln();
            (variance.sqrt() * normal - variance / 2.0).exp()
        };
        match self.service {
            Service::Constant => 1.0,
            Service::Exponential => Exp1.sample(random),
            Service::Lognormal(cv) => lognormal(cv, StandardNormal.sample(random)),
            Service::Correlated { cv, correlation } => {
                let normal: f64 = StandardNormal.sample(random);
                *log = correlation * *log + (1.0 - correlation * correlation).sqrt() * normal;
                lognormal(cv, *log)
            }
        }
    }

    /// Returns how much slower than at the beginning the server is at `time`.
    fn slowness(&self, time: f64) -> f64 {
        let noise = self.noise.map_or(0.0, |(amplitude, period)| {
            amplitude * (std::f64::consts::TAU * time / period).sin()
        });
        (1.0 + self.drift * time) * (1.0 + noise)
    }

    /// Returns `time`, or the end of the stall in which it is.
    fn after_stalls(&self, time: f64) -> f64 {
        self.stalls.iter().fold(time, |time, (from, length)| {
            if (*from..from + length).contains(&time) { from + length } else { time }
        })
    }

    /// Returns when work of `seconds` that begins at `from` is done, interrupted by stalls.
    fn stretched(&self, from: f64, seconds: f64) -> f64 {
        self.stalls.iter().fold(from + seconds, |end, (stall, length)| {
            if (from..end).contains(stall) { end + length } else { end }
        })
    }
}

/// Returns the number of runs for each row of a study: `all`, with which the tables of `docs/decisions`
/// were made, if `AIPERF_TEST_STUDIES` is set; otherwise two, by which the unit tests see that the study
/// works.
pub fn runs(all: u64) -> u64 {
    if Environment::process().get("AIPERF_TEST_STUDIES").is_some() { all } else { 2 }
}

/// Returns how many of so many `runs` an event of this `probability` hardly ever exceeds: four standard
/// deviations, and one, above the mean.
pub fn most_of(runs: u64, probability: f64) -> usize {
    let mean = runs as f64 * probability;
    (mean + 4.0 * (mean * (1.0 - probability)).sqrt() + 1.0).floor() as usize
}

/// Returns uniformly distributed times of stalls for a run of `seconds`: on average `count`, each of
/// `length`.
pub fn stalls(seconds: f64, count: f64, length: f64, seed: u64) -> Vec<(f64, f64)> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(1);
    let (mut at, mut found) = (0.0, Vec::new());
    while at < seconds && count > 0.0 {
        let gap: f64 = Exp1.sample(&mut random);
        at += gap * seconds / count;
        found.push((at, length));
        at += length;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_has_the_waits_of_theory() {
        // M/M/1 at 80%: 0.8 / (1 - 0.8) of a service; M/D/1: half of it.
        let mean = |service| {
            let server = Server::new(1, 1.0, service);
            let requests = server.run(Arrivals::Poisson(0.8), 400_000, 1);
            requests.iter().map(Simulated::wait).sum::<f64>() / requests.len() as f64
        };
        let (exponential, constant) = (mean(Service::Exponential), mean(Service::Constant));
        assert!((exponential - 4.0).abs() < 0.2, "{exponential}");
        assert!((constant - 2.0).abs() < 0.1, "{constant}");
    }

    #[test]
    fn a_closed_loop_keeps_its_requests_in_flight() {
        let server = Server::new(4, 0.1, Service::Constant);
        let requests = server.run(Arrivals::Closed(8), 80, 1);
        let last = requests.iter().map(|request| request.end).fold(0.0, f64::max);
        assert!((last - 2.0).abs() < 1e-9, "{last}");
        // All but the first eight wait for the four before them.
        assert!(requests[8..].iter().all(|request| (request.latency() - 0.2).abs() < 1e-9));
    }

    #[test]
    fn an_event_seldom_exceeds_its_limit() {
        // 4 and 4 √(400 · 0.01 · 0.99) = 7.96, and 1.
        assert_eq!((most_of(400, 0.01), most_of(2, 1.0), most_of(2, 0.0)), (12, 3, 1));
    }

    #[test]
    fn stalls_and_drift_make_it_slower() {
        let mut server = Server::new(1, 1.0, Service::Constant);
        server.stalls = vec![(1.5, 2.0)];
        let ends: Vec<f64> =
            server.run(Arrivals::Closed(1), 3, 1).iter().map(|request| request.end).collect();
        assert_eq!(ends, [1.0, 4.0, 5.0]);
        server.drift = 0.5;
        server.stalls.clear();
        let ends: Vec<f64> =
            server.run(Arrivals::Closed(1), 2, 1).iter().map(|request| request.end).collect();
        assert_eq!(ends, [1.0, 2.5]);
    }

    #[test]
    fn dependent_services_have_the_mean_and_variation() {
        let server = Server::new(1, 1.0, Service::Correlated { cv: 0.5, correlation: 0.9 });
        let requests = server.run(Arrivals::Closed(1), 200_000, 3);
        let lengths: Vec<f64> = requests.iter().map(|it| it.end - it.served).collect();
        let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
        let square = lengths.iter().map(|it| (it - mean).powi(2)).sum::<f64>();
        let cv = (square / lengths.len() as f64).sqrt() / mean;
        assert!((mean - 1.0).abs() < 0.02 && (cv - 0.5).abs() < 0.02, "{mean}, {cv}");
    }
}
