use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
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
use proptest::prelude::*;
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
    serde_json::from_str(&to_json(body, message).unwrap()).unwrap()
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
    assert_eq!(to_json(&whole[..whole.len() - 1], &METRICS), None);
    assert_eq!(to_json(b"\xff\xff\xff", &METRICS), None);
    // A number where a message belongs.
    assert_eq!(to_json(b"\x08\x01", &METRICS), None);
}

#[test]
fn values_that_are_nested_too_deeply_are_not_converted() {
    let mut value = Vec::new();
    for _ in 0..60 {
        let mut list = Vec::new();
        append(1, &[&value[..]], &mut list);
        value.clear();
        append(5, &[&list], &mut value);
    }
    assert_eq!(to_json(&value, &ANY_VALUE), None);
}

/// Generates messages from the table, from a sequence of pseudorandom numbers.
struct Generator(u64);

impl Generator {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    fn message(&mut self, message: &Message, depth: usize) -> Vec<u8> {
        let mut encoded = Vec::new();
        for field in message.0 {
            let count = self.below(if field.occurs == Occurs::Repeated { 3 } else { 2 });
            for _ in 0..count {
                self.value(field, depth, &mut encoded);
            }
        }
        encoded
    }

    fn value(&mut self, field: &Field, depth: usize, to: &mut Vec<u8>) {
        let large = self.pick(&[0, 1, 300, i64::MAX.cast_unsigned(), u64::MAX]);
        let small = self.pick(&[0, 1, 257, u32::MAX]);
        let doubles = [0.0, 0.1, -2.5e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        match field.form {
            Text => append(field.number, &[self.pick(&["", "a", "\"\n\0é"]).as_bytes()], to),
            Bytes => append(field.number, &[self.pick(&[&[][..], &[0], &[255, 62, 3]])], to),
            Id => append(field.number, &[self.pick(&[&[][..], &[7; 8], &[0xab; 16]])], to),
            Nested(_) if depth == 0 => {}
            Nested(message) => append(field.number, &[&self.message(message, depth - 1)], to),
            Bool => prost::encoding::bool::encode(field.number, &(small == 1), to),
            Small => prost::encoding::uint32::encode(field.number, &small, to),
            Fixed => prost::encoding::fixed32::encode(field.number, &small, to),
            Signed => prost::encoding::sint32::encode(field.number, &small.cast_signed(), to),
            Count => prost::encoding::uint64::encode(field.number, &large, to),
            Large => prost::encoding::fixed64::encode(field.number, &large, to),
            Integer => prost::encoding::int64::encode(field.number, &large.cast_signed(), to),
            LargeSigned => {
                prost::encoding::sfixed64::encode(field.number, &large.cast_signed(), to);
            }
            Double => prost::encoding::double::encode(field.number, &self.pick(&doubles), to),
            Enum(_) => prost::encoding::int32::encode(field.number, &self.pick(&[0, 1, 2]), to),
        }
    }
}

/// Returns `encoded` as prost's type of the message writes it: that type knows the numbers and the
/// types of the fields by itself.
fn normal<M: prost::Message + Default>(encoded: &[u8]) -> Vec<u8> {
    M::decode(encoded).unwrap().encode_to_vec()
}

fn returns_from_json<M: prost::Message + Default>(message: &'static Message, seed: u64) {
    let encoded = Generator(seed).message(message, 9);
    let json = to_json(&encoded, message).unwrap();
    let read = from_json(&json, message).unwrap();
    assert_eq!(normal::<M>(&read), normal::<M>(&encoded), "{json}");
    let renamed = snake_case(serde_json::from_str(&json).unwrap());
    assert_eq!(from_json(&renamed.to_string(), message).unwrap(), read, "{renamed}");
}

/// Returns JSON with the names of the protobuf files.
fn snake_case(value: Value) -> Value {
    match value {
        Value::Array(list) => list.into_iter().map(snake_case).collect(),
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| {
                let letters = name.chars().map(|letter| match letter {
                    'A'..='Z' => format!("_{}", letter.to_ascii_lowercase()),
                    _ => letter.to_string(),
                });
                (letters.collect::<String>(), snake_case(value))
            });
            Value::Object(members.collect())
        }
        other => other,
    }
}

