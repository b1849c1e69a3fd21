//! `profile_export_aiperf_sweep.parquet`: a row for each cell, metric and statistic, and for each part
//! of a latency.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde_json::Value;

use measure::metrics::metric::Statistic;
use measure::metrics::time_breakdown::Stage;
use measure::multi_run::aggregate::{Across, Dispersion};
use measure::multi_run::sweep::{self, Results, plain};

use super::super::error::WriteFailure;
use super::super::table::{self, Cell, Column, Rows, TableWriter};

/// Version of the columns.
const SCHEMA_VERSION: &str = "1.1";

/// A row of the table.
struct Line<'a> {
    cell: &'a sweep::Cell,
    metric: String,
    statistic: Statistic,
    /// The part of the latency, if it is divided.
    stage: Option<Stage>,
    unit: &'static str,
    across: &'a Across,
}

/// Writes the file.
pub(super) fn write(path: &Path, results: &Results) -> Result<PathBuf, WriteFailure> {
    let table = TableWriter::create(path, Rows::new("statistic", columns(results)));
    let sweep = [("aiperf.sweep_id", results.sweep_id.to_string())];
    table
        .and_then(|table| table.close(table::metadata(SCHEMA_VERSION, sweep)))
        .map_err(|error| table::failure(path, error))
}

/// Returns the rows of a cell: its statistics, and the parts of its latencies.
fn lines(cell: &sweep::Cell) -> impl Iterator<Item = Line<'_>> {
    let statistics = cell.rows.iter().map(move |row| Line {
        cell,
        metric: row.metric.tag.name().to_owned(),
        statistic: row.statistic,
        stage: None,
        unit: row.metric.display_unit.label(),
        across: &row.across,
    });
    let parts = cell.time_breakdown.iter().flatten().flatten().flat_map(move |divided| {
        divided.parts.iter().map(move |part| Line {
            cell,
            metric: format!("time_breakdown.{}", divided.metric.name()),
            statistic: Statistic::Avg,
            stage: Some(part.stage),
            unit: "ms",
            across: &part.mean_ms,
        })
    });
    statistics.chain(parts)
}

/// Returns the columns: the cell, its settings, the statistic, and its values.
fn columns(results: &Results) -> Vec<Column> {
    let lines: Vec<Line<'_>> = results.cells.iter().flat_map(lines).collect();
    let int = |name: &'static str, value: fn(&Line<'_>) -> u64| {
        Column::int(name).with(lines.iter().map(|line| Cell::int(value(line))))
    };
    let text = |name: &'static str, value: for<'l> fn(&'l Line<'_>) -> Option<Cow<'l, str>>| {
        Column::text(name).with(lines.iter().map(|line| Cell::any(value(line), Cell::Text)))
    };
    let double = |name: &'static str, value: &dyn Fn(&Across) -> Option<f64>| {
        let cells = lines.iter().map(|line| Cell::any(value(line.across), Cell::Double));
        Column::double(name).with(cells)
    };
    let spread = |name: &'static str, value: fn(&Dispersion) -> f64| {
        double(name, &|across| across.spread.as_ref().map(value))
    };
    let parameters = results.sweep.parameters.iter().map(|parameter| {
        let values: Vec<Option<&Value>> =
            lines.iter().map(|line| line.cell.variation.values.get(&parameter.path)).collect();
        of_parameter(parameter.name.clone(), &values)
    });
    let mut columns = vec![
        int("cell_index", |line| line.cell.variation.index),
        text("cell", |line| Some((&*line.cell.variation.directory).into())),
    ];
    columns.extend(parameters);
    columns.extend([
        text("metric", |line| Some((&*line.metric).into())),
        text("statistic", |line| Some(line.statistic.to_string().into())),
        text("stage", |line| line.stage.map(|stage| stage.name().into())),
        text("unit", |line| Some(line.unit.into())),
        int("trials", |line| line.across.runs as u64),
        double("value", &|across| Some(across.mean)),
        spread("trials_std", |spread| spread.std),
        double("trials_min", &|across| Some(across.min)),
        double("trials_max", &|across| Some(across.max)),
        spread("ci_low", |spread| spread.ci_low),
        spread("ci_high", |spread| spread.ci_high),
    ]);
    columns
}

/// Returns the column of a parameter: whole numbers, numbers, or text if one is neither.
fn of_parameter(name: String, values: &[Option<&Value>]) -> Column {
    let given = || values.iter().flatten();
    let column = |column: Column, cell: fn(&Value) -> Cell<'_>| {
        column.with(values.iter().map(|value| value.map_or(Cell::Absent, cell)))
    };
    if given().all(|value| value.is_i64()) {
        column(Column::int(name), |value| Cell::any(value.as_i64(), Cell::Int))
    } else if given().all(|value| value.is_number()) {
        column(Column::double(name), |value| Cell::any(value.as_f64(), Cell::Double))
    } else {
        column(Column::text(name), |value| Cell::text(plain(value)))
    }
}
