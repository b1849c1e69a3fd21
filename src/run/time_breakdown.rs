//! Divides the client's mean latencies into what the server reports about its own times.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::RunReport;
use crate::metrics::metric::{Distribution, MetricResult};
use crate::metrics::{MetricTag, tag};
use crate::server_metrics::report::Stats;
use crate::server_metrics::snapshot::Kind;
use crate::server_metrics::store::Values;

/// The histograms of vLLM, in seconds: one observation for each finished request.
const QUEUE: &str = "vllm:request_queue_time_seconds";
const PREFILL: &str = "vllm:request_prefill_time_seconds";
const DECODE: &str = "vllm:request_decode_time_seconds";
/// The times from the arrival of a request at the server.
const FIRST_TOKEN: &str = "vllm:time_to_first_token_seconds";
const WHOLE: &str = "vllm:e2e_request_latency_seconds";

/// The client's mean latencies by the server's times, or why they are not divided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TimeBreakdown {
    /// Each latency as the sum of its parts.
    Found(Division),
    /// The server's times are not those of the client's requests.
    None {
        /// Why.
        reason: String,
    },
}

/// The client's mean latencies, each as the sum of its parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Division {
    /// Number of requests, the same for client and server.
    pub(crate) request_count: u64,
    /// The latencies that were measured.
    pub(crate) metrics: Vec<Divided>,
}

/// A mean latency of the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Divided {
    /// Its tag.
    pub(crate) metric: MetricTag,
    /// The mean in milliseconds, which is the sum of the parts.
    pub(crate) mean_ms: f64,
    /// Its parts, in order of time; the last is what no one measures.
    pub(crate) parts: Vec<Part>,
}

/// A part of a latency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Its name.
    pub(crate) stage: Stage,
    /// Its mean over all requests, in milliseconds.
    pub(crate) mean_ms: f64,
    /// Maximum error of the mean, in milliseconds.
    pub(crate) bound_ms: f64,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    /// The client waits for an established connection.
    Connection,
    /// The server has the request, but it is in none of the following stages.
    FrontEnd,
    /// It waits in the server's queue.
    Queue,
    /// The server computes the first token.
    Prefill,
    /// The server computes the other tokens.
    Decode,
    /// The rest: the network, and whatever the server does before it takes its first time.
    Unattributed,
}

impl Stage {
    /// Returns its name for people.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Connection => "Connection",
            Self::FrontEnd => "Front end",
            Self::Queue => "Queue",
            Self::Prefill => "Prefill",
            Self::Decode => "Decode",
            Self::Unattributed => "Unattributed",
        }
    }
}

