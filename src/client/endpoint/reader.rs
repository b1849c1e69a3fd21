//! Parsing that all dialects for text generation have in common: events, errors, streams that were
//! cut short.
//!
//! A dialect parses the data of one event, or a whole body. The same code determines whether an
//! event has content, so that the two cannot disagree.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::envelope::Envelope;
use super::joined::Joined;
use super::reports::Reports;
use super::structure::{Content, Found, Piece, TextKind};
use super::text::Text;
use super::tool_calls::Calls;
use super::{ContentPiece, ParsedResponse, Usage, error, note, sse};
use crate::record::{Arrival, RequestError, ResponseBody};
use crate::server_family::TENSORRT_LLM_EVENT;

/// Maximum number of notes of a response.
const NOTE_LIMIT: usize = 16;
/// Minimum length in bytes of reasoning that is recognized in the output.
const MIRRORED_LENGTH: usize = 12;

/// A parser for a dialect's responses.
pub(super) trait Reader {
    /// Parses the data of one event, or a whole body. On an error, it must leave `answer`
    /// unchanged.
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error>;

    /// Returns whether the stream was marked as complete, other than by `[DONE]`.
    fn is_complete(&self, answer: &Answer) -> bool {
        answer.has_ended()
    }

    /// Changes the answer once it is complete.
    fn end(&mut self, _answer: &mut Answer) {}
}

/// The parts of the response parsed so far.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) response: ParsedResponse,
    pub(super) usage: Usage,
    /// The choices of the response; those of a stream arrive interleaved.
    choices: Vec<Choice>,
    /// The index of the choice that is being read.
    choice: u16,
    /// The choices with content in the current event, and its kinds.
    found: Vec<(u16, ContentKinds)>,
    /// The tool calls, whose names and arguments are output as well.
    pub(super) calls: Calls,
    /// What the server reports about its times.
    pub(super) reports: Reports,
    is_done: bool,
    has_finish_reason: bool,
    reported: Option<RequestError>,
    invalid: Option<RequestError>,
}

/// One choice of a response.
#[derive(Debug, Default)]
struct Choice {
    output: Joined,
    reasoning: Joined,
    finish_reason: Option<String>,
}

/// Maximum number of separate choices; the texts of further ones are added to the last.
const CHOICE_LIMIT: u16 = 1024;

/// Kinds of content.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ContentKinds {
    pub(super) output: bool,
    pub(super) reasoning: bool,
}

/// Parses the whole body.
///
/// If there are several failures, the error is the first one that the server reported, or else a
/// finish reason that is a failure, then the first event that is not valid JSON, then a stream that was
/// cut short, then missing content.
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
    reader.read(json.as_bytes(), &mut answer).is_ok() && !answer.found.is_empty()
}

impl Answer {
    /// Notes content of the current event.
    pub(super) fn find(&mut self, kind: TextKind) {
        let choice = self.choice;
        let known = self.found.iter().position(|(have, _)| *have == choice);
        let at = known.unwrap_or_else(|| {
            self.found.push((choice, ContentKinds::default()));
            self.found.len() - 1
        });
        let kinds = &mut self.found[at].1;
        match kind {
            TextKind::Output => kinds.output = true,
            TextKind::Reasoning => kinds.reasoning = true,
        }
    }

    /// Notes output that is not text, such as an image, if it is there.
    pub(super) fn find_if(&mut self, is_there: bool) {
        if is_there {
            self.find(TextKind::Output);
        }
    }

    /// Sets the index of the choice that is read next; 0 for each event.
    pub(super) fn choose(&mut self, index: Option<u64>) {
        let last = CHOICE_LIMIT - 1;
        self.choice = index.map_or(0, |index| u16::try_from(index).unwrap_or(last).min(last));
    }

    fn current(&mut self) -> &mut Choice {
        let index = usize::from(self.choice);
        if self.choices.len() <= index {
            self.choices.resize_with(index + 1, Choice::default);
        }
        &mut self.choices[index]
    }

