//! The prompt in a body that is sent unchanged.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use tokens::tokenizer::TokenCounter;

/// Members of a body that contain its texts.
const MEMBERS: [&str; 13] = [
    "messages",
    "tools",
    "system",
    "instructions",
    "systemInstruction",
    "contents",
    "prompt",
    "input",
    "inputs",
    "query",
    "documents",
    "texts",
    "passages",
];

/// Reads the [`MEMBERS`] of a body, which may have thousands of others; `None` if it is not a JSON
/// object.
fn read(body: &[u8]) -> Option<Value> {
    serde_json::from_slice::<Body>(body).ok().map(|Body(members)| Value::Object(members))
}

struct Body(Map<String, Value>);

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Members).map(Self)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request's body")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = all.next_key::<String>()? {
            if MEMBERS.contains(&name.as_str()) {
                members.insert(name, all.next_value()?);
            } else {
                all.next_value::<IgnoredAny>()?;
            }
        }
        Ok(members)
    }
}

/// Counts the tokens of the body's texts: its system message, messages, contents, `prompt`, `input`
/// or `inputs`, or query and passages, depending on the dialect; the declared tools; and the
/// repeated tool calls. If a prompt is given as token IDs, returns their number. Returns `None`
/// without text.
pub(super) fn count_tokens(payload: &RawValue, counter: &TokenCounter) -> Option<u64> {
    let body = read(payload.get().as_bytes())?;
    token_ids(&body).or_else(|| sum(&texts(&body)?, counter))
}

/// Returns the body's texts, joined; empty without text.
pub(super) fn joined_texts(payload: &RawValue) -> String {
    let body = read(payload.get().as_bytes()).unwrap_or_default();
    texts(&body).unwrap_or_default().join("\n")
}

/// Returns the texts in `messages`, a JSON array, joined; empty without text.
pub(super) fn joined_messages(messages: &RawValue) -> String {
    let messages: Value = serde_json::from_str(messages.get()).unwrap_or_default();
    texts(&json!({"messages": messages})).unwrap_or_default().join("\n")
}

/// Returns the names of the declared `tools`, a JSON array.
pub(super) fn tool_names(tools: &RawValue) -> Vec<String> {
    let tools: Vec<Value> = serde_json::from_str(tools.get()).unwrap_or_default();
    let name = |tool: &Value| {
        let name = tool["function"]["name"].as_str().or_else(|| tool["name"].as_str());
        name.map(str::to_owned)
    };
    tools.iter().filter_map(name).collect()
}

/// Counts the tokens of a generated body's texts with `count`, or its token IDs; `None` without
/// text, or if it is not JSON.
pub fn tokens_sent(body: &[u8], count: impl Fn(&str) -> u64) -> Option<u64> {
    let body = read(body)?;
    let counted = || {
        let texts = texts(&body)?;
        (!texts.is_empty()).then(|| texts.iter().map(|text| count(text)).sum())
    };
    token_ids(&body).or_else(counted)
}

/// Returns the texts of a generated body as they are compared with those of others: joined, the tools
/// first, as most chat templates have them. Of token IDs, four bytes each. Empty without text.
pub fn prompt_bytes(body: &[u8]) -> Vec<u8> {
    if let Some(text) = plain_chat(body) {
        return text;
    }
    let Some(body) = read(body) else { return Vec::new() };
    if let Some(texts) = texts(&body) {
        let declared: Vec<_> = tools(&body).collect();
        let others = &texts[..texts.len() - declared.len()];
        return [&declared[..], others].concat().join("\n").into_bytes();
    }
    let lists = [&body["prompt"], &body["input"]].into_iter().filter_map(Value::as_array);
    let items = lists.flatten().flat_map(|item| match item {
        Value::Array(ids) => ids.as_slice(),
        id => std::slice::from_ref(id),
    });
    items.filter_map(Value::as_u64).flat_map(|id| (id as u32).to_le_bytes()).collect()
}

