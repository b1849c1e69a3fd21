//! Converts encoded OTLP messages to OTLP/JSON, the encoding of `http/json` and of files.
//!
//! Requests are encoded as protobuf first, since most of them are assembled from encoded parts. The
//! rules are those of the OTLP specification, "JSON Protobuf Encoding": names in lowerCamelCase,
//! IDs in hexadecimal, enumerations as numbers, 64-bit integers as text. As in protobuf, fields with
//! default values are absent.

use std::fmt::Write as _;

use prost::encoding::{WireType, decode_key, decode_varint};

/// A message: its fields in the order in which they are written.
pub(super) struct Message(&'static [Field]);

struct Field {
    number: u32,
    name: &'static str,
    kind: Kind,
    is_repeated: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Bool,
    /// `uint32`, `fixed32`, and enumerations.
    Small,
    /// `sint32`
    Signed,
    /// `fixed64`
    Large,
    /// `uint64`
    Count,
    /// `int64`, `sfixed64`
    LargeSigned,
    Double,
    /// The bytes of an ID.
    Id,
    Nested(&'static Message),
}

use Kind::{Bool, Count, Double, Id, Large, LargeSigned, Nested, Signed, Small, Text};

const fn one(number: u32, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind, is_repeated: false }
}

const fn many(number: u32, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind, is_repeated: true }
}

/// `ExportMetricsServiceRequest`, which has the format of `MetricsData`.
pub(super) static METRICS: Message =
    Message(&[many(1, "resourceMetrics", Nested(&RESOURCE_METRICS))]);
/// `ExportTraceServiceRequest`, which has the format of `TracesData`.
pub(super) static TRACES: Message = Message(&[many(1, "resourceSpans", Nested(&RESOURCE_SPANS))]);
/// `ExportLogsServiceRequest`, which has the format of `LogsData`.
pub(super) static LOGS: Message = Message(&[many(1, "resourceLogs", Nested(&RESOURCE_LOGS))]);

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
/// Without `bytes_value`, which aiperf does not use.
static ANY_VALUE: Message = Message(&[
    one(1, "stringValue", Text),
    one(2, "boolValue", Bool),
    one(3, "intValue", LargeSigned),
    one(4, "doubleValue", Double),
    one(5, "arrayValue", Nested(&ARRAY_VALUE)),
    one(6, "kvlistValue", Nested(&KEY_VALUE_LIST)),
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
    one(2, "aggregationTemporality", Small),
    one(3, "isMonotonic", Bool),
]);
static HISTOGRAM: Message = Message(&[
    many(1, "dataPoints", Nested(&HISTOGRAM_POINT)),
    one(2, "aggregationTemporality", Small),
]);
static EXPONENTIAL_HISTOGRAM: Message = Message(&[
    many(1, "dataPoints", Nested(&EXPONENTIAL_POINT)),
    one(2, "aggregationTemporality", Small),
]);
static SUMMARY: Message = Message(&[many(1, "dataPoints", Nested(&SUMMARY_POINT))]);
static NUMBER: Message = Message(&[
    many(7, "attributes", Nested(&KEY_VALUE)),
    one(2, "startTimeUnixNano", Large),
    one(3, "timeUnixNano", Large),
    one(4, "asDouble", Double),
    one(6, "asInt", LargeSigned),
    many(5, "exemplars", Nested(&EXEMPLAR)),
    one(8, "flags", Small),
]);
static HISTOGRAM_POINT: Message = Message(&[
    many(9, "attributes", Nested(&KEY_VALUE)),
    one(2, "startTimeUnixNano", Large),
    one(3, "timeUnixNano", Large),
    one(4, "count", Large),
    one(5, "sum", Double),
    many(6, "bucketCounts", Large),
    many(7, "explicitBounds", Double),
    many(8, "exemplars", Nested(&EXEMPLAR)),
    one(10, "flags", Small),
    one(11, "min", Double),
    one(12, "max", Double),
]);
static EXPONENTIAL_POINT: Message = Message(&[
    many(1, "attributes", Nested(&KEY_VALUE)),
    one(2, "startTimeUnixNano", Large),
    one(3, "timeUnixNano", Large),
    one(4, "count", Large),
    one(5, "sum", Double),
    one(6, "scale", Signed),
    one(7, "zeroCount", Large),
    one(8, "positive", Nested(&BUCKETS)),
    one(9, "negative", Nested(&BUCKETS)),
    one(10, "flags", Small),
    many(11, "exemplars", Nested(&EXEMPLAR)),
    one(12, "min", Double),
    one(13, "max", Double),
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
    one(3, "asDouble", Double),
    one(6, "asInt", LargeSigned),
    one(4, "spanId", Id),
    one(5, "traceId", Id),
]);

static RESOURCE_SPANS: Message = Message(&[
    one(1, "resource", Nested(&RESOURCE)),
    many(2, "scopeSpans", Nested(&SCOPE_SPANS)),
    one(3, "schemaUrl", Text),
]);
static SCOPE_SPANS: Message = Message(&[
    one(1, "scope", Nested(&SCOPE)),
    many(2, "spans", Nested(&SPAN)),
    one(3, "schemaUrl", Text),
]);
static SPAN: Message = Message(&[
    one(1, "traceId", Id),
    one(2, "spanId", Id),
    one(3, "traceState", Text),
    one(4, "parentSpanId", Id),
    one(16, "flags", Small),
    one(5, "name", Text),
    one(6, "kind", Small),
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
    one(6, "flags", Small),
]);
static STATUS: Message = Message(&[one(2, "message", Text), one(3, "code", Small)]);

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
    one(2, "severityNumber", Small),
    one(3, "severityText", Text),
    one(12, "eventName", Text),
    one(5, "body", Nested(&ANY_VALUE)),
    many(6, "attributes", Nested(&KEY_VALUE)),
    one(7, "droppedAttributesCount", Small),
    one(8, "flags", Small),
    one(9, "traceId", Id),
    one(10, "spanId", Id),
]);

