//! Loads that follow the verdicts on their levels, and what is written about them.

use std::fs;

use base::units::Nanos;
use mock_server::Script;
use serde_json::Value;

use crate::support::load::mock;
use crate::support::run::{Run, aiperf, profile};

/// A server with two slots, each of which serves a request in 200 ms: with two requests in flight the first
/// token takes 200 ms, with three 300 ms on average, with four 400 ms (by Little's law).
fn script() -> Script {
    Script { ttft: Nanos::from_millis(200.0), max_concurrent: Some(2), ..Script::default() }
}

const CONDITION: &str = "time_to_first_token:avg<=250ms";

/// Windows of a second, of which one is held.
const WINDOWS: [&str; 9] = [
    "--adaptive-scale",
    "--adaptive-scale-sla",
    CONDITION,
    "--adaptive-assessment-period",
    "1",
    "--adaptive-sustain-duration",
    "0.5",
    "--adaptive-min-completed-requests",
    "3",
];

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is not a list"))
}

/// Returns the level after `path`, by doubling and bisection of whole numbers; `None` at the end.
fn expected_next(path: &[(f64, bool)]) -> Option<f64> {
    let passing = path.iter().filter(|(_, passed)| *passed).map(|(level, _)| *level);
    let failing = path.iter().filter(|(_, passed)| !passed).map(|(level, _)| *level);
    let (low, high) = (passing.fold(0.0, f64::max), failing.fold(f64::INFINITY, f64::min));
    match high {
        f64::INFINITY => Some(low * 2.0),
        high if high - low > 1.0 => Some(low.midpoint(high).floor()),
        _ => None,
    }
}

/// Start and end of a request, and its time to first token in milliseconds.
fn requests(run: &Run) -> Vec<(u64, u64, f64)> {
    let of = |record: &Value| {
        let at = |name: &str| record["metadata"][name].as_u64().unwrap();
        let ttft = number(&record["metrics"]["time_to_first_token"]["value"]);
        (at("request_start_ns"), at("request_end_ns"), ttft)
    };
    run.records().iter().map(of).collect()
}

#[test]
fn the_load_ends_at_the_highest_concurrency_that_meets_the_conditions() {
    let server = mock(script());
    let run =
        profile(&server.url(), &[&WINDOWS[..], &["--concurrency", "64"]].concat()).succeeded();
    let summary = run.summary();
    let adaptive = &summary["adaptive"][0];
    let path = list(&adaptive["path"]);
    let requests = requests(&run);
    let mut verdicts = Vec::new();
    for (index, window) in path.iter().enumerate() {
        let time = window["start_ns"].as_u64().unwrap()..window["end_ns"].as_u64().unwrap();
        assert!(time.end - time.start >= 1_000_000_000, "{window}");
        let own: Vec<_> =
            requests.iter().filter(|(start, ..)| time.contains(start)).copied().collect();
        let level = number(&window["level"]);
        // Those of the level before had ended, so no more are in flight than the level permits.
        for (start, ..) in &own {
            let at_once = requests.iter().filter(|(from, to, _)| from <= start && start < to);
            assert!(at_once.count() as f64 <= level, "{window}");
        }
        assert_eq!(window["requests"]["completed"], own.len());
        assert_eq!(window["metrics"]["request_count"]["avg"], own.len() as f64);
        let mean = own.iter().map(|(_, _, ttft)| ttft).sum::<f64>() / own.len() as f64;
        let observed = number(&window["conditions"][0]["observed"]);
        assert!((observed - mean).abs() < 1e-6 * mean, "{window}: {mean}");
        let has_passed = mean <= 250.0;
        assert_eq!(window["verdict"], if has_passed { "passed" } else { "missed" });
        if window["stage"] == "discover" {
            let next = if index == 0 { Some(1.0) } else { expected_next(&verdicts) };
            assert_eq!(Some(level), next, "{path:?}");
            verdicts.push((level, has_passed));
        }
    }
    assert_eq!(expected_next(&verdicts), None);
    let levels: Vec<f64> = path.iter().map(|window| number(&window["level"])).collect();
    assert_eq!(levels, [1.0, 2.0, 4.0, 3.0, 2.0]);
    assert_eq!(path.last().unwrap()["stage"], "sustain");
    for (member, value) in [
        ("phase", Value::from("profiling")),
        ("status", "complete".into()),
        ("completed_reason", "sustain_duration_completed".into()),
        ("boundary_value", 2.0.into()),
        ("last_passing_value", 2.0.into()),
        ("first_failing_value", 3.0.into()),
    ] {
        assert_eq!(adaptive[member], value, "{member}");
    }
    let shown =
        "Adaptive load of profiling: the conditions are met up to a concurrency of 2; 3 missed";
    assert!(run.stdout().contains(shown), "{}", run.stdout());
    assert!(run.text("profile_export_console.txt").contains("aiperf | Adaptive Load"));

    // The load was not constant.
    assert_eq!(summary["steady_state"]["found"], false);
    assert_eq!(summary["is_complete"], true);
    are_aiperfs_files(&run, adaptive);

    // The levels are computed from the records again.
    let again = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let (before, after) = (told(adaptive), told(&run.summary()["adaptive"][0]));
    assert_eq!(before, after);
}

