//! OpenAI image generation.

use std::fmt::Write as _;

use serde::Deserialize;

use super::{Call, Dialect, Route};
use crate::reply::{Chunk, Reply};
use crate::request::{self, Ask, BadRequest, Text, missing};

/// `/v1/images/generations`. A stream contains a partial image and then the complete one.
#[derive(Debug)]
pub(super) struct ImageGeneration;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    prompt: Option<Text<'a>>,
    n: Option<u64>,
    stream: Option<bool>,
}

impl Dialect for ImageGeneration {
    fn routes(&self) -> &'static [Route] {
        const { &[Route::generate("/v1/images/generations")] }
    }

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest> {
        let body: Body<'a> = request::json(call.body)?;
        let prompt = body.prompt.ok_or_else(|| missing("prompt"))?;
        Ask {
            model: body.model.map(|model| model.0),
            stream: body.stream.unwrap_or(false),
            ..Ask::from_prompts(vec![prompt.into()])
        }
        .with_choices(body.n.unwrap_or(1))
    }

    fn generates(&self) -> bool {
        false
    }

    fn whole(&self, reply: &Reply) -> Vec<u8> {
        whole(reply)
    }

    fn chunk(&self, _reply: &Reply, chunk: &Chunk, out: &mut String) {
        partial("image_generation", chunk, out);
    }

    fn closings(&self, _reply: &Reply) -> u64 {
        1
    }

    fn close(&self, reply: &Reply, _at: u64, out: &mut String) {
        completed("image_generation", reply, out);
    }
}

/// The smallest PNG, with one pixel, in base64.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

pub(super) fn whole(reply: &Reply) -> Vec<u8> {
    let image = format!(r#"{{"b64_json":"{PIXEL}"}}"#);
    let images = vec![image; reply.choices as usize].join(",");
    let mut out = format!(r#"{{"created":{},"data":[{images}]"#, reply.created);
    append_usage(reply, &mut out);
    out.push('}');
    out.into_bytes()
}

/// Appends the event of a partial image.
pub(super) fn partial(name: &str, chunk: &Chunk, out: &mut String) {
    let index = chunk.at;
    let _ = write!(
        out,
        "event: {name}.partial_image\ndata: {{\"type\":\"{name}.partial_image\",\
         \"b64_json\":\"{PIXEL}\",\"partial_image_index\":{index}}}"
    );
}

/// Appends the event of a complete image.
pub(super) fn completed(name: &str, reply: &Reply, out: &mut String) {
    let image = if reply.is_empty() { "" } else { PIXEL };
    let _ = write!(
        out,
        "event: {name}.completed\ndata: {{\"type\":\"{name}.completed\",\"b64_json\":\"{image}\",\
         \"created_at\":{}",
        reply.created
    );
    append_usage(reply, out);
    out.push('}');
}

fn append_usage(reply: &Reply, out: &mut String) {
    if let Some(input) = reply.usage {
        // The token count of OpenAI's smallest image.
        let output = 272;
        let _ = write!(
            out,
            r#","usage":{{"input_tokens":{input},"output_tokens":{output},"total_tokens":{}}}"#,
            input + output
        );
    }
}
