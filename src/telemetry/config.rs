//! What telemetry is told: where it goes, and what the run is.

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use super::TraceSample;
use crate::endpoint::EndpointType;
use crate::redact;
use crate::schedule::Shard;

/// Which streams are exported over OTLP (`--stream`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    /// Request records, and what the servers expose.
    pub metrics: bool,
    /// Phase snapshots.
    pub timing: bool,
}

/// Where and how telemetry goes.
#[derive(Clone)]
pub struct Config {
    /// The collector (`--otel-url`, else the `OTEL_EXPORTER_OTLP_*` variables);
    /// `None` exports nothing, and the in-process reader works all the same.
    pub url: Option<String>,
    /// Which streams.
    pub streams: Streams,
    /// `--otel-resource-attributes`, in order; they override.
    pub resource_attributes: Vec<(String, String)>,
    /// `--gen-ai-provider`: overrides what the URL's host implies.
    pub provider: Option<String>,
    /// `--otel-histograms`: base-2 exponential ones instead of explicit boundaries;
    /// `None` leaves it to the standard variable.
    pub exponential_histograms: Option<bool>,
    /// `--trace-sample`: which requests become traces; `None` is none.
    pub trace_sample: Option<TraceSample>,
    /// Seconds between exports (`AIPERF_OTEL_FLUSH_INTERVAL_SECONDS`, 2).
    pub interval_seconds: f64,
    /// Seconds an export may take (`AIPERF_OTEL_REQUEST_TIMEOUT_SECONDS`, 10).
    pub timeout_seconds: f64,
}

impl fmt::Debug for Config {
    /// Shows neither credentials in the URL nor attributes that bear secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attribute = |(name, value): &(String, String)| {
            let value = if redact::is_secret_name(name) { redact::REDACTED } else { value };
            (name.clone(), value.to_owned())
        };
        let attributes: Vec<_> = self.resource_attributes.iter().map(attribute).collect();
        f.debug_struct("Config")
            .field("url", &self.url.as_deref().map(redact::url))
            .field("streams", &self.streams)
            .field("resource_attributes", &attributes)
            .field("provider", &self.provider)
            .field("exponential_histograms", &self.exponential_histograms)
            .field("trace_sample", &self.trace_sample)
            .field("interval_seconds", &self.interval_seconds)
            .field("timeout_seconds", &self.timeout_seconds)
            .finish()
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            url: None,
            streams: Streams { metrics: true, timing: true },
            resource_attributes: Vec::new(),
            provider: None,
            exponential_histograms: None,
            trace_sample: None,
            interval_seconds: 2.0,
            timeout_seconds: 10.0,
        }
    }
}

/// What the run is, for resource and attributes.
#[derive(Debug, Clone)]
pub struct Identity {
    /// `aiperf.benchmark.id`.
    pub benchmark_id: Uuid,
    /// `aiperf.sweep.id`, where it is one of many runs.
    pub sweep_id: Option<String>,
    /// Which part of the run, where several processes share it.
    pub shard: Option<Shard>,
    /// `aiperf.endpoint.type`, and `gen_ai.operation.name` by it.
    pub endpoint_type: EndpointType,
    /// Models asked; the first is `aiperf.model.name`.
    pub models: Vec<Arc<str>>,
    /// Base URLs of the servers.
    pub urls: Vec<String>,
}
