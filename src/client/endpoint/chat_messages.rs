//! Extracts the messages of a request body, in the form that chat templates accept.

use serde_json::{Map, Value, json};

/// Chat messages with `role` and `content`, and their tools.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatMessages {
    /// A JSON array.
    pub messages: Value,
    /// A JSON array, or `null`.
    pub tools: Value,
}

/// Returns the messages of a body of any chat dialect: OpenAI's `messages` and `input`,
/// Anthropic's `system`, Gemini's `contents`. Returns `None` for other bodies.
#[must_use]
pub fn chat_messages(body: &[u8]) -> Option<ChatMessages> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let lead = ["system", "instructions", "systemInstruction"];
    let lead = lead.iter().find_map(|name| text(&body[name])).map(|text| message("system", &text));
    let items = ["messages", "input", "contents"];
    let said = items.iter().find_map(|name| body[name].as_array().and_then(|items| said(items)));
    let said = said.or_else(|| Some(vec![message("user", body["input"].as_str()?)]))?;
    let messages: Vec<Value> = lead.into_iter().chain(said).collect();
    let tools = body["tools"].as_array().filter(|tools| !tools.is_empty());
    let tools = tools.map_or(Value::Null, |tools| tools.clone().into());
    Some(ChatMessages { messages: messages.into(), tools })
}

/// Returns the items that are messages; `None` if there are none.
fn said(items: &[Value]) -> Option<Vec<Value>> {
    let message = |item: &Value| {
        let role = match item["role"].as_str()? {
            "model" => "assistant",
            role => role,
        };
        let content = text(&item["content"]).or_else(|| text(&item["parts"])).unwrap_or_default();
        let mut message = Map::new();
        message.insert("role".to_owned(), role.into());
        message.insert("content".to_owned(), content.into());
        for name in ["tool_calls", "tool_call_id", "name", "reasoning_content"] {
            if let Some(value) = item.get(name).filter(|value| !value.is_null()) {
                message.insert(name.to_owned(), value.clone());
            }
        }
        Some(Value::Object(message))
    };
    let messages: Vec<Value> = items.iter().filter_map(message).collect();
    (!messages.is_empty()).then_some(messages)
}

fn message(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

/// Returns a text, or the joined texts of parts.
fn text(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            Some(parts.iter().filter_map(|part| part["text"].as_str()).collect())
        }
        Value::Object(object) => object.get("parts").and_then(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{config, conversation};
    use super::super::{EndpointType, build};
    use super::*;

    #[test]
    fn every_dialect_of_chats_has_the_same_messages() {
        let expected = json!([
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "context"},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "answer"},
            {"role": "user", "content": "two"},
        ]);
        let joined = |messages: Value| {
            // Some dialects join consecutive texts of the same role.
            let mut turns: Vec<(String, String)> = Vec::new();
            for message in messages.as_array().unwrap() {
                let text = |name: &str| message[name].as_str().unwrap().to_owned();
                match turns.last_mut() {
                    Some((role, content)) if *role == text("role") => {
                        content.push_str(&text("content"));
                    }
                    _ => turns.push((text("role"), text("content"))),
                }
            }
            turns
        };
        for endpoint in EndpointType::ALL.iter().filter(|found| found.traits().repeats_history) {
            let body = build(&config(*endpoint, true)).request_body(
                &conversation(),
                1,
                &[Some(std::sync::Arc::from("answer"))],
            );
            let found = chat_messages(&body).unwrap();
            let name = endpoint.traits().name;
            assert_eq!(joined(found.messages), joined(expected.clone()), "{name}");
            assert_eq!(found.tools, Value::Null);
        }
    }

    #[test]
    fn tools_and_calls_are_kept_and_media_left_out() {
        let body = json!({"tools": [{"type": "function"}], "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"},
                                         {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]},
        ]});
        let found = chat_messages(body.to_string().as_bytes()).unwrap();
        assert_eq!(found.tools, body["tools"]);
        assert_eq!(found.messages[0], json!({"role": "user", "content": "ab"}));
        assert_eq!(found.messages[1]["tool_calls"], body["messages"][1]["tool_calls"]);
    }

    #[test]
    fn other_bodies_have_none() {
        for body in [r#"{"prompt":"a"}"#, r#"{"input":["a","b"]}"#, "[]", "", r#"{"messages":[]}"#]
        {
            assert_eq!(chat_messages(body.as_bytes()), None, "{body}");
        }
    }
}
