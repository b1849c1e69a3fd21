//! Lines of recorded requests as conversations.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::synthesis::Shape;
use super::super::trace::Trace;
use super::call::{Call, MessageKind, Pool};
use super::lines::{Line, Origin, Request, Times};
use crate::{Branch, BranchStart, Conversation, ReplayOutputs, Turn, forks};

/// Makes conversations of lines.
pub(super) struct Maker<'a, 'b> {
    pub(super) pool: &'a Pool,
    pub(super) trace: &'a mut Trace<'b>,
    pub(super) outputs: ReplayOutputs,
    pub(super) remarks: Remarks,
}

/// What the conversations have instead of what was recorded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Remarks {
    /// Requests whose prompts are generated.
    pub(super) generated: u64,
    /// Recorded responses that are sent although those of the run are asked for.
    pub(super) kept_tool_calls: u64,
    pub(super) kept_edited: u64,
    /// Parts of messages that are not sent.
    pub(super) reasoning: u64,
    pub(super) unknown: u64,
}

/// The requests of a session.
struct Scene<'a> {
    lines: &'a [Line],
    calls: &'a [Call],
    /// A number for the session.
    number: u64,
    /// Whether any request has messages.
    has_messages: bool,
}

/// A turn, and what the one before it must be like.
struct Made {
    turn: Turn,
    /// Whether the turn has the response to the one before it.
    has_answer: bool,
}

impl Maker<'_, '_> {
    /// Returns the conversations of a session, one for each line, in the same order; the branches
    /// have the indices of the lines. `number` is one for the session.
    pub(super) fn conversations(
        &mut self,
        lines: &[Line],
        calls: &[Call],
        number: u64,
    ) -> Result<Vec<Conversation>, String> {
        let has_messages = calls.iter().any(Call::has_messages);
        let scene = Scene { lines, calls, number, has_messages };
        let times = Times::new(lines, calls);
        let mut made: Vec<Conversation> = Vec::with_capacity(lines.len());
        for (at, line) in lines.iter().enumerate() {
            let mut own =
                Conversation { is_child: line.origin.is_some(), ..Conversation::default() };
            if let Some(Origin { line: parent, after: Some(after), is_fork: true }) = line.origin {
                let parent = &made[parent];
                own.inherited_turns = parent.inherited_turns + after + 1;
                // The last of them is a copy: only this line has its response, or has it not.
                let copied = usize::from(parent.inherited_turns > 0);
                own.turns.extend(parent.turns.get(copied + after).cloned());
            }
            for place in 0..line.requests.len() {
                let Made { mut turn, has_answer } = self.turn(&scene, line, place)?;
                turn.delay = times.delay(lines, calls, at, place);
                if let Some(last) = own.turns.last_mut() {
                    last.answer_is_recorded = has_answer;
                    turn.starts_anew = line.requests[place].repeats.is_none()
                        && exceeding(line, place, calls).is_none();
                }
                own.turns.push(turn);
            }
            made.push(own);
        }
        for (at, (line, join)) in lines.iter().zip(&times.joins).enumerate() {
            let Some(Origin { line: parent, after, is_fork }) = line.origin else { continue };
            let inherited = made[parent].inherited_turns;
            made[parent].branches.push(Branch {
                conversation: at,
                after: after.map(|turn| inherited + turn),
                join: join.map(|turn| inherited + turn),
                from: BranchStart::Response,
                is_fork,
            });
        }
        forks::share(&mut made, |fork| fork.inherited_turns.saturating_sub(1));
        Ok(made)
    }

