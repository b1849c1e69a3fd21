//! Shards that a scheduler numbers, and that agree on their start (`--shard auto`).

use std::fs;
use std::path::Path;
use std::process::{Child, Output};

use mock_server::{MockServer, Script};
use serde_json::Value;

use crate::support::load::mock;
use crate::support::run::{aiperf, json_lines, profile_command, summary};

const SHARDS: u64 = 3;

/// The task `rank` of torchrun, which shares `directory` with the others.
fn start(server: &MockServer, directory: &Path, rank: u64, more: &[&str]) -> Child {
    let flags = ["--shard", "auto", "--random-seed", "5", "--concurrency", "6"];
    let flags = [&flags[..], &["--request-count", "30", "--no-server-metrics"], more].concat();
    let mut command = profile_command(&server.url(), directory, &flags);
    command.env("RANK", rank.to_string()).env("WORLD_SIZE", SHARDS.to_string());
    command.spawn().unwrap()
}

fn run(server: &MockServer, directory: &Path, more: &[&str]) -> Vec<Output> {
    let all: Vec<Child> = (0..SHARDS).map(|rank| start(server, directory, rank, more)).collect();
    all.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn ids(directory: &Path) -> Vec<String> {
    let lines = json_lines(&directory.join("profile_export.jsonl")).into_iter();
    lines.map(|line| line["metadata"]["x_request_id"].to_string()).collect()
}

#[test]
fn tasks_agree_on_a_start_and_the_first_combines_them() {
    let server = mock(Script::default());
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("run");
    let outputs = run(&server, &directory, &[]);
    for output in &outputs {
        assert!(output.status.success(), "{}", stderr(output));
    }
    // Only the first prints results: those of all.
    let printed = String::from_utf8_lossy(&outputs[0].stdout);
    assert!(printed.contains("combined"), "{printed}");
    for other in &outputs[1..] {
        assert_eq!(String::from_utf8_lossy(&other.stdout), "");
    }

    let part = |index: u64| directory.join(format!("shard-{index}"));
    let parts: Vec<Value> = (0..SHARDS).map(|index| summary(&part(index))).collect();
    let whole = summary(&directory.join("combined"));
    assert_eq!(whole["request_count"]["avg"], 30.0);
    assert_eq!(whole["is_complete"], true);
    assert_eq!(whole["shards"]["count"], SHARDS);
    // Each process maps the wall clock to its own timer.
    assert!(whole["shards"]["start_spread_ms"].as_f64().unwrap() < 0.001);
    for (index, one) in (0..).zip(&parts) {
        assert_eq!(one["shard"]["index"], index);
        assert_eq!(one["start_at_ns"], whole["start_at_ns"]);
        assert_eq!(one["benchmark_id"], whole["benchmark_id"]);
        assert_eq!(one["agreement"]["absent"], Value::Array(Vec::new()));
        // The clocks of one machine do not differ by more than the error of the comparison.
        let clock = &whole["shards"]["parts"][index]["clock"];
        assert_eq!(clock, &one["agreement"]["clock"]);
        let [ahead, error] = ["ahead_ms", "error_ms"].map(|name| clock[name].as_f64().unwrap());
        assert!(ahead.abs() <= error, "{clock}");
    }
    let lines = (0..SHARDS).flat_map(|index| ids(&part(index)));
    assert_eq!(ids(&directory.join("combined")), lines.collect::<Vec<_>>());

    // A report of the same directories is the same.
    let before = fs::read(directory.join("combined/profile_export_aiperf.json")).unwrap();
    let parts = (0..SHARDS).map(part);
    let report = aiperf(&["report"]).args(parts).output().unwrap();
    assert!(report.status.success(), "{}", stderr(&report));
    assert_eq!(fs::read(directory.join("combined/profile_export_aiperf.json")).unwrap(), before);
    let agreement = summary(&part(1))["agreement"].clone();
    let report = aiperf(&["report"]).arg(part(1)).output().unwrap();
    assert!(report.status.success(), "{}", stderr(&report));
    assert_eq!(summary(&part(1))["agreement"], agreement);

    // Another run in the directory is refused, unless the files of the first may be moved aside; then
    // what the first left there does not start it.
    for refused in run(&server, &directory, &[]) {
        let said = stderr(&refused);
        assert!(!refused.status.success() && said.contains("--overwrite"), "{said}");
    }
    for again in run(&server, &directory, &["--overwrite"]) {
        assert!(again.status.success(), "{}", stderr(&again));
    }
    let second = summary(&directory.join("combined"));
    assert_eq!(second["request_count"]["avg"], 30.0);
    assert_ne!(second["benchmark_id"], whole["benchmark_id"]);
}

#[test]
fn those_that_are_ready_start_without_the_others() {
    let server = mock(Script::default());
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("run");
    // Longer than two processes take to start one after the other on a busy machine.
    let more = ["--wait-for-shards-timeout", "20"];
    let children = [0, 2].map(|rank| start(&server, &directory, rank, &more));
    let outputs = children.map(|child| child.wait_with_output().unwrap());
    let [first, last] = outputs.each_ref().map(stderr);
    assert!(outputs.iter().all(|output| output.status.success()), "{first}{last}");
    assert!(first.contains("1 of 3 shards were not ready within 20 s"), "{first}");
    let absent = |index: u64| {
        summary(&directory.join(format!("shard-{index}")))["agreement"]["absent"].clone()
    };
    assert_eq!([absent(0), absent(2)], [serde_json::json!([1]), serde_json::json!([1])]);
    let whole = summary(&directory.join("combined"));
    assert_eq!(whole["request_count"]["avg"], 20.0);
    assert_eq!(whole["incomplete_reason"], "1 of 3 shards are missing: 1");
}

#[test]
fn what_cannot_be_automatic_is_refused() {
    let refused = |variables: &[(&str, &str)], flags: &str, why: &str| {
        let mut command = aiperf(&["profile", "--model", "m", "--random-seed", "1"]);
        command.args(flags.split_whitespace()).envs(variables.iter().copied());
        let output = command.output().unwrap();
        let said = stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains(why), "{flags}: {said}");
    };
    refused(&[], "--shard auto", "no scheduler names the shard");
    refused(&[("RANK", "1")], "--shard auto", "RANK is set, but WORLD_SIZE is not");
    refused(&[("JOB_COMPLETION_INDEX", "1")], "--shard auto", "use --shard auto/N");
    let (rank, pmi) =
        ([("RANK", "1"), ("WORLD_SIZE", "4")], [("PMI_RANK", "1"), ("PMI_SIZE", "2")]);
    refused(&[rank, pmi].concat(), "--shard auto", "1/2 (PMI_RANK, PMI_SIZE) and 1/4 (RANK");
    refused(&rank, "--shard auto/5", "auto/5 contradicts the environment");
    let timeout = "--wait-for-shards-timeout 5";
    refused(&rank, &format!("--shard 1/4 --start-at 1 {timeout}"), "applies only to --shard auto");
    refused(&rank, &format!("--shard auto --start-at 1 {timeout}"), "applies only to --shard auto");
    refused(&rank, "--shard auto --concurrency 2", "fewer shards");
}
