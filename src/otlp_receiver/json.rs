//! OTLP/JSON requests with spans, converted to protobuf span by span.
//!
//! The rules are those of the OTLP specification, "JSON Protobuf Encoding": names in
//! lowerCamelCase, IDs in hexadecimal, enumerations as numbers, 64-bit integers as texts or numbers.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Error, Number};

use super::wire::Source;

/// Gives each span of the request `body` to `sink`, encoded in protobuf, with its source. `None`
/// stands for a span that is not valid or longer than `most` bytes.
///
/// # Errors
///
/// If the body is not JSON, or not of this form. The spans before the error have been given.
pub(super) fn each_span(
    body: &[u8],
    most: usize,
    sink: &mut dyn FnMut(&Source, Option<&[u8]>),
) -> Result<(), Error> {
    let request: Request<'_> = serde_json::from_slice(body)?;
    each(request.resource_spans, &mut |of_resource: JsonResourceSpans<'_>| {
        let resource = short::<JsonResource>(of_resource.resource, most)?.map(Resource::from);
        let head =
            ResourceSpans { resource, schema_url: of_resource.schema_url, ..Default::default() };
        let resource: Arc<[u8]> = head.encode_to_vec().into();
        each(of_resource.scope_spans, &mut |of_scope: JsonScopeSpans<'_>| {
            let scope = short::<JsonScope>(of_scope.scope, most)?;
            let scope = scope.map(InstrumentationScope::from);
            let head = ScopeSpans { scope, schema_url: of_scope.schema_url, spans: Vec::new() };
            let source = Source { resource: resource.clone(), scope: head.encode_to_vec().into() };
            each(of_scope.spans, &mut |span: &RawValue| {
                let text = Some(span.get()).filter(|text| text.len() <= most);
                let span = text.and_then(|text| serde_json::from_str::<JsonSpan>(text).ok());
                let span = span.and_then(|span| Span::try_from(span).ok());
                sink(&source, span.map(|span| span.encode_to_vec()).as_deref());
                Ok(())
            })
        })
    })
}

/// Reads a value of at most `most` bytes.
fn short<'a, T: Deserialize<'a>>(
    value: Option<&'a RawValue>,
    most: usize,
) -> Result<Option<T>, Error> {
    match value.map(RawValue::get) {
        Some(text) if text.len() > most => Err(Error::custom("a resource or scope is too long")),
        Some(text) => serde_json::from_str(text),
        None => Ok(None),
    }
}

/// Gives each element of a list to `sink`, so that only one exists at a time. A list may be absent.
fn each<'a, T: Deserialize<'a>>(
    list: Option<&'a RawValue>,
    sink: &mut dyn FnMut(T) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(list) = list else { return Ok(()) };
    let mut elements = serde_json::Deserializer::from_str(list.get());
    Elements { sink, of: PhantomData }.deserialize(&mut elements)
}

