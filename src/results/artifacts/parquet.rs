//! `profile_export.parquet`: one row per request.

mod again;
mod finish;
pub(super) mod parts;
mod run;
mod state;

use std::path::Path;

use parquet::errors::ParquetError;
use serde::Serialize;
use uuid::Uuid;

use measure::metrics::fields::{self, FIELDS, Field, FieldValue};
use measure::metrics::metric::{MetricKind, RecordValues, Value};
use measure::metrics::tag;
use measure::metrics::{Metric, Registry, ValueType};

use super::decimal::Form;
use super::entry::{Entry, exported};
use super::error::ArtifactError;
use super::table::{self, Cell, Column, Rows, TableWriter};
use super::{jsonl, replace};
use crate::run::{RunDescription, RunReport};

pub(super) use again::Unfit;
#[cfg(test)]
pub(super) use again::field_of_line;
pub(super) use parts::GrowingTable;
use run::RunColumns;
use state::State;
pub(super) use state::{Observed, Samples};

/// Number of rows of a row group.
const MAX_ROWS: usize = 8192;
/// Maximum number of list values in a row group: 16 bytes each, including levels.
const MAX_LIST_VALUES: usize = 1 << 20;

/// Metadata key of the run's ID.
const BENCHMARK_ID: &str = "aiperf.benchmark_id";

/// Metadata key of the columns that the table could have, but lacks.
const LEFT_OUT: &str = "aiperf.left_out";

/// Column that says whether a request meets all objectives.
const GOOD: &str = "good";

/// Version of the columns and of the file's metadata.
const SCHEMA_VERSION: &str = "1.4";

/// The table of requests.
pub(super) struct RecordTable {
    table: TableWriter,
    /// The source of each column.
    sources: Vec<Source>,
    run: RunColumns,
    failure: Option<ParquetError>,
}

impl std::fmt::Debug for RecordTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordTable").field("path", &self.table.path).finish_non_exhaustive()
    }
}

