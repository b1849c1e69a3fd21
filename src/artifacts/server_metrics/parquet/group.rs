//! The rows of a row group, by column.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

/// The cells that are the same in every row of a series.
pub(super) struct SeriesCells {
    pub(super) endpoint_url: ByteArray,
    pub(super) metric_name: ByteArray,
    pub(super) metric_type: ByteArray,
    pub(super) unit: Option<ByteArray>,
    pub(super) description: Option<ByteArray>,
    /// One for each label column.
    pub(super) labels: Vec<Option<ByteArray>>,
}

/// The cells that differ between rows.
#[derive(Default)]
pub(super) struct SampleCells {
    pub(super) timestamp_ns: i64,
    pub(super) value: Option<f64>,
    pub(super) sum: Option<f64>,
    pub(super) count: Option<f64>,
    pub(super) bucket_le: Option<ByteArray>,
    pub(super) bucket_count: Option<f64>,
}

/// The rows, by column.
pub(super) struct RowGroup {
    /// URL, name, type, unit and description.
    series: [Column<ByteArray>; 5],
    timestamps: Column<i64>,
    labels: Vec<Column<ByteArray>>,
    value: Column<f64>,
    sum: Column<f64>,
    count: Column<f64>,
    bucket_le: Column<ByteArray>,
    bucket_count: Column<f64>,
}

/// A column whose cells may be null.
struct Column<T> {
    name: String,
    /// 1 for a value.
    definition: Vec<i16>,
    values: Vec<T>,
}

impl<T: Clone> Column<T> {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), definition: Vec::new(), values: Vec::new() }
    }

    fn push(&mut self, value: Option<T>) {
        self.definition.push(value.is_some().into());
        self.values.extend(value);
    }

    fn repeat(&mut self, value: Option<&T>, times: usize) {
        self.definition.extend(std::iter::repeat_n(i16::from(value.is_some()), times));
        if let Some(value) = value {
            self.values.extend(std::iter::repeat_n(value.clone(), times));
        }
    }

    /// Writes the column and empties it.
    fn write<D: DataType<T = T>, W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        let Some(mut column) = group.next_column()? else { return Ok(()) };
        column.typed::<D>().write_batch(&self.values, Some(&self.definition), None)?;
        column.close()?;
        self.values.clear();
        self.definition.clear();
        Ok(())
    }
}

impl RowGroup {
    pub(super) fn new(labels: Vec<&str>) -> Self {
        Self {
            series: ["endpoint_url", "metric_name", "metric_type", "unit", "description"]
                .map(Column::new),
            timestamps: Column::new("timestamp_ns"),
            labels: labels.into_iter().map(Column::new).collect(),
            value: Column::new("value"),
            sum: Column::new("sum"),
            count: Column::new("count"),
            bucket_le: Column::new("bucket_le"),
            bucket_count: Column::new("bucket_count"),
        }
    }

    pub(super) fn schema(&self) -> Result<Type, ParquetError> {
        let field = |name: &str, physical, logical| {
            Type::primitive_type_builder(name, physical)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(logical)
                .build()
                .map(Arc::new)
        };
        let text = |column: &Column<ByteArray>| {
            field(&column.name, PhysicalType::BYTE_ARRAY, Some(LogicalType::String))
        };
        let number = |column: &Column<f64>| field(&column.name, PhysicalType::DOUBLE, None);
        let mut fields: Vec<_> = self.series.iter().map(text).collect::<Result<_, _>>()?;
        fields.push(field(&self.timestamps.name, PhysicalType::INT64, None)?);
        for label in &self.labels {
            fields.push(text(label)?);
        }
        for column in [&self.value, &self.sum, &self.count] {
            fields.push(number(column)?);
        }
        fields.push(text(&self.bucket_le)?);
        fields.push(number(&self.bucket_count)?);
        Type::group_type_builder("sample").with_fields(fields).build()
    }

    /// Returns the number of rows that are not written yet.
    pub(super) const fn rows(&self) -> usize {
        self.timestamps.definition.len()
    }

    /// Adds the row's own cells; the others are added by [`RowGroup::repeat`].
    pub(super) fn push(&mut self, cells: SampleCells) {
        self.timestamps.push(Some(cells.timestamp_ns));
        self.value.push(cells.value);
        self.sum.push(cells.sum);
        self.count.push(cells.count);
        self.bucket_le.push(cells.bucket_le);
        self.bucket_count.push(cells.bucket_count);
    }

    /// Adds the cells that the last `rows` rows have in common.
    pub(super) fn repeat(&mut self, series: &SeriesCells, rows: usize) {
        let cells = [
            Some(&series.endpoint_url),
            Some(&series.metric_name),
            Some(&series.metric_type),
            series.unit.as_ref(),
            series.description.as_ref(),
        ];
        for (column, cell) in self.series.iter_mut().zip(cells) {
            column.repeat(cell, rows);
        }
        for (column, cell) in self.labels.iter_mut().zip(&series.labels) {
            column.repeat(cell.as_ref(), rows);
        }
    }

    /// Writes the rows, in the order of the schema, and empties the columns.
    pub(super) fn write<W: Write + Send>(
        &mut self,
        writer: &mut SerializedFileWriter<W>,
    ) -> Result<(), ParquetError> {
        let mut group = writer.next_row_group()?;
        for column in &mut self.series {
            column.write::<ByteArrayType, W>(&mut group)?;
        }
        self.timestamps.write::<Int64Type, W>(&mut group)?;
        for column in &mut self.labels {
            column.write::<ByteArrayType, W>(&mut group)?;
        }
        for column in [&mut self.value, &mut self.sum, &mut self.count] {
            column.write::<DoubleType, W>(&mut group)?;
        }
        self.bucket_le.write::<ByteArrayType, W>(&mut group)?;
        self.bucket_count.write::<DoubleType, W>(&mut group)?;
        group.close()?;
        Ok(())
    }
}
