//! Parses chat and completion responses, streamed or not.
//!
//! This is the most expensive work per event: texts borrow from the event, unused members are
//! skipped without being parsed, and no `Value` is built unless the server reports an error.

mod pattern;

use serde::Deserialize;
use serde_json::value::RawValue;

use self::pattern::Pattern;

use crate::endpoint::envelope::enveloped;
use crate::endpoint::note;
use crate::endpoint::reader::{Answer, ContentKinds, Reader, null_is_empty};
use crate::endpoint::structure::{Content, TextKind, open_object};
use crate::endpoint::text::{Number, Text};

enveloped! {
    /// One event of a stream, or the whole body of a response that is not streamed.
    struct Chunk<'a> {
        #[serde(borrow, default, deserialize_with = "null_is_empty")]
        choices: Vec<Choice<'a>>,
        #[serde(borrow, default, rename = "usageMetadata")]
        usage_metadata: Option<&'a RawValue>,
    }
}

open_object! {
    struct Choice<'a> {
        "index" => index: Number,
        "delta" => delta: Option<Message<'a>>,
        "message" => message: Option<Message<'a>>,
        "text" => text: Content<'a>,
        // A text, or an object in SGLang.
        "finish_reason" => finish_reason: Option<&'a RawValue>,
        // SGLang reports its times here.
        "meta_info" => meta_info: Option<&'a RawValue>,
        // Kimi reports it here.
        "usage" => usage: Option<&'a RawValue>,
        "error" => error: Option<&'a RawValue>,
    }
}

open_object! {
    struct Message<'a> {
        "content" => content: Content<'a>,
        "refusal" => refusal: Content<'a>,
        "reasoning_content" => reasoning_content: Content<'a>,
        "reasoning" => reasoning: Content<'a>,
        "tool_calls" => tool_calls: Option<Vec<ToolCall<'a>>>,
        "function_call" => function_call: Option<Function<'a>>,
        "error" => error: Option<&'a RawValue>,
    }
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(default)]
    index: Number,
    #[serde(borrow, default)]
    id: Text<'a>,
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

/// The parser, with what it knows of the events so far.
#[derive(Default)]
pub(in crate::endpoint) struct Choices {
    /// The last event that only added text.
    pattern: Pattern,
    /// Whether any event had a delta with content.
    has_deltas: bool,
}

impl Reader for Choices {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        if let Some(text) = self.pattern.text(json) {
            answer.choose(Some(self.pattern.choice));
            answer.text(self.pattern.kind, text);
            return Ok(());
        }
        let chunk: Chunk<'_> = serde_json::from_slice(json)?;
        // A whole body, or an event that is read on its own, is not followed by others.
        if !answer.response.content.is_empty() {
            self.pattern.learn(&chunk, json);
        }
        answer.envelope(chunk.envelope(), json, !chunk.choices.is_empty());
        answer.usage(chunk.usage_metadata);
        for choice in &chunk.choices {
            self.choice(choice, answer);
        }
        Ok(())
    }
}

impl Choices {
    fn choice(&mut self, choice: &Choice<'_>, answer: &mut Answer) {
        let place = choice.index.whole();
        answer.choose(place);
        if let Some(meta_info) = choice.meta_info {
            answer.reports.member("meta_info", meta_info);
        }
        answer.usage(choice.usage);
        answer.report_raw(choice.error);
        let has_delta = choice.delta.as_ref().is_some_and(|delta| {
            delta.read(place, answer);
            delta.has_content()
        });
        if let Some(message) = &choice.message {
            if has_delta && message.has_content() {
                answer.note(note::TEXT_REPEATED);
            } else if self.has_deltas {
                message.read_whole(place, answer);
            } else {
                message.read(place, answer);
            }
        }
        self.has_deltas |= has_delta;
        let mut messages = [&choice.delta, &choice.message].into_iter().flatten();
        if choice.text.text.is_empty() || !messages.any(|one| one.content.text == choice.text.text)
        {
            answer.content(TextKind::Output, "text", &choice.text);
        } else {
            answer.note(note::TEXT_MIRRORED);
        }
        answer.extra(answer.found_now(), &choice.extra);
        answer.finish_reason_in(choice.finish_reason);
    }
}

impl Message<'_> {
    fn read(&self, place: Option<u64>, answer: &mut Answer) {
        let (name, reasoning) = self.reasoning();
        answer.content(TextKind::Reasoning, name, reasoning);
        if self.is_mirrored() {
            answer.note(note::TEXT_MIRRORED);
        } else {
            answer.content(TextKind::Output, "content", &self.content);
        }
        answer.content(TextKind::Output, "refusal", &self.refusal);
        self.read_calls(place.unwrap_or(0), answer);
        answer.report_raw(self.error);
        answer.extra(self.kinds(), &self.extra);
    }

    /// Reads the message that a stream of deltas ends with.
    fn read_whole(&self, place: Option<u64>, answer: &mut Answer) {
        answer.whole(TextKind::Reasoning, &self.reasoning().1.text);
        answer.whole(TextKind::Output, &self.content.text);
        answer.whole(TextKind::Output, &self.refusal.text);
        if answer.calls.is_empty() {
            self.read_calls(place.unwrap_or(0), answer);
        }
        answer.report_raw(self.error);
    }

    /// Returns the reasoning and the name of its member. Some servers send it under both names.
    fn reasoning(&self) -> (&'static str, &Content<'_>) {
        if self.reasoning_content.is_empty() {
            ("reasoning", &self.reasoning)
        } else {
            ("reasoning_content", &self.reasoning_content)
        }
    }

    /// Returns whether the content is the reasoning, which some servers send in both places.
    fn is_mirrored(&self) -> bool {
        !self.content.text.is_empty() && self.content.text == self.reasoning().1.text
    }

    fn read_calls(&self, place: u64, answer: &mut Answer) {
        for (at, call) in (0..).zip(self.tool_calls.iter().flatten()) {
            if let Some(Function { name, arguments }) = &call.function {
                let at = call.index.whole().unwrap_or(at);
                answer.calls.part((place, at), &call.id.0, &arguments.0);
                answer.call(&name.0);
                answer.call(&arguments.0);
            }
        }
        if let Some(Function { name, arguments }) = &self.function_call {
            answer.calls.part((place, u64::MAX), "", &arguments.0);
            answer.call(&name.0);
            answer.call(&arguments.0);
        }
    }

    /// Returns which kinds of content its known members have.
    fn kinds(&self) -> ContentKinds {
        let calls = self.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
        ContentKinds {
            output: !self.content.is_empty()
                || !self.refusal.is_empty()
                || calls
                || self.function_call.is_some(),
            reasoning: !self.reasoning().1.is_empty()
                || self.content.extra.iter().any(|piece| piece.kind == TextKind::Reasoning),
        }
    }

    fn has_content(&self) -> bool {
        let ContentKinds { output, reasoning } = self.kinds();
        output || reasoning || !self.extra.is_empty()
    }
}

#[cfg(test)]
mod tests;
