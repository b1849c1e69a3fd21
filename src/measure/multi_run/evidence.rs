//! What the requests of a run say about a condition.
//!
//! That a percentile is below a limit says the same as that few enough values are beyond it, so a
//! condition on a percentile is one on a share of requests, as those on failed and good requests
//! are. Shares have binomial intervals, means and rates normal ones. Requests that depend on each
//! other count for fewer: the weight of a run is the number of independent requests that would say
//! as much. A run with a stall has little weight, however many requests the stall has delayed.

use base::setting::named;
use base::statistics::effective::inflation;
use base::statistics::isotonic::Block;
use base::statistics::normal;
use base::statistics::proportion::{Proportion, least_trials};
use base::statistics::rate;
use base::units::{Nanos, Unit};

use super::filter::{Comparison, Filter};
use crate::metrics::accumulate::Started;
use crate::metrics::metric::{MetricKind, MetricResult, Statistic};
use crate::metrics::{Accumulator, MetricTag, tag};

/// Minimum number of requests for the variance of a mean or a rate.
pub(crate) const LEAST_OF_MEAN: u64 = 50;

/// Share of requests below which a run is not made longer for a condition.
const LEAST_SHARE: f64 = 0.01;

/// The weight of what is not known.
pub(crate) const NOTHING: f64 = f64::MIN_POSITIVE;

/// Number of requests from which it is seen how much they depend on each other: at least so many,
/// and so many times those that may violate a condition.
const FEW: f64 = 20.0;
const FEW_TIMES: f64 = 5.0;

/// The ratio of a value to the threshold from which it is near.
const NEAR: f64 = 0.5;

/// For how many times the limit of a latency arrivals are late together: what a queue that delays a request by
/// so long delays before it is gone. Of simulated queues at their limit, 1.6 to 4.3.
const LATE: f64 = 2.5;

/// The ratio up to which values count as equal.
const EQUAL: f64 = 1.01;

/// Number of events that do not show that a load misses a condition.
const STALLS: f64 = 2.0;

/// Number of runs after which a load may be judged.
const LOOKS: f64 = 4.0;

/// How a condition is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The share of requests that violate it, which is binomially distributed.
    Share,
    /// The mean of requests, or a rate.
    Mean,
    /// Whether it holds, exactly: 0 if it does, 1 if not.
    Exact,
}

named! { Basis { "share" => Share, "mean" => Mean, "exact" => Exact } }

/// A condition as a limit that a quantity must not exceed, which grows with the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Condition {
    pub basis: Basis,
    pub limit: f64,
}

impl Condition {
    /// That all runs of a load succeed.
    pub(crate) const SUCCESS: Self = Self { basis: Basis::Exact, limit: 0.5 };

    /// Returns what `filter` limits.
    #[must_use]
    pub fn from_filter(filter: &Filter) -> Self {
        let source = Source::from_filter(filter);
        let limit = match source {
            Source::Beyond(_, share) | Source::Bad(share) | Source::Failed(share) => share,
            Source::Mean(_) | Source::Rate(_) => sign(filter) * filter.threshold,
            Source::Result => 0.5,
        };
        Self { basis: source.basis(), limit }
    }

    /// Returns whether `found` is within the limit but for a chance of `tail`.
    #[must_use]
    pub fn is_met(&self, found: &Block, tail: f64) -> bool {
        match self.basis {
            Basis::Share => proportion(found).is_below(self.limit, tail),
            Basis::Mean => found.mean + margin(found, tail) <= self.limit,
            Basis::Exact => found.mean <= self.limit,
        }
    }

    /// Returns whether `found` is beyond the limit but for a chance of `tail`. Of a share,
    /// [two events](STALLS) do not count: stalls that are not the load's. Stalls only add to the share, and
    /// a load may be looked at after each of its [runs](super::limit::REPEATS), so each look has its part of
    /// the chance.
    #[must_use]
    pub fn is_missed(&self, found: &Block, tail: f64) -> bool {
        match self.basis {
            Basis::Share => {
                let Proportion { hits, trials } = proportion(found);
                Proportion { hits: hits - STALLS, trials }.is_above(self.limit, tail / LOOKS)
            }
            Basis::Mean => found.mean - margin(found, tail) > self.limit,
            Basis::Exact => found.mean > self.limit,
        }
    }

