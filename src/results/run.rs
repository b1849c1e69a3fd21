//! A run: its description, outcome and results. Used by the console, the files, multiple runs and
//! the rebuilding of reports; `run_manifest.json` is the serialization of these types.

mod agreement;
mod endpoint_type;
pub mod ledger;
mod limits;
pub mod listed;
pub mod provenance;
pub mod scenario;
pub mod setup;

pub use self::ledger::error_counts;
pub use self::limits::LoadLimit;

use std::path::PathBuf;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use base::redact::ShownUrl;
use base::setting::named;
use client::endpoint::{EndpointTraits, EndpointType};
use client::record::{ErrorKind, RequestError};
use client::schedule::{BranchStats, HeldLoad, PhaseStats, ReplayStats, Shard};
use dataset::{Account, Sent};
use measure::gpu::report::GpuReport;
use measure::judge::{self, AdaptivePath, Basis, EarlyEnd, Gate, Judged};
use measure::metrics::breakdown::{BreakdownResults, PhaseResult, PhaseTimes, TenantSetup};
use measure::metrics::health::{LoadHealth, LoadVerdict, OutputHealth, Verdict};
use measure::metrics::metric::{MetricResult, Objective, Percent, Settings, Statistic};
use measure::metrics::name_counts::NameCounts;
use measure::metrics::prefix_cache::PrefixCache;
use measure::metrics::session::Sessions;
use measure::metrics::silence::Silence;
use measure::metrics::steady::Unsteady;
use measure::metrics::tag;
use measure::metrics::time_breakdown::TimeBreakdown;
use measure::metrics::{
    Accumulator, ClientHealth, LoadReport, LongRun, MetricTag, MetricsError, Registry, Slices,
    SteadyState,
};
use measure::multi_run::evidence::Evidence;
use measure::multi_run::{self, Failure, Member, RunResult};
use measure::server_metrics::conservation::Comparison;
use measure::server_metrics::report::ServerMetrics;
use measure::server_metrics::time_breakdown::time_breakdown;
use telemetry::TelemetryReport;

pub use agreement::{Agreement, ClockOffset, ClockSpread};
pub use provenance::Provenance;
use setup::Setup;

/// The description of a run, known before its first request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunDescription {
    /// ID of the run.
    pub benchmark_id: Uuid,
    /// The API dialect; its title is the heading of the console tables.
    #[serde(rename = "endpoint_type", with = "endpoint_type")]
    pub endpoint: &'static EndpointTraits,
    /// Whether responses are streamed.
    pub streaming: bool,
    /// Seed of the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub random_seed: Option<u64>,
    /// Its position among others, if it is one of several runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub member: Option<Member>,
    /// The shard, if several processes share the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shard: Option<Shard>,
    /// The start time in nanoseconds since the epoch, if it was configured or agreed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub start_at_ns: Option<u64>,
    /// How the shards agreed on the start, if they did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agreement: Option<Agreement>,
    /// The command line, with secrets redacted.
    pub cli_command: String,
    /// Program, machine, tokenizer and servers.
    #[serde(default)]
    pub provenance: Provenance,
    /// The tables that were requested.
    #[serde(flatten)]
    pub tables: Tables,
    /// The load of the profiling phase of all shards; absent in files of other versions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub held_load: Option<HeldLoad>,
    /// Thresholds and objectives of the metrics.
    pub settings: Settings,
    /// The requests of the dataset before the run, if it was read and not generated.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dataset: Option<Account>,
    /// The limits that the results must keep.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub gates: Vec<Gate>,
    /// The settings that depend neither on the metrics nor on the tables; read from `config`.
    #[serde(skip)]
    pub setup: Setup,
    /// The configuration as in the JSON summary, without secrets.
    pub input_config: Value,
    /// All settings, without secrets: the serialized configuration of the program.
    #[serde(default)]
    pub config: Value,
}

/// The tables and lists that the console shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tables {
    /// HTTP timings (`--show-trace-timing`).
    #[serde(rename = "show_trace_timing")]
    pub trace_timing: bool,
    /// Server metrics (`--server-metrics-summary`).
    #[serde(rename = "show_server_metrics", default)]
    pub server_metrics: bool,
    /// All metrics (`--tables`).
    #[serde(rename = "tables", default)]
    pub client: ClientTables,
    /// The list of files (`--files`).
    #[serde(rename = "show_files", default)]
    pub files: bool,
}

