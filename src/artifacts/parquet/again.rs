//! The table written again: rows of an earlier table as they are, else rows of the
//! records' lines.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;

use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{BENCHMARK_ID, Field, RecordTable, Values, schema};
use crate::metrics::metric::RecordValues;

/// What a line says of a request beside metrics.
#[derive(Default, Deserialize)]
struct Line<'a> {
    #[serde(borrow, default)]
    metadata: HashMap<String, &'a RawValue>,
    #[serde(borrow, default)]
    error: Option<HashMap<String, &'a RawValue>>,
}

impl Line<'_> {
    /// The column `name`, which lines call the same, but for errors.
    fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let value = match name.strip_prefix("error_") {
            Some(name) => self.error.as_ref()?.get(name),
            None => self.metadata.get(name),
        };
        serde_json::from_str(value?.get()).ok()
    }

    /// What the line says for a column with such values; lines have no lists, and
    /// do not say that there was no retry.
    fn field(&self, name: &str, values: &Values) -> Field {
        let field = match values {
            Values::Int(_) => self.get(name).map(Field::Int),
            Values::Double(_) => self.get(name).map(Field::Double),
            Values::Bool(_) => self.get(name).map(Field::Bool),
            Values::Text(_) => self.get(name).map(Field::Text),
            Values::List(_) => None,
        };
        let absent = if name == "retry_count" { Field::Int(0) } else { Field::Absent };
        field.unwrap_or(absent)
    }
}

/// Why the rows of an earlier table are not those of the records.
#[derive(Debug, thiserror::Error)]
pub(in crate::artifacts) enum Unfit {
    /// There is none.
    #[error("is missing")]
    Missing,
    /// It is no such file, or was cut short.
    #[error("cannot be read ({0})")]
    Unreadable(String),
    /// It was there before.
    #[error("is of another run")]
    OtherRun,
    /// Some are missing, or too many.
    #[error("has {0} rows for {1} records")]
    Rows(i64, u64),
    /// Another version wrote it, or with other settings.
    #[error("has other columns")]
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
    /// Adds the request of a line of `profile_export.jsonl`, whose metrics are
    /// `values`. What lines do not have is null.
    pub(in crate::artifacts) fn push_line(&mut self, text: &[u8], values: &RecordValues) {
        let line: Line<'_> = serde_json::from_slice(text).unwrap_or_default();
        let of_columns = self.of_columns(values);
        self.push_fields(of_columns, |column, _| line.field(column.name, &column.values));
    }

    /// Adds the rows of the table at `path` as they are, if they are those of the
    /// `records` of `run`; else adds none, and says what the matter is. A run that is
    /// not known by name may be any.
    pub(in crate::artifacts) fn append(
        &mut self,
        path: &Path,
        run: Uuid,
        records: u64,
    ) -> Result<(), Unfit> {
        let file = File::open(path)?;
        let reader = SerializedFileReader::new(file.try_clone()?)?;
        let metadata = reader.metadata();
        if !run.is_nil() && benchmark_id(metadata) != Some(run) {
            return Err(Unfit::OtherRun);
        }
        let rows = metadata.file_metadata().num_rows();
        if u64::try_from(rows) != Ok(records) {
            return Err(Unfit::Rows(rows, records));
        }
        if metadata.file_metadata().schema() != &*schema(&self.columns)? {
            return Err(Unfit::OtherColumns);
        }
        if self.failure.is_none() {
            self.failure = self.copy(&file, metadata).err();
        }
        Ok(())
    }

    fn copy(&mut self, file: &File, metadata: &ParquetMetaData) -> Result<(), ParquetError> {
        if self.rows > 0 {
            self.write_row_group()?;
        }
        for group in metadata.row_groups() {
            let mut rows = self.writer.next_row_group()?;
            for column in group.columns() {
                let close = ColumnCloseResult {
                    bytes_written: column.compressed_size().cast_unsigned(),
                    rows_written: group.num_rows().cast_unsigned(),
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                };
                rows.append_column(file, close)?;
            }
            rows.close()?;
        }
        Ok(())
    }
}

/// The run that a table says it is of.
fn benchmark_id(metadata: &ParquetMetaData) -> Option<Uuid> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    let pair = pairs.iter().find(|pair| pair.key == BENCHMARK_ID)?;
    Uuid::parse_str(pair.value.as_deref()?).ok()
}
