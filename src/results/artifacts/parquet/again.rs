//! Rewrites the table: from the rows of an earlier table, unchanged, or else from the lines of the
//! records.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;

use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::FileReader;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use uuid::Uuid;

use measure::metrics::fields::{Field, FieldValue, Form};
use measure::metrics::metric::RecordValues;

use super::super::open;
use super::super::table::{self, Cell};
use super::{BENCHMARK_ID, LEFT_OUT, RecordTable, Source};

/// The members of a line other than metrics.
#[derive(Default, Deserialize)]
struct Line<'a> {
    #[serde(borrow, default)]
    metadata: HashMap<String, &'a RawValue>,
    #[serde(borrow, default)]
    error: Option<HashMap<String, &'a RawValue>>,
}

impl Line<'_> {
    /// Returns the member for the column `name`; lines use the same names, except for errors.
    fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let value = match name.strip_prefix("error_") {
            Some(name) => self.error.as_ref()?.get(name),
            None => self.metadata.get(name),
        };
        serde_json::from_str(value?.get()).ok()
    }

    /// Returns the line's value of a field. Lines contain no lists, and omit counts of 0.
    fn field(&self, field: &Field) -> FieldValue<'static> {
        let name = field.name;
        let value = match field.form {
            Form::Int => self.get(name).map(FieldValue::Int),
            Form::Count => Some(FieldValue::Count(self.get(name).unwrap_or_default())),
            Form::Bool => self.get(name).map(FieldValue::Bool),
            Form::Text => self.get(name).map(|text: String| FieldValue::Text(text.into())),
            Form::List | Form::Times => None,
        };
        value.unwrap_or(FieldValue::Absent)
    }
}

/// Returns the value that a row has of `field` if it is made of the line `text`.
#[cfg(test)]
pub(in crate::artifacts) fn field_of_line(text: &str, field: &Field) -> FieldValue<'static> {
    serde_json::from_str::<Line<'_>>(text).unwrap().field(field)
}

/// The reason why the rows of an earlier table are not those of the records.
#[derive(Debug, thiserror::Error)]
pub(in crate::artifacts) enum Unfit {
    /// The table does not exist.
    #[error("is missing")]
    Missing,
    /// It is not a Parquet file, or was truncated.
    #[error("cannot be read ({0})")]
    Unreadable(String),
    /// It is of an earlier run.
    #[error("is from another run")]
    OtherRun,
    /// There are too few or too many rows.
    #[error("has {0} rows for {1} records")]
    Rows(u64, u64),
    /// It is that of a killed run, which wrote only the first rows.
    #[error("has only the first {0} of {1} rows")]
    FirstRows(u64, u64),
    /// It was written by another version, or with other settings.
    #[error("has different columns")]
    OtherColumns,
}

impl From<ParquetError> for Unfit {
    fn from(error: ParquetError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<io::Error> for Unfit {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            _ => Self::Unreadable(error.to_string()),
        }
    }
}

impl RecordTable {
    /// Adds the request of a line of `profile_export.jsonl`, whose metrics are `values`. Values
    /// that lines do not contain are null.
    pub(in crate::artifacts) fn push_line(&mut self, text: &[u8], values: &RecordValues) {
        let line: Line<'_> = serde_json::from_slice(text).unwrap_or_default();
        if self.collect(values, |field| line.field(field)) {
            self.failure = self.table.write_group().err();
        }
    }

    /// Adds the unchanged rows of the table at `path`, if it is one of `run` with a number of rows in
    /// the range `wanted`, which it returns. An unknown run matches any table.
    ///
    /// # Errors
    ///
    /// Otherwise adds none and returns the reason.
    pub(in crate::artifacts) fn append(
        &mut self,
        path: &Path,
        run: Uuid,
        wanted: RangeInclusive<u64>,
    ) -> Result<u64, Unfit> {
        let file = open::regular(path)?;
        let reader = open::table(open::regular(path)?)?;
        let metadata = reader.metadata();
        if !run.is_nil() && benchmark_id(metadata) != Some(run) {
            return Err(Unfit::OtherRun);
        }
        let rows = metadata.file_metadata().num_rows().cast_unsigned();
        if !wanted.contains(&rows) {
            return Err(Unfit::Rows(rows, *wanted.end()));
        }
        let columns = self.columns_in(metadata)?.ok_or(Unfit::OtherColumns)?;
        if self.failure.is_none() && self.table.rows.count() > 0 {
            self.failure = self.table.write_group().err();
        }
        if self.failure.is_none() {
            self.failure = self.copy(&file, metadata, &columns).err();
        }
        Ok(rows)
    }

    /// Returns where each column is in a table, `None` for those that it lacks since they do not have
    /// values there; `None` if its columns are others.
    pub(super) fn columns_in(
        &self,
        table: &ParquetMetaData,
    ) -> Result<Option<Vec<Option<usize>>>, ParquetError> {
        let theirs = table.file_metadata().schema().get_fields();
        let left_out = value(table, LEFT_OUT).unwrap_or("[]");
        let left_out: Vec<String> = serde_json::from_str(left_out).unwrap_or_default();
        let ours = self.table.rows.schema()?;
        let mut columns = Vec::new();
        for (field, source) in ours.get_fields().iter().zip(&self.sources) {
            let place = theirs.iter().position(|their| their.name() == field.name());
            let may_lack = left_out.iter().any(|name| name == field.name());
            match place {
                Some(place) if theirs[place] == *field => columns.push(Some(place)),
                None if may_lack || matches!(source, Source::State(_)) => columns.push(None),
                _ => return Ok(None),
            }
        }
        let is_all = columns.iter().flatten().count() == theirs.len();
        Ok(is_all.then_some(columns))
    }

    /// Writes the row groups of a table, in which the columns are at these places.
    pub(super) fn copy(
        &mut self,
        file: &File,
        metadata: &ParquetMetaData,
        places: &[Option<usize>],
    ) -> Result<(), ParquetError> {
        for group in metadata.row_groups() {
            let nothing = || (0..group.num_rows()).map(|_| Cell::Absent);
            let mut rows = self.table.file.next_row_group()?;
            for (column, place) in self.table.rows.columns.iter().zip(places) {
                match place {
                    Some(at) => table::splice(&mut rows, file, group, *at)?,
                    None => column.like().with(nothing()).write_to(&mut rows)?,
                }
            }
            rows.close()?;
        }
        Ok(())
    }
}

/// Returns the run of a table, according to its metadata.
fn benchmark_id(metadata: &ParquetMetaData) -> Option<Uuid> {
    Uuid::parse_str(value(metadata, BENCHMARK_ID)?).ok()
}

/// Returns the value of `key` in the metadata of a table.
fn value<'a>(metadata: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
}
