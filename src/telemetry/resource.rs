//! The resource of every export.

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;

use super::settings::Settings;
use super::{Config, Identity};
use crate::platform::host;
use crate::semconv::{SCHEMA_URL, attribute};

/// Builds the resource from aiperf's own attributes, `OTEL_RESOURCE_ATTRIBUTES`,
/// `OTEL_SERVICE_NAME` and `--otel-resource-attributes`; later ones override earlier ones.
pub(super) fn build(config: &Config, identity: &Identity, settings: &Settings) -> Resource {
    let id = identity.benchmark_id.to_string();
    let instance = match identity.shard {
        Some(shard) => format!("{id}-{}", shard.index()),
        None => id.clone(),
    };
    let name = config.run_name.as_ref().unwrap_or(&identity.info.load);
    let model = identity.models.first().map_or("", |model| model);
    let mut attributes = vec![
        KeyValue::new("service.name", env!("CARGO_PKG_NAME")),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        // Each run is an instance, even if a process performs several; if processes share a run,
        // each process is one.
        KeyValue::new("service.instance.id", instance),
        KeyValue::new("telemetry.sdk.name", "opentelemetry"),
        KeyValue::new("telemetry.sdk.language", "rust"),
        KeyValue::new(attribute::AIPERF_BENCHMARK_ID, id),
        KeyValue::new(attribute::AIPERF_ENDPOINT_TYPE, identity.endpoint_type.traits().name),
        KeyValue::new(attribute::AIPERF_MODEL_NAME, model.to_owned()),
        KeyValue::new(attribute::AIPERF_RUN_NAME, name.clone()),
        KeyValue::new("host.name", host::name()),
        KeyValue::new("host.arch", architecture()),
        KeyValue::new("os.type", os_type()),
        KeyValue::new("os.version", host::kernel()),
    ];
    if let Some(sweep) = &identity.sweep_id {
        attributes.push(KeyValue::new(attribute::AIPERF_SWEEP_ID, sweep.clone()));
    }
    if let Some(shard) = identity.shard {
        let count = |key, count: u64| KeyValue::new(key, count.cast_signed());
        attributes.push(count(attribute::AIPERF_SHARD_INDEX, shard.index()));
        attributes.push(count(attribute::AIPERF_SHARD_COUNT, shard.count()));
    }
    let named = settings.service_name.iter().map(|name| ("service.name", name));
    let given = settings.resource_attributes.iter().map(|(key, value)| (key.as_str(), value));
    let flags = config.resource_attributes.iter().map(|(key, value)| (key.as_str(), value));
    for (key, value) in given.chain(named).chain(flags) {
        attributes.retain(|have| have.key.as_str() != key);
        attributes.push(KeyValue::new(key.to_owned(), value.clone()));
    }
    Resource::builder_empty().with_schema_url(attributes, SCHEMA_URL).build()
}

/// Returns the processor architecture as the conventions name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "arm" => "arm32",
        "powerpc64" => "ppc64",
        other => other,
    }
}

/// Returns the operating system as the conventions name it.
fn os_type() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    }
}
