//! Exports selected requests to the collector as traces.
//!
//! The spans are created from finished records, by the processors: no request waits for them, and
//! their times are those of the files. A share is selected by trace ID in advance, failed requests
//! when they are found, and the slowest at the end of the run. The run and its phases are a trace of
//! their own. Requests of an agent have one trace, below the span of the agent.

mod agents;
mod exchange;
mod lifecycle;
mod parent;
mod slowest;
mod spans;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use serde::{Deserialize, Serialize};

use base::interrupt::Interrupt;
use base::lock::Lock;
use base::semconv::Conventions;
use base::units::Nanos;
use client::record::{ErrorKind, TraceContext, TraceFlags, TraceShare};
use client::schedule::{PhaseKind, PhaseStats};
use measure::metrics::metric::MeasuredRecord;
use measure::metrics::{AgentCall, tag};

use super::agents::Agent;
use super::attributes::Interner;
use super::connection::Connection;
use super::exemplars::Offers;
use super::outbox::{Head, Item, Outbox};
use super::trace_sample::TraceSample;
use super::{Config, Identity};

pub(super) use self::lifecycle::{Lifecycle, identity_of_phase, phase_attributes};
pub(super) use self::parent::Parent;
pub(super) use self::spans::failure_text;

use self::slowest::Slowest;
use self::spans::Context;

/// Maximum size of waiting traces, which is about ten thousand of them.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// Maximum number of waiting traces.
const MAX_TRACES: u64 = 20_000;

/// Maximum number of failed requests of a run that become traces because they failed; a hundred
/// thousand failures with one cause would not be more informative.
const MAX_ERRORS: u64 = 1_000;

/// The outcome of exporting traces to the collector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct TracesReport {
    /// Number of requests that were selected: the sum of `sent` and `lost`.
    pub sampled: u64,
    /// Number of requests whose spans the collector accepted, at least in part.
    pub sent: u64,
    /// Number of spans that it reported as rejected.
    pub rejected: u64,
    /// Number of requests whose spans did not reach it: they were dropped from the full queue, the
    /// collector failed, or the run ended.
    pub lost: u64,
    /// Number of failed requests that were not selected because there were too many.
    pub errors_left_out: u64,
}

/// Creates traces of requests and sends them.
pub(super) struct Traces {
    sample: TraceSample,
    share: TraceShare,
    /// `tracestate` of the traces that the share covers.
    state: String,
    /// Whether trace IDs are marked as random.
    is_random: bool,
    /// `openai.api.type`
    api: Option<&'static str>,
    conventions: Conventions,
    lifecycle: Arc<Lifecycle>,
    chooser: Lock<Chooser>,
    outbox: Outbox,
}

/// Whether a request is exported.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    /// Whether its trace was sampled in advance, as the server knows.
    is_sampled: bool,
    /// Whether it is exported now.
    is_told: bool,
    /// Its latency in nanoseconds, if it may be one of the slowest.
    latency: Option<u64>,
}

impl Choice {
    /// Returns what becomes of the values of this request by the trace-based filter.
    pub(super) fn offers(&self, measured: &MeasuredRecord) -> Offers {
        let context = TraceContext::of_request(&measured.record);
        match self.latency {
            _ if self.is_told => Offers::now(context),
            Some(_) => Offers::Later(context, Vec::new()),
            None => Offers::None,
        }
    }
}

/// The data needed to select and describe requests.
struct Chooser {
    interner: Interner,
    slowest: Option<Slowest<(Item, Offers)>>,
    errors: u64,
    errors_left_out: u64,
}

impl Traces {
    /// Starts exporting traces over `connection`, every `interval` or when there are many.
    pub(super) fn start(
        connection: Arc<Connection>,
        sample: TraceSample,
        (config, identity): (&Config, &Identity),
        lifecycle: Arc<Lifecycle>,
        resource: (&opentelemetry_sdk::Resource, Conventions),
        interval: Duration,
    ) -> Self {
        let outbox = Outbox::start::<ExportTraceServiceResponse>(
            connection,
            "request traces",
            Head::new(resource),
            (MAX_BYTES, MAX_TRACES),
            interval,
        );
        let chooser = Chooser {
            interner: Interner::new(config, identity),
            slowest: sample.slowest.map(|count| Slowest::new(count as usize)),
            errors: 0,
            errors_left_out: 0,
        };
        let chooser = Lock::new(chooser);
        let share = sample.share();
        let state = share.tracestate().unwrap_or_default();
        let is_random = config.trace_random_flag;
        let api = match identity.endpoint_type.traits().name {
            "chat" => Some("chat_completions"),
            "responses" => Some("responses"),
            _ => None,
        };
        let (_, conventions) = resource;
        Self { sample, share, state, is_random, api, conventions, lifecycle, chooser, outbox }
    }

