//! The table of a run while it grows: files with the rows so far, each of which is complete, so that
//! they can be read at any time, also after a kill.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use tempfile::NamedTempFile;
use uuid::Uuid;

use measure::metrics::Registry;
use measure::metrics::fields::Row;

use super::super::error::{ArtifactError, WriteFailure};
use super::super::layout::Layout;
use super::super::record_file::RecordFile;
use super::super::table::{self, Table};
use super::super::{open, replace};
use super::{Observed, RecordTable, description};
use crate::run::{RunDescription, RunReport};

/// Number of flushes, one per second, after which the last part is written again with the rows that
/// came since.
const FLUSHES: u32 = 10;

/// Number of row groups that wait while no file can be created.
const MAX_WAITING: usize = 8;

/// Column of the identifiers of requests.
const REQUEST: &str = "x_request_id";

/// The table of a run, which becomes one file when the run ends.
#[derive(Debug)]
pub(in crate::artifacts) struct GrowingTable {
    /// Collects the rows of the last part.
    table: RecordTable,
    directory: PathBuf,
    gpu_lines: PathBuf,
    benchmark_id: Uuid,
    /// Number of parts before the last one.
    parts: usize,
    /// Whether the last part has as many rows as it may have.
    is_full: bool,
    /// Number of collected rows that the last part already contains.
    saved: usize,
    /// Number of flushes since the last part was written.
    flushes: u32,
}

impl GrowingTable {
    /// Creates the table of `run` with the metrics of `registry`.
    pub(in crate::artifacts) fn create(
        layout: &Layout,
        registry: &Registry,
        run: &RunDescription,
    ) -> Result<Self, ArtifactError> {
        let table = RecordTable::create(&layout.table, registry, run)?;
        let benchmark_id = run.benchmark_id;
        let (directory, gpu_lines) = (layout.parts.clone(), layout.gpu_lines.clone());
        // The first rows are written with the first flush.
        let flushes = FLUSHES;
        Ok(Self {
            table,
            directory,
            gpu_lines,
            benchmark_id,
            parts: 0,
            is_full: false,
            saved: 0,
            flushes,
        })
    }

    /// Creates the file of the last part, still without its name.
    fn create_part(&self) -> io::Result<NamedTempFile> {
        fs::create_dir_all(&self.directory)?;
        // In the directory of the run, from which the unfinished files of a killed run are removed.
        replace::beside(&self.table.table.path)
    }

    /// Writes the collected rows to `file` as the last part.
    fn write_part(&self, file: NamedTempFile) -> Result<(), ParquetError> {
        let RecordTable { table, sources, .. } = &self.table;
        let mut writer = table.rows.begin(file)?;
        table.rows.write(&mut writer)?;
        table::append(&mut writer, description(sources, self.benchmark_id));
        let file = writer.into_inner()?;
        file.persist(path(&self.directory, self.parts)).map_err(|error| error.error)?;
        Ok(())
    }

    /// Adds the rows of the parts to the table, before those collected.
    fn gather(&mut self) -> Result<(), ParquetError> {
        for number in 0..self.parts {
            let file = open::regular(&path(&self.directory, number))?;
            let reader = SerializedFileReader::new(file.try_clone()?)?;
            let metadata = reader.metadata();
            let places: Vec<_> = (0..self.table.sources.len()).map(Some).collect();
            self.table.copy(&file, metadata, &places)?;
        }
        Ok(())
    }
}

impl RecordFile for GrowingTable {
    fn push(&mut self, row: &Row<'_>) {
        let values = &row.measured.observation.values;
        self.is_full = self.table.collect(values, |field| (field.value)(row));
    }

    fn is_full(&self) -> bool {
        self.is_full
    }

    fn flush(&mut self) {
        self.flushes = self.flushes.saturating_add(1);
        let is_due = self.flushes >= FLUSHES && self.table.table.rows.count() > self.saved;
        if self.table.failure.is_none() && (is_due || self.is_full) {
            let written = match self.create_part() {
                Ok(file) => self.write_part(file),
                // The requests may need all file descriptors; some rows can wait.
                Err(_) if !self.table.holds(MAX_WAITING) => return,
                Err(error) => Err(error.into()),
            };
            self.table.failure = written.err();
            self.saved = self.table.table.rows.count();
            self.flushes = 0;
        }
        if self.is_full {
            self.table.table.rows.clear();
            self.parts += 1;
            self.saved = 0;
            self.is_full = false;
        }
    }

    fn finish(mut self: Box<Self>, report: &RunReport) -> Result<PathBuf, WriteFailure> {
        if self.table.failure.is_none() {
            self.table.failure = self.gather().err();
        }
        let Self { table, directory, gpu_lines, .. } = *self;
        let servers = report.server_metrics.as_ref().map(|metrics| metrics.store.clone());
        let path =
            table.close(report, &Observed { servers: servers.unwrap_or_default(), gpu_lines })?;
        remove(&directory);
        Ok(path)
    }
}

/// Returns the path of the part `number`, from 0.
fn path(directory: &Path, number: usize) -> PathBuf {
    directory.join(format!("{:06}.parquet", number + 1))
}

/// Iterates over the paths of the parts in `directory`, in order.
fn paths(directory: &Path) -> impl Iterator<Item = PathBuf> {
    (0..).map(|number| path(directory, number)).take_while(|path| path.exists())
}

/// Removes the parts, whose rows are now in the table. One that stays is not read any more.
fn remove(directory: &Path) {
    paths(directory).for_each(|path| drop(fs::remove_file(path)));
    drop(fs::remove_dir(directory));
}

/// Iterates over the requests of the parts in `directory`, in order, up to what cannot be read.
pub(in crate::artifacts) fn requests(directory: &Path) -> impl Iterator<Item = String> {
    let parts = paths(directory).map(|path| of_part(&path)).map_while(Result::ok);
    parts.flatten().map_while(|request| request)
}

/// Returns the requests of the part at `path`.
fn of_part(path: &Path) -> Result<Vec<Option<String>>, ParquetError> {
    let table = Table::open(path)?;
    let mut requests = Vec::new();
    for group in table.groups() {
        requests.extend(group?.texts(REQUEST)?);
    }
    Ok(requests)
}

impl RecordTable {
    /// Adds the rows of the parts of `run` in `directory`, as long as there are at most `most`.
    /// Returns their number.
    pub(in crate::artifacts) fn append_parts(
        &mut self,
        directory: &Path,
        run: Uuid,
        most: u64,
    ) -> u64 {
        let mut added = 0;
        for path in paths(directory) {
            let Ok(rows) = self.append(&path, run, 1..=most - added) else { break };
            added += rows;
        }
        added
    }
}
