//! Whole runs with the round-trip time of the network measured or given.

use std::fs;

use base::units::Nanos;
use mock_server::{MockServer, Script};
use serde_json::{Value, json};

use crate::support::load::mock;
use crate::support::port::Refusing;
use crate::support::python::run_python;
use crate::support::run::{Run, aiperf, json_lines, profile, profile_command, summary};

const PROBES: &str = "profile_export_network_latency.jsonl";

/// The latencies with a variant without the network.
const LATENCIES: [&str; 3] =
    ["time_to_first_token", "time_to_first_output_token", "request_latency"];

fn server() -> MockServer {
    let (ttft, itl) = (Nanos::from_millis(4.0), Nanos::from_millis(1.0));
    mock(Script { ttft, itl, reasoning_tokens: 1, ..Script::default() })
}

fn adjusted(latency: &str) -> String {
    format!("network_adjusted_{latency}")
}

/// Checks that the report is the same from the files.
fn report_equals(run: &Run) {
    let before = run.text("profile_export_aiperf.json");
    let again = aiperf(&["report", run.directory.path().to_str().unwrap()]).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    let (before, after): (Value, Value) = (serde_json::from_str(&before).unwrap(), run.summary());
    for tag in LATENCIES.map(adjusted).iter().map(String::as_str).chain(["network_rtt"]) {
        assert_eq!(before[tag], after[tag], "{tag}");
        assert_eq!(before["steady_state"]["metrics"][tag], after["steady_state"]["metrics"][tag]);
    }
}

#[test]
fn latencies_are_reduced_by_the_mean_of_all_connects() {
    let server = server();
    let url = server.url().replace("http://", "http://user:hunter2@");
    let probing = ["--network-latency-automatic", "--network-latency-ping-interval", "0.05"];
    // The same server twice is probed as one.
    let flags = ["--url", &url, "--request-count", "40", "--concurrency", "2", "--tables", "all"];
    let run = profile(&url, &[&probing[..], &flags].concat()).succeeded();
    let probes = json_lines(&run.path(PROBES));
    assert!(probes.len() >= 5, "{probes:?}");
    let port: u16 = server.url().rsplit_once(':').unwrap().1.trim_end_matches('/').parse().unwrap();
    for probe in &probes {
        assert_eq!(probe["success"], true);
        assert_eq!(probe["probe_type"], "tcp_connect");
        assert_eq!(
            (&probe["target_host"], &probe["target_port"]),
            (&json!("127.0.0.1"), &json!(port))
        );
        assert!(!probe["target_url"].as_str().unwrap().contains("hunter2"), "{probe}");
    }
    let times = || probes.iter().map(|probe| probe["timestamp_ns"].as_u64().unwrap());
    assert!(times().is_sorted());
    let summary = run.summary();
    let rtt = &summary["network_rtt"];
    let sum: u64 = probes.iter().map(|probe| probe["rtt_ns"].as_u64().unwrap()).sum();
    let mean = sum as f64 / probes.len() as f64 / 1e6;
    for statistic in ["avg", "min", "max", "p1", "p50", "p99"] {
        let value = rtt[statistic].as_f64().unwrap();
        assert!((value - mean).abs() <= 1e-12 * mean, "{statistic}: {value} is not {mean}");
    }
    assert_eq!((&rtt["std"], &rtt["unit"]), (&json!(0.0), &json!("ms")));
    // The script computes the statistics of the adjusted latencies from the records.
    run_python("tests/check_profile_export.py", run.directory.path());
    run_python("tests/read_with_aiperf.py", run.directory.path());
    let expected = json!({"enabled": true, "ping_interval": 0.05});
    assert_eq!(summary["input_config"]["network_latency"], expected);
    for latency in LATENCIES {
        assert_eq!(summary[adjusted(latency)]["count"], summary[latency]["count"], "{latency}");
    }
    // Single requests do not have them, since the mean is known only after the run.
    assert!(!run.text("profile_export.jsonl").contains("network_"));
    let shown = run.stdout();
    let title = |title: &str| shown.find(title).unwrap_or_else(|| panic!("{title}: {shown}"));
    for (raw, less) in [
        ("Time to First Token", "Network-Adjusted Time to First Token"),
        ("Request Latency", "Network-Adjusted Request Latency"),
    ] {
        assert!(title(raw) < title(less), "{shown}");
    }
    title("Network RTT (ms)");
    report_equals(&run);
}

#[test]
fn a_given_round_trip_needs_no_connects_and_does_not_make_latencies_negative() {
    let server = server();
    let run = profile(&server.url(), &["--network-latency-mean", "5.25", "--request-count", "8"]);
    let run = run.succeeded();
    let summary = run.summary();
    assert_eq!(summary["network_rtt"]["avg"], 5.25);
    assert_eq!(summary["network_rtt"]["count"], 1);
    assert_eq!(
        summary["input_config"]["network_latency"],
        json!({"enabled": true, "mean_ms": 5.25})
    );
    assert!(!run.path(PROBES).exists());
    run_python("tests/check_profile_export.py", run.directory.path());
    report_equals(&run);
    // An hour.
    let run =
        profile(&server.url(), &["--network-latency-mean", "3600000", "--request-count", "8"]);
    let summary = run.succeeded().summary();
    for latency in LATENCIES {
        let less = &summary[adjusted(latency)];
        assert_eq!((&less["max"], &less["sum"]), (&json!(0.0), &json!(0.0)), "{latency}");
        assert!(summary[latency]["min"].as_f64() > Some(0.0), "{latency}");
    }
}

