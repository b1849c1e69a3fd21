//! Parses chat and completion responses, streamed or not.
//!
//! This is the most expensive work per event: texts borrow from the event, unused members are
//! skipped without being parsed, and no `Value` is built unless the server reports an error.

mod pattern;

use serde::Deserialize;
use serde_json::value::RawValue;

use self::pattern::Pattern;

use crate::endpoint::envelope::enveloped;
use crate::endpoint::reader::{Answer, Reader, null_is_empty};
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
    // SGLang reports its times here.
    #[serde(borrow, default)]
    meta_info: Option<&'a RawValue>,
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

/// The texts parsed so far.
#[derive(Default)]
pub(in crate::endpoint) struct Choices {
    texts: Vec<ChoiceText>,
    pattern: Pattern,
}

/// The text of one choice; with `n=2` the choices arrive interleaved.
#[derive(Default)]
struct ChoiceText {
    output: String,
    reasoning: String,
    finish_reason: Option<String>,
}

/// Maximum number of separate choices; the texts of further ones are added to the last.
const CHOICE_LIMIT: usize = 1024;

impl Reader for Choices {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        if let Some(text) = self.pattern.text(json) {
            let (choice, is_reasoning) = (self.pattern.choice, self.pattern.is_reasoning);
            let (ChoiceText { output, reasoning, .. }, found) =
                (self.text_of(choice), &mut answer.found);
            if is_reasoning {
                add(text, reasoning, &mut found.reasoning);
            } else {
                add(text, output, &mut found.output);
            }
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
            if let Some(meta_info) = choice.meta_info {
                answer.reports.member("meta_info", meta_info);
            }
            self.choice(choice, answer);
        }
        Ok(())
    }

    /// Returns whether every choice with text has a finish reason.
    fn is_complete(&self, _answer: &Answer) -> bool {
        let is_silent = |c: &ChoiceText| c.output.is_empty() && c.reasoning.is_empty();
        self.texts.iter().any(|choice| choice.finish_reason.is_some())
            && self.texts.iter().all(|choice| choice.finish_reason.is_some() || is_silent(choice))
    }

    fn end(&mut self, answer: &mut Answer) {
        for choice in self.texts.drain(..) {
            let response = &mut answer.response;
            append(&mut response.output_text, choice.output, &mut response.output_choices);
            append(&mut response.reasoning_text, choice.reasoning, &mut response.reasoning_choices);
            response.finish_reasons.extend(choice.finish_reason);
        }
    }
}

impl Choices {
    /// Returns the text of the choice with this index.
    fn text_of(&mut self, choice: u64) -> &mut ChoiceText {
        let index = (choice as usize).min(CHOICE_LIMIT - 1);
        if self.texts.len() <= index {
            self.texts.resize_with(index + 1, ChoiceText::default);
        }
        &mut self.texts[index]
    }

    fn choice(&mut self, choice: &Choice<'_>, answer: &mut Answer) {
        let place = choice.index.whole().unwrap_or(0);
        let Answer { found, calls, .. } = answer;
        let kept = self.text_of(place);
        let ChoiceText { output: kept_output, reasoning: kept_reasoning, .. } = kept;
        let mut output = |text: &Text<'_>| add(&text.0, kept_output, &mut found.output);
        output(&choice.text);
        for message in [&choice.delta, &choice.message].into_iter().flatten() {
            output(&message.content);
            output(&message.refusal);
            for (at, call) in (0..).zip(&message.tool_calls) {
                if let Some(Function { name, arguments }) = &call.function {
                    let at = call.index.whole().unwrap_or(at);
                    calls.part((place, at), &call.id.0, &arguments.0);
                    output(name);
                    output(arguments);
                }
            }
            if let Some(Function { name, arguments }) = &message.function_call {
                calls.part((place, u64::MAX), "", &arguments.0);
                output(name);
                output(arguments);
            }
            // Some servers send the same text under both names.
            let reasoning = message.reasoning_content.non_empty();
            if let Some(text) = reasoning.or_else(|| message.reasoning.non_empty()) {
                add(text, kept_reasoning, &mut found.reasoning);
            }
        }
        if let Some(reason) = choice.finish_reason.non_empty()
            && kept.finish_reason.as_deref() != Some(reason)
        {
            kept.finish_reason = Some(reason.to_owned());
        }
    }
}

/// Adds text of an event to that before, and notes in `found` if there is some.
fn add(text: &str, before: &mut String, found: &mut bool) {
    *found |= !text.is_empty();
    before.push_str(text);
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

#[cfg(test)]
mod tests;
