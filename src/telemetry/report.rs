//! How the export went.

use serde::{Deserialize, Serialize};

use super::{ScrapesReport, TracesReport};

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
    /// Whether the last export, which bears the final values, was taken;
    /// always false without a collector.
    pub delivered_final: bool,
    /// Whether both halves of the reader agree.
    pub reconciled: bool,
    /// Where they do not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub discrepancies: Vec<String>,
    /// Gauges that have no finite value and were not exported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_exported: Vec<String>,
    /// The servers' own metrics; absent where none were scraped or sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scrapes: Option<ScrapesReport>,
    /// The requests that were told of as traces; absent without `--trace-sample`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces: Option<TracesReport>,
}
