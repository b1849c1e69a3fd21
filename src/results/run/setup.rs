//! The settings of a run that its results and those who read them depend on.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

use base::redact::ShownUrl;
use base::units::Nanos;
use client::network_latency;
use client::schedule::config::{PhaseConfig, only_measured};
use measure::metrics::breakdown::TenantSetup;
use measure::metrics::deployment::Deployment;
use measure::multi_run;

use crate::run::scenario::ScenarioRun;

/// The settings of a run that files, the console and other programs depend on.
///
/// They are read from the serialized configuration of the program, at the start of a run as well as
/// by `aiperf report`. A setting that is renamed in the configuration alone makes every run fail.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "Serialized")]
pub struct Setup {
    /// The name of the run (`--run-name`), if it has one.
    pub run_name: Option<String>,
    /// Names of the models.
    pub models: Vec<String>,
    /// LoRA adapters that requests name instead of the model.
    pub lora_modules: Vec<String>,
    /// Base URLs of the servers, without credentials and without a slash at the end.
    pub urls: Vec<String>,
    /// The other settings of the dataset, without its seed.
    pub dataset: Map<String, Value>,
    /// Fields of every request body, without secrets.
    pub extra_inputs: Map<String, Value>,
    /// Whether requests have an API key, or a header for one.
    pub has_credentials: bool,
    /// Whether the first request waits for the model.
    pub waits_for_model: bool,
    /// The phases of all shards together, in order.
    pub phases: Vec<PhaseConfig>,
    /// The directory of the files.
    pub directory: PathBuf,
    /// Length of time slices (`--slice-duration`).
    pub slice_duration: Option<Nanos>,
    /// Round-trip time of the network, if it is given (`--network-latency-mean`).
    pub round_trip: Option<Nanos>,
    /// What serves the model and what that costs.
    pub deployment: Deployment,
    /// The tenants that share the load, if there are any.
    pub tenants: Vec<TenantSetup>,
    /// The scenario that the run follows, if it follows one.
    pub scenario: Option<ScenarioRun>,
    /// The number of runs, and how they differ.
    pub multi_run: multi_run::Config,
}

impl Setup {
    /// Reads the settings from `config`, the serialized configuration of the program.
    ///
    /// # Errors
    ///
    /// Fails if a setting is missing or has another form.
    pub fn read(config: &Value) -> serde_json::Result<Self> {
        Self::deserialize(config)
    }

    /// Returns the names that requests have as their model: the LoRA adapters, or else the models.
    #[must_use]
    pub fn requested_models(&self) -> &[String] {
        if self.lora_modules.is_empty() { &self.models } else { &self.lora_modules }
    }

    /// Returns the number of choices that each request asks for.
    #[must_use]
    pub fn choices(&self) -> u64 {
        self.extra_inputs.get("n").and_then(Value::as_u64).unwrap_or(1).max(1)
    }

    /// Returns for each phase whether it draws from a part of the dataset that is read and not generated, so
    /// that its requests are in the account of the dataset.
    #[must_use]
    pub(crate) fn accounted_phases(&self) -> Vec<bool> {
        let is_read = |phase: &PhaseConfig| self.parts().get(phase.dataset).is_none_or(is_read);
        let are_read: Vec<bool> = self.phases.iter().map(is_read).collect();
        // Without an account, all are counted.
        if are_read.contains(&true) { are_read } else { vec![true; are_read.len()] }
    }

    /// Returns whether all parts of the dataset are known to be read, and not generated.
    #[must_use]
    pub fn is_read(&self) -> bool {
        !self.parts().is_empty() && self.parts().iter().all(is_read)
    }

