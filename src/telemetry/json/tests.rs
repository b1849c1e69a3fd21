use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue,
};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram,
    HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary,
    SummaryDataPoint, exemplar,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;
use serde_json::{Value, json};

use super::*;

fn pair(key: &str, value: Any) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

fn resource() -> Resource {
    let texts = ["x", "y"].map(|text| AnyValue { value: Some(Any::StringValue(text.into())) });
    let attributes = vec![
        pair("text", Any::StringValue("a \"b\"\n".into())),
        pair("flag", Any::BoolValue(true)),
        pair("count", Any::IntValue(-5)),
        pair("ratio", Any::DoubleValue(0.25)),
        pair("list", Any::ArrayValue(ArrayValue { values: texts.to_vec() })),
    ];
    Resource { attributes, ..Resource::default() }
}

fn resource_as_json() -> Value {
    json!({"attributes": [
        {"key": "text", "value": {"stringValue": "a \"b\"\n"}},
        {"key": "flag", "value": {"boolValue": true}},
        {"key": "count", "value": {"intValue": "-5"}},
        {"key": "ratio", "value": {"doubleValue": 0.25}},
        {"key": "list", "value": {"arrayValue": {"values": [
            {"stringValue": "x"}, {"stringValue": "y"},
        ]}}},
    ]})
}

fn scope() -> InstrumentationScope {
    InstrumentationScope { name: "s".into(), ..InstrumentationScope::default() }
}

fn parsed(body: &[u8], message: &Message) -> Value {
    serde_json::from_str(&of(body, message).unwrap()).unwrap()
}

fn metrics(metrics: Vec<Metric>) -> ExportMetricsServiceRequest {
    let scope_metrics =
        vec![ScopeMetrics { scope: Some(scope()), metrics, schema_url: "u".into() }];
    let of_resource =
        ResourceMetrics { resource: Some(resource()), scope_metrics, schema_url: "v".into() };
    ExportMetricsServiceRequest { resource_metrics: vec![of_resource] }
}

fn metric(name: &str, data: Data) -> Metric {
    Metric { name: name.into(), unit: "s".into(), data: Some(data), ..Metric::default() }
}

fn number(value: Number) -> NumberDataPoint {
    NumberDataPoint { time_unix_nano: 2, value: Some(value), ..NumberDataPoint::default() }
}

/// The expected JSON is written by hand from the specification's rules.
#[test]
fn each_kind_of_metric_is_written_as_the_specification_has_it() {
    let gauges = [1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0];
    let exemplar = Exemplar {
        time_unix_nano: 9,
        value: Some(exemplar::Value::AsDouble(3.5)),
        span_id: vec![1; 8],
        trace_id: vec![0xab; 16],
        ..Exemplar::default()
    };
    let histogram = HistogramDataPoint {
        attributes: vec![pair("k", Any::StringValue("v".into()))],
        start_time_unix_nano: 1,
        time_unix_nano: u64::MAX,
        count: 3,
        sum: Some(6.0),
        bucket_counts: vec![1, 2],
        explicit_bounds: vec![2.5],
        exemplars: vec![exemplar],
        min: Some(0.0),
        ..HistogramDataPoint::default()
    };
    let exponential = ExponentialHistogramDataPoint {
        count: 300,
        scale: -2,
        zero_count: 4,
        positive: Some(Buckets { offset: -3, bucket_counts: vec![0, 296] }),
        ..ExponentialHistogramDataPoint::default()
    };
    let summary = SummaryDataPoint {
        count: 1,
        sum: 2.0,
        quantile_values: vec![ValueAtQuantile { quantile: 0.5, value: 2.0 }],
        ..SummaryDataPoint::default()
    };
    let sum = Sum {
        data_points: vec![number(Number::AsInt(-7))],
        aggregation_temporality: 2,
        is_monotonic: true,
    };
    let request = metrics(vec![
        metric(
            "g",
            Data::Gauge(Gauge {
                data_points: gauges.map(|value| number(Number::AsDouble(value))).to_vec(),
            }),
        ),
        metric("c", Data::Sum(sum)),
        metric(
            "h",
            Data::Histogram(Histogram { data_points: vec![histogram], aggregation_temporality: 1 }),
        ),
        metric(
            "e",
            Data::ExponentialHistogram(ExponentialHistogram {
                data_points: vec![exponential],
                aggregation_temporality: 2,
            }),
        ),
        metric("s", Data::Summary(Summary { data_points: vec![summary] })),
    ]);
    let gauge = |value: Value| json!({"timeUnixNano": "2", "asDouble": value});
    let expected = json!({"resourceMetrics": [{
        "resource": resource_as_json(),
        "scopeMetrics": [{"scope": {"name": "s"}, "schemaUrl": "u", "metrics": [
            {"name": "g", "unit": "s", "gauge": {"dataPoints": [
                gauge(json!(1.5)), gauge(json!("NaN")), gauge(json!("Infinity")),
                gauge(json!("-Infinity")), gauge(json!(0.0)),
            ]}},
            {"name": "c", "unit": "s", "sum": {
                "dataPoints": [{"timeUnixNano": "2", "asInt": "-7"}],
                "aggregationTemporality": 2, "isMonotonic": true,
            }},
            {"name": "h", "unit": "s", "histogram": {"aggregationTemporality": 1, "dataPoints": [{
                "attributes": [{"key": "k", "value": {"stringValue": "v"}}],
                "startTimeUnixNano": "1", "timeUnixNano": "18446744073709551615", "count": "3",
                "sum": 6.0, "bucketCounts": ["1", "2"], "explicitBounds": [2.5], "min": 0.0,
                "exemplars": [{
                    "timeUnixNano": "9", "asDouble": 3.5, "spanId": "0101010101010101",
                    "traceId": "abababababababababababababababab",
                }],
            }]}},
            {"name": "e", "unit": "s", "exponentialHistogram": {
                "aggregationTemporality": 2,
                "dataPoints": [{
                    "count": "300", "scale": -2, "zeroCount": "4",
                    "positive": {"offset": -3, "bucketCounts": ["0", "296"]},
                }],
            }},
            {"name": "s", "unit": "s", "summary": {"dataPoints": [{
                "count": "1", "sum": 2.0, "quantileValues": [{"quantile": 0.5, "value": 2.0}],
            }]}},
        ]}],
        "schemaUrl": "v",
    }]});
    assert_eq!(parsed(&request.encode_to_vec(), &METRICS), expected);
}

