//! `profile_export_aiperf.json`: the statistics of the run.

mod adaptive;
mod phase;

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use base::units::Nanos;
use client::schedule::{BranchStats, ReplayStats, Shard};
use dataset::Account;
use measure::judge::{EarlyEnd, Judged};
use measure::metrics::breakdown::{GroupResult, Tenants, Workers};
use measure::metrics::health::{LoadHealth, OutputHealth};
use measure::metrics::metric::MetricResult;
use measure::metrics::prefix_cache::PrefixCache;
use measure::metrics::silence::Silence;
use measure::metrics::steady::{SteadyState, Unsteady};
use measure::metrics::time_breakdown::TimeBreakdown;
use measure::metrics::{ClientHealth, LoadReport};
use measure::multi_run::{Member, Variation};
use measure::server_metrics::conservation::Comparison;
use telemetry::TelemetryReport;

use self::adaptive::Adaptive;
use self::phase::Phase;
use super::entry::Entry;
use super::gpu;
use super::local_time::{local_time, zoned_time};
use super::whole::pretty;
use crate::run::scenario::{DurationCoverage, Submission};
use crate::run::{Agreement, Combination, ErrorCount, PercentileNote, Provenance, RunReport};
use crate::warnings::Warning;

/// Most silences that are listed.
const MAX_SILENCES: usize = 100;

/// Version of the file layout.
const SCHEMA_VERSION: &str = "1.4";

/// Writes the summary, indented by two spaces.
pub(super) fn write(out: &mut dyn Write, report: &RunReport) -> io::Result<()> {
    pretty(out, &Summary::from_report(report))
}

/// The file.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[expect(clippy::struct_field_names, reason = "the names in the file")]
pub(super) struct Summary<'a> {
    /// Version of the layout.
    schema_version: &'static str,
    /// Version of the program that wrote the file.
    aiperf_version: &'static str,
    /// ID of the run.
    benchmark_id: String,
    /// The result as one of the scenario that the run follows (`--scenario`).
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Submission>,
    /// How much of the configured duration the responses cover, if the run follows a scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    metric_duration_coverage: Option<DurationCoverage>,
    /// The metrics of the profiling phase.
    #[serde(flatten)]
    metrics: Metrics<'a>,
    /// The metrics of each model, if there are several.
    #[serde(skip_serializing_if = "Groups::is_empty")]
    by_model: Groups<'a>,
    /// The metrics of each URL, if there are several.
    #[serde(skip_serializing_if = "Groups::is_empty")]
    by_url: Groups<'a>,
    /// The metrics of each worker that the server names in its responses, if there are several.
    #[serde(skip_serializing_if = "Groups::is_empty")]
    by_worker: Groups<'a>,
    /// The workers compared with each other, if there are several, and at most 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    workers: Option<&'a Workers>,
    /// The metrics of each tenant, if tenants share the load (`--tenants`).
    #[serde(skip_serializing_if = "Groups::is_empty")]
    by_tenant: Groups<'a>,
    /// The tenants compared with each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenants: Option<&'a Tenants>,
    /// The metrics of each turn of the conversations, if they have several. Turns count from 1; later
    /// ones are together, such as `17-32`.
    #[serde(skip_serializing_if = "Groups::is_empty")]
    by_turn: Groups<'a>,
    /// Each phase, in order, if several are measured. The metrics above are those of all of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    phases: Vec<Phase<'a>>,
    /// Each load that followed the verdicts on its levels (`--adaptive-scale`), and its levels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    adaptive: Vec<Adaptive<'a>>,
    /// The number of successful requests of each finish reason, if the server reports any; a request
    /// whose choices ended for several reasons counts for each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    finish_reasons: BTreeMap<&'a str, u64>,
    /// The number of successful requests whose response was unusual in how it says its content and its
    /// counts, by what was unusual; a response can be so in several ways.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    response_notes: BTreeMap<&'a str, u64>,
    /// Times in which nothing arrived although several responses were being streamed, the longest first.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    silences: &'a [Silence],
    /// What the percentiles that were asked for need (`--percentiles`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    percentiles: Vec<PercentileNote>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix_cache: Option<&'a PrefixCache>,
    steady_state: Steady<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_breakdown: Option<&'a TimeBreakdown>,
    /// GPU telemetry.
    #[serde(skip_serializing_if = "Option::is_none")]
    telemetry_data: Option<gpu::Section<'a>>,
    /// The settings that AIPerf has too.
    input_config: &'a Value,
    run_info: RunInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<Shard>,
    /// The start time in nanoseconds since the epoch, if it was configured or agreed.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_at_ns: Option<u64>,
    /// How the shards agreed on the start, if they did.
    #[serde(skip_serializing_if = "Option::is_none")]
    agreement: Option<&'a Agreement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<&'a Combination>,
    /// Whether the user cancelled the run.
    was_cancelled: bool,
    /// Whether the run completed as configured.
    is_complete: bool,
    /// Why the run is not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete_reason: Option<&'a str>,
    /// Why the load ended before its configured end, although the run is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_early: Option<&'a EarlyEnd>,
    /// Failures of the profiling phase, most frequent first.
    error_summary: &'a [ErrorCount],
    /// Start of the results in local time.
    start_time: String,
    /// End of the results in local time.
    end_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch_stats: Option<BranchStats>,
    /// How lanes followed the recorded run.
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<ReplayStats>,
    /// The metrics of the warmup phase.
    #[serde(skip_serializing_if = "Metrics::is_empty")]
    warmup_metrics: Metrics<'a>,
    load: &'a LoadReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_health: Option<&'a ClientHealth>,
    /// Whether the server kept up with the load; absent if all requests were sent at once, or the
    /// load is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    load_health: Option<LoadHealth>,
    /// Whether the server's outputs are as they should be; absent if none arrived, or the endpoint does not
    /// generate text.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_health: Option<&'a OutputHealth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    telemetry: Option<&'a TelemetryReport>,
    /// What to know before reading the results, the most serious first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
    /// The results of the gates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gates: Vec<Judged>,
    #[serde(skip_serializing_if = "ServerSide::is_empty")]
    server_metrics: ServerSide<'a>,
}

