//! The prompt inside a body that is sent as it is.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::tokenizer::TokenCounter;

/// Tokens of the body's texts: of its messages, its `prompt` or its `input`.
/// `None` where it has no text, or a prompt that is given in tokens.
pub(super) fn count_tokens(payload: &RawValue, counter: &TokenCounter) -> Option<u64> {
    let body: Value = serde_json::from_str(payload.get()).ok()?;
    let texts = texts(&body)?;
    (!texts.is_empty()).then(|| texts.iter().map(|text| counter.count(text)).sum())
}

/// Tokens of the texts of `messages`, a JSON array; `None` where they have no text.
pub(super) fn count_messages(messages: &RawValue, counter: &TokenCounter) -> Option<u64> {
    let messages: Value = serde_json::from_str(messages.get()).ok()?;
    let texts = contents(&messages);
    (!texts.is_empty()).then(|| texts.iter().map(|text| counter.count(text)).sum())
}

fn contents(messages: &Value) -> Vec<&str> {
    let messages = messages.as_array().into_iter().flatten();
    messages.flat_map(|message| parts(&message["content"])).collect()
}

fn texts(body: &Value) -> Option<Vec<&str>> {
    let mut texts = contents(&body["messages"]);
    for name in ["prompt", "input"] {
        match &body[name] {
            Value::Null => {}
            Value::Array(items) if items.iter().any(|item| !item.is_string()) => return None,
            batch_or_text => texts.extend(parts(batch_or_text)),
        }
    }
    Some(texts)
}

/// The text, or the texts among the parts; parts of other kinds have none.
fn parts(content: &Value) -> Vec<&str> {
    match content {
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.as_str().or_else(|| part["text"].as_str()))
            .collect(),
        text => text.as_str().into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_found_wherever_a_dialect_keeps_them() {
        let chat = json!({"messages": [
            {"role": "system", "content": "a"},
            {"role": "user", "content": [
                {"type": "text", "text": "b"},
                {"type": "image_url", "image_url": {"url": "data:"}},
            ]},
            {"role": "assistant", "content": null},
        ]});
        assert_eq!(texts(&chat), Some(vec!["a", "b"]));
        assert_eq!(texts(&json!({"prompt": "a"})), Some(vec!["a"]));
        assert_eq!(texts(&json!({"input": ["a", "b"]})), Some(vec!["a", "b"]));
        assert_eq!(texts(&json!({"prompt": [1, 2]})), None);
        assert_eq!(texts(&json!({"messages": "none"})), Some(Vec::new()));
    }
}
