//! The spans of a request: everything in its record about where the time was spent.
//!
//! They contain neither prompts nor outputs nor the server's error messages, which may repeat the
//! prompt; these are in the files.

use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, SpanFlags, Status};
use opentelemetry_proto::transform::common::tonic::Attributes;

use base::semconv::{Conventions, attribute, span};
use base::units::Nanos;
use client::record::{HttpTrace, RequestError, RequestRecord, TraceContext, TraceFlags};
use client::schedule::config::PhaseLabels;
use measure::metrics::fields::{FIELDS, FieldValue, Row};
use measure::metrics::metric::MeasuredRecord;
use measure::metrics::tag;

use super::super::attributes::Interner;
use super::exchange::{self, Asked, Stated, named};

/// Maximum length in bytes of names from the server, such as its model; a longer value is not a
/// name.
pub(super) const LONGEST_NAME: usize = 256;

/// The position of a request's spans.
pub(super) struct Context<'a> {
    /// The flags that the server received in `traceparent`.
    pub(super) flags: TraceFlags,
    /// The `tracestate` with the probability of a sampled trace.
    pub(super) state: &'a str,
    /// The link to the span of its phase.
    pub(super) phase: Link,
    /// Whether it is below the span of its agent, and not the root of its trace.
    pub(super) is_below_agent: bool,
    /// `openai.api.type`
    pub(super) api: Option<&'static str>,
    /// The conventions whose names its attributes have.
    pub(super) conventions: Conventions,
}

/// Returns the spans of a request, beginning with that of the whole request.
pub(super) fn request_spans(
    measured: &MeasuredRecord,
    interner: &mut Interner,
    context: &Context<'_>,
) -> Vec<Span> {
    let key = interner.key(measured);
    let shared = interner.attributes(key);
    let maker = SpanBuilder {
        context: TraceContext::of_request(&measured.record),
        flags: SpanFlags::ContextHasIsRemoteMask as u32 | u32::from(context.flags.bits()),
        of: context,
        measured,
    };
    let mut spans = vec![maker.request(shared)];
    spans.extend(maker.phases());
    spans
}

struct SpanBuilder<'a> {
    context: TraceContext,
    flags: u32,
    of: &'a Context<'a>,
    measured: &'a MeasuredRecord,
}

/// A phase of the exchange.
struct Phase {
    name: &'static str,
    start: Option<Nanos>,
    /// The end; absent if the exchange failed in this phase.
    end: Option<Nanos>,
    /// Index of the parent phase in the list; `None` if the parent is the request.
    within: Option<u8>,
    attributes: Vec<KeyValue>,
}

impl Phase {
    const fn new(name: &'static str, start: Option<Nanos>, end: Option<Nanos>) -> Self {
        Self { name, start, end, within: None, attributes: Vec::new() }
    }
}

