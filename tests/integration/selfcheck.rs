//! The self-check in real runs, and its effect on later runs.

use std::fs;
use std::path::Path;
use std::process::Output;

use mock_server::{Config, MockServer};
use serde_json::{Value, json};

use crate::support::run::{aiperf, profile_command};

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn selfcheck(saved: &Path, loads: &[&str], flags: &[&str]) -> Output {
    let mut command = aiperf(&["selfcheck", "--quick"]);
    command.env("AIPERF_SELFCHECK_FILE", saved).args(loads).args(flags).output().unwrap()
}

/// Runs with `concurrency` and the self-check in `saved`; returns the summary and the warnings.
fn profiled(saved: &Path, concurrency: &str) -> (Value, String) {
    let server = MockServer::start(Config::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--concurrency", concurrency, "--request-count", "8"];
    let mut command = profile_command(&server.url(), directory.path(), &flags);
    let output = command.env("AIPERF_SELFCHECK_FILE", saved).output().unwrap();
    let warned = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{warned}");
    (read(&directory.path().join("profile_export_aiperf.json")), warned)
}

#[test]
fn limits_are_found_and_travel_with_later_results() {
    let directory = tempfile::tempdir().unwrap();
    let (saved, output) =
        (directory.path().join("a/saved.json"), directory.path().join("all.json"));
    // A limit that every machine meets: the procedure is tested, not the speed.
    let flags = ["--bound", "100s", "--save", "--output", output.to_str().unwrap()];
    let run = selfcheck(&saved, &["--streams", "2,3", "--rates", "40"], &flags);
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
    assert!(text.contains("up to 3 concurrent streams and up to 40 requests/s"), "{text}");

    let all = read(&output);
    assert_eq!(all["limits"], json!({"concurrency": 3, "request_rate": 40.0}));
    assert_eq!(all["bound_ms"], 100_000.0);
    let steps = all["streams"].as_array().unwrap();
    assert_eq!(steps.len(), 2);
    for (step, streams) in steps.iter().zip([2, 3]) {
        assert_eq!(step["load"], json!({"concurrency": streams}));
        assert_eq!(step["requests"], 2 * streams);
        assert_eq!(step["reached_concurrency"], streams);
        assert_eq!((&step["failed"], &step["miscounted"]), (&json!(0), &json!(0)));
        for metric in [
            "time_to_first_token",
            "time_to_second_token",
            "inter_token_latency",
            "request_latency",
            "inter_chunk_latency",
        ] {
            assert!(step["errors"][metric]["by_arrival"]["p99_ms"].is_f64(), "{metric}: {step}");
            // An event cannot be read before the server has started to write it.
            let by_read = step["errors"][metric]["by_read"]["p99_ms"].as_f64().unwrap();
            assert!(by_read >= 0.0, "{metric}: {step}");
        }
    }
    let rate = &all["rates"][0];
    assert_eq!((&rate["requests"], &rate["failures"]), (&json!(20), &json!([])));
    // The server's times are after those of the client.
    let p50 = |name: &str| rate[name]["p50_ms"].as_f64().unwrap();
    assert!(p50("slip_at_server") >= p50("schedule_slip"));

    let (summary, warned) = profiled(&saved, "3");
    assert_eq!(summary["client_health"]["selfcheck"], read(&saved));
    assert_eq!(summary["client_health"]["selfcheck"]["limits"], all["limits"]);
    assert!(!warned.contains("self-check"), "{warned}");
    let (_, warned) = profiled(&saved, "4");
    assert!(warned.contains("--concurrency 4 exceeds the 3 streams"), "{warned}");
}

#[test]
fn a_load_that_fails_twice_is_the_last() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("all.json");
    // No request is sent within a nanosecond of its due time.
    let flags = ["--rates", "40,80", "--bound", "0", "--output", output.to_str().unwrap()];
    let run = selfcheck(&output, &["--streams", "1"], &flags);
    assert!(run.status.success());
    let all = read(&output);
    assert_eq!(all["limits"]["request_rate"], Value::Null);
    let rates: Vec<_> = all["rates"].as_array().unwrap().iter().collect();
    let tried: Vec<_> = rates.iter().map(|step| &step["load"]["request_rate"]).collect();
    assert_eq!(tried, [40, 40]);
    assert!(rates[0]["failures"].to_string().contains("schedule slip is off by"), "{all}");
}

#[test]
fn the_check_of_another_machine_is_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let saved = directory.path().join("saved.json");
    let other = json!({
        "aiperf_version": env!("CARGO_PKG_VERSION"),
        "date": "2026-01-02T03:04:05+00:00",
        "machine": {"cpu": "Z80", "cores": 1, "kernel": "0.1"},
        "bound_ms": 1.0,
        "limits": {"concurrency": 1, "request_rate": 1.0},
    });
    fs::write(&saved, other.to_string()).unwrap();
    let (summary, warned) = profiled(&saved, "2");
    assert!(summary["client_health"].get("selfcheck").is_none());
    assert!(warned.contains("another machine (Z80, 1 cores, kernel 0.1)"), "{warned}");
}
