//! The division of the client's latencies by the server's own times.

use std::collections::BTreeSet;

use base::units::Nanos;
use mock_server::Script;
use serde_json::Value;

use crate::conformance::differences;
use crate::conformance::registry::Registry;
use crate::support::load::mock;
use crate::support::metrics_endpoint::{MetricsEndpoint, Reply};
use crate::support::otlp_receiver::OtlpReceiver;
use crate::support::python::run_python;
use crate::support::raw_server::{self, read_request};
use crate::support::run::{Run, aiperf, profile, profile_command, summary};

/// An exposition of vLLM's histograms after `count` requests, with the given sums in seconds.
fn exposition(count: u32, sums: [(&str, f64); 5]) -> String {
    let histogram = |(name, sum): (&str, f64)| {
        format!(
            "# TYPE vllm:{name}_seconds histogram\n\
             vllm:{name}_seconds_bucket{{le=\"+Inf\"}} {count}\n\
             vllm:{name}_seconds_sum {sum}\nvllm:{name}_seconds_count {count}\n"
        )
    };
    sums.map(histogram).concat()
}

const NAMES: [&str; 5] = [
    "request_queue_time",
    "request_prefill_time",
    "request_decode_time",
    "time_to_first_token",
    "e2e_request_latency",
];

/// Four requests of 40 ms or more, with the expositions before and after them.
fn run_between(before: String, after: String) -> Run {
    run_with(before, after, &[])
}

fn run_with(before: String, after: String, more: &[&str]) -> Run {
    run_at(&[MetricsEndpoint::with([Reply::text(before), Reply::text(after)])], more)
}

/// Four requests with the server metrics of `endpoints`.
fn run_at(endpoints: &[MetricsEndpoint], more: &[&str]) -> Run {
    let server = mock(Script { ttft: Nanos::from_millis(40.0), ..Script::default() });
    let metrics: Vec<_> = endpoints.iter().map(|endpoint| endpoint.url("/metrics")).collect();
    let metrics = metrics.iter().flat_map(|url| ["--server-metrics", url.as_str()]);
    let flags = ["--request-count", "4", "--concurrency", "2"].into_iter().chain(metrics);
    let flags: Vec<&str> = flags.chain(more.iter().copied()).collect();
    let directory = tempfile::tempdir().unwrap();
    let mut command = profile_command(&server.url(), directory.path(), &flags);
    // Only the first scrape is before the phase, however long that takes.
    command.env("AIPERF_SERVER_METRICS_COLLECTION_INTERVAL", "3600");
    Run { output: command.output().unwrap(), directory }.succeeded()
}

/// Four requests, of which a server with 7 earlier ones counts `count`.
fn run(count: u32) -> Run {
    run_between(
        exposition(7, NAMES.map(|name| (name, 64.0))),
        exposition(
            7 + count,
            // Queue 2 ms, prefill 5 ms, decode 10 ms, 8 ms to the first token, 20 ms in all.
            std::array::from_fn(|at| (NAMES[at], 64.0 + [8.0, 20.0, 40.0, 32.0, 80.0][at] / 1e3)),
        ),
    )
}

/// A series of a histogram, with `count` and `sum` of the 4 requests; a counter without `count`.
type Series = (&'static str, &'static str, Option<u32>, f64);

/// The parts of a latency by stage, in milliseconds.
type Parts = &'static [(&'static str, f64)];

