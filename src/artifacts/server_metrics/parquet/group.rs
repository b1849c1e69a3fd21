//! The rows of a row group, by column.

use std::io::Write;
use std::sync::Arc;

use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::artifacts::parquet::FlatColumn as Column;

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

impl RowGroup {
    pub(super) fn new(labels: Vec<&str>) -> Self {
        Self {
            series: ["endpoint_url", "metric_name", "metric_type", "unit", "description"]
                .map(Column::new),
            timestamps: Column::new(super::TIMESTAMP),
            labels: labels.into_iter().map(Column::new).collect(),
            value: Column::new("value"),
            sum: Column::new("sum"),
            count: Column::new("count"),
            bucket_le: Column::new("bucket_le"),
            bucket_count: Column::new("bucket_count"),
        }
    }

    pub(super) fn schema(&self) -> Result<Type, ParquetError> {
        let mut fields = Vec::new();
        for column in &self.series {
            fields.push(column.schema()?);
        }
        fields.push(self.timestamps.schema()?);
        for label in &self.labels {
            fields.push(label.schema()?);
        }
        for column in [&self.value, &self.sum, &self.count] {
            fields.push(column.schema()?);
        }
        fields.push(self.bucket_le.schema()?);
        fields.push(self.bucket_count.schema()?);
        let fields = fields.into_iter().map(Arc::new).collect();
        Type::group_type_builder("sample").with_fields(fields).build()
    }

    /// Returns the number of rows that are not written yet.
    pub(super) const fn rows(&self) -> usize {
        self.timestamps.rows()
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
            column.write(&mut group)?;
        }
        self.timestamps.write(&mut group)?;
        for column in &mut self.labels {
            column.write(&mut group)?;
        }
        for column in [&mut self.value, &mut self.sum, &mut self.count] {
            column.write(&mut group)?;
        }
        self.bucket_le.write(&mut group)?;
        self.bucket_count.write(&mut group)?;
        group.close()?;
        Ok(())
    }
}
