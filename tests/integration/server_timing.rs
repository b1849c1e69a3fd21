//! The times of a request's stages that servers report in their responses.

use base::units::Nanos;
use mock_server::{MockServer, Script, Timing, TimingForm};
use serde_json::Value;

use crate::support::load::mock;
use crate::support::python::run_python;
use crate::support::raw_server::{self, read_request};
use crate::support::run::{Run, aiperf, json_lines, profile};

/// A server with a queue of 80 ms, a prefill of 30 ms, a transfer of 15 ms, and a decode of 5 ms for
/// each of 3 chunks.
fn server(form: TimingForm, faults: &[&str]) -> MockServer {
    let millis = Nanos::from_millis;
    let timing =
        Timing { queue: millis(80.0), kv_transfer: millis(15.0), ..Timing::for_form(form) };
    mock(Script {
        ttft: millis(125.0),
        itl: millis(5.0),
        timing: Some(timing),
        faults: faults.iter().map(|rule| rule.parse().unwrap()).collect(),
        ..Script::default()
    })
}

const FLAGS: [&str; 4] = ["--request-count", "6", "--concurrency", "3"];

/// The stages by metric, in milliseconds.
type Stages = &'static [(&'static str, f64)];

/// Every form, and the stages that are known of a response that is streamed, and of one that is not.
const FORMS: [(TimingForm, Option<Stages>, Option<Stages>); 8] = [
    (TimingForm::Vllm, Some(VLLM), Some(VLLM)),
    (TimingForm::Dynamo, Some(DYNAMO), Some(DYNAMO)),
    (TimingForm::DynamoSeparate, Some(SEPARATE), Some(SEPARATE)),
    (TimingForm::DynamoBootstrap, Some(BOOTSTRAP), Some(BOOTSTRAP)),
    (TimingForm::Sglang, None, Some(SGLANG)),
    (TimingForm::LlamaCpp, Some(LLAMA_CPP), Some(LLAMA_CPP)),
    (TimingForm::TensorrtLlm, Some(TENSORRT_LLM), Some(TENSORRT_LLM)),
    (TimingForm::Tgi, None, Some(TGI)),
];

// vLLM's queue contains the transfer.
const VLLM: Stages =
    &[("server_queue_time", 95.0), ("server_prefill_time", 30.0), ("server_decode_time", 15.0)];
// Dynamo's total has the transfer, which is thus in decode.
const DYNAMO: Stages = &[
    ("server_front_end_time", 0.0),
    ("server_queue_and_prefill_time", 110.0),
    ("server_decode_time", 30.0),
];
const SEPARATE: Stages = &[
    ("server_front_end_time", 0.0),
    ("server_queue_and_prefill_time", 110.0),
    ("server_kv_transfer_time", 15.0),
    ("server_decode_time", 15.0),
];
const BOOTSTRAP: Stages = &[
    ("server_front_end_time", 0.0),
    ("server_queue_and_prefill_time", 110.0),
    ("server_kv_transfer_and_decode_time", 30.0),
];
const SGLANG: Stages =
    &[("server_queue_time", 80.0), ("server_prefill_time", 30.0), ("server_decode_time", 15.0)];
const LLAMA_CPP: Stages = &[("server_prefill_time", 30.0), ("server_decode_time", 15.0)];
// TensorRT-LLM's time to the first token has the transfer.
const TENSORRT_LLM: Stages =
    &[("server_queue_time", 80.0), ("server_prefill_time", 45.0), ("server_decode_time", 15.0)];
const TGI: Stages = &[("server_queue_time", 80.0), ("server_prefill_and_decode_time", 60.0)];

fn value(record: &Value, name: &str) -> Option<f64> {
    record["metrics"][name]["value"].as_f64()
}

