//! A run does not share its directory: the files of another run are neither overwritten nor taken
//! for its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output};
use std::thread;
use std::time::{Duration, Instant};

use base::units::Nanos;
use mock_server::Script;
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::load::mock;
use crate::support::run::{aiperf, json_lines, profile_command, signal, summary};

/// Time limit for waiting on another process.
const BOUND: Duration = Duration::from_mins(1);
/// An address that must not receive requests.
const NOWHERE: &str = "http://127.0.0.1:9";
const FEW: [&str; 2] = ["--request-count", "3"];

fn directory() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn run(url: &str, directory: &Path, extra: &[&str]) -> Output {
    profile_command(url, directory, extra).output().unwrap()
}

fn succeeded(url: &str, directory: &Path, extra: &[&str]) {
    let output = run(url, directory, extra);
    assert!(output.status.success(), "{}", said(&output));
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns every file below `directory` with its content, by its relative path.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(place) = left.pop() {
        for entry in fs::read_dir(&place).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                let bytes = fs::read(&path).unwrap();
                found.insert(path.strip_prefix(directory).unwrap().to_owned(), bytes);
            }
        }
    }
    found
}

/// Returns the error of a run that is rejected before it changes anything.
fn refusal(directory: &Path, extra: &[&str]) -> String {
    let before = files(directory);
    let output = run(NOWHERE, directory, extra);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(output.stdout.is_empty());
    assert!(said(&output).contains("--artifact-dir"), "{}", said(&output));
    assert_eq!(files(directory), before);
    said(&output)
}

#[test]
fn a_directory_with_files_of_a_run_is_refused() {
    let server = mock(Script::default());
    let place = directory();
    succeeded(&server.url(), place.path(), &FEW);
    for extra in [&FEW[..], &["--profile-export-prefix", "other"], &["--num-profile-runs", "2"]] {
        let said = refusal(place.path(), extra);
        assert!(said.contains("--overwrite"), "{said}");
    }
    // One file of a run is enough, whatever else there is.
    let place = directory();
    fs::write(place.path().join("notes.txt"), "mine").unwrap();
    fs::write(place.path().join("profile_export.jsonl"), "{}\n").unwrap();
    assert!(
        refusal(place.path(), &FEW).contains("contains profile_export.jsonl of an earlier run")
    );
    // The user's own files are not those of a run.
    fs::remove_file(place.path().join("profile_export.jsonl")).unwrap();
    succeeded(&server.url(), place.path(), &FEW);
    // A prefix that is only in the manifest of the earlier run.
    let place = directory();
    let prefixed = ["--profile-export-prefix", "foo", "--export-level", "raw"];
    succeeded(&server.url(), place.path(), &[&FEW[..], &prefixed].concat());
    for name in ["inputs.json", "logs/aiperf.log"] {
        fs::remove_file(place.path().join(name)).unwrap();
    }
    assert!(refusal(place.path(), &FEW).contains("foo.csv"));
}

/// Runs a command without `--artifact-dir` in `place`.
fn run_in(place: &Path, url: &str, extra: &[&str]) -> Output {
    let mut command = aiperf(&["profile", "--model", "m", "--tokenizer", "builtin"]);
    command.args(["--url", url, "--request-count", "3"]).args(extra).current_dir(place);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    output
}

