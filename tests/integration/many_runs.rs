//! Many runs of one load in one process, statistics over these runs, and the search for a load.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use base::units::Nanos;
use mock_server::{Config, MockServer, Script};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::metrics_endpoint::wait_until;
use crate::support::otlp_receiver::{OtlpReceiver, Received};
use crate::support::python::run_python;
use crate::support::raw_server;
use crate::support::run::{Run, aiperf, profile, profile_command, signal};

/// Time limit for waiting on another process.
const BOUND: Duration = Duration::from_mins(1);

fn mock(script: Script) -> MockServer {
    MockServer::start(Config { script, ..Config::default() }).unwrap()
}

fn faulty(fault: &str) -> MockServer {
    mock(Script { faults: vec![Script::parse_fault(fault).unwrap()], ..Script::default() })
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap()
}

fn aggregate(directory: &Path) -> Value {
    json(&directory.join("aggregate/profile_export_aiperf_aggregate.json"))
}

fn run_directory(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("profile_runs/run_{number:04}"))
}

fn summary(directory: &Path, number: u64) -> Value {
    json(&run_directory(directory, number).join("profile_export_aiperf.json"))
}

#[test]
fn statistics_are_those_of_the_runs_files() {
    let script = Script { ttft: Nanos::from_millis(2.0), ..Script::default() };
    let server = mock(script);
    let run = profile(
        &server.url(),
        &[
            "--concurrency",
            "3",
            "--request-count",
            "12",
            "--warmup-request-count",
            "3",
            "--num-profile-runs",
            "3",
            "--confidence-level",
            "0.9",
            "--goodput",
            "request_latency:1000",
        ],
    )
    .succeeded();
    let directory = run.directory.path();
    assert_eq!(server.requests_received(), 3 + 3 * 12, "one warmup");
    let summaries: Vec<Value> = (1..=3).map(|number| summary(directory, number)).collect();
    let ids: BTreeSet<_> = summaries.iter().map(|s| s["benchmark_id"].to_string()).collect();
    assert_eq!(ids.len(), 3, "each has an id of its own");
    let seeds: BTreeSet<_> =
        summaries.iter().map(|it| it["run_info"]["random_seed"].to_string()).collect();
    assert_eq!(seeds.len(), 3, "and a seed of its own");
    let first = &summaries[0]["run_info"]["config"]["dataset"];
    let found = aggregate(directory);
    assert_eq!(found["metadata"]["num_profile_runs"], 3);
    assert_eq!(found["metadata"]["num_successful_runs"], 3);
    assert_eq!(found["metadata"]["aggregation_type"], "confidence");
    assert_eq!(found["metadata"]["confidence_level"], 0.9);
    for (trial, summary) in summaries.iter().enumerate() {
        let info = &summary["run_info"];
        assert_eq!(info["trial"], trial);
        assert_eq!(info["run_label"], format!("trial_{:04}", trial + 1));
        assert_eq!(info["sweep_id"], found["metadata"]["sweep_id"]);
        assert_eq!(info["config"]["dataset"]["shared_seed"], first["shared_seed"]);
        assert_eq!(found["metadata"]["runs"][trial]["benchmark_id"], summary["benchmark_id"]);
        assert_eq!(summary["input_config"]["phases"].as_array().unwrap().len(), 2 - trial.min(1));
        assert_eq!(summary.get("warmup_metrics").is_some(), trial == 0);
        let place = run_directory(directory, trial as u64 + 1);
        assert_eq!(summary["input_config"]["artifacts"]["dir"], place.display().to_string());
        for file in ["profile_export.jsonl", "profile_export_console.txt", "logs/aiperf.log"] {
            assert!(place.join(file).is_file(), "{file}");
        }
    }
    // Each run has prompts of its own.
    let inputs = |number| fs::read(run_directory(directory, number).join("inputs.json")).unwrap();
    assert_ne!(inputs(1), inputs(3));
    let stdout = run.stdout();
    assert!(stdout.contains("Run 2 of 3 (profile_runs/run_0002): 12 requests"), "{stdout}");
    assert!(stdout.contains("Over 3 runs, with 90% confidence intervals"), "{stdout}");
    run_python("tests/check_many_runs.py", directory);
    // A report from the records describes the same run.
    let report = crate::support::run::aiperf(&["report"]).arg(run_directory(directory, 2)).output();
    assert!(report.unwrap().status.success());
    assert_eq!(summary(directory, 2)["run_info"], summaries[1]["run_info"]);
    fs::remove_file(run_directory(directory, 2).join("run_manifest.json")).unwrap();
    let report = crate::support::run::aiperf(&["report"]).arg(run_directory(directory, 2)).output();
    assert!(report.unwrap().status.success());
    assert_eq!(summary(directory, 2)["run_info"], summaries[1]["run_info"]);
}

