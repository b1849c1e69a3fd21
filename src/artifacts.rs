//! The files of a run: JSON, CSV, JSONL, Parquet, console text.
//!
//! Every path is tried before the first request. Records are appended under
//! their final names while the run goes; summaries are written to a temporary
//! name in the same directory and renamed. Times in files are wall time in
//! nanoseconds since the epoch; values are in display units. A failed write
//! never stops a run: it is kept and told at the end.

pub mod aggregate;
mod csv;
mod decimal;
mod inputs;
mod json;
mod jsonl;
pub mod layout;
mod manifest;
mod parquet;
mod raw;
mod replace;
pub mod report;
mod run;
pub mod server_metrics;
mod sink;
mod timeslices;
mod trace;

use std::io;
use std::path::{Path, PathBuf};

use crate::metrics::Registry;
use crate::metrics::metric::MeasuredRecord;
use crate::redact;
use crate::units::{Clock, Nanos};

pub use run::{Combination, ErrorCount, Part, RunDescription, RunReport};

use jsonl::RecordLines;
use layout::Layout;
use manifest::Manifest;
use parquet::RecordTable;
use server_metrics::{ScrapeLines, ServerMetricsFiles};
use sink::LineSink;

/// Where files go and which.
#[derive(Debug, Clone)]
pub struct Config {
    /// The run's own directory.
    pub directory: PathBuf,
    /// `--profile-export-prefix`, if given.
    pub prefix: Option<String>,
    /// How much of the records is written.
    pub export_level: ExportLevel,
    /// Whether records bear `trace_data` (`--export-http-trace`).
    pub http_trace: bool,
    /// Files of the server's metrics.
    pub server_metrics: ServerMetricsFiles,
}

/// How much of the records is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExportLevel {
    /// Summaries only.
    Summary,
    /// A line for each record.
    Records,
    /// Request and response bodies too.
    Raw,
}

/// What can go wrong with the files.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The directory could not be made.
    #[error(
        "cannot create the artifact directory {path}: {why}; choose another with --artifact-dir"
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// A file cannot be written there.
    #[error("cannot write {path}: {why}; choose another directory with --artifact-dir")]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// Some files are missing or cut short; the others are whole.
    #[error("{} not written in full: {}; free some disk space and rebuild the summaries with `aiperf report`", one_or_more(.failures), list(.failures))]
    Incomplete {
        /// Files that are whole.
        written: Vec<PathBuf>,
        /// The others.
        failures: Vec<WriteFailure>,
    },
}

/// A file that could not be written in full.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {error}", path.display())]
pub struct WriteFailure {
    /// The file.
    pub path: PathBuf,
    /// The first error met.
    pub error: String,
}

fn one_or_more(failures: &[WriteFailure]) -> String {
    match failures.len() {
        1 => "a file was".to_owned(),
        several => format!("{several} files were"),
    }
}

fn list(failures: &[WriteFailure]) -> String {
    let each: Vec<_> =
        failures.iter().map(|f| format!("{} ({})", f.path.display(), f.error)).collect();
    each.join(", ")
}

/// A second, in the clock's unit: the most that a kill may lose.
const FLUSH_INTERVAL: Nanos = Nanos(1_000_000_000);

/// The open files of a run.
#[derive(Debug)]
pub struct ArtifactSet {
    layout: Layout,
    prefix: Option<String>,
    server_metrics: ServerMetricsFiles,
    lines: RecordLines,
    records: Option<LineSink>,
    raw: Option<LineSink>,
    raw_line: Vec<u8>,
    table: Option<RecordTable>,
    /// Members of request bodies that bear secrets, as they may be shown.
    redacted: Vec<(String, serde_json::Value)>,
    conversation_ids: Vec<String>,
    next_flush: Nanos,
    written: Vec<PathBuf>,
    failures: Vec<WriteFailure>,
}