#[test]
fn a_default_directory_in_use_gets_a_number() {
    let server = mock(Script::default());
    let place = directory();
    let artifacts = place.path().join("artifacts");
    let base = "m-openai-chat-concurrency1";
    let latest = || fs::read_link(artifacts.join("latest")).unwrap();
    let first = run_in(place.path(), &server.url(), &[]);
    assert!(!said(&first).contains("earlier run"), "{}", said(&first));
    assert_eq!(latest(), Path::new(base));
    let before = files(&artifacts.join(base));
    let second = run_in(place.path(), &server.url(), &[]);
    let line = format!(
        "artifacts/{base} has the files of an earlier run, so this one writes to artifacts/{base}-2\n"
    );
    assert!(said(&second).contains(&line), "{}", said(&second));
    assert_eq!(files(&artifacts.join(base)), before);
    assert_eq!(latest(), Path::new("m-openai-chat-concurrency1-2"));
    let newest = summary(&artifacts.join("latest"));
    assert_eq!(newest["input_config"]["artifacts"]["dir"], format!("artifacts/{base}-2"));

    // The requests of the first run, sent again.
    let inputs = format!("artifacts/{base}/inputs.json");
    let replay = ["--input-file", &inputs, "--custom-dataset-type", "inputs_json"];
    run_in(place.path(), &server.url(), &replay);
    let third = artifacts.join(format!("{base}-3"));
    let bodies = |directory: &Path| -> Value {
        let text = fs::read_to_string(directory.join("inputs.json")).unwrap();
        let inputs: Value = serde_json::from_str(&text).unwrap();
        inputs["data"][0]["payloads"].clone()
    };
    assert_eq!(bodies(&third), bodies(&artifacts.join(base)));

    // A directory that the user names is protected, whatever its name.
    let named = format!("artifacts/{base}");
    let mut command = aiperf(&["profile", "--model", "m", "--tokenizer", "builtin"]);
    command.args(["--url", NOWHERE, "--artifact-dir", &named]).current_dir(place.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("of an earlier run, which is not overwritten"),
        "{}",
        said(&output)
    );
    // The files of the default directory are moved if that is asked for.
    run_in(place.path(), &server.url(), &["--overwrite"]);
    assert_eq!(files(&artifacts.join(base).join("previous-1")), before);
    assert_eq!(latest(), Path::new(base));
}

#[test]
fn the_link_to_the_newest_run_replaces_nothing_else() {
    let server = mock(Script::default());
    let place = directory();
    fs::create_dir_all(place.path().join("artifacts/latest")).unwrap();
    fs::write(place.path().join("artifacts/latest/notes.txt"), "mine").unwrap();
    run_in(place.path(), &server.url(), &[]);
    assert_eq!(files(&place.path().join("artifacts/latest")).len(), 1);
}

#[test]
fn sweeps_in_the_default_directory_get_a_number_and_the_newest_is_resumed() {
    let server = mock(Script::default());
    let place = directory();
    let base = place.path().join("artifacts/m-openai-chat-sweep-concurrency");
    let sweep = ["--concurrency", "1,2"];
    run_in(place.path(), &server.url(), &sweep);
    run_in(place.path(), &server.url(), &sweep);
    let second = base.with_file_name("m-openai-chat-sweep-concurrency-2");
    let cell = second.join("concurrency_2");
    fs::remove_dir_all(&cell).unwrap();
    let before = files(&base);
    run_in(place.path(), &server.url(), &[&sweep[..], &["--resume"]].concat());
    assert!(cell.join("profile_export_aiperf.json").is_file());
    assert_eq!(files(&base), before);
    let latest = fs::read_link(base.with_file_name("latest")).unwrap();
    assert_eq!(latest, second.file_name().unwrap());
}

#[test]
fn overwriting_moves_all_files_of_the_earlier_run_aside() {
    let server = mock(Script::default());
    let place = directory();
    fs::write(place.path().join("notes.txt"), "mine").unwrap();
    let many_files = ["--export-level", "raw", "--slice-duration", "1"];
    let many_files = [&FEW[..], &many_files, &["--profile-export-prefix", "foo"]].concat();
    succeeded(&server.url(), place.path(), &many_files);
    let mut first = files(place.path());
    assert!(first.contains_key(Path::new("foo_raw.jsonl")), "{:?}", first.keys());
    assert!(first.contains_key(Path::new("foo_timeslices.csv")), "{:?}", first.keys());
    let notes = first.remove(Path::new("notes.txt"));

    let few_files = ["--overwrite", "--export-level", "summary", "--no-server-metrics"];
    let few_files = [&FEW[..], &few_files].concat();
    succeeded(&server.url(), place.path(), &few_files);
    assert_eq!(files(&place.path().join("previous-1")), first);
    let second: Vec<String> = files(place.path())
        .into_keys()
        .map(|path| path.to_str().unwrap().to_owned())
        .filter(|path| !path.starts_with("previous-1/"))
        .collect();
    let expected = [
        "inputs.json",
        "logs/aiperf.log",
        "notes.txt",
        "profile_export_aiperf.csv",
        "profile_export_aiperf.json",
        "profile_export_console.txt",
        "run_manifest.json",
    ];
    assert_eq!(second, expected);
    assert_eq!(Some(fs::read(place.path().join("notes.txt")).unwrap()), notes);

    succeeded(&server.url(), place.path(), &few_files);
    assert_eq!(files(&place.path().join("previous-1")), first);
    assert_eq!(files(&place.path().join("previous-2")).len(), expected.len() - 1);
}

