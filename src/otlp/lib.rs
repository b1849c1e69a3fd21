//! The messages of OTLP and their fields, in one table that is read both ways: encoded messages are
//! written as OTLP/JSON, and OTLP/JSON is encoded.
//!
//! The rules are those of the OTLP specification, "JSON Protobuf Encoding": names in lowerCamelCase,
//! IDs in hexadecimal, enumerations as numbers, 64-bit integers as text. As in protobuf, fields with
//! default values are absent. What is read may also have the names of the protobuf files, names of
//! enumerated values, and numbers or texts for every number.

mod read;
mod write;

use opentelemetry_proto::tonic::logs::v1::SeverityNumber;
use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::encoding::{WireType, encode_key, encode_varint};

pub use read::{each_element, from_json};
pub use write::to_json;

/// A message: its fields in the order in which they are written.
pub struct Message(&'static [Field]);

struct Field {
    number: u32,
    /// The name in JSON, in lowerCamelCase.
    name: &'static str,
    form: Form,
    occurs: Occurs,
}

/// How often a message has a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Occurs {
    /// Once. The default value is the same as no value.
    Once,
    /// Once or not at all. The default value is a value.
    Optional,
    Repeated,
}

/// The type of a field in protobuf.
#[derive(Clone, Copy)]
enum Form {
    Text,
    /// `bytes`, in Base64
    Bytes,
    /// The bytes of an ID, in hexadecimal
    Id,
    Bool,
    /// `uint32`
    Small,
    /// `fixed32`
    Fixed,
    /// `sint32`
    Signed,
    /// `uint64`
    Count,
    /// `fixed64`
    Large,
    /// `int64`
    Integer,
    /// `sfixed64`
    LargeSigned,
    Double,
    /// An enumeration, and the numbers of its names
    Enum(fn(&str) -> Option<i32>),
    Nested(&'static Message),
}

use Form::{
    Bool, Bytes, Count, Double, Enum, Fixed, Id, Integer, Large, LargeSigned, Nested, Signed,
    Small, Text,
};

const TEMPORALITY: Form = Enum(|name| Some(AggregationTemporality::from_str_name(name)?.into()));
const SPAN_KIND: Form = Enum(|name| Some(SpanKind::from_str_name(name)?.into()));
const STATUS_CODE: Form = Enum(|name| Some(StatusCode::from_str_name(name)?.into()));
const SEVERITY: Form = Enum(|name| Some(SeverityNumber::from_str_name(name)?.into()));

const fn one(number: u32, name: &'static str, form: Form) -> Field {
    Field { number, name, form, occurs: Occurs::Once }
}

const fn given(number: u32, name: &'static str, form: Form) -> Field {
    Field { number, name, form, occurs: Occurs::Optional }
}

const fn many(number: u32, name: &'static str, form: Form) -> Field {
    Field { number, name, form, occurs: Occurs::Repeated }
}

/// Appends a field that contains a message, given in parts.
pub fn append(field: u32, pieces: &[&[u8]], to: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, to);
    encode_varint(pieces.iter().map(|piece| piece.len() as u64).sum(), to);
    for piece in pieces {
        to.extend_from_slice(piece);
    }
}

/// `ExportMetricsServiceRequest`, which has the format of `MetricsData`.
pub static METRICS: Message = Message(&[many(1, "resourceMetrics", Nested(&RESOURCE_METRICS))]);
/// `ExportTraceServiceRequest`, which has the format of `TracesData`.
pub static TRACES: Message = Message(&[many(1, "resourceSpans", Nested(&RESOURCE_SPANS))]);
/// `ExportLogsServiceRequest`, which has the format of `LogsData`.
pub static LOGS: Message = Message(&[many(1, "resourceLogs", Nested(&RESOURCE_LOGS))]);

