//! Capacity: what a server does at loads that were not tried, from those that were.
//!
//! The mean latency is a [curve](ServiceCurve) of the number of requests in flight, to which all loads
//! contribute: concurrencies and rates alike. Other statistics are the mean latency times a ratio,
//! which is interpolated between the loads that were tried. Intervals are from curves that are fitted
//! again to the loads with their residuals exchanged (Efron, "Bootstrap methods: another look at the
//! jackknife", The Annals of Statistics 7, 1979), and contain such a residual besides.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

mod people;

use base::statistics::Bounded;
use base::statistics::percentile::percentile;
use base::statistics::service_curve::ServiceCurve;

use super::evidence::tail;
use super::filter::{Comparison, Filter};
use super::{Load, RunResult, Trials, Variation};
use crate::metrics::metric::Statistic;
use crate::metrics::{MetricTag, Registry, tag};

/// Number of curves that are fitted again.
const RESAMPLES: usize = 400;

/// The most users that a replica is said to have.
const MOST_USERS: u64 = 1 << 20;

/// No prediction of a run is more precise than this share of it.
const FINEST: f64 = 0.005;

/// Share of the rate that was sent below which requests queue, and standard errors by which it must be below.
const SATURATED: f64 = 0.9;
const CERTAIN: f64 = 3.0;

/// How many times the highest load that was tried is predicted at most.
pub const BEYOND: f64 = 4.0;

/// The statistics that are predicted besides the rate.
pub(crate) const PREDICTED: [(MetricTag, &str); 8] = [
    (tag::TIME_TO_FIRST_TOKEN, "avg"),
    (tag::TIME_TO_FIRST_TOKEN, "p50"),
    (tag::TIME_TO_FIRST_TOKEN, "p95"),
    (tag::TIME_TO_FIRST_TOKEN, "p99"),
    (tag::REQUEST_LATENCY, "avg"),
    (tag::REQUEST_LATENCY, "p50"),
    (tag::REQUEST_LATENCY, "p95"),
    (tag::REQUEST_LATENCY, "p99"),
];

/// A load that was tried.
#[derive(Debug, Clone)]
pub struct Level {
    /// Its name.
    pub label: String,
    /// Requests per second.
    pub rate: f64,
    /// Mean latency in seconds.
    pub seconds: f64,
    /// Standard deviation of the latency relative to its mean.
    pub variation: f64,
    /// Number of requests of a run.
    pub requests: usize,
    /// The load, if nothing else was varied.
    load: Option<Load>,
    /// Other statistics, in display units.
    values: Vec<(MetricTag, String, f64)>,
}

impl Level {
    /// Summarizes the runs of a cell, with the statistics that `filters` limit; `None` if no run was
    /// completed.
    #[must_use]
    pub fn from_trials(variation: &Variation, trials: &Trials, filters: &[Filter]) -> Option<Self> {
        let load = Load::from_values(&variation.values);
        let label = load.map_or_else(|| variation.label.clone(), |load| load.to_string());
        let mean = |tag, statistic: &str| {
            let statistic = Statistic::named(statistic)?;
            let values = trials.successful().filter_map(|run| run.sustained(tag, statistic));
            let values: Vec<f64> = values.collect();
            average(values.into_iter())
        };
        Self::with(label, filters, load, mean)
    }

    /// Summarizes a single run.
    #[must_use]
    pub fn of_run(run: &RunResult, filters: &[Filter]) -> Option<Self> {
        let value = |tag, statistic: &str| run.sustained(tag, Statistic::named(statistic)?);
        Self::with(run.directory.display().to_string(), filters, None, value)
    }

    fn with(
        label: String,
        filters: &[Filter],
        load: Option<Load>,
        value: impl Fn(MetricTag, &str) -> Option<f64>,
    ) -> Option<Self> {
        let limited = filters.iter().map(|filter| (filter.metric, filter.statistic.as_str()));
        let limited = limited.filter(|subject| !PREDICTED.contains(subject));
        let values = PREDICTED.into_iter().chain(limited).filter_map(|(tag, statistic)| {
            Some((tag, statistic.to_owned(), value(tag, statistic).filter(|it| *it > 0.0)?))
        });
        Some(Self {
            label,
            rate: value(tag::REQUEST_THROUGHPUT, "avg").filter(|rate| *rate > 0.0)?,
            variation: value(tag::REQUEST_LATENCY, "std")
                .zip(value(tag::REQUEST_LATENCY, "avg"))
                .map_or(0.0, |(std, mean)| std / mean),
            seconds: value(tag::REQUEST_LATENCY, "avg").filter(|it| *it > 0.0)? / 1e3,
            requests: value(tag::REQUEST_COUNT, "avg").unwrap_or(0.0) as usize,
            load,
            values: values.collect(),
        })
    }

