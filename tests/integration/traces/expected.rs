//! The expected spans of a request, derived from its record.

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::Value;

use crate::support::otlp_receiver::{OtlpReceiver, attribute};

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// The spans of one request.
pub(super) struct Trace(Vec<Span>);

impl Trace {
    /// The span without a parent.
    pub(super) fn root(&self) -> &Span {
        let roots: Vec<_> = self.0.iter().filter(|span| span.parent_span_id.is_empty()).collect();
        assert_eq!(roots.len(), 1, "{:?}", self.0);
        roots[0]
    }

    pub(super) fn find(&self, name: &str) -> Option<&Span> {
        let found: Vec<_> = self.0.iter().filter(|span| span.name == name).collect();
        assert!(found.len() < 2, "{name}");
        found.first().copied()
    }

    pub(super) fn children(&self) -> BTreeSet<&str> {
        let names = self.0.iter().filter(|span| !span.parent_span_id.is_empty());
        names.map(|span| span.name.as_str()).collect()
    }
}

/// Returns the traces of requests by their ID, each of which must be exported once.
pub(super) fn traces(collector: &OtlpReceiver) -> BTreeMap<String, Trace> {
    let mut traces: BTreeMap<String, Trace> = BTreeMap::new();
    for span in all(collector).into_iter().filter(|span| !is_of_run(span)) {
        let trace = traces.entry(hex(&span.trace_id)).or_insert_with(|| Trace(Vec::new()));
        assert!(trace.0.iter().all(|have| have.span_id != span.span_id), "sent twice");
        trace.0.push(span);
    }
    traces
}

/// Returns the spans of the run and its phases.
pub(super) fn of_run(collector: &OtlpReceiver) -> Vec<Span> {
    all(collector).into_iter().filter(is_of_run).collect()
}

fn all(collector: &OtlpReceiver) -> Vec<Span> {
    let exports = collector.traces();
    let resources = exports.iter().flat_map(|export| &export.message.resource_spans);
    let scopes = resources.flat_map(|resource| &resource.scope_spans);
    scopes.flat_map(|scope| scope.spans.clone()).collect()
}

fn is_of_run(span: &Span) -> bool {
    matches!(span.name.as_str(), "aiperf.run" | "aiperf.phase")
}

pub(super) fn trace_id(record: &Value) -> String {
    record["metadata"]["x_request_id"].as_str().unwrap().replace('-', "")
}

/// The trace context that the request was sent with.
pub(super) fn traceparent(record: &Value) -> &str {
    record["trace_data"]["request_headers"]["Traceparent"].as_str().unwrap()
}

pub(super) fn at(record: &Value, name: &str) -> Option<u64> {
    record["trace_data"][name].as_u64()
}

pub(super) fn times(span: &Span) -> (u64, u64) {
    (span.start_time_unix_nano, span.end_time_unix_nano)
}

/// Returns a metric of a record in nanoseconds; records contain milliseconds.
pub(super) fn nanos(record: &Value, tag: &str) -> Option<u64> {
    Some((record["metrics"][tag]["value"].as_f64()? * 1e6).round() as u64)
}

/// Compares a trace with the record of its request, which includes HTTP timing.
pub(super) fn assert_is(trace: &Trace, record: &Value) {
    let metadata = &record["metadata"];
    let root = trace.root();
    let waits = ["connection_pool_wait_start_ns", "dns_lookup_start_ns", "tcp_connect_start_ns"];
    let start = metadata["request_start_ns"].as_u64().unwrap();
    assert_eq!(times(root), (start, metadata["request_end_ns"].as_u64().unwrap()), "{record}");
    assert_eq!((root.name.as_str(), root.kind), ("chat mock-model", SpanKind::Client as i32));

    let plus = |start: &str, duration: &str| Some(at(record, start)? + at(record, duration)?);
    let sent = plus("request_send_start_ns", "sending_ns");
    let table = [
        ("aiperf.http.blocked", at(record, waits[0]), at(record, "connection_pool_wait_end_ns")),
        ("aiperf.http.dns", at(record, waits[1]), at(record, "dns_lookup_end_ns")),
        ("aiperf.http.connect", at(record, waits[2]), at(record, "tcp_connect_end_ns")),
        (
            "aiperf.http.tls",
            at(record, "tls_handshake_start_ns"),
            at(record, "tls_handshake_end_ns"),
        ),
        ("aiperf.http.send", at(record, "request_send_start_ns"), sent),
        ("aiperf.http.wait", sent, at(record, "response_receive_start_ns")),
        (
            "aiperf.http.receive",
            at(record, "response_receive_start_ns"),
            at(record, "response_receive_end_ns"),
        ),
    ];
    let failed_at = at(record, "error_timestamp_ns");
    for (name, start, end) in table {
        // A phase that started ended by itself or when the exchange failed.
        let expected = start.zip(end.or(failed_at));
        let span = trace.find(name);
        assert_eq!(span.map(times), expected, "{name} of {record}");
        let Some(span) = span else { continue };
        let parent = match name {
            "aiperf.http.tls" => &trace.find("aiperf.http.connect").unwrap().span_id,
            _ => &root.span_id,
        };
        assert_eq!(&span.parent_span_id, parent, "{name}");
        assert_eq!(span.kind, SpanKind::Internal as i32);
        let (start, end) = times(span);
        assert!(root.start_time_unix_nano <= start && start <= end, "{name}");
        assert!(end <= root.end_time_unix_nano, "{name}");
        assert_eq!(span.status.is_some(), failed_at.is_some_and(|_| end_is_missing(record, name)));
    }
    assert_ids(trace, record);
    assert_events(root, record);
    assert_attributes(root, record);
}