static RESOURCE: Message = Message(&[
    many(1, "attributes", Nested(&KEY_VALUE)),
    one(2, "droppedAttributesCount", Small),
    many(3, "entityRefs", Nested(&ENTITY_REF)),
]);
static ENTITY_REF: Message = Message(&[
    one(1, "schemaUrl", Text),
    one(2, "type", Text),
    many(3, "idKeys", Text),
    many(4, "descriptionKeys", Text),
]);
static SCOPE: Message = Message(&[
    one(1, "name", Text),
    one(2, "version", Text),
    many(3, "attributes", Nested(&KEY_VALUE)),
    one(4, "droppedAttributesCount", Small),
]);
static KEY_VALUE: Message = Message(&[one(1, "key", Text), one(2, "value", Nested(&ANY_VALUE))]);
pub static ANY_VALUE: Message = Message(&[
    given(1, "stringValue", Text),
    given(2, "boolValue", Bool),
    given(3, "intValue", Integer),
    given(4, "doubleValue", Double),
    one(5, "arrayValue", Nested(&ARRAY_VALUE)),
    one(6, "kvlistValue", Nested(&KEY_VALUE_LIST)),
    given(7, "bytesValue", Bytes),
]);
static ARRAY_VALUE: Message = Message(&[many(1, "values", Nested(&ANY_VALUE))]);
static KEY_VALUE_LIST: Message = Message(&[many(1, "values", Nested(&KEY_VALUE))]);

static RESOURCE_METRICS: Message = Message(&[
    one(1, "resource", Nested(&RESOURCE)),
    many(2, "scopeMetrics", Nested(&SCOPE_METRICS)),
    one(3, "schemaUrl", Text),
]);
static SCOPE_METRICS: Message = Message(&[
    one(1, "scope", Nested(&SCOPE)),
    many(2, "metrics", Nested(&METRIC)),
    one(3, "schemaUrl", Text),
]);
static METRIC: Message = Message(&[
    one(1, "name", Text),
    one(2, "description", Text),
    one(3, "unit", Text),
    one(5, "gauge", Nested(&GAUGE)),
    one(7, "sum", Nested(&SUM)),
    one(9, "histogram", Nested(&HISTOGRAM)),
    one(10, "exponentialHistogram", Nested(&EXPONENTIAL_HISTOGRAM)),
    one(11, "summary", Nested(&SUMMARY)),
    many(12, "metadata", Nested(&KEY_VALUE)),
]);
static GAUGE: Message = Message(&[many(1, "dataPoints", Nested(&NUMBER))]);
static SUM: Message = Message(&[
    many(1, "dataPoints", Nested(&NUMBER)),
    one(2, "aggregationTemporality", TEMPORALITY),
    one(3, "isMonotonic", Bool),
]);
static HISTOGRAM: Message = Message(&[
    many(1, "dataPoints", Nested(&HISTOGRAM_POINT)),
    one(2, "aggregationTemporality", TEMPORALITY),
]);
static EXPONENTIAL_HISTOGRAM: Message = Message(&[
    many(1, "dataPoints", Nested(&EXPONENTIAL_POINT)),
    one(2, "aggregationTemporality", TEMPORALITY),
]);
static SUMMARY: Message = Message(&[many(1, "dataPoints", Nested(&SUMMARY_POINT))]);
static NUMBER: Message = Message(&[
    many(7, "attributes", Nested(&KEY_VALUE)),
    one(2, "startTimeUnixNano", Large),
    one(3, "timeUnixNano", Large),
    given(4, "asDouble", Double),
    given(6, "asInt", LargeSigned),
    many(5, "exemplars", Nested(&EXEMPLAR)),
    one(8, "flags", Small),
]);
static HISTOGRAM_POINT: Message = Message(&[
    many(9, "attributes", Nested(&KEY_VALUE)),
    one(2, "startTimeUnixNano", Large),
    one(3, "timeUnixNano", Large),
    one(4, "count", Large),
    given(5, "sum", Double),
    many(6, "bucketCounts", Large),
    many(7, "explicitBounds", Double),
    many(8, "exemplars", Nested(&EXEMPLAR)),
    one(10, "flags", Small),
    given(11, "min", Double),
    given(12, "max", Double),
]);
static EXPONENTIAL_POINT: Message = Message(&[
    many(1, "attributes", Nested(&KEY_VALUE)),
    one(2, "startTimeUnixNano", Large),
    one(3, "timeUnixNano", Large),
    one(4, "count", Large),
    given(5, "sum", Double),
    one(6, "scale", Signed),
    one(7, "zeroCount", Large),
    one(8, "positive", Nested(&BUCKETS)),
    one(9, "negative", Nested(&BUCKETS)),
    one(10, "flags", Small),
    many(11, "exemplars", Nested(&EXEMPLAR)),
    given(12, "min", Double),
    given(13, "max", Double),
    one(14, "zeroThreshold", Double),
]);
static BUCKETS: Message = Message(&[one(1, "offset", Signed), many(2, "bucketCounts", Count)]);
static SUMMARY_POINT: Message = Message(&[
    many(7, "attributes", Nested(&KEY_VALUE)),
    one(2, "startTimeUnixNano", Large),
    one(3, "timeUnixNano", Large),
    one(4, "count", Large),
    one(5, "sum", Double),
    many(6, "quantileValues", Nested(&QUANTILE)),
    one(8, "flags", Small),
]);
static QUANTILE: Message = Message(&[one(1, "quantile", Double), one(2, "value", Double)]);
static EXEMPLAR: Message = Message(&[
    many(7, "filteredAttributes", Nested(&KEY_VALUE)),
    one(2, "timeUnixNano", Large),
    given(3, "asDouble", Double),
    given(6, "asInt", LargeSigned),
    one(4, "spanId", Id),
    one(5, "traceId", Id),
]);

