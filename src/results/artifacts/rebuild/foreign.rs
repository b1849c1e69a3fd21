//! The settings in directories of AIPerf and of earlier versions, which do not have the
//! configuration of this one: `input_config`, in AIPerf's layout.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use base::redact::ShownUrl;
use base::setting::Named as _;
use base::units::Nanos;
use client::endpoint::EndpointType;
use measure::metrics::MetricTag;
use measure::metrics::metric::Objective;

use crate::run::setup::{Setup, is_credential};

/// Returns the settings in the serialized configuration of the program, or as many as an older one
/// and `input_config` have.
pub(super) fn setup(config: &Value, input_config: &Value) -> Setup {
    Setup::read(config).unwrap_or_else(|_| {
        let phases = Vec::deserialize(&config["schedule"]["phases"]);
        let multi_run = Deserialize::deserialize(&config["multi_run"]);
        Setup {
            phases: phases.unwrap_or_default(),
            multi_run: multi_run.unwrap_or_default(),
            ..InputConfig::from_value(input_config).setup()
        }
    })
}

/// `input_config`, as far as a report needs it. What has another form is as if it were absent.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct InputConfig {
    #[serde(deserialize_with = "known")]
    models: Models,
    #[serde(deserialize_with = "known")]
    pub(super) endpoint: Endpoint,
    #[serde(deserialize_with = "known")]
    pub(super) artifacts: Artifacts,
    #[serde(deserialize_with = "known")]
    network_latency: NetworkLatency,
    #[serde(deserialize_with = "known")]
    slos: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Models {
    items: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Endpoint {
    #[serde(deserialize_with = "known", rename = "type")]
    kind: String,
    #[serde(deserialize_with = "known")]
    urls: Vec<ShownUrl>,
    #[serde(deserialize_with = "known")]
    pub(super) streaming: bool,
    #[serde(deserialize_with = "known")]
    pub(super) use_server_token_count: bool,
    #[serde(deserialize_with = "known")]
    api_key: Option<String>,
    #[serde(deserialize_with = "known")]
    headers: Map<String, Value>,
    #[serde(deserialize_with = "known")]
    extra: Map<String, Value>,
    #[serde(deserialize_with = "known")]
    wait_for_model_timeout: f64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Artifacts {
    #[serde(deserialize_with = "known")]
    dir: PathBuf,
    /// Seconds.
    #[serde(deserialize_with = "known")]
    slice_duration: f64,
    #[serde(deserialize_with = "known")]
    pub(super) show_trace_timing: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NetworkLatency {
    #[serde(deserialize_with = "known")]
    mean_ms: Option<f64>,
}

/// Reads a member that may have any form.
fn known<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(from: D) -> Result<T, D::Error> {
    Ok(T::deserialize(Value::deserialize(from)?).unwrap_or_default())
}

impl InputConfig {
    pub(super) fn from_value(input_config: &Value) -> Self {
        Self::deserialize(input_config).unwrap_or_default()
    }

    pub(super) fn endpoint_type(&self) -> EndpointType {
        EndpointType::named(&self.endpoint.kind).unwrap_or(EndpointType::CHAT)
    }

    pub(super) fn objectives(&self) -> Vec<Objective> {
        let objective = |(name, bound): (&String, &Value)| {
            Some(Objective { tag: MetricTag::find(name)?, threshold: bound.as_f64()? })
        };
        self.slos.iter().filter_map(objective).collect()
    }

    fn setup(self) -> Setup {
        let Self { models, endpoint, artifacts, network_latency, .. } = self;
        let has_header = endpoint.headers.keys().any(|name| is_credential(name));
        let slices = Some(Nanos::from_seconds(artifacts.slice_duration));
        Setup {
            models: models.items.into_iter().map(|model| model.name).collect(),
            urls: endpoint.urls.iter().map(|url| url.trim_end_matches('/').to_owned()).collect(),
            extra_inputs: endpoint.extra,
            has_credentials: endpoint.api_key.is_some() || has_header,
            waits_for_model: endpoint.wait_for_model_timeout > 0.0,
            directory: artifacts.dir,
            slice_duration: slices.filter(|slices| *slices > Nanos::ZERO),
            round_trip: network_latency.mean_ms.map(Nanos::from_millis),
            ..Setup::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The summary of a run of AIPerf 0.13.
    const SUMMARY: &str =
        include_str!("../../../../tests/golden/aiperf-0.13/profile_export_aiperf.json");

    #[test]
    fn settings_of_aiperf_are_read() {
        let summary: Value = serde_json::from_str(SUMMARY).unwrap();
        let setup = setup(&Value::Null, &summary["input_config"]);
        assert_eq!(setup.models, ["m"]);
        assert_eq!(setup.urls, ["http://127.0.0.1:18473"]);
        assert_eq!(setup.directory, PathBuf::from("artifacts/sample"));
        assert_eq!(setup.slice_duration, Some(Nanos(2_000_000_000)));
    }

    #[test]
    fn settings_of_another_form_are_absent() {
        let input_config = json!({
            "models": ["m"],
            "endpoint": {"type": 5, "urls": ["http://u:p@h"], "headers": {"X-API-Key": "k"}},
            "artifacts": {"dir": "out", "slice_duration": 0.5, "show_trace_timing": "yes"},
            "network_latency": {"enabled": true, "mean_ms": 2.5},
        });
        let known = InputConfig::from_value(&input_config);
        assert_eq!(known.endpoint_type(), EndpointType::CHAT);
        assert!(!known.artifacts.show_trace_timing);
        let expected = Setup {
            urls: vec!["http://redacted@h".to_owned()],
            has_credentials: true,
            directory: "out".into(),
            slice_duration: Some(Nanos(500_000_000)),
            round_trip: Some(Nanos(2_500_000)),
            ..Setup::default()
        };
        assert_eq!(setup(&json!({"schedule": {"phases": 5}}), &input_config), expected);
    }
}