/// How much the console shows of the client's metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientTables {
    /// One table of the metrics that people decide by.
    #[default]
    Summary,
    /// Also a table for each group of metrics.
    All,
}

named! { ClientTables { "summary" => Summary, "all" => All } }

impl RunDescription {
    /// Replaces the gates by which the run is judged.
    pub(crate) fn set_gates(&mut self, gates: &[Gate]) {
        let from = self.settings.latency_from;
        self.gates = gates.iter().map(|gate| gate.clone().counting(from)).collect();
    }

    /// Has `percentiles` computed, and those that the gates limit.
    pub fn add_percentiles(&mut self, percentiles: &[Percent]) {
        let of_gates = self.gates.iter().filter_map(Gate::percentile);
        self.settings.add_percentiles(of_gates.chain(percentiles.iter().copied()));
    }

    /// Creates the registry of the metrics that its records have.
    ///
    /// # Errors
    ///
    /// Fails if the metric of an objective is not among them.
    pub fn registry(&self) -> Result<Registry, MetricsError> {
        let tenants = self.setup.tenants.iter().map(TenantSetup::objectives);
        let registry = Registry::new(self.settings.clone(), self.endpoint, self.streaming)?;
        Ok(registry.with_tenants(tenants))
    }

    /// Returns the description of a run of which only the endpoint type is known.
    #[must_use]
    pub fn for_endpoint_type(endpoint_type: EndpointType) -> Self {
        Self {
            benchmark_id: Uuid::nil(),
            endpoint: endpoint_type.traits(),
            streaming: false,
            random_seed: None,
            member: None,
            shard: None,
            start_at_ns: None,
            agreement: None,
            cli_command: String::new(),
            provenance: Provenance::default(),
            tables: Tables::default(),
            held_load: None,
            settings: Settings::default(),
            dataset: None,
            gates: Vec::new(),
            setup: Setup::default(),
            input_config: Value::Object(serde_json::Map::new()),
            config: Value::Null,
        }
    }

    /// Returns each server that responded as its URL, name and version; before any has, the
    /// configured URLs.
    #[must_use]
    pub fn servers(&self) -> Vec<String> {
        let responded = &self.provenance.servers;
        if responded.is_empty() {
            return self.setup.urls.clone();
        }
        let described = responded.iter().map(|server| {
            let about = [Some(&*server.url), server.name.as_deref(), server.version.as_deref()];
            about.into_iter().flatten().collect::<Vec<_>>().join(" ")
        });
        described.collect()
    }

    /// Returns whether the console shows server metrics, or a gate limits them.
    #[must_use]
    pub fn needs_server_metrics(&self) -> bool {
        self.tables.server_metrics || self.gates.iter().any(Gate::is_of_server)
    }

    /// Returns the load of this process in the profiling phase.
    #[must_use]
    pub fn own_held_load(&self) -> Option<HeldLoad> {
        let shard = self.shard.unwrap_or(Shard::WHOLE);
        self.held_load.map(|load| match load {
            HeldLoad::Concurrency(whole) => HeldLoad::Concurrency(shard.share(whole)),
            other => other,
        })
    }
}

/// How a run ended, in addition to its statistics.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RunOutcome {
    /// Start of the measurement, nanoseconds since the epoch.
    pub start_wall_ns: u64,
    /// End of the measurement, in the same unit.
    pub end_wall_ns: u64,
    /// When each phase ran, if several are measured.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub phases: Vec<PhaseTimes>,
    /// Whether the user cancelled.
    pub was_cancelled: bool,
    /// Why the run is not complete, if it is not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub incomplete_reason: Option<String>,
    /// What ended the run before it was complete, if it was not the user.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_by: Option<EndedBy>,
    /// Why the load ended before its configured end, although the run is complete.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_early: Option<EarlyEnd>,
    /// The path of each load that followed the verdicts on its levels.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub adaptive: Vec<AdaptivePath>,
    /// The requests of the dataset that were sent in all phases; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sent: Option<Sent>,
    /// What the prompts repeat, and what the server read from its prefix cache; absent if the endpoint
    /// takes no prompts, and for several shards together.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prefix_cache: Option<PrefixCache>,
    /// What became of the conversations that others started in the profiling phase, if the dataset
    /// has any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub branches: Option<BranchStats>,
    /// How lanes followed the recorded run, if there were any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replay: Option<ReplayStats>,
    /// The configured load and the load reached.
    pub load: LoadReport,
    /// Whether the client itself kept up.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_health: Option<ClientHealth>,
    /// Whether the server kept up with the load; computed again from the records.
    #[serde(skip)]
    pub load_health: Option<LoadHealth>,
    /// Whether the server's outputs are as they should be; computed again from the records.
    #[serde(skip)]
    pub output_health: Option<OutputHealth>,
    /// The outcome of the telemetry export.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub telemetry: Option<TelemetryReport>,
    /// The client's latencies divided by the server's times, if it reports them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub time_breakdown: Option<TimeBreakdown>,
    /// Telemetry of GPUs, if there was any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gpus: Option<GpuReport>,
    /// The combined shards, if processes shared the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shards: Option<Combination>,
    /// What the server offers, if it rejected all requests and was asked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub offered: Option<Offered>,
}