/// The times of 4 requests by server, all of which took 2 ms in the queue, 5 ms in prefill and
/// 10 ms in decode, 8 ms to the first token and 20 ms in all as far as the server reports it; and
/// how the time to first token and the latency are divided.
const SERVERS: [(&[Series], Parts, Parts); 6] = [
    (
        &[
            ("sglang:queue_time_seconds", "", Some(4), 8e-3),
            ("sglang:per_stage_req_latency_seconds", "stage=\"prefill_forward\"", Some(4), 20e-3),
            ("sglang:per_stage_req_latency_seconds", "stage=\"chunked_prefill\"", Some(9), 50e-3),
            ("sglang:time_to_first_token_seconds", "", Some(4), 32e-3),
            ("sglang:e2e_request_latency_seconds", "", Some(4), 80e-3),
        ],
        &[("front_end", 1.0), ("queue", 2.0), ("prefill", 5.0)],
        // 20 ms - 8 ms of decode, as it does not report that.
        &[("front_end", 1.0), ("queue", 2.0), ("prefill", 5.0), ("decode", 12.0)],
    ),
    (
        &[
            ("trtllm_request_queue_time_seconds", "", Some(4), 8e-3),
            ("trtllm_request_prefill_time_seconds", "", Some(4), 20e-3),
            // It does not observe 0.
            ("trtllm_request_decode_time_seconds", "", Some(3), 40e-3),
            ("trtllm_time_to_first_token_seconds", "", Some(4), 32e-3),
            ("trtllm_e2e_request_latency_seconds", "", Some(4), 80e-3),
        ],
        &[("front_end", 1.0), ("queue", 2.0), ("prefill", 5.0)],
        &[("front_end", 3.0), ("queue", 2.0), ("prefill", 5.0), ("decode", 10.0)],
    ),
    (
        &[
            ("lmdeploy:request_queue_time_seconds", "", Some(4), 8e-3),
            ("lmdeploy:request_prefill_time_seconds", "", Some(4), 20e-3),
            ("lmdeploy:request_decode_time_seconds", "", Some(4), 40e-3),
            ("lmdeploy:time_to_first_token_seconds", "", Some(4), 32e-3),
            ("lmdeploy:e2e_request_latency_seconds", "", Some(4), 80e-3),
        ],
        &[("front_end", 1.0), ("queue", 2.0), ("prefill", 5.0)],
        &[("front_end", 3.0), ("queue", 2.0), ("prefill", 5.0), ("decode", 10.0)],
    ),
    (
        &[
            ("nv_inference_request_success", "model=\"m\"", None, 4.0),
            ("nv_inference_queue_duration_us", "model=\"m\"", None, 8_000.0),
            ("nv_inference_request_duration_us", "model=\"m\"", None, 80_000.0),
            ("nv_inference_first_response_histogram_ms", "model=\"m\"", Some(4), 32.0),
        ],
        &[("queue", 2.0), ("server", 6.0)],
        &[("queue", 2.0), ("decode", 12.0), ("server", 6.0)],
    ),
    (
        &[
            ("llamacpp:prompt_seconds_total", "", None, 20e-3),
            ("llamacpp:tokens_predicted_total", "", None, 16.0),
            ("llamacpp:tokens_predicted_seconds_total", "", None, 40e-3),
        ],
        &[("prefill", 5.0)],
        &[("prefill", 5.0), ("decode", 10.0)],
    ),
    // A frontend of Dynamo, and an engine that reports only one stage.
    (
        &[
            ("dynamo_frontend_time_to_first_token_seconds", "model=\"m\"", Some(4), 32e-3),
            ("dynamo_frontend_request_duration_seconds", "model=\"m\"", Some(4), 80e-3),
            ("sglang:queue_time_seconds", "", Some(4), 8e-3),
            ("sglang:time_to_first_token_seconds", "", Some(4), 28e-3),
            ("sglang:e2e_request_latency_seconds", "", Some(4), 72e-3),
        ],
        &[("front_end", 1.0), ("queue", 2.0), ("server", 5.0)],
        &[("front_end", 2.0), ("queue", 2.0), ("decode", 11.0), ("server", 5.0)],
    ),
];

/// The exposition of `series`, with `share` of their values.
fn of_series(series: &[Series], share: u32) -> String {
    let mut declared = Vec::new();
    let lines = series.iter().map(|(name, labels, count, sum)| {
        let kind = if count.is_some() { "histogram" } else { "counter" };
        let is_new = declared.last() != Some(name);
        declared.push(*name);
        let head = if is_new { format!("# TYPE {name} {kind}\n") } else { String::new() };
        let sum = sum * f64::from(share);
        let Some(count) = count.map(|count| count * share) else {
            return format!("{head}{name}{{{labels}}} {sum}\n");
        };
        let comma = if labels.is_empty() { "" } else { "," };
        format!(
            "{head}{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}\n\
             {name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {count}\n"
        )
    });
    lines.collect()
}

/// A worker for prefill and one for decode, between whose scrapes 4 requests come.
fn run_on_workers(workers: [&[Series]; 2]) -> Run {
    let endpoints = workers.map(|series| {
        MetricsEndpoint::with([3, 4].map(|share| Reply::text(of_series(series, share))))
    });
    run_at(&endpoints, &[])
}

