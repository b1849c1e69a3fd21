//! Bailian traces: JSONL with one request per line, as published by Alibaba.
//!
//! A line has `chat_id`, `timestamp` in seconds, `input_length`, `output_length` and `hash_ids` for
//! blocks of 16 tokens. `parent_chat_id` (-1: none) links the turns of a conversation, which are
//! ordered by `turn`. The prompt of a later turn contains its whole history.

use std::collections::HashMap;

use serde::Deserialize;

use base::input::Input;
use base::units::Nanos;

use super::jsonl::from_object;
use super::lines::Lines;
use super::mapping::{Mapping, Prompts, Rows};
use super::synthesis::Shape;
use super::trace::{HashId, TimeUnit, Trace};
use super::{Fault, Loaded};
use crate::{Conversation, Turn};

/// Tokens of a block.
pub(super) const BLOCK_TOKENS: u32 = 16;

/// The format `bailian_trace`.
pub(super) const FORMAT: Mapping = Mapping {
    members: &["chat_id"],
    block_tokens: BLOCK_TOKENS,
    prompts: Prompts::Blocks,
    rows: Rows::Text(read),
};

const KNOWN: &[&str] = &[
    "chat_id",
    "parent_chat_id",
    "timestamp",
    "input_length",
    "output_length",
    "type",
    "turn",
    "hash_ids",
];

/// Parent of the first turn of a conversation.
const NO_PARENT: i64 = -1;

#[derive(Deserialize)]
struct Line {
    chat_id: i64,
    #[serde(default = "no_parent")]
    parent_chat_id: i64,
    timestamp: f64,
    input_length: u32,
    output_length: u32,
    #[serde(default)]
    turn: i64,
    #[serde(default)]
    hash_ids: Vec<HashId>,
}

const fn no_parent() -> i64 {
    NO_PARENT
}

/// A request, as the trace describes it.
struct Request {
    chat_id: i64,
    number: i64,
    shape: Shape,
    timestamp: Nanos,
    max_tokens: u32,
}

/// Reads all lines; linked requests become one conversation.
fn read(input: Input<'_>, mut trace: Trace<'_>) -> Result<Loaded, Fault> {
    let mut requests: Vec<(u64, Request)> = Vec::new();
    let mut parents: HashMap<i64, i64> = HashMap::new();
    for line in Lines::new(input) {
        let line = line?;
        let fault = |why| Fault::Line(line.number, why);
        let read: Line = from_object(&line.text).map_err(fault)?;
        trace.check_members(&line.text, KNOWN, &[]).map_err(fault)?;
        if parents.insert(read.chat_id, read.parent_chat_id).is_some() {
            let reason = format!("chat_id {} is already used by an earlier line", read.chat_id);
            return Err(Fault::Line(line.number, reason));
        }
        if trace.admits(read.input_length) {
            requests.push((line.number, request(read, &mut trace).map_err(fault)?));
        }
    }
    let mut roots: HashMap<i64, i64> = HashMap::new();
    for (_, request) in &mut requests {
        request.shape.session = root(request.chat_id, &parents, &mut roots).cast_unsigned();
    }
    trace.reshape(requests.iter_mut().map(|(_, request)| &mut request.shape));
    let conversations = conversations(requests, &mut trace)?;
    Ok(trace.loaded(conversations))
}

fn request(line: Line, trace: &mut Trace<'_>) -> Result<Request, String> {
    Ok(Request {
        chat_id: line.chat_id,
        number: line.turn,
        timestamp: trace.instant(line.timestamp, TimeUnit::Seconds)?,
        max_tokens: trace.output_tokens(line.output_length)?,
        shape: Shape {
            input_tokens: line.input_length,
            hash_ids: line.hash_ids,
            ..Shape::default()
        },
    })
}

fn turn(request: &Request, trace: &mut Trace<'_>) -> Result<Turn, String> {
    let prompt = trace.prompt(&request.shape)?;
    Ok(Turn {
        texts: vec![prompt.text],
        input_tokens: prompt.tokens,
        max_tokens: Some(request.max_tokens),
        timestamp: Some(request.timestamp),
        ..Turn::default()
    })
}

/// Returns one conversation for each root, in the order of their first lines.
fn conversations(
    requests: Vec<(u64, Request)>,
    trace: &mut Trace<'_>,
) -> Result<Vec<Conversation>, Fault> {
    let mut places: HashMap<u64, usize> = HashMap::new();
    let mut groups: Vec<(u64, Vec<(i64, Turn)>)> = Vec::new();
    for (line, request) in requests {
        let root = request.shape.session;
        let place = *places.entry(root).or_insert_with(|| {
            groups.push((root, Vec::new()));
            groups.len() - 1
        });
        let turn = turn(&request, trace).map_err(|why| Fault::Line(line, why))?;
        groups[place].1.push((request.number, turn));
    }
    let conversation = |(root, mut turns): (u64, Vec<(i64, Turn)>)| {
        turns.sort_by_key(|(number, _)| *number);
        Conversation {
            id: root.cast_signed().to_string().into(),
            standalone_turns: true,
            turns: turns.into_iter().map(|(_, turn)| turn).collect(),
            ..Conversation::default()
        }
    };
    Ok(groups.into_iter().map(conversation).collect())
}

/// Returns the first ancestor of `chat_id` whose own parent is not in the trace. For a cycle of
/// parents, which no trace should have, this is the request that closes it.
fn root(chat_id: i64, parents: &HashMap<i64, i64>, roots: &mut HashMap<i64, i64>) -> i64 {
    let mut path = Vec::new();
    let mut at = chat_id;
    let root = loop {
        if let Some(known) = roots.get(&at) {
            break *known;
        }
        // Until its root is known it is its own root, so that a cycle ends here.
        roots.insert(at, at);
        path.push(at);
        match parents.get(&at) {
            Some(parent) if *parent != NO_PARENT && parents.contains_key(parent) => at = *parent,
            _ => break at,
        }
    };
    for visited in path {
        roots.insert(visited, root);
    }
    root
}