impl<'a> Summary<'a> {
    fn from_report(report: &'a RunReport) -> Self {
        let RunReport { run, outcome, breakdowns, .. } = report;
        let metrics = |results| Metrics { results, developer_mode: run.settings.developer_mode };
        let groups = |groups: &'a [GroupResult]| {
            Groups(groups.iter().map(|group| (&*group.name, metrics(&group.results))).collect())
        };
        let phases = report.by_phase.iter().enumerate();
        Self {
            schema_version: SCHEMA_VERSION,
            aiperf_version: env!("CARGO_PKG_VERSION"),
            benchmark_id: run.benchmark_id.to_string(),
            metadata: report.submission(),
            metric_duration_coverage: report.coverage,
            metrics: metrics(&report.results),
            by_model: groups(&breakdowns.by_model),
            by_url: groups(&breakdowns.by_url),
            by_worker: groups(&breakdowns.by_worker),
            workers: breakdowns.workers.as_ref(),
            by_tenant: groups(&breakdowns.by_tenant),
            tenants: breakdowns.tenants.as_ref(),
            by_turn: groups(&breakdowns.by_turn),
            phases: phases.map(|(index, phase)| Phase::new(index, phase, report)).collect(),
            adaptive: adaptive::adaptive_loads(report),
            finish_reasons: report.finish_reasons.iter().collect(),
            response_notes: report.response_notes.iter().collect(),
            silences: report.silences.get(..MAX_SILENCES).unwrap_or(&report.silences),
            percentiles: report.percentiles(),
            prefix_cache: outcome.prefix_cache.as_ref(),
            steady_state: Steady::new(
                report.steady_state.as_ref(),
                outcome.start_wall_ns,
                run.settings.developer_mode,
            ),
            time_breakdown: outcome.time_breakdown.as_ref(),
            telemetry_data: outcome.gpus.as_ref().map(gpu::Section::from_report),
            input_config: &run.input_config,
            run_info: RunInfo::from_report(report),
            shard: run.shard,
            start_at_ns: run.start_at_ns,
            agreement: run.agreement.as_ref(),
            shards: outcome.shards.as_ref(),
            was_cancelled: outcome.was_cancelled,
            is_complete: report.is_complete(),
            incomplete_reason: outcome.incomplete_reason.as_deref(),
            ended_early: outcome.ended_early.as_ref(),
            error_summary: &report.errors,
            start_time: local_time(outcome.start_wall_ns),
            end_time: local_time(outcome.end_wall_ns),
            branch_stats: outcome.branches,
            replay: outcome.replay,
            warmup_metrics: metrics(&report.warmup_results),
            load: &outcome.load,
            client_health: outcome.client_health.as_ref(),
            load_health: outcome.load_health,
            output_health: outcome.output_health.as_ref(),
            telemetry: outcome.telemetry.as_ref(),
            warnings: Warning::all_from_report(report),
            gates: report.gates(),
            server_metrics: ServerSide { conservation: report.conservation() },
        }
    }
}

