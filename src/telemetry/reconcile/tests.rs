use opentelemetry::KeyValue as Attribute;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, Gauge, Histogram, ResourceMetrics, ScopeMetrics, Sum,
    exponential_histogram_data_point,
};

use base::semconv::Conventions;
use base::units::Nanos;
use client::runner::QueueStats;
use client::schedule::{PhaseKind, PhaseStats};
use measure::metrics::health::TimeStatistics;
use measure::metrics::tag::{self, MetricTag};
use measure::metrics::{ClientHealth, PhaseTotals, Registry, RowTotals};

use super::*;

const GAPS: &str = "aiperf.inter_chunk_latency";

fn export(metrics: Vec<Metric>) -> ExportMetricsServiceRequest {
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            scope_metrics: vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }],
            ..ResourceMetrics::default()
        }],
    }
}

fn metric(name: &str, data: Data) -> Metric {
    Metric { name: name.into(), data: Some(data), ..Metric::default() }
}

/// Attributes of the measurement, with an additional one.
fn attributes(key: &'static str, value: &'static str) -> Vec<KeyValue> {
    let phase = Attribute::new("aiperf.benchmark_phase", "profiling");
    vec![(&phase).into(), (&Attribute::new(key, value)).into()]
}

/// A point's own attribute, its number of values, all in the first bucket, and their sum.
type Part = ((&'static str, &'static str), u64, f64);

/// Creates a histogram with one point per part.
fn histogram(name: &str, bounds: &[f64], parts: &[Part]) -> Metric {
    let point = |((key, value), count, sum): Part| {
        let mut bucket_counts = vec![0; bounds.len() + 1];
        bucket_counts[0] = count;
        HistogramDataPoint {
            attributes: attributes(key, value),
            count,
            sum: Some(sum),
            bucket_counts,
            explicit_bounds: bounds.to_vec(),
            ..HistogramDataPoint::default()
        }
    };
    let data_points = parts.iter().copied().map(point).collect();
    metric(name, Data::Histogram(Histogram { data_points, ..Histogram::default() }))
}

fn bounds(tag: MetricTag) -> Vec<f64> {
    Registry::row(tag).unwrap().instrument().unwrap().spec.boundaries
}

/// Two attribute sets with three values in total and a sum of 4.5 s.
fn gaps() -> Metric {
    let parts = [(("server.port", "1"), 1, 0.5), (("server.port", "2"), 2, 4.0)];
    histogram(GAPS, &bounds(tag::INTER_CHUNK_LATENCY), &parts)
}

fn sum(name: &str, value: f64, is_monotonic: bool) -> Metric {
    let value = Some(Number::AsDouble(value));
    let attributes = attributes("server.port", "1");
    let point = NumberDataPoint { attributes, value, ..NumberDataPoint::default() };
    metric(name, Data::Sum(Sum { data_points: vec![point], is_monotonic, ..Sum::default() }))
}

fn row(tag: MetricTag, count: Option<u64>, sum: f64) -> RowTotals {
    RowTotals { metric: Registry::row(tag).unwrap(), count, sum, magnitude: sum }
}

fn measured(rows: Vec<RowTotals>, failures: u64) -> Vec<Expected> {
    let profiling = PhaseTotals { rows, failures };
    of_requests(&RunTotals { profiling, ..RunTotals::default() }, Conventions::V1_41)
}

/// 0.5 s and 4 s in nanoseconds.
fn three_gaps() -> Vec<Expected> {
    measured(vec![row(tag::INTER_CHUNK_LATENCY, Some(3), 4.5e9)], 0)
}

fn differences(expected: &[Expected], metrics: Vec<Metric>) -> Vec<String> {
    compare(expected, &export(metrics), false)
}

fn assert_one(found: &[String], expected: &str) {
    assert_eq!(found.len(), 1, "{expected}: {found:?}");
    assert!(found[0].contains(expected), "{expected}: {found:?}");
}

#[test]
fn points_are_added_up_over_attribute_sets() {
    assert_eq!(differences(&three_gaps(), vec![gaps()]), Vec::<String>::new());
}

#[test]
fn each_difference_of_a_histogram_is_found() {
    type Change = fn(&mut Vec<HistogramDataPoint>);
    let changes: [(Change, &str); 7] = [
        (|points| points.truncate(1), "has count 1 instead of 3"),
        (|points| points[0].sum = Some(0.500_001), "has sum 4.500001 instead of 4.5"),
        (|points| points[0].sum = None, "has sum NaN instead of 4.5"),
        (|points| points[1].bucket_counts[0] = 1, "has 1 values in its buckets but count 2"),
        (|points| points[1].explicit_bounds[0] = 0.5, "has other bucket bounds"),
        (|points| points.push(HistogramDataPoint::default()), "nothing was recorded for it"),
        (|points| points.clear(), "is not in the final export"),
    ];
    for (change, expected) in changes {
        let mut metric = gaps();
        let Some(Data::Histogram(histogram)) = &mut metric.data else { unreachable!() };
        change(&mut histogram.data_points);
        assert_one(&differences(&three_gaps(), vec![metric]), expected);
    }
}

