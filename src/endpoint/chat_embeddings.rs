//! Embeddings of the messages of a chat, as vLLM has them for models that embed images,
//! sound and videos too.

use super::body::{Body, Member};
use super::dialect::{Asked, Dialect, build};
use super::embeddings::Listed;
use super::history::Said;
use super::{Config, EndpointTraits, chat};
use crate::dataset::MediaKinds;

/// What the dialect is and what it can do.
pub static TRAITS: EndpointTraits = EndpointTraits {
    supports_streaming: false,
    produces_tokens: false,
    takes: MediaKinds::all(),
    takes_messages: true,
    repeats_history: true,
    metrics_title: "Embeddings Metrics",
    operation_name: "embeddings",
    ..EndpointTraits::text("chat_embeddings", "/v1/embeddings", build::<ChatEmbeddings>)
};

/// `/v1/embeddings`, asked with `messages` instead of `input`.
///
/// The messages are those of a chat, of which there is one vector. What a server
/// answers is no text: there is nothing of it to be repeated.
struct ChatEmbeddings;

impl Dialect for ChatEmbeddings {
    const TRAITS: &'static EndpointTraits = &TRAITS;

    type Reader = Listed;

    fn body<'a>(config: &'a Config, asked: &Asked<'a>) -> Body<'a> {
        let made = || {
            let mut said = asked.history();
            said.retain(|said| !matches!(said, Said::Answered("")));
            Member::Messages(chat::messages(asked, said))
        };
        let messages = asked.turn.messages.as_deref().map_or_else(made, Member::Raw);
        Body::new(config, "messages", messages).with("model", Member::Text(&asked.turn.model))
    }
}

#[cfg(test)]
mod tests;
