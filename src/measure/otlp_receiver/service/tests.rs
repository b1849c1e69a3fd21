use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::Full;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValueList};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use proptest::prelude::*;
use serde_json::Value;
use uuid::Uuid;

use base::units::Nanos;
use client::record::TraceShare;

use super::super::fixture::{child, encoded as request, sent_by};
use super::super::report::ReceiverReport;
use super::*;

fn spans() -> Vec<u8> {
    request(vec![sent_by("vllm", vec![child(Uuid::from_u128(7), 1)])])
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Frames a message of gRPC.
fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[flag][..], &length, message].concat()
}

/// A response: status, headers, trailers and body.
struct Got {
    status: u16,
    headers: HeaderMap,
    trailers: HeaderMap,
    body: Bytes,
}

impl Got {
    fn grpc_status(&self) -> &str {
        let status = self.trailers.get("grpc-status").or(self.headers.get("grpc-status"));
        status.unwrap().to_str().unwrap()
    }
}

fn send(path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> (Got, ReceiverReport) {
    let join = Arc::new(SpanJoin::new(TraceShare::NONE, Nanos::ZERO));
    let service = Service::new(Arc::clone(&join));
    let mut request = Request::post(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let got = runtime.block_on(async {
        let (head, body) = service.answer(request).await.into_parts();
        let body = body.collect().await.unwrap();
        let trailers = body.trailers().cloned().unwrap_or_default();
        Got { status: head.status.as_u16(), headers: head.headers, trailers, body: body.to_bytes() }
    });
    (got, join.report(([127, 0, 0, 1], 1).into()))
}

const OF_PROTOBUF: (&str, &str) = ("content-type", "application/x-protobuf");
const OF_JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");
const OF_GRPC: (&str, &str) = ("content-type", "application/grpc+proto");
const GZIP: (&str, &str) = ("content-encoding", "gzip");
const GRPC_GZIP: (&str, &str) = ("grpc-encoding", "gzip");

#[test]
fn spans_are_accepted_in_each_encoding() {
    // The IDs are those of `spans`.
    let json = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"a",
        "traceId":"00000000000000000000000000000007","spanId":"0000000000000001"}]}]}]}"#;
    for (path, headers, body, answer) in [
        (TRACES, &[OF_PROTOBUF][..], spans(), &b""[..]),
        (TRACES, &[OF_PROTOBUF, GZIP], gzip(&spans()), b""),
        (TRACES, &[OF_JSON], json.into(), b"{}"),
        (TRACES, &[OF_JSON, GZIP], gzip(json.as_bytes()), b"{}"),
        (EXPORT_TRACES, &[OF_GRPC], framed(0, &spans()), &[0; 5]),
        (EXPORT_TRACES, &[OF_GRPC, GRPC_GZIP], framed(1, &gzip(&spans())), &[0; 5]),
        (EXPORT_TRACES, &[OF_GRPC, GRPC_GZIP], framed(0, &spans()), &[0; 5]),
    ] {
        let (got, report) = send(path, headers, body);
        assert_eq!((got.status, &*got.body), (200, answer), "{path} {headers:?}");
        assert_eq!((report.spans_received, report.spans_malformed), (1, 0), "{headers:?}");
        if path == EXPORT_TRACES {
            assert_eq!(got.grpc_status(), "0");
        }
    }
}

#[test]
fn other_signals_are_accepted_and_ignored() {
    for (path, headers, body) in [
        ("/v1/metrics", [OF_PROTOBUF], b"\x0a\x00".to_vec()),
        ("/v1/logs", [OF_JSON], b"{}".to_vec()),
        (EXPORT_OTHERS[0], [OF_GRPC], framed(0, b"")),
        (EXPORT_OTHERS[1], [OF_GRPC], framed(0, b"")),
    ] {
        let (got, report) = send(path, &headers, body);
        assert_eq!((got.status, report.requests_other), (200, 1), "{path}");
        assert_eq!((report.spans_received, report.requests_malformed), (0, 0), "{path}");
    }
}

#[test]
fn an_empty_request_succeeds() {
    let (got, report) = send(TRACES, &[OF_PROTOBUF], Vec::new());
    assert_eq!((got.status, got.body.len(), report.spans_received), (200, 0, 0));
}

