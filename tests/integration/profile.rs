//! Whole runs of the program against the mock server, and the files that they write.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use base::units::Nanos;
use mock_server::{MockServer, Script};
use parquet::file::reader::{FileReader, SerializedFileReader};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::load::{faults, faulty, mock};
use crate::support::otlp_receiver::{Answer, OtlpReceiver};
use crate::support::port::Refusing;
use crate::support::python::run_python;
use crate::support::raw_server;
use crate::support::run::{Run, aiperf, profile, profile_command, signal, summary, with_signal};

const SUMMARIES: [&str; 3] =
    ["profile_export_aiperf.json", "profile_export_aiperf.csv", "profile_export_console.txt"];

#[test]
fn the_demo_prints_tables_and_writes_files() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = aiperf(&["demo", "--request-count", "10", "--ttft", "2ms", "--itl", "1ms"]);
    let output = command.arg("--artifact-dir").arg(directory.path()).output().unwrap();
    let run = Run { output, directory }.succeeded();
    for shown in [
        "mock-model\n",
        "Time to first token (ms) ",
        "10 of 10 requests succeeded",
        "Files in ",
        "Measure your server",
    ] {
        assert!(run.stdout().contains(shown), "{shown}: {}", run.stdout());
    }
    for name in
        SUMMARIES.iter().chain(&["inputs.json", "profile_export.parquet", "logs/aiperf.log"])
    {
        assert!(run.path(name).is_file(), "{name}");
    }
    assert_eq!(run.records().len(), 10);
}

#[test]
fn a_run_says_the_same_as_its_records() {
    let server = mock(Script { ttft: Nanos::from_millis(3.0), ..Script::default() });
    let run = profile(&server.url(), &["--concurrency", "4", "--request-count", "20"]).succeeded();
    let summary = run.summary();
    assert_eq!(summary["request_count"]["avg"], 20.0);
    assert_eq!(summary["total_isl"]["avg"], 400.0);
    assert_eq!(summary["total_osl"]["avg"], 80.0);
    assert_eq!(summary["usage_discrepancy_count"]["avg"], 0.0);
    assert_eq!(summary["load"]["reached_concurrency"], 4);
    assert_eq!(summary["was_cancelled"], false);
    let mut latencies: Vec<f64> = run
        .records()
        .iter()
        .map(|record| record["metrics"]["request_latency"]["value"].as_f64().unwrap())
        .collect();
    latencies.sort_by(f64::total_cmp);
    let latency = &summary["request_latency"];
    assert_eq!(latency["unit"], "ms");
    assert_eq!(latency["count"], 20);
    assert_eq!(
        (latency["min"].as_f64(), latency["max"].as_f64()),
        (Some(latencies[0]), Some(latencies[19]))
    );
    // Linear interpolation between order statistics 9 and 10 of 20.
    let median = f64::midpoint(latencies[9], latencies[10]);
    assert!((latency["p50"].as_f64().unwrap() - median).abs() < 1e-9 * median);
    // Client and server count the same tokens.
    assert_eq!(server.requests_served(), 20);
    run_python("tests/check_profile_export.py", run.directory.path());
}

#[test]
fn warmup_requests_are_records_but_not_results() {
    let server = mock(Script::default());
    let run = profile(&server.url(), &["--request-count", "5", "--warmup-request-count", "3"])
        .succeeded();
    let phases: Vec<Value> =
        run.records().iter().map(|record| record["metadata"]["benchmark_phase"].clone()).collect();
    assert_eq!(phases.iter().filter(|phase| *phase == "warmup").count(), 3);
    let summary = run.summary();
    assert_eq!(summary["request_count"]["avg"], 5.0);
    assert_eq!(summary["warmup_metrics"]["request_count"]["avg"], 3.0);
}

#[test]
fn a_run_without_warmup_says_nothing_of_one() {
    let server = mock(Script::default());
    // With objectives, there is a metric that is 0 even if nothing was sent.
    let goodput = ["--request-count", "2", "--goodput", "request_latency:60000"];
    let run = profile(&server.url(), &goodput).succeeded();
    assert!(run.summary().get("warmup_metrics").is_none());
    let line = run.summary()["run_info"]["cli_command"].as_str().unwrap().to_owned();
    assert!(line.starts_with("aiperf profile "), "{line}");
}

/// A server that rejects every request, after passing it on to the test.
fn refusing(body: &'static str) -> (String, mpsc::Receiver<String>) {
    let (asked, requests) = mpsc::channel();
    let address = raw_server::serve(move |_, stream| {
        while let Some(request) = raw_server::read_request(stream) {
            let _ = asked.send(request);
            let length = body.len();
            let head = format!("HTTP/1.1 400 Bad Request\r\nContent-Length: {length}\r\n\r\n");
            raw_server::write(stream, format!("{head}{body}").as_bytes());
        }
    });
    (format!("http://{address}"), requests)
}

