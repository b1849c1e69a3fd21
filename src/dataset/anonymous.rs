//! Conversations without their texts: lengths, times, trees, and which blocks prompts have in common.
//!
//! The result is a `weka_trace`, with prompts as numbers of blocks. A number stands for everything up to
//! the end of its block, so that prompts with the same first numbers begin with the same tokens, and
//! nothing else can be learnt from a number: it counts the blocks in the order of their first use.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use serde::Serialize;

use super::payload;
use super::{Branch, Conversation, Turn};
use crate::setting::named;
use crate::tokenizer::TokenCounter;
use crate::units::Nanos;

/// The deepest tree of sub-agents that is written.
const MAX_DEPTH: usize = 32;

/// Names that may stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// Names of models.
    Models,
    /// Names of tools.
    Tools,
}

named! { Names { "models" => Models, "tools" => Tools } }

/// A conversation and the sub-agents that it starts, as a document of a `weka_trace`.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    id: String,
    models: Vec<String>,
    block_size: u32,
    /// Numbers of blocks have the same meaning in all documents.
    hash_id_scope: &'static str,
    tool_tokens: u32,
    system_tokens: u32,
    /// Start in milliseconds after the earliest conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<f64>,
    requests: Vec<Entry>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Entry {
    Request(Request),
    Agent(Agent),
}

#[derive(Debug, Serialize)]
struct Request {
    #[serde(rename = "type")]
    kind: &'static str,
    /// Seconds since the start of the conversation, if responses took no time.
    t: f64,
    model: String,
    #[serde(rename = "in")]
    input: u64,
    #[serde(rename = "out")]
    output: u32,
    hash_ids: Vec<u64>,
    /// Names of the declared tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<String>,
    input_types: [&'static str; 1],
    output_types: [&'static str; 1],
    stop: &'static str,
}

#[derive(Debug, Serialize)]
struct Agent {
    #[serde(rename = "type")]
    kind: &'static str,
    t: f64,
    #[serde(rename = "agent_id")]
    id: String,
    subagent_type: &'static str,
    status: &'static str,
    models: Vec<String>,
    requests: Vec<Entry>,
}

/// A part of a document.
pub(crate) enum Part<'a> {
    /// A request with the numbers of its blocks.
    Request {
        /// Tokens of the prompt.
        input_tokens: u64,
        /// Requested output tokens.
        output_tokens: u32,
        blocks: &'a [u64],
    },
    /// A sub-agent, whose requests follow.
    Agent,
}

impl Document {
    /// Calls `visit` with all parts in their order, and the number of sub-agents around each.
    pub(crate) fn visit(&self, visit: &mut impl FnMut(u64, Part<'_>)) {
        visit_all(&self.requests, 0, visit);
    }

    /// Returns when the conversation starts, in seconds after the earliest one.
    pub(crate) fn start_seconds(&self) -> Option<f64> {
        self.timestamp.map(|millis| millis / 1e3)
    }
}

fn visit_all(entries: &[Entry], depth: u64, visit: &mut impl FnMut(u64, Part<'_>)) {
    for entry in entries {
        match entry {
            Entry::Request(request) => visit(
                depth,
                Part::Request {
                    input_tokens: request.input,
                    output_tokens: request.output,
                    blocks: &request.hash_ids,
                },
            ),
            Entry::Agent(agent) => {
                visit(depth, Part::Agent);
                visit_all(&agent.requests, depth + 1, visit);
            }
        }
    }
}

/// What was written.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) conversations: u64,
    pub(crate) requests: u64,
    pub(crate) input_tokens: u64,
    /// Number of different blocks.
    pub(crate) blocks: u64,
    /// Sub-agents for which a later request waits than the format can express: the next one does.
    pub(crate) joined_early: u64,
    /// Requests with images, audio or video, which are not counted.
    pub(crate) with_media: u64,
}

/// Converts conversations.
pub(crate) struct Anonymizer<'a> {
    conversations: &'a [Conversation],
    counter: &'a TokenCounter,
    block_tokens: u32,
    keeps: Vec<Names>,
    /// The salt of the hashes, which is drawn anew for each trace.
    state: RandomState,
    blocks: HashMap<u64, u64>,
    models: HashMap<String, String>,
    tools: HashMap<String, String>,
    agents: u64,
    written: Written,
}

/// The beginning of a prompt.
#[derive(Debug, Clone, Default)]
struct Prompt {
    /// Hash of all whole blocks.
    chain: u64,
    /// Tokens after them.
    rest: Vec<u64>,
    /// Numbers of the whole blocks.
    blocks: Vec<u64>,
    tokens: u64,
}

impl<'a> Anonymizer<'a> {
    /// Creates a converter to blocks of `block_tokens` tokens.
    pub(crate) fn new(
        conversations: &'a [Conversation],
        counter: &'a TokenCounter,
        block_tokens: u32,
        keeps: Vec<Names>,
    ) -> Self {
        Self {
            conversations,
            counter,
            block_tokens: block_tokens.max(1),
            keeps,
            state: RandomState::new(),
            blocks: HashMap::new(),
            models: HashMap::new(),
            tools: HashMap::new(),
            agents: 0,
            written: Written::default(),
        }
    }

