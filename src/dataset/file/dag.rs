//! Trees of conversations (`dag_jsonl`): JSONL with one conversation per line, whose turns may start
//! other conversations of the file.
//!
//! A line has `session_id` and `turns`, and may have `pre_session_spawns` and `context_mode`. A turn
//! has `messages`, which are sent after the messages and responses of the turns before it, and may
//! have `model`, `max_tokens`, `tools`, `extra`, `delay` and `timestamp` in milliseconds, `forks` and
//! `spawns`. A *fork* continues with the messages and responses of its parent; a *spawn* begins anew.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use base::setting::named;

use super::jsonl::{delay, from_object};
use super::lines::Lines;
use super::mooncake::{check_messages, checked_tools};
use super::trace::{TimeUnit, instant};
use super::{Fault, Loaded};
use crate::{Branch, BranchStart, Conversation, Turn, forks};

/// A conversation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    session_id: String,
    context_mode: Option<ContextMode>,
    #[serde(default)]
    pre_session_spawns: Vec<String>,
    #[serde(default)]
    turns: Vec<TurnMembers>,
}

/// The form of the messages of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContextMode {
    /// Those after the response to the turn before, which is that of the run.
    Live,
    /// Those after the request of the turn before, with the recorded response.
    Recorded,
    /// All messages of the request.
    Whole,
}

named! {
    ContextMode {
        "deltas_without_responses" => Live,
        "deltas_with_responses" => Recorded,
        "message_array_with_responses" => Whole,
    }
}

/// The member by which another kind of line is recognized.
#[derive(Deserialize)]
struct LineKind {
    #[serde(default)]
    orchestrator: bool,
}

/// A turn.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnMembers {
    /// Milliseconds on the time axis of the trace.
    timestamp: Option<f64>,
    /// Milliseconds after the response to the turn before.
    delay: Option<f64>,
    model: Option<String>,
    messages: Box<RawValue>,
    tools: Option<Box<RawValue>>,
    max_tokens: Option<u32>,
    extra: Option<Map<String, Value>>,
    #[serde(default)]
    forks: Vec<Fork>,
    #[serde(default)]
    spawns: Vec<Spawn>,
}

