//! Tables in Parquet: named columns, whose rows are collected and written in groups, so that memory is
//! bounded. A file gets its name when its footer is written.

mod read;

use std::borrow::Cow;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, RowGroupMetaData};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{
    SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter,
};
use parquet::schema::types::{Type, TypePtr};
use tempfile::NamedTempFile;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::error::WriteFailure;
use super::replace;

pub(crate) use read::{Group, Table};

/// A value to be added to a column.
pub(super) enum Cell<'a> {
    Absent,
    Int(i64),
    Double(f64),
    Bool(bool),
    Text(Cow<'a, str>),
    /// A text that many rows share.
    Shared(&'a ByteArray),
    /// A text that is the ID of something.
    Id(Uuid),
    List(Cow<'a, [f64]>),
}

impl<'a> Cell<'a> {
    /// Returns a whole number, absent if it is too large.
    pub(super) fn int(value: impl TryInto<i64>) -> Self {
        value.try_into().map_or(Self::Absent, Self::Int)
    }

    /// Returns a text.
    pub(super) fn text(value: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(value.into())
    }

    /// Returns what `cell` makes of a value, if there is one.
    pub(super) fn any<T>(value: Option<T>, cell: impl Fn(T) -> Self) -> Self {
        value.map_or(Self::Absent, cell)
    }
}

/// A column, with the cells that are not written yet.
pub(super) struct Column {
    pub(super) name: Cow<'static, str>,
    /// 1 for a value; in lists 2 for each element, 1 for an empty list.
    definition: Vec<i16>,
    /// In lists: 0 for the first element of a row, 1 for the others.
    repetition: Vec<i16>,
    values: Values,
    /// Whether values hardly ever repeat. A dictionary of them takes time, and is larger than they are.
    is_diverse: bool,
}

enum Values {
    Int(Vec<i64>),
    Double(Vec<f64>),
    Bool(Vec<bool>),
    Text(Vec<ByteArray>),
    List(Vec<f64>),
}

impl Column {
    const fn new(name: Cow<'static, str>, values: Values) -> Self {
        Self { name, definition: Vec::new(), repetition: Vec::new(), values, is_diverse: false }
    }

    pub(super) fn int(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name.into(), Values::Int(Vec::new()))
    }

    pub(super) fn double(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name.into(), Values::Double(Vec::new()))
    }

    pub(super) fn bool(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name.into(), Values::Bool(Vec::new()))
    }

    pub(super) fn text(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name.into(), Values::Text(Vec::new()))
    }

    /// Creates a column of lists of numbers.
    pub(super) fn list(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name.into(), Values::List(Vec::new()))
    }

    /// Sets whether values hardly ever repeat.
    pub(super) fn diverse(self, is_diverse: bool) -> Self {
        Self { is_diverse, ..self }
    }

    /// Returns an empty column of the same name and type.
    pub(super) fn like(&self) -> Self {
        let values = match self.values {
            Values::Int(_) => Values::Int(Vec::new()),
            Values::Double(_) => Values::Double(Vec::new()),
            Values::Bool(_) => Values::Bool(Vec::new()),
            Values::Text(_) => Values::Text(Vec::new()),
            Values::List(_) => Values::List(Vec::new()),
        };
        Self::new(self.name.clone(), values).diverse(self.is_diverse)
    }

    /// Adds cells.
    pub(super) fn with<'c>(mut self, cells: impl IntoIterator<Item = Cell<'c>>) -> Self {
        cells.into_iter().for_each(|cell| self.push(cell));
        self
    }

    /// Adds the cell of a row.
    pub(super) fn push(&mut self, cell: Cell<'_>) {
        match (&mut self.values, cell) {
            (Values::Int(values), Cell::Int(value)) => values.push(value),
            (Values::Int(values), Cell::Double(value)) => values.push(value as i64),
            (Values::Double(values), Cell::Double(value)) => values.push(value),
            (Values::Bool(values), Cell::Bool(value)) => values.push(value),
            (Values::Text(values), Cell::Text(value)) => push_text(values, &value),
            (Values::Text(values), Cell::Shared(value)) => values.push(value.clone()),
            (Values::Text(values), Cell::Id(id)) => {
                let mut buffer = [0; Hyphenated::LENGTH];
                values.push(id.hyphenated().encode_lower(&mut buffer).as_bytes().to_vec().into());
            }
            (Values::List(_), Cell::List(list)) => return self.push_list(list.iter().copied()),
            _ => return self.push_nothing(),
        }
        self.definition.push(1);
    }

    /// Adds a list.
    pub(super) fn push_list(&mut self, list: impl ExactSizeIterator<Item = f64>) {
        let Values::List(values) = &mut self.values else { return self.push_nothing() };
        let (count, places) = (list.len(), list.len().max(1));
        values.extend(list);
        let levels = self.definition.len();
        self.definition.resize(levels + places, if count == 0 { 1 } else { 2 });
        self.repetition.push(0);
        self.repetition.resize(levels + places, 1);
    }

    /// Adds that a row does not have a value.
    fn push_nothing(&mut self) {
        self.definition.push(0);
        if matches!(self.values, Values::List(_)) {
            self.repetition.push(0);
        }
    }

    /// Writes the cells as the next column of a row group.
    pub(super) fn write_to(&self, rows: &mut GroupWriter<'_>) -> Result<(), ParquetError> {
        let next = rows.next_column()?;
        let mut writer =
            next.ok_or_else(|| ParquetError::General("too many columns".to_owned()))?;
        self.write(&mut writer)?;
        writer.close()
    }

    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        match &self.values {
            Values::Int(values) => self.write_batch::<Int64Type>(writer, values),
            Values::Double(values) | Values::List(values) => {
                self.write_batch::<DoubleType>(writer, values)
            }
            Values::Bool(values) => self.write_batch::<BoolType>(writer, values),
            Values::Text(values) => self.write_batch::<ByteArrayType>(writer, values),
        }
    }

    fn write_batch<D: DataType>(
        &self,
        writer: &mut SerializedColumnWriter<'_>,
        values: &[D::T],
    ) -> Result<(), ParquetError> {
        let repetition = matches!(self.values, Values::List(_)).then_some(&*self.repetition);
        writer.typed::<D>().write_batch(values, Some(&self.definition), repetition).map(drop)
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
        let (physical, logical) = match self.values {
            Values::Int(_) => (PhysicalType::INT64, None),
            Values::Double(_) => (PhysicalType::DOUBLE, None),
            Values::Bool(_) => (PhysicalType::BOOLEAN, None),
            Values::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            Values::List(_) => return list_schema(&self.name),
        };
        Type::primitive_type_builder(&self.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
    }

    /// Returns the path of its values in the schema.
    fn path(&self) -> Vec<String> {
        let below: &[&str] = match self.values {
            Values::List(_) => &["list", "element"],
            _ => &[],
        };
        std::iter::once(&*self.name).chain(below.iter().copied()).map(str::to_owned).collect()
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

/// The collected rows, by column.
pub(super) struct Rows {
    /// The name of a row in the schema.
    name: &'static str,
    pub(super) columns: Vec<Column>,
}

impl Rows {
    /// Creates rows, each of which is a `name`.
    pub(super) const fn new(name: &'static str, columns: Vec<Column>) -> Self {
        Self { name, columns }
    }

    /// Returns the number of rows.
    pub(super) fn count(&self) -> usize {
        // The first column does not have lists.
        self.columns.first().map_or(0, |column| column.definition.len())
    }

    /// Returns the number of values in lists.
    pub(super) fn list_values(&self) -> usize {
        let list = |column: &Column| match &column.values {
            Values::List(values) => values.len(),
            _ => 0,
        };
        self.columns.iter().map(list).sum()
    }

    pub(super) fn clear(&mut self) {
        self.columns.iter_mut().for_each(Column::clear);
    }

    pub(super) fn schema(&self) -> Result<TypePtr, ParquetError> {
        let fields = self.columns.iter().map(|column| column.schema().map(Arc::new));
        let fields = fields.collect::<Result<_, _>>()?;
        Ok(Arc::new(Type::group_type_builder(self.name).with_fields(fields).build()?))
    }

    /// Begins a table with these columns in `file`.
    pub(super) fn begin(&self, file: NamedTempFile) -> Result<FileWriter, ParquetError> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("aiperf ", env!("CARGO_PKG_VERSION")).to_owned());
        let diverse = self.columns.iter().filter(|column| column.is_diverse);
        let properties = diverse.fold(properties, |properties, column| {
            properties.set_column_dictionary_enabled(column.path().into(), false)
        });
        SerializedFileWriter::new(file, self.schema()?, Arc::new(properties.build()))
    }

    /// Writes the rows as a row group.
    pub(super) fn write(&self, file: &mut FileWriter) -> Result<(), ParquetError> {
        let mut group = file.next_row_group()?;
        for column in &self.columns {
            column.write_to(&mut group)?;
        }
        group.close().map(drop)
    }
}

