//! Responses whose dialect nobody names: told from their content.

use std::sync::Arc;

use serde_json::Value;

use super::field::FieldPath;
use super::reader::{self, Answer, Reader};
use super::text::Text;
use super::{Config, Endpoint, EndpointType, ParsedResponse, build, sse};
use crate::record::ResponseBody;

/// Name of the extra input that says where the content is.
pub(super) const RESPONSE_FIELD: &str = "response_field";

/// Reads responses of any shape.
#[derive(Debug)]
pub(super) struct Detect {
    /// Where the content is, if that is said.
    field: Result<Option<FieldPath>, String>,
    chat: Arc<dyn Endpoint>,
    responses: Arc<dyn Endpoint>,
    messages: Arc<dyn Endpoint>,
    gemini: Arc<dyn Endpoint>,
    generate: Arc<dyn Endpoint>,
}

impl Detect {
    /// With the path that the extra input of this name says; `text` says nothing.
    pub(super) fn new(config: &Config) -> Self {
        let dialect = |endpoint_type| build(&Config { endpoint_type, ..config.clone() });
        Self {
            field: field(config),
            chat: dialect(EndpointType::CHAT),
            responses: dialect(EndpointType::RESPONSES),
            messages: dialect(EndpointType::MESSAGES),
            gemini: dialect(EndpointType::GEMINI),
            generate: dialect(EndpointType::HUGGINGFACE_GENERATE),
        }
    }

    /// Says what is wrong with the path, if anything is.
    pub(super) fn check(&self) -> Result<(), String> {
        self.field.as_ref().map(drop).map_err(Clone::clone)
    }

    pub(super) fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        let mut events = body.events.iter().map(|event| body.raw(event));
        let dialect = if body.is_event_stream {
            events.find_map(|event| self.of_event(event))
        } else {
            events.next().and_then(|body| self.of_data(body))
        };
        match dialect {
            Some(dialect) => dialect.parse(body),
            None => reader::parse_with(self.plain(), body),
        }
    }

    pub(super) fn has_content(&self, event: &[u8]) -> bool {
        match self.of_event(event) {
            Some(dialect) => dialect.has_content(event),
            None => reader::has_content_with(self.plain(), event),
        }
    }

    fn named(&self) -> Option<&FieldPath> {
        self.field.as_ref().ok()?.as_ref()
    }

    fn plain(&self) -> Plain<'_> {
        Plain { field: self.named() }
    }

    fn of_event(&self, event: &[u8]) -> Option<&Arc<dyn Endpoint>> {
        self.of_data(&sse::data(event).data?)
    }

    /// The dialect that has such data, if it is one of those.
    fn of_data(&self, data: &[u8]) -> Option<&Arc<dyn Endpoint>> {
        if self.named().is_some() {
            return None;
        }
        let value: Value = serde_json::from_slice(data).ok()?;
        let is = |name: &str, wanted: &str| value[name] == wanted;
        let kind = value["type"].as_str().unwrap_or_default();
        let first = value.get(0).unwrap_or(&value);
        if value["choices"].is_array() {
            Some(&self.chat)
        } else if value["candidates"].is_array() {
            Some(&self.gemini)
        } else if first["generated_text"].is_string() || value["token"].is_object() {
            Some(&self.generate)
        } else if is("object", "response") || kind.starts_with("response.") {
            Some(&self.responses)
        } else if kind == "message_start" || (kind == "message" && value["content"].is_array()) {
            Some(&self.messages)
        } else {
            None
        }
    }
}

fn field(config: &Config) -> Result<Option<FieldPath>, String> {
    let given = config.extra_inputs.iter().rev().find(|(name, _)| name == RESPONSE_FIELD);
    let path = match given.map(|(_, path)| path) {
        None | Some(Value::Null) => return Ok(None),
        Some(path) => path.as_str().ok_or_else(|| "it is no text".to_owned()),
    };
    match path {
        Ok("text") => Ok(None),
        path => path
            .and_then(FieldPath::parse)
            .map(Some)
            .map_err(|why| format!("--extra-inputs {RESPONSE_FIELD}: {why}")),
    }
}

/// What is of no dialect: a place that is named, vectors, scores, or a text under
/// one of the usual names.
#[derive(Default)]
struct Plain<'f> {
    field: Option<&'f FieldPath>,
}

impl Reader for Plain<'_> {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        let value: Value = match serde_json::from_slice(json) {
            Ok(value) => value,
            // Text that is no JSON is the content itself.
            Err(_) if !json.trim_ascii_start().starts_with(b"{") && self.field.is_none() => {
                answer.output(&String::from_utf8_lossy(json));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.value(&value, answer);
        let Ok(members) = serde_json::from_slice::<Members<'_>>(json) else { return Ok(()) };
        answer.usage(members.usage);
        answer.model(&members.model);
        if value.get("error").is_some_and(|error| !error.is_null()) {
            answer.report_json(value["error"].to_string().as_bytes());
        }
        Ok(())
    }

    /// Such a stream has no sign of its end.
    fn is_complete(&self, _answer: &Answer) -> bool {
        true
    }
}

#[derive(serde::Deserialize)]
struct Members<'a> {
    #[serde(borrow, default)]
    usage: Option<&'a serde_json::value::RawValue>,
    #[serde(borrow, default)]
    model: Text<'a>,
}

impl Plain<'_> {
    fn value(&self, value: &Value, answer: &mut Answer) {
        if let Some(field) = self.field {
            if let Some(found) = field.find(value) {
                content(&found, answer);
            }
        } else if value.is_object() {
            let first = &value["data"][0];
            let vectors = first["object"] == "embedding";
            let lists = ["embeddings", "embedding", "rankings", "results"];
            if vectors || lists.iter().any(|name| is_list(&value[name])) {
                answer.found.output = true;
                return;
            }
            let names = ["text", "content", "response", "output", "result"];
            if let Some(text) = names.iter().find_map(|name| text(&value[name])) {
                answer.output(&text);
            }
        } else {
            content(value, answer);
        }
    }
}

/// Text is text; lists of numbers, lists and objects are vectors and scores.
fn content(value: &Value, answer: &mut Answer) {
    match text(value) {
        Some(text) => answer.output(&text),
        None => answer.found.output |= is_list(value),
    }
}

/// A text, or the texts of a list joined.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) if !items.is_empty() => {
            items.iter().map(|item| item.as_str()).collect::<Option<Vec<_>>>().map(|t| t.concat())
        }
        _ => None,
    }
}

fn is_list(value: &Value) -> bool {
    value.as_array().is_some_and(|items| !items.is_empty())
}

#[cfg(test)]
mod tests;
