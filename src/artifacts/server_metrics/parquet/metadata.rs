//! What is said of the file as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::members::exported_kind;
use super::LabelColumns;
use crate::artifacts::RunReport;
use crate::server_metrics::report::{EndpointInfo, ServerMetrics, Windows};
use crate::server_metrics::snapshot::Kind;

/// Version of the columns and of this metadata.
const SCHEMA_VERSION: &str = "1.0";

/// The key of [`ReportMetadata`].
pub(in crate::artifacts) const METADATA_OF_REPORT: &str = "aiperf.report";

/// What rows do not say and statistics need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::artifacts) struct ReportMetadata {
    pub(in crate::artifacts) windows: Windows,
    /// In the order configured.
    pub(in crate::artifacts) endpoints: Vec<EndpointMetadata>,
    /// Columns that are not named as their labels, and these.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub(in crate::artifacts) renamed_labels: BTreeMap<String, String>,
    /// Counters and histograms that fell: rows do not say what they rose by after.
    pub(in crate::artifacts) series_with_resets: u64,
}

/// How an endpoint was scraped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::artifacts) struct EndpointMetadata {
    pub(in crate::artifacts) configured_url: Arc<str>,
    pub(in crate::artifacts) url: Arc<str>,
    /// When what rows have risen from was scraped; absent where the endpoint had not
    /// been scraped before the phase.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(in crate::artifacts) reference_ns: Option<u64>,
    /// Absent where it never answered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(in crate::artifacts) info: Option<EndpointInfo>,
}

impl ReportMetadata {
    fn of(metrics: &ServerMetrics, labels: &LabelColumns, series_with_resets: u64) -> Self {
        let summary = &metrics.report.summary;
        let endpoints = metrics.store.endpoints().iter().map(|endpoint| {
            let reference = summary.windows.profiling.and_then(|window| endpoint.reference(window));
            let info = summary.endpoint_info.iter().find(|(url, _)| *url == endpoint.url);
            EndpointMetadata {
                configured_url: Arc::clone(&endpoint.configured_url),
                url: Arc::clone(&endpoint.url),
                reference_ns: reference.map(|scrape| endpoint.scrapes()[scrape].first_byte_ns),
                info: info.map(|(_, info)| *info),
            }
        });
        Self {
            windows: summary.windows,
            endpoints: endpoints.collect(),
            renamed_labels: labels.renamed(),
            series_with_resets,
        }
    }
}

/// Keys and values, JSON where a value is no single one.
pub(super) fn of(
    run: &RunReport,
    metrics: &ServerMetrics,
    labels: &LabelColumns,
    resets: u64,
) -> Vec<(&'static str, String)> {
    let urls = &metrics.report.summary.endpoints_successful;
    let exported = metrics.report.metrics.iter().filter(|metric| metric.kind != Kind::Summary);
    let of_type =
        |kind| exported.clone().filter(|metric| exported_kind(metric.kind) == kind).count();
    let config = &run.run.input_config;
    let models = config.pointer("/models/items").and_then(Value::as_array);
    let models: Vec<_> =
        models.into_iter().flatten().filter_map(|model| model["name"].as_str()).collect();
    let mut all = vec![
        ("aiperf.schema_version", SCHEMA_VERSION.to_owned()),
        ("aiperf.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("aiperf.benchmark_id", run.run.benchmark_id.to_string()),
        // The run's end: the same when the file is made again.
        ("aiperf.export_timestamp_utc", utc(run.end_wall_ns)),
        ("aiperf.exporter", "aiperf".to_owned()),
        ("aiperf.hostname", rustix::system::uname().nodename().to_string_lossy().into_owned()),
    ];
    if let Some(window) = metrics.report.summary.windows.profiling {
        let duration = window.end_ns.saturating_sub(window.start_ns);
        all.push(("aiperf.time_filter_start_ns", window.start_ns.to_string()));
        all.push(("aiperf.time_filter_end_ns", window.end_ns.to_string()));
        all.push(("aiperf.profiling_duration_ns", duration.to_string()));
        all.push(("aiperf.profiling_duration_seconds", (duration as f64 / 1e9).to_string()));
    }
    all.push(("aiperf.input_config", config.to_string()));
    all.push(("aiperf.model_names", json!(models).to_string()));
    if let Some(concurrency) = run.load.requested_concurrency {
        all.push(("aiperf.concurrency", concurrency.to_string()));
    }
    if let Some(rate) = run.load.requested_rate {
        all.push(("aiperf.request_rate", json!(rate).to_string()));
    }
    let types = json!({
        "gauge": of_type(Kind::Gauge),
        "counter": of_type(Kind::Counter),
        "histogram": of_type(Kind::Histogram),
        "unknown": of_type(Kind::Unknown),
    });
    let report = serde_json::to_string(&ReportMetadata::of(metrics, labels, resets));
    all.extend([
        ("aiperf.endpoint_urls", json!(urls).to_string()),
        ("aiperf.endpoint_count", urls.len().to_string()),
        ("aiperf.label_columns", json!(labels.names()).to_string()),
        ("aiperf.label_count", labels.names().len().to_string()),
        ("aiperf.metric_count", exported.clone().count().to_string()),
        ("aiperf.metric_type_counts", types.to_string()),
        (
            "aiperf.schema_note",
            "Files of other servers have other label columns: read several with \
             union_by_name=true."
                .to_owned(),
        ),
        (METADATA_OF_REPORT, report.unwrap_or_default()),
    ]);
    all
}

fn utc(wall_ns: u64) -> String {
    let at = Timestamp::from_nanosecond(i128::from(wall_ns)).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string()
}