#[test]
fn spans_that_are_not_valid_are_rejected_alone() {
    let invalid = Span { span_id: vec![1; 4], ..child(Uuid::from_u128(7), 2) };
    let body = request(vec![sent_by("vllm", vec![child(Uuid::from_u128(7), 1), invalid])]);
    let (got, report) = send(TRACES, &[OF_PROTOBUF], body.clone());
    let partial = ExportTraceServiceResponse::decode(got.body).unwrap().partial_success.unwrap();
    assert_eq!((got.status, partial.rejected_spans), (200, 1));
    assert!(partial.error_message.contains("16 and 8 bytes"), "{}", partial.error_message);
    assert_eq!((report.spans_received, report.spans_malformed), (2, 1));
    let (got, _) = send(EXPORT_TRACES, &[OF_GRPC], framed(0, &body));
    let partial = ExportTraceServiceResponse::decode(&got.body[5..]).unwrap();
    assert_eq!(partial.partial_success.unwrap().rejected_spans, 1);

    let json = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"a","traceId":"07"}]}]}]}"#;
    let (got, _) = send(TRACES, &[OF_JSON], json.into());
    let answer: Value = serde_json::from_slice(&got.body).unwrap();
    assert_eq!(answer["partialSuccess"]["rejectedSpans"], "1");
}

#[test]
fn what_cannot_be_read_is_refused_as_the_protocols_have_it() {
    let bomb = gzip(&vec![0; MAX_BODY + 1]);
    for (path, headers, body, status, code) in [
        ("/v1/profiles", &[OF_PROTOBUF][..], spans(), 404, "12"),
        (TRACES, &[("content-type", "text/plain")], spans(), 415, "3"),
        (TRACES, &[OF_PROTOBUF, ("content-encoding", "zstd")], spans(), 415, "12"),
        (TRACES, &[OF_PROTOBUF], b"\xff".to_vec(), 400, "3"),
        (TRACES, &[OF_PROTOBUF, GZIP], spans(), 400, "3"),
        (TRACES, &[OF_PROTOBUF, GZIP], bomb.clone(), 413, "8"),
        (TRACES, &[OF_PROTOBUF], vec![0; MAX_BODY + 1], 413, "8"),
        (TRACES, &[OF_JSON], b"{\"resourceSpans\":[".to_vec(), 400, "3"),
        (TRACES, &[OF_JSON], b"{\"resourceSpans\":7}".to_vec(), 400, "3"),
        ("/a.Service/Export", &[OF_GRPC], framed(0, &spans()), 200, "12"),
        (EXPORT_TRACES, &[OF_GRPC], spans(), 200, "3"),
        (EXPORT_TRACES, &[OF_GRPC], framed(0, b"\xff"), 200, "3"),
        (EXPORT_TRACES, &[OF_GRPC], [framed(0, b""), framed(0, b"")].concat(), 200, "3"),
        (EXPORT_TRACES, &[OF_GRPC, GRPC_GZIP], framed(1, &bomb), 200, "8"),
        (EXPORT_TRACES, &[OF_GRPC, ("grpc-encoding", "snappy")], framed(1, b"x"), 200, "12"),
    ] {
        let (got, report) = send(path, headers, body);
        let what = format!("{path} {headers:?}");
        assert_eq!(got.status, status, "{what}");
        assert_eq!((report.requests_malformed, report.spans_joined), (1, 0), "{what}");
        if status == 200 {
            assert_eq!(got.grpc_status(), code, "{what}");
            assert!(!got.headers["grpc-message"].is_empty(), "{what}");
        } else if headers[0] == OF_JSON {
            let answer: Value = serde_json::from_slice(&got.body).unwrap();
            assert_eq!(answer["code"].to_string(), code, "{what}");
        } else {
            let answer = tonic_types::Status::decode(got.body).unwrap();
            assert_eq!(answer.code.to_string(), code, "{what}");
            assert!(!answer.message.is_empty(), "{what}");
        }
    }
}

#[test]
fn other_methods_are_refused() {
    let join = Arc::new(SpanJoin::new(TraceShare::NONE, Nanos::ZERO));
    let service = Service::new(join);
    let request = Request::get(TRACES).body(Full::new(Bytes::new())).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let response = runtime.block_on(service.answer(request));
    assert_eq!(
        (response.status().as_u16(), &response.headers()[ALLOW]),
        (405, &"POST".parse().unwrap())
    );
}

