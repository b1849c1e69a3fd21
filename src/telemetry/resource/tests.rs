use std::fs;

use uuid::Uuid;

use base::environment::Environment;
use base::redact::Secret;
use client::endpoint::EndpointType;

use super::*;
use crate::RunSettings;

/// The resources of a run in a job of GitHub Actions.
fn resources(config: Config, variables: &[(&str, &str)]) -> Resources {
    let config = Config { url: Some(Secret::new("c:1")), ..config };
    let job = [("GITHUB_ACTIONS", "true"), ("GITHUB_RUN_ID", "17"), ("GITHUB_WORKFLOW", "bench")];
    let variables: Vec<_> = job.iter().chain(variables).collect();
    let lookup = |name: &str| {
        let found = variables.iter().find(|(have, _)| *have == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let settings = Settings::resolve(&config, Environment::new(&lookup)).unwrap();
    let identity = Identity {
        benchmark_id: Uuid::from_u128(7),
        endpoint_type: EndpointType::CHAT,
        models: vec!["m".into()],
        urls: Vec::new(),
        phases: Vec::new(),
        tenants: Vec::new(),
        info: RunSettings::default(),
        clock: base::units::Clock::start(),
        sweep_id: None,
        shard: None,
    };
    Resources::new(&config, &identity, &settings)
}

fn value(of: &Resource, key: &'static str) -> Option<String> {
    of.get(&key.into()).map(|value| value.to_string())
}

#[test]
fn the_sdks_version_is_that_of_the_lock_file() {
    let lock =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).unwrap();
    let entry = lock
        .split("[[package]]")
        .find(|entry| entry.lines().any(|line| line == "name = \"opentelemetry_sdk\""));
    let version = entry.unwrap().lines().find_map(|line| line.strip_prefix("version = ")).unwrap();
    assert_eq!(format!("\"{}\"", sdk_version()), version);
    let resources = resources(Config::default(), &[]);
    for (key, expected) in [
        ("telemetry.sdk.name", "opentelemetry"),
        ("telemetry.sdk.language", "rust"),
        ("telemetry.sdk.version", &sdk_version()),
        ("process.pid", &std::process::id().to_string()),
    ] {
        assert_eq!(value(&resources.metrics, key).as_deref(), Some(expected), "{key}");
    }
}

#[test]
fn only_traces_have_the_ci_run_unless_metrics_are_to_have_it() {
    let key = "cicd.pipeline.run.id";
    let plain = resources(Config::default(), &[]);
    assert_eq!(value(&plain.traces, key).as_deref(), Some("17"));
    assert_eq!(value(&plain.metrics, key), None);
    assert_eq!(value(&plain.metrics, "cicd.pipeline.name").as_deref(), Some("bench"));
    let config = Config { ci_run_on_metrics: true, ..Config::default() };
    assert_eq!(value(&resources(config, &[]).metrics, key).as_deref(), Some("17"));
    // The user's attributes are taken as they are.
    let given = [("OTEL_RESOURCE_ATTRIBUTES", "cicd.pipeline.run.id=18")];
    let resources = resources(Config::default(), &given);
    assert_eq!(value(&resources.metrics, key).as_deref(), Some("18"));
    assert_eq!(value(&resources.traces, key).as_deref(), Some("18"));
}
