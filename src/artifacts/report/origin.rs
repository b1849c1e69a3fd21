//! Where the facts come from that records do not have.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::ReportError;
use crate::artifacts::RunDescription;
use crate::artifacts::json::{RunInfo, wall_time};
use crate::artifacts::layout::Layout;
use crate::artifacts::manifest::{Manifest, Outcome, objective};
use crate::artifacts::server_metrics::{ServerMetricsFiles, ServerMetricsSection};
use crate::endpoint::EndpointType;
use crate::metrics::metric::Settings;
use crate::metrics::{ClientHealth, LoadReport};
use crate::multi_run::Member;
use crate::telemetry::TelemetryReport;

/// The manifest, or the path where one would be.
pub(super) struct Origin {
    path: PathBuf,
    manifest: Option<Manifest>,
}

impl Origin {
    pub(super) fn find(directory: &Path) -> Result<Self, ReportError> {
        let path = Layout::new(directory, None).manifest;
        let manifest = read_json(&path)?;
        Ok(Self { path, manifest })
    }

    pub(super) const fn has_manifest(&self) -> bool {
        self.manifest.is_some()
    }

    /// Who wrote the manifest; empty where there is none.
    pub(super) fn version(&self) -> &str {
        self.manifest.as_ref().map_or("", |manifest| &manifest.aiperf_version)
    }

    /// Its place among many runs and what was asked of them, where it was one of them.
    pub(super) fn member(&self) -> Option<(&Member, &Value)> {
        let manifest = self.manifest.as_ref()?;
        Some((manifest.member.as_ref()?, &manifest.input_config))
    }

    pub(super) fn prefix(&self) -> Option<&str> {
        self.manifest.as_ref()?.prefix.as_deref()
    }

    /// Which files there were to be of the server's metrics, if that is known.
    pub(super) fn server_metrics_files(&self) -> Option<ServerMetricsFiles> {
        self.manifest.as_ref()?.server_metrics.as_ref().map(ServerMetricsSection::files)
    }

    /// What was run, and how it ended if that is known.
    pub(super) fn describe(
        self,
        layout: &Layout,
    ) -> Result<(RunDescription, Option<Outcome>), ReportError> {
        if let Some(manifest) = self.manifest {
            let run = manifest.description().ok_or_else(|| ReportError::Unusable {
                path: self.path,
                reason: "it names a benchmark id or an endpoint type that is unknown here"
                    .to_owned(),
            })?;
            return Ok((run, manifest.end));
        }
        if let Some(summary) = read_json::<Summary>(&layout.summary_json)? {
            return Ok(summary.describe());
        }
        implied_by(&layout.records).map(|run| (run, None))
    }
}

/// The content of a file; `None` where there is none.
fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ReportError> {
    let unusable = |reason: String| ReportError::Unusable { path: path.to_owned(), reason };
    match fs::read(path) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map(Some).map_err(|error| unusable(error.to_string()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(error.to_string())),
    }
}

/// What an earlier summary says beside statistics.
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
    load: LoadReport,
    #[serde(default)]
    client_health: Option<ClientHealth>,
    #[serde(default)]
    telemetry: Option<TelemetryReport>,
}

impl Summary {
    fn describe(self) -> (RunDescription, Option<Outcome>) {
        let endpoint = self.input_config.pointer("/endpoint/type").and_then(Value::as_str);
        let streaming = self.input_config.pointer("/endpoint/streaming").and_then(Value::as_bool);
        let show_trace_timing =
            self.input_config.pointer("/artifacts/show_trace_timing").and_then(Value::as_bool);
        let slos = self.input_config.get("slos").and_then(Value::as_object);
        let objectives = slos
            .into_iter()
            .flatten()
            .filter_map(|(tag, bound)| objective(tag, bound.as_f64()?))
            .collect();
        let run = RunDescription {
            benchmark_id: Uuid::parse_str(&self.run_info.benchmark_id).unwrap_or_default(),
            endpoint: endpoint.and_then(EndpointType::named).unwrap_or(EndpointType::CHAT).traits(),
            streaming: streaming.unwrap_or(false),
            settings: Settings { objectives, ..Settings::default() },
            input_config: self.input_config,
            random_seed: self.run_info.random_seed,
            member: self.run_info.member(),
            cli_command: self.run_info.cli_command,
            shard: None,
            start_at_ns: None,
            show_trace_timing: show_trace_timing.unwrap_or(false),
            show_server_metrics: false,
        };
        let times = wall_time(&self.start_time).zip(wall_time(&self.end_time));
        let end = times.map(|(start_wall_ns, end_wall_ns)| Outcome {
            start_wall_ns,
            end_wall_ns,
            was_cancelled: self.was_cancelled,
            incomplete_reason: self.incomplete_reason,
            load: self.load,
            client_health: self.client_health,
            telemetry: self.telemetry,
            server_metrics: None,
            shards: None,
        });
        (run, end)
    }
}

/// What the records alone say: streamed where a first token was timed, chat
/// where there is output.
fn implied_by(records: &Path) -> Result<RunDescription, ReportError> {
    let text = fs::read(records)
        .map_err(|why| ReportError::NoRecords { path: records.to_owned(), why })?;
    let mentions =
        |tag: &str| memchr::memmem::find(&text, format!("\"{tag}\":").as_bytes()).is_some();
    let streaming = mentions("time_to_first_token");
    let has_output = streaming || mentions("output_sequence_length");
    let endpoint = if has_output { EndpointType::CHAT } else { EndpointType::EMBEDDINGS };
    Ok(RunDescription {
        benchmark_id: Uuid::nil(),
        endpoint: endpoint.traits(),
        streaming,
        settings: Settings::default(),
        input_config: Value::Object(serde_json::Map::new()),
        cli_command: String::new(),
        random_seed: None,
        member: None,
        shard: None,
        start_at_ns: None,
        show_trace_timing: false,
        show_server_metrics: false,
    })
}
