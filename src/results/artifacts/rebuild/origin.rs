//! The source of data that records do not contain.

use std::io;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use client::endpoint::EndpointType;
use client::schedule::{BranchStats, ReplayStats};
use dataset::Account;
use measure::judge::EarlyEnd;
use measure::metrics::metric::Settings;
use measure::metrics::{ClientHealth, LoadReport};
use measure::multi_run::{self, Member};
use telemetry::TelemetryReport;

use super::ReportError;
use super::foreign::{self, InputConfig};
use super::line_file::LineFile;
use crate::artifacts::json::RunInfo;
use crate::artifacts::layout::Layout;
use crate::artifacts::local_time::wall_time;
use crate::artifacts::manifest::{End, Manifest};
use crate::artifacts::open;
use crate::artifacts::server_metrics::{ServerMetricsFiles, ServerMetricsSection};
use crate::run::{RunDescription, RunOutcome, Tables};

/// The manifest, if there is one.
pub(super) struct Origin {
    manifest: Option<Manifest>,
}

impl Origin {
    pub(super) fn find(directory: &Path) -> Result<Self, ReportError> {
        let mut manifest: Option<Manifest> = read_json(&Layout::new(directory, None).manifest)?;
        if let Some(Manifest { run, .. }) = &mut manifest {
            run.setup = foreign::setup(&run.config, &run.input_config);
        }
        Ok(Self { manifest })
    }

    pub(super) const fn has_manifest(&self) -> bool {
        self.manifest.is_some()
    }

    /// Returns whether the manifest is of the run with this ID.
    pub(super) fn is_of(&self, benchmark_id: Uuid) -> bool {
        self.manifest.as_ref().is_some_and(|known| known.run.benchmark_id == benchmark_id)
    }

    /// Returns the program version in the manifest; empty if there is none.
    pub(super) fn version(&self) -> &str {
        self.manifest.as_ref().map_or("", |manifest| &manifest.aiperf_version)
    }

    /// Returns its position among several runs and their settings, if it was one of them.
    pub(super) fn member(&self) -> Option<(&Member, &multi_run::Config)> {
        let run = &self.manifest.as_ref()?.run;
        Some((run.member.as_ref()?, &run.setup.multi_run))
    }

    pub(super) fn prefix(&self) -> Option<&str> {
        self.manifest.as_ref()?.prefix.as_deref()
    }

    /// Returns the configured files of server metrics, if known.
    pub(super) fn server_metrics_files(&self) -> Option<ServerMetricsFiles> {
        self.manifest.as_ref()?.server_metrics.as_ref().map(ServerMetricsSection::files)
    }

    /// Returns the description of the run, and its outcome if known.
    pub(super) fn describe(
        self,
        layout: &Layout,
    ) -> Result<(RunDescription, Option<End>), ReportError> {
        if let Some(manifest) = self.manifest {
            return Ok((manifest.run, manifest.end));
        }
        if let Some(summary) = read_json::<Summary>(&layout.summary_json)? {
            return Ok(summary.describe());
        }
        implied_by(&layout.records).map(|run| (run, None))
    }
}

/// Parses a file; `None` if it does not exist.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ReportError> {
    let unusable = |reason: String| ReportError::Unusable { path: path.to_owned(), reason };
    match open::read(path) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map(Some).map_err(|error| unusable(error.to_string()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(error.to_string())),
    }
}

/// The data of an earlier summary other than statistics.
#[derive(Deserialize)]
struct Summary {
    #[serde(default)]
    input_config: Value,
    run_info: RunInfo,
    start_time: String,
    end_time: String,
    #[serde(default)]
    was_cancelled: bool,
    #[serde(default)]
    incomplete_reason: Option<String>,
    #[serde(default)]
    ended_early: Option<EarlyEnd>,
    #[serde(default)]
    branch_stats: Option<BranchStats>,
    #[serde(default)]
    replay: Option<ReplayStats>,
    #[serde(default)]
    load: LoadReport,
    #[serde(default)]
    client_health: Option<ClientHealth>,
    #[serde(default)]
    telemetry: Option<TelemetryReport>,
}

impl Summary {
    fn describe(self) -> (RunDescription, Option<End>) {
        let known = InputConfig::from_value(&self.input_config);
        let run = RunDescription {
            benchmark_id: Uuid::parse_str(&self.run_info.benchmark_id).unwrap_or_default(),
            streaming: known.endpoint.streaming,
            settings: Settings {
                objectives: known.objectives(),
                use_server_token_count: known.endpoint.use_server_token_count,
                ..Settings::default()
            },
            setup: foreign::setup(&self.run_info.config, &self.input_config),
            input_config: self.input_config,
            random_seed: self.run_info.random_seed,
            dataset: self.run_info.dataset.clone().map(Account::before),
            member: self.run_info.member(),
            config: self.run_info.config,
            cli_command: self.run_info.cli_command,
            provenance: self.run_info.provenance,
            tables: Tables { trace_timing: known.artifacts.show_trace_timing, ..Tables::default() },
            ..RunDescription::for_endpoint_type(known.endpoint_type())
        };
        let times = wall_time(&self.start_time).zip(wall_time(&self.end_time));
        let end = times.map(|(start_wall_ns, end_wall_ns)| RunOutcome {
            start_wall_ns,
            end_wall_ns,
            phases: Vec::new(),
            was_cancelled: self.was_cancelled,
            incomplete_reason: self.incomplete_reason,
            ended_by: None,
            ended_early: self.ended_early,
            adaptive: Vec::new(),
            sent: None,
            prefix_cache: None,
            branches: self.branch_stats,
            replay: self.replay,
            load: self.load,
            client_health: self.client_health,
            load_health: None,
            output_health: None,
            telemetry: self.telemetry,
            time_breakdown: None,
            gpus: None,
            shards: None,
            offered: None,
        });
        let end = end.map(|outcome| End { outcome, server_metrics: None });
        (run, end)
    }
}

/// Returns the description that the records imply: streamed if they contain a time to first token,
/// chat if they contain output.
fn implied_by(records: &Path) -> Result<RunDescription, ReportError> {
    let [mut streaming, mut has_output] = [false; 2];
    let mentions =
        |line: &[u8], member: &str| memchr::memmem::find(line, member.as_bytes()).is_some();
    let read = LineFile::open(records).and_then(|mut lines| {
        lines.read_rest(|line| {
            streaming |= mentions(line, "\"time_to_first_token\":");
            has_output |= mentions(line, "\"output_sequence_length\":");
            Ok(())
        })
    });
    read.map_err(|why| ReportError::NoRecords { path: records.to_owned(), why })?;
    let has_output = has_output || streaming;
    let endpoint = if has_output { EndpointType::CHAT } else { EndpointType::EMBEDDINGS };
    Ok(RunDescription { streaming, ..RunDescription::for_endpoint_type(endpoint) })
}