    /// Returns what has been converted so far.
    pub(crate) fn written(&self) -> Written {
        Written { blocks: self.blocks.len() as u64, ..self.written }
    }

    /// Converts the conversations that sessions draw, one after the other.
    pub(crate) fn documents(&mut self) -> impl Iterator<Item = Document> {
        let start = |it: &Conversation| it.turns.first().and_then(|turn| turn.timestamp);
        let first = self.conversations.iter().filter(|it| !it.is_child).filter_map(start).min();
        let roots = self.conversations.iter().enumerate().filter(|(_, it)| !it.is_child);
        roots.map(move |(index, root)| {
            self.written.conversations += 1;
            let (requests, _) = self.requests(root, index, 0.0, 0);
            let after = |at: Nanos| at.since(first.unwrap_or(at)).as_seconds() * 1e3;
            Document {
                id: format!("session-{}", index + 1),
                models: models(&requests),
                block_size: self.block_tokens,
                hash_id_scope: "global",
                tool_tokens: 0,
                system_tokens: 0,
                timestamp: start(root).map(after),
                requests,
            }
        })
    }

    /// Converts the requests of a conversation that begins at `t`, and its sub-agents. Returns them with
    /// the time of the last one.
    fn requests(
        &mut self,
        of: &Conversation,
        root: usize,
        t: f64,
        depth: usize,
    ) -> (Vec<Entry>, f64) {
        let mut entries = Vec::new();
        let mut end = self.agents_after(of, None, root, t, depth, &mut entries);
        let mut prompt = Prompt::default();
        let mut before: Option<&Turn> = None;
        for (at, turn) in of.turns.iter().enumerate() {
            if at == 0 || of.standalone_turns || turn.starts_anew {
                prompt = self.opening(of, turn);
            }
            self.turn(turn, &mut prompt);
            let is_own = at >= of.inherited_turns;
            if is_own {
                let recorded = before.and_then(|before| before.timestamp).zip(turn.timestamp);
                let gap = recorded.map(|(before, at)| at.since(before)).unwrap_or_default();
                end += turn.delay.max(gap).as_seconds();
                entries.push(Entry::Request(self.request(turn, &prompt, end)));
            }
            if !turn.answer_is_recorded {
                self.response(turn, root, &mut prompt);
            }
            if is_own {
                end = self.agents_after(of, Some(at), root, end, depth, &mut entries);
            }
            before = Some(turn);
        }
        (entries, end)
    }

    /// Converts the sub-agents that start after the turn `after`. Returns when the last of them has
    /// ended.
    fn agents_after(
        &mut self,
        of: &Conversation,
        after: Option<usize>,
        root: usize,
        t: f64,
        depth: usize,
        entries: &mut Vec<Entry>,
    ) -> f64 {
        let mut end = t;
        for Branch { conversation, join, .. } in of.branches.iter().filter(|it| it.after == after) {
            let Some(child) = self.conversations.get(*conversation) else { continue };
            let next = after.map_or(0, |after| after + 1);
            let has_next = next < of.turns.len();
            self.written.joined_early += u64::from(has_next && *join != Some(next));
            if depth >= MAX_DEPTH {
                continue;
            }
            self.agents += 1;
            let id = format!("agent-{}", self.agents);
            let (requests, ended) = self.requests(child, root, t, depth + 1);
            end = end.max(ended);
            entries.push(Entry::Agent(Agent {
                kind: "subagent",
                t,
                id,
                subagent_type: "",
                status: "completed",
                models: models(&requests),
                requests,
            }));
        }
        end
    }