/// What a server offers instead of what it rejects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// The models that it lists.
    pub models: Vec<String>,
    /// The paths of other endpoints that it answers at.
    pub paths: Vec<String>,
}

/// What ended a run before it was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// Too many of the requests failed, or the first were all rejected.
    Requests,
    /// The client could not go on, for example without threads or connections.
    Client,
    /// Its process was killed.
    Kill,
}

/// Everything that the summaries of a finished run contain.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// The description of the run.
    pub run: RunDescription,
    /// How it ended.
    pub outcome: RunOutcome,
    /// Results of the profiling phase, in catalogue order.
    pub results: Vec<MetricResult>,
    /// Results of the profiling phase by model and by URL.
    pub breakdowns: BreakdownResults,
    /// The sessions of the profiling phase, if conversations have several turns or start others.
    pub sessions: Option<Sessions>,
    /// Why the outputs of the profiling phase ended.
    pub finish_reasons: NameCounts,
    /// What was unusual about the responses of the profiling phase: names of
    /// [`note`](client::endpoint::note).
    pub response_notes: NameCounts,
    /// Times in which nothing arrived on any of several streams, the longest first.
    pub silences: Vec<Silence>,
    /// The finding of the profiling phase, or another one, for each gate.
    pub bases: Vec<Basis>,
    /// What the rates of the profiling phase are in the long run.
    pub long_run: LongRun,
    /// How many successful requests of the profiling phase missed each objective.
    pub missed_objectives: Vec<(Objective, u64)>,
    /// The steady state of the profiling phase, or why there is none.
    pub steady_state: Result<SteadyState, Unsteady>,
    /// The results of each phase, if several are measured.
    pub by_phase: Vec<PhaseResult>,
    /// The results of each window of the adaptive loads, in the order of [`RunOutcome::adaptive`].
    pub levels: Vec<Vec<MetricResult>>,
    /// The time slices of the profiling phase, if requested.
    pub slices: Option<Slices>,
    /// How much of the duration the responses cover, if the run follows a scenario.
    pub coverage: Option<scenario::DurationCoverage>,
    /// Results of the warmup phase.
    pub warmup_results: Vec<MetricResult>,
    /// Failures of the profiling phase, most frequent first.
    pub errors: Vec<ErrorCount>,
    /// Every phase at its end; empty in a report rebuilt from files.
    pub phases: Vec<PhaseStats>,
    /// Server metrics; absent if none were scraped.
    pub server_metrics: Option<ServerMetrics>,
}

/// What a percentile that was asked for needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PercentileNote {
    /// The percentile, such as `p99.9`.
    #[cfg_attr(test, schemars(with = "String"))]
    pub percentile: Statistic,
    /// Number of successful requests.
    pub requests: u64,
    /// The smallest number of requests with which the 95% interval of the percentile of a metric of
    /// each request ends at values other than the extremes.
    pub requests_needed: u64,
    /// What to think of the percentile if there are fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl PercentileNote {
    fn new(percent: Percent, requests: u64) -> Self {
        let requests_needed = percent.values_needed();
        let extreme = if percent.share() < 0.5 { "smallest" } else { "largest" };
        let note = (requests < requests_needed).then(|| {
            format!(
                "Too few requests to judge p{percent}: {requests}, at least {requests_needed} needed; \
                 it is little more than the {extreme} value"
            )
        });
        Self { percentile: Statistic::Percentile(percent), requests, requests_needed, note }
    }
}