/// The worker for prefill of vLLM, which generates one token of each request.
const VLLM_PREFILL: &[Series] = &[
    ("vllm:request_queue_time_seconds", "", Some(4), 8e-3),
    ("vllm:request_prefill_time_seconds", "", Some(4), 20e-3),
    ("vllm:request_decode_time_seconds", "", Some(4), 0.0),
    ("vllm:time_to_first_token_seconds", "", Some(4), 32e-3),
    ("vllm:e2e_request_latency_seconds", "", Some(4), 36e-3),
    ("vllm:generation_tokens_total", "", None, 4.0),
];

/// Its worker for decode: 3 ms in the queue, of which the transfer is 1.5 ms.
const VLLM_DECODE: &[Series] = &[
    ("vllm:request_queue_time_seconds", "", Some(4), 12e-3),
    ("vllm:request_prefill_time_seconds", "", Some(4), 4e-3),
    ("vllm:request_decode_time_seconds", "", Some(4), 32e-3),
    ("vllm:time_to_first_token_seconds", "", Some(4), 18e-3),
    ("vllm:e2e_request_latency_seconds", "", Some(4), 50e-3),
    ("vllm:generation_tokens_total", "", None, 16.0),
    ("vllm:nixl_xfer_time_seconds", "", Some(4), 6e-3),
];

const SGLANG_PREFILL: &[Series] = &[
    ("sglang:queue_time_seconds", "engine_type=\"prefill\"", Some(4), 8e-3),
    (
        "sglang:per_stage_req_latency_seconds",
        "engine_type=\"prefill\",stage=\"prefill_forward\"",
        Some(4),
        20e-3,
    ),
    ("sglang:kv_transfer_latency_ms", "engine_type=\"prefill\"", Some(4), 6.0),
];

const SGLANG_DECODE: &[Series] = &[
    ("sglang:queue_time_seconds", "engine_type=\"decode\"", Some(4), 4e-3),
    ("sglang:time_to_first_token_seconds", "engine_type=\"decode\"", Some(4), 32e-3),
    ("sglang:e2e_request_latency_seconds", "engine_type=\"decode\"", Some(4), 72e-3),
];

/// Rebuilds the summary and returns the breakdown, which must be the same.
fn breakdown(run: &Run) -> Value {
    let found = run.summary()["time_breakdown"].clone();
    let output = aiperf(&["report"]).arg(run.directory.path()).arg("--html").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(run.summary()["time_breakdown"], found);
    run_python("tests/read_report.py", run.directory.path());
    found
}

/// Checks the parts of a latency of at least 40 ms.
fn assert_divided(divided: &Value, tag: &str, stages: &[(&str, f64)], summary: &Value) {
    assert_eq!(divided["metric"], tag);
    let mean = divided["mean_ms"].as_f64().unwrap();
    assert_eq!(divided["mean_ms"], summary[tag]["avg"]);
    let parts = divided["parts"].as_array().unwrap();
    let of = |part: &Value, name: &str| part[name].as_f64().unwrap();
    let sum: f64 = parts.iter().map(|part| of(part, "mean_ms")).sum();
    assert!((sum - mean).abs() < 1e-9, "{divided}");
    let names: Vec<_> = parts.iter().map(|part| part["stage"].as_str().unwrap()).collect();
    let expected = stages.iter().map(|(name, _)| *name);
    let expected: Vec<_> =
        ["connection"].into_iter().chain(expected).chain(["unattributed"]).collect();
    assert_eq!(names, expected);
    for ((name, expected), part) in stages.iter().zip(&parts[1..]) {
        let (mean, bound) = (of(part, "mean_ms"), of(part, "bound_ms"));
        assert!((mean - expected).abs() <= bound && bound < 1e-3, "{name}: {divided}");
    }
    let (connection, rest) = (&parts[0], &parts[parts.len() - 1]);
    assert_eq!(connection["mean_ms"], summary["http_req_connection_overhead"]["avg"]);
    // The client waited at least 40 ms for what the server says took at most 20.
    assert!(of(rest, "mean_ms") + of(connection, "mean_ms") >= 20.0, "{divided}");
}

#[test]
fn latencies_are_the_sums_of_the_servers_times_and_a_remainder() {
    let run = run(4);
    let found = breakdown(&run);
    assert_eq!(found["request_count"], 4, "{found}");
    let summary = run.summary();
    let stages: [(&str, &[(&str, f64)]); 2] = [
        ("time_to_first_token", &[("front_end", 1.0), ("queue", 2.0), ("prefill", 5.0)]),
        (
            "request_latency",
            &[("front_end", 3.0), ("queue", 2.0), ("prefill", 5.0), ("decode", 10.0)],
        ),
    ];
    for (at, (tag, stages)) in stages.into_iter().enumerate() {
        assert_divided(&found["metrics"][at], tag, stages, &summary);
    }
    let console = run.text("profile_export_console.txt");
    assert!(console.contains("aiperf | Time Breakdown"), "{console}");
}

