//! Traces of requests: the collector receives the contents of the records, and the trace context
//! sent to servers is the one exported.

mod expected;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base::units::Nanos;
use mock_server::{MockServer, Script};
use regex_automata::meta::Regex;
use serde_json::Value;

use crate::support::load::{faults, mock};
use crate::support::otlp_receiver::{Answer, OtlpReceiver, attribute};
use crate::support::port::Refusing;
use crate::support::raw_server::{self, accept_tls, read_request, tls_file, write};
use crate::support::run::{Run, profile, profile_command};

use expected::{assert_is, at, hex, nanos, of_run, times, trace_id, traceparent, traces};

fn server(faulty: &[&str]) -> MockServer {
    mock(Script { faults: faults(faulty), ttft: Nanos::from_millis(3.0), ..Script::default() })
}

/// Returns the traces section of the JSON summary.
fn told(run: &Run) -> [u64; 5] {
    let traces = &run.summary()["telemetry"]["traces"];
    ["sampled", "sent", "rejected", "lost", "errors_left_out"]
        .map(|name| traces[name].as_u64().unwrap_or_else(|| panic!("{traces}")))
}

/// Traces every request of a run with failures, and exports to `collector`.
fn traced_run(collector: &OtlpReceiver) {
    let server = server(&["every=5:status=503,busy"]);
    let url = collector.otel_url();
    let mut extra = vec!["--otel-url", &url, "--trace-sample", "all", "--export-http-trace"];
    extra.extend(["--request-rate", "200", "--arrival-pattern", "constant"]);
    extra.extend(["--request-count", "15", "--warmup-request-count", "4"]);
    if !collector.is_grpc() {
        extra.extend(["--header", "X-Team: serving"]);
    }
    let run = profile(&server.url(), &extra).succeeded();
    let records = run.records();
    let traces = traces(collector);
    assert_eq!((records.len(), traces.len()), (19, 19));
    assert!(records.iter().any(|record| !record["error"].is_null()));
    for record in &records {
        assert_is(&traces[&trace_id(record)], record);
        assert!(traceparent(record).ends_with("-01"));
    }
    let of_first = traces[&trace_id(&records[0])].children();
    for name in ["aiperf.http.connect", "aiperf.http.send", "aiperf.http.wait"] {
        assert!(of_first.contains(name), "{of_first:?}");
    }
    assert_eq!(told(&run), [19, 19, 0, 0, 0]);
    assert_eq!(run.summary()["run_info"]["config"]["telemetry"]["trace_sample"]["percent"], 100.0);

    let exports = collector.traces();
    let resource = exports[0].message.resource_spans[0].resource.as_ref().unwrap();
    let id = run.summary()["benchmark_id"].as_str().unwrap().to_owned();
    assert_eq!(attribute(&resource.attributes, "aiperf.benchmark.id"), Some(id));
    assert_eq!(attribute(&resource.attributes, "service.name").as_deref(), Some("aiperf"));
}

#[test]
fn spans_are_what_the_records_say_over_grpc() {
    traced_run(&OtlpReceiver::grpc());
}

#[test]
fn spans_are_what_the_records_say_over_http() {
    traced_run(&OtlpReceiver::http());
}

/// Runs a warmup and a measurement with these variables; returns the collector and the run.
fn with_phases(variables: &[(&str, &str)]) -> (OtlpReceiver, Run) {
    let (server, collector) = (server(&[]), OtlpReceiver::http());
    let url = collector.otel_url();
    let flags = "--trace-sample all --request-count 6 --warmup-request-count 2 --otel-url";
    let flags: Vec<&str> = flags.split(' ').chain([url.as_str()]).collect();
    let directory = tempfile::tempdir().unwrap();
    let mut command = profile_command(&server.url(), directory.path(), &flags);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    (collector, Run { output, directory }.succeeded())
}

