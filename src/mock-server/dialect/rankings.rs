//! Rankings: Cohere's, Text Embeddings Inference's and NIM's. The response scores each passage;
//! scores decrease with the position.

use std::fmt::Write as _;

use serde::Deserialize;

use super::{Call, Dialect, Route, json_string};
use crate::reply::Reply;
use crate::request::{self, Ask, BadRequest, Prompt, Text, missing};

/// The API of the rankings.
#[derive(Debug)]
pub(super) enum Rankings {
    Cohere,
    HfTei,
    Nim,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    query: Option<Passage<'a>>,
    #[serde(borrow)]
    documents: Option<Vec<Passage<'a>>>,
    #[serde(borrow)]
    texts: Option<Vec<Passage<'a>>>,
    #[serde(borrow)]
    passages: Option<Vec<Passage<'a>>>,
}

/// A text, or an object with one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Passage<'a> {
    Text(#[serde(borrow)] Text<'a>),
    Object {
        #[serde(borrow)]
        text: Text<'a>,
    },
}

impl<'a> From<Passage<'a>> for Prompt<'a> {
    fn from(passage: Passage<'a>) -> Self {
        match passage {
            Passage::Text(text) | Passage::Object { text } => text.into(),
        }
    }
}

impl Dialect for Rankings {
    fn routes(&self) -> &'static [Route] {
        match self {
            Self::Cohere => {
                const { &[Route::generate("/v2/rerank"), Route::generate("/v1/rerank")] }
            }
            Self::HfTei => const { &[Route::generate("/rerank")] },
            Self::Nim => const { &[Route::generate("/v1/ranking")] },
        }
    }

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest> {
        let body: Body<'a> = request::json(call.body)?;
        let query = body.query.ok_or_else(|| missing("query"))?;
        let (name, passages) = match self {
            Self::Cohere => ("documents", body.documents),
            Self::HfTei => ("texts", body.texts),
            Self::Nim => ("passages", body.passages),
        };
        let passages = passages.ok_or_else(|| missing(name))?;
        let choices = passages.len() as u64;
        let prompts = std::iter::once(query).chain(passages).map(Prompt::from).collect();
        Ask { model: body.model.map(|text| text.0), ..Ask::from_prompts(prompts) }
            .with_choices(choices)
    }

    fn generates(&self) -> bool {
        false
    }

    fn whole(&self, reply: &Reply) -> Vec<u8> {
        let score = |at: u64| (reply.choices - at) as f64 / (reply.choices + 1) as f64;
        let list = |name: &str| {
            let scores = (0..reply.choices)
                .map(|at| format!(r#"{{"index":{at},"{name}":{:.4}}}"#, score(at)));
            scores.collect::<Vec<_>>().join(",")
        };
        let mut out = String::new();
        let Reply { id, model, .. } = reply;
        let tokens = reply.usage.unwrap_or_default();
        let _ = match self {
            Self::Cohere => write!(
                out,
                r#"{{"id":"rerank-{id:016x}","model":{model},"usage":{{"prompt_tokens":{tokens},"total_tokens":{tokens}}},"results":[{}]}}"#,
                list("relevance_score")
            ),
            Self::HfTei => write!(out, "[{}]", list("score")),
            Self::Nim => write!(
                out,
                r#"{{"rankings":[{}],"usage":{{"prompt_tokens":{tokens},"total_tokens":{tokens}}}}}"#,
                list("logit")
            ),
        };
        out.into_bytes()
    }

    fn error(&self, message: &str, kind: &str, param: Option<&str>, code: u16) -> String {
        match self {
            Self::HfTei => format!(
                r#"{{"error":{},"error_type":"{}"}}"#,
                json_string(message),
                if code < 500 { "Validation" } else { "Backend" }
            ),
            Self::Cohere | Self::Nim => super::openai_error(message, kind, param, code),
        }
    }
}
