//! The work of agents: sessions of several requests, and the tools whose results these contain.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use base::units::Nanos;
use client::record::RequestRecord;
use dataset::{Branch, Conversation};

use super::metric::MeasuredRecord;
use super::session::TurnPlace;

/// The place of a request in the work of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentCall {
    /// Index of the agent's first turn; earlier ones are those of the agent that it continues, or
    /// were left out by the lane that entered the conversation in the middle.
    pub first_turn: usize,
    /// Whether it is the agent's last turn.
    pub is_last: bool,
    /// Number of conversations that start after it, and for the first turn also before it.
    pub children: u32,
    /// How long after the response before it the dataset sends it; zero for the first turn of a
    /// session.
    pub delay: Nanos,
    /// The tools whose results the request contains, in order; `None` for one whose name is not
    /// known. Results in the first request were there before the agent began.
    pub tools: Vec<Option<Arc<str>>>,
}

impl AgentCall {
    /// Returns the place of a measured request, unless it only prepares the server for others.
    #[must_use]
    pub fn of_work(measured: &MeasuredRecord) -> Option<&Self> {
        measured.agent.as_ref().filter(|_| !measured.record.is_preparation())
    }

    /// Returns the place of a request of `conversation`; `None` if this is not the work of an agent.
    pub fn for_request(conversation: &Conversation, record: &RequestRecord) -> Option<Self> {
        let (turn, first_turn) = (record.turn.turn, record.turn.first);
        let asked = conversation.turn(turn);
        let messages = asked.and_then(|turn| turn.messages.as_ref());
        let is_whole = turn + 1 == conversation.len();
        // A failure that ends a session starts nothing.
        let starts = |branch: &&Branch| match branch.after {
            Some(after) => after == turn && (is_whole || !record.turn.is_final),
            None => turn == conversation.inherited_turns,
        };
        let follows = turn > 0 || conversation.is_child;
        conversation.is_agent().then(|| Self {
            first_turn,
            is_last: record.turn.is_final || is_whole,
            children: conversation.branches.iter().filter(starts).count() as u32,
            delay: asked.filter(|_| follows).map_or(Nanos::ZERO, |turn| turn.delay),
            tools: messages
                .filter(|_| turn > first_turn)
                .map(|messages| tools_before(messages))
                .unwrap_or_default(),
        })
    }
}

impl From<&AgentCall> for TurnPlace {
    fn from(call: &AgentCall) -> Self {
        Self { is_final: call.is_last, children: call.children, delay: call.delay }
    }
}

/// A chat message, as far as tools are concerned.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    role: String,
    name: Option<Arc<str>>,
    tool_call_id: Option<String>,
    tool_calls: Option<Vec<ToolCall>>,
}

/// A call that the model asks for.
#[derive(Deserialize)]
struct ToolCall {
    id: Option<String>,
    function: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: Option<Arc<str>>,
}

/// Returns the tools whose results follow the model's last message. Their names are those of the
/// calls that the results answer.
fn tools_before(messages: &RawValue) -> Vec<Option<Arc<str>>> {
    let text = messages.get();
    // Most messages are not of tools, so that nothing has to be parsed.
    if memchr::memmem::find(text.as_bytes(), b"\"tool\"").is_none() {
        return Vec::new();
    }
    let messages: Vec<Message> = serde_json::from_str(text).unwrap_or_default();
    let asked = messages.iter().rposition(|message| message.role == "assistant");
    let (before, results) = messages.split_at(asked.map_or(0, |last| last + 1));
    let calls: Vec<&ToolCall> =
        before.last().and_then(|last| last.tool_calls.as_deref()).into_iter().flatten().collect();
    let called = |id: &String| {
        let call = calls.iter().find(|call| call.id.as_ref() == Some(id))?;
        call.function.as_ref()?.name.clone()
    };
    let results = results.iter().filter(|message| message.role == "tool");
    results
        .map(|result| result.tool_call_id.as_ref().and_then(called).or_else(|| result.name.clone()))
        .collect()
}

/// Numbers of a phase's agents, of their requests, and of the tools that they used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgentTotals {
    pub agents: u64,
    pub inference_calls: u64,
    pub tool_calls: u64,
}

