//! The prompt inside a body that is sent as it is.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::tokenizer::TokenCounter;

/// Tokens of the body's texts: of its system message, its messages, its contents,
/// its `prompt`, its `input` or its `inputs`, or of its query and passages, whichever
/// a dialect has. `None` where it has no text, or a prompt that is given in tokens.
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
    let system = [&body["system"], &body["instructions"], &body["systemInstruction"]["parts"]];
    let mut texts: Vec<&str> = system.into_iter().flat_map(parts).collect();
    texts.extend(contents(&body["messages"]));
    let said = body["contents"].as_array().into_iter().flatten();
    texts.extend(said.flat_map(|content| parts(&content["parts"])));
    for name in ["prompt", "input", "inputs"] {
        match &body[name] {
            Value::Array(items) if items.iter().any(is_tokens) => return None,
            batch_or_items => {
                texts.extend(parts(batch_or_items));
                texts.extend(contents(batch_or_items));
            }
        }
    }
    if !body["query"].is_null() {
        let ranked = ["query", "documents", "texts", "passages"];
        texts.extend(ranked.iter().flat_map(|name| parts(&body[*name])));
    }
    Some(texts)
}

/// A token, or a prompt that is given in tokens.
fn is_tokens(item: &Value) -> bool {
    item.is_number() || item.is_array()
}

/// The text, or the texts among the parts; parts of other kinds have none.
fn parts(content: &Value) -> Vec<&str> {
    match content {
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.as_str().or_else(|| part["text"].as_str()))
            .collect(),
        text => text.as_str().or_else(|| text["text"].as_str()).into_iter().collect(),
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
        let ranking = json!({"query": {"text": "a"}, "passages": [{"text": "b"}, {"text": "c"}]});
        assert_eq!(texts(&ranking), Some(vec!["a", "b", "c"]));
        assert_eq!(
            texts(&json!({"query": "a", "documents": ["b"], "model": "m"})),
            Some(vec!["a", "b"])
        );
        assert_eq!(texts(&json!({"input": ["a", "b"]})), Some(vec!["a", "b"]));
        assert_eq!(texts(&json!({"prompt": [1, 2]})), None);
        assert_eq!(texts(&json!({"messages": "none"})), Some(Vec::new()));
        let responses = json!({"instructions": "a", "input": [
            {"type": "message", "role": "user", "content": "b"},
            {"type": "message", "role": "assistant", "content": [
                {"type": "output_text", "text": "c"}]},
            {"type": "function_call_output", "output": "d"},
        ]});
        assert_eq!(texts(&responses), Some(vec!["a", "b", "c"]));
        let messages = json!({"system": [{"type": "text", "text": "a"}], "messages": [
            {"role": "user", "content": "b"}]});
        assert_eq!(texts(&messages), Some(vec!["a", "b"]));
        let gemini = json!({"systemInstruction": {"parts": [{"text": "a"}]}, "contents": [
            {"role": "user", "parts": [{"text": "b"}, {"inlineData": {"data": ""}}]}]});
        assert_eq!(texts(&gemini), Some(vec!["a", "b"]));
        assert_eq!(texts(&json!({"inputs": "a", "parameters": {}})), Some(vec!["a"]));
    }
}
