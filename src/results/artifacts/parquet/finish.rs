//! The last step of the table: leaves out columns without values, and joins requests with what servers
//! and GPUs reported.

use std::io::Write as _;
use std::path::PathBuf;

use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::FileReader as _;
use parquet::file::statistics::Statistics;

use super::super::error::WriteFailure;
use super::super::table::{self, Cell, Column, Rows, Table, TableWriter};
use super::super::{open, replace};
use super::state::{Observed, Timeline};
use super::{LEFT_OUT, RecordTable, Source, file_metadata, json};
use crate::run::{ClientTables, RunReport};

/// Columns that hardly differ from others: they end with the response instead of the last content.
const DUPLICATES: [&str; 3] = [
    "full_decode_duration",
    "full_response_inter_token_latency",
    "full_response_output_token_throughput_per_user",
];

/// Columns that are never left out, so that a query for failures works for each run.
const ALWAYS: [&str; 3] = ["error_code", "error_type", "error_message"];

/// Column of the start of a request.
const START: &str = "request_start_ns";

/// A column of the finished table.
struct Kept {
    /// Its index among all columns.
    at: usize,
    /// The values of rows that do not have any.
    over_time: Option<Timeline>,
}

impl RecordTable {
    /// Writes the table with its footer, which contains the results, to its final name.
    pub(in crate::artifacts) fn close(
        self,
        report: &RunReport,
        observed: &Observed,
    ) -> Result<PathBuf, WriteFailure> {
        let path = self.table.path.clone();
        self.finish(report, observed).map_err(|error| table::failure(&path, error))
    }

    fn finish(mut self, report: &RunReport, observed: &Observed) -> Result<PathBuf, ParquetError> {
        if let Some(error) = self.failure {
            return Err(error);
        }
        if self.table.rows.count() > 0 {
            self.table.write_group()?;
        }
        let mut metadata = file_metadata(&self.sources, report);
        let TableWriter { path, file, rows } = self.table;
        let mut whole = file.into_inner()?;
        whole.flush()?;
        let whole = whole.reopen()?;
        let reader = open::table(whole.try_clone()?)?;
        let from = Table::new(whole.try_clone()?)?;
        let mut last_start = None;
        for group in from.groups() {
            last_start = last_start.max(group?.integers(START)?.into_iter().flatten().max());
        }
        let wants_all = report.run.tables.client == ClientTables::All;
        let (mut kept, mut columns, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (column, source)) in rows.columns.into_iter().zip(&self.sources).enumerate() {
            let is_repeated = !wants_all && DUPLICATES.contains(&&*column.name);
            let has_values = last_start.is_none() || has_values(reader.metadata(), at);
            let over_time = match source {
                Source::State(state) => Some(observed.over_time(*state)),
                _ => None,
            };
            let is_known =
                over_time.as_ref().zip(last_start).is_some_and(|(of, at)| of.at(at).is_some());
            let is_kept = has_values || is_known || ALWAYS.contains(&&*column.name);
            if is_kept && !is_repeated {
                kept.push(Kept { at, over_time });
                columns.push(column);
            } else {
                left_out.push(column.name);
            }
        }
        metadata.push((LEFT_OUT.to_owned(), json(&left_out)));
        let beside = replace::beside(&path)?;
        let mut to = TableWriter::begin(&path, beside, Rows::new("request", columns))?;
        for (number, group) in from.groups().enumerate() {
            let starts = group?.integers(START)?;
            let group = reader.metadata().row_group(number);
            let mut rows = to.file.next_row_group()?;
            for (Kept { at, over_time }, column) in kept.iter().zip(&to.rows.columns) {
                match over_time.as_ref().filter(|_| is_empty(group.column(*at))) {
                    Some(values) => joined(column, &starts, values).write_to(&mut rows)?,
                    None => table::splice(&mut rows, &whole, group, *at)?,
                }
            }
            rows.close()?;
        }
        to.close(metadata)
    }
}

/// Returns `column` with the values at `starts`.
fn joined(column: &Column, starts: &[Option<i64>], values: &Timeline) -> Column {
    let cell =
        |start: &Option<i64>| Cell::any(start.and_then(|start| values.at(start)), Cell::Double);
    column.like().with(starts.iter().map(cell))
}

/// Returns whether a row has a value in the column with this index.
fn has_values(table: &ParquetMetaData, at: usize) -> bool {
    table.row_groups().iter().any(|group| !is_empty(group.column(at)))
}

/// Returns whether no row of a group has a value in `column`; lists without elements are not values.
fn is_empty(column: &ColumnChunkMetaData) -> bool {
    let nulls = column.statistics().and_then(Statistics::null_count_opt);
    nulls.is_some_and(|nulls| nulls == column.num_values().cast_unsigned())
}
