//! Comparisons of runs, as tables and as Markdown.

use std::fmt::Write as _;

use comfy_table::CellAlignment;
use serde_json::Value;

use super::{Style, printable, table};
use crate::judge::compare::{Compared, Conclusion, Difference, Finding, Method, Row};
use crate::judge::{Comparison, Reading};

/// Maximum number of differences that are listed.
const MAX_DIFFERENCES: usize = 20;

const HEADER: [&str; 7] = ["", "Metric", "BASE", "NEW", "Difference", "Interval", "Finding"];

/// Renders a comparison.
#[must_use]
pub(crate) fn render(comparison: &Comparison, style: Style) -> String {
    let compared = &comparison.compared;
    let rows = compared.rows.iter().map(cells);
    let mut text = table::lined(&title(comparison), HEADER, rows, style, |column| match column {
        0 | 1 | 6 => CellAlignment::Left,
        _ => CellAlignment::Right,
    });
    for line in notes(comparison) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "\n{}\n", conclusion(compared));
    text
}

/// Renders a comparison as Markdown.
#[must_use]
pub(crate) fn markdown(comparison: &Comparison) -> String {
    let cell = |text: &str| printable(text).replace('|', "\\|").replace('<', "&lt;");
    let line = |cells: &[String; 7]| {
        let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = format!(
        "### {}\n\n**{}**\n\n",
        title(comparison).replace('<', "&lt;"),
        conclusion(&comparison.compared)
    );
    text += &line(&HEADER.map(str::to_owned));
    text += "| --- | --- | ---: | ---: | ---: | ---: | --- |\n";
    text.extend(comparison.compared.rows.iter().map(|row| line(&cells(row))));
    text += "\n";
    for note in notes(comparison) {
        let _ = writeln!(text, "- {}", cell(&note));
    }
    text + "\n"
}

fn title(comparison: &Comparison) -> String {
    printable(&format!("aiperf | {} compared with {}", comparison.new, comparison.base))
}

fn cells(row: &Row) -> [String; 7] {
    let with_unit = |value: Option<f64>| {
        value.map_or_else(|| "N/A".to_owned(), |value| Reading::Number(value).to_string())
    };
    let percent = |value: f64| format!("{value:+.1}%");
    let signed = |value: f64| {
        let sign = if value > 0.0 { "+" } else { "" };
        format!("{sign}{}", Reading::Number(value))
    };
    let difference = row.difference_percent.map(percent).or(row.difference.map(signed));
    let interval = match (row.interval_percent, row.interval) {
        (Some([low, high]), _) => format!("{} to {}", percent(low), percent(high)),
        (None, Some([low, high])) => format!("{} to {}", signed(low), signed(high)),
        (None, None) => "N/A".to_owned(),
    };
    [
        if row.decides { "*" } else { "" }.to_owned(),
        format!("{} {} ({})", row.metric, row.statistic, row.unit),
        with_unit(row.base),
        with_unit(row.new),
        difference.unwrap_or_else(|| "N/A".to_owned()),
        interval,
        row.finding.as_str().to_owned(),
    ]
}

fn notes(comparison: &Comparison) -> Vec<String> {
    let compared = &comparison.compared;
    let level = 100.0 * compared.interval_level;
    let method = match compared.method {
        Method::Bootstrap => "block bootstrap over requests",
        Method::Welch => "Welch's t over runs",
    };
    let mut notes = vec![format!(
        "Intervals: {method}, {level:.2}% each, so that the rows marked * have {:.4}% together.",
        100.0 * compared.confidence
    )
    .replace(".0000%", "%")];
    let row_note = |row: &Row| {
        let gate = row.gate.as_ref().map(|gate| format!(" ({gate})")).unwrap_or_default();
        let note = row.note.as_ref()?;
        Some(format!("{} {}{gate}: {note}.", row.metric, row.statistic))
    };
    match &compared.obstacle {
        Some(why) => notes.push(format!("Nothing can be concluded: {why}.")),
        None => notes.extend(compared.rows.iter().filter_map(row_note)),
    }
    let shown = comparison.differences.iter().take(MAX_DIFFERENCES).map(|difference| {
        let Difference { path, base, new } = difference;
        format!("Differs: {path}: {} -> {}", short(base), short(new))
    });
    notes.extend(shown);
    if let more @ 1.. = comparison.differences.len().saturating_sub(MAX_DIFFERENCES) {
        notes.push(format!("{more} more differences; --format json lists all."));
    }
    notes.iter().map(|note| printable(note)).collect()
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

fn conclusion(compared: &Compared) -> String {
    let names = |finding| {
        let rows = compared.rows.iter().filter(|row| row.decides && row.finding == finding);
        rows.map(|row| format!("{} {}", row.metric, row.statistic)).collect::<Vec<_>>().join(", ")
    };
    match compared.outcome {
        Conclusion::Regression => format!("Regression: {}.", names(Finding::Regression)),
        Conclusion::CannotTell => match names(Finding::CannotTell).as_str() {
            "" => "Cannot tell: the runs have none of the metrics.".to_owned(),
            rows => format!("Cannot tell: {rows}."),
        },
        Conclusion::NoRegression => "No regression.".to_owned(),
    }
}