/// Why latencies are not divided, though the server reports times.
#[derive(Debug, Clone, PartialEq, Error)]
pub(crate) enum Indivisible {
    /// The server counted other requests, too, or not all.
    #[error(
        "{metric} counts {server} requests, the client {client}; the server's times are not those \
         of the client's requests"
    )]
    OtherRequests { metric: &'static str, server: f64, client: u64 },
    /// The server restarted.
    #[error("{0} decreased, because the server restarted")]
    Restarted(&'static str),
}

/// A histogram over all endpoints.
#[derive(Debug, Clone, Copy, Default)]
struct Observed {
    count: f64,
    /// Seconds.
    sum: f64,
    /// Maximum error of the sum from rounding, in seconds.
    rounding: f64,
    is_reset: bool,
}

impl Observed {
    /// Returns the mean of the histogram `metric`, which must count `client` requests.
    fn part(self, metric: &'static str, client: u64) -> Result<Part, Indivisible> {
        let Self { count, sum, rounding, is_reset } = self;
        if is_reset {
            return Err(Indivisible::Restarted(metric));
        }
        if count != client as f64 {
            return Err(Indivisible::OtherRequests { metric, server: count, client });
        }
        let mean = |seconds: f64| seconds / count * 1e3;
        Ok(Part { stage: Stage::FrontEnd, mean_ms: mean(sum), bound_ms: mean(rounding) })
    }
}

/// Divides a mean of the client. The `server` reports its own total, of which the `stages` are
/// parts; `arrival_error_ms` is the client's mean error of the end of a latency.
fn parts(
    mean_ms: f64,
    connection: Option<Part>,
    server: Option<Part>,
    stages: Vec<Part>,
    arrival_error_ms: f64,
) -> Vec<Part> {
    let sum = |parts: &[Part], of: fn(&Part) -> f64| parts.iter().map(of).sum::<f64>();
    let front_end = server.map(|server| Part {
        stage: Stage::FrontEnd,
        mean_ms: server.mean_ms - sum(&stages, |part| part.mean_ms),
        bound_ms: server.bound_ms + sum(&stages, |part| part.bound_ms),
    });
    let mut parts: Vec<Part> = connection.into_iter().chain(front_end).collect();
    parts.extend(stages);
    let known = sum(&parts, |part| part.mean_ms);
    parts.push(Part {
        stage: Stage::Unattributed,
        mean_ms: mean_ms - known,
        bound_ms: sum(&parts, |part| part.bound_ms) + arrival_error_ms,
    });
    parts
}

impl RunReport {
    /// Returns the division of the client's mean latencies; `None` if the server does not report
    /// the necessary times, or if it may have served other shards.
    #[must_use]
    pub fn time_breakdown(&self) -> Option<TimeBreakdown> {
        let is_shard = self.run.shard.is_some_and(|shard| shard.count() > 1);
        [QUEUE, PREFILL].iter().find_map(|metric| self.observed(metric)).filter(|_| !is_shard)?;
        let (latency, _) = self.client(tag::REQUEST_LATENCY)?;
        Some(match self.divided(latency.count) {
            Ok(division) => TimeBreakdown::Found(division),
            Err(reason) => TimeBreakdown::None { reason: reason.to_string() },
        })
    }

    fn divided(&self, requests: u64) -> Result<Division, Indivisible> {
        let parts = [(Stage::Queue, QUEUE), (Stage::Prefill, PREFILL), (Stage::Decode, DECODE)];
        let [queue, prefill, decode] = parts.map(|(name, metric)| {
            self.part(metric, requests)
                .map(|found| found.map(|found| Part { stage: name, ..found }))
        });
        let (queue, prefill, decode) = (queue?, prefill?, decode?);
        let (first, whole) = (self.part(FIRST_TOKEN, requests)?, self.part(WHOLE, requests)?);
        let metrics = [
            (tag::TIME_TO_FIRST_TOKEN, first, [queue, prefill, None]),
            (tag::REQUEST_LATENCY, whole, [queue, prefill, decode]),
        ];
        let metrics = metrics.into_iter().filter_map(|(tag, server, stages)| {
            let (distribution, result) = self.client(tag)?;
            // Requests without content have no time to the first token.
            (distribution.count == requests).then(|| self.rows(result, server, stages))
        });
        Ok(Division { request_count: requests, metrics: metrics.collect() })
    }

    /// Divides the mean of `result`, of which the `server` reports its own total and `stages`.
    fn rows(
        &self,
        result: &MetricResult,
        server: Option<Part>,
        stages: [Option<Part>; 3],
    ) -> Divided {
        let arrival = self.outcome.client_health.as_ref();
        let arrival = arrival.and_then(|health| health.arrival_error_ms.as_ref());
        let mean_ms = result.stats.avg;
        let parts = parts(
            mean_ms,
            self.connection(),
            server,
            stages.into_iter().flatten().collect(),
            arrival.map_or(0.0, |error| error.avg),
        );
        Divided { metric: result.metric.tag, mean_ms, parts }
    }

    /// Returns the time until a connection was available, by the client's clock of nanoseconds.
    fn connection(&self) -> Option<Part> {
        let (distribution, result) = self.client(tag::HTTP_REQ_CONNECTION_OVERHEAD)?;
        let (latencies, _) = self.client(tag::REQUEST_LATENCY)?;
        (distribution.count == latencies.count).then_some(Part {
            stage: Stage::Connection,
            mean_ms: result.stats.avg,
            bound_ms: 1e-6,
        })
    }

    /// Returns the mean of the server's histogram `metric`, if it has it.
    fn part(&self, metric: &'static str, client: u64) -> Result<Option<Part>, Indivisible> {
        self.observed(metric).map(|observed| observed.part(metric, client)).transpose()
    }

    /// Returns the client's statistics of `tag`.
    fn client(&self, tag: MetricTag) -> Option<(Distribution, &MetricResult)> {
        let result = self.results.iter().find(|result| result.metric.tag == tag)?;
        Some((result.stats.distribution?, result))
    }

    /// Returns what all series of the histogram `metric` observed in the profiling phase.
    fn observed(&self, metric: &str) -> Option<Observed> {
        let metrics = self.server_metrics.as_ref()?;
        let is_it = |name: &str, kind: Kind| name == metric && kind == Kind::Histogram;
        let found =
            metrics.report.metrics.iter().find(|metric| is_it(&metric.name, metric.kind))?;
        // Another server in front of it, or a copy of it, would count each request again.
        let engines: Vec<&str> = metrics
            .report
            .metrics
            .iter()
            .filter(|metric| is_engine(&metric.name))
            .flat_map(|metric| metric.series.iter().map(|series| &*series.endpoint_url))
            .collect();
        let mut all = Observed::default();
        for series in found.series.iter().filter(|of| engines.contains(&&*of.endpoint_url)) {
            let Stats::Histogram(stats) = &series.stats else { continue };
            all.count += stats.count;
            all.sum += stats.sum;
            all.is_reset |= stats.resets.is_some();
        }
        // Each observation and the difference are rounded to the precision of the server's sum.
        let endpoints = metrics.store.endpoints().iter();
        let endpoints = endpoints.filter(|endpoint| engines.contains(&&*endpoint.url));
        let families = endpoints.flat_map(|endpoint| {
            let last = endpoint.scrapes().len().saturating_sub(1);
            let families = endpoint.families.iter().filter(|of| is_it(&of.name, of.kind));
            families.flat_map(|family| &family.series).map(move |series| (last, &series.values))
        });
        for (last, values) in families {
            if let Values::Histogram(columns) = values {
                let sum = columns.sum.last_until(last).unwrap_or(0.0);
                all.rounding += (all.count + 2.0) * sum.abs() * f64::EPSILON;
            }
        }
        Some(all).filter(|all| all.count > 0.0)
    }
}

/// Returns whether only the engine itself has the histogram `metric`.
fn is_engine(metric: &str) -> bool {
    [QUEUE, PREFILL].contains(&metric)
}

#[cfg(test)]
mod tests;
