//! Traces of coding agents (`weka_trace`): a JSON document per conversation, as the KV cache tester
//! of Weka writes them.
//!
//! `requests` are those of the agent, each with its whole history: `t` (seconds from the start), `in`,
//! `out`, `hash_ids` of blocks of `block_size` tokens, and maybe `api_time` and `think_time` in seconds.
//! An entry of the type `subagent` has the requests of a sub-agent, which may have sub-agents itself;
//! others are among the requests, and are found by their prompts ([`chains`]). The first request of the
//! agent after the end of a sub-agent waits for it, and no request waits for one that runs longer. Hash
//! IDs are those of one document, unless its `hash_id_scope` is `global`; `timestamp` is its start in
//! milliseconds.

mod barriers;
mod chains;

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::ops::RangeInclusive;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use self::chains::{Chain, Recorded, Role, SAME_TIME};
use super::synthesis::Shape;
use super::trace::{HashId, TimeUnit, Trace};
use super::{Fault, Loaded, document_fault};
use crate::dataset::account::LeftOut;
use crate::dataset::{self, Branch, BranchStart, Conversation, Predecessor, Turn};
use crate::units::Nanos;

/// The deepest nesting of sub-agents.
const MAX_DEPTH: usize = 32;
/// Times that a trace may have, in seconds.
const LATEST: RangeInclusive<f64> = -1e9..=1e9;

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
    #[serde(default)]
    model: String,
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
    /// What predecessors call it until it has an index.
    key: usize,
    requests: Vec<(Shape, Turn)>,
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
    /// When the entry of a sub-agent says that it began, in seconds; `None` if there is no such entry.
    entry: Option<f64>,
    span: Span,
}

/// A request with absolute times, in seconds, and its place in the list.
struct Timed {
    place: usize,
    start: f64,
    end: f64,
    request: Request,
}

impl Timed {
    fn recorded(&self) -> Recorded<'_> {
        let Self { start, end, ref request, .. } = *self;
        let Request { input, output, ref model, ref hash_ids, .. } = *request;
        Recorded { start, end, input, output, model, blocks: hash_ids }
    }
}

/// When a conversation began and ended, in seconds.
#[derive(Clone, Copy)]
struct Span {
    start: f64,
    end: f64,
}

impl Span {
    /// The time of these requests together; `None` without any.
    fn of<'t>(requests: impl IntoIterator<Item = &'t Timed>) -> Option<Self> {
        let spans = requests.into_iter().map(|it| Self { start: it.start, end: it.end });
        spans.reduce(|a, b| Self { start: a.start.min(b.start), end: a.end.max(b.end) })
    }
}

/// The requests and the sub-agents of a list, with their places.
type Separated = (Vec<Timed>, Vec<(usize, Agent)>);

/// Separates requests and sub-agents, and makes their times absolute: those before
/// `begin` count from it.
fn timed(entries: Vec<Entry>, begin: f64) -> Result<Separated, String> {
    let absolute = |t: f64| if t + SAME_TIME < begin { begin + t } else { t };
    let (mut requests, mut agents) = (Vec::new(), Vec::new());
    for (place, entry) in entries.into_iter().enumerate() {
        match entry {
            Entry::Request(request) => {
                let start = absolute(request.t);
                let end = start + request.api_time.unwrap_or(0.0).max(0.0);
                if ![start, end].iter().all(|time| LATEST.contains(time)) {
                    return Err(format!("the time of a request is out of range: {start} s"));
                }
                requests.push(Timed { place, start, end, request });
            }
            Entry::Agent(agent) => agents.push((place, Agent { t: absolute(agent.t), ..agent })),
        }
    }
    Ok((requests, agents))
}

fn times_of(requests: &[&Timed]) -> Vec<(f64, f64)> {
    requests.iter().map(|it| (it.start, it.end)).collect()
}