#[test]
fn the_run_and_its_phases_are_a_trace_that_requests_have_links_to() {
    let (collector, run) = with_phases(&[]);
    let spans = of_run(&collector);
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["aiperf.run", "aiperf.phase", "aiperf.phase"]);
    let id = run.summary()["benchmark_id"].as_str().unwrap().replace('-', "");
    let (root, phases) = spans.split_first().unwrap();
    assert!(root.parent_span_id.is_empty());
    assert!(attribute(&root.attributes, "aiperf.run.load").is_some_and(|load| !load.is_empty()));
    for (index, (phase, (kind, sent))) in
        phases.iter().zip([("warmup", "2"), ("profiling", "6")]).enumerate()
    {
        assert_eq!((hex(&phase.trace_id), &phase.parent_span_id), (id.clone(), &root.span_id));
        let of = |key: &str| attribute(&phase.attributes, key);
        assert_eq!(of("aiperf.benchmark_phase").as_deref(), Some(kind));
        assert_eq!(of("aiperf.phase.index"), Some(index.to_string()));
        assert_eq!(of("aiperf.phase.requests.sent").as_deref(), Some(sent));
        assert_eq!(of("aiperf.phase.requests.completed").as_deref(), Some(sent));
        assert!(times(root).0 <= times(phase).0 && times(phase).1 <= times(root).1);
    }
    let traces = traces(&collector);
    assert_eq!(traces.len(), 8);
    for trace in traces.values() {
        let [link] = &trace.root().links[..] else { panic!("{:?}", trace.root().links) };
        let phase = phases.iter().find(|phase| phase.span_id == link.span_id).unwrap();
        assert_eq!((&link.trace_id, link.flags), (&phase.trace_id, 0x101));
        let kind = |span| attribute(span, "aiperf.benchmark_phase");
        assert_eq!(kind(&phase.attributes), kind(&trace.root().attributes));
        let (of_phase, of_request) = (times(phase), times(trace.root()));
        assert!(of_phase.0 <= of_request.0 && of_request.1 <= of_phase.1);
    }
    assert_eq!(told(&run), [8, 8, 0, 0, 0]);
}

#[test]
fn the_run_is_below_the_span_that_started_it() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let (collector, _) = with_phases(&[("TRACEPARENT", parent), ("TRACESTATE", "ci=1")]);
    let spans = of_run(&collector);
    assert_eq!(spans.len(), 3);
    assert_eq!(hex(&spans[0].parent_span_id), "b7ad6b7169203331");
    // Sampled, and the parent is known to be remote.
    assert_eq!(spans[0].flags, 0x301);
    for span in &spans {
        assert_eq!(hex(&span.trace_id), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(span.trace_state, "ci=1");
    }
    for trace in traces(&collector).values() {
        assert_eq!(trace.root().links[0].trace_id, spans[0].trace_id);
    }
}

#[test]
fn a_malformed_parent_is_ignored_with_a_warning() {
    let (collector, run) = with_phases(&[("TRACEPARENT", "00-zero-01")]);
    assert!(of_run(&collector)[0].parent_span_id.is_empty());
    let said = String::from_utf8_lossy(&run.output.stderr).into_owned();
    assert!(said.contains("TRACEPARENT"), "{said}");
}

/// The identifying headers of a request.
struct Head {
    id: String,
    parent: Option<String>,
    state: Option<String>,
}

type Heads = Arc<Mutex<Vec<Head>>>;

