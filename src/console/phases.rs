//! The table of the phases of a run that measures several.

use super::format::{count, four_digits};
use super::layout::{Column, Table};
use super::style::Style;
use crate::metrics::breakdown::{PhaseResult, Recovery};
use crate::metrics::tag::{self, MetricTag};
use crate::run::RunReport;

/// A column: its name, that on a narrow terminal, the order in which it is left out, and what it shows.
type Shown = (&'static str, &'static str, u8, MetricTag, &'static str);

const COLUMNS: [Shown; 8] = [
    ("Requests", "Requests", 3, tag::REQUEST_COUNT, "avg"),
    ("Failed", "Failed", 3, tag::ERROR_REQUEST_COUNT, "avg"),
    ("Requests/s", "Req/s", 1, tag::REQUEST_THROUGHPUT, "avg"),
    ("Output tokens/s", "Tokens/s", 2, tag::OUTPUT_TOKEN_THROUGHPUT, "avg"),
    ("TTFT p50 (ms)", "TTFT p50", 0, tag::TIME_TO_FIRST_TOKEN, "p50"),
    ("TTFT p99 (ms)", "TTFT p99", 0, tag::TIME_TO_FIRST_TOKEN, "p99"),
    ("Latency p50 (ms)", "Lat. p50", 0, tag::REQUEST_LATENCY, "p50"),
    ("Latency p99 (ms)", "Lat. p99", 0, tag::REQUEST_LATENCY, "p99"),
];

/// Renders a row for each phase; nothing unless several are measured.
pub(super) fn render(report: &RunReport, style: Style) -> String {
    let phases = &report.by_phase;
    if phases.is_empty() {
        return String::new();
    }
    let has = |tag| phases.iter().any(|phase| phase.value(tag, "avg").is_some());
    let shown: Vec<&Shown> = COLUMNS.iter().filter(|(.., tag, _)| has(*tag)).collect();
    let dataset = |index: usize| report.run.setup.dataset_of(index);
    let has_datasets = dataset(0).is_some();
    let row = |(index, phase): (usize, &PhaseResult)| {
        let value = |(.., tag, statistic): &&Shown| match phase.value(*tag, statistic) {
            Some(value) if [tag::REQUEST_COUNT, tag::ERROR_REQUEST_COUNT].contains(tag) => {
                count(value as u64)
            }
            Some(value) => four_digits(value),
            None => String::new(),
        };
        let first = [phase.name.to_string(), phase.load.clone()].into_iter();
        let dataset = has_datasets.then(|| dataset(index).unwrap_or_default());
        let first = first.chain(dataset).chain([four_digits(phase.seconds())]);
        first.chain(shown.iter().map(value).collect::<Vec<_>>())
    };
    let mut columns = vec![Column::name("Phase"), Column::name("Load").spare(5)];
    columns.extend(has_datasets.then(|| Column::name("Dataset").spare(6)));
    columns.push(Column::number("Time (s)").or("s").spare(4));
    columns.extend(
        shown.iter().map(|(name, short, spare, ..)| Column::number(*name).or(short).spare(*spare)),
    );
    let mut text = Table::new("aiperf | Phases", columns)
        .rows(phases.iter().enumerate().map(row))
        .render(style);
    for phase in phases {
        text.extend(phase.recovery.iter().map(|found| recovery(&phase.name, found) + "\n"));
    }
    text + "\n"
}

/// Returns when the latencies of a phase were those of the baseline again, in one sentence.
pub(super) fn recovery(name: &str, found: &Recovery) -> String {
    let Recovery { baseline, after, limit_ms, recovered, seconds, interval_seconds } = found;
    let limit = four_digits(*limit_ms);
    let time = four_digits(*seconds);
    if !recovered {
        return format!(
            "{name}: request latency was not within that of {baseline} (p95 {limit} ms) again, {time} s \
             after the last request of {after} was sent"
        );
    }
    let [low, high] = interval_seconds.map(four_digits);
    format!(
        "{name}: request latency was within that of {baseline} (p95 {limit} ms) again {time} s ({low} to \
         {high} s) after the last request of {after} was sent"
    )
}
