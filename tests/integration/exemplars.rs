//! Exported values lead to the traces of their requests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::redact::Secret;
use measure::metrics::metric::MeasuredRecord;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Exemplar, HistogramDataPoint, exemplar};
use telemetry::{Config, Temporality};
use uuid::Uuid;

use crate::support::otlp_receiver::{Answer, Export, OtlpReceiver, Received};
use crate::telemetry::{Request, assert_delivered, exporting_all, four, start};

const TIMEOUT: Duration = Duration::from_mins(1);

fn config(collector: &OtlpReceiver, sample: &str) -> Config {
    Config {
        url: Some(Secret::new(collector.url())),
        interval_seconds: 3600.0,
        trace_sample: sample.parse().ok(),
        ..exporting_all()
    }
}

fn with_id(request: &Request, number: u128) -> MeasuredRecord {
    let mut measured = request.measured();
    measured.record.request_id = Uuid::from_u128(number);
    measured.record.trace_id = measured.record.request_id;
    measured
}

fn value(of: &Exemplar) -> f64 {
    match of.value {
        Some(exemplar::Value::AsDouble(value)) => value,
        ref other => panic!("{other:?}"),
    }
}

/// Returns the root spans that the collector has, by trace.
fn roots(collector: &OtlpReceiver) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let exports = collector.traces();
    let resources = exports.iter().flat_map(|export| &export.message.resource_spans);
    let spans = resources.flat_map(|of| &of.scope_spans).flat_map(|scope| &scope.spans);
    let roots = spans.filter(|span| span.parent_span_id.is_empty());
    roots.map(|span| (span.trace_id.clone(), span.span_id.clone())).collect()
}

/// Returns all exemplars of an export, by metric.
fn exemplars(received: &Received) -> BTreeMap<String, Vec<Exemplar>> {
    let mut all: BTreeMap<String, Vec<Exemplar>> = BTreeMap::new();
    for metric in received.metrics() {
        let of = all.entry(metric.name.clone()).or_default();
        match metric.data.as_ref().unwrap() {
            Data::Sum(sum) => sum.data_points.iter().for_each(|p| of.extend(p.exemplars.clone())),
            Data::Gauge(gauge) => {
                gauge.data_points.iter().for_each(|p| of.extend(p.exemplars.clone()));
            }
            Data::Histogram(histogram) => {
                histogram.data_points.iter().for_each(|p| of.extend(p.exemplars.clone()));
            }
            Data::ExponentialHistogram(histogram) => {
                histogram.data_points.iter().for_each(|p| of.extend(p.exemplars.clone()));
            }
            Data::Summary(_) => panic!("{} is a summary", metric.name),
        }
    }
    all.retain(|_, exemplars| !exemplars.is_empty());
    all
}

fn trace_of(exemplar: &Exemplar) -> u128 {
    Uuid::from_slice(&exemplar.trace_id).unwrap().as_u128()
}

/// Asserts that each bucket with values has one exemplar with a value of this bucket.
fn assert_one_each(point: &HistogramDataPoint) {
    let bucket = |value: f64| point.explicit_bounds.partition_point(|bound| *bound < value);
    let mut have: Vec<_> = point.exemplars.iter().map(|of| bucket(value(of))).collect();
    have.sort_unstable();
    let counts = point.bucket_counts.iter().enumerate();
    let filled: Vec<_> = counts.filter(|(_, count)| **count > 0).map(|(at, _)| at).collect();
    assert_eq!(have, filled);
    for exemplar in &point.exemplars {
        let times = point.start_time_unix_nano..=point.time_unix_nano;
        assert!(times.contains(&exemplar.time_unix_nano), "{exemplar:?}");
        assert_eq!(exemplar.filtered_attributes, []);
    }
}

#[test]
fn each_filled_bucket_leads_to_a_trace_that_is_exported() {
    let collector = OtlpReceiver::grpc();
    let run = start(&config(&collector, "all"), &[]);
    for (number, request) in (1..).zip(four()) {
        run.record(&with_id(&request, number));
    }
    assert_delivered(&run.finish(TIMEOUT));
    let received = collector.last();
    let ok = [("gen_ai.response.model", "tiny-v1")];
    let latency = received.histogram("aiperf.request_latency", &ok);
    assert_one_each(latency);
    // 10 ms, 100 ms and 90 s are the requests 1, 2 and 3.
    let found: BTreeMap<_, _> =
        latency.exemplars.iter().map(|of| (trace_of(of), value(of))).collect();
    assert_eq!(found, BTreeMap::from([(1, 0.01), (2, 0.1), (3, 90.0)]));
    assert_one_each(received.histogram("gen_ai.client.operation.duration", &ok));
    let failed = [("error.type", "timeout")];
    let failure = received.histogram("gen_ai.client.operation.duration", &failed);
    assert_eq!(trace_of(&failure.exemplars[0]), 4);
    // The gaps of the three requests are equal; the first of equal ones is kept.
    let gaps = received.histogram("aiperf.inter_chunk_latency", &ok);
    assert_eq!(gaps.exemplars.iter().map(value).collect::<Vec<_>>(), [0.004, 0.006]);

    let roots = roots(&collector);
    let all = exemplars(&received);
    for exemplar in all.values().flatten() {
        assert_eq!(roots[&exemplar.trace_id], exemplar.span_id);
    }
    assert_eq!(all["aiperf.request_count"].len(), 1);
    assert_eq!(trace_of(&all["aiperf.error_request_count"][0]), 4);
}

