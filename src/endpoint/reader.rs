//! Parsing that all dialects for text generation have in common: events, errors, streams that were
//! cut short.
//!
//! A dialect parses the data of one event, or a whole body. The same code determines whether an
//! event has content, so that the two cannot disagree.

use serde::de::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::envelope::Envelope;
use super::reports::Reports;
use super::text::Text;
use super::tool_calls::Calls;
use super::{ContentPiece, ParsedResponse, Usage, error, sse};
use crate::record::{Arrival, RequestError, ResponseBody};
use crate::server_family::TENSORRT_LLM_EVENT;

/// A parser for a dialect's responses.
pub(super) trait Reader {
    /// Parses the data of one event, or a whole body. On an error, it must leave `answer`
    /// unchanged.
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error>;

    /// Returns whether the stream was marked as complete, other than by `[DONE]`.
    fn is_complete(&self, answer: &Answer) -> bool {
        !answer.response.finish_reasons.is_empty()
    }

    /// Moves the texts kept in the reader to the answer.
    fn end(&mut self, _answer: &mut Answer) {}
}

/// The parts of the response parsed so far.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) response: ParsedResponse,
    pub(super) usage: Usage,
    /// The kinds of content in the current event.
    pub(super) found: ContentKinds,
    /// The tool calls, whose names and arguments are output as well.
    pub(super) calls: Calls,
    /// What the server reports about its times.
    pub(super) reports: Reports,
    is_done: bool,
    reported: Option<RequestError>,
    invalid: Option<RequestError>,
}

/// Kinds of content.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ContentKinds {
    pub(super) output: bool,
    pub(super) reasoning: bool,
}

/// Parses the whole body.
///
/// If there are several failures, the error is the first one that the server reported, or else the
/// first event that is not valid JSON, then a stream that was cut short, then missing content.
pub(super) fn parse<R: Reader + Default>(body: &ResponseBody) -> ParsedResponse {
    parse_with(R::default(), body)
}

/// Like [`parse`], with a reader that has settings.
pub(super) fn parse_with<R: Reader>(mut reader: R, body: &ResponseBody) -> ParsedResponse {
    let mut answer = Answer::default();
    for (index, event) in body.events.iter().enumerate() {
        let raw = body.raw(event);
        if body.is_event_stream {
            let fields = sse::data(raw);
            if fields.event == Some(b"error") {
                answer.report(|| error::error_event(&fields));
            } else if fields.event == Some(TENSORRT_LLM_EVENT) {
                answer.reports.tensorrt_llm_event(fields.data.as_deref().unwrap_or_default());
            } else if let Some(data) = &fields.data {
                answer.data(&mut reader, data, index, body, event.arrival);
            }
        } else {
            answer.data(&mut reader, raw, index, body, event.arrival);
        }
    }
    answer.finish(reader, body)
}

/// Returns whether an event of a stream has content.
///
/// Called only for events up to the first one with content.
pub(super) fn has_content<R: Reader + Default>(event: &[u8]) -> bool {
    has_content_with(R::default(), event)
}

/// Like [`has_content`], with a reader that has settings.
pub(super) fn has_content_with<R: Reader>(mut reader: R, event: &[u8]) -> bool {
    let fields = sse::data(event);
    let Some(data) = fields.data.filter(|_| fields.event != Some(b"error")) else { return false };
    let mut answer = Answer::default();
    let json = String::from_utf8_lossy(&data);
    reader.read(json.as_bytes(), &mut answer).is_ok()
        && (answer.found.output || answer.found.reasoning)
}

impl Answer {
    /// Adds text, part of a tool call or a refusal.
    pub(super) fn output(&mut self, text: &str) {
        self.found.output |= !text.is_empty();
        self.response.output_text.push_str(text);
    }

    pub(super) fn reasoning(&mut self, text: &str) {
        self.found.reasoning |= !text.is_empty();
        self.response.reasoning_text.push_str(text);
    }

    /// Returns whether any event so far, including the current one, has content.
    pub(super) fn has_content(&self) -> bool {
        self.found.output || self.found.reasoning || !self.response.content.is_empty()
    }

