//! What NVIDIA's NIM finds in images: elements of pages, cells of tables, text.

use serde::Serialize;

use super::body::{self, Body};
use super::dialect::{Asked, Dialect, build};
use super::embeddings::Listed;
use super::{Config, EndpointTraits};
use crate::dataset::{Media, MediaKinds};

/// What the dialect is and what it can do.
pub static TRAITS: EndpointTraits = EndpointTraits {
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
/// A request bears its own turn's images, and neither text nor model. The response
/// has an entry for each image, even where nothing is found in it.
struct ImageRetrieval;

/// An image as a `data:` URL. Unlike that of a chat, the URL stands in no object.
#[derive(Serialize)]
#[serde(tag = "type", rename = "image_url")]
struct Image {
    url: String,
}

impl Dialect for ImageRetrieval {
    const TRAITS: &'static EndpointTraits = &TRAITS;

    type Reader = Listed;

    fn body<'a>(config: &'a Config, asked: &Asked<'a>) -> Body<'a> {
        let image = |media: &Media| Image { url: media.content.url() };
        let images: Vec<Image> = asked.turn.media.iter().map(image).collect();
        Body::new(config, "input", body::made(&images))
    }
}

#[cfg(test)]
mod tests;