/// Asserts that statistics and records have exactly these stages, and that they and the rest add up
/// to the latency of each request.
fn assert_stages(run: &Run, expected: Stages, context: &str) {
    let summary = run.summary();
    let is_stage = |name: &&String| {
        name.starts_with("server_")
            && name.ends_with("_time")
            && !["server_unattributed_time"].contains(&name.as_str())
    };
    let found: Vec<&String> = summary.as_object().unwrap().keys().filter(is_stage).collect();
    assert_eq!(found.len(), expected.len(), "{context}: {found:?}");
    for (name, expected) in expected {
        for statistic in ["p50", "p99", "min"] {
            let found = summary[name][statistic].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-3, "{context}: {statistic} of {name} {found}");
        }
        assert_eq!(summary[name]["unit"], "ms");
    }
    for record in run.records() {
        let parts =
            ["http_req_connection_overhead", "http_req_sending", "server_unattributed_time"];
        let client: f64 = parts.iter().map(|name| value(&record, name).unwrap()).sum();
        let server: f64 = expected.iter().map(|(name, _)| value(&record, name).unwrap()).sum();
        let latency = value(&record, "request_latency").unwrap();
        assert!((latency - client - server).abs() < 1e-5, "{context}: {record}");
        // The server may have the request before the client knows that it was sent.
        let rest = value(&record, "server_unattributed_time").unwrap();
        let sending = value(&record, "http_req_sending").unwrap();
        assert!(rest + sending > -1.0, "{context}: {record}");
    }
}

#[test]
fn injected_stages_are_found_in_every_form_and_rebuilt() {
    for (form, streamed, whole) in FORMS {
        let server = server(form, &[]);
        for (expected, flags) in [(streamed, &[][..]), (whole, &["--endpoint-type", "completions"])]
        {
            let context = format!("{form:?} {flags:?}");
            let mut run = profile(&server.url(), &[&FLAGS[..], flags].concat()).succeeded();
            let Some(expected) = expected else {
                let names = run.text("profile_export.jsonl");
                assert!(!names.contains("server_"), "{context}: {names}");
                continue;
            };
            assert_stages(&run, expected, &context);
            let before = run.summary();
            let again = aiperf(&["report", "--overwrite"]).arg(run.directory.path()).output();
            run.output = again.unwrap();
            let run = run.succeeded();
            let after = run.summary();
            for name in expected.iter().map(|(name, _)| *name).chain(["time_breakdown"]) {
                assert_eq!(after[name], before[name], "{context}: {name}");
            }
        }
    }
}

#[test]
fn means_of_requests_divide_the_latencies() {
    let server = server(TimingForm::DynamoSeparate, &[]);
    let flags = [&FLAGS[..], &["--no-server-metrics"]].concat();
    let run = profile(&server.url(), &flags).succeeded();
    let summary = run.summary();
    let names = |at: usize| -> Vec<String> {
        let parts = summary["time_breakdown"]["metrics"][at]["parts"].as_array().unwrap();
        parts.iter().map(|part| part["stage"].as_str().unwrap().to_owned()).collect()
    };
    let until_first_token =
        ["connection", "sending", "front_end", "queue_and_prefill", "kv_transfer"];
    assert_eq!(names(0), [&until_first_token[..], &["unattributed"]].concat());
    assert_eq!(names(1), [&until_first_token[..], &["decode", "unattributed"]].concat());
    for divided in summary["time_breakdown"]["metrics"].as_array().unwrap() {
        let parts = divided["parts"].as_array().unwrap();
        let sum: f64 = parts.iter().map(|part| part["mean_ms"].as_f64().unwrap()).sum();
        let mean = divided["mean_ms"].as_f64().unwrap();
        assert!((sum - mean).abs() < 1e-6, "{divided}");
        let metric = divided["metric"].as_str().unwrap();
        assert!((summary[metric]["avg"].as_f64().unwrap() - mean).abs() < 1e-9, "{divided}");
    }
    let stdout = run.stdout();
    assert!(stdout.contains("Server KV transfer (ms)"), "{stdout}");
    assert!(run.text("profile_export_console.txt").contains("Server KV Transfer"));
    // The table of requests has the columns.
    run_python("tests/check_profile_export.py", run.directory.path());
}

