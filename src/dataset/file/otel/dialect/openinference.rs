//! `OpenInference`: `openinference.span.kind`, the whole request as JSON in `input.value`, and an
//! attribute for each member of each message (`llm.input_messages.0.message.content`).

use serde_json::{Value, json as value};

use super::{Content, Dialect, OperationKind, numbered, taken};
use crate::file::otel::message::{Messages, tools};
use crate::file::otel::span::{Attributes, Json, Span, json, text};

pub(super) const DIALECT: Dialect = Dialect { kind, content };

fn kind(span: &Span) -> Option<OperationKind> {
    match text(&span.attributes, &["openinference.span.kind"])? {
        "LLM" => Some(OperationKind::Call),
        "EMBEDDING" | "RERANKER" => Some(OperationKind::OtherRequest),
        "AGENT" => Some(OperationKind::Agent),
        "TOOL" => Some(OperationKind::Tool),
        _ => None,
    }
}

fn content(attributes: &Attributes) -> Option<Content> {
    let of_llm = text(attributes, &["openinference.span.kind"]) == Some("LLM");
    let value = |name| if of_llm { json(attributes, name) } else { None };
    let mut content = Content::default();
    let mut declared = None;
    // The attributes of messages may be lost to limits, but the request is one attribute.
    match value("input.value") {
        Some(Json::Is(request)) if request["messages"].is_array() => {
            content.input = Messages::read(&request);
            declared = tools(&request["tools"]);
        }
        _ => {
            if let Some((messages, is_whole)) = numbered(attributes, "llm.input_messages.") {
                content.input = Messages::read(&messages.into_iter().map(plain).collect::<Value>());
                content.is_cut = !is_whole;
            }
        }
    }
    if let Some((messages, _)) = numbered(attributes, "llm.output_messages.") {
        let all = Messages::read(&messages.into_iter().map(plain).collect::<Value>()).all;
        content.output = all.into_iter().next();
    } else if let Some(Json::Is(response)) = value("output.value") {
        let message = &response["choices"][0]["message"];
        content.output = Messages::read(message).all.into_iter().next();
    }
    if content.input.all.is_empty() && content.output.is_none() {
        return None;
    }
    content.tools = declared.or_else(|| {
        let (list, _) = numbered(attributes, "llm.tools.")?;
        let schema = |tool: Value| match &tool["tool"]["json_schema"] {
            Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
            other => other.clone(),
        };
        tools(&list.into_iter().map(schema).collect::<Value>())
    });
    Some(content)
}

/// Converts `{"message": {"contents": [{"message_content": …}], "tool_calls": [{"tool_call": …}]}}`.
fn plain(mut message: Value) -> Value {
    let mut message = taken(&mut message, "message");
    let mut contents = taken(&mut message, "contents");
    for part in contents.as_array_mut().into_iter().flatten() {
        *part = taken(part, "message_content");
        if let Some(url) = part.pointer("/image/image/url") {
            *part = value!({"type": "image_url", "image_url": {"url": url}});
        }
    }
    let mut calls = taken(&mut message, "tool_calls");
    for call in calls.as_array_mut().into_iter().flatten() {
        *call = taken(call, "tool_call");
    }
    if let Value::Object(members) = &mut message {
        members.insert("tool_calls".to_owned(), calls);
        if members.get("content").is_none_or(Value::is_null) {
            members.insert("content".to_owned(), contents);
        }
    }
    message
}
