//! Spans of servers: received over each protocol while a run goes on, joined with its requests, and
//! passed on to the collector.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use base::units::{Clock, Nanos};
use flate2::Compression;
use flate2::write::GzEncoder;
use mock_server::{Script, SpanExport, Timing, TimingForm};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use rustix::process::Signal;
use tonic::codec::CompressionEncoding;

use crate::support::load::mock;
use crate::support::otlp_receiver::{OtlpReceiver, attribute};
use crate::support::port::free_port;
use crate::support::raw_server::{self, read_as_sent, read_request};
use crate::support::run::{Run, aiperf, profile, signal, summary};

/// How a server sends its spans.
#[derive(Clone, Copy)]
enum Protocol {
    Grpc {
        gzip: bool,
    },
    Http {
        gzip: bool,
    },
    Json,
    /// Not at all.
    None,
}

const ANSWER: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"an\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" answer\"},",
    "\"finish_reason\":\"stop\"}]}\n\n",
    "data: [DONE]\n\n",
);

/// Times in the spans, in seconds.
const TIMES: &[(&str, f64)] = &[
    ("time_in_queue", 0.0001),
    ("time_in_model_prefill", 0.0002),
    ("time_in_model_decode", 0.00005),
    ("time_to_first_token", 0.0004),
    ("e2e", 0.0005),
];

/// Starts a server that streams chats, and sends two spans of each that is sampled to the receiver:
/// one below the client's, and one below that.
fn server(receiver: u16, protocol: Protocol) -> String {
    let address = raw_server::serve(move |_, stream| {
        while let Some(request) = read_request(stream) {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
                ANSWER.len()
            );
            raw_server::write(stream, format!("{head}{ANSWER}").as_bytes());
            let context = request.split("traceparent: 00-").nth(1);
            let context = context.and_then(|rest| rest.split("\r\n").next());
            let context = context.and_then(|text| text.strip_suffix("-01"));
            if let Some((trace, parent)) = context.and_then(|text| text.split_once('-')) {
                send(receiver, protocol, trace, parent);
            }
        }
    });
    format!("http://{address}")
}

fn send(port: u16, protocol: Protocol, trace: &str, parent: &str) {
    let now = Clock::start().wall_ns(Clock::now());
    // As vLLM reports them, in seconds.
    let attributes = |name: &str| {
        let times: &[(&str, f64)] = if name == "llm_request" { TIMES } else { &[] };
        let attribute = |(name, seconds): &(&str, f64)| KeyValue {
            key: format!("gen_ai.latency.{name}"),
            value: Some(AnyValue { value: Some(Value::DoubleValue(*seconds)) }),
            ..KeyValue::default()
        };
        times.iter().map(attribute).collect()
    };
    let span = |id: u64, parent: &[u8], name: &str| Span {
        attributes: attributes(name),
        trace_id: bytes(trace),
        span_id: id.to_be_bytes().to_vec(),
        parent_span_id: parent.to_vec(),
        name: name.to_owned(),
        kind: 2,
        start_time_unix_nano: now - 2_000_000_000,
        end_time_unix_nano: now - 1_000_000_000,
        ..Span::default()
    };
    let spans =
        vec![span(1, &bytes(parent), "llm_request"), span(2, &1_u64.to_be_bytes(), "prefill")];
    let value = Some(AnyValue { value: Some(Value::StringValue("engine".to_owned())) });
    let service = KeyValue { key: "service.name".to_owned(), value, ..KeyValue::default() };
    let resource = Resource { attributes: vec![service], ..Resource::default() };
    let scope = InstrumentationScope { name: "vllm.llm_engine".to_owned(), ..Default::default() };
    let scope_spans = ScopeSpans { scope: Some(scope), spans, schema_url: String::new() };
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans: vec![scope_spans],
            schema_url: String::new(),
        }],
    };
    match protocol {
        Protocol::Grpc { gzip } => send_by_grpc(port, request, gzip),
        Protocol::Http { gzip: false } => {
            post(port, "content-type: application/x-protobuf", &request.encode_to_vec());
        }
        Protocol::Http { gzip: true } => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&request.encode_to_vec()).unwrap();
            let head = "content-type: application/x-protobuf\r\ncontent-encoding: gzip";
            post(port, head, &encoder.finish().unwrap());
        }
        Protocol::Json => {
            let times = TIMES.iter().map(|(name, seconds)| {
                serde_json::json!({
                    "key": format!("gen_ai.latency.{name}"),
                    "value": { "doubleValue": seconds },
                })
            });
            let times: Vec<_> = times.collect();
            let span = |id: &str, parent: &str, name: &str| {
                let times = if name == "llm_request" { &*times } else { &[] };
                serde_json::json!({
                    "attributes": times,
                    "traceId": trace, "spanId": id, "parentSpanId": parent, "name": name,
                    "startTimeUnixNano": (now - 2_000_000_000).to_string(),
                    "endTimeUnixNano": (now - 1_000_000_000).to_string(),
                })
            };
            let (one, two) = ("0000000000000001", "0000000000000002");
            let service = serde_json::json!(
                {"key": "service.name", "value": {"stringValue": "engine"}}
            );
            let request = serde_json::json!({ "resourceSpans": [{
                "resource": { "attributes": [service] },
                "scopeSpans": [{ "scope": { "name": "vllm.llm_engine" }, "spans": [
                    span(one, parent, "llm_request"), span(two, one, "prefill"),
                ] }],
            }] });
            post(port, "content-type: application/json", request.to_string().as_bytes());
        }
        Protocol::None => {}
    }
}