/// The stages of the server are one histogram, with the same values as the metrics of the files.
#[test]
fn stages_are_one_histogram_over_otlp() {
    let (server, directory) = (server(TimingForm::Vllm, &[]), tempfile::tempdir().unwrap());
    let extra = ["--otel-file", directory.path().to_str().unwrap()];
    let run = profile(&server.url(), &[&FLAGS[..], &extra].concat()).succeeded();
    assert_eq!(run.summary()["telemetry"]["reconciled"], true, "{}", run.summary()["telemetry"]);
    let lines = json_lines(&directory.path().join("metrics.jsonl"));
    let metrics = lines.iter().flat_map(|line| line["resourceMetrics"].as_array().unwrap());
    let metrics = metrics.flat_map(|of| of["scopeMetrics"].as_array().unwrap());
    let metrics = metrics.flat_map(|of| of["metrics"].as_array().unwrap());
    let metrics: Vec<&Value> = metrics.collect();
    let stages = metrics.iter().rfind(|of| of["name"] == "aiperf.server.stage.duration").unwrap();
    assert_eq!(stages["unit"], "s");
    let points = stages["histogram"]["dataPoints"].as_array().unwrap();
    assert_eq!(points.len(), VLLM.len(), "{stages}");
    for (name, expected) in VLLM {
        let stage = name.strip_prefix("server_").and_then(|name| name.strip_suffix("_time"));
        let is_stage = |attribute: &Value| {
            attribute["key"] == "aiperf.stage"
                && attribute["value"]["stringValue"].as_str() == stage
        };
        let of_stage =
            |point: &&Value| point["attributes"].as_array().unwrap().iter().any(is_stage);
        let point = points.iter().find(of_stage).unwrap();
        assert_eq!(point["count"], "6", "{point}");
        let sum = point["sum"].as_f64().unwrap();
        assert!((sum - 6.0 * expected / 1e3).abs() < 1e-5, "{name}: {point}");
        let own = format!("aiperf.{name}");
        assert!(metrics.iter().all(|of| of["name"] != own.as_str()), "{own} is exported too");
    }
}

/// The page has the stages of the slowest requests and their means over time, and so has the page that
/// is written from the records.
#[test]
fn the_page_divides_requests_by_stage() {
    let server = server(TimingForm::DynamoSeparate, &["requests=2:status=500"]);
    let mut run = profile(&server.url(), &[&FLAGS[..], &["--html"]].concat()).succeeded();
    let page = |run: &Run| -> Value {
        let text = run.text("report.html");
        let start = text.split_once("id=\"data\">").unwrap().1;
        serde_json::from_str(start.split_once("</script>").unwrap().0).unwrap()
    };
    let section = |page: &Value| -> Value {
        let sections = page["sections"].as_array().unwrap();
        sections.iter().find(|section| section["title"] == "Stages").unwrap().clone()
    };
    let before = section(&page(&run));
    let names: Vec<_> = before["charts"].as_array().unwrap().iter().map(|of| &of["name"]).collect();
    assert_eq!(
        names,
        [
            "time_to_first_token_stages_over_time",
            "request_latency_stages_over_time",
            "slowest_requests_by_stage",
        ]
    );
    let slowest = &before["charts"][2]["series"];
    let value = |name: &str, at: usize| {
        let series = slowest.as_array().unwrap().iter().find(|of| of["name"] == name);
        series.unwrap()["points"][at][1].as_f64().unwrap()
    };
    // The failed request is not among the slowest.
    assert_eq!(slowest[0]["points"].as_array().unwrap().len(), 5);
    assert!((value("Queue + prefill", 4) - 110.0).abs() < 1e-3, "{slowest}");
    assert!((value("KV transfer", 0) - 15.0).abs() < 1e-3, "{slowest}");
    run_python("tests/read_report.py", run.directory.path());
    let flags = ["--overwrite", "--html"];
    let again = aiperf(&["report"]).arg(run.directory.path()).args(flags).output();
    run.output = again.unwrap();
    let run = run.succeeded();
    assert_eq!(section(&page(&run)), before);
}

#[test]
fn a_gate_limits_a_stage() {
    let server = server(TimingForm::Vllm, &[]);
    let gates = ["--gate", "server_queue_time:p99<=50ms", "--gate", "server_decode_time:p50<=16ms"];
    let run = profile(&server.url(), &[&FLAGS[..], &gates].concat());
    assert_eq!(run.exit_code(), Some(3));
    let gates = run.summary()["gates"].as_array().unwrap().clone();
    let passed: Vec<_> = gates.iter().map(|gate| gate["held"].as_bool()).collect();
    assert_eq!(passed, [Some(false), Some(true)], "{gates:?}");
}

#[test]
fn times_that_exceed_the_latency_are_named() {
    let server = server(TimingForm::Vllm, &["requests=2:lie=3"]);
    let run = profile(&server.url(), &FLAGS).succeeded();
    let rest = &run.summary()["server_unattributed_time"];
    // Two more times 140 ms.
    let least = rest["min"].as_f64().unwrap();
    assert!((-280.0..-200.0).contains(&least), "{rest}");
    assert!(run.stdout().contains("! server-times-exceed: "), "{}", run.stdout());
    let honest = profile(&self::server(TimingForm::Vllm, &[]).url(), &FLAGS).succeeded();
    assert!(!honest.stdout().contains("server-times-exceed"), "{}", honest.stdout());
}

