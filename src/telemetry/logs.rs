//! Exports events as log records: what happens to the run, its verdicts, and failed requests.
//!
//! They contain neither prompts nor outputs nor the server's error messages, which may repeat the
//! prompt.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceResponse;
use opentelemetry_proto::tonic::common::v1::{AnyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};
use opentelemetry_proto::transform::common::tonic::Attributes;
use serde::{Deserialize, Serialize};

use base::interrupt::Interrupt;
use base::lock::Lock;
use base::semconv::{Conventions, attribute, event};
use base::units::{Clock, Nanos};
use client::record::{ErrorKind, RequestRecord, TraceContext, TraceShare};
use client::schedule::PhaseStats;
use measure::metrics::ClientHealth;
use measure::metrics::health::{LoadHealth, LoadVerdict, OutputHealth, Verdict};
use measure::metrics::metric::MeasuredRecord;
use measure::metrics::steady::SteadyState;
use measure::server_metrics::Scrape;
use measure::server_metrics::scrape::Endpoint;

use super::attributes::{Interner, address};
use super::connection::Connection;
use super::gates::GateResult;
use super::outbox::{Head, Item, Outbox};
use super::servers::{ServerEvent, ServerWatch};
use super::traces::{Lifecycle, failure_text, identity_of_phase, phase_attributes};
use super::{Config, Identity};

/// Limits of what waits.
const BOUNDS: (usize, u64) = (4 * 1024 * 1024, 5_000);

/// Maximum number of failed requests of a run with an event, as with traces.
const MAX_FAILURES: u64 = 1_000;

/// The outcome of exporting events to the collector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct LogsReport {
    /// Number of events that the collector accepted.
    pub sent: u64,
    /// Number of events that it reported as rejected.
    pub rejected: u64,
    /// Number of events that did not reach it.
    pub lost: u64,
    /// Whether the collector does not accept logs; nothing more was sent then.
    pub is_unsupported: bool,
    /// Number of failed requests without an event because there were too many.
    pub failures_left_out: u64,
}

/// Creates events and sends them.
pub(super) struct Logs {
    outbox: Outbox,
    clock: Clock,
    /// The trace of the run, if it is exported.
    lifecycle: Option<Arc<Lifecycle>>,
    /// The sampled requests, if requests have a trace context.
    share: Option<TraceShare>,
    load: String,
    /// The names of the phases, if several are measured.
    phases: Vec<Arc<str>>,
    state: Lock<State>,
    servers: Lock<ServerWatch>,
}

struct State {
    started: HashSet<u32>,
    ended: HashSet<u32>,
    failures: u64,
    failures_left_out: u64,
    interner: Interner,
}

/// The trace and the span that an event belongs to.
#[derive(Clone, Copy)]
struct SpanLink {
    context: TraceContext,
    is_sampled: bool,
}

impl SpanLink {
    /// Returns the place of a request.
    fn for_request(record: &RequestRecord, share: TraceShare) -> Self {
        let is_sampled = share.covers(record.trace_id);
        Self { context: TraceContext::of_request(record), is_sampled }
    }
}

impl Logs {
    /// Starts exporting events over `connection`, every `interval`, beginning with the start of the
    /// run.
    pub(super) fn start(
        connection: Arc<Connection>,
        (config, identity): (&Config, &Identity),
        lifecycle: Option<Arc<Lifecycle>>,
        resource: (&opentelemetry_sdk::Resource, Conventions),
        interval: Duration,
    ) -> Self {
        let outbox = Outbox::start::<ExportLogsServiceResponse>(
            connection,
            "events",
            Head::new(resource),
            BOUNDS,
            interval,
        );
        let state = State {
            started: HashSet::new(),
            ended: HashSet::new(),
            failures: 0,
            failures_left_out: 0,
            interner: Interner::new(config, identity),
        };
        let logs = Self {
            outbox,
            clock: identity.clock,
            lifecycle,
            share: config.trace_sample.map(|sample| sample.share()),
            load: identity.info.load.clone(),
            phases: identity.phases.clone(),
            state: Lock::new(state),
            servers: Lock::default(),
        };
        logs.of_run(event::AIPERF_RUN_STARTED, "started");
        logs
    }

