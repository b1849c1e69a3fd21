//! Traces of coding agents (`weka_trace`): a JSON document per conversation, as the KV cache tester
//! of Weka writes them.
//!
//! `requests` are those of the agent, each with its whole history: `t` (seconds from the start), `in`,
//! `out`, `hash_ids` of blocks of `block_size` tokens, and maybe `api_time` and `think_time` in seconds.
//! An entry of the type `subagent` has the requests of a sub-agent, which may have sub-agents itself;
//! others are among the requests, and are found by their prompts ([`chains`]). The first request of the
//! agent after the end of a sub-agent waits for it, and no request waits for one that runs longer. Hash
//! IDs are those of one document, unless its `hash_id_scope` is `global`; `timestamp` is its start in
//! milliseconds. `tool_tokens` and `system_tokens` are those with which each prompt begins.
//!
//! A document is converted as soon as it is read: hash IDs are kept only as what each prompt adds to the
//! one before it ([`dialog`]).

mod barriers;
mod chains;
pub(super) mod document;
mod timed;

use std::collections::{BTreeMap, HashMap, HashSet};

use foldhash::fast::RandomState;
use serde_json::{Map, Value};

use base::input::{Input, Meter, json};
use base::units::Nanos;
use tokens::tokenizer::TokenCounter;

use self::chains::{Chain, Recorded, Role, SAME_TIME};
use self::document::{Document, Entry, Request, Scope, count, count_known, peak};
use self::timed::{Span, Timed, timed, times_of};
use super::synthesis::Shape;
use super::trace::{HashId, TimeUnit, Trace, check_input};
use super::{Fault, Loaded, document_fault, mooncake};
use crate::account::LeftOut;
use crate::{
    Branch, BranchStart, Conversation, Corpus, KnownBlocks, Predecessor, Seed, TraceSettings, Turn,
    dialog,
};

/// The deepest nesting of sub-agents.
const MAX_DEPTH: usize = 32;

/// A conversation whose branches do not have numbers yet.
#[derive(Default)]
struct Draft {
    id: String,
    /// Its name for predecessors until it has an index.
    key: usize,
    turns: Vec<Turn>,
    /// The prompts, if they are changed once all of the trace are known.
    shapes: Vec<Shape>,
    /// Number of blocks of the system message.
    system_blocks: u32,
    agents: Vec<Started>,
    waits_beside_agents: bool,
}

/// A conversation that another one starts.
struct Started {
    /// Its number among all sub-agents.
    agent: usize,
    after: Option<usize>,
    from: BranchStart,
    join: Option<usize>,
}

/// A conversation that another one starts, before it has a number.
struct Beginning {
    draft: Draft,
    after: Option<usize>,
    /// When the sub-agent began according to its entry, in seconds; `None` if there is no such entry.
    entry: Option<f64>,
    span: Span,
}

/// The properties that the conversations of an agent share.
#[derive(Clone, Copy)]
struct Said {
    /// Number of blocks of the system message.
    system_blocks: u32,
    /// Whether output tokens are limited.
    is_limited: bool,
}

/// The list of requests of an agent.
struct Listed {
    id: String,
    entries: Vec<Entry>,
    /// Times before it, in seconds, count from it; the others from the start of the document.
    begin: f64,
    /// Tokens with which each prompt begins.
    opening: u32,
    /// 1 for the list of the document, and one more for each level of sub-agents.
    depth: usize,
}

/// Sets after which requests of each other the requests of these conversations are sent.
fn set_predecessors(drafts: &mut [&mut Draft], times: &[Vec<(f64, f64)>]) {
    if drafts.len() == 1 {
        return;
    }
    let keys: Vec<usize> = drafts.iter().map(|draft| draft.key).collect();
    for (draft, found) in drafts.iter_mut().zip(barriers::predecessors(times)) {
        for (turn, before) in draft.turns.iter_mut().zip(found) {
            let named = |(at, turn): (usize, usize)| Predecessor { conversation: keys[at], turn };
            turn.predecessors = before.into_iter().map(named).collect();
        }
    }
}

/// Numbers of blocks, which their texts are made from.
#[derive(Default)]
struct Numbers {
    known: HashMap<HashId, u32, RandomState>,
    next: u32,
}

impl Numbers {
    /// Returns the number of the block with this identifier, or a new one.
    fn number(&mut self, id: Option<HashId>) -> u32 {
        let next = &mut self.next;
        let mut new = || {
            // A text is repeated after so many blocks, which do not fit into memory.
            *next = next.wrapping_add(1);
            *next
        };
        match id {
            Some(id) => *self.known.entry(id).or_insert_with(new),
            None => new(),
        }
    }
}

