//! The verdict on the load, from the command line to the files, the report and the gates.

use base::units::Nanos;
use mock_server::Script;

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

/// A server without a limit, whose responses take 680 ms.
fn without_limit(flags: &str) -> Run {
    let script = Script { ttft: Nanos::from_millis(680.0), itl: Nanos::ZERO, ..Script::default() };
    let flags: Vec<&str> = flags.split_whitespace().collect();
    profile(&mock(script).url(), &flags)
}

#[test]
fn ten_requests_without_a_queue_are_too_few_to_tell() {
    for pattern in ["constant", "poisson"] {
        let flags = "--request-rate 20 --request-count 10 --arrival-pattern";
        let run = without_limit(&format!("{flags} {pattern}"));
        assert_eq!(run.summary()["load_health"]["verdict"], "too_short_to_tell");
        let screen = run.stdout();
        assert!(screen.contains("Load: too short to tell"), "{screen}");
        for word in ["saturated", "offered", "steady state", "No steady"] {
            assert!(!screen.contains(word), "{word}: {screen}");
        }
        // A p99 of ten requests is their maximum.
        let row = screen.lines().find(|line| line.starts_with("Request latency")).unwrap();
        assert_eq!(row.matches('(').count(), 1 + 3, "unit, p90, p95 and p99: {row}");
    }
}

/// A closed loop of 4 at a server that fails every request with a number that `selector` selects.
fn failing(selector: &str, flags: &str) -> Run {
    let script = Script {
        ttft: Nanos::from_millis(20.0),
        itl: Nanos::ZERO,
        faults: vec![Script::parse_fault(selector).unwrap()],
        ..Script::default()
    };
    let flags: Vec<&str> = flags.split_whitespace().collect();
    profile(&mock(script).url(), &flags)
}

#[test]
fn rejections_and_failures_are_named_and_are_not_a_queue() {
    let load = "--concurrency 4 --request-count 150";
    let limited = failing("every=3:status=429,slow down", load);
    let health = &limited.summary()["load_health"];
    assert_eq!(health["verdict"], "rejecting", "{health}");
    let screen = limited.stdout();
    assert!(screen.contains("33% rejected by a rate limit (429)"), "{screen}");
    let success = screen.lines().find(|line| line.starts_with("100 of 150 ")).expect(&screen);
    assert!(success.contains("; 50 failed (33.3%): 429 "), "{success}");
    assert!(screen.contains("slow down"), "{screen}");
    assert!(!screen.contains("offered") && !screen.contains("saturated"), "{screen}");

    let broken = failing("every=5:status=500,out of memory", load);
    assert_eq!(broken.summary()["load_health"]["verdict"], "failing");
    let screen = broken.stdout();
    assert!(screen.contains("20% failed (500)"), "{screen}");

    let all = failing("all:status=500,out of memory", "--concurrency 4 --request-count 40");
    assert!(all.summary().get("load_health").is_none());
    let screen = all.stdout();
    for words in ["Load: ", "teady state", "agree"] {
        assert!(!screen.contains(words), "{words}: {screen}");
    }
}

#[test]
fn requests_that_are_cancelled_on_purpose_did_not_fail() {
    let flags = "--concurrency 4 --request-count 60 --request-cancellation-rate 50 --random-seed 1";
    let run = failing("requests=9999:hang", flags).succeeded();
    let cancelled = run.summary()["error_request_count"]["avg"].as_f64().unwrap();
    assert!(cancelled > 0.0, "AIPerf counts them among its errors");
    let screen = run.stdout();
    let succeeded = format!("{} of 60 requests succeeded in ", 60.0 - cancelled);
    let line = screen.lines().find(|line| line.starts_with(&succeeded)).expect(&screen);
    assert!(line.ends_with(&format!("; {cancelled} cancelled")), "{screen}");
    assert!(!screen.contains("499"), "{screen}");
    let file = run.text("profile_export_console.txt");
    assert!(!file.contains("Error Summary"), "{file}");
}

#[test]
fn the_queue_of_a_server_limits_a_closed_loop() {
    let run = run("--concurrency 16 --request-count 400");
    let screen = run.stdout();
    // 4 slots, and 12 requests that wait.
    assert!(screen.contains("the server limits it: on average"), "{screen}");
    assert!(!screen.contains("offered"), "{screen}");
}

#[test]
fn goodput_has_its_share_and_what_missed_it() {
    let script = Script {
        ttft: Nanos::from_millis(1.0),
        itl: Nanos::ZERO,
        faults: vec![Script::parse_fault("every=4:stall=0,2s").unwrap()],
        ..Script::default()
    };
    let server = mock(script);
    let objectives = "time_to_first_token<=1s output_sequence_length>=1";
    let flags = ["--concurrency", "8", "--request-count", "40", "--goodput", objectives];
    let screen = profile(&server.url(), &flags).succeeded().stdout();
    // The length counts as met; one in four has its first token after 2 s.
    assert!(screen.contains("75% of requests good"), "{screen}");
    assert!(screen.contains("time_to_first_token<=1000ms missed by 10"), "{screen}");
}
