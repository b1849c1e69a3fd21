//! The parts of data points: attributes, times, exemplars.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{Exemplar, exemplar};

use measure::server_metrics::exposition::{Exemplar as Observed, Label};

use super::pack::Scope;

/// Prefix of the labels that name the library in the server that created the metric.
const SCOPE_PREFIX: &str = "otel_scope_";

pub(super) fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

pub(super) fn attribute(key: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// Returns labels as attributes, without the one named `but` and those of the scope.
pub(super) fn attributes(labels: &[Label<'_>], but: Option<&str>) -> Vec<KeyValue> {
    labels
        .iter()
        .filter(|label| Some(&*label.name) != but && !label.name.starts_with(SCOPE_PREFIX))
        .map(|label| text(&label.name, &label.value))
        .collect()
}

/// Returns the scope that the labels name, if any.
pub(super) fn scope(labels: &[Label<'_>]) -> Option<Scope> {
    let mut own = labels
        .iter()
        .filter_map(|label| Some((label.name.strip_prefix(SCOPE_PREFIX)?, label.value.as_ref())));
    let first = own.next()?;
    let mut found = Scope { scope: InstrumentationScope::default(), schema_url: String::new() };
    for (key, value) in std::iter::once(first).chain(own) {
        match key {
            "name" => value.clone_into(&mut found.scope.name),
            "version" => value.clone_into(&mut found.scope.version),
            "schema_url" => value.clone_into(&mut found.schema_url),
            other => found.scope.attributes.push(text(other, value)),
        }
    }
    Some(found)
}

/// Converts seconds since the epoch to nanoseconds; `None` if the value is not a valid time. The
/// result has microsecond precision, like a double of this magnitude.
pub(super) fn nanos(seconds: f64) -> Option<u64> {
    let micros = (seconds * 1e6).round();
    // Nanoseconds overflow in the year 2554.
    (micros > 0.0 && micros < u64::MAX as f64 / 1e3).then(|| micros as u64 * 1_000)
}

/// Returns an exemplar with its trace and span, if they have the W3C format.
pub(super) fn exemplar(of: &Observed<'_>) -> Exemplar {
    let mut exemplar = Exemplar {
        time_unix_nano: of.timestamp.and_then(nanos).unwrap_or_default(),
        value: Some(exemplar::Value::AsDouble(of.value)),
        ..Exemplar::default()
    };
    for label in &of.labels {
        match (label.name.as_ref(), id(&label.value)) {
            ("trace_id", Some(id)) if id.len() == 16 => exemplar.trace_id = id,
            ("span_id", Some(id)) if id.len() == 8 => exemplar.span_id = id,
            (name, _) => exemplar.filtered_attributes.push(text(name, &label.value)),
        }
    }
    exemplar
}

/// Decodes hexadecimal digits.
fn id(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some((digit(*high)? << 4 | digit(*low)?) as u8),
        _ => None,
    };
    hex.as_bytes().chunks(2).map(pair).collect()
}
