//! Embeddings of chat messages, as in vLLM for models that also embed images, audio and
//! videos.

use dataset::MediaKinds;

use super::embeddings::Listed;
use super::{Asked, Dialect, build, chat};
use crate::endpoint::body::{Body, Member};
use crate::endpoint::history::Said;
use crate::endpoint::{Config, EndpointTraits};

/// The dialect's properties and capabilities.
pub(crate) static TRAITS: EndpointTraits = EndpointTraits {
    supports_streaming: false,
    produces_tokens: false,
    takes: MediaKinds::all(),
    takes_image_uuids: true,
    takes_messages: true,
    repeats_history: true,
    metrics_title: "Embeddings Metrics",
    ..EndpointTraits::text("chat_embeddings", "/v1/embeddings", build::<ChatEmbeddings>)
};

/// `/v1/embeddings` with `messages` instead of `input`.
///
/// The messages are those of a chat and result in a single vector. Responses do not contain text
/// that later turns could repeat.
struct ChatEmbeddings;

impl Dialect for ChatEmbeddings {
    type Reader = Listed;

    fn body(config: &Config, asked: &Asked<'_>) -> Vec<u8> {
        let made = || {
            let mut said = asked.history();
            said.retain(|said| !matches!(said, Said::Answered("")));
            Member::Messages(chat::messages(asked, said))
        };
        let messages = asked.turn.messages.as_deref().map_or_else(made, Member::Raw);
        Body::new(config, "messages", messages)
            .with("model", Member::Text(&asked.turn.model))
            .into_json(asked.turn)
    }
}

#[cfg(test)]
mod tests;
