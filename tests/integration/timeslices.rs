//! Time slices (`--slice-duration`), from the command line to the files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use base::units::Nanos;
use mock_server::Script;
use serde_json::Value;

use crate::support::load::{faults, mock};
use crate::support::python::run_python;
use crate::support::run::{Run, aiperf, profile, profile_command};

const FILES: [&str; 2] =
    ["profile_export_aiperf_timeslices.json", "profile_export_aiperf_timeslices.csv"];

fn slices(directory: &Path) -> Vec<Value> {
    let text = fs::read_to_string(directory.join(FILES[0])).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    file["timeslices"].as_array().unwrap().clone()
}

fn bounds(slices: &[Value]) -> Vec<(u64, u64)> {
    let of = |slice: &Value| Some((slice["start_ns"].as_u64()?, slice["end_ns"].as_u64()?));
    slices.iter().map(|slice| of(slice).unwrap()).collect()
}

fn report(directory: &Path) {
    let output = aiperf(&["report"]).arg(directory).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Requests of 60 ms, one at a time, every third of which fails, after a warmup.
fn sliced() -> Run {
    let faults = faults(&["every=3:status=503"]);
    let server = mock(Script { ttft: Nanos::from_millis(60.0), faults, ..Script::default() });
    let flags =
        ["--slice-duration", "0.25", "--concurrency", "1", "--request-count", "15", "--files"];
    profile(&server.url(), &[&flags[..], &["--warmup-request-count", "2"]].concat()).succeeded()
}

#[test]
fn slices_add_up_and_another_program_computes_the_same() {
    let run = sliced();
    let slices = slices(run.directory.path());
    assert!(slices.len() > 1, "{}", slices.len());
    let sum =
        |tag: &str| -> f64 { slices.iter().map(|slice| slice[tag]["avg"].as_f64().unwrap()).sum() };
    let faults = sum("error_request_count");
    assert!(faults >= 4.0 && sum("request_count") + faults == 15.0, "{faults}");
    run_python("tests/read_timeslices.py", run.directory.path());
    assert!(run.stdout().contains(FILES[0]) && run.stdout().contains(FILES[1]));
}

#[test]
fn a_report_writes_them_again() {
    let run = sliced();
    let before = FILES.map(|name| run.text(name));
    for name in FILES {
        fs::remove_file(run.path(name)).unwrap();
    }
    report(run.directory.path());
    for (name, before) in FILES.iter().zip(before) {
        assert!(run.text(name) == before, "{name}");
    }
    // A killed run does not record the end of the phase, and its start only approximately: that of
    // the first request. Slices still add up.
    let path = run.path("run_manifest.json");
    let mut manifest: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    manifest.as_object_mut().unwrap().remove("end");
    fs::write(&path, manifest.to_string()).unwrap();
    report(run.directory.path());
    run_python("tests/read_timeslices.py", run.directory.path());
}

#[test]
fn server_and_requests_have_the_same_boundaries() {
    let server = mock(Script { ttft: Nanos::from_millis(300.0), ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--slice-duration", "2", "--concurrency", "2", "--request-count", "44"];
    let output = profile_command(&server.url(), directory.path(), &flags)
        // Slices shorter than the interval between two scrapes differ; on a busy machine it is
        // longer than requested.
        .env("AIPERF_SERVER_METRICS_COLLECTION_INTERVAL", "0.02")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let ours = bounds(&slices(directory.path()));
    let text = fs::read_to_string(directory.path().join("server_metrics_export.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let counter = &file["metrics"]["vllm:prompt_tokens"]["series"][0]["timeslices"];
    let theirs = bounds(counter.as_array().unwrap_or_else(|| panic!("{:.2000}", file["metrics"])));
    let info = file["summary"]["endpoint_info"].as_object().unwrap().values().next().unwrap();
    let interval = info["median_update_interval_ms"].as_f64();
    let complete = ours.len() - 1;
    assert_eq!((complete, ours[0].0), (3, theirs[0].0), "{ours:?} {theirs:?}");
    if interval.is_none_or(|interval| interval > 2000.0) {
        return;
    }
    assert!(theirs.len() > complete, "{ours:?} {theirs:?}");
    assert_eq!(ours[..complete], theirs[..complete]);
    assert_eq!(ours[complete].0, theirs[complete].0);
}

#[test]
fn files_are_there_where_they_are_asked_for() {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let names = |flags: &[&str]| -> BTreeSet<String> {
        let all = ["--request-count", "3", "--no-server-metrics", "--overwrite"];
        let all = [&all[..], flags].concat();
        let output = profile_command(&server.url(), directory.path(), &all).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let entries = fs::read_dir(directory.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains("timeslices")).collect()
    };
    assert_eq!(names(&["--slice-duration", "10"]), FILES.map(str::to_owned).into());
    assert_eq!(slices(directory.path()).len(), 1);
    // The slices of the previous run are not part of this one.
    assert!(names(&[]).is_empty());
    let foo = ["foo_timeslices.json", "foo_timeslices.csv"].map(str::to_owned);
    let prefix = ["--slice-duration", "10", "--profile-export-prefix", "foo_timeslices.csv"];
    assert_eq!(names(&prefix), foo.into());
}

#[test]
fn a_path_that_cannot_be_written_fails_before_the_run() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join(FILES[1])).unwrap();
    let flags = ["--slice-duration", "1"];
    let output = profile_command("http://127.0.0.1:1", directory.path(), &flags).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(FILES[1]), "{said}");
}
