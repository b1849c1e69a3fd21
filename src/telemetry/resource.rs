//! The resource of every export.

pub(super) mod ci;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{ResourceDetector as _, TelemetryResourceDetector};
use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use uuid::{Builder, Uuid};

use base::platform::host;
use base::semconv::attribute;

use super::settings::Settings;
use super::{Config, Identity};

/// The namespace of IDs of service instances in UUIDs of version 5 (semantic conventions, "service").
const NAMESPACE: [u8; 16] = 0x4d63_009a_8d0f_11ee_aad7_4c79_6ed8_e320_u128.to_be_bytes();

/// The resources of the signals.
pub(super) struct Resources {
    /// Of metrics; without the attributes of a single CI run, unless requested.
    pub(super) metrics: Resource,
    /// Of traces.
    pub(super) traces: Resource,
}

impl Resources {
    /// Builds the resources from aiperf's own attributes, those of the CI job,
    /// `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME` and `--otel-resource-attributes`; later ones
    /// override earlier ones.
    pub(super) fn new(config: &Config, identity: &Identity, settings: &Settings) -> Self {
        let attributes_with = |has_ci_run| {
            let attributes = attributes(config, identity, settings, has_ci_run);
            let schema_url = settings.conventions.resource_schema_url();
            Resource::builder_empty().with_schema_url(attributes, schema_url).build()
        };
        Self { metrics: attributes_with(config.ci_run_on_metrics), traces: attributes_with(true) }
    }
}

fn attributes(
    config: &Config,
    identity: &Identity,
    settings: &Settings,
    has_ci_run: bool,
) -> Vec<KeyValue> {
    let id = identity.benchmark_id.to_string();
    let name = config.run_name.as_ref().unwrap_or(&identity.info.load);
    let model = identity.models.first().map_or("", |model| model);
    let mut attributes = vec![
        KeyValue::new(attribute::SERVICE_NAME, "aiperf"),
        KeyValue::new(attribute::SERVICE_VERSION, env!("CARGO_PKG_VERSION")),
        KeyValue::new(attribute::SERVICE_INSTANCE_ID, instance(identity, name).to_string()),
        KeyValue::new(attribute::AIPERF_BENCHMARK_ID, id),
        KeyValue::new(attribute::AIPERF_ENDPOINT_TYPE, identity.endpoint_type.traits().name),
        KeyValue::new(attribute::AIPERF_MODEL_NAME, model.to_owned()),
        KeyValue::new(attribute::AIPERF_RUN_NAME, name.clone()),
        KeyValue::new(attribute::HOST_NAME, host::name()),
        KeyValue::new(attribute::HOST_ARCH, architecture()),
        KeyValue::new(attribute::OS_TYPE, os_type()),
        KeyValue::new(attribute::OS_VERSION, host::kernel()),
        KeyValue::new(attribute::PROCESS_PID, i64::from(std::process::id())),
    ];
    attributes.extend(sdk());
    attributes
        .extend(executable().map(|name| KeyValue::new(attribute::PROCESS_EXECUTABLE_NAME, name)));
    let pair = |key: &str, value: &String| KeyValue::new(key.to_owned(), value.clone());
    let of_ci = settings.ci.iter().filter(|(key, _)| has_ci_run || !ci::is_of_each_run(key));
    attributes.extend(of_ci.map(|(key, value)| pair(key, value)));
    if let Some(sweep) = &identity.sweep_id {
        attributes.push(KeyValue::new(attribute::AIPERF_SWEEP_ID, sweep.clone()));
    }
    if let Some(shard) = identity.shard {
        let count = |key, count: u64| KeyValue::new(key, count.cast_signed());
        attributes.push(count(attribute::AIPERF_SHARD_INDEX, shard.index()));
        attributes.push(count(attribute::AIPERF_SHARD_COUNT, shard.count()));
    }
    let named = settings.service_name.iter().map(|name| pair(attribute::SERVICE_NAME, name));
    let flags = config.resource_attributes.iter().map(|(key, value)| pair(key, value));
    for given in settings.resource_attributes.iter().cloned().chain(named).chain(flags) {
        attributes.retain(|have| have.key != given.key);
        attributes.push(given);
    }
    if let Some(shard) = identity.shard {
        // Each process that shares a run is an instance, whatever name the user gives to all of them.
        let is_instance =
            |pair: &&mut KeyValue| pair.key.as_str() == attribute::SERVICE_INSTANCE_ID;
        for pair in attributes.iter_mut().filter(is_instance) {
            pair.value = format!("{}-{}", pair.value, shard.index()).into();
        }
    }
    attributes
}

/// Returns the ID of what performs a benchmark: the same for each of its runs on this machine, so that a
/// series continues from run to run where the ID of the run is not a label.
fn instance(identity: &Identity, name: &str) -> Uuid {
    let mut of = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    of.update(&NAMESPACE);
    let endpoint = identity.endpoint_type.traits().name;
    let parts = [&*host::name(), name, endpoint].map(str::to_owned).into_iter();
    let models = identity.models.iter().map(ToString::to_string);
    let urls = identity.urls.iter().map(ToString::to_string);
    for part in parts.chain(models).chain(urls) {
        of.update(part.as_bytes());
        of.update(b"\n");
    }
    let mut first = [0; 16];
    let digest = of.finish();
    first.iter_mut().zip(digest.as_ref()).for_each(|(to, from)| *to = *from);
    Builder::from_sha1_bytes(first).into_uuid()
}

/// Returns the name, the language and the version of the OpenTelemetry SDK, as it states them.
fn sdk() -> impl Iterator<Item = KeyValue> {
    let keys = [
        attribute::TELEMETRY_SDK_NAME,
        attribute::TELEMETRY_SDK_LANGUAGE,
        attribute::TELEMETRY_SDK_VERSION,
    ];
    let detected = TelemetryResourceDetector.detect();
    keys.into_iter().filter_map(move |key| Some(KeyValue::new(key, detected.get(&key.into())?)))
}

/// Returns the version of the OpenTelemetry SDK.
pub(super) fn sdk_version() -> String {
    let version = sdk().find(|pair| pair.key.as_str() == attribute::TELEMETRY_SDK_VERSION);
    version.map(|pair| pair.value.to_string()).unwrap_or_default()
}

/// Returns the file name of the running program.
fn executable() -> Option<String> {
    let path = std::env::current_exe().ok()?;
    Some(path.file_name()?.to_str()?.to_owned())
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

#[cfg(test)]
mod tests;
