//! Mooncake traces: JSONL with one request per line.
//!
//! A line has one of `input_length` (tokens of a prompt to generate, with `hash_ids` for the blocks
//! of 512 tokens that it shares with other prompts), `text_input`, `messages` and `payload`. It may
//! have `output_length`, `timestamp` and `delay` in milliseconds, `extra` with further members of the
//! body, and `session_id`. Lines with the same `session_id` are the turns of one conversation.
//!
//! Lines are read here, and written by [`super::write::mooncake`].

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::jsonl::{self, check_kind, from_object};
use super::lines::Lines;
use super::synthesis::Shape;
use super::trace::{HashId, TimeUnit, Trace};
use super::{Fault, Loaded, inputs_json};
use crate::{Conversation, Turn};

/// Tokens of a block in the published traces.
pub const BLOCK_TOKENS: u32 = 512;

const KNOWN: &[&str] = &[
    "type",
    "timestamp",
    "delay",
    "session_id",
    "input_length",
    "hash_ids",
    "text_input",
    "messages",
    "tools",
    "payload",
    "output_length",
    "message_mode",
    "extra",
];

/// Members that change the request and are not supported yet.
const UNSUPPORTED: [&str; 1] = ["context_mode"];

/// A request.
#[derive(Default, Deserialize, Serialize)]
pub(super) struct Line {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timestamp: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delay: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input_length: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_length: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hash_ids: Option<Vec<HashId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text_input: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) messages: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) extra: Option<Map<String, Value>>,
}

/// A line that is used, and its prompt if it has a length.
struct Request {
    number: u64,
    line: Line,
    shape: Option<Shape>,
    conversation: usize,
}

/// Reads all lines; the lines of one session become one conversation.
pub(super) fn read(lines: Lines<'_>, mut trace: Trace<'_>) -> Result<Loaded, Fault> {
    let mut requests: Vec<Request> = Vec::new();
    let mut sessions: HashMap<String, usize> = HashMap::new();
    let mut count = 0;
    for line in lines {
        let line = line?;
        let read = read_line(&line.text, &mut trace);
        let Some(mut read) = read.map_err(|why| Fault::Line(line.number, why))? else { continue };
        let session = read.session_id.take().filter(|name| !name.is_empty());
        let conversation = session.map_or(count, |name| *sessions.entry(name).or_insert(count));
        count = count.max(conversation + 1);
        let shape = read.input_length.map(|input_tokens| Shape {
            input_tokens,
            hash_ids: read.hash_ids.take().unwrap_or_default(),
            session: conversation as u64,
        });
        requests.push(Request { number: line.number, line: read, shape, conversation });
    }
    trace.reshape(requests.iter_mut().filter_map(|request| request.shape.as_mut()));
    let mut conversations = vec![Conversation::default(); count];
    for Request { number, line, shape, conversation } in requests {
        let is_standalone = line.messages.is_some() || line.payload.is_some();
        turn(line, shape.as_ref(), &mut trace)
            .and_then(|turn| append(&mut conversations[conversation], turn, is_standalone))
            .map_err(|why| Fault::Line(number, why))?;
    }
    for (name, at) in sessions {
        conversations[at].id = name.into();
    }
    Ok(trace.loaded(conversations))
}

/// Appends a turn, which may contain its whole history.
fn append(conversation: &mut Conversation, turn: Turn, is_standalone: bool) -> Result<(), String> {
    if conversation.turns.is_empty() {
        conversation.standalone_turns = is_standalone;
    } else if conversation.standalone_turns != is_standalone {
        return Err(
            "earlier lines of the session have another kind of prompt; a session must have \
                    either `messages` or `payload` in all lines, or in none"
                .to_owned(),
        );
    }
    conversation.turns.push(turn);
    Ok(())
}

/// Returns the members of a line; `None` if it is left out.
fn read_line(text: &str, trace: &mut Trace<'_>) -> Result<Option<Line>, String> {
    let line: Line = from_object(text)?;
    trace.check_members(text, KNOWN, &UNSUPPORTED)?;
    check_kind(line.kind.as_deref(), "mooncake_trace")?;
    check_mode(&line)?;
    Ok(line.input_length.is_none_or(|tokens| trace.admits(tokens)).then_some(line))
}

fn check_mode(line: &Line) -> Result<(), String> {
    match line.message_mode.as_deref() {
        None | Some("history") => {}
        Some(mode) => return Err(format!("message_mode {mode:?} is not supported yet")),
    }
    let given = [
        line.input_length.is_some(),
        line.text_input.is_some(),
        line.messages.is_some(),
        line.payload.is_some(),
    ];
    if given.iter().filter(|given| **given).count() != 1 {
        return Err(
            "one of `input_length`, `text_input`, `messages` and `payload` is required".to_owned()
        );
    }
    if line.tools.is_some() && line.messages.is_none() {
        return Err("`tools` requires `messages`".to_owned());
    }
    if line.extra.is_some() && line.payload.is_some() {
        return Err("a `payload` is sent unchanged, so the line cannot have `extra`".to_owned());
    }
    if line.hash_ids.is_some() && line.input_length.is_none() {
        return Err("`hash_ids` requires `input_length`".to_owned());
    }
    Ok(())
}

fn turn(line: Line, shape: Option<&Shape>, trace: &mut Trace<'_>) -> Result<Turn, String> {
    if shape.is_none() {
        trace.leave_as_is();
    }
    let mut turn = match (shape, line.text_input, line.messages, line.payload) {
        (Some(shape), ..) => {
            let prompt = trace.prompt(shape)?;
            Turn { texts: vec![prompt.text], input_tokens: prompt.tokens, ..Turn::default() }
        }
        (_, Some(text), ..) if !text.is_empty() => {
            Turn { texts: vec![text.into()], ..Turn::default() }
        }
        (_, _, Some(messages), _) => {
            check_messages(&messages)?;
            let tools = line.tools.map(checked_tools).transpose()?;
            Turn { messages: Some(Arc::from(messages)), tools, ..Turn::default() }
        }
        (.., Some(payload)) => inputs_json::turn(&payload)?,
        _ => return Err("the text is empty".to_owned()),
    };
    if let Some(tokens) = line.output_length {
        turn.max_tokens = Some(trace.output_tokens(tokens)?);
    }
    turn.timestamp =
        line.timestamp.map(|at| trace.instant(at, TimeUnit::Milliseconds)).transpose()?;
    turn.delay = jsonl::delay(line.delay)?;
    turn.extra = line.extra.unwrap_or_default().into_iter().collect();
    Ok(turn)
}

pub(super) fn checked_tools(tools: Box<RawValue>) -> Result<Arc<RawValue>, String> {
    let values: Result<Vec<serde_json::Map<String, Value>>, _> = serde_json::from_str(tools.get());
    values.map_err(|_| "`tools` is not an array of objects".to_owned())?;
    Ok(Arc::from(tools))
}

pub(super) fn check_messages(messages: &RawValue) -> Result<(), String> {
    let values: Vec<Value> = serde_json::from_str(messages.get())
        .map_err(|_| "`messages` is not an array of messages".to_owned())?;
    if values.is_empty() || values.iter().any(|message| !message["role"].is_string()) {
        return Err("`messages` must contain messages, each with a `role`".to_owned());
    }
    Ok(())
}
