//! The configuration of a run, composed of each module's own and validated once.
//!
//! Flags take precedence over the environment, and the environment over defaults. The
//! command line builds a [`RunConfig`], and [`RunConfig::check`] checks it once, module by module.

pub mod aiperf;
mod check;
mod control;
mod many;
pub(crate) mod metrics_url;
pub mod scenario;
pub mod scheduler;
pub mod selfcheck;
mod tenants;
pub(crate) mod tokenizer;
pub(crate) mod url;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use ::url::Url;
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use serde::{Serialize, Serializer};
use uuid::Uuid;

use base::redact;
use base::redact::{Secret, ShownUrl};
use base::setting::named;
use base::units::Nanos;
use client::endpoint;
use client::network_latency;
use client::schedule;
use client::schedule::config::{LoadPattern, PhaseConfig, only_measured};
use client::transport;
use dataset;
use dataset::{CanaryConfig, Seed};
use measure::gpu;
use measure::judge;
use measure::metrics;
use measure::metrics::deployment::Deployment;
use measure::multi_run::{self, Member, Variation};
use measure::otlp_receiver;
use measure::server_metrics;
use results::api;
use results::artifacts;
use results::mlflow;
use results::report::PageFile;
use results::report::plot::AutoPlot;
use results::run::Tables;
use results::run::scenario::ScenarioRun;
use telemetry;

pub use base::environment::Environment;
pub use check::ConfigError;
pub use client::transport::{ConnectionReuse, Connections, IpVersion};
pub use control::{Control, ResetKvCache, ServerProfiler};
pub use results::console::Ui;
pub use tenants::{Tenant, Tenants};

/// The configuration of a run. Serialized, without secrets, it is `run_info.config` of the JSON
/// export: a setting that is added to a module's configuration is recorded without further code.
/// Durations are in nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub struct RunConfig {
    /// The prompts to send.
    pub dataset: dataset::Config,
    /// Which requests are canaries, if any are (`--canaries`).
    pub canaries: Option<CanaryConfig>,
    /// The tokenizer that counts tokens.
    pub tokenizer: tokens::tokenizer::Source,
    /// Whether input tokens are counted after applying the chat template.
    pub apply_chat_template: bool,
    /// How requests are built and responses parsed.
    pub endpoint: endpoint::Config,
    /// When requests are sent, and how many.
    pub schedule: schedule::config::Config,
    /// The tenants that share the load (`--tenants`); empty for a load of one client.
    pub tenants: Vec<Tenant>,
    /// The scenario that the run follows, if it follows one.
    pub scenario: Option<ScenarioRun>,
    /// How the shards of the run agree on its start, if they do.
    pub barrier: Option<scheduler::Barrier>,
    /// How requests are sent.
    pub transport: transport::Config,
    /// Which servers, and as whom.
    pub server: ServerConfig,
    /// The threads that send requests and process responses.
    pub runner: RunnerConfig,
    /// Thresholds and objectives.
    pub metrics: metrics::metric::Settings,
    /// Where telemetry is exported to.
    pub telemetry: telemetry::Config,
    /// Where spans of the servers are received, if they are.
    pub otel_receiver: Option<otlp_receiver::Config>,
    /// Where files are written.
    pub artifacts: artifacts::Config,
    /// The page to write, if any (`--html`).
    #[serde(skip)]
    pub page: Option<PageFile>,
    /// Whether charts are drawn after the run.
    #[serde(skip)]
    pub auto_plot: AutoPlot,
    /// How to show what would be sent, if nothing is sent (`--dry-run`).
    #[serde(skip)]
    pub dry_run: Option<DryRun>,
    /// Path of this machine's saved self-check, if known.
    #[serde(skip)]
    pub selfcheck_file: Option<PathBuf>,
    /// How progress is displayed.
    pub ui: Ui,
    /// Interval between blocks of statistics in the progress (`--stats-interval`); zero for no
    /// periodic output, absent for lines.
    #[serde(skip)]
    pub stats_interval: Option<Nanos>,
    /// Where the progress and the results are served.
    #[serde(skip)]
    pub api: api::Config,
    /// The MLflow server that the run is written to, if any.
    #[serde(skip)]
    pub mlflow: Option<mlflow::Config>,
    /// The tables to print.
    #[serde(flatten)]
    pub tables: Tables,
    /// Which server metrics to scrape; off without endpoints.
    pub server_metrics: server_metrics::Config,
    /// Which exporters of GPUs to scrape; off without endpoints.
    pub gpu: gpu::Config,
    /// What serves the model and what that costs.
    pub deployment: Deployment,
    /// How the round-trip time of the network is known, if it is subtracted from latencies.
    pub network_latency: Option<network_latency::Config>,
    /// The limits that the results must keep.
    pub judge: judge::Config,
    /// Minimum severity to log.
    pub log_level: LogLevel,
    /// The number of runs, and what they search for.
    pub multi_run: multi_run::Config,
    /// This run's position, if it is one of several.
    #[serde(skip)]
    pub member: Option<Member>,
    /// The command line, secrets redacted.
    #[serde(skip)]
    pub cli_command: String,
    /// Warnings to print before the run starts.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// What `aiperf profile` performs: one run, or the runs of several cells.
