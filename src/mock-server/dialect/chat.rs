//! OpenAI chat completions.

use std::fmt::Write as _;

use super::{Call, Dialect, Route, openai};
use crate::reply::{Chunk, Reply};
use crate::request::{Ask, BadRequest};

/// `/v1/chat/completions`.
#[derive(Debug)]
pub(super) struct Chat;

impl Dialect for Chat {
    fn routes(&self) -> &'static [Route] {
        const { &[Route::generate("/v1/chat/completions")] }
    }

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest> {
        openai::Body::read(call.body)?.chat()
    }

    fn reasons(&self) -> bool {
        true
    }

    fn whole(&self, reply: &Reply) -> Vec<u8> {
        let mut out = openai::opening(reply, "chatcmpl", "chat.completion");
        openai::list(reply, &mut out, "choices", |out, choice| {
            let _ = write!(out, r#"{{"index":{choice},"message":{{"role":"assistant","#);
            if reply.reasoning > 0 {
                out.push_str(r#""reasoning_content":""#);
                reply.append_text(out, choice, 0, reply.reasoning);
                out.push_str(r#"","#);
            }
            out.push_str(r#""content":""#);
            reply.append_text(out, choice, reply.reasoning, reply.tokens - reply.reasoning);
            out.push_str(r#"","refusal":null}"#);
            openai::finish_choice(reply, out);
        });
        out.into_bytes()
    }

    fn prelude(&self, reply: &Reply) -> String {
        openai::opening(reply, "chatcmpl", "chat.completion.chunk")
    }

    /// One event with the role of each choice.
    fn openings(&self, reply: &Reply) -> u64 {
        reply.choices
    }

    fn open(&self, reply: &Reply, at: u64, out: &mut String) {
        openai::data(reply, out);
        let _ = write!(
            out,
            r#""choices":[{{"index":{at},"delta":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null}}]}}"#
        );
    }

    fn chunk(&self, reply: &Reply, chunk: &Chunk, out: &mut String) {
        openai::data(reply, out);
        let member = if chunk.is_reasoning { "reasoning_content" } else { "content" };
        let _ = write!(out, r#""choices":[{{"index":{},"delta":{{"{member}":""#, chunk.choice);
        reply.append_text(out, chunk.choice, chunk.first, chunk.count);
        out.push_str(r#""}"#);
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
