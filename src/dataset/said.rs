//! The messages of recorded chats, in ShareGPT's form and in OpenAI's, of files and of the hub.

use serde_json::{Map, Value};

/// Members of a row with its messages.
pub(super) const CHATS: [&str; 3] = ["messages", "conversations", "conversation"];
/// Members of a message with its role, and with its text.
const ROLES: [&str; 2] = ["role", "from"];
const TEXTS: [&str; 3] = ["content", "value", "text"];

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    User,
    Model,
    System,
    /// Another role, such as that of a tool.
    Other,
}

/// A message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) role: Role,
    pub(super) text: String,
}

/// Reads a message. Without a role, it is the user's.
///
/// # Errors
///
/// Fails if it does not have a text.
pub(super) fn message(message: &Map<String, Value>) -> Result<Said, String> {
    let member = |names: &[&str]| names.iter().find_map(|name| message.get(*name));
    let role = member(&ROLES).and_then(Value::as_str).unwrap_or("user");
    let Some(content) = member(&TEXTS) else {
        return Err(format!("a message does not have text; its members are {}", names(message)));
    };
    let role = match role.to_ascii_lowercase().as_str() {
        "user" | "human" | "prompter" => Role::User,
        "assistant" | "gpt" | "chatgpt" | "model" => Role::Model,
        "system" => Role::System,
        _ => Role::Other,
    };
    Ok(Said { role, text: joined(content) })
}

/// Reads the messages of a row of ShareGPT.
///
/// # Errors
///
/// Fails if it does not have a list of messages, each with a text.
pub(super) fn chat(row: &Value) -> Result<Vec<Said>, String> {
    let Value::Object(members) = row else {
        return Err(format!("expected an object, got {}", kind(row)));
    };
    let Some((name, messages)) = CHATS.iter().find_map(|name| members.get_key_value(*name)) else {
        return Err(format!("it does not have messages; its members are {}", names(members)));
    };
    let Value::Array(messages) = messages else {
        return Err(format!("{name:?} must be a list of messages, got {}", kind(messages)));
    };
    let read = |found: &Value| match found {
        Value::Object(members) => message(members),
        other => Err(format!("a message must be an object, got {}", kind(other))),
    };
    messages.iter().map(read).collect()
}

/// Returns the text of a message's content: a text, or a list of parts.
fn joined(content: &Value) -> String {
    match content {
        Value::Array(parts) => {
            let text = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
            parts.iter().filter_map(text).collect::<Vec<_>>().join("\n")
        }
        other => text(other),
    }
}

/// Returns a value as text; an object as its members, as in `A.red B.blue`.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name, text(value)));
            let given = members.filter(|(_, value)| !value.is_empty());
            given.map(|(name, value)| format!("{name}.{value}")).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

/// Returns the names of the members of an object.
pub(super) fn names(members: &Map<String, Value>) -> String {
    members.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Returns what a value is.
const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
