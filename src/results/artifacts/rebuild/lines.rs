//! Parses `profile_export.jsonl`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use base::column::{Column, Sorted, Store};
use base::redact::ShownUrl;
use base::units::Nanos;
use client::record::{Ancestry, ErrorKind, RequestError};
use measure::metrics::fields::{Id, Metadata, Text};
use measure::metrics::health::ClientErrors;
use measure::metrics::metric::{MetricKind, Observation, RecordValues, Value};
use measure::metrics::output::{CanaryAnswer, Faults, Output};
use measure::metrics::session::TurnPlace;
use measure::metrics::tag::{self, MetricTag};
use measure::metrics::{Metric, MetricFlags, Registry};

use super::line_file::{LineFailure, LineFile};
use super::{Line, ReportError, RequestPlace};
use crate::artifacts::decimal::Form;

/// The metric that is in the metadata as `requested_output_tokens`.
const REQUESTED: MetricTag = tag::REQUESTED_OSL;

/// An open file of records.
pub(super) struct RecordReader(LineFile);

/// The requests that have several records, by the ID that the client gave each of them.
pub(super) struct Seen {
    /// The first halves of IDs that several records have. Usually there are none, so that memory does
    /// not grow with the number of records.
    candidates: HashSet<u64>,
    /// The IDs of candidates that have been read.
    read: HashSet<Uuid>,
}

impl Seen {
    /// Finds the requests that have several records in `files`.
    pub(super) fn in_files<'a>(files: impl IntoIterator<Item = &'a Path>, store: &Store) -> Self {
        let mut ids: Column<u64> = Column::new(store.scratch());
        for path in files {
            // What cannot be read is reported where the records are.
            let Ok(mut file) = LineFile::open(path) else { continue };
            let _ = file.read(|text| {
                ids.extend(request_id(text).map(|id| id.as_u64_pair().0));
                Ok(())
            });
        }
        let sorted = Sorted::new(ids.iter(), |id| *id, store);
        let mut last = None;
        let is_again = |id: &u64| last.replace(*id) == Some(*id);
        Self { candidates: sorted.iter().filter(is_again).collect(), read: HashSet::new() }
    }

    /// Returns whether `line` is of a request that has not been read before, or of one without ID.
    fn is_new(&mut self, line: &Line) -> bool {
        line.request_id
            .is_none_or(|id| !self.candidates.contains(&id.as_u64_pair().0) || self.read.insert(id))
    }
}

/// Returns the ID of the request whose record is `text`, without parsing the rest.
fn request_id(text: &[u8]) -> Option<Uuid> {
    const NAME: &[u8] = b"\"x_request_id\":";
    let rest = &text[memchr::memmem::find(text, NAME)? + NAME.len()..];
    let id = rest.trim_ascii_start().strip_prefix(b"\"")?.get(..uuid::fmt::Hyphenated::LENGTH)?;
    Uuid::try_parse_ascii(id).ok()
}

/// Records that are in a file again, by their places among all, from 0.
pub(super) type Repeated = BTreeSet<u64>;

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    metrics: HashMap<&'a str, Measurement<'a>>,
    #[serde(default)]
    error: Option<LineError>,
}

/// Returns what the line contains of the output besides its metrics.
fn output(metadata: &Metadata<'_>) -> Output {
    let faults = metadata.output_faults.as_ref().map(|names| Faults::from_names(&names.0));
    let canary = metadata.canary.map(|number| CanaryAnswer {
        number,
        common_tokens: metadata.canary_common_tokens,
        differing_tokens: metadata.canary_differing_tokens,
    });
    Output { faults: faults.unwrap_or_default(), canary }
}

/// Returns the errors of the request; `None` if an earlier version or another tool wrote it.
fn client_errors(metadata: &Metadata<'_>) -> Option<ClientErrors> {
    Some(ClientErrors {
        first_content_uncertainty: metadata.first_content_uncertainty_ns.unwrap_or_default(),
        last_content_uncertainty: metadata.last_content_uncertainty_ns.unwrap_or_default(),
        end_uncertainty: metadata.end_uncertainty_ns.unwrap_or_default(),
        end_gap: metadata.end_gap_ns,
        send_delay: metadata.send_delay_ns?,
        late: metadata.late_ns,
    })
}

/// Returns the place of the request in its session; `None` if an earlier version or another tool
/// wrote it, so that it is not known whether the session ended.
fn place(metadata: &Metadata<'_>) -> Option<RequestPlace> {
    let correlation_id = metadata.x_correlation_id?.known()?;
    let ancestry = match metadata.agent_depth {
        Some(depth) => Some(Ancestry {
            depth,
            parent: metadata.parent_correlation_id.and_then(Id::known).unwrap_or(correlation_id),
            root: metadata.root_correlation_id?.known()?,
        }),
        None => None,
    };
    let of_turn = metadata.is_final_turn.map(|is_final| TurnPlace {
        is_final,
        children: metadata.children_started.unwrap_or_default(),
        delay: Nanos(metadata.turn_delay_ns.unwrap_or_default()),
    });
    let is_alone = metadata.turn_index == Some(0) && ancestry.is_none();
    (of_turn.is_some() || is_alone).then_some(RequestPlace {
        session: metadata.session_num?,
        correlation_id,
        ancestry,
        of_turn,
    })
}

