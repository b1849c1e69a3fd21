//! The division of the client's latencies by the server's own times.

use aiperf::mock_server::Script;
use aiperf::units::Nanos;
use serde_json::Value;

use crate::support::load::mock;
use crate::support::metrics_endpoint::{MetricsEndpoint, Reply};
use crate::support::run::{Run, aiperf, profile, profile_command};

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

/// Four requests of 40 ms or more, of which a server with 7 earlier ones counts `count`.
fn run(count: u32) -> Run {
    let endpoint = MetricsEndpoint::with([
        Reply::text(exposition(7, NAMES.map(|name| (name, 64.0)))),
        Reply::text(exposition(
            7 + count,
            // Queue 2 ms, prefill 5 ms, decode 10 ms, 8 ms to the first token, 20 ms in all.
            std::array::from_fn(|at| (NAMES[at], 64.0 + [8.0, 20.0, 40.0, 32.0, 80.0][at] / 1e3)),
        )),
    ]);
    let server = mock(Script { ttft: Nanos::from_millis(40.0), ..Script::default() });
    let metrics = endpoint.url("/metrics");
    let flags = ["--request-count", "4", "--server-metrics", metrics.as_str()];
    let directory = tempfile::tempdir().unwrap();
    let mut command = profile_command(&server.url(), directory.path(), &flags);
    // Only the first scrape is before the phase, however long that takes.
    command.env("AIPERF_SERVER_METRICS_COLLECTION_INTERVAL", "3600");
    Run { output: command.output().unwrap(), directory }.succeeded()
}

/// Rebuilds the summary and returns the breakdown, which must be the same.
fn breakdown(run: &Run) -> Value {
    let found = run.summary()["time_breakdown"].clone();
    let output = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(run.summary()["time_breakdown"], found);
    found
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
        let divided = &found["metrics"][at];
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
            assert!((mean - expected).abs() <= bound && bound < 1e-6, "{name}: {divided}");
        }
        let (connection, rest) = (&parts[0], &parts[parts.len() - 1]);
        assert_eq!(connection["mean_ms"], summary["http_req_connection_overhead"]["avg"]);
        // The client waited at least 40 ms for what the server says took 20.
        assert!(of(rest, "mean_ms") + of(connection, "mean_ms") >= 20.0, "{divided}");
    }
    let console = run.text("profile_export_console.txt");
    assert!(console.contains("aiperf | Time Breakdown"), "{console}");
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

#[test]
fn a_server_without_times_is_not_mentioned() {
    let server = mock(Script::default());
    let run = profile(&server.url(), &["--request-count", "2"]).succeeded();
    assert_eq!(run.summary().get("time_breakdown"), None);
    assert!(!run.text("profile_export_console.txt").contains("ime breakdown"));
}
