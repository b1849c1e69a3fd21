//! Traces of coding agents (`weka_trace`): a JSON document per conversation, as the KV cache tester
//! of Weka writes them.
//!
//! `requests` are those of the agent, in order, each with its whole history: `t` (seconds from the
//! start), `in`, `out`, `hash_ids` of blocks of `block_size` tokens, and maybe `api_time` and
//! `think_time` in seconds. An entry of the type `subagent` has the requests of a sub-agent, for
//! whose end the next request of the agent waits, and may have sub-agents itself. Hash IDs are those of
//! one document, unless its `hash_id_scope` is `global`; `timestamp` is its start in milliseconds.

use std::collections::HashSet;
use std::io::Read;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::synthesis::Shape;
use super::trace::{HashId, TimeUnit, Trace};
use super::{Fault, Loaded, document_fault};
use crate::dataset::account::LeftOut;
use crate::dataset::{Branch, Conversation, Turn};
use crate::units::Nanos;

/// The deepest nesting of sub-agents.
const MAX_DEPTH: usize = 32;

#[derive(Deserialize)]
struct Document {
    id: String,
    block_size: u32,
    #[serde(default)]
    hash_id_scope: Scope,
    timestamp: Option<f64>,
    requests: Vec<Entry>,
}

/// Where a hash ID has the same meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Scope {
    #[default]
    Local,
    Global,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Entry {
    #[serde(rename = "n", alias = "s")]
    Request(Request),
    #[serde(rename = "subagent")]
    Agent(Agent),
}

#[derive(Deserialize)]
struct Request {
    t: f64,
    #[serde(rename = "in")]
    input: u32,
    #[serde(rename = "out")]
    output: u32,
    #[serde(default, deserialize_with = "or_empty")]
    hash_ids: Vec<i64>,
    api_time: Option<f64>,
    think_time: Option<f64>,
}

#[derive(Deserialize)]
struct Agent {
    t: f64,
    #[serde(rename = "agent_id")]
    id: String,
    duration_ms: Option<f64>,
    requests: Vec<Entry>,
}

/// Reads a list; null, which tables have for a missing one, is empty.
fn or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<i64>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A conversation before its prompts are generated.
#[derive(Default)]
struct Draft {
    id: String,
    requests: Vec<(Shape, Turn)>,
    /// Sub-agents: number of the conversation among all sub-agents, number of requests before it.
    agents: Vec<(usize, usize)>,
}

/// Conversations of one or several files.
pub(super) struct Documents<'a> {
    trace: Trace<'a>,
    uses_think_time: bool,
    /// Of the current document.
    scope: Scope,
    roots: Vec<Draft>,
    agents: Vec<Draft>,
    ids: HashSet<String>,
}

/// Returns whether a document with these members is of this format.
pub(super) fn has(members: &Map<String, Value>) -> bool {
    ["requests", "block_size", "hash_id_scope"].iter().all(|name| members.contains_key(*name))
}

impl<'a> Documents<'a> {
    /// Creates a reader. With `uses_think_time`, delays are the recorded ones where there are any;
    /// otherwise they are the times between the recorded responses and requests.
    pub(super) fn new(trace: Trace<'a>, uses_think_time: bool) -> Self {
        let (roots, agents, ids) = (Vec::new(), Vec::new(), HashSet::new());
        Self { trace, uses_think_time, scope: Scope::Local, roots, agents, ids }
    }

    /// Reads the documents of a file.
    pub(super) fn read(&mut self, input: impl Read) -> Result<(), Fault> {
        let documents = serde_json::Deserializer::from_reader(input).into_iter::<Document>();
        for (number, document) in (1..).zip(documents) {
            self.add(document.map_err(document_fault)?).map_err(|why| Fault::Entry(number, why))?;
        }
        Ok(())
    }

    /// Adds a document that is a row of a table.
    pub(super) fn add_row(&mut self, row: Map<String, Value>) -> Result<(), String> {
        let document = serde_json::from_value(Value::Object(row));
        self.add(document.map_err(|error| error.to_string())?)
    }

    /// Returns the number of conversations that sessions draw.
    pub(super) const fn roots(&self) -> usize {
        self.roots.len()
    }

