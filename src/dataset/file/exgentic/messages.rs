//! The attributes of a recorded request as members of a chat request.
//!
//! Messages have `parts`: texts, reasoning, calls of tools and their results. Lists may be JSON texts.

use serde_json::{Map, Value, json};

/// The attributes of a span.
pub(super) type Attributes = Map<String, Value>;

/// Settings of a request, as attributes and in the chat API.
const SETTINGS: [(&str, &str); 2] =
    [("gen_ai.request.temperature", "temperature"), ("gen_ai.request.stop_sequences", "stop")];

/// Returns the messages, the system message first; empty if the request does not have any.
pub(super) fn messages(attributes: &Attributes) -> Result<Vec<Value>, String> {
    let name = "gen_ai.input.messages";
    let mut messages = Vec::new();
    for message in list(name, attributes)?.unwrap_or_default() {
        add_message(&message, &mut messages)?;
    }
    if !messages.is_empty() {
        messages.splice(0..0, instructions(attributes)?);
    }
    Ok(messages)
}

/// Returns the tools; `None` without any.
pub(super) fn tools(attributes: &Attributes) -> Result<Option<Vec<Value>>, String> {
    let mut tools = Vec::new();
    for tool in list("gen_ai.tool.definitions", attributes)?.unwrap_or_default() {
        let member = |name: &str| tool.get(name).unwrap_or(&Value::Null);
        if member("type") != "function" {
            return Err(format!("a tool has the unknown type {}", member("type")));
        }
        let members = ["name", "description", "parameters"];
        let function: Map<String, Value> =
            members.into_iter().map(|name| (name.to_owned(), member(name).clone())).collect();
        tools.push(json!({"type": "function", "function": function}));
    }
    Ok(Some(tools).filter(|tools| !tools.is_empty()))
}

/// Returns the settings that are sent again, under their names in the chat API.
pub(super) fn settings(attributes: &Attributes) -> Result<Vec<(String, Value)>, String> {
    let mut settings = Vec::new();
    for (name, own) in SETTINGS {
        match attributes.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::Array(texts)) if texts.is_empty() => {}
            Some(value) if is_setting(own, value) => {
                settings.push((own.to_owned(), value.clone()));
            }
            Some(value) => return Err(format!("`{name}` has the invalid value {value}")),
        }
    }
    Ok(settings)
}

fn is_setting(name: &str, value: &Value) -> bool {
    match value {
        Value::Number(_) => name == "temperature",
        Value::Array(texts) => name == "stop" && texts.iter().all(Value::is_string),
        _ => false,
    }
}

/// Returns a list of objects, which may be a JSON text; `None` if the attribute is missing.
fn list(name: &str, attributes: &Attributes) -> Result<Option<Vec<Map<String, Value>>>, String> {
    let read = match attributes.get(name) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => serde_json::from_str(text),
        Some(other) => serde_json::from_value(other.clone()),
    };
    read.map(Some).map_err(|_| format!("`{name}` is not a list of objects"))
}

/// Returns the system message, if there is one: parts, or a plain text.
fn instructions(attributes: &Attributes) -> Result<Vec<Value>, String> {
    let name = "gen_ai.system_instructions";
    let text = attributes.get(name).and_then(Value::as_str);
    let parts = match (list(name, attributes), text) {
        (_, Some("")) | (Ok(None), _) => return Ok(Vec::new()),
        (Ok(Some(parts)), _) => parts,
        (Err(_), Some(text)) => return Ok(vec![json!({"role": "system", "content": text})]),
        (Err(why), None) => return Err(why),
    };
    let parts: Vec<Value> = parts.into_iter().map(Value::Object).collect();
    let mut messages = Vec::new();
    add_parts("system", &parts, &mut messages)?;
    Ok(messages)
}

/// Appends a message of the chat API, or several.
fn add_message(message: &Map<String, Value>, messages: &mut Vec<Value>) -> Result<(), String> {
    let role = message.get("role").and_then(Value::as_str);
    let role = role.ok_or("a message does not have a `role`")?;
    let parts = message.get("parts").and_then(Value::as_array);
    let parts = parts.ok_or("a message does not have a list of `parts`")?;
    add_parts(if role == "developer" { "system" } else { role }, parts, messages)
}

/// Appends the parts of a message. Each result of a tool is a message of its own; the parts between them
/// are one.
fn add_parts(role: &str, parts: &[Value], messages: &mut Vec<Value>) -> Result<(), String> {
    let before = messages.len();
    let mut spoken = Spoken::default();
    for part in parts {
        let text = |name: &str| part[name].as_str().unwrap_or_default();
        match text("type") {
            "text" => spoken.content.push_str(text("content")),
            "thinking" => spoken.reasoning.push_str(text("thinking")),
            "tool_call" => {
                let (name, arguments) = (&part["name"], as_text(&part["arguments"]));
                let function = json!({"name": name, "arguments": arguments});
                let call = json!({"id": part["id"], "type": "function", "function": function});
                spoken.calls.push(call);
            }
            "tool_call_response" => {
                std::mem::take(&mut spoken).add_to(role, messages);
                let (id, result) = (&part["id"], as_text(&part["result"]));
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
            }
            kind => return Err(format!("a message has a part of the unknown type {kind:?}")),
        }
    }
    spoken.add_to(role, messages);
    if messages.len() == before {
        messages.push(json!({"role": role, "content": ""}));
    }
    Ok(())
}

/// Parts of a message that are sent together.
#[derive(Default)]
struct Spoken {
    content: String,
    reasoning: String,
    calls: Vec<Value>,
}

impl Spoken {
    /// Appends the parts as a message, if there are any.
    fn add_to(self, role: &str, messages: &mut Vec<Value>) {
        let Self { content, reasoning, calls } = self;
        if content.is_empty() && reasoning.is_empty() && calls.is_empty() {
            return;
        }
        let mut message = Map::new();
        message.insert("role".to_owned(), role.into());
        message.insert("content".to_owned(), content.into());
        if !reasoning.is_empty() {
            message.insert("reasoning_content".to_owned(), reasoning.into());
        }
        if !calls.is_empty() {
            message.insert("tool_calls".to_owned(), calls.into());
        }
        messages.push(message.into());
    }
}

/// Returns a text as it is, and any other value as JSON.
fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