    /// Returns how many times as much evidence of the same kind as `found` would decide, if a
    /// thousand times would.
    #[must_use]
    pub(crate) fn times_needed(&self, found: &Block, tail: f64) -> Option<f64> {
        let is_enough = |times: &f64| {
            let more = Block { weight: found.weight * times, ..found.clone() };
            self.is_met(&more, tail) || self.is_missed(&more, tail)
        };
        (0..100).map(|step| 1.072_f64.powi(step)).find(is_enough)
    }
}

fn proportion(found: &Block) -> Proportion {
    Proportion { hits: found.mean * found.weight, trials: found.weight }
}

fn margin(found: &Block, tail: f64) -> f64 {
    normal::quantile(1.0 - tail) / found.weight.sqrt()
}

/// 1 if larger values violate a condition, -1 if smaller ones do.
const fn sign(filter: &Filter) -> f64 {
    match filter.op {
        Comparison::Below | Comparison::AtMost => 1.0,
        Comparison::Above | Comparison::AtLeast => -1.0,
    }
}

/// Where the evidence for a condition comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Source {
    /// The share of the values of a metric that are beyond the threshold, with its limit.
    Beyond(MetricTag, f64),
    /// The share of requests that are not good.
    Bad(f64),
    /// The share of requests that failed.
    Failed(f64),
    /// The mean of a metric.
    Mean(MetricTag),
    /// The sum of a metric per second.
    Rate(MetricTag),
    /// The result of the run.
    Result,
}

impl Source {
    fn from_filter(filter: &Filter) -> Self {
        let is_limit = sign(filter) > 0.0;
        let is_mean = Statistic::named(&filter.statistic) == Some(Statistic::Avg);
        let percent = filter.statistic.strip_prefix('p').and_then(|text| text.parse::<f64>().ok());
        let is_record = filter.row().is_some_and(|row| matches!(row.kind, MetricKind::Record(_)));
        let within = |share: f64| (share > 0.0 && share < 1.0).then_some(share);
        let found = match percent {
            Some(percent) if is_record => {
                let beyond = if is_limit { 100.0 - percent } else { percent };
                within(beyond / 100.0).map(|share| Self::Beyond(filter.metric, share))
            }
            None if !is_mean => None,
            None if is_record => Some(Self::Mean(filter.metric)),
            _ if filter.metric == tag::GOOD_REQUEST_FRACTION && !is_limit => {
                within(1.0 - filter.threshold).map(Self::Bad)
            }
            _ if filter.metric == tag::REQUEST_ERROR_RATE && is_limit => {
                within(filter.threshold / 100.0).map(Self::Failed)
            }
            _ => [
                (tag::REQUEST_THROUGHPUT, tag::REQUEST_COUNT),
                (tag::GOODPUT, tag::GOOD_REQUEST_COUNT),
                (tag::OUTPUT_TOKEN_THROUGHPUT, tag::OUTPUT_SEQUENCE_LENGTH),
            ]
            .into_iter()
            .find(|(rate, _)| *rate == filter.metric)
            .map(|(_, summed)| Self::Rate(summed)),
        };
        found.unwrap_or(Self::Result)
    }

    const fn basis(self) -> Basis {
        match self {
            Self::Beyond(..) | Self::Bad(_) | Self::Failed(_) => Basis::Share,
            Self::Mean(_) | Self::Rate(_) => Basis::Mean,
            Self::Result => Basis::Exact,
        }
    }

    const fn tag(self) -> MetricTag {
        match self {
            Self::Beyond(tag, _) | Self::Mean(tag) | Self::Rate(tag) => tag,
            Self::Bad(_) => tag::GOOD_REQUEST_COUNT,
            Self::Failed(_) | Self::Result => tag::REQUEST_COUNT,
        }
    }
}

