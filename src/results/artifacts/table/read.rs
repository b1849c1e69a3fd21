//! Reads row groups by column, for any file content.

use std::fs::File;
use std::path::Path;

use parquet::basic::Type as PhysicalType;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};

use super::super::open;

/// Number of rows that are read at once.
const BATCH: usize = 1 << 13;

/// Reads all cells of a column without lists, as many as the group has rows.
fn cells<D: DataType>(
    reader: &mut ColumnReaderImpl<D>,
    group: &dyn RowGroupReader,
) -> Result<Vec<Option<D::T>>, ParquetError> {
    let mut cells = Vec::new();
    let mut definition = Vec::new();
    let mut values = Vec::new();
    loop {
        definition.clear();
        values.clear();
        let (rows, _, _) = reader.read_records(BATCH, Some(&mut definition), None, &mut values)?;
        if rows == 0 {
            break;
        }
        let mut values = values.drain(..);
        if definition.is_empty() {
            cells.extend(values.map(Some));
        } else {
            let next = |level: &i16| if *level > 0 { values.next() } else { None };
            cells.extend(definition.iter().map(next));
        }
    }
    check_rows(cells.len(), group)?;
    Ok(cells)
}

/// Reads all lists of a column of lists.
fn lists<D: DataType>(
    reader: &mut ColumnReaderImpl<D>,
    group: &dyn RowGroupReader,
) -> Result<Vec<Vec<D::T>>, ParquetError> {
    let mut lists: Vec<Vec<D::T>> = Vec::new();
    let (mut definition, mut repetition, mut values) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        definition.clear();
        repetition.clear();
        values.clear();
        let (rows, _, _) = reader.read_records(
            BATCH,
            Some(&mut definition),
            Some(&mut repetition),
            &mut values,
        )?;
        if rows == 0 {
            break;
        }
        let mut values = values.drain(..);
        for (defined, repeated) in definition.iter().zip(&repetition) {
            if *repeated == 0 {
                lists.push(Vec::new());
            }
            if *defined > 1
                && let (Some(list), Some(value)) = (lists.last_mut(), values.next())
            {
                list.push(value);
            }
        }
    }
    check_rows(lists.len(), group)?;
    Ok(lists)
}

fn check_rows(rows: usize, group: &dyn RowGroupReader) -> Result<(), ParquetError> {
    let is_whole = i64::try_from(rows).is_ok_and(|rows| rows == group.metadata().num_rows());
    let short = || ParquetError::General("a column is shorter than others".to_owned());
    is_whole.then_some(()).ok_or_else(short)
}

/// An open table, such as `profile_export.parquet`.
pub(crate) struct Table(SerializedFileReader<File>);

impl Table {
    /// Opens the table at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, ParquetError> {
        Self::new(open::regular(path)?)
    }

    /// Opens the table in `file`, which is [`open::regular`].
    pub(crate) fn new(file: File) -> Result<Self, ParquetError> {
        Ok(Self(open::table(file)?))
    }

    /// Returns the value of `key` in the metadata.
    pub(crate) fn metadata(&self, key: &str) -> Option<&str> {
        let pairs = self.0.metadata().file_metadata().key_value_metadata()?;
        pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
    }

    /// Returns the name of each column with the type of its values; none for one in lists or groups.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&str, Option<PhysicalType>)> {
        let columns = self.0.metadata().file_metadata().schema_descr().columns();
        columns.iter().map(|column| {
            let is_flat = column.max_rep_level() == 0 && column.max_def_level() <= 1;
            (column.name(), is_flat.then(|| column.physical_type()))
        })
    }

    /// Iterates over the row groups, each of which is read by column.
    pub(crate) fn groups(&self) -> impl Iterator<Item = Result<Group<'_>, ParquetError>> {
        (0..self.0.num_row_groups()).map(|number| Ok(Group(self.0.get_row_group(number)?)))
    }
}

/// A row group of a table. A column that does not exist, or is of another type, does not have values.
pub(crate) struct Group<'a>(Box<dyn RowGroupReader + 'a>);

impl Group<'_> {
    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.0.metadata().num_rows().try_into().unwrap_or(0)
    }

    /// Returns the values of a column of numbers.
    pub(crate) fn numbers(&self, name: &str) -> Result<Vec<Option<f64>>, ParquetError> {
        match self.column(name)? {
            Some(ColumnReader::DoubleColumnReader(mut reader)) => cells(&mut reader, &*self.0),
            Some(ColumnReader::Int64ColumnReader(_)) => {
                let whole = self.integers(name)?;
                Ok(whole.into_iter().map(|value| value.map(|value| value as f64)).collect())
            }
            _ => Ok(self.nothing()),
        }
    }

    /// Returns the values of a column of whole numbers.
    pub(crate) fn integers(&self, name: &str) -> Result<Vec<Option<i64>>, ParquetError> {
        match self.column(name)? {
            Some(ColumnReader::Int64ColumnReader(mut reader)) => cells(&mut reader, &*self.0),
            _ => Ok(self.nothing()),
        }
    }

    /// Returns the values of a column of texts.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<Option<String>>, ParquetError> {
        let text = |bytes: ByteArray| String::from_utf8_lossy(bytes.data()).into_owned();
        Ok(self.bytes(name)?.into_iter().map(|cell| cell.map(text)).collect())
    }

    /// Returns the bytes of a column of texts.
    pub(crate) fn bytes(&self, name: &str) -> Result<Vec<Option<ByteArray>>, ParquetError> {
        match self.column(name)? {
            Some(ColumnReader::ByteArrayColumnReader(mut reader)) => cells(&mut reader, &*self.0),
            _ => Ok(self.nothing()),
        }
    }

    /// Returns the values of a column of lists of numbers; an absent list is empty.
    pub(crate) fn lists(&self, name: &str) -> Result<Vec<Vec<f64>>, ParquetError> {
        match self.column(name)? {
            Some(ColumnReader::DoubleColumnReader(mut reader)) => lists(&mut reader, &*self.0),
            _ => Ok(vec![Vec::new(); self.rows()]),
        }
    }

    fn nothing<T: Clone>(&self) -> Vec<Option<T>> {
        vec![None; self.rows()]
    }

    /// Returns the column whose name, or that of the list around it, is `name`.
    fn column(&self, name: &str) -> Result<Option<ColumnReader>, ParquetError> {
        let columns = self.0.metadata().columns();
        let is_named = |path: &[String]| path.first().is_some_and(|first| first == name);
        let at = columns.iter().position(|column| is_named(column.column_path().parts()));
        at.map(|at| self.0.get_column_reader(at)).transpose()
    }
}
