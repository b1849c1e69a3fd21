//! Spans and log records, as far as they are needed, independent of their encoding.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Map, Value};

use base::semconv::attribute;

/// Attributes by name.
pub(super) type Attributes = Map<String, Value>;

/// A span.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Span {
    /// The trace.
    pub(super) trace: u64,
    /// The span, unique among all traces.
    pub(super) key: u64,
    /// The key of the parent; `None` for the root of a trace.
    pub(super) parent: Option<u64>,
    pub(super) name: String,
    /// Start and end, in nanoseconds since the epoch.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Whether its status is an error.
    pub(super) has_failed: bool,
    /// Number of requests that the span stands for after sampling; 1 if its trace state does not say.
    pub(super) adjusted_count: f64,
    pub(super) attributes: Attributes,
    /// Number of attributes that the SDK dropped because of its limits.
    pub(super) dropped_attributes: u64,
    pub(super) events: Vec<Event>,
    /// What distinguishes the resource from others of its kind.
    pub(super) instance: Option<String>,
}

/// Names of what distinguishes a resource from others of its kind.
pub(super) const INSTANCE: &[&str] = &[attribute::AIPERF_BENCHMARK_ID, "service.instance.id"];

/// An event of a span, or a log record that is an event.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) attributes: Attributes,
    /// Body of a log record.
    pub(super) body: Value,
}

/// What a file contains.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    /// A span.
    Span(Box<Span>),
    /// A log record that belongs to the span with this key.
    Log(u64, Event),
}

/// Returns the bytes of an ID in hexadecimal digits or base64; any other word is its own bytes.
pub(super) fn id_bytes(text: &str) -> Vec<u8> {
    // Jaeger omits leading zeros.
    if (1..=32).contains(&text.len())
        && let Ok(number) = u128::from_str_radix(text, 16)
    {
        return number.to_be_bytes().to_vec();
    }
    let is_base64 = matches!(text.len(), 12 | 24);
    match BASE64_STANDARD.decode(text) {
        Ok(bytes) if is_base64 => padded(&bytes),
        _ => text.as_bytes().to_vec(),
    }
}

/// Returns an ID with leading zeros to 16 bytes, so that it is the same in every encoding.
pub(super) fn padded(id: &[u8]) -> Vec<u8> {
    let mut padded = vec![0; 16_usize.saturating_sub(id.len())];
    padded.extend_from_slice(id);
    padded
}

/// Returns a number for a trace.
pub(super) fn trace_key(trace: &[u8]) -> u64 {
    hashed(&[trace])
}

/// Returns a number for a span of a trace; `None` for an ID of zeros, which stands for none.
pub(super) fn span_key(trace: &[u8], span: &[u8]) -> Option<u64> {
    span.iter().any(|byte| *byte != 0).then(|| hashed(&[trace, span]))
}

fn hashed(parts: &[&[u8]]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// Returns how many requests a sampled span stands for: 2⁵⁶ / (2⁵⁶ − T) of `ot=th:T` in the trace
/// state, where T is given without its trailing zeros; 1 without a threshold.
pub(super) fn adjusted_count(trace_state: &str) -> f64 {
    let of_otel = trace_state.split(',').find_map(|member| member.trim().strip_prefix("ot="));
    let threshold = of_otel.and_then(|fields| {
        let digits = fields.split(';').find_map(|field| field.strip_prefix("th:"))?;
        let is_valid = (1..=14).contains(&digits.len());
        is_valid.then(|| u64::from_str_radix(&format!("{digits:0<14}"), 16).ok()).flatten()
    });
    let all = (1_u64 << 56) as f64;
    threshold.map_or(1.0, |threshold| all / (all - threshold as f64))
}

/// Returns the first of the attributes that is a text that is not empty.
pub(super) fn text<'a>(attributes: &'a Attributes, names: &[&str]) -> Option<&'a str> {
    let found = names.iter().find_map(|name| attributes.get(*name)?.as_str());
    found.filter(|text| !text.is_empty())
}

/// Returns the first of the attributes that is a number of at least 0, which some tools write as a
/// text.
pub(super) fn count(attributes: &Attributes, names: &[&str]) -> Option<u32> {
    let number = |value: &Value| match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_f64(),
    };
    let found = names.iter().find_map(|name| number(attributes.get(*name)?));
    found.filter(|number| (0.0..=f64::from(u32::MAX)).contains(number)).map(|number| number as u32)
}

/// An attribute that is a JSON value, or a text that contains one.
pub(super) enum Json {
    /// The value.
    Is(Value),
    /// The text is not JSON: it was cut, or is plain text.
    Broken(String),
}

/// Returns the attribute `name` as JSON.
pub(super) fn json(attributes: &Attributes, name: &str) -> Option<Json> {
    match attributes.get(name)? {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(match serde_json::from_str(text) {
            Ok(value) => Json::Is(value),
            Err(_) => Json::Broken(text.clone()),
        }),
        value => Some(Json::Is(value.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_same_in_every_encoding() {
        let bytes = [0x5b, 0x8e, 0xff, 0xf7, 0x98, 0x03, 0x81, 0x03];
        for text in ["5B8EFFF798038103", "5b8efff798038103", "W47/95gDgQM="] {
            assert_eq!(id_bytes(text), padded(&bytes), "{text}");
        }
        // Jaeger's ID without its leading zeros.
        assert_eq!(id_bytes("5b8eff"), id_bytes("00000000005b8eff"));
        assert_ne!(id_bytes("span_001"), id_bytes("span_002"));
        let key = |span: &str| span_key(&id_bytes("a1"), &id_bytes(span));
        assert_eq!(key("0000000000000000"), None);
        assert_ne!(key("1"), span_key(&id_bytes("a2"), &id_bytes("1")));
    }

    #[test]
    fn a_sampled_span_stands_for_those_that_were_not_sampled() {
        for (state, expected) in [
            ("", 1.0),
            ("ot=th:0", 1.0),
            // T = 0x80000000000000, half of all.
            ("ot=th:8", 2.0),
            ("a=b,ot=rv:12;th:c", 4.0),
            ("ot=th:fd70a4", 100.0),
            ("ot=th:x", 1.0),
            ("ot=th:123456789012345", 1.0),
        ] {
            let found = adjusted_count(state);
            assert!((found - expected).abs() < 1e-3 * expected, "{state}: {found}");
        }
    }
}