    /// Emits an event, of which `body` tells in words what its attributes say.
    fn emit(
        &self,
        (name, severity): (&str, SeverityNumber),
        body: String,
        wall_ns: u64,
        place: Option<SpanLink>,
        attributes: Vec<KeyValue>,
    ) {
        let text = if severity == SeverityNumber::Warn { "WARN" } else { "INFO" };
        let (trace_id, span_id, flags) = match place {
            Some(SpanLink { context, is_sampled }) => {
                (context.trace_id.to_vec(), context.span_id.to_vec(), u32::from(is_sampled))
            }
            None => Default::default(),
        };
        let record = LogRecord {
            time_unix_nano: wall_ns,
            observed_time_unix_nano: self.clock.wall_ns(Clock::now()),
            severity_number: severity as i32,
            severity_text: text.to_owned(),
            event_name: name.to_owned(),
            body: Some(AnyValue { value: Some(any_value::Value::StringValue(body)) }),
            attributes: Attributes::from(attributes).0,
            trace_id,
            span_id,
            flags,
            ..LogRecord::default()
        };
        self.outbox.push(Item::new(&[record], 1));
    }

    /// Emits an event of the whole run.
    fn of_run(&self, name: &str, what: &str) {
        let load = KeyValue::new(attribute::AIPERF_RUN_LOAD, self.load.clone());
        self.now((name, SeverityNumber::Info), format!("run {what}: {}", self.load), vec![load]);
    }

    /// Emits an event of the run that happens now.
    fn now(&self, event: (&str, SeverityNumber), body: String, attributes: Vec<KeyValue>) {
        let place =
            self.lifecycle.as_ref().map(|of| SpanLink { context: of.run(), is_sampled: true });
        self.emit(event, body, self.clock.wall_ns(Clock::now()), place, attributes);
    }

    /// Emits the start and the end of a phase, once each.
    pub(super) fn phase(&self, phase: &PhaseStats) {
        let (is_new, has_ended) = {
            let mut state = self.state.lock();
            let has_ended = phase.requests_end.is_some() && state.ended.insert(phase.phase_index);
            (state.started.insert(phase.phase_index), has_ended)
        };
        if is_new {
            // Nothing is known yet but which phase it is.
            let attributes = identity_of_phase(phase, &self.phases).collect();
            let event = (event::AIPERF_PHASE_STARTED, "started".to_owned());
            self.of_phase(event, phase, phase.start, attributes);
        }
        if has_ended {
            let end = phase.requests_end.unwrap_or(phase.now);
            let event =
                (event::AIPERF_PHASE_ENDED, format!("ended: {} requests", phase.requests_sent));
            self.of_phase(event, phase, end, phase_attributes(phase, &self.phases));
        }
    }

    fn of_phase(
        &self,
        (name, what): (&str, String),
        phase: &PhaseStats,
        at: Nanos,
        attributes: Vec<KeyValue>,
    ) {
        let label = self.phases.get(phase.phase_index as usize).map(|label| &**label);
        let body = format!("phase {} {what}", label.unwrap_or(phase.phase.as_str()));
        let context = self.lifecycle.as_ref().map(|of| of.phase(phase.phase_index));
        let place = context.map(|context| SpanLink { context, is_sampled: true });
        self.emit((name, SeverityNumber::Info), body, self.clock.wall_ns(at), place, attributes);
    }

