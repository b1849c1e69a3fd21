//! The fields of a record: everything that its files contain of a request besides metrics, one row
//! per field.
//!
//! The lines of records, their JSON schema, their reader, the columns of the table of requests and
//! the attributes of spans follow from the rows.

mod types;

use std::marker::PhantomData;

use schemars::{Schema, SchemaGenerator};
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use base::semconv::attribute;
use base::setting::Named as _;
use base::units::Nanos;
use client::record::RequestError;
use client::schedule::config::PhaseLabels;
use client::schedule::{Hold, PhaseKind};
use client::server_family::ServerTiming;

use super::health::ClientErrors;
use super::metric::MeasuredRecord;
use super::name_counts;
use super::output::CanaryAnswer;

pub use types::{Count, FieldType, FieldValue, Form, Id, Text, Times};

/// A field.
#[derive(Debug)]
pub struct Field {
    /// Its name in lines and tables.
    pub name: &'static str,
    /// Its documentation, in lines that begin with a space.
    pub doc: &'static str,
    pub form: Form,
    /// Whether every record has it.
    pub is_required: bool,
    pub uses: Uses,
    /// Returns its value.
    pub value: for<'r> fn(&Row<'r>) -> FieldValue<'r>,
}

/// The uses of a field.
#[derive(Debug, Clone, Copy)]
pub struct Uses {
    /// Whether lines contain it.
    pub in_lines: bool,
    /// The place of its column among those of the table of requests.
    pub column: Option<u16>,
    /// Whether `aiperf report` reads it from lines.
    is_read: bool,
    /// Whether `aiperf report` rejects lines without it.
    is_needed: bool,
    /// The attribute of the request's span. Only the measured request determines its value.
    pub attribute: Option<&'static str>,
}

/// A field of lines.
const LINE: Uses =
    Uses { in_lines: true, column: None, is_read: false, is_needed: false, attribute: None };

/// A field of the table alone, at this place.
const fn table(place: u16) -> Uses {
    Uses { in_lines: false, ..LINE.column(place) }
}

impl Uses {
    const fn column(self, place: u16) -> Self {
        Self { column: Some(place), ..self }
    }

    const fn read(self) -> Self {
        Self { is_read: true, ..self }
    }

    const fn needed(self) -> Self {
        Self { is_needed: true, ..self.read() }
    }

    const fn attribute(self, name: &'static str) -> Self {
        Self { attribute: Some(name), ..self }
    }
}

/// A request with what its fields are computed from.
#[derive(Debug)]
pub struct Row<'r> {
    pub measured: &'r MeasuredRecord,
    pub conversation_id: &'r str,
    pub endpoint_type: &'static str,
    pub phases: &'r PhaseLabels,
    pub errors: ClientErrors,
}

impl<'r> Row<'r> {
    /// Returns a row whose fields with attributes are those of the request.
    pub fn of_request(measured: &'r MeasuredRecord, phases: &'r PhaseLabels) -> Self {
        let errors = ClientErrors::default();
        Self { measured, conversation_id: "", endpoint_type: "", phases, errors }
    }

    /// Returns nanoseconds since the epoch: all times of a record have the same distance from its
    /// start as on the monotonic clock.
    pub fn wall(&self, at: Nanos) -> u64 {
        let (start, wall) = (self.measured.record.start, self.measured.observation.start_wall_ns);
        wall.saturating_add(at.0).saturating_sub(start.0)
    }

    /// Returns the name of the phase, and its index among those that are measured.
    fn phase(&self) -> (&'r str, Option<u32>) {
        let record = &self.measured.record;
        self.phases.get(record.phase_index, record.phase)
    }

    fn server(&self) -> Option<&'r ServerTiming> {
        self.measured.response.server.as_deref()
    }

    fn canary_answer(&self) -> Option<CanaryAnswer> {
        self.measured.observation.output.canary
    }

    fn error(&self) -> Option<&'r RequestError> {
        self.measured.observation.error.as_ref()
    }
}

const fn field<T: FieldType<'static>>(
    name: &'static str,
    doc: &'static str,
    uses: Uses,
    _: fn(&Row<'static>) -> T,
    value: for<'r> fn(&Row<'r>) -> FieldValue<'r>,
) -> Field {
    Field { name, doc, form: T::FORM, is_required: T::IS_REQUIRED, uses, value }
}