#[test]
fn each_server_is_divided_by_its_own_times() {
    for (series, first, whole) in SERVERS {
        // There were 3 times as many requests before the run.
        let run = run_between(of_series(series, 3), of_series(series, 4));
        let (summary, name) = (run.summary(), series[0].0);
        let found = &summary["time_breakdown"]["metrics"];
        assert!(found.is_array(), "{name}: {}", summary["time_breakdown"]);
        assert_divided(&found[0], "time_to_first_token", first, &summary);
        assert_divided(&found[1], "request_latency", whole, &summary);
    }
}

#[test]
fn separate_workers_have_the_stages_that_they_compute() {
    let without_transfer = &VLLM_DECODE[..6];
    let divided: [([&[Series]; 2], Parts, Parts); 3] = [
        (
            [VLLM_PREFILL, VLLM_DECODE],
            // 2 and 3 less 1.5; 5 and 1.
            &[("queue", 3.5), ("prefill", 6.0), ("kv_transfer", 1.5)],
            &[("queue", 3.5), ("prefill", 6.0), ("kv_transfer", 1.5), ("decode", 8.0)],
        ),
        (
            [VLLM_PREFILL, without_transfer],
            // 3 and 1, until the first token.
            &[("queue", 2.0), ("prefill", 5.0), ("kv_transfer_and_decode", 4.0)],
            &[("queue", 2.0), ("prefill", 5.0), ("kv_transfer_and_decode", 12.0)],
        ),
        (
            [SGLANG_PREFILL, SGLANG_DECODE],
            &[("queue", 3.0), ("prefill", 5.0), ("kv_transfer", 1.5)],
            &[("queue", 3.0), ("prefill", 5.0), ("kv_transfer", 1.5), ("decode", 10.0)],
        ),
    ];
    for (workers, first, whole) in divided {
        let run = run_on_workers(workers);
        let summary = run.summary();
        let found = &summary["time_breakdown"]["metrics"];
        assert!(found.is_array(), "{}", summary["time_breakdown"]);
        assert_divided(&found[0], "time_to_first_token", first, &summary);
        assert_divided(&found[1], "request_latency", whole, &summary);
    }
}

#[test]
fn a_label_of_dynamo_tells_workers_apart() {
    let frontend: &[Series] = &[
        ("dynamo_frontend_time_to_first_token_seconds", "model=\"m\"", Some(4), 60e-3),
        ("dynamo_frontend_request_duration_seconds", "model=\"m\"", Some(4), 120e-3),
    ];
    let component = |label| [("dynamo_component_requests_total", label, None, 4.0)];
    // Without counts of tokens, only the label tells which worker is which.
    let prefill = [&component("dynamo_component=\"prefill\"")[..], &VLLM_PREFILL[..5]].concat();
    let decode = [&component("dynamo_component=\"backend\"")[..], &VLLM_DECODE[..5]].concat();
    let endpoints = [frontend, &prefill, &decode].map(|series| {
        MetricsEndpoint::with([3, 4].map(|share| Reply::text(of_series(series, share))))
    });
    let run = run_at(&endpoints, &[]);
    let summary = run.summary();
    let found = &summary["time_breakdown"]["metrics"];
    assert!(found.is_array(), "{}", summary["time_breakdown"]);
    // 15 less 2, 5 and 4, and 30 less 2, 5 and 12.
    let parts: [Parts; 2] = [
        &[("front_end", 4.0), ("queue", 2.0), ("prefill", 5.0), ("kv_transfer_and_decode", 4.0)],
        &[("front_end", 11.0), ("queue", 2.0), ("prefill", 5.0), ("kv_transfer_and_decode", 12.0)],
    ];
    for (at, tag) in ["time_to_first_token", "request_latency"].into_iter().enumerate() {
        let stages = found[at]["parts"].as_array().unwrap();
        for ((stage, mean), part) in parts[at].iter().zip(&stages[1..]) {
            assert_eq!(part["stage"], *stage, "{tag}: {stages:?}");
            assert!((part["mean_ms"].as_f64().unwrap() - mean).abs() < 1e-6, "{tag}: {stages:?}");
        }
    }
}

