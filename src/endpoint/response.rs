//! Reads chat and completion responses, streamed or not.
//!
//! This is the dearest work per event: texts borrow from the event, members
//! that nothing needs are skipped unread, and nothing becomes a `Value` before
//! the server reports an error.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::text::{Number, Text};
use super::{ContentPiece, ParsedResponse, Usage, error, sse};
use crate::record::{RequestError, ResponseBody};
use crate::units::Nanos;

/// One event of a stream, or a whole body that is not streamed.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default, deserialize_with = "null_is_empty")]
    choices: Vec<Choice<'a>>,
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "usageMetadata")]
    usage_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    // An error without the wrapper: {"object":"error","message":…,"code":…}.
    #[serde(borrow, default)]
    message: Text<'a>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: Number,
    #[serde(borrow, default)]
    delta: Option<Message<'a>>,
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    finish_reason: Text<'a>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    content: Text<'a>,
    #[serde(borrow, default)]
    refusal: Text<'a>,
    #[serde(borrow, default)]
    reasoning_content: Text<'a>,
    #[serde(borrow, default)]
    reasoning: Text<'a>,
    #[serde(borrow, default, deserialize_with = "null_is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
    #[serde(borrow, default)]
    function_call: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow, default)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    arguments: Text<'a>,
}

fn null_is_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads the whole body.
///
/// Of several failures the first that the server reports counts, then the first
/// event that is no JSON, then a cut stream, then the lack of content.
pub(super) fn parse(body: &ResponseBody) -> ParsedResponse {
    let mut reader = Reader::default();
    for (index, event) in body.events.iter().enumerate() {
        let raw = body.raw(event);
        if body.is_event_stream {
            let fields = sse::data(raw);
            if fields.event == Some(b"error") {
                reader.reported.get_or_insert_with(|| error::error_event(&fields));
            } else if let Some(data) = &fields.data {
                reader.data(data, index, body, event.arrival.at);
            }
        } else {
            reader.data(raw, index, body, event.arrival.at);
        }
    }
    reader.finish(body)
}

/// Whether an event of a stream bears content.
///
/// Asked of few events, the ones before the first that has some, and read by
/// the same parser, so that the two cannot disagree.
pub(super) fn has_content(event: &[u8]) -> bool {
    let fields = sse::data(event);
    let Some(data) = fields.data.filter(|_| fields.event != Some(b"error")) else { return false };
    let mut reader = Reader::default();
    let json = String::from_utf8_lossy(&data);
    reader.json(json.as_bytes(), Nanos::ZERO).is_ok() && !reader.response.content.is_empty()
}

/// What has been read so far.
#[derive(Default)]
struct Reader {
    response: ParsedResponse,
    usage: Usage,
    choices: Vec<ChoiceText>,
    is_done: bool,
    reported: Option<RequestError>,
    invalid: Option<RequestError>,
}

/// The text of one choice: those of `n=2` arrive interleaved.
#[derive(Default)]
struct ChoiceText {
    output: String,
    reasoning: String,
    is_finished: bool,
}

/// Choices that are kept apart; the texts of further ones go to the last.
const CHOICE_LIMIT: usize = 1024;

impl Reader {
    fn data(&mut self, data: &[u8], index: usize, body: &ResponseBody, arrival: Nanos) {
        if body.is_event_stream {
            match data.trim_ascii() {
                b"[DONE]" => {
                    self.is_done = true;
                    return;
                }
                // llama.cpp opens batches with an event of `null`.
                b"" | b"null" => return,
                _ => {}
            }
        }
        if let Err(why) = self.json(data, arrival) {
            // Streams are decoded with replacement characters, so bytes that
            // are no UTF-8 make no invalid JSON.
            if std::str::from_utf8(data).is_err()
                && self.json(String::from_utf8_lossy(data).as_bytes(), arrival).is_ok()
            {
                return;
            }
            let count = body.events.len();
            let invalid = || error::invalid_json(index + 1, count, data, &why);
            self.invalid.get_or_insert_with(invalid);
        }
    }