#[test]
fn a_difference_names_the_instrument_and_the_phase() {
    let found = differences(&three_gaps(), Vec::new());
    let name = "aiperf.inter_chunk_latency{aiperf.benchmark_phase=\"profiling\"}";
    assert_eq!(found, [format!("{name} is not in the final export")]);
}

#[test]
fn an_instrument_of_another_kind_is_found_and_a_gauge_is_not_compared() {
    for other in [sum(GAPS, 4.5, true), metric(GAPS, Data::Gauge(Gauge::default()))] {
        assert_one(&differences(&three_gaps(), vec![other]), "is exported as another kind");
    }
    assert_one(&compare(&three_gaps(), &export(vec![gaps()]), true), "as another kind");
    let gauge = metric("aiperf.request_throughput", Data::Gauge(Gauge::default()));
    assert!(differences(&[], vec![gauge]).is_empty());
}

#[test]
fn an_unexpected_instrument_is_found() {
    let found = differences(&[], vec![sum("aiperf.request_count", 1.0, true)]);
    assert_one(&found, "is exported, but nothing was recorded for it");
}

#[test]
fn sums_may_differ_by_rounding_only() {
    let expected = measured(vec![row(tag::REQUEST_COUNT, None, 1000.0)], 0);
    let differences_with =
        |value| differences(&expected, vec![sum("aiperf.request_count", value, true)]);
    assert!(differences_with(1_000.000_000_5).is_empty());
    assert_one(&differences_with(1_000.000_002), "instead of 1000");
    // A counter without increments is not exported.
    assert!(differences(&measured(vec![row(tag::REQUEST_COUNT, None, 0.0)], 0), vec![]).is_empty());
}

#[test]
fn an_overflow_point_is_found_of_a_gauge_too() {
    let attributes = vec![(&Attribute::new(OVERFLOW, true)).into()];
    let point = NumberDataPoint { attributes, ..NumberDataPoint::default() };
    let data_points = vec![point];
    for data in [
        Data::Gauge(Gauge { data_points: data_points.clone() }),
        Data::Sum(Sum { data_points, is_monotonic: true, ..Sum::default() }),
    ] {
        assert_one(&differences(&[], vec![metric("m", data)]), "beyond the cardinality limit");
    }
}

/// Stages share an instrument, but each has a total of its own.
#[test]
fn each_stage_of_the_server_is_compared() {
    let rows = vec![
        row(tag::SERVER_QUEUE_TIME, Some(2), 3e9),
        row(tag::SERVER_PREFILL_TIME, Some(1), 5e8),
    ];
    let expected = measured(rows, 0);
    let exported = |queue: Part, prefill: Part| {
        let bounds = bounds(tag::SERVER_QUEUE_TIME);
        vec![histogram("aiperf.server.stage.duration", &bounds, &[queue, prefill])]
    };
    let (queue, prefill) = (("aiperf.stage", "queue"), ("aiperf.stage", "prefill"));
    let right = exported((queue, 2, 3.0), (prefill, 1, 0.5));
    assert_eq!(differences(&expected, right), Vec::<String>::new());
    // The same values, but two of them as those of another stage.
    let found = differences(&expected, exported((queue, 1, 0.5), (prefill, 2, 3.0)));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("aiperf.stage=\"prefill\"} has count 2 instead of 1"), "{found:?}");
    assert!(found[1].contains("aiperf.stage=\"queue\"} has count 1 instead of 2"), "{found:?}");
}

#[test]
fn exponential_buckets_must_add_up() {
    let exported = |zero_count, counts: &[u64]| {
        let side = |counts: &[u64]| {
            let bucket_counts = counts.to_vec();
            Some(exponential_histogram_data_point::Buckets { offset: 0, bucket_counts })
        };
        let point = ExponentialHistogramDataPoint {
            attributes: attributes("server.port", "1"),
            count: 3,
            sum: Some(4.5),
            zero_count,
            positive: side(counts),
            ..ExponentialHistogramDataPoint::default()
        };
        let data = ExponentialHistogram { data_points: vec![point], ..Default::default() };
        export(vec![metric(GAPS, Data::ExponentialHistogram(data))])
    };
    assert!(compare(&three_gaps(), &exported(1, &[1, 0, 1]), true).is_empty());
    let found = compare(&three_gaps(), &exported(0, &[1, 0, 1]), true);
    assert_one(&found, "has 2 values in its buckets but count 3");
}