#[test]
fn workers_that_cannot_be_told_apart_are_a_reason_not_to_divide() {
    let run = run_on_workers([&VLLM_PREFILL[..5], &VLLM_DECODE[..5]]);
    let reason = "vllm:request_queue_time_seconds counts 8 requests, twice the client's 4, as \
                  separate workers for prefill and decode do; no label and no count of tokens \
                  tells which worker is which";
    assert_eq!(breakdown(&run), serde_json::json!({ "reason": reason }));

    let [queue, prefill, ..] = SGLANG_PREFILL else { unreachable!() };
    let some = [(queue.0, queue.1, Some(3), queue.3), *prefill];
    let run = run_on_workers([&some, SGLANG_DECODE]);
    let reason = "sglang:queue_time_seconds counts 3 requests on the workers for prefill, the \
                  client 4; either not all requests have separate prefill and decode, or there \
                  were others";
    assert_eq!(run.summary()["time_breakdown"], serde_json::json!({ "reason": reason }));
}

#[test]
fn sweeps_and_comparisons_show_which_part_grows() {
    // Two cells of 4 requests each, which wait 2 ms and then 6 ms in the queue.
    let after = |count: u32, queue: f64| {
        let sums = [queue, f64::from(count) * 5e-3, f64::from(count) * 10e-3];
        let totals = [sums[0] + sums[1], sums[0] + sums[1] + sums[2]];
        let sums: Vec<f64> = sums.into_iter().chain(totals).collect();
        exposition(count, std::array::from_fn(|at| (NAMES[at], sums[at])))
    };
    let [start, middle, end] = [after(1, 2e-3), after(5, 10e-3), after(9, 34e-3)];
    let endpoint = MetricsEndpoint::with(
        [&start, &middle, &middle, &end].map(|text| Reply::text(text.as_str())),
    );
    let server = mock(Script { ttft: Nanos::from_millis(40.0), ..Script::default() });
    let metrics = endpoint.url("/metrics");
    let flags =
        ["--request-count", "4", "--concurrency", "1,2", "--server-metrics", metrics.as_str()];
    let directory = tempfile::tempdir().unwrap();
    let mut command = profile_command(&server.url(), directory.path(), &flags);
    command.env("AIPERF_SERVER_METRICS_COLLECTION_INTERVAL", "3600");
    let run = Run { output: command.output().unwrap(), directory }.succeeded();
    let aggregate =
        |name: &str| run.text(&format!("sweep_aggregate/profile_export_aiperf_sweep.{name}"));
    let found: Value = serde_json::from_str(&aggregate("json")).unwrap();
    for (cell, queue) in found["per_combination_metrics"].as_array().unwrap().iter().zip([2.0, 6.0])
    {
        let place = run.path(cell["directory"].as_str().unwrap());
        let own = &summary(&place)["time_breakdown"];
        for (divided, own) in
            [0, 1].map(|at| (&cell["time_breakdown"]["metrics"][at], &own["metrics"][at]))
        {
            for name in ["metric", "mean_ms", "parts"] {
                assert_eq!(divided[name], own[name], "{cell}");
            }
            let part = &divided["parts"][2];
            assert_eq!(part["stage"], "queue", "{divided}");
            assert!((part["mean_ms"].as_f64().unwrap() - queue).abs() < 1e-6, "{divided}");
        }
    }
    let csv = aggregate("csv").replace("\r\n", "\n");
    let (_, section) = csv.split_once("Time Breakdown\n").unwrap();
    let mut lines = section.lines();
    assert_eq!(lines.next(), Some("concurrency,Metric,Part,Mean (ms),Bound (ms)"));
    assert!(section.contains("\n2,request_latency,Queue,6.000000,"), "{section}");
    assert!(run.stdout().contains("aiperf | Time Breakdown (mean request latency in ms)"));
    run_python("tests/check_sweep.py", run.directory.path());

    let cells = [1, 2].map(|at| run.path(&format!("concurrency_{at}")));
    let output = aiperf(&["compare", "--format", "json"]).args(&cells).output().unwrap();
    let compared: Value = serde_json::from_slice(&output.stdout).unwrap();
    let parts = compared["comparisons"][0]["time_breakdown"].as_array().unwrap();
    let is_queue = |part: &&Value| part["stage"] == "queue" && part["metric"] == "request_latency";
    let queue = parts.iter().find(is_queue).unwrap();
    assert!((queue["difference_ms"].as_f64().unwrap() - 4.0).abs() < 1e-6, "{queue}");
    assert_eq!(queue.get("interval_ms"), None);
    let table = aiperf(&["compare"]).args(&cells).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(
        table.contains("request_latency: Queue (ms)") && table.contains("not tested"),
        "{table}"
    );
}

