//! The table of the phases of a run that measures several.

use serde_json::json;

use super::Run;
use crate::metrics::tag::{self, MetricTag};
use crate::report::document::Table;

/// The columns: their titles, and the statistic of a metric that each shows.
const COLUMNS: [(&str, MetricTag, &str); 8] = [
    ("Requests", tag::REQUEST_COUNT, "avg"),
    ("Failed", tag::ERROR_REQUEST_COUNT, "avg"),
    ("Requests/s", tag::REQUEST_THROUGHPUT, "avg"),
    ("Output tokens/s", tag::OUTPUT_TOKEN_THROUGHPUT, "avg"),
    ("Time to first token p50 (ms)", tag::TIME_TO_FIRST_TOKEN, "p50"),
    ("Time to first token p99 (ms)", tag::TIME_TO_FIRST_TOKEN, "p99"),
    ("Request latency p50 (ms)", tag::REQUEST_LATENCY, "p50"),
    ("Request latency p99 (ms)", tag::REQUEST_LATENCY, "p99"),
];

impl Run<'_> {
    /// Returns the phases compared with each other, if several are measured.
    pub(super) fn phases(&self) -> Option<Table> {
        let phases = &self.report.by_phase;
        if phases.is_empty() {
            return None;
        }
        let has = |tag| phases.iter().any(|phase| phase.value(tag, "avg").is_some());
        let shown: Vec<_> = COLUMNS.iter().filter(|(_, tag, _)| has(*tag)).collect();
        let origin = self.report.outcome.start_wall_ns;
        let dataset = |index: usize| self.report.run.setup.dataset_of(index);
        let has_datasets = dataset(0).is_some();
        let rows = phases.iter().enumerate().map(|(index, phase)| {
            let start = (phase.times.start_wall_ns as f64 - origin as f64) / 1e9;
            let first = [json!(*phase.name), json!(phase.load)].into_iter();
            let dataset = has_datasets.then(|| json!(dataset(index)));
            let times = [json!(start), json!(phase.seconds())];
            let values = shown.iter().map(|(_, tag, name)| json!(phase.value(*tag, name)));
            first.chain(dataset).chain(times).chain(values).collect()
        });
        let columns = ["Phase", "Load"].into_iter().chain(has_datasets.then_some("Dataset"));
        let columns = columns.chain(["Start (s)", "Time (s)"]);
        Some(Table {
            title: "Phases".to_owned(),
            note: "The phases of the run, in order. A warmup is not in the results of the run."
                .to_owned(),
            columns: columns
                .chain(shown.iter().map(|(title, ..)| *title))
                .map(str::to_owned)
                .collect(),
            rows: rows.collect(),
            requests: Vec::new(),
        })
    }
}
