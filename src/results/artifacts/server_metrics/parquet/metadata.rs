//! Metadata of the file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use base::platform::host;
use base::redact::ShownUrl;
use base::units::wall;
use client::schedule::PhaseKind;
use client::server_family::SeriesKind;
use measure::server_metrics::FetchTimes;
use measure::server_metrics::report::{EndpointInfo, ServerMetrics, Window, Windows};

use super::super::members::exported_kind;
use super::LabelColumns;
use crate::artifacts::table;
use crate::run::RunReport;

/// Version of the columns and of this metadata.
const SCHEMA_VERSION: &str = "1.0";

/// The key of [`ReportMetadata`].
pub(in crate::artifacts) const METADATA_OF_REPORT: &str = "aiperf.report";

/// The data that statistics need but rows do not contain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::artifacts) struct ReportMetadata {
    pub(in crate::artifacts) windows: Windows,
    /// In the order of the configuration.
    pub(in crate::artifacts) endpoints: Vec<EndpointMetadata>,
    /// Columns whose names differ from their labels, with these.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub(in crate::artifacts) renamed_labels: BTreeMap<String, String>,
    /// Number of counters and histograms with a decrease, whose later increases are not in the
    /// rows.
    pub(in crate::artifacts) series_with_resets: u64,
}

/// Scrapes of an endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::artifacts) struct EndpointMetadata {
    pub(in crate::artifacts) configured_url: ShownUrl,
    pub(in crate::artifacts) url: ShownUrl,
    /// Time of the reference scrape's response; absent if the endpoint was not scraped before the
    /// phase.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(in crate::artifacts) reference_ns: Option<u64>,
    /// Time of its request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(in crate::artifacts) reference_sent_ns: Option<u64>,
    /// Time of the response of the phase's final scrape; rows after it are late counts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(in crate::artifacts) final_ns: Option<u64>,
    /// Time of its request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(in crate::artifacts) final_sent_ns: Option<u64>,
    /// Absent if it never responded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(in crate::artifacts) info: Option<EndpointInfo>,
}