impl ArtifactSet {
    /// Makes the directory, tries every path and opens the files that grow with
    /// the run. Records will bear the metrics of `registry`.
    pub fn create(
        config: &Config,
        run: &RunDescription,
        registry: &Registry,
    ) -> Result<Self, ArtifactError> {
        let layout = Layout::new(&config.directory, config.prefix.as_deref());
        layout.make_directories()?;
        for path in layout.summaries() {
            replace::check(path)?;
        }
        let mut failures = Vec::new();
        let is_sliced = run.slice_duration().is_some();
        let slices = layout.timeslices().map(|path| (path, is_sliced));
        for (path, is_wanted) in slices.into_iter().chain(config.server_metrics.statistics(&layout))
        {
            if is_wanted {
                replace::check(path)?;
            } else {
                failures.extend(remove_stale(path).err());
            }
        }
        let sink = |level, path: &Path| {
            (config.export_level >= level).then(|| LineSink::create(path)).transpose()
        };
        let records = sink(ExportLevel::Records, &layout.records)?;
        let raw = sink(ExportLevel::Raw, &layout.raw)?;
        let table =
            records.is_some().then(|| RecordTable::create(&layout.table, registry)).transpose()?;
        if table.is_some() {
            // A run that is killed leaves none: that of an earlier run would pass for its own.
            failures.extend(remove_stale(&layout.table).err());
        }
        Manifest::running(run, config.prefix.clone(), &config.server_metrics)
            .write(&layout.manifest)
            .map_err(|why| ArtifactError::NotWritable { path: layout.manifest.clone(), why })?;
        Ok(Self {
            layout,
            prefix: config.prefix.clone(),
            server_metrics: config.server_metrics.clone(),
            lines: RecordLines::new(registry, config.http_trace),
            records,
            raw,
            raw_line: Vec::new(),
            table,
            redacted: redacted_extras(&run.input_config),
            conversation_ids: Vec::new(),
            next_flush: Nanos::ZERO,
            written: Vec::new(),
            failures,
        })
    }

    /// Where the files are.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Writes `inputs.json`: the bodies of each conversation in the dataset's
    /// order. Their ids name the conversations of the records from now on.
    pub fn write_inputs(&mut self, sessions: impl IntoIterator<Item = (String, Vec<Vec<u8>>)>) {
        let ids = &mut self.conversation_ids;
        let redacted = &self.redacted;
        let outcome =
            write_whole(&self.layout.inputs, |out| inputs::write(out, sessions, redacted, ids));
        self.note(outcome);
    }

    /// Writes no `inputs.json`, and removes that of an earlier run. `ids` name
    /// the conversations of the records from now on.
    pub fn leave_out_inputs(&mut self, ids: impl IntoIterator<Item = String>) {
        self.conversation_ids = ids.into_iter().collect();
        self.failures.extend(remove_stale(&self.layout.inputs).err());
    }

    /// Appends a finished request to the files of records.
    pub fn record(&mut self, measured: &MeasuredRecord, clock: &Clock) {
        let conversation = measured.record.turn.conversation;
        let generated;
        let id = if let Some(id) = self.conversation_ids.get(conversation) {
            id
        } else {
            generated = format!("conversation_{conversation}");
            &generated
        };
        if let Some(records) = &mut self.records {
            records.append(self.lines.line(measured, id, clock));
        }
        if let Some(raw) = &mut self.raw {
            self.raw_line.clear();
            let outcome = raw::write_line(&mut self.raw_line, measured, id, clock, &self.redacted);
            raw.append(outcome.map(|()| self.raw_line.as_slice()));
        }
        if let Some(table) = &mut self.table {
            table.push(measured, id, clock);
        }
    }

    /// Opens the file of scrapes, where it is asked for; else removes that of an
    /// earlier run.
    pub fn open_scrapes(&mut self) -> Result<Option<ScrapeLines>, ArtifactError> {
        let path = &self.layout.server_metrics_lines;
        if self.server_metrics.formats.jsonl && !self.server_metrics.endpoints.is_empty() {
            return ScrapeLines::create(path, self.server_metrics.batch_size).map(Some);
        }
        self.failures.extend(remove_stale(path).err());
        Ok(None)
    }

    /// Closes the file of scrapes, and removes it where there were none.
    pub fn close_scrapes(&mut self, lines: ScrapeLines) {
        let is_empty = lines.is_empty();
        match lines.finish() {
            Ok(path) if is_empty => self.failures.extend(remove_stale(&path).err()),
            outcome => self.note(outcome),
        }
    }