/// The source of a column's values.
#[derive(Clone, Copy)]
enum Source {
    /// The same value in all rows.
    Run(for<'r> fn(&'r RunColumns) -> Cell<'r>),
    Field(&'static Field),
    Metric(&'static Metric),
    /// Whether a request has a value of the metric.
    Has(&'static Metric),
    /// What servers and GPUs reported, which is known when the table is finished.
    State(State),
}

impl<'r> From<FieldValue<'r>> for Cell<'r> {
    fn from(value: FieldValue<'r>) -> Self {
        match value {
            FieldValue::Int(value) => Self::int(value),
            FieldValue::Count(count) => Self::Int(count.into()),
            FieldValue::Bool(value) => Self::Bool(value),
            FieldValue::Text(text) => Self::Text(text),
            FieldValue::Id(id) => Self::Id(id),
            FieldValue::List(list) => Self::List(list.into()),
            FieldValue::Times(_) | FieldValue::Absent => Self::Absent,
        }
    }
}

impl RecordTable {
    /// Creates the table of a run with the metrics of `registry`.
    pub(super) fn create(
        path: &Path,
        registry: &Registry,
        run: &RunDescription,
    ) -> Result<Self, ArtifactError> {
        let refuse = |why| ArtifactError::NotWritable { path: path.to_owned(), why };
        replace::check(path)?;
        let (sources, columns) = columns(registry).into_iter().unzip();
        let file = replace::beside(path).map_err(refuse)?;
        let table = TableWriter::begin(path, file, Rows::new("request", columns))
            .map_err(|error| refuse(std::io::Error::other(error)))?;
        Ok(Self { table, sources, run: RunColumns::from_description(run), failure: None })
    }

    /// Collects a request with these `values` of metrics; `field` returns its fields. Returns whether
    /// the collected rows are to be written now.
    fn collect<'f>(
        &mut self,
        values: &RecordValues,
        field: impl Fn(&'static Field) -> FieldValue<'f>,
    ) -> bool {
        if self.failure.is_some() {
            return false;
        }
        for (column, source) in self.table.rows.columns.iter_mut().zip(&self.sources) {
            match *source {
                Source::Run(of_run) => column.push(of_run(&self.run)),
                Source::Field(of_row) => column.push(field(of_row).into()),
                Source::Metric(metric) => push_metric(column, metric, values.get(metric.tag)),
                Source::Has(metric) => {
                    column.push(Cell::Bool(values.get(metric.tag).is_some()));
                }
                Source::State(_) => column.push(Cell::Absent),
            }
        }
        self.holds(1)
    }

    /// Returns whether the collected rows are enough for `groups` row groups.
    fn holds(&self, groups: usize) -> bool {
        let rows = &self.table.rows;
        rows.count() >= groups * MAX_ROWS || rows.list_values() >= groups * MAX_LIST_VALUES
    }
}

/// Adds the value of a metric in its display unit.
fn push_metric(column: &mut Column, metric: &Metric, value: Option<&Value>) {
    match value {
        Some(Value::Scalar(value)) => column.push(Cell::Double(metric.to_display(*value))),
        Some(Value::List(list)) => {
            column.push_list(list.iter().map(|value| metric.to_display(*value)));
        }
        None => column.push(Cell::Absent),
    }
}

/// Returns the columns of the table with their sources: those of the run, of fields, of metrics and of
/// servers and GPUs.
fn columns(registry: &Registry) -> Vec<(Source, Column)> {
    let mut columns = run::columns();
    let mut fields: Vec<(u16, &'static Field)> =
        FIELDS.iter().filter_map(|field| Some((field.uses.column?, field))).collect();
    fields.sort_by_key(|(place, _)| *place);
    columns.extend(fields.into_iter().map(|(_, field)| (Source::Field(field), of_field(field))));
    let developer_mode = registry.settings().developer_mode;
    let rows = registry.presentation().iter().filter_map(|at| registry.rows().get(*at));
    let metrics = rows.copied().filter(|metric| {
        matches!(
            metric.kind,
            MetricKind::Record(_) | MetricKind::RecordList(_) | MetricKind::Count(_)
        ) && jsonl::is_in_records(metric)
            && metric.is_exported(developer_mode)
    });
    columns.extend(metrics.map(|metric| match metric.tag {
        // A column of 1 and null would have an average of 1.
        tag::GOOD_REQUEST_COUNT => (Source::Has(metric), Column::bool(GOOD)),
        _ => (Source::Metric(metric), of_metric(metric)),
    }));
    let states = State::ALL.into_iter();
    columns.extend(states.map(|state| (Source::State(state), Column::double(state.column()))));
    columns
}

/// Returns the column of a field. Nearly every request has an ID and times of its own.
fn of_field(field: &Field) -> Column {
    let is_diverse = field.name == "x_request_id" || field.name.ends_with("_ns");
    match field.form {
        fields::Form::Int | fields::Form::Count => Column::int(field.name).diverse(is_diverse),
        fields::Form::Bool => Column::bool(field.name),
        fields::Form::Text | fields::Form::Times => Column::text(field.name).diverse(is_diverse),
        fields::Form::List => Column::list(field.name).diverse(true),
    }
}

fn of_metric(metric: &Metric) -> Column {
    let name = metric.tag.name();
    match metric.value_type {
        ValueType::IntList => Column::list(name).diverse(true),
        _ if Form::for_metric(metric) == Form::Int => {
            Column::int(name).diverse(name.ends_with("_ns"))
        }
        _ => Column::double(name).diverse(true),
    }
}

/// Returns a value as JSON.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Returns the metadata that describes the rows of a run, whose values are strings.
fn description(sources: &[Source], benchmark_id: Uuid) -> table::Metadata {
    let units: serde_json::Map<_, _> = sources
        .iter()
        .filter_map(|source| match source {
            Source::Metric(metric) => {
                Some((metric.tag.name().to_owned(), metric.display_unit.label().into()))
            }
            Source::State(state) => Some((state.column().to_owned(), state.unit().into())),
            Source::Run(_) | Source::Field(_) | Source::Has(_) => None,
        })
        .collect();
    table::metadata(
        SCHEMA_VERSION,
        [(BENCHMARK_ID, benchmark_id.to_string()), ("aiperf.units", json(&units))],
    )
}

/// Returns the metadata of the whole table, with results as JSON.
fn file_metadata(sources: &[Source], report: &RunReport) -> table::Metadata {
    let mut metadata = description(sources, report.run.benchmark_id);
    if let Some(health) = &report.outcome.client_health {
        let key = "aiperf.client_health".to_owned();
        metadata.push((key, json(health)));
    }
    for result in exported(report, &report.results) {
        if !matches!(result.metric.kind, MetricKind::Record(_) | MetricKind::RecordList(_)) {
            let key = format!("aiperf.metric.{}", result.metric.tag);
            metadata.push((key, json(&Entry::from_result(result))));
        }
    }
    metadata
}