/// What a run, or several, say about a condition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// The share of requests that violate the condition; the mean, with its sign changed if larger
    /// values are better; or 0 if the condition holds, 1 if not.
    pub mean: f64,
    /// Of a share, the number of independent requests; of a mean, the reciprocal of its variance.
    pub weight: f64,
    /// Number of requests.
    pub requests: u64,
}

impl Evidence {
    /// Returns what a run with these values and results says about `filter`; `None` if it does not
    /// have the metric. Whether its requests are `arrivals`, which do not wait for each other, decides how
    /// much they depend on each other at least.
    #[must_use]
    pub fn from_run(
        filter: &Filter,
        results: &[MetricResult],
        values: &Accumulator,
        are_arrivals: bool,
    ) -> Option<Self> {
        let source = Source::from_filter(filter);
        let requests = || values.in_order(source.tag());
        let holds = |value: f64| filter.op.holds(value, filter.threshold);
        let counted = |found: Self, reach: f64| {
            if are_arrivals { found.of_arrivals(reach) } else { found }
        };
        match source {
            Source::Beyond(_, share) => {
                let requests = requests();
                let term = |it: &Started| {
                    let value = it.value?;
                    let ratio = (value / filter.threshold).powf(sign(filter));
                    Some((!holds(value), ratio))
                };
                let terms: Vec<(bool, f64)> = requests.iter().filter_map(term).collect();
                let reach = in_flight(&requests);
                let late = arrivals_within(&requests, filter).unwrap_or(reach);
                Some(counted(Self::of_tail(&terms, share, reach)?, late))
            }
            Source::Bad(_) | Source::Failed(_) => {
                let requests = requests();
                let is_bad = |it: &Started| it.value.is_none();
                let reach = in_flight(&requests);
                Some(counted(Self::of_share(requests.iter().map(is_bad), reach)?, reach))
            }
            Source::Mean(_) => {
                let requests = requests();
                let found: Vec<f64> = requests.iter().filter_map(|it| it.value).collect();
                Self::of_mean(sign(filter), &found, in_flight(&requests))
            }
            Source::Rate(_) => Self::of_rate(sign(filter), requests()),
            Source::Result => {
                let result = results.iter().find(|result| result.metric.tag == filter.metric)?;
                let value = Statistic::named(&filter.statistic)?.value_in(&result.stats)?;
                let mean = f64::from(u8::from(!holds(value)));
                Some(Self { mean, weight: 1.0, requests: 0 })
            }
        }
    }

    /// Returns the share of requests, in the order in which they started, that violate a condition;
    /// `reach` of them were in flight at the same time.
    #[must_use]
    pub(crate) fn of_share(violates: impl Iterator<Item = bool>, reach: f64) -> Option<Self> {
        let terms: Vec<f64> = violates.map(|violates| f64::from(u8::from(violates))).collect();
        let count = terms.len() as f64;
        (count > 0.0).then(|| Self {
            mean: terms.iter().sum::<f64>() / count,
            weight: count / inflation(&terms, reach),
            requests: terms.len() as u64,
        })
    }

    /// Like [`of_share`](Self::of_share), for requests of which is also known how near they are to
    /// violating the condition: the ratio of the value to the threshold. At most the share `limit` may
    /// violate it.
    ///
    /// How much requests depend on each other is not seen from the few that violate the condition, and
    /// not at all if none does. Therefore, those that are near count as well, as if the threshold was
    /// lower.
    #[must_use]
    pub fn of_tail(terms: &[(bool, f64)], limit: f64, reach: f64) -> Option<Self> {
        let found = Self::of_share(terms.iter().map(|(violates, _)| *violates), reach)?;
        let count = terms.len() as f64;
        let few = (FEW_TIMES * limit * count).max(FEW).min(count / 2.0) as usize;
        let mut ratios: Vec<f64> = terms.iter().map(|(_, ratio)| *ratio).collect();
        let (_, few_th, _) =
            ratios.select_nth_unstable_by(terms.len().saturating_sub(few.max(1)), f64::total_cmp);
        // Equal values differ by what has nothing to do with the load.
        let near = few_th.max(NEAR) * EQUAL;
        let of_near = Self::of_share(terms.iter().map(|(_, ratio)| *ratio > near), reach)?;
        Some(Self { weight: found.weight.min(of_near.weight), ..found })
    }

