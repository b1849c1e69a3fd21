//! OpenAI embeddings.

use std::fmt::Write as _;

use super::{Call, Dialect, Route, openai};
use crate::mock_server::reply::Reply;
use crate::mock_server::request::{Ask, BadRequest};

/// `/v1/embeddings`.
#[derive(Debug)]
pub(super) struct Embeddings;

impl Dialect for Embeddings {
    fn routes(&self) -> &'static [Route] {
        const { &[Route::generate("/v1/embeddings")] }
    }

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest> {
        openai::Body::read(call.body)?.embeddings()
    }

    fn generates(&self) -> bool {
        false
    }

    fn whole(&self, reply: &Reply) -> Vec<u8> {
        let mut out = openai::opening(reply, "embd", "list");
        let vector = &reply.material.embedding;
        openai::list(reply, &mut out, "data", |out, choice| {
            let _ =
                write!(out, r#"{{"index":{choice},"object":"embedding","embedding":{vector}}}"#);
        });
        out.into_bytes()
    }
}
