use std::collections::{BTreeMap, HashMap};

use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, Gauge, HistogramDataPoint, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum,
};
use opentelemetry_sdk::metrics::{Instrument, PeriodicReader, SdkMeterProvider};
use proptest::prelude::*;

use super::*;
use crate::tee::Tee;
use crate::{NEVER, view};

type Message = ExportMetricsServiceRequest;

/// Everything that the accepted points of a series contain.
#[derive(Debug, Default, PartialEq)]
struct Everything {
    count: u64,
    sum: f64,
    /// Count of each bucket, by its index at [`COARSE`].
    buckets: BTreeMap<i64, u64>,
}

/// Scale at which buckets of exponential histograms are compared.
const COARSE: i32 = -10;

/// A point reduced to what is added up, and its interval.
fn read(message: &Message) -> HashMap<Vec<u8>, (u64, u64, Everything)> {
    let mut all = HashMap::new();
    let resources = message.resource_metrics.iter();
    for metric in resources.flat_map(|of| &of.scope_metrics).flat_map(|scope| &scope.metrics) {
        let mut put = |attributes: &[_], start, time, everything| {
            let key = [metric.name.as_bytes(), &attributes_key(attributes)].concat();
            assert!(all.insert(key, (start, time, everything)).is_none(), "{}", metric.name);
        };
        match metric.data.as_ref().unwrap() {
            Data::Sum(sum) => {
                for point in &sum.data_points {
                    let Some(Value::AsDouble(sum)) = point.value else { panic!("{point:?}") };
                    let everything = Everything { sum, ..Everything::default() };
                    put(
                        &point.attributes,
                        point.start_time_unix_nano,
                        point.time_unix_nano,
                        everything,
                    );
                }
            }
            Data::Histogram(of) => {
                for point in &of.data_points {
                    let buckets = (0..).zip(point.bucket_counts.iter().copied());
                    let buckets = buckets.filter(|(_, count)| *count > 0).collect();
                    let everything =
                        Everything { count: point.count, sum: point.sum.unwrap(), buckets };
                    put(
                        &point.attributes,
                        point.start_time_unix_nano,
                        point.time_unix_nano,
                        everything,
                    );
                }
            }
            Data::ExponentialHistogram(of) => {
                for point in &of.data_points {
                    let mut buckets = BTreeMap::new();
                    let positive = point.positive.clone().unwrap_or_default();
                    for (index, count) in (i64::from(positive.offset)..).zip(positive.bucket_counts)
                    {
                        if count > 0 {
                            // Half as many buckets with each step of the scale.
                            let index = index.div_euclid(1 << (point.scale - COARSE));
                            *buckets.entry(index).or_default() += count;
                        }
                    }
                    let everything =
                        Everything { count: point.count, sum: point.sum.unwrap(), buckets };
                    put(
                        &point.attributes,
                        point.start_time_unix_nano,
                        point.time_unix_nano,
                        everything,
                    );
                }
            }
            other => panic!("{other:?}"),
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is recorded and whichever exports fail: the accepted differences add up to the
    /// totals, and the intervals of a series neither overlap nor leave a gap.
    #[test]
    fn accepted_differences_add_up_to_the_totals(
        steps in proptest::collection::vec(
            // Exponents of the recorded values with their attribute, and whether the export is
            // accepted.
            (proptest::collection::vec((-8i32..20, 0i64..3), 0..6), any::<bool>()),
            1..12,
        ),
        exponential: bool,
    ) {
        let (tee, state) = Tee::new(None, Temporality::Cumulative, None);
        let provider = SdkMeterProvider::builder()
            .with_reader(PeriodicReader::builder(tee).with_interval(NEVER).build())
            .with_view(move |of: &Instrument| view(of, crate::MetricSet::Full, 10, exponential))
            .build();
        let meter = provider.meter("test");
        let histogram = meter.f64_histogram("values").with_boundaries(vec![0.5, 4.0, 1e3]).build();
        let counter = meter.f64_counter("count").build();
        let mut deltas = Deltas::of_run();
        let mut received: HashMap<Vec<u8>, (u64, Everything)> = HashMap::new();
        let last = [(Vec::new(), true)];
        for (values, is_accepted) in steps.into_iter().chain(last) {
            for (exponent, which) in values {
                // Powers of two, whose sums are exact.
                let (value, set) = (f64::from(exponent).exp2(), [KeyValue::new("set", which)]);
                histogram.record(value, &set);
                counter.add(value, &set);
            }
            provider.force_flush().unwrap();
            let (sent, pending) = deltas.convert(state.latest());
            if !is_accepted {
                continue;
            }
            deltas.accept(pending);
            let totals = read(&state.latest());
            for (series, (start, time, added)) in read(&sent) {
                prop_assert!(start < time);
                let (end, all) = received
                    .entry(series.clone())
                    .or_insert_with(|| (totals[&series].0, Everything::default()));
                prop_assert_eq!(*end, start, "an interval begins where the last one ended");
                *end = time;
                all.count += added.count;
                all.sum += added.sum;
                for (index, count) in added.buckets {
                    *all.buckets.entry(index).or_default() += count;
                }
            }
        }
        let received: HashMap<_, _> = received.into_iter().map(|(key, (_, all))| (key, all)).collect();
        let totals: HashMap<_, _> =
            read(&state.latest()).into_iter().map(|(key, (_, _, all))| (key, all)).collect();
        prop_assert_eq!(received, totals);
    }
}

fn message(resource: &str, metrics: Vec<Metric>) -> Message {
    let attributes = vec![key_value("service.instance.id", resource)];
    let resource =
        opentelemetry_proto::tonic::resource::v1::Resource { attributes, ..Default::default() };
    let scope = ScopeMetrics { metrics, ..ScopeMetrics::default() };
    let resource = ResourceMetrics {
        resource: Some(resource),
        scope_metrics: vec![scope],
        ..ResourceMetrics::default()
    };
    Message { resource_metrics: vec![resource] }
}

fn key_value(key: &str, value: &str) -> opentelemetry_proto::tonic::common::v1::KeyValue {
    (&opentelemetry::KeyValue::new(key.to_owned(), value.to_owned())).into()
}

fn number(series: &str, time: u64, value: f64) -> NumberDataPoint {
    NumberDataPoint {
        attributes: vec![key_value("series", series)],
        time_unix_nano: time,
        value: Some(Value::AsDouble(value)),
        ..NumberDataPoint::default()
    }
}

fn sum(is_monotonic: bool, data_points: Vec<NumberDataPoint>) -> Metric {
    let data = Data::Sum(Sum { data_points, aggregation_temporality: CUMULATIVE, is_monotonic });
    Metric { name: "sum".into(), data: Some(data), ..Metric::default() }
}

/// Returns series, start and value of each point.
fn points(message: &Message) -> Vec<(String, u64, f64)> {
    let resources = message.resource_metrics.iter();
    let metrics = resources.flat_map(|of| &of.scope_metrics).flat_map(|scope| &scope.metrics);
    let sums = metrics.filter_map(|metric| match &metric.data {
        Some(Data::Sum(sum)) => Some(&sum.data_points),
        _ => None,
    });
    let read = |point: &NumberDataPoint| {
        let Some(opentelemetry_proto::tonic::common::v1::any_value::Value::StringValue(series)) =
            point.attributes[0].value.clone().unwrap().value
        else {
            panic!("{point:?}")
        };
        let Some(Value::AsDouble(value)) = point.value else { panic!("{point:?}") };
        (series, point.start_time_unix_nano, value)
    };
    sums.flatten().map(read).collect()
}

/// Sends the counters of one server at `time`.
fn send(deltas: &mut Deltas, time: u64, values: &[(&str, f64)]) -> Vec<(String, u64, f64)> {
    let values = values.iter().map(|(series, value)| number(series, time, *value)).collect();
    let (sent, pending) = deltas.convert(message("server", vec![sum(true, values)]));
    deltas.accept(pending);
    points(&sent)
}

#[test]
fn what_a_server_counted_before_the_run_is_not_part_of_it() {
    let mut deltas = Deltas::of_servers();
    assert_eq!(send(&mut deltas, 10, &[("a", 1000.0)]), []);
    assert_eq!(send(&mut deltas, 20, &[("a", 1000.0)]), [], "nothing was added");
    // `b` has begun since the last scrape.
    let sent = send(&mut deltas, 30, &[("a", 1004.0), ("b", 3.0)]);
    assert_eq!(sent, [("a".into(), 10, 4.0), ("b".into(), 20, 3.0)]);
    // The server has restarted: 2 is what it has counted since.
    let sent = send(&mut deltas, 40, &[("a", 2.0), ("b", 3.5)]);
    assert_eq!(sent, [("a".into(), 30, 2.0), ("b".into(), 30, 0.5)]);
    assert_eq!(send(&mut deltas, 40, &[("a", 9.0)]), [], "no time has passed");
}

#[test]
fn a_known_start_tells_a_restart_even_where_the_value_has_grown() {
    let mut deltas = Deltas::of_servers();
    send(&mut deltas, 10, &[("a", 5.0)]);
    let restarted = NumberDataPoint { start_time_unix_nano: 12, ..number("a", 20, 8.0) };
    let (sent, _) = deltas.convert(message("server", vec![sum(true, vec![restarted])]));
    assert_eq!(points(&sent), [("a".into(), 12, 8.0)]);
}

#[test]
fn parts_of_one_scrape_are_all_its_base() {
    let mut deltas = Deltas::of_servers();
    assert_eq!(send(&mut deltas, 10, &[("a", 5.0)]), []);
    assert_eq!(send(&mut deltas, 10, &[("b", 7.0)]), []);
    assert_eq!(send(&mut deltas, 20, &[("b", 8.0)]), [("b".into(), 10, 1.0)]);
}

#[test]
fn several_scrapes_in_one_message_follow_each_other() {
    let mut deltas = Deltas::of_servers();
    send(&mut deltas, 10, &[("a", 5.0)]);
    let mut both = message("server", vec![sum(true, vec![number("a", 20, 6.0)])]);
    let later = message("server", vec![sum(true, vec![number("a", 30, 9.0)])]);
    both.resource_metrics.extend(later.resource_metrics);
    let (sent, pending) = deltas.convert(both.clone());
    assert_eq!(points(&sent), [("a".into(), 10, 1.0), ("a".into(), 20, 3.0)]);
    // It was not accepted, and is part of the next.
    drop(pending);
    assert_eq!(send(&mut deltas, 40, &[("a", 9.5)]), [("a".into(), 10, 4.5)]);
}

#[test]
fn sums_that_may_fall_and_gauges_are_not_changed() {
    let gauge = Data::Gauge(Gauge { data_points: vec![number("g", 10, 1.0)] });
    let gauge = Metric { name: "gauge".into(), data: Some(gauge), ..Metric::default() };
    let all = message("run", vec![sum(false, vec![number("a", 10, -1.0)]), gauge]);
    let mut deltas = Deltas::of_run();
    for _ in 0..2 {
        let (sent, pending) = deltas.convert(all.clone());
        deltas.accept(pending);
        assert_eq!(sent, all);
    }
}

#[test]
fn without_a_change_the_body_is_empty() {
    let mut deltas = Deltas::of_run();
    let body: Bytes =
        message("run", vec![sum(true, vec![number("a", 10, 1.0)])]).encode_to_vec().into();
    let (sent, pending) = deltas.convert_encoded(&body);
    assert!(!sent.is_empty());
    deltas.accept(pending);
    let body: Bytes =
        message("run", vec![sum(true, vec![number("a", 20, 1.0)])]).encode_to_vec().into();
    assert!(deltas.convert_encoded(&body).0.is_empty());
}

#[test]
fn extremes_are_known_in_the_first_interval_only() {
    let point = |time, counts: [u64; 2], max| HistogramDataPoint {
        time_unix_nano: time,
        count: counts.iter().sum(),
        sum: Some(max),
        explicit_bounds: vec![1.0],
        bucket_counts: counts.to_vec(),
        min: Some(0.0),
        max: Some(max),
        ..HistogramDataPoint::default()
    };
    let mut second = point(20, [3, 1], 5.0);
    assert_eq!(second.subtract(&point(10, [1, 1], 2.0)), Change::Grown);
    assert_eq!((second.count, second.bucket_counts, second.sum), (2, vec![2, 0], Some(3.0)));
    assert_eq!((second.min, second.max), (None, None));
    // A bucket that has fallen: the whole histogram is new.
    let mut restarted = point(20, [0, 9], 5.0);
    assert_eq!(restarted.subtract(&point(10, [1, 1], 2.0)), Change::Restarted);
    assert_eq!((restarted.count, restarted.max), (9, Some(5.0)));
}

/// An exponential histogram of scale `scale` whose buckets begin at `offset`.
fn exponential(
    scale: i32,
    offset: i32,
    counts: &[u64],
    zeros: u64,
) -> ExponentialHistogramDataPoint {
    ExponentialHistogramDataPoint {
        scale,
        zero_count: zeros,
        count: counts.iter().sum::<u64>() + zeros,
        sum: Some(0.0),
        positive: Some(Buckets { offset, bucket_counts: counts.to_vec() }),
        ..ExponentialHistogramDataPoint::default()
    }
}

#[test]
fn earlier_buckets_are_merged_to_the_scale_of_the_later_ones() {
    // At scale 1, the buckets -3 to 2 end at 2^-1, 2^-0.5, 2^0, 2^0.5, 2^1 and 2^1.5; at scale 0
    // these are parts of the buckets -2, -1, -1, 0, 0 and 1.
    let before = exponential(1, -3, &[1, 2, 3, 4, 5, 6], 0);
    let mut now = exponential(0, -2, &[1, 6, 9, 7], 2);
    assert_eq!(now.subtract(&before), Change::Grown);
    assert_eq!(now.positive.unwrap().bucket_counts, [0, 1, 0, 1]);
    assert_eq!((now.zero_count, now.count), (2, 4));

    // A wider zero bucket takes the values up to 2^-0.5, of the buckets -3 and -2.
    let mut wide = ExponentialHistogramDataPoint {
        zero_threshold: 0.5f64.sqrt(),
        ..exponential(1, -1, &[3, 4, 5, 6], 5)
    };
    assert_eq!(wide.subtract(&before), Change::Grown);
    assert_eq!((wide.zero_count, wide.count), (2, 2));

    // A finer scale, or a bucket that has fallen, is a restart.
    for mut now in [exponential(2, 0, &[30], 0), exponential(0, -2, &[1, 4, 19], 0)] {
        assert_eq!(now.subtract(&before), Change::Restarted);
    }
}