    /// Returns it for requests that arrive, of which `within` do in the limit of their latency. A run
    /// that is short beside the time in which a queue forms and goes does not show how much its
    /// requests depend on each other, so those that arrive in [`LATE`] times the limit count as one.
    #[must_use]
    pub(crate) fn of_arrivals(self, within: f64) -> Self {
        let most = self.requests as f64 / (LATE * within).max(1.0);
        Self { weight: self.weight.min(most), ..self }
    }

    /// Returns the mean of values, times `sign`.
    fn of_mean(sign: f64, values: &[f64], reach: f64) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let variance = squares / count / count * inflation(values, reach);
        Self::of_estimate(sign * mean, variance, values.len())
    }

    /// Returns the sum of values per second in the long run, times `sign`: a ratio, whose variance is that of
    /// the differences between each value and what the time since the last one would be worth.
    fn of_rate(sign: f64, mut requests: Vec<Started>) -> Option<Self> {
        let reach = in_flight(&requests);
        let (start, last_start) = (requests.first()?.start, requests.last()?.start);
        let time = |from: u64, until: u64| Nanos(until.saturating_sub(from)).as_seconds();
        let latencies = requests.iter().map(|it| time(it.start, it.end)).sum();
        let idle = rate::idle(requests.len(), time(start, last_start), latencies);
        requests.sort_by_key(|request| request.end);
        let before = std::iter::once(start).chain(requests.iter().map(|request| request.end));
        let gaps = requests.iter().zip(before);
        let mut gaps: Vec<f64> = gaps.map(|(it, last)| time(last, it.end)).collect();
        if let Some(first) = gaps.first_mut() {
            *first += idle;
        }
        let seconds: f64 = gaps.iter().sum();
        let values = || requests.iter().map(|request| request.value.unwrap_or(0.0));
        let rate = values().sum::<f64>() / seconds;
        let excess: Vec<f64> = values().zip(&gaps).map(|(value, gap)| value - rate * gap).collect();
        let squares: f64 = excess.iter().map(|excess| excess.powi(2)).sum();
        let variance = squares * inflation(&excess, reach) / seconds.powi(2);
        Self::of_estimate(sign * rate, variance, requests.len())
    }

    /// Returns an estimate with its variance, which too few requests do not tell.
    fn of_estimate(mean: f64, variance: f64, requests: usize) -> Option<Self> {
        let is_known = requests as u64 >= LEAST_OF_MEAN;
        // Equal values differ by rounding, and weights must stay finite.
        let least = (1e-9 * mean).powi(2).max(f64::MIN_POSITIVE);
        let weight = if is_known { variance.max(least).recip() } else { NOTHING };
        mean.is_finite().then_some(Self { mean, weight, requests: requests as u64 })
    }

    /// Returns what several runs say together, each with its weight; `None` without any.
    #[must_use]
    pub fn together(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        all.into_iter().reduce(|one, other| {
            let weight = one.weight + other.weight;
            Self {
                mean: (one.mean * one.weight + other.mean * other.weight) / weight,
                weight,
                requests: one.requests + other.requests,
            }
        })
    }

    /// Returns it as a part of a curve.
    #[must_use]
    pub fn block(&self) -> Block {
        Block { members: 0..1, mean: self.mean, weight: self.weight }
    }

    /// Returns the interval of what the condition limits: a share of requests, or a mean in its own
    /// unit. `None` if it is exact, or too few requests are known.
    #[must_use]
    pub fn interval(&self, filter: &Filter, tail: f64) -> Option<[f64; 2]> {
        if self.weight <= NOTHING {
            return None;
        }
        let block = self.block();
        match Condition::from_filter(filter).basis {
            Basis::Share => Some(proportion(&block).interval(tail)),
            Basis::Mean => {
                let sign = sign(filter);
                Some([-1.0, 1.0].map(|side| sign * self.mean + side * margin(&block, tail)))
            }
            Basis::Exact => None,
        }
    }
}