#[test]
fn the_wait_for_a_model_ends_with_the_servers_words() {
    let (url, _requests) = refusing(r#"{"message":"max_tokens is required"}"#);
    let wait = ["--wait-for-model-timeout", "0.2", "--wait-for-model-interval", "0.1"];
    let run = profile(&url, &wait);
    assert_eq!(run.exit_code(), Some(1));
    let stderr = run.stderr();
    assert!(stderr.contains("400 Bad Request") && stderr.contains("max_tokens is required"));
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_wait_for_a_model() {
    let (url, requests) = refusing("not yet");
    let directory = tempfile::tempdir().unwrap();
    let wait = ["--wait-for-model-timeout", "3600", "--wait-for-model-interval", "3600"];
    let child = profile_command(&url, directory.path(), &wait).spawn().unwrap();
    requests.recv().unwrap();
    signal(&child, Signal::INT);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    // The wait is not part of the load: no other request was sent.
    assert_eq!(requests.try_iter().count(), 0);
}

#[test]
fn other_endpoints_and_unstreamed_requests_are_measured() {
    let server = mock(Script::default());
    for (endpoint, tokens) in [("completions", true), ("embeddings", false), ("chat", true)] {
        let extra = ["--endpoint-type", endpoint, "--request-count", "4"];
        let run = profile(&server.url(), &extra).succeeded();
        let summary = run.summary();
        assert_eq!(summary["request_count"]["avg"], 4.0, "{endpoint}");
        assert_eq!(summary["input_sequence_length"]["avg"], 20.0, "{endpoint}");
        let osl = summary["output_sequence_length"]["avg"].as_f64();
        assert_eq!(osl, tokens.then_some(4.0), "{endpoint}");
        assert!(summary["time_to_first_token"].is_null(), "{endpoint}");
    }
}

#[test]
fn failures_are_records_and_are_counted() {
    for (fault, kind) in [
        ("every=2:status=500,boom", "http_5xx"),
        ("every=2:status=404,what", "http_4xx"),
        ("every=2:cut=1", "_OTHER"),
        ("every=2:garbage=1", "parse_error"),
        ("every=2:empty", "_OTHER"),
        ("every=2:error=1", "http_5xx"),
        ("every=2:hang", "timeout"),
    ] {
        let server = faulty(fault);
        let extra = ["--request-count", "4", "--request-timeout-seconds", "0.4"];
        let run = profile(&server.url(), &extra).succeeded();
        let summary = run.summary();
        let context = format!("{fault}: {}", summary["error_summary"]);
        assert_eq!(summary["request_count"]["avg"], 2.0, "{context}");
        assert_eq!(summary["error_request_count"]["avg"], 2.0, "{context}");
        assert_eq!(summary["error_isl"]["sum"], 40.0, "{context}");
        assert_eq!(summary["error_summary"][0]["error_details"]["error_type"], kind, "{context}");
        let errors = run.records().iter().filter(|record| !record["error"].is_null()).count();
        assert_eq!(errors, 2, "{context}");
    }
}

#[test]
fn a_run_without_any_success_fails_and_says_why() {
    let gone = Refusing::new();
    let run = profile(&gone.url(), &["--request-count", "3"]);
    assert_eq!(run.exit_code(), Some(1));
    assert!(run.stderr().contains("no request succeeded"), "{}", run.stderr());
    assert!(run.stdout().contains("ConnectionRefused"), "{}", run.stdout());
    assert_eq!(run.summary()["error_request_count"]["avg"], 3.0);
    assert_eq!(run.records().len(), 3);
}

/// The first response takes 600 ms.
const STALL: &str = "requests=1:stall=0,600ms";

/// One request is due every 20 ms; the first holds the only slot until its response.
const LATE: [&str; 8] = [
    "--request-rate",
    "50",
    "--arrival-pattern",
    "constant",
    "--concurrency",
    "1",
    "--request-count",
    "10",
];

#[test]
fn requests_that_wait_for_a_stalled_server_count_from_when_they_were_due() {
    let server = faulty(STALL);
    let run = profile(&server.url(), &LATE).succeeded();
    let mut records = run.records();
    let due = |record: &Value| record["metadata"]["request_due_ns"].as_u64().unwrap();
    records.sort_by_key(due);
    assert_eq!(records.len(), 10);
    let start = due(&records[0]);
    for (index, record) in records.iter().enumerate() {
        let millis = |tag: &str| record["metrics"][tag]["value"].as_f64().unwrap();
        let effective = millis("effective_latency");
        let waited = millis("credit_to_start_latency");
        assert!((effective - waited - millis("request_latency")).abs() < 1e-3, "{record}");
        if index > 0 {
            let due_after = (due(record) - start) as f64 / 1e6;
            assert!((due_after - 20.0 * index as f64).abs() < 1e-3, "{due_after}");
            assert!(waited >= 600.0 - due_after, "request {index} waited {waited} ms");
            assert!(millis("request_latency") < effective, "request {index}");
        }
    }
    let summary = run.summary();
    assert!(
        summary["effective_latency"]["p50"].as_f64() > summary["request_latency"]["p50"].as_f64()
    );
    assert!(run.text("profile_export_console.txt").contains("LLM Metrics: Effective"));
    // The terminal has one table unless all are requested.
    assert!(!run.stdout().contains("LLM Metrics"), "{}", run.stdout());
    assert!(summary.get("replay_sched_lag_p50").is_none());
}

#[test]
fn objectives_and_gates_may_count_from_the_due_time() {
    let asked = [
        "--latency-from",
        "due",
        "--goodput",
        "time_to_first_token<=300ms",
        "--gate",
        "ttft:max<=300ms",
        "--gate",
        "request_latency:min>=600ms",
    ];
    let server = faulty(STALL);
    let run = profile(&server.url(), &[&LATE[..], &asked].concat());
    assert_eq!(run.exit_code(), Some(3), "{}\n{}", run.stdout(), run.stderr());
    let summary = run.summary();
    // Nine of the requests waited for 420 ms at least, and the first for its response.
    assert_eq!(summary["good_request_fraction"]["avg"].as_f64(), Some(0.0));
    let gates = summary["gates"].as_array().unwrap();
    let judged = gates.iter().map(|gate| (gate["gate"].as_str().unwrap(), &gate["value"]));
    let of = |tag: &str, statistic: &str| &summary[tag][statistic];
    assert_eq!(
        judged.collect::<Vec<_>>(),
        [
            (
                "effective_time_to_first_token:max<=300ms",
                of("effective_time_to_first_token", "max")
            ),
            ("effective_latency:min>=600ms", of("effective_latency", "min")),
        ]
    );
    for record in run.records() {
        let millis = |tag: &str| record["metrics"][tag]["value"].as_f64().unwrap();
        let waited = millis("credit_to_start_latency");
        let difference = millis("effective_time_to_first_token") - millis("time_to_first_token");
        assert!((difference - waited).abs() < 1e-3, "{record}");
    }
    // The objectives of the run are those of its report, and gates of the report count the same way.
    let mut report = aiperf(&["report"]);
    report.arg(run.directory.path()).args(["--gate", "ttft:max<=300ms"]);
    assert_eq!(report.output().unwrap().status.code(), Some(3));
    let again = run.summary();
    assert_eq!(again["gates"][0]["gate"], "effective_time_to_first_token:max<=300ms");
    assert_eq!(again["good_request_fraction"], summary["good_request_fraction"]);
}

/// Profiles with a trace of `tests/golden/traces`.
fn profile_trace(url: &str, name: &str, extra: &[&str]) -> Run {
    let trace = format!("{}/tests/golden/traces/{name}", env!("CARGO_MANIFEST_DIR"));
    profile(url, &[&["--input-file", &trace], extra].concat())
}

/// Returns the input tokens of each request, by conversation and turn.
fn input_lengths(run: &Run) -> Vec<(String, u64, u64)> {
    let lengths = run.records().into_iter().map(|record| {
        let metadata = &record["metadata"];
        (
            metadata["conversation_id"].as_str().unwrap().to_owned(),
            metadata["turn_index"].as_u64().unwrap(),
            record["metrics"]["input_sequence_length"]["value"].as_u64().unwrap(),
        )
    });
    let mut lengths: Vec<_> = lengths.collect();
    lengths.sort();
    lengths
}

#[test]
fn traces_are_sent_with_their_lengths() {
    let server = mock(Script::default());
    let loose = ["--concurrency", "2", "--no-fixed-schedule", "--random-seed", "1"];
    let run = profile_trace(&server.url(), "bailian.jsonl", &loose).succeeded();
    let named = |id: &str, turn, tokens| (id.to_owned(), turn, tokens);
    // Later turns contain their history, so nothing is repeated before them.
    assert_eq!(
        input_lengths(&run),
        [named("159", 0, 75), named("159", 1, 96), named("159", 2, 120), named("161", 0, 20)]
    );
    let inputs: Value = serde_json::from_str(&run.text("inputs.json")).unwrap();
    let messages = |turn: usize| inputs["data"][0]["payloads"][turn]["messages"].clone();
    assert_eq!(messages(2).as_array().unwrap().len(), 1);
    let texts = [0, 1].map(|turn| messages(turn)[0]["content"].as_str().unwrap().to_owned());
    assert!(texts[1].starts_with(&texts[0][..200]));

    let run = profile_trace(&server.url(), "mooncake.jsonl", &loose).succeeded();
    let mut lengths: Vec<u64> = input_lengths(&run).iter().map(|(.., tokens)| *tokens).collect();
    lengths.sort_unstable();
    // The session's second turn repeats its first and the response of 5 tokens.
    assert_eq!(lengths, [40, 40 + 5 + 30, 600, 1200, 1300, 1800]);
    let run = profile_trace(&server.url(), "burst_gpt.csv", &loose).succeeded();
    assert_eq!(run.records().len(), 3);
}

#[test]
fn messages_go_to_chat_alone() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace.jsonl");
    fs::write(&trace, r#"{"messages": [{"role": "user", "content": "Hi"}]}"#).unwrap();
    let mut command = aiperf(&["profile", "-m", "m", "--endpoint-type", "completions"]);
    command.arg("--input-file").arg(trace).arg("--artifact-dir").arg(directory.path());
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.contains("--endpoint-type chat"), "{words}");
}

#[test]
fn servers_and_models_take_turns() {
    let (first, second) = (mock(Script::default()), mock(Script::default()));
    let extra = ["--request-count", "8", "--url", &second.url(), "--model", "other-model"];
    let run = profile(&first.url(), &extra).succeeded();
    assert_eq!((first.requests_served(), second.requests_served()), (4, 4));
    let inputs: Value = serde_json::from_str(&run.text("inputs.json")).unwrap();
    let sessions = inputs["data"].as_array().unwrap().iter();
    let models: Vec<_> = sessions.map(|session| session["payloads"][0]["model"].clone()).collect();
    assert_eq!(models[..4], ["mock-model", "other-model", "mock-model", "other-model"]);
}

#[test]
fn sessions_carry_their_answers_and_are_counted() {
    let server = mock(Script::default());
    let extra = [
        "--num-sessions",
        "3",
        "--session-turns-mean",
        "2",
        "--request-rate",
        "500",
        "--export-level",
        "raw",
    ];
    let run = profile(&server.url(), &extra).succeeded();
    assert_eq!(run.summary()["request_count"]["avg"], 6.0);
    let (records, raw) = (run.records(), run.text("profile_export_raw.jsonl"));
    for line in raw.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let turn = line["metadata"]["turn_index"].as_u64().unwrap() as usize;
        let messages = line["payload"]["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 2 * turn + 1);
        // The four tokens of the response are part of the second turn's input.
        let id = &line["metadata"]["x_request_id"];
        let record =
            records.iter().find(|record| record["metadata"]["x_request_id"] == *id).unwrap();
        let isl = record["metrics"]["input_sequence_length"]["value"].as_u64();
        assert_eq!(isl, Some(if turn == 0 { 20 } else { 44 }));
    }
}

#[test]
fn a_seed_gives_the_same_requests_again() {
    let server = mock(Script::default());
    let inputs = |seed: &str| {
        let extra = ["--request-count", "2", "--random-seed", seed, "--isl-stddev", "5"];
        profile(&server.url(), &extra).succeeded().text("inputs.json")
    };
    assert_eq!(inputs("7"), inputs("7"));
    assert_ne!(inputs("7"), inputs("8"));
}

#[test]
fn inputs_of_a_run_can_be_sent_again() {
    let server = mock(Script::default());
    let first =
        profile(&server.url(), &["--request-count", "10", "--num-prompts", "3"]).succeeded();
    let inputs = first.path("inputs.json");
    let file = ["--custom-dataset-type", "inputs_json", "--input-file", inputs.to_str().unwrap()];
    let again = profile(&server.url(), &file).succeeded();
    // Without a limit, each conversation is sent once.
    assert_eq!(again.summary()["request_count"]["avg"], 3.0);
    assert_eq!(again.summary()["input_sequence_length"], {
        let mut expected = first.summary()["input_sequence_length"].clone();
        (expected["count"], expected["sum"]) = (3.into(), 60.0.into());
        expected
    });
    let data = |run: &Run| {
        serde_json::from_str::<Value>(&run.text("inputs.json")).unwrap()["data"].clone()
    };
    assert_eq!(data(&again), data(&first));
}

#[test]
fn secrets_reach_the_server_and_nothing_else() {
    let server = mock(Script { faults: faults(&["every=2:status=500,no"]), ..Script::default() });
    let collector = OtlpReceiver::grpc();
    let url = collector.otel_url();
    let mut extra = vec!["--request-count", "2", "--api-key", "sk-5ecret"];
    extra.extend(["--header", "X-Api-Key: t0psecret", "--extra-inputs", "access_token:b0dysecret"]);
    extra.extend(["--export-level", "raw", "--export-http-trace"]);
    extra.extend(["--otel-url", &url, "--trace-sample", "all"]);
    let directory = tempfile::tempdir().unwrap();
    let url = server.url().replace("http://", "http://user:hunter2@");
    let mut command = profile_command(&url, directory.path(), &extra);
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=c0llectors");
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    let mut everything = run.stdout() + &run.stderr();
    for name in SUMMARIES.iter().chain(&[
        "profile_export.jsonl",
        "profile_export_raw.jsonl",
        "inputs.json",
        "run_manifest.json",
        "logs/aiperf.log",
    ]) {
        everything += &run.text(name);
    }
    everything += &String::from_utf8_lossy(&fs::read(run.path("profile_export.parquet")).unwrap());
    let traces = collector.traces();
    assert_eq!((traces.is_empty(), traces[0].header("x-key")), (false, Some("c0llectors")));
    everything.extend(traces.iter().map(|export| format!("{:?}", export.message)));
    everything.extend(collector.taken().iter().map(|export| format!("{:?}", export.message)));
    for secret in ["5ecret", "t0psecret", "hunter2", "b0dysecret", "c0llectors"] {
        assert!(!everything.contains(secret), "{secret}");
    }
    assert!(everything.contains("<redacted>"));
}

#[test]
fn a_directory_that_cannot_be_made_fails_before_the_first_request() {
    let server = mock(Script::default());
    let file = tempfile::NamedTempFile::new().unwrap();
    let output =
        profile_command(&server.url(), &file.path().join("run"), &["--request-count", "2"])
            .output()
            .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("--artifact-dir"), "{stderr}");
    assert_eq!(server.requests_received(), 0);
}

