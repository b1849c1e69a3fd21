//! Whether gates are decided before their run has ended (`--stop-when decided`).
//!
//! Each gate that can be tested becomes a question about a mean: a limit of a percentile is one of the
//! share of values beyond it, and a limit of a rate is one of what ends in a bin of time. The tests may
//! be looked at at any time, see [`anytime`](base::statistics::anytime).

use base::statistics::anytime::{Batches, Side};
use base::units::Nanos;
use client::schedule::PhaseKind;

use super::Gate;
use super::compare::Source;
use super::gate::Condition;
use crate::metrics::limit::Operator;
use crate::metrics::metric::{Observation, Percent};
use crate::metrics::tag::MetricTag;
use crate::metrics::{Extent, Registry};

/// The share of wrong decisions that is permitted, of all gates together.
pub const ERROR: f64 = 0.05;

/// Length of a bin of time, in nanoseconds.
const BIN_NS: u64 = 100_000_000;

/// What the requests so far say of the gates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// All gates hold that can be tested.
    Held,
    /// This gate does not hold, whatever the others.
    Missed(String),
}

/// Tests gates while a run goes on.
#[derive(Debug, Default)]
pub struct EarlyDecision {
    tests: Vec<Test>,
    /// The times so far.
    extent: Extent,
    /// The end of the request that was the first to be measured, in nanoseconds since the epoch: bins begin
    /// after it, so that none is empty because nothing can have ended yet.
    first_end: Option<u64>,
    /// The longest request.
    longest: Nanos,
}

/// The test of a gate.
#[derive(Debug)]
struct Test {
    gate: String,
    source: Source,
    operator: Operator,
    /// The limit in the unit of the values.
    limit: f64,
    /// What the mean of `values` is compared with.
    bound: f64,
    /// The share of wrong decisions that its confidence permits; 1 without one.
    error: f64,
    /// On which side of the bound the mean must be for the gate to hold.
    held: Side,
    values: Batches,
    /// The bin that is being filled, and what ended in it so far.
    bin: (u64, f64),
    /// What ended in all bins.
    total: f64,
}

impl Test {
    /// Returns the test of `gate`; `None` if it cannot be tested before the end.
    fn for_gate(gate: &Gate) -> Option<Self> {
        let Condition::Metric { subject, operator, limit, confidence } = &gate.condition else {
            return None;
        };
        let (operator, limit) = (*operator, *limit);
        let source = Source::for_statistic(subject.metric, subject.statistic)
            .filter(|_| !subject.is_steady)?;
        let is_upper = match operator {
            Operator::AtMost | Operator::Below => true,
            Operator::AtLeast | Operator::Above => false,
            Operator::Equal => return None,
        };
        let (bound, held) = match source {
            // The share of values that are beyond the limit.
            Source::Percentile(_, percent) => {
                let beyond = if is_upper { 100.0 - percent } else { percent };
                (beyond / 100.0, Side::Below)
            }
            Source::Failures => (limit / 100.0, if is_upper { Side::Below } else { Side::Above }),
            _ => (limit, if is_upper { Side::Below } else { Side::Above }),
        };
        let (values, bin, total) = (Batches::default(), (0, 0.0), 0.0);
        Some(Self {
            gate: gate.to_string(),
            source,
            operator,
            limit,
            bound,
            error: confidence.map_or(1.0, Percent::share_above),
            held,
            values,
            bin,
            total,
        })
    }

    /// Adds a request that ended `since` nanoseconds after the first one did; absent for that.
    fn observe(&mut self, request: &Observation, since: Option<u64>) {
        let failed = request.error.is_some();
        let value = |tag: MetricTag| request.values.scalar(tag).filter(|_| !failed);
        let shown = |tag| Some(Registry::row(tag)?.to_display(value(tag)?));
        let flag = |is_set: bool| f64::from(u8::from(is_set));
        match self.source {
            Source::Mean(tag) => {
                if let Some(value) = shown(tag) {
                    self.values.push(value);
                }
            }
            Source::Percentile(tag, _) => {
                let (operator, limit) = (self.operator, self.limit);
                let beyond = shown(tag).map(|value| flag(!operator.holds(value, limit)));
                if let Some(beyond) = beyond {
                    self.values.push(beyond);
                }
            }
            Source::Share(tag) => self.values.push(flag(value(tag).is_some_and(|it| it > 0.0))),
            Source::Failures => self.values.push(flag(failed)),
            Source::SuccessRate => self.add_to_bin(flag(!failed), since),
            Source::Rate(tag) => self.add_to_bin(shown(tag).unwrap_or(0.0), since),
        }
    }