/// Two requests that succeeded, with 30 input and 20 output tokens, and one that failed.
#[test]
fn metrics_of_the_conventions_are_compared_with_their_counterparts() {
    let rows = vec![
        row(tag::REQUEST_LATENCY, Some(2), 3e9),
        row(tag::TIME_TO_FIRST_TOKEN, Some(2), 1e9),
        row(tag::INPUT_SEQUENCE_LENGTH, Some(2), 30.0),
        row(tag::OUTPUT_SEQUENCE_LENGTH, Some(2), 20.0),
    ];
    let expected = measured(rows, 1);
    let set = ("server.port", "1");
    let own = [
        (tag::REQUEST_LATENCY, 3.0),
        (tag::TIME_TO_FIRST_TOKEN, 1.0),
        (tag::INPUT_SEQUENCE_LENGTH, 30.0),
        (tag::OUTPUT_SEQUENCE_LENGTH, 20.0),
    ];
    let own =
        own.map(|(tag, sum)| histogram(&format!("aiperf.{tag}"), &bounds(tag), &[(set, 2, sum)]));
    let gen_ai = |failures, output_sum| {
        use base::semconv::metric as of;
        let duration = of::GEN_AI_CLIENT_OPERATION_DURATION;
        let first = of::GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK;
        let tokens = of::GEN_AI_CLIENT_TOKEN_USAGE;
        let (input, output) = (("gen_ai.token.type", "input"), ("gen_ai.token.type", "output"));
        [
            // The duration of a failure is not in the statistics.
            histogram(
                duration.name,
                duration.boundaries,
                &[(set, 2, 3.0), (("error.type", "timeout"), failures, 60.0)],
            ),
            histogram(first.name, first.boundaries, &[(set, 2, 1.0)]),
            histogram(tokens.name, tokens.boundaries, &[(input, 2, 30.0), (output, 2, output_sum)]),
        ]
    };
    let all = |gen_ai: [Metric; 3]| own.iter().cloned().chain(gen_ai).collect();
    assert_eq!(differences(&expected, all(gen_ai(1, 20.0))), Vec::<String>::new());
    assert_one(&differences(&expected, all(gen_ai(2, 20.0))), "error.type!=\"\"} has count 2");
    assert_one(&differences(&expected, all(gen_ai(1, 19.0))), "type=\"output\"} has sum 19");
}

#[test]
fn client_instruments_are_compared_with_client_health() {
    let slip = TimeStatistics { count: 4, avg: 250.0, ..TimeStatistics::default() };
    let health =
        ClientHealth { schedule_slip_ms: Some(slip), retries: Some(2), ..ClientHealth::default() };
    let expected = of_requests(&RunTotals { health, ..RunTotals::default() }, Conventions::V1_41);
    let definition = base::semconv::metric::AIPERF_CLIENT_SCHEDULE_SLIP;
    let exported = |sum_of_slips, retries| {
        let parts = [(("server.port", "1"), 4, sum_of_slips)];
        let slips = histogram(definition.name, definition.boundaries, &parts);
        vec![slips, sum("aiperf.client.retries", retries, true)]
    };
    // 4 × 250 ms.
    assert_eq!(differences(&expected, exported(1.0, 2.0)), Vec::<String>::new());
    assert_one(&differences(&expected, exported(0.75, 2.0)), "has sum 0.75 instead of 1");
    assert_one(&differences(&expected, exported(1.0, 3.0)), "has sum 3 instead of 2");
}

#[test]
fn phases_of_a_kind_are_added_up() {
    let phase = |phase_index, requests_sent| PhaseStats {
        phase_index,
        requests_sent,
        requests_returned: requests_sent,
        now: Nanos(1_500_000_000),
        ..PhaseStats::default()
    };
    let expected = of_phases(&[phase(0, 3), phase(1, 4)]);
    let exported = |sent| {
        vec![
            sum("aiperf.timing.requests.sent", sent, true),
            sum("aiperf.timing.phase.elapsed_sec", 3.0, false),
            // Some were in flight, but none at the end.
            sum("aiperf.timing.requests.in_flight", 0.0, false),
        ]
    };
    assert_eq!(differences(&expected, exported(7.0)), Vec::<String>::new());
    assert_one(&differences(&expected, exported(4.0)), "has sum 4 instead of 7");
    let warmup = PhaseStats { phase: PhaseKind::Warmup, ..phase(0, 3) };
    let found = differences(&of_phases(&[warmup, phase(1, 4)]), exported(4.0));
    assert!(found.iter().any(|what| what.contains("\"warmup\"} is not in")), "{found:?}");
}

#[test]
fn counters_of_the_queue_are_added_up_over_all_phases() {
    let spilled = |kept_over_budget| {
        let queue = QueueStats { spilled_records: 5, kept_over_budget, ..QueueStats::default() };
        of_client(&queue, Some(3))
    };
    let exported = |spilled, lost| {
        vec![
            sum("aiperf.client.queue.spilled", spilled, true),
            sum("aiperf.client.traces.lost", lost, true),
        ]
    };
    assert!(differences(&spilled(0), exported(5.0, 2.0)).is_empty());
    assert_one(&differences(&spilled(0), exported(6.0, 2.0)), "has sum 6 instead of 5");
    assert_one(&differences(&spilled(0), exported(5.0, 4.0)), "has sum 4 instead of 0 to 3");
    // One of them was counted before it turned out not to have been written.
    assert!(differences(&spilled(1), exported(6.0, 2.0)).is_empty());
    assert_one(&differences(&spilled(0), Vec::new()), "spilled{} is not in the final export");
}

#[test]
fn many_differences_are_cut_short() {
    let all = (0..30).map(|n| sum(&format!("m{n}"), 1.0, true)).collect();
    let found = differences(&[], all);
    assert_eq!(found.len(), 21);
    assert_eq!(found[20], "and 10 more");
}