#[test]
fn without_the_flags_nothing_is_adjusted() {
    let run = profile(&server().url(), &["--request-count", "2"]).succeeded();
    let summary = run.summary();
    assert_eq!(summary["input_config"]["network_latency"], json!({"enabled": false}));
    assert!(summary.as_object().unwrap().keys().all(|key| !key.starts_with("network_")));
}

#[test]
fn a_server_that_refuses_connects_leaves_a_warning_and_no_adjusted_results() {
    let gone = Refusing::new();
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--network-latency-automatic", "--request-count", "2", "--no-server-metrics"];
    let mut command = profile_command(&gone.url(), directory.path(), &flags);
    command.env("AIPERF_NETWORK_LATENCY_COMPLETE_TOPUP_TIMEOUT", "0.3");
    let run = Run { output: command.output().unwrap(), directory };
    assert_eq!(run.exit_code(), Some(1), "{}", run.stderr());
    let said = run.stderr();
    assert!(said.contains("no TCP connect of --network-latency-automatic succeeded"), "{said}");
    let probes = json_lines(&run.path(PROBES));
    assert!(!probes.is_empty());
    for probe in probes {
        assert_eq!((&probe["success"], &probe["rtt_ns"]), (&json!(false), &Value::Null));
        assert_eq!(probe["error"]["type"], "ConnectionRefused");
    }
    assert!(run.summary().as_object().unwrap().keys().all(|key| !key.starts_with("network_")));
    run_python("tests/read_with_aiperf.py", run.directory.path());
}

/// Splits the lines of one process as if two had written them.
#[test]
fn the_probes_of_all_shards_count_together() {
    let run = profile(&server().url(), &["--network-latency-automatic", "--request-count", "8"]);
    let run = run.succeeded();
    let of = |name: &str| run.text(name).lines().map(|line| line.to_owned() + "\n").collect();
    let (records, probes): (Vec<String>, Vec<String>) = (of("profile_export.jsonl"), of(PROBES));
    let parts = [(0, &records[..3], &probes[..1]), (1, &records[3..], &probes[1..])];
    let parts = parts.map(|(index, records, probes)| {
        let part = run.path(&format!("shard-{index}"));
        fs::create_dir(&part).unwrap();
        fs::write(part.join("profile_export.jsonl"), records.concat()).unwrap();
        // A run that was killed leaves an incomplete line.
        fs::write(part.join(PROBES), probes.concat() + "{\"timestamp_ns\":1").unwrap();
        let mut manifest: Value = serde_json::from_str(&run.text("run_manifest.json")).unwrap();
        manifest["shard"] = json!({"index": index, "count": 2});
        fs::write(part.join("run_manifest.json"), manifest.to_string()).unwrap();
        part.to_str().unwrap().to_owned()
    });
    let output = aiperf(&["report", &parts[0], &parts[1]]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("is incomplete and is ignored").count(), 2, "{said}");
    let combined = run.path("combined");
    assert_eq!(fs::read_to_string(combined.join(PROBES)).unwrap(), probes.concat());
    run_python("tests/check_profile_export.py", &combined);
    let (whole, combined) = (run.summary(), summary(&combined));
    assert_eq!(whole["network_rtt"], combined["network_rtt"]);
    for tag in LATENCIES.map(adjusted) {
        assert_eq!(whole[&tag]["count"], combined[&tag]["count"], "{tag}");
        assert_eq!(whole[&tag]["p50"], combined[&tag]["p50"], "{tag}");
    }
}

#[test]
fn contradictions_are_rejected() {
    let rejected = |flags: &[&str], environment: &[(&str, &str)]| {
        let directory = tempfile::tempdir().unwrap();
        let mut command = profile_command("http://127.0.0.1:1", directory.path(), flags);
        let output = command.envs(environment.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let automatic = "--network-latency-automatic";
    let both = rejected(&[automatic, "--network-latency-mean", "2"], &[]);
    assert!(both.contains("cannot be used with"), "{both}");
    let alone = rejected(&["--network-latency-ping-interval", "2"], &[]);
    assert!(alone.contains(automatic), "{alone}");
    let often = rejected(&[automatic, "--network-latency-ping-interval", "0.001"], &[]);
    assert!(often.contains("at least 0.01 seconds"), "{often}");
    let zero = rejected(&["--network-latency-mean", "0"], &[]);
    assert!(zero.contains("--network-latency-mean"), "{zero}");
    let name = "AIPERF_NETWORK_LATENCY_DEFAULT_PROBE_INTERVAL";
    let variable = rejected(&[automatic], &[(name, "0")]);
    assert!(variable.contains(name), "{variable}");
    let proxy =
        [("AIPERF_HTTP_TRUST_ENV", "true"), ("HTTP_PROXY", "http://proxy:3128"), ("NO_PROXY", "")];
    let behind = rejected(&[automatic], &proxy);
    assert!(
        behind.contains("go through a proxy") && behind.contains("--network-latency-mean"),
        "{behind}"
    );
}