/// Declares the fields, in the order of lines: documentation, name, type, uses, and the value for a
/// row.
macro_rules! fields {
    ($r:lifetime, $row:ident;
     $($(#[doc = $doc:literal])+ $name:ident: $type:ty, $uses:expr, $value:expr;)*) => {
        impl<$r> Row<$r> {
            $(fn $name(&self) -> $type {
                let $row = self;
                let _ = $row;
                $value
            })*

            /// Returns the schema of the values of each of [`FIELDS`], in the same order. It is apart from
            /// them, so that the program does not contain it.
            pub fn schemas(generator: &mut SchemaGenerator) -> Vec<Schema> {
                vec![$(<$type as FieldType<$r>>::schema(generator)),*]
            }
        }

        /// The fields.
        pub static FIELDS: &[Field] = &[$(field(
            stringify!($name),
            concat!($($doc, "\n"),+),
            $uses,
            Row::$name,
            |row| row.$name().value(),
        )),*];

        /// The fields of a line, absent if the line lacks them or nothing reads them.
        #[derive(Debug, Default)]
        pub struct Metadata<$r> {
            $(pub $name: Option<<$type as FieldType<$r>>::Read>,)*
        }

        impl<'de: $r, $r> Deserialize<'de> for Metadata<$r> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Members<$r>(PhantomData<&$r ()>);

                impl<'de: $r, $r> Visitor<'de> for Members<$r> {
                    type Value = Metadata<$r>;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("the metadata of a record")
                    }

                    fn visit_map<A: MapAccess<'de>>(
                        self,
                        mut members: A,
                    ) -> Result<Self::Value, A::Error> {
                        let mut found = Metadata::default();
                        while let Some(Text(name)) = members.next_key()? {
                            match &*name {
                                $(stringify!($name) if const { $uses.is_read } => {
                                    if found.$name.is_some() {
                                        return Err(A::Error::duplicate_field(stringify!($name)));
                                    }
                                    found.$name = members.next_value()?;
                                })*
                                _ => {
                                    let IgnoredAny = members.next_value()?;
                                }
                            }
                        }
                        $(if const { $uses.is_needed } && found.$name.is_none() {
                            return Err(A::Error::missing_field(stringify!($name)));
                        })*
                        Ok(found)
                    }
                }

                deserializer.deserialize_map(Members(PhantomData))
            }
        }
    };
}

