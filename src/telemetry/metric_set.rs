//! The sets of metrics that can be exported.

use base::semconv::{MetricSpec, metric};
use base::setting::named;
use client::server_family::{self, SeriesKind};

/// The metrics that are exported over OTLP (`--otel-metrics`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MetricSet {
    /// All.
    Full,
    /// Those that alerts, the first row of the dashboards and comparisons of runs need: a small part of
    /// the series.
    #[default]
    Lean,
}

named! { MetricSet { "full" => Full, "lean" => Lean } }

/// The instruments of the lean set by name, beside those of [`PREFIXES`].
const NAMES: &[&str] = &[
    metric::GEN_AI_CLIENT_OPERATION_DURATION.name,
    metric::GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK.name,
    metric::GEN_AI_CLIENT_OPERATION_TIME_PER_OUTPUT_CHUNK.name,
    metric::GEN_AI_CLIENT_TOKEN_USAGE.name,
    metric::GEN_AI_CLIENT_INFERENCE_DURATION.name,
    metric::GEN_AI_CLIENT_INFERENCE_TIME_TO_FIRST_CHUNK.name,
    metric::GEN_AI_CLIENT_INFERENCE_TIME_PER_OUTPUT_CHUNK.name,
    metric::GEN_AI_CLIENT_INFERENCE_OPERATION_INPUT_TOKENS.name,
    metric::GEN_AI_CLIENT_INFERENCE_OPERATION_OUTPUT_TOKENS.name,
    metric::AIPERF_CLIENT_CPU_UTILIZATION.name,
    metric::AIPERF_CLIENT_WORKER_CPU_UTILIZATION.name,
    metric::AIPERF_CLIENT_RATE_RATIO.name,
    metric::AIPERF_CLIENT_RETRIES.name,
    metric::AIPERF_CLIENT_VERDICT.name,
    metric::AIPERF_CLIENT_VERDICT_REASON.name,
    metric::AIPERF_RUN_INFO.name,
    "aiperf.time_to_first_token",
    "aiperf.inter_token_latency",
    "aiperf.request_latency",
    "aiperf.input_sequence_length",
    "aiperf.output_sequence_length",
    "aiperf.percentiles.time_to_first_token",
    "aiperf.percentiles.inter_token_latency",
    "aiperf.percentiles.request_latency",
    "aiperf.request_count",
    "aiperf.error_request_count",
    "aiperf.good_request_count",
    "aiperf.request_error_rate",
    "aiperf.benchmark_duration",
    "aiperf.request_throughput",
    "aiperf.output_token_throughput",
    "aiperf.total_token_throughput",
    "aiperf.goodput",
    "aiperf.good_request_fraction",
];

/// Prefixes of instruments that are in the lean set.
const PREFIXES: &[&str] = &[
    "aiperf.timing.",
    "aiperf.load.",
    "aiperf.output.",
    "aiperf.gate.",
    "aiperf.sample_interval.",
];

/// Lengths, of which the lean set has only sum and count.
const WITHOUT_BUCKETS: [&str; 2] =
    ["aiperf.input_sequence_length", "aiperf.output_sequence_length"];

/// The lean set has every third boundary of an `aiperf.*` histogram: each is about twice the one
/// before (1.25³), where the full set has a ratio of 1.25.
const STRIDE: usize = 3;

impl MetricSet {
    /// Returns whether the instrument `name` is in the set.
    pub(super) fn includes(self, name: &str) -> bool {
        let is_lean =
            || NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        self == Self::Full || is_lean()
    }

    /// Returns whether the metric with this tag is in the set.
    #[must_use]
    pub fn includes_metric(self, tag: &str) -> bool {
        self.includes(&format!("aiperf.{tag}"))
    }

    /// Returns the instrument with the boundaries that it has in the set; `None` if it is not included.
    pub(super) fn instrument(self, spec: MetricSpec) -> Option<MetricSpec> {
        if !self.includes(&spec.name) {
            return None;
        }
        let is_coarser = self == Self::Lean && spec.name.starts_with("aiperf.");
        if !is_coarser {
            return Some(spec);
        }
        let boundaries = if WITHOUT_BUCKETS.contains(&spec.name.as_str()) {
            Vec::new()
        } else {
            spec.boundaries.iter().copied().step_by(STRIDE).collect()
        };
        Some(MetricSpec { boundaries, ..spec })
    }

    /// Returns whether a metric of a server is in the set. The lean one has the important gauges and
    /// counters of each family of servers.
    pub(super) fn includes_of_server(self, name: &str) -> bool {
        let name = name.strip_suffix("_total").unwrap_or(name);
        let is_watched = || {
            server_family::ALL.iter().flat_map(|family| family.watched).any(|watched| {
                matches!(watched.kind, SeriesKind::Gauge | SeriesKind::Counter)
                    && (watched.name == name || watched.earlier.is_some_and(|own| own == name))
            })
        };
        self == Self::Full || is_watched()
    }
}

#[cfg(test)]
mod tests;
