//! The spans of the run and its phases, in a trace of their own; those of requests have links to
//! them.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::{Span, SpanFlags};
use opentelemetry_proto::transform::common::tonic::Attributes;
use uuid::Uuid;

use base::semconv::{attribute, span};
use base::units::{Clock, Nanos};
use client::record::TraceContext;
use client::schedule::PhaseStats;

use super::super::Identity;
use super::super::attributes::name_of_phase;
use super::parent::Parent;

/// All of these spans are exported.
const SAMPLED: u32 = SpanFlags::ContextHasIsRemoteMask as u32 | 1;

/// The position of the run and its phases in a trace.
pub(crate) struct Lifecycle {
    /// The trace, and the span of the run.
    context: TraceContext,
    /// The span in whose name aiperf was started, such as that of a CI job.
    parent: Option<Parent>,
    clock: Clock,
    started: Nanos,
    load: String,
    /// The names of the phases, if several are measured.
    phases: Vec<Arc<str>>,
}

impl Lifecycle {
    /// Starts the run's span. Without a parent, the trace ID is the run's ID, which all processes
    /// of a run have in common.
    pub(crate) fn start(identity: &Identity, parent: Option<Parent>) -> Self {
        let trace_id = parent.as_ref().map_or(*identity.benchmark_id.as_bytes(), |of| of.trace_id);
        let context = TraceContext { trace_id, ..TraceContext::from_request_id(Uuid::new_v4()) };
        let (clock, load) = (identity.clock, identity.info.load.clone());
        let phases = identity.phases.clone();
        Self { context, parent, clock, started: Clock::now(), load, phases }
    }

    /// Returns the link of a request to its phase.
    pub(super) fn link(&self, phase_index: u32) -> Link {
        Link {
            trace_id: self.context.trace_id.to_vec(),
            span_id: self.of_phase(phase_index).to_vec(),
            flags: SAMPLED,
            ..Link::default()
        }
    }

    /// Returns the context of the run's span.
    pub(crate) const fn run(&self) -> TraceContext {
        self.context
    }

    /// Returns the context of a phase's span.
    pub(crate) fn phase(&self, index: u32) -> TraceContext {
        TraceContext { span_id: self.of_phase(index), ..self.context }
    }

    fn of_phase(&self, index: u32) -> [u8; 8] {
        self.context.child(u8::try_from(index).unwrap_or(u8::MAX))
    }

    /// Returns the spans of the run, which ends now, and of its `phases`.
    pub(super) fn spans(&self, phases: &[PhaseStats]) -> Vec<Span> {
        let run = self.span(span::AIPERF_RUN, self.context.span_id, self.started, Clock::now());
        let is_remote = SpanFlags::ContextIsRemoteMask as u32;
        let run = Span {
            parent_span_id: self.parent.as_ref().map(|of| of.span_id.to_vec()).unwrap_or_default(),
            flags: self.parent.as_ref().map_or(SAMPLED, |_| SAMPLED | is_remote),
            attributes: attributes(vec![KeyValue::new(
                attribute::AIPERF_RUN_LOAD,
                self.load.clone(),
            )]),
            ..run
        };
        let phases = phases.iter().map(|stats| {
            let (start, end) = (stats.start, stats.requests_end.unwrap_or(stats.now));
            let id = self.of_phase(stats.phase_index);
            Span {
                parent_span_id: self.context.span_id.to_vec(),
                attributes: attributes(phase_attributes(stats, &self.phases)),
                ..self.span(span::AIPERF_PHASE, id, start, end)
            }
        });
        std::iter::once(run).chain(phases).collect()
    }

    fn span(&self, name: &str, span_id: [u8; 8], start: Nanos, end: Nanos) -> Span {
        Span {
            trace_id: self.context.trace_id.to_vec(),
            span_id: span_id.to_vec(),
            trace_state: self.parent.as_ref().map(|of| of.state.clone()).unwrap_or_default(),
            flags: SAMPLED,
            name: name.to_owned(),
            kind: SpanKind::Internal as i32,
            start_time_unix_nano: self.clock.wall_ns(start),
            end_time_unix_nano: self.clock.wall_ns(end.max(start)),
            ..Span::default()
        }
    }
}

/// Returns the attributes of a phase: which one it is, and the numbers of its requests.
pub(crate) fn phase_attributes(stats: &PhaseStats, names: &[Arc<str>]) -> Vec<KeyValue> {
    let count = |key, count: u64| KeyValue::new(key, count.cast_signed());
    let counts = [
        count(attribute::AIPERF_PHASE_REQUESTS_SENT, stats.requests_sent),
        count(attribute::AIPERF_PHASE_REQUESTS_COMPLETED, stats.requests_completed),
        count(attribute::AIPERF_PHASE_REQUESTS_CANCELLED, stats.requests_cancelled),
        count(attribute::AIPERF_PHASE_REQUESTS_ERRORS, stats.request_errors),
    ];
    identity_of_phase(stats, names).chain(counts).collect()
}

/// Returns the attributes that say which phase it is: its kind, its index, and its name if it is one of
/// several. `names` are those of all phases.
pub(crate) fn identity_of_phase(
    stats: &PhaseStats,
    names: &[Arc<str>],
) -> impl Iterator<Item = KeyValue> + use<> {
    let index = i64::from(stats.phase_index);
    let which = [
        KeyValue::new(attribute::AIPERF_BENCHMARK_PHASE, stats.phase.as_str()),
        KeyValue::new(attribute::AIPERF_PHASE_INDEX, index),
    ];
    which.into_iter().chain(name_of_phase(names, stats.phase_index as usize))
}

fn attributes(list: Vec<KeyValue>) -> Vec<opentelemetry_proto::tonic::common::v1::KeyValue> {
    Attributes::from(list).0
}
