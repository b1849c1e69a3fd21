//! The workers of a server compared with each other: their shares of the load, and their latencies.

use serde::Serialize;

use base::column::{Column, Sorted, Store, fixed_struct};
use base::statistics::interval::{self, Measured, Scale};

use super::GroupResult;
use crate::metrics::metric::Observation;
use crate::metrics::tag::{self, MetricTag};
use crate::metrics::time_breakdown::{DIVIDED, Stage, parts};

/// The confidence level of the intervals, and of all findings together.
const CONFIDENCE: f64 = 0.95;
/// Minimum number of values for an interval, as for comparisons of runs.
const MIN_REQUESTS: usize = 50;

fixed_struct! {
    /// The latencies of a successful request in whole nanoseconds, in the order of [`DIVIDED`].
    #[derive(Debug, Clone, Copy, Default)]
    struct Latencies {
        start_ns: u64,
        first_token: Option<f64>,
        request: Option<f64>,
    }
}

impl Latencies {
    fn get(&self, latency: MetricTag) -> Option<f64> {
        if latency == tag::TIME_TO_FIRST_TOKEN { self.first_token } else { self.request }
    }
}

/// The requests of a worker.
#[derive(Debug)]
pub(super) struct Requests {
    /// With those that failed.
    count: u64,
    output_tokens: f64,
    latencies: Column<Latencies>,
}

impl Requests {
    pub(super) fn new(store: Store) -> Self {
        Self { count: 0, output_tokens: 0.0, latencies: Column::new(store) }
    }

    pub(super) fn add(&mut self, observation: &Observation) {
        let value = |tag| observation.values.scalar(tag);
        self.count += 1;
        self.output_tokens += value(tag::OUTPUT_SEQUENCE_LENGTH).unwrap_or(0.0);
        if observation.error.is_none() {
            self.latencies.push(Latencies {
                start_ns: observation.start_wall_ns,
                first_token: value(tag::TIME_TO_FIRST_TOKEN).map(f64::round),
                request: value(tag::REQUEST_LATENCY).map(f64::round),
            });
        }
    }

    /// Returns the mean of a latency in milliseconds, whose requests depend on each other in the order
    /// of their starts; `None` with too few for an interval.
    fn mean(&self, latency: MetricTag) -> Option<Measured> {
        let scratch = self.latencies.scratch();
        let by_start = Sorted::new(self.latencies.iter(), |one| one.start_ns, &scratch);
        let values = || by_start.iter().filter_map(|one| Some(one.get(latency)? / 1e6));
        (values().count() >= MIN_REQUESTS).then(|| Measured::mean(values)).flatten()
    }
}

/// The workers that answered.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Workers {
    /// The confidence level of each interval, and of all findings together.
    pub confidence_level: f64,
    pub imbalance: Imbalance,
    /// By name.
    pub workers: Vec<Worker>,
}

/// The load of the worker with the largest load, divided by the mean load of all workers that answered:
/// 1 if all have the same, and their number if one has everything.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Imbalance {
    /// Of the numbers of requests, with those that failed.
    pub requests: f64,
    /// Of the numbers of output tokens; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<f64>,
}

/// A worker.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Worker {
    /// Its name, as in `by_worker`.
    pub name: String,
    /// Its requests, with those that failed, divided by those of all workers.
    pub request_share: f64,
    /// The same of output tokens; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_token_share: Option<f64>,
    /// The stage with the largest mean time; absent if the server does not report stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_stage: Option<Stage>,
    /// Its mean latencies, of those that at least 50 of its requests have.
    pub latencies: Vec<MeanLatency>,
}

/// A mean latency of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MeanLatency {
    /// The latency.
    pub metric: MetricTag,
    pub mean_ms: f64,
    /// The interval of the mean for other requests of the same kind; absent if it is unbounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<[f64; 2]>,
    /// How it differs from the workers in the middle; absent if no difference is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<Pace>,
}

/// How a worker differs from the workers in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    Slower,
    Faster,
}

impl Pace {
    /// Returns how it is shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
        }
    }
}

impl Worker {
    /// Returns a mean latency.
    pub fn latency(&self, metric: MetricTag) -> Option<&MeanLatency> {
        self.latencies.iter().find(|latency| latency.metric == metric)
    }
}

/// Compares workers with these requests and results.
pub(super) fn compare(all: &[Requests], results: &[GroupResult]) -> Workers {
    let requests: Vec<f64> = all.iter().map(|one| one.count as f64).collect();
    let tokens: Vec<f64> = all.iter().map(|one| one.output_tokens).collect();
    let worker =
        |((result, requests), tokens): ((&GroupResult, &Option<f64>), &Option<f64>)| Worker {
            name: result.name.to_string(),
            request_share: requests.unwrap_or(0.0),
            output_token_share: *tokens,
            largest_stage: largest_stage(result),
            latencies: Vec::new(),
        };
    let (request_shares, token_shares) = (shares(&requests), shares(&tokens));
    let mut workers: Vec<Worker> =
        results.iter().zip(&request_shares).zip(&token_shares).map(worker).collect();
    for metric in DIVIDED {
        let means: Vec<Option<Measured>> = all.iter().map(|one| one.mean(metric)).collect();
        let paces = paces(&means);
        for ((worker, mean), finding) in workers.iter_mut().zip(&means).zip(paces) {
            worker.latencies.extend(mean.as_ref().map(|mean| MeanLatency {
                metric,
                mean_ms: mean.value,
                interval_ms:
                    mean.half_width(CONFIDENCE).map(|half| [mean.value - half, mean.value + half]),
                finding,
            }));
        }
    }
    workers.sort_by(|a, b| a.name.cmp(&b.name));
    let imbalance = Imbalance {
        requests: imbalance(&requests).unwrap_or(1.0),
        output_tokens: imbalance(&tokens),
    };
    Workers { confidence_level: CONFIDENCE, imbalance, workers }
}