    /// Mean number of requests in flight, by Little's law.
    #[must_use]
    pub fn in_flight(&self) -> f64 {
        self.rate * self.seconds
    }

    /// Returns whether a number of requests was kept in flight.
    fn is_closed(&self) -> bool {
        matches!(self.load, Some(Load::Concurrency(_)))
    }

    /// Returns whether fewer requests were served than were sent while `curve` has a rate that is higher than
    /// that: on its way to the number in flight, the load would have stayed where that rate is.
    fn refutes(&self, curve: &ServiceCurve) -> bool {
        let Some(Load::RequestRate(sent)) = self.load else { return false };
        // The mean of so many random gaps is known to its standard error.
        let share = 1.0 - CERTAIN / (self.requests as f64).sqrt();
        self.rate < share.min(SATURATED) * sent && curve.peak(self.in_flight()).1 > sent
    }

    /// Returns a statistic.
    #[must_use]
    pub fn value(&self, metric: MetricTag, statistic: &str) -> Option<f64> {
        let is_it =
            |(tag, name, _): &&(MetricTag, String, f64)| *tag == metric && name == statistic;
        self.values.iter().find(is_it).map(|(_, _, value)| *value)
    }
}

fn average(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// A load to predict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Demand {
    /// Requests per second.
    Rate(f64),
    /// Users, each of whom thinks for so many seconds after a response.
    Users { count: f64, think_seconds: f64 },
}

/// What is predicted at a load.
#[derive(Debug, Clone)]
pub struct Prediction {
    /// Requests in flight.
    pub in_flight: f64,
    /// Whether no load as high was tried.
    pub is_beyond: bool,
    /// Requests per second.
    pub rate: Bounded,
    /// Other statistics, in display units.
    pub values: Vec<(MetricTag, String, Bounded)>,
}

/// A model of a server.
#[derive(Debug, Clone)]
pub struct Model {
    /// The loads that it is fitted to, by the number in flight.
    pub levels: Vec<Level>,
    pub curve: ServiceCurve,
    /// Its relative error at a load that is left out.
    pub error: f64,
    /// The other curve and its error, if it could be fitted.
    pub other: Option<(ServiceCurve, f64)>,
    /// Curves that are fitted again, each with a relative residual.
    again: Vec<(ServiceCurve, f64)>,
    confidence: f64,
}

impl Model {
    /// Fits a model to `levels`, with intervals at the level `confidence`.
    ///
    /// # Errors
    ///
    /// Fails if there are too few loads.
    pub fn fit(mut levels: Vec<Level>, confidence: f64) -> Result<Self, String> {
        levels.sort_by(|a, b| a.in_flight().total_cmp(&b.in_flight()));
        let points: Vec<(f64, f64)> =
            levels.iter().map(|level| (level.in_flight(), level.seconds)).collect();
        let fits = ServiceCurve::fit(&points).into_iter();
        let (refuted, possible): (Vec<_>, Vec<_>) =
            fits.partition(|(curve, _)| levels.iter().any(|level| level.refutes(curve)));
        let mut fits = possible.into_iter().chain(refuted);
        let (curve, error) = fits.next().ok_or_else(|| {
            let count = levels.len();
            format!("{count} loads with results; at least 4 different ones are needed")
        })?;
        // Residuals of a fit are smaller than the errors of the truth by the numbers that are fitted.
        let count = points.len() as f64;
        let widened = (count / (count - 3.0)).sqrt();
        let residuals: Vec<f64> = points
            .iter()
            .map(|(n, seconds)| (seconds / curve.seconds(*n)).ln() * widened)
            .collect();
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let mut draw = || residuals[random.random_range(0..residuals.len())];
        let mut fit_again = || {
            let moved: Vec<(f64, f64)> =
                points.iter().map(|(n, _)| (*n, curve.seconds(*n) * draw().exp())).collect();
            Some((curve.again(&moved)?, draw()))
        };
        let again = (0..RESAMPLES).filter_map(|_| fit_again()).collect();
        Ok(Self { levels, curve, error, other: fits.next(), again, confidence })
    }

