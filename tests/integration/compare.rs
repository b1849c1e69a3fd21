//! `aiperf compare` over the files of whole runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use base::units::Nanos;
use mock_server::{MockServer, Script, Timing, TimingForm};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::report_page::data;
use crate::support::load::mock;
use crate::support::python::run_python;
use crate::support::run::{aiperf, json_lines, profile_command};

/// Runs 60 requests. What depends on the speed of the machine is then replaced: the verdict on the
/// client and its errors, and the times to first token, by times of about `ttft_ms`.
fn run(directory: &Path, ttft_ms: f64, verdict: &str, extra: &[&str]) {
    let server = mock(Script { ttft: Nanos::from_millis(1.0), ..Script::default() });
    measure(&server, directory, extra);
    let mut random = ChaCha8Rng::seed_from_u64(0);
    replace(directory, verdict, |number, place, record| {
        if place == 0 {
            random = ChaCha8Rng::seed_from_u64(u64::from(number));
        }
        let noise = random.random_range(-1.0..1.0) + f64::from(number) / 10.0;
        record["metrics"]["time_to_first_token"]["value"] = (ttft_ms + noise).into();
    });
}

/// Runs 60 requests.
fn measure(server: &MockServer, directory: &Path, extra: &[&str]) {
    let flags = ["--request-count", "60", "--no-server-metrics"];
    let mut command = profile_command(&server.url(), directory, &flags);
    if !extra.contains(&"--concurrency") {
        command.args(["--concurrency", "4"]);
    }
    let output = command.args(extra).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Replaces the verdict on the client and its errors in all runs in `directory`, and `change`s each
/// record, given the number of the run and the place of the record by start.
fn replace(directory: &Path, verdict: &str, mut change: impl FnMut(u32, usize, &mut Value)) {
    for (number, run) in (0_u32..).zip(runs_in(directory)) {
        let path = run.join("run_manifest.json");
        let mut manifest: Value =
            serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        manifest["end"]["client_health"]["verdict"] = verdict.into();
        fs::write(&path, manifest.to_string()).unwrap();
        let path = run.join("profile_export.jsonl");
        let mut records = json_lines(&path);
        records.sort_by_key(|record| record["metadata"]["request_start_ns"].as_u64());
        for (place, record) in records.iter_mut().enumerate() {
            change(number, place, record);
            // A client that was never late: its errors depend on the speed of the machine too.
            let metadata = record["metadata"].as_object_mut().unwrap();
            for name in ["late_ns", "send_delay_ns"] {
                metadata.insert(name.to_owned(), 0.into());
            }
            metadata.retain(|name, _| !name.ends_with("_uncertainty_ns") && name != "end_gap_ns");
        }
        let lines: Vec<String> = records.iter().map(Value::to_string).collect();
        fs::write(&path, lines.join("\n") + "\n").unwrap();
    }
    let report = aiperf(&["report"]).arg(directory).output().unwrap();
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
}

/// Returns the directories of runs in `directory`.
fn runs_in(directory: &Path) -> Vec<PathBuf> {
    if directory.join("run_manifest.json").exists() {
        return vec![directory.to_owned()];
    }
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).flat_map(|path| runs_in(&path)).collect()
}

fn compare(base: &Path, new: &[&Path], extra: &[&str]) -> Output {
    aiperf(&["compare"]).arg(base).args(new).args(extra).output().unwrap()
}

/// Returns the comparisons.
fn json(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let document: Value = serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr))
    });
    document["comparisons"].as_array().unwrap().clone()
}

