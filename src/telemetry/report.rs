//! The outcome of the export.

use serde::{Deserialize, Serialize};

use measure::otlp_receiver::ReceiverReport;

use super::{LogsReport, ScrapesReport, ServerSpansReport, TracesReport};

/// The outcome of the export, as included in the JSON summary and shown on the console.
#[derive(Debug, Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct TelemetryReport {
    /// URL of the collector without credentials, or of the directory of `--otel-file` if there is
    /// none; absent without both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Number of exports that the collector accepted, or that were written without one.
    pub exports_ok: u64,
    /// Number of exports that failed.
    pub exports_failed: u64,
    /// Number of data points that the collector reported as rejected.
    pub rejected_data_points: u64,
    /// Whether the last export, which contains the final values, was accepted; always false without
    /// a collector.
    pub delivered_final: bool,
    /// Whether the final export agrees with the files, the phases and the queue.
    pub reconciled: bool,
    /// The differences, if it does not agree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub discrepancies: Vec<String>,
    /// Gauges without a finite value, which were not exported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_exported: Vec<String>,
    /// Export of the server metrics; absent if none were scraped or sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scrapes: Option<ScrapesReport>,
    /// Export of requests as traces; absent without `--trace-sample`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces: Option<TracesReport>,
    /// The spans of the servers that were received, and the requests that they were joined with;
    /// absent without `--otel-receiver`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver: Option<ReceiverReport>,
    /// How they were passed on; absent without a collector or files for traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_spans: Option<ServerSpansReport>,
    /// Export of events as logs; absent without a collector or files for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<LogsReport>,
}

impl TelemetryReport {
    /// Returns whether there was neither a destination for anything nor a receiver.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.endpoint.is_none()
            && self.scrapes.is_none()
            && self.traces.is_none()
            && self.receiver.is_none()
            && self.server_spans.is_none()
            && self.logs.is_none()
    }
}