/// Returns the mean number of `requests` that were in flight at the same time.
fn in_flight(requests: &[Started]) -> f64 {
    let length = |request: &Started| request.end.saturating_sub(request.start) as f64;
    let start = requests.iter().map(|request| request.start).min().unwrap_or(0);
    let end = requests.iter().map(|request| request.end).max().unwrap_or(0);
    let time = end.saturating_sub(start) as f64;
    if time > 0.0 { requests.iter().map(length).sum::<f64>() / time } else { 1.0 }
}

/// Returns how many of `requests` arrive in the time that `filter` limits; `None` if it does not limit one.
fn arrivals_within(requests: &[Started], filter: &Filter) -> Option<f64> {
    let unit = filter.row()?.display_unit;
    let limit = unit.convert(filter.threshold, Unit::Nanoseconds);
    let (first, last) = (requests.first()?.start, requests.last()?.start);
    let is_time = matches!(unit, Unit::Nanoseconds | Unit::Milliseconds | Unit::Seconds);
    is_time.then(|| requests.len() as f64 * limit / last.saturating_sub(first).max(1) as f64)
}

/// Returns the number of requests that each run needs at least, so that all `filters` can be told at
/// the confidence `level` if no request violates one.
#[must_use]
pub fn least_requests(filters: &[Filter], level: f64) -> u64 {
    let least = |filter: &Filter| {
        let condition = Condition::from_filter(filter);
        match condition.basis {
            Basis::Share => least_trials(condition.limit.max(LEAST_SHARE), tail(level)),
            Basis::Mean => 2 * LEAST_OF_MEAN,
            Basis::Exact => 0,
        }
    };
    filters.iter().map(least).max().unwrap_or(0)
}

