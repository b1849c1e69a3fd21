//! Parses responses of `generateContent`, streamed or not: both consist of the same objects.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::endpoint::reader::{Answer, Reader, null_is_empty};
use crate::endpoint::structure::{Content, TextKind, open_object};
use crate::endpoint::text::{Number, Text};

/// A parser without state: the objects are independent.
#[derive(Default)]
pub(in crate::endpoint) struct Chunks;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow, deserialize_with = "null_is_empty")]
    candidates: Vec<Candidate<'a>>,
    #[serde(borrow)]
    prompt_feedback: Option<Feedback<'a>>,
    #[serde(borrow)]
    usage_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    model_version: Text<'a>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Candidate<'a> {
    index: Number,
    #[serde(borrow)]
    content: Option<Parts<'a>>,
    #[serde(borrow)]
    finish_reason: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parts<'a> {
    #[serde(borrow, deserialize_with = "null_is_empty")]
    parts: Vec<Part<'a>>,
}

open_object! {
    struct Part<'a> {
        "text" => text: Content<'a>,
        // Whether the text is reasoning.
        "thought" => thought: Option<bool>,
        "functionCall" => function_call: Option<Call<'a>>,
        "executableCode" => executable_code: Option<Code<'a>>,
        "inlineData" => inline_data: Option<&'a RawValue>,
        // What the code printed was not generated.
        "codeExecutionResult" => code_result: IgnoredAny,
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Call<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Code<'a> {
    #[serde(borrow)]
    code: Text<'a>,
}

/// Why the prompt was blocked, if it was.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Feedback<'a> {
    #[serde(borrow)]
    block_reason: Text<'a>,
    #[serde(borrow)]
    block_reason_message: Text<'a>,
}

impl Reader for Chunks {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        let chunk: Chunk<'_> = serde_json::from_slice(json)?;
        answer.report_raw(chunk.error);
        if let Some(feedback) = &chunk.prompt_feedback {
            feedback.report(answer);
        }
        answer.usage(chunk.usage_metadata);
        answer.model(&chunk.model_version);
        for candidate in &chunk.candidates {
            answer.choose(candidate.index.whole());
            for part in candidate.content.iter().flat_map(|content| &content.parts) {
                part.read(answer);
            }
            answer.finish_reason(&candidate.finish_reason.0);
        }
        Ok(())
    }
}

impl Feedback<'_> {
    /// A prompt that is blocked does not get a response.
    fn report(&self, answer: &mut Answer) {
        let Some(reason) = self.block_reason.non_empty() else { return };
        let message = match self.block_reason_message.non_empty() {
            Some(message) => message.to_owned(),
            None => format!("the prompt was blocked: {reason}"),
        };
        let error = serde_json::json!({"type": reason, "message": message});
        answer.report_json(error.to_string().as_bytes());
    }
}

impl Part<'_> {
    fn read(&self, answer: &mut Answer) {
        let is_reasoning = self.thought == Some(true);
        let kind = if is_reasoning { TextKind::Reasoning } else { TextKind::Output };
        answer.content(kind, "text", &self.text);
        if let Some(call) = &self.function_call {
            answer.calls.whole(call.args.map_or("{}", RawValue::get));
            answer.call(&call.name.0);
            answer.call(call.args.map_or("", RawValue::get));
        }
        if let Some(code) = &self.executable_code {
            answer.call(&code.code.0);
        }
        // An image or audio: content, but not text.
        answer.find_if(self.inline_data.is_some());
        answer.extra(answer.found_now(), &self.extra);
    }
}
