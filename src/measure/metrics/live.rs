//! Statistics of the current phase while it runs, in bounded memory.
//!
//! Counts and sums are exact, and so are the rates over them; percentiles come from histograms
//! and are at most 0.8% too high. A request belongs to the second in which it ended.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base::lock::Lock;
use base::units::Unit;

use super::histogram::Histogram;
use super::metric::{Metric, MetricKind, MetricResult, Observation};
use super::registry::Registry;
use super::tag::{self, MetricTag};

mod so_far;

use so_far::SoFar;

/// Length of the recent time in seconds, the last of which has not ended.
pub const RECENT: usize = 10;

/// Number of seconds that charts can show.
const HISTORY: usize = 240;

/// The metrics with percentiles, all of them times.
const TIMES: [MetricTag; 3] =
    [tag::TIME_TO_FIRST_TOKEN, tag::INTER_TOKEN_LATENCY, tag::REQUEST_LATENCY];

/// The metrics with rates, and what a request adds to each.
const RATES: [(MetricTag, MetricTag); 3] = [
    (tag::REQUEST_THROUGHPUT, tag::REQUEST_COUNT),
    (tag::GOODPUT, tag::GOOD_REQUEST_COUNT),
    (tag::OUTPUT_TOKEN_THROUGHPUT, tag::OUTPUT_SEQUENCE_LENGTH),
];

/// Maximum number of kinds of errors that are counted separately.
const MAX_ERRORS: usize = 100;

/// Name of the errors beyond that.
const OTHER_ERRORS: &str = "OtherErrors";

const SECOND: u64 = 1_000_000_000;

/// Collects the requests of the current phase. Threads share it.
#[derive(Debug)]
pub struct Live {
    registry: Arc<Registry>,
    /// Those of [`TIMES`] that the run has.
    times: Vec<&'static Metric>,
    /// Those of [`RATES`] that the run has.
    rates: Vec<Rated>,
    phase: Lock<Phase>,
    so_far: Lock<SoFar>,
}

/// A metric with a rate.
#[derive(Debug)]
struct Rated {
    metric: &'static Metric,
    /// The quantity of which it is the rate.
    added: &'static Metric,
}

/// The requests of one phase. A copy shares the totals, which are copied when they change.
#[derive(Debug, Clone, Default)]
struct Phase {
    index: u32,
    /// Wall time of the first start and of the last end, if any request ended.
    bounds: Option<(u64, u64)>,
    whole: Arc<Totals>,
    seconds: Seconds,
    errors: HashMap<(Option<u16>, String), (u64, String)>,
}

/// Counts, sums and histograms over some requests.
#[derive(Debug, Clone, Default)]
struct Totals {
    succeeded: u64,
    failed: u64,
    cancelled: u64,
    /// By rate.
    sums: Vec<f64>,
    /// By time; empty if only `tails` are kept.
    times: Vec<Histogram>,
    /// The 99th percentile of each time, in nanoseconds.
    tails: Vec<Option<f64>>,
}

/// Consecutive seconds, the last [`HISTORY`] of a phase.
#[derive(Debug, Clone, Default)]
struct Seconds {
    /// The first of them, in seconds of wall time.
    first: u64,
    totals: VecDeque<Arc<Totals>>,
}

/// The statistics at one moment.
#[derive(Debug, Clone, Default)]
pub struct LiveStatistics {
    /// Requests of the phase that succeeded.
    pub succeeded: u64,
    /// Requests of the phase that failed.
    pub failed: u64,
    /// Those of the recent time.
    pub failed_recently: u64,
    /// Requests of the phase that the client cancelled.
    pub cancelled: u64,
    pub rates: Vec<LiveRate>,
    pub times: Vec<LiveTime>,
    /// The most frequent first.
    pub errors: Vec<LiveError>,
}

/// A rate, recently and in the whole phase.
#[derive(Debug, Clone)]
pub struct LiveRate {
    pub metric: &'static Metric,
    pub recent: Option<f64>,
    pub whole: Option<f64>,
    /// The rate in each complete second, the latest last.
    pub by_second: Vec<f64>,
}

/// Percentiles of a time in its display unit, recently and in the whole phase.
#[derive(Debug, Clone)]
pub struct LiveTime {
    pub metric: &'static Metric,
    pub recent: Option<Percentiles>,
    pub whole: Option<Percentiles>,
    /// The 99th percentile of each complete second, the latest last; absent without values.
    pub by_second: Vec<Option<f64>>,
}

/// Percentiles of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentiles {
    /// Number of the values.
    pub count: u64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
}

/// Errors of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveError {
    /// HTTP status; absent without a response.
    pub code: Option<u16>,
    pub name: String,
    pub count: u64,
    /// The message of the last one.
    pub message: String,
}

