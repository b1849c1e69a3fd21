//! The files of a run: JSON, CSV, JSONL, Parquet, console text.
//!
//! Every path is checked before the first request. Records are appended to files with their final
//! names during the run; summaries are written to a temporary file in the same directory and
//! renamed. Times in files are wall time in nanoseconds since the epoch; values are in display
//! units. A failed write does not end a run; it is reported at the end.

pub(crate) mod aggregate;
mod claim;
mod csv;
mod decimal;
pub(crate) mod gpu;
mod inputs;
pub(crate) mod json;
mod jsonl;
pub mod layout;
mod manifest;
pub(crate) mod network_latency;
mod open;
mod outputs;
mod parquet;
mod payload;
mod raw;
pub mod rebuild;
mod record_file;
mod replace;
#[cfg(test)]
mod schema;
pub(crate) mod search;
pub mod server_metrics;
mod sink;
pub(crate) mod sweep;
mod timeslices;
mod trace;

use std::io;
use std::mem;
use std::path::{Path, PathBuf};

use crate::dataset;
use crate::metrics::Registry;
use crate::metrics::metric::MeasuredRecord;
use crate::redact;
use crate::run::{RunDescription, RunReport};
use crate::setting::{self, named};
use crate::units::{Clock, Nanos};
use serde::Serialize;

pub(crate) use claim::newest;
pub use claim::{Claim, Wanted};
pub(crate) use inputs::MAX_INPUT_BYTES;
pub(crate) use json::local_time;

use gpu::GpuLines;
use jsonl::RecordLines;
use layout::Layout;
use manifest::Manifest;
use network_latency::ProbeLines;
use outputs::Outputs;
use parquet::GrowingTable;
pub(crate) use parquet::Table;
use raw::RawLines;
use record_file::RecordFile;
use server_metrics::{ScrapeLines, ServerMetricsFiles};

/// The directory of the files, and which files are written.
#[derive(Debug, Clone, Serialize)]
pub struct Config {
    /// The run's own directory.
    #[serde(serialize_with = "setting::path")]
    pub directory: PathBuf,
    /// Whether that is the default, and not named by the user. It gets a number if it is in use.
    pub has_default_directory: bool,
    /// `--profile-export-prefix`, if given.
    pub prefix: Option<String>,
    /// Whether the files of an earlier run may be moved aside (`--overwrite`).
    pub overwrite: bool,
    /// The amount of data written for records.
    pub export_level: ExportLevel,
    /// Whether the generated texts are written to `outputs.json` (`--export-outputs-json`).
    pub outputs: bool,
    /// Whether the files of lines are compressed (`--compress-jsonl`).
    pub compress_jsonl: bool,
    /// Whether records contain `trace_data` (`--export-http-trace`).
    pub http_trace: bool,
    /// The files of server metrics.
    pub server_metrics: ServerMetricsFiles,
}

impl Config {
    /// Returns the requested directory.
    #[must_use]
    pub fn wanted(&self) -> Wanted<'_> {
        let Self { directory, prefix, overwrite, .. } = self;
        Wanted { directory, prefix: prefix.as_deref(), overwrite: *overwrite }
    }
}

/// The amount of data written for records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExportLevel {
    /// Summaries only.
    Summary,
    /// Also a line for each record.
    Records,
    /// Also request and response bodies.
    Raw,
}

named! { ExportLevel { "summary" => Summary, "records" => Records, "raw" => Raw } }

/// An error with the files.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The directory cannot be created.
    #[error(
        "cannot create the artifact directory {path}: {why}; choose another with --artifact-dir"
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The cause.
        why: io::Error,
    },
    /// The directory contains files of another run.
    #[error(
        "{path} contains {file} of an earlier run, which is not overwritten; use --overwrite to move \
         the earlier files to a subdirectory, or choose another directory with \
         --artifact-dir"
    )]
    Taken {
        /// The directory.
        path: PathBuf,
        /// One of the files in it.
        file: PathBuf,
    },
    /// Another run is writing to the directory.
    #[error(
        "another run is writing to {path}; wait until it ends, or choose another directory with \
         --artifact-dir"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A file of an earlier run cannot be moved aside.
    #[error(
        "cannot move {path} of an earlier run aside: {why}; remove it, or choose another directory with --artifact-dir"
    )]
    NotMoved {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {why}; choose another directory with --artifact-dir")]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: io::Error,
    },
    /// Some files are missing or truncated; the others are complete.
    #[error("{} not written completely: {}; {}", one_or_more(.failures), list(.failures), advice(*.has_records))]
    Incomplete {
        /// The complete files.
        written: Vec<PathBuf>,
        /// The other files.
        failures: Vec<WriteFailure>,
        /// Whether the file of records is complete.
        has_records: bool,
    },
}

/// A file that could not be written in full.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {error}", path.display())]
pub struct WriteFailure {
    /// The file.
    pub path: PathBuf,
    /// The first error.
    pub error: String,
}

fn one_or_more(failures: &[WriteFailure]) -> String {
    match failures.len() {
        1 => "one file was".to_owned(),
        several => format!("{several} files were"),
    }
}

