//! What is shown of a run.

use std::fmt::Write as _;

use super::style::Style;
use super::table::SummaryTable;
use super::warning::{Given, Warning};
use super::{
    gates, gpu, headline, health, load, panel, server_metrics, speculation, steady, table,
    time_breakdown,
};
use crate::metrics::tag;
use crate::run::{ClientTables, RunReport};

/// Renders `profile_export_console.txt`, which has all tables.
#[must_use]
pub fn render_file(report: &RunReport) -> String {
    rendered(report, ClientTables::All, Style::FILE)
}

/// Renders what the terminal shows of a run: what was measured, statistics, errors, warnings,
/// client health and gates.
#[must_use]
pub fn render(report: &RunReport, style: Style) -> String {
    rendered(report, report.run.tables.client, style)
}

fn rendered(report: &RunReport, tables: ClientTables, style: Style) -> String {
    let mut warnings = String::new();
    let given = Given::of(report);
    for warning in Warning::of(report) {
        warnings.push_str(&panel::render(warning.title(), &warning.text(&given), style));
        warnings.push('\n');
    }
    let has_results = report.average(tag::REQUEST_COUNT).is_some_and(|count| count > 0.0);
    // Without results, the reason is what there is to say.
    let (first, later) =
        if has_results { (String::new(), warnings) } else { (warnings, String::new()) };
    let mut text = first + &headline::header(report, style);
    for table in SummaryTable::shown(report, tables) {
        text.push_str(&table.render(style));
        text.push('\n');
    }
    text.push_str(&headline::table(report, style));
    text.push_str(&steady::render(report, tables, style));
    text.push_str(&time_breakdown::render(report, style));
    text.push_str(&speculation::render(report, style));
    text.push_str(&gpu::render(report, style));
    if report.run.tables.server_metrics {
        let metrics = report.server_metrics.as_ref().map(|metrics| &metrics.report);
        text.push_str(&server_metrics::render(metrics, style));
    }
    if !report.errors.is_empty() {
        text.push_str(&table::errors(&report.errors, style));
        text.push('\n');
    }
    text.push_str(&later);
    if let Some(early) = &report.outcome.ended_early {
        // Writing to a string does not fail.
        let _ = writeln!(text, "Early end: {early}\n");
    }
    if let Some(health) = &report.outcome.client_health {
        text.push_str(&health::render(health, style));
    }
    if let Some(health) = &report.outcome.load_health {
        text.push_str(&load::render(health, style));
    }
    text.push_str(&gates::render(&report.gates(), style));
    text
}
