//! `profile_export.parquet`: one row per request.
//!
//! Rows are collected by column and written as row groups, so that memory is bounded; the file gets
//! its name when its footer is written.

mod again;
mod columns;
mod flat;
pub(super) mod parts;
mod row;

use std::borrow::Cow;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use serde::Serialize;
use tempfile::NamedTempFile;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::decimal::Form;
use super::error::{ArtifactError, WriteFailure};
use super::json::{Entry, exported};
use super::{jsonl, replace};
use crate::metrics::metric::{Kind, RecordValues, Value};
use crate::metrics::tag;
use crate::metrics::{Metric, Registry, ValueType};
use crate::run::{RunDescription, RunReport};

pub(super) use again::Unfit;
pub(crate) use columns::Table;
pub(super) use columns::cells;
pub(super) use flat::FlatColumn;
pub(super) use parts::GrowingTable;
use row::{Row, RunColumns};

/// Number of rows of a row group.
const MAX_ROWS: usize = 8192;
/// Maximum number of list values in a row group: 16 bytes each, including levels.
const MAX_LIST_VALUES: usize = 1 << 20;

/// Metadata key of the run's ID.
const BENCHMARK_ID: &str = "aiperf.benchmark_id";

/// Column that says whether a request meets all objectives.
const GOOD: &str = "good";

/// Version of the columns and of the file's metadata.
const SCHEMA_VERSION: &str = "1.3";

/// The table of requests.
pub(super) struct RecordTable {
    path: PathBuf,
    writer: SerializedFileWriter<NamedTempFile>,
    columns: Vec<Column>,
    run: RunColumns,
    rows: usize,
    failure: Option<ParquetError>,
}

impl std::fmt::Debug for RecordTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordTable").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The source of a column's values.
#[derive(Clone, Copy)]
enum Source {
    /// The same value in all rows.
    Run(OfRun),
    Field(OfRow),
    Metric(&'static Metric),
    /// Whether a request has a value of the metric.
    Has(&'static Metric),
}

/// Returns what a row says of its run.
type OfRun = for<'r> fn(&'r RunColumns) -> Field<'r>;

/// Returns what a row says of its request, other than metrics.
type OfRow = for<'r> fn(&Row<'r>) -> Field<'r>;