impl SpanBuilder<'_> {
    /// Returns nanoseconds since the epoch, as in the files: all times of a record have the same
    /// distance from its start as on the monotonic clock.
    fn wall_ns(&self, at: Nanos) -> u64 {
        let (start, wall) = (self.measured.record.start, self.measured.observation.start_wall_ns);
        wall.saturating_add(at.0).saturating_sub(start.0)
    }

    fn span(&self, name: String, span_id: [u8; 8], start: Nanos, end: Nanos) -> Span {
        Span {
            trace_id: self.context.trace_id.to_vec(),
            span_id: span_id.to_vec(),
            trace_state: self.of.state.to_owned(),
            flags: self.flags,
            name,
            kind: SpanKind::Internal as i32,
            start_time_unix_nano: self.wall_ns(start),
            end_time_unix_nano: self.wall_ns(end.max(start)),
            ..Span::default()
        }
    }

    /// Returns the span of the whole request.
    fn request(&self, shared: Vec<KeyValue>) -> Span {
        let record = &self.measured.record;
        let error = self.measured.observation.error.as_ref();
        let attributes = self.attributes(shared);
        let span = self.span(name(&attributes), self.context.span_id, record.start, record.end);
        let agent = TraceContext::within(record.trace_id, record.correlation_id);
        Span {
            parent_span_id: agent
                .span_id
                .iter()
                .copied()
                .filter(|_| self.of.is_below_agent)
                .collect(),
            kind: SpanKind::Client as i32,
            attributes: Attributes::from(attributes).0,
            events: self.events(),
            links: vec![self.of.phase.clone()],
            status: error.map(|error| failed(record, error)),
            ..span
        }
    }

    /// Returns the arrivals of the first and the last content event of a stream.
    fn events(&self) -> Vec<Event> {
        let content = &self.measured.response.content;
        let ends = [
            (span::AIPERF_FIRST_TOKEN, content.first()),
            (span::AIPERF_LAST_TOKEN, content.last()),
        ];
        let event = |(name, piece): (&str, Option<&client::endpoint::ContentPiece>)| {
            let time_unix_nano = self.wall_ns(piece?.arrival.at);
            Some(Event { time_unix_nano, name: name.to_owned(), ..Event::default() })
        };
        let is_stream = self.measured.record.body.is_event_stream;
        ends.into_iter().filter(|_| is_stream).filter_map(event).collect()
    }

    /// Returns a span for each phase that was begun; a phase in which the exchange failed ends at
    /// the failure.
    fn phases(&self) -> impl Iterator<Item = Span> {
        let trace = &self.measured.record.trace;
        let numbered = (0_u8..).zip(phases(trace));
        numbered.filter_map(|(index, phase)| {
            let start = phase.start?;
            let end = phase.end.or(trace.error_at)?;
            let span = self.span(phase.name.to_owned(), self.context.child(index), start, end);
            let parent = phase.within.map_or(self.context.span_id, |of| self.context.child(of));
            let error = self.measured.observation.error.as_ref();
            Some(Span {
                parent_span_id: parent.to_vec(),
                attributes: Attributes::from(phase.attributes).0,
                status: error
                    .filter(|_| phase.end.is_none())
                    .map(|error| failed(&self.measured.record, error)),
                ..span
            })
        })
    }

    fn attributes(&self, shared: Vec<KeyValue>) -> Vec<KeyValue> {
        let MeasuredRecord { record, observation, response, .. } = self.measured;
        let scalar = |tag| observation.values.scalar(tag);
        let mut list = shared;
        // Unlike a metric, a trace can contain every name of reasonable length.
        list.retain(|pair| pair.key.as_str() != attribute::GEN_AI_RESPONSE_MODEL);
        let mut put = |key: &'static str, value: Option<opentelemetry::Value>| {
            list.extend(value.map(|value| KeyValue::new(key, value)));
        };
        let phases = PhaseLabels::default();
        let row = Row::of_request(self.measured, &phases);
        for field in FIELDS {
            let Some(name) = field.uses.attribute else { continue };
            put(name, attribute_value((field.value)(&row)));
        }
        let latency = scalar(tag::REQUEST_LATENCY).filter(|_| observation.error.is_none());
        put(attribute::AIPERF_REQUEST_LATENCY, latency.map(|ns| (ns / 1e9).into()));
        let slip = record.due.map(|due| record.start.since(due).as_seconds().into());
        put(attribute::AIPERF_REQUEST_SLIP, slip);

        let trace = &record.trace;
        let had_connection = trace.reused.is_some() || trace.connect_end.is_some();
        let reused = had_connection.then(|| trace.reused.is_some().into());
        put(attribute::AIPERF_CONNECTION_REUSED, reused);
        put(attribute::NETWORK_PEER_ADDRESS, trace.remote_addr.map(|at| text(&at.ip())));
        put(attribute::NETWORK_PEER_PORT, trace.remote_addr.and_then(|at| int(at.port())));

        let asked = Asked::read(&record.payload);
        let limit = observation.requested_output_tokens.map(|tokens| tokens / asked.choices());
        put(attribute::GEN_AI_REQUEST_MAX_TOKENS, limit.and_then(int));
        put(attribute::OPENAI_API_TYPE, self.of.api.map(Into::into));

        put(attribute::GEN_AI_RESPONSE_MODEL, response.model.as_deref().and_then(named));
        let reasons = response.finish_reasons.iter().map(String::as_str);
        let reasons: Vec<_> = reasons.filter(|reason| reason.len() <= LONGEST_NAME).collect();
        let reasons = (!reasons.is_empty()).then(|| exchange::list(reasons));
        put(attribute::GEN_AI_RESPONSE_FINISH_REASONS, reasons);
        let first = scalar(tag::TIME_TO_FIRST_TOKEN).map(|ns| (ns / 1e9).into());
        put(attribute::GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, first);
        let tokens = |tag| scalar(tag).and_then(|count| int(count.round() as u64));
        put(attribute::GEN_AI_USAGE_INPUT_TOKENS, tokens(tag::INPUT_SEQUENCE_LENGTH));
        put(attribute::GEN_AI_USAGE_OUTPUT_TOKENS, tokens(tag::OUTPUT_SEQUENCE_LENGTH));
        let reasoning = tokens(tag::REASONING_TOKEN_COUNT);
        put(attribute::GEN_AI_USAGE_REASONING_OUTPUT_TOKENS, reasoning);
        if let Some(usage) = &response.usage {
            let (read, written) = (usage.prompt_cache_read_tokens, usage.prompt_cache_write_tokens);
            put(attribute::GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS, read.and_then(int));
            if self.of.conventions.include(Conventions::V1_41) {
                put(attribute::GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS, written.and_then(int));
            }
            if self.of.conventions.include(Conventions::Latest) {
                put(attribute::GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS, written.and_then(int));
                let (heard, said) = (usage.prompt_audio_tokens, usage.completion_audio_tokens);
                put(attribute::GEN_AI_USAGE_AUDIO_INPUT_TOKENS, heard.and_then(int));
                put(attribute::GEN_AI_USAGE_AUDIO_OUTPUT_TOKENS, said.and_then(int));
            }
        }
        list.extend(asked.attributes(self.of.conventions));
        list.extend(Stated::read(&record.body).attributes());
        list
    }
}

