//! The table of the cells: a row for each, and a column for each statistic.

use serde_json::{Value, json};

use super::{Cell, Comparison, percent};
use crate::console::Term;
use crate::metrics::tag::MetricTag;
use crate::metrics::{Metric, Registry, Verdict};
use crate::multi_run::sweep::COMPARED;
use crate::report::chart::rounded;
use crate::report::document::Table;

impl Comparison {
    /// Returns the table, which leaves out what no cell has.
    pub(super) fn table(&self) -> Table {
        let statistics = COMPARED
            .iter()
            .flat_map(|(tag, statistics)| statistics.iter().map(|statistic| (*tag, *statistic)));
        let mut columns: Vec<Column<'_>> = (0..self.settings.len())
            .map(|at| {
                let value = move |cell: &Cell| cell.values.get(at).cloned().unwrap_or_default();
                Column::new(self.settings[at].clone(), value)
            })
            .collect();
        for (tag, statistic) in statistics {
            let Some(metric) = Registry::row(tag) else { continue };
            let head = head(metric, statistic);
            let interval = format!("{head}, {}% interval", percent(self.level));
            columns.push(Column::new(head, move |cell| json!(cell.value(tag, statistic))));
            columns
                .push(Column::new(interval, move |cell| json!(interval_of(cell, tag, statistic))));
        }
        let runs = |cell: &Cell| json!((cell.runs.len() > 1).then_some(cell.runs.len()));
        columns.push(Column::new("runs".to_owned(), runs));
        let health = |cell: &Cell| json!(cell.verdict.map(Verdict::as_str));
        columns.push(Column::new("client".to_owned(), health));
        let meets = |cell: &Cell| json!(cell.is_feasible.map(|it| if it { "yes" } else { "no" }));
        columns.push(Column::new("meets the objectives".to_owned(), meets));
        let front = |cell: &Cell| json!(cell.is_pareto.then_some("*"));
        columns.push(Column::new("Pareto".to_owned(), front));
        let is_known = |column: &Column<'_>| self.cells.iter().any(|it| !(column.of)(it).is_null());
        columns.retain(is_known);
        let row = |cell| columns.iter().map(|column| (column.of)(cell)).collect();
        Table {
            title: "Comparison".to_owned(),
            note: String::new(),
            rows: self.cells.iter().map(row).collect(),
            columns: columns.into_iter().map(|column| column.head).collect(),
            requests: Vec::new(),
        }
    }
}

/// A column.
struct Column<'a> {
    head: String,
    of: Box<dyn Fn(&Cell) -> Value + 'a>,
}

impl<'a> Column<'a> {
    fn new(head: String, of: impl Fn(&Cell) -> Value + 'a) -> Self {
        Self { head, of: Box::new(of) }
    }
}

/// The head of the column of a statistic: `TTFT p99 (ms)`.
fn head(metric: &Metric, statistic: &str) -> String {
    let Term { short, unit, .. } = Term::of(metric);
    let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
    let statistic = if statistic == "avg" { String::new() } else { format!(" {statistic}") };
    format!("{short}{statistic}{unit}")
}

fn interval_of(cell: &Cell, tag: MetricTag, statistic: &str) -> Option<String> {
    let interval = cell.interval(tag, statistic)?;
    Some(format!("{} to {}", rounded(interval.low), rounded(interval.high)))
}
