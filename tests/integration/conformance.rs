//! What a collector receives from real runs is what the registry says: no metric
//! and no attribute beside it, and each with its kind, unit, text and values.

use std::collections::{BTreeMap, BTreeSet};

use aiperf::mock_server::{Config, MockServer, Script};
use aiperf::units::Nanos;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, ResourceMetrics};

use self::registry::{Attributes, Entry, Registry};
use crate::otlp_receiver::{OtlpReceiver, attribute};
use crate::profile::aiperf;

#[path = "conformance/mistakes.rs"]
mod mistakes;
#[path = "conformance/registry.rs"]
mod registry;
#[path = "conformance/specification.rs"]
mod specification;

const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.1";

/// Metrics that no run here gives, by their beginnings, and why.
const UNSEEN: [(&str, &str); 22] = [
    ("aiperf.usage_prompt_audio", "no server here takes sound"),
    ("aiperf.usage_completion_audio", "no server here gives sound"),
    ("aiperf.total_usage_prompt_audio", "no server here takes sound"),
    ("aiperf.total_usage_completion_audio", "no server here gives sound"),
    ("aiperf.usage_prompt_cache_", "the mock server reports no such usage"),
    ("aiperf.total_usage_prompt_cache_", "the mock server reports no such usage"),
    ("aiperf.overall_usage_prompt_cache_read_pct", "the mock server reports no such usage"),
    ("aiperf.usage_tool_use_prompt_tokens", "the mock server reports no such usage"),
    ("aiperf.total_usage_tool_use_prompt_tokens", "the mock server reports no such usage"),
    ("aiperf.usage_accepted_prediction_tokens", "the mock server predicts nothing"),
    ("aiperf.usage_rejected_prediction_tokens", "the mock server predicts nothing"),
    ("aiperf.total_usage_accepted_prediction_tokens", "the mock server predicts nothing"),
    ("aiperf.total_usage_rejected_prediction_tokens", "the mock server predicts nothing"),
    ("aiperf.usage_discrepancy_count", "the mock server's usage is right"),
    ("aiperf.osl_mismatch_count", "the mock server gives as many tokens as it is asked for"),
    ("aiperf.timing.sessions.cancelled", "only of a run that was stopped"),
    ("aiperf.timing.phase.timeout_triggered", "only of a phase that ran out of time"),
    ("aiperf.timing.phase.grace_timeout_triggered", "only of a phase that ran out of time"),
    ("aiperf.timing.phase.was_cancelled", "only of a run that the user stopped"),
    ("aiperf.client.retries", "only where a reused connection dies"),
    ("aiperf.client.queue.spilled", "only where memory is short"),
    ("aiperf.client.read_lag", "only where the kernel stamps what it receives"),
];

/// Why a metric of the registry may have been seen in no run.
fn excuse(name: &str) -> Option<&'static str> {
    let name = name.replace("aiperf.percentiles.", "aiperf.");
    UNSEEN.iter().find(|(start, _)| name.starts_with(start)).map(|(_, reason)| *reason)
}

/// Everything in `export` that the registry does not say, in words. `seen` gets
/// the names of its metrics.
fn differences(
    export: &ExportMetricsServiceRequest,
    registry: &Registry,
    seen: &mut BTreeSet<String>,
) -> Vec<String> {
    let mut found = Vec::new();
    for resource in &export.resource_metrics {
        let attributes = resource.resource.as_ref().map_or(&[][..], |own| &own.attributes);
        let forwarded =
            attribute(attributes, "service.name").as_deref() == Some("inference-server");
        let group = if forwarded { "aiperf.scrape.resource" } else { "aiperf.resource" };
        let listed = &registry.groups[&format!("{group}.attributes")];
        let mut problems = of_attributes(attributes, listed, registry);
        if !forwarded {
            // A server may say more of itself.
            problems.extend(unlisted(attributes, listed));
        }
        if resource.schema_url != SCHEMA_URL {
            problems.push(format!("its schema is {:?}", resource.schema_url));
        }
        found.extend(problems.iter().map(|problem| format!("the resource: {problem}")));
        if forwarded {
            found.extend(of_forwarded(resource));
        } else {
            found.extend(of_own(resource, registry, seen));
        }
    }
    found
}

/// Servers' own names are theirs alone.
fn of_forwarded(resource: &ResourceMetrics) -> Vec<String> {
    let metrics = resource.scope_metrics.iter().flat_map(|scope| &scope.metrics);
    let ours = metrics.filter(|m| m.name.starts_with("aiperf.") || m.name.starts_with("gen_ai."));
    ours.map(|metric| format!("{} comes from a server", metric.name)).collect()
}

