//! Anthropic Messages.

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
    api_key_header: "x-api-key",
    headers: &[("anthropic-version", "2023-06-01")],
    takes: MediaKinds::IMAGE,
    repeats_history: true,
    ..EndpointTraits::text("messages", "/v1/messages", build::<Messages>)
};

/// The limit if the turn has none, since the API requires one in every request.
const DEFAULT_MAX_TOKENS: u32 = 1024;

/// `/v1/messages`.
///
/// A request contains the context, all earlier turns with their responses, and this turn; the
/// system message is `system`.
struct Messages;

impl Dialect for Messages {
    type Reader = Events;

    fn body(config: &Config, asked: &Asked<'_>) -> Vec<u8> {
        let messages: Vec<_> = asked
            .history()
            .into_iter()
            .map(|said| Message {
                role: said.role(),
                content: said.saying(|text| Part::Text { text }, image),
            })
            .collect();
        let limit = asked.turn.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
        Body::new(config, "model", Member::Text(&asked.turn.model))
            .with("messages", made(&messages))
            .with("max_tokens", Member::Number(limit))
            .with_some("stream", config.streaming.then_some(Member::Switch(true)))
            .with_some("system", asked.system().map(Member::Content))
            .into_json(asked.turn)
    }
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'a str,
    content: Saying<'a, Part<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: Content<'a> },
    Image { source: Source<'a> },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: String },
    Url { url: &'a str },
}

fn image(media: &Media) -> Part<'_> {
    let source = match &media.content {
        MediaContent::Url(url) => Source::Url { url },
        MediaContent::Inline(file) => {
            Source::Base64 { media_type: &file.media_type, data: file.base64() }
        }
    };
    Part::Image { source }
}

#[cfg(test)]
mod tests;