#[test]
fn spans_are_written_as_the_specification_has_them() {
    let span = Span {
        trace_id: vec![0x5b; 16],
        span_id: vec![0xee; 8],
        trace_state: "ot=th:c".into(),
        parent_span_id: vec![1; 8],
        flags: 0x101,
        name: "chat m".into(),
        kind: 3,
        start_time_unix_nano: 1_544_712_660_000_000_000,
        end_time_unix_nano: 1_544_712_661_000_000_000,
        events: vec![Event { time_unix_nano: 5, name: "e".into(), ..Event::default() }],
        links: vec![Link { span_id: vec![2; 8], flags: 0x100, ..Link::default() }],
        status: Some(Status { message: "no".into(), code: 2 }),
        ..Span::default()
    };
    let scope_spans =
        vec![ScopeSpans { scope: Some(scope()), spans: vec![span], schema_url: String::new() }];
    let of_resource =
        ResourceSpans { resource: Some(resource()), scope_spans, ..Default::default() };
    let request = ExportTraceServiceRequest { resource_spans: vec![of_resource] };
    let expected = json!({"resourceSpans": [{
        "resource": resource_as_json(),
        "scopeSpans": [{"scope": {"name": "s"}, "spans": [{
            "traceId": "5b".repeat(16), "spanId": "ee".repeat(8), "traceState": "ot=th:c",
            "parentSpanId": "01".repeat(8), "flags": 257, "name": "chat m", "kind": 3,
            "startTimeUnixNano": "1544712660000000000", "endTimeUnixNano": "1544712661000000000",
            "events": [{"timeUnixNano": "5", "name": "e"}],
            "links": [{"spanId": "02".repeat(8), "flags": 256}],
            "status": {"message": "no", "code": 2},
        }]}],
    }]});
    assert_eq!(parsed(&request.encode_to_vec(), &TRACES), expected);
}

#[test]
fn concatenated_messages_are_one_with_the_lists_of_both() {
    let one = metrics(vec![metric("a", Data::Gauge(Gauge::default()))]).encode_to_vec();
    let json = parsed(&[one.as_slice(), &one].concat(), &METRICS);
    assert_eq!(json["resourceMetrics"].as_array().unwrap().len(), 2);
    assert_eq!(parsed(b"", &METRICS), json!({}));
}

#[test]
fn what_is_cut_or_not_protobuf_is_refused() {
    let whole = metrics(vec![metric("a", Data::Gauge(Gauge::default()))]).encode_to_vec();
    assert_eq!(of(&whole[..whole.len() - 1], &METRICS), None);
    assert_eq!(of(b"\xff\xff\xff", &METRICS), None);
    // A number where a message belongs.
    assert_eq!(of(b"\x08\x01", &METRICS), None);
}
