//! OpenTelemetry traces of requests to models (`otel`).
//!
//! Files are read span by span ([`encoding`], [`document`], [`protobuf`]). Of a span that a dialect
//! recognises as a request to a model, its messages and lengths are kept ([`dialect`], [`call`]); of
//! any other only its parent ([`collected`]). The requests of a conversation, or else of a trace, are
//! a session: lines of requests that follow each other, of which some start others ([`lines`]). A
//! line becomes a conversation ([`turns`]).

mod call;
mod collected;
mod dialect;
pub(super) mod document;
pub(super) mod encoding;
mod lines;
mod message;
mod protobuf;
mod span;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};

use base::input::Input;

use self::call::Call;
use self::collected::{ActorPath, Collected, Counts, Session};
use self::turns::{Maker, Remarks};
use super::trace::{TimeUnit, Trace};
use super::{Fault, Loaded};
use crate::account::LeftOut;
use crate::{Conversation, ReplayOutputs, TraceSettings, Turn};

/// Returns whether a line with these members has spans or log records.
pub(super) fn has(members: &Map<String, Value>) -> bool {
    let of_otlp = ["resourceSpans", "resource_spans", "resourceLogs", "batches"];
    let is_jaeger = members.get("data").is_some_and(|data| data[0]["traceID"].is_string());
    let is_flat = members.get("spans").is_some_and(|spans| spans[0]["trace_id"].is_string());
    is_jaeger || is_flat || of_otlp.iter().any(|name| members.contains_key(*name))
}

/// Traces of one or several files.
pub(super) struct Traces<'a> {
    trace: Trace<'a>,
    outputs: ReplayOutputs,
    collected: Collected,
}

/// The requests of a session.
#[derive(Default)]
struct Recorded {
    calls: Vec<Call>,
    places: Vec<ActorPath>,
}

impl<'a> Traces<'a> {
    pub(super) fn new(trace: Trace<'a>, settings: &TraceSettings) -> Self {
        let default =
            if settings.prefers_recorded { ReplayOutputs::Recorded } else { ReplayOutputs::Live };
        let outputs = settings.replay_outputs.unwrap_or(default);
        Self { trace, outputs, collected: Collected::default() }
    }

    /// Reads a file.
    pub(super) fn read(&mut self, input: Input<'_>) -> Result<(), Fault> {
        encoding::read(input, &mut |item| self.collected.add(item))
    }

    /// Returns the sessions in the order of their starts, and what they start after them.
    pub(super) fn finish(self) -> Result<Loaded, Fault> {
        let Self { mut trace, outputs, mut collected } = self;
        collected.complete();
        let places = collected.places();
        let calls = std::mem::take(&mut collected.calls);
        remark_on(&calls, &collected, &mut trace);
        let first = calls.iter().filter(|call| call.is_usable()).map(|call| call.start).min();
        let mut sessions: Vec<(Session, Recorded)> = Vec::new();
        let mut numbers: HashMap<Session, usize> = HashMap::new();
        for (call, place) in calls.into_iter().zip(places) {
            if !is_sent(&call, &mut trace) {
                continue;
            }
            let at = *numbers.entry(place.session).or_insert_with(|| {
                sessions.push((place.session, Recorded::default()));
                sessions.len() - 1
            });
            sessions[at].1.calls.push(call);
            sessions[at].1.places.push(place);
        }
        let remarks = Remarks::default();
        let mut maker = Maker { pool: &collected.pool, trace: &mut trace, outputs, remarks };
        let (mut roots, mut children) = (Vec::new(), Vec::new());
        for (number, (session, Recorded { calls, places })) in sessions.iter().enumerate() {
            let lines = lines::session_lines(calls, places);
            let made = maker.conversations(&lines, calls, number as u64);
            let mut made = made.map_err(|why| Fault::Entry(number + 1, why))?;
            name(&mut made, *session, &collected, number);
            set_time(&mut made, calls, first.unwrap_or(0), maker.trace)?;
            let before = children.len();
            let mut made = made.into_iter();
            roots.extend(made.next().map(|root| (root, before)));
            children.extend(made.map(|child| (child, before)));
        }
        let remarks = maker.remarks;
        remark_on_turns(&remarks, &mut trace);
        Ok(trace.loaded(arranged(roots, children)))
    }
}

