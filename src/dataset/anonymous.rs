//! Conversations without their texts: lengths, times, trees, and which blocks prompts have in common.
//!
//! The result are documents with prompts as numbers of blocks. A number stands for everything up to the
//! end of its block, so that prompts with the same first numbers begin with the same tokens, and nothing
//! else can be learnt from a number: it counts the blocks in the order of their first use.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use base::setting::named;
use base::units::Nanos;
use tokens::tokenizer::TokenCounter;

use super::file::write::weka::{Agent, Document, Entry, Request};
use super::file::write::{Lost, Written, wait};
use super::lengths::MAX_TOKENS;
use super::payload;
use super::{Branch, Conversation, Turn};

/// The deepest tree of sub-agents that is written.
const MAX_DEPTH: usize = 32;

/// Names that may stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// Names of models.
    Models,
    /// Names of tools.
    Tools,
}

named! { Names { "models" => Models, "tools" => Tools } }

/// Converts conversations.
pub struct Anonymizer<'a> {
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
    input_tokens: u64,
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
    pub fn new(
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
            input_tokens: 0,
            written: Written::default(),
        }
    }

    /// Returns the number of input tokens so far.
    pub const fn input_tokens(&self) -> u64 {
        self.input_tokens
    }

    /// Returns the number of different blocks so far.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Returns what has been converted so far, and what documents cannot express.
    pub fn written(&self) -> &Written {
        &self.written
    }

    /// Converts the conversations that sessions draw, one after the other.
    pub fn documents(&mut self) -> impl Iterator<Item = Document> {
        let start = |it: &Conversation| it.turns.first().and_then(|turn| turn.timestamp);
        let first = self.conversations.iter().filter(|it| !it.is_child).filter_map(start).min();
        let roots = self.conversations.iter().enumerate().filter(|(_, it)| !it.is_child);
        roots.map(move |(index, root)| {
            self.written.conversations += 1;
            let (requests, _) = self.requests(root, index, 0.0, 0);
            let after = |at: Nanos| at.since(first.unwrap_or(at)).as_seconds() * 1e3;
            let id = format!("session-{}", index + 1);
            Document::new(id, self.block_tokens, start(root).map(after), requests)
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
        // When the last request was answered, and when its sub-agents had ended.
        let mut own = t;
        let mut end = self.agents_after(of, None, root, t, depth, &mut entries);
        let mut prompt = Prompt::default();
        let mut before: Option<&Turn> = None;
        for (at, turn) in of.all_turns().enumerate() {
            let repeats = before.filter(|_| !of.standalone_turns && !turn.starts_anew);
            let known = repeats.map(|before| {
                if before.answer_is_recorded {
                    return prompt.tokens + u64::from(before.assumed_output());
                }
                self.response(before, root, &mut prompt);
                prompt.tokens
            });
            if repeats.is_none() {
                prompt = self.opening(of, turn);
            }
            self.turn(turn, &mut prompt);
            let is_own = at >= of.inherited_turns;
            if is_own {
                let wait = wait(before, turn).as_seconds();
                own = if of.waits_beside_branches { end.max(own + wait) } else { end + wait };
                let added = known.and_then(|known| prompt.tokens.checked_sub(known));
                let added = added.filter(|tokens| *tokens > 0);
                entries.push(Entry::Request(self.request(turn, &prompt, own, added)));
            }
            if is_own {
                end = self.agents_after(of, Some(at), root, own, depth, &mut entries);
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
            let has_next = next < of.len();
            self.written.lose(Lost::LaterJoin, u64::from(has_next && *join != Some(next)));
            if depth >= MAX_DEPTH {
                self.written.lose(Lost::Depth, 1);
                continue;
            }
            self.agents += 1;
            let id = format!("agent-{}", self.agents);
            let (requests, ended) = self.requests(child, root, t, depth + 1);
            end = end.max(ended);
            entries.push(Entry::Agent(Agent::new(id, t, requests)));
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
        self.written.lose(Lost::Media, u64::from(!turn.media.is_empty()));
        if let Some(body) = &turn.raw_payload {
            self.text(&payload::joined_texts(body), prompt);
        } else if let Some(messages) = &turn.messages {
            self.text(&payload::joined_messages(messages), prompt);
        } else if turn.token_ids.is_empty() {
            turn.as_text().texts.iter().for_each(|text| self.text(&text.to_string(), prompt));
        } else {
            turn.token_ids.iter().flat_map(|ids| ids.iter()).for_each(|id| self.token(*id, prompt));
        }
    }

    /// Appends the response to a turn, whose tokens are not known: they are like no other's, except that
    /// those who continue the same turn of a tree have the same.
    fn response(&self, turn: &Turn, root: usize, prompt: &mut Prompt) {
        let most = u64::from(MAX_TOKENS).saturating_sub(prompt.tokens);
        let seed = self.hash((root, prompt.chain, &prompt.rest, "response"));
        for at in 0..most.min(turn.assumed_output().into()) {
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

    fn request(&mut self, turn: &Turn, prompt: &Prompt, t: f64, added: Option<u64>) -> Request {
        self.written.requests += 1;
        self.input_tokens += prompt.tokens;
        let last = self.hash((prompt.chain, &prompt.rest));
        let last = (!prompt.rest.is_empty()).then_some(last);
        let blocks = prompt.blocks.iter().copied().chain(last);
        let hash_ids = blocks.map(|block| self.number(block)).collect();
        let names = turn.tools.as_ref().map(|tools| payload::tool_names(tools)).unwrap_or_default();
        let keeps_tools = self.keeps.contains(&Names::Tools);
        let tools = names.into_iter().map(|name| alias(name, "tool", keeps_tools, &mut self.tools));
        let tools = tools.collect();
        let keeps_models = self.keeps.contains(&Names::Models);
        let model = if turn.model.is_empty() { "unknown" } else { &*turn.model }.to_owned();
        Request {
            t,
            model: alias(model, "model", keeps_models, &mut self.models),
            input: prompt.tokens.max(1),
            output: turn.max_tokens.unwrap_or(1).max(1),
            hash_ids,
            tools,
            added,
            ..Request::default()
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

#[cfg(test)]
mod tests;
