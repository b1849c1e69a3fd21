//! The work of agents: sessions of several requests, and the conversations that these start. Each
//! conversation is an agent's, which calls the model and uses tools between these calls.
//!
//! A conversation is known once all of its requests are, which processors finish in any order; those
//! that the end of the run cuts short are known at the end.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Histogram, Meter};
use uuid::Uuid;

use base::lock::Lock;
use base::semconv::{Definition, MetricSpec, attribute, metric};
use client::record::{ErrorKind, TraceContext};
use client::schedule::PhaseKind;
use measure::metrics::metric::MeasuredRecord;
use measure::metrics::{AgentCall, tag};

use super::attributes::OTHER;
use super::exemplars::{Exemplars, Offers};

/// Maximum number of names of tools; further ones are `_OTHER`.
const MAX_TOOLS: usize = 64;

/// Maximum length of such a name in bytes.
const LONGEST_NAME: usize = 256;

/// Collects the requests of each agent, and records its metrics when it has ended.
pub(super) struct Agents {
    open: Lock<Open>,
    /// The models of the run; a request may name others.
    models: Vec<Arc<str>>,
    instruments: Option<Instruments>,
}

#[derive(Default)]
struct Open {
    /// The agents that have not ended, by conversation.
    agents: HashMap<Uuid, Unfinished>,
    /// The names of tools that were seen.
    tools: HashSet<Arc<str>>,
}

/// An agent that has not ended.
struct Unfinished {
    agent: Agent,
    calls: Vec<Call>,
    first_turn: usize,
    /// The last turn, once it is there.
    last_turn: Option<usize>,
}

/// A request of an agent; times in nanoseconds since the epoch.
struct Call {
    turn: usize,
    request: Uuid,
    start: u64,
    end: u64,
    /// When the request could be sent, since its tools had finished.
    ready: u64,
    tools: Vec<Arc<str>>,
    error: Option<ErrorKind>,
}

/// The work of an agent; times in nanoseconds since the epoch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Agent {
    /// `X-Correlation-ID` of its requests.
    pub(super) conversation: Uuid,
    /// That of the agent that started it.
    pub(super) parent: Option<Uuid>,
    pub(super) trace_id: Uuid,
    pub(super) session: u64,
    pub(super) phase: PhaseKind,
    pub(super) phase_index: u32,
    /// The model of all of its requests; `None` if there are several.
    pub(super) model: Option<Arc<str>>,
    /// Start of the first request.
    pub(super) start: u64,
    /// End of the last one.
    pub(super) end: u64,
    /// The error of its last request, or that the run cut it short.
    pub(super) error: Option<ErrorKind>,
    /// Number of its requests.
    pub(super) inference_calls: u64,
    /// Tokens of its requests, if any of these has some.
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) tools: Vec<ToolUse>,
}

/// The use of a tool: the wait from a response to the request with the tool's result.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ToolUse {
    pub(super) name: Arc<str>,
    pub(super) start: u64,
    pub(super) end: u64,
    /// The request with its result, and its index among the results there.
    pub(super) request: Uuid,
    pub(super) index: usize,
}

impl Agent {
    /// Returns the position of its span.
    pub(super) fn context(&self) -> TraceContext {
        TraceContext::within(self.trace_id, self.conversation)
    }
}

struct Instruments {
    duration: Recorder,
    inference_calls: Recorder,
    tool_calls: Recorder,
    tool_duration: Recorder,
    exemplars: Option<Arc<Exemplars>>,
}

struct Recorder {
    spec: MetricSpec,
    histogram: Histogram<f64>,
}