/// Returns whether a request is sent again; counts it otherwise.
fn is_sent(call: &Call, trace: &mut Trace<'_>) -> bool {
    let why = if call.has_failed {
        LeftOut::Failed
    } else if !call.is_usable() {
        LeftOut::WithoutPrompt
    } else {
        return call.input_tokens.is_none_or(|tokens| trace.admits(tokens));
    };
    trace.leave_out(why, 1);
    false
}

/// Gives the conversations of a session the name of the recorded one, if it has one.
fn name(made: &mut [Conversation], session: Session, collected: &Collected, number: usize) {
    let base = match session {
        Session::Conversation(name) => collected.pool.text(name),
        Session::Trace(_) => crate::conversation_id(number).into(),
    };
    for (at, conversation) in made.iter_mut().enumerate() {
        conversation.id = match at {
            0 => Arc::clone(&base),
            child => format!("{base}/{child}").into(),
        };
    }
}

/// Gives the first turn of a session its time since the start of all.
fn set_time(
    made: &mut [Conversation],
    calls: &[Call],
    first: u64,
    trace: &Trace<'_>,
) -> Result<(), Fault> {
    let start = calls.first().map_or(first, |call| call.start);
    let seconds = start.saturating_sub(first) as f64 / 1e9;
    let timestamp = trace
        .instant(seconds, TimeUnit::Seconds)
        .map_err(|why| Fault::Setting("--synthesis-speedup-ratio", why))?;
    if let Some(Turn { timestamp: own, .. }) = made.first_mut().and_then(|it| it.turns.first_mut())
    {
        *own = Some(timestamp);
    }
    Ok(())
}

/// Puts the children after all roots. Each has the number of children before its session, from which
/// the indices of its branches follow.
fn arranged(
    roots: Vec<(Conversation, usize)>,
    children: Vec<(Conversation, usize)>,
) -> Vec<Conversation> {
    let count = roots.len();
    let all = roots.into_iter().chain(children);
    let placed = all.map(|(mut conversation, before)| {
        for branch in &mut conversation.branches {
            // In a session, the root is number 0.
            branch.conversation = count + before + branch.conversation - 1;
        }
        conversation
    });
    placed.collect()
}

/// Notes what the spans lack.
fn remark_on(calls: &[Call], collected: &Collected, trace: &mut Trace<'_>) {
    let Counts { repeated_spans, other_requests, recorded_twice, orphans, skewed, cut } =
        collected.counts;
    trace.leave_out(LeftOut::Filtered, other_requests);
    trace.remark(repeated_spans, "spans again, read once");
    trace.remark(recorded_twice, "requests recorded by two spans, sent once");
    trace.remark(cut, "with attributes that were cut or dropped, without their messages");
    trace.remark(orphans, "without their parent span");
    trace.remark(skewed, "started before their parent span, as the clocks differ");
    let count: f64 = calls.iter().map(|call| call.adjusted_count).sum();
    let sampled = calls.iter().filter(|call| call.adjusted_count > 1.0).count() as u64;
    trace.remark(sampled, format!("sampled; all stand for {count:.0} requests"));
    let models: BTreeSet<u32> = calls.iter().filter_map(|call| call.model).collect();
    let mut names: Vec<Arc<str>> = models.iter().map(|model| collected.pool.text(*model)).collect();
    names.sort();
    let words = format!("recorded models ({}), replaced by --model", names.join(", "));
    trace.remark(names.len() as u64, words);
}

/// Notes what the turns have instead of what was recorded.
fn remark_on_turns(remarks: &Remarks, trace: &mut Trace<'_>) {
    let Remarks { generated, kept_tool_calls, kept_edited, reasoning, unknown } = remarks;
    trace.remark(*generated, "with generated prompts of the recorded lengths");
    trace.remark(*kept_tool_calls, "recorded tool calls in the history, whose results follow");
    trace
        .remark(*kept_edited, "recorded responses in the history that the application had changed");
    trace.remark(*reasoning, "parts with reasoning, not sent");
    trace.remark(*unknown, "parts of unknown kinds, not sent");
}