/// A value to be added to a column.
enum Field<'a> {
    Absent,
    Int(i64),
    Double(f64),
    Bool(bool),
    Text(Cow<'a, str>),
    /// A text that is the ID of something.
    Id(Uuid),
    List(Cow<'a, [f64]>),
}

impl<'a> Field<'a> {
    fn int(value: u64) -> Self {
        i64::try_from(value).map_or(Self::Absent, Self::Int)
    }

    fn int_or_absent(value: Option<u64>) -> Self {
        value.map_or(Self::Absent, Self::int)
    }

    const fn text(value: &'a str) -> Self {
        Self::Text(Cow::Borrowed(value))
    }

    fn text_or_absent(value: Option<&'a str>) -> Self {
        value.map_or(Self::Absent, Self::text)
    }
}

struct Column {
    name: &'static str,
    source: Source,
    /// 1 for a value; in lists 2 for each element, 1 for an empty list.
    definition: Vec<i16>,
    /// In lists: 0 for the first element of a row, 1 for the others.
    repetition: Vec<i16>,
    values: Values,
}

enum Values {
    Int(Vec<i64>),
    Double(Vec<f64>),
    Bool(Vec<bool>),
    Text(Vec<ByteArray>),
    List(Vec<f64>),
}

impl Column {
    const fn new(name: &'static str, source: Source, values: Values) -> Self {
        Self { name, source, definition: Vec::new(), repetition: Vec::new(), values }
    }

    fn of_metric(metric: &'static Metric) -> Self {
        let values = match metric.value_type {
            ValueType::IntList => Values::List(Vec::new()),
            _ if Form::of(metric) == Form::Int => Values::Int(Vec::new()),
            _ => Values::Double(Vec::new()),
        };
        Self::new(metric.tag.name(), Source::Metric(metric), values)
    }

    /// Adds the column's value for a request.
    fn push(&mut self, field: Field<'_>) {
        match (&mut self.values, field) {
            (Values::Int(values), Field::Int(value)) => values.push(value),
            (Values::Int(values), Field::Double(value)) => values.push(value as i64),
            (Values::Double(values), Field::Double(value)) => values.push(value),
            (Values::Bool(values), Field::Bool(value)) => values.push(value),
            (Values::Text(values), Field::Text(value)) => push_text(values, &value),
            (Values::Text(values), Field::Id(id)) => {
                let mut buffer = [0; Hyphenated::LENGTH];
                values.push(id.hyphenated().encode_lower(&mut buffer).as_bytes().to_vec().into());
            }
            (Values::List(_), Field::List(list)) => {
                self.push_list(list.iter().copied());
                return;
            }
            _ => {
                self.push_nothing();
                return;
            }
        }
        self.definition.push(1);
    }

    /// Adds a list.
    fn push_list(&mut self, list: impl ExactSizeIterator<Item = f64>) {
        let Values::List(values) = &mut self.values else { return self.push_nothing() };
        let (count, places) = (list.len(), list.len().max(1));
        values.extend(list);
        let levels = self.definition.len();
        self.definition.resize(levels + places, if count == 0 { 1 } else { 2 });
        self.repetition.push(0);
        self.repetition.resize(levels + places, 1);
    }

    /// Adds that a request does not have a value.
    fn push_nothing(&mut self) {
        self.definition.push(0);
        if matches!(self.values, Values::List(_)) {
            self.repetition.push(0);
        }
    }

    /// Adds the value of the column's metric.
    fn push_value(&mut self, metric: &Metric, value: Option<&Value>) {
        match value {
            Some(Value::Scalar(value)) => self.push(Field::Double(metric.to_display(*value))),
            Some(Value::List(list)) => {
                self.push_list(list.iter().map(|value| metric.to_display(*value)));
            }
            None => self.push_nothing(),
        }
    }

    /// Returns whether nearly every request has a value of its own: a time or a list of times, a
    /// rate, an ID.
    fn is_of_request(&self) -> bool {
        let is_id = self.name == "x_request_id";
        is_id
            || self.name.ends_with("_ns")
            || matches!(self.values, Values::Double(_) | Values::List(_))
    }

    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let definition = Some(self.definition.as_slice());
        match &self.values {
            Values::Int(values) => {
                writer.typed::<Int64Type>().write_batch(values, definition, None)
            }
            Values::Double(values) => {
                writer.typed::<DoubleType>().write_batch(values, definition, None)
            }
            Values::Bool(values) => {
                writer.typed::<BoolType>().write_batch(values, definition, None)
            }
            Values::Text(values) => {
                writer.typed::<ByteArrayType>().write_batch(values, definition, None)
            }
            Values::List(values) => {
                writer.typed::<DoubleType>().write_batch(values, definition, Some(&self.repetition))
            }
        }
        .map(drop)
    }

    fn clear(&mut self) {
        self.definition.clear();
        self.repetition.clear();
        match &mut self.values {
            Values::Int(values) => values.clear(),
            Values::Double(values) | Values::List(values) => values.clear(),
            Values::Bool(values) => values.clear(),
            Values::Text(values) => values.clear(),
        }
    }

    fn schema(&self) -> Result<Type, ParquetError> {
        let optional = |name, physical| {
            Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL)
        };
        match self.values {
            Values::Int(_) => optional(self.name, PhysicalType::INT64).build(),
            Values::Double(_) => optional(self.name, PhysicalType::DOUBLE).build(),
            Values::Bool(_) => optional(self.name, PhysicalType::BOOLEAN).build(),
            Values::Text(_) => optional(self.name, PhysicalType::BYTE_ARRAY)
                .with_logical_type(Some(LogicalType::String))
                .build(),
            Values::List(_) => list_schema(self.name),
        }
    }
}

