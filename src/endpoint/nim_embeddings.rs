//! Embeddings of NVIDIA's NIM: OpenAI's, of images too.

use super::body::{self, Body, Member};
use super::dialect::{Asked, Dialect, build};
use super::embeddings::Listed;
use super::{Config, EndpointTraits};
use crate::dataset::{Conversation, MediaKinds, Turn};

/// What the dialect is and what it can do.
pub static TRAITS: EndpointTraits = EndpointTraits {
    supports_streaming: false,
    produces_tokens: false,
    takes: MediaKinds::IMAGE,
    // A URL that is no `data:` URL would be embedded as the text that it is.
    takes_urls: false,
    metrics_title: "NIM Embeddings Metrics",
    operation_name: "embeddings",
    ..EndpointTraits::text("nim_embeddings", "/v1/embeddings", build::<NimEmbeddings>)
};

/// `/v1/embeddings`.
///
/// A request bears the list of its own turn's texts, or of its images as `data:` URLs;
/// where there are both, each text has an image of its own after it. `input_type`,
/// `modality`, `truncate` and the like are extras.
struct NimEmbeddings;

impl Dialect for NimEmbeddings {
    const TRAITS: &'static EndpointTraits = &TRAITS;

    type Reader = Listed;

    fn check(turn: &Turn) -> Result<(), String> {
        match (turn.texts.len(), turn.media.len()) {
            (0, 0) => Err("nim_embeddings needs a text or an image".to_owned()),
            (texts, images) if texts > 0 && images > 0 && texts != images => Err(format!(
                "it has {texts} texts and {images} images: nim_embeddings sends each text with an \
                 image of its own, so give as many images as texts, or one kind alone"
            )),
            _ => Ok(()),
        }
    }

    fn body<'a>(config: &'a Config, asked: &Asked<'a>) -> Body<'a> {
        let inputs = Member::Texts(inputs(asked.conversation, asked.turn));
        Body::new(config, "input", inputs).with("model", Member::Text(&asked.turn.model))
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