/// A conversation that continues this one.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a fork must be a session ID, or an object with `child`")]
enum Fork {
    Plain(String),
    Settled(SettledFork),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettledFork {
    child: String,
    #[serde(default)]
    background: bool,
}

/// A conversation that begins anew.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a spawn must be a session ID, or an object with `children`")]
enum Spawn {
    Plain(String),
    Settled(SettledSpawn),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettledSpawn {
    children: Vec<String>,
    join_at: Option<usize>,
}

/// A conversation that another one starts.
struct Child {
    id: String,
    /// The turn after which it starts, from 0; `None` before the first turn.
    after: Option<usize>,
    /// The turn that waits for its end.
    join: Option<usize>,
    is_fork: bool,
}

/// A line that has been read, without the connections to others.
struct Node {
    line: u64,
    conversation: Conversation,
    children: Vec<Child>,
    has_system: bool,
}

/// Reads all lines. The conversations that others start come after those that sessions draw.
pub(super) fn read(lines: Lines<'_>) -> Result<Loaded, Fault> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut places: HashMap<Arc<str>, usize> = HashMap::new();
    for line in lines {
        let line = line?;
        let fault = |why| Fault::Line(line.number, why);
        let node = node(line.number, &line.text).map_err(fault)?;
        let id = Arc::clone(&node.conversation.id);
        if places.insert(Arc::clone(&id), nodes.len()).is_some() {
            return Err(fault(format!("session_id {id:?} is already used by an earlier line")));
        }
        nodes.push(node);
    }
    let conversations = connected(nodes, &places)?;
    Ok(conversations.into())
}

fn node(number: u64, text: &str) -> Result<Node, String> {
    if from_object::<LineKind>(text)?.orchestrator {
        return Err("conversations without requests (`orchestrator`) are not supported, since a \
                    session begins with a request; give the conversation a turn"
            .to_owned());
    }
    let line: Line = from_object(text)?;
    if line.session_id.is_empty() || line.turns.is_empty() {
        return Err("`session_id` and `turns` must not be empty".to_owned());
    }
    let standalone_turns = line.context_mode == Some(ContextMode::Whole);
    let has_responses = line.context_mode == Some(ContextMode::Recorded);
    let mut children: Vec<Child> = line
        .pre_session_spawns
        .into_iter()
        .map(|id| Child { id, after: None, join: None, is_fork: false })
        .collect();
    let mut turns = Vec::with_capacity(line.turns.len());
    let mut has_system = false;
    let count = line.turns.len();
    for (index, members) in line.turns.into_iter().enumerate() {
        let wrong = |why| format!("turn {}: {why}", index + 1);
        let is_system = has_system_message(&members.messages);
        if is_system && index > 0 && !standalone_turns {
            let why = "only the first turn of a conversation can have a system message";
            return Err(wrong(why.to_owned()));
        }
        has_system |= is_system;
        let turn = turn(members, index, count, &mut children).map_err(wrong)?;
        turns.push(Turn { answer_is_recorded: has_responses, ..turn });
    }
    let mut seen = HashSet::new();
    if let Some(twice) = children.iter().find(|child| !seen.insert((&child.id, child.after))) {
        return Err(format!("{:?} is started twice at the same time", twice.id));
    }
    let id = line.session_id.into();
    let conversation = Conversation { id, standalone_turns, turns, ..Conversation::default() };
    Ok(Node { line: number, conversation, children, has_system })
}

fn has_system_message(messages: &RawValue) -> bool {
    let messages: Vec<Value> = serde_json::from_str(messages.get()).unwrap_or_default();
    messages.iter().any(|message| message["role"] == "system")
}

/// Returns turn `index` of `count`, and adds the conversations that it starts to `children`.
fn turn(
    members: TurnMembers,
    index: usize,
    count: usize,
    children: &mut Vec<Child>,
) -> Result<Turn, String> {
    let is_last = index + 1 == count;
    for fork in members.forks {
        let (id, is_background) = match fork {
            Fork::Plain(id) => (id, false),
            Fork::Settled(fork) => (fork.child, fork.background),
        };
        if !is_last && !is_background {
            return Err(format!(
                "the fork {id:?} ends the conversation, but it is not the last turn; move it there, \
                 or set its `background`"
            ));
        }
        children.push(Child { id, after: Some(index), join: None, is_fork: true });
    }
    for spawn in members.spawns {
        let (ids, join) = match spawn {
            Spawn::Plain(id) => (vec![id], None),
            Spawn::Settled(spawn) => (spawn.children, spawn.join_at),
        };
        if let Some(join) = join.filter(|join| !(index + 1..count).contains(join)) {
            return Err(format!(
                "`join_at` is {join}, which is not the number of a later turn, counted from 0"
            ));
        }
        let join = join.or((!is_last).then_some(index + 1));
        let spawned = |id| Child { id, after: Some(index), join, is_fork: false };
        children.extend(ids.into_iter().map(spawned));
    }
    check_messages(&members.messages)?;
    if members.max_tokens == Some(0) {
        return Err("`max_tokens` must be at least 1".to_owned());
    }
    Ok(Turn {
        model: members.model.unwrap_or_default().into(),
        messages: Some(Arc::from(members.messages)),
        tools: members.tools.map(checked_tools).transpose()?,
        max_tokens: members.max_tokens,
        extra: members.extra.unwrap_or_default().into_iter().collect(),
        delay: delay(members.delay)?,
        timestamp: members.timestamp.map(|at| instant(at, TimeUnit::Milliseconds)).transpose()?,
        ..Turn::default()
    })
}

/// Connects conversations, and has forks share the turns of their parents.
fn connected(
    mut nodes: Vec<Node>,
    places: &HashMap<Arc<str>, usize>,
) -> Result<Vec<Conversation>, Fault> {
    // Of each conversation that others start: whether it is a fork, and of which turn.
    let mut origins: HashMap<usize, Option<(usize, usize)>> = HashMap::new();
    for (parent, node) in nodes.iter().enumerate() {
        let fault = |why| Fault::Line(node.line, why);
        for child in &node.children {
            let Some(place) = places.get(child.id.as_str()).copied() else {
                return Err(fault(format!("session {:?} does not exist in the file", child.id)));
            };
            let origin = child.after.filter(|_| child.is_fork).map(|after| (parent, after));
            let earlier = origins.insert(place, origin);
            if earlier.is_some_and(|earlier| earlier.is_some() || origin.is_some()) {
                return Err(fault(format!(
                    "session {:?} is a fork, so it can be started at one place only",
                    child.id
                )));
            }
        }
    }
    let order = parents_first(&nodes, places)?;
    for place in order {
        if let Some(Some((parent, after))) = origins.get(&place).copied() {
            inherit(&mut nodes, place, parent, after)?;
        }
    }
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|place| origins.contains_key(place));
    let mut new_places = vec![0; nodes.len()];
    for (new, old) in order.iter().enumerate() {
        new_places[*old] = new;
    }
    let conversation = |old: &usize| {
        let node = &nodes[*old];
        let inherited = node.conversation.inherited_turns;
        let branch = |child: &Child| Branch {
            after: child.after.map(|turn| inherited + turn),
            join: child.join.map(|turn| inherited + turn),
            conversation: places.get(child.id.as_str()).map_or(0, |place| new_places[*place]),
            from: BranchStart::Response,
            is_fork: child.is_fork,
        };
        let branches = node.children.iter().map(branch).collect();
        let is_child = origins.contains_key(old);
        Conversation { branches, is_child, ..node.conversation.clone() }
    };
    let mut all: Vec<Conversation> = order.iter().map(conversation).collect();
    forks::share(&mut all, |fork| fork.inherited_turns);
    Ok(all)
}

/// Returns all places, each after those that start it.
fn parents_first(nodes: &[Node], places: &HashMap<Arc<str>, usize>) -> Result<Vec<usize>, Fault> {
    let children = |place: usize| {
        nodes[place].children.iter().filter_map(|child| places.get(child.id.as_str()).copied())
    };
    let mut waiting_for = vec![0usize; nodes.len()];
    for place in (0..nodes.len()).flat_map(children) {
        waiting_for[place] += 1;
    }
    let mut order: Vec<usize> = (0..nodes.len()).filter(|at| waiting_for[*at] == 0).collect();
    let mut next = 0;
    while let Some(place) = order.get(next).copied() {
        next += 1;
        for child in children(place) {
            waiting_for[child] -= 1;
            if waiting_for[child] == 0 {
                order.push(child);
            }
        }
    }
    match (0..nodes.len()).find(|place| waiting_for[*place] > 0) {
        None => Ok(order),
        Some(place) => {
            let why = "the conversation is started by one that it starts itself";
            Err(Fault::Line(nodes[place].line, why.to_owned()))
        }
    }
}

/// Has the conversation at `place` continue `parent` after its own turn `after`.
fn inherit(nodes: &mut [Node], place: usize, parent: usize, after: usize) -> Result<(), Fault> {
    let fault = |why: &str| Fault::Line(nodes[place].line, why.to_owned());
    if nodes[place].has_system {
        return Err(fault(
            "a fork has the system message of its parent, so it cannot have its own",
        ));
    }
    if nodes[place].conversation.standalone_turns || nodes[parent].conversation.standalone_turns {
        return Err(fault(
            "a fork continues its parent, so that neither can have the context_mode \
             message_array_with_responses",
        ));
    }
    let of_parent = &nodes[parent].conversation;
    let until = of_parent.inherited_turns + after + 1;
    nodes[place].conversation.inherited_turns = until;
    Ok(())
}

/// Returns whether a line with these members is of this format.
pub(super) fn has(members: &Map<String, Value>) -> bool {
    let turns = members.get("turns").and_then(Value::as_array).into_iter().flatten();
    let is_orchestrator = members.contains_key("orchestrator");
    is_orchestrator
        || turns
            .filter_map(Value::as_object)
            .any(|turn| ["messages", "forks", "spawns"].iter().any(|name| turn.contains_key(*name)))
}

#[cfg(test)]
mod tests;