impl Agents {
    /// Creates the instruments with `meter`, if metrics are exported.
    pub(super) fn new(
        meter: Option<&Meter>,
        models: Vec<Arc<str>>,
        exemplars: Option<Arc<Exemplars>>,
    ) -> Self {
        let instruments = meter.map(|meter| Instruments {
            duration: Recorder::new(meter, &metric::GEN_AI_INVOKE_AGENT_DURATION),
            inference_calls: Recorder::new(meter, &metric::GEN_AI_INVOKE_AGENT_INFERENCE_CALLS),
            tool_calls: Recorder::new(meter, &metric::GEN_AI_INVOKE_AGENT_TOOL_CALLS),
            tool_duration: Recorder::new(meter, &metric::GEN_AI_EXECUTE_TOOL_DURATION),
            exemplars,
        });
        Self { open: Lock::default(), models, instruments }
    }

    /// Adds a finished request; returns its agent if that has ended.
    pub(super) fn observe(&self, measured: &MeasuredRecord) -> Option<Agent> {
        let place = AgentCall::of_work(measured)?;
        let conversation = measured.record.correlation_id;
        let mut open = self.open.lock();
        let Open { agents, tools } = &mut *open;
        let call = Call::from_record(measured, tools);
        let model = self.model(&measured.record.model);
        let agent = agents.entry(conversation).or_insert_with(|| Unfinished {
            agent: Agent::from_first_request(measured, &model),
            calls: Vec::new(),
            first_turn: place.first_turn,
            last_turn: None,
        });
        agent.add(call, &model, measured);
        if place.is_last {
            agent.last_turn = Some(measured.record.turn.turn);
        }
        if !agent.is_whole() {
            return None;
        }
        agents.remove(&conversation).map(Unfinished::end)
    }

    /// Returns the model of a request, as the other metrics of requests have it.
    fn model(&self, name: &str) -> Arc<str> {
        let known = match self.models.as_slice() {
            [only] => Some(only),
            several => several.iter().find(|known| ***known == *name),
        };
        known.map_or_else(|| OTHER.into(), Arc::clone)
    }

    /// Returns the agents that have not ended, at the end of the run.
    pub(super) fn rest(&self) -> Vec<Agent> {
        let rest = std::mem::take(&mut self.open.lock().agents);
        rest.into_values().map(Unfinished::end).collect()
    }

    /// Records the metrics of an agent that has ended. Its values are exemplars if `is_told`.
    pub(super) fn record(&self, agent: &Agent, is_told: bool) {
        let Some(instruments) = &self.instruments else { return };
        let phase = KeyValue::new(attribute::AIPERF_BENCHMARK_PHASE, agent.phase.as_str());
        let model = agent.model.as_ref();
        let model = model.map(|of| KeyValue::new(attribute::GEN_AI_REQUEST_MODEL, of.to_string()));
        let error = agent.error.map(|of| KeyValue::new(attribute::ERROR_TYPE, of.as_str()));
        let of_duration: Vec<_> = [phase.clone()].into_iter().chain(model).chain(error).collect();
        let offers = || if is_told { Offers::now(agent.context()) } else { Offers::None };
        let add = |recorder: &Recorder, value: f64, attributes: &[KeyValue]| {
            recorder.histogram.record(value, attributes);
            if let Some(exemplars) = instruments.exemplars.as_ref().filter(|_| is_told) {
                offers().offer(&exemplars.slot(&recorder.spec, attributes), value);
            }
        };
        add(&instruments.duration, seconds(agent.start, agent.end), &of_duration);
        let phase = std::slice::from_ref(&phase);
        add(&instruments.inference_calls, agent.inference_calls as f64, phase);
        add(&instruments.tool_calls, agent.tools.len() as f64, phase);
        for tool in &agent.tools {
            let name = KeyValue::new(attribute::GEN_AI_TOOL_NAME, tool.name.to_string());
            let attributes = [phase, &[name]].concat();
            add(&instruments.tool_duration, seconds(tool.start, tool.end), &attributes);
        }
    }
}

impl fmt::Debug for Agents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agents").finish_non_exhaustive()
    }
}

impl Recorder {
    fn new(meter: &Meter, definition: &Definition) -> Self {
        let spec = MetricSpec::from(definition);
        let histogram = meter
            .f64_histogram(spec.name.clone())
            .with_unit(spec.unit)
            .with_description(spec.brief)
            .with_boundaries(spec.boundaries.clone())
            .build();
        Self { spec, histogram }
    }
}

