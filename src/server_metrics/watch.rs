//! Important metrics of each server, which show its load and speed.

use std::collections::BTreeSet;

use super::report::{MetricReport, SeriesReport, ServerMetricsReport, Stats};
use super::snapshot::{Family, Kind, Snapshot, Value};

/// A server whose metrics are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) name: &'static str,
    /// Its metrics, in the order in which to read them.
    pub(crate) metrics: &'static [Watched],
}

/// An important metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watched {
    /// Its name in files.
    pub(crate) name: &'static str,
    /// The name in earlier versions, used if the metric is missing.
    pub(crate) earlier: Option<&'static str>,
    pub(crate) kind: Kind,
    /// The most informative statistic.
    pub(crate) statistic: Statistic,
    pub(crate) meaning: &'static str,
}

/// A statistic of a series, by its name in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statistic {
    /// `avg` of a gauge.
    Avg,
    /// `max` of a gauge.
    Max,
    /// `total` of a counter.
    Total,
    /// `rate` of a counter.
    Rate,
    /// `p99_estimate` of a histogram.
    P99,
}

impl Statistic {
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Avg => "avg",
            Self::Max => "max",
            Self::Total => "total",
            Self::Rate => "rate",
            Self::P99 => "p99_estimate",
        }
    }

    /// Returns its value, if the series has it.
    #[must_use]
    pub(crate) fn of(self, stats: &Stats) -> Option<f64> {
        match (self, stats) {
            (Self::Avg, Stats::Gauge(stats)) => Some(stats.avg),
            (Self::Max, Stats::Gauge(stats)) => Some(stats.max),
            (Self::Total, Stats::Counter(stats)) => Some(stats.total),
            (Self::Rate, Stats::Counter(stats)) => Some(stats.rate),
            (Self::P99, Stats::Histogram(stats)) => stats.percentiles.map(|values| values[8]),
            _ => None,
        }
    }
}

/// An important metric that is in a report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'a> {
    /// The entry in the list of metrics.
    pub(crate) watched: &'static Watched,
    pub(crate) metric: &'a MetricReport,
}

impl<'a> Found<'a> {
    /// Returns each series with the value of the statistic, in descending order. Left out are
    /// series without a value, and those of a counter that did not increase at an endpoint where
    /// others did: they belong to earlier loads, or to errors that did not occur.
    #[must_use]
    pub(crate) fn values(&self) -> Vec<(&'a SeriesReport, f64)> {
        let value =
            |series: &'a SeriesReport| Some((series, self.watched.statistic.of(&series.stats)?));
        let mut values: Vec<_> = self.metric.series.iter().filter_map(value).collect();
        if self.watched.kind == Kind::Counter {
            let rose = values.iter().filter(|(_, value)| *value > 0.0);
            let busy: BTreeSet<_> = rose.map(|(series, _)| &series.endpoint_url).collect();
            values.retain(|(series, value)| *value > 0.0 || !busy.contains(&series.endpoint_url));
        }
        values.sort_by(|a, b| b.1.total_cmp(&a.1));
        values
    }
}

/// Returns the servers whose metrics are in `report`, with these metrics, for the profiling phase.
#[must_use]
pub(crate) fn servers(report: &ServerMetricsReport) -> Vec<(&'static Server, Vec<Found<'_>>)> {
    let found = |server: &'static Server| {
        let metrics = server.metrics.iter();
        let found: Vec<_> = metrics.filter_map(|watched| find(report, watched)).collect();
        (!found.is_empty()).then_some((server, found))
    };
    SERVERS.iter().filter_map(found).collect()
}

/// The latest value of an important gauge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LiveGauge {
    /// The entry in the list of metrics.
    pub(crate) watched: &'static Watched,
    /// The highest value of its series.
    pub(crate) value: f64,
    pub(crate) series: usize,
}

