//! Dialects: how instrumentations write a request to a model as a span.
//!
//! A tool may mix them, so that the dialect which recognises a span need not be the one that finds
//! its content.

mod genai;
mod langsmith;
mod openinference;
mod openllmetry;
mod vercel;
mod vllm;

use serde_json::Value;

use base::semconv::attribute;

use super::message::{Message, Messages};
use super::span::{Attributes, Event, Span, count, text};

/// A dialect.
struct Dialect {
    /// Returns what the span is; `None` if it is not of this dialect.
    kind: fn(&Span) -> Option<OperationKind>,
    /// Returns the messages; `None` if there are none in this dialect.
    content: fn(&Attributes) -> Option<Content>,
}

/// From the most specific to the most general.
const DIALECTS: [Dialect; 6] = [
    genai::DIALECT,
    openllmetry::DIALECT,
    openinference::DIALECT,
    vercel::DIALECT,
    langsmith::DIALECT,
    vllm::DIALECT,
];

/// What a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationKind {
    /// A request that generates text.
    Call,
    /// Another request to a model, such as for embeddings.
    OtherRequest,
    /// The work of an agent.
    Agent,
    /// The use of a tool.
    Tool,
}

/// The messages of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Content {
    pub(super) input: Messages,
    /// The response.
    pub(super) output: Option<Message>,
    /// The declared tools, a JSON array.
    pub(super) tools: Option<Value>,
    /// Whether part of the messages is missing: the SDK cut or dropped attributes.
    pub(super) is_cut: bool,
}

impl Content {
    /// Returns whether the messages can be sent again.
    pub(super) fn is_usable(&self) -> bool {
        !self.is_cut && !self.input.all.is_empty()
    }

    /// Takes what is missing from `other`.
    fn complete(&mut self, other: Self) {
        if self.input.all.is_empty() {
            self.input = other.input;
        }
        if self.output.is_none() {
            self.output = other.output;
        }
        if self.tools.is_none() {
            self.tools = other.tools;
        }
        self.is_cut |= other.is_cut;
    }
}

/// Returns what `span` is; `None` if it is something else.
pub(super) fn kind(span: &Span) -> Option<OperationKind> {
    DIALECTS.iter().find_map(|dialect| (dialect.kind)(span))
}

/// Returns the messages in the attributes and events of a span.
pub(super) fn content(span: &Span) -> Content {
    let mut content = of_attributes(&span.attributes);
    if content.input.all.is_empty() || content.output.is_none() {
        content.complete(of_events(&span.events));
    }
    content
}

fn of_attributes(attributes: &Attributes) -> Content {
    DIALECTS.iter().find_map(|dialect| (dialect.content)(attributes)).unwrap_or_default()
}

/// Returns the messages in events of a span, or in log records that belong to it: one with all
/// messages as attributes, or one for each message.
pub(super) fn of_events(events: &[Event]) -> Content {
    let mut content = Content::default();
    for event in events.iter().filter(|event| event.name.starts_with("gen_ai.")) {
        match &*event.name {
            "gen_ai.choice" => {
                let body = event_message(event, "assistant");
                content.output = content.output.or_else(|| body.all.into_iter().next());
            }
            "gen_ai.system.message"
            | "gen_ai.user.message"
            | "gen_ai.assistant.message"
            | "gen_ai.tool.message" => {
                let role = event.name.split('.').nth(1).unwrap_or_default();
                content.input.all.append(&mut event_message(event, role).all);
            }
            _ => {
                let mut found = of_attributes(&event.attributes);
                if let Value::Object(body) = &event.body {
                    found.complete(of_attributes(body));
                }
                content.complete(found);
            }
        }
    }
    content
}

/// Returns the message of an event, whose name has the role, and whose body or attributes the rest.
fn event_message(event: &Event, role: &str) -> Messages {
    let attributes = || Value::Object(event.attributes.clone());
    let mut body = if event.body.is_object() { event.body.clone() } else { attributes() };
    if body["message"].is_object() {
        body = body["message"].take();
    }
    if role == "tool" {
        body["tool_call_id"] = body["id"].take();
    }
    if !body["role"].is_string() {
        body["role"] = role.into();
    }
    Messages::read(&body)
}

/// Names of the number of input tokens.
const INPUT_TOKENS: &[&str] = &[
    attribute::GEN_AI_USAGE_INPUT_TOKENS,
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
];

/// Names of the number of output tokens.
const OUTPUT_TOKENS: &[&str] = &[
    attribute::GEN_AI_USAGE_OUTPUT_TOKENS,
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
];

/// Names of the model, that of the request first.
const MODEL: &[&str] = &[
    attribute::GEN_AI_REQUEST_MODEL,
    "llm.request.model_name",
    "ai.model.id",
    "llm.model_name",
    attribute::GEN_AI_RESPONSE_MODEL,
];

/// Names of what a conversation has in common.
const CONVERSATION: &[&str] = &[
    attribute::GEN_AI_CONVERSATION_ID,
    "session.id",
    "traceloop.association.properties.conversation_id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
    "traceloop.association.properties.chat_id",
    "langsmith.trace.session_id",
    "langsmith.metadata.session_id",
    "langsmith.metadata.conversation_id",
    "langsmith.metadata.thread_id",
    "ai.telemetry.metadata.sessionId",
    "ai.telemetry.metadata.conversationId",
    "ai.telemetry.metadata.threadId",
    "ai.telemetry.metadata.chatId",
    "exgentic.session.id",
];