/// Runs with `collector`, and compares the telemetry with the files.
fn observed_run(collector: &OtlpReceiver) {
    let server = mock(Script {
        reasoning_tokens: 1,
        ttft: Nanos::from_millis(20.0),
        faults: faults(&["every=5:status=503,busy"]),
        ..Script::default()
    });
    let extra = [
        "--request-count",
        "20",
        "--warmup-request-count",
        "3",
        "--concurrency",
        "3",
        "--goodput",
        "request_latency:60000",
        "--otel-url",
        &collector.otel_url(),
    ];
    let directory = tempfile::tempdir().unwrap();
    let mut command = profile_command(&server.url(), directory.path(), &extra);
    // Several exports in a short run.
    let command = command.env("AIPERF_OTEL_FLUSH_INTERVAL_SECONDS", "0.02");
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    let summary = run.summary();
    let telemetry = &summary["telemetry"];
    assert_eq!(telemetry["delivered_final"], true, "{telemetry}");
    assert_eq!(telemetry["reconciled"], true, "{telemetry}");
    assert_eq!(telemetry["rejected_data_points"], 0, "{telemetry}");

    let received = collector.last();
    let value = |tag: &str, stat: &str| summary[tag][stat].as_f64().unwrap();
    let profiling = ("aiperf.benchmark_phase", "profiling");
    let success = [profiling, ("gen_ai.response.model", "mock-model")];
    // Distributions: count, and sum in UCUM units.
    for (name, tag, scale) in [
        ("gen_ai.client.operation.duration", "request_latency", 1e-3),
        ("gen_ai.client.operation.time_to_first_chunk", "time_to_first_token", 1e-3),
        ("gen_ai.client.operation.time_per_output_chunk", "inter_token_latency", 1e-3),
        ("aiperf.request_latency", "request_latency", 1e-3),
        ("aiperf.time_to_second_token", "time_to_second_token", 1e-3),
        ("aiperf.inter_chunk_latency", "inter_chunk_latency", 1e-3),
        ("aiperf.output_token_count", "output_token_count", 1.0),
        ("aiperf.usage_prompt_tokens", "usage_prompt_tokens", 1.0),
    ] {
        let point = received.histogram(name, &success);
        assert_eq!(point.count as f64, value(tag, "count"), "{name}");
        let sum = value(tag, "sum") * scale;
        assert!((point.sum.unwrap() - sum).abs() <= 1e-9 * sum.abs(), "{name}: {point:?} {sum}");
    }
    for (kind, tag) in [("input", "input_sequence_length"), ("output", "output_sequence_length")] {
        let with =
            [profiling, ("gen_ai.response.model", "mock-model"), ("gen_ai.token.type", kind)];
        let point = received.histogram("gen_ai.client.token.usage", &with);
        assert_eq!(point.sum, Some(value(tag, "sum")), "{kind}");
    }
    let failed = [profiling, ("error.type", "http_5xx")];
    let point = received.histogram("gen_ai.client.operation.duration", &failed);
    assert_eq!(point.count as f64, value("error_request_count", "avg"));
    // Counters.
    for tag in ["request_count", "good_request_count"] {
        assert_eq!(received.number(&format!("aiperf.{tag}"), &success), value(tag, "avg"), "{tag}");
    }
    let errors = received.number("aiperf.error_request_count", &failed);
    assert_eq!(errors, value("error_request_count", "avg"));
    assert_eq!(received.number("aiperf.timing.requests.sent", &[profiling]), 20.0);
    // Failed requests are not among the completed ones.
    assert_eq!(received.number("aiperf.timing.requests.completed", &[profiling]), 20.0 - errors);
    assert_eq!(received.number("aiperf.timing.requests.errors", &[profiling]), errors);
    assert_eq!(received.number("aiperf.timing.requests.in_flight", &[profiling]), 0.0);
    let warmup = [("aiperf.benchmark_phase", "warmup")];
    assert_eq!(received.number("aiperf.timing.requests.sent", &warmup), 3.0);
    // Single results and percentiles.
    for tag in ["request_throughput", "goodput", "output_token_throughput"] {
        let gauge = received.number(&format!("aiperf.{tag}"), &[profiling]);
        assert!((gauge - value(tag, "avg")).abs() <= 1e-9 * gauge, "{tag}");
    }
    let p99 = [profiling, ("aiperf.percentile", "99")];
    let gauge = received.number("aiperf.percentiles.request_latency", &p99);
    assert!((gauge - value("request_latency", "p99") / 1e3).abs() <= 1e-9 * gauge);
    assert_eq!(received.resource("service.name").as_deref(), Some("aiperf"));
    assert_eq!(
        received.resource("aiperf.benchmark.id"),
        summary["benchmark_id"].as_str().map(str::to_owned)
    );
    let verdict = received.number("aiperf.client.verdict", &[profiling]);
    let words = ["valid", "suspect", "invalid"];
    assert_eq!(summary["client_health"]["verdict"], words[verdict as usize]);
    let busiest = received.number("aiperf.client.worker.cpu.utilization", &[profiling]);
    assert_eq!(summary["client_health"]["cpu"]["worker_max"], busiest);
}

