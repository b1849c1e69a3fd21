//! `profile_export.jsonl`: one line per request, in the order of completion.
//!
//! Tens of thousands of lines are written per second, so they are written to one reused buffer,
//! without a tree of values.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::decimal::Form;
use super::error::{ArtifactError, WriteFailure};
use super::object::Object;
use super::record_file::RecordFile;
use super::sink::LineSink;
use super::trace::Trace;
use crate::metrics::health::{ArrivalErrors, ClientErrors};
use crate::metrics::metric::{MeasuredRecord, RecordValues, Value};
use crate::metrics::name_counts;
use crate::metrics::tag::TagMap;
use crate::metrics::{Metric, MetricFlags, Registry};
use crate::record::Ancestry;
use crate::redact;
use crate::run::RunReport;
use crate::schedule::Hold;
use crate::schedule::config::PhaseLabels;
use crate::server_family::ServerTiming;
use crate::setting::Named as _;
use crate::units::{Clock, Nanos};

/// The file of a run.
#[derive(Debug)]
pub(super) struct RecordLines {
    sink: LineSink,
    fragments: TagMap<Fragment>,
    endpoint_type: &'static str,
    phases: PhaseLabels,
    http_trace: bool,
    errors: ArrivalErrors,
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
            form: Form::of(metric),
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
    /// Creates the file for requests to an endpoint of type `endpoint_type`, with the metrics that
    /// `registry` computes for each.
    pub(super) fn create(
        path: &Path,
        registry: &Registry,
        endpoint_type: &'static str,
        phases: PhaseLabels,
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
        let errors = ArrivalErrors::default();
        Ok(Self { sink, fragments, endpoint_type, phases, http_trace, errors, line })
    }