    /// Adds what ended `since` nanoseconds after the first request did, which is not in a bin: of n requests,
    /// n - 1 end in the time after the first. A bin is complete once a later one has begun; what comes later
    /// still counts in the current one.
    fn add_to_bin(&mut self, amount: f64, since: Option<u64>) {
        self.total += amount;
        let Some(since) = since else { return };
        let now = since / BIN_NS;
        while self.bin.0 < now {
            self.values.push(self.bin.1 / Nanos(BIN_NS).as_seconds());
            self.bin = (self.bin.0 + 1, 0.0);
        }
        self.bin.1 += amount;
    }

    /// Returns whether the gate holds; `None` as long as that cannot be told with this `error`. A run
    /// that ends now lasts `duration` seconds at least, and `longest` more at most.
    fn holds(&self, error: f64, duration: f64, longest: f64) -> Option<bool> {
        let side = match self.source {
            Source::Percentile(..) | Source::Share(_) | Source::Failures => {
                self.values.share_is(self.bound, error)
            }
            Source::Mean(_) | Source::Rate(_) | Source::SuccessRate => {
                self.values.mean_is(self.bound, error)
            }
        };
        let holds = side? == self.held;
        if !matches!(self.source, Source::Rate(_) | Source::SuccessRate) {
            return Some(holds);
        }
        // The rate of the whole run counts in the end, including the time in which its first requests
        // and its last ones are alone.
        let rates = [self.total / duration, self.total / (duration + longest)];
        rates.iter().all(|rate| self.operator.holds(*rate, self.limit) == holds).then_some(holds)
    }
}

impl EarlyDecision {
    /// Prepares the tests of `gates`; `None` if none of them can be tested before the end.
    #[must_use]
    pub fn for_gates(gates: &[Gate]) -> Option<Self> {
        let tests: Vec<Test> = gates.iter().filter_map(Test::for_gate).collect();
        (!tests.is_empty()).then(|| Self { tests, ..Self::default() })
    }

    /// Adds a finished request; those of the warmup do not count.
    pub fn observe(&mut self, request: &Observation) {
        if request.phase != PhaseKind::Profiling {
            return;
        }
        let (start, end) = (request.start_wall_ns, request.end_wall_ns);
        self.extent.add(start, end);
        let since = self.first_end.map(|first| end.saturating_sub(first));
        self.first_end.get_or_insert(end);
        self.longest = self.longest.max(Nanos(end.saturating_sub(start)));
        for test in &mut self.tests {
            test.observe(request, since);
        }
    }