/// `optional group name (LIST) { repeated group list { required double element; } }`
fn list_schema(name: &str) -> Result<Type, ParquetError> {
    let element = Type::primitive_type_builder("element", PhysicalType::DOUBLE)
        .with_repetition(Repetition::REQUIRED)
        .build()?;
    let list = Type::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![Arc::new(element)])
        .build()?;
    Type::group_type_builder(name)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(Some(LogicalType::List))
        .with_fields(vec![Arc::new(list)])
        .build()
}

/// Adds a text. That of the row before, which most columns repeat, is shared.
fn push_text(values: &mut Vec<ByteArray>, text: &str) {
    let value = match values.last() {
        Some(last) if last.data() == text.as_bytes() => last.clone(),
        _ => text.into(),
    };
    values.push(value);
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
        let columns = columns(registry);
        let file = replace::beside(path).map_err(refuse)?;
        let writer = schema(&columns)
            .and_then(|schema| SerializedFileWriter::new(file, schema, record_properties(&columns)))
            .map_err(|error| refuse(std::io::Error::other(error)))?;
        let run = RunColumns::of(run);
        let path = path.to_owned();
        Ok(Self { path, writer, columns, run, rows: 0, failure: None })
    }

    /// Collects a request with these `values` of metrics; `field` returns all else. Returns whether
    /// the collected rows are to be written now.
    fn collect<'f>(
        &mut self,
        values: &RecordValues,
        field: impl Fn(&Column, OfRow) -> Field<'f>,
    ) -> bool {
        if self.failure.is_some() {
            return false;
        }
        let Self { columns, run, .. } = self;
        for column in columns {
            match column.source {
                Source::Run(of_run) => column.push(of_run(run)),
                Source::Field(of_row) => column.push(field(column, of_row)),
                Source::Metric(metric) => column.push_value(metric, values.get(metric.tag)),
                Source::Has(metric) => {
                    column.push(Field::Bool(values.get(metric.tag).is_some()));
                }
            }
        }
        self.rows += 1;
        self.holds(1)
    }

    /// Returns whether the collected rows are enough for `groups` row groups.
    fn holds(&self, groups: usize) -> bool {
        self.rows >= groups * MAX_ROWS || self.list_values() >= groups * MAX_LIST_VALUES
    }

    fn list_values(&self) -> usize {
        let list = |column: &Column| match &column.values {
            Values::List(values) => values.len(),
            _ => 0,
        };
        self.columns.iter().map(list).sum()
    }

    fn write_row_group(&mut self) -> Result<(), ParquetError> {
        write_row_group(&mut self.writer, &self.columns)?;
        self.clear();
        Ok(())
    }

    /// Removes the collected rows.
    fn clear(&mut self) {
        self.columns.iter_mut().for_each(Column::clear);
        self.rows = 0;
    }

    /// Writes the footer, which contains the results, and renames the file to its final name.
    pub(super) fn close(mut self, report: &RunReport) -> Result<PathBuf, WriteFailure> {
        let path = self.path.clone();
        let fail = |error: &dyn std::fmt::Display| WriteFailure {
            path: path.clone(),
            error: error.to_string(),
        };
        if self.failure.is_none() && self.rows > 0 {
            self.failure = self.write_row_group().err();
        }
        if let Some(failure) = &self.failure {
            return Err(fail(failure));
        }
        for (key, value) in file_metadata(&self.columns, report) {
            self.writer.append_key_value_metadata(KeyValue::new(key, value));
        }
        let mut file = self.writer.into_inner().map_err(|error| fail(&error))?;
        file.flush().map_err(|error| fail(&error))?;
        file.persist(&path).map_err(|error| fail(&error.error))?;
        Ok(self.path)
    }
}

