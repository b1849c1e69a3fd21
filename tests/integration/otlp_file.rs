//! OTLP as JSON: in files, and to collectors that take JSON.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use mock_server::{MockServer, Script};
use serde_json::Value;

use crate::support::load::mock;
use crate::support::otlp_receiver::OtlpReceiver;
use crate::support::raw_server::{self, read_request, write};
use crate::support::run::{Run, json_lines, profile, profile_command};

fn server() -> MockServer {
    mock(Script::default())
}

/// Returns the members of objects at `path`, through all lists.
fn all<'a>(lines: &'a [Value], path: &[&str]) -> Vec<&'a Value> {
    let mut found: Vec<&Value> = lines.iter().collect();
    for name in path {
        found = found.iter().flat_map(|of| of[*name].as_array().into_iter().flatten()).collect();
    }
    found
}

fn spans(lines: &[Value]) -> Vec<&Value> {
    all(lines, &["resourceSpans", "scopeSpans", "spans"])
}

/// Returns the requests that the last line counts in a histogram.
fn requests(lines: &[Value]) -> u64 {
    let own = lines.iter().rfind(|line| line.to_string().contains("aiperf.request_latency"));
    let metrics = own.map(std::slice::from_ref).unwrap_or_default();
    let metrics = all(metrics, &["resourceMetrics", "scopeMetrics", "metrics"]);
    let latency = metrics.iter().find(|metric| metric["name"] == "aiperf.request_latency").unwrap();
    let points = latency["histogram"]["dataPoints"].as_array().unwrap();
    points.iter().map(|point| point["count"].as_str().unwrap().parse::<u64>().unwrap()).sum()
}

/// The IDs of the requests in the records, as trace IDs are written.
fn ids(run: &Run) -> BTreeSet<String> {
    let id = |record: &Value| record["metadata"]["x_request_id"].as_str().unwrap().replace('-', "");
    run.records().iter().map(id).collect()
}

fn traced(lines: &[Value]) -> BTreeSet<String> {
    let requests = spans(lines).into_iter().filter(|span| span["kind"] == 3);
    requests.map(|span| span["traceId"].as_str().unwrap().to_owned()).collect()
}

fn path(directory: &Path) -> &str {
    directory.to_str().unwrap()
}

#[test]
fn a_line_that_a_killed_run_cut_stays_apart() {
    let (server, place) = (server(), tempfile::tempdir().unwrap());
    let file = place.path().join("metrics.jsonl");
    std::fs::write(&file, "{\"resourceMetrics\": [{}]}\n{\"resourceMet").unwrap();
    profile(&server.url(), &["--otel-file", path(place.path()), "--request-count", "2"])
        .succeeded();
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "{\"resourceMet");
    assert!(lines.len() > 2);
    for line in &lines[2..] {
        serde_json::from_str::<Value>(line).unwrap();
    }
}

#[test]
fn without_a_collector_everything_is_in_files() {
    let (server, place) = (server(), tempfile::tempdir().unwrap());
    let directory = place.path().join("new/otlp");
    let extra = ["--otel-file", path(&directory), "--trace-sample", "all", "--request-count", "7"];
    let run = profile(&server.url(), &extra).succeeded();
    assert_eq!(requests(&json_lines(&directory.join("metrics.jsonl"))), 7);
    assert_eq!(traced(&json_lines(&directory.join("traces.jsonl"))), ids(&run));
    let telemetry = &run.summary()["telemetry"];
    assert_eq!(telemetry["endpoint"].as_str().map(|url| url.starts_with("file://")), Some(true));
    let told = ["delivered_final", "reconciled"].map(|name| telemetry[name].as_bool());
    assert_eq!(told, [Some(true), Some(true)]);
    assert_eq!(
        (&telemetry["exports_failed"], &telemetry["traces"]["sent"]),
        (&0.into(), &7.into())
    );
    // A second run is added.
    let second = profile(&server.url(), &extra).succeeded();
    let both: BTreeSet<_> = ids(&run).union(&ids(&second)).cloned().collect();
    assert_eq!(traced(&json_lines(&directory.join("traces.jsonl"))), both);
}

