//! What is shown of a run.

use std::fmt::Write as _;

use base::redact::printable;
use client::record::RequestError;
use measure::metrics::steady::Unsteady;
use measure::metrics::tag;
use measure::metrics::time_breakdown::TimeBreakdown;

use super::layout::Table;
use super::style::Style;
use super::{gates, gpu, headline, health, highlights, panel, server_metrics, table};
use crate::run::{ClientTables, RunReport};
use crate::tables;
use crate::warnings::Warning;

/// Maximum number of errors that the terminal shows; the file has all.
const MAX_ERRORS: usize = 3;

/// Renders `profile_export_console.txt`, which has all tables, and the whole text of each warning.
#[must_use]
pub fn render_file(report: &RunReport) -> String {
    let style = Style::FILE;
    let mut text = headline::header(report, style) + &tables(report, ClientTables::All, style);
    text.push_str(&headline::table(report, style));
    text.push('\n');
    text.push_str(&highlights::render(report, style));
    if report.failures().next().is_some() {
        text.push_str(&table::errors(report.failures(), style));
        text.push('\n');
    }
    text + &details(report, style)
}

/// Renders what the terminal shows of a run: the tables that were asked for, then, in one block, what
/// was measured, statistics, verdicts, errors, and a line for each warning.
#[must_use]
pub fn render(report: &RunReport, style: Style) -> String {
    let mut text = String::new();
    if !report.average(tag::REQUEST_COUNT).is_some_and(|count| count > 0.0) {
        // Without results, the reason is what there is to say.
        text.push_str(&warnings(report, style));
    }
    text.push_str(&tables(report, report.run.tables.client, style));
    text.push_str(&headline::header(report, style));
    text.push_str(&headline::table(report, style));
    text.push('\n');
    text.push_str(&highlights::render(report, style));
    text.push_str(&headline::percentiles_note(report, style));
    text.push_str(&headline::steady_note(report, style));
    text.push_str(&health::verdicts(report, style));
    text.push_str(&gates::line(&report.gates(), style));
    text.push_str(&errors(report, style));
    text.push_str(&advice(report, style));
    text
}

/// Renders the whole text of what is told of a run in a line each: verdicts with their reasons, the
/// early end, warnings.
#[must_use]
pub(crate) fn details(report: &RunReport, style: Style) -> String {
    let mut text = warnings(report, style);
    if let Some(early) = &report.outcome.ended_early {
        // Writing to a string does not fail.
        let _ = writeln!(text, "Early end: {early}\n");
    }
    text + &health::details(report, style)
}

/// Renders the tables besides that of the first screen: those of metrics as asked, and those of other
/// things as far as there are any.
fn tables(report: &RunReport, asked: ClientTables, style: Style) -> String {
    let mut text: String =
        table::of_groups(report, asked).map(|table| Table::render_table(&table, style)).collect();
    let has_all = asked == ClientTables::All;
    let of_run = tables::of_run(report, has_all);
    text.extend(of_run.iter().map(|table| Table::render_table(table, style)));
    let missing = missing(report, has_all);
    text.extend(missing.map(|line| panel::wrapped(&line, style.width.into()).join("\n") + "\n\n"));
    text.push_str(&gpu::render(report, style));
    if report.run.tables.server_metrics {
        let metrics = report.server_metrics.as_ref().map(|metrics| &metrics.report);
        text.push_str(&server_metrics::render(metrics, style));
    }
    text + &gates::render(&report.gates(), style)
}

/// Returns why tables are missing that the report could have; of those that most runs lack, only if the
/// user asked for all.
fn missing(report: &RunReport, has_all: bool) -> impl Iterator<Item = String> {
    let steady = match &report.steady_state {
        Err(reason) if has_all && *reason != Unsteady::UnknownLoad => {
            Some(format!("No steady state: {reason}"))
        }
        _ => None,
    };
    let breakdown = match &report.outcome.time_breakdown {
        Some(TimeBreakdown::None { reason, is_unreported }) if has_all || !is_unreported => {
            Some(format!("No time breakdown: {reason}"))
        }
        _ => None,
    };
    [steady, breakdown].into_iter().flatten()
}

/// Renders each warning in a box.
fn warnings(report: &RunReport, style: Style) -> String {
    let boxed = |warning: Warning| panel::render(warning.title, &warning.text(), style) + "\n";
    Warning::all_from_report(report).into_iter().map(boxed).collect()
}

/// Renders the most frequent errors in a line each.
fn errors(report: &RunReport, style: Style) -> String {
    let width = usize::from(style.width);
    let mut text = String::new();
    for error in report.failures().take(MAX_ERRORS) {
        let times = super::count(error.count);
        let line = format!("{times} × {}", reason(&error.error_details));
        text.push_str(&style.red(&cut(&printable(&line), width)));
        text.push('\n');
    }
    if let more @ 1.. = report.failures().count().saturating_sub(MAX_ERRORS) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{more} more kinds of errors; profile_export_console.txt has all");
    }
    text
}

/// Returns why a request failed: `503 Service Unavailable: the queue is full`.
pub(super) fn reason(error: &RequestError) -> String {
    let code = error.code.map(|code| format!("{code} ")).unwrap_or_default();
    format!("{code}{}: {}", error.name, error.message)
}

/// Shortens a line to a width, with an ellipsis.
pub(super) fn cut(line: &str, width: usize) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= width {
        return line;
    }
    line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Renders the early end, the reasons of the verdict and the warnings in a line each, and how to read
/// more about them.
fn advice(report: &RunReport, style: Style) -> String {
    let reasons = report.outcome.client_health.iter().flat_map(|health| &health.reasons);
    let mut lines: Vec<(String, String)> =
        reasons.map(|reason| (reason.name.to_string(), reason.finding.clone())).collect();
    lines.extend(
        Warning::all_from_report(report).into_iter().map(|one| (one.name.to_owned(), one.summary)),
    );
    let mut text = String::new();
    let mut add = |line: &str, name: Option<&str>| {
        let lines = panel::wrapped_line(&printable(line), style);
        let lines = match name {
            // Colour codes do not take any width, so they are added last.
            Some(name) => lines.replacen(name, &style.yellow(name), 1),
            None => lines,
        };
        text.push_str(&lines);
    };
    if let Some(early) = &report.outcome.ended_early {
        add(&format!("Early end: {early}"), None);
    }
    for (name, what) in &lines {
        add(&format!("! {name}: {what}"), Some(name));
    }
    match lines.as_slice() {
        [] => {}
        [(only, _)] => add(&format!("What to do: aiperf explain {only}"), None),
        [(first, _), ..] => {
            add(&format!("What to do: aiperf explain NAME, such as aiperf explain {first}"), None);
        }
    }
    text
}