#[test]
fn many_runs_are_moved_aside_together() {
    let server = mock(Script::default());
    let place = directory();
    let many = [&FEW[..], &["--num-profile-runs", "3", "--overwrite"]].concat();
    succeeded(&server.url(), place.path(), &many);
    fs::create_dir(place.path().join("plots")).unwrap();
    fs::write(place.path().join("plots/requests.svg"), "of these runs").unwrap();
    let first = files(place.path());
    assert!(first.contains_key(Path::new("profile_runs/run_0003/profile_export.jsonl")));
    let fewer = [&FEW[..], &["--num-profile-runs", "2"]].concat();
    assert!(refusal(place.path(), &fewer).contains("--overwrite"));
    succeeded(&server.url(), place.path(), &[&fewer[..], &["--overwrite"]].concat());
    assert_eq!(files(&place.path().join("previous-1")), first);
    assert!(!place.path().join("profile_runs/run_0003").exists());
    let summary =
        fs::read_to_string(place.path().join("aggregate/profile_export_aiperf_aggregate.json"));
    let summary: Value = serde_json::from_str(&summary.unwrap()).unwrap();
    assert_eq!(summary["metadata"]["num_successful_runs"], 2);
}

#[test]
fn the_demo_can_be_repeated() {
    let place = directory();
    for _ in 0..2 {
        let mut demo = aiperf(&["demo", "--request-count", "4", "--ttft", "1ms", "--itl", "1ms"]);
        let output = demo.arg("--artifact-dir").arg(place.path()).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
    }
    assert!(place.path().join("previous-1/profile_export_aiperf.json").is_file());
}

