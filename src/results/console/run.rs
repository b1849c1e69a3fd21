//! What is shown of a run.

use std::fmt::Write as _;

use base::redact::printable;
use measure::metrics::health::Verdict;
use measure::metrics::steady::Unsteady;
use measure::metrics::time_breakdown::TimeBreakdown;

use super::layout::Table;
use super::screen::{LINES, Screen, rank};
use super::style::Style;
use super::{
    failed, gates, gpu, groups, headline, health, highlights, panel, server_metrics, table,
};
use crate::run::{ClientTables, RunReport};
use crate::tables;
use crate::warnings::{Level, Warning};

/// Maximum number of errors that the terminal shows; the file has all.
const MAX_ERRORS: usize = 2;

/// Maximum number of warnings on the screen of a run.
const MAX_WARNINGS: usize = 5;

/// Number of rows of metrics with a distribution that the screen always has.
const FEWEST_ROWS: usize = 3;

/// Renders `profile_export_console.txt`, which has all tables, and the whole text of each warning.
#[must_use]
pub fn render_file(report: &RunReport) -> String {
    let style = Style::FILE;
    let mut text = headline::header(report, style) + "\n";
    text.push_str(&tables(report, ClientTables::All, style));
    text.push_str(&headline::table(report, None, style));
    text.push_str(&headline::table_note(report, style));
    text.push('\n');
    text.extend(highlights::lines(report, style));
    if report.failures().next().is_some() {
        text.push_str(&table::errors(report.failures(), style));
        text.push('\n');
    }
    text + &details(report, &[], style)
}

/// Renders what the terminal shows of a run: one screen, or all tables if they were asked for.
#[must_use]
pub fn render(report: &RunReport, style: Style) -> String {
    let asked = report.run.tables.client;
    let tables = tables(report, asked, style);
    if failed::has_failed(report) {
        return tables + &failed::render(report, style).fitted(LINES);
    }
    match asked {
        ClientTables::Summary => tables + &screen(report, style).fitted(LINES),
        ClientTables::All => tables + &all(report, style),
    }
}

/// Returns the screen of a run that had results.
fn screen(report: &RunReport, style: Style) -> Screen {
    let mut screen = Screen::default();
    headline::add(report, &mut screen, style);
    screen.add(rank::BLANK, "\n".to_owned());
    let all = headline::row_count(report);
    screen.add_forms((FEWEST_ROWS.min(all)..=all).rev().map(|most| {
        let rank = if most > FEWEST_ROWS { rank::ROW } else { rank::KEPT };
        (rank, headline::table(report, Some(most), style))
    }));
    screen.add(rank::NOTE, headline::table_note(report, style));
    screen.add(rank::BLANK, "\n".to_owned());
    for group in groups::all(report, style) {
        screen.add_forms(group);
    }
    for line in highlights::lines(report, style) {
        screen.add(rank::HIGHLIGHT, line);
    }
    screen.add(rank::DATASET, headline::percentiles_note(report, style));
    screen.add(rank::KEPT, health::verdicts(report, false, style));
    screen.add(rank::KEPT, gates::line(&report.gates(), style));
    screen.add(rank::ERROR, errors(report, style));
    screen.add_forms(advice(report, style));
    screen
}

/// Renders all that is said of a run, however long it is.
fn all(report: &RunReport, style: Style) -> String {
    let mut text = headline::header(report, style) + "\n";
    text.push_str(&headline::table(report, None, style));
    text.push_str(&headline::table_note(report, style));
    text.push('\n');
    text.extend(highlights::lines(report, style));
    text.push_str(&headline::percentiles_note(report, style));
    text.push_str(&headline::steady_note(report, style));
    text.push_str(&health::verdicts(report, true, style));
    text.push_str(&gates::line(&report.gates(), style));
    text.push_str(&errors(report, style));
    text.extend(told(report).iter().map(|line| wrapped_told(line, style)));
    text
}

/// Renders the whole text of what is told of a run in a line each: verdicts with their reasons, the
/// early end, warnings but those with the names `stated`.
#[must_use]
pub(crate) fn details(report: &RunReport, stated: &[&str], style: Style) -> String {
    let mut text = warnings(report, stated, style);
    if let Some(early) = &report.outcome.ended_early {
        // Writing to a string does not fail.
        let _ = writeln!(text, "Early end: {early}\n");
    }
    text + &health::details(report, style)
}

/// Renders the tables that were asked for besides that of the first screen.
fn tables(report: &RunReport, asked: ClientTables, style: Style) -> String {
    let mut text: String =
        table::of_groups(report, asked).map(|table| Table::render_table(&table, style)).collect();
    if asked == ClientTables::All {
        let of_run = tables::of_run(report);
        text.extend(of_run.iter().map(|table| Table::render_table(table, style)));
        let missing = missing(report).map(|line| panel::wrapped(&line, style.width.into()));
        text.extend(missing.map(|lines| lines.join("\n") + "\n\n"));
        text.push_str(&gpu::render(report, style));
        text.push_str(&gates::render(&report.gates(), style));
    }
    if report.run.tables.server_metrics {
        let metrics = report.server_metrics.as_ref().map(|metrics| &metrics.report);
        text.push_str(&server_metrics::render(metrics, style));
    }
    text
}

