//! Reads row groups by column, for any file content.

use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::file::reader::RowGroupReader;
use parquet::schema::types::SchemaDescriptor;

use super::super::metadata::ReportMetadata;
use super::super::{AFTER, BEFORE};
use super::TableError;
use crate::artifacts::parquet::cells;

/// The indices of the columns.
pub(super) struct Columns {
    /// URL, name, type, unit and description.
    pub(super) texts: [usize; 5],
    pub(super) time: usize,
    /// Labels and their columns, sorted by label.
    pub(super) labels: Vec<(String, usize)>,
    /// Value, sum, count, bound and count of the bucket.
    after: [usize; 5],
}

impl Columns {
    pub(super) fn of(
        schema: &SchemaDescriptor,
        about: &ReportMetadata,
    ) -> Result<Self, TableError> {
        let mut found = Vec::new();
        let mut labels = Vec::new();
        for (at, column) in schema.columns().iter().enumerate() {
            let name = column.name();
            if column.max_rep_level() > 0 || column.max_def_level() > 1 {
                return Err(TableError::Column(name.to_owned()));
            }
            if BEFORE.contains(&name) || AFTER.contains(&name) {
                found.push((name, at));
            } else {
                let label = about.renamed_labels.get(name).map_or(name, String::as_str);
                labels.push((label.to_owned(), at));
            }
        }
        labels.sort();
        let find = |name: &str| {
            let column = found.iter().find(|(found, _)| *found == name);
            column.map(|(_, at)| *at).ok_or_else(|| TableError::Column(name.to_owned()))
        };
        let [url, name, kind, unit, description, time] = BEFORE;
        let [value, sum, count, le, bucket] = AFTER;
        Ok(Self {
            texts: [find(url)?, find(name)?, find(kind)?, find(unit)?, find(description)?],
            time: find(time)?,
            labels,
            after: [find(value)?, find(sum)?, find(count)?, find(le)?, find(bucket)?],
        })
    }
}

/// The cells of a row group, with the same number in each column.
pub(super) struct Group {
    pub(super) texts: [Vec<Option<ByteArray>>; 5],
    pub(super) times: Vec<i64>,
    pub(super) labels: Vec<Vec<Option<ByteArray>>>,
    pub(super) value: Vec<Option<f64>>,
    pub(super) sum: Vec<Option<f64>>,
    pub(super) count: Vec<Option<f64>>,
    pub(super) bucket_le: Vec<Option<ByteArray>>,
    pub(super) bucket_count: Vec<Option<f64>>,
}

impl Group {
    pub(super) fn read(group: &dyn RowGroupReader, columns: &Columns) -> Result<Self, TableError> {
        let [url, name, kind, unit, description] = columns.texts;
        let [value, sum, count, bucket_le, bucket_count] = columns.after;
        let text = |at| texts(group, at);
        let labels = columns.labels.iter().map(|(_, at)| text(*at));
        Ok(Self {
            texts: [text(url)?, text(name)?, text(kind)?, text(unit)?, text(description)?],
            times: integers(group, columns.time)?,
            labels: labels.collect::<Result<_, _>>()?,
            value: numbers(group, value)?,
            sum: numbers(group, sum)?,
            count: numbers(group, count)?,
            bucket_le: text(bucket_le)?,
            bucket_count: numbers(group, bucket_count)?,
        })
    }

    pub(super) const fn rows(&self) -> usize {
        self.times.len()
    }
}

pub(super) fn texts(
    group: &dyn RowGroupReader,
    at: usize,
) -> Result<Vec<Option<ByteArray>>, TableError> {
    match group.get_column_reader(at)? {
        ColumnReader::ByteArrayColumnReader(mut reader) => Ok(cells(&mut reader, group)?),
        _ => Err(wrong_type(group, at)),
    }
}

fn numbers(group: &dyn RowGroupReader, at: usize) -> Result<Vec<Option<f64>>, TableError> {
    let cells = match group.get_column_reader(at)? {
        ColumnReader::DoubleColumnReader(mut reader) => cells(&mut reader, group)?,
        _ => return Err(wrong_type(group, at)),
    };
    let is_finite = cells.iter().flatten().all(|number| number.is_finite());
    is_finite.then_some(cells).ok_or(TableError::Row("a number is not finite"))
}

pub(super) fn integers(group: &dyn RowGroupReader, at: usize) -> Result<Vec<i64>, TableError> {
    let cells = match group.get_column_reader(at)? {
        ColumnReader::Int64ColumnReader(mut reader) => cells(&mut reader, group)?,
        _ => return Err(wrong_type(group, at)),
    };
    cells.into_iter().collect::<Option<_>>().ok_or(TableError::Row("the time is missing"))
}

fn wrong_type(group: &dyn RowGroupReader, at: usize) -> TableError {
    TableError::Column(group.metadata().column(at).column_descr().name().to_owned())
}