    /// Returns the beginning of a prompt that repeats no turn: the declared tools, the system message
    /// and the context.
    fn opening(&self, of: &Conversation, turn: &Turn) -> Prompt {
        let mut prompt = Prompt::default();
        let tools = turn.tools.as_ref().map(|tools| tools.get().to_owned());
        let texts = [&of.system, &of.user_context].into_iter().flatten().map(ToString::to_string);
        for text in tools.into_iter().chain(texts) {
            self.text(&text, &mut prompt);
        }
        prompt
    }

    /// Appends what a turn adds to its prompt.
    fn turn(&mut self, turn: &Turn, prompt: &mut Prompt) {
        self.written.with_media += u64::from(!turn.media.is_empty());
        if let Some(body) = &turn.raw_payload {
            self.text(&payload::joined_texts(body), prompt);
        } else if let Some(messages) = &turn.messages {
            self.text(&payload::joined_messages(messages), prompt);
        } else if turn.token_ids.is_empty() {
            turn.texts.iter().for_each(|text| self.text(&text.to_string(), prompt));
        } else {
            turn.token_ids.iter().flat_map(|ids| ids.iter()).for_each(|id| self.token(*id, prompt));
        }
    }

    /// Appends the response to a turn, whose tokens are not known: they are like no other's, except that
    /// those who continue the same turn of a tree have the same.
    fn response(&mut self, turn: &Turn, root: usize, prompt: &mut Prompt) {
        let seed = self.hash((root, prompt.chain, &prompt.rest, "response"));
        for at in 0..turn.max_tokens.unwrap_or(0) {
            self.push(self.hash((seed, at)), prompt);
        }
    }

    fn text(&self, text: &str, prompt: &mut Prompt) {
        for token in self.counter.encode(text) {
            self.token(token, prompt);
        }
    }

    fn token(&self, token: u32, prompt: &mut Prompt) {
        self.push(token.into(), prompt);
    }

    fn push(&self, token: u64, prompt: &mut Prompt) {
        prompt.rest.push(token);
        prompt.tokens += 1;
        if prompt.rest.len() as u64 >= u64::from(self.block_tokens) {
            prompt.chain = self.hash((prompt.chain, &prompt.rest));
            prompt.rest.clear();
            prompt.blocks.push(prompt.chain);
        }
    }

    fn hash(&self, of: impl std::hash::Hash) -> u64 {
        self.state.hash_one(of)
    }

    /// Returns the number of a block, which follows those of all blocks before its first use.
    fn number(&mut self, block: u64) -> u64 {
        let next = self.blocks.len() as u64 + 1;
        *self.blocks.entry(block).or_insert(next)
    }

    fn request(&mut self, turn: &Turn, prompt: &Prompt, t: f64) -> Request {
        self.written.requests += 1;
        self.written.input_tokens += prompt.tokens;
        let last = self.hash((prompt.chain, &prompt.rest));
        let last = (!prompt.rest.is_empty()).then_some(last);
        let blocks = prompt.blocks.iter().copied().chain(last);
        let hash_ids = blocks.map(|block| self.number(block)).collect();
        let names = turn.tools.as_ref().map(|tools| payload::tool_names(tools)).unwrap_or_default();
        let keeps_tools = self.keeps.contains(&Names::Tools);
        let tools = names.into_iter().map(|name| alias(name, "tool", keeps_tools, &mut self.tools));
        let tools = tools.collect();
        let keeps_models = self.keeps.contains(&Names::Models);
        let model = turn.model.to_string();
        Request {
            kind: "n",
            t,
            model: alias(model, "model", keeps_models, &mut self.models),
            input: prompt.tokens.max(1),
            output: turn.max_tokens.unwrap_or(1).max(1),
            hash_ids,
            tools,
            input_types: ["text"],
            output_types: ["text"],
            stop: "",
        }
    }
}

/// Returns the name itself, or one with its number among all.
fn alias(name: String, kind: &str, keeps: bool, known: &mut HashMap<String, String>) -> String {
    if keeps {
        return name;
    }
    let next = known.len() + 1;
    known.entry(name).or_insert_with(|| format!("{kind}-{next}")).clone()
}

/// Returns the models of requests, each once.
fn models(entries: &[Entry]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for entry in entries {
        let of: &[String] = match entry {
            Entry::Request(request) => std::slice::from_ref(&request.model),
            Entry::Agent(agent) => &agent.models,
        };
        for model in of {
            if !found.contains(model) {
                found.push(model.clone());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