#[derive(Deserialize)]
struct Measurement<'a> {
    #[serde(borrow)]
    value: &'a RawValue,
}

/// A [`RequestError`] that may lack its class, as in files of other tools.
#[derive(Deserialize)]
struct LineError {
    #[serde(default)]
    code: Option<u16>,
    #[serde(rename = "type", default)]
    name: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    cause: Option<String>,
    #[serde(rename = "error_type", default)]
    kind: Option<ErrorKind>,
}

impl From<LineError> for RequestError {
    fn from(error: LineError) -> Self {
        let kind = error.kind.unwrap_or(match error.code {
            Some(400..=499) => ErrorKind::Http4xx,
            Some(500..=599) => ErrorKind::Http5xx,
            _ => ErrorKind::Other,
        });
        let LineError { code, name, message, cause, .. } = error;
        Self { code, name, message, cause, kind }
    }
}

impl RecordReader {
    pub(super) fn open(path: &Path) -> Result<Self, ReportError> {
        let file = LineFile::open(path);
        file.map(Self).map_err(|why| ReportError::NoRecords { path: path.to_owned(), why })
    }

    /// Passes each record and its text to `take`, but those that are in `seen` only once; returns
    /// which are repeated, and notes about the file. A truncated last line is left out.
    pub(super) fn read(
        self,
        registry: &Registry,
        seen: &mut Seen,
        mut take: impl FnMut(&Line, &[u8]),
    ) -> Result<(Repeated, Vec<String>), ReportError> {
        let path = self.0.path.clone();
        let mut repeated = Repeated::new();
        let mut notes = self.read_all(registry, |place, line, text| {
            if seen.is_new(line) {
                take(line, text);
            } else {
                repeated.insert(place);
            }
        })?;
        if !repeated.is_empty() {
            notes.push(format!(
                "{}: {} of its records are of requests that were read before, as their x_request_id \
                 shows; they are not counted again",
                path.display(),
                repeated.len()
            ));
        }
        Ok((repeated, notes))
    }

    /// Passes each record with its place among all and its text to `take`; returns a note about the
    /// file, if any.
    pub(super) fn read_all(
        mut self,
        registry: &Registry,
        mut take: impl FnMut(u64, &Line, &[u8]),
    ) -> Result<Vec<String>, ReportError> {
        let mut places = 0..;
        let note = self.0.read(|text| {
            let line = parse(text, registry)?;
            take(places.next().unwrap_or(u64::MAX), &line, text);
            Ok(())
        });
        let path = self.0.path;
        note.map(Vec::from_iter).map_err(|failure| match failure {
            LineFailure::Unreadable(why) => ReportError::NoRecords { path, why },
            LineFailure::Malformed { line, reason } => {
                ReportError::Malformed { path, line, reason }
            }
        })
    }
}

fn parse(text: &[u8], registry: &Registry) -> Result<Line, String> {
    // Strings of members that are not parsed would not be checked otherwise.
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let Record { metadata, metrics, error } =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let (Some(phase), Some(start_wall_ns), Some(end_wall_ns)) =
        (metadata.benchmark_phase, metadata.request_start_ns, metadata.request_end_ns)
    else {
        return Err("its phase or its times are missing".to_owned());
    };
    if end_wall_ns < start_wall_ns {
        return Err("request_end_ns is before request_start_ns".to_owned());
    }
    let error = error.map(RequestError::from);
    let mut values = RecordValues::default();
    for metric in registry.rows() {
        if let Some(measurement) = metrics.get(metric.tag.name()) {
            values.set(metric.tag, value(metric, measurement.value.get())?);
        }
    }
    let requested_output_tokens = metadata.requested_output_tokens;
    recount(registry, &mut values, requested_output_tokens, error.is_some());
    let mut observation = Observation {
        phase,
        start_wall_ns,
        end_wall_ns,
        requested_output_tokens,
        missing_answers: metadata.missing_answers.unwrap_or_default(),
        output: output(&metadata),
        error,
        values,
    };
    let tenant = metadata.tenant.as_ref().map(|name| &*name.0);
    registry.judge_of_tenant(tenant, &mut observation);
    let (place, client_errors) = (place(&metadata), client_errors(&metadata));
    let text = |text: Option<Text<'_>>| text.map(|text| text.0.into_owned());
    let conversation = text(metadata.conversation_id).filter(|id| !id.is_empty());
    Ok(Line {
        request_id: metadata.x_request_id.and_then(Id::known),
        place,
        client_errors,
        turn: conversation.zip(metadata.turn_index),
        finish_reason: text(metadata.finish_reason),
        response_notes: text(metadata.response_notes),
        phase_index: metadata.phase_index.unwrap_or_default(),
        observation,
        model: text(metadata.model).unwrap_or_default().into(),
        url: ShownUrl::new(&metadata.url.unwrap_or_else(|| "".into()).0),
        due_wall_ns: metadata.request_due_ns,
        retries: metadata.retry_count.unwrap_or_default().into(),
        worker: metadata.server_worker_id.map(|id| (&*id.0).into()),
        tenant: tenant.map(Into::into),
    })
}

