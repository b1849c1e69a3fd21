//! OTLP messages in protobuf.

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span as ProtoSpan;
use prost::Message;
use serde_json::Value;

use base::input::protobuf::{Malformed, decoded, each_nested};

use super::span::{self, Attributes, Event, Item, Span, adjusted_count, padded, span_key};

/// The code of a status that is an error.
const ERROR: i32 = 2;

/// The lists of a message, and of what it has for a resource and for a scope; their numbers are the same
/// for traces and for logs.
const RESOURCES: u32 = 1;
const SCOPES: u32 = 2;
const OWN: u32 = 2;
/// The resource.
const RESOURCE: u32 = 1;

/// Reads a message with traces, or one with logs, and gives its items to `sink`.
///
/// The message does not say which of them it is. A log record that is read as a span is invalid,
/// since the time is where a span has its trace ID.
pub(super) fn read(message: &[u8], sink: &mut dyn FnMut(Item)) -> Result<(), String> {
    let mut items = Vec::new();
    let mut has_id = true;
    let traces = each_record(message, &mut |instance, own: ProtoSpan| match span_key(
        &padded(&own.trace_id),
        &padded(&own.span_id),
    ) {
        Some(key) => items.push(Item::Span(Box::new(span(own, key, instance)))),
        None => has_id = false,
    });
    if let Err(error) = traces {
        items.clear();
        let logs = each_record(message, &mut |_, own| items.extend(log(own)));
        logs.map_err(|_| format!("the message is not OTLP traces or logs in protobuf: {error}"))?;
    } else if !has_id {
        return Err("a span does not have a `span_id`".to_owned());
    }
    items.into_iter().for_each(sink);
    Ok(())
}

/// Gives each span or log record of a message to `take`, with what distinguishes its resource.
fn each_record<T: Message + Default>(
    message: &[u8],
    take: &mut dyn FnMut(Option<&str>, T),
) -> Result<(), String> {
    let mut wrong = None;
    let walked = each_nested(message, RESOURCES, &mut |of_resource| {
        let mut attributes = Attributes::new();
        each_nested(of_resource, RESOURCE, &mut |resource| {
            let resource: Resource = noted(decoded(resource), &mut wrong)?;
            attributes = converted(resource.attributes);
            Ok(())
        })?;
        let instance = span::text(&attributes, span::INSTANCE);
        each_nested(of_resource, SCOPES, &mut |of_scope| {
            each_nested(of_scope, OWN, &mut |own| {
                take(instance, noted(decoded(own), &mut wrong)?);
                Ok(())
            })
        })
    });
    walked.map_err(|error| wrong.unwrap_or_else(|| error.to_string()))
}

/// Keeps the reason why a message cannot be decoded.
fn noted<T>(decoded: Result<T, String>, wrong: &mut Option<String>) -> Result<T, Malformed> {
    decoded.map_err(|why| {
        *wrong = Some(why);
        Malformed
    })
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

/// Returns the item of a log record; `None` if it belongs to no span.
fn log(record: LogRecord) -> Option<Item> {
    let LogRecord { trace_id, span_id, event_name, body, attributes, .. } = record;
    let key = span_key(&padded(&trace_id), &padded(&span_id))?;
    let attributes = converted(attributes);
    let of_attribute = || span::text(&attributes, &["event.name"]).unwrap_or_default().into();
    let name = if event_name.is_empty() { of_attribute() } else { event_name };
    Some(Item::Log(key, Event { name, attributes, body: value(body) }))
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
