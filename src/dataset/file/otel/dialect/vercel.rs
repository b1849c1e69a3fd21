//! Vercel's AI SDK: `ai.generateText` and others, each with the requests to the provider as its
//! children (`ai.generateText.doGenerate`).

use serde_json::{Value, json as value};

use super::{Content, Dialect, OperationKind};
use crate::file::otel::message::{Messages, tools};
use crate::file::otel::span::{Attributes, Json, Span, json, text};

pub(super) const DIALECT: Dialect = Dialect { kind, content };

fn kind(span: &Span) -> Option<OperationKind> {
    let operation = text(&span.attributes, &["ai.operationId"])?;
    match operation.rsplit('.').next()? {
        "doGenerate" | "doStream" => Some(OperationKind::Call),
        "doEmbed" => Some(OperationKind::OtherRequest),
        "toolCall" => Some(OperationKind::Tool),
        _ => None,
    }
}

fn content(attributes: &Attributes) -> Option<Content> {
    let mut content = Content::default();
    match json(attributes, "ai.prompt.messages")? {
        Json::Is(messages) => content.input = Messages::read(&messages),
        Json::Broken(_) => content.is_cut = true,
    }
    let said = text(attributes, &["ai.response.text", "ai.response.object"]);
    let calls = match json(attributes, "ai.response.toolCalls") {
        Some(Json::Is(calls)) => calls,
        _ => Value::Null,
    };
    if said.is_some() || calls.is_array() {
        let answer = value!({"role": "assistant", "content": said, "tool_calls": calls});
        content.output = Messages::read(&answer).all.into_iter().next();
    }
    if let Some(Json::Is(declared)) = json(attributes, "ai.prompt.tools") {
        content.tools = tools(&declared);
    }
    Some(content)
}