fn end_is_missing(record: &Value, name: &str) -> bool {
    let end = match name {
        "aiperf.http.blocked" => "connection_pool_wait_end_ns",
        "aiperf.http.dns" => "dns_lookup_end_ns",
        "aiperf.http.connect" => "tcp_connect_end_ns",
        "aiperf.http.tls" => "tls_handshake_end_ns",
        "aiperf.http.send" => "request_send_end_ns",
        "aiperf.http.wait" => "response_receive_start_ns",
        _ => "response_receive_end_ns",
    };
    at(record, end).is_none()
}

fn assert_ids(trace: &Trace, record: &Value) {
    for span in &trace.0 {
        assert_eq!(hex(&span.trace_id), trace_id(record));
        assert!(span.span_id.len() == 8 && span.span_id != [0; 8]);
        // Sampled, as sent to the server; the parent is in this process.
        let flags = u32::from_str_radix(&traceparent(record)[53..], 16).unwrap();
        assert_eq!(span.flags, 0x100 | flags);
    }
    assert_eq!(traceparent(record)[3..35], trace_id(record));
    assert_eq!(traceparent(record)[36..52], hex(&trace.root().span_id));
}

fn assert_events(root: &Span, record: &Value) {
    let events: Vec<_> =
        root.events.iter().map(|event| (event.name.as_str(), event.time_unix_nano)).collect();
    let start = record["metadata"]["request_start_ns"].as_u64().unwrap();
    let expected: Vec<_> = [
        ("aiperf.first_token", nanos(record, "time_to_first_token")),
        ("aiperf.last_token", nanos(record, "request_latency")),
    ]
    .into_iter()
    .filter_map(|(name, after)| Some((name, start + after?)))
    .collect();
    assert_eq!(events, expected, "{record}");
}

fn assert_attributes(root: &Span, record: &Value) {
    let metadata = &record["metadata"];
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let error = &record["error"];
    let retries = &metadata["retry_count"];
    let table = [
        ("gen_ai.operation.name", Some("chat".to_owned())),
        ("gen_ai.request.model", Some("mock-model".to_owned())),
        ("gen_ai.provider.name", Some("_OTHER".to_owned())),
        ("gen_ai.conversation.id", text(&metadata["x_correlation_id"])),
        ("aiperf.request.id", text(&metadata["x_request_id"])),
        ("aiperf.session.number", text(&metadata["session_num"])),
        ("aiperf.conversation.parent", text(&metadata["parent_correlation_id"])),
        ("aiperf.tenant", text(&metadata["tenant"])),
        ("aiperf.turn.index", text(&metadata["turn_index"])),
        ("aiperf.benchmark_phase", text(&metadata["benchmark_phase"])),
        ("gen_ai.request.max_tokens", text(&metadata["requested_output_tokens"])),
        ("gen_ai.request.stream", Some("true".to_owned())),
        ("error.type", text(&error["error_type"])),
        ("http.response.status_code", text(&record["trace_data"]["response_status_code"])),
        ("network.peer.address", text(&record["trace_data"]["remote_ip"])),
        ("network.peer.port", text(&record["trace_data"]["remote_port"])),
        ("http.request.resend_count", text(retries)),
        ("gen_ai.usage.input_tokens", count(record, "input_sequence_length")),
        ("gen_ai.usage.output_tokens", count(record, "output_sequence_length")),
        ("gen_ai.usage.reasoning.output_tokens", count(record, "reasoning_token_count")),
        ("openai.api.type", Some("chat_completions".to_owned())),
    ];
    for (key, expected) in table {
        assert_eq!(attribute(&root.attributes, key), expected, "{key} of {record}");
    }
    let seconds = |tag| nanos(record, tag).map(|ns| ns as f64 / 1e9);
    assert_eq!(double(root, "aiperf.request.latency"), seconds("request_latency"));
    assert_eq!(double(root, "gen_ai.response.time_to_first_chunk"), seconds("time_to_first_token"));
    let due = metadata["request_due_ns"].as_u64();
    let start = metadata["request_start_ns"].as_u64().unwrap();
    let slip = due.map(|due| start.saturating_sub(due) as f64 / 1e9);
    assert_eq!(double(root, "aiperf.request.slip"), slip);
    let expected = (!error.is_null()).then(|| {
        let code = text(&error["code"]);
        let code = code.or_else(|| text(&record["trace_data"]["response_status_code"]));
        let own = |name: &str| error[name].as_str().unwrap().to_owned();
        let message = code.map(|code| format!("{code} {}", own("error_type")));
        (StatusCode::Error as i32, message.unwrap_or_else(|| own("type")))
    });
    let status = root.status.as_ref().map(|status| (status.code, status.message.clone()));
    assert_eq!(status, expected, "{record}");
}

fn count(record: &Value, tag: &str) -> Option<String> {
    Some(record["metrics"][tag]["value"].as_f64()?.to_string())
}

fn double(span: &Span, key: &str) -> Option<f64> {
    let pair = span.attributes.iter().find(|pair| pair.key == key)?;
    match pair.value.as_ref()?.value.as_ref()? {
        Any::DoubleValue(value) => Some(*value),
        other => panic!("{key} is {other:?}"),
    }
}