impl ReportMetadata {
    fn new(metrics: &ServerMetrics, labels: &LabelColumns, series_with_resets: u64) -> Self {
        let summary = &metrics.report.summary;
        let endpoints = metrics.store.endpoints().iter().map(|endpoint| {
            let span = endpoint.span(&summary.windows, PhaseKind::Profiling);
            let times = |scrape: Option<usize>| endpoint.scrapes().get(scrape?);
            let reference = span.as_ref().and_then(|span| times(span.reference));
            let last = span.as_ref().and_then(|span| times(span.last()));
            let info = summary.endpoint_info.iter().find(|(url, _)| *url == endpoint.url);
            EndpointMetadata {
                configured_url: endpoint.configured_url.clone(),
                url: endpoint.url.clone(),
                reference_ns: reference.map(|times| times.first_byte_ns),
                reference_sent_ns: reference.map(|times| times.request_sent_ns),
                final_ns: last.map(|times| times.first_byte_ns),
                final_sent_ns: last.map(|times| times.request_sent_ns),
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

impl EndpointMetadata {
    /// Returns the times of the scrape with the response at `time`. The request's time is known for
    /// two scrapes; the others were in the same order. The final scrape is the first one that was
    /// sent after the `phase`, so those before it were sent in the phase, even if their responses
    /// came after it.
    pub(in crate::artifacts) fn times(&self, time: u64, phase: Option<Window>) -> FetchTimes {
        let is = |at: Option<u64>| at == Some(time);
        let last = self.final_sent_ns.filter(|_| self.final_ns.is_some_and(|last| time <= last));
        let request_sent_ns = match (self.reference_sent_ns, last) {
            (Some(sent), _) if is(self.reference_ns) => sent,
            (_, Some(sent)) if is(self.final_ns) => sent,
            (_, Some(sent)) => {
                let end = phase.map_or(sent, |phase| phase.end_ns.min(sent));
                time.min(end.saturating_sub(1))
            }
            (_, None) => time,
        };
        FetchTimes { request_sent_ns, first_byte_ns: time, last_byte_ns: time }
    }
}

/// Returns keys and values, as JSON if a value is not a single one.
pub(super) fn file_metadata(
    run: &RunReport,
    metrics: &ServerMetrics,
    labels: &LabelColumns,
    resets: u64,
) -> table::Metadata {
    let urls = &metrics.report.summary.endpoints_successful;
    let exported =
        metrics.report.metrics.iter().filter(|metric| metric.kind != SeriesKind::Summary);
    let of_type =
        |kind| exported.clone().filter(|metric| exported_kind(metric.kind) == kind).count();
    let mut all = vec![
        ("aiperf.benchmark_id", run.run.benchmark_id.to_string()),
        // The end of the run, which stays the same when the file is rebuilt.
        ("aiperf.export_timestamp_utc", utc(run.outcome.end_wall_ns)),
        ("aiperf.exporter", "aiperf".to_owned()),
        ("aiperf.hostname", host::name()),
    ];
    if let Some(window) = metrics.report.summary.windows.profiling {
        let duration = window.end_ns.saturating_sub(window.start_ns);
        all.push(("aiperf.time_filter_start_ns", window.start_ns.to_string()));
        all.push(("aiperf.time_filter_end_ns", window.end_ns.to_string()));
        all.push(("aiperf.profiling_duration_ns", duration.to_string()));
        all.push(("aiperf.profiling_duration_seconds", (duration as f64 / 1e9).to_string()));
    }
    all.push(("aiperf.input_config", run.run.input_config.to_string()));
    all.push(("aiperf.model_names", json!(run.run.setup.models).to_string()));
    if let Some(concurrency) = run.outcome.load.requested_concurrency {
        all.push(("aiperf.concurrency", concurrency.to_string()));
    }
    if let Some(rate) = run.outcome.load.requested_rate {
        all.push(("aiperf.request_rate", json!(rate).to_string()));
    }
    let types = json!({
        "gauge": of_type(SeriesKind::Gauge),
        "counter": of_type(SeriesKind::Counter),
        "histogram": of_type(SeriesKind::Histogram),
        "unknown": of_type(SeriesKind::Unknown),
    });
    let report = serde_json::to_string(&ReportMetadata::new(metrics, labels, resets));
    all.extend([
        ("aiperf.endpoint_urls", json!(urls).to_string()),
        ("aiperf.endpoint_count", urls.len().to_string()),
        ("aiperf.label_columns", json!(labels.names()).to_string()),
        ("aiperf.label_count", labels.names().len().to_string()),
        ("aiperf.metric_count", exported.clone().count().to_string()),
        ("aiperf.metric_type_counts", types.to_string()),
        (
            "aiperf.schema_note",
            "Files of other servers have different label columns; read several files with \
             union_by_name=true."
                .to_owned(),
        ),
        (METADATA_OF_REPORT, report.unwrap_or_default()),
    ]);
    table::metadata(SCHEMA_VERSION, all)
}

fn utc(wall_ns: u64) -> String {
    wall::utc(wall_ns).format("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string()
}

#[cfg(test)]
mod tests {
    use measure::server_metrics::span::Span;

    use super::*;

    /// A request is sent before the end of the phase, and its response comes after it.
    #[test]
    fn a_scrape_across_the_end_of_the_phase_is_not_its_final_one() {
        let fetched = |request_sent_ns, first_byte_ns| FetchTimes {
            request_sent_ns,
            first_byte_ns,
            last_byte_ns: first_byte_ns,
        };
        let scrapes = [fetched(0, 10), fetched(90, 150), fetched(160, 170), fetched(180, 190)];
        let window = Window { start_ns: 20, end_ns: 100 };
        let windows = Windows { warmup: None, profiling: Some(window) };
        let around = windows.around(PhaseKind::Profiling).unwrap();
        let span = Span::within(&scrapes, around);
        assert_eq!((span.reference, span.samples.clone()), (Some(0), 1..3));
        let endpoint = EndpointMetadata {
            configured_url: "http://localhost/metrics".into(),
            url: "http://localhost/metrics".into(),
            reference_ns: Some(10),
            reference_sent_ns: Some(0),
            final_ns: Some(170),
            final_sent_ns: Some(160),
            info: None,
        };
        let again = scrapes.map(|scrape| endpoint.times(scrape.first_byte_ns, Some(window)));
        assert_eq!(Span::within(&again, around), span);
    }
}
