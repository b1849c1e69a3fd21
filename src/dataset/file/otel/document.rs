//! JSON with spans and log records: OTLP, Tempo's and Jaeger's exports, and the flat files of
//! inference-perf. Documents are read span by span, whatever their length.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use base::input::json::{self, Each, Skipped};
use base::input::{Input, Meter};
use otlp;

use super::super::trace::utc;

use super::span::{self, Attributes, Event, Item, Span, adjusted_count, id_bytes, span_key};

/// Members that contain further ones, at any level.
const CONTAINERS: &[&str] = &[
    "resourceSpans",
    "resource_spans",
    "batches",
    "resourceLogs",
    "resource_logs",
    "scopeSpans",
    "scope_spans",
    "instrumentationLibrarySpans",
    "instrumentation_library_spans",
    "scopeLogs",
    "scope_logs",
    "data",
    "trace",
];

/// The members by which a file is recognised, in quotes.
const MARKS: [&str; 7] = [
    "\"resourceSpans\"",
    "\"resource_spans\"",
    "\"scopeSpans\"",
    "\"instrumentationLibrarySpans\"",
    "\"resourceLogs\"",
    "\"traceID\"",
    "\"trace_id\"",
];

/// Returns whether a file that begins with these bytes has spans or log records.
pub(in crate::file) fn begins(bytes: &[u8]) -> bool {
    // A quote in a text is escaped, so that no text contains a mark.
    MARKS.iter().any(|mark| memchr::memmem::find(bytes, mark.as_bytes()).is_some())
}

/// Reads documents that follow each other, on lines or not, and gives their items to `sink`.
pub(super) fn read(input: Input<'_>, sink: &mut dyn FnMut(Item)) -> Result<(), serde_json::Error> {
    let meter = input.meter();
    let mut documents = json::documents(input);
    while documents.end().is_err() {
        let mut reader = Reader { sink, meter: &meter, instance: None, has_members: false };
        Level { reader: &mut reader, place: ObjectPlace::Document }.deserialize(&mut documents)?;
    }
    Ok(())
}

struct Reader<'a> {
    sink: &'a mut dyn FnMut(Item),
    meter: &'a Meter,
    /// What distinguishes the current resource.
    instance: Option<String>,
    /// Whether the document has members that are known.
    has_members: bool,
}

/// An object with members, or a list of such objects.
struct Level<'a, 'b> {
    reader: &'a mut Reader<'b>,
    place: ObjectPlace,
}

/// Where an object is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ObjectPlace {
    /// It is a document.
    Document,
    /// It is a resource with its spans or log records.
    Resource,
    Within,
}

impl<'de> DeserializeSeed<'de> for Level<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with spans, or a list of such objects")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Level { reader, place } = self;
        while list.next_element_seed(Level { reader, place })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let reader = self.reader;
        if self.place == ObjectPlace::Resource {
            reader.instance = None;
        }
        while let Some(name) = members.next_key::<String>()? {
            match &*name {
                "spans" => members.next_value_seed(each::<RawSpan>(reader))?,
                "logRecords" | "log_records" => members.next_value_seed(each::<RawLog>(reader))?,
                "resource" => {
                    let resource: Option<Resource> = members.next_value()?;
                    reader.meter.part().map_err(Error::custom)?;
                    let attributes = resource.unwrap_or_default().attributes.0;
                    let instance = span::text(&attributes, span::INSTANCE);
                    reader.instance = instance.map(ToOwned::to_owned);
                    continue;
                }
                "resourceMetrics" => members.next_value_seed(Skipped(reader.meter))?,
                name if CONTAINERS.contains(&name) => {
                    let is_resource = name.starts_with("resource") || name == "batches";
                    let place =
                        if is_resource { ObjectPlace::Resource } else { ObjectPlace::Within };
                    members.next_value_seed(Level { reader, place })?;
                }
                _ => {
                    members.next_value_seed(Skipped(reader.meter))?;
                    continue;
                }
            }
            reader.has_members = true;
        }
        if self.place == ObjectPlace::Document && !reader.has_members {
            return Err(Error::custom(
                "expected traces: an object with `resourceSpans`, `resourceLogs`, `batches`, \
                 `spans` or `data`",
            ));
        }
        Ok(())
    }
}

/// What can be converted to an item.
trait Element {
    /// Returns the item; `None` if it belongs to no span.
    fn item(self, instance: Option<&str>) -> Result<Option<Item>, &'static str>;
}