/// Returns an adaptive load with two statistics of each level instead of all of them.
fn told(adaptive: &Value) -> Value {
    let mut adaptive = adaptive.clone();
    for window in adaptive["path"].as_array_mut().unwrap() {
        let metrics = window["metrics"].take();
        window["count"] = metrics["request_count"]["avg"].clone();
        window["longest"] = metrics["request_latency"]["max"].clone();
    }
    adaptive
}

/// Checks the files that have the names and the keys of AIPerf's.
fn are_aiperfs_files(run: &Run, adaptive: &Value) {
    let read = |name: &str| serde_json::from_str::<Value>(&run.text(name)).unwrap();
    let manifest = read("adaptive_scale_manifest.json");
    assert_eq!(manifest["schema_version"], 2);
    let phase = &manifest["adaptive_phases"][0];
    assert_eq!(phase["summary_path"], "phases/profiling/adaptive_scale_summary.json");
    assert_eq!(phase["profiling_index"], 0);
    let of_phase = read(phase["summary_path"].as_str().unwrap());
    assert_eq!(of_phase["status"], "complete");
    assert_eq!(of_phase["boundary_value"], 2.0);
    assert_eq!(
        (&of_phase["sustain_windows"], &of_phase["sustain_passed_windows"]),
        (&1.into(), &1.into())
    );
    let path = list(&adaptive["path"]);
    let candidates = list(&of_phase["candidates"]);
    assert_eq!(candidates.len(), path.len());
    for (candidate, window) in candidates.iter().zip(path) {
        assert_eq!(candidate["candidate_value"], window["level"]);
        assert_eq!(candidate["ttft_avg_ms"], window["conditions"][0]["observed"]);
        assert_eq!(candidate["accepted"], window["verdict"] == "passed");
        let reason = if window["verdict"] == "passed" { Value::Null } else { "sla_miss".into() };
        assert_eq!(candidate["rejection_reason"], reason);
    }
    let events = run.text(phase["events_path"].as_str().unwrap());
    let events: Vec<Value> = events.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let level = ["adaptive_window", "adaptive_decision"];
    let end = ["boundary_discovered", "sustain_started", "adaptive_window", "adaptive_complete"];
    let expected = [&["adaptive_phase_started"][..], &level, &level, &level, &level, &end].concat();
    assert_eq!(names, expected);
}

#[test]
fn a_rate_rises_to_the_configured_one() {
    let server = mock(Script { ttft: Nanos::from_millis(5.0), ..Script::default() });
    let run = profile(
        &server.url(),
        &[
            &WINDOWS[..],
            &[
                "--request-rate",
                "40",
                "--arrival-pattern",
                "constant",
                "--adaptive-control-min",
                "10",
            ],
        ]
        .concat(),
    );
    let run = run.succeeded();
    let summary = run.summary();
    let adaptive = &summary["adaptive"][0];
    assert_eq!(adaptive["control_variable"], "request_rate");
    assert_eq!(adaptive["completed_reason"], "max_control_value_reached_without_saturation");
    let path = list(&adaptive["path"]);
    let levels: Vec<f64> = path.iter().map(|window| number(&window["level"])).collect();
    assert_eq!(levels, [10.0, 20.0, 40.0]);
    for window in path {
        let seconds = (number(&window["end_ns"]) - number(&window["start_ns"])) / 1e9;
        let expected = number(&window["level"]) * seconds;
        let sent = number(&window["requests"]["completed"]);
        // Arrivals are evenly spaced: the number differs by less than one from the product, and by those
        // that a busy machine sends late.
        assert!((sent - expected).abs() < 0.3 * expected, "{window}");
    }
}