/// Returns why tables are missing that the report could have.
fn missing(report: &RunReport) -> impl Iterator<Item = String> {
    let steady = match &report.steady_state {
        Err(reason) if *reason != Unsteady::UnknownLoad => {
            Some(format!("No steady state: {reason}"))
        }
        _ => None,
    };
    let breakdown = match &report.outcome.time_breakdown {
        Some(TimeBreakdown::None { reason, .. }) => Some(format!("No time breakdown: {reason}")),
        _ => None,
    };
    [steady, breakdown].into_iter().flatten()
}

/// Renders each warning in a box, but those with the names `stated`.
fn warnings(report: &RunReport, stated: &[&str], style: Style) -> String {
    let boxed = |warning: Warning| panel::render(warning.title, &warning.text(), style) + "\n";
    let warnings = Warning::all_from_report(report).into_iter();
    warnings.filter(|warning| !stated.contains(&warning.name)).map(boxed).collect()
}

/// Renders the errors besides the most frequent one in a line each.
pub(super) fn errors(report: &RunReport, style: Style) -> String {
    let width = usize::from(style.width);
    let mut text = String::new();
    for error in report.failures().skip(1).take(MAX_ERRORS) {
        let times = super::count(error.count);
        let line = format!("{times} × {}", error.error_details.in_words());
        text.push_str(&style.red(&cut(&printable(&line), width)));
        text.push('\n');
    }
    if let more @ 1.. = report.failures().count().saturating_sub(1 + MAX_ERRORS) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{more} more kinds of errors; profile_export_console.txt has all");
    }
    text
}

/// Shortens a line to a width, with an ellipsis.
pub(super) fn cut(line: &str, width: usize) -> String {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= width {
        return line;
    }
    line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Wraps a text into lines of which at most `most` are shown, in red.
pub(super) fn bounded_lines(text: &str, most: usize, style: Style) -> String {
    let text = panel::wrapped_line(text, style);
    let ellipsis = if text.lines().count() > most { "…" } else { "" };
    let lines: Vec<&str> = text.lines().take(most).collect();
    let lines = lines.join("\n") + ellipsis;
    lines.lines().map(|line| style.red(line) + "\n").collect()
}

/// A fact on a run in a line, with the name that `aiperf explain` knows.
struct Told {
    name: String,
    what: String,
}

/// Returns the reasons of the verdict and the warnings, the most important first.
fn told(report: &RunReport) -> Vec<Told> {
    let health = report.outcome.client_health.as_ref();
    let is_invalid = health.is_some_and(|it| it.verdict == Some(Verdict::Invalid));
    let reasons = health.into_iter().flat_map(|health| &health.reasons).map(|reason| {
        let (name, what) = (reason.name.to_string(), reason.finding.clone());
        (if is_invalid { 0 } else { 2 }, Told { name, what })
    });
    let warnings = Warning::all_from_report(report).into_iter().map(|warning| {
        let order = if warning.level == Level::Bad { 1 } else { 3 };
        (order, Told { name: warning.name.to_owned(), what: warning.summary })
    });
    let mut all: Vec<(u8, Told)> = reasons.chain(warnings).collect();
    all.sort_by_key(|(order, _)| *order);
    all.into_iter().map(|(_, told)| told).collect()
}

fn wrapped_told(told: &Told, style: Style) -> String {
    let line = printable(&format!("! {}: {}", told.name, told.what));
    // Colour codes do not take any width, so they are added last.
    panel::wrapped_line(&line, style).replacen(&told.name, &style.yellow(&told.name), 1)
}

/// Renders the early end, the reasons of the verdict and the warnings in a line each, and how to read
/// more about them: as forms with fewer and fewer of them.
fn advice(report: &RunReport, style: Style) -> Vec<(u8, String)> {
    let early = report.outcome.ended_early.as_ref().map(|early| format!("Early end: {early}"));
    let early = early.map(|it| panel::wrapped_line(&printable(&it), style)).unwrap_or_default();
    let told = told(report);
    let form = |shown: usize| {
        let lines = told.iter().take(shown).map(|line| wrapped_told(line, style));
        let directory = printable(&report.run.setup.directory.display().to_string());
        let directory = if directory.is_empty() { "DIR".to_owned() } else { directory };
        let more = match told.len() - shown {
            0 if told.is_empty() => String::new(),
            0 => panel::wrapped_line(&format!("What to do: aiperf explain {directory}"), style),
            more => panel::wrapped_line(&format!("{more} more: aiperf explain {directory}"), style),
        };
        let rank = match shown {
            0 | 1 => rank::KEPT,
            2 => rank::FIRST_WARNING,
            shown => rank::LAST_WARNING + (MAX_WARNINGS - shown) as u8,
        };
        (rank, early.clone() + &lines.collect::<String>() + &more)
    };
    let most = told.len().min(MAX_WARNINGS);
    (most.min(1)..=most).rev().map(form).collect()
}
