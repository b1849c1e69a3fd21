//! The messages that a request sends.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use crate::dataset::{Conversation, Prompt, Text, Turn};

/// A message, as the chat API takes it.
pub(super) type Message = Box<RawValue>;

/// Members of a body that a request has anyway.
const OF_RUN: [&str; 7] = [
    "model",
    "messages",
    "tools",
    "max_tokens",
    "max_completion_tokens",
    "stream",
    "stream_options",
];

/// What a turn adds to a request.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) messages: Vec<Message>,
    pub(super) tools: Option<Box<RawValue>>,
    /// Further members of the body.
    pub(super) extra: Map<String, Value>,
}

/// Returns what a turn adds; `None` if it does not have messages.
pub(super) fn said(turn: &Turn) -> Option<Said> {
    let said = match &turn.raw_payload {
        Some(body) => of_body(body)?,
        None => Said {
            messages: messages(turn)?,
            tools: turn.tools.as_ref().map(|tools| (**tools).to_owned()),
            extra: turn.extra.iter().cloned().collect(),
        },
    };
    (!said.messages.is_empty()).then_some(said)
}

/// Returns the messages of a turn without a body of its own.
fn messages(turn: &Turn) -> Option<Vec<Message>> {
    if let Some(messages) = &turn.messages {
        return serde_json::from_str(messages.get()).ok();
    }
    let role = turn.role.as_deref().unwrap_or("user");
    let own = turn.texts.iter().map(|text| message(role, text));
    let made = turn.prompt.as_ref().map(Prompt::messages).unwrap_or_default();
    own.chain(made.iter().map(|said| message(said.role, &said.text))).collect()
}

fn message(role: &str, text: &Text) -> Option<Message> {
    to_raw_value(&json!({"role": role, "content": text})).ok()
}

fn of_body(body: &RawValue) -> Option<Said> {
    let mut body: Map<String, Value> = serde_json::from_str(body.get()).ok()?;
    let Value::Array(messages) = body.get("messages")? else { return None };
    let messages = messages.iter().map(to_raw_value).collect::<Result<_, _>>().ok()?;
    let tools = body.get("tools").and_then(|tools| to_raw_value(tools).ok());
    body.retain(|name, _| !OF_RUN.contains(&name.as_str()));
    Some(Said { messages, tools, extra: body })
}

/// What a request sends: all of its messages.
pub(super) struct Whole {
    pub(super) said: Said,
    /// Whether it lacks a response that only a run has.
    pub(super) lacks_response: bool,
}

/// Returns what the request of the turn `at` sends; `None` if it, or a turn that it repeats, has no
/// messages.
pub(super) fn whole(of: &Conversation, at: usize) -> Option<Whole> {
    let turn = of.turn(at)?;
    let repeated = if turn.raw_payload.is_some() { at..at } else { of.repeated(at) };
    let repeated: Vec<&Turn> = of.turns_in(repeated).collect();
    let mut messages = Vec::new();
    for earlier in &repeated {
        messages.append(&mut said(earlier)?.messages);
    }
    let mut said = said(turn)?;
    messages.append(&mut said.messages);
    let lacks_response = repeated.iter().any(|earlier| !earlier.answer_is_recorded);
    Some(Whole { said: Said { messages, ..said }, lacks_response })
}

/// Returns the text of a turn that is one message of the user, and nothing else.
pub(super) fn text(turn: &Turn) -> Option<String> {
    if turn.tools.is_some() || turn.raw_payload.is_some() {
        return None;
    }
    let Some(messages) = &turn.messages else {
        let is_user = turn.role.as_deref().is_none_or(|role| role == "user");
        let [text] = &turn.texts[..] else { return None };
        return is_user.then(|| text.to_string()).filter(|text| !text.is_empty());
    };
    let [mut message]: [Map<String, Value>; 1] = serde_json::from_str(messages.get()).ok()?;
    let (role, content) = (message.remove("role"), message.remove("content"));
    match (role, content) {
        (Some(Value::String(role)), Some(Value::String(text))) => {
            (role == "user" && message.is_empty() && !text.is_empty()).then_some(text)
        }
        _ => None,
    }
}

/// Returns `messages` as a JSON array.
pub(super) fn array(messages: &[Message]) -> Box<RawValue> {
    // Messages are JSON values, so that the array is one.
    to_raw_value(messages).unwrap_or_default()
}

/// Returns whether a message of the turn has the role `system`.
pub(super) fn has_system(turn: &Turn) -> bool {
    let messages = said(turn).map(|said| said.messages).unwrap_or_default();
    let is_system = |message: &Message| {
        serde_json::from_str::<Value>(message.get())
            .is_ok_and(|message| message["role"] == "system")
    };
    messages.iter().any(is_system)
}