    fn add(&mut self, document: Document) -> Result<(), String> {
        let Document { id, block_size, hash_id_scope, timestamp, requests } = document;
        let start =
            timestamp.map(|at| self.trace.instant(at, TimeUnit::Milliseconds)).transpose()?;
        self.scope = hash_id_scope;
        self.trace.use_block(block_size)?;
        if !self.ids.insert(id.clone()) {
            return Err(format!("the id {id:?} is already used by another conversation"));
        }
        let (number, first_agent) = (self.roots.len() as u64, self.agents.len());
        let mut root = Draft { id, ..Draft::default() };
        // When the last request ended, and what the next one waits for, in seconds.
        let (mut answered, mut end) = (0.0f64, 0.0f64);
        for entry in requests {
            match entry {
                Entry::Request(request) => {
                    answered = self.append(&mut root, request, number, end)?;
                    end = answered;
                }
                Entry::Agent(agent) => {
                    let before = root.requests.len();
                    let agent_end =
                        self.agent(agent, &mut root, (number, before), (answered, 1))?;
                    end = end.max(agent_end);
                }
            }
        }
        if let Some((_, first)) = root.requests.first_mut() {
            first.timestamp = start;
        }
        if root.requests.is_empty() {
            // Nothing starts its sub-agents.
            let orphans = self.agents.drain(first_agent..).map(|agent| agent.requests.len());
            self.trace.leave_out(LeftOut::MaxInput, orphans.sum::<usize>() as u64);
        } else {
            self.roots.push(root);
        }
        Ok(())
    }

    /// Adds a sub-agent that starts after the `before` first requests of `parent`, the last of which was
    /// answered at `answered`; returns when it ended.
    fn agent(
        &mut self,
        agent: Agent,
        parent: &mut Draft,
        (number, before): (u64, usize),
        (answered, depth): (f64, usize),
    ) -> Result<f64, String> {
        if depth > MAX_DEPTH {
            return Err(format!("its sub-agents are nested more than {MAX_DEPTH} levels deep"));
        }
        let id = format!("{}/{}", parent.id, agent.id);
        let mut draft = Draft { id, ..Draft::default() };
        let first_agent = self.agents.len();
        let started = agent.requests.iter().find_map(|entry| match entry {
            Entry::Request(request) => Some(request.t),
            Entry::Agent(_) => None,
        });
        let Some(started) = started else { return Ok(answered) };
        // The times of its requests count from its own start, or from that of the conversation.
        let offset = if started < agent.t { agent.t - started } else { 0.0 };
        let (mut own, mut last) = (answered, answered);
        for entry in agent.requests {
            match entry {
                Entry::Request(request) => {
                    let request = Request { t: request.t + offset, ..request };
                    own = self.append(&mut draft, request, number, last)?;
                    last = own;
                }
                Entry::Agent(inner) => {
                    let inner = Agent { t: inner.t + offset, ..inner };
                    let place = (number, draft.requests.len());
                    last = last.max(self.agent(inner, &mut draft, place, (own, depth + 1))?);
                }
            }
        }
        if draft.requests.is_empty() {
            // Nothing starts its sub-agents.
            let orphans = self.agents.drain(first_agent..).map(|agent| agent.requests.len());
            let orphans = orphans.sum::<usize>() as u64;
            self.trace.leave_out(LeftOut::MaxInput, orphans);
        } else {
            parent.agents.push((self.agents.len(), before));
            self.agents.push(draft);
        }
        Ok(agent.duration_ms.map_or(last, |millis| agent.t + millis / 1000.0))
    }

    /// Appends a request, before which the last one ended at `end`; returns when it ended.
    fn append(
        &mut self,
        draft: &mut Draft,
        request: Request,
        session: u64,
        end: f64,
    ) -> Result<f64, String> {
        let ended = request.t + request.api_time.unwrap_or(0.0);
        if !self.trace.admits(request.input) {
            return Ok(ended);
        }
        let recorded = request.think_time.filter(|_| self.uses_think_time);
        let wait = recorded.unwrap_or(request.t - end);
        if !(-1e9..=1e9).contains(&wait) {
            return Err(format!("the time of a request is out of range: {} s", request.t));
        }
        let scope = match self.scope {
            Scope::Local => HashId::from(session) << 64,
            Scope::Global => HashId::MIN,
        };
        let local = |id: i64| scope | HashId::from(id.cast_unsigned());
        let shape = Shape {
            input_tokens: request.input,
            hash_ids: request.hash_ids.into_iter().map(local).collect(),
            session,
        };
        let turn = Turn {
            max_tokens: Some(self.trace.output_tokens(request.output.max(1))?),
            delay: Nanos::from_seconds(wait.max(0.0)),
            ..Turn::default()
        };
        draft.requests.push((shape, turn));
        Ok(ended)
    }

