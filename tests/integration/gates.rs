//! Gates of whole runs: exit codes, files, and what CI systems read.

use std::fs;
use std::path::Path;
use std::process::Output;

use base::units::Nanos;
use mock_server::Script;
use serde_json::Value;

use crate::support::load::{faults, mock};
use crate::support::run::{Run, aiperf, profile, profile_command, summary};

/// A server whose responses take at least 20 ms.
fn script() -> Script {
    Script { ttft: Nanos::from_millis(20.0), ..Script::default() }
}

/// Gates that hold at any speed of the machine, and one that does not.
const HELD: [&str; 10] = [
    "--gate",
    "request_latency:min>=20ms",
    "--gate",
    "request_error_rate<=1%",
    "--gate",
    "error_request_count==0",
    "--gate",
    "server:vllm:num_requests_waiting:max<=1000",
    "--request-count",
    "6",
];
const MISSED: [&str; 2] = ["--gate", "request_latency:max<=1ms"];

/// Returns text and result of each gate.
fn gates(summary: &Value) -> Vec<(String, bool)> {
    let gates = summary["gates"].as_array().unwrap().iter();
    gates
        .map(|gate| (gate["gate"].as_str().unwrap().to_owned(), gate["held"].as_bool().unwrap()))
        .collect()
}

fn report(directory: &Path, extra: &[&str]) -> Output {
    aiperf(&["report"]).arg(directory).args(extra).output().unwrap()
}