/// Returns the phases in the order of their child spans' numbers. Their bounds are those of the
/// durations in the files.
fn phases(trace: &HttpTrace) -> [Phase; 7] {
    const CONNECT: u8 = 2;
    let hit = trace.dns_cache_hit.map(|_| true).or(trace.dns_cache_miss.map(|_| false));
    let hit = hit.map(|hit| KeyValue::new(attribute::AIPERF_DNS_CACHE_HIT, hit));
    let sent = trace.sent();
    [
        Phase::new(span::AIPERF_HTTP_BLOCKED, trace.pool_wait_start, trace.pool_wait_end),
        Phase {
            attributes: hit.into_iter().collect(),
            ..Phase::new(span::AIPERF_HTTP_DNS, trace.dns_start, trace.dns_end)
        },
        Phase::new(span::AIPERF_HTTP_CONNECT, trace.connect_start, trace.connect_end),
        Phase {
            within: Some(CONNECT),
            ..Phase::new(span::AIPERF_HTTP_TLS, trace.tls_start, trace.tls_end)
        },
        Phase::new(span::AIPERF_HTTP_SEND, trace.send_start, sent),
        Phase::new(span::AIPERF_HTTP_WAIT, sent, trace.receive_start),
        Phase::new(
            span::AIPERF_HTTP_RECEIVE,
            trace.receive_start,
            trace.receive_end.filter(|_| trace.error_at.is_none()),
        ),
    ]
}

/// Returns `{gen_ai.operation.name} {gen_ai.request.model}`, as the conventions specify.
fn name(attributes: &[KeyValue]) -> String {
    let value = |key: &str| {
        let pair = attributes.iter().find(|pair| pair.key.as_str() == key);
        pair.map(|pair| pair.value.to_string()).unwrap_or_default()
    };
    let operation = value(attribute::GEN_AI_OPERATION_NAME);
    format!("{operation} {}", value(attribute::GEN_AI_REQUEST_MODEL))
}

fn failed(record: &RequestRecord, error: &RequestError) -> Status {
    Status { message: failure_text(record, error), code: StatusCode::Error as i32 }
}

/// Returns the status and the class of a failure. Without a response, it is the failure's name, which
/// is then not the server's: a reason phrase and the type of an error may repeat the prompt.
pub(crate) fn failure_text(record: &RequestRecord, error: &RequestError) -> String {
    match error.code.or(record.status) {
        Some(code) => format!("{code} {}", error.kind.as_str()),
        None => error.name.chars().take(LONGEST_NAME).collect(),
    }
}

/// Returns the value of a field as an attribute.
fn attribute_value(value: FieldValue<'_>) -> Option<opentelemetry::Value> {
    match value {
        FieldValue::Int(number) => int(number),
        FieldValue::Count(count) => int(count).filter(|_| count > 0),
        FieldValue::Bool(value) => Some(value.into()),
        FieldValue::Text(text) => Some(text.into_owned().into()),
        FieldValue::Id(id) => Some(text(&id)),
        FieldValue::Absent | FieldValue::List(_) | FieldValue::Times(_) => None,
    }
}

fn text(of: &impl ToString) -> opentelemetry::Value {
    of.to_string().into()
}

fn int(of: impl Into<u64>) -> Option<opentelemetry::Value> {
    i64::try_from(of.into()).ok().map(Into::into)
}
