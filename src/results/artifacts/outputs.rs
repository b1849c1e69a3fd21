//! `outputs.json`: the generated text of each request, with its key metrics (`--export-outputs-json`).
//!
//! Entries are in the order of sessions and turns, but requests end in another order. Until the end
//! they are therefore in an unnamed file, of which only the places are kept in memory.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use base::platform::files::UnnamedFile;
use client::schedule::PhaseKind;
use measure::metrics::Registry;
use measure::metrics::fields::Row;
use measure::metrics::metric::{MeasuredRecord, Value};
use measure::metrics::tag::{self, MetricTag, TagMap};

use super::decimal::Form;
use super::error::{ArtifactError, WriteFailure};
use super::record_file::RecordFile;
use super::replace;
use super::whole::write_whole;
use crate::run::RunReport;

/// The metrics of an entry.
const METRICS: &[MetricTag] = &[
    tag::INPUT_SEQUENCE_LENGTH,
    tag::OUTPUT_TOKEN_COUNT,
    tag::OUTPUT_SEQUENCE_LENGTH,
    tag::REQUEST_LATENCY,
    tag::TIME_TO_FIRST_TOKEN,
    tag::INTER_TOKEN_LATENCY,
];

/// Number of bytes that are collected before they are written to the unnamed file.
const BUFFER_BYTES: usize = 1 << 20;

#[derive(Serialize)]
struct Entry<'a> {
    session_num: u64,
    conversation_id: &'a str,
    turn_index: usize,
    x_request_id: Uuid,
    request_start_ns: u64,
    request_end_ns: u64,
    metrics: Box<RawValue>,
    response_text: Option<String>,
}

/// Where the entry of a request is, by its place in the file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EntryPlace {
    session: u64,
    turn: usize,
    start: u64,
    bytes: usize,
}

/// The file of a run.
#[derive(Debug)]
pub(super) struct Outputs {
    path: PathBuf,
    forms: TagMap<Form>,
    file: UnnamedFile,
    /// Number of bytes in the file.
    written: u64,
    buffer: Vec<u8>,
    places: Vec<EntryPlace>,
    failure: Option<io::Error>,
}

impl Outputs {
    /// Checks that `path` can be written, with the metrics that `registry` computes for each
    /// request.
    pub(super) fn create(path: &Path, registry: &Registry) -> Result<Self, ArtifactError> {
        replace::check(path)?;
        let directory = path.parent().unwrap_or(Path::new("."));
        let file = UnnamedFile::in_directory(directory)
            .map_err(|why| ArtifactError::NotWritable { path: path.to_owned(), why })?;
        let rows = registry.rows().iter().filter(|metric| METRICS.contains(&metric.tag));
        let forms = rows.map(|metric| (metric.tag, Form::for_metric(metric))).collect();
        let (buffer, places) = (Vec::new(), Vec::new());
        Ok(Self { path: path.to_owned(), forms, file, written: 0, buffer, places, failure: None })
    }

    /// Returns the metrics of a request as a JSON object.
    fn metrics(&self, measured: &MeasuredRecord) -> serde_json::Result<Box<RawValue>> {
        let mut object = vec![b'{'];
        for &tag in METRICS {
            let value = measured.observation.values.get(tag);
            let (Some(form), Some(Value::Scalar(value))) = (self.forms.get(tag), value) else {
                continue;
            };
            if value.is_finite() {
                object.extend_from_slice(if object.len() > 1 { b",\"" } else { b"\"" });
                object.extend_from_slice(tag.name().as_bytes());
                object.extend_from_slice(b"\":");
                form.write(&mut object, *value);
            }
        }
        object.push(b'}');
        RawValue::from_string(String::from_utf8_lossy(&object).into_owned())
    }

    fn append(&mut self, row: &Row<'_>) -> io::Result<()> {
        let Row { measured, conversation_id, .. } = row;
        let record = &measured.record;
        let (session, turn) = (record.turn.session, record.turn.turn);
        // Servers stream the reasoning before the output.
        let text = [&*measured.response.reasoning_text, &measured.response.output_text].concat();
        let entry = Entry {
            session_num: session,
            conversation_id,
            turn_index: turn,
            x_request_id: record.request_id,
            request_start_ns: measured.observation.start_wall_ns,
            request_end_ns: row.wall(record.end),
            metrics: self.metrics(measured)?,
            response_text: Some(text).filter(|text| !text.is_empty()),
        };
        let before = self.buffer.len();
        serde_json::to_writer(&mut self.buffer, &entry)?;
        let bytes = self.buffer.len() - before;
        self.places.push(EntryPlace { session, turn, start: self.written + before as u64, bytes });
        if self.buffer.len() >= BUFFER_BYTES { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        self.spill()?;
        self.places.sort_unstable();
        out.write_all(b"{\n  \"schema_version\": \"1.0\",\n  \"data\": [")?;
        let mut entry = Vec::new();
        for (index, place) in self.places.iter().enumerate() {
            entry.resize(place.bytes, 0);
            self.file.read_exact_at(&mut entry, place.start)?;
            out.write_all(if index == 0 { b"\n    " } else { b",\n    " })?;
            out.write_all(&entry)?;
        }
        out.write_all(if self.places.is_empty() { b"]\n}\n" } else { b"\n  ]\n}\n" })
    }
}

impl RecordFile for Outputs {
    fn push(&mut self, row: &Row<'_>) {
        if self.failure.is_none() && row.measured.record.phase == PhaseKind::Profiling {
            self.failure = self.append(row).err();
        }
    }

    fn flush(&mut self) {
        // The file does not have a name before the end.
    }

    fn finish(mut self: Box<Self>, _report: &RunReport) -> Result<PathBuf, WriteFailure> {
        let path = self.path.clone();
        write_whole(&path, |out| self.write(out))
    }
}
