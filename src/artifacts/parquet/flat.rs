//! Columns without lists, whose cells may be null.

use std::io::Write;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::Type;

/// A value that a cell may have.
pub(in crate::artifacts) trait Cell: Clone {
    /// Its type in Parquet.
    type Data: DataType<T = Self>;
    /// The physical type of its column.
    const PHYSICAL: PhysicalType;
    /// Whether its column contains text.
    const IS_TEXT: bool = false;
}

impl Cell for i64 {
    type Data = Int64Type;
    const PHYSICAL: PhysicalType = PhysicalType::INT64;
}

impl Cell for f64 {
    type Data = DoubleType;
    const PHYSICAL: PhysicalType = PhysicalType::DOUBLE;
}

impl Cell for ByteArray {
    type Data = ByteArrayType;
    const PHYSICAL: PhysicalType = PhysicalType::BYTE_ARRAY;
    const IS_TEXT: bool = true;
}

/// A column.
pub(in crate::artifacts) struct FlatColumn<T> {
    name: String,
    /// 1 for a value.
    definition: Vec<i16>,
    values: Vec<T>,
}

impl<T: Cell> FlatColumn<T> {
    pub(in crate::artifacts) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), definition: Vec::new(), values: Vec::new() }
    }

    /// Returns the number of cells that are not written yet.
    pub(in crate::artifacts) const fn rows(&self) -> usize {
        self.definition.len()
    }

    pub(in crate::artifacts) fn push(&mut self, value: Option<T>) {
        self.definition.push(value.is_some().into());
        self.values.extend(value);
    }

    pub(in crate::artifacts) fn repeat(&mut self, value: Option<&T>, times: usize) {
        self.definition.extend(std::iter::repeat_n(i16::from(value.is_some()), times));
        if let Some(value) = value {
            self.values.extend(std::iter::repeat_n(value.clone(), times));
        }
    }

    pub(in crate::artifacts) fn schema(&self) -> Result<Type, ParquetError> {
        Type::primitive_type_builder(&self.name, T::PHYSICAL)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(T::IS_TEXT.then_some(LogicalType::String))
            .build()
    }

    /// Writes the column as the next one of the group, and empties it.
    pub(in crate::artifacts) fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        let Some(mut column) = group.next_column()? else { return Ok(()) };
        column.typed::<T::Data>().write_batch(&self.values, Some(&self.definition), None)?;
        column.close()?;
        self.values.clear();
        self.definition.clear();
        Ok(())
    }
}