#[test]
fn many_runs_are_reported_again() {
    let server = faulty("requests=7,8,9,10,11,12:status=503");
    let flags = ["--request-count", "6", "--num-profile-runs", "4", "--confidence-level", "0.8"];
    let run = profile(&server.url(), &flags);
    let directory = run.directory.path();
    let before = aggregate(directory);
    let csv = directory.join("aggregate/profile_export_aiperf_aggregate.csv");
    let table = fs::read_to_string(&csv).unwrap();
    let collated = directory.join("aggregate/profile_export_aiperf_collated.json");
    let requests = json(&collated)["metrics"].clone();
    fs::remove_dir_all(directory.join("aggregate")).unwrap();
    fs::remove_file(run_directory(directory, 3).join("profile_export_aiperf.json")).unwrap();
    let report = || crate::support::run::aiperf(&["report"]).arg(directory).output().unwrap();
    let output = report();
    assert_eq!(output.status.code(), Some(1), "as after the runs: {output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("1 of 4 runs failed"), "{said}");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("Over 3 runs, with 80% confidence intervals"), "{shown}");
    let after = aggregate(directory);
    assert_eq!(after["metrics"], before["metrics"]);
    assert_eq!(after["metadata"]["runs"], before["metadata"]["runs"]);
    assert_eq!(after["metadata"]["sweep_id"], before["metadata"]["sweep_id"]);
    assert_eq!(after["metadata"]["run_labels"], before["metadata"]["run_labels"]);
    assert_eq!(after["metadata"]["failed_runs"][0]["label"], "trial_0002");
    assert_eq!(fs::read_to_string(&csv).unwrap().lines().next(), table.lines().next());
    assert_eq!(json(&collated)["metrics"], requests);
    assert_eq!(summary(directory, 3)["request_count"]["avg"], 6.0);
    // Without records, the statistics remain unchanged.
    for number in 1..=4 {
        fs::remove_file(run_directory(directory, number).join("profile_export.jsonl")).unwrap();
    }
    let output = report();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("none of the runs"), "{said}");
    assert_eq!(aggregate(directory), after);
}

#[test]
fn runs_end_when_they_have_converged() {
    let server = mock(Script::default());
    // The number of requests is the same in each run, and the latency is not.
    let converging = ["--convergence-metric", "request_count", "--convergence-mode", "cv"];
    let mut flags = vec!["--num-profile-runs", "5", "--request-count", "4"];
    flags.extend(converging);
    let run = profile(&server.url(), &flags).succeeded();
    let directory = run.directory.path();
    let before = aggregate(directory);
    let found = &before["metadata"]["convergence"];
    assert_eq!(
        *found,
        serde_json::json!({
            "metric": "request_count", "stat": "avg", "mode": "cv", "threshold": 0.05,
            "observed": 0.0, "converged": true, "reason": "converged", "num_runs": 3,
        })
    );
    assert_eq!(before["metadata"]["num_profile_runs"], 5);
    assert_eq!(before["metadata"]["was_cancelled"], false);
    let stdout = run.stdout();
    assert!(stdout.contains("Run 3 (profile_runs/run_0003)"), "{stdout}");
    assert!(
        stdout.contains("Converged after 3 of at most 5 runs: the cv of request_count"),
        "{stdout}"
    );
    fs::remove_dir_all(directory.join("aggregate")).unwrap();
    let report = crate::support::run::aiperf(&["report"]).arg(directory).output().unwrap();
    assert!(report.status.success(), "{report:?}");
    assert_eq!(aggregate(directory), before);
    // In a sweep, each cell has as many runs as it needs.
    let latency = ["--convergence-metric", "request_latency", "--convergence-threshold", "1e-12"];
    for (condition, runs, reason) in [(converging, 3, "converged"), (latency, 4, "max_runs")] {
        let mut flags = vec!["--num-profile-runs", "4", "--concurrency", "1,2"];
        flags.extend(["--request-count", "4"]);
        flags.extend(condition);
        let run = profile(&server.url(), &flags).succeeded();
        let place = run.path("aggregate/sweep_aggregate/profile_export_aiperf_sweep.json");
        let found = json(&place);
        assert_eq!(found["num_profile_runs"], 2 * runs);
        assert_eq!(found["is_complete"], true);
        for cell in found["per_combination_metrics"].as_array().unwrap() {
            assert_eq!(cell["convergence"]["reason"], reason, "{:#}", cell["convergence"]);
            assert_eq!(cell["convergence"]["num_runs"], runs);
            assert_eq!(cell["runs"].as_array().unwrap().len() as u64, runs);
            assert_eq!(cell["error"], Value::Null);
        }
        assert!(run.stdout().contains("Converged"), "{}", run.stdout());
    }
}