#[test]
fn files_have_what_the_collector_gets() {
    let (server, collector) = (server(), OtlpReceiver::grpc());
    let (place, url) = (tempfile::tempdir().unwrap(), collector.otel_url());
    let mut extra = vec!["--otel-file", path(place.path()), "--otel-url", &url];
    extra.extend(["--trace-sample", "all", "--request-count", "5"]);
    let run = profile(&server.url(), &extra).succeeded();
    let lines = json_lines(&place.path().join("traces.jsonl"));
    assert_eq!(traced(&lines), ids(&run));
    let sent = collector.traces();
    let sent = sent.iter().flat_map(|export| &export.message.resource_spans);
    let sent = sent.flat_map(|of| &of.scope_spans).flat_map(|scope| &scope.spans);
    let sent: BTreeSet<_> = sent.map(|span| (span.name.clone(), span.end_time_unix_nano)).collect();
    let written: BTreeSet<_> = spans(&lines)
        .iter()
        .map(|span| {
            let end = span["endTimeUnixNano"].as_str().unwrap().parse().unwrap();
            (span["name"].as_str().unwrap().to_owned(), end)
        })
        .collect();
    assert_eq!(written, sent);
    let metrics = json_lines(&place.path().join("metrics.jsonl"));
    let scrapes = |line: &&Value| line.to_string().contains("inference-server");
    let of_servers = metrics.iter().filter(scrapes).count();
    assert_eq!(requests(&metrics), 5);
    assert!(of_servers > 0, "no server's metrics");
    assert_eq!(run.summary()["telemetry"]["endpoint"], format!("{}/", collector.url()));
}

#[test]
fn a_collector_that_takes_json_gets_it() {
    let taken: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
    let seen = Arc::clone(&taken);
    let address = raw_server::serve(move |_, stream| {
        while let Some(request) = read_request(stream) {
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            assert!(head.contains("content-type: application/json"), "{head}");
            let path = head.split(' ').nth(1).unwrap().to_owned();
            seen.lock().unwrap().push((path, serde_json::from_str(body).unwrap()));
            let answer = r#"{"partialSuccess":{"rejectedSpans":"2","errorMessage":"no"}}"#;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length";
            write(stream, format!("{head}: {}\r\n\r\n{answer}", answer.len()).as_bytes());
        }
    });
    let (server, directory) = (server(), tempfile::tempdir().unwrap());
    let url = format!("http://{address}");
    let mut extra = vec!["--otel-url", &url, "--trace-sample", "all", "--request-count", "3"];
    extra.push("--no-server-metrics");
    let mut command = profile_command(&server.url(), directory.path(), &extra);
    let output = command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json").output().unwrap();
    let run = Run { output, directory }.succeeded();
    let taken = taken.lock().unwrap();
    let of = |path: &str| -> Vec<Value> {
        taken.iter().filter(|(to, _)| to == path).map(|(_, body)| body.clone()).collect()
    };
    assert_eq!(requests(&of("/v1/metrics")), 3);
    let traces = of("/v1/traces");
    assert_eq!(traced(&traces), ids(&run));
    let told = &run.summary()["telemetry"]["traces"];
    assert_eq!(told["rejected"].as_u64(), Some(2 * traces.len() as u64));
}

#[test]
fn a_directory_that_cannot_be_made_ends_the_run_before_it_begins() {
    let (server, place) = (server(), tempfile::tempdir().unwrap());
    let file = place.path().join("file");
    std::fs::write(&file, "").unwrap();
    let inside = file.join("x");
    let extra = ["--otel-file", path(&inside), "--request-count", "1"];
    let run = profile(&server.url(), &extra);
    assert!(!run.output.status.success());
    let said = String::from_utf8_lossy(&run.output.stderr).into_owned();
    assert!(said.contains("--otel-file"), "{said}");
    assert_eq!(server.requests_received(), 0);
}