    fn json(&mut self, json: &[u8], arrival: Nanos) -> Result<(), serde_json::Error> {
        let chunk: Chunk<'_> = serde_json::from_slice(json)?;
        if let Some(error) = chunk.error {
            let value = serde_json::from_str(error.get()).unwrap_or(Value::Null);
            self.reported.get_or_insert_with(|| error::reported(&value));
        } else if chunk.choices.is_empty() && chunk.message.non_empty().is_some() {
            let value = serde_json::from_slice(json).unwrap_or(Value::Null);
            self.reported.get_or_insert_with(|| error::reported(&value));
        }
        for usage in [chunk.usage, chunk.usage_metadata].into_iter().flatten() {
            self.usage.merge(usage);
        }
        if let (Some(model), None) = (chunk.model.non_empty(), &self.response.model) {
            self.response.model = Some(model.to_owned());
        }
        let mut found = Found::default();
        for choice in &chunk.choices {
            self.choice(choice, &mut found);
        }
        if found.output || found.reasoning {
            self.response.content.push(ContentPiece { arrival, is_output: found.output });
        }
        Ok(())
    }

    fn choice(&mut self, choice: &Choice<'_>, found: &mut Found) {
        let index = choice.index.whole().map_or(0, |index| index as usize).min(CHOICE_LIMIT - 1);
        if self.choices.len() <= index {
            self.choices.resize_with(index + 1, ChoiceText::default);
        }
        let kept = &mut self.choices[index];
        let mut output = |text: &Text<'_>| {
            found.output |= !text.0.is_empty();
            kept.output.push_str(&text.0);
        };
        output(&choice.text);
        for message in [&choice.delta, &choice.message].into_iter().flatten() {
            output(&message.content);
            output(&message.refusal);
            let calls = message.tool_calls.iter().filter_map(|call| call.function.as_ref());
            for call in calls.chain(&message.function_call) {
                output(&call.name);
                output(&call.arguments);
            }
            // Some servers send the same text under both names.
            let reasoning = message.reasoning_content.non_empty();
            if let Some(text) = reasoning.or_else(|| message.reasoning.non_empty()) {
                found.reasoning = true;
                kept.reasoning.push_str(text);
            }
        }
        if let Some(reason) = choice.finish_reason.non_empty() {
            kept.is_finished = true;
            if self.response.finish_reason.as_deref() != Some(reason) {
                self.response.finish_reason = Some(reason.to_owned());
            }
        }
    }

    /// Whether the stream came to its end: `[DONE]`, or a finish reason for
    /// every choice that said something.
    fn is_complete(&self) -> bool {
        let is_silent = |c: &ChoiceText| c.output.is_empty() && c.reasoning.is_empty();
        self.is_done
            || self.response.finish_reason.is_some()
                && self.choices.iter().all(|choice| choice.is_finished || is_silent(choice))
    }

    fn finish(mut self, body: &ResponseBody) -> ParsedResponse {
        let is_cut = body.is_event_stream && !body.events.is_empty() && !self.is_complete();
        let mut response = self.response;
        for choice in self.choices.drain(..) {
            append(&mut response.output_text, choice.output);
            append(&mut response.reasoning_text, choice.reasoning);
        }
        response.usage = (!self.usage.is_empty()).then_some(self.usage);
        response.error = self.reported.or(self.invalid).or_else(|| {
            if is_cut {
                Some(error::cut_stream(body.events.len()))
            } else if response.content.is_empty() {
                Some(error::empty_response(self.usage.completion_tokens))
            } else {
                None
            }
        });
        response
    }
}

/// What kinds of content one event bore.
#[derive(Default)]
struct Found {
    output: bool,
    reasoning: bool,
}

/// Appends without a copy where there is nothing to append to.
fn append(text: &mut String, more: String) {
    if text.is_empty() {
        *text = more;
    } else {
        text.push_str(&more);
    }
}

#[cfg(test)]
mod tests;
