//! Every module's configuration composed and validated once.
//!
//! Flags win over the environment, the environment over the defaults. The
//! command line makes a [`RunConfig`]; [`RunConfig::validate`] is the one place
//! that says which settings do not go together.

pub mod env;
mod many;
pub mod metrics_url;
pub mod selfcheck;
pub mod tokenizer;
pub mod url;
pub mod validate;

use std::fmt;
use std::path::PathBuf;

use ::url::Url;
use uuid::Uuid;

use crate::dataset::Seed;
use crate::multi_run::{self, Member};
use crate::schedule::config::{LoadPattern, PhaseConfig};
use crate::units::Nanos;
use crate::{artifacts, dataset, endpoint, metrics, redact, schedule, server_metrics, telemetry};

pub use crate::console::Ui;
pub use crate::transport::{ConnectionReuse, Connections, IpVersion};
pub use env::Environment;
pub use validate::ConfigError;

/// A whole run.
#[derive(Debug, Clone)]
pub struct RunConfig {
    /// What is asked.
    pub dataset: dataset::Config,
    /// What counts tokens.
    pub tokenizer: crate::tokenizer::Source,
    /// Whether input tokens are counted by the chat template.
    pub apply_chat_template: bool,
    /// How requests are formed and responses read.
    pub endpoint: endpoint::Config,
    /// When requests are sent.
    pub schedule: schedule::config::Config,
    /// How they are sent.
    pub transport: TransportConfig,
    /// Who sends them.
    pub runner: RunnerConfig,
    /// Thresholds and objectives.
    pub metrics: metrics::metric::Settings,
    /// Where telemetry goes.
    pub telemetry: telemetry::Config,
    /// Where files go.
    pub artifacts: artifacts::Config,
    /// Where the machine's self-check is, if it has one.
    pub selfcheck_file: Option<PathBuf>,
    /// What is on the terminal while the run goes.
    pub ui: Ui,
    /// Whether the results have a table of HTTP timings (`--show-trace-timing`).
    pub show_trace_timing: bool,
    /// Where the server's metrics are scraped; without endpoints they are off.
    pub server_metrics: server_metrics::Config,
    /// Whether the results have a table of the server's metrics
    /// (`--server-metrics-summary`).
    pub show_server_metrics: bool,
    /// How much is logged.
    pub log_level: LogLevel,
    /// How often it is run, or what the runs search for.
    pub multi_run: multi_run::Config,
    /// Its place among other runs, where it is one of many.
    pub member: Option<Member>,
    /// What was set, as the JSON export's `input_config` has it; no secrets.
    pub input_config: serde_json::Value,
    /// The command line, secrets redacted.
    pub cli_command: String,
    /// What the user should know before the run starts.
    pub warnings: Vec<String>,
}

impl RunConfig {
    /// `artifacts/<model>-openai-<endpoint type>-<load>`, as AIPerf names it; in it
    /// `shard-<i>` for a part of a run.
    #[must_use]
    pub fn default_directory(&self) -> PathBuf {
        let name = match self.dataset.models.as_slice() {
            [only] => only.clone(),
            [first, ..] => format!("{first}_multi"),
            [] => String::new(),
        };
        let safe = name.replace(['/', '\\'], "_");
        let load = match &self.multi_run.search {
            Some(_) => format!("-{}", multi_run::search::RECIPE.replace('-', "_")),
            None => self.schedule.phases.last().map_or_else(String::new, load_name),
        };
        let traits = self.endpoint.endpoint_type.traits();
        let directory =
            PathBuf::from("artifacts").join(format!("{safe}-openai-{}{load}", traits.name));
        match self.schedule.shard {
            Some(shard) => directory.join(format!("shard-{}", shard.index())),
            None => directory,
        }
    }

