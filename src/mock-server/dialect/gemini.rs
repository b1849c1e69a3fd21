//! Google's Gemini API: `generateContent`.

use std::fmt::Write as _;

use serde::Deserialize;

use super::{Call, Dialect, Route, SCRIPTED, json_string};
use crate::activity::Finish;
use crate::reply::{Chunk, Reply};
use crate::request::{self, Ask, BadRequest, Part, missing};

/// `/v1beta/models/{model}:generateContent` and `:streamGenerateContent`, and the same below `/v1`.
/// Reasoning is in parts marked as thoughts; every event contains the usage so far.
#[derive(Debug)]
pub(super) struct Gemini;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(borrow)]
    contents: Option<Vec<Content<'a>>>,
    #[serde(borrow, alias = "system_instruction")]
    system_instruction: Option<Content<'a>>,
    #[serde(alias = "generation_config")]
    generation_config: Option<Generation>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    parts: Option<Vec<Part<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Generation {
    #[serde(alias = "max_output_tokens")]
    max_output_tokens: Option<i64>,
}

impl Dialect for Gemini {
    fn routes(&self) -> &'static [Route] {
        const {
            &[
                Route::generate("/v1beta/models/{model}:generateContent"),
                Route::stream("/v1beta/models/{model}:streamGenerateContent"),
                Route::generate("/v1/models/{model}:generateContent"),
                Route::stream("/v1/models/{model}:streamGenerateContent"),
            ]
        }
    }

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest> {
        let body: Body<'a> = request::json(call.body)?;
        let contents = body.contents.ok_or_else(|| missing("contents"))?;
        let prompts = body
            .system_instruction
            .into_iter()
            .chain(contents)
            .filter_map(|content| content.parts)
            .flatten()
            .filter_map(Part::text)
            .collect();
        let limit = body.generation_config.and_then(|config| config.max_output_tokens);
        Ask { model: call.name.clone(), ..Ask::from_prompts(prompts) }
            .limited(limit.map(|n| ("maxOutputTokens", n)))
    }

    fn reasons(&self) -> bool {
        true
    }

    fn whole(&self, reply: &Reply) -> Vec<u8> {
        let mut out = String::from(r#"{"candidates":[{"content":{"parts":["#);
        if reply.reasoning > 0 {
            append_part(reply, true, 0, reply.reasoning, &mut out);
            out.push(',');
        }
        append_part(reply, false, reply.reasoning, reply.tokens - reply.reasoning, &mut out);
        finish(reply, true, reply.tokens, &mut out);
        out.into_bytes()
    }

    fn chunk(&self, reply: &Reply, chunk: &Chunk, out: &mut String) {
        out.push_str(r#"data: {"candidates":[{"content":{"parts":["#);
        append_part(reply, chunk.is_reasoning, chunk.first, chunk.count, out);
        let says_end = chunk.is_last && !reply.lacks_end();
        finish(reply, says_end, chunk.first + chunk.count, out);
    }

    fn error_event(&self) -> String {
        format!("data: {}", self.error(SCRIPTED, "", None, 500))
    }

    fn error(&self, message: &str, _kind: &str, _param: Option<&str>, code: u16) -> String {
        let status = match code {
            400 => "INVALID_ARGUMENT",
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            429 => "RESOURCE_EXHAUSTED",
            503 => "UNAVAILABLE",
            504 => "DEADLINE_EXCEEDED",
            _ => "INTERNAL",
        };
        let message = json_string(message);
        format!(r#"{{"error":{{"code":{code},"message":{message},"status":"{status}"}}}}"#)
    }
}

fn append_part(reply: &Reply, is_thought: bool, first: u64, count: u64, out: &mut String) {
    out.push_str(r#"{"text":""#);
    reply.append_text(out, 0, first, count);
    out.push_str(if is_thought { r#"","thought":true}"# } else { r#""}"# });
}

/// Appends the end of the parts and of everything around them, after `said` tokens.
fn finish(reply: &Reply, says_end: bool, said: u64, out: &mut String) {
    let Reply { id, model, reasoning, .. } = reply;
    out.push_str(r#"],"role":"model"},"#);
    if says_end {
        let reason = if reply.finish == Finish::Length { "MAX_TOKENS" } else { "STOP" };
        let _ = write!(out, r#""finishReason":"{reason}","#);
    }
    out.push_str(r#""index":0}],"#);
    if let Some(prompt) = reply.usage {
        let thoughts = reply.reported(said.min(*reasoning));
        let answer = reply.reported(said) - thoughts;
        let total = prompt + thoughts + answer;
        let _ = write!(out, r#""usageMetadata":{{"promptTokenCount":{prompt},"#);
        if let Some(cached) = reply.cached {
            let _ = write!(out, r#""cachedContentTokenCount":{cached},"#);
        }
        if answer > 0 {
            let _ = write!(out, r#""candidatesTokenCount":{answer},"#);
        }
        if thoughts > 0 {
            let _ = write!(out, r#""thoughtsTokenCount":{thoughts},"#);
        }
        let _ = write!(out, r#""totalTokenCount":{total}}},"#);
    }
    let _ = write!(out, r#""modelVersion":{model},"responseId":"{id:016x}"}}"#);
}
