//! The files of a run: JSON, CSV, JSONL, Parquet, console text.
//!
//! Every path is tried before the first request. Records are appended under
//! their final names while the run goes; summaries are written to a temporary
//! name in the same directory and renamed. Times in files are wall time in
//! nanoseconds since the epoch; values are in display units. A failed write
//! never stops a run: it is kept and told at the end.

mod csv;
mod decimal;
mod json;
mod jsonl;
pub mod layout;
mod manifest;
mod parquet;
mod raw;
mod redact;
mod replace;
pub mod report;
mod sink;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::endpoint::EndpointTraits;
use crate::metrics::Metric;
use crate::metrics::metric::{MeasuredRecord, MetricResult, Settings};
use crate::record::RequestError;
use crate::schedule::PhaseStats;
use crate::telemetry::TelemetryReport;
use crate::units::{Clock, Nanos};

use jsonl::RecordLines;
use layout::Layout;
use parquet::RecordTable;
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

/// What is known of a run before its first request.
#[derive(Debug, Clone)]
pub struct RunDescription {
    /// The run.
    pub benchmark_id: Uuid,
    /// The dialect spoken; its title heads the console tables.
    pub endpoint: &'static EndpointTraits,
    /// Whether responses are streamed.
    pub streaming: bool,
    /// Thresholds and objectives of the metrics.
    pub settings: Settings,
    /// What was run, as the JSON export has it; no secrets.
    pub input_config: serde_json::Value,
    /// The command line, secrets redacted.
    pub cli_command: String,
    /// Seed of the run.
    pub random_seed: Option<u64>,
    /// Whether the console has a table of HTTP timings (`--show-trace-timing`).
    pub show_trace_timing: bool,
}

/// Everything that the summaries of a finished run say.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// What was run.
    pub run: RunDescription,
    /// Start of the first phase's results, nanoseconds since the epoch.
    pub start_wall_ns: u64,
    /// Their end.
    pub end_wall_ns: u64,
    /// Whether the user cancelled.
    pub was_cancelled: bool,
    /// Why the run is not complete, if it is not.
    pub incomplete_reason: Option<String>,
    /// Results of the profiling phase, in catalogue order.
    pub results: Vec<MetricResult>,
    /// Results of the warmup phase.
    pub warmup_results: Vec<MetricResult>,
    /// Failures of the profiling phase, most frequent first.
    pub errors: Vec<ErrorCount>,
    /// Every phase at its end; empty in a report rebuilt from files.
    pub phases: Vec<PhaseStats>,
    /// How the telemetry went.
    pub telemetry: Option<TelemetryReport>,
    /// What the load was asked to be and what it was.
    pub load: LoadReport,
}

impl RunReport {
    /// Whether the run did all that was asked for.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.incomplete_reason.is_none() && !self.was_cancelled
    }

    /// The mean, or the single value, of the profiling phase's metric `tag`.
    #[must_use]
    pub fn average(&self, tag: &str) -> Option<f64> {
        let result = self.results.iter().find(|result| result.metric.tag == tag)?;
        Some(result.stats.avg).filter(|value| value.is_finite())
    }
}

/// One kind of failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// The error.
    pub error_details: RequestError,
    /// How often.
    pub count: u64,
}

/// The load asked for and the load reached.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadReport {
    /// Concurrency asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_concurrency: Option<u64>,
    /// Most requests in flight at once.
    pub reached_concurrency: u64,
    /// Requests per second asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_rate: Option<f64>,
    /// Requests per second sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached_rate: Option<f64>,
}

/// What can go wrong with the files.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The directory could not be made.
    #[error(
        "cannot create the artifact directory {path}: {source}; choose another with --artifact-dir"
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written there.
    #[error("cannot write {path}: {source}; choose another directory with --artifact-dir")]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
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
#[derive(Debug)]
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
    run: RunDescription,
    lines: Option<RecordLines>,
    records: Option<LineSink>,
    raw: Option<LineSink>,
    table: Option<RecordTable>,
    conversation_ids: Vec<Arc<str>>,
    next_flush: Nanos,
    /// Names without a conversation in `inputs.json`.
    unnamed: Arc<str>,
    inputs_written: bool,
    failures: Vec<WriteFailure>,
}

impl ArtifactSet {
    /// Makes the directory, tries every path and opens the files that grow with
    /// the run. `metrics` are the metrics of the run, in catalogue order.
    pub fn create(
        config: &Config,
        run: &RunDescription,
        metrics: &[&'static Metric],
    ) -> Result<Self, ArtifactError> {
        let layout = Layout::new(&config.directory, config.prefix.as_deref());
        layout.make_directories()?;
        for path in layout.summaries() {
            replace::check(path)?;
        }
        let with_records = config.export_level >= ExportLevel::Records;
        let open = |wanted: bool, path: &Path| {
            if wanted { LineSink::create(path).map(Some) } else { Ok(None) }
        };
        let records = open(with_records, &layout.records)?;
        let raw = open(config.export_level >= ExportLevel::Raw, &layout.raw)?;
        let table = if with_records {
            Some(RecordTable::create(&layout.table, metrics, run.settings.developer_mode)?)
        } else {
            None
        };
        let set = Self {
            lines: with_records.then(|| RecordLines::new(metrics, run, config.http_trace)),
            layout,
            run: run.clone(),
            records,
            raw,
            table,
            conversation_ids: Vec::new(),
            next_flush: Nanos::ZERO,
            unnamed: Arc::from(""),
            inputs_written: false,
            failures: Vec::new(),
        };
        manifest::Manifest::running(&set.run, config)
            .write(&set.layout.manifest)
            .map_err(|source| ArtifactError::NotWritable {
                path: set.layout.manifest.clone(),
                source,
            })?;
        Ok(set)
    }
}