/// A chat whose messages are texts, as most are. Another body has a further member, or is not one.
#[derive(Deserialize)]
struct PlainChat<'a> {
    #[serde(borrow)]
    messages: Vec<PlainMessage<'a>>,
    tools: Option<IgnoredAny>,
    system: Option<IgnoredAny>,
    instructions: Option<IgnoredAny>,
    prompt: Option<IgnoredAny>,
    input: Option<IgnoredAny>,
    inputs: Option<IgnoredAny>,
    query: Option<IgnoredAny>,
    contents: Option<IgnoredAny>,
    #[serde(rename = "systemInstruction")]
    system_instruction: Option<IgnoredAny>,
}

impl PlainChat<'_> {
    /// Returns whether it has texts beside the messages.
    fn has_others(&self) -> bool {
        let others = [
            &self.tools,
            &self.system,
            &self.instructions,
            &self.prompt,
            &self.input,
            &self.inputs,
            &self.query,
            &self.contents,
            &self.system_instruction,
        ];
        others.iter().any(|other| other.is_some())
    }
}

/// A message that is a text.
#[derive(Deserialize)]
struct PlainMessage<'a> {
    #[serde(borrow)]
    content: Cow<'a, str>,
    tool_calls: Option<IgnoredAny>,
}

/// Returns the texts of a plain chat as [`prompt_bytes`] does, without reading the body as a
/// [`Value`], which takes several times as long; `None` for other bodies.
fn plain_chat(body: &[u8]) -> Option<Vec<u8>> {
    let chat: PlainChat<'_> = serde_json::from_slice(body).ok()?;
    let is_plain = chat.messages.iter().all(|message| message.tool_calls.is_none());
    let texts: Vec<&str> = chat.messages.iter().map(|message| &*message.content).collect();
    (is_plain && !chat.has_others()).then(|| texts.join("\n").into_bytes())
}

/// Returns the number of token IDs in the prompt: a list of them, or a list of lists. `None` if it
/// has anything else.
fn token_ids(body: &Value) -> Option<u64> {
    let number = |ids: &[Value]| ids.iter().all(Value::is_u64).then_some(ids.len() as u64);
    let prompt = |name| body[name].as_array().filter(|items| items.first().is_some_and(is_tokens));
    let prompt = ["prompt", "input"].into_iter().find_map(prompt)?;
    number(prompt)
        .or_else(|| prompt.iter().map(|list| list.as_array().and_then(|ids| number(ids))).sum())
}

/// Counts the tokens of the texts in `messages`, and in the declared `tools`, both JSON arrays;
/// `None` without text.
pub(super) fn count_messages(
    messages: &RawValue,
    tools: Option<&RawValue>,
    counter: &TokenCounter,
) -> Option<u64> {
    let read = |json: &RawValue| serde_json::from_str::<Value>(json.get()).ok();
    let body = json!({"messages": read(messages)?, "tools": tools.and_then(read)});
    sum(&texts(&body)?, counter)
}

fn sum(texts: &[Cow<'_, str>], counter: &TokenCounter) -> Option<u64> {
    (!texts.is_empty()).then(|| texts.iter().map(|text| counter.count(text)).sum())
}

fn contents(messages: &Value) -> Vec<Cow<'_, str>> {
    let messages = messages.as_array().into_iter().flatten();
    messages.flat_map(|message| parts(&message["content"]).chain(calls(message))).collect()
}

/// Returns the texts of a model's tool calls in an earlier turn, and of their results.
fn calls(message: &Value) -> impl Iterator<Item = Cow<'_, str>> {
    let listed = message["tool_calls"].as_array().into_iter().flatten();
    let functions = listed.map(|call| &call["function"]);
    // An item of OpenAI's Responses API is itself a call.
    let item = matches!(message["type"].as_str(), Some("function_call" | "function_call_output"));
    let functions = functions.chain(item.then_some(message));
    functions.flat_map(|function| named(function, &["name", "arguments", "output"]))
}