proptest! {
    #[test]
    fn each_message_returns_from_json_as_it_was(seed: u64) {
        returns_from_json::<ExportMetricsServiceRequest>(&METRICS, seed);
        returns_from_json::<ExportTraceServiceRequest>(&TRACES, seed);
        returns_from_json::<ExportLogsServiceRequest>(&LOGS, seed);
    }

    #[test]
    fn any_json_is_read_or_rejected(text in r#"\{"(resourceSpans|resource_logs)":[\[\]{}":,a-z0-9-]{0,60}"#) {
        let _ = (from_json(&text, &TRACES), from_json(&text, &LOGS));
    }
}

#[test]
fn numbers_may_be_texts_and_enumerated_values_names() {
    let read = |json: Value| Span::decode(&*from_json(&json.to_string(), &SPAN).unwrap()).unwrap();
    let expected = Span {
        kind: 3,
        flags: 257,
        end_time_unix_nano: 5,
        status: Some(Status { message: String::new(), code: 2 }),
        ..Span::default()
    };
    let named = json!({"kind": "SPAN_KIND_CLIENT", "flags": "257", "endTimeUnixNano": 5,
                       "status": {"code": "STATUS_CODE_ERROR", "other": [1]}, "name": null});
    assert_eq!(read(named), expected);
    let numbered = json!({"kind": 3, "flags": 257, "end_time_unix_nano": "5",
                          "status": {"code": "2"}, "links": null});
    assert_eq!(read(numbered), expected);
}

#[test]
fn a_value_that_a_field_cannot_have_is_an_error_with_its_name() {
    for (json, error) in [
        (r#"{"kind": "CLIENT"}"#, "the value of `kind` is not valid"),
        (r#"{"traceId": "+1"}"#, "the value of `traceId` is not valid"),
        (r#"{"flags": 4294967296}"#, "the value of `flags` is not valid"),
        (r#"{"endTimeUnixNano": -1}"#, "the value of `endTimeUnixNano` is not valid"),
        (r#"{"endTimeUnixNano": 1.5}"#, "the value of `endTimeUnixNano` is not valid"),
        (r#"{"events": {}}"#, "`events` must be a list"),
        (r#"{"events": 1}"#, "`events` must be a list"),
        (r#"{"name": {}}"#, "the value of `name` is not valid"),
        (r#"{"status": []}"#, "the value of `status` is not valid"),
        ("[]", "expected a map"),
        ("{} {}", "trailing characters"),
    ] {
        let found = from_json(json, &SPAN).unwrap_err().to_string();
        assert!(found.contains(error), "{json}: {found}");
    }
}

#[test]
fn json_that_is_nested_too_deeply_is_rejected_or_skipped() {
    let around = |before: &str, after: &str, depth: usize| {
        format!("{}{}", before.repeat(depth), after.repeat(depth))
    };
    let deep = around("[", "]", 1 << 20);
    let attribute = |value: &str| format!(r#"{{"attributes":[{{"key":"k","value":{value}}}]}}"#);
    let lists = |depth| {
        let inner = around(r#"{"arrayValue":{"values":["#, "]}}", depth);
        from_json(&attribute(&inner), &SPAN)
    };
    assert!(to_json(&lists(30).unwrap(), &SPAN).unwrap().contains("arrayValue"));
    for read in [lists(100), lists(1 << 16), from_json(&attribute(&deep), &SPAN)] {
        let error = read.unwrap_err().to_string();
        assert!(error.contains("recursion limit exceeded"), "{error}");
    }
    // As a member that is not in the table, as a span, as a resource and as a list of spans.
    let mut spans = Vec::new();
    let mut read = |text: &str| {
        each_element(text, &SCOPE_SPANS, 2, usize::MAX, &mut |_, span| {
            spans.push(span.len());
            Ok(())
        })
    };
    read(&format!(r#"{{"other":{deep},"spans":[{deep},{{}}]}}"#)).unwrap();
    assert!(read(&format!(r#"{{"scope":{deep}}}"#)).unwrap_err().contains("recursion limit"));
    read(&format!(r#"{{"spans":{deep}}}"#)).unwrap();
    assert_eq!(spans, [deep.len(), 2, deep.len() - 2]);
}
