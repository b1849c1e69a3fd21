//! OpenAI completions.

use super::chat::read::Choices;
use super::{Asked, Dialect, build};
use crate::endpoint::body::{self, Body};
use crate::endpoint::{Config, EndpointTraits};

/// The dialect's properties and capabilities.
pub(crate) static TRAITS: EndpointTraits = EndpointTraits {
    takes_token_ids: true,
    operation_name: "text_completion",
    ..EndpointTraits::text("completions", "/v1/completions", build::<Completions>)
};

/// `/v1/completions`.
///
/// A request contains its turn's text, or the list of its texts, or their token IDs. Earlier turns and responses
/// are not repeated, since the dialect does not define how. The limit is always `max_tokens`.
struct Completions;

impl Dialect for Completions {
    type Reader = Choices;

    fn body(config: &Config, asked: &Asked<'_>) -> Vec<u8> {
        let prompt = body::prompt(asked.conversation, asked.turn);
        Body::new(config, "prompt", prompt)
            .generating(config, "max_tokens", asked.turn)
            .into_json(asked.turn)
    }
}
