//! Telemetry that a collector receives from real runs conforms to the registry: it contains only
//! registered metrics and attributes, with their kinds, units, descriptions and values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use base::units::Nanos;
use mock_server::{MockServer, Script, Timing, TimingForm};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, ResourceMetrics};

use self::registry::{Attributes, Entry, Registry};
use crate::shards::now;
use crate::support::load::{faults, mock};
use crate::support::otlp_receiver::{OtlpReceiver, attribute};
use crate::support::run::{Run, profile_command};

mod mistakes;
mod provoked;
pub(crate) mod registry;
mod spans;
mod specification;

const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.1";

/// The schema of the newest GenAI conventions, and what names begin with that only they have.
const NEWEST_SCHEMA_URL: &str = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev";
const NEWEST: [&str; 3] =
    ["gen_ai.client.inference.", "gen_ai.invoke_agent.", "gen_ai.execute_tool."];

/// Metrics that none of these runs produces, with the reason.
const UNSEEN: [(&str, &str); 32] = [
    ("aiperf.error_osl", "only where a request ends in the middle of its output"),
    ("aiperf.percentiles.error_osl", "only where a request ends in the middle of its output"),
    ("aiperf.skipped_context_overflow_count", "only in a scenario"),
    ("aiperf.client.queue.spilled", "only where records take 128 MB and more of memory"),
    ("aiperf.client.read_lag", "only where the kernel stamps what it receives"),
    ("aiperf.output.faults", "only where outputs have faults"),
    ("aiperf.load.queue_growth", "only where an open loop has many requests"),
    ("aiperf.load.latency_drift", "only where a run is many times as long as its latencies"),
    ("aiperf.usage_prompt_cache_read_device_tokens", PLACES),
    ("aiperf.percentiles.usage_prompt_cache_read_device_tokens", PLACES),
    ("aiperf.usage_prompt_cache_read_host_tokens", PLACES),
    ("aiperf.percentiles.usage_prompt_cache_read_host_tokens", PLACES),
    ("aiperf.usage_prompt_cache_read_storage_tokens", PLACES),
    ("aiperf.percentiles.usage_prompt_cache_read_storage_tokens", PLACES),
    ("aiperf.tool_call_count", TOOLS),
    ("aiperf.percentiles.tool_call_count", TOOLS),
    ("aiperf.invalid_tool_call_count", TOOLS),
    ("aiperf.total_tool_calls", TOOLS),
    ("aiperf.total_invalid_tool_calls", TOOLS),
    ("aiperf.percentiles.invalid_tool_call_count", TOOLS),
    ("aiperf.session_cache_read_pct", SESSION_CACHE),
    ("aiperf.percentiles.session_cache_read_pct", SESSION_CACHE),
    ("aiperf.theoretical_prefix_hit_blocks", BLOCKS),
    ("aiperf.percentiles.theoretical_prefix_hit_blocks", BLOCKS),
    ("aiperf.theoretical_prefix_blocks", BLOCKS),
    ("aiperf.percentiles.theoretical_prefix_blocks", BLOCKS),
    ("aiperf.theoretical_prefix_cache_hit", BLOCKS),
    ("aiperf.server_cache_hit_rate", ROUTER),
    ("aiperf.percentiles.server_cache_hit_rate", ROUTER),
    ("gen_ai.server.request.duration", TRANSLATED),
    ("gen_ai.server.time_per_output_token", TRANSLATED),
    ("gen_ai.server.time_to_first_token", TRANSLATED),
];

/// The same for spans.
const UNSEEN_SPANS: [(&str, &str); 9] = [
    ("aiperf.request aiperf.output.fault", "only where an output has a fault"),
    ("aiperf.server.reachable", SERVERS),
    ("aiperf.server.restarted", SERVERS),
    ("aiperf.server.unreachable", SERVERS),
    ("aiperf.request aiperf.conversation.parent", "checked where a dataset is a tree"),
    ("aiperf.request gen_ai.request.reasoning.level", WITH_NEWEST),
    ("aiperf.request gen_ai.usage.audio.input_tokens", WITH_NEWEST),
    ("aiperf.request gen_ai.usage.audio.output_tokens", WITH_NEWEST),
    ("aiperf.request gen_ai.usage.cache_write.input_tokens", WITH_NEWEST),
];