struct Elements<'s, T> {
    sink: &'s mut dyn FnMut(T) -> Result<(), Error>,
    of: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Elements<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element()? {
            (self.sink)(element).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(borrow)]
    resource_spans: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonResourceSpans<'a> {
    #[serde(borrow)]
    resource: Option<&'a RawValue>,
    #[serde(borrow)]
    scope_spans: Option<&'a RawValue>,
    #[serde(default)]
    schema_url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonScopeSpans<'a> {
    #[serde(borrow)]
    scope: Option<&'a RawValue>,
    #[serde(borrow)]
    spans: Option<&'a RawValue>,
    #[serde(default)]
    schema_url: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct JsonResource {
    attributes: Vec<JsonPair>,
    dropped_attributes_count: u32,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct JsonScope {
    name: String,
    version: String,
    attributes: Vec<JsonPair>,
    dropped_attributes_count: u32,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct JsonSpan {
    trace_id: String,
    span_id: String,
    trace_state: String,
    parent_span_id: String,
    flags: u32,
    name: String,
    kind: i32,
    start_time_unix_nano: Large,
    end_time_unix_nano: Large,
    attributes: Vec<JsonPair>,
    dropped_attributes_count: u32,
    events: Vec<JsonEvent>,
    dropped_events_count: u32,
    links: Vec<JsonLink>,
    dropped_links_count: u32,
    status: Option<JsonStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct JsonEvent {
    time_unix_nano: Large,
    name: String,
    attributes: Vec<JsonPair>,
    dropped_attributes_count: u32,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct JsonLink {
    trace_id: String,
    span_id: String,
    trace_state: String,
    attributes: Vec<JsonPair>,
    dropped_attributes_count: u32,
    flags: u32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JsonStatus {
    message: String,
    code: i32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JsonPair {
    key: String,
    value: Option<JsonValue>,
}

/// A value, of whose members at most one is present.
#[derive(Default, Deserialize)]
#[serde(default)]
struct JsonValue {
    #[serde(rename = "stringValue")]
    text: Option<String>,
    #[serde(rename = "boolValue")]
    bool: Option<bool>,
    #[serde(rename = "intValue")]
    integer: Option<Large>,
    #[serde(rename = "doubleValue")]
    double: Option<Double>,
    #[serde(rename = "arrayValue")]
    list: Option<Box<List<JsonValue>>>,
    #[serde(rename = "kvlistValue")]
    map: Option<Box<List<JsonPair>>>,
    #[serde(rename = "bytesValue")]
    bytes: Option<String>,
}

#[derive(Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
struct List<T> {
    #[serde(default = "Vec::new")]
    values: Vec<T>,
}

/// A 64-bit integer, a text or a number.
#[derive(Default, Deserialize)]
#[serde(try_from = "TextOrNumber")]
struct Large(i128);

/// A number, which is a text if JSON has none for it.
#[derive(Deserialize)]
#[serde(try_from = "TextOrNumber")]
struct Double(f64);

#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrNumber {
    Number(Number),
    Text(String),
}

impl TryFrom<TextOrNumber> for Large {
    type Error = &'static str;

    fn try_from(value: TextOrNumber) -> Result<Self, Self::Error> {
        let text = match value {
            TextOrNumber::Number(number) => number.to_string(),
            TextOrNumber::Text(text) => text,
        };
        text.parse().map(Self).map_err(|_| "expected an integer of 64 bits")
    }
}

impl TryFrom<TextOrNumber> for Double {
    type Error = &'static str;

    fn try_from(value: TextOrNumber) -> Result<Self, Self::Error> {
        let number = match value {
            TextOrNumber::Number(number) => number.as_f64(),
            // The parser of Rust knows "NaN", "Infinity" and "-Infinity".
            TextOrNumber::Text(text) => text.parse().ok(),
        };
        number.map(Self).ok_or("expected a number")
    }
}

/// A value that its message cannot have.
struct Invalid;

impl From<JsonResource> for Resource {
    fn from(resource: JsonResource) -> Self {
        Self {
            attributes: pairs(resource.attributes),
            dropped_attributes_count: resource.dropped_attributes_count,
            ..Self::default()
        }
    }
}

impl From<JsonScope> for InstrumentationScope {
    fn from(scope: JsonScope) -> Self {
        Self {
            name: scope.name,
            version: scope.version,
            attributes: pairs(scope.attributes),
            dropped_attributes_count: scope.dropped_attributes_count,
        }
    }
}

impl TryFrom<JsonSpan> for Span {
    type Error = Invalid;

    fn try_from(span: JsonSpan) -> Result<Self, Invalid> {
        Ok(Self {
            trace_id: id(&span.trace_id)?,
            span_id: id(&span.span_id)?,
            trace_state: span.trace_state,
            parent_span_id: id(&span.parent_span_id)?,
            flags: span.flags,
            name: span.name,
            kind: span.kind,
            start_time_unix_nano: span.start_time_unix_nano.time()?,
            end_time_unix_nano: span.end_time_unix_nano.time()?,
            attributes: pairs(span.attributes),
            dropped_attributes_count: span.dropped_attributes_count,
            events: span.events.into_iter().map(Event::try_from).collect::<Result<_, _>>()?,
            dropped_events_count: span.dropped_events_count,
            links: span.links.into_iter().map(Link::try_from).collect::<Result<_, _>>()?,
            dropped_links_count: span.dropped_links_count,
            status: span.status.map(|of| Status { message: of.message, code: of.code }),
        })
    }
}

impl TryFrom<JsonEvent> for Event {
    type Error = Invalid;

    fn try_from(event: JsonEvent) -> Result<Self, Invalid> {
        Ok(Self {
            time_unix_nano: event.time_unix_nano.time()?,
            name: event.name,
            attributes: pairs(event.attributes),
            dropped_attributes_count: event.dropped_attributes_count,
        })
    }
}

impl TryFrom<JsonLink> for Link {
    type Error = Invalid;

    fn try_from(link: JsonLink) -> Result<Self, Invalid> {
        Ok(Self {
            trace_id: id(&link.trace_id)?,
            span_id: id(&link.span_id)?,
            trace_state: link.trace_state,
            attributes: pairs(link.attributes),
            dropped_attributes_count: link.dropped_attributes_count,
            flags: link.flags,
        })
    }
}

impl Large {
    fn time(&self) -> Result<u64, Invalid> {
        self.0.try_into().map_err(|_| Invalid)
    }
}

fn pairs(pairs: Vec<JsonPair>) -> Vec<KeyValue> {
    let pair = |pair: JsonPair| KeyValue {
        key: pair.key,
        value: pair.value.map(any),
        ..KeyValue::default()
    };
    pairs.into_iter().map(pair).collect()
}

fn any(value: JsonValue) -> AnyValue {
    let integer = |Large(value): Large| i64::try_from(value).ok();
    let list = |list: Box<List<JsonValue>>| list.values.into_iter().map(any).collect();
    let map = |list: Box<List<JsonPair>>| pairs(list.values);
    let bytes = |text| BASE64_STANDARD.decode(text).ok();
    let value = (value.text.map(Any::StringValue))
        .or(value.bool.map(Any::BoolValue))
        .or(value.integer.and_then(integer).map(Any::IntValue))
        .or(value.double.map(|Double(value)| Any::DoubleValue(value)))
        .or(value.list.map(|of| Any::ArrayValue(ArrayValue { values: list(of) })))
        .or(value.map.map(|of| Any::KvlistValue(KeyValueList { values: map(of) })))
        .or(value.bytes.and_then(bytes).map(Any::BytesValue));
    AnyValue { value }
}

/// Returns the bytes of an ID in hexadecimal digits; none for an empty one.
fn id(digits: &str) -> Result<Vec<u8>, Invalid> {
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) || digits.len() > 32 {
        return Err(Invalid);
    }
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok()?;
        // The parser would accept a sign.
        let is_hex = pair.iter().all(u8::is_ascii_hexdigit);
        is_hex.then(|| u8::from_str_radix(text, 16).ok()).flatten()
    };
    digits.chunks(2).map(|pair| byte(pair).ok_or(Invalid)).collect()
}