/// The mean queue and the mean time to first token grow by 200 ms.
#[test]
fn a_comparison_names_the_stage_that_grew() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    for (name, queue) in [("before", 20.0), ("after", 220.0)] {
        let timing =
            Timing { queue: Nanos::from_millis(queue), ..Timing::for_form(TimingForm::Vllm) };
        let server = mock(Script {
            ttft: Nanos::from_millis(queue + 10.0),
            timing: Some(timing),
            ..Script::default()
        });
        measure(&server, &place(name), &["--concurrency", "4"]);
        // Without what a busy machine adds.
        replace(&place(name), "valid", |_, at, record| {
            let first = queue + 12.0 + (at % 7) as f64 / 10.0;
            record["metrics"]["time_to_first_token"]["value"] = first.into();
            record["metrics"]["request_latency"]["value"] = (first + 30.0).into();
        });
    }
    let output = compare(&place("before"), &[&place("after")], &["--format", "json"]);
    let found = &json(&output)[0];
    assert_eq!(found["outcome"], "regression", "{found}");
    let growth = &found["growth"];
    for (at, metric) in ["time_to_first_token", "request_latency"].into_iter().enumerate() {
        let found = &growth[at];
        assert_eq!(found["metric"], metric, "{growth}");
        let parts = found["parts"].as_array().unwrap();
        assert_eq!(parts[0]["stage"], "queue", "{growth}");
        let of = |part: &Value| part["difference_ms"].as_f64().unwrap();
        assert!((of(&parts[0]) - 200.0).abs() < 1e-3, "{growth}");
        assert!((parts.iter().map(of).sum::<f64>() - of(found)).abs() < 1e-9, "{growth}");
    }
    for format in ["table", "markdown"] {
        let output = compare(&place("before"), &[&place("after")], &["--format", format]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("Mean time to first token grew by"), "{text}");
        assert!(text.contains(": queue +200.0"), "{text}");
    }
    let same = compare(&place("before"), &[&place("before")], &["--format", "json"]);
    assert_eq!(json(&same)[0].get("growth"), None);
}

