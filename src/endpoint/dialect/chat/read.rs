//! Parses chat and completion responses, streamed or not.
//!
//! This is the most expensive work per event: texts borrow from the event, unused members are
//! skipped without being parsed, and no `Value` is built unless the server reports an error.

use serde::Deserialize;
use serde_json::value::RawValue;

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
pub(in crate::endpoint) struct Choices(Vec<ChoiceText>);

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
        let chunk: Chunk<'_> = serde_json::from_slice(json)?;
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
        self.0.iter().any(|choice| choice.finish_reason.is_some())
            && self.0.iter().all(|choice| choice.finish_reason.is_some() || is_silent(choice))
    }

    fn end(&mut self, answer: &mut Answer) {
        for choice in self.0.drain(..) {
            let response = &mut answer.response;
            append(&mut response.output_text, choice.output, &mut response.output_choices);
            append(&mut response.reasoning_text, choice.reasoning, &mut response.reasoning_choices);
            response.finish_reasons.extend(choice.finish_reason);
        }
    }
}

impl Choices {
    fn choice(&mut self, choice: &Choice<'_>, answer: &mut Answer) {
        let place = choice.index.whole().unwrap_or(0);
        let Answer { found, calls, .. } = answer;
        let index = (place as usize).min(CHOICE_LIMIT - 1);
        if self.0.len() <= index {
            self.0.resize_with(index + 1, ChoiceText::default);
        }
        let kept = &mut self.0[index];
        let mut output = |text: &Text<'_>| {
            found.output |= !text.0.is_empty();
            kept.output.push_str(&text.0);
        };
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
                found.reasoning = true;
                kept.reasoning.push_str(text);
            }
        }
        if let Some(reason) = choice.finish_reason.non_empty()
            && kept.finish_reason.as_deref() != Some(reason)
        {
            kept.finish_reason = Some(reason.to_owned());
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

#[cfg(test)]
mod tests;
