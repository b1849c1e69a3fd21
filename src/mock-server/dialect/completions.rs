//! OpenAI completions.

use std::fmt::Write as _;

use super::{Call, Dialect, Route, openai};
use crate::reply::{Chunk, Reply};
use crate::request::{Ask, BadRequest};

/// `/v1/completions`.
#[derive(Debug)]
pub(super) struct Completions;

impl Dialect for Completions {
    fn routes(&self) -> &'static [Route] {
        const { &[Route::generate("/v1/completions")] }
    }

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest> {
        openai::Body::read(call.body)?.completions()
    }

    fn whole(&self, reply: &Reply) -> Vec<u8> {
        let mut out = self.prelude(reply);
        openai::list(reply, &mut out, "choices", |out, choice| {
            let _ = write!(out, r#"{{"index":{choice},"text":""#);
            reply.append_text(out, choice, 0, reply.tokens);
            out.push('"');
            openai::finish_choice(reply, out);
        });
        out.into_bytes()
    }

    fn prelude(&self, reply: &Reply) -> String {
        openai::opening(reply, "cmpl", "text_completion")
    }

    fn chunk(&self, reply: &Reply, chunk: &Chunk, out: &mut String) {
        openai::data(reply, out);
        let _ = write!(out, r#""choices":[{{"index":{},"text":""#, chunk.choice);
        reply.append_text(out, chunk.choice, chunk.first, chunk.count);
        out.push('"');
        openai::finish_chunk(reply, chunk, out);
    }

    fn closings(&self, reply: &Reply) -> u64 {
        openai::closings(reply)
    }

    fn end_marker(&self, reply: &Reply) -> u64 {
        openai::end_marker(reply)
    }

    fn close(&self, reply: &Reply, at: u64, out: &mut String) {
        openai::close(reply, at, out);
    }

    fn can_continue(&self) -> bool {
        true
    }

    fn closes_after_error(&self) -> bool {
        true
    }
}
