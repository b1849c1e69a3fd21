//! The files of a run: JSON, CSV, JSONL, Parquet, console text.

use std::path::PathBuf;

use uuid::Uuid;

use crate::metrics::metric::MetricResult;
use crate::record::RequestError;
use crate::schedule::PhaseStats;
use crate::telemetry::TelemetryReport;

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

/// Everything that the summaries of a finished run say.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// The run.
    pub benchmark_id: Uuid,
    /// What was run, as the JSON export has it; no secrets.
    pub input_config: serde_json::Value,
    /// The command line, secrets redacted.
    pub cli_command: String,
    /// Seed of the run.
    pub random_seed: Option<u64>,
    /// Title of the main table, as in `LLM Metrics`.
    pub metrics_title: String,
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
    /// Every phase at its end.
    pub phases: Vec<PhaseStats>,
    /// How the telemetry went.
    pub telemetry: Option<TelemetryReport>,
    /// What the load was asked to be and what it was.
    pub load: LoadReport,
}

/// One kind of failure.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ErrorCount {
    /// The error.
    pub error_details: RequestError,
    /// How often.
    pub count: u64,
}

/// The load asked for and the load reached.
#[derive(Debug, Clone, Default, serde::Serialize)]
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
