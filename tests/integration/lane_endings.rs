//! How a load of lanes ends: interrupted, without its server, in several processes, and with prompts that are too long.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output};
use std::time::{Duration, Instant};

use base::units::Nanos;
use mock_server::{MockServer, Script};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::lanes::{places, request, sent, three, trace};
use crate::shards::{Sharded, requests, run_together};
use crate::support::load::mock;
use crate::support::run::{Run, json_lines, profile_command, signal};

/// The longest wait for what must happen.
const BOUND: Duration = Duration::from_mins(2);

/// Starts lanes that replay these traces.
fn start(server: &MockServer, directory: &Path, traces: &[Value], flags: &str) -> Child {
    let file = written(directory, traces);
    let mut command = profile_command(&server.url(), directory, &["--input-file", &file]);
    command.args(["--custom-dataset-type", "weka_trace", "--agentic", "--random-seed", "42"]);
    command.args(flags.split_whitespace()).spawn().unwrap()
}

/// Writes a file of traces, and returns its path.
fn written(directory: &Path, traces: &[Value]) -> String {
    let file = directory.join("traces.jsonl");
    let lines: Vec<String> = traces.iter().map(Value::to_string).collect();
    fs::write(&file, lines.join("\n")).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Waits until the server has received so many requests.
fn wait_for(server: &MockServer, requests: u64) {
    let start = Instant::now();
    while server.requests_received() < requests {
        assert!(start.elapsed() < BOUND, "only {} requests came", server.requests_received());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the output of a process that ends by itself.
fn output(mut child: Child) -> Output {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > BOUND {
            child.kill().unwrap();
            panic!("the run does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

/// Returns the metric of a line of telemetry with this name.
fn named<'a>(line: &'a Value, name: &str) -> &'a Value {
    let list = |of: &'a Value, key: &str| of[key].as_array().unwrap().iter();
    let scopes = list(line, "resourceMetrics").flat_map(|of| list(of, "scopeMetrics"));
    scopes.flat_map(|of| list(of, "metrics")).find(|metric| metric["name"] == name).unwrap()
}

/// One lane, which sends one request in the primers, one in the warmup of the cache, and then the measurement.
#[test]
fn an_interrupt_in_each_phase_drains_it_and_writes_the_files() {
    let phases = ["primers", "cache_warmup", "profiling"];
    for count in 1..=phases.len() {
        let server = mock(Script { ttft: Nanos::from_seconds(3.0), ..Script::default() });
        let directory = tempfile::tempdir().unwrap();
        let flags = "--concurrency 1 --benchmark-duration 600 --warmup-requests-per-lane 1 \
                     --system-idle-gap-cap-seconds 0";
        let child = start(&server, directory.path(), &[three()], flags);
        wait_for(&server, count as u64);
        signal(&child, Signal::INT);
        let run = Run { output: output(child), directory };
        assert_eq!(run.exit_code(), Some(130), "{}", run.stderr());
        let summary = run.summary();
        assert_eq!(
            (&summary["was_cancelled"], &summary["is_complete"]),
            (&json!(true), &json!(false))
        );
        // Every request that was sent has returned.
        assert_eq!(server.requests_received(), count as u64);
        assert!(run.records().iter().all(|record| record["error"].is_null()));
        for (at, phase) in phases.into_iter().enumerate() {
            assert_eq!(
                places(&sent(&run, phase)),
                [(0, at as u64)][..usize::from(at < count)],
                "{phase}"
            );
        }
    }
}

#[test]
fn lanes_end_in_time_without_their_server() {
    let server = mock(Script { ttft: Nanos::from_millis(20.0), ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let flags = "--concurrency 2 --benchmark-duration 6 --benchmark-grace-period 1 \
                 --system-idle-gap-cap-seconds 0";
    let child = start(&server, directory.path(), &[three()], flags);
    // Two primers, and four requests of the measurement, of which at most two have not returned.
    wait_for(&server, 6);
    drop(server);
    let run = Run { output: output(child), directory };
    assert!([Some(0), Some(1)].contains(&run.exit_code()), "{}", run.stderr());
    let summary = run.summary();
    assert!(summary["request_count"]["avg"].as_f64() >= Some(2.0), "{summary}");
    assert!(summary["error_request_count"]["avg"].as_f64() >= Some(1.0), "{summary}");
    let records = run.records();
    assert!(records.iter().any(|record| !record["error"].is_null()));
    assert_eq!(summary["replay"]["lanes"], 2);
}

/// Six lanes, of which each of three processes has two: together they enter the same traces at the same places, and
/// send the same requests, as a single process does.
#[test]
fn shards_share_the_lanes() {
    let directory = tempfile::tempdir().unwrap();
    let traces: Vec<Value> = (0..6_u64)
        .map(|at| {
            let block = |number: u64| 10 * at + number;
            let first = request(0.0, 0.02, &[block(1), block(2)]);
            let second = request(0.05, 0.02, &[block(1), block(2), block(3)]);
            let third = request(0.1, 0.02, &[block(1), block(2), block(3), block(4)]);
            trace(&format!("t{at}"), &[first, second, third])
        })
        .collect();
    let file = written(directory.path(), &traces);
    let flags =
        "--custom-dataset-type weka_trace --agentic --concurrency 6 --num-sessions 3 --input-file";
    let flags: Vec<&str> = flags.split_whitespace().chain([&*file]).collect();
    let mut all = [Sharded::new(&flags)];
    run_together(&mut all);
    let [run] = all;
    let whole = [run.path("whole")];
    assert_eq!(requests(&run.parts()), requests(&whole));
    let lanes = |directories: &[PathBuf]| {
        let lines = directories.iter().flat_map(|it| json_lines(&it.join("profile_export.jsonl")));
        let primers = lines.filter(|line| line["metadata"]["phase_name"] == "primers");
        let of = |line: &Value, name: &str| line["metadata"][name].as_u64().unwrap();
        primers
            .map(|line| (of(&line, "session_num"), of(&line, "lane")))
            .collect::<BTreeMap<_, _>>()
    };
    let all = lanes(&whole);
    assert_eq!(lanes(&run.parts()), all);
    assert!(all.iter().all(|(session, lane)| session == lane), "{all:?}");
}

/// Every second request is too long. All that counts errors leaves them out: a threshold of 10%, the statistics and
/// telemetry. Lanes begin with the first turns of their traces, without primers.
#[test]
fn prompts_that_are_too_long_are_not_errors_of_a_scenario() {
    let rule = "every=2:status=400,This model's maximum context length is 10 tokens";
    let faults = vec![Script::parse_fault(rule).unwrap()];
    let server = mock(Script { faults, ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let otel = directory.path().join("otel");
    let flags = format!(
        "--scenario inferencex-agentx-mvp --unsafe-override --concurrency 1 --request-count 40 \
         --trajectory-start-min-ratio 0 --trajectory-start-max-ratio 0 \
         --system-idle-gap-cap-seconds 0 --failed-request-threshold 0.1 --otel-file {}",
        otel.display()
    );
    let child = start(&server, directory.path(), &[three()], &flags);
    let run = Run { output: output(child), directory };
    let summary = run.summary();
    let value = |name: &str| summary[name]["avg"].as_f64();
    assert_eq!(summary["was_cancelled"], false, "{}", run.stderr());
    assert_eq!(sent(&run, "profiling").len(), 40);
    assert_eq!(value("skipped_context_overflow_count"), Some(20.0));
    assert_eq!(value("request_count"), Some(20.0));
    assert_eq!(value("error_request_count"), None);
    assert_eq!(summary["telemetry"]["reconciled"], true, "{}", summary["telemetry"]);
    let lines = json_lines(&otel.join("metrics.jsonl"));
    let last =
        lines.iter().rfind(|line| line.to_string().contains("gen_ai.client.operation.duration"));
    let last = last.unwrap();
    let durations = named(last, "gen_ai.client.operation.duration");
    let counts = durations["histogram"]["dataPoints"].as_array().unwrap().iter();
    let is_measured = |point: &&Value| point.to_string().contains("profiling");
    let counts: Vec<&str> =
        counts.filter(is_measured).map(|it| it["count"].as_str().unwrap()).collect();
    assert_eq!(counts, ["20"]);
    assert!(!durations.to_string().contains("error.type"), "{durations}");
}
