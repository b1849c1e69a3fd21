//! The table of the turns of conversations.

use serde_json::json;

use super::Run;
use crate::metrics::tag::{self, MetricTag};
use crate::report::document::Table;

/// The columns: their titles, and the statistic of a metric that each shows.
const COLUMNS: [(&str, MetricTag, &str); 9] = [
    ("Requests", tag::REQUEST_COUNT, "avg"),
    ("Failed", tag::ERROR_REQUEST_COUNT, "avg"),
    ("Mean input tokens", tag::INPUT_SEQUENCE_LENGTH, "avg"),
    ("Mean output tokens", tag::OUTPUT_SEQUENCE_LENGTH, "avg"),
    ("Cached prompt tokens (%)", tag::OVERALL_USAGE_PROMPT_CACHE_READ_PCT, "avg"),
    ("Time to first token p50 (ms)", tag::TIME_TO_FIRST_TOKEN, "p50"),
    ("Time to first token p99 (ms)", tag::TIME_TO_FIRST_TOKEN, "p99"),
    ("Request latency p50 (ms)", tag::REQUEST_LATENCY, "p50"),
    ("Request latency p99 (ms)", tag::REQUEST_LATENCY, "p99"),
];

impl Run<'_> {
    /// Returns the turns compared with each other, if conversations have several.
    pub(super) fn turns(&self) -> Option<Table> {
        let groups = &self.report.breakdowns.by_turn;
        if groups.is_empty() {
            return None;
        }
        let has = |tag| groups.iter().any(|group| group.value(tag, "avg").is_some());
        let shown: Vec<_> = COLUMNS.iter().filter(|(_, tag, _)| has(*tag)).collect();
        let rows = groups.iter().map(|group| {
            let values = shown.iter().map(|(_, tag, name)| json!(group.value(*tag, name)));
            std::iter::once(json!(group.name)).chain(values).collect()
        });
        Some(Table {
            title: "Turns".to_owned(),
            note: "Requests by their position in the conversation, from 1.".to_owned(),
            columns: std::iter::once("Turn")
                .chain(shown.iter().map(|(title, ..)| *title))
                .map(str::to_owned)
                .collect(),
            rows: rows.collect(),
            requests: Vec::new(),
        })
    }
}