    /// Formats the line of a request, including its line feed.
    fn format(
        &mut self,
        measured: &MeasuredRecord,
        conversation_id: &str,
        clock: &Clock,
    ) -> io::Result<()> {
        self.line.clear();
        self.line.extend_from_slice(b"{\"metadata\":");
        let errors = self.errors.of_request(measured);
        let of = (self.endpoint_type, &self.phases);
        let metadata = metadata(measured, conversation_id, clock, of, errors);
        metadata.write(&mut self.line)?;
        self.metrics(&measured.observation.values);
        if self.http_trace {
            self.line.extend_from_slice(b",\"trace_data\":");
            serde_json::to_writer(&mut self.line, &Trace::of(&measured.record, clock))?;
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
    fn push(&mut self, measured: &MeasuredRecord, conversation_id: &str, clock: &Clock) {
        let outcome = self.format(measured, conversation_id, clock);
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
    metadata: Metadata<'a>,
    /// The metrics of the request, by tag.
    metrics: Measurements,
    /// The timing of the exchange (`--export-http-trace`).
    #[schemars(skip_serializing_if = "Option::is_none")]
    trace_data: Option<Trace<'a>>,
    error: Option<crate::record::RequestError>,
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

/// Identity, times and destination of a request. Times are in nanoseconds since the epoch.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Metadata<'a> {
    /// Number of the session over the whole run.
    session_num: u64,
    /// The `X-Request-ID` header, a UUID.
    #[serde(serialize_with = "uuid")]
    #[cfg_attr(test, schemars(with = "String"))]
    x_request_id: Uuid,
    /// The `X-Correlation-ID` header, a UUID, the same for all turns of a session.
    #[serde(serialize_with = "uuid")]
    #[cfg_attr(test, schemars(with = "String"))]
    x_correlation_id: Uuid,
    /// ID of the conversation in the dataset.
    conversation_id: &'a str,
    /// Index of the turn in the conversation, from 0.
    turn_index: usize,
    #[serde(flatten)]
    ancestry: Option<AncestryMembers>,
    /// The lane that sent it, from 0, if lanes replay traces (`--agentic`).
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<u32>,
    /// What it waited for after its delay: `join`, the end of sub-agents, or `barrier`, requests that had
    /// ended before it in the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_by: Option<&'static str>,
    /// The tenant that sent it, if tenants share the load (`--tenants`).
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    /// Whether the conversation ended with the turn; absent for a conversation of one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_final_turn: Option<bool>,
    /// Number of conversations that the turn starts.
    #[serde(skip_serializing_if = "is_zero")]
    children_started: u32,
    /// How long after the response before it the dataset sends the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_delay_ns: Option<u64>,
    /// When the request was issued.
    credit_issued_ns: u64,
    /// When the request was started: handed to the transport.
    request_start_ns: u64,
    /// When the response headers were complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_ack_ns: Option<u64>,
    /// When the request ended.
    request_end_ns: u64,
    worker_id: String,
    record_processor_id: &'static str,
    benchmark_phase: &'static str,
    /// Index of the phase in the run, from 0.
    phase_index: u32,
    /// Index of the phase among those that are measured, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    profiling_index: Option<u32>,
    phase_name: &'a str,
    phase_kind: &'static str,
    was_cancelled: bool,
    /// When the request was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancellation_time_ns: Option<u64>,
    /// When the schedule wanted the request to be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_due_ns: Option<u64>,
    /// Just before the first byte was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_sent_ns: Option<u64>,
    /// Limit on the output that the request asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    requested_output_tokens: Option<u64>,
    /// Why the output ended, as the server reports it; several different reasons of several choices
    /// are separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<String>,
    /// What is unusual about how the response says its content and its counts, such as `usage_decreased`
    /// or `text_in:delta.thinking[].text`; several are separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_notes: Option<String>,
    /// Number of earlier responses of the session that the request lacks because their turns failed.
    #[serde(skip_serializing_if = "is_zero")]
    missing_answers: u32,
    /// Number of retries because a reused connection was dead.
    #[serde(skip_serializing_if = "is_zero")]
    retry_count: u32,
    /// How long after its start the client could have sent the request but did not.
    send_delay_ns: u64,
    /// How long after it could have the client started the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    late_ns: Option<u64>,
    /// How much earlier than its timestamp the first content event may have arrived because of the
    /// client.
    #[serde(skip_serializing_if = "is_zero")]
    first_content_uncertainty_ns: u32,
    /// The same for the last content event.
    #[serde(skip_serializing_if = "is_zero")]
    last_content_uncertainty_ns: u32,
    /// The same for the end of the response.
    #[serde(skip_serializing_if = "is_zero")]
    end_uncertainty_ns: u32,
    /// How long after the last content event the response's last event arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    end_gap_ns: Option<u32>,
    model: &'a str,
    url: &'a str,
    endpoint_type: &'static str,
    #[serde(flatten)]
    server: Option<ServerMembers<'a>>,
}

impl Metadata<'_> {
    /// Appends what serde writes, in a fraction of the time.
    fn write(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let Self {
            session_num,
            x_request_id,
            x_correlation_id,
            conversation_id,
            turn_index,
            ancestry,
            lane,
            held_by,
            tenant,
            is_final_turn,
            children_started,
            turn_delay_ns,
            credit_issued_ns,
            request_start_ns,
            request_ack_ns,
            request_end_ns,
            worker_id,
            record_processor_id,
            benchmark_phase,
            phase_index,
            profiling_index,
            phase_name,
            phase_kind,
            was_cancelled,
            cancellation_time_ns,
            request_due_ns,
            request_sent_ns,
            requested_output_tokens,
            finish_reason,
            response_notes,
            missing_answers,
            retry_count,
            send_delay_ns,
            late_ns,
            first_content_uncertainty_ns,
            last_content_uncertainty_ns,
            end_uncertainty_ns,
            end_gap_ns,
            model,
            url,
            endpoint_type,
            server,
        } = self;
        let mut object = Object::open(out);
        object.number("session_num", *session_num);
        object.id("x_request_id", *x_request_id);
        object.id("x_correlation_id", *x_correlation_id);
        object.text("conversation_id", conversation_id)?;
        object.number("turn_index", *turn_index as u64);
        object.members(ancestry.as_ref())?;
        object.number_if_any("lane", lane.map(u64::from));
        if let Some(held_by) = held_by {
            object.text("held_by", held_by)?;
        }
        if let Some(tenant) = tenant {
            object.text("tenant", tenant)?;
        }
        if let Some(is_final) = is_final_turn {
            object.is_true("is_final_turn", *is_final);
        }
        object.number_unless_zero("children_started", *children_started);
        object.number_if_any("turn_delay_ns", *turn_delay_ns);
        object.number("credit_issued_ns", *credit_issued_ns);
        object.number("request_start_ns", *request_start_ns);
        object.number_if_any("request_ack_ns", *request_ack_ns);
        object.number("request_end_ns", *request_end_ns);
        object.text("worker_id", worker_id)?;
        object.text("record_processor_id", record_processor_id)?;
        object.text("benchmark_phase", benchmark_phase)?;
        object.number("phase_index", (*phase_index).into());
        object.number_if_any("profiling_index", profiling_index.map(u64::from));
        object.text("phase_name", phase_name)?;
        object.text("phase_kind", phase_kind)?;
        object.is_true("was_cancelled", *was_cancelled);
        object.number_if_any("cancellation_time_ns", *cancellation_time_ns);
        object.number_if_any("request_due_ns", *request_due_ns);
        object.number_if_any("request_sent_ns", *request_sent_ns);
        object.number_if_any("requested_output_tokens", *requested_output_tokens);
        if let Some(reason) = finish_reason {
            object.text("finish_reason", reason)?;
        }
        if let Some(notes) = response_notes {
            object.text("response_notes", notes)?;
        }
        object.number_unless_zero("missing_answers", *missing_answers);
        object.number_unless_zero("retry_count", *retry_count);
        object.number("send_delay_ns", *send_delay_ns);
        object.number_if_any("late_ns", *late_ns);
        object.number_unless_zero("first_content_uncertainty_ns", *first_content_uncertainty_ns);
        object.number_unless_zero("last_content_uncertainty_ns", *last_content_uncertainty_ns);
        object.number_unless_zero("end_uncertainty_ns", *end_uncertainty_ns);
        object.number_if_any("end_gap_ns", end_gap_ns.map(u64::from));
        object.text("model", model)?;
        object.text("url", url)?;
        object.text("endpoint_type", endpoint_type)?;
        object.members(server.as_ref())?;
        object.close();
        Ok(())
    }
}

/// What the server says about itself in the response.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[expect(clippy::struct_field_names, reason = "they are members of the metadata")]
struct ServerMembers<'a> {
    /// The worker that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_worker_id: Option<&'a str>,
    /// The server whose way of reporting times the response has, such as `vllm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_timing_family: Option<&'static str>,
    /// Where it reports them: `body` or `headers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_timing_source: Option<&'static str>,
    /// Times in the header `Server-Timing` that are not those of a known stage, by name, in
    /// milliseconds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    server_timing_other: BTreeMap<&'a str, f64>,
}

impl<'a> ServerMembers<'a> {
    fn of(timing: &'a ServerTiming) -> Self {
        let has_times = timing.has_times();
        let other = timing.other.iter();
        Self {
            server_worker_id: timing.worker.as_deref(),
            server_timing_family: has_times.then_some(timing.family),
            server_timing_source: has_times.then_some(timing.source.name()),
            server_timing_other: other.map(|(name, nanos)| (name.as_str(), nanos / 1e6)).collect(),
        }
    }
}

/// The place of a conversation in a tree.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AncestryMembers {
    agent_depth: u32,
    /// Absent for the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_correlation_id: Option<String>,
    root_correlation_id: String,
}

