//! What a screen has of phases, tenants, workers, times and GPUs: small tables, or a line each.

use measure::metrics::tag::{self, MetricTag};
use measure::metrics::time_breakdown::TimeBreakdown;

use super::layout::Table;
use super::panel;
use super::screen::rank;
use super::style::Style;
use crate::run::RunReport;
use crate::tables;
use crate::tables::format::four_digits;

/// What is said of GPUs, each with its unit.
const OF_GPUS: [(MetricTag, &str); 7] = [
    (tag::GPU_COUNT, " in use"),
    (tag::NVIDIA_TOTAL_GPU_POWER, " W"),
    (tag::AMD_TOTAL_GPU_POWER, " W"),
    (tag::OUTPUT_TOKEN_THROUGHPUT_PER_GPU, " output tokens/s each"),
    (tag::NVIDIA_OUTPUT_TOKENS_PER_JOULE, " output tokens/J"),
    (tag::AMD_OUTPUT_TOKENS_PER_JOULE, " output tokens/J"),
    (tag::COST_PER_MILLION_OUTPUT_TOKENS, " per million output tokens"),
];

/// Most rows of a table on the screen.
const MAX_ROWS: usize = 6;

/// Returns the parts, each in forms that get shorter.
pub(super) fn all(report: &RunReport, style: Style) -> Vec<Vec<(u8, String)>> {
    let tables = tables::of_groups(report).map(|table| {
        let short = match table.findings.as_slice() {
            [] => {
                let names = table.rows.iter().filter_map(|row| row.first());
                let names = names.map(|name| name.shown(tables::Content::Text));
                line(&table.title, names, style)
            }
            findings => findings.iter().map(|it| panel::wrapped_line(it, style)).collect(),
        };
        let is_small = table.rows.len() <= MAX_ROWS && !table.title.starts_with("Adaptive");
        let whole = is_small.then(|| (rank::GROUPS, Table::render_plain(&table, style)));
        whole.into_iter().chain([(rank::ERROR, short)]).collect()
    });
    let lines = [times(report, style), gpus(report, style)];
    let lines = lines.into_iter().flatten().map(|line| vec![(rank::GROUPS, line)]);
    tables.chain(lines).collect()
}

/// Returns a line with a name and as many items as fit into it.
fn line(name: &str, items: impl IntoIterator<Item = String>, style: Style) -> String {
    let mut text = format!("{name}:");
    for (at, item) in items.into_iter().enumerate() {
        let item = format!("{} {item}", if at == 0 { "" } else { "," });
        if at > 0 && text.chars().count() + item.chars().count() > style.width.into() {
            break;
        }
        text.push_str(&item);
    }
    panel::wrapped_line(&text, style)
}

/// Returns the parts of the mean request latency, the largest first.
fn times(report: &RunReport, style: Style) -> Option<String> {
    let Some(TimeBreakdown::Found(division)) = &report.outcome.time_breakdown else { return None };
    let divided = division.get(tag::REQUEST_LATENCY).or(division.metrics.first())?;
    let mut parts: Vec<_> = divided.parts.iter().collect();
    parts.sort_by(|a, b| b.mean_ms.total_cmp(&a.mean_ms));
    let items = parts.into_iter().map(|part| {
        let share = 100.0 * part.mean_ms / divided.mean_ms;
        let title = part.stage.title();
        let title = if title.starts_with("KV") { title.to_owned() } else { title.to_lowercase() };
        format!("{title} {} ms ({share:.0}%)", four_digits(part.mean_ms))
    });
    Some(line("Time", items, style))
}

/// Returns what GPUs achieve and cost, or that their telemetry was asked for in vain.
fn gpus(report: &RunReport, style: Style) -> Option<String> {
    let telemetry = report.outcome.gpus.as_ref();
    if telemetry.is_some_and(|gpus| gpus.is_asked && gpus.exporters.is_empty()) {
        return Some("No GPU telemetry was collected.\n".to_owned());
    }
    let found = OF_GPUS
        .iter()
        .filter_map(|(tag, unit)| Some(format!("{}{unit}", four_digits(report.average(*tag)?))));
    let mut items = found.peekable();
    items.peek()?;
    Some(line("GPUs", items, style))
}
