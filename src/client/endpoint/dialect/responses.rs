//! OpenAI Responses.

pub(in crate::endpoint) mod read;

use serde::Serialize;

use dataset::{Media, MediaContent, MediaKinds};

use self::read::Events;
use super::{Asked, Dialect, build};
use crate::endpoint::body::{Body, Content, Member, made};
use crate::endpoint::history::Saying;
use crate::endpoint::{Config, EndpointTraits};

/// The dialect's properties and capabilities.
pub(crate) static TRAITS: EndpointTraits = EndpointTraits {
    takes: MediaKinds::IMAGE.union(MediaKinds::AUDIO),
    repeats_history: true,
    ..EndpointTraits::text("responses", "/v1/responses", build::<Responses>)
};

/// `/v1/responses`.
///
/// A request contains the context, all earlier turns with their responses, and this turn as
/// input items; the system message is `instructions`. The server is asked not to store
/// anything, since each request contains its whole conversation.
struct Responses;

impl Dialect for Responses {
    type Reader = Events;

    fn body(config: &Config, asked: &Asked<'_>) -> Vec<u8> {
        let items: Vec<_> = asked
            .history()
            .into_iter()
            .map(|said| Item {
                kind: "message",
                role: said.role(),
                content: said.saying(|text| Part::Text { text }, part),
            })
            .collect();
        Body::new(config, "input", made(&items))
            .with("model", Member::Text(&asked.turn.model))
            .with("stream", Member::Switch(config.streaming))
            .with_some("instructions", asked.system().map(Member::Content))
            .with_some("max_output_tokens", asked.turn.max_tokens.map(Member::Number))
            .into_json(asked.turn)
    }
}

#[derive(Serialize)]
struct Item<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'a str,
    content: Saying<'a, Part<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Part<'a> {
    #[serde(rename = "input_text")]
    Text { text: Content<'a> },
    #[serde(rename = "input_image")]
    Image { image_url: String },
    #[serde(rename = "input_audio")]
    Audio { input_audio: Audio<'a> },
    #[serde(rename = "input_file")]
    File { file_url: &'a str },
}

#[derive(Serialize)]
struct Audio<'a> {
    data: String,
    format: &'a str,
}

fn part(media: &Media) -> Part<'_> {
    match &media.content {
        content if media.kind == MediaKinds::IMAGE => Part::Image { image_url: content.url() },
        MediaContent::Url(url) => Part::File { file_url: url },
        MediaContent::Inline(file) => {
            Part::Audio { input_audio: Audio { data: file.base64(), format: file.format() } }
        }
    }
}

#[cfg(test)]
mod tests;