/// Returns a list whose elements are converted one by one.
fn each<'a, 'b: 'a, T: Element>(
    reader: &'a mut Reader<'b>,
) -> Each<'a, T, impl FnMut(T) -> Result<(), String>> {
    let Reader { sink, meter, instance, .. } = reader;
    Each::new(meter, "a list of objects", |element: T| {
        element.item(instance.as_deref())?.into_iter().for_each(&mut **sink);
        Ok(())
    })
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resource {
    attributes: AttributeList,
}

/// A span, with the names of OTLP, of inference-perf or of Jaeger.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSpan {
    #[serde(alias = "traceId", alias = "traceID")]
    trace_id: Option<String>,
    #[serde(alias = "spanId", alias = "spanID")]
    span_id: Option<String>,
    #[serde(alias = "parentSpanId", alias = "parentSpanID")]
    parent_span_id: Option<String>,
    references: Option<Vec<Reference>>,
    #[serde(alias = "operationName")]
    name: Option<String>,
    #[serde(alias = "startTimeUnixNano")]
    start_time_unix_nano: Value,
    #[serde(alias = "endTimeUnixNano")]
    end_time_unix_nano: Value,
    /// A time as text, or microseconds.
    #[serde(alias = "startTime")]
    start_time: Value,
    #[serde(alias = "endTime")]
    end_time: Value,
    /// Microseconds.
    duration: Value,
    #[serde(alias = "traceState")]
    trace_state: Option<String>,
    #[serde(alias = "tags")]
    attributes: AttributeList,
    #[serde(alias = "droppedAttributesCount")]
    dropped_attributes_count: Value,
    #[serde(alias = "logs")]
    events: Option<Vec<RawEvent>>,
    status: Option<Status>,
}

/// Jaeger's reference of a span to its parent.
#[derive(Deserialize)]
struct Reference {
    #[serde(rename = "refType", default)]
    kind: String,
    #[serde(rename = "spanID", default)]
    span: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawEvent {
    name: Option<String>,
    #[serde(alias = "fields")]
    attributes: AttributeList,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawLog {
    #[serde(alias = "traceId")]
    trace_id: Option<String>,
    #[serde(alias = "spanId")]
    span_id: Option<String>,
    #[serde(alias = "eventName")]
    event_name: Option<String>,
    body: AnyValue,
    attributes: AttributeList,
}

impl Element for RawSpan {
    fn item(self, instance: Option<&str>) -> Result<Option<Item>, &'static str> {
        let trace = id_bytes(self.trace_id.as_deref().unwrap_or_default());
        let key = |id: &str| span_key(&trace, &id_bytes(id));
        let own = self.span_id.as_deref().filter(|id| !id.is_empty()).and_then(key);
        let own = own.ok_or("a span does not have a `spanId`")?;
        let start = nanoseconds(&self.start_time_unix_nano).or_else(|| time(&self.start_time));
        let start = start.ok_or("a span does not have a valid `startTimeUnixNano`")?;
        let end = nanoseconds(&self.end_time_unix_nano).or_else(|| time(&self.end_time));
        let end = end.or_else(|| Some(start.saturating_add(microseconds(&self.duration)?)));
        let parent = self.parent_span_id.filter(|id| !id.is_empty()).or_else(|| {
            let mut references = self.references.into_iter().flatten();
            references.find(|of| of.kind != "FOLLOWS_FROM").map(|of| of.span)
        });
        let attributes = self.attributes.0;
        let of_jaeger = attributes.get("error") == Some(&Value::Bool(true))
            || span::text(&attributes, &["otel.status_code"]) == Some("ERROR");
        let has_failed = of_jaeger || self.status.is_some_and(|status| is_error(&status.code));
        let events = self.events.into_iter().flatten().map(|event| {
            let attributes = event.attributes.0;
            let name = event.name.or_else(|| span::text(&attributes, &["event"]).map(Into::into));
            Event { name: name.unwrap_or_default(), attributes, body: Value::Null }
        });
        Ok(Some(Item::Span(Box::new(Span {
            trace: span::trace_key(&trace),
            key: own,
            parent: parent.as_deref().and_then(key),
            name: self.name.unwrap_or_default(),
            start,
            end: end.unwrap_or(start).max(start),
            has_failed,
            adjusted_count: adjusted_count(self.trace_state.as_deref().unwrap_or_default()),
            attributes,
            dropped_attributes: nanoseconds(&self.dropped_attributes_count).unwrap_or(0),
            events: events.collect(),
            instance: instance.map(ToOwned::to_owned),
        }))))
    }
}

impl Element for RawLog {
    fn item(self, _: Option<&str>) -> Result<Option<Item>, &'static str> {
        let (Some(trace), Some(span)) = (self.trace_id, self.span_id) else { return Ok(None) };
        let Some(key) = span_key(&id_bytes(&trace), &id_bytes(&span)) else { return Ok(None) };
        let attributes = self.attributes.0;
        let name = self.event_name.filter(|name| !name.is_empty());
        let name = name.or_else(|| span::text(&attributes, &["event.name"]).map(Into::into));
        let event = Event { name: name.unwrap_or_default(), attributes, body: self.body.0 };
        Ok(Some(Item::Log(key, event)))
    }
}