    /// Decides whether a finished request is exported.
    pub(super) fn choose(&self, measured: &MeasuredRecord) -> Choice {
        let is_sampled = self.share.covers(measured.record.trace_id);
        let mut chooser = self.chooser.lock();
        let is_told = is_sampled || self.is_told_as_error(measured, &mut chooser);
        let latency = latency(measured).filter(|latency| {
            chooser.slowest.as_ref().is_some_and(|slowest| slowest.has_place_for(*latency))
        });
        Choice { is_sampled, is_told, latency }
    }

    /// Exports a finished request as was chosen. Never waits for the collector. If it may be one of
    /// the slowest, `offers` become exemplars when it is exported.
    pub(super) fn observe(&self, measured: &MeasuredRecord, choice: Choice, offers: Offers) {
        let Choice { is_sampled, is_told, latency } = choice;
        if !is_told && latency.is_none() {
            return;
        }
        let mut chooser = self.chooser.lock();
        let context = Context {
            flags: TraceFlags { is_sampled, is_random: self.is_random },
            state: if is_sampled { &self.state } else { "" },
            phase: self.lifecycle.link(measured.record.phase_index),
            // The agent is only exported with all of its requests.
            is_below_agent: is_sampled
                && AgentCall::of_work(measured).is_some()
                && measured.record.trace_id != measured.record.request_id,
            api: self.api,
            conventions: self.conventions,
        };
        let trace = Item::new(&spans::request_spans(measured, &mut chooser.interner, &context), 1);
        let trace = if is_told {
            self.outbox.push(trace);
            None
        } else {
            Some((trace, offers))
        };
        if let Some((latency, slowest)) = latency.zip(chooser.slowest.as_mut()) {
            slowest.put(latency, trace);
        }
    }

    /// Returns whether the request is exported because it failed. Requests that were cancelled by
    /// the run itself are not.
    fn is_told_as_error(&self, measured: &MeasuredRecord, chooser: &mut Chooser) -> bool {
        let error = measured.observation.error.as_ref();
        let failed = error.is_some_and(|error| error.kind != ErrorKind::Cancelled);
        if !self.sample.errors || !failed {
            return false;
        }
        if chooser.errors == MAX_ERRORS {
            chooser.errors_left_out += 1;
            return false;
        }
        chooser.errors += 1;
        true
    }

    /// Returns whether the agents of this trace are exported.
    pub(super) fn covers(&self, agent: &Agent) -> bool {
        self.share.covers(agent.trace_id)
    }

    /// Exports the spans of an agent that has ended, if its trace is exported.
    pub(super) fn agent(&self, agent: &Agent) {
        if self.covers(agent) {
            let phase = self.lifecycle.link(agent.phase_index);
            let spans = agents::agent_spans(agent, self.is_random, &self.state, phase);
            self.outbox.push(Item::new(&spans, 0));
        }
    }

    /// Returns the trace of the run.
    pub(super) fn lifecycle(&self) -> Arc<Lifecycle> {
        Arc::clone(&self.lifecycle)
    }

    /// Exports the spans of the run and of its `phases`, which have ended.
    pub(super) fn run_ended(&self, phases: &[PhaseStats]) {
        self.outbox.push(Item::new(&self.lifecycle.spans(phases), 0));
    }

    /// Returns the number of requests so far whose spans will not reach the collector.
    pub(super) fn lost(&self) -> u64 {
        self.outbox.lost()
    }

    /// Ends the input: the slowest requests are known, and waiting traces are sent.
    pub(super) fn close(&self) {
        let slowest = self.chooser.lock().slowest.take();
        for (trace, offers) in slowest.into_iter().flat_map(Slowest::untold) {
            self.outbox.push(trace);
            offers.redeem();
        }
        self.outbox.close();
    }

    /// Waits until the remaining traces are sent, at most until `deadline` and until the user
    /// interrupts the run, and drops the rest.
    pub(super) fn finish(&self, deadline: Nanos, interrupt: &Interrupt) -> TracesReport {
        self.close();
        let tally = self.outbox.finish(deadline, interrupt);
        TracesReport {
            sampled: tally.given,
            sent: tally.sent,
            rejected: tally.rejected,
            lost: tally.lost,
            errors_left_out: self.chooser.lock().errors_left_out,
        }
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("sample", &self.sample).finish_non_exhaustive()
    }
}

/// Returns the value that determines the slowest requests of the measurement: `request_latency`,
/// which failed requests do not have.
fn latency(measured: &MeasuredRecord) -> Option<u64> {
    let observation = &measured.observation;
    let counts = observation.phase == PhaseKind::Profiling && observation.error.is_none();
    let latency = observation.values.scalar(tag::REQUEST_LATENCY).filter(|_| counts)?;
    Some(latency.round() as u64)
}