    /// Emits an event for a failed request. Those that the run itself cancelled have not failed.
    pub(super) fn observe(&self, measured: &MeasuredRecord) {
        let Some(error) = measured.observation.error.as_ref() else { return };
        if error.kind == ErrorKind::Cancelled {
            return;
        }
        let mut state = self.state.lock();
        if state.failures == MAX_FAILURES {
            state.failures_left_out += 1;
            return;
        }
        state.failures += 1;
        let key = state.interner.key(measured);
        let mut attributes = state.interner.attributes(key);
        drop(state);
        let id = measured.record.request_id;
        attributes.push(KeyValue::new(attribute::AIPERF_REQUEST_ID, id.to_string()));
        attributes.push(KeyValue::new(attribute::EXCEPTION_TYPE, error.kind.as_str()));
        let message = failure_text(&measured.record, error);
        let body = format!("request failed: {message}");
        attributes.push(KeyValue::new(attribute::EXCEPTION_MESSAGE, message));
        let place = self.share.map(|share| SpanLink::for_request(&measured.record, share));
        let event = (event::GEN_AI_CLIENT_OPERATION_EXCEPTION, SeverityNumber::Warn);
        self.emit(event, body, measured.observation.end_wall_ns, place, attributes);
    }

    /// Emits the verdict about the client.
    pub(super) fn health(&self, health: &ClientHealth) {
        let Some(verdict) = health.verdict else { return };
        let mut attributes = vec![KeyValue::new(attribute::AIPERF_VERDICT, verdict.as_str())];
        let findings: Vec<&str> =
            health.reasons.iter().map(|reason| reason.finding.as_str()).collect();
        let mut body = format!("client: {}", verdict.as_str());
        if !findings.is_empty() {
            body = format!("{body} ({})", findings.join("; "));
            attributes.push(KeyValue::new(attribute::AIPERF_CLIENT_FINDING, findings.join("; ")));
        }
        let is_fine = verdict == Verdict::Valid;
        self.now((event::AIPERF_CLIENT_JUDGED, severity(is_fine)), body, attributes);
    }

    /// Emits the verdict about the load.
    pub(super) fn load_health(&self, health: &LoadHealth) {
        let body = format!("load: {}", health.verdict.as_str());
        let verdict = KeyValue::new(attribute::AIPERF_VERDICT, health.verdict.as_str());
        let is_fine = health.verdict == LoadVerdict::Sustained;
        self.now((event::AIPERF_LOAD_JUDGED, severity(is_fine)), body, vec![verdict]);
    }

    /// Emits the verdict about the outputs.
    pub(super) fn output_health(&self, health: &OutputHealth) {
        let Some(verdict) = health.verdict else { return };
        let mut attributes = vec![KeyValue::new(attribute::AIPERF_VERDICT, verdict.as_str())];
        let faults = health
            .names_of_reasons()
            .map(|names| KeyValue::new(attribute::AIPERF_OUTPUT_FAULT, names));
        attributes.extend(faults);
        let is_fine = verdict == Verdict::Valid;
        self.now(
            (event::AIPERF_OUTPUT_JUDGED, severity(is_fine)),
            format!("outputs: {health}"),
            attributes,
        );
    }

    /// Emits that a steady state was found.
    pub(super) fn steady_state(&self, steady: &SteadyState) {
        let attributes = vec![
            KeyValue::new(
                attribute::AIPERF_STEADY_STATE_REQUESTS,
                steady.request_count.cast_signed(),
            ),
            KeyValue::new(attribute::AIPERF_STEADY_STATE_SHARE, steady.request_share),
        ];
        let body = format!("steady state found: {} requests", steady.request_count);
        self.now((event::AIPERF_STEADY_STATE_FOUND, SeverityNumber::Info), body, attributes);
    }