#[derive(Debug, Clone)]
pub struct Benchmark {
    /// The configuration of the run, or of the first cell.
    pub config: RunConfig,
    /// The cells of a sweep that are known before the first run; empty without any.
    pub cells: Vec<Cell>,
    /// The configurations of a search over several settings (`--search-space`).
    pub space: Option<Arc<dyn Space>>,
}

/// The configurations of a search over several settings.
pub trait Space: fmt::Debug + Send + Sync {
    /// Returns the configuration of the cell with the index `index` and these values of the
    /// settings.
    ///
    /// # Errors
    ///
    /// Fails if the settings do not go with each other; the text says why.
    fn config(&self, index: u64, values: &[serde_json::Value]) -> Result<RunConfig, String>;
}

impl Benchmark {
    /// Creates a benchmark of one run, or of runs with the same settings.
    #[must_use]
    pub const fn from_run(config: RunConfig) -> Self {
        Self { config, cells: Vec::new(), space: None }
    }

    /// Returns the configuration of each cell that is known before the first run.
    pub(crate) fn each(&self) -> impl Iterator<Item = &RunConfig> {
        std::iter::once(&self.config).chain(self.cells.iter().skip(1).map(|cell| &cell.config))
    }
}

/// A cell of a sweep.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Its settings that are swept.
    pub variation: Variation,
    /// Its configuration.
    pub config: RunConfig,
}

impl RunConfig {
    /// The settings in AIPerf's layout: `input_config` of the JSON export.
    #[must_use]
    pub fn input_config(&self) -> serde_json::Value {
        aiperf::input_config(self)
    }

    /// The default artifact directory: `artifacts/<model>-openai-<endpoint type>-<load>`, as in
    /// AIPerf, with a subdirectory `shard-<i>` for a part of a run.
    #[must_use]
    pub fn default_directory(&self) -> PathBuf {
        let name = match self.dataset.models.as_slice() {
            [only] => only.clone(),
            [first, ..] => format!("{first}_multi"),
            [] => String::new(),
        };
        let safe = name.replace(['/', '\\'], "_");
        let load = match &self.multi_run.sweep {
            Some(sweep) => sweep.directory_suffix(),
            None => match only_measured(&self.schedule.phases) {
                Some(phase) => load_name(phase),
                None => format!("-{}phases", self.schedule.measured().count()),
            },
        };
        let traits = self.endpoint.endpoint_type.traits();
        let directory =
            PathBuf::from("artifacts").join(format!("{safe}-openai-{}{load}", traits.name));
        match self.schedule.shard {
            Some(shard) => directory.join(shard.directory()),
            None => directory,
        }
    }

    /// The run's ID: random, except for a run of several processes. Each of them derives the
    /// same version 5 UUID (RFC 9562) from the settings that they share: program version,
    /// seed, start time, number of processes, models, servers, endpoint type and phases.
    #[must_use]
    pub fn benchmark_id(&self, seed: Seed) -> Uuid {
        let Some(shard) = self.schedule.shard else { return Uuid::new_v4() };
        let urls: Vec<ShownUrl> = self.server.urls.iter().map(Secret::<Url>::shown).collect();
        let common = (
            ("aiperf", env!("CARGO_PKG_VERSION")),
            (seed.0, self.schedule.start_at, shard.count()),
            (&self.dataset.models, urls, self.endpoint.endpoint_type.traits().name),
            (&self.schedule.phases, &self.schedule.replay),
        );
        let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        hash.update(Uuid::NAMESPACE_OID.as_bytes());
        hash.update(format!("{common:?}").as_bytes());
        let first = hash.finish().as_ref().first_chunk().copied().unwrap_or_default();
        uuid::Builder::from_sha1_bytes(first).into_uuid()
    }
}

/// `-concurrency8`, `-request_rate10.0`, `-fixed_schedule` and the like.
fn load_name(phase: &PhaseConfig) -> String {
    let concurrency =
        phase.concurrency.map(|limit| format!("-concurrency{}", limit.most)).unwrap_or_default();
    match &phase.load {
        // All requests at once.
        LoadPattern::ClosedLoop if phase.concurrency.is_none() => "-request_rateinf".to_owned(),
        LoadPattern::ClosedLoop => concurrency,
        LoadPattern::Rate(rate) => match rate.points.as_slice() {
            [only] => format!("{concurrency}-request_rate{:?}", only.rate),
            _ => format!("{concurrency}-request_rate_series"),
        },
        LoadPattern::FixedSchedule => "-fixed_schedule".to_owned(),
        LoadPattern::UserCentric { rate, users } => {
            format!("-user_centric-users{users}-qps{rate:?}")
        }
        LoadPattern::Agentic(_) => format!("{concurrency}-agentic_replay"),
    }
}

