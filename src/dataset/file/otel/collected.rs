//! What is kept of the spans of all files: the requests, and where they belong.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use base::semconv::attribute;

use super::call::{Call, Pool, Said};
use super::dialect::{self, Content, OperationKind};
use super::span::{Event, Item, Span, count, text};

/// Attributes that have all messages of a request.
const WHOLE: &[&str] =
    &["gen_ai.input.messages", "input.value", "ai.prompt.messages", "gen_ai.prompt"];

/// How many ancestors of a span are followed, which ends a circle.
const MAX_ANCESTORS: usize = 1000;

/// What is kept of any span.
#[derive(Clone, Copy)]
struct Node {
    parent: Option<u64>,
    start: u64,
    /// The conversation that it names.
    conversation: Option<u32>,
    kind: Option<OperationKind>,
}

impl Node {
    const fn is_actor(&self) -> bool {
        matches!(self.kind, Some(OperationKind::Agent | OperationKind::Tool))
    }
}

/// The requests in the order of their times, and what was noticed about them.
#[derive(Default)]
pub(super) struct Collected {
    nodes: HashMap<u64, Node>,
    pub(super) calls: Vec<Call>,
    /// Log records of spans, which may be in another file.
    logs: HashMap<u64, Vec<Event>>,
    pub(super) pool: Pool,
    pub(super) counts: Counts,
    /// The conversation within a session of aiperf's own traces, by span.
    own_conversations: HashMap<u64, u64>,
    /// The conversation that started another one of them.
    own_parents: HashMap<u64, u64>,
}

/// What was noticed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Counts {
    /// Spans that a file has again.
    pub(super) repeated_spans: u64,
    /// Requests for embeddings and the like.
    pub(super) other_requests: u64,
    /// Requests that two instrumentations recorded, or the client and the server.
    pub(super) recorded_twice: u64,
    /// Requests whose parent span is missing.
    pub(super) orphans: u64,
    /// Requests that start before their parent.
    pub(super) skewed: u64,
    /// Requests of which a part of the messages is missing.
    pub(super) cut: u64,
}

/// Where a request belongs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ActorPath {
    /// The session: the conversation, or else the trace.
    pub(super) session: Session,
    /// The agents and tools within which it was sent, the innermost first, without the outermost
    /// agent, which is that of the session.
    pub(super) actors: Vec<u64>,
}

/// What the requests of a session have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Session {
    /// The name of a conversation.
    Conversation(u32),
    /// A trace.
    Trace(u64),
}

impl Default for Session {
    fn default() -> Self {
        Self::Trace(0)
    }
}

impl Collected {
    /// Adds an item of a file. Spans may come in any order.
    pub(super) fn add(&mut self, item: Item) {
        match item {
            Item::Span(span) => self.add_span(&span),
            Item::Log(key, event) if event.name.starts_with("gen_ai.") => {
                self.logs.entry(key).or_default().push(event);
            }
            Item::Log(..) => {}
        }
    }

    fn add_span(&mut self, span: &Span) {
        let kind = dialect::kind(span);
        let Entry::Vacant(place) = self.nodes.entry(span.key) else {
            self.counts.repeated_spans += 1;
            return;
        };
        let own_session = count(&span.attributes, &[attribute::AIPERF_SESSION_NUMBER]);
        let named = dialect::conversation(&span.attributes);
        let conversation = match own_session {
            // A session of aiperf has several conversations if agents start others.
            Some(number) => {
                if let Some(name) = named {
                    let name = u64::from(self.pool.number(name));
                    self.own_conversations.insert(span.key, name);
                    let parent = text(&span.attributes, &[attribute::AIPERF_CONVERSATION_PARENT]);
                    let parent = parent.map(|parent| u64::from(self.pool.number(parent)));
                    self.own_parents.extend(parent.map(|parent| (name, parent)));
                }
                let instance = span.instance.as_deref().unwrap_or_default();
                Some(self.pool.number(&format!("{instance} {number}")))
            }
            None => named.map(|name| self.pool.number(name)),
        };
        let Span { parent, start, .. } = *span;
        place.insert(Node { parent, start, conversation, kind });
        match kind {
            Some(OperationKind::Call) => self.add_call(span),
            Some(OperationKind::OtherRequest) => self.counts.other_requests += 1,
            Some(OperationKind::Agent | OperationKind::Tool) | None => {}
        }
    }