fields! { 'r, row;
    /// Number of the session over the whole run.
    session_num: u64,
        LINE.column(10).read().attribute(attribute::AIPERF_SESSION_NUMBER),
        row.measured.record.turn.session;
    /// The `X-Request-ID` header, a UUID.
    x_request_id: Id,
        LINE.column(20).read().attribute(attribute::AIPERF_REQUEST_ID),
        Id(row.measured.record.request_id);
    /// The `X-Correlation-ID` header, a UUID, the same for all turns of a session.
    x_correlation_id: Id,
        LINE.column(30).read().attribute(attribute::GEN_AI_CONVERSATION_ID),
        Id(row.measured.record.correlation_id);
    /// ID of the conversation in the dataset.
    conversation_id: Text<'r>,
        LINE.column(40).read(),
        row.conversation_id.into();
    /// Index of the turn in the conversation, from 0.
    turn_index: usize,
        LINE.column(50).read().attribute(attribute::AIPERF_TURN_INDEX),
        row.measured.record.turn.turn;
    /// Number of conversations above its own, if conversations start others.
    agent_depth: Option<u32>,
        LINE.column(60).read(),
        row.measured.record.ancestry.map(|ancestry| ancestry.depth);
    /// The `X-Correlation-ID` of the conversation that started its own. Absent for the root.
    parent_correlation_id: Option<Id>,
        LINE.read().attribute(attribute::AIPERF_CONVERSATION_PARENT),
        row.measured.record.ancestry.filter(|place| place.depth > 0).map(|place| Id(place.parent));
    /// The `X-Correlation-ID` of the conversation that the session began with.
    root_correlation_id: Option<Id>,
        LINE.read(),
        row.measured.record.ancestry.map(|ancestry| Id(ancestry.root));
    /// The lane that sent it, from 0, if lanes replay traces (`--agentic`).
    lane: Option<u32>,
        LINE.column(70),
        row.measured.record.lane;
    /// What it waited for after its delay: `join`, the end of sub-agents, or `barrier`, requests that had
    /// ended before it in the trace.
    held_by: Option<Text<'r>>,
        LINE.column(80),
        row.measured.record.held_by.map(|hold: Hold| hold.name().into());
    /// The tenant that sent it, if tenants share the load (`--tenants`).
    tenant: Option<Text<'r>>,
        LINE.column(90).read(),
        row.measured.record.tenant.as_deref().map(Text::from);
    /// Whether the conversation ended with the turn; absent for a conversation of one turn.
    is_final_turn: Option<bool>,
        LINE.read(),
        row.measured.agent.as_ref().map(|call| call.is_last);
    /// Number of conversations that the turn starts.
    children_started: Count,
        LINE.read(),
        Count(row.measured.agent.as_ref().map_or(0, |call| call.children));
    /// How long after the response before it the dataset sends the turn.
    turn_delay_ns: Option<u64>,
        LINE.read(),
        row.measured.agent.as_ref().map(|call| call.delay.0).filter(|delay| *delay > 0);
    /// When the request was issued.
    credit_issued_ns: u64,
        LINE.column(130),
        row.wall(row.measured.record.issued);
    /// When the request was started: handed to the transport.
    request_start_ns: u64,
        LINE.column(140).needed(),
        row.measured.observation.start_wall_ns;
    /// When the response headers were complete.
    request_ack_ns: Option<u64>,
        LINE.column(160),
        row.measured.record.ack.map(|at| row.wall(at));
    /// When the request ended.
    request_end_ns: u64,
        LINE.column(170).needed(),
        row.wall(row.measured.record.end);
    /// The worker that sent it.
    worker_id: Text<'r>,
        LINE.column(180),
        format!("worker_{}", row.measured.record.worker).into();
    /// Always `record_processor_0`.
    record_processor_id: Text<'r>,
        LINE,
        "record_processor_0".into();
    /// The kind of its phase: `warmup` or `profiling`.
    benchmark_phase: PhaseKind,
        LINE.column(190).needed(),
        row.measured.record.phase;
    /// Index of the phase in the run, from 0.
    phase_index: u32,
        LINE.column(200).read(),
        row.measured.record.phase_index;
    /// Index of the phase among those that are measured, from 0.
    profiling_index: Option<u32>,
        LINE,
        row.phase().1;
    /// The name of the phase.
    phase_name: Text<'r>,
        LINE.column(210),
        row.phase().0.into();
    /// The same as `benchmark_phase`.
    phase_kind: PhaseKind,
        LINE,
        row.measured.record.phase;
    /// Whether the client cancelled the request.
    was_cancelled: bool,
        LINE.column(220),
        row.measured.record.cancelled_at.is_some();
    /// When the request was cancelled.
    cancellation_time_ns: Option<u64>,
        LINE,
        row.measured.record.cancelled_at.map(|at| row.wall(at));
    /// When the schedule wanted the request to be sent.
    request_due_ns: Option<u64>,
        LINE.column(120).read(),
        row.measured.record.due.map(|at| row.wall(at));
    /// Just before the first byte was written.
    request_sent_ns: Option<u64>,
        LINE.column(150),
        row.measured.record.sent.map(|at| row.wall(at));
    /// Limit on the output that the request asked for.
    requested_output_tokens: Option<u64>,
        LINE.column(230).read(),
        row.measured.observation.requested_output_tokens;
    /// Why the output ended, as the server reports it; several different reasons of several choices
    /// are separated by commas.
    finish_reason: Option<Text<'r>>,
        LINE.column(240).read(),
        name_counts::joined(&row.measured.response.finish_reasons).map(Text::from);
    /// What is unusual about how the response has its content and its counts, such as `usage_decreased`
    /// or `text_in:delta.thinking[].text`; several are separated by commas.
    response_notes: Option<Text<'r>>,
        LINE.column(250).read(),
        name_counts::joined(&row.measured.response.notes).map(Text::from);
    /// What is wrong with the output, such as `repetition`; several faults are separated by commas.
    output_faults: Option<Text<'r>>,
        LINE.column(252).read().attribute(attribute::AIPERF_OUTPUT_FAULT),
        row.measured.observation.output.faults.names().map(Text::from);
    /// The number of the canary, from 1, if the request is one.
    canary: Option<u32>,
        LINE.column(254).read(),
        row.canary_answer().map(|canary| canary.number);
    /// Tokens that the answer to the canary has in common with the beginning of the most similar answer of
    /// the idle server.
    canary_common_tokens: Option<u32>,
        LINE.column(256).read(),
        row.canary_answer().and_then(|canary| canary.common_tokens);
    /// Tokens of the answer to the canary, if it differs from each answer of the idle server.
    canary_differing_tokens: Option<u32>,
        LINE.column(258).read(),
        row.canary_answer().and_then(|canary| canary.differing_tokens);
    /// Number of earlier responses of the session that the request lacks because their turns failed.
    missing_answers: Count,
        LINE.read(),
        Count(row.measured.observation.missing_answers);
    /// Number of retries because a reused connection was dead.
    retry_count: Count,
        LINE.column(260).read().attribute(attribute::HTTP_REQUEST_RESEND_COUNT),
        Count(row.measured.record.retry_count);
    /// How long after its start the client could have sent the request but did not.
    send_delay_ns: u64,
        LINE.read(),
        row.errors.send_delay;
    /// How long after it could have the client started the request.
    late_ns: Option<u64>,
        LINE.read(),
        row.errors.late;
    /// How much earlier than its timestamp the first content event may have arrived because of the
    /// client.
    first_content_uncertainty_ns: Count,
        LINE.read(),
        Count(row.errors.first_content_uncertainty);
    /// The same for the last content event.
    last_content_uncertainty_ns: Count,
        LINE.read(),
        Count(row.errors.last_content_uncertainty);
    /// The same for the end of the response.
    end_uncertainty_ns: Count,
        LINE.read(),
        Count(row.errors.end_uncertainty);
    /// How long after the last content event the response's last event arrived.
    end_gap_ns: Option<u32>,
        LINE.read(),
        row.errors.end_gap;
    /// The model that the request names.
    model: Text<'r>,
        LINE.column(100).read(),
        (&*row.measured.record.model).into();
    /// Where the request was sent.
    url: Text<'r>,
        LINE.column(110).read(),
        (&*row.measured.record.url).into();
    /// The dialect of the request, such as `chat`.
    endpoint_type: Text<'r>,
        LINE,
        row.endpoint_type.into();
    /// The worker that answered.
    server_worker_id: Option<Text<'r>>,
        LINE.column(270).read(),
        row.server().and_then(|server| server.worker.as_deref()).map(Text::from);
    /// The server whose way of reporting times the response has, such as `vllm`.
    server_timing_family: Option<Text<'r>>,
        LINE.column(280),
        row.server().filter(|server| server.has_times()).map(|server| server.family.into());
    /// Where it reports them: `body` or `headers`.
    server_timing_source: Option<Text<'r>>,
        LINE.column(290),
        row.server().filter(|server| server.has_times()).map(|server| server.source.name().into());
    /// Times in the header `Server-Timing` that are not those of a known stage, by name, in
    /// milliseconds.
    server_timing_other: Times<'r>,
        LINE,
        Times::from_nanos(row.server().map(|server| &*server.other).unwrap_or_default());
    /// The status code of the response.
    response_status_code: Option<u32>,
        table(300).attribute(attribute::HTTP_RESPONSE_STATUS_CODE),
        row.measured.record.status.map(u32::from);
    /// Source of the timestamps of reads.
    clock: Option<Text<'r>>,
        table(310),
        row.measured.record.trace.clock().map(|clock| clock.as_str().into());
    /// Maximum delay between the arrival of data and their read.
    max_read_lag_ns: Option<u32>,
        table(320),
        row.measured.record.body.max_read_lag();
    /// Maximum time by which data may have arrived earlier than recorded.
    max_uncertainty_ns: Option<u32>,
        table(330),
        row.measured.record.body.max_uncertainty();
    /// The status code of a failure.
    error_code: Option<u32>,
        table(340),
        row.error().and_then(|error| error.code).map(u32::from);
    /// The name of a failure.
    error_type: Option<Text<'r>>,
        table(350),
        row.error().map(|error| (&*error.name).into());
    /// The message of a failure.
    error_message: Option<Text<'r>>,
        table(360),
        row.error().map(|error| (&*error.message).into());
    /// The arrival of each content event, in milliseconds since the request's start.
    content_arrival_ms: Vec<f64>,
        table(370),
        content_arrivals(row.measured);
}

fn content_arrivals(measured: &MeasuredRecord) -> Vec<f64> {
    let start = measured.record.start;
    let pieces = &measured.response.content;
    pieces.iter().map(|piece| piece.arrival.at.since(start).as_millis()).collect()
}