impl LiveGauge {
    /// Returns the important gauges of a scrape, in the order in which to read them.
    #[must_use]
    pub(crate) fn all(snapshot: &Snapshot<'_>) -> Vec<Self> {
        let metrics = SERVERS.iter().flat_map(|server| server.metrics);
        let gauges = metrics.filter(|watched| watched.kind == Kind::Gauge);
        let named = |name: &str| {
            let mut families = snapshot.families.iter();
            families.find(|family| *family.name == *name && family.kind == Kind::Gauge)
        };
        let found = |watched: &'static Watched| {
            let family = named(watched.name).or_else(|| named(watched.earlier?))?;
            Some(Self { watched, value: highest(family)?, series: family.series.len() })
        };
        gauges.filter_map(found).collect()
    }

    /// Combines the gauges of several servers.
    #[must_use]
    pub(crate) fn combined<'a>(servers: impl Iterator<Item = &'a Vec<Self>>) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for gauge in servers.flatten() {
            match all.iter_mut().find(|known| known.watched == gauge.watched) {
                Some(known) => {
                    known.value = known.value.max(gauge.value);
                    known.series += gauge.series;
                }
                None => all.push(*gauge),
            }
        }
        all
    }
}

fn highest(family: &Family<'_>) -> Option<f64> {
    let value = |value: &Value<'_>| match value {
        Value::Number(number) => Some(*number),
        _ => None,
    };
    family.series.iter().filter_map(|point| value(&point.value)).reduce(f64::max)
}

fn find<'a>(report: &'a ServerMetricsReport, watched: &'static Watched) -> Option<Found<'a>> {
    let named = |name: &str| {
        let mut metrics = report.metrics.iter();
        metrics.find(|metric| {
            *metric.name == *name && metric.kind == watched.kind && !metric.series.is_empty()
        })
    };
    let metric = named(watched.name).or_else(|| named(watched.earlier?))?;
    Some(Found { watched, metric })
}

const fn gauge(name: &'static str, statistic: Statistic, meaning: &'static str) -> Watched {
    Watched { name, earlier: None, kind: Kind::Gauge, statistic, meaning }
}

const fn counter(name: &'static str, statistic: Statistic, meaning: &'static str) -> Watched {
    Watched { name, earlier: None, kind: Kind::Counter, statistic, meaning }
}

const fn histogram(name: &'static str, meaning: &'static str) -> Watched {
    Watched { name, earlier: None, kind: Kind::Histogram, statistic: Statistic::P99, meaning }
}

const fn once(watched: Watched, earlier: &'static str) -> Watched {
    Watched { earlier: Some(earlier), ..watched }
}

use Statistic::{Avg, Max, Rate, Total};

/// The known servers.
pub(crate) const SERVERS: &[Server] = &[
    Server { name: "vLLM", metrics: VLLM },
    Server { name: "Dynamo", metrics: DYNAMO },
    Server { name: "SGLang", metrics: SGLANG },
    Server { name: "TensorRT-LLM", metrics: TRTLLM },
    Server { name: "Triton", metrics: TRITON },
    Server { name: "llama.cpp", metrics: LLAMA_CPP },
];

const VLLM: &[Watched] = &[
    gauge("vllm:num_requests_running", Avg, "requests in the batch"),
    gauge("vllm:num_requests_waiting", Max, "queue; growing means saturated"),
    gauge("vllm:num_requests_waiting_by_reason", Max, "queue, by reason"),
    once(
        gauge("vllm:kv_cache_usage_perc", Max, "KV cache in use; above 0.9 it limits"),
        "vllm:gpu_cache_usage_perc",
    ),
    counter("vllm:num_preemptions", Total, "above 0: memory pressure"),
    histogram("vllm:e2e_request_latency_seconds", "request latency"),
    histogram("vllm:time_to_first_token_seconds", "time to first token"),
    once(
        histogram("vllm:inter_token_latency_seconds", "inter-token latency"),
        "vllm:time_per_output_token_seconds",
    ),
    counter("vllm:prompt_tokens_by_source", Rate, "prompt tokens, by source"),
    counter("vllm:generation_tokens", Rate, "decode throughput"),
];

