//! Hugging Face's Text Generation Inference.

use std::fmt::Write as _;

use serde::Deserialize;

use super::{Call, Dialect, Route, SCRIPTED, json_string};
use crate::activity::Finish;
use crate::reply::{Chunk, Reply};
use crate::request::{self, Ask, BadRequest, Text, missing};

/// `/generate` and `/generate_stream`. Token counts are included if details are requested.
#[derive(Debug)]
pub(super) struct HuggingFaceGenerate;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    inputs: Option<Text<'a>>,
    parameters: Option<Parameters>,
}

#[derive(Default, Deserialize)]
struct Parameters {
    max_new_tokens: Option<i64>,
    details: Option<bool>,
}

impl Dialect for HuggingFaceGenerate {
    fn routes(&self) -> &'static [Route] {
        const { &[Route::generate("/generate"), Route::stream("/generate_stream")] }
    }

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest> {
        let body: Body<'a> = request::json(call.body)?;
        let inputs = body.inputs.ok_or_else(|| missing("inputs"))?;
        let parameters = body.parameters.unwrap_or_default();
        Ask {
            tell_usage: parameters.details.unwrap_or(false),
            ..Ask::from_prompts(vec![inputs.into()])
        }
        .limited(parameters.max_new_tokens.map(|n| ("max_new_tokens", n)))
    }

    fn whole(&self, reply: &Reply) -> Vec<u8> {
        let mut out = String::from(r#"{"generated_text":""#);
        reply.append_text(&mut out, 0, 0, reply.tokens);
        out.push('"');
        if let Some(prompt) = reply.usage {
            append_details(reply, prompt, &mut out);
        }
        out.push('}');
        out.into_bytes()
    }

    fn chunk(&self, reply: &Reply, chunk: &Chunk, out: &mut String) {
        let number = chunk.at + 1;
        let _ = write!(out, r#"data:{{"index":{number},"token":{{"id":{number},"text":""#);
        reply.append_text(out, 0, chunk.first, chunk.count);
        out.push_str(r#"","logprob":-1.0,"special":false},"generated_text":"#);
        if chunk.is_last && !reply.lacks_end() {
            out.push('"');
            reply.append_text(out, 0, 0, reply.tokens);
            out.push('"');
        } else {
            out.push_str("null");
        }
        match reply.usage.filter(|_| chunk.is_last) {
            Some(prompt) => append_details(reply, prompt, out),
            None => out.push_str(r#","details":null"#),
        }
        out.push('}');
    }

    fn error_event(&self) -> String {
        format!("data:{}", self.error(SCRIPTED, "", None, 500))
    }

    fn error(&self, message: &str, _kind: &str, _param: Option<&str>, code: u16) -> String {
        let kind = match code {
            400 | 413 | 422 => "validation",
            429 => "overloaded",
            _ => "generation",
        };
        format!(r#"{{"error":{},"error_type":"{kind}"}}"#, json_string(message))
    }
}

fn append_details(reply: &Reply, prompt: u64, out: &mut String) {
    let reason = if reply.finish == Finish::Length { "length" } else { "eos_token" };
    let _ = write!(
        out,
        r#","details":{{"finish_reason":"{reason}","generated_tokens":{},"seed":null,"input_length":{prompt}}}"#,
        reply.reported(reply.tokens)
    );
}