#[test]
fn reports_are_ignored_if_asked() {
    let server = server(TimingForm::Dynamo, &[]);
    let flags = [&FLAGS[..], &["--server-timing", "off"]].concat();
    let run = profile(&server.url(), &flags).succeeded();
    assert!(!run.text("profile_export.jsonl").contains("server_"));
}

#[test]
fn each_worker_has_results_of_its_own() {
    let timing = Timing { workers: 2, ..Timing::for_form(TimingForm::Dynamo) };
    let server = mock(Script { timing: Some(timing), ..Script::default() });
    let run = profile(&server.url(), &["--request-count", "7", "--concurrency", "1"]).succeeded();
    let summary = run.summary();
    let count = |worker: &str| summary["by_worker"][worker]["request_count"]["avg"].as_f64();
    // The IDs are exact, though a float cannot represent the first. Requests are numbered from 1.
    assert_eq!(count("9007199254740993"), Some(3.0), "{}", summary["by_worker"]);
    assert_eq!(count("9007199254740995"), Some(4.0));
    let ids = run.records();
    let ids = ids.iter().map(|record| record["metadata"]["server_worker_id"].as_str().unwrap());
    assert_eq!(ids.filter(|id| *id == "9007199254740993").count(), 3);
    let again = aiperf(&["report", "--overwrite"]).arg(run.directory.path()).output().unwrap();
    assert!(again.status.success());
    assert_eq!(run.summary()["by_worker"], summary["by_worker"]);
    // One worker is not a group.
    let one = profile(&self::server(TimingForm::Dynamo, &[]).url(), &FLAGS).succeeded();
    assert_eq!(one.summary().get("by_worker"), None);
    assert_eq!(one.summary().get("workers"), None);
    // Too few requests for intervals; 4 of 7 are 8/7 of the mean.
    let workers = &summary["workers"];
    assert_eq!(workers["workers"][0]["latencies"].as_array().map(Vec::len), Some(0), "{workers}");
    let imbalance = workers["imbalance"]["requests"].as_f64().unwrap();
    assert!((imbalance - 8.0 / 7.0).abs() < 1e-12, "{workers}");
}