const fn advice(has_records: bool) -> &'static str {
    if has_records {
        "free disk space and rebuild the summaries with `aiperf report`"
    } else {
        "the files that are not named here are complete; free disk space before the next run"
    }
}

fn list(failures: &[WriteFailure]) -> String {
    let each: Vec<_> =
        failures.iter().map(|f| format!("{} ({})", f.path.display(), f.error)).collect();
    each.join(", ")
}

/// One second: the maximum time of data that is lost if the process is killed.
const FLUSH_INTERVAL: Nanos = Nanos(1_000_000_000);

/// The open files of a run.
#[derive(Debug)]
pub struct ArtifactSet {
    layout: Layout,
    prefix: Option<String>,
    server_metrics: ServerMetricsFiles,
    of_records: Vec<Box<dyn RecordFile>>,
    /// Members of request bodies that contain secrets, with their redacted values.
    redacted: Vec<(String, serde_json::Value)>,
    conversation_ids: Vec<String>,
    next_flush: Nanos,
    written: Vec<PathBuf>,
    failures: Vec<WriteFailure>,
}

impl ArtifactSet {
    /// Checks every path in the directory that `claim` holds, and opens the files that grow during
    /// the run. Records contain the metrics of `registry`.
    pub fn create(
        claim: &Claim,
        config: &Config,
        run: &RunDescription,
        registry: &Registry,
    ) -> Result<Self, ArtifactError> {
        let layout = claim.layout().clone();
        let layout = if config.compress_jsonl { layout.compressed() } else { layout };
        let is_sliced = run.setup.slice_duration.is_some();
        let slices = layout.timeslices().map(|path| (path, is_sliced));
        let statistics = config.server_metrics.statistics(&layout);
        let optional = slices.into_iter().chain(statistics).filter(|(_, is_wanted)| *is_wanted);
        for path in layout.summaries().into_iter().chain(optional.map(|(path, _)| path)) {
            replace::check(path)?;
        }
        let redacted = redacted_extras(&run.setup.extra_inputs);
        let of_records = record_files(&layout, config, run, registry, &redacted)?;
        Manifest::running(run, config.prefix.clone(), &config.server_metrics)
            .write(&layout.manifest)
            .map_err(|why| ArtifactError::NotWritable { path: layout.manifest.clone(), why })?;
        Ok(Self {
            layout,
            prefix: config.prefix.clone(),
            server_metrics: config.server_metrics.clone(),
            of_records,
            redacted,
            conversation_ids: Vec::new(),
            next_flush: Nanos::ZERO,
            written: Vec::new(),
            failures: Vec::new(),
        })
    }

