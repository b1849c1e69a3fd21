use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics,
};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

/// A value of the request with the random number `rank`.
fn sample(value: f64, at: u64, rank: u64) -> Sample {
    Sample { value, at, context: TraceContext::from_request_id(Uuid::from_u128(rank.into())) }
}

fn values(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.value).collect()
}

#[test]
fn each_bucket_keeps_its_largest_value() {
    let mut reservoir = Reservoir::of_buckets(&[1.0, 2.0]);
    for value in [0.5, 1.0, 0.7, 1.5, 1.2, 9.0, 3.0] {
        reservoir.offer(sample(value, 10, 1));
    }
    // 1 is in the bucket that it is the upper bound of.
    assert_eq!(values(&reservoir.take_until(10)), [1.0, 1.5, 9.0]);
    assert_eq!(reservoir.take_until(10), []);
}

#[test]
fn what_is_recorded_after_the_collection_waits_for_the_next() {
    for mut reservoir in [Reservoir::of_buckets(&[1.0]), Reservoir::of_values(5)] {
        reservoir.offer(sample(0.5, 10, 1));
        reservoir.offer(sample(2.0, 11, 2));
        assert_eq!(values(&reservoir.take_until(10)), [0.5]);
        assert_eq!(values(&reservoir.take_until(11)), [2.0]);
    }
}

#[test]
fn of_one_request_only_the_largest_value_is_kept() {
    let mut reservoir = Reservoir::of_values(3);
    for value in [1.0, 5.0, 2.0] {
        reservoir.offer(sample(value, 1, 7));
    }
    assert_eq!(values(&reservoir.take_until(1)), [5.0]);
}

proptest! {
    /// The largest value, and those with the lowest random numbers among the others, in any order.
    #[test]
    fn values_are_a_uniform_sample_and_the_largest(
        offered in proptest::collection::hash_map(1u64..1_000_000, 0u32..1_000_000, 1..60),
        room in 1usize..8,
    ) {
        let mut reservoir = Reservoir::of_values(room);
        for (rank, value) in &offered {
            reservoir.offer(sample(f64::from(*value), 1, *rank));
        }
        let mut kept = values(&reservoir.take_until(1));
        kept.sort_by(f64::total_cmp);

        let mut others: Vec<(u64, u32)> = offered.into_iter().collect();
        let largest = others.iter().map(|(_, value)| *value).max().unwrap();
        prop_assume!(others.iter().filter(|(_, value)| *value == largest).count() == 1);
        let mut expected = Vec::new();
        if room > 1 {
            others.retain(|(_, value)| *value != largest);
            expected.push(f64::from(largest));
        }
        others.sort_unstable();
        let left = room - expected.len();
        expected.extend(others.iter().take(left).map(|(_, value)| f64::from(*value)));
        expected.sort_by(f64::total_cmp);
        prop_assert_eq!(kept, expected);
    }
}

fn spec(kind: InstrumentKind) -> MetricSpec {
    MetricSpec { name: "m".into(), kind, unit: "s", brief: "", boundaries: vec![1.0, 2.0] }
}

fn exported(data: Data) -> ExportMetricsServiceRequest {
    let metric = Metric { name: "m".into(), data: Some(data), ..Metric::default() };
    let scope = ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() };
    let resource = ResourceMetrics { scope_metrics: vec![scope], ..ResourceMetrics::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![resource] }
}

fn histogram() -> ExportMetricsServiceRequest {
    let attributes = Attributes::from([KeyValue::new("b", 1), KeyValue::new("a", "x")]).0;
    let point = HistogramDataPoint { attributes, time_unix_nano: u64::MAX, ..Default::default() };
    exported(Data::Histogram(Histogram {
        data_points: vec![point],
        aggregation_temporality: AggregationTemporality::Cumulative as i32,
    }))
}