/// A value as it is encoded.
#[derive(Clone, Copy)]
enum Raw<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

/// Converts the encoded message `body`. `None` if it is not valid protobuf.
pub(super) fn of(body: &[u8], message: &Message) -> Option<String> {
    // JSON is between two and three times as long.
    let mut json = String::with_capacity(3 * body.len());
    write(body, message, &mut json)?;
    Some(json)
}

fn write(body: &[u8], message: &Message, json: &mut String) -> Option<()> {
    let mut values: Vec<Vec<Raw<'_>>> = vec![Vec::new(); message.0.len()];
    let mut rest = body;
    while !rest.is_empty() {
        let (number, wire) = decode_key(&mut rest).ok()?;
        let raw = read(&mut rest, wire)?;
        // Unknown fields are left out.
        let known = message.0.iter().zip(&mut values).find(|(field, _)| field.number == number);
        if let Some((field, values)) = known {
            push(raw, field, values)?;
        }
    }
    json.push('{');
    let present = message.0.iter().zip(values).filter(|(_, values)| !values.is_empty());
    for (index, (field, values)) in present.enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(json, "{comma}\"{}\":", field.name).ok()?;
        if field.is_repeated {
            json.push('[');
            for (index, raw) in values.iter().enumerate() {
                json.push_str(if index == 0 { "" } else { "," });
                write_value(*raw, field.kind, json)?;
            }
            json.push(']');
        } else {
            // As in protobuf, the last value applies.
            write_value(*values.last()?, field.kind, json)?;
        }
    }
    json.push('}');
    Some(())
}

fn read<'b>(rest: &mut &'b [u8], wire: WireType) -> Option<Raw<'b>> {
    Some(match wire {
        WireType::Varint => Raw::Number(decode_varint(rest).ok()?),
        WireType::SixtyFourBit => Raw::Number(u64::from_le_bytes(*take(rest)?)),
        WireType::ThirtyTwoBit => Raw::Number(u32::from_le_bytes(*take(rest)?).into()),
        WireType::LengthDelimited => {
            let length = usize::try_from(decode_varint(rest).ok()?).ok()?;
            let (bytes, after) = rest.split_at_checked(length)?;
            *rest = after;
            Raw::Bytes(bytes)
        }
        WireType::StartGroup | WireType::EndGroup => return None,
    })
}

fn take<'b, const N: usize>(rest: &mut &'b [u8]) -> Option<&'b [u8; N]> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(bytes)
}

/// Adds a value, or each of those that are packed into it.
fn push<'b>(raw: Raw<'b>, field: &Field, values: &mut Vec<Raw<'b>>) -> Option<()> {
    let Raw::Bytes(mut packed) = raw else {
        values.push(raw);
        return Some(());
    };
    let wire = match field.kind {
        Count => WireType::Varint,
        Large | Double => WireType::SixtyFourBit,
        _ => {
            values.push(raw);
            return Some(());
        }
    };
    while !packed.is_empty() {
        values.push(read(&mut packed, wire)?);
    }
    Some(())
}

fn write_value(raw: Raw<'_>, kind: Kind, json: &mut String) -> Option<()> {
    match (kind, raw) {
        (Text, Raw::Bytes(bytes)) => {
            let text = std::str::from_utf8(bytes).ok()?;
            json.push_str(&serde_json::to_string(text).ok()?);
        }
        (Id, Raw::Bytes(bytes)) => {
            json.push('"');
            for byte in bytes {
                write!(json, "{byte:02x}").ok()?;
            }
            json.push('"');
        }
        (Nested(message), Raw::Bytes(bytes)) => write(bytes, message, json)?,
        (Bool, Raw::Number(number)) => json.push_str(if number == 0 { "false" } else { "true" }),
        (Small, Raw::Number(number)) => write!(json, "{number}").ok()?,
        (Signed, Raw::Number(number)) => {
            // The "zigzag" encoding of protobuf.
            let half = (number >> 1).cast_signed();
            write!(json, "{}", if number & 1 == 0 { half } else { !half }).ok()?;
        }
        (Large | Count, Raw::Number(number)) => write!(json, "\"{number}\"").ok()?,
        (LargeSigned, Raw::Number(number)) => write!(json, "\"{}\"", number.cast_signed()).ok()?,
        (Double, Raw::Number(number)) => write_double(f64::from_bits(number), json)?,
        _ => return None,
    }
    Some(())
}

/// Writes a number, or its name if JSON has none for it.
fn write_double(number: f64, json: &mut String) -> Option<()> {
    if number.is_nan() {
        json.push_str("\"NaN\"");
    } else if number.is_infinite() {
        json.push_str(if number > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" });
    } else {
        json.push_str(&serde_json::to_string(&number).ok()?);
    }
    Some(())
}

#[cfg(test)]
mod tests;