#[test]
fn the_parts_are_exported() {
    let collector = OtlpReceiver::http();
    let [sglang, ..] = SERVERS;
    let (before, after) = (of_series(sglang.0, 3), of_series(sglang.0, 4));
    let run = run_with(before, after, &["--otel-url", &collector.otel_url()]);
    let (summary, received) = (run.summary(), collector.last());
    for divided in summary["time_breakdown"]["metrics"].as_array().unwrap() {
        let name = format!("aiperf.time_breakdown.{}", divided["metric"].as_str().unwrap());
        for part in divided["parts"].as_array().unwrap() {
            let which = [("aiperf.stage", part["stage"].as_str().unwrap())];
            let expected = part["mean_ms"].as_f64().unwrap() / 1e3;
            let gauge = received.number(&name, &which);
            assert!((gauge - expected).abs() <= 1e-12, "{name} {part} {gauge}");
        }
    }
    assert_eq!(summary["telemetry"]["reconciled"], true, "{}", summary["telemetry"]);
    let problems = differences(&received.0, &Registry::read(), &mut BTreeSet::new());
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn a_counter_of_tokens_shows_other_requests() {
    let [.., llamacpp, _] = SERVERS;
    let run = run_between(of_series(llamacpp.0, 3), of_series(llamacpp.0, 5));
    let reason = "llamacpp:tokens_predicted counts 32 tokens, the client 16; the server's times \
                  are not those of the client's requests";
    assert_eq!(run.summary()["time_breakdown"], serde_json::json!({ "reason": reason }));
}

#[test]
fn other_requests_on_the_server_are_a_reason_not_to_divide() {
    let run = run(5);
    let found = breakdown(&run);
    let reason = "vllm:request_queue_time_seconds counts 5 requests, the client 4; the server's \
                  times are not those of the client's requests";
    assert_eq!(found, serde_json::json!({ "reason": reason }));
    let console = run.text("profile_export_console.txt");
    assert!(console.contains("No time breakdown: vllm:request_queue_time_seconds counts 5"));
}

/// A server that streams chats, and answers every other request with `other`.
fn server_without_times(other: &'static str) -> String {
    const CHAT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\
                        \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let address = raw_server::serve(move |_, stream| {
        while let Some(request) = read_request(stream) {
            let (head, body) = if request.starts_with("POST /v1/chat") {
                ("200 OK\r\ncontent-type: text/event-stream", CHAT)
            } else {
                other.split_once("\r\n\r\n").unwrap()
            };
            let length = body.len();
            let answer = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n{body}");
            raw_server::write(stream, answer.as_bytes());
        }
    });
    format!("http://{address}")
}

#[test]
fn a_server_without_times_is_a_reason() {
    const NONE: &str = "do not have the times of stages, as vLLM, SGLang, TensorRT-LLM, LMDeploy, ";
    let cases = [
        ("404 Not Found\r\n\r\nnone", "there are no metrics at", ", and the responses do not"),
        ("200 OK\r\ncontent-type: text/plain\r\n\r\n", "the metrics at", NONE),
        (
            "200 OK\r\ncontent-type: text/plain\r\n\r\n# TYPE up gauge\nup 1\n",
            "the metrics at",
            NONE,
        ),
    ];
    for (other, begin, why) in cases {
        let url = server_without_times(other);
        let run = profile(&url, &["--request-count", "2"]).succeeded();
        let found = breakdown(&run);
        let reason = found["reason"].as_str().unwrap_or_else(|| panic!("{other}: {found}"));
        let space = if why.starts_with(',') { "" } else { " " };
        let expected = format!("{begin} {url}/metrics{space}{why}");
        assert!(reason.starts_with(&expected), "{reason}");
        assert!(reason.contains("--server-metrics"), "{reason}");
        assert_eq!(found["is_unreported"], true);
        let console = run.text("profile_export_console.txt");
        assert!(console.contains(&format!("No time breakdown: {begin} {url}")), "{console}");

        let run = profile(&url, &["--request-count", "2", "--no-server-metrics"]).succeeded();
        assert_eq!(run.summary().get("time_breakdown"), None);
        assert!(!run.text("profile_export_console.txt").contains("ime breakdown"));
    }
}