impl Live {
    /// Creates statistics of the metrics of `registry`.
    #[must_use]
    pub fn new(registry: Arc<Registry>) -> Self {
        let row = |tag| registry.position(tag).map(|at| registry.rows()[at]);
        let times = TIMES.into_iter().filter_map(row).collect();
        let with_rows = |(metric, added)| Some(Rated { metric: row(metric)?, added: row(added)? });
        let rates = RATES.into_iter().filter_map(with_rows).collect();
        Self { registry, times, rates, phase: Lock::default(), so_far: Lock::default() }
    }

    /// Adds a finished request of phase number `phase`. A later phase replaces an earlier one.
    pub fn observe(&self, phase: u32, observation: &Observation) {
        if self.registry.settings().leaves_out_canary(observation) {
            return;
        }
        self.so_far.lock().observe(&self.registry, phase, observation);
        let mut current = self.phase.lock();
        if phase > current.index {
            *current = Phase { index: phase, ..Phase::default() };
        }
        if phase < current.index || self.registry.settings().leaves_out(observation) {
            return;
        }
        let Phase { bounds, whole, seconds, errors, .. } = &mut *current;
        let (start, end) = (observation.start_wall_ns, observation.end_wall_ns);
        let (first, last) = bounds.unwrap_or((start, end));
        *bounds = Some((first.min(start), last.max(end)));
        self.add(Arc::make_mut(whole), observation);
        if let Some(second) = seconds.at(end / SECOND) {
            self.add(second, observation);
        }
        if let Some(error) = observation.error.as_ref().filter(|it| !it.is_cancelled()) {
            let mut key = (error.code, error.name.clone());
            if errors.len() >= MAX_ERRORS && !errors.contains_key(&key) {
                key = (None, OTHER_ERRORS.to_owned());
            }
            let (count, message) = errors.entry(key).or_default();
            *count += 1;
            message.clone_from(&error.message);
        }
    }

    fn add(&self, totals: &mut Totals, observation: &Observation) {
        let count = match &observation.error {
            None => &mut totals.succeeded,
            Some(error) if error.is_cancelled() => &mut totals.cancelled,
            Some(_) => &mut totals.failed,
        };
        *count += 1;
        totals.sums.resize(self.rates.len(), 0.0);
        for (rate, sum) in self.rates.iter().zip(&mut totals.sums) {
            *sum += self.amount(rate.added, observation).unwrap_or(0.0);
        }
        if totals.tails.is_empty() {
            totals.times.resize_with(self.times.len(), Histogram::default);
        }
        for (metric, histogram) in self.times.iter().zip(&mut totals.times) {
            if let Some(value) = of_request(metric, observation) {
                let nanos = metric.unit.convert(value, Unit::Nanoseconds);
                histogram.add(nanos.round() as u64, 1);
            }
        }
    }

    /// Returns what a request adds to the sum of `metric`.
    fn amount(&self, metric: &Metric, observation: &Observation) -> Option<f64> {
        match metric.kind {
            MetricKind::Record(_) => of_request(metric, observation),
            _ => self.registry.increment(metric, observation),
        }
    }

    /// Returns the statistics of phase number `phase` at `now`, in wall clock nanoseconds, or at
    /// the end of the last request if the phase `has_ended`.
    #[must_use]
    pub fn statistics(&self, phase: u32, now: u64, has_ended: bool) -> LiveStatistics {
        // Percentiles take longer than threads that add requests should wait.
        let copy = self.phase.lock().clone();
        let current = if copy.index == phase { copy } else { Phase::default() };
        let (start, end) = current.bounds.unwrap_or((now, now));
        let now = if has_ended { end } else { now.max(end) };
        let (recent, recent_start) = current.seconds.recent(now / SECOND);
        let recent_start = (recent_start * SECOND).max(start);
        let history = current.seconds.complete(now / SECOND);
        let seconds = |from: u64| now.saturating_sub(from) as f64 / 1e9;
        let rate = |sum: Option<&f64>, seconds: f64| {
            (seconds > 0.0).then(|| sum.copied().unwrap_or(0.0) / seconds)
        };
        let rates = self.rates.iter().enumerate().map(|(at, rated)| LiveRate {
            metric: rated.metric,
            recent: rate(recent.sums.get(at), seconds(recent_start)),
            whole: rate(current.whole.sums.get(at), seconds(start)),
            by_second: history
                .iter()
                .map(|second| second.and_then(|second| second.sums.get(at)).copied())
                .map(Option::unwrap_or_default)
                .collect(),
        });
        let times = self.times.iter().enumerate().map(|(at, metric)| {
            let shown = |nanos: f64| Unit::Nanoseconds.convert(nanos, metric.display_unit);
            let percentiles =
                |totals: &Totals| Percentiles::from_histogram(totals.times.get(at)?, shown);
            LiveTime {
                metric,
                recent: percentiles(&recent),
                whole: percentiles(&current.whole),
                by_second: history
                    .iter()
                    .map(|second| second.as_ref()?.tail(at).map(shown))
                    .collect(),
            }
        });
        let errors = current.errors.iter().map(|((code, name), (count, message))| LiveError {
            code: *code,
            name: name.clone(),
            count: *count,
            message: message.clone(),
        });
        let mut errors: Vec<LiveError> = errors.collect();
        errors.sort_by(|a, b| {
            b.count.cmp(&a.count).then_with(|| (a.code, &a.name).cmp(&(b.code, &b.name)))
        });
        LiveStatistics {
            succeeded: current.whole.succeeded,
            failed: current.whole.failed,
            failed_recently: recent.failed,
            cancelled: current.whole.cancelled,
            rates: rates.collect(),
            times: times.collect(),
            errors,
        }
    }