/// Parameters of a request that change what is generated, as attributes and in the chat API.
const SETTINGS: &[(&str, &str)] = &[
    (attribute::GEN_AI_REQUEST_TEMPERATURE, "temperature"),
    (attribute::GEN_AI_REQUEST_TOP_P, "top_p"),
    ("gen_ai.request.top_k", "top_k"),
    (attribute::GEN_AI_REQUEST_SEED, "seed"),
    ("gen_ai.request.stop_sequences", "stop"),
    ("gen_ai.request.frequency_penalty", "frequency_penalty"),
    ("gen_ai.request.presence_penalty", "presence_penalty"),
    ("gen_ai.request.choice.count", "n"),
];

/// Members of `llm.invocation_parameters` that are sent again.
const PARAMETERS: &[&str] = &[
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "stop",
    "frequency_penalty",
    "presence_penalty",
    "n",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "reasoning_effort",
];

/// The facts of a request beside its messages.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Facts {
    pub(super) model: Option<String>,
    pub(super) input_tokens: Option<u32>,
    pub(super) output_tokens: Option<u32>,
    /// The limit of the output that was requested.
    pub(super) max_tokens: Option<u32>,
    /// Further members of the body.
    pub(super) settings: Vec<(String, Value)>,
}

/// Returns the facts of a request.
pub(super) fn facts(attributes: &Attributes) -> Facts {
    let given = attributes.get("llm.invocation_parameters").and_then(Value::as_str);
    let given: Value = given.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut settings = Vec::new();
    for (name, member) in SETTINGS {
        if let Some(value) = attributes.get(*name).filter(|value| is_sendable(member, value)) {
            settings.push(((*member).to_owned(), value.clone()));
        }
    }
    for member in PARAMETERS {
        let is_new = settings.iter().all(|(name, _)| name != member);
        if is_new && is_sendable(member, &given[*member]) {
            settings.push(((*member).to_owned(), given[*member].clone()));
        }
    }
    let of_parameters = ["max_completion_tokens", "max_tokens", "max_output_tokens"];
    let limit = of_parameters.iter().find_map(|name| given[*name].as_u64());
    let model = given["model"].as_str().or_else(|| text(attributes, MODEL));
    Facts {
        model: model.map(ToOwned::to_owned),
        input_tokens: count(attributes, INPUT_TOKENS),
        output_tokens: count(attributes, OUTPUT_TOKENS),
        max_tokens: count(attributes, &[attribute::GEN_AI_REQUEST_MAX_TOKENS])
            .or_else(|| limit.and_then(|limit| u32::try_from(limit).ok())),
        settings,
    }
}

/// Returns whether a parameter says something: one choice is the default.
fn is_sendable(member: &str, value: &Value) -> bool {
    let is_default = member == "n" && value.as_f64() == Some(1.0);
    !value.is_null() && !is_default
}

/// Returns the conversation that a span names.
pub(super) fn conversation(attributes: &Attributes) -> Option<&str> {
    text(attributes, CONVERSATION)
}

/// Reads attributes of numbered messages, such as `gen_ai.prompt.0.role`, into one object per
/// message, with the members in their paths. Returns `None` without any, and whether all numbers up
/// to the last are there.
fn numbered(attributes: &Attributes, prefix: &str) -> Option<(Vec<Value>, bool)> {
    let mut found: std::collections::BTreeMap<usize, Value> = std::collections::BTreeMap::new();
    for (name, value) in attributes {
        let Some(path) = name.strip_prefix(prefix) else { continue };
        let path: Vec<&str> = path.split('.').collect();
        let Some((number, path)) = path.split_first() else { continue };
        let Some(number) = number.parse().ok().filter(|_| path.len() <= MAX_PATH) else { continue };
        put(found.entry(number).or_default(), path, value);
    }
    let last = *found.keys().next_back()?;
    let is_whole = last == found.len() - 1;
    Some((found.into_values().collect(), is_whole))
}

/// Maximum number of names in a path.
const MAX_PATH: usize = 16;

/// Maximum number of elements of a list in a path, so that an attribute cannot ask for a list of any length.
const MAX_ELEMENTS: usize = 4096;

/// Takes the member `name` of an object; null if there is none.
fn taken(value: &mut Value, name: &str) -> Value {
    value
        .as_object_mut()
        .and_then(|members| members.get_mut(name))
        .map(Value::take)
        .unwrap_or_default()
}

/// Puts `value` at `path` of objects and lists, whose elements are numbers.
fn put(place: &mut Value, path: &[&str], value: &Value) {
    let Some((first, rest)) = path.split_first() else {
        *place = value.clone();
        return;
    };
    match first.parse::<usize>() {
        Ok(number) if number < MAX_ELEMENTS => {
            if !place.is_array() {
                *place = Value::Array(Vec::new());
            }
            if let Value::Array(list) = place {
                if list.len() <= number {
                    list.resize(number + 1, Value::Null);
                }
                put(&mut list[number], rest, value);
            }
        }
        _ => {
            if !place.is_object() {
                *place = Value::Object(Attributes::new());
            }
            if let Value::Object(members) = place {
                put(members.entry(*first).or_insert(Value::Null), rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests;