/// The steady state of the profiling phase.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Steady<'a> {
    Found {
        /// Always true.
        found: bool,
        /// Start in nanoseconds since the epoch.
        start_ns: u64,
        /// End in nanoseconds since the epoch.
        end_ns: u64,
        /// Start in nanoseconds since the start of the results.
        start_offset_ns: u64,
        /// End in nanoseconds since the start of the results.
        end_offset_ns: u64,
        duration_ns: Nanos,
        /// Number of requests within it.
        request_count: u64,
        /// The requests within it, divided by all requests of the phase.
        request_share: f64,
        /// How far rate times mean latency is above the mean number of requests in flight, in percent
        /// of it; 0 by Little's law.
        #[serde(skip_serializing_if = "Option::is_none")]
        littles_law_residual_percent: Option<f64>,
        /// Half the width of the 95% confidence interval of the requests per second.
        #[serde(skip_serializing_if = "Option::is_none")]
        request_throughput_half_width: Option<f64>,
        metrics: Metrics<'a>,
    },
    None {
        /// Always false.
        found: bool,
        /// Why there is no steady state.
        reason: String,
    },
}

impl<'a> Steady<'a> {
    /// The steady state of results that began at `start_wall_ns`.
    fn new(
        found: Result<&'a SteadyState, &'a Unsteady>,
        start_wall_ns: u64,
        developer_mode: bool,
    ) -> Self {
        match found {
            Err(reason) => Self::None { found: false, reason: reason.to_string() },
            Ok(steady) => Self::Found {
                found: true,
                start_ns: steady.start_ns,
                end_ns: steady.end_ns,
                start_offset_ns: steady.start_ns.saturating_sub(start_wall_ns),
                end_offset_ns: steady.end_ns.saturating_sub(start_wall_ns),
                duration_ns: steady.duration(),
                request_count: steady.request_count,
                request_share: steady.request_share,
                littles_law_residual_percent: steady.littles_law_residual_percent,
                request_throughput_half_width: steady.request_throughput_half_width,
                metrics: Metrics { results: &steady.results, developer_mode },
            },
        }
    }
}

/// The server metrics in the summary; the metrics themselves have separate files.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ServerSide<'a> {
    /// The server's counts compared with the client's.
    conservation: &'a [Comparison],
}

impl ServerSide<'_> {
    const fn is_empty(&self) -> bool {
        self.conservation.is_empty()
    }
}

/// Identity of the run and the program.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RunInfo {
    pub(super) benchmark_id: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    sweep_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) random_seed: Option<u64>,
    #[serde(default)]
    trial: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    run_label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    variation_label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    variation_index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    variation_values: Option<Map<String, Value>>,
    #[serde(default)]
    pub(super) cli_command: String,
    /// Start of the results with its offset from UTC.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    start_time: Option<String>,
    /// What became of the requests of the dataset, if it was read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) dataset: Option<Account>,
    #[serde(flatten)]
    pub(super) provenance: Provenance,
    /// All settings; `input_config` contains those that AIPerf has too.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub(super) config: Value,
}

impl RunInfo {
    fn from_report(report: &RunReport) -> Self {
        let run = &report.run;
        let member = run.member.as_ref();
        let variation = member.and_then(|member| member.variation.as_ref());
        Self {
            benchmark_id: run.benchmark_id.to_string(),
            sweep_id: member.map(|member| member.sweep_id.clone()),
            random_seed: run.random_seed,
            trial: member.map_or(0, |member| member.trial),
            run_label: member.map(|member| member.run_label.clone()),
            variation_label: variation.map(|variation| variation.label.clone()),
            variation_index: variation.map(|variation| variation.index),
            variation_values: variation.map(|variation| variation.values.clone()),
            cli_command: run.cli_command.clone(),
            start_time: Some(zoned_time(report.outcome.start_wall_ns)),
            dataset: report.dataset(),
            provenance: run.provenance.clone(),
            config: run.config.clone(),
        }
    }

    /// Returns its position among several runs, if it is one of them.
    pub(super) fn member(&self) -> Option<Member> {
        let variation = || {
            Some(Variation {
                label: self.variation_label.clone()?,
                // Only the manifest and the plan know it.
                directory: String::new(),
                index: self.variation_index?,
                values: self.variation_values.clone()?,
            })
        };
        Some(Member {
            sweep_id: self.sweep_id.clone()?,
            trial: self.trial,
            run_label: self.run_label.clone()?,
            variation: variation(),
        })
    }
}

/// The metrics of each group, by its name.
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Groups<'a>(
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, Metrics<'a>>"))]
    Vec<(&'a str, Metrics<'a>)>,
);

impl Groups<'_> {
    const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Groups<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, metrics)| (name, metrics)))
    }
}

/// The statistics of each metric that is visible to users, by its tag.
struct Metrics<'a> {
    results: &'a [MetricResult],
    developer_mode: bool,
}

impl Metrics<'_> {
    const fn is_empty(&self) -> bool {
        self.results.is_empty()
    }
}

impl Serialize for Metrics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown =
            self.results.iter().filter(|result| result.metric.is_exported(self.developer_mode));
        serializer
            .collect_map(shown.map(|result| (result.metric.tag.name(), Entry::from_result(result))))
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Metrics<'_> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Metrics".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        super::schema::by_tag::<Entry<'_>>(generator, |_| true)
    }
}
