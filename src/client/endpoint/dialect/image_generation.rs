//! OpenAI image generation.

use serde::Deserialize;

use dataset::MediaKinds;

use super::{Asked, Dialect, build};
use crate::endpoint::body::{self, Body, Member};
use crate::endpoint::envelope::enveloped;
use crate::endpoint::reader::{Answer, Reader, null_is_empty};
use crate::endpoint::text::Text;
use crate::endpoint::{Config, EndpointTraits};

/// The dialect's properties and capabilities.
pub(crate) static TRAITS: EndpointTraits = EndpointTraits {
    produces_tokens: false,
    produces: MediaKinds::IMAGE,
    metrics_title: "Image Generation Metrics",
    ..EndpointTraits::text("image_generation", "/v1/images/generations", build::<ImageGeneration>)
};

/// `/v1/images/generations`.
///
/// A request contains its turn's text, and requests one image in base64 unless extra inputs
/// override that. Each image of the response is content without text.
struct ImageGeneration;

impl Dialect for ImageGeneration {
    type Reader = Images;

    fn body(config: &Config, asked: &Asked<'_>) -> Vec<u8> {
        Body::new(config, "prompt", body::joined(asked.conversation, asked.turn))
            .with("model", Member::Text(&asked.turn.model))
            .with("response_format", Member::Text("b64_json"))
            .with("n", Member::Number(1))
            .with_some("stream", config.streaming.then_some(Member::Switch(true)))
            .into_json(asked.turn)
    }
}

/// Parses responses with images: a list, or events, of which all but the last have partial
/// images.
#[derive(Default)]
pub(in crate::endpoint) struct Images {
    is_complete: bool,
}

enveloped! {
    struct Event<'a> {
        #[serde(borrow, default, rename = "type")]
        kind: Text<'a>,
        #[serde(borrow, default)]
        b64_json: Text<'a>,
        #[serde(borrow, default)]
        url: Text<'a>,
        #[serde(borrow, default, deserialize_with = "null_is_empty")]
        data: Vec<Image<'a>>,
    }
}

#[derive(Deserialize)]
struct Image<'a> {
    #[serde(borrow, default)]
    b64_json: Text<'a>,
    #[serde(borrow, default)]
    url: Text<'a>,
}

impl Reader for Images {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        let event: Event<'_> = serde_json::from_slice(json)?;
        let is_there = |base64: &Text<'_>, url: &Text<'_>| {
            base64.non_empty().is_some() || url.non_empty().is_some()
        };
        let has_image = is_there(&event.b64_json, &event.url)
            || event.data.iter().any(|image| is_there(&image.b64_json, &image.url));
        answer.find_if(has_image);
        answer.envelope(event.envelope(), json, has_image);
        self.is_complete |= event.kind.0.ends_with(".completed");
        Ok(())
    }

    fn is_complete(&self, _answer: &Answer) -> bool {
        self.is_complete
    }
}

#[cfg(test)]
mod tests;
