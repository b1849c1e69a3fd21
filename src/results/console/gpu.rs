//! Tables of what each GPU achieves and costs, of the power and energy of GPUs, and of each GPU.

use std::fmt::Write as _;

use base::redact::ShownUrl;
use base::redact::printable;
use measure::gpu::report::{GpuEntry, GpuMetric, GpuReport, Spread, display};
use measure::metrics::ConsoleGroup;
use measure::metrics::metric::MetricResult;

use super::headline::NOTABLE_PERCENT;
use super::layout::{Cell, Column, Table};
use super::style::Style;
use crate::run::RunReport;
use crate::tables;
use crate::tables::format::four_digits;

/// The tables of efficiency.
const TABLES: [(ConsoleGroup, &str); 3] = [
    (ConsoleGroup::Deployment, "aiperf | Throughput per GPU and Cost"),
    (ConsoleGroup::GpuPowerEfficiencyNvidia, "aiperf | GPU Power Efficiency (NVIDIA)"),
    (ConsoleGroup::GpuPowerEfficiencyAmd, "aiperf | GPU Power Efficiency (AMD)"),
];

/// Renders the efficiency of the deployment and of each vendor's GPUs, and if the user asked for it,
/// a table of each GPU; empty without GPUs.
pub(super) fn render(report: &RunReport, style: Style) -> String {
    let mut text = String::new();
    for (group, title) in TABLES {
        let of_group = report.results.iter().filter(|result| result.metric.group == group);
        let mut rows: Vec<&MetricResult> = of_group.collect();
        if rows.is_empty() {
            continue;
        }
        rows.sort_by_key(|result| result.metric.order);
        let ranges: Vec<Option<String>> = rows.iter().map(|one| range(one, report)).collect();
        let are_known = ranges.iter().any(Option::is_some);
        let rows = rows.iter().zip(ranges).map(|(one, range)| {
            let mut row: Vec<Cell> =
                vec![Cell::from(&tables::label(one.metric)), four_digits(one.stats.avg).into()];
            row.extend(are_known.then(|| range.unwrap_or_default().into()));
            row
        });
        let mut columns = vec![Column::label("Metric"), Column::number("avg")];
        columns.extend(are_known.then(|| Column::number("Without client delays")));
        text.push_str(&Table::new(title, columns).rows(rows).render(style));
        text.push('\n');
    }
    if let Some(gpus) = report.outcome.gpus.as_ref().filter(|gpus| gpus.is_asked) {
        text.push_str(&summary(gpus, style));
    }
    text
}

/// Formats the values between which a metric would be without the client's delays; `None` if they hardly
/// change it.
fn range(result: &MetricResult, report: &RunReport) -> Option<String> {
    let value = result.stats.avg;
    let bounds = report.outcome.client_health.as_ref()?.bounds();
    let [below, above] = bounds.errors(result.metric, "avg", value)?;
    let is_notable = (below + above) / value * 100.0 >= NOTABLE_PERCENT;
    let ends = [value - below, value + above].map(four_digits);
    (is_notable && ends[0] != ends[1]).then(|| ends.join("–"))
}

/// Renders which exporters responded, and a table of each GPU.
fn summary(gpus: &GpuReport, style: Style) -> String {
    let responded = |url: &ShownUrl| gpus.exporters.iter().any(|exporter| exporter.url == *url);
    let mut text = if gpus.exporters.is_empty() {
        "No GPU telemetry was collected.\n".to_owned()
    } else {
        let reached = gpus.configured.iter().filter(|url| responded(url)).count();
        let all = gpus.configured.len();
        let title = style.bold("aiperf | GPU Telemetry Summary");
        format!("{title}\n{reached}/{all} telemetry sources reachable\n")
    };
    for url in &gpus.configured {
        let mark = if responded(url) { style.green("✔") } else { style.red("✘ (unreachable)") };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  • {} {mark}", printable(&display(url)));
    }
    text.push('\n');
    for exporter in &gpus.exporters {
        let name = printable(&display(&exporter.url));
        for entry in &exporter.gpus {
            text.push_str(&Table::render_table(&table(&name, entry), style));
        }
    }
    text
}

fn table(exporter: &str, entry: &GpuEntry) -> tables::Table {
    let (index, model) = (entry.gpu.gpu_index, &entry.gpu.gpu_model_name);
    let title = format!("{exporter} | GPU {index} | {model}");
    tables::statistics(title, entry.metrics.iter().map(row).collect())
}

fn row(metric: &GpuMetric) -> Vec<tables::Cell> {
    let GpuMetric { title, unit, avg, spread, .. } = metric;
    // A megajoule is more than most runs need.
    let (scale, unit) = if &**unit == "MJ" { (1e6, "J") } else { (1.0, &**unit) };
    let cell = |field: fn(&Spread) -> f64| -> tables::Cell {
        spread.as_ref().map(|spread| scale * field(spread)).into()
    };
    vec![
        tables::Cell::Text(format!("{title} ({unit})")),
        tables::Cell::Number(scale * avg),
        cell(|spread| spread.min),
        cell(|spread| spread.max),
        cell(|spread| spread.percentiles[8]),
        cell(|spread| spread.percentiles[6]),
        cell(|spread| spread.percentiles[4]),
        cell(|spread| spread.std),
    ]
}
