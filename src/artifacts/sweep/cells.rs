//! `sweep_cells.csv`: a row for each cell, with the statistics by which cells are compared.

use std::io;

use super::super::sections::Sections;
use crate::metrics::Verdict;
use crate::multi_run::aggregate::{Across, Dispersion};
use crate::multi_run::sweep::{COMPARED, Cell, Results, plain};

/// A column of a statistic: the end of its name, and its value.
type Column = (&'static str, fn(&Across) -> Option<f64>);

/// The columns of a statistic. The interval is that of the mean over the runs of a cell.
const COLUMNS: [Column; 3] = [
    ("", |across| Some(across.mean)),
    ("_ci_low", |across| of(across, |spread| spread.ci_low)),
    ("_ci_high", |across| of(across, |spread| spread.ci_high)),
];

fn of(across: &Across, end: fn(&Dispersion) -> f64) -> Option<f64> {
    across.spread.as_ref().map(end)
}

/// Writes the file: always the same columns, in which a cell leaves empty what it does not have. Cells
/// are sorted by their settings.
pub(super) fn write(out: &mut dyn io::Write, results: &Results) -> io::Result<()> {
    let statistics = || COMPARED.iter().flat_map(|(tag, names)| names.iter().map(|it| (*tag, *it)));
    let settings = results.sweep.parameters.iter().map(|parameter| parameter.name.clone());
    let names = statistics().flat_map(|(tag, statistic)| {
        let statistic = if statistic == "avg" { String::new() } else { format!("_{statistic}") };
        COLUMNS.map(|(end, _)| format!("{tag}{statistic}{end}"))
    });
    let facts = ["runs", "client", "feasible", "pareto_optimal"].map(str::to_owned);
    let row = |cell: &Cell| {
        let value = |path| cell.variation.values.get(path).map(plain).unwrap_or_default();
        let settings = results.sweep.parameters.iter().map(|parameter| value(&parameter.path));
        let figures = statistics().flat_map(|(tag, statistic)| {
            let across = cell.row(tag, statistic).map(|row| row.across);
            COLUMNS.map(|(_, value)| {
                let value = across.as_ref().and_then(value).filter(|value| value.is_finite());
                value.map(|value| value.to_string()).unwrap_or_default()
            })
        });
        let has_conditions = !results.sweep.filters.is_empty();
        let facts = [
            cell.trials.successful().count().to_string(),
            cell.verdict().map_or("", Verdict::as_str).to_owned(),
            if has_conditions { cell.is_feasible.to_string() } else { String::new() },
            cell.is_pareto.to_string(),
        ];
        settings.chain(figures).chain(facts).collect()
    };
    let rows = results.in_order().into_iter().map(row);
    Sections::new(out).write(settings.chain(names).chain(facts), rows)
}
