//! Responses of an unknown dialect, which is detected from their content.

use serde_json::Value;

use super::dialect::audio_transcription::Transcript;
use super::dialect::chat::read::Choices;
use super::dialect::image_generation::Images;
use super::dialect::{gemini, huggingface_generate, messages, responses};
use super::envelope::enveloped;
use super::field::FieldPath;
use super::reader::{self, Answer, Reader};
use super::structure::TextKind;
use super::{Config, ParsedResponse};
use crate::record::ResponseBody;

/// Name of the extra input with the path of the content.
pub const RESPONSE_FIELD: &str = "response_field";

/// Parses responses of any dialect.
#[derive(Debug)]
pub(super) struct Detect {
    /// The path of the content, if given.
    field: Result<Option<FieldPath>, String>,
}

impl Detect {
    /// Creates a reader with the path from the extra inputs; `text` means no path.
    pub(super) fn new(config: &Config) -> Self {
        Self { field: field(config) }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.field.as_ref().map(drop).map_err(Clone::clone)
    }

    pub(super) fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        reader::parse_with(self.reader(), body)
    }

    pub(super) fn has_content(&self, event: &[u8]) -> bool {
        reader::has_content_with(self.reader(), event)
    }

    fn reader(&self) -> Any<'_> {
        let field = self.field.as_ref().ok().and_then(Option::as_ref);
        Any { plain: Plain { field }, ..Any::default() }
    }
}

/// The readers of all dialects; each event is passed to the reader of its dialect.
#[derive(Default)]
struct Any<'f> {
    /// The dialect of the last event whose dialect was detected.
    last: Option<Shape>,
    choices: Choices,
    responses: responses::read::Events,
    messages: messages::read::Events,
    gemini: gemini::read::Chunks,
    generate: huggingface_generate::read::Tokens,
    images: Images,
    transcript: Transcript,
    plain: Plain<'f>,
}

#[derive(Clone, Copy)]
enum Shape {
    Choices,
    Responses,
    Messages,
    Gemini,
    Generate,
    Images,
    Transcript,
}

impl Any<'_> {
    fn reader(&mut self, shape: Option<Shape>) -> &mut dyn Reader {
        match shape {
            None => &mut self.plain,
            Some(Shape::Choices) => &mut self.choices,
            Some(Shape::Responses) => &mut self.responses,
            Some(Shape::Messages) => &mut self.messages,
            Some(Shape::Gemini) => &mut self.gemini,
            Some(Shape::Generate) => &mut self.generate,
            Some(Shape::Images) => &mut self.images,
            Some(Shape::Transcript) => &mut self.transcript,
        }
    }
}

impl Reader for Any<'_> {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        let shape = match self.plain.field {
            Some(_) => None,
            None => serde_json::from_slice(json).ok().and_then(|value| shape(&value)),
        };
        self.last = shape.or(self.last);
        self.reader(shape).read(json, answer)
    }

    fn is_complete(&self, answer: &Answer) -> bool {
        match self.last {
            // Data of an unknown dialect does not have an end marker.
            None => true,
            Some(Shape::Choices) => self.choices.is_complete(answer),
            Some(Shape::Responses) => self.responses.is_complete(answer),
            Some(Shape::Messages) => self.messages.is_complete(answer),
            Some(Shape::Gemini) => self.gemini.is_complete(answer),
            Some(Shape::Generate) => self.generate.is_complete(answer),
            Some(Shape::Images) => self.images.is_complete(answer),
            Some(Shape::Transcript) => self.transcript.is_complete(answer),
        }
    }

    fn end(&mut self, answer: &mut Answer) {
        use Shape::{Choices, Gemini, Generate, Images, Messages, Responses, Transcript};
        for shape in [Choices, Responses, Messages, Gemini, Generate, Images, Transcript] {
            self.reader(Some(shape)).end(answer);
        }
    }
}

/// Returns the dialect of the data, if it is recognized.
fn shape(value: &Value) -> Option<Shape> {
    let kind = value["type"].as_str().unwrap_or_default();
    let first = value.get(0).unwrap_or(value);
    let says = |names: &[&str]| names.iter().any(|name| kind.starts_with(name));
    if value["choices"].is_array() {
        Some(Shape::Choices)
    } else if value["candidates"].is_array() {
        Some(Shape::Gemini)
    } else if first["generated_text"].is_string() || value["token"].is_object() {
        Some(Shape::Generate)
    } else if value["object"] == "response" || says(&["response."]) {
        Some(Shape::Responses)
    } else if says(&["message_", "content_block_"])
        || (kind == "message" && value["content"].is_array())
    {
        Some(Shape::Messages)
    } else if says(&["image_generation.", "image_edit."]) || is_image(&value["data"][0]) {
        Some(Shape::Images)
    } else if says(&["transcript.text."]) {
        Some(Shape::Transcript)
    } else {
        None
    }
}

fn is_image(item: &Value) -> bool {
    item["b64_json"].is_string() || item["url"].is_string()
}

fn field(config: &Config) -> Result<Option<FieldPath>, String> {
    let given = config.extra_inputs.iter().rev().find(|(name, _)| name == RESPONSE_FIELD);
    let path = match given.map(|(_, path)| path) {
        None | Some(Value::Null) => return Ok(None),
        Some(path) => path.as_str().ok_or_else(|| "not a string".to_owned()),
    };
    match path {
        Ok("text") => Ok(None),
        path => path
            .and_then(FieldPath::parse)
            .map(Some)
            .map_err(|why| format!("--extra-inputs {RESPONSE_FIELD}: {why}")),
    }
}

/// Parses data of an unknown dialect: the value at the given path, vectors, scores, or a text in a
/// field with a common name.
#[derive(Default)]
struct Plain<'f> {
    field: Option<&'f FieldPath>,
}

impl Reader for Plain<'_> {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        let value: Value = match serde_json::from_slice(json) {
            Ok(value) => value,
            // Text that is not JSON is the content itself.
            Err(_) if is_text(json) && self.field.is_none() => {
                answer.output(&String::from_utf8_lossy(json));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.value(&value, answer);
        answer.reports.response(json);
        let Ok(reply) = serde_json::from_slice::<Reply<'_>>(json) else {
            return Ok(());
        };
        let envelope = reply.envelope();
        answer.usage(envelope.usage);
        answer.model(envelope.model);
        answer.reports.members(&envelope.reports);
        answer.report_raw(envelope.error);
        Ok(())
    }
}

/// Returns whether the data does not start like a JSON object or array.
fn is_text(data: &[u8]) -> bool {
    !data.trim_ascii_start().starts_with(b"{") && !data.trim_ascii_start().starts_with(b"[")
}

enveloped! {
    /// Any response; its content is found by its names.
    struct Reply<'a> {}
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
                answer.find(TextKind::Output);
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

/// Adds the content of a value: strings are text; lists of numbers, lists or objects are
/// vectors and scores.
fn content(value: &Value, answer: &mut Answer) {
    match text(value) {
        Some(text) => answer.output(&text),
        None => answer.find_if(is_list(value)),
    }
}

/// Returns a text, or the joined texts of a list.
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