#[test]
fn a_slower_server_is_a_regression() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let (fast, slow, doubtful) = (place("fast"), place("slow"), place("doubtful"));
    run(&fast, 20.0, "valid", &[]);
    run(&slow, 30.0, "valid", &["--extra-inputs", "top_p:0.5"]);
    run(&doubtful, 30.0, "invalid", &[]);
    let junit = place("junit.xml");
    let flags = ["--format", "json", "--gate", "ttft<=5%", "--junit", junit.to_str().unwrap()];
    let output = compare(&fast, &[&slow], &flags);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stdout));
    let [comparison] = &json(&output)[..] else { panic!("one comparison") };
    assert_eq!(comparison["method"], "batches");
    let row = |metric: &str| {
        let mut rows = comparison["rows"].as_array().unwrap().iter();
        rows.find(|row| row["metric"] == metric && row["statistic"] == "avg").unwrap().clone()
    };
    let ttft = row("time_to_first_token");
    assert_eq!(ttft["finding"], "regression");
    let summary = |run: &Path| -> Value {
        let text = fs::read_to_string(run.join("profile_export_aiperf.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    for (side, run) in [("base", &fast), ("new", &slow)] {
        for metric in ["time_to_first_token", "request_throughput", "request_error_rate"] {
            let (found, expected) = (&row(metric)[side], &summary(run)[metric]["avg"]);
            let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
            assert!((found - expected).abs() <= 1e-9 * expected, "{metric}: {found} {expected}");
        }
    }
    let differences = comparison["differences"].as_array().unwrap();
    let paths: Vec<&str> = differences.iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert!(paths.iter().any(|path| path.starts_with("config.endpoint.extra_inputs")), "{paths:?}");
    let xml = fs::read_to_string(&junit).unwrap();
    assert!(xml.contains(r#"name="time_to_first_token:avg""#) && xml.contains("regression by"));
    assert!(xml.contains("required ttft&lt;=5%"), "{xml}");
    // The same files give the same result.
    assert_eq!(compare(&fast, &[&slow], &flags).stdout, output.stdout);

    // The page has the verdict, the table of the terminal, and both distributions.
    let page = place("pages/compare.html");
    let flags = [&flags[2..4], &["--html", page.to_str().unwrap()]].concat();
    let output = compare(&fast, &[&slow], &flags);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let page = data(&fs::read_to_string(&page).unwrap());
    assert_eq!(page["notices"][0]["level"], "bad", "{page}");
    let said = page["notices"][0]["text"].as_str().unwrap();
    assert_eq!(said, "Regression: time_to_first_token avg.");
    assert!(String::from_utf8_lossy(&output.stdout).contains(said));
    let [comparison, distributions] = &page["sections"].as_array().unwrap()[..] else {
        panic!("{page}")
    };
    let rows = comparison["tables"][0]["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row[1] == "time_to_first_token avg (ms)").unwrap();
    assert_eq!((&row[0], &row[2], &row[3]), (&"*".into(), &ttft["base"], &ttft["new"]));
    assert_eq!(row[6], "regression");
    let charts = distributions["charts"].as_array().unwrap();
    let names: Vec<&str> = charts.iter().map(|chart| chart["name"].as_str().unwrap()).collect();
    let latencies = ["time_to_first_token", "inter_token_latency", "request_latency"];
    assert_eq!(names, latencies.map(|name| format!("{name}_cdf")));
    for (at, (side, run)) in [("BASE", &fast), ("NEW", &slow)].into_iter().enumerate() {
        let series = &charts[2]["series"][at];
        assert_eq!(series["name"], format!("{side} ({})", run.display()));
        let points = series["points"].as_array().unwrap();
        assert_eq!(points.len(), 60);
        let latency = &summary(run)["request_latency"];
        for (point, name) in [(&points[0], "min"), (&points[59], "max")] {
            let (found, expected) = (point[0].as_f64().unwrap(), latency[name].as_f64().unwrap());
            assert!((found - expected).abs() <= 1e-9 * expected, "{name}: {found} {expected}");
        }
    }

    let both = compare(&fast, &[&doubtful], &["--gate", "ttft<=5%"]);
    assert_eq!(both.status.code(), Some(4), "{}", String::from_utf8_lossy(&both.stdout));
    assert!(String::from_utf8_lossy(&both.stdout).contains("client health is invalid"));
    let better = compare(&slow, &[&fast], &["--format", "markdown", "--gate", "ttft<=5%"]);
    let text = String::from_utf8_lossy(&better.stdout);
    assert_eq!(better.status.code(), Some(0), "{text}");
    assert!(text.contains("**No regression.**") && text.contains("| improvement |"), "{text}");
    // In a GitHub workflow, the summary of the step is the same, and cases that passed have values.
    let steps = directory.path().join("steps.md");
    let mut command = aiperf(&["compare"]);
    command.arg(&slow).arg(&fast).args(["--gate", "ttft<=5%", "--junit"]).arg(&junit);
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", &steps);
    assert_eq!(command.output().unwrap().status.code(), Some(0));
    assert_eq!(fs::read_to_string(&steps).unwrap(), text);
    let xml = fs::read_to_string(&junit).unwrap();
    assert!(xml.contains("<system-out>improvement: -") && xml.contains("; BASE "), "{xml}");
    let several = compare(&fast, &[&fast, &doubtful, &slow], &["--gate", "ttft<=5%"]);
    assert_eq!(several.status.code(), Some(3));
    let missing = compare(&fast, &[&place("nothing")], &[]);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(compare(&fast, &[&slow], &["--gate", "ttft<=5ms"]).status.code(), Some(2));
}

#[test]
fn repeated_runs_are_compared_by_their_means() {
    let directory = tempfile::tempdir().unwrap();
    let (fast, slow) = (directory.path().join("fast"), directory.path().join("slow"));
    run(&fast, 20.0, "valid", &["--num-profile-runs", "3"]);
    run(&slow, 30.0, "valid", &["--num-profile-runs", "3"]);
    let output = compare(&fast, &[&slow], &["--format", "json", "--gate", "ttft<=5%"]);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stdout));
    let [comparison] = &json(&output)[..] else { panic!("one comparison") };
    assert_eq!((&comparison["method"], &comparison["runs"]), (&"welch".into(), &[3, 3].into()));
}

#[test]
fn sweeps_are_compared_cell_by_cell() {
    let directory = tempfile::tempdir().unwrap();
    let (fast, slow) = (directory.path().join("fast"), directory.path().join("slow"));
    run(&fast, 20.0, "valid", &["--concurrency", "1,2"]);
    run(&slow, 30.0, "valid", &["--concurrency", "1,4"]);
    let junit = directory.path().join("junit.xml");
    let gate = ["--gate", "ttft<=5%"];
    let flags = ["--format", "json", "--junit", junit.to_str().unwrap()];
    let output = compare(&fast, &[&slow], &[&gate[..], &flags].concat());
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stdout));
    let found = json(&output);
    let facts = |one: &Value| (one["cell"].clone(), one["runs"].clone(), one["outcome"].clone());
    assert_eq!(
        found.iter().map(facts).collect::<Vec<_>>(),
        [
            ("concurrency_1".into(), [1, 1].into(), "regression".into()),
            ("concurrency_2".into(), [1, 0].into(), "cannot_tell".into()),
            ("concurrency_4".into(), [0, 1].into(), "cannot_tell".into()),
        ]
    );
    assert_eq!(found[1]["obstacle"], "NEW: the sweep does not have the cell");
    assert_eq!(found[0]["parameters"]["phases.profiling.concurrency"], 1);
    // One gate, and one cell that both have.
    assert_eq!(found[0]["interval_level"], 0.95);
    let xml = fs::read_to_string(&junit).unwrap();
    for (cell, outcome) in found.iter().zip(["failure", "error", "error"]) {
        let name = format!("slow {}\" tests=\"1\"", cell["cell"].as_str().unwrap());
        let (_, suite) = xml.split_once(&name).unwrap_or_else(|| panic!("{name}: {xml}"));
        assert!(suite.split("</testsuite>").next().unwrap().contains(outcome), "{xml}");
    }
    let same = compare(&fast, &[&fast], &gate);
    let text = String::from_utf8_lossy(&same.stdout);
    assert_eq!(same.status.code(), Some(0), "{text}");
    assert!(text.contains("Cell") && text.contains("concurrency_2 "), "{text}");
    // One gate and two cells.
    assert!(text.contains("97.50% each, so that all rows have 95% together"), "{text}");
    // A cell that was not performed again.
    fs::remove_dir_all(fast.join("concurrency_2")).unwrap();
    let gone = compare(&fast, &[&fast], &[&gate[..], &["--format", "markdown"]].concat());
    let text = String::from_utf8_lossy(&gone.stdout);
    assert_eq!(gone.status.code(), Some(4), "{text}");
    assert!(text.contains("concurrency_2: Nothing can be concluded: BASE: not run."), "{text}");
    let mixed = compare(&fast, &[&slow.join("concurrency_1")], &[]);
    assert_eq!(mixed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&mixed.stderr).contains("compare two sweeps"));
}

