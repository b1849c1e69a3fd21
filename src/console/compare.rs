//! Comparisons of runs, as tables and as Markdown.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use comfy_table::CellAlignment;
use serde_json::Value;

use super::style::Style;
use super::table;
use crate::judge::compare::{
    Conclusion, Difference, Finding, MIN_TRIALS, Method, Needed, PartRow, Row,
};
use crate::judge::{Comparison, Reading};
use crate::redact::printable;

/// Maximum number of differences that are listed.
const MAX_DIFFERENCES: usize = 20;

/// The columns; the first is that of the cell if there are several.
const HEADER: [&str; 7] = ["", "Metric", "BASE", "NEW", "Difference", "Interval", "Finding"];

/// Renders the comparison of two directories: of their runs, or of each cell of their sweeps.
#[must_use]
pub(crate) fn render(cells: &[Comparison], style: Style) -> String {
    let mut text =
        table::lined(&title(cells), header(cells), rows(cells), style, |column| match column {
            0 | 1 | 6 => CellAlignment::Left,
            _ => CellAlignment::Right,
        });
    for line in notes(cells) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "\n{}\n", conclusion(cells));
    text
}

/// Renders what [`render`] does as Markdown.
#[must_use]
pub(crate) fn markdown(cells: &[Comparison]) -> String {
    let cell = |text: &str| printable(text).replace('|', "\\|").replace('<', "&lt;");
    let line = |cells: &[String; 7]| {
        let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = format!(
        "### {}\n\n**{}**\n\n",
        title(cells).replace('<', "&lt;"),
        conclusion(cells).replace('<', "&lt;")
    );
    text += &line(&header(cells).map(str::to_owned));
    text += "| --- | --- | ---: | ---: | ---: | ---: | --- |\n";
    text.extend(rows(cells).map(|row| line(&row)));
    text += "\n";
    for note in notes(cells) {
        let _ = writeln!(text, "- {}", cell(&note));
    }
    text + "\n"
}

/// Returns whether the comparisons are those of the cells of sweeps.
fn are_cells(cells: &[Comparison]) -> bool {
    cells.iter().any(|one| one.cell.is_some())
}

fn header(cells: &[Comparison]) -> [&'static str; 7] {
    let mut header = HEADER;
    if are_cells(cells) {
        header[0] = "Cell";
    }
    header
}

/// Returns the rows of the table: all of a single comparison, of cells those that decide.
fn rows(cells: &[Comparison]) -> impl Iterator<Item = [String; 7]> {
    cells.iter().flat_map(|one| {
        let rows = one.compared.rows.iter();
        let rows = rows.filter(|row| row.decides || one.cell.is_none());
        let parts = one.compared.time_breakdown.iter().filter(|_| one.cell.is_none());
        let rows = rows.map(|row| {
            let mark = if row.decides { "*" } else { "" };
            row_cells(one.cell.as_deref().unwrap_or(mark), row)
        });
        rows.chain(parts.map(part_cells))
    })
}

/// Returns `text` with the name of the cell in front of it.
fn of_cell(comparison: &Comparison, text: &str) -> String {
    match &comparison.cell {
        Some(cell) => format!("{cell}: {text}"),
        None => text.to_owned(),
    }
}

fn title(cells: &[Comparison]) -> String {
    let title = cells.first().map(|one| format!("aiperf | {} compared with {}", one.new, one.base));
    printable(&title.unwrap_or_default())
}

/// Returns the row of a table, after its `first` cell.
fn row_cells(first: &str, row: &Row) -> [String; 7] {
    let with_unit = |value: Option<f64>| {
        value.map_or_else(|| "N/A".to_owned(), |value| Reading::Number(value).to_string())
    };
    let percent = |value: f64| format!("{value:+.1}%");
    let difference = row.difference_percent.map(percent).or(row.difference.map(signed));
    let interval = match (row.interval_percent, row.interval) {
        (Some([low, high]), _) => format!("{} to {}", percent(low), percent(high)),
        (None, Some([low, high])) => format!("{} to {}", signed(low), signed(high)),
        (None, None) => "N/A".to_owned(),
    };
    [
        first.to_owned(),
        format!("{} ({})", name(row), row.unit),
        with_unit(row.base),
        with_unit(row.new),
        difference.unwrap_or_else(|| "N/A".to_owned()),
        interval,
        row.finding.as_str().to_owned(),
    ]
}

/// Returns the row of a part of a latency, which is only shown.
fn part_cells(row: &PartRow) -> [String; 7] {
    let value = |value: Option<f64>| {
        value.map_or_else(|| "N/A".to_owned(), |value| Reading::Number(value).to_string())
    };
    let (interval, finding) = match row.interval_ms {
        None => ("N/A".to_owned(), "not tested"),
        Some([low, high]) => {
            let finding = match (low > 0.0, high < 0.0) {
                (true, _) => "longer",
                (_, true) => "shorter",
                _ => Finding::NotShown.as_str(),
            };
            (format!("{} to {}", signed(low), signed(high)), finding)
        }
    };
    [
        String::new(),
        format!("{}: {} (ms)", row.metric, row.stage.title()),
        value(row.base_ms),
        value(row.new_ms),
        row.difference_ms.map_or_else(|| "N/A".to_owned(), signed),
        interval,
        finding.to_owned(),
    ]
}

/// Formats a difference.
fn signed(value: f64) -> String {
    let sign = if value > 0.0 { "+" } else { "" };
    format!("{sign}{}", Reading::Number(value))
}

fn notes(cells: &[Comparison]) -> Vec<String> {
    let growth = cells.iter().flat_map(|one| {
        one.compared.growth.iter().map(|growth| of_cell(one, &growth.sentence("")))
    });
    let mut notes: Vec<String> = growth.chain(cells.iter().map(intervals)).collect();
    for comparison in cells {
        let row_note = |row: &Row| {
            let gate = row.gate.as_ref().map(|gate| format!(" ({gate})")).unwrap_or_default();
            let note = row.note.as_ref()?;
            Some(of_cell(comparison, &format!("{}{gate}: {note}.", name(row))))
        };
        notes.extend(of_single_runs(comparison));
        let parts = &comparison.compared.time_breakdown;
        if comparison.cell.is_none() && parts.iter().any(|row| row.interval_ms.is_none()) {
            notes.push(format!(
                "Parts of latencies that are not tested require {MIN_TRIALS} runs on both sides."
            ));
        }
        if let Some(why) = &comparison.compared.obstacle {
            notes.push(of_cell(comparison, &format!("Nothing can be concluded: {why}.")));
        } else {
            notes.extend(comparison.compared.rows.iter().filter_map(row_note));
            notes.extend(needed(comparison).map(|text| of_cell(comparison, &text)));
        }
    }
    let differs = |difference: &Difference| {
        let Difference { path, base, new } = difference;
        format!("Differs: {path}: {} -> {}", short(base), short(new))
    };
    let mut lines: Vec<String> = Vec::new();
    for line in cells.iter().flat_map(|one| &one.differences).map(differs) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let more = lines.len().saturating_sub(MAX_DIFFERENCES);
    lines.truncate(MAX_DIFFERENCES);
    notes.extend(lines);
    if more > 0 {
        notes.push(format!("{more} more differences; --format json lists all."));
    }
    let mut seen = BTreeSet::new();
    notes.retain(|note| seen.insert(note.clone()));
    notes.iter().map(|note| printable(note)).collect()
}

/// States how the intervals of a comparison were computed.
fn intervals(comparison: &Comparison) -> String {
    let compared = &comparison.compared;
    let level = 100.0 * compared.interval_level;
    let method = match compared.method {
        Method::Batches => "Student's t over batches of requests",
        Method::Welch => "Welch's t over runs",
        Method::Paired => "signed ranks of pairs of blocks, at every look",
    };
    let rows = if comparison.cell.is_some() { "all rows" } else { "the rows marked *" };
    format!(
        "Intervals: {method}, {level:.2}% each, so that {rows} have {:.4}% together.",
        100.0 * compared.confidence
    )
    .replace(".0000%", "%")
}

/// States what runs one after the other do not show.
fn of_single_runs(comparison: &Comparison) -> Option<String> {
    (comparison.compared.method == Method::Batches && comparison.runs.iter().all(|runs| *runs > 0))
        .then(|| {
            format!(
                "How the machine changed between the runs is not in the intervals: compare \
                 {MIN_TRIALS} or more runs a side (--num-profile-runs), or measure both servers side \
                 by side (aiperf ab)."
            )
        })
}

/// States how much data would tell what is not told yet; `None` if everything that decides is told.
fn needed(comparison: &Comparison) -> Option<String> {
    let rows = comparison.compared.rows.iter().filter(|row| row.decides);
    let rows: Vec<&Row> = rows.filter(|row| row.needed.is_some()).collect();
    let names: Vec<String> = rows.iter().map(|row| name(row)).collect();
    let how = match rows.iter().filter_map(|row| row.needed).max()? {
        Needed::Requests(requests) => format!("--request-count {requests} on both sides"),
        Needed::Runs(runs) => format!("--num-profile-runs {runs} on both sides"),
        Needed::Pairs(pairs) => format!("{pairs} pairs of blocks"),
    };
    Some(format!("To tell {}: {how} would probably do.", names.join(", ")))
}

/// Returns the statistic of a row, such as `request_latency avg`.
fn name(row: &Row) -> String {
    format!("{} {}", row.name(), row.statistic)
}

/// Formats a value in a few characters; `absent` for null.
fn short(value: &Value) -> String {
    const MAX_CHARS: usize = 60;
    let text = match value {
        Value::Null => "absent".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() <= MAX_CHARS {
        return text;
    }
    text.chars().take(MAX_CHARS - 1).chain(['…']).collect()
}

fn conclusion(cells: &[Comparison]) -> String {
    let names = |finding| {
        let of = |one: &Comparison| {
            let rows = one.compared.rows.iter();
            let found = rows.filter(|row| row.decides && row.finding == finding);
            let names: Vec<String> = found.map(name).collect();
            (!names.is_empty()).then(|| of_cell(one, &names.join(", ")))
        };
        cells.iter().filter_map(of).collect::<Vec<_>>().join("; ")
    };
    match cells.iter().map(|one| one.compared.outcome).max() {
        Some(Conclusion::Regression) => format!("Regression: {}.", names(Finding::Regression)),
        Some(Conclusion::CannotTell) | None => match names(Finding::CannotTell).as_str() {
            "" => "Cannot tell: the runs have none of the metrics.".to_owned(),
            rows => format!("Cannot tell: {rows}."),
        },
        Some(Conclusion::NoRegression) => match names(Finding::NotShown).as_str() {
            "" => "No regression.".to_owned(),
            rows => format!("No regression was found. Not shown to be without one: {rows}."),
        },
    }
}
