//! Sweeps: the cells of a command line, their files, and the continuation of interrupted sweeps.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::Duration;

use base::units::Nanos;
use mock_server::{Config, MockServer, Script, Timing, TimingForm};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::python::run_python;
use crate::support::run::{Run, aiperf, profile, profile_command, signal};

fn mock(script: Script) -> MockServer {
    MockServer::start(Config { script, ..Config::default() }).unwrap()
}

fn results(directory: &Path) -> Value {
    let text = fs::read(directory.join("profile_export_aiperf_sweep.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Waits until the program has sent this many requests.
fn wait_for(requests: u64, server: &MockServer, program: &mut Child) {
    while server.requests_received() < requests {
        assert!(program.try_wait().unwrap().is_none(), "the program has ended");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the content of every file in `directory`, by its path.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.display().to_string(), fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn scenarios_have_their_names_in_the_order_of_the_command_line() {
    let server = mock(Script { ttft: Nanos::from_millis(1.0), ..Script::default() });
    let scenarios =
        ["--variant", "talk: concurrency=2, isl=40", "--variant", "chat: concurrency=1, isl=8"];
    let flags = [&scenarios[..], &["--osl", "4", "--request-count", "6"]].concat();
    let run = profile(&server.url(), &flags).succeeded();
    let shown = run.stdout();
    let heading = shown.lines().find(|line| line.contains("scenario")).unwrap();
    let [name, load] = ["scenario", "concurrency"].map(|column| heading.find(column).unwrap());
    assert!(name < load, "{shown}");
    let file =
        fs::read_to_string(run.directory.path().join("sweep_aggregate/sweep_cells.csv")).unwrap();
    let first = |line: &str| line.split(',').take(2).map(str::to_owned).collect::<Vec<_>>();
    let cells: Vec<_> = file.lines().map(first).collect();
    assert_eq!(cells, [["scenario", "concurrency"], ["talk", "2"], ["chat", "1"]]);
    let row =
        |name: &str| shown.lines().position(|line| line.contains(&format!(" {name} "))).unwrap();
    assert!(row("talk") < row("chat"), "{shown}");
}

#[test]
fn a_grid_has_a_run_for_each_cell_and_can_be_reported_again() {
    let server = mock(Script { ttft: Nanos::from_millis(1.0), ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let mut command = aiperf(&["profile", "--model", "mock-model", "--tokenizer", "builtin"]);
    command.args(["--url", &server.url(), "--ui", "none", "--streaming", "--osl", "4"]);
    command.args(["--isl", "10,20", "--concurrency", "1,2", "--request-count", "6"]);
    command.args(["--goodput", "request_latency:60000", "--set-consistent-seed"]);
    let output = command.arg("--artifact-dir").arg(directory.path()).output().unwrap();
    let run = Run { output, directory }.succeeded();
    let directory = run.directory.path();
    let found = results(&directory.join("sweep_aggregate"));
    assert_eq!(found["aggregation_type"], "sweep");
    assert_eq!((&found["num_profile_runs"], &found["num_successful_runs"]), (&json!(4), &json!(4)));
    assert_eq!(found["metadata"]["num_combinations"], 4);
    assert_eq!(
        found["metadata"]["sweep_parameters"],
        json!([{"name": "mean", "values": [10, 20]}, {"name": "concurrency", "values": [1, 2]}])
    );
    let cells = found["per_combination_metrics"].as_array().unwrap();
    assert_eq!(cells[1]["parameters"], json!({"mean": 10, "concurrency": 2}));
    for (index, cell) in cells.iter().enumerate() {
        let place = directory.join(cell["directory"].as_str().unwrap());
        let text = fs::read(place.join("profile_export_aiperf.json")).unwrap();
        let summary: Value = serde_json::from_slice(&text).unwrap();
        // One higher in each cell, as in AIPerf.
        assert_eq!(summary["run_info"]["random_seed"], 42 + index);
        assert_eq!(summary["request_count"]["avg"], 6.0);
        assert_eq!(cell["error"], Value::Null);
        let steady =
            |of: &Value| of["steady_state"]["metrics"]["request_throughput"]["avg"].clone();
        assert_eq!(steady(cell), steady(&summary));
    }
    let stdout = run.stdout();
    assert!(stdout.contains("Run 4 of 4 (mean_20__concurrency_2): 6 requests"), "{stdout}");
    for shown in ["aiperf | Sweep", "TTFT p99", "ITL p50", "Good req", "Pareto"] {
        assert!(stdout.contains(shown), "{shown}: {stdout}");
    }
    run_python("tests/check_sweep.py", directory);
    // The report recomputes the same.
    let before = results(&directory.join("sweep_aggregate"));
    fs::remove_dir_all(directory.join("sweep_aggregate")).unwrap();
    let report = aiperf(&["report"]).arg(directory).output().unwrap();
    assert!(report.status.success(), "{report:?}");
    assert_eq!(results(&directory.join("sweep_aggregate")), before);
    // Another sweep does not overwrite it, unless it is asked to.
    let other = profile(&server.url(), &["--concurrency", "1,2", "--request-count", "2"]);
    other.succeeded();
    let again = profile_command(&server.url(), directory, &["--concurrency", "1,2"]);
    let refused = { again }.output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}

#[test]
fn a_sweep_finds_where_throughput_stops_growing_and_can_be_continued() {
    let (slots, seconds) = (3, 0.01);
    let server = mock(Script {
        ttft: Nanos::from_seconds(seconds),
        max_concurrent: Some(slots),
        timing: Some(Timing::for_form(TimingForm::Vllm)),
        ..Script::default()
    });
    let directory = tempfile::tempdir().unwrap();
    let described = json!({"slots": slots, "seconds": seconds}).to_string();
    let sweep = |more: &[&str]| {
        let mut flags = vec!["--sweep-auto", "--concurrency-max", "64"];
        flags.extend(more);
        profile_command(&server.url(), directory.path(), &flags).output().unwrap()
    };
    // The time is over after the first load; the others follow later.
    let begun = sweep(&["--sweep-max-duration", "0.9"]);
    let stdout = String::from_utf8_lossy(&begun.stdout);
    assert!(begun.status.success(), "{begun:?}");
    assert!(stdout.contains("Run 1 (concurrency_1): 100 requests"), "{stdout}");
    assert!(stdout.contains("the sweep was not complete within"), "{stdout}");
    let place = directory.path().join("sweep_aggregate");
    assert_eq!(results(&place)["saturation"]["status"], Value::Null);
    let other = sweep(&["--resume", "--random-seed", "7"]);
    assert!(String::from_utf8_lossy(&other.stderr).contains("not the sweep"), "{other:?}");
    fs::write(directory.path().join("server.json"), described).unwrap();
    // Killed before its first cell, it only has the settings of all.
    let plan = directory.path().join("sweep_plan.json");
    let whole = fs::read(&plan).unwrap();
    let mut early: Value = serde_json::from_slice(&whole).unwrap();
    early["cells"] = json!([]);
    fs::write(&plan, early.to_string()).unwrap();
    let other = sweep(&["--resume", "--random-seed", "7"]);
    assert!(String::from_utf8_lossy(&other.stderr).contains("not the sweep"), "{other:?}");
    fs::write(&plan, whole).unwrap();
    let output = sweep(&["--resume"]);
    let run = Run { output, directory }.succeeded();
    let directory = run.directory.path();
    let stdout = run.stdout();
    assert!(stdout.contains("1 runs are finished"), "{stdout}");
    let found = results(&place);
    assert_eq!(found["saturation"]["status"], "saturated", "{:#}", found["saturation"]);
    assert!(stdout.contains("requests/s ("), "{stdout}");
    let cells = found["per_combination_metrics"].as_array().unwrap();
    let loads: Vec<u64> =
        cells.iter().filter_map(|cell| cell["parameters"]["concurrency"].as_u64()).collect();
    assert!(loads.is_sorted() && loads.starts_with(&[1, 2]), "{loads:?}");
    // Beyond the knee, requests wait. A busy machine can hide it: then nothing is said.
    let beyond = &found["beyond"];
    assert_eq!(stdout.contains("ms from concurrency"), !beyond.is_null(), "{stdout}");
    for growth in beyond["growth"].as_array().into_iter().flatten() {
        let saturated_from = found["saturation"]["saturated_from"].as_f64();
        assert_eq!(beyond["from"]["concurrency"].as_f64(), saturated_from, "{beyond}");
        let of = |part: &Value| part["difference_ms"].as_f64().unwrap();
        let parts: Vec<f64> = growth["parts"].as_array().unwrap().iter().map(of).collect();
        assert!((parts.iter().sum::<f64>() - of(growth)).abs() < 1e-9, "{beyond}");
        assert!(parts.is_sorted_by(|a, b| a.abs() >= b.abs()), "{beyond}");
    }
    run_python("tests/check_saturation.py", directory);
    run_python("tests/check_sweep.py", directory);
    fs::remove_dir_all(&place).unwrap();
    let report = aiperf(&["report"]).arg(directory).output().unwrap();
    assert!(report.status.success(), "{report:?}");
    assert_eq!(results(&place), found);
}

#[test]
fn equal_cells_are_run_once_and_those_of_few_requests_with_a_warning() {
    let server = mock(Script::default());
    let run =
        profile(&server.url(), &["--concurrency", "2,8,2", "--request-count", "4"]).succeeded();
    let found = results(&run.path("sweep_aggregate"));
    let cells = found["per_combination_metrics"].as_array().unwrap();
    let loads: Vec<_> = cells.iter().map(|cell| &cell["parameters"]["concurrency"]).collect();
    assert_eq!(loads, [2, 8]);
    let stderr = run.stderr();
    assert!(stderr.contains("given twice are run once: 2"), "{stderr}");
    let warning =
        "--request-count 4 is less than --concurrency 8, so at most 4 requests are in flight";
    assert_eq!(stderr.matches(warning).count(), 1, "{stderr}");
}

#[test]
fn a_cell_whose_records_are_cut_off_is_run_again() {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let sweep = |more: &[&str]| {
        let flags = ["--concurrency", "1,2", "--request-count", "30"];
        profile_command(&server.url(), directory.path(), &[&flags[..], more].concat())
            .output()
            .unwrap()
    };
    let begun = sweep(&[]);
    assert!(begun.status.success(), "{begun:?}");
    let cells = ["concurrency_1", "concurrency_2"].map(|name| directory.path().join(name));
    let lines = cells[1].join("profile_export.jsonl");
    let whole = fs::read_to_string(&lines).unwrap();
    let cut: String = whole.split_inclusive('\n').take(10).collect();
    fs::write(&lines, cut).unwrap();
    let first = fs::read(cells[0].join("profile_export_aiperf.json")).unwrap();
    let output = sweep(&["--resume"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains("concurrency_2 does not have the records of all its requests"),
        "{stderr}"
    );
    assert_eq!(fs::read_to_string(&lines).unwrap().lines().count(), 30);
    assert_eq!(fs::read(cells[0].join("profile_export_aiperf.json")).unwrap(), first);
    for cell in results(&directory.path().join("sweep_aggregate"))["per_combination_metrics"]
        .as_array()
        .unwrap()
    {
        assert_eq!(cell["metrics"]["request_count"]["avg"], 30.0, "{cell:#}");
    }
}

#[test]
fn recipes_write_what_they_find() {
    let server = mock(Script { ttft: Nanos::from_millis(1.0), ..Script::default() });
    let file = |flags: &str, name: &str| -> (Value, Value, String) {
        let directory = tempfile::tempdir().unwrap();
        let mut command = aiperf(&["profile", "--model", "m", "--tokenizer", "builtin"]);
        command.args(["--url", &server.url(), "--ui", "none", "--streaming", "--request-count"]);
        command.args(["4", "--search-recipe"]).args(flags.split_whitespace());
        let output = command.arg("--artifact-dir").arg(directory.path()).output().unwrap();
        let run = Run { output, directory }.succeeded();
        let place = run.directory.path().join("sweep_aggregate");
        let found = serde_json::from_slice(&fs::read(place.join(name)).unwrap()).unwrap();
        (found, results(&place), run.stdout())
    };
    let mean = |cell: &Value, metric: &str, statistic: &str| {
        cell["metrics"][metric][statistic].as_f64().unwrap()
    };
    let (knee, cells, stdout) = file(
        "concurrency-ramp --concurrency-max 4 --concurrency-steps 3 --degradation-threshold 1000",
        "degradation_knee.json",
    );
    let cells = cells["per_combination_metrics"].as_array().unwrap().clone();
    let p99 = |at: usize| mean(&cells[at], "request_latency", "p99");
    assert_eq!((&knee["baseline_concurrency"], &knee["baseline_p99"]), (&json!(1), &json!(p99(0))));
    assert_eq!((&knee["knee_concurrency"], &knee["knee_p99"]), (&Value::Null, &Value::Null));
    let points = [1, 2, 4].iter().enumerate();
    let points: Vec<Value> =
        points.map(|(at, load)| json!({"concurrency": load, "p99": p99(at)})).collect();
    assert_eq!(knee["all_points"], json!(points));
    assert!(stdout.contains("Request latency p99 at no concurrency exceeds"), "{stdout}");

    let (curve, cells, stdout) =
        file("prefill-ttft-curve --isl-min 4 --isl-max 16 --isl-steps 3", "prefill_curve.json");
    let last = &curve["raw_points"][2];
    let cell = &cells["per_combination_metrics"][2];
    let expected = json!({"isl": 16, "ttft_ms": mean(cell, "time_to_first_token", "avg")});
    assert_eq!(*last, expected);
    assert!(curve["coefficients"].as_array().unwrap().len() >= 2, "{curve}");
    // The server needs as long for long prompts as for short ones, which shows on a quiet machine.
    let said = ["Time to first token in ms =", "does not depend on the input length"];
    assert!(said.iter().any(|said| stdout.contains(said)), "{stdout}");

    let (surface, cells, _) = file(
        "decode-itl-curve --isl 5 --concurrency 1,2 --osl-min 3 --osl-max 6 --osl-steps 2",
        "decode_itl_surface.json",
    );
    assert_eq!(surface["surface"]["concurrency_axis"], json!([1, 2]));
    assert_eq!(surface["surface"]["osl_axis"], json!([3, 6]));
    // The lengths precede the concurrencies in the grid's order: 3 and 2 is the second cell.
    let cell = &cells["per_combination_metrics"][1];
    assert_eq!(cell["parameters"], json!({"mean": 3, "concurrency": 2}));
    let itl = mean(cell, "inter_token_latency", "avg");
    assert_eq!(surface["surface"]["itl_grid"][1][0], itl);

    let (pareto, cells, _) =
        file("pareto-sweep --isl-osl-pairs 4:2,8:4 --concurrency 1,2", "pareto_sweep.json");
    let points = pareto["cells"].as_array().unwrap();
    assert_eq!((&points[3]["isl"], &points[3]["concurrency"]), (&json!(8), &json!(2)));
    let cell = &cells["per_combination_metrics"][3];
    assert_eq!(points[3]["x"], mean(cell, "time_to_first_token", "p95"));
    assert_eq!(points[3]["y"], mean(cell, "output_token_throughput", "avg"));
    let highest =
        points.iter().max_by(|a, b| a["y"].as_f64().partial_cmp(&b["y"].as_f64()).unwrap());
    assert_eq!(highest.unwrap()["pareto_optimal"], true);

    let (breach, cells, stdout) = file(
        "max-concurrency-under-sla --search-style grid --concurrency 1,2 \
         --search-sla effective_concurrency:max:le:1",
        "sla_breach.json",
    );
    assert_eq!(
        [&breach["max_passing_concurrency"], &breach["first_failing_concurrency"]],
        [&json!(1), &json!(2)]
    );
    let expected = json!({
        "metric_tag": "effective_concurrency", "stat": "max", "op": "le", "threshold": 1.0,
        "observed": 2.0,
    });
    assert_eq!(breach["first_failing_breach"], expected);
    assert_eq!(breach["monotonicity_check"], true);
    assert_eq!(cells["metadata"]["sla_constraints"]["infeasible_count"], 1);
    assert_eq!(
        cells["best_configurations"]["best_throughput"]["parameters"],
        json!({"concurrency": 1})
    );
    assert!(stdout.contains("phases.profiling.concurrency=1. Lowest that"), "{stdout}");
}

#[test]
fn a_cell_that_fails_is_a_row_and_the_rest_goes_on() {
    // The requests of the second cell, in both trials.
    let fault = Script::parse_fault("requests=5,6,7,8,13,14,15,16:status=503").unwrap();
    let server = mock(Script { faults: vec![fault], ..Script::default() });
    let flags = ["--concurrency", "1,2", "--request-count", "4", "--num-profile-runs", "2"];
    let run = profile(&server.url(), &[&flags[..], &["--parameter-sweep-same-seed"]].concat());
    assert_eq!(run.exit_code(), Some(1), "{}", run.stderr());
    assert!(run.stderr().contains("2 of 4 runs failed"), "{}", run.stderr());
    let directory = run.directory.path();
    let found = results(&directory.join("aggregate/sweep_aggregate"));
    let cells = found["per_combination_metrics"].as_array().unwrap();
    assert_eq!(cells[0]["metrics"]["request_count_avg"]["mean"], 4.0);
    assert_eq!(cells[1]["metrics"], json!({}));
    assert!(cells[1]["error"].as_str().unwrap().contains("no request succeeded"), "{}", cells[1]);
    assert_eq!(found["failed_runs"].as_array().unwrap().len(), 2);
    assert_eq!(
        found["best_configurations"]["best_throughput"]["parameters"],
        json!({"concurrency": 1})
    );
    assert_eq!(found["pareto_optimal"], json!([{"concurrency": 1}]));
    let aggregate = directory.join("aggregate/concurrency_1/profile_export_aiperf_aggregate.json");
    assert!(aggregate.is_file() && !directory.join("aggregate/concurrency_2").exists());
    assert!(run.stdout().contains("concurrency_2: no request succeeded"), "{}", run.stdout());
    run_python("tests/check_sweep.py", directory);
    let seed = |cell: &str| -> Value {
        let place = directory.join("profile_runs/trial_0002").join(cell);
        let text = fs::read(place.join("profile_export_aiperf.json")).unwrap();
        serde_json::from_slice::<Value>(&text).unwrap()["run_info"]["random_seed"].clone()
    };
    assert_eq!(seed("concurrency_1"), seed("concurrency_2"));
}

#[test]
fn a_killed_sweep_is_continued() {
    // The third cell cannot end before it is killed.
    let fault = Script::parse_fault("requests=12:hang").unwrap();
    let server = mock(Script { faults: vec![fault], ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let flags = ["--concurrency", "1,2,3,4", "--request-count", "5"];
    let mut child = profile_command(&server.url(), path, &flags).spawn().unwrap();
    wait_for(12, &server, &mut child);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    let cell = |number: u64| path.join(format!("concurrency_{number}"));
    let before = [contents(&cell(1)), contents(&cell(2))];
    // The killed one is not among the results of a report.
    let report = aiperf(&["report"]).arg(path).output().unwrap();
    assert!(report.status.success(), "{report:?}");
    let found = results(&path.join("sweep_aggregate"));
    assert_eq!(found["num_successful_runs"], 2);
    assert_eq!(found["per_combination_metrics"][3]["error"], "not run");

    let changed = ["--concurrency", "1,2,3,4", "--request-count", "6", "--resume"];
    let refused = profile_command(&server.url(), path, &changed).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("schedule.phases[0].stop.requests was 5, now 6"), "{said}");

    let kept = [contents(&cell(1)), contents(&cell(2))];
    let resumed = [&flags[..], &["--resume", "--log-level", "debug"]].concat();
    let output = profile_command(&server.url(), path, &resumed).output().unwrap();
    let run = Run { output, directory }.succeeded();
    assert!(run.stdout().contains("2 of 4 runs are finished"), "{}", run.stdout());
    assert!(run.stdout().contains("Run 3 of 4"), "{}", run.stdout());
    assert!(!run.stdout().contains("Run 2 of 4"), "{}", run.stdout());
    let path = run.directory.path();
    assert_eq!(
        [contents(&path.join("concurrency_1")), contents(&path.join("concurrency_2"))],
        kept
    );
    // The report has recomputed summaries, but not the records.
    for (before, kept) in before.iter().zip(&kept) {
        for (name, content) in
            before.iter().filter(|(name, _)| name.contains("profile_export.jsonl"))
        {
            assert_eq!(&kept[name], content, "{name}");
        }
    }
    let found = results(&path.join("sweep_aggregate"));
    assert_eq!(found["num_successful_runs"], 4);
    assert_eq!(found["is_complete"], true);
    run_python("tests/check_sweep.py", path);
}

#[test]
fn an_interrupted_sweep_keeps_its_finished_cells() {
    let server = mock(Script { ttft: Nanos::from_millis(20.0), ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    // The second cell does not end by itself.
    let lists = ["--concurrency", "1,2,3", "--request-count", "5,100000,5", "--sweep-type", "zip"];
    let flags = [&lists[..], &["--num-dataset-entries", "5"]].concat();
    let mut child = profile_command(&server.url(), directory.path(), &flags).spawn().unwrap();
    wait_for(8, &server, &mut child);
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    let run = Run { output, directory };
    assert_eq!(run.exit_code(), Some(130), "{}", run.stderr());
    let found = results(&run.path("sweep_aggregate"));
    assert_eq!(found["num_successful_runs"], 1);
    assert_eq!(found["per_combination_metrics"][0]["metrics"]["request_count"]["avg"], 5.0);
    assert!(found["per_combination_metrics"][1]["error"].as_str().unwrap().contains("cancelled"));
    assert_eq!(found["per_combination_metrics"][2]["error"], "not run");
    assert_eq!(found["best_configurations"]["best_throughput"]["parameters"]["concurrency"], 1);
}

#[test]
fn no_run_starts_after_the_maximum_duration() {
    let server = mock(Script::default());
    let flags = ["--concurrency", "1,2", "--request-count", "2", "--sweep-max-duration", "1e-9"];
    let run = profile(&server.url(), &flags).succeeded();
    assert_eq!(server.requests_received(), 0);
    let found = results(&run.path("sweep_aggregate"));
    assert_eq!(found["per_combination_metrics"][0]["error"], "not run");
    assert_eq!(found["best_configurations"], json!({}));
    assert!(run.stdout().contains("--resume"), "{}", run.stdout());
}
