//! Messages of a chat as OpenAI's API has them, from the forms in which instrumentations record
//! them: parts of the GenAI conventions, OpenAI's own, Anthropic's, Vercel's and `LangChain`'s.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// A message.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Message {
    pub(super) role: String,
    /// A text, parts, or null for a message of tool calls only.
    pub(super) content: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ToolCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_call_id: Option<String>,
}

/// A call of a tool that a model asks for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ToolCall {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: Function,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Function {
    pub(super) name: String,
    /// JSON as a text.
    pub(super) arguments: String,
}

/// Messages, and how many of their parts the chat API does not take.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Messages {
    pub(super) all: Vec<Message>,
    /// Parts with the model's reasoning.
    pub(super) reasoning: u64,
    /// Parts of other kinds.
    pub(super) unknown: u64,
}

impl Message {
    pub(super) fn new(role: &str, content: impl Into<Value>) -> Self {
        Self { role: known_role(role).to_owned(), content: content.into(), ..Self::default() }
    }

    /// Makes the content null if there are only tool calls, and a text if there is nothing.
    fn completed(mut self) -> Self {
        let is_empty = match &self.content {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(parts) => parts.is_empty(),
            _ => false,
        };
        if is_empty {
            self.content = if self.tool_calls.is_empty() { "".into() } else { Value::Null };
        }
        self
    }
}

impl ToolCall {
    pub(super) fn new(id: &str, name: &str, arguments: &Value) -> Self {
        let arguments = match arguments {
            Value::String(text) => text.clone(),
            Value::Null => "{}".to_owned(),
            other => other.to_string(),
        };
        let function = Function { name: name.to_owned(), arguments };
        Self { id: id.to_owned(), kind: "function", function }
    }
}

/// Returns the role in the words of OpenAI's API.
fn known_role(role: &str) -> &str {
    match role {
        "" | "human" | "HumanMessage" | "HumanMessageChunk" => "user",
        "ai" | "model" | "AIMessage" | "AIMessageChunk" => "assistant",
        "SystemMessage" => "system",
        "function" | "ToolMessage" => "tool",
        other => other,
    }
}

/// Returns the first of the members that is a text.
fn text<'v>(object: &'v Value, names: &[&str]) -> Option<&'v str> {
    names.iter().find_map(|name| object[*name].as_str())
}

/// Returns the first of the members that exists.
fn member<'v>(object: &'v Value, names: &[&str]) -> &'v Value {
    let found = names.iter().map(|name| &object[*name]).find(|value| !value.is_null());
    found.unwrap_or(&Value::Null)
}

impl Messages {
    /// Reads a list of messages, a list of such lists, one message, an object with `messages` and
    /// maybe `system`, or a text of the user.
    pub(super) fn read(value: &Value) -> Self {
        let mut read = Self::default();
        read.add(value);
        read
    }

