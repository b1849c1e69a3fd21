//! The table of the parts of the client's mean latencies.

use std::fmt::Write as _;

use super::format::{count, number, two_digits};
use super::layout::{Cell, Column, Table};
use super::panel;
use super::style::Style;
use super::table::label;
use crate::metrics::Registry;
use crate::metrics::time_breakdown::TimeBreakdown;
use crate::run::{ClientTables, RunReport};
use crate::server_metrics::time_breakdown::hidden;

/// Renders the parts of each latency, or a line that states why they are not known; nothing if
/// no one asked for them. That the server reports no times at all is stated only if all `tables` are
/// shown, since most servers do not.
pub(super) fn render(report: &RunReport, tables: ClientTables, style: Style) -> String {
    let division = match &report.outcome.time_breakdown {
        None => return String::new(),
        Some(TimeBreakdown::None { is_unreported: true, .. }) if tables != ClientTables::All => {
            return String::new();
        }
        Some(TimeBreakdown::None { reason, .. }) => {
            let line = format!("No time breakdown: {reason}");
            return panel::wrapped(&line, style.width.into()).join("\n") + "\n\n";
        }
        Some(TimeBreakdown::Found(division)) => division,
    };
    let rows = division.metrics.iter().flat_map(|divided| {
        let title = Registry::row(divided.metric).map_or_else(Cell::default, label);
        let share = |mean: f64| number(Some(mean / divided.mean_ms * 100.0));
        let parts = divided.parts.iter().map(move |part| {
            let name = format!("{} (ms)", part.stage.title()).into();
            let [mean, share] = [number(Some(part.mean_ms)), share(part.mean_ms)].map(Into::into);
            [name, mean, share, two_digits(part.bound_ms).into()]
        });
        let [mean, all] = [number(Some(divided.mean_ms)), share(divided.mean_ms)].map(Into::into);
        std::iter::once([title, mean, all, Cell::default()]).chain(parts)
    });
    let columns = [
        Column::label("Metric"),
        Column::number("avg"),
        Column::number("%").spare(2),
        Column::number("± (ms)").spare(1),
    ];
    let mut text = Table::new("aiperf | Time Breakdown", columns).rows(rows).render(style);
    for (hidden, events) in report.server_metrics.iter().flat_map(hidden) {
        let events = count(events.round() as u64);
        let _ = writeln!(text, "{events} {} ({})", hidden.what, hidden.metric);
    }
    text.push('\n');
    text
}