fn exemplars_of(message: &ExportMetricsServiceRequest) -> Vec<Exemplar> {
    match &message.resource_metrics[0].scope_metrics[0].metrics[0].data {
        Some(Data::Histogram(of)) => of.data_points[0].exemplars.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn exemplars_are_attached_once_unless_the_export_fails() {
    let exemplars = Exemplars::new(false, false);
    // In another order than in the message.
    let attributes = [KeyValue::new("a", "x"), KeyValue::new("b", 1)];
    let slot = exemplars.slot(&spec(InstrumentKind::Histogram), &attributes);
    let other = exemplars.slot(&spec(InstrumentKind::Histogram), &attributes[..1]);
    let context = TraceContext::from_request_id(Uuid::from_u128(77));
    Offers::now(context).offer(&slot, 1.5);
    Offers::now(context).offer(&other, 0.5);
    let mut message = histogram();
    let attached = exemplars.attach(&mut message);
    let [found] = &exemplars_of(&message)[..] else { panic!("{message:?}") };
    assert_eq!(found.value, Some(exemplar::Value::AsDouble(1.5)));
    assert_eq!(found.trace_id, Uuid::from_u128(77).as_bytes());
    assert_eq!(found.span_id, context.span_id);

    // While the export was under way, a larger value of another bucket was recorded.
    Offers::now(context).offer(&slot, 2.5);
    attached.restore();
    let mut message = histogram();
    drop(exemplars.attach(&mut message));
    assert_eq!(exemplars_of(&message).len(), 2);
    let mut message = histogram();
    drop(exemplars.attach(&mut message));
    assert_eq!(exemplars_of(&message), []);
}

#[test]
fn a_cumulative_point_keeps_the_exemplars_of_buckets_without_newer_ones() {
    let mut reservoir = Reservoir::of_buckets(&[1.0, 2.0]);
    let mut export = |values: &[f64], time| {
        for value in values {
            reservoir.offer(sample(*value, time, 1));
        }
        let fresh = reservoir.take_until(time);
        values_in_order(&reservoir.with_earlier(&fresh))
    };
    assert_eq!(export(&[0.5, 1.5, 9.0], 1), [0.5, 1.5, 9.0]);
    assert_eq!(export(&[], 2), [0.5, 1.5, 9.0]);
    // Newer ones replace those of their buckets, even if they are smaller.
    assert_eq!(export(&[0.25, 3.0], 3), [0.25, 1.5, 3.0]);

    let mut reservoir = Reservoir::of_values(2);
    assert_eq!(reservoir.with_earlier(&[sample(5.0, 1, 1)]), [sample(5.0, 1, 1)]);
    assert_eq!(reservoir.with_earlier(&[]), [sample(5.0, 1, 1)]);
    assert_eq!(reservoir.with_earlier(&[sample(3.0, 2, 2)]), [sample(3.0, 2, 2)]);
}

fn values_in_order(samples: &[Sample]) -> Vec<f64> {
    let mut values = values(samples);
    values.sort_by(f64::total_cmp);
    values
}

#[test]
fn gauges_have_none() {
    let exemplars = Exemplars::new(false, false);
    let slot = exemplars.slot(&spec(InstrumentKind::Counter), &[]);
    Offers::now(TraceContext::from_request_id(Uuid::from_u128(1))).offer(&slot, 1.0);
    let point = NumberDataPoint { time_unix_nano: u64::MAX, ..NumberDataPoint::default() };
    let message = exported(Data::Gauge(Gauge { data_points: vec![point] }));
    let mut same = message.clone();
    exemplars.attach(&mut same);
    assert_eq!(same, message);
}

#[test]
fn offers_for_later_are_exemplars_once_redeemed() {
    let exemplars = Exemplars::new(false, false);
    let attributes = [KeyValue::new("a", "x"), KeyValue::new("b", 1)];
    let slot = exemplars.slot(&spec(InstrumentKind::Histogram), &attributes);
    let mut offers = Offers::Later(TraceContext::from_request_id(Uuid::from_u128(5)), Vec::new());
    for value in [1.1, 1.9, 0.2] {
        offers.offer(&slot, value);
    }
    let mut message = histogram();
    exemplars.attach(&mut message);
    assert_eq!(exemplars_of(&message), []);
    offers.redeem();
    exemplars.attach(&mut message);
    let [found] = &exemplars_of(&message)[..] else { panic!("{message:?}") };
    assert_eq!(found.value, Some(exemplar::Value::AsDouble(1.9)));
}