#[test]
fn a_run_says_whether_its_client_kept_up() {
    let server = mock(Script { ttft: Nanos::from_millis(20.0), ..Script::default() });
    let run =
        profile(&server.url(), &["--request-rate", "100", "--request-count", "20"]).succeeded();
    let summary = run.summary();
    let health = &summary["client_health"];
    let verdict = health["verdict"].as_str().unwrap();
    assert!(run.stdout().contains(&format!("Client health: {verdict}.")), "{}", run.stdout());
    let details = run.text("profile_export_console.txt");
    assert!(details.contains(&format!("Client health: {verdict} (slip p99 ")), "{details}");
    assert_eq!(health["schedule_slip_ms"]["count"], 20);
    let slip = |record: &Value| {
        let at = |name: &str| record["metadata"][name].as_u64().unwrap();
        (at("request_start_ns") - at("request_due_ns")) as f64 / 1e6
    };
    let latest = run.records().iter().map(slip).fold(0.0, f64::max);
    assert_eq!(health["schedule_slip_ms"]["max"].as_f64(), Some(latest));
    let asked = summary["load"]["requested_rate"].as_f64().unwrap();
    let reached = summary["load"]["reached_rate"].as_f64().unwrap();
    assert_eq!(health["rate_ratio"].as_f64(), Some(reached / asked));
    assert_eq!(health["queue"]["spilled_records"], 0);
    assert!(health["queue"]["peak_bytes"].as_u64().unwrap() > 500);
    assert_eq!(health["cpu"]["workers"], 1);
    assert!(health["cpu"]["worker_max"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_collector_gets_the_numbers_of_the_files_over_grpc() {
    observed_run(&OtlpReceiver::grpc());
}

#[test]
fn a_collector_gets_the_numbers_of_the_files_over_http() {
    observed_run(&OtlpReceiver::http());
}

#[test]
fn a_collector_that_was_away_gets_the_final_numbers() {
    observed_run(&OtlpReceiver::grpc().first([Answer::Refuse, Answer::Refuse]));
}

#[test]
fn without_its_collector_a_run_succeeds_and_says_so() {
    let (gone, server) = (Refusing::new(), mock(Script::default()));
    let flags = ["--request-count", "5", "--otel-url", &*gone.url()];
    let run = profile(&server.url(), &flags).succeeded();
    let telemetry = run.summary()["telemetry"].clone();
    assert_eq!(telemetry["delivered_final"], false, "{telemetry}");
    assert_eq!(telemetry["reconciled"], true, "{telemetry}");
    assert!(telemetry["exports_failed"].as_u64().unwrap() >= 1, "{telemetry}");
    assert!(run.stdout().to_lowercase().contains("collector"), "{}", run.stdout());
    assert_eq!(run.summary()["request_count"]["avg"], 5.0);
}

/// Starts a long run and waits until the server has received `requests`.
fn start_long_run(server: &MockServer, directory: &Path, requests: u64) -> Child {
    let extra = ["--concurrency", "4", "--request-count", "100000", "--num-prompts", "50"];
    let child = profile_command(&server.url(), directory, &extra).spawn().unwrap();
    while server.requests_received() < requests {
        std::thread::yield_now();
    }
    child
}

#[test]
fn an_interrupt_completes_the_files_and_exits_130() {
    let server = mock(Script { ttft: Nanos::from_millis(5.0), ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let child = start_long_run(&server, directory.path(), 40);
    signal(&child, Signal::INT);
    let run = Run { output: child.wait_with_output().unwrap(), directory };
    assert_eq!(run.exit_code(), Some(130), "{}", run.stderr());
    let summary = run.summary();
    assert_eq!((&summary["was_cancelled"], &summary["is_complete"]), (&true.into(), &false.into()));
    let records = run.records();
    // Drained: every request that was sent has a record without an error.
    assert_eq!(records.len() as u64, server.requests_received());
    assert!(records.iter().all(|record| record["error"].is_null()));
    assert_eq!(summary["request_count"]["avg"].as_f64(), Some(records.len() as f64));
    assert!(run.stdout().contains("Request latency (ms)"), "{}", run.stdout());
}

#[test]
fn a_terminal_that_goes_away_is_an_interrupt_unless_that_is_ignored() {
    let server = mock(Script { ttft: Nanos::from_millis(5.0), ..Script::default() });
    let hung_up = |handling: &str, count: &str| {
        let directory = tempfile::tempdir().unwrap();
        let extra = ["--concurrency", "4", "--num-prompts", "50", "--request-count", count];
        let command = profile_command(&server.url(), directory.path(), &extra);
        let before = server.requests_received();
        let child = with_signal(handling, &command).spawn().unwrap();
        while server.requests_received() < before + 20 {
            std::thread::yield_now();
        }
        signal(&child, Signal::HUP);
        Run { output: child.wait_with_output().unwrap(), directory }
    };
    let run = hung_up("--default-signal=HUP", "100000");
    assert_eq!(run.exit_code(), Some(130), "{}", run.stderr());
    assert_eq!(run.summary()["was_cancelled"], true);
    assert!(run.records().iter().all(|record| record["error"].is_null()));
    // As with nohup.
    let run = hung_up("--ignore-signal=HUP", "600").succeeded();
    assert_eq!(run.summary()["request_count"]["avg"], 600.0);
}

#[test]
fn an_interrupt_waits_for_requests_in_flight_up_to_a_bound() {
    // The server does not respond, and neither the warmup nor the measurement has a limit.
    let server = mock(Script { ttft: Nanos::from_seconds(600.0), ..Script::default() });
    for warmup in ["0", "5"] {
        let directory = tempfile::tempdir().unwrap();
        let received = server.requests_received();
        let mut extra = vec!["--concurrency", "2", "--request-count", "10"];
        if warmup != "0" {
            extra.extend(["--warmup-request-count", warmup]);
        }
        let child = profile_command(&server.url(), directory.path(), &extra).spawn().unwrap();
        while server.requests_received() < received + 2 {
            std::thread::yield_now();
        }
        let start = std::time::Instant::now();
        signal(&child, Signal::TERM);
        let run = Run { output: child.wait_with_output().unwrap(), directory };
        assert_eq!(run.exit_code(), Some(130), "{}", run.stderr());
        // A pod has 30 s to end.
        let seconds = start.elapsed().as_secs_f64();
        assert!((14.0..30.0).contains(&seconds), "{seconds} s");
        assert_eq!(run.records().len(), 2);
        let cancelled = |record: &Value| record["metadata"]["was_cancelled"] == true;
        assert!(run.records().iter().all(cancelled));
    }
}

#[test]
fn a_reader_of_stderr_that_stalls_delays_nothing() {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    // Trace logging exceeds the buffer of a pipe that is not read.
    let extra = ["--request-count", "300", "--log-level", "trace", "--wait-for-model-timeout", "5"];
    let mut child = profile_command(&server.url(), directory.path(), &extra).spawn().unwrap();
    let held = child.stderr.take().unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(said.contains("Request latency (ms)"), "{said}");
    assert_eq!(summary(directory.path())["request_count"]["avg"], 300.0);
    drop(held);
}

#[test]
fn an_interrupt_before_the_first_request_is_one_too() {
    let server = faulty("every=1:status=503");
    let directory = tempfile::tempdir().unwrap();
    let wait = ["--wait-for-model-timeout", "600", "--wait-for-model-interval", "300"];
    let child = profile_command(&server.url(), directory.path(), &wait).spawn().unwrap();
    while server.requests_received() == 0 {
        std::thread::yield_now();
    }
    signal(&child, Signal::INT);
    let run = Run { output: child.wait_with_output().unwrap(), directory };
    assert_eq!(run.exit_code(), Some(130), "{}", run.stderr());
    assert_eq!(run.summary()["was_cancelled"], true);
    assert!(run.records().is_empty());
}

#[test]
fn records_that_wait_to_be_measured_can_be_left_out() {
    // Texts that each take some time to tokenise.
    let script = Script { output_tokens: 50_000, tokens_per_chunk: 10_000, ..Script::default() };
    let server = mock(script);
    let directory = tempfile::tempdir().unwrap();
    let mut command = aiperf(&["profile", "--model", "m", "--tokenizer", "builtin", "--isl", "20"]);
    command.args(["--streaming", "--request-count", "400", "--request-rate", "4000"]);
    command.args(["--ui", "none", "--url", &server.url(), "--artifact-dir"]).arg(directory.path());
    let child = command.spawn().unwrap();
    while server.requests_served() < 400 {
        std::thread::yield_now();
    }
    // Repeated interrupts: the last requests may not be counted yet.
    let output = thread::scope(|scope| {
        let (over, is_over) = mpsc::channel::<()>();
        let pid = Pid::from_child(&child);
        scope.spawn(move || {
            while is_over.recv_timeout(Duration::from_millis(20)) == Err(RecvTimeoutError::Timeout)
            {
                let _ = kill_process(pid, Signal::INT);
            }
        });
        let output = child.wait_with_output().unwrap();
        drop(over);
        output
    });
    let run = Run { output, directory };
    assert_eq!(run.exit_code(), Some(130), "{}", run.stderr());
    let summary = run.summary();
    assert_eq!(summary["was_cancelled"], true);
    let lost = summary["client_health"]["queue"]["lost_records"].as_u64().unwrap();
    assert!(lost > 0, "{summary}");
    assert_eq!(run.records().len() as u64 + lost, 400);
}

#[test]
fn a_server_that_never_answers_does_not_hold_up_an_interrupt() {
    let (asked, asks) = mpsc::channel();
    let address = raw_server::serve(move |_, stream| {
        asked.send(raw_server::read_request(stream).is_some()).unwrap();
        // Blocks until the client closes.
        asked.send(matches!(stream.read(&mut [0; 1]), Ok(0))).unwrap();
    });
    let directory = tempfile::tempdir().unwrap();
    let wait = ["--wait-for-model-timeout", "600"];
    let url = format!("http://{address}");
    let child = profile_command(&url, directory.path(), &wait).spawn().unwrap();
    assert!(asks.recv().unwrap());
    signal(&child, Signal::INT);
    let run = Run { output: child.wait_with_output().unwrap(), directory };
    assert_eq!(run.exit_code(), Some(130), "{}", run.stderr());
    assert!(asks.recv().unwrap(), "closed, not read until its own timeout of 20 s");
}

#[test]
fn a_reader_that_leaves_does_not_cost_the_files() {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let mut child = profile_command(&server.url(), directory.path(), &["--request-count", "5"])
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let run = Run { output: child.wait_with_output().unwrap(), directory };
    assert_eq!(run.exit_code(), Some(0), "{}", run.stderr());
    assert_eq!(run.summary()["request_count"]["avg"], 5.0);
}

#[test]
fn a_killed_run_leaves_records_that_a_report_can_be_made_of() {
    let server = mock(Script { ttft: Nanos::from_millis(2.0), ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let mut child = start_long_run(&server, directory.path(), 100);
    let part = directory.path().join("profile_export.parquet.parts/000001.parquet");
    // The files are flushed every second, first the lines.
    while !part.exists() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    run_python("tests/read_parts.py", directory.path());
    let reader = |path| SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let rows = |path| reader(path).metadata().file_metadata().num_rows();
    let saved = rows(part);
    let output = aiperf(&["report"]).arg(directory.path()).output().unwrap();
    let run = Run { output, directory }.succeeded();
    let table = rows(run.path("profile_export.parquet"));
    let is_partial = run.stderr().contains(&format!("has only the first {saved} of {table} rows"));
    assert!(saved > 0 && (is_partial || saved == table), "{saved} {table} {}", run.stderr());
    let whole = run.text("profile_export.jsonl").lines().filter(|line| line.ends_with('}')).count();
    let counted = run.summary()["request_count"]["avg"].as_f64().unwrap();
    assert!(
        counted >= 1.0 && counted <= whole as f64 && counted >= whole as f64 - 1.0,
        "{counted} of {whole}"
    );
    assert_eq!(run.summary()["is_complete"], false);
}

#[test]
fn a_report_of_a_complete_run_equals_its_own_summaries() {
    let server = faulty("every=5:status=500,boom");
    let extra = [
        "--request-count",
        "20",
        "--warmup-request-count",
        "2",
        "--goodput",
        "time_to_first_token:1000 request_latency:2000",
        // Without the scrapes, a report cannot say what is missing from server metrics.
        "--server-metrics-formats",
        "jsonl",
    ];
    let run = profile(&server.url(), &extra).succeeded();
    let before = SUMMARIES.map(|name| run.text(name));
    for name in SUMMARIES.iter().skip(1) {
        fs::remove_file(run.path(name)).unwrap();
    }
    let output = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
    let run = Run { output, directory: run.directory }.succeeded();
    for (name, before) in SUMMARIES.iter().zip(before) {
        assert_eq!(run.text(name), before, "{name}");
    }
}

#[test]
fn the_catalogue_is_listed() {
    let output = aiperf(&["metrics", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ttft =
        listed.as_array().unwrap().iter().find(|row| row["tag"] == "time_to_first_token").unwrap();
    assert_eq!(ttft["unit"], "ns");
    assert_eq!(ttft["display_unit"], "ms");
    assert_eq!(ttft["kind"], "record");
    let table = aiperf(&["metrics"]).output().unwrap();
    assert!(String::from_utf8_lossy(&table.stdout).contains("time_to_first_token"));
}

#[test]
fn wrong_usage_exits_with_2() {
    for (arguments, reason) in [
        (&["profile"][..], "--model"),
        (&["profile", "-m", "x", "--concurrency", "0"], "--concurrency"),
        (&["profile", "-m", "x", "--wandb-project", "y"], "does not support"),
        (&["frobnicate"], "frobnicate"),
    ] {
        let output = aiperf(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(stderr.contains(reason), "{arguments:?}: {stderr}");
    }
}

/// A server that responds with JSON to every request, without usage.
fn plain_server() -> String {
    let address = raw_server::serve(|_, stream| {
        let body = r#"{"choices":[{"message":{"content":"four words of answer"}}]}"#;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
        while raw_server::read_request(stream).is_some() {
            let answer = format!("{head}{}\r\n\r\n{body}", body.len());
            raw_server::write(stream, answer.as_bytes());
        }
    });
    format!("http://{address}")
}

#[test]
fn what_a_server_leaves_out_is_said() {
    let url = plain_server();
    let run = profile(&url, &["--request-count", "3", "--no-server-metrics"]).succeeded();
    let said = run.stdout();
    assert!(said.contains("! not-streamed: "), "{said}");
    assert!(said.contains("each of 3 responses came all at once"), "{said}");
    assert!(!said.contains("usage-missing"), "{said}");
    let flags = ["--request-count", "3", "--no-server-metrics", "--use-server-token-count"];
    let said = profile(&url, &flags).succeeded().stdout();
    assert!(said.contains("! usage-missing: "), "{said}");
    assert!(said.contains("3 of 3 requests (100.0%) did not have token counts"), "{said}");
}

/// Twenty tokens in five events: if the first has four of them, 16 follow, and not 19.
#[test]
fn events_of_several_tokens_are_said_with_their_effect() {
    let script = Script { tokens_per_chunk: 4, itl: Nanos::from_millis(1.0), ..Script::default() };
    let server = mock(script);
    let run_with = |further: &[&str]| {
        let directory = tempfile::tempdir().unwrap();
        let arguments = "profile --model mock-model --tokenizer builtin --streaming --ui none \
                         --no-server-metrics --isl 30 --osl 20 --request-count 4";
        let mut command = aiperf(&arguments.split_whitespace().collect::<Vec<_>>());
        command.args(["--url", &server.url(), "--artifact-dir"]).arg(directory.path());
        Run { output: command.args(further).output().unwrap(), directory }.succeeded().stdout()
    };
    let said = run_with(&[]);
    let expected = "! bundled-tokens: 4.0 tokens per event; ITL up to 15.8% too low";
    assert!(said.contains(expected), "{said}");
    let said = run_with(&["--use-server-token-count", "--per-chunk-usage"]);
    assert!(!said.contains("bundled-tokens"), "{said}");
}

#[test]
fn the_first_and_the_last_instant_are_whole_nanoseconds() {
    let server = mock(Script::default());
    let run = profile(&server.url(), &["--request-count", "5"]).succeeded();
    let starts = run.records().iter().map(|r| r["metadata"]["request_start_ns"].as_u64()).min();
    let summary = run.summary();
    let instant = |tag: &str| summary[tag]["avg"].as_u64();
    assert_eq!(instant("min_request_timestamp"), starts.unwrap());
    assert!(instant("max_response_timestamp") > instant("min_request_timestamp"));
    assert_eq!(summary["min_request_timestamp"]["unit"], "ns");
}

#[test]
fn the_length_asked_for_by_extra_inputs_is_held_against_the_answers() {
    let server = mock(Script::default());
    let flags = ["--request-count", "4", "--extra-inputs", "max_completion_tokens:9"];
    let run = profile(&server.url(), &flags).succeeded();
    for record in run.records() {
        assert_eq!(record["metadata"]["requested_output_tokens"], 9);
        let generated = record["metrics"]["output_sequence_length"]["value"].as_f64().unwrap();
        let difference = record["metrics"]["osl_mismatch_diff_pct"]["value"].as_f64().unwrap();
        assert!((difference - (generated - 9.0) / 9.0 * 100.0).abs() < 1e-9, "{record}");
    }
}