/// A server that responds to each request with one content event, and records its headers.
fn noting_server() -> (SocketAddr, Heads) {
    let noted = Heads::default();
    let seen = Arc::clone(&noted);
    let address = raw_server::serve(move |_, stream| {
        while let Some(request) = read_request(stream) {
            let header = |name: &str| {
                let line = request.lines().find_map(|line| line.strip_prefix(name));
                line.map(|value| value.trim().to_owned())
            };
            let id = header("x-request-id:").unwrap();
            let (parent, state) = (header("traceparent:"), header("tracestate:"));
            seen.lock().unwrap().push(Head { id, parent, state });
            write(stream, ANSWER);
        }
    });
    (address, noted)
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    content-length: 169\r\n\r\n\
    data: {\"id\":\"cmpl-7\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\
    \"finish_reason\":\"stop\"}]}\n\n\
    data: {\"id\":\"cmpl-7\",\"model\":\"m\",\"choices\":[]}\n\ndata: [DONE]\n\n";

#[test]
fn the_server_is_told_what_is_exported() {
    let collector = OtlpReceiver::grpc();
    let (address, noted) = noting_server();
    let extra = ["--otel-url", &collector.url(), "--trace-sample", "40%", "--request-count", "200"];
    profile(&format!("http://{address}"), &extra).succeeded();
    // The grammar in the specification, as a regular expression.
    let form = Regex::new("^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$").unwrap();
    let traces = traces(&collector);
    let noted = noted.lock().unwrap();
    assert_eq!(noted.len(), 200);
    let mut sampled = BTreeSet::new();
    for Head { id, parent, state } in noted.iter() {
        let traceparent = parent.as_ref().unwrap();
        assert!(form.is_match(traceparent), "{traceparent}");
        assert_eq!(traceparent[3..35], id.replace('-', ""));
        if traceparent.ends_with("-01") {
            sampled.insert(traceparent[3..35].to_owned());
            let root = traces[&traceparent[3..35]].root();
            assert_eq!(traceparent[36..52], hex(&root.span_id));
            // 1 - 0.4 = 0.6, whose 53 digits in the format double are 0x13333333333333.
            assert_eq!(state.as_deref(), Some("ot=th:99999999999998"));
            assert_eq!(Some(&root.trace_state), state.as_ref());
            assert_eq!(
                attribute(&root.attributes, "gen_ai.response.id").as_deref(),
                Some("cmpl-7")
            );
            assert_eq!(attribute(&root.attributes, "gen_ai.response.model").as_deref(), Some("m"));
        } else {
            assert_eq!(*state, None);
        }
    }
    assert_eq!(sampled, traces.keys().cloned().collect());
    // With 200 requests, all or none would be wrong beyond doubt.
    assert!(!sampled.is_empty() && sampled.len() < 200);
}

#[test]
fn trace_ids_may_be_marked_as_random_and_the_users_tracestate_is_kept() {
    let collector = OtlpReceiver::grpc();
    let (address, noted) = noting_server();
    let url = collector.url();
    let mut extra = vec!["--otel-url", &url, "--trace-sample", "all"];
    extra.extend(["--trace-random-flag", "--header", "tracestate: a=b", "--request-count", "3"]);
    profile(&format!("http://{address}"), &extra).succeeded();
    for Head { parent, state, .. } in noted.lock().unwrap().iter() {
        assert!(parent.as_ref().unwrap().ends_with("-03"), "{parent:?}");
        assert_eq!(state.as_deref(), Some("a=b"));
    }
    for trace in traces(&collector).values() {
        assert_eq!(trace.root().flags & 0xff, 3);
    }
}

#[test]
fn without_the_flag_no_request_bears_a_trace_context() {
    let collector = OtlpReceiver::grpc();
    let (address, noted) = noting_server();
    let extra = ["--otel-url", &collector.url(), "--request-count", "3", "--no-server-metrics"];
    let run = profile(&format!("http://{address}"), &extra).succeeded();
    assert_eq!(noted.lock().unwrap().len(), 3);
    assert!(noted.lock().unwrap().iter().all(|head| head.parent.is_none()));
    assert!(collector.traces().is_empty());
    assert!(run.summary()["telemetry"].get("traces").is_none());
}

#[test]
fn the_slowest_are_those_of_the_files_and_failures_are_told() {
    let collector = OtlpReceiver::grpc();
    let server = server(&["every=6:status=500,broken"]);
    let sample = ["--trace-sample", "slowest:5,errors", "--export-http-trace"];
    let load = ["--request-count", "30", "--warmup-request-count", "12", "--concurrency", "4"];
    let url = collector.url();
    let run = profile(&server.url(), &[&["--otel-url", &url], &sample[..], &load].concat());
    let run = run.succeeded();
    let records = run.records();
    let traces = traces(&collector);
    let (failed, fine): (Vec<&Value>, Vec<&Value>) =
        records.iter().partition(|record| !record["error"].is_null());
    let mut measured: Vec<_> = fine
        .into_iter()
        .filter(|record| record["metadata"]["benchmark_phase"] == "profiling")
        .collect();
    measured.sort_by_key(|record| std::cmp::Reverse(nanos(record, "request_latency").unwrap()));
    assert_eq!(failed.len(), 7);
    let expected: BTreeSet<_> =
        failed.iter().chain(&measured[..5]).map(|record| trace_id(record)).collect();
    assert_eq!(traces.keys().cloned().collect::<BTreeSet<_>>(), expected);
    for record in failed.iter().chain(&measured[..5]) {
        assert!(traceparent(record).ends_with("-00"), "nothing was decided when it was sent");
        assert_is(&traces[&trace_id(record)], record);
    }
    assert_eq!(told(&run), [12, 12, 0, 0, 0]);
}

#[test]
fn a_handshake_is_part_of_its_connection() {
    let collector = OtlpReceiver::grpc();
    let address = raw_server::serve(|_, stream| {
        let Ok(mut stream) = accept_tls(stream, false) else { return };
        while read_request(&mut stream).is_some() {
            write(&mut stream, ANSWER);
        }
    });
    let url = format!("https://localhost:{}", address.port());
    let authority = tls_file("ca.pem");
    let mut extra =
        vec!["--ssl-ca-cert", &authority, "--request-count", "2", "--no-server-metrics"];
    let collector_url = collector.url();
    extra.extend(["--otel-url", &collector_url, "--trace-sample", "all", "--export-http-trace"]);
    let run = profile(&url, &extra).succeeded();
    let mut records = run.records();
    records.sort_by_key(|record| record["metadata"]["request_start_ns"].as_u64());
    let traces = traces(&collector);
    for record in &records {
        assert_is(&traces[&trace_id(record)], record);
    }
    let reused = |record| {
        let root = traces[&trace_id(record)].root();
        attribute(&root.attributes, "aiperf.connection.reused")
    };
    assert_eq!(reused(&records[0]).as_deref(), Some("false"));
    assert_eq!(reused(&records[1]).as_deref(), Some("true"));
    assert!(traces[&trace_id(&records[0])].find("aiperf.http.tls").is_some());
    assert!(traces[&trace_id(&records[1])].find("aiperf.http.tls").is_none());
}

#[test]
fn a_repeated_request_keeps_its_trace() {
    let collector = OtlpReceiver::grpc();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    // The first connection is closed on its second request.
    let address = raw_server::serve(move |number, stream| {
        for answered in 0.. {
            let Some(request) = read_request(stream) else { return };
            let line = request.lines().find_map(|line| line.strip_prefix("traceparent: "));
            seen.lock().unwrap().push(line.unwrap().to_owned());
            if number == 0 && answered == 1 {
                return;
            }
            write(stream, ANSWER);
        }
    });
    let collector_url = collector.url();
    let mut extra = vec!["--request-count", "2", "--concurrency", "1", "--export-http-trace"];
    extra.push("--no-server-metrics");
    extra.extend(["--otel-url", &collector_url, "--trace-sample", "100%"]);
    let run = profile(&format!("http://{address}"), &extra).succeeded();
    let heads = heads.lock().unwrap();
    assert_eq!(heads.len(), 3);
    assert_eq!(heads[1], heads[2]);
    let records = run.records();
    assert_eq!(records[1]["metadata"]["retry_count"], 1);
    assert_is(&traces(&collector)[&trace_id(&records[1])], &records[1]);
}

#[test]
fn a_request_that_times_out_ends_in_the_phase_it_was_in() {
    let collector = OtlpReceiver::grpc();
    let address = raw_server::serve(|_, stream| {
        let _ = read_request(stream);
        // Until the client closes the connection.
        let _ = read_request(stream);
    });
    let collector_url = collector.url();
    let mut extra = vec!["--request-count", "1", "--request-timeout-seconds", "0.2"];
    extra.extend(["--otel-url", &collector_url, "--trace-sample", "errors"]);
    extra.extend(["--export-http-trace", "--no-server-metrics"]);
    let run = profile(&format!("http://{address}"), &extra);
    let [record] = &run.records()[..] else { panic!("{}", run.stderr()) };
    let traces = traces(&collector);
    let trace = &traces[&trace_id(record)];
    assert_is(trace, record);
    let wait = trace.find("aiperf.http.wait").unwrap();
    assert_eq!(Some(wait.end_time_unix_nano), at(record, "error_timestamp_ns"));
    assert_eq!(attribute(&trace.root().attributes, "error.type").as_deref(), Some("timeout"));
}

#[test]
fn a_dead_collector_costs_the_traces_alone() {
    let server = server(&[]);
    let closed = Refusing::new();
    let extra = ["--otel-url", &*closed.url(), "--trace-sample", "all", "--request-count", "10"];
    let run = profile(&server.url(), &extra).succeeded();
    assert_eq!(run.records().len(), 10);
    assert_eq!(told(&run), [10, 0, 0, 10, 0]);
}

#[test]
fn what_the_collector_rejects_is_counted() {
    let server = server(&[]);
    for collector in [OtlpReceiver::grpc(), OtlpReceiver::http()] {
        let collector = collector.always(Answer::Reject(3));
        let url = collector.otel_url();
        let extra = ["--otel-url", &url, "--trace-sample", "all", "--request-count", "4"];
        let run = profile(&server.url(), &extra).succeeded();
        let requests = collector.traces().len() as u64;
        assert_eq!(told(&run), [4, 4, 3 * requests, 0, 0]);
        assert!(run.stdout().contains("! traces-incomplete: "), "{}", run.stdout());
    }
}

#[test]
fn traces_go_where_their_own_variables_say() {
    let server = server(&[]);
    let (metrics, traces_of) = (OtlpReceiver::grpc(), OtlpReceiver::http());
    let directory = tempfile::tempdir().unwrap();
    let extra = ["--trace-sample", "all", "--request-count", "3"];
    let mut command = crate::support::run::profile_command(&server.url(), directory.path(), &extra);
    command
        .env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", metrics.url())
        .env("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc")
        .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("{}/v1/traces", traces_of.url()))
        .env("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-key=abc")
        .env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip");
    let output = command.output().unwrap();
    Run { output, directory }.succeeded();
    assert!(metrics.traces().is_empty() && traces_of.taken().is_empty());
    assert_eq!(traces(&traces_of).len(), 3);
    let headers = &traces_of.traces()[0].headers;
    for (name, value) in [("x-key", "abc"), ("content-encoding", "gzip")] {
        assert!(headers.contains(&(name.to_owned(), value.to_owned())), "{headers:?}");
    }
    metrics.last();
}

/// A server with its own trace, and one that returns the context of another.
#[test]
fn what_a_server_answers_with_changes_no_trace() {
    let collector = OtlpReceiver::grpc();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let foreign = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let answer = String::from_utf8_lossy(ANSWER).replacen(
        "\r\n",
        &format!(
            "\r\ntraceparent: {foreign}\r\ntraceparent: nonsense\r\ntracestate: a=1,b=2\r\n\
             traceresponse: {foreign}\r\n"
        ),
        1,
    );
    let address = raw_server::serve(move |_, stream| {
        while let Some(request) = read_request(stream) {
            seen.lock().unwrap().push(request);
            write(stream, answer.as_bytes());
        }
    });
    let url = collector.url();
    let mut extra = vec!["--otel-url", &url, "--trace-sample", "all", "--export-http-trace"];
    extra.extend(["--request-count", "3", "--no-server-metrics"]);
    extra.extend(["--header", "tracestate: vendor=x"]);
    let run = profile(&format!("http://{address}"), &extra).succeeded();
    let traces = traces(&collector);
    let records = run.records();
    assert_eq!((records.len(), traces.len()), (3, 3));
    for record in &records {
        assert_is(&traces[&trace_id(record)], record);
    }
    for request in heads.lock().unwrap().iter() {
        let of = |name: &str| -> Vec<&str> {
            request.lines().filter_map(|line| line.strip_prefix(name)).collect()
        };
        assert_eq!(of("traceparent: ").len(), 1, "{request}");
        // The user's header, and none of the server's.
        assert_eq!(of("tracestate: "), ["vendor=x"]);
        assert!(!request.contains(&foreign[3..35]));
    }
}

/// Without the flag, aiperf does not create traces: the user's context is sent.
#[test]
fn a_trace_of_the_users_own_is_sent_where_none_is_made() {
    let (address, noted) = noting_server();
    let own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let header = format!("traceparent: {own}");
    let extra = ["--request-count", "2", "--no-server-metrics", "--header", &header];
    profile(&format!("http://{address}"), &extra).succeeded();
    let noted = noted.lock().unwrap();
    assert_eq!(noted.len(), 2);
    assert!(noted.iter().all(|head| head.parent.as_deref() == Some(own)));
}

/// Exports over HTTP use the proxy of the environment; exports over gRPC do not.
#[test]
fn proxies_are_for_http() {
    let server = server(&[]);
    let proxy = OtlpReceiver::http();
    let grpc = OtlpReceiver::grpc();
    let flags = ["--trace-sample", "all", "--request-count", "2", "--no-server-metrics"];
    for (url, no_proxy, takes) in [
        ("http://collector.invalid:4318".to_owned(), "", &proxy),
        (format!("http://{}/v1/metrics", proxy.address()), "127.0.0.1", &proxy),
        (grpc.url(), "", &grpc),
    ] {
        let before = takes.traces().len();
        let directory = tempfile::tempdir().unwrap();
        let extra = [&["--otel-url", &url], &flags[..]].concat();
        let mut command =
            crate::support::run::profile_command(&server.url(), directory.path(), &extra);
        command.env("HTTP_PROXY", proxy.url()).env("http_proxy", proxy.url());
        command.env("NO_PROXY", no_proxy).env("no_proxy", no_proxy);
        let run = Run { output: command.output().unwrap(), directory }.succeeded();
        assert_eq!(told(&run), [2, 2, 0, 0, 0], "{url}");
        assert!(takes.traces().len() > before, "{url}");
    }
}

/// Before the wait for the server.
#[test]
fn what_the_variables_say_wrongly_is_wrong_usage() {
    let directory = tempfile::tempdir().unwrap();
    let run = |flags: &[&str], variables: &[(&str, &str)]| {
        let flags = [flags, &["--wait-for-model-timeout", "600"]].concat();
        let url = "http://127.0.0.1:1";
        let mut command = crate::support::run::profile_command(url, directory.path(), &flags);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/v1/metrics");
    assert!(run(&[], &[base]).contains("set it to http://c:4318"));
    let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    assert!(run(&["--otel-url", "c:1/otlp"], &[grpc]).contains("write http://c:1 as --otel-url"));
    let secret = run(&["--otel-url", "http://me:s3cret@c:4317"], &[]);
    assert!(secret.contains("OTEL_EXPORTER_OTLP_HEADERS") && !secret.contains("s3cret"));
    let off = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"), ("OTEL_SDK_DISABLED", "true")];
    assert!(run(&["--trace-sample", "all"], &off).contains("OTEL_SDK_DISABLED"));
}

#[test]
fn what_cannot_be_sampled_is_refused() {
    let table: [(&[&str], &str); 4] = [
        (&["--trace-sample", "5%"], "--otel-url"),
        (&["--trace-sample", "5", "--otel-url", "c:1"], "slowest:20"),
        (&["--trace-sample", "0%", "--otel-url", "c:1"], "above 0"),
        (
            &["--trace-sample", "all", "--otel-url", "c:1", "--header", "Traceparent: x"],
            "remove one of the two",
        ),
    ];
    for (flags, why) in table {
        let run = profile("http://127.0.0.1:1", flags);
        assert_eq!(run.exit_code(), Some(2), "{}", run.stderr());
        assert!(run.stderr().contains(why), "{}", run.stderr());
    }
}
