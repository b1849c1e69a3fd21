//! The table of the parts of the client's mean latencies.

use std::fmt::Write as _;

use super::format::{count, number};
use super::style::Style;
use super::table::{figures, label};
use crate::metrics::Registry;
use crate::metrics::time_breakdown::TimeBreakdown;
use crate::run::RunReport;
use crate::server_metrics::time_breakdown::hidden;

/// Renders the parts of each latency, or one line that states why they are not known; nothing if
/// no one asked for them.
pub(super) fn render(report: &RunReport, style: Style) -> String {
    let division = match &report.outcome.time_breakdown {
        None => return String::new(),
        Some(TimeBreakdown::None { reason, .. }) => {
            return format!("No time breakdown: {reason}\n\n");
        }
        Some(TimeBreakdown::Found(division)) => division,
    };
    let rows = division.metrics.iter().flat_map(|divided| {
        let title = Registry::row(divided.metric).map_or_else(String::new, label);
        let share = |mean: f64| number(Some(mean / divided.mean_ms * 100.0));
        let parts = divided.parts.iter().map(move |part| {
            let name = format!("{} (ms)", part.stage.title());
            let bound = format!("{:.6}", part.bound_ms);
            [name, number(Some(part.mean_ms)), share(part.mean_ms), bound]
        });
        let whole = [title, number(Some(divided.mean_ms)), share(divided.mean_ms)];
        let [name, mean, all] = whole;
        std::iter::once([name, mean, all, String::new()]).chain(parts)
    });
    let header = ["Metric", "avg", "%", "± (ms)"];
    let mut text = figures("aiperf | Time Breakdown", header, rows, style);
    for (hidden, events) in report.server_metrics.iter().flat_map(hidden) {
        let events = count(events.round() as u64);
        let _ = writeln!(text, "{events} {} ({})", hidden.what, hidden.metric);
    }
    text.push('\n');
    text
}
