//! The pipeline: each record and each phase snapshot is observed once and told
//! to OpenTelemetry and to the in-process reader.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::endpoint::EndpointType;

/// Which streams are exported over OTLP (`--stream`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    /// Request records.
    pub metrics: bool,
    /// Phase snapshots.
    pub timing: bool,
}

/// Where and how telemetry goes.
#[derive(Debug, Clone)]
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
    /// Base-2 exponential histograms instead of explicit boundaries.
    pub exponential_histograms: bool,
    /// Seconds between exports (`AIPERF_OTEL_FLUSH_INTERVAL_SECONDS`, 2).
    pub interval_seconds: f64,
    /// Seconds an export may take (`AIPERF_OTEL_REQUEST_TIMEOUT_SECONDS`, 10).
    pub timeout_seconds: f64,
}

/// What the run is, for resource and attributes.
#[derive(Debug, Clone)]
pub struct Identity {
    /// `aiperf.benchmark.id`.
    pub benchmark_id: Uuid,
    /// `aiperf.endpoint.type`, and `gen_ai.operation.name` by it.
    pub endpoint_type: EndpointType,
    /// Models asked; the first is `aiperf.model.name`.
    pub models: Vec<Arc<str>>,
    /// Base URLs of the servers.
    pub urls: Vec<String>,
}

/// How the export went: part of the JSON report and of the console.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TelemetryReport {
    /// The collector, credentials removed; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Exports that the collector took.
    pub exports_ok: u64,
    /// Exports that failed.
    pub exports_failed: u64,
    /// Data points that the collector said it rejected.
    pub rejected_data_points: u64,
    /// Whether the last export, which bears the final values, was taken.
    pub delivered_final: bool,
    /// Whether both halves of the reader agree.
    pub reconciled: bool,
    /// Where they do not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub discrepancies: Vec<String>,
    /// Gauges that have no finite value and were not exported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_exported: Vec<String>,
}