#[test]
fn only_exported_requests_are_exemplars_and_the_slowest_at_the_end() {
    let collector = OtlpReceiver::grpc();
    let run = start(&config(&collector, "slowest:1,errors"), &[]);
    for (number, request) in (1..).zip(four()) {
        run.record(&with_id(&request, number));
    }
    assert_delivered(&run.finish(TIMEOUT));
    let all = exemplars(&collector.last());
    let of = |name: &str| all[name].iter().map(trace_of).collect::<BTreeSet<_>>();
    assert_eq!(of("aiperf.request_latency"), [3].into());
    assert_eq!(of("gen_ai.client.operation.duration"), [3, 4].into());
    assert_eq!(of("aiperf.error_request_count"), [4].into());
    // Of the gaps of the slowest request, the largest.
    assert_eq!(all["aiperf.inter_chunk_latency"].iter().map(value).collect::<Vec<_>>(), [0.006]);
    // Those of the two requests, and that of the run.
    assert_eq!(roots(&collector).len(), 3);
}

#[test]
fn the_variable_decides_which_requests_are_exemplars() {
    let variable = |value| [("OTEL_METRICS_EXEMPLAR_FILTER", value)];
    for (filter, sample, expected) in [
        ("always_on", "", Some(3)),
        ("always_off", "all", None),
        ("trace_based", "", None),
        ("trace_based", "all", Some(3)),
    ] {
        let collector = OtlpReceiver::grpc();
        let run = start(&config(&collector, sample), &variable(filter));
        for (number, request) in (1..).zip(four()) {
            run.record(&with_id(&request, number));
        }
        assert_delivered(&run.finish(TIMEOUT));
        let all = exemplars(&collector.last());
        let found = all.get("aiperf.request_latency").map(Vec::len);
        assert_eq!(found, expected, "{filter} {sample}");
        assert_eq!(all.is_empty(), expected.is_none(), "{filter} {sample}");
    }
}

/// Exports to a collector that fails at first, and returns the requests that are exemplars of
/// latencies in each accepted export.
fn after_failures(temporality: Temporality) -> Vec<Vec<u128>> {
    let collector = OtlpReceiver::grpc().always(Answer::Unavailable);
    let temporality = Some(temporality);
    let config = Config { interval_seconds: 0.02, temporality, ..config(&collector, "all") };
    let run = start(&config, &[]);
    let [first, second, ..] = four();
    run.record(&with_id(&first, 1));
    collector.wait_for_exports(2);
    collector.now(Answer::Take);
    run.record(&with_id(&second, 2));
    assert_delivered(&run.finish(TIMEOUT));
    let requests = |export: Export| {
        let all = exemplars(&Received(export.message));
        let mut found: Vec<_> =
            all.get("aiperf.request_latency").into_iter().flatten().map(trace_of).collect();
        found.sort_unstable();
        found
    };
    collector.taken().into_iter().map(requests).collect()
}

#[test]
fn the_exemplars_of_a_failed_export_are_in_the_next() {
    // Each difference has its own.
    let mut all = after_failures(Temporality::Delta).concat();
    all.sort_unstable();
    assert_eq!(all, [1, 2]);
    // The totals of the run have those of the run.
    let all = after_failures(Temporality::Cumulative);
    assert_eq!(all.last().unwrap(), &[1, 2]);
}

#[test]
fn exponential_histograms_have_the_largest_value_and_some_others() {
    let collector = OtlpReceiver::grpc();
    let config = Config { exponential_histograms: Some(true), ..config(&collector, "all") };
    let run = start(&config, &[]);
    for number in 1..=100_u32 {
        let request = Request::ok(f64::from(number), 1.0, 16.0, 3.0);
        run.record(&with_id(&request, u128::from(number)));
    }
    assert_delivered(&run.finish(TIMEOUT));
    let all = exemplars(&collector.last());
    let mut found: Vec<_> = all["aiperf.request_latency"].iter().map(trace_of).collect();
    found.sort_unstable();
    // The lowest random parts of the trace IDs, and the slowest.
    assert_eq!(found, (1..=19).chain([100]).collect::<Vec<_>>());
}
