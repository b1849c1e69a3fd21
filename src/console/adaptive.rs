//! The tables of loads that followed the verdicts on their levels.

use std::fmt::Write as _;

use super::format::{count, four_digits};
use super::layout::{Column, Table};
use super::style::Style;
use crate::judge::AdaptivePath;
use crate::judge::adaptive::{Window, shown};
use crate::metrics::Registry;
use crate::run::RunReport;
use crate::setting::Named as _;

/// Renders the windows of each adaptive load, and what came out.
pub(super) fn render(report: &RunReport, style: Style) -> String {
    let paths = &report.outcome.adaptive;
    let of = |path: &AdaptivePath| {
        let title = format!("aiperf | Adaptive Load: {}", path.phase);
        let text = Table::new(&title, columns(path)).rows(rows(path, report)).render(style);
        text + &finding(path) + "\n\n"
    };
    paths.iter().map(of).collect()
}

/// Returns what came out, in one sentence.
pub(super) fn finding(path: &AdaptivePath) -> String {
    format!("Adaptive load of {}: {}", path.phase, path.finding())
}

fn columns(path: &AdaptivePath) -> Vec<Column> {
    let mut control = path.adaptive.control.name().replace('_', " ");
    if let Some(first) = control.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let fixed = vec![
        Column::number("Start (s)").or("s").spare(3),
        Column::number(control),
        Column::name("Stage").spare(4),
        Column::number("Requests").spare(2),
        Column::number("Failed").spare(1),
    ];
    let judged = path.windows.iter().map(|window| &window.conditions).find(|it| !it.is_empty());
    let conditions = judged.into_iter().flatten().map(|it| {
        let unit = Registry::row(it.condition.metric).map_or("", |row| row.display_unit.label());
        let mut name = format!("{} {}", it.condition.metric, it.condition.statistic);
        if !unit.is_empty() {
            // Writing to a string does not fail.
            let _ = write!(name, " ({unit})");
        }
        Column::number(name)
    });
    fixed.into_iter().chain(conditions).chain([Column::name("Verdict")]).collect()
}

fn rows<'a>(
    path: &'a AdaptivePath,
    report: &'a RunReport,
) -> impl Iterator<Item = Vec<String>> + 'a {
    let origin = report.outcome.start_wall_ns;
    path.windows.iter().map(move |window: &Window| {
        let since = window.start_ns.saturating_sub(origin) as f64 / 1e9;
        let fixed = [
            four_digits(since),
            shown(window.level),
            window.stage.name().to_owned(),
            count(window.requests.sent()),
            count(window.requests.errored + window.requests.unanswered),
        ];
        let most = path.windows.iter().map(|it| it.conditions.len()).max().unwrap_or(0);
        let values = (0..most).map(|at| {
            let observed = window.conditions.get(at).and_then(|it| it.observed);
            observed.map(four_digits).unwrap_or_default()
        });
        let verdict = window.verdict.in_words().to_owned();
        fixed.into_iter().chain(values).chain([verdict]).collect()
    })
}
