//! A trace for every request, faster than the collector accepts them: the queue and the end of the
//! run are limited, and each trace is sent or counted as lost.

use std::collections::BTreeSet;
use std::time::Duration;

use base::environment::Environment;
use base::redact::Secret;
use client::schedule::PhaseKind;
use telemetry::{Config, Telemetry, TracesReport};

use crate::support::otlp_receiver::{Answer, OtlpReceiver};
use crate::telemetry::{Run, exporting_all, identity, queue, request};

/// Maximum number of requests in the queue.
const WAITING: u64 = 20_000;

/// Long enough for any healthy collector on a loaded machine.
const TIMEOUT: Duration = Duration::from_mins(1);

fn start(collector: &OtlpReceiver) -> Run {
    let config = Config {
        url: Some(Secret::new(collector.url())),
        trace_sample: "all".parse().ok(),
        interval_seconds: 0.02,
        // Far beyond all deadlines: no request ends by itself.
        timeout_seconds: 3600.0,
        ..exporting_all()
    };
    let protocol = if collector.is_grpc() { "grpc" } else { "http/protobuf" };
    let variable = |name: &str| (name == "OTEL_EXPORTER_OTLP_PROTOCOL").then(|| protocol.into());
    Run::new(
        Telemetry::start_in(&config, &identity(), &[], Environment::new(&variable)).unwrap(),
        &[],
    )
}

/// Sends requests with these numbers, one after the other.
fn send(run: &Run, numbers: std::ops::RangeInclusive<u64>) {
    numbers.for_each(|number| run.record(&request(number.into())));
}

/// Returns the numbers of the requests whose traces were accepted.
fn taken(collector: &OtlpReceiver) -> BTreeSet<u64> {
    let exports = collector.traces();
    let resources = exports.iter().flat_map(|export| &export.message.resource_spans);
    let spans = resources.flat_map(|of| &of.scope_spans).flat_map(|scope| &scope.spans);
    let number = |id: &[u8]| u128::from_be_bytes(id.try_into().unwrap()).try_into().unwrap();
    // The run and its phases are not requests.
    let of_requests = spans.filter(|span| !span.name.starts_with("aiperf.run"));
    let of_requests = of_requests.filter(|span| !span.name.starts_with("aiperf.phase"));
    of_requests.map(|span| number(&span.trace_id)).collect()
}

/// Returns the last value of the counter.
fn counted(collector: &OtlpReceiver) -> f64 {
    let phase = [("aiperf.benchmark_phase", "profiling")];
    collector.last().number("aiperf.client.traces.lost", &phase)
}

fn both() -> [OtlpReceiver; 2] {
    [OtlpReceiver::grpc(), OtlpReceiver::http()]
}

#[test]
fn each_trace_is_sent_or_counted_whatever_the_collector_answers() {
    for collector in both() {
        let mood = [
            Answer::Refuse,
            Answer::Unavailable,
            Answer::RetryAfter(0),
            Answer::Reject(2),
            Answer::Take,
            Answer::Refuse,
        ];
        let collector = collector.first_traces(mood);
        let run = start(&collector);
        send(&run, 1..=1_500);
        // Rejected, and the next is retried three times.
        collector.wait_for_traces(1);
        send(&run, 1_501..=3_000);
        collector.wait_for_traces(4);
        send(&run, 3_001..=4_500);
        collector.wait_for_traces(5);
        send(&run, 4_501..=6_000);
        collector.wait_for_traces(6);
        send(&run, 6_001..=7_000);
        let report = run.finish(TIMEOUT);
        let traces = report.traces.unwrap();
        let sent = taken(&collector).len() as u64;
        assert!(0 < sent && sent < 7_000, "{sent}");
        let expected = TracesReport {
            sampled: 7_000,
            sent,
            rejected: 2,
            lost: 7_000 - sent,
            errors_left_out: 0,
        };
        assert_eq!(traces, expected);
        assert!(report.reconciled, "{:?}", report.discrepancies);
    }
}

#[test]
fn what_a_hanging_collector_makes_wait_is_bounded_and_so_is_the_end() {
    for collector in both() {
        collector.now_traces(Answer::Hang);
        let run = start(&collector);
        send(&run, 1..=1);
        run.queue(PhaseKind::Profiling, &queue(0, 0));
        collector.wait_for_traces(1);
        let most = WAITING + 5_000;
        send(&run, 2..=most + 1);
        run.queue(PhaseKind::Profiling, &queue(0, 0));
        // One is being sent, 20,000 wait, and the others are already lost.
        let report = run.finish(Duration::from_secs(5));
        assert_eq!(counted(&collector), 5_000.0);
        let expected =
            TracesReport { sampled: most + 1, lost: most + 1, ..TracesReport::default() };
        assert_eq!(report.traces, Some(expected));
        assert!(report.delivered_final && report.reconciled, "{:?}", report.discrepancies);
    }
}

#[test]
fn a_collector_that_comes_back_gets_the_latest() {
    for collector in both() {
        // The pause that it asks for is over before the end of the run has passed.
        collector.now_traces(Answer::RetryAfter(1));
        let run = start(&collector);
        send(&run, 1..=1);
        collector.wait_for_traces(1);
        send(&run, 2..=WAITING + 3_001);
        run.queue(PhaseKind::Profiling, &queue(0, 0));
        collector.now_traces(Answer::Take);
        let report = run.finish(TIMEOUT);
        assert_eq!(counted(&collector), 3_000.0);
        let expected = TracesReport {
            sampled: WAITING + 3_001,
            sent: WAITING + 1,
            lost: 3_000,
            ..TracesReport::default()
        };
        assert_eq!(report.traces, Some(expected));
        let latest: BTreeSet<u64> = [1].into_iter().chain(3_002..=WAITING + 3_001).collect();
        assert_eq!(taken(&collector), latest);
    }
}

#[test]
fn the_pause_that_a_collector_asks_for_is_kept_by_every_signal() {
    for collector in both() {
        // Metrics are accepted, so that their first export does not pause the one of logs.
        collector.now_logs(Answer::RetryAfter(3_600));
        collector.now_traces(Answer::RetryAfter(3_600));
        let run = start(&collector);
        collector.wait_for_logs(1);
        send(&run, 1..=100);
        let report = run.finish(TIMEOUT);
        // The response may be on its way when traces are sent.
        let [_, traces, logs] = collector.seen();
        assert!(traces <= 1 && logs == 1, "{traces} {logs}");
        assert!(!report.delivered_final && report.reconciled, "{report:?}");
        assert_eq!(report.traces.unwrap().lost, 100);
        assert_eq!(report.logs.unwrap().sent, 0);
    }
}

#[test]
fn where_nothing_is_lost_the_counter_says_so() {
    let collector = OtlpReceiver::grpc();
    let run = start(&collector);
    send(&run, 1..=3);
    run.queue(PhaseKind::Profiling, &queue(0, 0));
    let report = run.finish(TIMEOUT).traces.unwrap();
    assert_eq!((report.sent, counted(&collector)), (3, 0.0));
}
