//! The turns of conversations beside each other.

use measure::metrics::tag;

use super::{Cell, Column, Groups, Shown, Table};
use crate::run::RunReport;

/// Its title.
pub(crate) const TITLE: &str = "Turns";

const COLUMNS: [Shown; 9] = [
    ("Requests", "Requests", 5, tag::REQUEST_COUNT, "avg"),
    ("Failed", "Failed", 2, tag::ERROR_REQUEST_COUNT, "avg"),
    ("Input tokens", "Input", 6, tag::INPUT_SEQUENCE_LENGTH, "avg"),
    ("Output tokens", "Output", 1, tag::OUTPUT_SEQUENCE_LENGTH, "avg"),
    ("Cached (%)", "Cached %", 4, tag::OVERALL_USAGE_PROMPT_CACHE_READ_PCT, "avg"),
    ("TTFT p50 (ms)", "TTFT p50", 0, tag::TIME_TO_FIRST_TOKEN, "p50"),
    ("TTFT p99 (ms)", "TTFT p99", 0, tag::TIME_TO_FIRST_TOKEN, "p99"),
    ("Latency p50 (ms)", "Lat. p50", 3, tag::REQUEST_LATENCY, "p50"),
    ("Latency p99 (ms)", "Lat. p99", 3, tag::REQUEST_LATENCY, "p99"),
];

/// Returns a row for each group of turns; `None` without several turns.
pub(super) fn turns(report: &RunReport) -> Option<Table> {
    let groups = &report.breakdowns.by_turn;
    let shown = Groups::new(&COLUMNS, || groups.iter().map(|group| &group.results));
    let rows = groups.iter().map(|group| {
        std::iter::once(Cell::Text(group.name.to_string())).chain(shown.cells(&group.results))
    });
    (!groups.is_empty()).then(|| Table {
        title: TITLE.to_owned(),
        note: "Requests by their position in the conversation, from 1; tokens are means."
            .to_owned(),
        columns: std::iter::once(Column::name("Turn")).chain(shown.columns()).collect(),
        rows: rows.map(Iterator::collect).collect(),
        ..Table::default()
    })
}
