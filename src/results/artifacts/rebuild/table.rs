//! `profile_export.parquet` of a rebuilt report, with one row per record.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use measure::metrics::Registry;
use measure::server_metrics::store::Store;

use super::ReportError;
use super::combine::listed;
use super::line_file::LineFile;
use super::lines::{RecordReader, Repeated};
use crate::artifacts::layout::Layout;
use crate::artifacts::parquet::{Observed, RecordTable, Unfit, parts};
use crate::artifacts::server_metrics::read_table;
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
    parts: PathBuf,
    server_metrics: PathBuf,
    gpu_lines: PathBuf,
    /// Number of records in its lines, without those that are repeated.
    records: u64,
    /// The others.
    repeated: Repeated,
}

impl RowOrigin {
    pub(super) fn new(name: String, layout: &Layout, records: u64, repeated: Repeated) -> Self {
        let Layout { records: lines, table, parts, gpu_lines, .. } = layout.clone();
        let server_metrics = layout.server_metrics_table.clone();
        Self { name, lines, table, parts, server_metrics, gpu_lines, records, repeated }
    }

    /// Returns how many of the first lines are, in order, the requests of the parts.
    fn in_parts(&self) -> u64 {
        let mut same = 0;
        if !self.parts.exists() {
            return same;
        }
        let mut requests = parts::requests(&self.parts);
        let mut is_same = true;
        let is_of = |text: &[u8], id: &str| {
            memchr::memmem::find(text, format!("\"x_request_id\":\"{id}\"").as_bytes()).is_some()
        };
        let Ok(mut lines) = LineFile::open(&self.lines) else { return same };
        // What cannot be read is reported where the records are.
        let _ = lines.read(|text| {
            is_same = is_same && requests.next().is_some_and(|id| is_of(text, &id));
            same += u64::from(is_same);
            Ok(())
        });
        same
    }
}

impl Rows {
    /// Writes the table at `path`: the rows that the run itself wrote if they match the lines,
    /// since they contain more, or else its parts and rows created from the other lines. `None` if
    /// it is left unchanged.
    pub(super) fn write(
        &self,
        path: &Path,
        report: &RunReport,
        notes: &mut Vec<String>,
    ) -> Result<Option<PathBuf>, ReportError> {
        let mut table = RecordTable::create(path, &self.registry, &report.run)?;
        let mut from_lines: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for origin in &self.origins {
            let run = report.run.benchmark_id;
            let wanted = origin.records..=origin.records;
            let Err(mut matter) = table.append(&origin.table, run, wanted) else { continue };
            if matches!(matter, Unfit::OtherColumns) && origin.table == path {
                notes.push(format!("{} {matter}; it is left unchanged", path.display()));
                return Ok(None);
            }
            let mut added = 0;
            if matches!(matter, Unfit::Missing) {
                added =
                    table.append_parts(&origin.parts, run, origin.in_parts().min(origin.records));
            }
            if added == origin.records {
                continue;
            }
            if added > 0 {
                matter = Unfit::FirstRows(added, origin.records);
            }
            // The first repeated record is in none of the parts, which end before it.
            let is_new = |place| place >= added && !origin.repeated.contains(&place);
            // Notes about the lines were reported earlier.
            RecordReader::open(&origin.lines)?.read_all(&self.registry, |place, line, text| {
                if is_new(place) {
                    table.push_line(text, &line.observation.values);
                }
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
        Ok(Some(table.close(report, &self.observed(report))?))
    }

    /// Returns the samples for the rows that were not joined with any.
    fn observed(&self, report: &RunReport) -> Observed {
        let known = report.server_metrics.as_ref().map(|metrics| metrics.store.clone());
        let has_samples = |store: &Arc<Store>| !store.endpoints().is_empty();
        // A table that cannot be read is reported where statistics are made of it.
        let read =
            |origin: &RowOrigin| Some(read_table(&origin.server_metrics).ok()??.store.into());
        let servers = known.filter(has_samples).or_else(|| self.origins.iter().find_map(read));
        let mut lines = self.origins.iter().map(|origin| &origin.gpu_lines);
        let gpu_lines = lines.find(|path| path.exists()).cloned().unwrap_or_default();
        Observed { servers: servers.unwrap_or_default(), gpu_lines }
    }
}