    /// Adds what [`read`](Self::read) reads.
    pub(super) fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.all.push(Message::new("user", text.as_str())),
            Value::Array(list) => list.iter().for_each(|item| self.add(item)),
            Value::Object(_) if !value["messages"].is_null() => {
                self.add_system(member(value, &["system", "instructions"]));
                self.add(&value["messages"]);
            }
            Value::Object(_) => self.add_message(value),
            _ => {}
        }
    }

    /// Adds a system message with a text or parts.
    pub(super) fn add_system(&mut self, instructions: &Value) {
        if !instructions.is_null() {
            self.add_message(&json!({"role": "system", "content": instructions}));
        }
    }

    fn add_message(&mut self, value: &Value) {
        // `LangChain` has the message within, and its class as the kind.
        let of_class = value["id"].as_array().and_then(|path| path.last()?.as_str());
        let inner = member(value, &["kwargs", "data", "message"]);
        let own = if inner.is_object() { inner } else { value };
        let role = text(own, &["role"]).or_else(|| text(own, &["type"])).or(of_class);
        let role = role.or_else(|| text(value, &["type"])).unwrap_or_default();
        let mut message = Message {
            name: own["name"].as_str().map(ToOwned::to_owned),
            tool_call_id: text(own, &["tool_call_id"]).map(ToOwned::to_owned),
            ..Message::new(role, Value::Null)
        };
        for call in [&own["tool_calls"], &own["additional_kwargs"]["tool_calls"]] {
            if message.tool_calls.is_empty() {
                let calls = call.as_array().into_iter().flatten();
                message.tool_calls = calls.map(tool_call).collect();
            }
        }
        let content = member(own, &["parts", "content"]);
        match content {
            Value::Array(parts) => return self.add_parts(message, parts),
            Value::String(_) => message.content = content.clone(),
            Value::Null => {}
            other => message.content = other.to_string().into(),
        }
        self.all.push(message.completed());
    }

    /// Adds a message of parts. Each result of a tool is a message of its own.
    fn add_parts(&mut self, mut message: Message, parts: &[Value]) {
        let mut contents = Vec::new();
        let mut results = Vec::new();
        for part in parts {
            match text(part, &["type"]).unwrap_or(if part.is_string() { "string" } else { "" }) {
                "string" => contents.push(text_part(part.as_str().unwrap_or_default())),
                "text" | "input_text" | "output_text" => {
                    contents.push(text_part(text(part, &["content", "text"]).unwrap_or_default()));
                }
                "tool_call" | "tool-call" | "tool_use" => message.tool_calls.push(tool_call(part)),
                "tool_call_response" | "tool-result" | "tool_result" => results.push(Message {
                    tool_call_id: text(part, &["id", "toolCallId", "tool_use_id"]).map(Into::into),
                    ..Message::new("tool", result(part))
                }),
                "image_url" | "input_audio" | "video_url" => contents.push(part.clone()),
                "blob" => contents.push(blob(part)),
                "uri" => match text(part, &["uri"]) {
                    Some(uri) => {
                        contents.push(json!({"type": "image_url", "image_url": {"url": uri}}));
                    }
                    None => self.unknown += 1,
                },
                "file" if part["file_id"].is_string() => {
                    contents.push(json!({"type": "file", "file": {"file_id": part["file_id"]}}));
                }
                "reasoning" | "thinking" | "redacted_thinking" => self.reasoning += 1,
                _ => self.unknown += 1,
            }
        }
        let has_own = !contents.is_empty() || !message.tool_calls.is_empty();
        message.content = match &contents[..] {
            [one] if one["type"] == "text" => one["text"].clone(),
            _ => Value::Array(contents),
        };
        let is_empty = !has_own && (!results.is_empty() || !parts.is_empty());
        self.all.append(&mut results);
        if !is_empty {
            self.all.push(message.completed());
        }
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns the call of OpenAI, of the GenAI conventions, of Anthropic, of Vercel or of `LangChain`.
fn tool_call(call: &Value) -> ToolCall {
    let function = if call["function"].is_object() { &call["function"] } else { call };
    ToolCall::new(
        text(call, &["id", "toolCallId"]).unwrap_or_default(),
        text(function, &["name", "toolName"]).unwrap_or_default(),
        member(function, &["arguments", "args", "input"]),
    )
}

/// Returns the text of a tool's result.
fn result(part: &Value) -> Value {
    let result = member(part, &["response", "result", "output", "content"]);
    // Vercel writes {"type": "text", "value": ...}, and Anthropic a list of parts.
    let result = if result["value"].is_null() { result } else { &result["value"] };
    match result {
        Value::String(_) => result.clone(),
        Value::Null => "".into(),
        Value::Array(parts) if parts.iter().all(|part| part["text"].is_string()) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<String>().into()
        }
        other => other.to_string().into(),
    }
}

/// Returns an image or sound in base64.
fn blob(part: &Value) -> Value {
    let kind = text(part, &["mime_type"]).unwrap_or("image/png");
    let content = text(part, &["content", "data"]).unwrap_or_default();
    if let Some(format) = kind.strip_prefix("audio/") {
        json!({"type": "input_audio", "input_audio": {"data": content, "format": format}})
    } else {
        json!({"type": "image_url", "image_url": {"url": format!("data:{kind};base64,{content}")}})
    }
}

/// Returns tools as OpenAI's API has them; `None` if it is not a list of tools.
pub(super) fn tools(value: &Value) -> Option<Value> {
    let list = value.as_array().filter(|list| !list.is_empty())?;
    list.iter().map(tool).collect::<Option<Vec<_>>>().map(Value::from)
}

