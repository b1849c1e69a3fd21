//! The parts of the client's mean latencies.

use measure::metrics::Registry;
use measure::metrics::time_breakdown::TimeBreakdown;
use measure::server_metrics::time_breakdown::hidden;

use super::format::count;
use super::{Cell, Column, Table, label};
use crate::run::RunReport;

/// Returns each latency followed by its parts; `None` if these are not known.
pub(super) fn time_breakdown(report: &RunReport) -> Option<Table> {
    let Some(TimeBreakdown::Found(division)) = &report.outcome.time_breakdown else { return None };
    let rows = division.metrics.iter().flat_map(|divided| {
        let title = Registry::row(divided.metric).map_or(Cell::Absent, label);
        let share = |mean: f64| Cell::percent(Some(mean / divided.mean_ms));
        let parts = divided.parts.iter().map(move |part| {
            let name = Cell::Text(format!("{} (ms)", part.stage.title()));
            let [mean, bound] = [part.mean_ms, part.bound_ms].map(Cell::Number);
            vec![name, mean, share(part.mean_ms), bound]
        });
        let whole = Cell::Number(divided.mean_ms);
        std::iter::once(vec![title, whole, share(divided.mean_ms), Cell::Absent]).chain(parts)
    });
    let hidden = report.server_metrics.iter().flat_map(hidden).map(|(hidden, events)| {
        format!("{} {} ({})", count(events.round() as u64), hidden.what, hidden.metric)
    });
    Some(Table {
        title: "Time Breakdown".to_owned(),
        note: "The parts of a latency add up to its mean.".to_owned(),
        columns: vec![
            Column::label("Metric"),
            Column::number("avg"),
            Column::number("%").spare(2),
            Column::number("± (ms)").spare(1),
        ],
        rows: rows.collect(),
        findings: hidden.collect(),
        ..Table::default()
    })
}
