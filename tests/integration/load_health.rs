//! The verdict on the load, from the command line to the files, the report and the gates.

use aiperf::mock_server::Script;
use aiperf::units::Nanos;

use crate::support::load::mock;
use crate::support::otlp_receiver::OtlpReceiver;
use crate::support::run::{Run, aiperf, profile};

/// A server of 4 slots of 49.4 ms, which serves 81 requests per second.
fn run(flags: &str) -> Run {
    let script = Script {
        ttft: Nanos::from_millis(49.4),
        itl: Nanos::ZERO,
        max_concurrent: Some(4),
        ..Script::default()
    };
    let server = mock(script);
    let flags: Vec<&str> = flags.split_whitespace().collect();
    profile(&server.url(), &flags)
}

#[test]
fn an_open_loop_beyond_the_capacity_of_the_server_is_saturated() {
    let collector = OtlpReceiver::http();
    let run = run(&format!(
        "--request-rate 122 --arrival-pattern constant --request-count 500 --otel-url {} \
         --gate load_health==sustained --gate load_health==saturated",
        collector.otel_url()
    ));
    assert_eq!(run.output.status.code(), Some(3));
    let summary = run.summary();
    let health = &summary["load_health"];
    assert_eq!(health["verdict"], "saturated", "{health}");
    let number = |name: &str| health[name].as_f64().unwrap();
    assert!((number("offered_rate") - 122.0).abs() < 2.0, "{health}");
    // No server is faster than its slots, and a busy machine only makes it slower.
    let served = number("served_rate");
    assert!(served > 60.0 && served < 82.0, "{health}");
    let slope = health["queue_slope"]["value"].as_f64().unwrap();
    assert!((slope - (number("offered_rate") - served)).abs() < 4.0, "{health}");
    assert!(number("since_seconds") < 1.5, "{health}");
    let held = |gate: usize| summary["gates"][gate]["held"].as_bool().unwrap();
    assert_eq!((held(0), held(1)), (false, true));
    assert_eq!(summary["steady_state"]["found"], false, "{}", summary["steady_state"]);
    let console = run.text("profile_export_console.txt");
    assert!(console.contains("\nLoad: saturated (offered 12"), "{console}");
    assert!(console.contains("Latencies Depend on the Length of the Run"), "{console}");
    let received = collector.last();
    let gauge = |name: &str| received.number(&format!("aiperf.load.{name}"), &[]);
    assert_eq!(gauge("verdict"), 3.0);
    assert_eq!(gauge("offered_rate"), number("offered_rate"));
    assert_eq!(gauge("served_rate"), number("served_rate"));
    assert_eq!(gauge("queue_growth"), slope);
    // The report computes it again from the records.
    let report = aiperf(&["report"]).arg(run.directory.path()).output().unwrap();
    assert_eq!(report.status.code(), Some(3));
    assert_eq!(run.summary()["load_health"], *health);
}

#[test]
fn a_closed_loop_sustains_what_it_serves() {
    let run = run("--concurrency 4 --request-count 400 --gate load_health==saturated");
    let health = &run.summary()["load_health"];
    assert!(health["verdict"] != "saturated", "{health}");
    assert!(health.get("queue_slope").is_none(), "{health}");
    assert_eq!(run.output.status.code(), Some(3));
}