impl Agent {
    /// Creates the agent of a request, without any of its requests.
    fn from_first_request(measured: &MeasuredRecord, model: &Arc<str>) -> Self {
        let record = &measured.record;
        Self {
            conversation: record.correlation_id,
            parent: record.ancestry.filter(|of| of.depth > 0).map(|of| of.parent),
            trace_id: record.trace_id,
            session: record.turn.session,
            phase: record.phase,
            phase_index: record.phase_index,
            model: Some(Arc::clone(model)),
            start: u64::MAX,
            end: 0,
            error: None,
            inference_calls: 0,
            input_tokens: None,
            output_tokens: None,
            tools: Vec::new(),
        }
    }
}

impl Unfinished {
    fn add(&mut self, call: Call, model: &str, measured: &MeasuredRecord) {
        let agent = &mut self.agent;
        agent.start = agent.start.min(call.start);
        agent.end = agent.end.max(call.end);
        agent.inference_calls += 1;
        agent.model.take_if(|own| **own != *model);
        let tokens = |sum: &mut Option<u64>, tag| {
            if let Some(count) = measured.observation.values.scalar(tag) {
                *sum = Some(sum.unwrap_or(0) + count.round() as u64);
            }
        };
        tokens(&mut agent.input_tokens, tag::INPUT_SEQUENCE_LENGTH);
        tokens(&mut agent.output_tokens, tag::OUTPUT_SEQUENCE_LENGTH);
        self.calls.push(call);
    }

    /// Returns whether all requests up to the last one are there.
    fn is_whole(&self) -> bool {
        let count = |last: usize| (last + 1).saturating_sub(self.first_turn);
        self.last_turn.is_some_and(|last| self.calls.len() == count(last))
    }

    /// Returns the agent, which has ended or was cut short.
    fn end(mut self) -> Agent {
        let is_whole = self.is_whole();
        self.calls.sort_by_key(|call| call.turn);
        let failure = self.calls.last().and_then(|last| last.error);
        let mut agent = self.agent;
        agent.error = failure.or_else(|| (!is_whole).then_some(ErrorKind::Cancelled));
        // The tools of the first request that is there ran before it.
        let mut answered = None;
        for call in self.calls {
            let start = answered.unwrap_or(call.start);
            let end = call.ready.clamp(start.min(call.start), call.start).max(start);
            let uses = call.tools.into_iter().enumerate();
            let request = call.request;
            agent.tools.extend(uses.map(|(index, name)| ToolUse {
                name,
                start,
                end,
                request,
                index,
            }));
            answered = Some(call.end);
        }
        agent
    }
}

impl Call {
    fn from_record(measured: &MeasuredRecord, known: &mut HashSet<Arc<str>>) -> Self {
        let (record, observation) = (&measured.record, &measured.observation);
        let start = observation.start_wall_ns;
        let tools = measured.agent.iter().flat_map(|place| &place.tools);
        Self {
            turn: record.turn.turn,
            request: record.request_id,
            start,
            end: observation.end_wall_ns,
            ready: start.saturating_sub(record.start.since(record.free_from).0),
            tools: tools.map(|name| tool(name.as_ref(), known)).collect(),
            error: observation.error.as_ref().map(|error| error.kind),
        }
    }
}

/// Returns the name of a tool, or `_OTHER` if it is not known or there are too many.
fn tool(name: Option<&Arc<str>>, known: &mut HashSet<Arc<str>>) -> Arc<str> {
    let Some(name) = name.filter(|name| !name.is_empty() && name.len() <= LONGEST_NAME) else {
        return OTHER.into();
    };
    if !known.contains(name) {
        if known.len() == MAX_TOOLS {
            return OTHER.into();
        }
        known.insert(Arc::clone(name));
    }
    Arc::clone(name)
}

fn seconds(start: u64, end: u64) -> f64 {
    end.saturating_sub(start) as f64 / 1e9
}

#[cfg(test)]
mod tests;