    /// Adds a text of the model, or a refusal.
    pub(super) fn output(&mut self, text: &str) {
        self.text(TextKind::Output, text);
    }

    /// Adds reasoning.
    pub(super) fn reasoning(&mut self, text: &str) {
        self.text(TextKind::Reasoning, text);
    }

    /// Adds a text.
    pub(super) fn text(&mut self, kind: TextKind, text: &str) {
        if !text.is_empty() && self.current().texts(kind).event(text) {
            self.find(kind);
        }
    }

    /// Adds the name or the arguments of a tool call, which are output too.
    pub(super) fn call(&mut self, text: &str) {
        if !text.is_empty() {
            self.current().output.add(text);
            self.find(TextKind::Output);
        }
    }

    /// Adds a text that has all of its kind in this choice, and perhaps what has arrived before.
    pub(super) fn whole(&mut self, kind: TextKind, text: &str) {
        if text.is_empty() {
            return;
        }
        let texts = self.current().texts(kind);
        if texts.is_empty() {
            self.text(kind, text);
        } else if texts.as_str() == text {
            self.note(note::TEXT_REPEATED);
        } else if texts.event(text) {
            self.find(kind);
        }
    }

    /// Adds the value of the member `name`, whose text is of this kind.
    pub(super) fn content(&mut self, kind: TextKind, name: &str, content: &Content<'_>) {
        self.text(kind, &content.text);
        for piece in &content.extra {
            let kind = if kind == TextKind::Reasoning { kind } else { piece.kind };
            self.text(kind, &piece.text);
            self.note_place(name, &piece.place);
        }
    }

    /// Adds texts that are not in known members of an object, if its known members have none of the
    /// same kind.
    pub(super) fn extra(&mut self, known: ContentKinds, extra: &Found) {
        for piece in unknown(known, extra) {
            self.text(piece.kind, &piece.text);
            self.note_place("", &piece.place);
        }
    }

    /// Notes that a text was found in an unknown place.
    pub(super) fn note_place(&mut self, name: &str, place: &str) {
        let dot =
            if name.is_empty() || place.is_empty() || place.starts_with('[') { "" } else { "." };
        let note = format!("{}{name}{dot}{place}", note::TEXT_IN);
        // Names of notes are separated by commas.
        self.note(note.replace(|c: char| c == ',' || c.is_control(), "_"));
    }

    /// Adds a name of [`note`].
    pub(super) fn note(&mut self, name: impl Into<Cow<'static, str>>) {
        let (name, notes) = (name.into(), &mut self.response.notes);
        if notes.len() < NOTE_LIMIT && !notes.contains(&name) {
            notes.push(name);
        }
    }

    /// Returns whether any event so far, including the current one, has content.
    pub(super) fn has_content(&self) -> bool {
        !self.found.is_empty() || !self.response.content.is_empty()
    }

    /// Returns the kinds of content of the current choice in the current event.
    pub(super) fn found_now(&self) -> ContentKinds {
        let found = self.found.iter().find(|(choice, _)| *choice == self.choice);
        found.map(|(_, kinds)| *kinds).unwrap_or_default()
    }

    /// Returns whether there was output other than reasoning.
    pub(super) fn has_output(&self) -> bool {
        self.choices.iter().any(|choice| !choice.output.is_empty())
    }

    /// Returns whether there is a finish reason.
    pub(super) fn has_finish_reason(&self) -> bool {
        self.has_finish_reason
    }

    /// Returns whether there is a finish reason, and each choice with text has one.
    pub(super) fn has_ended(&self) -> bool {
        let is_open = |choice: &Choice| {
            let has_text = !choice.output.is_empty() || !choice.reasoning.is_empty();
            choice.finish_reason.is_none() && has_text
        };
        self.has_finish_reason() && !self.choices.iter().any(is_open)
    }

    pub(super) fn usage(&mut self, usage: Option<&RawValue>) {
        if let Some(usage) = usage {
            if self.usage.merge(usage) {
                self.note(note::USAGE_DECREASED);
            }
            self.reports.usage(usage);
        }
    }

