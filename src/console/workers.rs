//! The table of the workers that answered.

use std::fmt::Write as _;

use super::format::number;
use super::layout::{Column, Table};
use super::style::Style;
use crate::metrics::breakdown::{GroupResult, MeanLatency, Worker};
use crate::metrics::tag::{self, MetricTag};
use crate::redact::printable;
use crate::run::RunReport;

/// The columns, their names on a narrow terminal, and the order in which it does without them.
const COLUMNS: [(&str, &str, u8); 6] = [
    ("Requests (%)", "req. %", 4),
    ("TTFT p50 (ms)", "TTFT p50", 0),
    ("TTFT p99 (ms)", "TTFT p99", 0),
    ("Latency p50 (ms)", "Lat. p50", 2),
    ("Mean latency (ms)", "Mean lat.", 3),
    ("Largest stage", "Stage", 1),
];

/// Renders a row for each worker, and how unequal their loads are; nothing without several workers.
pub(super) fn render(report: &RunReport, style: Style) -> String {
    let Some(found) = &report.breakdowns.workers else { return String::new() };
    let rows = found.workers.iter().map(|worker| row(worker, &report.breakdowns.by_worker));
    let numbers = COLUMNS.map(|(name, short, spare)| Column::number(name).or(short).spare(spare));
    let mut columns = vec![Column::name("Worker")];
    columns.extend(numbers);
    columns.push(Column::text("Differs"));
    let mut text = Table::new("aiperf | Workers", columns).rows(rows).render(style);
    let tokens = found.imbalance.output_tokens;
    let tokens = tokens.map(|tokens| format!(", of output tokens {tokens:.2}"));
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "Imbalance (largest load / mean): of requests {:.2}{}\n",
        found.imbalance.requests,
        tokens.unwrap_or_default()
    );
    text
}

fn row(worker: &Worker, groups: &[GroupResult]) -> [String; 8] {
    let group = groups.iter().find(|group| *group.name == worker.name);
    let value = |tag: MetricTag, statistic: &str| group?.value(tag, statistic);
    let mean = |latency: &MeanLatency| {
        let half = latency.interval_ms.map(|[low, high]| (high - low) / 2.0);
        let half = half.map(|half| format!(" ± {}", number(Some(half)))).unwrap_or_default();
        number(Some(latency.mean_ms)) + &half
    };
    [
        printable(&worker.name),
        number(Some(100.0 * worker.request_share)),
        number(value(tag::TIME_TO_FIRST_TOKEN, "p50")),
        number(value(tag::TIME_TO_FIRST_TOKEN, "p99")),
        number(value(tag::REQUEST_LATENCY, "p50")),
        worker.latency(tag::REQUEST_LATENCY).map(mean).unwrap_or_default(),
        worker.largest_stage.map(|stage| stage.title().to_owned()).unwrap_or_default(),
        differs(worker),
    ]
}

/// States how a worker differs from the others, and in which mean latency unless in both.
fn differs(worker: &Worker) -> String {
    let of = |metric| Some(worker.latency(metric)?.finding?.as_str());
    match [tag::TIME_TO_FIRST_TOKEN, tag::REQUEST_LATENCY].map(of) {
        [Some(first), Some(whole)] if first == whole => first.to_owned(),
        [Some(first), Some(whole)] => format!("TTFT {first}, latency {whole}"),
        [Some(first), None] => format!("TTFT {first}"),
        [None, Some(whole)] => format!("latency {whole}"),
        [None, None] => String::new(),
    }
}
