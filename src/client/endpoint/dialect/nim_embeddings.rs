//! NVIDIA NIM's embeddings: OpenAI's, extended to images.

use dataset::{Conversation, MediaKinds, Turn};

use super::embeddings::Listed;
use super::{Asked, Dialect, build};
use crate::endpoint::body::{self, Body, Member};
use crate::endpoint::{Config, EndpointTraits};

/// The dialect's properties and capabilities.
pub(crate) static TRAITS: EndpointTraits = EndpointTraits {
    supports_streaming: false,
    produces_tokens: false,
    takes: MediaKinds::IMAGE,
    // A URL other than a `data:` URL would be embedded as text.
    takes_urls: false,
    metrics_title: "NIM Embeddings Metrics",
    ..EndpointTraits::text("nim_embeddings", "/v1/embeddings", build::<NimEmbeddings>)
};

/// `/v1/embeddings`.
///
/// A request contains the list of its turn's texts, or of its images as `data:` URLs; if there
/// are both, each text is followed by its image. `input_type`, `modality`, `truncate` and so on
/// are extra inputs.
struct NimEmbeddings;

impl Dialect for NimEmbeddings {
    type Reader = Listed;

    fn check(conversation: &Conversation) -> Result<(), String> {
        let mut made = conversation.turns.iter().filter(|turn| turn.raw_payload.is_none());
        made.try_for_each(|turn| check(&turn.as_text()))
    }

    fn body(config: &Config, asked: &Asked<'_>) -> Vec<u8> {
        let inputs = Member::Texts(inputs(asked.conversation, asked.turn));
        Body::new(config, "input", inputs)
            .with("model", Member::Text(&asked.turn.model))
            .into_json(asked.turn)
    }
}

fn check(turn: &Turn) -> Result<(), String> {
    match (turn.texts.len(), turn.media.len()) {
        (0, 0) => Err("nim_embeddings requires a text or an image".to_owned()),
        (texts, images) if texts > 0 && images > 0 && texts != images => Err(format!(
            "nim_embeddings sends each text with its own image, but there are {texts} texts \
             and {images} images; use as many images as texts, or only one kind"
        )),
        _ => Ok(()),
    }
}

fn inputs<'a>(conversation: &'a Conversation, turn: &'a Turn) -> Vec<Member<'a>> {
    let texts = body::prompts(conversation, turn);
    let images = turn.media.iter().map(|image| image.content.url());
    match (turn.texts.is_empty(), turn.media.is_empty()) {
        (_, true) => texts.collect(),
        (true, false) => images.map(Member::Owned).collect(),
        (false, false) => texts.zip(images).map(|(text, image)| text.followed_by(&image)).collect(),
    }
}

#[cfg(test)]
mod tests;
