//! Reads row groups by column, for any file content.

use parquet::basic::Type as PhysicalType;
use parquet::data_type::ByteArray;

use super::super::metadata::ReportMetadata;
use super::super::{AFTER, BEFORE, BUCKET_LE, TIMESTAMP};
use super::TableError;
use crate::artifacts::table::{self, Table};

/// Returns the labels of the table and their columns, sorted by label.
///
/// # Errors
///
/// Fails if a column is missing or has another type than samples have.
pub(super) fn labels(
    table: &Table,
    about: &ReportMetadata,
) -> Result<Vec<(String, String)>, TableError> {
    let mut missing: Vec<&str> = BEFORE.into_iter().chain(AFTER).collect();
    let mut labels = Vec::new();
    for (name, found) in table.columns() {
        let is_label = !BEFORE.contains(&name) && !AFTER.contains(&name);
        let wanted = match name {
            TIMESTAMP => PhysicalType::INT64,
            _ if AFTER.contains(&name) && name != BUCKET_LE => PhysicalType::DOUBLE,
            _ => PhysicalType::BYTE_ARRAY,
        };
        if found != Some(wanted) {
            return Err(TableError::Column(name.to_owned()));
        }
        if is_label {
            let label = about.renamed_labels.get(name).map_or(name, String::as_str);
            labels.push((label.to_owned(), name.to_owned()));
        }
        missing.retain(|other| *other != name);
    }
    labels.sort();
    match missing.first() {
        Some(name) => Err(TableError::Column((*name).to_owned())),
        None => Ok(labels),
    }
}

/// The cells of a row group, with the same number in each column.
pub(super) struct Group {
    /// URL, name, type, unit and description.
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
    pub(super) fn read(
        group: &table::Group<'_>,
        labels: &[(String, String)],
    ) -> Result<Self, TableError> {
        let [url, name, kind, unit, description, _] = BEFORE;
        let [value, sum, count, bucket_le, bucket_count] = AFTER;
        let text = |name: &str| group.bytes(name);
        let labels = labels.iter().map(|(_, column)| text(column));
        Ok(Self {
            texts: [text(url)?, text(name)?, text(kind)?, text(unit)?, text(description)?],
            times: times(group)?,
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

fn numbers(group: &table::Group<'_>, name: &str) -> Result<Vec<Option<f64>>, TableError> {
    let cells = group.numbers(name)?;
    let is_finite = cells.iter().flatten().all(|number| number.is_finite());
    is_finite.then_some(cells).ok_or(TableError::Row("a number is not finite"))
}

/// Returns the times of the rows.
pub(super) fn times(group: &table::Group<'_>) -> Result<Vec<i64>, TableError> {
    let cells = group.integers(TIMESTAMP)?;
    cells.into_iter().collect::<Option<_>>().ok_or(TableError::Row("the time is missing"))
}
