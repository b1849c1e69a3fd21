//! The table of the turns of conversations.

use super::format::{count, four_digits};
use super::layout::{Column, Table};
use super::style::Style;
use crate::metrics::breakdown::GroupResult;
use crate::metrics::tag::{self, MetricTag};
use crate::run::RunReport;

/// A column: its name, that on a narrow terminal, the order in which it is left out, and what it shows.
type Shown = (&'static str, &'static str, u8, MetricTag, &'static str);

const COLUMNS: [Shown; 7] = [
    ("Requests", "Requests", 3, tag::REQUEST_COUNT, "avg"),
    ("Input tokens", "Input", 4, tag::INPUT_SEQUENCE_LENGTH, "avg"),
    ("Cached (%)", "Cached %", 2, tag::OVERALL_USAGE_PROMPT_CACHE_READ_PCT, "avg"),
    ("TTFT p50 (ms)", "TTFT p50", 0, tag::TIME_TO_FIRST_TOKEN, "p50"),
    ("TTFT p99 (ms)", "TTFT p99", 0, tag::TIME_TO_FIRST_TOKEN, "p99"),
    ("Latency p50 (ms)", "Lat. p50", 1, tag::REQUEST_LATENCY, "p50"),
    ("Latency p99 (ms)", "Lat. p99", 1, tag::REQUEST_LATENCY, "p99"),
];

/// Renders a row for each group of turns; nothing without several turns.
pub(super) fn render(report: &RunReport, style: Style) -> String {
    let groups = &report.breakdowns.by_turn;
    let has = |tag| groups.iter().any(|group| group.value(tag, "avg").is_some());
    let shown: Vec<&Shown> = COLUMNS.iter().filter(|(.., tag, _)| has(*tag)).collect();
    if groups.is_empty() {
        return String::new();
    }
    let row = |group: &GroupResult| {
        let value = |(.., tag, statistic): &&Shown| match group.value(*tag, statistic) {
            Some(value) if *tag == tag::REQUEST_COUNT => count(value as u64),
            Some(value) => four_digits(value),
            None => String::new(),
        };
        let values: Vec<String> = shown.iter().map(value).collect();
        std::iter::once(group.name.to_string()).chain(values)
    };
    let mut columns = vec![Column::name("Turn")];
    columns.extend(
        shown.iter().map(|(name, short, spare, ..)| Column::number(*name).or(short).spare(*spare)),
    );
    Table::new("aiperf | Turns", columns).rows(groups.iter().map(row)).render(style) + "\n"
}
