use std::fs;

use uuid::Uuid;

use base::environment::Environment;
use base::redact::Secret;
use client::endpoint::EndpointType;
use client::schedule::Shard;

use super::*;
use crate::RunSettings;

/// The ID of a run.
const RUN: u128 = 7;

/// The resources of a run in a job of GitHub Actions.
fn resources(config: Config, variables: &[(&str, &str)]) -> Resources {
    resources_of(config, variables, |_| {})
}

/// The resources of a run whose identity is changed by `change`.
fn resources_of(
    config: Config,
    variables: &[(&str, &str)],
    change: impl FnOnce(&mut Identity),
) -> Resources {
    let config = Config { url: Some(Secret::new("c:1")), ..config };
    let job = [("GITHUB_ACTIONS", "true"), ("GITHUB_RUN_ID", "17"), ("GITHUB_WORKFLOW", "bench")];
    let variables: Vec<_> = job.iter().chain(variables).collect();
    let lookup = |name: &str| {
        let found = variables.iter().find(|(have, _)| *have == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let settings = Settings::resolve(&config, Environment::new(&lookup)).unwrap();
    let mut identity = Identity {
        benchmark_id: Uuid::from_u128(RUN),
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
    change(&mut identity);
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

#[test]
fn an_instance_is_the_same_for_each_run_of_a_benchmark_and_another_for_each_shard() {
    let key = "service.instance.id";
    let of = |config: Config, variables: &[(&str, &str)], change: &dyn Fn(&mut Identity)| {
        value(&resources_of(config, variables, change).metrics, key).unwrap()
    };
    let plain = of(Config::default(), &[], &|_| {});
    let id = Uuid::parse_str(&plain).unwrap();
    assert_eq!(id.get_version_num(), 5);
    let again = |identity: &mut Identity| identity.benchmark_id = Uuid::from_u128(RUN + 1);
    assert_eq!(of(Config::default(), &[], &again), plain);
    let named = Config { run_name: Some("nightly".to_owned()), ..Config::default() };
    assert_ne!(of(named, &[], &again), plain);
    let shard = |identity: &mut Identity| identity.shard = Some(Shard::checked(1, 3).unwrap());
    assert_eq!(of(Config::default(), &[], &shard), format!("{plain}-1"));
    let given = [("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=mine")];
    assert_eq!(of(Config::default(), &given, &|_| {}), "mine");
    assert_eq!(of(Config::default(), &given, &shard), "mine-1");
}