/// Returns the lines on standard output, all of which must be JSON.
fn printed(run: &Run) -> Vec<Value> {
    let text = String::from_utf8(run.output.stdout.clone()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect()
}

/// Returns the lines of a signal.
fn of_signal(lines: &[Value], list: &str) -> Vec<Value> {
    lines.iter().filter(|line| !line[list].is_null()).cloned().collect()
}

#[test]
fn standard_output_has_the_lines_of_all_signals_and_nothing_else() {
    let server = server();
    let extra = ["--otel-file", "-", "--trace-sample", "all", "--request-count", "6"];
    let run = profile(&server.url(), &extra).succeeded();
    let lines = printed(&run);
    assert_eq!(requests(&of_signal(&lines, "resourceMetrics")), 6);
    assert_eq!(traced(&of_signal(&lines, "resourceSpans")), ids(&run));
    let logs = of_signal(&lines, "resourceLogs");
    assert!(logs.iter().any(|line| line.to_string().contains("aiperf.run.ended")));
    // The results are printed, too.
    let said = String::from_utf8_lossy(&run.output.stderr).into_owned();
    assert!(said.contains("Request latency"), "{said}");
    let telemetry = &run.summary()["telemetry"];
    assert_eq!(
        (&telemetry["endpoint"], &telemetry["delivered_final"]),
        (&"stdout:".into(), &true.into())
    );
}

#[test]
fn the_variable_of_a_signal_selects_standard_output() {
    let (server, collector) = (server(), OtlpReceiver::http());
    let (directory, url) = (tempfile::tempdir().unwrap(), collector.otel_url());
    let extra = ["--trace-sample", "all", "--request-count", "4"];
    let mut command = profile_command(&server.url(), directory.path(), &extra);
    let base = url.trim_end_matches("/v1/metrics");
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", base).env("OTEL_METRICS_EXPORTER", "none");
    command
        .env("OTEL_TRACES_EXPORTER", "otlp,otlp/stdout")
        .env("OTEL_LOGS_EXPORTER", "otlp/stdout");
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    let lines = printed(&run);
    assert_eq!(of_signal(&lines, "resourceMetrics"), Vec::<Value>::new());
    assert_eq!(traced(&of_signal(&lines, "resourceSpans")), ids(&run));
    assert!(!of_signal(&lines, "resourceLogs").is_empty());
    assert!(!collector.traces().is_empty());
    assert_eq!(collector.seen_logs(), 0);
}

#[test]
fn the_configuration_file_names_a_file_for_each_signal() {
    let (server, directory) = (server(), tempfile::tempdir().unwrap());
    let place = tempfile::tempdir().unwrap();
    let of = |name: &str| place.path().join("new").join(name);
    let exporter = |name: &str| {
        format!("{{otlp_file/development: {{output_stream: \"file://{}\"}}}}", of(name).display())
    };
    let text = format!(
        "file_format: \"1.0\"\n\
         meter_provider: {{readers: [{{periodic: {{interval: 500, exporter: {}}}}}]}}\n\
         tracer_provider: {{processors: [{{batch: {{exporter: {}}}}}]}}\n\
         logger_provider: {{processors: [{{simple: {{exporter: {{otlp_file/development: }}}}}}]}}\n",
        exporter("m.jsonl"),
        exporter("t.jsonl"),
    );
    let file = place.path().join("sdk.yaml");
    std::fs::write(&file, text).unwrap();
    let mut command = profile_command(&server.url(), directory.path(), &["--request-count", "4"]);
    let output = command.env("OTEL_CONFIG_FILE", &file).output().unwrap();
    let run = Run { output, directory }.succeeded();
    assert_eq!(requests(&json_lines(&of("m.jsonl"))), 4);
    assert_eq!(traced(&json_lines(&of("t.jsonl"))), ids(&run));
    let lines = printed(&run);
    assert_eq!(of_signal(&lines, "resourceLogs").len(), lines.len());
    assert!(!lines.is_empty());
    let said = String::from_utf8_lossy(&run.output.stderr).into_owned();
    assert!(!said.contains("does not apply"), "{said}");
}
