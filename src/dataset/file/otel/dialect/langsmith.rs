//! `LangSmith`: `langsmith.span.kind`, and the inputs and outputs of a run as JSON in `gen_ai.prompt`
//! and `gen_ai.completion`.

use serde_json::Value;

use super::{Content, Dialect, OperationKind};
use crate::file::otel::message::{Message, Messages, tools};
use crate::file::otel::span::{Attributes, Json, Span, json, text};

pub(super) const DIALECT: Dialect = Dialect { kind, content };

fn kind(span: &Span) -> Option<OperationKind> {
    match text(&span.attributes, &["langsmith.span.kind"])? {
        "llm" => Some(OperationKind::Call),
        "embedding" => Some(OperationKind::OtherRequest),
        "tool" => Some(OperationKind::Tool),
        "agent" => Some(OperationKind::Agent),
        _ => None,
    }
}

fn content(attributes: &Attributes) -> Option<Content> {
    let mut content = Content::default();
    match json(attributes, "gen_ai.prompt")? {
        Json::Is(inputs) => {
            let inputs = if inputs["input"].is_object() { &inputs["input"] } else { &inputs };
            content.input = Messages::read(inputs);
            content.tools = tools(&inputs["tools"]);
        }
        // A text that begins like JSON was cut.
        Json::Broken(text) if text.starts_with(['{', '[']) => content.is_cut = true,
        Json::Broken(text) => content.input = Messages::read(&text.into()),
    }
    content.output = match json(attributes, "gen_ai.completion") {
        Some(Json::Is(outputs)) => Messages::read(answer(&outputs)).all.into_iter().next(),
        Some(Json::Broken(text)) => Some(Message::new("assistant", text)),
        None => None,
    };
    if let Some(output) = &mut content.output {
        "assistant".clone_into(&mut output.role);
    }
    Some(content)
}

/// Returns the message in the outputs: `LangChain`'s generations, `OpenAI`'s choices, or a message.
fn answer(outputs: &Value) -> &Value {
    let outputs = if outputs["output"].is_null() { outputs } else { &outputs["output"] };
    let of_openai = &outputs["choices"][0]["message"];
    let generations = &outputs["generations"][0];
    let generation = if generations[0].is_object() { &generations[0] } else { generations };
    let text = &generation["text"];
    let candidates = [of_openai, &generation["message"], text, &outputs["messages"][0]];
    candidates.into_iter().find(|found| !found.is_null()).unwrap_or(outputs)
}
