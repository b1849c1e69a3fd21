//! Events as log records: what happens to a run, its verdicts, and failed requests.

use std::collections::BTreeMap;

use mock_server::Script;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use serde_json::Value;

use crate::support::load::{faults, mock};
use crate::support::metrics_endpoint::{MetricsEndpoint, Reply};
use crate::support::otlp_receiver::{OtlpReceiver, Received, attribute};
use crate::support::run::{Run, json_lines, profile, profile_command};

const EXCEPTION: &str = "gen_ai.client.operation.exception";

fn records(collector: &OtlpReceiver) -> Vec<LogRecord> {
    let exports = collector.logs();
    let resources = exports.iter().flat_map(|export| &export.message.resource_logs);
    let scopes = resources.flat_map(|resource| &resource.scope_logs);
    scopes.flat_map(|scope| scope.log_records.clone()).collect()
}

/// Returns the names of events, with their numbers.
fn counts(records: &[LogRecord]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for record in records {
        *counts.entry(record.event_name.as_str()).or_default() += 1;
    }
    counts
}

/// Returns the text of an event; empty if there is none.
fn body(record: &LogRecord) -> &str {
    match record.body.as_ref().and_then(|body| body.value.as_ref()) {
        Some(Any::StringValue(text)) => text,
        _ => "",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Runs a warmup and a measurement in which every fifth request fails.
fn failing_run(collector: &OtlpReceiver, extra: &[&str]) -> Run {
    let server =
        mock(Script { faults: faults(&["every=5:status=503,s3cret"]), ..Script::default() });
    let url = collector.otel_url();
    let mut flags = vec!["--otel-url", &url, "--request-count", "10"];
    flags.extend(["--warmup-request-count", "2", "--concurrency", "1"]);
    flags.extend(extra);
    profile(&server.url(), &flags).succeeded()
}

#[test]
fn what_happens_is_told_with_its_place_in_the_traces() {
    for collector in [OtlpReceiver::grpc(), OtlpReceiver::http()] {
        let run = failing_run(&collector, &["--trace-sample", "all"]);
        let records = records(&collector);
        let counts = counts(&records);
        for (name, count) in [
            ("aiperf.run.started", 1),
            ("aiperf.run.ended", 1),
            ("aiperf.phase.started", 2),
            ("aiperf.phase.ended", 2),
            ("aiperf.client.judged", 1),
        ] {
            assert_eq!(counts.get(name), Some(&count), "{name}: {counts:?}");
        }
        let failed: BTreeMap<String, String> = run
            .records()
            .iter()
            .filter(|record| !record["error"].is_null())
            .map(|record| {
                let id = record["metadata"]["x_request_id"].as_str().unwrap().to_owned();
                (id.replace('-', ""), id)
            })
            .collect();
        let exceptions: Vec<_> =
            records.iter().filter(|record| record.event_name == EXCEPTION).collect();
        // 12 requests, of which the 5th and the 10th fail.
        assert_eq!((failed.len(), exceptions.len()), (2, 2));
        for record in &records {
            assert!(!body(record).is_empty(), "{record:?}");
        }
        for record in &exceptions {
            let of = |key: &str| attribute(&record.attributes, key);
            assert_eq!(body(record), "request failed: 503 http_5xx");
            assert_eq!(of("aiperf.request.id").as_ref(), failed.get(&hex(&record.trace_id)));
            assert_eq!((record.span_id.len(), record.flags), (8, 1));
            // 13 is WARN, as the conventions require.
            assert_eq!((record.severity_number, record.severity_text.as_str()), (13, "WARN"));
            assert_eq!(of("error.type").as_deref(), Some("http_5xx"));
            assert!(of("exception.message").is_some_and(|text| text.contains("503")));
            assert!(!format!("{record:?}").contains("s3cret"));
        }
        let ended = records.iter().find(|record| {
            record.event_name == "aiperf.phase.ended"
                && attribute(&record.attributes, "aiperf.benchmark_phase").as_deref()
                    == Some("profiling")
        });
        let ended = ended.unwrap();
        let of = |key: &str| attribute(&ended.attributes, key);
        assert_eq!(of("aiperf.phase.requests.sent").as_deref(), Some("10"));
        let id = run.summary()["benchmark_id"].as_str().unwrap().replace('-', "");
        assert_eq!(hex(&ended.trace_id), id);
        let spans = collector.traces();
        let spans = spans.iter().flat_map(|export| &export.message.resource_spans);
        let mut spans = spans.flat_map(|of| &of.scope_spans).flat_map(|scope| &scope.spans);
        let phase = spans.find(|span| span.span_id == ended.span_id).unwrap();
        assert_eq!(phase.name, "aiperf.phase");
        assert_eq!(phase.end_time_unix_nano, ended.time_unix_nano);
        let told = &run.summary()["telemetry"]["logs"];
        assert_eq!(told["sent"].as_u64(), Some(records.len() as u64), "{told}");
        assert_eq!(told["lost"].as_u64(), Some(0), "{told}");
    }
}

#[test]
fn without_traces_events_have_no_place_in_one() {
    let collector = OtlpReceiver::http();
    failing_run(&collector, &[]);
    let records = records(&collector);
    assert_eq!(counts(&records).get(EXCEPTION), Some(&2));
    assert!(records.iter().all(|record| record.trace_id.is_empty() && record.span_id.is_empty()));
}

#[test]
fn a_collector_without_logs_is_asked_once_and_not_complained_about() {
    for collector in [OtlpReceiver::grpc(), OtlpReceiver::http()] {
        let collector = collector.without_logs();
        let run = failing_run(&collector, &[]);
        let told = &run.summary()["telemetry"]["logs"];
        assert_eq!((&told["is_unsupported"], &told["sent"]), (&true.into(), &0.into()));
        assert!(told["lost"].as_u64() > Some(4), "{told}");
        assert_eq!(collector.seen_logs(), 1);
        let said = String::from_utf8_lossy(&run.output.stderr).into_owned();
        assert!(!said.contains("collector"), "{said}");
        assert_eq!(run.summary()["telemetry"]["delivered_final"], true);
    }
}

#[test]
fn events_can_be_turned_off_and_written_to_files() {
    let collector = OtlpReceiver::http();
    let (server, directory) = (mock(Script::default()), tempfile::tempdir().unwrap());
    let place = tempfile::tempdir().unwrap();
    let url = collector.otel_url();
    let flags = ["--otel-url", &url, "--request-count", "2"];
    let mut command = profile_command(&server.url(), directory.path(), &flags);
    let output = command.env("OTEL_LOGS_EXPORTER", "none").output().unwrap();
    let run = Run { output, directory }.succeeded();
    assert_eq!((collector.seen_logs(), run.summary()["telemetry"].get("logs")), (0, None));
    let path = place.path().to_str().unwrap();
    profile(&server.url(), &["--otel-file", path, "--request-count", "2"]).succeeded();
    let lines = json_lines(&place.path().join("logs.jsonl"));
    let text = serde_json::to_string(&lines).unwrap();
    for name in ["aiperf.run.started", "aiperf.phase.ended", "aiperf.run.ended"] {
        assert_eq!(text.matches(&format!("\"eventName\":\"{name}\"")).count(), 1, "{text}");
    }
}

/// The events, in comparison with the file: warnings with a summary, and one without, which may quote the server.
#[test]
fn warnings_of_the_files_are_events() {
    let collector = OtlpReceiver::http();
    let server = mock(Script { faults: faults(&["all:status=422,s3cret"]), ..Script::default() });
    let url = collector.otel_url();
    let flags = ["--otel-url", &url, "--request-count", "40", "--trace-sample", "all"];
    let run = profile(&server.url(), &flags);
    let summary = run.summary();
    let warnings = summary["warnings"].as_array().unwrap();
    let names: Vec<_> = warnings.iter().map(|warning| warning["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"incomplete-run") && names.len() > 1, "{names:?}");
    let records = records(&collector);
    let records = records.iter().filter(|record| record.event_name == "aiperf.warning.found");
    let records: Vec<_> = records.collect();
    assert_eq!(records.len(), warnings.len());
    for (record, warning) in records.iter().zip(warnings) {
        let found = |key: &str| attribute(&record.attributes, &format!("aiperf.warning.{key}"));
        assert_eq!(found("name").as_deref(), warning["name"].as_str());
        assert_eq!(found("level").as_deref(), warning["level"].as_str());
        let is_quoting = warning["name"] == "incomplete-run";
        let summary = warning["summary"].as_str().filter(|_| !is_quoting);
        assert_eq!(found("summary").as_deref(), summary);
        let title = found("title").unwrap();
        assert!(run.text("profile_export_console.txt").contains(&title), "{title}");
        assert_eq!((record.severity_number, record.trace_id.len()), (13, 16));
        assert!(!format!("{record:?}").contains("s3cret"));
    }
}

/// The gates' expressions, with their verdicts and severities.
#[test]
fn results_of_gates_are_told() {
    let collector = OtlpReceiver::grpc();
    let server = mock(Script::default());
    let url = collector.otel_url();
    let gates = [
        ("request_count>=4", "passed", Some(4.0), 9),
        ("request_latency:p99<=0.001ms", "failed", None, 13),
        ("server:no_such_metric:max<=1", "unknown", None, 13),
    ];
    let mut flags = vec!["--otel-url", &url, "--request-count", "4", "--trace-sample", "all"];
    flags.extend(gates.iter().flat_map(|(gate, ..)| ["--gate", gate]));
    let run = profile(&server.url(), &flags);
    assert_eq!(run.output.status.code(), Some(3));
    let records = records(&collector);
    let judged: Vec<_> =
        records.iter().filter(|record| record.event_name == "aiperf.gate.judged").collect();
    assert_eq!(judged.len(), gates.len());
    for (record, (gate, verdict, value, severity)) in judged.iter().zip(gates) {
        let of = |key: &str| attribute(&record.attributes, key);
        assert_eq!(of("aiperf.gate.expression").as_deref(), Some(gate));
        assert_eq!(of("aiperf.verdict").as_deref(), Some(verdict), "{gate}");
        assert_eq!(record.severity_number, severity, "{gate}");
        assert_eq!((record.trace_id.len(), record.span_id.len()), (16, 8));
        let found = record.attributes.iter().find(|pair| pair.key == "aiperf.gate.value");
        let found = found.map(|pair| match pair.value.as_ref().unwrap().value {
            Some(Any::DoubleValue(value)) => value,
            ref other => panic!("{other:?}"),
        });
        assert_eq!(found.is_some(), verdict != "unknown", "{gate}");
        assert!(value.is_none() || found == value, "{gate}: {found:?}");
    }
    let unit = attribute(&judged[1].attributes, "aiperf.gate.unit");
    assert_eq!(unit.as_deref(), Some("ms"));
    // The last event is the end of the run.
    assert_eq!(records.last().unwrap().event_name, "aiperf.run.ended");
    // The verdicts are those of the files.
    let held: Vec<_> =
        run.summary()["gates"].as_array().unwrap().iter().map(|of| of["held"].clone()).collect();
    assert_eq!(held, [true, false, false]);
    assert_gauges(&collector, &run.summary()["gates"]);
}

/// Asserts that the last export has the results of gates as gauges.
fn assert_gauges(collector: &OtlpReceiver, gates: &Value) {
    let exports = collector.taken().into_iter().map(|export| Received(export.message));
    let is_told = |of: &Received| of.metrics().iter().any(|one| one.name == "aiperf.gate.passed");
    let last = exports.rev().find(is_told).unwrap();
    let gauge =
        |name: &str, with: &[(&str, &str)]| last.number(&format!("aiperf.gate.{name}"), with);
    let of = |gate: &'static str| [("aiperf.gate.expression", gate)];
    let count = of("request_count>=4");
    assert_eq!((gauge("value", &count), gauge("limit", &count)), (4.0, 4.0));
    assert_eq!(gauge("passed", &count), 1.0);
    let latency = [
        ("aiperf.gate.metric", "request_latency"),
        ("aiperf.gate.statistic", "p99"),
        ("aiperf.gate.unit", "ms"),
        ("aiperf.benchmark_phase", "profiling"),
    ];
    assert_eq!(Some(gauge("value", &latency)), gates[1]["value"].as_f64());
    assert_eq!((gauge("limit", &latency), gauge("passed", &latency)), (0.001, 0.0));
    let absent = [("aiperf.gate.metric", "server:no_such_metric")];
    assert_eq!((gauge("limit", &absent), gauge("passed", &absent)), (1.0, 0.0));
    let Some(Data::Gauge(values)) = &last.metric("aiperf.gate.value").data else { panic!() };
    assert_eq!(values.data_points.len(), 2);
}

#[test]
fn a_server_that_restarts_or_does_not_answer_is_told() {
    let started = |at: u64| Reply::text(format!("process_start_time_seconds {at}\n"));
    let down = || Reply::status("503 Service Unavailable");
    let endpoint = MetricsEndpoint::with([
        started(1_700_000_000),
        started(1_700_000_000),
        down(),
        down(),
        down(),
        started(1_700_000_100),
        started(1_700_000_100),
    ]);
    let collector = OtlpReceiver::http();
    let (server, directory) = (mock(Script::default()), tempfile::tempdir().unwrap());
    let (url, metrics) = (collector.otel_url(), endpoint.url("/metrics").to_string());
    let flags = [
        "--otel-url",
        &url,
        "--server-metrics",
        &metrics,
        "--benchmark-duration",
        "1.2",
        "--concurrency",
        "1",
        "--request-rate",
        "20",
    ];
    let mut command = profile_command(&server.url(), directory.path(), &flags);
    command.env("AIPERF_SERVER_METRICS_COLLECTION_INTERVAL", "0.1");
    let run = Run { output: command.output().unwrap(), directory };
    assert_eq!(
        run.output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&run.output.stderr)
    );
    let records = records(&collector);
    let told: Vec<_> =
        records.iter().filter(|record| record.event_name.starts_with("aiperf.server.")).collect();
    let names: Vec<&str> = told.iter().map(|record| record.event_name.as_str()).collect();
    let expected =
        ["aiperf.server.unreachable", "aiperf.server.reachable", "aiperf.server.restarted"];
    assert_eq!(names, expected);
    for record in told {
        let of = |key: &str| attribute(&record.attributes, key);
        assert_eq!(of("server.address").as_deref(), Some("127.0.0.1"));
        assert_eq!(of("server.port"), Some(endpoint.address().port().to_string()));
    }
}
