//! `OpenLLMetry` until 0.4x: `llm.request.type`, and an attribute for each member of each message
//! (`gen_ai.prompt.0.content`). Newer versions write the GenAI conventions.

use serde_json::Value;

use super::{Content, Dialect, OperationKind, numbered};
use crate::file::otel::message::{Messages, tools};
use crate::file::otel::span::{Attributes, Span, text};

pub(super) const DIALECT: Dialect = Dialect { kind, content };

fn kind(span: &Span) -> Option<OperationKind> {
    match text(&span.attributes, &["llm.request.type"]) {
        Some("chat" | "completion") => return Some(OperationKind::Call),
        Some(_) => return Some(OperationKind::OtherRequest),
        None => {}
    }
    match text(&span.attributes, &["traceloop.span.kind"]) {
        Some("agent") => Some(OperationKind::Agent),
        Some("tool") => Some(OperationKind::Tool),
        _ => None,
    }
}

fn content(attributes: &Attributes) -> Option<Content> {
    let list = |names: [&str; 2]| names.iter().find_map(|name| numbered(attributes, name));
    let (asked, is_whole) = list(["gen_ai.prompt.", "llm.prompts."])?;
    let answered = list(["gen_ai.completion.", "llm.completions."]);
    let output = answered.and_then(|(answers, _)| {
        let mut answer = answers.into_iter().next()?;
        if let Value::Object(members) = &mut answer {
            members.entry("role").or_insert("assistant".into());
        }
        Messages::read(&answer).all.into_iter().next()
    });
    let declared = numbered(attributes, "llm.request.functions.");
    Some(Content {
        input: Messages::read(&Value::Array(asked.into_iter().map(parsed).collect())),
        output,
        tools: declared.and_then(|(declared, _)| tools(&Value::Array(declared))),
        is_cut: !is_whole,
    })
}

/// Content of parts is a JSON text.
fn parsed(mut message: Value) -> Value {
    let is_parts = |value: &Value| value[0]["type"].is_string();
    let text = message["content"].as_str().filter(|text| text.starts_with("[{"));
    if let Some(parts) = text.and_then(|text| serde_json::from_str(text).ok()).filter(is_parts) {
        message["content"] = parts;
    }
    message
}