    /// To be called often: flushes once a second, so that a kill loses no more
    /// than that.
    pub fn tick(&mut self, now: Nanos) {
        if now >= self.next_flush {
            self.next_flush = now + FLUSH_INTERVAL;
            for sink in [&mut self.records, &mut self.raw].into_iter().flatten() {
                sink.flush();
            }
        }
    }

    /// Closes the files of records and writes the summaries; `console_text` is
    /// what the console said. Gives the files written.
    pub fn finish(
        mut self,
        report: &RunReport,
        console_text: &str,
    ) -> Result<Vec<PathBuf>, ArtifactError> {
        for sink in [self.records.take(), self.raw.take()].into_iter().flatten() {
            self.note(sink.finish());
        }
        if let Some(table) = self.table.take() {
            self.note(table.finish(report));
        }
        for outcome in write_summaries(&self.layout, &self.server_metrics, report, console_text) {
            self.note(outcome);
        }
        if report.slices.is_none() {
            for path in self.layout.timeslices() {
                self.failures.extend(remove_stale(path).err());
            }
        }
        if report.server_metrics.is_none() {
            for (path, _) in self.server_metrics.statistics(&self.layout) {
                self.failures.extend(remove_stale(path).err());
            }
        }
        // Closed first, and listed with the other files of the server's metrics.
        self.written.sort_by_key(|path| *path == self.layout.server_metrics_lines);
        let manifest = Manifest::finished(report, self.prefix.clone(), &self.server_metrics);
        let path = self.layout.manifest.clone();
        self.note(write_whole(&path, |out| manifest.write_to(out)));
        if self.failures.is_empty() {
            Ok(self.written)
        } else {
            Err(ArtifactError::Incomplete { written: self.written, failures: self.failures })
        }
    }

    /// Takes in how it went with a file that grew beside these.
    pub fn note(&mut self, outcome: Result<PathBuf, WriteFailure>) {
        match outcome {
            Ok(path) => self.written.push(path),
            Err(failure) => self.failures.push(failure),
        }
    }
}

/// Removes the file of an earlier run at `path`.
fn remove_stale(path: &Path) -> Result<(), WriteFailure> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(WriteFailure { path: path.to_owned(), error: error.to_string() })
        }
        _ => Ok(()),
    }
}

/// The `--extra-inputs` of which something is redacted: bodies have the same members.
fn redacted_extras(input_config: &serde_json::Value) -> Vec<(String, serde_json::Value)> {
    let extras = input_config.pointer("/endpoint/extra").and_then(serde_json::Value::as_object);
    let is_redacted = |value: &serde_json::Value| value.to_string().contains(redact::MARK);
    let all = extras.into_iter().flatten().filter(|(_, value)| is_redacted(value));
    all.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Puts the members of `redacted` over those of `body`, whose URLs lose their credentials.
/// Whether anything of it is another then.
fn redact_body(body: &mut serde_json::Value, redacted: &[(String, serde_json::Value)]) -> bool {
    let mut is_another = redact::urls(body);
    for (name, shown) in redacted {
        if let Some(member) = body.get_mut(name) {
            *member = shown.clone();
            is_another = true;
        }
    }
    is_another
}

/// Replaces JSON, CSV and console text, and the server's statistics if there are any.
fn write_summaries(
    layout: &Layout,
    server_metrics: &ServerMetricsFiles,
    report: &RunReport,
    console_text: &str,
) -> Vec<Result<PathBuf, WriteFailure>> {
    let mut outcomes = vec![
        write_whole(&layout.summary_json, |out| json::write(out, report)),
        write_whole(&layout.summary_csv, |out| csv::write(out, report)),
        write_whole(&layout.console, |out| out.write_all(console_text.as_bytes())),
    ];
    if let Some(slices) = &report.slices {
        outcomes.extend(timeslices::write(layout, slices, &report.run.input_config));
    }
    if let Some(server) = &report.server_metrics {
        outcomes.extend(server_metrics.write_statistics(layout, report, server));
    }
    outcomes
}

fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> Result<PathBuf, WriteFailure> {
    match replace::replace(path, write) {
        Ok(()) => Ok(path.to_owned()),
        Err(error) => Err(WriteFailure { path: path.to_owned(), error: error.to_string() }),
    }
}