    /// Emits a warning about the results.
    pub(super) fn warning(&self, [name, title, level]: [&'static str; 3], summary: Option<&str>) {
        let mut attributes = vec![
            KeyValue::new(attribute::AIPERF_WARNING_NAME, name),
            KeyValue::new(attribute::AIPERF_WARNING_TITLE, title),
            KeyValue::new(attribute::AIPERF_WARNING_LEVEL, level),
        ];
        let body = summary.map_or_else(|| title.to_owned(), |text| format!("{title}: {text}"));
        let summary = summary.map(ToOwned::to_owned);
        attributes
            .extend(summary.map(|text| KeyValue::new(attribute::AIPERF_WARNING_SUMMARY, text)));
        self.now((event::AIPERF_WARNING_FOUND, severity(false)), body, attributes);
    }

    /// Emits the result of a gate.
    pub(super) fn gate(&self, gate: &GateResult<'_>) {
        let GateResult { expression, held, value, unit, .. } = *gate;
        let verdict = match held {
            Some(true) => "passed",
            Some(false) => "failed",
            None => "unknown",
        };
        let mut attributes = vec![
            KeyValue::new(attribute::AIPERF_GATE_EXPRESSION, expression.to_owned()),
            KeyValue::new(attribute::AIPERF_VERDICT, verdict),
        ];
        attributes.extend(value.map(|value| KeyValue::new(attribute::AIPERF_GATE_VALUE, value)));
        let unit = Some(unit).filter(|unit| value.is_some() && !unit.is_empty());
        let unit_after = unit.map(|unit| format!(" {unit}")).unwrap_or_default();
        let shown = value.map(|value| format!(" ({value}{unit_after})")).unwrap_or_default();
        let body = format!("gate {expression}: {verdict}{shown}");
        attributes
            .extend(unit.map(|unit| KeyValue::new(attribute::AIPERF_GATE_UNIT, unit.to_owned())));
        self.now((event::AIPERF_GATE_JUDGED, severity(held == Some(true))), body, attributes);
    }

    /// Emits what a scrape reveals about its server.
    pub(super) fn scrape(&self, scrape: &Scrape<'_>) {
        let found = self.servers.lock().answered(scrape);
        for what in found {
            self.of_server(what, scrape.endpoint);
        }
    }

    /// Emits what a failed scrape reveals about its server.
    pub(super) fn scrape_failed(&self, index: usize, endpoint: &Endpoint) {
        let found = self.servers.lock().failed(index);
        if let Some(what) = found {
            self.of_server(what, endpoint);
        }
    }

    fn of_server(&self, what: ServerEvent, endpoint: &Endpoint) {
        let (name, what, is_fine) = match what {
            ServerEvent::Restarted => (event::AIPERF_SERVER_RESTARTED, "restarted", false),
            ServerEvent::Unreachable => {
                (event::AIPERF_SERVER_UNREACHABLE, "does not answer scrapes", false)
            }
            ServerEvent::Reachable => {
                (event::AIPERF_SERVER_REACHABLE, "answers scrapes again", true)
            }
        };
        let attributes = address(&endpoint.url);
        let place = attributes.iter().map(|part| part.value.to_string()).collect::<Vec<_>>();
        let body = format!("server {} {what}", place.join(":"));
        self.now((name, severity(is_fine)), body, attributes);
    }

    /// Emits the end of the run, and ends the input.
    pub(super) fn close(&self) {
        self.of_run(event::AIPERF_RUN_ENDED, "ended");
        self.outbox.close();
    }

    /// Waits until the events are sent, at most until `deadline` and until the user interrupts the
    /// run.
    pub(super) fn finish(&self, deadline: Nanos, interrupt: &Interrupt) -> LogsReport {
        let tally = self.outbox.finish(deadline, interrupt);
        LogsReport {
            sent: tally.sent,
            rejected: tally.rejected,
            lost: tally.lost,
            is_unsupported: tally.is_unsupported,
            failures_left_out: self.state.lock().failures_left_out,
        }
    }
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logs").finish_non_exhaustive()
    }
}

const fn severity(is_fine: bool) -> SeverityNumber {
    if is_fine { SeverityNumber::Info } else { SeverityNumber::Warn }
}
