//! OpenAI image generation.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::body::{self, Body, Member};
use super::dialect::{Asked, Dialect, build};
use super::reader::{Answer, Reader, null_is_empty};
use super::text::Text;
use super::{Config, EndpointTraits};
use crate::dataset::MediaKinds;

/// What the dialect is and what it can do.
pub static TRAITS: EndpointTraits = EndpointTraits {
    produces_tokens: false,
    produces: MediaKinds::IMAGE,
    metrics_title: "Image Generation Metrics",
    ..EndpointTraits::text("image_generation", "/v1/images/generations", build::<ImageGeneration>)
};

/// `/v1/images/generations`.
///
/// A request bears its own turn's text, and asks for one image in base64 unless
/// extras say otherwise. Each image of the answer is content without text.
struct ImageGeneration;

impl Dialect for ImageGeneration {
    const TRAITS: &'static EndpointTraits = &TRAITS;

    type Reader = Images;

    fn body<'a>(config: &'a Config, asked: &Asked<'a>) -> Body<'a> {
        Body::new(config, "prompt", body::joined(asked.conversation, asked.turn))
            .with("model", Member::Text(&asked.turn.model))
            .with("response_format", Member::Text("b64_json"))
            .with("n", Member::Number(1))
            .with_some("stream", config.streaming.then_some(Member::Switch(true)))
    }
}

/// Reads answers that bear images: a list of them, or events, of which the ones
/// before the last have unfinished images.
#[derive(Default)]
pub(super) struct Images {
    is_complete: bool,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    b64_json: Text<'a>,
    #[serde(borrow, default)]
    url: Text<'a>,
    #[serde(borrow, default, deserialize_with = "null_is_empty")]
    data: Vec<Image<'a>>,
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Text<'a>,
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
        answer.found.output |= is_there(&event.b64_json, &event.url)
            || event.data.iter().any(|image| is_there(&image.b64_json, &image.url));
        if let Some(error) = event.error {
            answer.report_json(error.get().as_bytes());
        } else if !answer.found.output && event.message.non_empty().is_some() {
            answer.report_json(json);
        }
        answer.model(&event.model);
        answer.usage(event.usage);
        self.is_complete |= event.kind.0.ends_with(".completed");
        Ok(())
    }

    fn is_complete(&self, _answer: &Answer) -> bool {
        self.is_complete
    }
}

#[cfg(test)]
mod tests;
