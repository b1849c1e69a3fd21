//! OTLP messages in protobuf.

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, LogsData};
use opentelemetry_proto::tonic::trace::v1::{Span as ProtoSpan, TracesData};
use prost::Message as _;
use serde_json::Value;

use super::span::{self, Attributes, Event, Item, Span, adjusted_count, padded, span_key};

/// The code of a status that is an error.
const ERROR: i32 = 2;

/// Reads a message with traces, or one with logs, and gives its items to `sink`.
///
/// The message does not say which of them it is. A log record that is read as a span is invalid,
/// since the time is where a span has its trace ID.
pub(super) fn read(message: &[u8], sink: &mut dyn FnMut(Item)) -> Result<(), String> {
    let traces = match TracesData::decode(message) {
        Ok(traces) => traces,
        Err(error) => {
            let logs = LogsData::decode(message);
            return logs.map(|logs| read_logs(logs, sink)).map_err(|_| {
                format!("the message is not OTLP traces or logs in protobuf: {error}")
            });
        }
    };
    for resource in traces.resource_spans {
        let attributes = resource.resource.map(|resource| resource.attributes).unwrap_or_default();
        let attributes = converted(attributes);
        let instance = span::text(&attributes, span::INSTANCE);
        for own in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            let key = span_key(&padded(&own.trace_id), &padded(&own.span_id));
            let key = key.ok_or("a span does not have a `span_id`")?;
            sink(Item::Span(Box::new(span(own, key, instance))));
        }
    }
    Ok(())
}

fn span(span: ProtoSpan, key: u64, instance: Option<&str>) -> Span {
    let trace = padded(&span.trace_id);
    let events = span.events.into_iter().map(|event| Event {
        name: event.name,
        attributes: converted(event.attributes),
        body: Value::Null,
    });
    Span {
        trace: span::trace_key(&trace),
        key,
        parent: span_key(&trace, &padded(&span.parent_span_id)),
        name: span.name,
        start: span.start_time_unix_nano,
        end: span.end_time_unix_nano.max(span.start_time_unix_nano),
        has_failed: span.status.is_some_and(|status| status.code == ERROR),
        adjusted_count: adjusted_count(&span.trace_state),
        attributes: converted(span.attributes),
        dropped_attributes: u64::from(span.dropped_attributes_count),
        events: events.collect(),
        instance: instance.map(ToOwned::to_owned),
    }
}

fn read_logs(logs: LogsData, sink: &mut dyn FnMut(Item)) {
    let scopes = logs.resource_logs.into_iter().flat_map(|resource| resource.scope_logs);
    for record in scopes.flat_map(|scope| scope.log_records) {
        let LogRecord { trace_id, span_id, event_name, body, attributes, .. } = record;
        let Some(key) = span_key(&padded(&trace_id), &padded(&span_id)) else { continue };
        let attributes = converted(attributes);
        let of_attribute = || span::text(&attributes, &["event.name"]).unwrap_or_default().into();
        let name = if event_name.is_empty() { of_attribute() } else { event_name };
        sink(Item::Log(key, Event { name, attributes, body: value(body) }));
    }
}

fn converted(attributes: Vec<KeyValue>) -> Attributes {
    attributes.into_iter().map(|pair| (pair.key, value(pair.value))).collect()
}

fn value(value: Option<AnyValue>) -> Value {
    match value.and_then(|value| value.value) {
        Some(Any::StringValue(text)) => text.into(),
        Some(Any::BoolValue(value)) => value.into(),
        Some(Any::IntValue(value)) => value.into(),
        Some(Any::DoubleValue(value)) => value.into(),
        Some(Any::ArrayValue(list)) => {
            list.values.into_iter().map(|item| self::value(Some(item))).collect()
        }
        Some(Any::KvlistValue(list)) => Value::Object(converted(list.values)),
        _ => Value::Null,
    }
}
