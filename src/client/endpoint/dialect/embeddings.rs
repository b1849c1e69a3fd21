//! OpenAI embeddings.

use serde::de::IgnoredAny;

use super::{Asked, Dialect, build};
use crate::endpoint::body::{self, Body, Member};
use crate::endpoint::envelope::enveloped;
use crate::endpoint::reader::{Answer, Reader};
use crate::endpoint::{Config, EndpointTraits};

/// The dialect's properties and capabilities.
pub(crate) static TRAITS: EndpointTraits = EndpointTraits {
    supports_streaming: false,
    produces_tokens: false,
    takes_token_ids: true,
    metrics_title: "Embeddings Metrics",
    operation_name: "embeddings",
    ..EndpointTraits::text("embeddings", "/v1/embeddings", build::<Embeddings>)
};

/// `/v1/embeddings`.
///
/// A request contains its turn's text, or the list of its texts, or their token IDs. The response is a single
/// content event without text; its vectors are not parsed.
struct Embeddings;

impl Dialect for Embeddings {
    type Reader = Listed;

    fn body(config: &Config, asked: &Asked<'_>) -> Vec<u8> {
        Body::new(config, "input", body::prompt(asked.conversation, asked.turn))
            .with("model", Member::Text(&asked.turn.model))
            .into_json(asked.turn)
    }
}

/// Parses responses with a list as `data`: of vectors, or of other results for each input.
/// Its entries are not parsed.
#[derive(Default)]
pub(super) struct Listed;

enveloped! {
    struct Reply<'a> {
        #[serde(default)]
        data: Option<Vec<IgnoredAny>>,
    }
}

impl Reader for Listed {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        let reply: Reply<'_> = serde_json::from_slice(json)?;
        answer.find_if(reply.data.as_ref().is_some_and(|list| !list.is_empty()));
        answer.envelope(reply.envelope(), json, answer.has_content());
        Ok(())
    }
}