/// Returns the texts of the declared tools: names, descriptions and schemas.
fn tools(body: &Value) -> impl Iterator<Item = Cow<'_, str>> {
    let tools = body["tools"].as_array().into_iter().flatten();
    tools.flat_map(|tool| [tool, &tool["function"]]).flat_map(|tool| {
        let schema = [&tool["parameters"], &tool["input_schema"]];
        let schema = schema.into_iter().filter(|schema| schema.is_object());
        let schema = schema.map(|schema| Cow::Owned(schema.to_string()));
        named(tool, &["name", "description"]).chain(schema)
    })
}

fn named<'v>(object: &'v Value, names: &'v [&str]) -> impl Iterator<Item = Cow<'v, str>> {
    names.iter().filter_map(|name| object[*name].as_str()).map(Cow::Borrowed)
}

fn texts(body: &Value) -> Option<Vec<Cow<'_, str>>> {
    let system = [&body["system"], &body["instructions"], &body["systemInstruction"]["parts"]];
    let mut texts: Vec<_> = system.into_iter().flat_map(parts).collect();
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
    texts.extend(tools(body));
    Some(texts)
}

/// Returns whether an item is a token, or a prompt given in tokens.
fn is_tokens(item: &Value) -> bool {
    item.is_number() || item.is_array()
}