#[test]
fn the_runs_before_a_kill_are_reported() {
    let server = mock(Script { ttft: Nanos::from_millis(20.0), ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--request-count", "5", "--num-profile-runs", "3"];
    let mut child = profile_command(&server.url(), directory.path(), &flags).spawn().unwrap();
    while server.requests_received() < 11 {
        thread::sleep(Duration::from_millis(1));
    }
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert!(!directory.path().join("aggregate/profile_export_aiperf_aggregate.json").exists());
    let output = crate::support::run::aiperf(&["report"]).arg(directory.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let found = aggregate(directory.path());
    assert_eq!(found["metadata"]["num_profile_runs"], 3);
    assert_eq!(found["metadata"]["num_successful_runs"], 2);
    assert_eq!(found["metadata"]["failed_runs"][0]["label"], "trial_0003");
    assert_eq!(found["metrics"]["request_count_avg"]["mean"], 5.0);
}

#[test]
fn the_table_of_students_t_is_scipys() {
    run_python(
        "tests/check_student_t.py",
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").as_path(),
    );
}

#[test]
fn the_quantiles_of_lengths_are_scipys() {
    run_python(
        "tests/check_lengths.py",
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").as_path(),
    );
}

#[test]
fn seeds_may_differ_and_warmups_be_repeated() {
    let server = mock(Script::default());
    let flags = [
        "--request-count",
        "4",
        "--warmup-request-count",
        "2",
        "--num-profile-runs",
        "2",
        "--no-profile-run-disable-warmup-after-first",
        "--vary-seed-per-trial",
        "--random-seed",
        "7",
    ];
    let [first, again] = [(), ()].map(|()| profile(&server.url(), &flags).succeeded());
    assert_eq!(server.requests_received(), 2 * 2 * 6);
    let seed = |run: &Run, number| {
        summary(run.directory.path(), number)["run_info"]["random_seed"].clone()
    };
    let seeds = [seed(&first, 1), seed(&first, 2)];
    assert_ne!(seeds[0], seeds[1]);
    assert_eq!(seeds, [seed(&again, 1), seed(&again, 2)], "they follow from the common one");
    let inputs =
        |number| fs::read(run_directory(first.directory.path(), number).join("inputs.json"));
    assert_ne!(inputs(1).unwrap(), inputs(2).unwrap());
    let inconsistent = profile(
        &server.url(),
        &["--request-count", "4", "--num-profile-runs", "2", "--no-set-consistent-seed"],
    )
    .succeeded();
    assert_ne!(seed(&inconsistent, 1), seed(&inconsistent, 2));
}

#[test]
fn a_failed_run_is_named_and_the_next_one_made() {
    // The requests of the second run, which does not have a warmup.
    let server = faulty("requests=7,8,9,10,11,12:status=503");
    let run = profile(&server.url(), &["--request-count", "6", "--num-profile-runs", "3"]);
    assert_eq!(run.exit_code(), Some(1), "{}", run.stderr());
    assert!(run.stderr().contains("1 of 3 runs failed"), "{}", run.stderr());
    let directory = run.directory.path();
    let found = aggregate(directory);
    let failed = found["metadata"]["failed_runs"].as_array().unwrap();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["label"], "trial_0002");
    assert!(failed[0]["error"].as_str().unwrap().contains("no request succeeded"), "{failed:?}");
    assert_eq!(
        found["metadata"]["run_labels"],
        serde_json::json!(["trial_0001", "trial_0002", "trial_0003"])
    );
    assert_eq!(found["metrics"]["request_count_avg"]["num_runs"], 2);
    assert_eq!(summary(directory, 2)["error_request_count"]["avg"], 6.0);
    assert!(run.stdout().contains("trial_0002 is excluded: no request"), "{}", run.stdout());
    run_python("tests/check_many_runs.py", directory);
}

/// Returns the URL of a server whose first response creates a file at `path`, where the program
/// needs a directory.
fn putting_in_the_way(path: PathBuf) -> String {
    let address = raw_server::serve(move |_, stream| {
        while raw_server::read_request(stream).is_some() {
            if !path.exists() {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, "in the way").unwrap();
            }
            let delta = json!({"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]});
            let body = format!("data: {delta}\n\ndata: [DONE]\n\n");
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
            let length = body.len();
            let answer = format!("{head}content-length: {length}\r\n\r\n{body}");
            raw_server::write(stream, answer.as_bytes());
        }
    });
    format!("http://{address}")
}

#[test]
fn a_run_whose_files_cannot_be_made_says_nothing_of_the_load() {
    let directory = tempfile::tempdir().unwrap();
    let server = putting_in_the_way(run_directory(directory.path(), 2));
    let flags = ["--request-count", "4", "--num-profile-runs", "3"];
    let output = profile_command(&server, directory.path(), &flags).output().unwrap();
    let run = Run { output, directory };
    assert_eq!(run.exit_code(), Some(1), "{}", run.stderr());
    let found = aggregate(run.directory.path());
    assert_eq!(
        found["metadata"]["run_labels"],
        serde_json::json!(["trial_0001", "trial_0002", "trial_0003"])
    );
    let error = found["metadata"]["failed_runs"][0]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("cannot create the artifact directory"), "{error}");
    // A search would attribute it to the load.
    let directory = tempfile::tempdir().unwrap();
    let server = putting_in_the_way(directory.path().join("search_iter_0001"));
    let flags = [
        "--request-count",
        "4",
        "--search-recipe",
        "max-goodput-under-slo",
        "--goodput",
        "request_latency:60000",
    ];
    let output = profile_command(&server, directory.path(), &flags).output().unwrap();
    let run = Run { output, directory };
    assert_eq!(run.exit_code(), Some(1), "{}", run.stderr());
    assert!(
        run.stderr().contains("could not continue at concurrency 2: cannot create"),
        "{}",
        run.stderr()
    );
    let found = history(&run);
    assert_eq!(found["convergence_reason"], "aborted");
    assert_eq!(found["boundary_summary"]["infeasible_min"], Value::Null);
}

#[test]
fn one_run_of_many_has_neither_interval_nor_aggregate() {
    let server = faulty("requests=5,6,7,8:status=503");
    let run = profile(&server.url(), &["--request-count", "4", "--num-profile-runs", "2"]);
    assert_eq!(run.exit_code(), Some(1), "{}", run.stderr());
    assert!(!run.directory.path().join("aggregate").exists());
    let stdout = run.stdout();
    assert!(stdout.contains("Only one run was completed"), "{stdout}");
}

#[test]
fn without_a_run_that_succeeds_each_run_has_its_files() {
    let server = faulty("all:status=503");
    let run = profile(&server.url(), &["--request-count", "2", "--num-profile-runs", "2"]);
    assert_eq!(run.exit_code(), Some(1), "{}", run.stderr());
    assert!(!run.directory.path().join("aggregate").exists());
    for trial in [1, 2] {
        assert_eq!(summary(run.directory.path(), trial)["error_request_count"]["avg"], 2.0);
    }
    assert!(run.stderr().contains("2 of 2 runs failed"), "{}", run.stderr());
}

/// Waits for the end of a program that received a signal.
fn ended(child: Child, directory: tempfile::TempDir) -> Run {
    let output: Output = child.wait_with_output().unwrap();
    Run { output, directory }
}

#[test]
fn an_interrupt_in_a_run_ends_with_the_runs_before_it() {
    let server = mock(Script { ttft: Nanos::from_millis(20.0), ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--request-count", "50", "--num-profile-runs", "3"];
    let child = profile_command(&server.url(), directory.path(), &flags).spawn().unwrap();
    while server.requests_received() < 77 {
        thread::sleep(Duration::from_millis(1));
    }
    signal(&child, Signal::INT);
    let run = ended(child, directory);
    assert_eq!(run.exit_code(), Some(130), "{}", run.stderr());
    assert_eq!(summary(run.directory.path(), 2)["was_cancelled"], true);
    assert!(!run_directory(run.directory.path(), 3).exists());
}

#[test]
fn an_interrupt_in_the_pause_ends_with_what_is_there() {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let flags = [
        "--request-count",
        "4",
        "--num-profile-runs",
        "3",
        "--profile-run-cooldown-seconds",
        "600",
    ];
    let child = profile_command(&server.url(), directory.path(), &flags).spawn().unwrap();
    let manifest = run_directory(directory.path(), 1).join("run_manifest.json");
    let begun = Instant::now();
    while !fs::read_to_string(&manifest).is_ok_and(|text| text.contains("\"end\"")) {
        assert!(begun.elapsed() < BOUND, "the first run does not end");
        thread::sleep(Duration::from_millis(5));
    }
    signal(&child, Signal::INT);
    let run = ended(child, directory);
    assert_eq!(run.exit_code(), Some(130), "{}", run.stderr());
    assert_eq!(summary(run.directory.path(), 1)["is_complete"], true);
    assert!(!run_directory(run.directory.path(), 2).exists());
}

#[test]
fn each_run_has_telemetry_of_its_own() {
    let server = mock(Script::default());
    let collector = OtlpReceiver::grpc();
    let url = format!("http://{}", collector.address());
    let run = profile(
        &server.url(),
        &["--request-count", "6", "--num-profile-runs", "3", "--otel-url", &url],
    )
    .succeeded();
    let directory = run.directory.path();
    let mut of_runs: Vec<(String, u64)> = (1..=3)
        .map(|number| (summary(directory, number)["benchmark_id"].as_str().unwrap().to_owned(), 0))
        .collect();
    let sweep = aggregate(directory)["metadata"]["sweep_id"].as_str().map(str::to_owned);
    for export in collector.taken() {
        let received = Received(export.message);
        let id = received.resource("aiperf.benchmark.id");
        let Some(run) = of_runs.iter_mut().find(|(run, _)| Some(run) == id.as_ref()) else {
            panic!("an export of no run: {id:?}")
        };
        // Server metrics are only attributed to the run that scraped them.
        if received.resource("service.name").as_deref() == Some("aiperf") {
            assert_eq!(received.resource("aiperf.sweep.id"), sweep);
            let count = received.number("aiperf.request_count", &[]);
            run.1 = run.1.max(count as u64);
        }
    }
    // Counts start from zero in each run.
    assert!(of_runs.iter().all(|(_, count)| *count == 6), "{of_runs:?}");
}

/// Returns the numbers of threads and of open files of a process.
fn held(pid: u32) -> [usize; 2] {
    ["task", "fd"]
        .map(|kind| fs::read_dir(format!("/proc/{pid}/{kind}")).map_or(0, Iterator::count))
}

/// Returns the nice values of the threads of a process whose names start with `name`.
fn nice(pid: u32, name: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    stats
        .filter_map(|stat| {
            let (head, fields) = stat.rsplit_once(") ")?;
            // The 19th field, counted from 1; the name is the second.
            let nice = fields.split(' ').nth(16)?.to_owned();
            head.split_once('(')?.1.starts_with(name).then_some(nice)
        })
        .collect()
}

#[cfg(target_os = "linux")]
#[test]
fn runs_leave_neither_threads_nor_files_behind() {
    // Each run sends one request; the resources of the process are counted before the response. What
    // is created once per process exists from the second run on. A thread that has ended may take a
    // moment to disappear, so the later runs wait for the counts of the first ones; leaked resources
    // accumulate.
    let pid: Arc<OnceLock<u32>> = Arc::default();
    let counts: Arc<Mutex<Vec<[usize; 2]>>> = Arc::default();
    let (of, kept) = (Arc::clone(&pid), Arc::clone(&counts));
    let address = raw_server::serve(move |_, stream| {
        while let Some(request) = raw_server::read_request(stream) {
            if !request.starts_with("POST") {
                raw_server::write(stream, b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
                continue;
            }
            let pid = *of.wait();
            // Threads that send requests never have a lower priority.
            assert_eq!(nice(pid, "worker"), nice(pid, "signals"));
            let mut counts = kept.lock().unwrap();
            if let Some(first) = counts.get(1..4) {
                let is_as_before =
                    |kind: usize, now: usize| first.iter().any(|count| now <= count[kind]);
                wait_until("fewer threads and files", || {
                    let [threads, files] = held(pid);
                    is_as_before(0, threads) && is_as_before(1, files)
                });
            }
            counts.push(held(pid));
            drop(counts);
            let body = r#"{"choices":[{"message":{"role":"assistant","content":"one"}}]}"#;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
            let answer = format!("{head} {}\r\n\r\n{body}", body.len());
            raw_server::write(stream, answer.as_bytes());
        }
    });
    let collector = OtlpReceiver::http();
    let directory = tempfile::tempdir().unwrap();
    let url = format!("http://{address}");
    let otel = format!("http://{}", collector.address());
    let mut command =
        crate::support::run::aiperf(&["profile", "--model", "m", "--tokenizer", "builtin"]);
    command.args(["--url", &url, "--otel-url", &otel, "--ui", "none", "--request-count", "1"]);
    command.args(["--num-profile-runs", "10", "--artifact-dir"]).arg(directory.path());
    let child = command.spawn().unwrap();
    pid.set(child.id()).unwrap();
    let run = ended(child, directory).succeeded();
    assert_eq!(aggregate(run.directory.path())["metadata"]["num_successful_runs"], 10);
    let counts = counts.lock().unwrap().clone();
    assert_eq!(counts.len(), 10);
    assert!(counts.iter().flatten().all(|count| *count > 2), "{counts:?}");
}

/// Maximum number of requests that the server below processes at once.
const CAPACITY: u64 = 3;

/// A server that responds after 450 ms. Beyond its capacity, requests wait 150 ms each if they
/// arrive one by one; if they arrive all at once, one in four waits for a whole response.
fn server_of_three() -> MockServer {
    mock(Script {
        ttft: Nanos::from_millis(100.0),
        max_concurrent: Some(CAPACITY as usize),
        ..Script::default()
    })
}

fn history(run: &Run) -> Value {
    json(&run.path("search_history.json"))
}

/// Returns what a search found that must be able to tell the limit, unless other programs kept the
/// client from keeping up in all runs of a load.
fn told(run: &Run) -> Value {
    let found = history(run);
    let is_told = found["limit"]["is_told"] == true;
    let expected = if is_told { 0 } else { 4 };
    assert_eq!(run.exit_code(), Some(expected), "{}", run.stderr());
    let mut loads = found["iterations"].as_array().unwrap().iter();
    let is_doubted = loads.any(|load| load["is_believed"] == false);
    let is_whole = is_told && !found["limit"]["shown_missed_from"].is_null();
    assert!(is_whole || is_doubted, "{found:#}");
    if is_whole {
        assert_eq!(found["convergence_reason"], "monotonic_precision_reached");
    }
    found
}

#[test]
fn the_search_finds_the_capacity() {
    let server = server_of_three();
    let run = profile(
        &server.url(),
        &[
            "--search-recipe",
            "max-goodput-under-slo",
            "--goodput",
            "request_latency:150",
            "--request-count",
            "20",
            "--concurrency-min",
            "2",
            "--concurrency-max",
            "100",
        ],
    );
    let found = told(&run);
    assert_eq!(found["recipe"], "max-goodput-under-slo");
    let at = |value: &Value| value["variation_values"]["phases.profiling.concurrency"].as_u64();
    let best = &found["best_trials"][0];
    let capacity = at(best).unwrap();
    // A machine that stalls may miss it by one step.
    assert!(capacity.abs_diff(CAPACITY) <= 1, "{found:#}");
    assert_eq!(best["feasible"], true);
    let boundary = &found["boundary_summary"];
    assert_eq!(boundary["feasible_max"]["value"], capacity);
    assert_eq!(boundary["infeasible_min"]["value"], capacity + 1);
    if !found["limit"]["shown_missed_from"].is_null() {
        assert_eq!(found["limit"]["shown_met_until"], capacity);
        assert_eq!(found["limit"]["shown_missed_from"], capacity + 1);
    }
    assert_eq!(boundary["infeasible_min"]["first_breach"]["metric_tag"], "good_request_fraction");
    assert_eq!(at(&found["best_neighbours"]["above"]), Some(capacity + 1));
    let tried: Vec<u64> = found["iterations"].as_array().unwrap().iter().filter_map(at).collect();
    assert_eq!(tried[..2], [2, 4]);
    for (index, concurrency) in tried.iter().enumerate() {
        let place = run.path(&format!("search_iter_{index:04}/profile_runs/run_0001"));
        let summary = json(&place.join("profile_export_aiperf.json"));
        assert_eq!(summary["load"]["requested_concurrency"], *concurrency);
        assert_eq!(summary["run_info"]["variation_label"], format!("search_iter_{index:04}"));
        let values = &summary["run_info"]["variation_values"];
        assert_eq!(values["phases.profiling.concurrency"], *concurrency);
        let iteration = &found["iterations"][index];
        // 0.95^71 is above 2.5%, 0.95^72 is not.
        assert!(summary["request_count"]["avg"].as_f64() >= Some(72.0), "{summary:#}");
        // The results of a load that was run again are of all its runs.
        if !place.with_file_name("run_0002").exists() {
            assert_eq!(iteration["objective_values"][0], summary["goodput"]["avg"]);
            assert_eq!(
                iteration["observed"]["good_request_fraction_avg"],
                summary["good_request_fraction"]["avg"]
            );
        }
    }
    let stdout = run.stdout();
    let longer = "Each load sends at least 72 requests instead of 20";
    assert!(run.stderr().contains(longer), "{}", run.stderr());
    assert!(stdout.contains("Search for Maximum Goodput"), "{stdout}");
    assert!(stdout.contains(&format!("at concurrency {capacity}")), "{stdout}");
}

#[test]
fn a_search_is_continued_and_reported_again() {
    let server = mock(Script { ttft: Nanos::from_millis(10.0), ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let search = |more: &[&str]| {
        let mut flags = vec!["--search-recipe", "max-concurrency-under-sla", "--request-count"];
        flags.extend(["12", "--concurrency-max", "4", "--num-profile-runs", "2"]);
        flags.extend(["--search-sla", "request_count:avg:le:400", "--error-rate-sla", "0.5"]);
        flags.extend(more);
        let output = profile_command(&server.url(), directory.path(), &flags).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), error)
    };
    let found = || json(&directory.path().join("search_history.json"));
    // The time is over after the first run.
    let (code, stdout, error) = search(&["--search-max-duration", "0.1"]);
    assert_eq!(code, Some(4), "{error}");
    assert!(stdout.contains("within --sweep-max-duration"), "{stdout}");
    assert_eq!(found()["convergence_reason"], "cancelled");
    let first = directory.path().join("search_iter_0000/profile_runs/run_0001");
    let first = first.join("profile_export_aiperf.json");
    let finished = fs::read(&first).ok();
    let (code, _, error) = search(&["--resume", "--random-seed", "7"]);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("not the sweep"), "{error}");
    let (code, stdout, error) = search(&["--resume"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(stdout.contains("Search for Highest Concurrency"), "{stdout}");
    assert!(stdout.contains("Highest concurrency: 4, with "), "{stdout}");
    if let Some(finished) = finished {
        assert_eq!(fs::read(&first).unwrap(), finished);
    }
    let history = found();
    assert_eq!(history["convergence_reason"], "monotonic_no_failure_in_range");
    assert_eq!(history["boundary_summary"]["feasible_max"]["value"], 4);
    assert_eq!(history["iterations"].as_array().unwrap().len(), 3);
    assert_eq!(
        history["config"]["sla_filters"][0],
        json!({"metric_tag": "request_error_rate", "stat": "avg", "op": "lt", "threshold": 50.0})
    );
    let observed = &history["iterations"][2]["observed"];
    assert_eq!(observed["request_error_rate_avg"], 0.0);
    // Ten for each of the four; more in a run that is repeated because of the client.
    assert!(observed["request_count_avg"].as_f64() >= Some(40.0), "{observed}");
    let sweep = directory.path().join("sweep_aggregate/profile_export_aiperf_sweep.json");
    let cells = json(&sweep);
    assert_eq!(cells["metadata"]["sla_constraints"]["feasible_count"], 3);
    fs::remove_file(directory.path().join("search_history.json")).unwrap();
    fs::remove_file(&sweep).unwrap();
    let report = aiperf(&["report"]).arg(directory.path()).output().unwrap();
    assert!(report.status.success(), "{report:?}");
    assert_eq!((found(), json(&sweep)), (history, cells));
}

#[test]
fn the_best_of_several_settings_is_found() {
    let server = mock(Script { ttft: Nanos::from_millis(10.0), ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let search = |more: &[&str]| {
        let mut command = aiperf(&["profile", "--model", "m", "--tokenizer", "builtin"]);
        command.args(["--url", &server.url(), "--ui", "none", "--request-count", "12"]);
        command.args(["--search-space", "concurrency:1,3", "--search-space", "osl:2,3"]);
        command.args(["--search-metric", "effective_concurrency", "--search-stat", "max"]);
        command.args(["--search-metric", "output_sequence_length", "--search-stat", "max"]);
        command.args(["--search-direction", "maximize", "--search-direction", "minimize"]);
        command.args(["--search-sla", "effective_concurrency:max:le:2", "--osl-stddev", "0"]);
        command.args(["--search-initial-points", "3", "--artifact-dir"]).arg(directory.path());
        let output = command.args(more).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let found = || json(&directory.path().join("search_history.json"));
    search(&["--sweep-max-duration", "0.1"]);
    assert_eq!(found()["convergence_reason"], "cancelled");
    let stdout = search(&["--resume"]);
    let history = found();
    assert_eq!(history["convergence_reason"], "search_space_exhausted");
    let tried: BTreeSet<String> = history["iterations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|iteration| iteration["variation_values"].to_string())
        .collect();
    assert_eq!(tried.len(), 6, "{history:#}");
    let best = &history["best_trials"][0];
    assert_eq!(best["variation_values"]["phases.profiling.concurrency"], 2, "{history:#}");
    assert_eq!(best["variation_values"]["datasets.main.prompts.osl.mean"], 2, "{history:#}");
    assert_eq!(best["objective_values"], json!([2.0, 2.0]));
    assert_eq!((&best["feasible_count"], &best["pareto_rank"]), (&json!(4), &json!(0)));
    assert_eq!(
        history["config"]["search_space"][0],
        json!({"path": "phases.profiling.concurrency", "lo": 1, "hi": 3, "kind": "int"})
    );
    assert!(stdout.contains("Best of 6 combinations: concurrency 2, osl 2"), "{stdout}");
    let place = directory.path().join("search_iter_0005/profile_runs/run_0001");
    let summary = json(&place.join("profile_export_aiperf.json"));
    assert_eq!(
        summary["run_info"]["variation_values"],
        history["iterations"][5]["variation_values"]
    );
    fs::remove_file(directory.path().join("search_history.json")).unwrap();
    let report = aiperf(&["report"]).arg(directory.path()).output().unwrap();
    assert!(report.status.success(), "{report:?}");
    assert_eq!(found(), history);
}

#[test]
fn the_search_finds_the_rate_that_is_borne() {
    // Two at a time, 50 ms each: 40 requests per second. Beyond that a queue grows: in two seconds
    // at 60 requests per second, more than half of the requests wait for over 350 ms, and at 48.75
    // a fifth. Below, a machine may stall for a third of a second: one stall is one event.
    let server = mock(Script {
        ttft: Nanos::from_millis(50.0),
        max_concurrent: Some(2),
        ..Script::default()
    });
    let run = profile(
        &server.url(),
        &[
            "--search-recipe",
            "max-goodput-under-slo",
            "--goodput",
            "request_latency:400",
            "--benchmark-duration",
            "2",
            "--arrival-pattern",
            "constant",
            "--request-rate-min",
            "15",
            "--request-rate-max",
            "100",
        ],
    );
    let found = told(&run);
    assert_eq!(
        found["config"]["search_space"],
        json!([{"path": "phases.profiling.rate", "lo": 15.0, "hi": 100.0, "kind": "real"}])
    );
    let at = |value: &Value| value["variation_values"]["phases.profiling.rate"].as_f64();
    let rate = at(&found["best_trials"][0]).unwrap();
    let boundary = &found["boundary_summary"];
    assert_eq!(boundary["swept_dim_path"], "phases.profiling.rate");
    let [held, breached] =
        ["feasible_max", "infeasible_min"].map(|end| boundary[end]["value"].as_f64());
    let (held, breached) = (held.unwrap(), breached.unwrap());
    let trials = found["iterations"].as_array().unwrap();
    let goodput = |trial: &Value| trial["objective_values"][0].as_f64();
    for (index, trial) in trials.iter().enumerate() {
        let place = run.path(&format!("search_iter_{index:04}/profile_runs/run_0001"));
        let summary = json(&place.join("profile_export_aiperf.json"));
        let tried = at(trial).unwrap();
        assert_eq!(summary["run_info"]["variation_values"]["phases.profiling.rate"], tried);
        assert_eq!(summary["input_config"]["phases"][0]["rate"], tried);
        // The search ends between the loads that held and those that did not.
        assert_eq!(trial["feasible"], tried <= held, "{found:#}");
        assert_ne!(trial["feasible"], tried >= breached, "{found:#}");
        if !place.with_file_name("run_0002").exists() {
            assert_eq!(
                trial["observed"]["good_request_fraction_avg"],
                summary["good_request_fraction"]["avg"]
            );
            // The rate in the long run, which is at most the rate that was tried.
            let of_run = summary["goodput"]["avg"].as_f64().unwrap();
            let judged = goodput(trial).unwrap();
            assert!(judged <= of_run && judged >= 0.8 * of_run, "{judged} of {of_run}");
        }
    }
    let best = trials.iter().filter(|trial| trial["feasible"] == true).filter_map(goodput);
    let best = best.max_by(f64::total_cmp);
    assert_eq!(goodput(&found["best_trials"][0]), best);
    // A client that other programs kept from sending in time loaded the server with less.
    if trials.iter().all(|trial| trial["client_verdict"] != "invalid") {
        let tried: Vec<f64> = trials.iter().filter_map(at).collect();
        assert_eq!(tried[..3], [15.0, 30.0, 60.0]);
        // Of two rates near the limit, the lower one may have more good requests.
        assert!(30.0 <= rate && rate <= held && held <= 52.5, "{found:#}");
    }
    let stdout = run.stdout();
    assert!(stdout.contains(&format!("at request rate {rate}")), "{stdout}");
}

#[test]
fn an_interrupt_ends_a_search_with_the_loads_before_it() {
    let server = mock(Script { ttft: Nanos::from_millis(20.0), ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let flags = [
        "--search-recipe",
        "max-goodput-under-slo",
        "--goodput",
        "request_latency:60000",
        "--request-count",
        "50",
    ];
    let child = profile_command(&server.url(), directory.path(), &flags).spawn().unwrap();
    while server.requests_received() < 77 {
        thread::sleep(Duration::from_millis(1));
    }
    signal(&child, Signal::INT);
    let run = ended(child, directory);
    assert_eq!(run.exit_code(), Some(130), "{}", run.stderr());
    let found = history(&run);
    assert_eq!(found["convergence_reason"], "cancelled");
    assert_eq!(found["iterations"].as_array().unwrap().len(), 1);
    assert_eq!(found["best_trials"][0]["feasible"], true);
}

#[test]
fn a_server_that_dies_in_a_search_is_not_a_limit_that_was_found() {
    // 72 requests at concurrency 1, 2 and 4; at the next load, the server is gone.
    let dead: Vec<String> = (217..600).map(|number| number.to_string()).collect();
    let server = faulty(&format!("requests={}:close", dead.join(",")));
    let flags = [
        "--search-recipe",
        "max-goodput-under-slo",
        "--goodput",
        "request_latency:60000",
        "--request-count",
        "4",
        "--no-server-metrics",
    ];
    let run = profile(&server.url(), &flags);
    assert_eq!(run.exit_code(), Some(1), "{}", run.stdout());
    let found = history(&run);
    assert_eq!(found["convergence_reason"], "aborted");
    assert_eq!(found["boundary_summary"]["feasible_max"]["value"], 4);
    assert_eq!(found["boundary_summary"]["infeasible_min"], Value::Null);
    let error = found["error"].as_str().unwrap();
    assert!(error.starts_with("concurrency 8: no request succeeded"), "{error}");
    assert!(run.stderr().contains("check whether the server is still running"), "{}", run.stderr());
    assert!(run.stdout().contains("The limit was not found"), "{}", run.stdout());
}

#[test]
fn a_search_whose_files_cannot_be_written_says_so_in_its_history() {
    let directory = tempfile::tempdir().unwrap();
    let server = putting_in_the_way(directory.path().join("search_iter_0001/aggregate"));
    let mut flags = vec!["--search-recipe", "max-goodput-under-slo", "--goodput"];
    flags.extend(["request_latency:60000", "--num-profile-runs", "2", "--request-count", "4"]);
    let output = profile_command(&server, directory.path(), &flags).output().unwrap();
    let run = Run { output, directory };
    assert_eq!(run.exit_code(), Some(1));
    let found = history(&run);
    assert_eq!(found["convergence_reason"], "aborted");
    assert_eq!(found["iterations"].as_array().unwrap().len(), 1);
    let error = found["error"].as_str().unwrap();
    assert!(
        error.contains("search_iter_0001/aggregate: File exists (os error 17); choose"),
        "{error}"
    );
    assert_eq!(error.matches("File exists").count(), 1, "{error}");
}

#[test]
fn a_search_says_when_nothing_is_feasible_and_when_all_is() {
    let server = mock(Script { ttft: Nanos::from_millis(20.0), ..Script::default() });
    let search = |slo: &str, more: &[&str]| {
        let mut flags = vec!["--search-recipe", "max-goodput-under-slo", "--goodput", slo];
        flags.extend(more);
        profile(&server.url(), &flags)
    };
    let none = search("request_latency:1", &["--request-count", "5"]);
    let found = history(&none);
    // Nothing is concluded from a client that could not keep up in any run.
    let is_believed = found["iterations"][0]["is_believed"] == true;
    let (code, reason) =
        if is_believed { (1, "monotonic_no_pass_in_range") } else { (4, "cannot_tell") };
    assert_eq!(none.exit_code(), Some(code), "{}", none.stderr());
    assert_eq!(found["convergence_reason"], reason);
    assert_eq!(found["iterations"].as_array().unwrap().len(), 1);
    assert_eq!(found["best_trials"][0]["feasible_count"], 0);
    assert_eq!(found["boundary_summary"]["feasible_max"], Value::Null);
    assert!(none.stdout().contains("No load tried is feasible"), "{}", none.stdout());
    assert!(!is_believed || none.stderr().contains("meets the objectives"), "{}", none.stderr());
    let all = search("request_latency:60000", &["--concurrency-max", "3"]).succeeded();
    let found = history(&all);
    assert_eq!(found["convergence_reason"], "monotonic_no_failure_in_range");
    assert_eq!(found["boundary_summary"]["feasible_max"]["value"], 3);
    assert_eq!(found["boundary_summary"]["infeasible_min"], Value::Null);
    assert!(all.stdout().contains("a higher --concurrency-max"), "{}", all.stdout());
    // The recipe's own flags define the same objectives.
    let directory = tempfile::tempdir().unwrap();
    let flags = [
        "--search-recipe",
        "max-goodput-under-slo",
        "--ttft-sla-ms",
        "60000",
        "--itl-sla-ms",
        "60000",
        "--e2e-sla-ms",
        "60000",
        "--concurrency-max",
        "2",
        "--num-profile-runs",
        "2",
    ];
    let output = profile_command(&server.url(), directory.path(), &flags).output().unwrap();
    let run = Run { output, directory }.succeeded();
    let found = history(&run);
    assert_eq!(found["config"]["slos"].as_object().unwrap().len(), 3);
    assert_eq!(found["iterations"].as_array().unwrap().len(), 2);
    for iteration in ["search_iter_0000", "search_iter_0001"] {
        let runs = &aggregate(&run.path(iteration))["metadata"]["num_successful_runs"];
        assert!(runs.as_u64() >= Some(2), "{runs}");
    }
}