    /// Returns the relative residual of each load: by how much its latency exceeds the curve.
    pub fn residuals(&self) -> impl Iterator<Item = (&Level, f64)> {
        self.levels
            .iter()
            .map(|level| (level, level.seconds / self.curve.seconds(level.in_flight()) - 1.0))
    }

    /// The highest number in flight that was tried.
    fn most_tried(&self) -> f64 {
        self.levels.last().map_or(1.0, Level::in_flight)
    }

    /// Returns the highest rate up to the loads that were tried, with its interval, and the number in
    /// flight.
    #[must_use]
    pub fn peak(&self) -> (f64, Bounded) {
        let most = self.most_tried();
        let (n, rate) = self.curve.peak(most);
        let again = self.again.iter().map(|(curve, _)| curve.peak(most).1);
        (n, self.interval(rate, again.collect()))
    }

    /// Returns the highest rate that was tried if throughput still grew at the highest load, so that the most
    /// that the server can do is not known.
    #[must_use]
    pub fn still_growing(&self) -> Option<f64> {
        /// The share of the highest load below which a peak is one.
        const BELOW: f64 = 0.95;
        let (n, _) = self.peak();
        let highest = self.levels.iter().map(|level| level.rate).reduce(f64::max);
        highest.filter(|_| n >= BELOW * self.most_tried())
    }

    /// Returns the coefficients of the curve ([`ServiceCurve::terms`]) with their intervals.
    pub fn terms(&self) -> Vec<Bounded> {
        let term = |(at, value): (usize, f64)| {
            let again = self.again.iter().filter_map(|(curve, _)| curve.terms().get(at).copied());
            self.interval(value, again.collect())
        };
        self.curve.terms().into_iter().enumerate().map(term).collect()
    }

    /// Predicts what the server does with `demand` in the long run; `None` if it is more than it can do, or
    /// beyond what can be predicted.
    #[must_use]
    pub fn predict(&self, demand: Demand) -> Option<Prediction> {
        self.predicted(demand, None)
    }

    /// Predicts what a run with so many `requests` measures. What resampled curves differ by is how well their
    /// coefficients are known; that no load is exactly on a curve is the error at loads that are left out.
    #[must_use]
    pub fn predict_run(&self, demand: Demand, requests: usize) -> Option<Prediction> {
        let found = self.predicted(demand, Some(requests))?;
        Some(found.widened(self.error.max(FINEST)))
    }

    /// Predicts what a run with so many `requests` measures; without a number, what is true in the long run.
    fn predicted(&self, demand: Demand, requests: Option<usize>) -> Option<Prediction> {
        let most = BEYOND * self.most_tried();
        if let (Some(source), ServiceCurve::Slots { seconds, slots, .. }) =
            (self.source(demand, requests.is_some()), self.curve)
        {
            let is_possible =
                !matches!(demand, Demand::Rate(rate) if rate > self.curve.peak(most).1);
            let found = is_possible.then(|| self.simulated(source, [seconds, slots], requests))?;
            return found.filter(|found| found.in_flight <= most);
        }
        let state = State::under(&self.curve, demand, most)?;
        let n = state.in_flight;
        // A curve that cannot do it has an infinite latency, so the interval does not have an upper end.
        let again: Vec<(Option<State>, f64)> = self
            .again
            .iter()
            .map(|(curve, residual)| (State::under(curve, demand, most), *residual))
            .collect();
        let rate = match demand {
            Demand::Rate(rate) => Bounded { value: rate, low: rate, high: rate },
            // By the interactive response time law, users = rate * (latency + think time).
            Demand::Users { count, think_seconds } => {
                let rate = |(state, residual): &(Option<State>, f64)| {
                    let state = state.as_ref()?;
                    Some(count / (state.seconds * residual.exp() + think_seconds))
                };
                let rates = again.iter().map(|again| rate(again).unwrap_or(0.0));
                self.interval(n / state.seconds, rates.collect())
            }
        };
        // A run of some requests has other arrivals, and begins at an idle server.
        let runs = match (demand, requests) {
            (Demand::Rate(rate), Some(requests)) => self.runs(rate, requests),
            _ => None,
        };
        let known = self.levels.first().map_or(&[][..], |level| &level.values);
        let values = known.iter().filter_map(|(metric, statistic, _)| {
            let value = |state: &State| {
                Some(state.seconds * self.ratio(*metric, statistic, state.in_flight)?)
            };
            let plain = value(&state)?;
            let spread = state.spread(statistic, plain / 1e3) / (plain / 1e3);
            let errors = self.ratio_errors(*metric, statistic);
            let errors = errors.iter().chain(errors.is_empty().then_some(&0.0)).cycle();
            let ratios = runs.as_ref().map_or_else(Vec::new, |it| it.ratios(*metric, statistic));
            let ratios = ratios.iter().chain(ratios.is_empty().then_some(&1.0)).cycle();
            let again = again.iter().zip(errors).zip(ratios);
            let again = again.map(|(((state, residual), error), ratio)| {
                let found = state.as_ref().and_then(value);
                let spread = spread * ratio * (residual + error).exp();
                found.map_or(f64::INFINITY, |found| spread * found)
            });
            let predicted = self.interval(spread * plain, again.collect());
            Some((*metric, statistic.clone(), predicted))
        });
        let values = values.collect();
        Some(Prediction { in_flight: n, is_beyond: n > self.most_tried(), rate, values })
    }

