//! OpenAI embeddings.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::body::{self, Body, Member};
use super::dialect::{Asked, Dialect, build};
use super::reader::{Answer, Reader};
use super::text::Text;
use super::{Config, EndpointTraits};

/// What the dialect is and what it can do.
pub static TRAITS: EndpointTraits = EndpointTraits {
    supports_streaming: false,
    produces_tokens: false,
    metrics_title: "Embeddings Metrics",
    operation_name: "embeddings",
    ..EndpointTraits::text("embeddings", "/v1/embeddings", build::<Embeddings>)
};

/// `/v1/embeddings`.
///
/// A request bears its own turn's text, or the list of its texts. The response
/// is one piece of content without text; its vectors are not read.
struct Embeddings;

impl Dialect for Embeddings {
    const TRAITS: &'static EndpointTraits = &TRAITS;

    type Reader = Listed;

    fn body<'a>(config: &'a Config, asked: &Asked<'a>) -> Body<'a> {
        Body::new(config, "input", body::prompt(asked.conversation, asked.turn))
            .with("model", Member::Text(&asked.turn.model))
    }
}

/// Reads answers that have a list as `data`: of vectors, or of what else there is one
/// of for each input. Its entries are not read.
#[derive(Default)]
pub(super) struct Listed;

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(default)]
    data: Option<Vec<IgnoredAny>>,
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Text<'a>,
}

impl Reader for Listed {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        let reply: Reply<'_> = serde_json::from_slice(json)?;
        answer.model(&reply.model);
        answer.usage(reply.usage);
        answer.found.output = reply.data.is_some_and(|list| !list.is_empty());
        if let Some(error) = reply.error {
            answer.report_json(error.get().as_bytes());
        } else if !answer.found.output && reply.message.non_empty().is_some() {
            answer.report_json(json);
        }
        Ok(())
    }
}