    /// Returns the paths of the files.
    #[must_use]
    pub(crate) const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Writes `inputs.json`, the request bodies of each conversation in the order of the dataset.
    /// From now on, records name their conversations by its IDs. Returns false, and leaves no file,
    /// if it would exceed [`MAX_INPUT_BYTES`] or `is_wanted` returns false meanwhile.
    pub fn write_inputs<P: IntoIterator<Item = Vec<u8>>>(
        &mut self,
        sessions: impl IntoIterator<Item = (String, P)>,
        is_wanted: &dyn Fn() -> bool,
    ) -> bool {
        let ids = &mut self.conversation_ids;
        let redacted = &self.redacted;
        let mut is_whole = true;
        let outcome = write_whole(&self.layout.inputs, |out| {
            let goes_on = |bytes| bytes <= MAX_INPUT_BYTES && is_wanted();
            is_whole = inputs::write(out, sessions, redacted, ids, &goes_on)?;
            if is_whole { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        });
        if is_whole {
            self.note(outcome);
        }
        is_whole
    }

    /// Does not write `inputs.json`. From now on, records name their conversations by `ids`.
    pub fn leave_out_inputs(&mut self, ids: impl IntoIterator<Item = String>) {
        self.conversation_ids = ids.into_iter().collect();
    }

    /// Appends a finished request to the files of records.
    pub fn record(&mut self, measured: &MeasuredRecord, clock: &Clock) {
        let conversation = measured.record.turn.conversation;
        let generated;
        let id = if let Some(id) = self.conversation_ids.get(conversation) {
            id
        } else {
            generated = dataset::conversation_id(conversation);
            &generated
        };
        for file in &mut self.of_records {
            file.push(measured, id, clock);
        }
        if self.of_records.iter().any(|file| file.is_full()) {
            self.flush();
        }
    }

    /// Opens the file of scrapes, if it is requested.
    pub fn open_scrapes(&mut self) -> Result<Option<ScrapeLines>, ArtifactError> {
        let path = &self.layout.server_metrics_lines;
        if self.server_metrics.formats.jsonl && !self.server_metrics.endpoints.is_empty() {
            return ScrapeLines::create(path, self.server_metrics.batch_size).map(Some);
        }
        Ok(None)
    }

    /// Closes the file of scrapes, and removes it if there were none.
    pub fn close_scrapes(&mut self, lines: ScrapeLines) {
        let is_empty = lines.is_empty();
        match lines.finish() {
            Ok(path) if is_empty => self.failures.extend(remove(&path).err()),
            outcome => self.note(outcome),
        }
    }

    /// Returns the writer of the samples of GPUs, which is flushed every `batch_size` lines.
    pub(crate) fn gpu_lines(&self, batch_size: usize) -> GpuLines {
        GpuLines::new(&self.layout.gpu_lines, batch_size)
    }

    /// Closes the file of the samples of GPUs.
    pub(crate) fn close_gpu_lines(&mut self, lines: GpuLines) {
        if let Some(outcome) = lines.finish() {
            self.note(outcome);
        }
    }

    /// Opens the file of probes of the network.
    pub(crate) fn open_probes(&self) -> Result<ProbeLines, ArtifactError> {
        ProbeLines::create(&self.layout.network_latency_lines)
    }

    /// Closes the file of probes of the network.
    pub(crate) fn close_probes(&mut self, lines: ProbeLines) {
        self.note(lines.finish());
    }

    /// Flushes the files once per second, so that a kill does not lose more than that. Must be
    /// called often.
    pub fn tick(&mut self, now: Nanos) {
        if now >= self.next_flush {
            self.next_flush = now + FLUSH_INTERVAL;
            self.flush();
        }
    }

    /// Flushes the files in the order in which they were opened: a killed run has the lines of all
    /// rows in its table.
    fn flush(&mut self) {
        self.of_records.iter_mut().for_each(|file| file.flush());
    }

    /// Closes the files of records and writes the summaries; `console_text` is the console output.
    /// Returns the files written.
    pub fn finish(
        mut self,
        report: &RunReport,
        console_text: &str,
    ) -> Result<Vec<PathBuf>, ArtifactError> {
        for file in mem::take(&mut self.of_records) {
            self.note(file.finish(report));
        }
        for outcome in write_summaries(&self.layout, &self.server_metrics, report, console_text) {
            self.note(outcome);
        }
        // They are closed first, but listed with the other files of scraped metrics.
        let early = [&self.layout.server_metrics_lines, &self.layout.gpu_lines];
        self.written.sort_by_key(|path| early.contains(&path));
        let manifest = Manifest::finished(report, self.prefix.clone(), &self.server_metrics);
        let path = self.layout.manifest.clone();
        self.note(write_whole(&path, |out| manifest.write_to(out)));
        if self.failures.is_empty() {
            Ok(self.written)
        } else {
            let has_records = self.written.contains(&self.layout.records);
            Err(ArtifactError::Incomplete {
                written: self.written,
                failures: self.failures,
                has_records,
            })
        }
    }

    /// Records the outcome of a file that was written separately.
    pub(crate) fn note(&mut self, outcome: Result<PathBuf, WriteFailure>) {
        match outcome {
            Ok(path) => self.written.push(path),
            Err(failure) => self.failures.push(failure),
        }
    }
}

/// Opens the files of records that `config` asks for.
fn record_files(
    layout: &Layout,
    config: &Config,
    run: &RunDescription,
    registry: &Registry,
    redacted: &[(String, serde_json::Value)],
) -> Result<Vec<Box<dyn RecordFile>>, ArtifactError> {
    let endpoint = run.endpoint.name;
    let mut files: Vec<Box<dyn RecordFile>> = Vec::new();
    if config.export_level >= ExportLevel::Records {
        let lines = RecordLines::create(&layout.records, registry, endpoint, config.http_trace)?;
        files.push(Box::new(lines));
    }
    if config.export_level >= ExportLevel::Raw {
        files.push(Box::new(RawLines::create(&layout.raw, endpoint, redacted.to_vec())?));
    }
    if config.outputs {
        files.push(Box::new(Outputs::create(&layout.outputs, registry)?));
    }
    if config.export_level >= ExportLevel::Records {
        files.push(Box::new(GrowingTable::create(layout, registry, run.benchmark_id)?));
    }
    Ok(files)
}

fn remove(path: &Path) -> Result<(), WriteFailure> {
    std::fs::remove_file(path)
        .map_err(|error| WriteFailure { path: path.to_owned(), error: error.to_string() })
}

/// Returns the `--extra-inputs` that are partly redacted; bodies have the same members.
fn redacted_extras(
    extra_inputs: &serde_json::Map<String, serde_json::Value>,
) -> Vec<(String, serde_json::Value)> {
    let is_redacted = |value: &serde_json::Value| value.to_string().contains(redact::MARK);
    let all = extra_inputs.iter().filter(|(_, value)| is_redacted(value));
    all.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Replaces members of `body` by those of `redacted`, and removes its credentials and those of its
/// URLs. Returns whether anything changed.
fn redact_body(body: &mut serde_json::Value, redacted: &[(String, serde_json::Value)]) -> bool {
    let mut is_another = redact::urls(body) | redact::credentials(body);
    for (name, shown) in redacted {
        if let Some(member) = body.get_mut(name) {
            *member = shown.clone();
            is_another = true;
        }
    }
    is_another
}

/// Replaces the JSON, CSV and console files, and the server metrics if there are any.
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