    /// Makes the turn of a request, without its delay.
    fn turn(&mut self, scene: &Scene<'_>, line: &Line, place: usize) -> Result<Made, String> {
        let Request { call, repeats } = line.requests[place];
        let call = &scene.calls[call];
        let asked = call.output_tokens.filter(|tokens| *tokens > 0).or(call.max_tokens);
        let max_tokens = asked.map(|tokens| self.trace.output_tokens(tokens.max(1))).transpose()?;
        let settings = call.settings.map(|number| self.pool.text(number));
        let extra: Vec<(String, Value)> =
            settings.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let turn = Turn { extra, max_tokens, ..Turn::default() };
        if !call.has_messages() {
            return self.generated(turn, scene, line, place);
        }
        self.trace.leave_as_is();
        self.remarks.reasoning += call.said.reasoning;
        self.remarks.unknown += call.said.unknown;
        let mut first = 0;
        let mut has_answer = false;
        if let Some(repeats) = repeats {
            let before = scene.before(line, place);
            has_answer = self.keeps_answer(call, repeats, before);
            first = if has_answer { repeats } else { repeats + 1 };
        }
        let messages: Vec<Arc<str>> =
            call.said.input.iter().skip(first).map(|number| self.pool.text(*number)).collect();
        let tools = call.said.tools.map(|number| raw(self.pool.text(number).to_string()));
        let turn = Turn {
            messages: Some(raw(format!("[{}]", messages.join(",")))?),
            tools: tools.transpose()?,
            ..turn
        };
        Ok(Made { turn, has_answer })
    }

    /// Returns whether the recorded response to the request before is sent, and not that of the run:
    /// its tool calls are answered by the messages after it, or it is not the one that was recorded.
    fn keeps_answer(&mut self, call: &Call, repeats: usize, before: Option<&Call>) -> bool {
        if self.outputs == ReplayOutputs::Recorded {
            return true;
        }
        if call.said.kinds.get(repeats) == Some(&MessageKind::ToolCalls) {
            self.remarks.kept_tool_calls += 1;
            return true;
        }
        let recorded = before.and_then(|before| before.said.output);
        let is_edited = recorded.is_some() && recorded != call.said.input.get(repeats).copied();
        self.remarks.kept_edited += u64::from(is_edited);
        is_edited
    }

    /// Generates a prompt of the recorded length, or of what it exceeds the request before it and
    /// its response by.
    fn generated(
        &mut self,
        turn: Turn,
        scene: &Scene<'_>,
        line: &Line,
        place: usize,
    ) -> Result<Made, String> {
        self.remarks.generated += 1;
        let call = &scene.calls[line.requests[place].call];
        let whole = call.input_tokens.unwrap_or(1).max(1);
        let input_tokens = exceeding(line, place, scene.calls).unwrap_or(whole);
        let mut shape = Shape { input_tokens, hash_ids: Vec::new(), session: scene.number };
        self.trace.reshape([&mut shape]);
        let prompt = self.trace.prompt(&shape)?;
        let turn = if scene.has_messages {
            let message = json!([{"role": "user", "content": prompt.text.to_string()}]);
            Turn { messages: Some(raw(message.to_string())?), ..turn }
        } else {
            Turn { texts: vec![prompt.text], input_tokens: prompt.tokens, ..turn }
        };
        Ok(Made { turn, has_answer: false })
    }
}

impl Scene<'_> {
    /// Returns the call before the request at `place` of a line, which may be of the line that it
    /// continues.
    fn before(&self, line: &Line, place: usize) -> Option<&Call> {
        let own = place.checked_sub(1).and_then(|before| line.requests.get(before));
        let of_parent = || {
            let Origin { line, after, is_fork } = line.origin?;
            self.lines.get(line)?.requests.get(after.filter(|_| is_fork)?)
        };
        self.calls.get(own.or_else(of_parent)?.call)
    }
}

fn raw(json: String) -> Result<Arc<RawValue>, String> {
    RawValue::from_string(json).map(Arc::from).map_err(|error| error.to_string())
}

/// Returns by how many tokens a prompt without messages exceeds the one before it and its response;
/// `None` if it does not continue that one.
fn exceeding(line: &Line, place: usize, calls: &[Call]) -> Option<u32> {
    let own = &calls[line.requests[place].call];
    let before = &calls[line.requests.get(place.checked_sub(1)?)?.call];
    let are_lengths = !own.has_messages() && !before.has_messages();
    let before = before.input_tokens?.checked_add(before.output_tokens.filter(|_| are_lengths)?)?;
    own.input_tokens?.checked_sub(before).filter(|tokens| *tokens > 0)
}