    /// Adds numbers of tokens that are not in a usage object.
    pub(super) fn counts(&mut self, prompt: Option<u64>, completion: Option<u64>) {
        let usage = &mut self.usage;
        usage.prompt_tokens = usage.prompt_tokens.max(prompt);
        usage.completion_tokens = usage.completion_tokens.max(completion);
    }

    /// Sets the model; the first name is kept.
    pub(super) fn model(&mut self, model: &Text<'_>) {
        if let (Some(model), None) = (model.non_empty(), &self.response.model) {
            self.response.model = Some(model.to_owned());
        }
    }

    /// Sets the finish reason of the current choice; the last one is kept.
    pub(super) fn finish_reason(&mut self, reason: &str) {
        let kept = &mut self.current().finish_reason;
        if !reason.is_empty() && kept.as_deref() != Some(reason) {
            *kept = Some(reason.to_owned());
            self.has_finish_reason = true;
        }
    }

    /// Sets the finish reason of the current choice from a text, or from an object as in SGLang, whose
    /// message is that of the error if the response failed.
    pub(super) fn finish_reason_in(&mut self, reason: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow, default, rename = "type")]
            kind: Text<'a>,
        }

        let Some(json) = reason.map(RawValue::get) else { return };
        if let Ok(Object { kind }) = serde_json::from_str(json) {
            self.finish_reason(&kind.0);
            if error::is_failed(&kind.0) {
                self.report_json(json.as_bytes());
            }
        } else if let Ok(Text(reason)) = serde_json::from_str(json) {
            self.finish_reason(&reason);
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
        if envelope.error.is_some() {
            self.report_raw(envelope.error);
        } else if !is_answer && envelope.message.non_empty().is_some() {
            self.report_json(json);
        }
    }

    /// Adds an error that the server reports; the first one is kept.
    pub(super) fn report(&mut self, error: impl FnOnce() -> RequestError) {
        self.reported.get_or_insert_with(error);
    }

    /// Adds an error that the server reports as JSON, unless it is a value such as `{}` or `""`,
    /// which some servers send where there is no error.
    pub(super) fn report_json(&mut self, json: &[u8]) {
        let error = serde_json::from_slice(json).unwrap_or(Value::Null);
        if !error::is_nothing(&error) {
            self.report(|| error::reported(&error));
        }
    }

    /// Adds an error whose type is in a member next to it, as in Text Generation Inference.
    pub(super) fn report_typed(&mut self, error: Option<&RawValue>, kind: &Text<'_>) {
        match error.map(|error| serde_json::from_str::<String>(error.get())) {
            Some(Ok(message)) if !message.is_empty() => {
                self.report(|| error::reported(&json!({"message": message, "type": &*kind.0})));
            }
            _ => self.report_raw(error),
        }
    }

    /// Adds the error of a part of a response, such as a choice.
    pub(super) fn report_raw(&mut self, error: Option<&RawValue>) {
        if let Some(error) = error {
            self.report_json(error.get().as_bytes());
        }
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
        if let Err(why) = self.json(reader, data, arrival, body.is_event_stream) {
            // Streams are decoded with replacement characters, so invalid UTF-8 does not make JSON
            // invalid.
            if std::str::from_utf8(data).is_err()
                && self
                    .json(
                        reader,
                        String::from_utf8_lossy(data).as_bytes(),
                        arrival,
                        body.is_event_stream,
                    )
                    .is_ok()
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
        is_streamed: bool,
    ) -> Result<(), serde_json::Error> {
        self.found.clear();
        self.choice = 0;
        let had_ended = self.has_finish_reason();
        reader.read(json, self)?;
        // Another choice may go on.
        let goes_on = had_ended && self.choices.len() == 1 && !self.found.is_empty();
        self.response.has_content_after_end |= goes_on && is_streamed;
        if self.response.finished.is_none() && self.has_finish_reason() {
            self.response.finished = Some(arrival);
        }
        if self.found.is_empty() {
            return Ok(());
        }
        let content = &mut self.response.content;
        if content.is_empty() {
            self.response.first_content_tokens = self.usage.completion_tokens;
        }
        // The choices of a body that is not streamed arrive together.
        let pieces = if is_streamed { self.found.len() } else { 1 };
        content.extend(self.found[..pieces].iter().map(|(choice, kinds)| ContentPiece {
            arrival,
            is_output: kinds.output,
            choice: *choice,
        }));
        Ok(())
    }

    fn finish<R: Reader>(mut self, mut reader: R, body: &ResponseBody) -> ParsedResponse {
        let is_complete = self.is_done || reader.is_complete(&self);
        let is_cut = body.is_event_stream && !body.events.is_empty() && !is_complete;
        reader.end(&mut self);
        self.join_choices();
        self.drop_mirrored();
        let shown = [&self.response.output_text, &self.response.reasoning_text].map(String::len);
        let (usage, note) = self.usage.whole_completion(shown);
        if let Some(note) = note {
            self.note(note);
        }
        let usage = usage.whole_prompt();
        let mut response = self.response;
        response.usage = (!usage.is_empty()).then_some(usage);
        response.tool_calls = self.calls.counted();
        response.server = self.reports.into_timing();
        let failed = || error::of_finish_reasons(&response.finish_reasons);
        response.error = self.reported.or_else(failed).or(self.invalid).or_else(|| {
            if is_cut {
                Some(error::cut_stream(body.events.len()))
            } else if response.content.is_empty() {
                let tokens = self.usage.completion_tokens;
                Some(error::empty_response(tokens, &response.finish_reasons))
            } else {
                None
            }
        });
        response
    }

    fn join_choices(&mut self) {
        for choice in std::mem::take(&mut self.choices) {
            let Choice { output, reasoning, finish_reason } = choice;
            let [(output, one), (reasoning, other)] = [output, reasoning].map(Joined::finish);
            if one || other {
                self.note(note::TEXT_REPEATED);
            }
            let response = &mut self.response;
            append(&mut response.output_text, output, &mut response.output_choices);
            append(&mut response.reasoning_text, reasoning, &mut response.reasoning_choices);
            response.finish_reasons.extend(finish_reason);
        }
    }

    /// Removes the reasoning from the output if the server has sent all of it there, too.
    fn drop_mirrored(&mut self) {
        let ParsedResponse { output_text, reasoning_text, output_choices, .. } = &mut self.response;
        let reasoning = reasoning_text.trim();
        if reasoning.len() < MIRRORED_LENGTH || !output_choices.is_empty() {
            return;
        }
        let text = output_text.trim_start();
        let text = text.strip_prefix("<think>").unwrap_or(text).trim_start();
        if let Some(rest) = text.strip_prefix(reasoning) {
            let rest = rest.trim_start();
            *output_text = rest.strip_prefix("</think>").unwrap_or(rest).to_owned();
            self.note(note::TEXT_MIRRORED);
        }
    }
}

impl Choice {
    fn texts(&mut self, kind: TextKind) -> &mut Joined {
        match kind {
            TextKind::Output => &mut self.output,
            TextKind::Reasoning => &mut self.reasoning,
        }
    }
}

/// Appends the text of a choice, and records where it begins. Does not copy if `text` is empty.
fn append(text: &mut String, more: String, starts: &mut Vec<usize>) {
    if text.is_empty() {
        *text = more;
    } else if !more.is_empty() {
        text.push('\n');
        starts.push(text.len());
        text.push_str(&more);
    }
}

/// Returns the texts of unknown members of an object that count: those of a kind that its known members
/// do not have, each text once.
pub(super) fn unknown(known: ContentKinds, extra: &Found) -> impl Iterator<Item = &Piece> {
    let is_new = move |piece: &Piece| match piece.kind {
        TextKind::Output => !known.output,
        TextKind::Reasoning => !known.reasoning,
    };
    let is_first = |at: usize, piece: &Piece| extra[..at].iter().all(|one| one.text != piece.text);
    let pieces = extra.iter().enumerate();
    pieces.filter(move |(at, piece)| is_new(piece) && is_first(*at, piece)).map(|(_, piece)| piece)
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