    /// Returns the ratio of a statistic to the mean latency at `n` in flight: between two loads that were
    /// tried, both on logarithmic scales; beyond them, that of the nearest.
    fn ratio(&self, metric: MetricTag, statistic: &str, n: f64) -> Option<f64> {
        interpolated(&self.ratios(metric, statistic), n.ln()).map(f64::exp)
    }

    /// Returns the logarithms of the number in flight and of the ratio at each load.
    fn ratios(&self, metric: MetricTag, statistic: &str) -> Vec<(f64, f64)> {
        let ratio = |level: &Level| {
            let ratio = level.value(metric, statistic)? / level.seconds;
            Some((level.in_flight().ln(), ratio.ln()))
        };
        self.levels.iter().filter_map(ratio).collect()
    }

    /// Returns by how much the logarithm of a ratio that is interpolated differs from that at each load
    /// between two others, if it is left out.
    fn ratio_errors(&self, metric: MetricTag, statistic: &str) -> Vec<f64> {
        let known = self.ratios(metric, statistic);
        let error = |at: usize| {
            let mut rest = known.clone();
            let (x, y) = rest.remove(at);
            Some(y - interpolated(&rest, x)?)
        };
        (1..known.len().saturating_sub(1)).filter_map(error).collect()
    }

    fn interval(&self, value: f64, mut again: Vec<f64>) -> Bounded {
        again.sort_unstable_by(f64::total_cmp);
        let tail = 100.0 * tail(self.confidence);
        // Neighbours are not interpolated with infinity.
        let end = |percent: f64| {
            let found = percentile(&again, percent);
            found.map_or(value, |end| if end.is_nan() { f64::INFINITY } else { end })
        };
        Bounded { value, low: end(tail).min(value), high: end(100.0 - tail).max(value) }
    }

    /// Returns the largest numbers of users, thinking for so many seconds, with whom the intervals of all
    /// that `filters` limit are within the limits, and with whom the predicted values are; 0 if not even
    /// with one.
    #[must_use]
    pub fn most_users(&self, think_seconds: f64, filters: &[Filter]) -> [u64; 2] {
        [Prediction::meets, Prediction::is_within].map(|holds| {
            self.most_users_for(think_seconds, |found| filters.iter().all(|it| holds(found, it)))
        })
    }

    fn most_users_for(&self, think_seconds: f64, holds: impl Fn(&Prediction) -> bool) -> u64 {
        let meets = |users: u64| {
            let demand = Demand::Users { count: users as f64, think_seconds };
            self.predict(demand).is_some_and(|found| holds(&found))
        };
        let (mut low, mut high) = (0, 1);
        while high < MOST_USERS && meets(high) {
            (low, high) = (high, 2 * high);
        }
        while high - low > 1 {
            let middle = u64::midpoint(low, high);
            *if meets(middle) { &mut low } else { &mut high } = middle;
        }
        low
    }
}

impl Prediction {
    /// Returns what is predicted of a statistic.
    #[must_use]
    pub fn get(&self, metric: MetricTag, statistic: &str) -> Option<Bounded> {
        if metric == tag::REQUEST_THROUGHPUT {
            return Some(self.rate);
        }
        let is_it =
            |(tag, name, _): &&(MetricTag, String, Bounded)| *tag == metric && name == statistic;
        self.values.iter().find(is_it).map(|(_, _, predicted)| *predicted)
    }