    /// Returns the results of phase number `phase` so far, without metrics over time, of failures
    /// and of GPUs; empty before its first response.
    #[must_use]
    pub fn results(&self, phase: u32) -> Vec<MetricResult> {
        // Percentiles take longer than threads that add requests should wait.
        let copy = self.so_far.lock().clone();
        copy.results(&self.registry, phase)
    }
}

/// Returns the value of a request that the statistics of `metric` include.
fn of_request(metric: &Metric, observation: &Observation) -> Option<f64> {
    let is_counted = metric.is_counted_of(observation.error.is_some());
    observation.values.scalar(metric.tag).filter(|_| is_counted)
}

impl Percentiles {
    fn from_histogram(values: &Histogram, shown: impl Fn(f64) -> f64) -> Option<Self> {
        let at = |percent| values.interpolated(percent).map(&shown);
        Some(Self { count: values.count(), p50: at(50.0)?, p90: at(90.0)?, p99: at(99.0)? })
    }
}

impl Totals {
    fn merge(&mut self, other: &Self) {
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.sums.resize(self.sums.len().max(other.sums.len()), 0.0);
        for (own, added) in self.sums.iter_mut().zip(&other.sums) {
            *own += added;
        }
        self.times.resize_with(self.times.len().max(other.times.len()), Histogram::default);
        for (own, added) in self.times.iter_mut().zip(&other.times) {
            own.merge(added);
        }
    }

    fn tail(&self, at: usize) -> Option<f64> {
        match self.times.get(at) {
            Some(histogram) => histogram.interpolated(99.0),
            None => self.tails.get(at).copied().flatten(),
        }
    }

    /// Keeps only one percentile of each histogram.
    fn shrink(&mut self) {
        if !self.times.is_empty() {
            self.tails = (0..self.times.len()).map(|at| self.tail(at)).collect();
            self.times = Vec::new();
        }
    }
}

impl Seconds {
    /// Returns the totals of a second; `None` if it is too long ago.
    fn at(&mut self, second: u64) -> Option<&mut Totals> {
        let next = self.first + self.totals.len() as u64;
        if self.totals.is_empty() || second >= next + HISTORY as u64 {
            *self = Self { first: second, totals: VecDeque::new() };
        }
        while self.first + self.totals.len() as u64 <= second {
            self.totals.push_back(Arc::default());
            if let Some(old) = self.totals.len().checked_sub(RECENT + 1) {
                Arc::make_mut(&mut self.totals[old]).shrink();
            }
            if self.totals.len() > HISTORY {
                self.totals.pop_front();
                self.first += 1;
            }
        }
        let at = usize::try_from(second.checked_sub(self.first)?).ok()?;
        self.totals.get_mut(at).map(Arc::make_mut)
    }

    /// Returns the totals of the recent time, which ends with the second `now`, and its first
    /// second.
    fn recent(&self, now: u64) -> (Totals, u64) {
        let from = (now + 1).saturating_sub(RECENT as u64);
        let mut sum = Totals::default();
        for (second, totals) in (self.first..).zip(&self.totals) {
            if second >= from {
                sum.merge(totals);
            }
        }
        (sum, from)
    }

    /// Returns the seconds before `now`: `None` for those after the last request.
    fn complete(&self, now: u64) -> Vec<Option<&Totals>> {
        let idle = now.saturating_sub(self.first + self.totals.len() as u64);
        let idle = usize::try_from(idle).map_or(HISTORY, |idle| idle.min(HISTORY));
        let seconds = (self.first..now).zip(&self.totals).map(|(_, totals)| Some(&**totals));
        let mut seconds: Vec<_> = seconds.collect();
        if !seconds.is_empty() {
            seconds.extend(std::iter::repeat_n(None, idle));
        }
        seconds.split_off(seconds.len().saturating_sub(HISTORY))
    }
}

#[cfg(test)]
mod tests;