/// Conversations of one or several files.
pub(super) struct Documents<'a> {
    trace: Trace<'a>,
    uses_think_time: bool,
    /// Maximum number of agents.
    most: usize,
    max_context_tokens: Option<u32>,
    max_output_tokens: Option<u32>,
    /// Tokens that the shortest of the conversations needs that are too long.
    shortest: Option<u64>,
    is_stopped: bool,
    numbers: Numbers,
    /// Of the current document.
    scope: Scope,
    block_tokens: u32,
    roots: Vec<Draft>,
    agents: Vec<Draft>,
    ids: HashSet<String>,
    /// Number of conversations that have a key.
    keys: usize,
}

/// Returns whether a document with these members is of this format.
pub(super) fn has(members: &Map<String, Value>) -> bool {
    ["requests", "block_size", "hash_id_scope"].iter().all(|name| members.contains_key(*name))
}

impl<'a> Documents<'a> {
    /// Creates a reader. Prompts are made of code unless the settings choose otherwise.
    pub(super) fn new(
        settings: &TraceSettings,
        counter: &'a TokenCounter,
        seed: Seed,
    ) -> Result<Self, Fault> {
        let corpus = settings.corpus.or(Some(Corpus::Coding));
        let settings = TraceSettings { corpus, ..*settings };
        Ok(Self {
            trace: Trace::new(&settings, mooncake::BLOCK_TOKENS, counter, seed)?,
            uses_think_time: settings.uses_think_time,
            most: settings.entries.unwrap_or(usize::MAX),
            max_context_tokens: settings.max_context_tokens,
            max_output_tokens: settings.max_output_tokens,
            shortest: None,
            is_stopped: false,
            numbers: Numbers::default(),
            scope: Scope::Local,
            block_tokens: mooncake::BLOCK_TOKENS,
            roots: Vec::new(),
            agents: Vec::new(),
            ids: HashSet::new(),
            keys: 0,
        })
    }

    /// Reads the documents of a file.
    pub(super) fn read(&mut self, input: Input<'_>) -> Result<(), Fault> {
        let meter = input.meter();
        let mut documents = json::documents(input);
        for number in 1.. {
            if documents.end().is_ok() || self.is_full() {
                break;
            }
            let document = Document::read(&mut documents, &meter).map_err(document_fault)?;
            self.add(document).map_err(|why| Fault::Entry(number, why))?;
        }
        Ok(())
    }

    /// Adds a document that is a row of a table.
    pub(super) fn add_row(&mut self, row: Map<String, Value>) -> Result<(), String> {
        let document = Document::read(Value::Object(row), &Meter::default());
        self.add(document.map_err(|error| error.to_string())?)
    }

    /// Returns whether there are as many conversations as are wanted. It is asked before another one is
    /// read, so that there are more.
    pub(super) const fn is_full(&mut self) -> bool {
        self.is_stopped |= self.roots.len() >= self.most;
        self.is_stopped
    }

    /// Counts requests that no document has.
    pub(super) fn leave_out(&mut self, why: LeftOut, requests: u64) {
        self.trace.leave_out(why, requests);
    }

    /// Adds a document.
    ///
    /// # Errors
    ///
    /// Fails if it is inconsistent, or has the ID of another one.
    pub(super) fn add(&mut self, document: Document) -> Result<(), String> {
        let opening = document::opening(document.tool_tokens, document.system_tokens);
        let Document { id, block_size, hash_id_scope, timestamp, mut requests, .. } = document;
        let start =
            timestamp.map(|at| self.trace.instant(at, TimeUnit::Milliseconds)).transpose()?;
        self.block_tokens = self.trace.use_block(block_size)?;
        if !self.ids.insert(id.clone()) {
            return Err(format!("the id {id:?} is already used by another conversation"));
        }
        if !self.fits(&requests) {
            self.trace.leave_out(LeftOut::MaxContext, count(&requests));
            return Ok(());
        }
        count_known(&mut requests);
        self.scope = hash_id_scope;
        if hash_id_scope == Scope::Local {
            self.numbers.known.clear();
        }
        let (number, first_agent) = (self.roots.len() as u64, self.agents.len());
        let listed = Listed { id, entries: requests, begin: 0.0, opening, depth: 1 };
        let (mut root, _) = self.agent(listed, number)?;
        if root.turns.is_empty() {
            self.drop_agents(first_agent);
            return Ok(());
        }
        if let Some(first) = root.turns.first_mut() {
            first.timestamp = start;
        }
        self.roots.push(root);
        Ok(())
    }