const SERVERS: &str = "checked where servers do not answer";

const WITH_NEWEST: &str = "only with the newest conventions";

const TOOLS: &str = "only where responses call tools";

const PLACES: &str = "only from SGLang with a hierarchical cache";

const SESSION_CACHE: &str = "checked where a server caches the prompts of sessions";

const BLOCKS: &str = "only of traces of agents, whose prompts are blocks";

const ROUTER: &str = "only from Dynamo's KV router";

const TRANSLATED: &str = "checked where metrics of servers are forwarded";

/// Describes everything in `export` that does not conform to the registry. Adds the names of its
/// metrics to `seen`.
pub(crate) fn differences(
    export: &ExportMetricsServiceRequest,
    registry: &Registry,
    seen: &mut BTreeSet<String>,
) -> Vec<String> {
    let mut found = Vec::new();
    for resource in &export.resource_metrics {
        let attributes = resource.resource.as_ref().map_or(&[][..], |own| &own.attributes);
        let name = attribute(attributes, "service.name");
        let forwarded = matches!(name.as_deref(), Some("inference-server" | "gpu-exporter"));
        let group = if forwarded { "aiperf.scrape.resource" } else { "aiperf.resource" };
        let listed = &registry.groups[&format!("{group}.attributes")];
        let mut problems = of_attributes(attributes, listed, registry);
        if !forwarded {
            // A server may report more about itself.
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

/// The names of servers' metrics must not be those of the registry.
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
        let is_newest =
            |metric: &Metric| NEWEST.iter().any(|prefix| metric.name.starts_with(prefix));
        let url = if scope.metrics.iter().all(is_newest) { NEWEST_SCHEMA_URL } else { SCHEMA_URL };
        found.extend(of_scope(scope.scope.as_ref(), &scope.schema_url, url));
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

fn of_scope(
    scope: Option<&InstrumentationScope>,
    schema_url: &str,
    expected_url: &str,
) -> Option<String> {
    let name = scope.map(|own| (own.name.as_str(), own.version.as_str()));
    let expected = ("aiperf", env!("CARGO_PKG_VERSION"));
    (name != Some(expected) || schema_url != expected_url)
        .then(|| format!("the scope is {name:?} with {schema_url:?}"))
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

/// Describes everything in the logs that does not conform to the registry. Adds the names of events to
/// `seen`.
fn of_logs(
    export: &ExportLogsServiceRequest,
    registry: &Registry,
    seen: &mut BTreeSet<String>,
) -> Vec<String> {
    let mut found = Vec::new();
    for resource in &export.resource_logs {
        let attributes = resource.resource.as_ref().map_or(&[][..], |own| &own.attributes);
        let listed = &registry.groups["aiperf.resource.attributes"];
        found.extend(of_attributes(attributes, listed, registry));
        found.extend(unlisted(attributes, listed));
        for scope in &resource.scope_logs {
            found.extend(of_scope(scope.scope.as_ref(), &scope.schema_url, SCHEMA_URL));
            for record in &scope.log_records {
                let name = &record.event_name;
                seen.insert(name.clone());
                let Some(listed) = registry.events.get(name) else {
                    found.push(format!("the event {name} is not registered"));
                    continue;
                };
                let mut problems = of_attributes(&record.attributes, listed, registry);
                problems.extend(unlisted(&record.attributes, listed));
                found.extend(problems.iter().map(|problem| format!("{name}: {problem}")));
            }
        }
    }
    found
}

fn sets<P>(points: &[P], attributes: fn(&P) -> &Vec<KeyValue>) -> Vec<&[KeyValue]> {
    points.iter().map(|point| attributes(point).as_slice()).collect()
}

fn unlisted(have: &[KeyValue], listed: &Attributes) -> Vec<String> {
    let strange = have.iter().filter(|pair| !listed.contains_key(&pair.key));
    strange.map(|pair| format!("{} is not registered", pair.key)).collect()
}

/// Checks that required attributes are present once, with registered types and values.
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
            Some(Any::ArrayValue(list)) if list.values.iter().all(is_text) => "string[]",
            _ => "nothing plain",
        };
        if of != kind.of {
            found.push(format!("{} is {of}, not {}", pair.key, kind.of));
        }
        let text = match value {
            Some(Any::StringValue(text)) => text.clone(),
            _ => String::new(),
        };
        // The conventions allow custom providers.
        let open = pair.key == "gen_ai.provider.name";
        if !kind.values.is_empty() && of == "string" && !open && !kind.values.contains(&text) {
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

fn is_text(value: &AnyValue) -> bool {
    matches!(value.value, Some(Any::StringValue(_)))
}

fn server(faulty: &[&str]) -> MockServer {
    server_with(Nanos::from_millis(1.0), faulty)
}

fn server_with(itl: Nanos, faulty: &[&str]) -> MockServer {
    mock(Script {
        ttft: Nanos::from_millis(20.0),
        itl,
        reasoning_tokens: 1,
        models: vec!["mock-model".into(), "other".into()],
        faults: faults(faulty),
        ..Script::default()
    })
}

/// The telemetry that a collector received from a run.
struct Exports {
    metrics: Vec<ExportMetricsServiceRequest>,
    traces: Vec<ExportTraceServiceRequest>,
    logs: Vec<ExportLogsServiceRequest>,
}

impl Exports {
    fn of(collector: &OtlpReceiver) -> Self {
        Self {
            metrics: collector.taken().into_iter().map(|export| export.message).collect(),
            traces: collector.traces().into_iter().map(|export| export.message).collect(),
            logs: collector.logs().into_iter().map(|export| export.message).collect(),
        }
    }
}

/// The program, with a trace for each request.
fn command(
    collector: &OtlpReceiver,
    urls: &[&str],
    directory: &Path,
    arguments: &[&str],
) -> Command {
    let [first, others @ ..] = urls else { panic!("the list of servers is empty") };
    let collector_url = collector.otel_url();
    let mut extra = vec!["--otel-url", &collector_url, "--trace-sample", "all"];
    extra.extend(others.iter().flat_map(|url| ["--url", url]));
    profile_command(first, directory, &[&extra, arguments].concat())
}

/// Runs the program against the servers, and returns the telemetry that the collector received.
fn exports(collector: &OtlpReceiver, urls: &[&str], arguments: &[&str]) -> Exports {
    let directory = tempfile::tempdir().unwrap();
    let output = command(collector, urls, directory.path(), arguments).output().unwrap();
    Run { output, directory }.succeeded();
    Exports::of(collector)
}

/// Returns the telemetry of one of two processes that share a run. If the machine was not ready by
/// the common start, it is given more time.
fn shard(collector: &OtlpReceiver, url: &str) -> Exports {
    for ahead in [4, 40, 200] {
        let at = (now() + ahead).to_string();
        let mut flags = vec!["--shard", "0/2", "--random-seed", "7", "--start-at", &at];
        flags.extend(["--request-count", "8", "--concurrency", "2"]);
        let directory = tempfile::tempdir().unwrap();
        let output = command(collector, &[url], directory.path(), &flags).output().unwrap();
        if output.status.success() {
            return Exports::of(collector);
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("--start-at was"), "{said}");
    }
    panic!("the machine was never ready in time");
}

const TRACE: &str = r#"{"timestamp": 0, "text_input": "a b c", "output_length": 4}
{"timestamp": 20, "text_input": "a b d", "output_length": 4}
{"session_id": "s", "timestamp": 30, "messages": [{"role": "user", "content": "a"}], "output_length": 4}
{"session_id": "s", "delay": 5, "messages": [{"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "search", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "c", "content": "b"}], "output_length": 4}
"#;

/// The parts of the registry that were observed, and the exports that did not conform to it.
struct Held<'r> {
    registry: &'r Registry,
    metrics: BTreeSet<String>,
    /// Types of spans, events, and attributes with the type of their span.
    spans: BTreeSet<String>,
    /// Problems, with the runs that had them.
    problems: BTreeMap<String, BTreeSet<String>>,
}

impl Held<'_> {
    fn hold(&mut self, exports: &Exports, run: &str) {
        let mut found = Vec::new();
        for export in &exports.metrics {
            found.extend(differences(export, self.registry, &mut self.metrics));
        }
        for export in &exports.traces {
            found.extend(spans::differences(export, self.registry, &mut self.spans));
        }
        for export in &exports.logs {
            found.extend(of_logs(export, self.registry, &mut self.spans));
        }
        if exports.traces.is_empty() {
            found.push("no traces came".to_owned());
        }
        for problem in found {
            self.problems.entry(problem).or_default().insert(run.to_owned());
        }
    }
}

/// Returns the resources of an export, with whether each belongs to a server.
fn resources(exports: &Exports) -> Vec<(bool, &[KeyValue])> {
    let of_metrics = exports.metrics.iter().flat_map(|export| &export.resource_metrics);
    let of_traces = exports.traces.iter().flat_map(|export| &export.resource_spans);
    let all = of_metrics.map(|of| &of.resource).chain(of_traces.map(|of| &of.resource));
    all.map(|resource| {
        let attributes = &resource.as_ref().unwrap().attributes[..];
        let name = attribute(attributes, "service.name");
        (name.as_deref() == Some("inference-server"), attributes)
    })
    .collect()
}

#[test]
fn what_a_collector_receives_is_what_the_registry_says() {
    let registry = Registry::read();
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace.jsonl");
    std::fs::write(&trace, TRACE).unwrap();
    let trace = trace.to_str().unwrap();
    let servers = [
        server(&[]),
        server(&[]),
        server(&["every=3:status=503,busy", "every=4:status=400,prompt is too long"]),
    ];
    // On a busy machine, all tokens of a fast response can arrive together.
    let slow = server_with(Nanos::from_millis(50.0), &[]);
    let slow = slow.url();
    let [one, two, failing] = servers.each_ref().map(MockServer::url);
    let hanging = server(&["every=2:hang"]);
    let (hanging, strange) = (hanging.url(), format!("http://{}", provoked::strange_server()));
    let reporting = [
        Timing { draft_tokens: 4, ..Timing::for_form(TimingForm::Vllm) },
        Timing { kv_transfer: Nanos(1), ..Timing::for_form(TimingForm::DynamoSeparate) },
        Timing::for_form(TimingForm::DynamoSeparate),
        Timing::for_form(TimingForm::Tgi),
    ];
    let reporting = reporting.map(|timing| {
        crate::support::load::mock(Script { timing: Some(timing), ..Script::default() })
    });
    let [vllm, separate, together, tgi] = reporting.each_ref().map(MockServer::url);
    let runs: [(&[&str], &str); 20] = [
        (
            &[&slow],
            "--request-count 8 --concurrency 4 --warmup-request-count 2 --goodput request_latency:60000 --steady-state-fraction 0.01 --gate request_latency<=60s --gate request_count>=1",
        ),
        (
            &[&one],
            "--request-count 4 --export-http-trace --otel-histograms exponential --network-latency-mean 0.5",
        ),
        (
            &[&failing],
            "--request-count 12 --session-turns-mean 2 --otel-semconv both --goodput request_latency:60000",
        ),
        (&[&one], "--endpoint-type chat --request-count 4"),
        (&[&one], "--endpoint-type completions --request-count 4"),
        (&[&one], "--endpoint-type embeddings --request-count 4"),
        (
            &[&one],
            "--request-count 2 --image-width-mean 8 --image-height-mean 8 --audio-length-mean 0.1",
        ),
        (&[&one], "--endpoint-type video_generation --request-count 2"),
        (&[&one], "--request-count 10 --request-rate 200 --session-turns-mean 2"),
        // No client can send at this rate, so the verdict has a reason.
        (&[&one], "--request-count 1000 --request-rate 1000000"),
        (&[&one], "--user-centric-rate 50 --num-users 2 --session-turns-mean 2 --request-count 8"),
        (
            &[&one, &two],
            "--model other --request-count 8 --request-cancellation-rate 50 --request-cancellation-delay 0.001",
        ),
        (&[&one], "--custom-dataset-type mooncake-trace --fixed-schedule --input-file"),
        (&[&strange], "--request-count 4 --concurrency 1 --no-server-metrics --otel-semconv both"),
        (&[&hanging], "--benchmark-duration 0.2 --benchmark-grace-period 0.1 --concurrency 2"),
        (&[&vllm], "--request-count 2"),
        (&[&separate], "--request-count 2"),
        (&[&together], "--request-count 2"),
        (&[&tgi], "--endpoint-type completions --request-count 2"),
        (
            &[&one],
            "--request-count 2 --extra-inputs temperature:0.5 --extra-inputs top_p:0.9 --extra-inputs seed:5 --extra-inputs top_k:5 --extra-inputs stop:END --extra-inputs frequency_penalty:0.1 --extra-inputs presence_penalty:0.2 --extra-inputs n:2 --extra-inputs service_tier:flex --extra-inputs {\"response_format\":{\"type\":\"text\"}}",
        ),
    ];
    let mut held = Held {
        registry: &registry,
        metrics: BTreeSet::new(),
        spans: BTreeSet::new(),
        problems: BTreeMap::new(),
    };
    let collector = |number: usize| {
        if number.is_multiple_of(2) { OtlpReceiver::grpc() } else { OtlpReceiver::http() }
    };
    for (index, (urls, arguments)) in runs.into_iter().enumerate() {
        let mut words: Vec<&str> = arguments.split(' ').collect();
        words.extend(arguments.ends_with("--input-file").then_some(trace));
        held.hold(&exports(&collector(index), urls, &words), arguments);
    }
    held.hold(&provoked::interrupted(&collector(0)), "interrupted");
    held.hold(&provoked::secured(&collector(1)), "secured");
    held.hold(&provoked::gpus(&collector(0)), "GPUs");
    held.hold(&provoked::shared(&collector(1)), "phases of a tenant");
    let sharded = shard(&collector(1), &one);
    held.hold(&sharded, "sharded");
    let resources = resources(&sharded);
    for (is_server, attributes) in &resources {
        let of = |key| attribute(attributes, key);
        let (index, count) = (of("aiperf.shard.index"), of("aiperf.shard.count"));
        if !is_server {
            assert_eq!((index.as_deref(), count.as_deref()), (Some("0"), Some("2")));
            assert!(of("service.instance.id").unwrap().ends_with("-0"));
        }
    }
    assert!(resources.iter().any(|(is_server, _)| *is_server), "no server's metrics came");
    let Held { metrics, spans, problems, .. } = held;
    assert!(problems.is_empty(), "{problems:#?}");
    assert_seen("metrics", registry.metrics.keys().cloned(), &metrics, &UNSEEN);
    assert_seen("spans", registered_spans(&registry), &spans, &UNSEEN_SPANS);
}

/// Returns types of spans, their events, and their attributes.
fn registered_spans(registry: &Registry) -> impl Iterator<Item = String> {
    let attributes = registry
        .spans
        .iter()
        .flat_map(|(kind, entry)| entry.attributes.keys().map(move |key| format!("{kind} {key}")));
    registry.spans.keys().cloned().chain(registry.events.keys().cloned()).chain(attributes)
}

/// Checks that everything registered was observed or has a reason; lists what was not.
fn assert_seen(
    what: &str,
    registered: impl Iterator<Item = String>,
    seen: &BTreeSet<String>,
    reasons: &[(&str, &str)],
) {
    let unseen: Vec<String> = registered.filter(|name| !seen.contains(name)).collect();
    eprintln!("{} {what} were seen; in no run: {unseen:#?}", seen.len());
    let missing: Vec<_> =
        unseen.iter().filter(|name| reasons.iter().all(|(have, _)| have != name)).collect();
    assert!(missing.is_empty(), "{what} in no run and without a reason: {missing:?}");
}

#[test]
fn the_files_of_the_registry_are_sound() {
    let registry = Registry::read();
    assert!(registry.problems.is_empty(), "{:#?}", registry.problems);
    assert!(registry.metrics.len() > 150 && registry.groups.len() >= 4);
}

/// The checks of the registry's files detect mistakes in them.
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
    requirement_level: recommended
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
        ("level: recommended", "level: needed"),
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