impl From<Ancestry> for AncestryMembers {
    fn from(Ancestry { depth, parent, root }: Ancestry) -> Self {
        Self {
            agent_depth: depth,
            parent_correlation_id: (depth > 0).then(|| parent.to_string()),
            root_correlation_id: root.to_string(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn uuid<S: Serializer>(id: &Uuid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(id.hyphenated().encode_lower(&mut [0; Hyphenated::LENGTH]))
}

pub(super) fn metadata<'a>(
    measured: &'a MeasuredRecord,
    conversation_id: &'a str,
    clock: &Clock,
    (endpoint_type, phases): (&'static str, &'a PhaseLabels),
    errors: ClientErrors,
) -> Metadata<'a> {
    let (record, agent) = (&measured.record, measured.agent.as_ref());
    let (phase_name, profiling_index) = phases.get(record.phase_index, record.phase);
    let wall = |at: Nanos| clock.wall_ns(at);
    let phase = record.phase.as_str();
    Metadata {
        session_num: record.turn.session,
        x_request_id: record.request_id,
        x_correlation_id: record.correlation_id,
        conversation_id,
        turn_index: record.turn.turn,
        ancestry: record.ancestry.map(AncestryMembers::from),
        lane: record.lane,
        held_by: record.held_by.map(Hold::name),
        tenant: record.tenant.as_deref(),
        is_final_turn: agent.map(|call| call.is_last),
        children_started: agent.map_or(0, |call| call.children),
        turn_delay_ns: agent.map(|call| call.delay.0).filter(|delay| *delay > 0),
        credit_issued_ns: wall(record.issued),
        request_start_ns: measured.observation.start_wall_ns,
        request_ack_ns: record.ack.map(wall),
        request_end_ns: wall(record.end),
        worker_id: format!("worker_{}", record.worker),
        record_processor_id: "record_processor_0",
        benchmark_phase: phase,
        phase_index: record.phase_index,
        profiling_index,
        phase_name,
        phase_kind: phase,
        was_cancelled: record.cancelled_at.is_some(),
        cancellation_time_ns: record.cancelled_at.map(wall),
        request_due_ns: record.due.map(wall),
        request_sent_ns: record.sent.map(wall),
        requested_output_tokens: measured.observation.requested_output_tokens,
        finish_reason: name_counts::joined(&measured.response.finish_reasons),
        response_notes: name_counts::joined(&measured.response.notes),
        missing_answers: measured.observation.missing_answers,
        retry_count: record.retry_count,
        send_delay_ns: errors.send_delay,
        late_ns: errors.late,
        first_content_uncertainty_ns: errors.first_content_uncertainty,
        last_content_uncertainty_ns: errors.last_content_uncertainty,
        end_uncertainty_ns: errors.end_uncertainty,
        end_gap_ns: errors.end_gap,
        model: &record.model,
        url: &record.url,
        endpoint_type,
        server: measured.response.server.as_deref().map(ServerMembers::of),
    }
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The derived serialisation is what the schema describes.
        #[test]
        fn metadata_is_written_as_serde_writes_it(
            numbers: [u64; 4],
            some: [Option<u64>; 4],
            small: [u32; 4],
            flags: [bool; 4],
            text in "\\PC{0,8}[\"\\\\\n\u{7f}é]{0,2}",
            id: u128,
        ) {
            let worker: Option<std::sync::Arc<str>> = flags[0].then(|| (&*text).into());
            let timing = ServerTiming { worker, ..ServerTiming::default() };
            let place = Ancestry { depth: small[0] % 2, parent: Uuid::nil(), root: Uuid::from_u128(id) };
            let metadata = Metadata {
                session_num: numbers[0],
                x_request_id: Uuid::from_u128(id),
                x_correlation_id: Uuid::from_u128(!id),
                conversation_id: &text,
                turn_index: small[0] as usize,
                ancestry: flags[1].then(|| place.into()),
                lane: flags[0].then_some(small[0]),
                held_by: flags[3].then_some(Hold::Barrier.name()),
                tenant: flags[2].then_some(&*text),
                is_final_turn: flags[0].then_some(flags[3]),
                children_started: small[0] % 3,
                turn_delay_ns: some[2],
                credit_issued_ns: numbers[1],
                request_start_ns: numbers[2],
                request_ack_ns: some[0],
                request_end_ns: numbers[3],
                worker_id: "worker_0".to_owned(),
                record_processor_id: "record_processor_0",
                benchmark_phase: "profiling",
                phase_index: small[1],
                profiling_index: flags[2].then_some(0),
                phase_name: "profiling",
                phase_kind: "profiling",
                was_cancelled: flags[3],
                cancellation_time_ns: some[1],
                request_due_ns: some[2],
                request_sent_ns: some[3],
                requested_output_tokens: some[0],
                finish_reason: flags[2].then(|| text.clone()),
                response_notes: flags[3].then(|| text.clone()),
                missing_answers: small[2] % 2,
                retry_count: small[3] % 3,
                send_delay_ns: numbers[0],
                late_ns: some[1],
                first_content_uncertainty_ns: small[2] % 5,
                last_content_uncertainty_ns: small[3],
                end_uncertainty_ns: small[1] % 2,
                end_gap_ns: flags[0].then_some(small[0]),
                model: &text,
                url: "http://localhost:8000/v1/chat/completions",
                endpoint_type: "chat",
                server: flags[1].then(|| ServerMembers::of(&timing)),
            };
            let mut written = b"before".to_vec();
            metadata.write(&mut written).unwrap();
            let expected = format!("before{}", serde_json::to_string(&metadata).unwrap());
            prop_assert_eq!(String::from_utf8(written).unwrap(), expected);
        }
    }
}
