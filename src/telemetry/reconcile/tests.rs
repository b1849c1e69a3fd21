use std::sync::Arc;

use opentelemetry::KeyValue as Attribute;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, Histogram, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};

use super::*;

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

/// Attributes in the other order than `series` has them.
fn attributes() -> Vec<KeyValue> {
    vec![(&Attribute::new("b", 2)).into(), (&Attribute::new("a", "x")).into()]
}

fn series(exact: Exact) -> Vec<Series> {
    let attributes = vec![Attribute::new("a", "x"), Attribute::new("b", 2)];
    vec![Series { name: "m".into(), attributes, exact }]
}

fn histogram(point: HistogramDataPoint) -> ExportMetricsServiceRequest {
    let data_points = vec![HistogramDataPoint { attributes: attributes(), ..point }];
    export(vec![metric("m", Data::Histogram(Histogram { data_points, ..Histogram::default() }))])
}

/// 0.5, 1 and 3 in buckets (..1], (1..2], (2..).
fn three() -> (Exact, HistogramDataPoint) {
    let mut exact = Exact::explicit(&Arc::from([1.0, 2.0]));
    for value in [0.5, 1.0, 3.0] {
        exact.add(value);
    }
    let point = HistogramDataPoint {
        count: 3,
        sum: Some(4.5),
        bucket_counts: vec![2, 0, 1],
        explicit_bounds: vec![1.0, 2.0],
        ..HistogramDataPoint::default()
    };
    (exact, point)
}

#[test]
fn equal_histograms_agree_whatever_the_order_of_attributes() {
    let (exact, point) = three();
    assert_eq!(compare(&series(exact), &histogram(point)), Vec::<String>::new());
}

#[test]
fn each_difference_of_a_histogram_is_found() {
    let (exact, point) = three();
    let changed = [
        (HistogramDataPoint { count: 4, ..point.clone() }, "has count 4 instead of 3"),
        (HistogramDataPoint { sum: Some(4.500_001), ..point.clone() }, "has sum 4.500001"),
        (HistogramDataPoint { sum: None, ..point.clone() }, "has sum NaN"),
        (HistogramDataPoint { bucket_counts: vec![1, 1, 1], ..point.clone() }, "bucket counts"),
        (HistogramDataPoint { explicit_bounds: vec![1.0, 2.5], ..point }, "bucket counts"),
    ];
    for (point, expected) in changed {
        let found = compare(&series(exact.clone()), &histogram(point));
        assert_eq!(found.len(), 1, "{expected}");
        assert!(found[0].contains(expected), "{found:?}");
        assert!(found[0].starts_with("m{a=\"x\",b=2} "), "{found:?}");
    }
}

#[test]
fn a_missing_and_an_unexpected_series_are_found() {
    let (exact, point) = three();
    assert!(compare(&series(exact), &export(Vec::new()))[0].contains("is not in the final export"));
    assert!(compare(&[], &histogram(point))[0].contains("nothing was recorded"));
}

fn sum(value: f64, attributes: Vec<KeyValue>) -> ExportMetricsServiceRequest {
    let value = Some(Number::AsDouble(value));
    let point = NumberDataPoint { attributes, value, ..NumberDataPoint::default() };
    let sum = Sum { data_points: vec![point], ..Sum::default() };
    export(vec![metric("m", Data::Sum(sum))])
}

#[test]
fn sums_may_differ_by_rounding_only() {
    let exact = Exact { count: 2, sum: 1000.0, magnitude: 1000.0, ..Exact::default() };
    assert!(compare(&series(exact.clone()), &sum(1_000.000_000_5, attributes())).is_empty());
    assert!(!compare(&series(exact), &sum(1_000.000_002, attributes())).is_empty());
}

#[test]
fn an_overflow_point_is_a_failure() {
    let overflow = vec![(&Attribute::new(OVERFLOW, true)).into()];
    let found = compare(&[], &sum(1.0, overflow));
    assert!(found[0].contains("beyond the cardinality limit"), "{found:?}");
}

fn exponential_export(scale: i32, offset: i32, counts: &[u64]) -> ExportMetricsServiceRequest {
    let positive =
        exponential_histogram_data_point::Buckets { offset, bucket_counts: counts.to_vec() };
    let point = ExponentialHistogramDataPoint {
        attributes: attributes(),
        count: 3,
        sum: Some(9.5),
        scale,
        positive: Some(positive),
        ..ExponentialHistogramDataPoint::default()
    };
    let histogram = ExponentialHistogram { data_points: vec![point], ..Default::default() };
    export(vec![metric("m", Data::ExponentialHistogram(histogram))])
}

#[test]
fn exponential_buckets_are_compared_at_the_exports_scale() {
    let mut exact = Exact::exponential();
    for value in [1.5, 3.0, 5.0] {
        exact.add(value);
    }
    // At scale 0 the buckets are (1, 2], (2, 4], (4, 8]: indices 0, 1 and 2.
    assert!(compare(&series(exact.clone()), &exponential_export(0, 0, &[1, 1, 1])).is_empty());
    // One bucket further is rounding, two are not.
    assert!(compare(&series(exact.clone()), &exponential_export(0, 0, &[1, 2, 0])).is_empty());
    assert!(!compare(&series(exact.clone()), &exponential_export(0, 0, &[3, 0, 0])).is_empty());
    assert!(!compare(&series(exact.clone()), &exponential_export(0, 3, &[1, 1, 1])).is_empty());
    assert!(!compare(&series(exact), &exponential_export(20, 0, &[1, 1, 1])).is_empty());
}

#[test]
fn many_differences_are_cut_short() {
    let (exact, _) = three();
    let all: Vec<Series> = (0..30)
        .map(|n| Series { name: format!("m{n}"), attributes: Vec::new(), exact: exact.clone() })
        .collect();
    let found = compare(&all, &export(Vec::new()));
    assert_eq!(found.len(), 21);
    assert_eq!(found[20], "and 10 more");
}