/// Returns the probability on each side of an interval with the confidence `level`.
#[must_use]
pub fn tail(level: f64) -> f64 {
    (1.0 - level) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> Filter {
        Filter::parse(text).unwrap()
    }

    #[test]
    fn conditions_are_limits_of_shares_and_means() {
        for (text, basis, limit) in [
            ("ttft:p99:lt:200", Basis::Share, 0.01),
            ("ttft:p50:le:200", Basis::Share, 0.5),
            ("output_token_throughput_per_user:p5:gt:10", Basis::Share, 0.05),
            ("good_request_fraction:avg:ge:0.95", Basis::Share, 0.05),
            ("request_error_rate:avg:lt:2", Basis::Share, 0.02),
            ("ttft:avg:lt:200", Basis::Mean, 200.0),
            ("request_throughput:avg:gt:30", Basis::Mean, -30.0),
            ("request_count:avg:le:12", Basis::Exact, 0.5),
            ("ttft:max:lt:200", Basis::Exact, 0.5),
            // No request may fail: an interval never excludes that one does.
            ("request_error_rate:avg:le:0", Basis::Exact, 0.5),
        ] {
            let found = Condition::from_filter(&filter(text));
            assert_eq!(found.basis, basis, "{text}");
            assert!((found.limit - limit).abs() < 1e-12, "{text}: {}", found.limit);
        }
        let least = |text| least_requests(&[filter(text)], 0.95);
        assert_eq!(least("ttft:p99:lt:200"), 368);
        assert_eq!(least("ttft:p95:lt:200"), 72);
        assert_eq!((least("ttft:avg:lt:1"), least("request_count:avg:le:12")), (100, 0));
    }

    #[test]
    fn a_share_is_told_by_enough_requests() {
        let condition = Condition::from_filter(&filter("ttft:p99:lt:200"));
        let standing = |count: usize, every: usize| {
            let found = Evidence::of_share((1..=count).map(|at| at % every == 0), 1.0).unwrap();
            let block = found.block();
            (condition.is_met(&block, 0.025), condition.is_missed(&block, 0.025))
        };
        assert_eq!(standing(368, 1000), (true, false));
        assert_eq!(standing(367, 1000), (false, false));
        assert_eq!(standing(368, 100), (false, false));
        assert_eq!(standing(368, 20), (false, true));
        assert_eq!(Evidence::of_share(std::iter::empty(), 1.0), None);
    }

    #[test]
    fn a_stall_is_one_event() {
        // Four consecutive requests of 368: more than 1%, but a single stall.
        let stalled = Evidence::of_share((0..368).map(|at| (100..104).contains(&at)), 4.0).unwrap();
        let quiet = Evidence::of_share((0..368).map(|_| false), 4.0).unwrap();
        assert!(stalled.mean > 0.01 && stalled.weight < 150.0, "{stalled:?}");
        let condition = Condition::from_filter(&filter("ttft:p99:lt:200"));
        let together = Evidence::together([stalled, quiet, quiet]).unwrap();
        assert!(!condition.is_missed(&stalled.block(), 0.025));
        assert!(condition.is_met(&together.block(), 0.025), "{together:?}");
        assert_eq!(together.requests, 3 * 368);
    }

    #[test]
    fn what_more_would_tell_is_known() {
        let condition = Condition::from_filter(&filter("ttft:p99:lt:200"));
        let half = Block { members: 0..1, mean: 0.0, weight: 184.0 };
        let times = condition.times_needed(&half, 0.025).unwrap();
        assert!((2.0..2.15).contains(&times), "{times}");
        let equal = Block { mean: 0.01, ..half };
        assert_eq!(condition.times_needed(&equal, 0.025), None);
    }

    #[test]
    fn a_mean_has_the_interval_of_its_variance() {
        // 1 and 3 in turn: variance 1, so that 100 values have the standard error 0.1; opposite
        // neighbours do not make it smaller.
        let values: Vec<f64> = (0..100).map(|at| f64::from(1 + at % 2 * 2)).collect();
        let found = Evidence::of_mean(1.0, &values, 1.0).unwrap();
        assert!((found.mean - 2.0).abs() < 1e-12 && (found.weight - 100.0).abs() < 1e-6);
        let condition = filter("ttft:avg:lt:2.3");
        let [low, high] = found.interval(&condition, 0.025).unwrap();
        assert!((low - 1.804).abs() < 1e-3 && (high - 2.196).abs() < 1e-3, "{low} {high}");
        assert!(Condition::from_filter(&condition).is_met(&found.block(), 0.025));
        let few = Evidence::of_mean(1.0, &values[..40], 1.0).unwrap();
        assert!(!Condition::from_filter(&condition).is_met(&few.block(), 0.025));
        assert_eq!(few.interval(&condition, 0.025), None);
    }

    #[test]
    fn a_rate_is_a_ratio() {
        let at = |number: u64| Started {
            start: number * 10_000_000,
            end: (number + 1) * 10_000_000,
            value: Some(1.0),
        };
        let found = Evidence::of_rate(-1.0, (0..200).map(at).collect()).unwrap();
        assert!((found.mean + 100.0).abs() < 1e-6, "{found:?}");
        let condition = Condition::from_filter(&filter("request_throughput:avg:ge:99"));
        assert!(condition.is_met(&found.block(), 0.025));
    }

    #[test]
    fn a_rate_includes_the_distance_after_the_last_request() {
        // 60 requests of 10 ms, one each second: 1.0167/s by the time until the last response.
        let at = |number: u64| Started {
            start: number * 1_000_000_000,
            end: number * 1_000_000_000 + 10_000_000,
            value: Some(1.0),
        };
        let found = Evidence::of_rate(-1.0, (0..60).map(at).collect()).unwrap();
        assert!((found.mean + 1.0).abs() < 1e-9, "{found:?}");
        let condition = Condition::from_filter(&filter("request_throughput:avg:ge:1.01"));
        assert!(condition.is_missed(&found.block(), 0.025));
    }
}
