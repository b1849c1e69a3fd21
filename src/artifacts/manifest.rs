//! `run_manifest.json`: what statistics need beside the records, so that a run
//! can be reported again, even one that was killed.

use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::server_metrics::{ServerMetricsFiles, ServerMetricsOutcome, ServerMetricsSection};
use super::{Combination, RunDescription, RunReport, replace};
use crate::endpoint::EndpointType;
use crate::metrics::metric::{Objective, Settings};
use crate::metrics::{ClientHealth, LoadReport, Registry};
use crate::multi_run::Member;
use crate::schedule::Shard;
use crate::telemetry::TelemetryReport;

const SCHEMA_VERSION: &str = "1.0";

/// The run, and its end once it has one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Manifest {
    schema_version: String,
    pub(super) aiperf_version: String,
    benchmark_id: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) prefix: Option<String>,
    endpoint_type: String,
    streaming: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    random_seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) member: Option<Member>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    shard: Option<Shard>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    start_at_ns: Option<u64>,
    cli_command: String,
    show_trace_timing: bool,
    #[serde(default)]
    show_server_metrics: bool,
    settings: ManifestSettings,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) server_metrics: Option<ServerMetricsSection>,
    pub(super) input_config: serde_json::Value,
    /// Absent while the run goes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) end: Option<Outcome>,
}

/// What was known at the end of the run only.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) start_wall_ns: u64,
    pub(super) end_wall_ns: u64,
    pub(super) was_cancelled: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) incomplete_reason: Option<String>,
    pub(super) load: LoadReport,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) client_health: Option<ClientHealth>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) telemetry: Option<TelemetryReport>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) server_metrics: Option<ServerMetricsOutcome>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) shards: Option<Combination>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct ManifestSettings {
    objectives: Vec<ManifestObjective>,
    usage_diff_threshold_percent: f64,
    osl_mismatch_threshold_percent: f64,
    osl_mismatch_threshold_tokens: f64,
    use_server_token_count: bool,
    #[serde(default)]
    fixed_schedule: bool,
    developer_mode: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct ManifestObjective {
    metric: String,
    threshold: f64,
}

impl Manifest {
    /// Of a run that has begun.
    pub(super) fn running(
        run: &RunDescription,
        prefix: Option<String>,
        server_metrics: &ServerMetricsFiles,
    ) -> Self {
        Self {
            schema_version: SCHEMA_VERSION.to_owned(),
            aiperf_version: env!("CARGO_PKG_VERSION").to_owned(),
            benchmark_id: run.benchmark_id.to_string(),
            prefix,
            endpoint_type: run.endpoint.name.to_owned(),
            streaming: run.streaming,
            random_seed: run.random_seed,
            member: run.member.clone(),
            shard: run.shard,
            start_at_ns: run.start_at_ns,
            cli_command: run.cli_command.clone(),
            show_trace_timing: run.show_trace_timing,
            show_server_metrics: run.show_server_metrics,
            settings: ManifestSettings::of(&run.settings),
            server_metrics: ServerMetricsSection::of(server_metrics),
            input_config: run.input_config.clone(),
            end: None,
        }
    }

    /// Of a run that has ended.
    pub(super) fn finished(
        report: &RunReport,
        prefix: Option<String>,
        server_metrics: &ServerMetricsFiles,
    ) -> Self {
        let end = Outcome {
            start_wall_ns: report.start_wall_ns,
            end_wall_ns: report.end_wall_ns,
            was_cancelled: report.was_cancelled,
            incomplete_reason: report.incomplete_reason.clone(),
            load: report.load.clone(),
            client_health: report.client_health.clone(),
            telemetry: report.telemetry.clone(),
            server_metrics: report.server_metrics.as_ref().map(ServerMetricsOutcome::of),
            shards: report.shards.clone(),
        };
        Self { end: Some(end), ..Self::running(&report.run, prefix, server_metrics) }
    }

    /// Replaces the file at `path`.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        replace::replace(path, |out| self.write_to(out))
    }

    /// Writes the manifest, indented by two.
    pub(super) fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        out.write_all(b"\n")
    }

    /// What was run; `None` where this program does not know the endpoint.
    pub(super) fn description(&self) -> Option<RunDescription> {
        Some(RunDescription {
            benchmark_id: Uuid::parse_str(&self.benchmark_id).ok()?,
            endpoint: EndpointType::named(&self.endpoint_type)?.traits(),
            streaming: self.streaming,
            settings: self.settings.settings(),
            input_config: self.input_config.clone(),
            cli_command: self.cli_command.clone(),
            random_seed: self.random_seed,
            member: self.member.clone(),
            shard: self.shard,
            start_at_ns: self.start_at_ns,
            show_trace_timing: self.show_trace_timing,
            show_server_metrics: self.show_server_metrics,
        })
    }
}

impl ManifestSettings {
    fn of(settings: &Settings) -> Self {
        let objective = |objective: &Objective| ManifestObjective {
            metric: objective.tag.to_owned(),
            threshold: objective.threshold,
        };
        Self {
            objectives: settings.objectives.iter().map(objective).collect(),
            usage_diff_threshold_percent: settings.usage_diff_threshold_percent,
            osl_mismatch_threshold_percent: settings.osl_mismatch_threshold_percent,
            osl_mismatch_threshold_tokens: settings.osl_mismatch_threshold_tokens,
            use_server_token_count: settings.use_server_token_count,
            fixed_schedule: settings.fixed_schedule,
            developer_mode: settings.developer_mode,
        }
    }

    fn settings(&self) -> Settings {
        let objective =
            |objective: &ManifestObjective| self::objective(&objective.metric, objective.threshold);
        Settings {
            objectives: self.objectives.iter().filter_map(objective).collect(),
            usage_diff_threshold_percent: self.usage_diff_threshold_percent,
            osl_mismatch_threshold_percent: self.osl_mismatch_threshold_percent,
            osl_mismatch_threshold_tokens: self.osl_mismatch_threshold_tokens,
            use_server_token_count: self.use_server_token_count,
            fixed_schedule: self.fixed_schedule,
            developer_mode: self.developer_mode,
        }
    }
}

/// The objective on metric `tag`, if there is such a metric.
pub(super) fn objective(tag: &str, threshold: f64) -> Option<Objective> {
    Registry::find(tag).map(|metric| Objective { tag: metric.tag, threshold })
}