fn of_own(
    resource: &ResourceMetrics,
    registry: &Registry,
    seen: &mut BTreeSet<String>,
) -> Vec<String> {
    let mut found = Vec::new();
    for scope in &resource.scope_metrics {
        let name = scope.scope.as_ref().map(|own| (own.name.as_str(), own.version.as_str()));
        let expected = ("aiperf", env!("CARGO_PKG_VERSION"));
        if name != Some(expected) || scope.schema_url != SCHEMA_URL {
            found.push(format!("the scope is {name:?} with {:?}", scope.schema_url));
        }
        for metric in &scope.metrics {
            seen.insert(metric.name.clone());
            let problems = match registry.metrics.get(&metric.name) {
                None => vec!["is not registered".to_owned()],
                Some(entry) => of_metric(metric, entry, registry),
            };
            found.extend(problems.iter().map(|problem| format!("{}: {problem}", metric.name)));
        }
    }
    found
}

fn of_metric(metric: &Metric, entry: &Entry, registry: &Registry) -> Vec<String> {
    let mut found = Vec::new();
    let mut hold = |what: &str, have: &str, wanted: &str| {
        if have != wanted {
            found.push(format!("{what} {have:?}, not {wanted:?}"));
        }
    };
    hold("unit", &metric.unit, &entry.unit);
    hold("brief", &metric.description, &entry.brief);
    let cumulative = AggregationTemporality::Cumulative as i32;
    let (kind, temporality, points) = match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => ("gauge", cumulative, sets(&gauge.data_points, |p| &p.attributes)),
        Data::Sum(sum) => (
            if sum.is_monotonic { "counter" } else { "updowncounter" },
            sum.aggregation_temporality,
            sets(&sum.data_points, |point| &point.attributes),
        ),
        Data::Histogram(histogram) => (
            "histogram",
            histogram.aggregation_temporality,
            sets(&histogram.data_points, |point| &point.attributes),
        ),
        Data::ExponentialHistogram(histogram) => (
            "histogram",
            histogram.aggregation_temporality,
            sets(&histogram.data_points, |point| &point.attributes),
        ),
        Data::Summary(_) => ("summary", cumulative, Vec::new()),
    };
    hold("kind", kind, &entry.instrument);
    hold("temporality", &temporality.to_string(), &cumulative.to_string());
    if let Some(Data::Histogram(histogram)) = &metric.data
        && histogram.data_points.iter().any(|point| point.explicit_bounds != entry.boundaries)
    {
        found.push("other boundaries".to_owned());
    }
    if points.is_empty() {
        found.push("no points".to_owned());
    }
    for attributes in points {
        found.extend(of_attributes(attributes, &entry.attributes, registry));
        found.extend(unlisted(attributes, &entry.attributes));
    }
    found.sort();
    found.dedup();
    found
}

fn sets<P>(points: &[P], attributes: fn(&P) -> &Vec<KeyValue>) -> Vec<&[KeyValue]> {
    points.iter().map(|point| attributes(point).as_slice()).collect()
}

fn unlisted(have: &[KeyValue], listed: &Attributes) -> Vec<String> {
    let strange = have.iter().filter(|pair| !listed.contains_key(&pair.key));
    strange.map(|pair| format!("{} is not registered", pair.key)).collect()
}

/// What is required is there, once; types and listed values are kept to.
fn of_attributes(have: &[KeyValue], listed: &Attributes, registry: &Registry) -> Vec<String> {
    let mut found = Vec::new();
    for (key, required) in listed {
        let times = have.iter().filter(|pair| pair.key == *key).count();
        if times > 1 || (*required && times == 0) {
            found.push(format!("{key} is there {times} times"));
        }
    }
    for pair in have {
        let Some(kind) = registry.attributes.get(&pair.key) else { continue };
        let value = pair.value.as_ref().and_then(|value| value.value.as_ref());
        let of = match value {
            Some(Any::StringValue(_)) => "string",
            Some(Any::IntValue(_)) => "int",
            Some(Any::DoubleValue(_)) => "double",
            Some(Any::BoolValue(_)) => "boolean",
            _ => "nothing plain",
        };
        if of != kind.of {
            found.push(format!("{} is {of}, not {}", pair.key, kind.of));
        }
        let text = attribute(have, &pair.key).unwrap_or_default();
        // A provider of one's own is allowed by the conventions.
        let open = pair.key == "gen_ai.provider.name";
        if !kind.values.is_empty() && !open && !kind.values.contains(&text) {
            found.push(format!("{} is {text:?}", pair.key));
        }
    }
    // `conditionally_required: If server.address is set`.
    let has = |key: &str| have.iter().any(|pair| pair.key == key);
    if listed.contains_key("server.port") && has("server.address") != has("server.port") {
        found.push("server.address and server.port are not together".to_owned());
    }
    found
}

fn server(faults: &[&str]) -> MockServer {
    let faults = faults.iter().map(|fault| Script::parse_fault(fault).unwrap()).collect();
    let script = Script {
        ttft: Nanos::from_millis(20.0),
        itl: Nanos::from_millis(1.0),
        reasoning_tokens: 1,
        models: vec!["mock-model".into(), "other".into()],
        faults,
        ..Script::default()
    };
    MockServer::start(Config { script, ..Config::default() }).unwrap()
}