/// The combined shards of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Combination {
    /// Configured number of shards.
    pub count: u64,
    /// Indices of the missing shards.
    pub missing: Vec<u64>,
    /// Time from the first start of a profiling phase to the last, by the clock of each host, in
    /// milliseconds. Without a warmup all report the time at which they were to start, even if their
    /// clocks differ.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub start_spread_ms: Option<f64>,
    /// The largest difference between the clocks of two hosts, in milliseconds, as far as it is known
    /// from the time stamps of files in the directory of all shards.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) clock_spread_ms: Option<f64>,
    /// Largest possible error of `clock_spread_ms`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) clock_spread_error_ms: Option<f64>,
    /// The shards that exist.
    pub parts: Vec<Part>,
}

/// A shard: one process's share of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Part {
    /// Its index, from 0.
    pub index: u64,
    /// Number of records of all phases.
    pub records: u64,
    /// Start of its profiling phase, in nanoseconds since the epoch; absent if it was killed before
    /// its end.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub start_wall_ns: Option<u64>,
    /// End of its profiling phase, in the same unit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end_wall_ns: Option<u64>,
    /// Whether it completed as configured.
    pub is_complete: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict: Option<Verdict>,
    /// The clock of its host, if the shards agreed on the start.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub clock: Option<ClockOffset>,
}