    /// Returns whether no request is longer than the maximum.
    fn fits(&mut self, requests: &[Entry]) -> bool {
        let Some(most) = self.max_context_tokens else { return true };
        let peak = peak(requests, self.max_output_tokens.unwrap_or(u32::MAX));
        let fits = peak <= u64::from(most);
        if !fits {
            self.shortest = Some(self.shortest.map_or(peak, |shortest| shortest.min(peak)));
        }
        fits
    }

    /// Leaves out the sub-agents from number `first` on, which nothing starts.
    fn drop_agents(&mut self, first: usize) {
        let orphans = self.agents.drain(first..).map(|agent| agent.turns.len());
        self.trace.leave_out(LeftOut::MaxInput, orphans.sum::<usize>() as u64);
    }

    /// Reads an agent of the conversation `number`, and its sub-agents. Returns the agent, and when it
    /// began and ended; `None` without requests.
    fn agent(&mut self, listed: Listed, number: u64) -> Result<(Draft, Option<Span>), String> {
        let Listed { id, entries, begin, opening, depth } = listed;
        if depth > MAX_DEPTH {
            return Err(format!("its sub-agents are nested more than {MAX_DEPTH} levels deep"));
        }
        let (mut requests, agents) = timed(entries, begin)?;
        let span = Span::covering(&requests);
        requests.retain(|it| self.trace.admits(it.request.input));
        let mut chains = self.chains(&requests).into_iter();
        let main = chains.next().map(|chain| chain.requests).unwrap_or_default();
        let main: Vec<&Timed> = main.iter().map(|at| &requests[*at]).collect();
        let system = self.system(&main, opening)?;
        let said = Said { system_blocks: system.len() as u32, is_limited: depth == 1 };
        let mut draft = self.draft(id, &main, number, said)?;
        let mut started = Vec::new();
        let mut times = vec![times_of(&main)];
        for chain in chains {
            let own: Vec<&Timed> = chain.requests.iter().map(|at| &requests[*at]).collect();
            let Some(span) = Span::covering(own.iter().copied()) else { continue };
            let first = own[0];
            let is_before = |it: &&Timed| (it.start, it.place) < (first.start, first.place);
            let after = main.partition_point(is_before).max(1) - 1;
            let has_system = first.request.hash_ids.starts_with(system);
            let system_blocks = if has_system { said.system_blocks } else { 0 };
            let id = format!("{}::{}", draft.id, chain.role);
            let worker = self.draft(id, &own, number, Said { system_blocks, ..said })?;
            started.push(Beginning { draft: worker, after: Some(after), entry: None, span });
            times.push(times_of(&own));
        }
        let mut beside: Vec<&mut Draft> =
            [&mut draft].into_iter().chain(started.iter_mut().map(|it| &mut it.draft)).collect();
        set_predecessors(&mut beside, &times);
        let first_agent = self.agents.len();
        let mut places: Vec<usize> = main.iter().map(|it| it.place).collect();
        places.sort_unstable();
        for (place, agent) in agents {
            let first = self.agents.len();
            let listed = Listed {
                id: format!("{}::sa:{}", draft.id, agent.id),
                opening: document::opening(agent.tool_tokens, agent.system_tokens),
                entries: agent.requests,
                begin: agent.t,
                depth: depth + 1,
            };
            let (inner, span) = self.agent(listed, number)?;
            let Some(mut span) = span.filter(|_| !inner.turns.is_empty()) else {
                self.drop_agents(first);
                continue;
            };
            span.end = agent.duration_ms.map_or(span.end, |millis| agent.t + millis / 1000.0);
            let after = places.partition_point(|it| *it < place).checked_sub(1);
            started.push(Beginning { draft: inner, after, entry: Some(agent.t), span });
        }
        if main.is_empty() {
            let lost = started.iter().map(|agent| agent.draft.turns.len()).sum::<usize>();
            self.trace.leave_out(LeftOut::MaxInput, lost as u64);
            self.drop_agents(first_agent);
        } else {
            self.start(&mut draft, &main, started);
        }
        Ok((draft, span))
    }