/// Sends a request with the client that exporters of OpenTelemetry's SDK for Rust use.
fn send_by_grpc(port: u16, request: ExportTraceServiceRequest, gzip: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(async {
        let url = format!("http://127.0.0.1:{port}");
        let mut client = TraceServiceClient::connect(url).await.unwrap();
        if gzip {
            client = client.send_compressed(CompressionEncoding::Gzip);
        }
        client.export(request).await.unwrap().into_inner()
    });
    assert_eq!(answer.partial_success, None);
}

fn post(port: u16, head: &str, body: &[u8]) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nhost: localhost\r\n{head}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let answer = read_as_sent(&mut stream).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

fn bytes(digits: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn run(port: u16, protocol: Protocol, extra: &[&str]) -> Run {
    let port_flag = port.to_string();
    let mut flags = vec!["--otel-receiver", &port_flag, "--otel-receiver-wait", "2s"];
    flags.extend(["--request-count", "8", "--concurrency", "2", "--no-server-metrics"]);
    flags.extend(extra);
    profile(&server(port, protocol), &flags).succeeded()
}

fn joined(protocol: Protocol) {
    let port = free_port();
    let run = run(port, protocol, &[]);
    let receiver = run.summary()["telemetry"]["receiver"].clone();
    assert_eq!(receiver["address"], format!("127.0.0.1:{port}"));
    for (name, expected) in [
        ("sampled_requests", 8),
        ("joined_requests", 8),
        ("unjoined_requests", 0),
        ("released_early", 0),
        ("spans_received", 16),
        ("spans_joined", 16),
        ("spans_foreign", 0),
        ("spans_malformed", 0),
    ] {
        assert_eq!(receiver[name], expected, "{name}: {receiver}");
    }
    // The spans ended a second before they were sent.
    let delay = receiver["longest_delay_seconds"].as_f64().unwrap();
    assert!((1.0..10.0).contains(&delay), "{delay}");
    let file = run.text("profile_export_console.txt");
    assert!(file.contains("8 of 8 requests joined"), "{file}");
    assert!(!run.stdout().contains("server-spans-missing"), "{}", run.stdout());
    let records = run.records();
    assert_eq!(records.len(), 8);
    for record in records {
        // In milliseconds. The front end is 0.4 less 0.1 and 0.2.
        for (name, expected) in [
            ("server_front_end_time", 0.1),
            ("server_queue_time", 0.1),
            ("server_prefill_time", 0.2),
            ("server_decode_time", 0.05),
            ("server_time_to_first_token", 0.4),
            ("server_latency", 0.5),
        ] {
            let value = record["metrics"][name]["value"].as_f64();
            let value = value.unwrap_or_else(|| panic!("{name}: {record}"));
            assert!((value - expected).abs() < 1e-6, "{name}: {value}");
        }
    }
}

#[test]
fn spans_over_grpc_are_joined() {
    joined(Protocol::Grpc { gzip: false });
}

#[test]
fn spans_over_compressed_grpc_are_joined() {
    joined(Protocol::Grpc { gzip: true });
}

#[test]
fn spans_over_http_are_joined() {
    joined(Protocol::Http { gzip: false });
}

#[test]
fn spans_over_compressed_http_are_joined() {
    joined(Protocol::Http { gzip: true });
}

#[test]
fn spans_in_json_are_joined() {
    joined(Protocol::Json);
}

#[test]
fn joined_spans_are_passed_on_with_their_resource() {
    let collector = OtlpReceiver::http();
    let run =
        run(free_port(), Protocol::Grpc { gzip: false }, &["--otel-url", &collector.otel_url()]);
    let told = &run.summary()["telemetry"]["server_spans"];
    assert_eq!((&told["requests"], &told["sent"]), (&8.into(), &8.into()), "{told}");
    let mut spans = 0;
    for export in collector.traces() {
        for of_resource in &export.message.resource_spans {
            let resource = of_resource.resource.as_ref().unwrap();
            let service = attribute(&resource.attributes, "service.name");
            assert_eq!(service.as_deref(), Some("engine"));
            for scope in &of_resource.scope_spans {
                assert_eq!(scope.scope.as_ref().unwrap().name, "vllm.llm_engine");
                spans += scope.spans.len();
            }
        }
    }
    assert_eq!(spans, 16);
    // The requests themselves are not exported without --trace-sample.
    assert!(run.summary()["telemetry"]["traces"].is_null());
}

#[test]
fn missing_spans_are_a_warning_and_the_report_says_the_same() {
    let run = run(free_port(), Protocol::None, &[]);
    let receiver = &run.summary()["telemetry"]["receiver"];
    assert_eq!(
        (&receiver["sampled_requests"], &receiver["unjoined_requests"]),
        (&8.into(), &8.into())
    );
    let words = |text: &str| {
        let words = text.split_whitespace().filter(|word| *word != "│");
        words.collect::<Vec<_>>().join(" ")
    };
    let fact = "No spans of the servers arrived for 8 of 8 requests (100.0%).";
    assert!(words(&run.stdout()).contains(fact), "{}", run.stdout());
    let report = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
    assert!(words(&String::from_utf8_lossy(&report.stdout)).contains(fact));
}

/// Without a value, the address is a free port of this machine, which is printed. A signal ends the
/// wait for spans.
#[test]
fn a_signal_ends_the_wait() {
    let directory = tempfile::tempdir().unwrap();
    let url = server(0, Protocol::None);
    let mut command = aiperf(&["profile", "--model", "mock-model", "--url", &url, "--streaming"]);
    command.args(["--request-count", "3", "--isl", "20", "--ui", "simple", "--no-server-metrics"]);
    command.args(["--otel-receiver-wait", "10m", "--otel-receiver", "--artifact-dir"]);
    let mut child = command.arg(directory.path()).spawn().unwrap();
    let mut address = None;
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(rest) = line.strip_prefix("receiving the servers' spans at ") {
            address = rest.split(' ').next().map(|text| text.parse::<SocketAddr>().unwrap());
        }
        if line.starts_with("waiting at most 600 s for the servers' spans of") {
            signal(&child, Signal::INT);
        }
    }
    assert!(child.wait().unwrap().success());
    let address = address.unwrap();
    assert!(address.ip().is_loopback() && address.port() > 0, "{address}");
    let receiver = &summary(directory.path())["telemetry"]["receiver"];
    assert_eq!(receiver["address"], address.to_string());
    assert_eq!(
        (&receiver["unjoined_requests"], &receiver["released_early"]),
        (&3.into(), &3.into())
    );
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (flags, why) in [
        (&["--otel-receiver", "here"][..], "expected a port, or a host and a port"),
        (&["--otel-receiver-wait", "5s"], "--otel-receiver"),
        (
            &["--otel-receiver", "1234", "--otel-url", "c:1", "--trace-sample", "errors"],
            "sampled in advance",
        ),
        (&["--otel-receiver", "1234", "--header", "traceparent: x"], "--otel-receiver"),
        (&["--otel-receiver", "--num-profile-runs", "2"], "needs a port"),
        (&["--otel-receiver", &taken], "cannot listen on"),
    ] {
        let run = profile("http://127.0.0.1:1", flags);
        assert_ne!(run.exit_code(), Some(0), "{flags:?}");
        assert!(run.stderr().contains(why), "{flags:?}: {}", run.stderr());
    }
}