/// Parses a value to the metric's own unit.
fn value(metric: &Metric, text: &str) -> Result<Value, String> {
    let form = Form::for_metric(metric);
    let number = |text: &str| {
        form.read(text.trim())
            .ok_or_else(|| format!("{text:?} is not a valid value of {}", metric.tag))
    };
    let Some(list) = text.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        return number(text).map(Value::Scalar);
    };
    if list.trim().is_empty() {
        return Ok(Value::List(Vec::new()));
    }
    list.split(',').map(number).collect::<Result<_, _>>().map(Value::List)
}

/// Recounts what lines do not contain for a single request.
fn recount(
    registry: &Registry,
    values: &mut RecordValues,
    requested_output_tokens: Option<u64>,
    failed: bool,
) {
    let was_said = values.get(REQUESTED).is_some();
    if let (Some(metric), Some(tokens), false) =
        (Registry::row(REQUESTED), requested_output_tokens, failed || was_said)
    {
        values.set(metric.tag, Value::Scalar(tokens as f64));
    }
    for metric in registry.rows() {
        let MetricKind::Count(counts) = metric.kind else { continue };
        let is_hidden = metric.flags.contains(MetricFlags::NO_INDIVIDUAL_RECORDS);
        let applies = metric.flags.contains(MetricFlags::ERROR_ONLY) == failed;
        if is_hidden && applies && counts(values, registry.settings()) {
            values.set(metric.tag, Value::Scalar(1.0));
        }
    }
    if !was_said {
        values.remove(REQUESTED);
    }
}

#[cfg(test)]
mod tests {
    use client::endpoint::EndpointType;
    use measure::metrics::metric::Settings;

    use super::*;
    use proptest::prelude::*;

    fn registry() -> Registry {
        Registry::new(Settings::default(), EndpointType::CHAT.traits(), true).unwrap()
    }

    #[test]
    fn a_line_of_aiperf_0_13_is_read() {
        let text = br#"{"metadata":{"session_num":5,"request_start_ns":100,"request_end_ns":200,"benchmark_phase":"profiling","agent_depth":0},"metrics":{"time_to_first_token":{"value":37.680444,"unit":"ms"},"inter_chunk_latency":{"value":[10.177035, 10.235415999999999],"unit":"ms"},"unheard_of":{"value":1,"unit":"count"}},"error":{"code":500,"type":"Internal Server Error","message":"boom"}}"#;
        let line = parse(text, &registry()).unwrap();
        assert_eq!(line.observation.values.scalar(tag::TIME_TO_FIRST_TOKEN), Some(37_680_444.0));
        assert_eq!(
            line.observation.values.get(tag::INTER_CHUNK_LATENCY),
            Some(&Value::List(vec![10_177_035.0, 10_235_415.999_999_999]))
        );
        assert_eq!(line.observation.error.unwrap().kind, ErrorKind::Http5xx);
        assert_eq!(line.client_errors, None);
    }

    #[test]
    fn errors_of_the_client_are_read() {
        let text = br#"{"metadata":{"request_start_ns":1,"request_end_ns":2,"benchmark_phase":"profiling","send_delay_ns":7,"late_ns":0,"last_content_uncertainty_ns":30,"end_gap_ns":0,"end_uncertainty_ns":4},"metrics":{},"error":null}"#;
        let errors = ClientErrors {
            first_content_uncertainty: 0,
            last_content_uncertainty: 30,
            end_gap: Some(0),
            end_uncertainty: 4,
            send_delay: 7,
            late: Some(0),
        };
        assert_eq!(parse(text, &registry()).unwrap().client_errors, Some(errors));
    }

    #[test]
    fn a_value_that_is_not_a_number_is_refused() {
        let metric = Registry::find("time_to_first_token").unwrap();
        assert!(value(metric, "null").is_err());
        assert!(value(metric, "[1,]").is_err());
        assert!(value(metric, "{}").is_err());
    }

    #[test]
    fn a_line_that_is_not_text_is_refused_wherever_it_is() {
        let line = |name: &[u8]| {
            let head = br#"{"metadata":{"request_start_ns":1,"request_end_ns":2,"benchmark_phase":"warmup","worker_id":""#;
            [head, name, br#""},"metrics":{},"error":null}"#].concat()
        };
        assert!(parse(&line(b"w"), &registry()).is_ok());
        assert!(parse(&line(b"\xff"), &registry()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(text in any::<Vec<u8>>(), cut in 0_usize..200) {
            let registry = registry();
            let _ = parse(&text, &registry);
            let good = br#"{"metadata":{"request_start_ns":1,"request_end_ns":2,"benchmark_phase":"warmup"},"metrics":{"request_latency":{"value":1.5,"unit":"ms"}},"error":null}"#;
            let cut = cut.min(good.len());
            prop_assert_eq!(parse(&good[..cut], &registry).is_ok(), cut == good.len());
        }
    }
}
