//! `profile_export_aiperf_sweep.parquet`: a row for each cell, metric and statistic, and for each part
//! of a latency.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::Value;
use tempfile::NamedTempFile;

use super::super::error::WriteFailure;
use super::super::parquet::properties;
use super::super::replace;
use crate::metrics::metric::Statistic;
use crate::metrics::time_breakdown::Stage;
use crate::multi_run::aggregate::{Across, Dispersion};
use crate::multi_run::sweep::{Cell, Results, plain};

/// Version of the columns.
const SCHEMA_VERSION: &str = "1.1";

/// A row of the table.
struct Line<'a> {
    cell: &'a Cell,
    metric: String,
    statistic: Statistic,
    /// The part of the latency, if it is divided.
    stage: Option<Stage>,
    unit: &'static str,
    across: &'a Across,
}

/// The optional values of a column.
enum Column {
    Int(Vec<Option<i64>>),
    Double(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

/// Writes the file.
pub(super) fn write(path: &Path, results: &Results) -> Result<PathBuf, WriteFailure> {
    let fail = |error: String| WriteFailure { path: path.to_owned(), error };
    let file = replace::beside(path).map_err(|error| fail(error.to_string()))?;
    let mut file = fill(file, results).map_err(|error| fail(error.to_string()))?;
    file.flush().map_err(|error| fail(error.to_string()))?;
    file.persist(path).map_err(|error| fail(error.error.to_string()))?;
    Ok(path.to_owned())
}

fn fill(file: NamedTempFile, results: &Results) -> Result<NamedTempFile, ParquetError> {
    let columns = columns(results);
    let fields: Result<Vec<_>, _> =
        columns.iter().map(|(name, column)| column.schema(name).map(Arc::new)).collect();
    let schema = Arc::new(Type::group_type_builder("statistic").with_fields(fields?).build()?);
    let mut writer = SerializedFileWriter::new(file, schema, properties())?;
    let mut group = writer.next_row_group()?;
    let mut columns = columns.iter();
    while let Some(mut writer) = group.next_column()? {
        match columns.next().map(|(_, column)| column) {
            Some(Column::Int(values)) => {
                let (values, levels) = split(values, |value| *value);
                writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
            }
            Some(Column::Double(values)) => {
                let (values, levels) = split(values, |value| *value);
                writer.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
            }
            Some(Column::Text(values)) => {
                let (values, levels) = split(values, |text| ByteArray::from(text.as_str()));
                writer.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
            }
            None => {}
        }
        writer.close()?;
    }
    group.close()?;
    for (key, value) in [
        ("aiperf.schema_version", SCHEMA_VERSION.to_owned()),
        ("aiperf.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("aiperf.sweep_id", results.sweep_id.to_string()),
    ] {
        writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
    }
    writer.into_inner()
}

/// Returns the values that exist, and the definition level of each row.
fn split<T, U>(values: &[Option<T>], of: impl Fn(&T) -> U) -> (Vec<U>, Vec<i16>) {
    let levels = values.iter().map(|value| i16::from(value.is_some())).collect();
    (values.iter().flatten().map(of).collect(), levels)
}

impl Column {
    fn schema(&self, name: &str) -> Result<Type, ParquetError> {
        let optional = |physical| {
            Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL)
        };
        match self {
            Self::Int(_) => optional(PhysicalType::INT64).build(),
            Self::Double(_) => optional(PhysicalType::DOUBLE).build(),
            Self::Text(_) => optional(PhysicalType::BYTE_ARRAY)
                .with_logical_type(Some(LogicalType::String))
                .build(),
        }
    }
}

/// Returns the rows of a cell: its statistics, and the parts of its latencies.
fn lines(cell: &Cell) -> impl Iterator<Item = Line<'_>> {
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
fn columns(results: &Results) -> Vec<(String, Column)> {
    let lines: Vec<Line<'_>> = results.cells.iter().flat_map(lines).collect();
    let int = |of: &dyn Fn(&Line<'_>) -> u64| {
        Column::Int(lines.iter().map(|line| i64::try_from(of(line)).ok()).collect())
    };
    let text =
        |of: &dyn Fn(&Line<'_>) -> Option<String>| Column::Text(lines.iter().map(of).collect());
    let double = |of: &dyn Fn(&Across) -> Option<f64>| {
        Column::Double(lines.iter().map(|line| of(line.across)).collect())
    };
    let spread = |of: fn(&Dispersion) -> f64| double(&|across| across.spread.as_ref().map(of));
    let parameters = results.sweep.parameters.iter().map(|parameter| {
        let values: Vec<Option<&Value>> =
            lines.iter().map(|line| line.cell.variation.values.get(&parameter.path)).collect();
        (parameter.name.clone(), of_parameter(&values))
    });
    let mut columns = vec![
        ("cell_index".to_owned(), int(&|line| line.cell.variation.index)),
        ("cell".to_owned(), text(&|line| Some(line.cell.variation.directory.clone()))),
    ];
    columns.extend(parameters);
    columns.extend(
        [
            ("metric", text(&|line| Some(line.metric.clone()))),
            ("statistic", text(&|line| Some(line.statistic.to_string()))),
            ("stage", text(&|line| line.stage.map(|stage| stage.name().to_owned()))),
            ("unit", text(&|line| Some(line.unit.to_owned()))),
            ("trials", int(&|line| line.across.runs as u64)),
            ("value", double(&|across| Some(across.mean))),
            ("trials_std", spread(|spread| spread.std)),
            ("trials_min", double(&|across| Some(across.min))),
            ("trials_max", double(&|across| Some(across.max))),
            ("ci_low", spread(|spread| spread.ci_low)),
            ("ci_high", spread(|spread| spread.ci_high)),
        ]
        .map(|(name, column)| (name.to_owned(), column)),
    );
    columns
}

/// Returns the values of a parameter: whole numbers, numbers, or text if one is neither.
fn of_parameter(values: &[Option<&Value>]) -> Column {
    let given = || values.iter().flatten();
    if given().all(|value| value.is_i64()) {
        return Column::Int(values.iter().map(|value| value.and_then(Value::as_i64)).collect());
    }
    if given().all(|value| value.is_number()) {
        return Column::Double(values.iter().map(|value| value.and_then(Value::as_f64)).collect());
    }
    Column::Text(values.iter().map(|value| value.map(plain)).collect())
}