/// Returns the text, or the texts of the parts; parts of other kinds have none.
fn parts(content: &Value) -> impl Iterator<Item = Cow<'_, str>> {
    let parts = match content {
        Value::Array(parts) => parts.as_slice(),
        text => std::slice::from_ref(text),
    };
    let texts = parts.iter().filter_map(|part| part.as_str().or_else(|| part["text"].as_str()));
    texts.map(Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use base::environment::Environment;
    use tokens::tokenizer::Source;

    use super::*;

    fn texts(body: &Value) -> Vec<String> {
        super::texts(body).unwrap().into_iter().map(Cow::into_owned).collect()
    }

    /// AIPerf 0.13 counts 45 tokens in this body with the same tokenizer.
    #[test]
    fn tools_and_calls_are_of_the_prompt() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
        let declared =
            json!({"name": "f", "description": "adds two numbers", "parameters": schema});
        let chat = json!({
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "hello there you"},
            ],
            "tools": [{"type": "function", "function": declared}],
        });
        let schema = schema.to_string();
        let expected = ["Be brief.", "hello there you", "f", "adds two numbers", &schema];
        assert_eq!(texts(&chat), expected);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/tiny-model");
        let counter =
            TokenCounter::load(&Source::parse(folder), Environment::new(&|_| None)).unwrap();
        let body = RawValue::from_string(chat.to_string()).unwrap();
        assert_eq!(count_tokens(&body, &counter), Some(45));

        let replayed = json!({"messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "1", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "b"},
        ]});
        assert_eq!(texts(&replayed), ["a", "f", "{}", "b"]);
        let responses = json!({
            "input": [{"type": "function_call", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "output": "b"}],
            "tools": [{"type": "function", "name": "g", "parameters": {}}],
        });
        assert_eq!(texts(&responses), ["f", "{}", "b", "g", "{}"]);
        let messages = json!({"messages": [{"role": "user", "content": "a"}],
            "tools": [{"name": "g", "input_schema": {"type": "object"}}]});
        assert_eq!(texts(&messages), ["a", "g", "{\"type\":\"object\"}"]);
    }

    #[test]
    fn a_plain_chat_has_the_same_text_as_any_body() {
        let chat = json!({"model": "m", "messages": [
            {"role": "system", "content": "a"},
            {"role": "user", "content": "b \"c\"\n\u{e4}"},
        ], "stream": true});
        let text = plain_chat(chat.to_string().as_bytes()).unwrap();
        assert_eq!(text, texts(&chat).join("\n").into_bytes());
        for (name, value) in [
            ("messages", json!([{"role": "user", "content": [{"type": "text", "text": "b"}]}])),
            ("messages", json!([{"role": "assistant", "content": "a", "tool_calls": []}])),
            ("tools", json!([])),
            ("system", json!("a")),
            ("prompt", json!("a")),
        ] {
            let mut other = chat.clone();
            other[name] = value;
            assert_eq!(plain_chat(other.to_string().as_bytes()), None, "{name}");
        }
        assert_eq!(plain_chat(b"{\"prompt\": \"a\"}"), None);
    }

    #[test]
    fn prompts_are_compared_with_their_tools_first() {
        let body = json!({
            "messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
            "tools": [{"function": {"name": "f"}}],
        });
        assert_eq!(prompt_bytes(body.to_string().as_bytes()), b"f\na\nb");
        assert_eq!(prompt_bytes(br#"{"prompt": [1, 258]}"#), [1, 0, 0, 0, 2, 1, 0, 0]);
        assert_eq!(prompt_bytes(br#"{"prompt": [[1], [2]]}"#), [1, 0, 0, 0, 2, 0, 0, 0]);
        assert!(prompt_bytes(b"{").is_empty() && prompt_bytes(b"{}").is_empty());
    }

    #[test]
    fn only_members_with_texts_are_read() {
        let other = |number: usize| format!(r#""x{number}": {{"text": "no"}}"#);
        let others = (0..9).map(other).collect::<Vec<_>>().join(",");
        let body = format!(r#"{{{others}, "prompt": "a", "max_tokens": 7, "query": null}}"#);
        assert_eq!(read(body.as_bytes()), Some(json!({"prompt": "a", "query": null})));
        for wrong in ["[]", "{", "{} {}", "7"] {
            assert_eq!(read(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn token_ids_are_counted() {
        let counted = |body: Value| {
            let raw = RawValue::from_string(body.to_string()).unwrap();
            let tokens = count_tokens(&raw, &TokenCounter::builtin());
            assert_eq!(tokens_sent(raw.get().as_bytes(), |_| panic!("there is no text")), tokens);
            tokens
        };
        assert_eq!(counted(json!({"prompt": [5, 6, 7]})), Some(3));
        assert_eq!(counted(json!({"prompt": [[5, 6], [7]], "max_tokens": 1})), Some(3));
        assert_eq!(counted(json!({"input": [[5], [6, 7], []]})), Some(3));
        assert_eq!(counted(json!({"prompt": [5, "a"]})), None);
        assert_eq!(counted(json!({"prompt": [[5], 6]})), None);
        assert_eq!(counted(json!({"prompt": [-5, 1.5]})), None);
    }

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
        assert_eq!(texts(&chat), ["a", "b"]);
        assert_eq!(texts(&json!({"prompt": "a"})), ["a"]);
        let ranking = json!({"query": {"text": "a"}, "passages": [{"text": "b"}, {"text": "c"}]});
        assert_eq!(texts(&ranking), ["a", "b", "c"]);
        assert_eq!(texts(&json!({"query": "a", "documents": ["b"], "model": "m"})), ["a", "b"]);
        assert_eq!(texts(&json!({"input": ["a", "b"]})), ["a", "b"]);
        assert_eq!(super::texts(&json!({"prompt": [1, 2]})), None);
        assert!(texts(&json!({"messages": "none"})).is_empty());
        let responses = json!({"instructions": "a", "input": [
            {"type": "message", "role": "user", "content": "b"},
            {"type": "message", "role": "assistant", "content": [
                {"type": "output_text", "text": "c"}]},
            {"type": "function_call_output", "output": "d"},
        ]});
        assert_eq!(texts(&responses), ["a", "b", "c", "d"]);
        let messages = json!({"system": [{"type": "text", "text": "a"}], "messages": [
            {"role": "user", "content": "b"}]});
        assert_eq!(texts(&messages), ["a", "b"]);
        let gemini = json!({"systemInstruction": {"parts": [{"text": "a"}]}, "contents": [
            {"role": "user", "parts": [{"text": "b"}, {"inlineData": {"data": ""}}]}]});
        assert_eq!(texts(&gemini), ["a", "b"]);
        assert_eq!(texts(&json!({"inputs": "a", "parameters": {}})), ["a"]);
    }
}
