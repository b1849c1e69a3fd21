//! The workers that answered beside each other.

use measure::metrics::breakdown::{MeanLatency, Worker};
use measure::metrics::tag::{self, MetricTag};
use measure::metrics::time_breakdown::Stage;

use super::{Cell, Column, Groups, Shown, Table};
use crate::run::RunReport;

const COLUMNS: [Shown; 3] = [
    ("TTFT p50 (ms)", "TTFT p50", 0, tag::TIME_TO_FIRST_TOKEN, "p50"),
    ("TTFT p99 (ms)", "TTFT p99", 0, tag::TIME_TO_FIRST_TOKEN, "p99"),
    ("Latency p50 (ms)", "Lat. p50", 5, tag::REQUEST_LATENCY, "p50"),
];

/// The latencies whose means are compared: their names, the names on a narrow terminal, the order in
/// which they are left out, and that of their intervals.
const MEANS: [(MetricTag, &str, &str, u8, u8); 2] = [
    (tag::TIME_TO_FIRST_TOKEN, "Mean TTFT (ms)", "Mean TTFT", 3, 1),
    (tag::REQUEST_LATENCY, "Mean latency (ms)", "Mean lat.", 6, 4),
];

/// Returns a row for each worker, and how unequal their loads are; `None` without several workers.
pub(super) fn workers(report: &RunReport) -> Option<Table> {
    let found = report.breakdowns.workers.as_ref()?;
    let groups = &report.breakdowns.by_worker;
    let shown = Groups::new(&COLUMNS, || groups.iter().map(|group| &group.results));
    let row = |worker: &Worker| {
        let group = groups.iter().find(|group| *group.name == worker.name);
        let mean = |latency: Option<&MeanLatency>| {
            let half = latency.and_then(|latency| latency.interval_ms);
            let half = half.map(|[low, high]| (high - low) / 2.0);
            [latency.map(|latency| latency.mean_ms).into(), half.into()]
        };
        let mut cells = vec![
            Cell::Text(worker.name.clone()),
            Cell::percent(Some(worker.request_share)),
            Cell::percent(worker.output_token_share),
        ];
        cells.extend(shown.cells(group.map_or(&[], |group| &group.results)));
        cells.extend(MEANS.iter().flat_map(|(tag, ..)| mean(worker.latency(*tag))));
        cells.push(Cell::text(worker.largest_stage.map(Stage::title)));
        cells.push(Cell::text(differs(worker)));
        cells
    };
    let mut columns = vec![
        Column::name("Worker"),
        Column::number("Requests (%)").or("req. %").spare(7),
        Column::number("Output tokens (%)").or("tok. %").spare(2),
    ];
    columns.extend(shown.columns());
    columns.extend(MEANS.iter().flat_map(|&(_, name, short, spare, of_half)| {
        [
            Column::number(name).or(short).spare(spare),
            Column::number("± (ms)").or("±").spare(of_half),
        ]
    }));
    columns.extend([Column::text("Largest stage").or("Stage").spare(1), Column::text("Differs")]);
    let tokens = found.imbalance.output_tokens;
    let tokens = tokens.map(|tokens| format!(", of output tokens {tokens:.2}")).unwrap_or_default();
    let requests = found.imbalance.requests;
    Some(Table {
        title: "Workers".to_owned(),
        note: "Intervals have 95%; a worker differs if its mean is shown to be above or below those of \
               the workers in the middle."
            .to_owned(),
        columns,
        rows: found.workers.iter().map(row).collect(),
        findings: vec![format!(
            "Imbalance (largest load / mean): of requests {requests:.2}{tokens}"
        )],
        ..Table::default()
    })
}

/// Returns how a worker differs from the others, and in which mean latency unless in both.
fn differs(worker: &Worker) -> Option<String> {
    let finding_of = |metric| Some(worker.latency(metric)?.finding?.as_str());
    match [tag::TIME_TO_FIRST_TOKEN, tag::REQUEST_LATENCY].map(finding_of) {
        [Some(first), Some(whole)] if first == whole => Some(first.to_owned()),
        [Some(first), Some(whole)] => Some(format!("TTFT {first}, latency {whole}")),
        [Some(first), None] => Some(format!("TTFT {first}")),
        [None, Some(whole)] => Some(format!("latency {whole}")),
        [None, None] => None,
    }
}