/// Runs 6 requests against the mock server, with a queue of 80 ms, a prefill of 30 ms, a transfer of
/// 15 ms and a decode of 15 ms, and spans that come 0.3 s late.
fn run_with_mock(form: TimingForm, is_only: bool, faults: &[&str]) -> Run {
    let (port, millis) = (free_port(), Nanos::from_millis);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let spans = Some(SpanExport { address, delay: millis(300.0), is_only });
    let timing =
        Timing { queue: millis(80.0), kv_transfer: millis(15.0), spans, ..Timing::for_form(form) };
    let server = mock(Script {
        ttft: millis(125.0),
        itl: millis(5.0),
        timing: Some(timing),
        faults: faults.iter().map(|rule| rule.parse().unwrap()).collect(),
        ..Script::default()
    });
    let port = port.to_string();
    let flags = ["--otel-receiver", &port, "--otel-receiver-wait", "3s", "--request-count", "6"];
    let flags = [&flags[..], &["--concurrency", "3", "--no-server-metrics"]].concat();
    let run = profile(&server.url(), &flags).succeeded();
    let receiver = &run.summary()["telemetry"]["receiver"];
    assert_eq!(receiver["joined_requests"], 6, "{form:?}: {receiver}");
    // That of the server's start.
    assert_eq!(receiver["spans_foreign"], 1, "{form:?}: {receiver}");
    run
}