/// The example of the OTLP specification, shortened, with each kind of value.
#[test]
fn json_means_the_same_as_protobuf() {
    let json = r#"{"resourceSpans": [{
        "resource": {"attributes": [
            {"key": "service.name", "value": {"stringValue": "my.service"}}]},
        "schemaUrl": "r", "unknown": {"a": [1]},
        "scopeSpans": [{
            "scope": {"name": "example.scope", "version": "1.0.0", "attributes": []},
            "spans": [{
                "traceId": "5B8EFFF798038103D269B633813FC60C",
                "spanId": "eee19b7ec3c1b174", "parentSpanId": "EEE19B7EC3C1B173",
                "flags": 257, "name": "I'm a server span",
                "startTimeUnixNano": "1544712660000000000",
                "endTimeUnixNano": 1544712661000000000,
                "kind": 2, "status": {"code": 2, "message": "m"},
                "attributes": [
                    {"key": "text", "value": {"stringValue": "some value"}},
                    {"key": "integer", "value": {"intValue": "-7"}},
                    {"key": "double", "value": {"doubleValue": 0.5}},
                    {"key": "nan", "value": {"doubleValue": "-Infinity"}},
                    {"key": "yes", "value": {"boolValue": true}},
                    {"key": "list", "value": {"arrayValue": {"values": [{"intValue": 1}]}}},
                    {"key": "map", "value": {"kvlistValue": {"values": [
                        {"key": "k", "value": {"stringValue": "v"}}]}}},
                    {"key": "bytes", "value": {"bytesValue": "AQI="}},
                    {"key": "empty", "value": {}}, {"key": "none"}],
                "events": [{"name": "e", "timeUnixNano": "5"}],
                "links": [{"traceId": "5b8efff798038103d269b633813fc60c",
                           "spanId": "eee19b7ec3c1b174"}]
            }]}]}]}"#;
    let mut found = Vec::new();
    super::otlp_json::each_span(json.as_bytes(), MAX_SPAN, &mut |source, span| {
        found.push((source.clone(), span.map(<[u8]>::to_vec)));
    })
    .unwrap();
    let [(source, Some(span))] = &found[..] else { panic!("{found:?}") };
    assert_eq!(wire::service(&source.resource), "my.service");
    let span = Span::decode(&**span).unwrap();
    let value = |name: &str| {
        let pair = span.attributes.iter().find(|pair| pair.key == name).unwrap();
        pair.value.clone().and_then(|value| value.value)
    };
    let any = |value| AnyValue { value: Some(value) };
    assert_eq!(value("text"), Some(Any::StringValue("some value".into())));
    assert_eq!(value("integer"), Some(Any::IntValue(-7)));
    assert_eq!(value("double"), Some(Any::DoubleValue(0.5)));
    assert_eq!(value("nan"), Some(Any::DoubleValue(f64::NEG_INFINITY)));
    assert_eq!(value("yes"), Some(Any::BoolValue(true)));
    let list = ArrayValue { values: vec![any(Any::IntValue(1))] };
    assert_eq!(value("list"), Some(Any::ArrayValue(list)));
    let Some(Any::KvlistValue(KeyValueList { values })) = value("map") else { panic!() };
    assert_eq!(
        (&*values[0].key, &values[0].value),
        ("k", &Some(any(Any::StringValue("v".into()))))
    );
    assert_eq!(value("bytes"), Some(Any::BytesValue(vec![1, 2])));
    assert_eq!((value("empty"), value("none")), (None, None));
    let trace = super::super::fixture::id("5b8efff798038103d269b633813fc60c");
    let id = super::super::fixture::id("eee19b7ec3c1b174");
    assert_eq!((&span.trace_id, &span.span_id), (&trace, &id));
    assert_eq!((span.kind, span.flags, &*span.name), (2, 257, "I'm a server span"));
    assert_eq!(span.end_time_unix_nano, 1_544_712_661_000_000_000);
    assert_eq!(span.start_time_unix_nano, 1_544_712_660_000_000_000);
    assert_eq!(span.status.as_ref().map(|status| status.code), Some(2));
    assert_eq!(span.events, [Event { name: "e".into(), time_unix_nano: 5, ..Event::default() }]);
    assert_eq!(span.links, [Link { trace_id: trace, span_id: id, ..Link::default() }]);
}

proptest! {
    #[test]
    fn any_body_is_answered(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        super::super::read_any_request(&body);
    }

    #[test]
    fn any_json_is_answered(
        body in r#"\{"resourceSpans":\[[\[\]{}":,a-z0-9]{0,80}"#,
        spans in r#"[\[\]{}":,a-z0-9]{0,60}"#,
    ) {
        super::super::read_any_request(body.as_bytes());
        let nested = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{spans}]}}]}}]}}"#);
        super::super::read_any_request(nested.as_bytes());
    }
}
