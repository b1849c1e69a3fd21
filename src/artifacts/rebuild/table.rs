//! `profile_export.parquet` of a rebuilt report, with one row per record.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ReportError;
use super::combine::listed;
use super::lines::RecordReader;
use crate::artifacts::layout::Layout;
use crate::artifacts::parquet::{RecordTable, Unfit};
use crate::metrics::Registry;
use crate::run::RunReport;

/// The source of a report's rows.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) registry: Arc<Registry>,
    pub(super) origins: Vec<RowOrigin>,
}

/// The files of a directory that was read.
#[derive(Debug)]
pub(super) struct RowOrigin {
    /// `shard 3`; empty if there is one directory.
    name: String,
    lines: PathBuf,
    table: PathBuf,
    /// Number of records in its lines.
    records: u64,
}

impl RowOrigin {
    pub(super) fn new(name: String, layout: &Layout, records: u64) -> Self {
        Self { name, lines: layout.records.clone(), table: layout.table.clone(), records }
    }
}

impl Rows {
    /// Writes the table at `path`: the rows that the run itself wrote if they match the lines,
    /// since they contain more, or else rows created from the lines. `None` if it is left
    /// unchanged.
    pub(super) fn write(
        &self,
        path: &Path,
        report: &RunReport,
        notes: &mut Vec<String>,
    ) -> Result<Option<PathBuf>, ReportError> {
        let mut table = RecordTable::create(path, &self.registry)?;
        let mut from_lines: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for origin in &self.origins {
            let run = report.run.benchmark_id;
            let Err(matter) = table.append(&origin.table, run, origin.records) else { continue };
            if matches!(matter, Unfit::OtherColumns) && origin.table == path {
                notes.push(format!("{} {matter}; it is left unchanged", path.display()));
                return Ok(None);
            }
            if origin.records == 0 {
                continue;
            }
            // Notes about the lines were reported earlier.
            RecordReader::open(&origin.lines)?.read(&self.registry, |line, text| {
                table.push_line(text, &line.observation.values);
            })?;
            from_lines.entry(matter.to_string()).or_default().push(&origin.name);
        }
        if !from_lines.is_empty() {
            let reasons = from_lines.iter().map(|(matter, names)| {
                let names = listed(names.iter().map(ToString::to_string));
                if names.is_empty() { matter.clone() } else { format!("{matter} ({names})") }
            });
            notes.push(format!(
                "{}: rows are rebuilt from the lines, without what only the run itself knew \
                 (content_arrival_ms, clock, read lag, uncertainty, status), since the table {}",
                path.display(),
                listed(reasons)
            ));
        }
        Ok(Some(table.close(report)?))
    }
}