    /// Returns the blocks with the `opening` tokens of an agent with these requests.
    fn system<'t>(&self, main: &[&'t Timed], opening: u32) -> Result<&'t [i64], String> {
        let Some(first) = main.first() else { return Ok(&[]) };
        let blocks = opening.div_ceil(self.block_tokens) as usize;
        let recorded = &first.request.hash_ids;
        recorded.get(..blocks).ok_or_else(|| {
            format!(
                "its tools and system message have {opening} tokens, which are {blocks} blocks, but \
                 its first request has {} hash_ids",
                recorded.len()
            )
        })
    }

    /// Returns the chains of `requests`, of which the first one is that of the agent. Other programs than
    /// Weka's, whose hash IDs are global, keep sub-agents apart.
    fn chains(&self, requests: &[Timed]) -> Vec<Chain> {
        if self.scope == Scope::Global {
            return vec![Chain { requests: (0..requests.len()).collect(), role: Role::Main }];
        }
        let recorded: Vec<Recorded<'_>> = requests.iter().map(Timed::recorded).collect();
        chains::split(&recorded)
    }

    /// Makes the conversation `id` of these `requests` of the session `number`.
    fn draft(
        &mut self,
        id: String,
        requests: &[&Timed],
        number: u64,
        said: Said,
    ) -> Result<Draft, String> {
        let waits_beside_agents = self.scope == Scope::Local;
        let system_blocks = said.system_blocks;
        let key = self.keys;
        self.keys += 1;
        let mut draft = Draft { id, key, system_blocks, waits_beside_agents, ..Draft::default() };
        let mut before: Option<&Timed> = None;
        for timed in requests {
            let request = &timed.request;
            let gap = timed.start - before.map_or(0.0, |before| before.end);
            let recorded = request.think_time.filter(|_| self.uses_think_time);
            let output = request.output.max(1);
            draft.turns.push(Turn {
                max_tokens: Some(if said.is_limited {
                    self.trace.output_tokens(output)?
                } else {
                    self.trace.multiplied_output(output)
                }),
                delay: Nanos::from_seconds(recorded.unwrap_or(gap).max(0.0)),
                recorded: Some(crate::Recorded {
                    start: Nanos::from_seconds(timed.start.max(0.0)),
                    end: Nanos::from_seconds(timed.end.max(0.0)),
                }),
                known_blocks: Some(KnownBlocks {
                    known: request.known_blocks as u32,
                    all: request.hash_ids.len() as u32,
                    tokens: request.input,
                }),
                ..Turn::default()
            });
            before = Some(timed);
        }
        let prompts = requests.iter().zip(&draft.turns).map(|(timed, turn)| dialog::Recorded {
            input_tokens: timed.request.input,
            output_tokens: turn.max_tokens.filter(|_| timed.request.output > 0).unwrap_or(0),
            hash_ids: self.blocks(&timed.request),
        });
        let prompts: Vec<_> = prompts.collect();
        if self.trace.changes_prompts() {
            let scope = match self.scope {
                Scope::Local => HashId::from(number) << 64,
                Scope::Global => HashId::MIN,
            };
            let id = |id: &i64| scope | HashId::from(id.cast_unsigned());
            let shape = |prompt: dialog::Recorded<'_, i64>| Shape {
                input_tokens: prompt.input_tokens,
                hash_ids: prompt.hash_ids.iter().map(id).collect(),
                session: number,
            };
            draft.shapes = prompts.into_iter().map(shape).collect();
        } else {
            self.converse(&mut draft, &prompts, HashId::from)?;
        }
        Ok(draft)
    }

    /// Returns the hash IDs of a request that are of blocks with tokens.
    fn blocks<'r>(&self, request: &'r Request) -> &'r [i64] {
        let most = request.input.div_ceil(self.block_tokens) as usize;
        &request.hash_ids[..most.min(request.hash_ids.len())]
    }

    /// Gives the turns of a conversation their prompts.
    fn converse<I: Copy + PartialEq>(
        &mut self,
        draft: &mut Draft,
        prompts: &[dialog::Recorded<'_, I>],
        id: impl Fn(I) -> HashId,
    ) -> Result<(), String> {
        let mut builder = dialog::Builder::new(self.block_tokens);
        let mut before = None;
        for prompt in prompts {
            check_input(prompt.input_tokens).map_err(|why| format!("{}: {why}", draft.id))?;
            let numbers = &mut self.numbers;
            if builder.add(before, prompt, |block| numbers.number(block.map(&id))) {
                self.trace.leave_uncovered();
            }
            before = Some(prompt);
        }
        let dialog = builder.finish(self.trace.words()?, draft.system_blocks);
        for (turn, prompt) in draft.turns.iter_mut().zip(dialog::prompts(dialog)) {
            turn.input_tokens = prompt.tokens();
            turn.prompt = Some(prompt);
        }
        Ok(())
    }

    /// Has `parent`, whose requests are `main`, start these conversations.
    fn start(&mut self, parent: &mut Draft, main: &[&Timed], started: Vec<Beginning>) {
        // When the first sub-agent after each turn begins.
        let mut groups: BTreeMap<Option<usize>, f64> = BTreeMap::new();
        for begun in &started {
            if let Some(entry) = begun.entry {
                let first = groups.entry(begun.after).or_insert(entry);
                *first = first.min(entry);
            }
        }
        for mut begun in started {
            let Span { start, end } = begun.span;
            let before = begun.after.and_then(|turn| main.get(turn));
            let group =
                begun.entry.and_then(|_| groups.get(&begun.after)).copied().unwrap_or(start);
            let (from, since) = match before {
                Some(turn) if group < turn.end => (BranchStart::Issue, turn.start),
                Some(turn) if self.scope == Scope::Global => (BranchStart::Response, turn.end),
                Some(_) => (BranchStart::Response, group),
                None => (BranchStart::Response, 0.0),
            };
            if let Some(first) = begun.draft.turns.first_mut() {
                first.delay = Nanos::from_seconds((start - since).max(0.0));
            }
            let next = begun.after.map_or(0, |turn| turn + 1);
            // The requests are in the order of their starts.
            let join = main.partition_point(|it| it.start + SAME_TIME < end).max(next);
            let join = Some(join).filter(|turn| *turn < main.len());
            if let Some(turn) = join.filter(|_| !parent.waits_beside_agents) {
                let rest = Nanos::from_seconds((main[turn].start - end).max(0.0));
                let delay = &mut parent.turns[turn].delay;
                *delay = rest.min(*delay);
            }
            parent.agents.push(Started {
                agent: self.agents.len(),
                after: begun.after,
                from,
                join,
            });
            self.agents.push(begun.draft);
        }
    }

    /// Returns all conversations. Those of sub-agents come after those of agents.
    pub(super) fn finish(mut self) -> Result<Loaded, Fault> {
        if self.trace.changes_prompts() {
            self.change().map_err(|(at, why)| Fault::Entry(at + 1, why))?;
        }
        if let Some(shortest) = self.shortest.filter(|_| self.roots.is_empty()) {
            self.trace.remark(shortest, "tokens needed by the shortest conversation");
        }
        let first_child = self.roots.len();
        let mut index_of = vec![0; self.keys];
        let drafts = self.roots.iter().chain(&self.agents);
        drafts.enumerate().for_each(|(at, draft)| index_of[draft.key] = at);
        let mut conversations = Vec::new();
        for (at, mut draft) in self.roots.into_iter().chain(self.agents).enumerate() {
            let branches = draft.agents.iter().map(|begun| Branch {
                conversation: first_child + begun.agent,
                after: begun.after,
                from: begun.from,
                join: begun.join,
                is_fork: false,
            });
            let branches = branches.collect();
            for before in draft.turns.iter_mut().flat_map(|turn| &mut turn.predecessors) {
                before.conversation = index_of[before.conversation];
            }
            conversations.push(Conversation {
                branches,
                id: draft.id.into(),
                standalone_turns: true,
                waits_beside_branches: draft.waits_beside_agents,
                turns: draft.turns,
                is_child: at >= first_child,
                ..Conversation::default()
            });
        }
        let mut loaded = self.trace.loaded(conversations);
        if self.is_stopped {
            loaded.conversations.stop_at_limit();
        }
        Ok(loaded)
    }

    /// Changes the prompts according to the settings, and gives them to the turns. An error has the number of
    /// the conversation.
    fn change(&mut self) -> Result<(), (usize, String)> {
        let all = self.roots.iter_mut().chain(&mut self.agents);
        self.trace.reshape(all.flat_map(|draft| &mut draft.shapes));
        let mut drafts = std::mem::take(&mut self.roots);
        let roots = drafts.len();
        drafts.append(&mut self.agents);
        for (at, draft) in drafts.iter_mut().enumerate() {
            let shapes = std::mem::take(&mut draft.shapes);
            let prompts = shapes.iter().zip(&draft.turns).map(|(shape, turn)| dialog::Recorded {
                input_tokens: shape.input_tokens,
                output_tokens: turn.max_tokens.unwrap_or(0),
                hash_ids: &shape.hash_ids,
            });
            let prompts: Vec<_> = prompts.collect();
            self.converse(draft, &prompts, |id| id).map_err(|why| (at, why))?;
        }
        self.agents = drafts.split_off(roots);
        self.roots = drafts;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