#[test]
fn intervals_are_numpys() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    run_python("tests/check_intervals.py", &golden);
}

/// Concurrency 4 and 2: whatever differs then is not the server's doing.
#[test]
fn different_loads_are_not_judged_unless_that_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let (four, two) = (directory.path().join("four"), directory.path().join("two"));
    run(&four, 20.0, "valid", &["--concurrency", "4"]);
    run(&two, 40.0, "valid", &["--concurrency", "2"]);
    let output = compare(&four, &[&two], &[]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert_eq!(text.lines().next(), Some("these runs had different loads: concurrency 4 and 2"));
    assert!(!text.contains("regression"), "{text}");
    let found = &json(&compare(&four, &[&two], &["--format", "json"]))[0];
    assert_eq!(found["different_loads"], serde_json::json!(["concurrency 4 and 2"]));
    assert_eq!(found["outcome"], "cannot_tell");
    let judged = compare(&four, &[&two], &["--allow-different"]);
    let text = String::from_utf8_lossy(&judged.stdout).into_owned();
    assert_eq!(judged.status.code(), Some(3), "{text}");
    assert!(text.starts_with("these runs had different loads: concurrency 4 and 2"), "{text}");
    // Other prompts of the same lengths are not another load.
    let other = directory.path().join("other");
    run(&other, 20.0, "valid", &["--random-seed", "7", "--concurrency", "4"]);
    let output = compare(&four, &[&other], &["--format", "json"]);
    assert_eq!(json(&output)[0].get("different_loads"), None);
}