#[test]
fn phases_can_be_adaptive_and_end_before_their_limit_is_found() {
    let server = mock(Script { ttft: Nanos::from_millis(10.0), ..Script::default() });
    let run = profile(
        &server.url(),
        &[
            "--phase",
            "base: concurrency=1, request-count=5",
            "--phase",
            "rise: concurrency=8, prefill-concurrency=4, adaptive-scale=true, \
             adaptive-control-variable=prefill_concurrency, adaptive-scale-sla=request_latency:p50<=10s, \
             adaptive-assessment-period=0.3, request-count=40",
        ],
    )
    .succeeded();
    let summary = run.summary();
    let adaptive = list(&summary["adaptive"]);
    assert_eq!(adaptive.len(), 1);
    assert_eq!(adaptive[0]["phase"], "rise");
    assert_eq!(summary["request_count"]["avg"], 45.0);
    assert_eq!(adaptive[0]["status"], "incomplete");
    let first = &adaptive[0]["path"][0];
    assert_eq!(number(&first["level"]), 1.0);
    let file = run.directory.path().join("phases/rise/adaptive_scale_summary.json");
    let of_phase = summary_of(&fs::read_to_string(file).unwrap());
    assert_eq!(of_phase["control_variable"], "prefill_concurrency");
}

fn summary_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn loads_that_nothing_can_raise_are_rejected() {
    let with = |extra: &[&str]| profile("http://127.0.0.1:9", &[&WINDOWS[..], extra].concat());
    for (extra, why) in [
        (
            &["--concurrency", "4", "--adaptive-control-min", "5"][..],
            "starts at 5, above the greatest concurrency (4); increase --concurrency",
        ),
        (
            &["--concurrency", "4", "--adaptive-control-variable", "request_rate"],
            "request_rate requires a rate",
        ),
        (
            &["--concurrency", "4", "--adaptive-control-variable", "prefill_concurrency"],
            "add --prefill-concurrency with the greatest one",
        ),
        (
            &["--concurrency", "4", "--concurrency-ramp-duration", "3"],
            "concurrency cannot have a ramp or a series as well",
        ),
        (
            &[
                "--concurrency",
                "4",
                "--adaptive-base-step",
                "3",
                "--adaptive-step-policy",
                "bisect",
            ],
            "requires --adaptive-step-policy sla_margin",
        ),
        (&["--concurrency", "4", "--stop-when", "saturated"], "remove one of the two"),
    ] {
        let run = with(extra);
        assert_eq!(run.output.status.code(), Some(2), "{extra:?}: {}", run.stderr());
        assert!(run.stderr().contains(why), "{extra:?}: {}", run.stderr());
    }
}

#[test]
fn the_first_level_has_the_requests_that_end_at_once() {
    let server = mock(Script { ttft: Nanos::from_millis(5.0), ..Script::default() });
    let flags = [
        "--adaptive-scale",
        "--adaptive-scale-sla",
        "time_to_first_token:avg<=10s",
        "--adaptive-assessment-period",
        "0.5",
        "--adaptive-sustain-duration",
        "0.5",
        "--adaptive-min-completed-requests",
        "3",
        "--concurrency",
        "1",
    ];
    let run = profile(&server.url(), &flags).succeeded();
    let summary = run.summary();
    let window = &summary["adaptive"][0]["path"][0];
    let time = window["start_ns"].as_u64().unwrap()..window["end_ns"].as_u64().unwrap();
    let requests = requests(&run);
    // The window begins with the phase, so that none started before it.
    assert!(requests.iter().all(|(start, ..)| *start >= time.start), "{window}");
    let own = requests.iter().filter(|(start, ..)| time.contains(start)).count();
    assert_eq!(window["metrics"]["request_count"]["avg"], own as f64);
    let again = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(run.summary()["adaptive"], summary["adaptive"]);
}