    /// Generates the prompts. The conversations of sub-agents come after those of agents.
    pub(super) fn finish(mut self) -> Result<Loaded, Fault> {
        let all = self.roots.iter_mut().chain(&mut self.agents);
        self.trace.reshape(all.flat_map(|draft| &mut draft.requests).map(|(shape, _)| shape));
        let first_child = self.roots.len();
        let mut conversations = Vec::new();
        for (at, draft) in self.roots.into_iter().chain(self.agents).enumerate() {
            let branches = draft.agents.iter().map(|(agent, before)| Branch {
                conversation: first_child + agent,
                after: before.checked_sub(1),
                join: Some(*before).filter(|next| *next < draft.requests.len()),
                is_fork: false,
            });
            let branches = branches.collect();
            let mut turns = Vec::new();
            for (shape, turn) in draft.requests {
                let prompt = self
                    .trace
                    .prompt(&shape)
                    .map_err(|why| Fault::Entry(at + 1, format!("{}: {why}", draft.id)))?;
                turns.push(Turn { texts: vec![prompt.text], input_tokens: prompt.tokens, ..turn });
            }
            conversations.push(Conversation {
                id: draft.id.into(),
                standalone_turns: true,
                turns,
                branches,
                is_child: at >= first_child,
                ..Conversation::default()
            });
        }
        Ok(self.trace.loaded(conversations))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use serde_json::json;

    use super::super::read_from;
    use super::*;
    use crate::dataset::{FileFormat, Seed, TraceSettings};
    use crate::tokenizer::TokenCounter;

    fn load(text: &str, settings: TraceSettings) -> Result<Vec<Conversation>, Fault> {
        let counter = TokenCounter::builtin();
        read_from(text.as_bytes(), Path::new(""), None, &settings, &counter, Seed(3))
            .map(|loaded| loaded.conversations.into_vec())
    }

    fn request(t: f64, input: u32, ids: &[i64], more: Value) -> Value {
        let mut request = json!({"t": t, "type": "n", "model": "m", "in": input, "out": 7,
                                 "hash_ids": ids, "stop": ""});
        if let (Value::Object(request), Value::Object(more)) = (&mut request, more) {
            request.extend(more);
        }
        request
    }

    fn trace(id: &str) -> Value {
        let agent = json!({"t": 3.0, "type": "subagent", "agent_id": "a1",
            "subagent_type": "Explore", "duration_ms": 4000, "status": "completed", "models": [],
            "requests": [request(3.5, 40, &[9, 8, 7], json!({"api_time": 1.0, "type": "s"})),
                         request(6.0, 48, &[9, 8, 7], json!({}))]});
        let idle = json!({"t": 7.0, "type": "subagent", "agent_id": "a2", "subagent_type": "x",
            "status": "async_launched", "models": [], "requests": []});
        json!({"id": id, "models": ["m"], "block_size": 16, "hash_id_scope": "local", "requests": [
            request(0.0, 40, &[1, 2, 3], json!({"api_time": 2.0})),
            agent,
            request(9.0, 64, &[1, 2, 4, 5], json!({"think_time": 0.25})),
            idle,
            request(9.5, 64, &[1, 2, 4, 5], json!({})),
        ]})
    }

    #[test]
    fn agents_wait_for_their_sub_agents() {
        let text = format!("{:#}\n{}", trace("x"), trace("y"));
        let read = load(&text, TraceSettings::default()).unwrap();
        let ids: Vec<(&str, bool)> = read.iter().map(|it| (&*it.id, it.is_child)).collect();
        assert_eq!(ids, [("x", false), ("y", false), ("x/a1", true), ("y/a1", true)]);
        let branch = Branch { conversation: 3, after: Some(0), join: Some(1), is_fork: false };
        assert_eq!(read[1].branches, [branch]);
        let delays = |it: &Conversation| -> Vec<f64> {
            it.turns.iter().map(|turn| turn.delay.as_seconds()).collect()
        };
        // 9 − (3 + 4) s after the sub-agent, which begins 3.5 − 2 s after the first response.
        assert_eq!(delays(&read[0]), [0.0, 2.0, 0.5]);
        assert_eq!(delays(&read[2]), [1.5, 1.5]);
        let settings = TraceSettings { uses_think_time: true, ..TraceSettings::default() };
        assert_eq!(delays(&load(&text, settings).unwrap()[0]), [0.0, 0.25, 0.5]);
        let texts = |it: &Conversation| -> Vec<String> {
            it.turns.iter().map(|turn| turn.texts[0].to_string()).collect()
        };
        let of_x = texts(&read[0]);
        assert_eq!(of_x[1], of_x[2]);
        assert_ne!(of_x[0], texts(&read[1])[0]);
        assert_eq!(read[0].turns[1].input_tokens, Some(64));
        assert_eq!(read[0].turns[1].max_tokens, Some(7));
    }

    #[test]
    fn sub_agents_run_beside_each_other_and_have_their_own() {
        let agent = |t: f64, id: &str, requests: Value| json!({"t": t, "type": "subagent", "agent_id": id, "requests": requests});
        let slow = agent(3.0, "slow", json!([request(3.0, 40, &[1], json!({"api_time": 9.0}))]));
        let inner = agent(5.5, "inner", json!([request(5.5, 40, &[1], json!({}))]));
        let outer = json!([request(4.0, 40, &[1], json!({"api_time": 1.0})), inner]);
        let text = json!({"id": "x", "block_size": 16, "hash_id_scope": "global", "timestamp": 250.0,
            "requests": [request(0.0, 40, &[1], json!({"api_time": 2.0})), slow,
                         agent(4.0, "outer", outer), request(13.0, 40, &[1], json!({}))]});
        let other = text.to_string().replace("\"x\"", "\"y\"");
        let read = load(&format!("{text}\n{other}"), TraceSettings::default()).unwrap();
        let ids: Vec<&str> = read.iter().map(|it| &*it.id).collect();
        let names = ["x", "y", "x/slow", "x/outer/inner", "x/outer", "y/slow"];
        assert_eq!(ids[..6], names);
        let delay = |at: usize, turn: usize| read[at].turns[turn].delay.as_seconds();
        // Both count from the first response at 2 s, and the agent goes on 1 s after the slow one.
        assert_eq!((delay(2, 0), delay(4, 0), delay(0, 1)), (1.0, 2.0, 1.0));
        assert_eq!(delay(3, 0), 0.5);
        assert_eq!(read[4].branches[0].conversation, 3);
        assert_eq!(read[0].turns[0].timestamp, Some(Nanos(250_000_000)));
        // The hash IDs of both documents are the same blocks.
        let start = |at: usize| read[at].turns[0].texts[0].to_string()[..20].to_owned();
        assert_eq!(start(0), start(1));
    }

    #[test]
    fn whole_trees_are_left_out() {
        let text = format!("{}\n{}", trace("x"), trace("y").to_string().replace("48", "90"));
        let settings = TraceSettings { max_context_tokens: Some(71), ..TraceSettings::default() };
        let mut read = load(&text, settings).unwrap().into();
        crate::dataset::finish::select(&mut read, &settings, Seed(1));
        let ids: Vec<&str> = read.iter().map(|it| &*it.id).collect();
        assert_eq!(ids, ["x", "x/a1"]);
        assert_eq!(read[0].branches[0].conversation, 1);
    }

    #[test]
    fn faults_are_named() {
        let twice = format!("{}\n{}", trace("x"), trace("x"));
        let other = trace("y").to_string().replace("\"block_size\":16", "\"block_size\":32");
        let zero = trace("x").to_string().replace("\"block_size\":16", "\"block_size\":0");
        for (text, entry, words) in [
            (twice, 2, "already used"),
            (format!("{}\n{other}", trace("x")), 2, "16 tokens"),
            (zero, 1, "at least 1"),
            (trace("x").to_string().replace("9.5", "9.5e300"), 1, "out of range"),
        ] {
            match load(&text, TraceSettings::default()) {
                Err(Fault::Entry(number, why)) => {
                    assert!(number == entry && why.contains(words), "{number}: {why}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn any_document_is_read_or_rejected(text in "\\PC{0,60}", t: f64, input in 0u32..3000) {
            let (settings, counter) = (TraceSettings::default(), TokenCounter::builtin());
            let request = request(0.0, input, &[1], json!({"t": t}));
            let document = json!({"id": "x", "block_size": 16, "requests": [request]}).to_string();
            for content in [text, document] {
                drop(read_from(
                    content.as_bytes(),
                    Path::new(""),
                    Some(FileFormat::WekaTrace),
                    &settings,
                    &counter,
                    Seed(3),
                ));
            }
        }
    }
}
