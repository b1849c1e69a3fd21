//! NVIDIA NIM's image retrieval: page elements, table cells and text in images.

use serde::Serialize;

use dataset::{Media, MediaKinds};

use super::embeddings::Listed;
use super::{Asked, Dialect, build};
use crate::endpoint::body::{self, Body};
use crate::endpoint::{Config, EndpointTraits};

/// The dialect's properties and capabilities.
pub(crate) static TRAITS: EndpointTraits = EndpointTraits {
    supports_streaming: false,
    produces_tokens: false,
    tokenizes_input: false,
    takes: MediaKinds::IMAGE,
    needs: MediaKinds::IMAGE,
    takes_urls: false,
    metrics_title: "Image Retrieval Metrics",
    ..EndpointTraits::text("image_retrieval", "/v1/infer", build::<ImageRetrieval>)
};

/// `/v1/infer`.
///
/// A request contains its turn's images, without text or model. The response has an entry for
/// each image, even if nothing was found in it.
struct ImageRetrieval;

/// An image as a `data:` URL, which unlike in chats is not in an object.
#[derive(Serialize)]
#[serde(tag = "type", rename = "image_url")]
struct Image {
    url: String,
}

impl Dialect for ImageRetrieval {
    type Reader = Listed;

    fn body(config: &Config, asked: &Asked<'_>) -> Vec<u8> {
        let image = |media: &Media| Image { url: media.content.url() };
        let images: Vec<Image> = asked.turn.media.iter().map(image).collect();
        Body::new(config, "input", body::made(&images)).into_json(asked.turn)
    }
}

#[cfg(test)]
mod tests;