const DYNAMO: &[Watched] = &[
    gauge("dynamo_frontend_active_requests", Avg, "requests in HTTP handlers"),
    gauge("dynamo_frontend_inflight_requests", Avg, "requests sent to engines"),
    gauge("dynamo_frontend_queued_requests", Avg, "requests awaiting their first token"),
    histogram("dynamo_frontend_request_duration_seconds", "request latency"),
    histogram("dynamo_frontend_time_to_first_token_seconds", "time to first token"),
    histogram("dynamo_frontend_inter_token_latency_seconds", "inter-token latency"),
    counter("dynamo_frontend_requests", Rate, "completed requests"),
    counter("dynamo_frontend_output_tokens", Rate, "decode throughput"),
    gauge("dynamo_component_gpu_cache_usage_percent", Max, "KV cache in use on the workers"),
];

const SGLANG: &[Watched] = &[
    gauge("sglang:num_running_reqs", Avg, "requests in the batch"),
    gauge("sglang:num_queue_reqs", Max, "queue; growing means saturated"),
    gauge("sglang:token_usage", Max, "KV cache in use; above 0.9 it limits"),
    gauge("sglang:cache_hit_rate", Avg, "prefix cache hits"),
    gauge("sglang:gen_throughput", Avg, "tokens per second"),
    histogram("sglang:time_to_first_token_seconds", "time to first token"),
    histogram("sglang:inter_token_latency_seconds", "inter-token latency"),
    histogram("sglang:e2e_request_latency_seconds", "request latency"),
    histogram("sglang:queue_time_seconds", "queue time"),
    counter("sglang:prompt_tokens", Rate, "prefill throughput"),
    counter("sglang:generation_tokens", Rate, "decode throughput"),
];

const TRTLLM: &[Watched] = &[
    histogram("trtllm_e2e_request_latency_seconds", "request latency"),
    histogram("trtllm_time_to_first_token_seconds", "time to first token"),
    histogram("trtllm_time_per_output_token_seconds", "inter-token latency"),
    histogram("trtllm_request_queue_time_seconds", "queue time"),
    histogram("trtllm_request_prefill_time_seconds", "prefill"),
    histogram("trtllm_request_decode_time_seconds", "decode"),
    counter("trtllm_request_success", Rate, "completed requests"),
    counter("trtllm_prompt_tokens", Rate, "prefill throughput"),
    counter("trtllm_generation_tokens", Rate, "decode throughput"),
    gauge("trtllm_num_requests_running", Avg, "requests in the batch"),
    gauge("trtllm_num_requests_waiting", Max, "queue; growing means saturated"),
    gauge("trtllm_kv_cache_utilization", Max, "KV cache in use"),
    gauge("trtllm_kv_cache_hit_rate", Avg, "KV cache blocks reused"),
];

const TRITON: &[Watched] = &[
    counter("nv_inference_request_success", Rate, "successful requests"),
    counter("nv_inference_request_failure", Total, "failed requests"),
    counter("nv_inference_count", Rate, "inferences; divided by executions, the batch size"),
    counter("nv_inference_exec_count", Rate, "batch executions"),
    gauge("nv_inference_pending_request_count", Max, "queue at the backend"),
    counter("nv_inference_request_duration_us", Total, "total time of requests"),
    counter("nv_inference_queue_duration_us", Total, "total queue time"),
    histogram("nv_inference_first_response_histogram_ms", "time to first response"),
    gauge("nv_gpu_utilization", Avg, "GPU busy"),
    gauge("nv_gpu_memory_used_bytes", Max, "GPU memory in use"),
    counter("nv_cache_num_hits_per_model", Total, "responses from the cache"),
    counter("nv_cache_num_misses_per_model", Total, "responses not in the cache"),
];

const LLAMA_CPP: &[Watched] = &[
    gauge("llamacpp:requests_processing", Avg, "requests in slots"),
    gauge("llamacpp:requests_deferred", Max, "queue; growing means saturated"),
    gauge("llamacpp:n_busy_slots_per_decode", Max, "slots in use, since the server started"),
    counter("llamacpp:prompt_tokens", Rate, "prefill throughput without cached tokens"),
    counter("llamacpp:prompt_tokens_cached", Rate, "prompt tokens from the cache"),
    counter("llamacpp:tokens_predicted", Rate, "decode throughput"),
];

#[cfg(test)]
mod tests;