/// Sets after which requests of each other the requests of these conversations are sent.
fn set_predecessors(drafts: &mut [&mut Draft], times: &[Vec<(f64, f64)>]) {
    if drafts.len() == 1 {
        return;
    }
    let keys: Vec<usize> = drafts.iter().map(|draft| draft.key).collect();
    for (draft, found) in drafts.iter_mut().zip(barriers::predecessors(times)) {
        for ((_, turn), before) in draft.requests.iter_mut().zip(found) {
            let named = |(at, turn): (usize, usize)| Predecessor { conversation: keys[at], turn };
            turn.predecessors = before.into_iter().map(named).collect();
        }
    }
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
    /// Number of conversations that have a key.
    keys: usize,
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
        let (scope, keys) = (Scope::Local, 0);
        Self { trace, uses_think_time, scope, roots, agents, ids, keys }
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
        let (mut root, _) = self.agent(id, requests, 0.0, (number, 1))?;
        if root.requests.is_empty() {
            self.drop_agents(first_agent);
            return Ok(());
        }
        if let Some((_, first)) = root.requests.first_mut() {
            first.timestamp = start;
        }
        self.roots.push(root);
        Ok(())
    }

    /// Leaves out the sub-agents from number `first` on, which nothing starts.
    fn drop_agents(&mut self, first: usize) {
        let orphans = self.agents.drain(first..).map(|agent| agent.requests.len());
        self.trace.leave_out(LeftOut::MaxInput, orphans.sum::<usize>() as u64);
    }

    /// Reads the `entries` of the agent `id` and of its sub-agents. Times before `begin` count from it,
    /// and the others from the start of the conversation `number`. Returns the agent, and when it began
    /// and ended; `None` without requests.
    fn agent(
        &mut self,
        id: String,
        entries: Vec<Entry>,
        begin: f64,
        (number, depth): (u64, usize),
    ) -> Result<(Draft, Option<Span>), String> {
        if depth > MAX_DEPTH {
            return Err(format!("its sub-agents are nested more than {MAX_DEPTH} levels deep"));
        }
        let (mut requests, agents) = timed(entries, begin)?;
        let span = Span::of(&requests);
        requests.retain(|it| self.trace.admits(it.request.input));
        let mut chains = self.chains(&requests).into_iter();
        let main = chains.next().map(|chain| chain.requests).unwrap_or_default();
        let main: Vec<&Timed> = main.iter().map(|at| &requests[*at]).collect();
        let mut draft = self.draft(id, &main, number)?;
        let mut started = Vec::new();
        let mut times = vec![times_of(&main)];
        for chain in chains {
            let own: Vec<&Timed> = chain.requests.iter().map(|at| &requests[*at]).collect();
            let Some(span) = Span::of(own.iter().copied()) else { continue };
            let first = own[0];
            let is_before = |it: &&&Timed| (it.start, it.place) < (first.start, first.place);
            let after = main.iter().filter(is_before).count().max(1) - 1;
            let worker = self.draft(format!("{}::{}", draft.id, chain.role), &own, number)?;
            started.push(Beginning { draft: worker, after: Some(after), entry: None, span });
            times.push(times_of(&own));
        }
        let mut beside: Vec<&mut Draft> =
            [&mut draft].into_iter().chain(started.iter_mut().map(|it| &mut it.draft)).collect();
        set_predecessors(&mut beside, &times);
        let first_agent = self.agents.len();
        for (place, agent) in agents {
            let id = format!("{}::sa:{}", draft.id, agent.id);
            let first = self.agents.len();
            let (inner, span) = self.agent(id, agent.requests, agent.t, (number, depth + 1))?;
            let Some(mut span) = span.filter(|_| !inner.requests.is_empty()) else {
                self.drop_agents(first);
                continue;
            };
            span.end = agent.duration_ms.map_or(span.end, |millis| agent.t + millis / 1000.0);
            let after = main.iter().filter(|it| it.place < place).count().checked_sub(1);
            started.push(Beginning { draft: inner, after, entry: Some(agent.t), span });
        }
        if main.is_empty() {
            let lost = started.iter().map(|agent| agent.draft.requests.len()).sum::<usize>();
            self.trace.leave_out(LeftOut::MaxInput, lost as u64);
            self.drop_agents(first_agent);
        } else {
            self.start(&mut draft, &main, started);
        }
        Ok((draft, span))
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
    fn draft(&mut self, id: String, requests: &[&Timed], number: u64) -> Result<Draft, String> {
        let waits_beside_agents = self.scope == Scope::Local;
        let mut draft = Draft { id, key: self.keys, waits_beside_agents, ..Draft::default() };
        self.keys += 1;
        let mut before: Option<&Timed> = None;
        for timed in requests {
            let request = &timed.request;
            let scope = match self.scope {
                Scope::Local => HashId::from(number) << 64,
                Scope::Global => HashId::MIN,
            };
            let local = |id: &i64| scope | HashId::from(id.cast_unsigned());
            let shape = Shape {
                input_tokens: request.input,
                hash_ids: request.hash_ids.iter().map(local).collect(),
                session: number,
            };
            let gap = timed.start - before.map_or(0.0, |before| before.end);
            let recorded = request.think_time.filter(|_| self.uses_think_time);
            let turn = Turn {
                max_tokens: Some(self.trace.output_tokens(request.output.max(1))?),
                delay: Nanos::from_seconds(recorded.unwrap_or(gap).max(0.0)),
                recorded: Some(dataset::Recorded {
                    start: Nanos::from_seconds(timed.start.max(0.0)),
                    end: Nanos::from_seconds(timed.end.max(0.0)),
                }),
                ..Turn::default()
            };
            draft.requests.push((shape, turn));
            before = Some(timed);
        }
        Ok(draft)
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
            if let Some((_, first)) = begun.draft.requests.first_mut() {
                first.delay = Nanos::from_seconds((start - since).max(0.0));
            }
            let next = begun.after.map_or(0, |turn| turn + 1);
            let later = main.iter().enumerate().skip(next);
            let mut joined = later.filter(|(_, it)| it.start + SAME_TIME >= end);
            let join = joined.next().map(|(turn, _)| turn);
            if let Some(turn) = join.filter(|_| !parent.waits_beside_agents) {
                let rest = Nanos::from_seconds((main[turn].start - end).max(0.0));
                let delay = &mut parent.requests[turn].1.delay;
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

    /// Generates the prompts. The conversations of sub-agents come after those of agents.
    pub(super) fn finish(mut self) -> Result<Loaded, Fault> {
        let all = self.roots.iter_mut().chain(&mut self.agents);
        self.trace.reshape(all.flat_map(|draft| &mut draft.requests).map(|(shape, _)| shape));
        let first_child = self.roots.len();
        let mut index_of = vec![0; self.keys];
        let drafts = self.roots.iter().chain(&self.agents);
        drafts.enumerate().for_each(|(at, draft)| index_of[draft.key] = at);
        let mut conversations = Vec::new();
        for (at, draft) in self.roots.into_iter().chain(self.agents).enumerate() {
            let branches = draft.agents.iter().map(|begun| Branch {
                conversation: first_child + begun.agent,
                after: begun.after,
                from: begun.from,
                join: begun.join,
                is_fork: false,
            });
            let branches = branches.collect();
            let mut turns = Vec::new();
            for (shape, mut turn) in draft.requests {
                for before in &mut turn.predecessors {
                    before.conversation = index_of[before.conversation];
                }
                let prompt = self
                    .trace
                    .prompt(&shape)
                    .map_err(|why| Fault::Entry(at + 1, format!("{}: {why}", draft.id)))?;
                turns.push(Turn { texts: vec![prompt.text], input_tokens: prompt.tokens, ..turn });
            }
            conversations.push(Conversation {
                id: draft.id.into(),
                standalone_turns: true,
                waits_beside_branches: draft.waits_beside_agents,
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
mod tests;