/// Starts a run of `count` requests against `url`, and waits until its files exist.
fn started(url: &str, place: &Path, extra: &[&str]) -> Child {
    let child = profile_command(url, place, extra).spawn().unwrap();
    let start = Instant::now();
    while !place.join("run_manifest.json").exists() {
        assert!(start.elapsed() < BOUND, "it does not start");
        thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn a_second_run_at_the_same_time_is_refused() {
    let slow = mock(Script { ttft: Nanos::from_millis(200.0), ..Script::default() });
    let place = directory();
    let child = started(&slow.url(), place.path(), &["--request-count", "15"]);
    let output = run(NOWHERE, place.path(), &["--overwrite"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("another run is writing to"), "{}", said(&output));
    let first = child.wait_with_output().unwrap();
    assert!(first.status.success(), "{}", said(&first));
    assert_eq!(json_lines(&place.path().join("profile_export.jsonl")).len(), 15);
    assert_eq!(summary(place.path())["request_count"]["avg"], 15.0);
    assert!(!place.path().join("previous-1").exists());
}

#[test]
fn a_killed_run_blocks_nobody_and_its_unfinished_files_go() {
    let slow = mock(Script { ttft: Nanos::from_millis(200.0), ..Script::default() });
    let place = directory();
    let mut child = started(&slow.url(), place.path(), &["--request-count", "1000"]);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    // Killed while it wrote a summary.
    fs::write(place.path().join(".aiperf-a1B2c3.tmp"), "{").unwrap();
    assert!(refusal(place.path(), &FEW).contains("--overwrite"));
    let server = mock(Script::default());
    succeeded(&server.url(), place.path(), &[&FEW[..], &["--overwrite"]].concat());
    assert!(!place.path().join(".aiperf-a1B2c3.tmp").exists());
    assert!(place.path().join("previous-1/run_manifest.json").is_file());
    assert_eq!(summary(place.path())["request_count"]["avg"], 3.0);
}

/// Waits for the end of `child`; fails if it hangs.
fn ended(mut child: Child) -> Output {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > BOUND {
            child.kill().unwrap();
            panic!("it hangs");
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn pipes_in_the_place_of_files_are_not_waited_for() {
    let server = mock(Script::default());
    for name in ["profile_export.jsonl", "run_manifest.json", "profile_export.parquet"] {
        let place = directory();
        mkfifoat(CWD, place.path().join(name), Mode::RUSR | Mode::WUSR).unwrap();
        let output = ended(profile_command(NOWHERE, place.path(), &FEW).spawn().unwrap());
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains(name), "{}", said(&output));
        let again = [&FEW[..], &["--overwrite"]].concat();
        let output = ended(profile_command(&server.url(), place.path(), &again).spawn().unwrap());
        assert!(output.status.success(), "{name}: {}", said(&output));
        // The report must handle such files too.
        fs::remove_file(place.path().join(name)).unwrap();
        mkfifoat(CWD, place.path().join(name), Mode::RUSR | Mode::WUSR).unwrap();
        let output = ended(aiperf(&["report"]).arg(place.path()).spawn().unwrap());
        let is_needed = name != "profile_export.parquet";
        assert_eq!(output.status.code(), Some(i32::from(is_needed)), "{}", said(&output));
        assert!(said(&output).contains(name), "{}", said(&output));
        assert!(said(&output).contains("not a regular file"), "{}", said(&output));
    }
}

#[test]
fn a_report_of_stale_records_does_not_replace_the_summary_of_another_run() {
    let server = mock(Script::default());
    let (old, new) = (directory(), directory());
    succeeded(&server.url(), old.path(), &FEW);
    let summaries = ["--export-level", "summary", "--request-count", "5"];
    succeeded(&server.url(), new.path(), &summaries);
    let records = "profile_export.jsonl";
    fs::copy(old.path().join(records), new.path().join(records)).unwrap();
    let before = files(new.path());
    let output = aiperf(&["report"]).arg(new.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("are from different runs"), "{}", said(&output));
    assert_eq!(files(new.path()), before);
    // The old run can still be reported.
    let output = aiperf(&["report"]).arg(old.path()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn parts_are_not_combined_over_another_run() {
    let server = mock(Script::default());
    let place = directory();
    let other = place.path().join("other");
    succeeded(&server.url(), &other, &FEW);
    let before = files(&other);
    // The records of one run, split as if two processes had written them.
    let whole = place.path().join("whole");
    succeeded(&server.url(), &whole, &["--request-count", "6"]);
    let parts: Vec<PathBuf> = (0..2).map(|part| place.path().join(format!("p{part}"))).collect();
    let records = fs::read_to_string(whole.join("profile_export.jsonl")).unwrap();
    let manifest = fs::read_to_string(whole.join("run_manifest.json")).unwrap();
    for (index, part) in parts.iter().enumerate() {
        fs::create_dir(part).unwrap();
        let lines: Vec<&str> = records.lines().skip(index).step_by(2).collect();
        fs::write(part.join("profile_export.jsonl"), lines.join("\n") + "\n").unwrap();
        let mut manifest: Value = serde_json::from_str(&manifest).unwrap();
        manifest["shard"] = json!({"index": index, "count": 2});
        fs::write(part.join("run_manifest.json"), manifest.to_string()).unwrap();
    }
    let report = |extra: &[&str]| {
        let mut command = aiperf(&["report"]);
        command.args(&parts).arg("--artifact-dir").arg(&other).args(extra).output().unwrap()
    };
    let output = report(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("--overwrite"), "{}", said(&output));
    assert_eq!(files(&other), before);
    let output = report(&["--overwrite"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(files(&other.join("previous-1")), before);
    assert_eq!(summary(&other)["request_count"]["avg"], 6.0);
    // The same run: its files are replaced.
    let output = report(&[]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(!other.join("previous-2").exists());
}