impl RunReport {
    /// Returns whether the run completed as configured.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.outcome.incomplete_reason.is_none() && !self.outcome.was_cancelled
    }

    /// Divides the client's mean latencies by the times of the servers, if those that were `configured`
    /// report any.
    pub fn divide_times(&mut self, configured: &[ShownUrl]) {
        let servers = self.server_metrics.as_ref();
        let health = self.outcome.client_health.as_ref();
        self.outcome.time_breakdown =
            time_breakdown(self.run.shard, &self.results, configured, servers, health);
    }

    /// Returns what became of the requests of the dataset, if it was read.
    #[must_use]
    pub fn dataset(&self) -> Option<Account> {
        let account = self.run.dataset.clone()?;
        Some(self.outcome.sent.map_or_else(|| account.clone(), |sent| account.clone().after(sent)))
    }

    /// Returns the results of the gates.
    #[must_use]
    pub fn gates(&self) -> Vec<Judged> {
        let health = self.outcome.client_health.as_ref();
        let facts = judge::Facts {
            results: &self.results,
            phases: &self.by_phase,
            steady_state: self.steady_state.as_ref(),
            server: self.server_metrics.as_ref().map(|metrics| &metrics.report),
            verdict: health.and_then(|health| health.verdict),
            load_verdict: self.load_verdict(),
            outputs: self.outcome.output_health.as_ref(),
            finish_reasons: &self.finish_reasons,
            bounds: health.map(ClientHealth::bounds).unwrap_or_default(),
            basis: Basis::default(),
        };
        judge::judge(&self.run.gates, &facts, &self.bases)
    }

    /// Returns what the percentiles that were asked for need.
    #[must_use]
    pub fn percentiles(&self) -> Vec<PercentileNote> {
        let requests = self.average(tag::REQUEST_COUNT).map_or(0, |count| count as u64);
        let asked = self.run.settings.percentiles.iter();
        asked.map(|percent| PercentileNote::new(*percent, requests)).collect()
    }

    /// Returns the verdict on the load, if there is one.
    #[must_use]
    pub fn load_verdict(&self) -> Option<LoadVerdict> {
        self.outcome.load_health.map(|health| health.verdict)
    }

    /// Returns whether a request of the profiling phase succeeded.
    #[must_use]
    pub fn has_success(&self) -> bool {
        self.average(tag::REQUEST_COUNT).is_some_and(|count| count > 0.0)
    }

    /// Returns why the results of the run are not complete, if they are not.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        let outcome = &self.outcome;
        let reason =
            || outcome.incomplete_reason.clone().unwrap_or_else(|| "incomplete".to_owned());
        Some(match outcome.ended_by {
            _ if outcome.shards.is_some() && !self.is_complete() => Failure::Partial(reason()),
            Some(EndedBy::Kill) => Failure::Partial(reason()),
            Some(EndedBy::Client) => Failure::Client(reason()),
            Some(EndedBy::Requests) => self.failure_of_requests(reason()),
            None if outcome.was_cancelled => Failure::Cancelled(reason()),
            None if !self.is_complete() => self.failure_of_requests(reason()),
            None if self.has_success() => return None,
            None => self.failure_of_requests("no request succeeded".to_owned()),
        })
    }

    /// Returns the failure of the run because of its requests, of which too few succeeded; `why`
    /// describes it.
    fn failure_of_requests(&self, why: String) -> Failure {
        let is_of_load =
            self.has_success() || self.errors.iter().any(|e| is_of_load(&e.error_details));
        match self.errors.first() {
            Some(most) if !is_of_load => {
                Failure::Server(format!("{why}; most common error: {}", most.error_details.message))
            }
            _ => Failure::Load(why),
        }
    }

    /// Returns the result of the run as `member` of the group with the configuration `config`, in
    /// which its files are in `directory`. `values` are those of its profiling phase.
    #[must_use]
    pub fn into_result(
        self,
        member: Member,
        directory: PathBuf,
        values: Accumulator,
        config: &multi_run::Config,
    ) -> RunResult {
        let failure = self.failure();
        let gpus = self.average(tag::GPU_COUNT).unwrap_or(0.0) as u64;
        let health = self.outcome.client_health;
        let bounds = health.as_ref().map(ClientHealth::bounds).unwrap_or_default();
        let is_closed = self.outcome.load.slot_seconds.is_some();
        let are_arrivals = matches!(self.run.held_load, Some(HeldLoad::Arrivals { .. }));
        let evidence_of = |filter| Evidence::from_run(filter, &self.results, &values, are_arrivals);
        let evidence = config.conditions().iter().map(evidence_of).collect();
        RunResult {
            member,
            benchmark_id: Some(self.run.benchmark_id),
            directory,
            random_seed: self.run.random_seed,
            failure,
            results: self.results,
            steady_results: self.steady_state.map_or_else(|_| Vec::new(), |steady| steady.results),
            time_breakdown: self.outcome.time_breakdown,
            sustained: if is_closed { values.by_latency() } else { self.long_run },
            long_run: self.long_run,
            throughput: judge::throughput(
                &values,
                config.confidence_level,
                bounds.rates,
                is_closed,
            ),
            evidence,
            rate_bounds: bounds.rates,
            values: (config.runs > 1).then_some(values),
            verdict: health.and_then(|health| health.verdict),
            load_verdict: self.outcome.load_health.map(|health| health.verdict),
            output_verdict: self.outcome.output_health.and_then(|health| health.verdict),
            gpus,
        }
    }

    /// Returns the comparison of the server's counts with the client's; empty for a single shard,
    /// since the server's counts include requests of the others.
    #[must_use]
    pub fn conservation(&self) -> &[Comparison] {
        let is_part = self.run.shard.is_some_and(|shard| shard.count() > 1);
        let known = self.server_metrics.as_ref().filter(|_| !is_part);
        known.map_or(&[], |metrics| &metrics.conservation)
    }

    /// Returns the share of the prompt tokens that the server read from its cache, in percent, if it is
    /// known.
    #[must_use]
    pub(crate) fn cached_percent(&self) -> Option<f64> {
        let counted = || Some(100.0 * self.outcome.prefix_cache.as_ref()?.cached_ratio()?);
        self.average(tag::OVERALL_USAGE_PROMPT_CACHE_READ_PCT).or_else(counted)
    }

    /// Returns the mean, or the single value, of the profiling phase's metric `tag`.
    #[must_use]
    pub fn average(&self, tag: MetricTag) -> Option<f64> {
        let result = self.results.iter().find(|result| result.metric.tag == tag)?;
        Some(result.stats.avg).filter(|value| value.is_finite())
    }
}

/// Returns whether this is how an overloaded server fails a request.
fn is_of_load(error: &RequestError) -> bool {
    matches!(error.kind, ErrorKind::Timeout | ErrorKind::Cancelled | ErrorKind::Http5xx)
        || error.code == Some(StatusCode::TOO_MANY_REQUESTS.as_u16())
}

/// One kind of failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ErrorCount {
    pub error_details: RequestError,
    /// The number of occurrences.
    pub count: u64,
}