    /// Returns the decision, if the requests so far permit one.
    #[must_use]
    pub fn decision(&self) -> Option<Decision> {
        self.first_end?;
        let duration = self.extent.period(None).as_seconds();
        let error = ERROR / self.tests.len() as f64;
        let mut are_held = true;
        for test in &self.tests {
            match test.holds(error.min(test.error), duration, self.longest.as_seconds()) {
                Some(true) => {}
                Some(false) => return Some(Decision::Missed(test.gate.clone())),
                None => are_held = false,
            }
        }
        are_held.then_some(Decision::Held)
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::fixture;
    use base::statistics::simulation::{Arrivals, Server, Service, Simulated};
    use client::record::{ErrorKind, RequestError};

    use super::*;
    use crate::metrics::metric::{RecordValues, Value};
    use crate::metrics::tag;

    /// The observation of a simulated request, whose time to first token is its wait; every
    /// `failing`th fails.
    fn observed((number, request): (usize, Simulated), failing: usize) -> Observation {
        let nanos = |seconds: f64| (seconds * 1e9) as u64;
        let mut values = RecordValues::default();
        values.set(tag::TIME_TO_FIRST_TOKEN, Value::Scalar(request.wait() * 1e9));
        values.set(tag::REQUEST_LATENCY, Value::Scalar(request.latency() * 1e9));
        Observation {
            start_wall_ns: nanos(request.start),
            end_wall_ns: nanos(request.end),
            error: (number % failing == failing - 1)
                .then(|| RequestError::new(ErrorKind::Timeout, "timeout", "late")),
            values,
            ..fixture::observation()
        }
    }

    /// Returns the decision on `gates` and the number of requests it took.
    fn decided(
        gates: &[&str],
        requests: &[Simulated],
        failing: usize,
    ) -> (Option<Decision>, usize) {
        let gates: Vec<Gate> = gates.iter().map(|gate| gate.parse().unwrap()).collect();
        let mut early = EarlyDecision::for_gates(&gates).unwrap();
        let mut ordered = requests.to_vec();
        ordered.sort_by(|a, b| a.end.total_cmp(&b.end));
        for (number, request) in ordered.into_iter().enumerate() {
            early.observe(&observed((number, request), failing));
            if number % 20 == 0
                && let Some(decision) = early.decision()
            {
                return (Some(decision), number);
            }
        }
        (None, requests.len())
    }

    fn queue(load: f64, seed: u64) -> Vec<Simulated> {
        let server = Server::new(8, 0.1, Service::Lognormal(0.3));
        server.run(Arrivals::Poisson(load * server.capacity()), 6000, seed)
    }

    #[test]
    fn clear_gates_are_decided_early() {
        let requests = queue(0.5, 1);
        let held =
            ["request_latency:p90<=500ms", "request_error_rate<=5%", "request_throughput>=20"];
        let (decision, count) = decided(&held, &requests, usize::MAX);
        assert_eq!(decision, Some(Decision::Held));
        // 256 bins of 100 ms are 25.6 s, in which 1,024 requests end.
        assert!((1000..2500).contains(&count), "{count}");
        let (decision, count) = decided(&["request_latency:avg<=50ms"], &requests, usize::MAX);
        assert_eq!(decision, Some(Decision::Missed("request_latency:avg<=50ms".to_owned())));
        assert!(count < 400, "{count}");
        let (decision, _) = decided(&["request_error_rate<=1%"], &requests, 10);
        assert_eq!(decision, Some(Decision::Missed("request_error_rate<=1%".to_owned())));
        let (decision, _) = decided(&["request_throughput>=60"], &requests, usize::MAX);
        assert_eq!(decision, Some(Decision::Missed("request_throughput>=60".to_owned())));
    }

    #[test]
    fn one_missed_gate_decides_and_one_open_gate_does_not() {
        let requests = queue(0.5, 2);
        let missed = ["request_latency:avg<=50ms", "request_latency:p99<=10s"];
        let (decision, _) = decided(&missed, &requests, usize::MAX);
        assert_eq!(decision, Some(Decision::Missed(missed[0].to_owned())));
        // The mean of the latencies is 100 ms and the little that they wait.
        let near = requests.iter().map(Simulated::latency).sum::<f64>() / 6000.0 * 1e3;
        let open = format!("request_latency:avg<={near}");
        let (decision, _) = decided(&["request_latency:p99<=10s", &open], &requests, usize::MAX);
        assert_eq!(decision, None);
    }

    #[test]
    fn gates_close_to_the_truth_are_seldom_decided_wrongly() {
        let mut latencies: Vec<f64> =
            (0..50).flat_map(|seed| queue(0.7, seed)).map(|it| it.latency()).collect();
        latencies.sort_by(f64::total_cmp);
        // What is 3% more than the limit must not be found to hold, nor what is 3% less to be missed.
        let p90 = latencies[latencies.len() * 9 / 10] * 1e3;
        for (limit, wrong) in [(p90 * 0.97, true), (p90 * 1.03, false)] {
            let gate = format!("request_latency:p90<={limit}");
            let wrong = (100..150).filter(|seed| {
                let (decision, _) = decided(&[&gate], &queue(0.7, *seed), usize::MAX);
                decision.is_some_and(|it| (it == Decision::Held) == wrong)
            });
            // With 5%, 8 or more of 50 have a probability of 0.4%.
            assert!(wrong.count() < 8, "{gate}");
        }
    }

    #[test]
    fn gates_without_a_test_are_left_to_the_end() {
        let gates =
            ["client_health==valid", "request_latency:max<=1s", "steady:request_latency<=1s"];
        let gates: Vec<Gate> = gates.iter().map(|gate| gate.parse().unwrap()).collect();
        assert!(EarlyDecision::for_gates(&gates).is_none());
        let mut early =
            EarlyDecision::for_gates(&["request_latency:p50<=1s".parse().unwrap()]).unwrap();
        assert_eq!(early.decision(), None);
        let request = Simulated { start: 0.0, served: 0.0, end: 9.0 };
        let warmup = Observation { phase: PhaseKind::Warmup, ..observed((0, request), usize::MAX) };
        (0..500).for_each(|_| early.observe(&warmup));
        assert_eq!(early.decision(), None);
    }
}