pub static RESOURCE_SPANS: Message = Message(&[
    one(1, "resource", Nested(&RESOURCE)),
    many(2, "scopeSpans", Nested(&SCOPE_SPANS)),
    one(3, "schemaUrl", Text),
]);
pub static SCOPE_SPANS: Message = Message(&[
    one(1, "scope", Nested(&SCOPE)),
    many(2, "spans", Nested(&SPAN)),
    one(3, "schemaUrl", Text),
]);
pub static SPAN: Message = Message(&[
    one(1, "traceId", Id),
    one(2, "spanId", Id),
    one(3, "traceState", Text),
    one(4, "parentSpanId", Id),
    one(16, "flags", Fixed),
    one(5, "name", Text),
    one(6, "kind", SPAN_KIND),
    one(7, "startTimeUnixNano", Large),
    one(8, "endTimeUnixNano", Large),
    many(9, "attributes", Nested(&KEY_VALUE)),
    one(10, "droppedAttributesCount", Small),
    many(11, "events", Nested(&EVENT)),
    one(12, "droppedEventsCount", Small),
    many(13, "links", Nested(&LINK)),
    one(14, "droppedLinksCount", Small),
    one(15, "status", Nested(&STATUS)),
]);
static EVENT: Message = Message(&[
    one(1, "timeUnixNano", Large),
    one(2, "name", Text),
    many(3, "attributes", Nested(&KEY_VALUE)),
    one(4, "droppedAttributesCount", Small),
]);
static LINK: Message = Message(&[
    one(1, "traceId", Id),
    one(2, "spanId", Id),
    one(3, "traceState", Text),
    many(4, "attributes", Nested(&KEY_VALUE)),
    one(5, "droppedAttributesCount", Small),
    one(6, "flags", Fixed),
]);
static STATUS: Message = Message(&[one(2, "message", Text), one(3, "code", STATUS_CODE)]);

static RESOURCE_LOGS: Message = Message(&[
    one(1, "resource", Nested(&RESOURCE)),
    many(2, "scopeLogs", Nested(&SCOPE_LOGS)),
    one(3, "schemaUrl", Text),
]);
static SCOPE_LOGS: Message = Message(&[
    one(1, "scope", Nested(&SCOPE)),
    many(2, "logRecords", Nested(&LOG_RECORD)),
    one(3, "schemaUrl", Text),
]);
static LOG_RECORD: Message = Message(&[
    one(1, "timeUnixNano", Large),
    one(11, "observedTimeUnixNano", Large),
    one(2, "severityNumber", SEVERITY),
    one(3, "severityText", Text),
    one(12, "eventName", Text),
    one(5, "body", Nested(&ANY_VALUE)),
    many(6, "attributes", Nested(&KEY_VALUE)),
    one(7, "droppedAttributesCount", Small),
    one(8, "flags", Fixed),
    one(9, "traceId", Id),
    one(10, "spanId", Id),
]);

#[cfg(test)]
mod tests;
