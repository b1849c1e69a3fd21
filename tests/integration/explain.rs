//! `aiperf explain`.

use base::units::Nanos;
use mock_server::Script;

use crate::support::load::mock;
use crate::support::run::{aiperf, profile};

/// Returns the exit code, and what is written to stdout and stderr.
fn explain(name: &str) -> (Option<i32>, String, String) {
    let output = aiperf(&["explain", name]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_run_is_explained_with_its_slowest_requests_and_the_server_around_them() {
    let script = Script { ttft: Nanos::from_millis(20.0), ..Script::default() };
    let server = mock(script);
    let flags = ["--concurrency", "4", "--request-count", "24"];
    let run = profile(&server.url(), &flags).succeeded();
    let (code, text, _) = explain(run.directory.path().to_str().unwrap());
    assert_eq!(code, Some(0), "{text}");
    // On a busy machine, it is the client that limits the results.
    let limits = ["limits the throughput", "The client limits the results"];
    assert!(limits.iter().any(|limit| text.contains(limit)), "{text}");
    assert!(text.contains("Client health: "), "{text}");
    let (_, slowest) = text.split_once("aiperf | Slowest Requests").expect("a table");
    let latency = |record: &serde_json::Value| {
        record["metrics"]["request_latency"]["value"].as_f64().unwrap()
    };
    let mut latencies: Vec<f64> = run.records().iter().map(latency).collect();
    latencies.sort_by(f64::total_cmp);
    let rows: Vec<&str> = slowest.lines().filter(|line| line.starts_with('│')).take(5).collect();
    for (row, latency) in rows.iter().zip(latencies.iter().rev()) {
        let shown: f64 = row.split('│').nth(3).unwrap().trim().parse().unwrap();
        assert!((shown - latency).abs() <= 0.06, "{latency}: {row}");
    }
    assert_eq!(rows.len(), 5, "{text}");
    let around = text.lines().find(|line| line.contains("vllm:num_requests_running"));
    assert!(around.is_some(), "{text}");
}

#[test]
fn of_several_runs_it_is_said_what_limits_each() {
    let script =
        Script { ttft: Nanos::from_millis(40.0), max_concurrent: Some(2), ..Script::default() };
    let server = mock(script);
    let flags = ["--concurrency", "1,16", "--request-count", "64"];
    let run = profile(&server.url(), &flags).succeeded();
    let (code, text, _) = explain(run.directory.path().to_str().unwrap());
    assert_eq!(code, Some(0), "{text}");
    let (of_one, of_many) = text.split_once("concurrency_16").expect("two runs");
    // Two of the sixteen run, so that the throughput is about twice that of one.
    // On a busy machine, the interval of a throughput may be too wide to tell.
    let growth = [
        "From concurrency 1 to 16 (16.0 times as many), ",
        "Whether the throughput grew from concurrency 1 to 16 is not known: ",
    ];
    assert!(growth.iter().any(|growth| of_one.starts_with(growth)), "{text}");
    assert!(of_one.contains("\n\nconcurrency_1\n"), "{text}");
    // Two run, and fourteen wait.
    let queue = "The server limits the throughput: on average it ran ";
    assert!(of_many.contains(queue) && !of_one.contains(queue), "{text}");
}

#[test]
fn names_are_explained_and_unknown_ones_get_the_nearest() {
    let (code, text, _) = explain("osl-mismatch");
    assert_eq!(code, Some(0));
    assert!(text.contains("What to do:") && text.contains("ignore_eos"), "{text}");
    let (code, _, said) = explain("time_to_first_tokn");
    assert_eq!(code, Some(1));
    assert!(said.contains("did you mean time_to_first_token"), "{said}");
    let (code, text, _) = explain("--request-rate");
    assert_eq!(code, Some(0));
    assert!(text.contains("--request-rate <"), "{text}");
}
