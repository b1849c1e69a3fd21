//! `sweep_cells.csv`: a row for each cell, with the statistics by which cells are compared.

use std::io;

use measure::metrics::Verdict;
use measure::multi_run::sweep::{Cell, Results, plain};

use super::super::sections::Sections;
use crate::tables;
use crate::tables::cells::{COMPARED, CellRow, Figure};

/// The ends of the names of the columns of a statistic. The interval is that of the mean over the runs of a cell.
const ENDS: [&str; 3] = ["", "_ci_low", "_ci_high"];

/// Writes the file: always the same columns, in which a cell leaves empty what it does not have. Cells
/// are sorted by their settings, and scenarios have their names.
pub(super) fn write(out: &mut dyn io::Write, results: &Results) -> io::Result<()> {
    let name = results.sweep.has_scenarios.then(|| "scenario".to_owned());
    let settings = results.sweep.parameters.iter().map(|parameter| parameter.name.clone());
    let settings = name.into_iter().chain(settings);
    let names = COMPARED.iter().filter(|it| !it.is_steady).flat_map(|it| {
        let average = it.statistic == "avg";
        let statistic = if average { String::new() } else { format!("_{}", it.statistic) };
        ENDS.map(|end| format!("{}{statistic}{end}", it.tag))
    });
    let facts = ["runs", "client", "feasible", "pareto_optimal"].map(str::to_owned);
    let text = |value: Option<f64>| {
        value.filter(|value| value.is_finite()).map(|value| value.to_string()).unwrap_or_default()
    };
    let row = |cell: &Cell| {
        let row = CellRow::of_sweep(results, cell);
        let setting = |cell: &tables::Cell| match cell {
            tables::Cell::Setting(value) => plain(value),
            tables::Cell::Text(name) => name.clone(),
            _ => String::new(),
        };
        let figures = row.figures.iter().zip(&COMPARED).filter(|(_, it)| !it.is_steady);
        let figures = figures.flat_map(|(Figure { mean, interval, .. }, _)| {
            let [low, high] = interval.map_or([None; 2], |ends| ends.map(Some));
            [*mean, low, high].map(text)
        });
        let facts = [
            row.runs.to_string(),
            row.verdict.map_or("", Verdict::as_str).to_owned(),
            row.is_feasible.map(|it| it.to_string()).unwrap_or_default(),
            row.is_pareto.to_string(),
        ];
        row.settings.iter().map(setting).chain(figures).chain(facts).collect()
    };
    let rows = results.in_order().into_iter().map(row);
    Sections::new(out).write(settings.chain(names).chain(facts), rows)
}