/// Writes the rows of `columns` as a row group.
fn write_row_group(
    writer: &mut SerializedFileWriter<NamedTempFile>,
    columns: &[Column],
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    let mut columns = columns.iter();
    while let Some(mut writer) = group.next_column()? {
        if let Some(column) = columns.next() {
            column.write(&mut writer)?;
        }
        writer.close()?;
    }
    group.close().map(drop)
}

fn columns(registry: &Registry) -> Vec<Column> {
    let developer_mode = registry.settings().developer_mode;
    let mut columns = row::metadata_columns();
    let rows = registry.presentation().iter().filter_map(|at| registry.rows().get(*at));
    let metrics = rows.copied().filter(|metric| {
        matches!(metric.kind, Kind::Record(_) | Kind::RecordList(_) | Kind::Count(_))
            && jsonl::is_in_records(metric)
            && metric.is_exported(developer_mode)
    });
    columns.extend(metrics.map(|metric| match metric.tag {
        // A column of 1 and null would have an average of 1.
        tag::GOOD_REQUEST_COUNT => Column::new(GOOD, Source::Has(metric), Values::Bool(Vec::new())),
        _ => Column::of_metric(metric),
    }));
    columns
}

fn schema(columns: &[Column]) -> Result<TypePtr, ParquetError> {
    let fields: Result<Vec<_>, _> =
        columns.iter().map(|column| column.schema().map(Arc::new)).collect();
    Ok(Arc::new(Type::group_type_builder("request").with_fields(fields?).build()?))
}

/// Returns the properties of a table.
pub(super) fn properties() -> Arc<WriterProperties> {
    Arc::new(common_properties().build())
}

/// Returns the properties of a table of requests. A dictionary of values that hardly ever repeat
/// takes time, and is larger than the values.
fn record_properties(columns: &[Column]) -> Arc<WriterProperties> {
    let of_requests = columns.iter().filter(|column| column.is_of_request());
    let properties = of_requests.fold(common_properties(), |properties, column| {
        let path = match column.values {
            Values::List(_) => {
                vec![column.name.to_owned(), "list".to_owned(), "element".to_owned()]
            }
            _ => vec![column.name.to_owned()],
        };
        properties.set_column_dictionary_enabled(path.into(), false)
    });
    Arc::new(properties.build())
}

fn common_properties() -> WriterPropertiesBuilder {
    let created_by = concat!("aiperf ", env!("CARGO_PKG_VERSION")).to_owned();
    WriterProperties::builder().set_compression(Compression::SNAPPY).set_created_by(created_by)
}

/// Returns a value as JSON.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Returns the metadata that describes the rows of a run, whose values are strings.
fn description(columns: &[Column], benchmark_id: Uuid) -> Vec<(String, String)> {
    let units: serde_json::Map<_, _> = columns
        .iter()
        .filter_map(|column| match column.source {
            Source::Metric(metric) => {
                Some((metric.tag.name().to_owned(), metric.display_unit.label().into()))
            }
            Source::Run(_) | Source::Field(_) | Source::Has(_) => None,
        })
        .collect();
    vec![
        ("aiperf.schema_version".to_owned(), SCHEMA_VERSION.to_owned()),
        ("aiperf.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        (BENCHMARK_ID.to_owned(), benchmark_id.to_string()),
        ("aiperf.units".to_owned(), json(&units)),
    ]
}

/// Returns the metadata of the whole table, with results as JSON.
fn file_metadata(columns: &[Column], report: &RunReport) -> Vec<(String, String)> {
    let mut metadata = description(columns, report.run.benchmark_id);
    if let Some(health) = &report.outcome.client_health {
        let key = "aiperf.client_health".to_owned();
        metadata.push((key, json(health)));
    }
    for result in exported(report, &report.results) {
        if !matches!(result.metric.kind, Kind::Record(_) | Kind::RecordList(_)) {
            let key = format!("aiperf.metric.{}", result.metric.tag);
            metadata.push((key, json(&Entry::of(result))));
        }
    }
    metadata
}