impl AgentTotals {
    /// Adds a request.
    pub fn observe(&mut self, measured: &MeasuredRecord) {
        let Some(call) = AgentCall::of_work(measured) else { return };
        self.agents += u64::from(measured.record.turn.turn == call.first_turn);
        self.inference_calls += 1;
        self.tool_calls += call.tools.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use client::record::{ResponseBody, TurnId};
    use dataset::{Branch, BranchStart, Turn};

    use super::*;
    use crate::metrics::fixture;

    fn tools(messages: &Value) -> Vec<Option<String>> {
        let raw = RawValue::from_string(messages.to_string()).unwrap();
        tools_before(&raw).into_iter().map(|name| name.map(|name| name.to_string())).collect()
    }

    #[test]
    fn tools_are_those_whose_results_follow_the_models_last_message() {
        let calls = json!([
            {"id": "1", "function": {"name": "search", "arguments": "{}"}},
            {"id": "2", "function": {"name": "read"}},
        ]);
        let whole = json!([
            {"role": "user", "content": "q"},
            {"role": "assistant", "tool_calls": [{"id": "0", "function": {"name": "early"}}]},
            {"role": "tool", "tool_call_id": "0", "content": "r"},
            {"role": "assistant", "content": null, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "2", "content": "\"tool\""},
            {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "r"}]},
            {"role": "user", "content": "and?"},
        ]);
        assert_eq!(tools(&whole), [Some("read".to_owned()), Some("search".to_owned())]);
        // The calls are in the response of the run, which is not known here.
        let rest = json!([
            {"role": "tool", "tool_call_id": "7", "name": "named", "content": "r"},
            {"role": "tool", "tool_call_id": "8", "content": "r"},
        ]);
        assert_eq!(tools(&rest), [Some("named".to_owned()), None]);
        for none in [json!([{"role": "user", "content": "the word \"tool\""}]), json!("tool")] {
            assert_eq!(tools(&none), [], "{none}");
        }
    }

    #[test]
    fn sessions_of_several_turns_and_parts_of_trees_are_agents() {
        let with = |turns: usize| Conversation {
            turns: vec![Turn::default(); turns],
            ..Conversation::default()
        };
        let turn = |turn, is_final| {
            let mut record = fixture::record(Nanos(0), ResponseBody::default());
            record.turn = TurnId { turn, is_final, ..TurnId::default() };
            record
        };
        assert_eq!(AgentCall::for_request(&with(1), &turn(0, true)), None);
        let call = |is_last| AgentCall { is_last, ..AgentCall::default() };
        assert_eq!(AgentCall::for_request(&with(2), &turn(0, false)), Some(call(false)));
        assert_eq!(AgentCall::for_request(&with(2), &turn(1, true)), Some(call(true)));
        // A failure ended the session.
        assert_eq!(AgentCall::for_request(&with(3), &turn(1, true)), Some(call(true)));
        let branch = Branch {
            conversation: 1,
            after: Some(0),
            join: None,
            from: BranchStart::Response,
            is_fork: false,
        };
        let root = Conversation { branches: vec![branch], ..with(1) };
        let expected = AgentCall { children: 1, ..call(true) };
        assert_eq!(AgentCall::for_request(&root, &turn(0, true)), Some(expected));
        let fork = Conversation { is_child: true, inherited_turns: 1, ..with(2) };
        let mut second = turn(1, false);
        second.turn.first = 1;
        let expected = AgentCall { first_turn: 1, ..call(true) };
        assert_eq!(AgentCall::for_request(&fork, &second), Some(expected));
    }

    #[test]
    fn branches_are_counted_with_the_turn_that_starts_them() {
        let branch = |after| Branch {
            conversation: 1,
            after,
            join: None,
            from: BranchStart::Response,
            is_fork: false,
        };
        let turns = vec![Turn { delay: Nanos(7), ..Turn::default() }; 3];
        let branches = vec![branch(None), branch(Some(0)), branch(Some(1)), branch(Some(1))];
        let root = Conversation { turns, branches, ..Conversation::default() };
        let call = |turn, is_final| {
            let mut record = fixture::record(Nanos(0), ResponseBody::default());
            record.turn = TurnId { turn, is_final, ..TurnId::default() };
            let call = AgentCall::for_request(&root, &record).unwrap();
            (call.children, call.delay)
        };
        assert_eq!(
            call(0, false),
            (2, Nanos::ZERO),
            "the session does not wait for its first turn"
        );
        assert_eq!(call(1, false), (2, Nanos(7)));
        assert_eq!(call(1, true), (0, Nanos(7)), "its failure ended the session");
        assert_eq!(call(2, true), (0, Nanos(7)));
    }
}