    pub(super) fn usage(&mut self, usage: Option<&RawValue>) {
        if let Some(usage) = usage {
            self.usage.merge(usage);
            self.reports.usage(usage);
        }
    }

    /// Sets the model; the first name is kept.
    pub(super) fn model(&mut self, model: &Text<'_>) {
        if let (Some(model), None) = (model.non_empty(), &self.response.model) {
            self.response.model = Some(model.to_owned());
        }
    }

    /// Sets the finish reason of a response without separate choices; the last one is kept.
    pub(super) fn finish_reason(&mut self, reason: &Text<'_>) {
        let reasons = &mut self.response.finish_reasons;
        if let Some(reason) = reason.non_empty()
            && reasons.first().is_none_or(|have| have != reason)
        {
            reasons.clear();
            reasons.push(reason.to_owned());
        }
    }

    /// Adds the model, the usage, the reports and the error of an envelope.
    pub(super) fn envelope(&mut self, envelope: Envelope<'_>, json: &[u8], is_answer: bool) {
        self.model(envelope.model);
        self.usage(envelope.usage);
        self.reports.members(&envelope.reports);
        self.error(envelope, json, is_answer);
    }

    /// Adds the error of an envelope. Without a wrapper, the error is the whole `json`, unless
    /// `is_answer`: a normal response may have a `message` too.
    pub(super) fn error(&mut self, envelope: Envelope<'_>, json: &[u8], is_answer: bool) {
        if let Some(error) = envelope.error {
            self.report_json(error.get().as_bytes());
        } else if !is_answer && envelope.message.non_empty().is_some() {
            self.report_json(json);
        }
    }

    /// Adds an error that the server reports; the first one is kept.
    pub(super) fn report(&mut self, error: impl FnOnce() -> RequestError) {
        self.reported.get_or_insert_with(error);
    }

    /// Adds an error that the server reports as JSON.
    pub(super) fn report_json(&mut self, json: &[u8]) {
        self.report(|| error::reported(&serde_json::from_slice(json).unwrap_or(Value::Null)));
    }

    fn data<R: Reader>(
        &mut self,
        reader: &mut R,
        data: &[u8],
        index: usize,
        body: &ResponseBody,
        arrival: Arrival,
    ) {
        if body.is_event_stream {
            match data.trim_ascii() {
                b"[DONE]" => {
                    self.is_done = true;
                    return;
                }
                // llama.cpp starts batches with an event that is `null`.
                b"" | b"null" => return,
                _ => {}
            }
        }
        if let Err(why) = self.json(reader, data, arrival) {
            // Streams are decoded with replacement characters, so invalid UTF-8 does not make JSON
            // invalid.
            if std::str::from_utf8(data).is_err()
                && self.json(reader, String::from_utf8_lossy(data).as_bytes(), arrival).is_ok()
            {
                return;
            }
            let count = body.events.len();
            let invalid = || error::invalid_json(index + 1, count, data, &why);
            self.invalid.get_or_insert_with(invalid);
        }
    }

    fn json<R: Reader>(
        &mut self,
        reader: &mut R,
        json: &[u8],
        arrival: Arrival,
    ) -> Result<(), serde_json::Error> {
        self.found = ContentKinds::default();
        reader.read(json, self)?;
        let ContentKinds { output, reasoning } = self.found;
        if output || reasoning {
            if self.response.content.is_empty() {
                self.response.first_content_tokens = self.usage.completion_tokens;
            }
            self.response.content.push(ContentPiece { arrival, is_output: output });
        }
        Ok(())
    }

    fn finish<R: Reader>(mut self, mut reader: R, body: &ResponseBody) -> ParsedResponse {
        let is_complete = self.is_done || reader.is_complete(&self);
        let is_cut = body.is_event_stream && !body.events.is_empty() && !is_complete;
        reader.end(&mut self);
        let mut response = self.response;
        let usage = self.usage.whole_prompt();
        response.usage = (!usage.is_empty()).then_some(usage);
        response.tool_calls = self.calls.counted();
        response.server = self.reports.into_timing();
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

/// Parses a list that may be `null`.
pub(super) fn null_is_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
