//! Solido's responses from retrieved sources: a single source for every prompt.

use serde::Deserialize;

use super::{Call, Dialect, Route};
use crate::reply::{Chunk, Reply};
use crate::request::{self, Ask, BadRequest, Prompts, Text, missing};

/// `/rag/api/prompt`. Responses are streamed if `stream` is set, and contain no usage.
#[derive(Debug)]
pub(super) struct SolidoRag;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    query: Option<Prompts<'a>>,
    #[serde(borrow)]
    inference_model: Option<Text<'a>>,
    stream: Option<bool>,
}

impl Dialect for SolidoRag {
    fn routes(&self) -> &'static [Route] {
        const { &[Route::generate("/rag/api/prompt")] }
    }

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest> {
        let body: Body<'a> = request::json(call.body)?;
        let query = body.query.ok_or_else(|| missing("query"))?;
        Ok(Ask {
            model: body.inference_model.map(|text| text.0),
            stream: body.stream.unwrap_or(false),
            ..Ask::from_prompts(query.into())
        })
    }

    fn whole(&self, reply: &Reply) -> Vec<u8> {
        let content = reply.text(0, reply.tokens);
        format!(r#"{{"content":"{content}","sources":[{{"title":"source"}}]}}"#).into_bytes()
    }

    fn chunk(&self, reply: &Reply, chunk: &Chunk, out: &mut String) {
        out.push_str(r#"data: {"content":""#);
        reply.append_text(out, chunk.choice, chunk.first, chunk.count);
        out.push_str("\"}");
    }

    fn closings(&self, _reply: &Reply) -> u64 {
        1
    }

    fn close(&self, _reply: &Reply, _at: u64, out: &mut String) {
        out.push_str("data: [DONE]");
    }
}