    fn add_call(&mut self, span: &Span) {
        let mut content = dialect::content(span);
        // If each message has attributes of its own, those of the last ones may be missing.
        let is_one = WHOLE.iter().any(|name| span.attributes.contains_key(*name));
        content.is_cut |= span.dropped_attributes > 0 && !is_one;
        let call = Call {
            key: span.key,
            trace: span.trace,
            start: span.start,
            end: span.end,
            has_failed: span.has_failed,
            adjusted_count: span.adjusted_count,
            said: Said::new(&content, &mut self.pool),
            ..Call::default()
        };
        let call = call.with(dialect::facts(&span.attributes), &mut self.pool);
        self.calls.push(call);
    }

    /// Completes the requests, once all files were read: those that are recorded twice are counted
    /// once, and the rest is in the order of the times.
    pub(super) fn complete(&mut self) {
        for call in &mut self.calls {
            if let Some(events) = self.logs.remove(&call.key).filter(|_| !call.has_messages()) {
                let content: Content = dialect::of_events(&events);
                call.said = Said::new(&content, &mut self.pool);
            }
        }
        self.logs.clear();
        let twice = self.recorded_twice();
        self.counts.recorded_twice = twice.len() as u64;
        self.calls.retain(|call| !twice.contains(&call.key));
        self.calls.sort_by_key(|call| (call.start, call.end, call.key));
        for call in &self.calls {
            self.counts.cut += u64::from(call.said.is_cut);
            let Some(node) = self.nodes.get(&call.key) else { continue };
            let Some(parent) = node.parent else { continue };
            match self.nodes.get(&parent) {
                None => self.counts.orphans += 1,
                Some(parent) => self.counts.skewed += u64::from(call.start < parent.start),
            }
        }
    }

    /// Returns the spans of requests that another span stands for: the outermost one with messages,
    /// or else the innermost one.
    fn recorded_twice(&self) -> HashSet<u64> {
        let has_messages: HashMap<u64, bool> =
            self.calls.iter().map(|call| (call.key, call.has_messages())).collect();
        let mut twice = HashSet::new();
        for call in &self.calls {
            // Requests within an agent or a tool are not those of a request around it.
            let within = self.ancestors(call.key).take_while(|(_, node)| !node.is_actor());
            for (ancestor, _) in within {
                match has_messages.get(&ancestor) {
                    Some(true) => drop(twice.insert(call.key)),
                    Some(false) => drop(twice.insert(ancestor)),
                    None => {}
                }
            }
        }
        twice
    }

    /// Returns the ancestors of a span, the nearest first.
    fn ancestors(&self, key: u64) -> impl Iterator<Item = (u64, Node)> {
        let parent = |key: &u64| self.nodes.get(key).and_then(|node| node.parent);
        let keys = std::iter::successors(parent(&key), move |key| parent(key));
        keys.take(MAX_ANCESTORS).map_while(|key| Some((key, *self.nodes.get(&key)?)))
    }

    /// Returns the place of each request.
    pub(super) fn places(&self) -> Vec<ActorPath> {
        // A conversation that any request of a trace names is that of all, if it is the only one.
        let mut of_traces: HashMap<u64, Option<u32>> = HashMap::new();
        let named: Vec<Option<u32>> = self.calls.iter().map(|call| self.named(call.key)).collect();
        for (call, name) in self.calls.iter().zip(&named) {
            let Some(name) = *name else { continue };
            let only = of_traces.entry(call.trace).or_insert(Some(name));
            if *only != Some(name) {
                *only = None;
            }
        }
        let place = |(call, name): (&Call, &Option<u32>)| {
            let name = name.or_else(|| of_traces.get(&call.trace).copied().flatten());
            let session = name.map_or(Session::Trace(call.trace), Session::Conversation);
            ActorPath { session, actors: self.actors(call.key) }
        };
        self.calls.iter().zip(&named).map(place).collect()
    }

    /// Returns the conversation that the outermost span around a request names, or else its own.
    fn named(&self, key: u64) -> Option<u32> {
        let own = self.nodes.get(&key).and_then(|node| node.conversation);
        self.ancestors(key).filter_map(|(_, node)| node.conversation).last().or(own)
    }

    fn actors(&self, key: u64) -> Vec<u64> {
        if let Some(conversation) = self.own_conversations.get(&key) {
            let parent = |of: &u64| self.own_parents.get(of).copied();
            return std::iter::successors(Some(*conversation), parent)
                .take(MAX_ANCESTORS)
                .collect();
        }
        let mut actors: Vec<(u64, Node)> =
            self.ancestors(key).filter(|(_, node)| node.is_actor()).collect();
        if actors.last().is_some_and(|(_, node)| node.kind == Some(OperationKind::Agent)) {
            actors.pop();
        }
        actors.into_iter().map(|(key, _)| key).collect()
    }
}