fn tool(tool: &Value) -> Option<Value> {
    // Vercel has each tool as a text.
    let parsed: Option<Value> = tool.as_str().and_then(|text| serde_json::from_str(text).ok());
    let tool = parsed.as_ref().unwrap_or(tool);
    if tool["function"].is_object() {
        return Some(json!({"type": "function", "function": tool["function"]}));
    }
    let mut function = Map::new();
    function.insert("name".to_owned(), tool["name"].as_str()?.into());
    if let Some(description) = tool["description"].as_str() {
        function.insert("description".to_owned(), description.into());
    }
    let schema = member(tool, &["parameters", "inputSchema", "input_schema"]);
    let parsed: Option<Value> = schema.as_str().and_then(|text| serde_json::from_str(text).ok());
    let schema = parsed.unwrap_or_else(|| schema.clone());
    if schema.is_object() {
        function.insert("parameters".to_owned(), schema);
    }
    Some(json!({"type": "function", "function": function}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &Value) -> Value {
        serde_json::to_value(Messages::read(value).all).unwrap()
    }

    #[test]
    fn every_form_becomes_that_of_the_chat_api() {
        let expected = json!([
            {"role": "system", "content": "s"},
            {"role": "user", "content": "u"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}},
            ]},
            {"role": "tool", "content": "r", "tool_call_id": "c"},
        ]);
        let parts = json!([
            {"role": "system", "parts": [{"type": "text", "content": "s"}], "name": null},
            {"role": "user", "parts": [{"type": "text", "content": "u"}]},
            {"role": "assistant", "parts": [
                {"type": "tool_call", "id": "c", "name": "f", "arguments": {"a": 1}}]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "r"}]},
        ]);
        let of_openai = json!({"messages": expected.clone()});
        let of_anthropic = json!({"system": "s", "messages": [
            {"role": "user", "content": [{"type": "text", "text": "u"}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "r"}]}]},
        ]});
        let of_vercel = json!([
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "u"}]},
            {"role": "assistant", "content": [
                {"type": "tool-call", "toolCallId": "c", "toolName": "f", "args": {"a": 1}}]},
            {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "toolName": "f",
                "output": {"type": "text", "value": "r"}}]},
        ]);
        let class = |name: &str, kwargs: Value| {
            json!({"lc": 1, "type": "constructor", "kwargs": kwargs,
                   "id": ["langchain", "schema", "messages", name]})
        };
        let of_langchain = json!({"messages": [[
            class("SystemMessage", json!({"content": "s", "type": "system"})),
            class("HumanMessage", json!({"content": "u"})),
            class("AIMessage", json!({"content": "", "tool_calls": [
                {"id": "c", "name": "f", "args": {"a": 1}, "type": "tool_call"}]})),
            class("ToolMessage", json!({"content": "r", "tool_call_id": "c"})),
        ]]});
        for form in [parts, of_openai, of_anthropic, of_vercel, of_langchain] {
            assert_eq!(read(&form), expected, "{form}");
        }
        assert_eq!(read(&json!("u")), json!([{"role": "user", "content": "u"}]));
    }

    #[test]
    fn parts_that_the_chat_api_lacks_are_counted() {
        let messages = Messages::read(&json!([{"role": "assistant", "parts": [
            {"type": "reasoning", "content": "hm"}, {"type": "compaction"},
            {"type": "text", "content": "a"},
            {"type": "blob", "mime_type": "image/jpeg", "content": "QUJD"},
        ]}]));
        assert_eq!((messages.reasoning, messages.unknown), (1, 1));
        assert_eq!(
            messages.all[0].content,
            json!([{"type": "text", "text": "a"},
                   {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,QUJD"}}])
        );
    }

    #[test]
    fn tools_become_functions() {
        let function = json!({"name": "f", "description": "d", "parameters": {"type": "object"}});
        let expected = json!([{"type": "function", "function": function}]);
        let flat = json!([{"name": "f", "description": "d", "parameters": {"type": "object"},
                           "type": "function"}]);
        let text = json!([json!({"type": "function", "name": "f", "description": "d",
                                 "inputSchema": {"type": "object"}})
        .to_string()]);
        for form in [flat, text, expected.clone()] {
            assert_eq!(tools(&form), Some(expected.clone()), "{form}");
        }
        assert_eq!(tools(&json!([3])), None);
    }
}