/// Stages without `server_`, in milliseconds.
type Stages = &'static [(&'static str, f64)];

#[test]
fn stages_injected_into_spans_are_found() {
    let cases: [(TimingForm, bool, Stages); 4] = [
        // vLLM's queue contains the transfer.
        (
            TimingForm::Vllm,
            true,
            &[("queue_time", 95.0), ("prefill_time", 30.0), ("decode_time", 15.0)],
        ),
        (
            TimingForm::Dynamo,
            true,
            &[("front_end_time", 0.0), ("queue_and_prefill_time", 110.0), ("decode_time", 30.0)],
        ),
        (
            TimingForm::DynamoSeparate,
            true,
            &[("front_end_time", 0.0), ("time_to_first_token", 125.0), ("decode_time", 15.0)],
        ),
        // The response has the transfer together with decode, and the span divides them.
        (
            TimingForm::DynamoBootstrap,
            false,
            &[
                ("front_end_time", 0.0),
                ("queue_and_prefill_time", 110.0),
                ("kv_transfer_time", 15.0),
                ("decode_time", 15.0),
            ],
        ),
    ];
    for (form, is_only, expected) in cases {
        let run = run_with_mock(form, is_only, &[]);
        let summary = run.summary();
        let delay = summary["telemetry"]["receiver"]["longest_delay_seconds"].as_f64().unwrap();
        assert!(delay > 0.2, "{form:?}: {delay}");
        for (name, expected) in expected {
            let metric = &summary[format!("server_{name}")];
            for statistic in ["p50", "p99"] {
                let found = metric[statistic].as_f64();
                let found = found.unwrap_or_else(|| panic!("{form:?} {name}"));
                assert!((found - expected).abs() < 1e-3, "{form:?} {statistic} of {name}: {found}");
            }
        }
        for record in run.records() {
            assert_eq!(record["metadata"]["server_timing_source"], "spans", "{form:?}");
            let rest = record["metrics"]["server_unattributed_time"]["value"].as_f64().unwrap();
            let sending = record["metrics"]["http_req_sending"]["value"].as_f64().unwrap();
            assert!(rest + sending > -1.0, "{form:?}: {record}");
        }
    }
}

/// A server that ignores `traceparent` is found by the ID of its response, whose times may be wrong.
#[test]
fn spans_of_another_trace_are_joined_and_lies_are_seen() {
    let run = run_with_mock(TimingForm::Vllm, true, &["requests=2:lie=3", "all:new-trace"]);
    let rests = run
        .records()
        .into_iter()
        .map(|record| record["metrics"]["server_unattributed_time"]["value"].as_f64().unwrap());
    let (lies, others): (Vec<f64>, Vec<f64>) = rests.partition(|rest| *rest < -10.0);
    // 140 less 3 times 140.
    assert!(lies.len() == 1 && (-285.0..-200.0).contains(&lies[0]), "{lies:?}");
    assert_eq!(others.len(), 5, "{others:?}");
}