    /// Returns whether the interval of what `filter` limits is within the limit.
    #[must_use]
    pub fn meets(&self, filter: &Filter) -> bool {
        self.get(filter.metric, &filter.statistic).is_some_and(|found| {
            let end = match filter.op {
                Comparison::Below | Comparison::AtMost => found.high,
                Comparison::Above | Comparison::AtLeast => found.low,
            };
            filter.op.holds(end, filter.threshold)
        })
    }

    /// Returns it with intervals that are wider by this share of their ends.
    fn widened(mut self, share: f64) -> Self {
        let values = self.values.iter_mut().map(|(.., predicted)| predicted);
        // The rate that was asked for is not predicted.
        let rate = Some(&mut self.rate).filter(|rate| rate.low < rate.high);
        for predicted in values.chain(rate) {
            predicted.low *= 1.0 - share;
            predicted.high *= 1.0 + share;
        }
        self
    }

    /// Returns whether the predicted value of what `filter` limits is within the limit.
    fn is_within(&self, filter: &Filter) -> bool {
        let found = self.get(filter.metric, &filter.statistic);
        found.is_some_and(|found| filter.op.holds(found.value, filter.threshold))
    }

    /// Compares the prediction with a run: each statistic with what was measured, and whether it came
    /// true.
    #[must_use]
    pub fn compare(&self, run: &Level) -> Vec<(String, Bounded, f64, bool)> {
        let header = |metric, statistic: &str| {
            let name = Registry::row(metric).map_or("", |row| row.header);
            format!("{name} {statistic}")
        };
        let rate = Some((header(tag::REQUEST_THROUGHPUT, "avg"), self.rate, run.rate));
        let values = self.values.iter().map(|(metric, statistic, predicted)| {
            Some((header(*metric, statistic), *predicted, run.value(*metric, statistic)?))
        });
        // The rate that was asked for is not predicted.
        let rate = rate.filter(|(_, predicted, _)| predicted.low < predicted.high);
        let rows = std::iter::once(rate).chain(values).flatten();
        rows.map(|(name, predicted, measured)| {
            let is_true = (predicted.low..=predicted.high).contains(&measured);
            (name, predicted, measured, is_true)
        })
        .collect()
    }
}

/// Returns the value at `x` of the line through points in ascending order; beyond them, that of the
/// nearest.
fn interpolated(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let at = points.partition_point(|(point, _)| *point < x);
    match (at.checked_sub(1).and_then(|below| points.get(below)), points.get(at)) {
        (Some((x0, y0)), Some((x1, y1))) => Some(y0 + (y1 - y0) * (x - x0) / (x1 - x0)),
        (Some((_, y)), None) | (None, Some((_, y))) => Some(*y),
        (None, None) => None,
    }
}

/// What a demand leads to.
#[derive(Debug)]
struct State {
    /// Mean number of requests in flight.
    in_flight: f64,
    /// Mean latency.
    seconds: f64,
    /// The latencies at the numbers in flight that requests of people meet, in ascending order of the numbers, each
    /// with its share; empty if the number does not vary.
    met: Vec<(f64, f64)>,
}

impl State {
    /// Returns what `demand` leads to with at most `most` requests in flight.
    fn under(curve: &ServiceCurve, demand: Demand, most: f64) -> Option<Self> {
        let found = match demand {
            Demand::Rate(rate) => {
                if rate > curve.peak(most).1 {
                    return None;
                }
                let high = match curve {
                    ServiceCurve::Scalability(_) => curve.peak(most).0,
                    ServiceCurve::Slots { .. } => most,
                };
                Self::at(curve, lowest(high, |n| curve.rate(n) >= rate))
            }
            Demand::Users { count, think_seconds: 0.0 } => Self::at(curve, count),
            Demand::Users { count, think_seconds } => {
                if count > most + curve.peak(most).1 * think_seconds {
                    return None;
                }
                Self::of_people(curve, count as u64, think_seconds)
            }
        };
        (found.in_flight <= most).then_some(found)
    }

    fn at(curve: &ServiceCurve, n: f64) -> Self {
        Self { in_flight: n, seconds: curve.seconds(n), met: Vec::new() }
    }
}

/// Returns the lowest number up to `high` from which on `is_enough` holds.
fn lowest(mut high: f64, is_enough: impl Fn(f64) -> bool) -> f64 {
    let mut low = 0.0;
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        *if is_enough(middle) { &mut high } else { &mut low } = middle;
    }
    high
}

#[cfg(test)]
mod tests;
