//! Generated prompts: each session has its own, whatever ends the run, and so has each run of a command.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use base::units::Nanos;
use mock_server::{MockServer, PrefixCacheSize, Script};
use serde_json::Value;

use crate::shards::{Sharded, run_together};
use crate::support::load::mock;
use crate::support::run::{Run, aiperf, json_lines, profile};

fn server() -> MockServer {
    let prefix_cache = Some(PrefixCacheSize { block_tokens: 16, blocks: 1_000_000 });
    mock(Script {
        prefix_cache,
        output_tokens: 2,
        ttft: Nanos::from_millis(1.0),
        ..Script::default()
    })
}

/// Returns the bodies of the requests of a run, in the order of its file.
fn bodies(directory: &Path) -> Vec<String> {
    let lines = json_lines(&directory.join("profile_export_raw.jsonl"));
    lines.iter().map(|line| line["payload"].to_string()).collect()
}

fn different(bodies: &[String]) -> usize {
    bodies.iter().collect::<HashSet<_>>().len()
}

fn run(server: &MockServer, flags: &[&str]) -> Run {
    profile(&server.url(), &[&["--export-level", "raw"], flags].concat()).succeeded()
}

/// 100 conversations exist before the run.
#[test]
fn a_run_that_ends_by_its_duration_repeats_no_prompt() {
    let server = server();
    let duration = ["--benchmark-duration", "2", "--concurrency", "4"];
    let fresh = run(&server, &duration);
    let sent = bodies(fresh.directory.path());
    assert!(sent.len() > 200, "{}", sent.len());
    assert_eq!(different(&sent), sent.len());
    let summary = fresh.summary();
    let cache = &summary["prefix_cache"]["total"];
    assert_eq!([&cache["cached_ratio"], &cache["expected_ratio"]], [0.0, 0.0], "{cache}");
    // Each request has the tokens that were asked for, and its conversation has a name of its own.
    assert_eq!(summary["input_sequence_length"]["min"], 20.0);
    assert_eq!(summary["input_sequence_length"]["max"], 20.0);
    let records = fresh.records();
    let names: HashSet<String> =
        records.iter().map(|it| it["metadata"]["conversation_id"].to_string()).collect();
    assert_eq!(names.len(), sent.len());
    // The file of inputs has them all.
    let inputs: Value = serde_json::from_str(&fresh.text("inputs.json")).unwrap();
    let inputs = inputs["data"].as_array().unwrap();
    let texts: HashSet<String> =
        inputs.iter().map(|it| it["payloads"][0]["messages"].to_string()).collect();
    let raw = json_lines(&fresh.directory.path().join("profile_export_raw.jsonl"));
    assert!(raw.iter().all(|line| texts.contains(&line["payload"]["messages"].to_string())));

    let given = [&duration[..], &["--num-dataset-entries", "10"]].concat();
    let repeating = run(&server, &given);
    let sent = bodies(repeating.directory.path());
    assert_eq!(different(&sent), 10);
    assert!(!repeating.stdout().contains("prompts-repeat"), "{}", repeating.stdout());
}

#[test]
fn sessions_of_several_turns_and_other_endpoints_have_prompts_of_their_own() {
    let server = server();
    let duration = ["--benchmark-duration", "1.5", "--concurrency", "8"];
    for (flags, of_session) in [
        (&["--session-turns-mean", "2", "--warmup-request-count", "6"][..], 2),
        (&["--endpoint-type", "embeddings"], 1),
        (&["--user-context-prompt-length", "30", "--shared-system-prompt-length", "30"], 1),
        (&["--num-prefix-prompts", "2", "--prefix-prompt-length", "32"], 1),
    ] {
        let run = run(&server, &[&duration[..], flags].concat());
        let sent = bodies(run.directory.path());
        assert!(sent.len() > 110 * of_session, "{flags:?}: {}", sent.len());
        assert_eq!(different(&sent), sent.len(), "{flags:?}");
        let errors = &run.summary()["error_request_count"];
        assert!(errors.is_null(), "{flags:?}: {errors}");
    }
}

const TENANTS: &str = "tenants:
  - {name: a, concurrency: 3, isl: 30}
  - {name: b, concurrency: 2, isl: 25}
";

#[test]
fn tenants_have_prompts_of_their_own() {
    let server = server();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("tenants.yaml");
    std::fs::write(&file, TENANTS).unwrap();
    let flags = ["--benchmark-duration", "1.5", "--tenants", file.to_str().unwrap()];
    let run = run(&server, &flags);
    let sent = bodies(run.directory.path());
    assert!(sent.len() > 110, "{}", sent.len());
    assert_eq!(different(&sent), sent.len());
}

