//! With delta temporality, a collector receives what was added since the last export that it
//! accepted.

use std::collections::HashMap;
use std::time::Duration;

use base::environment::Environment;
use base::redact::Secret;
use client::schedule::PhaseKind;
use measure::server_metrics::exposition::{Exposition, Format};
use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality::{Cumulative, Delta};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use telemetry::{Config, RunTotals, Telemetry, Temporality};

use crate::scrape_forwarder::show;
use crate::support::otlp_receiver::{Answer, Export, OtlpReceiver, attribute};
use crate::support::run::is_of_grpc;
use crate::telemetry::{
    assert_delivered, exporting_all, four, identity, queue, record_four, start,
};

const TIMEOUT: Duration = Duration::from_mins(1);

fn config(collector: &OtlpReceiver) -> Config {
    Config {
        url: Some(Secret::new(collector.url())),
        interval_seconds: 0.02,
        temporality: Some(Temporality::Delta),
        ..exporting_all()
    }
}

/// The sum of differences, and their intervals in nanoseconds.
type Added = (f64, Vec<(u64, u64)>);

/// Returns what was added to a metric, by `error.type`.
fn added(exports: &[Export], name: &str) -> HashMap<Option<String>, Added> {
    let mut all: HashMap<_, Added> = HashMap::new();
    let resources = exports.iter().flat_map(|export| &export.message.resource_metrics);
    let metrics = resources.flat_map(|of| &of.scope_metrics).flat_map(|scope| &scope.metrics);
    for metric in metrics.filter(|metric| metric.name == name) {
        let mut add = |attributes: &[_], value, start, end| {
            let (sum, intervals) = all.entry(attribute(attributes, "error.type")).or_default();
            *sum += value;
            intervals.push((start, end));
        };
        match metric.data.as_ref().unwrap() {
            Data::Sum(sum) => {
                assert_eq!(sum.aggregation_temporality(), Delta);
                for point in &sum.data_points {
                    let Some(Number::AsDouble(value)) = point.value else { panic!("{point:?}") };
                    add(&point.attributes, value, point.start_time_unix_nano, point.time_unix_nano);
                }
            }
            Data::Histogram(of) => {
                assert_eq!(of.aggregation_temporality(), Delta);
                for point in &of.data_points {
                    assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
                    assert!(point.count > 0, "{point:?}");
                    let count = point.count as f64;
                    add(&point.attributes, count, point.start_time_unix_nano, point.time_unix_nano);
                }
            }
            other => panic!("{other:?}"),
        }
    }
    all
}

#[test]
fn the_accepted_differences_are_the_whole_run_whatever_failed() {
    for answer in [Answer::Unavailable, Answer::Refuse] {
        let collector = OtlpReceiver::grpc();
        let run = start(&config(&collector), &[]);
        let [first, second, third, failed] = four();
        run.record(&first.measured());
        collector.wait_for_exports(1);
        collector.now(answer);
        run.record(&second.measured());
        let refused = collector.taken().len();
        collector.wait_for_exports(refused + 3);
        run.record(&third.measured());
        collector.now(Answer::Take);
        run.record(&failed.measured());
        let report = run.finish(TIMEOUT);
        assert_delivered(&report);
        assert!(report.exports_failed > 0, "{report:?}");

        let exports = collector.taken();
        let timeout = Some("timeout".to_owned());
        let requests = added(&exports, "aiperf.request_count");
        let latencies = added(&exports, "aiperf.request_latency");
        assert_eq!((requests[&None].0, latencies[&None].0), (3.0, 3.0));
        assert_eq!(added(&exports, "aiperf.error_request_count")[&timeout].0, 1.0);
        for (_, intervals) in requests.values().chain(latencies.values()) {
            assert!(intervals.iter().all(|(start, end)| start < end), "{intervals:?}");
            assert!(intervals.windows(2).all(|pair| pair[0].1 == pair[1].0), "{intervals:?}");
        }
    }
}

#[test]
fn each_kind_of_instrument_has_its_temporality() {
    let collector = OtlpReceiver::http();
    let variables = [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "LowMemory"),
    ];
    let config = Config {
        exponential_histograms: Some(true),
        interval_seconds: 3600.0,
        temporality: None,
        ..config(&collector)
    };
    let run = start(&config, &variables);
    record_four(&run);
    run.queue(PhaseKind::Profiling, &queue(1, 1));
    assert_delivered(&run.finish(TIMEOUT));
    let received = collector.last();
    let Some(Data::ExponentialHistogram(of)) = &received.metric("aiperf.request_latency").data
    else {
        panic!("not exponential")
    };
    assert_eq!(of.aggregation_temporality(), Delta);
    let kind = |name: &str| match &received.metric(name).data {
        Some(Data::Sum(sum)) => Some(sum.aggregation_temporality()),
        Some(Data::Gauge(_)) => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(kind("aiperf.request_count"), Some(Delta));
    assert_eq!(kind("aiperf.client.queue.size"), None);
}

#[test]
fn what_is_in_flight_stays_cumulative() {
    let collector = OtlpReceiver::grpc();
    let run = start(&config(&collector), &[]);
    run.phase(&crate::telemetry::snapshot(4, 1, 0.5));
    assert_delivered(&run.finish(TIMEOUT));
    let received = collector.last();
    let Some(Data::Sum(sum)) = &received.metric("aiperf.timing.requests.in_flight").data else {
        panic!("no sum")
    };
    assert_eq!(sum.aggregation_temporality(), Cumulative);
    assert_eq!(received.number("aiperf.timing.requests.in_flight", &[]), 3.0);
}

#[test]
fn servers_metrics_are_differences_too() {
    let collector = OtlpReceiver::grpc();
    let config = Config { interval_seconds: 3600.0, ..config(&collector) };
    let found = |name: &str| {
        let is_protocol = name == "OTEL_EXPORTER_OTLP_PROTOCOL";
        (is_protocol && is_of_grpc(&collector.url())).then(|| "grpc".to_owned())
    };
    let telemetry =
        Telemetry::start_in(&config, &identity(), &[], Environment::new(&found)).unwrap();
    let second = |number: u64| 1_800_000_000_000_000_000 + number * 1_000_000_000;
    for (number, total) in [(0, 1000), (1, 1003), (2, 1003), (3, 1010)] {
        let text = format!("# TYPE served_total counter\nserved_total {total}\n");
        let exposition = Exposition::parse(text.as_bytes(), Format::Text).unwrap();
        show(&telemetry, "http://127.0.0.1:8801/metrics", 0, second(number), &exposition);
    }
    let report = telemetry.finish(&RunTotals::default(), TIMEOUT);
    let scrapes = report.scrapes.unwrap();
    assert_eq!((scrapes.points_forwarded, scrapes.points_dropped), (4, 0));
    assert!(scrapes.delivered_final);
    let added = added(&collector.taken(), "served_total");
    // 1000 were served before the run, and none in the second second.
    let intervals = vec![(second(0), second(1)), (second(1), second(3))];
    assert_eq!(added[&None], (10.0, intervals));
}
