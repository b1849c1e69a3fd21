//! `profile_export.jsonl`: one line per request, in the order of completion.
//!
//! Tens of thousands of lines are written per second, so they are written to one reused buffer,
//! without a tree of values.

use std::io;
use std::path::{Path, PathBuf};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use base::redact;
use measure::metrics::fields::{FIELDS, Row};
use measure::metrics::metric::{RecordValues, Value};
use measure::metrics::tag::TagMap;
use measure::metrics::{Metric, MetricFlags, Registry};

use super::decimal::Form;
use super::error::{ArtifactError, WriteFailure};
use super::object::Object;
use super::record_file::RecordFile;
use super::sink::LineSink;
use super::trace::Trace;
use crate::run::RunReport;

/// The file of a run.
#[derive(Debug)]
pub(super) struct RecordLines {
    sink: LineSink,
    fragments: TagMap<Fragment>,
    http_trace: bool,
    line: Vec<u8>,
}

/// The constant text around every value of a metric.
#[derive(Debug)]
struct Fragment {
    opening: String,
    closing: String,
    form: Form,
}

impl Fragment {
    fn new(metric: &Metric) -> Self {
        Self {
            opening: format!("\"{}\":{{\"value\":", metric.tag),
            closing: format!(",\"unit\":\"{}\"}}", metric.display_unit),
            form: Form::for_metric(metric),
        }
    }

    fn write(&self, line: &mut Vec<u8>, value: &Value) {
        line.extend_from_slice(self.opening.as_bytes());
        match value {
            Value::Scalar(value) => self.form.write(line, *value),
            Value::List(list) => {
                line.push(b'[');
                for (at, value) in list.iter().enumerate() {
                    if at > 0 {
                        line.push(b',');
                    }
                    self.form.write(line, *value);
                }
                line.push(b']');
            }
        }
        line.extend_from_slice(self.closing.as_bytes());
    }
}

/// Returns whether JSON can represent the value.
fn is_finite(value: &Value) -> bool {
    match value {
        Value::Scalar(value) => value.is_finite(),
        Value::List(list) => list.iter().all(|value| value.is_finite()),
    }
}

impl RecordLines {
    /// Creates the file, with the metrics that `registry` computes for each request.
    pub(super) fn create(
        path: &Path,
        registry: &Registry,
        http_trace: bool,
    ) -> Result<Self, ArtifactError> {
        let sink = LineSink::create(path)?;
        let fragments = registry
            .rows()
            .iter()
            .filter(|metric| is_in_records(metric))
            .map(|metric| (metric.tag, Fragment::new(metric)))
            .collect();
        let line = Vec::with_capacity(8 * 1024);
        Ok(Self { sink, fragments, http_trace, line })
    }

    /// Formats the line of a request, including its line feed.
    fn format(&mut self, row: &Row<'_>) -> io::Result<()> {
        let measured = row.measured;
        self.line.clear();
        self.line.extend_from_slice(b"{\"metadata\":");
        write_metadata(&mut self.line, row)?;
        self.metrics(&measured.observation.values);
        if self.http_trace {
            self.line.extend_from_slice(b",\"trace_data\":");
            serde_json::to_writer(&mut self.line, &Trace::new(row))?;
        }
        self.line.extend_from_slice(b",\"error\":");
        match &measured.observation.error {
            Some(error) => serde_json::to_writer(&mut self.line, error)?,
            None => self.line.extend_from_slice(b"null"),
        }
        self.line.extend_from_slice(b"}\n");
        Ok(())
    }

    fn metrics(&mut self, values: &RecordValues) {
        self.line.extend_from_slice(b",\"metrics\":{");
        let mut is_first = true;
        for (tag, value) in values.iter() {
            let Some(fragment) = self.fragments.get(tag) else { continue };
            if !is_finite(value) {
                continue;
            }
            if !is_first {
                self.line.push(b',');
            }
            is_first = false;
            fragment.write(&mut self.line, value);
        }
        self.line.push(b'}');
    }
}

impl RecordFile for RecordLines {
    fn push(&mut self, row: &Row<'_>) {
        let outcome = self.format(row);
        self.sink.append(outcome.map(|()| self.line.as_slice()));
    }

    fn flush(&mut self) {
        self.sink.flush();
    }

    fn finish(self: Box<Self>, _report: &RunReport) -> Result<PathBuf, WriteFailure> {
        self.sink.finish()
    }
}

/// Returns whether lines contain the metric's values.
pub(super) fn is_in_records(metric: &Metric) -> bool {
    !metric.flags.contains(MetricFlags::NO_INDIVIDUAL_RECORDS)
}

/// What became of one request.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "it describes what `RecordLines::format` writes")]
pub(super) struct Record<'a> {
    metadata: Metadata,
    /// The metrics of the request, by tag.
    metrics: Measurements,
    /// The timing of the exchange (`--export-http-trace`).
    #[schemars(skip_serializing_if = "Option::is_none")]
    trace_data: Option<Trace<'a>>,
    error: Option<client::record::RequestError>,
}

#[cfg(test)]
pub(super) struct Measurements;

#[cfg(test)]
impl schemars::JsonSchema for Measurements {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Measurements".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        super::schema::by_tag::<Measurement>(generator, is_in_records)
    }
}

/// The value of a metric.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "it describes what `Fragment::write` writes")]
struct Measurement {
    value: Number,
    unit: &'static str,
}

#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "it describes what `Fragment::write` writes")]
enum Number {
    Scalar(f64),
    List(Vec<f64>),
}

/// The metadata of a request.
#[cfg(test)]
pub(super) struct Metadata;

#[cfg(test)]
impl schemars::JsonSchema for Metadata {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Metadata".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        super::schema::of_fields(generator)
    }
}

/// Appends the metadata of a request to `out`.
pub(super) fn write_metadata(out: &mut Vec<u8>, row: &Row<'_>) -> io::Result<()> {
    let mut object = Object::open(out);
    for field in FIELDS.iter().filter(|field| field.uses.in_lines) {
        object.field(field.name, (field.value)(row))?;
    }
    object.close();
    Ok(())
}

/// Headers as an object, with secrets redacted.
#[derive(Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Headers<'a>(
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, String>"))]
    pub(super)  &'a [(String, String)],
);

impl Headers<'_> {
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Headers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            map.serialize_entry(name, redact::header_value(name, value))?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests;