/// The directories of two trials of two loads.
const RUNS: [&str; 4] = [
    "profile_runs/trial_0001/rate_100.0",
    "profile_runs/trial_0001/rate_200.0",
    "profile_runs/trial_0002/rate_100.0",
    "profile_runs/trial_0002/rate_200.0",
];

/// Times between the due times of the requests of a run, in nanoseconds.
fn gaps(directory: &Path) -> Vec<u64> {
    let lines = json_lines(&directory.join("profile_export.jsonl"));
    let due = lines.iter().map(|line| line["metadata"]["request_due_ns"].as_u64().unwrap());
    let mut due: Vec<u64> = due.collect();
    due.sort_unstable();
    due.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn runs_of_a_command_share_neither_prompts_nor_arrivals_and_a_seed_repeats_all() {
    let server = server();
    let flags = "--request-rate 100,200 --request-count 20 --num-profile-runs 2 --random-seed 5 \
                 --shared-system-prompt-length 32";
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let made = |more: &[&str]| {
        let run = run(&server, &[&flags[..], more].concat());
        let found = RUNS.map(|name| {
            let directory = run.directory.path().join(name);
            let mut sent = bodies(&directory);
            sent.sort_unstable();
            (sent, gaps(&directory))
        });
        (run, found)
    };
    let (_kept, first) = made(&[]);
    let all: Vec<String> = first.iter().flat_map(|(sent, _)| sent.clone()).collect();
    assert_eq!((all.len(), different(&all)), (80, 80));
    // What was asked to be shared is shared by all runs.
    let system = |body: &String| -> Value {
        serde_json::from_str::<Value>(body).unwrap()["messages"][0].clone()
    };
    assert!(
        all.iter().all(|body| system(body) == system(&all[0]) && system(body)["role"] == "system")
    );
    let gaps: HashSet<&Vec<u64>> = first.iter().map(|(_, gaps)| gaps).collect();
    assert_eq!(gaps.len(), 4);
    // Due times are those of the schedule, apart from the start of the phase.
    let (_kept, again) = made(&[]);
    assert_eq!(first, again);
    let (_kept, same) = made(&["--set-consistent-seed"]);
    assert_eq!(same[0], same[2]);
    assert_eq!(same[1], same[3]);
}

/// 100 conversations exist before the run. The first 130 sessions are due long before its end.
#[test]
fn processes_send_what_one_sends() {
    let flags = "--request-rate 80 --arrival-pattern constant --benchmark-duration 3";
    let mut all = [Sharded::new(&flags.split(' ').collect::<Vec<_>>())];
    run_together(&mut all);
    let [run] = all;
    let sent = |directories: &[PathBuf]| -> BTreeMap<u64, String> {
        let lines =
            directories.iter().flat_map(|it| json_lines(&it.join("profile_export_raw.jsonl")));
        let number = |line: &Value| line["metadata"]["session_num"].as_u64().unwrap();
        let sent = lines.map(|line| (number(&line), line["payload"].to_string()));
        sent.filter(|(session, _)| *session < 130).collect()
    };
    let whole = sent(&[run.path("whole")]);
    assert_eq!(whole.len(), 130);
    assert_eq!(sent(&run.parts()), whole);
}

#[test]
fn rankings_have_texts_of_their_own() {
    let server = server();
    let place = tempfile::tempdir().unwrap();
    let flags = "profile --model mock-model --tokenizer builtin --ui none --export-level raw \
                 --endpoint-type nim_rankings --benchmark-duration 1.5 --concurrency 8";
    let mut command = aiperf(&flags.split_whitespace().collect::<Vec<_>>());
    command.args(["--url", &server.url(), "--artifact-dir"]).arg(place.path());
    assert!(command.output().unwrap().status.success());
    let sent = bodies(place.path());
    assert!(sent.len() > 110, "{}", sent.len());
    assert_eq!(different(&sent), sent.len());
}

/// 10,000 conversations exist before the run; those after them are like them.
#[test]
fn a_dry_run_counts_the_requests_of_conversations_that_do_not_exist_yet() {
    let flags = "profile --model mock-model --tokenizer builtin --url http://127.0.0.1:1 --isl 5 --osl 3 \
                 --request-count 12000 --dry-run=json";
    let output = aiperf(&flags.split_whitespace().collect::<Vec<_>>()).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["requests"], 12_000);
    assert_eq!(found["input_tokens"], 60_000.0);
}
