//! What `--otel-metrics` exports, counted as Prometheus stores it.

use std::collections::{BTreeMap, BTreeSet};

use mock_server::Script;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message as _;

use crate::support::load::mock;
use crate::support::otlp_receiver::{OtlpReceiver, Received};
use crate::support::run::profile;

/// The series that a receiver got: the number of series of each point, by name and attributes.
struct Series {
    points: BTreeMap<(String, String), usize>,
    /// Size of the largest export.
    bytes: usize,
}

impl Series {
    /// Returns the series of all exports: a histogram has one for each boundary and
    /// infinity, its sum and its count.
    fn of(receiver: &OtlpReceiver) -> Self {
        let mut points = BTreeMap::new();
        let taken = receiver.taken();
        for export in &taken {
            for metric in Received(export.message.clone()).metrics() {
                let mut add = |attributes: &dyn std::fmt::Debug, count| {
                    points.insert((metric.name.clone(), format!("{attributes:?}")), count);
                };
                match metric.data.as_ref().unwrap() {
                    Data::Gauge(of) => of.data_points.iter().for_each(|p| add(&p.attributes, 1)),
                    Data::Sum(of) => of.data_points.iter().for_each(|p| add(&p.attributes, 1)),
                    Data::Histogram(of) => of
                        .data_points
                        .iter()
                        .for_each(|p| add(&p.attributes, p.explicit_bounds.len() + 3)),
                    Data::Summary(of) => of
                        .data_points
                        .iter()
                        .for_each(|p| add(&p.attributes, p.quantile_values.len() + 2)),
                    Data::ExponentialHistogram(_) => panic!("{} is exponential", metric.name),
                }
            }
        }
        let bytes = taken.iter().map(|export| export.message.encoded_len()).max().unwrap_or(0);
        Self { points, bytes }
    }

    fn count(&self, is_counted: impl Fn(&str) -> bool) -> usize {
        let counted = self.points.iter().filter(|((name, _), _)| is_counted(name));
        counted.map(|(_, count)| count).sum()
    }

    fn total(&self) -> usize {
        self.count(|_| true)
    }

    fn names(&self) -> BTreeSet<&str> {
        self.points.keys().map(|(name, _)| name.as_str()).collect()
    }
}

/// Runs a streamed chat with three gates and an objective, and returns what it exports.
fn exported(set: &[&str], more: &[&str]) -> Series {
    let (server, receiver) = (mock(Script::default()), OtlpReceiver::http());
    let url = receiver.otel_url();
    let flags = [
        &["--otel-url", &url, "--request-count", "60", "--concurrency", "4"],
        &["--gate", "time_to_first_token:p90<=10s", "--gate", "request_error_rate<=1%"][..],
        &["--gate", "request_throughput>=0.1", "--goodput", "time_to_first_token:10000"],
        set,
        more,
    ]
    .concat();
    let run = profile(&server.url(), &flags).succeeded();
    let telemetry = &run.summary()["telemetry"];
    assert_eq!(telemetry["reconciled"], true, "{telemetry}");
    let found = Series::of(&receiver);
    let of_servers = found.count(|name| name.contains(':'));
    eprintln!(
        "{set:?} {more:?}: {} series, {of_servers} of servers, {} bytes",
        found.total(),
        found.bytes
    );
    found
}

const LEAN: [&str; 2] = ["--otel-metrics", "lean"];
const FULL: [&str; 2] = ["--otel-metrics", "full"];

#[test]
fn the_lean_set_has_few_series_and_agrees_with_the_files() {
    let (lean, full) = (exported(&LEAN, &[]), exported(&FULL, &[]));
    assert!(lean.total() < 300, "{} series:\n{:#?}", lean.total(), lean.points);
    assert!(full.total() > 5 * lean.total(), "{} and {} series", full.total(), lean.total());
    // What is known of the load, and whether anything was in flight at the time of an export, may
    // differ between the two runs.
    let is_of_moment =
        |name: &&str| name.starts_with("aiperf.load.") || name.starts_with("aiperf.timing.");
    let (lean_names, full_names) = (lean.names(), full.names());
    let extra = lean_names.difference(&full_names).copied().filter(|name| !is_of_moment(name));
    let extra: Vec<_> = extra.collect();
    assert!(extra.is_empty(), "{extra:?}");
    for name in [
        "gen_ai.client.operation.duration",
        "aiperf.percentiles.time_to_first_token",
        "aiperf.output_token_throughput",
        "aiperf.good_request_count",
        "aiperf.client.verdict",
        "aiperf.load.verdict",
        "aiperf.timing.requests.completed",
        "vllm:num_requests_running",
    ] {
        assert!(lean.names().contains(name), "{name} is missing");
    }
}

#[test]
fn names_that_are_asked_for_are_in_the_lean_set_too() {
    let flags = ["--otel-server-semconv", "--otel-semconv", "latest"];
    let lean = exported(&LEAN, &flags);
    assert!(lean.names().contains("gen_ai.server.time_to_first_token"));
    assert!(lean.names().contains("gen_ai.client.inference.duration"));
    assert!(!lean.names().contains("vllm:time_to_first_token_seconds"));
}

#[test]
fn exponential_histograms_and_failures_agree_with_the_files() {
    let (server, receiver) =
        (crate::support::load::faulty("every=3:status=503"), OtlpReceiver::http());
    let url = receiver.otel_url();
    let flags = [&LEAN[..], &["--otel-url", &url, "--request-count", "40"]].concat();
    let run = profile(&server.url(), &flags);
    assert_eq!(run.summary()["telemetry"]["reconciled"], true, "{}", run.summary()["telemetry"]);
    let warm = ["--otel-histograms", "exponential", "--warmup-request-count", "10"];
    let flags = [&flags[..], &warm].concat();
    let run = profile(&server.url(), &flags);
    assert_eq!(run.summary()["telemetry"]["reconciled"], true, "{}", run.summary()["telemetry"]);
}
