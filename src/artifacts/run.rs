//! What a run was, and what became of it.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::endpoint::EndpointTraits;
use crate::metrics::health::Verdict;
use crate::metrics::metric::{MetricResult, Settings};
use crate::metrics::{ClientHealth, LoadReport, Slices};
use crate::multi_run::Member;
use crate::record::RequestError;
use crate::schedule::{PhaseStats, Shard};
use crate::server_metrics::conservation::Comparison;
use crate::server_metrics::report::ServerMetrics;
use crate::telemetry::TelemetryReport;
use crate::units::Nanos;

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
    /// Its place among others, where it is one of many.
    pub member: Option<Member>,
    /// Which part of the run this is, where several processes share it.
    pub shard: Option<Shard>,
    /// When it was to start, nanoseconds since the epoch, if that was said.
    pub start_at_ns: Option<u64>,
    /// Whether the console has a table of HTTP timings (`--show-trace-timing`).
    pub show_trace_timing: bool,
    /// Whether the console has a table of the server's metrics
    /// (`--server-metrics-summary`).
    pub show_server_metrics: bool,
}

impl RunDescription {
    /// Length of the slices of time that statistics are given for
    /// (`--slice-duration`).
    #[must_use]
    pub fn slice_duration(&self) -> Option<Nanos> {
        slice_duration(&self.input_config)
    }
}

/// What an `input_config` says of the length of slices.
pub(super) fn slice_duration(input_config: &serde_json::Value) -> Option<Nanos> {
    let seconds = input_config.pointer("/artifacts/slice_duration")?.as_f64()?;
    Some(Nanos::from_seconds(seconds)).filter(|duration| *duration > Nanos::ZERO)
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
    /// The profiling phase in slices of time, where they were asked for.
    pub slices: Option<Slices>,
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
    /// Whether the client itself kept up.
    pub client_health: Option<ClientHealth>,
    /// The server's side; absent where none was scraped.
    pub server_metrics: Option<ServerMetrics>,
    /// What it was combined from, where processes shared the run.
    pub shards: Option<Combination>,
}

/// The parts of a run that were combined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Combination {
    /// How many there were to be.
    pub count: u64,
    /// Those that there are not.
    pub missing: Vec<u64>,
    /// From the first start of a profiling phase to the last, each by the clock of
    /// its own host, in milliseconds. Without a warmup all say the time that
    /// `--start-at` names, whatever the clocks do.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub start_spread_ms: Option<f64>,
    /// Those that there are.
    pub parts: Vec<Part>,
}

/// One process's part of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Which, from 0.
    pub index: u64,
    /// Records of all phases.
    pub records: u64,
    /// Start of its profiling phase, nanoseconds since the epoch; absent where it
    /// did not live to say.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub start_wall_ns: Option<u64>,
    /// Its end.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end_wall_ns: Option<u64>,
    /// Whether it did all that was asked of it.
    pub is_complete: bool,
    /// Whether its client kept up.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict: Option<Verdict>,
}

impl RunReport {
    /// Whether the run did all that was asked for.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.incomplete_reason.is_none() && !self.was_cancelled
    }

    /// The server's counts beside the client's; none for one of several parts of a
    /// run, since the server counts what the others ask too.
    #[must_use]
    pub fn conservation(&self) -> &[Comparison] {
        let is_part = self.run.shard.is_some_and(|shard| shard.count() > 1);
        let known = self.server_metrics.as_ref().filter(|_| !is_part);
        known.map_or(&[], |metrics| &metrics.conservation)
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
