//! `profile_export_raw.jsonl`: complete requests and responses.
//!
//! Instants named `perf_ns` are on the monotonic clock.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use client::record::{RequestError, ResponseBody};
use measure::metrics::fields::Row;

use super::error::{ArtifactError, WriteFailure};
use super::jsonl::{Headers, write_metadata};
use super::payload::{self, Payload};
use super::record_file::RecordFile;
use super::sink::LineSink;
use crate::run::RunReport;

/// A line.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "it describes what `write_line` writes")]
pub(super) struct RawRecord<'a> {
    metadata: super::jsonl::Metadata,
    #[serde(flatten)]
    exchange: Exchange<'a>,
}

/// A line without its metadata.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Exchange<'a> {
    start_perf_ns: u64,
    request_headers: Headers<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Headers::is_empty")]
    response_headers: Headers<'a>,
    responses: Vec<Response<'a>>,
    /// Delay between the arrival of each response and its read.
    response_read_lag_ns: Vec<u32>,
    /// How much earlier than recorded each response may have arrived.
    response_uncertainty_ns: Vec<u32>,
    /// The body of the request.
    #[cfg_attr(test, schemars(with = "Value"))]
    payload: Payload<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RequestError>,
}

/// An event and its arrival, or a body that is not a stream of events.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Response<'a> {
    /// When it arrived.
    perf_ns: u64,
    /// The fields of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    packets: Option<Vec<Packet<'a>>>,
    /// The media type of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    /// The body.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
}

/// A field of a server-sent event.
#[derive(Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Packet<'a> {
    name: Cow<'a, str>,
    value: Cow<'a, str>,
}

/// The file of a run.
#[derive(Debug)]
pub(super) struct RawLines {
    sink: LineSink,
    line: Vec<u8>,
    redacted: Vec<(String, Value)>,
}

impl RawLines {
    /// Creates the file; members of `redacted` replace those of the bodies.
    pub(super) fn create(
        path: &Path,
        redacted: Vec<(String, Value)>,
    ) -> Result<Self, ArtifactError> {
        Ok(Self { sink: LineSink::create(path)?, line: Vec::new(), redacted })
    }
}

impl RecordFile for RawLines {
    fn push(&mut self, row: &Row<'_>) {
        self.line.clear();
        let outcome = write_line(&mut self.line, row, &self.redacted);
        self.sink.append(outcome.map(|()| self.line.as_slice()));
    }

    fn flush(&mut self) {
        self.sink.flush();
    }

    fn finish(self: Box<Self>, _report: &RunReport) -> Result<PathBuf, WriteFailure> {
        self.sink.finish()
    }
}

/// Appends the line of a request to `out`, with the members of `redacted` in its body.
fn write_line(out: &mut Vec<u8>, row: &Row<'_>, redacted: &[(String, Value)]) -> io::Result<()> {
    let record = &row.measured.record;
    let arrivals = || record.body.events.iter().map(|event| event.arrival);
    let exchange = Exchange {
        start_perf_ns: record.start.0,
        request_headers: Headers(&record.trace.request_headers),
        status: record.status,
        response_headers: Headers(&record.trace.response_headers),
        responses: responses(&record.body, &record.trace.response_headers),
        response_read_lag_ns: arrivals().map(|arrival| arrival.read_lag).collect(),
        response_uncertainty_ns: arrivals().map(|arrival| arrival.uncertainty).collect(),
        payload: payload::on_one_line(&record.payload, redacted),
        error: row.measured.observation.error.as_ref(),
    };
    out.extend_from_slice(b"{\"metadata\":");
    write_metadata(out, row)?;
    let end = out.len();
    serde_json::to_writer(&mut *out, &exchange)?;
    // The members of the exchange follow the metadata.
    out[end] = b',';
    out.push(b'\n');
    Ok(())
}

fn responses<'a>(body: &'a ResponseBody, headers: &'a [(String, String)]) -> Vec<Response<'a>> {
    let content_type = headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        .map_or("", |(_, value)| value.as_str());
    body.events
        .iter()
        .map(|event| {
            let (raw, perf_ns) = (body.raw(event), event.arrival.at.0);
            if body.is_event_stream {
                Response { perf_ns, packets: Some(packets(raw)), ..Response::default() }
            } else {
                let text = Some(String::from_utf8_lossy(raw));
                Response { perf_ns, content_type: Some(content_type), text, packets: None }
            }
        })
        .collect()
}

/// Returns the fields of an event; a comment is a field named `comment`.
fn packets(event: &[u8]) -> Vec<Packet<'_>> {
    event
        .split(|byte| *byte == b'\n' || *byte == b'\r')
        .filter(|line| !line.is_empty())
        .map(|line| {
            let (name, value) = match line.iter().position(|byte| *byte == b':') {
                Some(0) => (b"comment".as_slice(), &line[1..]),
                Some(at) => (&line[..at], &line[at + 1..]),
                None => (line, b"".as_slice()),
            };
            let value = value.strip_prefix(b" ").unwrap_or(value);
            Packet { name: String::from_utf8_lossy(name), value: String::from_utf8_lossy(value) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(name: &'static str, value: &'static str) -> Packet<'static> {
        Packet { name: name.into(), value: value.into() }
    }

    #[test]
    fn fields_of_an_event() {
        assert_eq!(packets(b"data: {\"a\":1}"), [packet("data", "{\"a\":1}")]);
        assert_eq!(
            packets(b"event: error\r\ndata:a:b\r\n: ping\r\nretry"),
            [
                packet("event", "error"),
                packet("data", "a:b"),
                packet("comment", "ping"),
                packet("retry", "")
            ]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_make_one_line_of_json(body in any::<Vec<u8>>()) {
            let written = serde_json::to_string(&packets(&body)).unwrap();
            prop_assert!(!written.contains('\n'));
            prop_assert!(serde_json::from_str::<serde_json::Value>(&written).is_ok());
        }
    }
}