/// Of three workers that respond in turn, the first one stalls.
#[test]
fn a_slow_worker_is_marked() {
    let timing = Timing { workers: 3, ..Timing::for_form(TimingForm::Dynamo) };
    let ttft = Nanos::from_millis(2.0);
    let faults = vec!["every=3:stall=0,60ms".parse().unwrap()];
    let server = mock(Script { ttft, timing: Some(timing), faults, ..Script::default() });
    let flags = ["--request-count", "180", "--concurrency", "3", "--html"];
    let mut run = profile(&server.url(), &flags).succeeded();
    let before = run.summary()["workers"].clone();
    let workers = before["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 3, "{before}");
    // Dynamo's IDs, of which the slow worker has the first.
    let slow = &workers[0];
    assert_eq!(slow["name"], "9007199254740993");
    let finding = |worker: &Value, at: usize| worker["latencies"][at]["finding"].clone();
    for (at, metric) in ["time_to_first_token", "request_latency"].into_iter().enumerate() {
        assert_eq!(slow["latencies"][at]["metric"], metric);
        assert_eq!(finding(slow, at), "slower", "{before}");
        assert_ne!(finding(&workers[1], at), "slower", "{before}");
        assert_ne!(finding(&workers[2], at), "slower", "{before}");
    }
    let share = slow["request_share"].as_f64().unwrap();
    assert!((share - 1.0 / 3.0).abs() < 1e-9, "{before}");
    for load in ["requests", "output_tokens"] {
        let imbalance = before["imbalance"][load].as_f64().unwrap();
        assert!((imbalance - 1.0).abs() < 1e-9, "{before}");
    }
    let stdout = run.stdout();
    assert!(stdout.contains("Worker "), "{stdout}");
    let row = stdout.lines().find(|line| line.contains("9007199254740993")).unwrap();
    assert!(row.contains(" slower"), "{stdout}");
    assert!(stdout.contains("of requests 1.00, of output tokens 1.00"), "{stdout}");
    let page = run.text("report.html");
    assert!(page.contains("\"Workers\"") && page.contains("\"slower\""));
    let again = aiperf(&["report", "--overwrite"]).arg(run.directory.path()).output();
    run.output = again.unwrap();
    let run = run.succeeded();
    assert_eq!(run.summary()["workers"], before);
}

/// Each of 3 steps drafts 4 tokens, of which 1 is accepted.
#[test]
fn drafts_are_metrics_of_each_request() {
    let timing = Timing { draft_tokens: 4, ..Timing::for_form(TimingForm::Vllm) };
    let server = mock(Script { timing: Some(timing), ..Script::default() });
    let run = profile(&server.url(), &FLAGS).succeeded();
    let summary = run.summary();
    let average = |name: &str| summary[name]["avg"].as_f64().unwrap();
    for (name, expected) in [
        ("spec_decode_acceptance_length", 2.0),
        ("spec_decode_draft_acceptance_rate", 25.0),
        ("spec_decode_steps", 3.0),
        ("spec_decode_accepted_draft_tokens", 3.0),
        ("spec_decode_draft_tokens", 12.0),
        ("total_spec_decode_steps", 18.0),
        ("total_accepted_draft_tokens", 18.0),
        ("total_draft_tokens", 72.0),
        ("spec_decode_token_weighted_acceptance_length", 2.0),
        ("spec_decode_overall_draft_acceptance_rate", 25.0),
    ] {
        assert!((average(name) - expected).abs() < 1e-9, "{name} is {}", average(name));
    }
}

/// vLLM counts each of two choices as a request; the mock server does not, and its metrics are not scraped here.
#[test]
fn the_length_of_all_choices_is_compared_with_what_all_may_have() {
    let server = mock(Script::default());
    let flags = [&FLAGS[..], &["--extra-inputs", "n:2", "--no-server-metrics"]].concat();
    let run = profile(&server.url(), &flags).succeeded();
    let summary = run.summary();
    assert_eq!(summary["output_sequence_length"]["avg"].as_f64(), Some(8.0));
    assert_eq!(summary["osl_mismatch_diff_pct"]["max"].as_f64(), Some(0.0), "{summary}");
}

#[test]
fn a_server_is_asked_as_it_requires() {
    let server = server(TimingForm::Dynamo, &[]);
    let flags = [&FLAGS[..], &["--server-timing", "ask-dynamo", "--export-level", "raw"]].concat();
    let run = profile(&server.url(), &flags).succeeded();
    let raw = run.text("profile_export_raw.jsonl");
    let line: Value = serde_json::from_str(raw.lines().next().unwrap()).unwrap();
    let asked = &line["payload"]["nvext"]["extra_fields"];
    assert_eq!(*asked, serde_json::json!(["timing", "worker_id"]), "{line}");
    let recorded = &run.summary()["run_info"]["config"]["endpoint"]["extra_inputs"];
    assert_eq!(recorded["nvext"]["extra_fields"][0], "timing", "{recorded}");
}

/// Any server's header, with names of stages and of others, which the record keeps.
#[test]
fn a_standard_header_is_read() {
    let address = raw_server::serve(|_, stream| {
        while read_request(stream).is_some() {
            let body = r#"{"choices":[{"text":"an answer","finish_reason":"stop"}]}"#;
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                 server-timing: queue;dur=0.02, edge;dur=1.5;desc=\"a, b\", miss\r\n\r\n{body}",
                body.len()
            );
            raw_server::write(stream, answer.as_bytes());
        }
    });
    let flags = ["--endpoint-type", "completions", "--request-count", "2", "--no-server-metrics"];
    let run = profile(&format!("http://{address}"), &flags).succeeded();
    let check = |run: &Run| {
        for record in run.records() {
            let metadata = &record["metadata"];
            assert_eq!(metadata["server_timing_family"], "server-timing", "{record}");
            assert_eq!(metadata["server_timing_source"], "headers");
            assert_eq!(metadata["server_timing_other"], serde_json::json!({"edge": 1.5}));
            assert_eq!(value(&record, "server_queue_time"), Some(0.02));
        }
        assert_eq!(run.summary()["server_queue_time"]["count"], 2);
    };
    check(&run);
    let again = aiperf(&["report", "--overwrite"]).arg(run.directory.path()).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    check(&run);
}