/// Returns the share of each load in their sum; none if that is 0.
fn shares(loads: &[f64]) -> Vec<Option<f64>> {
    let sum: f64 = loads.iter().sum();
    loads.iter().map(|load| (sum > 0.0).then(|| load / sum)).collect()
}

/// Returns the largest load divided by the mean; `None` if that is 0.
fn imbalance(loads: &[f64]) -> Option<f64> {
    let mean = loads.iter().sum::<f64>() / loads.len() as f64;
    let largest = loads.iter().copied().fold(0.0, f64::max);
    (mean > 0.0).then(|| largest / mean)
}

/// Returns the stage with the largest mean time over all requests.
fn largest_stage(group: &GroupResult) -> Option<Stage> {
    let sum = |tag: MetricTag| {
        let result = group.results.iter().find(|result| result.metric.tag == tag)?;
        Some(result.stats.avg * result.stats.distribution?.count as f64)
    };
    // Only the client's own times are known without a report.
    sum(tag::SERVER_UNATTRIBUTED_TIME)?;
    let stages = parts(tag::REQUEST_LATENCY)
        .filter_map(|(stage, tag)| Some((stage, stage.part_of_latency(sum(tag)?))));
    stages.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(stage, _)| stage)
}

/// Returns which means differ from those of the workers in the middle: the median, or each of the
/// two around it. Most workers are alike, so that a slow one does not move the middle. The chances of a
/// wrong finding add up, so that each comparison has its part of them (Bonferroni).
fn paces(means: &[Option<Measured>]) -> Vec<Option<Pace>> {
    let mut by_mean: Vec<(usize, &Measured)> =
        means.iter().enumerate().filter_map(|(at, mean)| Some((at, mean.as_ref()?))).collect();
    by_mean.sort_by(|(_, a), (_, b)| a.value.total_cmp(&b.value));
    let count = by_mean.len();
    let middle = by_mean.get(count.saturating_sub(1) / 2..=count / 2).unwrap_or_default();
    let level = 1.0 - (1.0 - CONFIDENCE) / (DIVIDED.len() * count.max(1)) as f64;
    let pace = |at: usize, mean: &Measured| {
        let others = middle.iter().filter(|(other, _)| *other != at);
        let mut found = others.map(|(_, other)| {
            match interval::difference(other, mean, Scale::Difference, level)? {
                [low, _] if low > 0.0 => Some(Pace::Slower),
                [_, high] if high < 0.0 => Some(Pace::Faster),
                _ => None,
            }
        });
        let first = found.next()??;
        found.all(|other| other == Some(first)).then_some(first)
    };
    means.iter().enumerate().map(|(at, mean)| pace(at, mean.as_ref()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a worker with `count` requests of these latencies in milliseconds, in turn.
    fn requests(count: usize, latencies: &[f64]) -> Requests {
        let mut found = Requests::new(Store::default());
        for at in 0..count {
            found.count += 1;
            found.latencies.push(Latencies {
                start_ns: at as u64,
                first_token: None,
                request: Some(latencies[at % latencies.len()] * 1e6),
            });
        }
        found
    }

    fn paces_of(all: &[Requests]) -> Vec<Option<Pace>> {
        paces(&all.iter().map(|one| one.mean(tag::REQUEST_LATENCY)).collect::<Vec<_>>())
    }

    #[test]
    fn one_slow_worker_among_eight_is_found() {
        let mut all: Vec<Requests> = (0..7).map(|_| requests(100, &[9.0, 10.0, 11.0])).collect();
        all.push(requests(100, &[14.0, 15.0, 16.0]));
        let found = paces_of(&all);
        assert_eq!(found[..7], [None; 7]);
        assert_eq!(found[7], Some(Pace::Slower));
        // Of two, each differs from the other.
        let found = paces_of(&[requests(100, &[9.0, 11.0]), requests(100, &[19.0, 21.0])]);
        assert_eq!(found, [Some(Pace::Faster), Some(Pace::Slower)]);
    }

    #[test]
    fn too_few_requests_show_nothing() {
        assert_eq!(paces_of(&[]), []);
        assert_eq!(paces_of(&[requests(100, &[9.0, 11.0])]), [None]);
        let few = requests(MIN_REQUESTS - 1, &[90.0, 91.0]);
        assert_eq!(paces_of(&[requests(100, &[9.0, 11.0]), few]), [None, None]);
        // The spread is far larger than the difference.
        let wide = |more: f64| requests(60, &[1.0, 100.0 + more, 40.0, 900.0, 3.0, 70.0, 500.0]);
        assert_eq!(paces_of(&[wide(0.0), wide(30.0), wide(60.0)]), [None; 3]);
    }

    #[test]
    fn imbalance_is_the_largest_load_over_the_mean() {
        assert_eq!(imbalance(&[10.0, 10.0, 10.0, 10.0]), Some(1.0));
        assert_eq!(imbalance(&[30.0, 10.0, 10.0, 10.0]), Some(2.0));
        assert_eq!(imbalance(&[8.0, 0.0, 0.0, 0.0]), Some(4.0));
        assert_eq!(imbalance(&[0.0, 0.0]), None);
        assert_eq!(shares(&[30.0, 10.0]), [Some(0.75), Some(0.25)]);
        assert_eq!(shares(&[0.0]), [None]);
    }
}
