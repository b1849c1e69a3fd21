//! The paths of loads that followed the verdicts on their levels.

use base::setting::Named as _;
use measure::judge::AdaptivePath;
use measure::judge::adaptive::Window;
use measure::metrics::Registry;

use super::{Cell, Column, Table};
use crate::run::RunReport;

/// Returns a table of the windows of each adaptive load.
pub(super) fn adaptive(report: &RunReport) -> impl Iterator<Item = Table> {
    let origin = report.outcome.start_wall_ns;
    report.outcome.adaptive.iter().map(move |path| table(path, origin))
}

fn table(path: &AdaptivePath, origin: u64) -> Table {
    let mut control = path.adaptive.control.name().replace('_', " ");
    if let Some(first) = control.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let judged = path.windows.iter().map(|window| &window.conditions);
    let judged = judged.max_by_key(|conditions| conditions.len());
    let conditions = judged.into_iter().flatten().map(|it| {
        let unit = Registry::row(it.condition.metric).map_or("", |row| row.display_unit.label());
        let name = format!("{} {}", it.condition.metric, it.condition.statistic);
        Column::number(if unit.is_empty() { name } else { format!("{name} ({unit})") })
    });
    let conditions: Vec<Column> = conditions.collect();
    let row = |window: &Window| {
        let observed = |at: usize| window.conditions.get(at).and_then(|it| it.observed);
        let mut cells = vec![
            Cell::Number((window.start_ns as f64 - origin as f64) / 1e9),
            Cell::Number(window.seconds()),
            Cell::Number(window.level),
            Cell::Text(window.stage.name().to_owned()),
            Cell::Count(window.requests.sent()),
            Cell::Count(window.requests.errored + window.requests.unanswered),
        ];
        cells.extend((0..conditions.len()).map(|at| observed(at).into()));
        cells.push(Cell::Text(window.verdict.in_words().to_owned()));
        cells
    };
    let rows = path.windows.iter().map(row).collect();
    let mut columns = vec![
        Column::number("Start (s)").or("s").spare(4),
        Column::number("Time (s)").or("s").spare(1),
        Column::number(control),
        Column::name("Stage").spare(5),
        Column::number("Requests").spare(3),
        Column::number("Failed").spare(2),
    ];
    columns.extend(conditions);
    columns.push(Column::name("Verdict"));
    Table {
        title: format!("Adaptive Load: {}", path.phase),
        note: "The windows in order.".to_owned(),
        columns,
        rows,
        findings: vec![format!("Adaptive load of {}: {}", path.phase, path.finding())],
        ..Table::default()
    }
}