/// Runs the program against the servers, and gives what the collector took.
fn exports(
    collector: &OtlpReceiver,
    servers: &[&MockServer],
    arguments: &[&str],
) -> Vec<ExportMetricsServiceRequest> {
    let path = if collector.is_grpc() { "" } else { "/v1/metrics" };
    let url = format!("{}{path}", collector.url());
    let directory = tempfile::tempdir().unwrap();
    let mut command = aiperf(&["profile", "--model", "mock-model", "--tokenizer", "builtin"]);
    command.args(["--ui", "none", "--otel-url", &url, "--artifact-dir"]).arg(directory.path());
    for server in servers {
        command.args(["--url", &server.url()]);
    }
    if !arguments.contains(&"--input-file") {
        command.args(["--isl", "20", "--osl", "4"]);
    }
    if !arguments.contains(&"--endpoint-type") {
        command.arg("--streaming");
    }
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    collector.taken().into_iter().map(|export| export.message).collect()
}

const TRACE: &str = r#"{"timestamp": 0, "text_input": "a b c", "output_length": 4}
{"timestamp": 20, "text_input": "a b d", "output_length": 4}
"#;

#[test]
fn what_a_collector_receives_is_what_the_registry_says() {
    let registry = Registry::read();
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace.jsonl");
    std::fs::write(&trace, TRACE).unwrap();
    let trace = trace.to_str().unwrap();
    let (one, two) = (server(&[]), server(&[]));
    let failing = server(&["every=3:status=503,busy", "every=4:status=400,prompt is too long"]);
    let runs: [(&[&MockServer], &str); 10] = [
        (&[&one], "--request-count 8 --warmup-request-count 2 --goodput request_latency:60000"),
        (&[&one], "--request-count 4 --export-http-trace --otel-histograms exponential"),
        (&[&failing], "--request-count 12"),
        (&[&one], "--endpoint-type chat --request-count 4"),
        (&[&one], "--endpoint-type completions --request-count 4"),
        (&[&one], "--endpoint-type embeddings --request-count 4"),
        (&[&one], "--request-count 10 --request-rate 200 --session-turns-mean 2"),
        (&[&one], "--user-centric-rate 50 --num-users 2 --session-turns-mean 2 --request-count 8"),
        (
            &[&one, &two],
            "--model other --request-count 8 --request-cancellation-rate 50 --request-cancellation-delay 0.001",
        ),
        (&[&one], "--custom-dataset-type mooncake-trace --fixed-schedule --input-file"),
    ];
    let mut seen = BTreeSet::new();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (index, (servers, arguments)) in runs.into_iter().enumerate() {
        let collector = if index % 2 == 0 { OtlpReceiver::grpc() } else { OtlpReceiver::http() };
        let mut words: Vec<&str> = arguments.split(' ').collect();
        words.extend(arguments.ends_with("--input-file").then_some(trace));
        for export in exports(&collector, servers, &words) {
            for problem in differences(&export, &registry, &mut seen) {
                found.entry(problem).or_default().insert(arguments.to_owned());
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
    let unseen: Vec<_> = registry.metrics.keys().filter(|name| !seen.contains(*name)).collect();
    let missing: Vec<_> = unseen.iter().filter(|name| excuse(name).is_none()).collect();
    assert!(missing.is_empty(), "in no run and without a reason: {missing:?}");
    eprintln!("{} of {} metrics were seen", seen.len(), registry.metrics.len());
}

#[test]
fn the_files_of_the_registry_are_sound() {
    let registry = Registry::read();
    assert!(registry.problems.is_empty(), "{:#?}", registry.problems);
    assert!(registry.metrics.len() > 150 && registry.groups.len() >= 4);
}

/// The checks of the files find what is wrong in a file.
#[test]
fn a_registry_with_mistakes_is_not_sound() {
    let sound = "file_format: definition/2
attributes:
  - {key: aiperf.a, type: string, stability: development, brief: A.}
metrics:
  - name: aiperf.m
    instrument: counter
    unit: \"{request}\"
    stability: development
    brief: M.
    attributes: [{ref: aiperf.a, requirement_level: required}]
";
    let problems = |text: &str| Registry::of(&[serde_norway::from_str(text).unwrap()]).problems;
    assert_eq!(problems(sound), Vec::<String>::new());
    for (from, to) in [
        ("definition/2", "definition/1"),
        ("ref: aiperf.a", "ref: aiperf.b"),
        ("ref: aiperf.a", "ref: gen_ai.nothing"),
        ("{ref: aiperf.a, requirement_level: required}", "{ref_group: aiperf.none}"),
        ("level: required", "level: needed"),
        ("{request}", "requests"),
        ("instrument: counter", "instrument: meter"),
        ("instrument: counter", "instrument: histogram"),
        ("brief: A.", "brief: ''"),
        ("type: string", "type: text"),
        ("stability: development, brief", "stability: old, brief"),
        ("{key: aiperf.a,", "{key: aperf.a,"),
    ] {
        assert!(sound.contains(from));
        assert!(!problems(&sound.replacen(from, to, 1)).is_empty(), "{from} -> {to}");
    }
}
