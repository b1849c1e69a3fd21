//! The GenAI conventions: `gen_ai.operation.name`, messages with parts as JSON. OpenTelemetry's own
//! instrumentations, newer versions of `OpenLLMetry`, and inference-perf's files.

use base::semconv::attribute;

use super::{Content, Dialect, OperationKind};
use crate::file::otel::message::{Message, Messages, tools};
use crate::file::otel::span::{Attributes, Json, Span, json, text};

pub(super) const DIALECT: Dialect = Dialect { kind, content };

fn kind(span: &Span) -> Option<OperationKind> {
    match text(&span.attributes, &[attribute::GEN_AI_OPERATION_NAME]) {
        Some("chat" | "text_completion" | "generate_content" | "completion") => {
            Some(OperationKind::Call)
        }
        Some("embeddings" | "retrieval" | "rerank") => Some(OperationKind::OtherRequest),
        Some("invoke_agent" | "invoke_workflow") => Some(OperationKind::Agent),
        Some("execute_tool") => Some(OperationKind::Tool),
        Some(_) => None,
        None => {
            let has_messages = span.attributes.contains_key("gen_ai.input.messages");
            has_messages.then_some(OperationKind::Call)
        }
    }
}

fn content(attributes: &Attributes) -> Option<Content> {
    let mut content = Content::default();
    let instructions = json(attributes, "gen_ai.system_instructions");
    match json(attributes, "gen_ai.input.messages") {
        Some(Json::Is(messages)) => {
            match instructions {
                Some(Json::Is(instructions)) => content.input.add_system(&instructions),
                Some(Json::Broken(instructions)) => content.input.add_system(&instructions.into()),
                None => {}
            }
            content.input.add(&messages);
        }
        Some(Json::Broken(_)) => content.is_cut = true,
        None => {}
    }
    content.output = if let Some(Json::Is(messages)) = json(attributes, "gen_ai.output.messages") {
        Messages::read(&messages).all.into_iter().next()
    } else {
        let text = text(attributes, &["gen_ai.output.text"]);
        text.map(|text| Message::new("assistant", text))
    };
    if let Some(Json::Is(definitions)) = json(attributes, "gen_ai.tool.definitions") {
        content.tools = tools(&definitions);
    }
    let is_found = content.is_cut || content.output.is_some() || !content.input.all.is_empty();
    is_found.then_some(content)
}