    /// The run's id: new each time, but of a run of several processes the one that
    /// they all find by themselves, a UUID of version 5 (RFC 9562) of what they
    /// share: program version, seed, start, number of processes, models, servers,
    /// endpoint type and phases.
    #[must_use]
    pub fn benchmark_id(&self, seed: Seed) -> Uuid {
        let Some(shard) = self.schedule.shard else { return Uuid::new_v4() };
        let urls: Vec<String> =
            self.transport.urls.iter().map(|url| redact::url(url.as_str())).collect();
        let common = (
            (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
            (seed.0, self.schedule.start_at, shard.count()),
            (&self.dataset.models, urls, self.endpoint.endpoint_type.traits().name),
            (&self.schedule.phases, &self.schedule.replay),
        );
        Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{common:?}").as_bytes())
    }
}

/// `-concurrency8`, `-request_rate10.0`, `-fixed_schedule` and the like.
fn load_name(phase: &PhaseConfig) -> String {
    let concurrency =
        phase.concurrency.map(|limit| format!("-concurrency{}", limit.most)).unwrap_or_default();
    match &phase.load {
        // All at once.
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
    }
}

/// How requests reach the server.
#[derive(Clone)]
pub struct TransportConfig {
    /// Base URLs, at least one; sessions take them in turn. A request goes to
    /// [`url::join`] of one and the endpoint's path.
    pub urls: Vec<Url>,
    /// Longest time a request may take (`--request-timeout-seconds`, 21600 s).
    pub request_timeout: Nanos,
    /// How connections are made, bounded and used again.
    pub connections: Connections,
    /// Acknowledge segments at once (`AIPERF_HTTP_QUICK_ACK`, true). Without it
    /// delayed acknowledgements are measured as the server's latency.
    pub quick_ack: bool,
    /// Take arrivals from the kernel's receive stamps (`AIPERF_HTTP_KERNEL_TIMESTAMPS`,
    /// true). Without them an arrival is when the program had read it.
    pub kernel_timestamps: bool,
    /// Headers of every request, in order (`--header`).
    pub headers: Vec<(String, String)>,
    /// Sent as `Authorization: Bearer …` (`--api-key`).
    pub api_key: Option<Secret>,
    /// How to find out that the model is served, before the first request.
    pub wait_for_model: WaitForModel,
    /// Which addresses of a host are tried (`AIPERF_HTTP_IP_VERSION`).
    pub ip_version: IpVersion,
}

impl fmt::Debug for TransportConfig {
    /// Shows neither credentials in URLs nor headers that bear secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let urls: Vec<String> = self.urls.iter().map(|url| redact::url(url.as_str())).collect();
        let headers: Vec<(&str, &str)> = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), redact::header_value(name, value)))
            .collect();
        f.debug_struct("TransportConfig")
            .field("urls", &urls)
            .field("request_timeout", &self.request_timeout)
            .field("connections", &self.connections)
            .field("quick_ack", &self.quick_ack)
            .field("kernel_timestamps", &self.kernel_timestamps)
            .field("headers", &headers)
            .field("api_key", &self.api_key)
            .field("wait_for_model", &self.wait_for_model)
            .field("ip_version", &self.ip_version)
            .finish()
    }
}

/// The wait for the model before the first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitForModel {
    /// How long to wait at most; zero does not ask.
    pub timeout: Nanos,
    /// What is asked.
    pub mode: WaitMode,
    /// Time between two attempts.
    pub interval: Nanos,
}

/// What shows that the model is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMode {
    /// `/v1/models` lists it.
    Models,
    /// It answers a request.
    Inference,
    /// Both.
    Both,
}

/// How many threads do what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunnerConfig {
    /// Threads that send and receive (`--workers-max`); `None` chooses.
    pub workers: Option<usize>,
    /// Threads that read responses (`--record-processors`); `None` chooses.
    pub processors: Option<usize>,
}

/// Least severity that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Everything.
    Trace,
    /// For those who look for a fault.
    Debug,
    /// What happens.
    Info,
    /// What may spoil the result.
    Warn,
    /// What did.
    Error,
}

/// A value that no file, log line or debug output shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `value`.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, to put on the wire.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(redact::REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(redact::REDACTED)
    }
}
