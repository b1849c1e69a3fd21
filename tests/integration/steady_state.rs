//! The steady state of a run, from the command line to the files and the collector.

use base::units::Nanos;
use mock_server::{Jitter, Script};
use serde_json::Value;

use crate::support::load::{faults, mock};
use crate::support::otlp_receiver::OtlpReceiver;
use crate::support::python::run_python;
use crate::support::run::{Run, aiperf, profile};

/// Requests of different lengths, every fifth of which fails.
fn run(flags: &str) -> Run {
    let script = Script {
        ttft: Nanos::from_millis(60.0),
        itl: Nanos::from_millis(8.0),
        jitter: Jitter::Fraction(0.5),
        faults: faults(&["every=5:status=503"]),
        ..Script::default()
    };
    let server = mock(script);
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let all = ["--warmup-request-count", "2"];
    profile(&server.url(), &[&all[..], &flags].concat()).succeeded()
}

/// Has another program compute the same, rebuilds the summary, and compares again. Returns the
/// steady state.
fn checked(run: &Run) -> Value {
    let steady = run.summary()["steady_state"].clone();
    run_python("tests/read_steady_state.py", run.directory.path());
    let console = shown(run);
    let output = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(run.summary()["steady_state"], steady);
    assert_eq!(shown(run), console);
    steady
}

/// Returns the lines about the steady state on the console.
fn shown(run: &Run) -> String {
    let text = run.text("profile_export_console.txt");
    let lines = text.lines().skip_while(|line| !line.to_lowercase().contains("steady state"));
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_closed_loop_is_steady_after_its_ramp() {
    let run = run("--concurrency 4 --concurrency-ramp-duration 0.5 --request-count 60 \
         --steady-state-fraction 0.5");
    let steady = checked(&run);
    // At least one request started before the second was in flight, and in the end there is one.
    assert_eq!(steady["found"], true, "{steady}");
    assert!(steady["request_count"].as_u64().unwrap() < 60, "{steady}");
    let directory = run.directory.path();
    let gates = ["steady:request_throughput>=0", "steady:time_to_first_token:p50>=1s"];
    let flags: Vec<&str> = gates.iter().flat_map(|gate| ["--gate", gate]).collect();
    let report = aiperf(&["report"]).arg(directory).args(flags).output().unwrap();
    let [rate, ttft] = [&run.summary()["gates"][0], &run.summary()["gates"][1]].map(Value::clone);
    let metrics = &steady["metrics"];
    assert_eq!(
        (&rate["held"], &rate["value"]),
        (&true.into(), &metrics["request_throughput"]["avg"])
    );
    assert_eq!(ttft["value"], metrics["time_to_first_token"]["p50"]);
    assert_eq!(report.status.code(), Some(if ttft["held"] == true { 0 } else { 3 }));
    // Comparisons compute the values again, from the requests.
    let gates = ["steady:request_throughput>=-5%", "steady:time_to_first_token:avg<=5%"];
    let flags: Vec<&str> = gates.iter().flat_map(|gate| ["--gate", gate]).collect();
    let mut compare = aiperf(&["compare", "--format", "json"]);
    let output = compare.args([directory, directory]).args(flags).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = document["comparisons"][0]["rows"].as_array().unwrap();
    for row in rows.iter().filter(|row| row["is_steady"] == true) {
        let found = row["base"].as_f64().unwrap();
        let expected = metrics[row["metric"].as_str().unwrap()]["avg"].as_f64().unwrap();
        assert!((found - expected).abs() <= 1e-9 * expected, "{row} {expected}");
    }
    assert_eq!(rows.iter().filter(|row| row["is_steady"] == true).count(), 2);
    let shown = shown(&run);
    assert!(shown.contains("aiperf | Steady State: ") && shown.contains("p50 (whole)"), "{shown}");
}

#[test]
fn an_open_loop_is_steady_between_its_ramp_and_its_last_request() {
    let collector = OtlpReceiver::http();
    let run = run(&format!(
        "--request-rate 40 --arrival-pattern constant --request-rate-ramp-duration 0.5 \
         --request-count 70 --otel-url {}",
        collector.otel_url()
    ));
    let steady = checked(&run);
    assert_eq!(steady["found"], true, "{steady}");
    // Ten requests are due in the ramp, so at least sixty start after it.
    assert!(steady["request_count"].as_u64().unwrap() >= 59, "{steady}");
    assert!(steady["start_offset_ns"].as_u64().unwrap() >= 500_000_000, "{steady}");
    let received = collector.last();
    for (tag, statistics, scale) in [
        ("time_to_first_token", &["avg", "p50", "p90", "p95", "p99"][..], 1e-3),
        ("request_throughput", &["avg"], 1.0),
    ] {
        for statistic in statistics {
            let which = [("aiperf.statistic", *statistic)];
            let gauge = received.number(&format!("aiperf.steady_state.{tag}"), &which);
            let expected = steady["metrics"][tag][*statistic].as_f64().unwrap() * scale;
            assert!((gauge - expected).abs() <= 1e-9 * expected, "{tag} {statistic} {gauge}");
        }
    }
}

#[test]
fn a_run_that_never_reaches_its_concurrency_says_so() {
    // For a minute, the ramp allows one request at a time.
    let run = run("--concurrency 9 --concurrency-ramp-duration 600 --request-count 9");
    let steady = checked(&run);
    let reason = steady["reason"].as_str().unwrap();
    assert!(reason.ends_with("less than 95% of the concurrency of 9"), "{steady}");
    assert_eq!(steady["found"], false);
    assert_eq!(shown(&run), format!("No steady state: {reason}"));
}