    /// Returns the parts of the dataset; none if they are not known.
    pub fn parts(&self) -> &[Value] {
        self.dataset.get("parts").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Describes in a few words what the phase with this index draws from, such as `100 input tokens` or
    /// `chat.jsonl`; `None` if all phases draw from the same part of the dataset.
    #[must_use]
    pub(crate) fn dataset_of(&self, phase: usize) -> Option<String> {
        let parts = Some(self.parts()).filter(|parts| parts.len() > 1)?;
        let part = parts.get(self.phases.get(phase)?.dataset)?;
        let at = |pointer: &str| part.pointer(pointer).filter(|value| !value.is_null());
        let text = |pointer: &str| at(pointer).and_then(Value::as_str);
        if let Some(path) = text("/source/file/path") {
            return Some(path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned());
        }
        if let Some(repository) = text("/source/hub/repository") {
            return Some(repository.to_owned());
        }
        let others = ["sequence_distribution", "recorded_lengths", "range"];
        let is_plain = others.iter().all(|it| at(&format!("/source/synthetic/{it}")).is_none());
        let mean = |pointer: &str| at(pointer).and_then(Value::as_f64).filter(|_| is_plain);
        let input = mean("/source/synthetic/input_tokens/mean");
        let input = input.map_or("synthetic".to_owned(), |mean| format!("{mean} input tokens"));
        let output = mean("/output_tokens/mean").map(|mean| format!(", {mean} output"));
        Some(input + &output.unwrap_or_default())
    }

    /// Returns the phase that is measured; `None` if there are several, or the settings are not known.
    #[must_use]
    pub(crate) fn measured_phase(&self) -> Option<&PhaseConfig> {
        only_measured(&self.phases)
    }
}

/// Returns whether a part of the dataset is read, and not generated, as far as its source is known.
fn is_read(part: &Value) -> bool {
    let Some(source) = part.get("source") else { return true };
    ["file", "hub"].iter().any(|name| source.get(name).is_some())
}

/// Returns whether the value of the header `name` authorizes requests.
#[must_use]
pub(crate) fn is_credential(name: &str) -> bool {
    ["authorization", "x-api-key"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The members of the serialized configuration. Serde accepts that an option is missing unless a
/// function reads it.
#[derive(Deserialize)]
struct Serialized {
    dataset: Dataset,
    endpoint: Endpoint,
    schedule: Schedule,
    server: Server,
    artifacts: Artifacts,
    #[serde(deserialize_with = "Option::deserialize")]
    network_latency: Option<network_latency::Config>,
    /// Absent in files of earlier versions.
    #[serde(default)]
    deployment: Deployment,
    /// Absent in files of earlier versions.
    #[serde(default)]
    tenants: Vec<TenantSetup>,
    /// Absent in files of earlier versions.
    scenario: Option<ScenarioRun>,
    multi_run: multi_run::Config,
    telemetry: Telemetry,
}

#[derive(Deserialize)]
struct Telemetry {
    #[serde(deserialize_with = "Option::deserialize")]
    run_name: Option<String>,
}

#[derive(Deserialize)]
struct Dataset {
    models: Vec<String>,
    lora_modules: Vec<String>,
    #[serde(rename = "random_seed", deserialize_with = "Option::deserialize")]
    _random_seed: Option<u64>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
struct Endpoint {
    extra_inputs: Map<String, Value>,
}

#[derive(Deserialize)]
struct Schedule {
    phases: Vec<PhaseConfig>,
}

#[derive(Deserialize)]
struct Server {
    urls: Vec<ShownUrl>,
    headers: Map<String, Value>,
    #[serde(deserialize_with = "Option::deserialize")]
    api_key: Option<String>,
    wait_for_model: WaitForModel,
}

#[derive(Deserialize)]
struct WaitForModel {
    timeout: Nanos,
}

#[derive(Deserialize)]
struct Artifacts {
    directory: PathBuf,
    server_metrics: ServerMetricsFiles,
}

#[derive(Deserialize)]
struct ServerMetricsFiles {
    #[serde(deserialize_with = "Option::deserialize")]
    slice_duration: Option<Nanos>,
}

impl From<Serialized> for Setup {
    fn from(config: Serialized) -> Self {
        let Serialized { dataset, endpoint, schedule, server, artifacts, .. } = config;
        let has_header = server.headers.keys().any(|name| is_credential(name));
        let round_trip = match config.network_latency {
            Some(network_latency::Config::Mean(mean)) => Some(mean),
            Some(network_latency::Config::Automatic(_)) | None => None,
        };
        Self {
            run_name: config.telemetry.run_name,
            models: dataset.models,
            lora_modules: dataset.lora_modules,
            urls: server.urls.iter().map(|url| url.trim_end_matches('/').to_owned()).collect(),
            dataset: dataset.others,
            extra_inputs: endpoint.extra_inputs,
            has_credentials: server.api_key.is_some() || has_header,
            waits_for_model: server.wait_for_model.timeout > Nanos::ZERO,
            phases: schedule.phases,
            directory: artifacts.directory,
            slice_duration: artifacts.server_metrics.slice_duration,
            round_trip,
            deployment: config.deployment,
            tenants: config.tenants,
            scenario: config.scenario,
            multi_run: config.multi_run,
        }
    }
}