/// The file of a table.
pub(super) type FileWriter = SerializedFileWriter<NamedTempFile>;

/// A row group of a table that is being written.
pub(super) type GroupWriter<'a> = SerializedRowGroupWriter<'a, NamedTempFile>;

/// Copies the column `at` of a group in `file` as the next column of `rows`.
pub(super) fn splice(
    rows: &mut GroupWriter<'_>,
    file: &File,
    group: &RowGroupMetaData,
    at: usize,
) -> Result<(), ParquetError> {
    let column = group.column(at);
    let close = ColumnCloseResult {
        bytes_written: column.compressed_size().cast_unsigned(),
        rows_written: group.num_rows().cast_unsigned(),
        metadata: column.clone(),
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    rows.append_column(file, close)
}

/// A table that is being written.
pub(super) struct TableWriter {
    pub(super) path: PathBuf,
    pub(super) file: FileWriter,
    pub(super) rows: Rows,
}

impl TableWriter {
    /// Begins the table that replaces the file at `path`.
    pub(super) fn create(path: &Path, rows: Rows) -> Result<Self, ParquetError> {
        Self::begin(path, replace::beside(path)?, rows)
    }

    /// Begins the table at `path` in `file`.
    pub(super) fn begin(
        path: &Path,
        file: NamedTempFile,
        rows: Rows,
    ) -> Result<Self, ParquetError> {
        Ok(Self { path: path.to_owned(), file: rows.begin(file)?, rows })
    }

    /// Adds a row, and writes the collected rows if there are `most` of them.
    pub(super) fn push<'c>(
        &mut self,
        cells: impl IntoIterator<Item = Cell<'c>>,
        most: usize,
    ) -> Result<(), ParquetError> {
        for (column, cell) in self.rows.columns.iter_mut().zip(cells) {
            column.push(cell);
        }
        if self.rows.count() < most { Ok(()) } else { self.write_group() }
    }

    /// Writes the collected rows as a row group.
    pub(super) fn write_group(&mut self) -> Result<(), ParquetError> {
        self.rows.write(&mut self.file)?;
        self.rows.clear();
        Ok(())
    }

    /// Writes the footer with this metadata and renames the file to its final name, which it returns.
    pub(super) fn close(mut self, metadata: Metadata) -> Result<PathBuf, ParquetError> {
        if self.rows.count() > 0 {
            self.write_group()?;
        }
        append(&mut self.file, metadata);
        let mut file = self.file.into_inner()?;
        file.flush()?;
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(self.path)
    }
}

/// The keys of a file's metadata and their values.
pub(super) type Metadata = Vec<(String, String)>;

/// Adds metadata to `file`.
pub(super) fn append(file: &mut FileWriter, metadata: Metadata) {
    for (key, value) in metadata {
        file.append_key_value_metadata(KeyValue::new(key, value));
    }
}

/// Returns the metadata that every table has, and `further` ones.
pub(super) fn metadata<'k>(
    schema_version: &str,
    further: impl IntoIterator<Item = (&'k str, String)>,
) -> Metadata {
    let all = [
        ("aiperf.schema_version", schema_version.to_owned()),
        ("aiperf.version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    all.into_iter().chain(further).map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Returns why the table at `path` was not written.
pub(super) fn failure(path: &Path, error: ParquetError) -> WriteFailure {
    let error = match error {
        // Only the cause, since the user knows that it is a file.
        ParquetError::External(cause) => cause.to_string(),
        other => other.to_string(),
    };
    WriteFailure { path: path.to_owned(), error }
}
