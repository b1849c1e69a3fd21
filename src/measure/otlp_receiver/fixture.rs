//! Requests with spans for tests: built, and recorded from real servers.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::Event;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use serde_json::Value;
use uuid::Uuid;

use client::record::TraceContext;

/// Returns an attribute.
pub(super) fn attribute(key: &str, value: &Value) -> KeyValue {
    let value = match value {
        Value::String(text) => Any::StringValue(text.clone()),
        Value::Bool(value) => Any::BoolValue(*value),
        Value::Number(number) => number
            .as_i64()
            .map_or_else(|| Any::DoubleValue(number.as_f64().unwrap()), Any::IntValue),
        other => panic!("{other}"),
    };
    KeyValue {
        key: key.into(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

/// Returns span number `id` of the trace of a request, as a child of the request's span.
pub(super) fn child(request: Uuid, id: u64) -> Span {
    Span {
        trace_id: request.as_bytes().to_vec(),
        span_id: id.to_be_bytes().to_vec(),
        parent_span_id: TraceContext::from_request_id(request).span_id.to_vec(),
        name: "llm_request".to_owned(),
        start_time_unix_nano: 1_000,
        end_time_unix_nano: 2_000,
        ..Span::default()
    }
}

/// Returns spans of a service under a resource and a scope.
pub(super) fn sent_by(service: &str, spans: Vec<Span>) -> ResourceSpans {
    let attributes = vec![attribute("service.name", &service.into())];
    let scope = InstrumentationScope { name: "scope".into(), ..Default::default() };
    ResourceSpans {
        resource: Some(Resource { attributes, ..Resource::default() }),
        scope_spans: vec![ScopeSpans { scope: Some(scope), spans, schema_url: "s".into() }],
        schema_url: "r".into(),
    }
}

/// Encodes a request.
pub(super) fn encoded(resource_spans: Vec<ResourceSpans>) -> Vec<u8> {
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

/// Returns the bytes of an ID.
pub(super) fn id(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

/// Returns the recorded spans of a file in `tests/golden/server-spans`, each with its service.
pub(super) fn recorded(file: &str) -> Vec<(String, Span)> {
    let path = format!("{}/../../tests/golden/server-spans/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let span = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let span = line.get("span").filter(|span| span.is_object()).unwrap_or(&line);
        let text = |name: &str| span[name].as_str().unwrap_or_default();
        let events = span["events"].as_array().cloned().unwrap_or_default();
        let attributes = span["attributes"].as_object().unwrap();
        let service = line["resource"]["service.name"].as_str().unwrap_or("vllm");
        let span = Span {
            trace_id: id(text("trace")),
            span_id: id(text("span")),
            parent_span_id: id(text("parent")),
            name: text("name").to_owned(),
            kind: span["kind"].as_i64().unwrap() as i32,
            start_time_unix_nano: span["start"].as_u64().unwrap(),
            end_time_unix_nano: span["end"].as_u64().unwrap(),
            attributes: attributes.iter().map(|(key, value)| attribute(key, value)).collect(),
            events: events
                .iter()
                .map(|event| Event {
                    name: event["name"].as_str().unwrap().to_owned(),
                    time_unix_nano: event["t"].as_u64().unwrap(),
                    ..Event::default()
                })
                .collect(),
            ..Span::default()
        };
        (service.to_owned(), span)
    };
    text.lines().map(span).collect()
}
