//! The phases of a run that measures several.

use measure::metrics::breakdown::{PhaseResult, Recovery};
use measure::metrics::tag;

use super::format::four_digits;
use super::{Cell, Column, Groups, Shown, Table};
use crate::run::RunReport;

const COLUMNS: [Shown; 8] = [
    ("Requests", "Requests", 4, tag::REQUEST_COUNT, "avg"),
    ("Failed", "Failed", 4, tag::ERROR_REQUEST_COUNT, "avg"),
    ("Requests/s", "Req/s", 2, tag::REQUEST_THROUGHPUT, "avg"),
    ("Output tokens/s", "Tokens/s", 3, tag::OUTPUT_TOKEN_THROUGHPUT, "avg"),
    ("TTFT p50 (ms)", "TTFT p50", 0, tag::TIME_TO_FIRST_TOKEN, "p50"),
    ("TTFT p99 (ms)", "TTFT p99", 0, tag::TIME_TO_FIRST_TOKEN, "p99"),
    ("Latency p50 (ms)", "Lat. p50", 0, tag::REQUEST_LATENCY, "p50"),
    ("Latency p99 (ms)", "Lat. p99", 0, tag::REQUEST_LATENCY, "p99"),
];

/// Returns a row for each phase; `None` unless several are measured.
pub(super) fn phases(report: &RunReport) -> Option<Table> {
    let phases = &report.by_phase;
    let shown = Groups::new(&COLUMNS, || phases.iter().map(|phase| &phase.results));
    let origin = report.outcome.start_wall_ns;
    let dataset = |index: usize| report.run.setup.dataset_of(index);
    let has_datasets = dataset(0).is_some();
    let row = |(index, phase): (usize, &PhaseResult)| {
        let start = (phase.times.start_wall_ns as f64 - origin as f64) / 1e9;
        let mut cells = vec![Cell::Text(phase.name.to_string()), Cell::Text(phase.load.clone())];
        cells.extend(has_datasets.then(|| Cell::text(dataset(index))));
        cells.extend([start, phase.seconds()].map(Cell::Number));
        cells.extend(shown.cells(&phase.results));
        cells
    };
    let mut columns = vec![Column::name("Phase"), Column::name("Load").spare(6)];
    columns.extend(has_datasets.then(|| Column::name("Dataset").spare(7)));
    columns.push(Column::number("Start (s)").or("from s").spare(1));
    columns.push(Column::number("Time (s)").or("s").spare(5));
    columns.extend(shown.columns());
    let recoveries =
        phases.iter().filter_map(|phase| Some(recovery(&phase.name, phase.recovery.as_ref()?)));
    (!phases.is_empty()).then(|| Table {
        title: "Phases".to_owned(),
        note: "The phases of the run, in order. A warmup is not in the results of the run."
            .to_owned(),
        columns,
        rows: phases.iter().enumerate().map(row).collect(),
        findings: recoveries.collect(),
        ..Table::default()
    })
}

/// Returns when the latencies of a phase were those of the baseline again, in one sentence.
fn recovery(name: &str, found: &Recovery) -> String {
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