/// Which servers requests go to, and as whom.
#[derive(Clone, Serialize)]
pub struct ServerConfig {
    /// Base URLs, at least one, assigned to sessions round-robin. A request is sent to
    /// [`url::join`] of its base URL and the endpoint's path.
    pub urls: Vec<Secret<Url>>,
    /// Headers of every request, in order (`--header`).
    #[serde(serialize_with = "shown_headers")]
    pub headers: Vec<(String, String)>,
    /// Sent as `Authorization: Bearer …` (`--api-key`).
    pub api_key: Option<Secret>,
    /// Name of the header with the session ID (`--session-header`); `None` is `X-Correlation-ID`.
    pub session_header: Option<String>,
    /// Further headers with the session ID, in lower case.
    pub session_copies: Vec<&'static str>,
    /// How to wait for the model before the first request.
    pub wait_for_model: WaitForModel,
    /// Requests that control the servers around the run.
    pub control: Control,
}

impl fmt::Debug for ServerConfig {
    /// Shows neither credentials in URLs nor headers that bear secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerConfig").field(&serde_json::to_value(self)).finish()
    }
}

/// Serializes the headers without their secrets.
fn shown_headers<S: Serializer>(
    headers: &[(String, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer
        .collect_map(headers.iter().map(|(name, value)| (name, redact::header_value(name, value))))
}

/// The wait for the model before the first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WaitForModel {
    /// Maximum time to wait; zero skips the check.
    pub timeout: Nanos,
    /// How to check that the model is available.
    pub mode: WaitMode,
    /// Time between checks.
    pub interval: Nanos,
}

/// How to check that the model is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMode {
    /// `/v1/models` lists it.
    Models,
    /// The model answers a request.
    Inference,
    /// Both.
    Both,
}

named! { WaitMode { "models" => Models, "inference" => Inference, "both" => Both } }

/// Number of concurrent streams that one worker times within a millisecond on a slow core
/// (docs/performance.md).
const STREAMS_PER_WORKER: u64 = 250;

/// Number of threads, and when they give up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RunnerConfig {
    /// Threads that send requests and receive responses (`--workers-max`); `None` for the
    /// default.
    pub workers: Option<usize>,
    /// Threads that parse responses (`--record-processors`); `None` for the default.
    pub processors: Option<usize>,
    /// Number of first requests after whose rejection the run is aborted
    /// (`--rejected-request-limit`); 0 never aborts it.
    pub rejection_limit: u64,
}

impl RunnerConfig {
    /// Returns the number of worker threads for phases with estimates of their requests in flight
    /// on a machine with `cores`: by default one for every [`STREAMS_PER_WORKER`] requests, as long
    /// as a core is left for the processors, and all of these cores without an estimate.
    #[must_use]
    pub(crate) fn workers_for(
        &self,
        in_flight: impl IntoIterator<Item = Option<u64>>,
        cores: usize,
    ) -> usize {
        let available = cores.saturating_sub(1).max(1);
        let needed = |requests: u64| {
            let workers = usize::try_from(requests.div_ceil(STREAMS_PER_WORKER));
            workers.map_or(available, |workers| workers.clamp(1, available))
        };
        let default = in_flight.into_iter().map(|estimate| estimate.map_or(available, needed));
        self.workers.or_else(|| default.max()).unwrap_or(1)
    }
}

/// How a dry run shows what would be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DryRun {
    /// As a table.
    Table,
    /// As JSON.
    Json,
}

named! { DryRun { "table" => Table, "json" => Json } }

/// Minimum severity to log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Everything.
    Trace,
    /// Details for debugging.
    Debug,
    /// Normal progress.
    Info,
    /// Problems that may affect the results.
    Warn,
    /// Failures.
    Error,
}

named! {
    LogLevel {
        "trace" => Trace,
        "debug" => Debug,
        "info" => Info,
        "notice" => Info,
        "success" => Info,
        "warning" => Warn,
        "error" => Error,
        "critical" => Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_serves_250_requests_and_leaves_a_core() {
        let workers = |in_flight: &[_], cores| {
            RunnerConfig::default().workers_for(in_flight.iter().copied(), cores)
        };
        let many = Some(1_000_000);
        assert_eq!([1, 250, 251, 1000].map(|n| workers(&[Some(n)], 64)), [1, 1, 2, 4]);
        assert_eq!([1, 2, 4, 64].map(|cores| workers(&[many], cores)), [1, 1, 3, 63]);
        assert_eq!(workers(&[Some(0)], 64), 1);
        // The phase that needs most decides; one without an estimate may need all.
        assert_eq!(workers(&[Some(600), Some(10)], 64), 3);
        assert_eq!(workers(&[Some(600), None], 64), 63);
        let told = RunnerConfig { workers: Some(7), ..RunnerConfig::default() };
        assert_eq!(told.workers_for([many], 2), 7);
    }
}
