//! Configuration of telemetry: the destination, and the identity of the run.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use uuid::Uuid;

use base::redact::{self, Secret, ShownUrl};
use base::semconv::Conventions;
use base::units::Clock;
use client::endpoint::EndpointType;
use client::schedule::Shard;

use super::{MetricSet, Temporality, TraceSample};
use serde::{Serialize, Serializer};

/// Which streams are exported over OTLP (`--stream`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Streams {
    /// Request records and server metrics.
    pub metrics: bool,
    /// Phase snapshots.
    pub timing: bool,
}

impl Streams {
    /// Nothing.
    pub(super) const NONE: Self = Self { metrics: false, timing: false };
}

/// Destination and settings of telemetry.
#[derive(Clone, Serialize)]
pub struct Config {
    /// URL of the collector (`--otel-url`, else the `OTEL_EXPORTER_OTLP_*` variables). With `None`
    /// nothing is exported, and without [`files`](Self::files) nothing is recorded either.
    #[serde(serialize_with = "shown_url")]
    pub url: Option<Secret>,
    /// `--otel-file`: the directory for files in OTLP/JSON, with or without a collector; `-` for
    /// standard output.
    pub files: Option<PathBuf>,
    /// The exported streams.
    pub streams: Streams,
    /// `--otel-metrics`: the metrics that are exported of them; all, unless the program sets it.
    pub metric_set: MetricSet,
    /// `--otel-resource-attributes`, in order; a later one overrides an earlier one.
    #[serde(serialize_with = "shown_attributes")]
    pub resource_attributes: Vec<(String, String)>,
    /// `--run-name`; `None` for the load.
    pub run_name: Option<String>,
    /// `--gen-ai-provider`, which overrides the provider implied by the URL's host.
    pub provider: Option<String>,
    /// `--otel-histograms`: base-2 exponential histograms instead of explicit boundaries; `None`
    /// leaves the choice to the standard variable.
    pub exponential_histograms: Option<bool>,
    /// `--otel-temporality`; `None` leaves the choice to the standard variable.
    pub temporality: Option<Temporality>,
    /// `--otel-semconv`; `None` leaves the choice to the standard variable.
    pub conventions: Option<Conventions>,
    /// `--otel-server-semconv`: whether latencies of servers are also exported as `gen_ai.server.*`.
    pub translates_servers: bool,
    /// `--trace-sample`: the requests that are exported as traces; `None` for none.
    pub trace_sample: Option<TraceSample>,
    /// `--trace-random-flag`: whether the context that servers receive states that trace IDs are
    /// random.
    pub trace_random_flag: bool,
    /// Whether spans of the servers are received, and passed on to the collector of traces.
    #[serde(skip)]
    pub passes_server_spans: bool,
    /// `--otel-ci-run-id`: whether metrics, too, have the attributes of the CI run.
    pub ci_run_on_metrics: bool,
    /// Seconds between exports (`AIPERF_OTEL_FLUSH_INTERVAL_SECONDS`, 2).
    pub interval_seconds: f64,
    /// Timeout of an export in seconds (`AIPERF_OTEL_REQUEST_TIMEOUT_SECONDS`, 10).
    pub timeout_seconds: f64,
}

impl fmt::Debug for Config {
    /// Omits credentials in the URL and attributes that may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Config").field(&serde_json::to_value(self)).finish()
    }
}

/// Serializes the URL without its credentials.
#[expect(clippy::ref_option, reason = "serde hands over a reference")]
fn shown_url<S: Serializer>(url: &Option<Secret>, serializer: S) -> Result<S::Ok, S::Error> {
    url.as_ref().map(|url| ShownUrl::new(url.expose())).serialize(serializer)
}

/// Serializes the attributes without their secrets.
fn shown_attributes<S: Serializer>(
    attributes: &[(String, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let shown = attributes.iter().map(|(name, value)| {
        let is_secret = redact::is_secret_name(name) || redact::is_secret_value(value);
        (name, if is_secret { redact::REDACTED } else { value })
    });
    serializer.collect_map(shown)
}

impl Default for Config {
    fn default() -> Self {
        Self {
            url: None,
            files: None,
            streams: Streams { metrics: true, timing: true },
            metric_set: MetricSet::default(),
            resource_attributes: Vec::new(),
            run_name: None,
            provider: None,
            exponential_histograms: None,
            temporality: None,
            conventions: None,
            translates_servers: false,
            trace_sample: None,
            trace_random_flag: false,
            passes_server_spans: false,
            ci_run_on_metrics: false,
            interval_seconds: 2.0,
            timeout_seconds: 10.0,
        }
    }
}

/// The settings that tell runs apart, for `aiperf.run.info`.
#[derive(Debug, Clone, Default)]
pub struct RunSettings {
    /// `aiperf.run.load`, which is also the default of `aiperf.run.name`.
    pub load: String,
    /// Mean length of synthetic prompts.
    pub input_tokens: Option<String>,
    /// Mean requested output length.
    pub output_tokens: Option<String>,
    /// The objectives, as given to `--goodput`.
    pub objectives: Option<String>,
}

/// The identity of the run, for the resource and attributes.
#[derive(Debug, Clone)]
pub struct Identity {
    /// `aiperf.benchmark.id`.
    pub benchmark_id: Uuid,
    /// `aiperf.sweep.id`, if the run is one of several.
    pub sweep_id: Option<String>,
    /// The shard, if several processes share the run.
    pub shard: Option<Shard>,
    /// `aiperf.endpoint.type`, which also determines `gen_ai.operation.name`.
    pub endpoint_type: EndpointType,
    /// The requested models; the first is `aiperf.model.name`.
    pub models: Vec<Arc<str>>,
    /// Base URLs of the servers.
    pub urls: Vec<ShownUrl>,
    /// The names of the phases, if several are measured.
    pub phases: Vec<Arc<str>>,
    /// The names of the tenants, if some share the load.
    pub tenants: Vec<Arc<str>>,
    /// The settings that tell it apart from other runs.
    pub info: RunSettings,
    /// The clock of the run's times.
    pub clock: Clock,
}