#[test]
fn a_missed_gate_decides_the_exit_code() {
    let server = mock(script());
    let run = profile(&server.url(), &HELD).succeeded();
    assert!(run.stdout().contains("Gates: all "), "{}", run.stdout());
    assert!(gates(&run.summary()).iter().all(|(_, held)| *held), "{:?}", run.summary()["gates"]);

    let directory = tempfile::tempdir().unwrap();
    let junit = directory.path().join("reports/junit.xml");
    let steps = directory.path().join("steps.md");
    fs::write(&steps, "before\n").unwrap();
    let output = profile_command(&server.url(), &directory.path().join("run"), &HELD)
        .args(MISSED)
        .args(["--gate", "image_latency<=1", "--junit"])
        .arg(&junit)
        .envs([("GITHUB_ACTIONS", "true"), ("GITHUB_STEP_SUMMARY", steps.to_str().unwrap())])
        .output()
        .unwrap();
    let run = Run { output, directory };
    assert_eq!(run.exit_code(), Some(3), "{}\n{}", run.stdout(), run.stderr());
    let summary = summary(&run.path("run"));
    let found = gates(&summary);
    let missed: Vec<&str> =
        found.iter().filter(|(_, held)| !held).map(|(gate, _)| gate.as_str()).collect();
    assert_eq!(missed, ["request_latency:max<=1ms", "image_latency<=1"]);
    let slow = &summary["gates"][4];
    assert_eq!(slow["value"], summary["request_latency"]["max"]);
    assert_eq!((slow["limit"].as_f64(), slow["unit"].as_str()), (Some(1.0), Some("ms")));
    assert!(slow["margin_percent"].as_f64() <= Some(-1900.0), "{slow}");
    let absent = &summary["gates"][5];
    assert_eq!(absent["note"], "avg of image_latency is not available for the run");
    assert!(absent.get("value").is_none(), "{absent}");
    let errors: Vec<String> = run
        .stdout()
        .lines()
        .filter(|line| line.starts_with("::error title="))
        .map(str::to_owned)
        .collect();
    assert_eq!(errors.len(), 2, "{}", run.stdout());
    assert!(
        errors[1].ends_with("image_latency<=1: avg of image_latency is not available for the run")
    );
    let steps = run.text("steps.md");
    assert!(steps.starts_with("before\n") && steps.contains("| image_latency&lt;=1 |"), "{steps}");
    let xml = run.text("reports/junit.xml");
    assert!(xml.contains(r#"<testsuites tests="7" failures="2" errors="0">"#), "{xml}");

    // A report judges by the gates of the run, or by others.
    let directory = run.path("run");
    let before = fs::read_to_string(directory.join("profile_export_aiperf.json")).unwrap();
    assert_eq!(report(&directory, &[]).status.code(), Some(3));
    let after = fs::read_to_string(directory.join("profile_export_aiperf.json")).unwrap();
    let judged = |text: &str| serde_json::from_str::<Value>(text).unwrap()["gates"].clone();
    assert_eq!(judged(&before), judged(&after));
    assert_eq!(report(&directory, &HELD[..4]).status.code(), Some(0));
    let after = fs::read_to_string(directory.join("profile_export_aiperf.json")).unwrap();
    assert_eq!(judged(&after).as_array().unwrap().len(), 2);
    assert_eq!(report(&directory, &MISSED).status.code(), Some(3));
}

#[test]
fn percentiles_that_are_asked_for_are_in_files_gates_and_comparisons() {
    let server = mock(script());
    let flags = [
        "--request-count",
        "20",
        "--percentiles",
        "99.9",
        "50",
        "--gate",
        "request_latency:p99.5>=20ms",
        "--gate",
        "request_latency:p50<=60s@99%",
        "--gate",
        "request_latency:p99<=60s@99%",
    ];
    let run = profile(&server.url(), &flags);
    assert_eq!(run.exit_code(), Some(4), "{}\n{}", run.stdout(), run.stderr());
    let summary = run.summary();
    // numpy interpolates between the two largest of 20 values: position 18.981.
    let latency = &summary["request_latency"];
    let number = |name: &str| latency[name].as_f64().unwrap_or_else(|| panic!("{name}: {latency}"));
    assert!(number("p99") <= number("p99.5") && number("p99.5") <= number("p99.9"));
    assert!(number("p99.9") <= number("max"), "{latency}");
    assert_eq!(
        summary["percentiles"],
        serde_json::json!([
            {"percentile": "p50", "requests": 20, "requests_needed": 6},
            {
                "percentile": "p99.5",
                "requests": 20,
                "requests_needed": 736,
                "note": "Too few requests to judge p99.5: 20, at least 736 needed; it is little more \
                         than the largest value",
            },
            {
                "percentile": "p99.9",
                "requests": 20,
                "requests_needed": 3688,
                "note": "Too few requests to judge p99.9: 20, at least 3688 needed; it is little more \
                         than the largest value",
            },
        ])
    );
    let told = run.stdout().matches("to judge p99.9").count();
    assert_eq!(told, 1, "{}", run.stdout());
    let csv = run.text("profile_export_aiperf.csv");
    assert!(csv.starts_with("Metric,avg,") && csv.contains(",p99,std,p99.5,p99.9\r\n"), "{csv}");
    // 20 values tell the median, of which 0.5^20 is the probability that none is above it, but not
    // p99: 0.99^459 is the first power below 1%.
    let judged = summary["gates"].as_array().unwrap();
    let held: Vec<_> = judged.iter().map(|gate| gate["held"].as_bool().unwrap()).collect();
    assert_eq!(held, [true, true, false]);
    assert_eq!(judged[2]["undecided"], true);
    assert_eq!(judged[0]["value"], latency["p99.5"]);
    // scipy.stats.binom.cdf(t, 20, 0.5) is 0.0059 for t = 4 and 0.0207 for 5.
    assert_eq!(
        judged[1]["confidence"],
        serde_json::json!({"percent": 99.0, "values": 20, "beyond": 0, "permitted": 4})
    );
    assert_eq!(
        judged[2]["confidence"],
        serde_json::json!({"percent": 99.0, "values": 20, "beyond": 0, "more_needed": 439})
    );
    assert!(judged[2].get("value").is_none());

    // A report adds percentiles, and a comparison computes those that it shows.
    let directory = run.directory.path();
    let output =
        report(directory, &["--percentiles", "99.99", "--gate", "request_latency:p97>=20ms"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let again = crate::support::run::summary(directory);
    let latency = &again["request_latency"];
    assert!(["p97", "p99.9", "p99.99"].iter().all(|name| latency[*name].is_f64()), "{latency}");
    let mut command = aiperf(&["compare"]);
    command.args([directory, directory]).args(["--percentiles", "99.9", "--format", "json"]);
    let compared: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let rows = compared["comparisons"][0]["rows"].as_array().unwrap();
    let row =
        rows.iter().find(|row| row["statistic"] == "p99.9" && row["metric"] == "request_latency");
    assert_eq!(row.map(|row| &row["base"]), Some(&latency["p99.9"]), "{rows:?}");
}

#[test]
fn a_failed_run_keeps_its_exit_code() {
    let server = mock(Script { faults: faults(&["every=1:status=500"]), ..Script::default() });
    let directory = tempfile::tempdir().unwrap();
    let junit = directory.path().join("junit.xml");
    let flags = ["--request-count", "3", "--gate", "request_error_rate<=1%"];
    let run = directory.path().join("run");
    let mut command = profile_command(&server.url(), &run, &flags);
    let output = command.arg("--junit").arg(&junit).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(gates(&summary(&run)), [("request_error_rate<=1%".to_owned(), false)]);
    let xml = fs::read_to_string(&junit).unwrap();
    assert!(xml.contains(r#"tests="2" failures="1" errors="1""#), "{xml}");
    assert!(xml.contains("no request succeeded"), "{xml}");
}

#[test]
fn every_run_must_hold() {
    let server = mock(script());
    let flags = ["--request-count", "4", "--num-profile-runs", "2"];
    let directory = tempfile::tempdir().unwrap();
    let junit = directory.path().join("junit.xml");
    let runs = directory.path().join("runs");
    let output = profile_command(&server.url(), &runs, &flags)
        .args(MISSED)
        .arg("--junit")
        .arg(&junit)
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{stdout}");
    assert!(stdout.contains("trial_0002: request_latency:max<=1ms"), "{stdout}");
    let xml = fs::read_to_string(&junit).unwrap();
    assert!(xml.contains(r#"<testsuite name="aiperf.gates.trial_0002""#), "{xml}");
    assert_eq!(report(&runs, &[]).status.code(), Some(3));
    assert_eq!(report(&runs, &["--gate", "request_latency:min>=20ms"]).status.code(), Some(0));
}

#[test]
fn a_wrong_gate_is_wrong_usage() {
    let many = ["--search-recipe", "max-goodput-under-slo", "--goodput", "request_latency:5"];
    let shard = ["--shard", "0/2", "--random-seed", "1", "--start-at", "2026-11-21T15:04:05Z"];
    for (flags, why) in [
        (vec!["--gate", "latency_of_requests<=5"], "unknown metric"),
        (
            vec!["--gate", "request_throughput:p99>=5"],
            "p99 is not available for request_throughput",
        ),
        (vec!["--gate", "request_latency<=5%"], "does not fit"),
        ([&many[..], &["--gate", "request_latency<=5"]].concat(), "--goodput instead"),
        ([&shard[..], &["--junit", "x.xml"]].concat(), "combines the shards"),
    ] {
        let run = profile("http://127.0.0.1:1", &flags);
        assert_eq!(run.exit_code(), Some(2), "{flags:?}: {}", run.stderr());
        assert!(run.stderr().contains(why), "{flags:?}: {}", run.stderr());
    }
    let run = profile("http://127.0.0.1:1", &["--junit", "/dev/null/junit.xml"]);
    assert_eq!(run.exit_code(), Some(1));
    assert!(run.stderr().contains("choose another file with --junit"), "{}", run.stderr());
}

#[test]
fn a_run_ends_when_its_gates_are_decided() {
    let server = mock(script());
    let held = ["--gate", "request_latency:p90<=30s", "--gate", "request_error_rate<=10%"];
    let load = ["--concurrency", "8", "--benchmark-duration", "120", "--stop-when", "decided"];
    let run = profile(&server.url(), &[&held[..], &load].concat()).succeeded();
    let summary = run.summary();
    assert_eq!(summary["ended_early"]["cause"], "decided", "{summary}");
    assert_eq!(summary["ended_early"]["finding"], "the gates hold");
    assert_eq!((&summary["is_complete"], &summary["was_cancelled"]), (&true.into(), &false.into()));
    // The first decision is possible after 256 requests.
    assert!(summary["request_count"]["avg"].as_f64() >= Some(256.0), "{summary}");
    let said = "since the gates hold (--stop-when decided)";
    assert!(run.stdout().contains(said), "{}", run.stdout());
    let report = report(run.directory.path(), &[]);
    assert_eq!(report.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&report.stdout).contains(said));
    assert_eq!(run.summary()["ended_early"], summary["ended_early"]);

    // One gate that is missed decides, whatever the others.
    let missed = ["--gate", "request_latency<=1ms", "--gate", "request_latency:max<=30s"];
    let load = ["--concurrency", "8", "--benchmark-duration", "120", "--stop-when-decided"];
    let run = profile(&server.url(), &[&missed[..], &load].concat());
    assert_eq!(run.exit_code(), Some(3), "{}", run.stderr());
    let finding = &run.summary()["ended_early"]["finding"];
    assert_eq!(finding, "request_latency<=1ms does not hold");
}

#[test]
fn a_gate_that_the_run_cannot_have_is_refused_before_it() {
    let refused = |flags: &[&str], why: &str| {
        // Nothing listens here, and nothing is sent.
        let run = profile("http://127.0.0.1:1", flags);
        assert_eq!(run.exit_code(), Some(2), "{flags:?}: {}", run.stderr());
        assert!(run.stderr().contains(why), "{flags:?}: {}", run.stderr());
    };
    refused(&["--endpoint-type", "chat", "--gate", "ttft:p99<=1s"], "it requires --streaming");
    refused(&["--gate", "goodput>=1"], "it requires --goodput");
    let server = ["--gate", "server:vllm:num_requests_waiting<=1", "--no-server-metrics"];
    refused(&server, "does not collect server metrics");
    let untestable = ["--gate", "request_latency:max<=1s", "--stop-when", "decided"];
    refused(&untestable, "requires a gate that can be tested");
    refused(&["--stop-when", "decided"], "requires a gate that can be tested");
}

#[test]
fn a_run_ends_when_its_load_is_saturated() {
    // Four slots of 50 ms serve 80 requests/s.
    let slots =
        Script { ttft: Nanos::from_millis(50.0), max_concurrent: Some(4), ..Script::default() };
    let server = mock(slots);
    let load = ["--request-rate", "160", "--arrival-pattern", "constant"];
    let end = ["--benchmark-duration", "120", "--stop-when", "saturated"];
    let run = profile(&server.url(), &[&load[..], &end].concat()).succeeded();
    let summary = run.summary();
    assert_eq!(summary["ended_early"]["cause"], "saturated", "{}", summary["load_health"]);
    assert_eq!(summary["load_health"]["verdict"], "saturated");
    let served_rate = summary["load_health"]["served_rate"].as_f64().unwrap();
    assert!((60.0..90.0).contains(&served_rate), "{}", summary["load_health"]);
}

/// Three requests at 5/s are sent in 400 ms, and have two distances.
#[test]
fn few_requests_do_not_hold_a_rate_that_they_are_not_sent_at() {
    let server = mock(script());
    let flags = ["--request-rate", "5", "--arrival-pattern", "constant", "--request-count", "3"];
    let run =
        profile(&server.url(), &[&flags[..], &["--gate", "request_throughput>=5.5"]].concat());
    assert_eq!(run.exit_code(), Some(3), "{}", run.stderr());
    let value = run.summary()["gates"][0]["value"].as_f64().unwrap();
    assert!(value < 5.5, "{value}");
}

/// 0.99^50 is 60%: 50 requests do not tell a p99, and 0.9^50 is 0.5%, so that they tell a p90.
#[test]
fn a_percentile_of_too_few_requests_is_undecided() {
    let server = mock(script());
    let code = |flags: &[&str]| {
        let common = ["--request-count", "50", "--gate", "request_latency:p99<=60s"];
        let run = profile(&server.url(), &[&common, flags].concat());
        (run.exit_code(), run.stdout())
    };
    let (undecided, text) = code(&[]);
    assert_eq!(undecided, Some(4), "{text}");
    let note = "p99 of 50 requests: at least 368 needed, or gate p90";
    assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(note), "{text}");
    assert_eq!(code(&["--gate-undecided", "pass"]).0, Some(0));
    assert_eq!(code(&["--gate-undecided", "fail"]).0, Some(3));
    assert_eq!(code(&["--gate", "request_latency:max<=1ms"]).0, Some(3));
}