/// Returns a number of 64 bits, which may be a text.
fn nanoseconds(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    }
}

fn microseconds(value: &Value) -> Option<u64> {
    nanoseconds(value)?.checked_mul(1000)
}

/// Returns nanoseconds since the epoch of a time as text, in UTC if it does not have an offset, or of
/// microseconds.
fn time(value: &Value) -> Option<u64> {
    let Value::String(text) = value else { return microseconds(value) };
    u64::try_from(utc(text)?).ok()
}

fn is_error(code: &Value) -> bool {
    match code {
        Value::String(name) => name == "STATUS_CODE_ERROR" || name.eq_ignore_ascii_case("error"),
        number => number.as_u64() == Some(2),
    }
}

/// Attributes: a list of keys and values, or an object.
#[derive(Default)]
struct AttributeList(Attributes);

impl<'de> Deserialize<'de> for AttributeList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        attributes(Value::deserialize(deserializer)?).map(Self).map_err(Error::custom)
    }
}

fn attributes(value: Value) -> Result<Attributes, serde_json::Error> {
    let named = |(name, value)| Ok((name, plain(value)?));
    match value {
        Value::Null => Ok(Attributes::new()),
        Value::Array(list) => list.into_iter().map(|value| pair(value).and_then(named)).collect(),
        Value::Object(members) => members.into_iter().map(named).collect(),
        _ => Err(Error::custom("expected a list of attributes, or an object")),
    }
}

/// Returns the key and the value of an attribute in a list.
fn pair(mut pair: Value) -> Result<(String, Value), serde_json::Error> {
    let mut member = |name| pair.get_mut(name).map(Value::take);
    match (member("key"), member("value").unwrap_or_default()) {
        (Some(Value::String(key)), value) => Ok((key, value)),
        (None, value) if pair.is_object() => Ok((String::new(), value)),
        _ => Err(Error::custom("expected an attribute with a `key` and a `value`")),
    }
}

/// A value as in OTLP, such as `{"intValue": "1"}`, or as in JSON.
#[derive(Default)]
struct AnyValue(Value);

impl<'de> Deserialize<'de> for AnyValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        plain(Value::deserialize(deserializer)?).map(Self).map_err(Error::custom)
    }
}

/// Returns the value that a value of OTLP stands for; in any other, those that are in it.
fn plain(value: Value) -> Result<Value, serde_json::Error> {
    let members = match value {
        Value::Object(members) => members,
        Value::Array(list) => return list.into_iter().map(plain).collect(),
        value => return Ok(value),
    };
    let (mut found, mut others) = (None, Map::new());
    for (name, mut value) in members {
        let mut values = || match value.get_mut("values").map(Value::take) {
            None | Some(Value::Null) => Value::Array(Vec::new()),
            Some(values) => values,
        };
        match otlp::ANY_VALUE.name(&name) {
            Some("arrayValue") => found = Some(plain(values())?),
            Some("kvlistValue") => found = Some(attributes(values())?.into()),
            Some("intValue") => {
                let number = value.as_str().and_then(|text| text.parse::<i64>().ok());
                found = Some(number.map_or(value, Value::from));
            }
            Some(_) => found = Some(value),
            None => drop(others.insert(name, plain(value)?)),
        }
    }
    let others = || if others.is_empty() { Value::Null } else { others.into() };
    Ok(found.unwrap_or_else(others))
}
