//! OpenAI Responses.

mod read;

use std::sync::Arc;

use serde::Serialize;

use self::read::Events;
use super::body::{self, Body, Content, Member, made};
use super::history::{Saying, history};
use super::{Config, Endpoint, EndpointTraits, ParsedResponse, reader};
use crate::dataset::{Conversation, Media, MediaContent, MediaKinds};
use crate::record::ResponseBody;

/// What the dialect is and what it can do.
pub static TRAITS: EndpointTraits = EndpointTraits {
    takes: MediaKinds::IMAGE.union(MediaKinds::AUDIO),
    repeats_history: true,
    ..EndpointTraits::text("responses", "/v1/responses", |config| Arc::new(Responses::new(config)))
};

/// `/v1/responses`.
///
/// A request bears the context, every earlier turn with its answer, and this
/// turn as input items; the system message is `instructions`. The server is
/// asked to keep nothing: each request bears its whole conversation.
#[derive(Debug)]
pub struct Responses {
    config: Config,
}

impl Responses {
    /// The dialect with these settings.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self { config: config.clone() }
    }
}

impl Endpoint for Responses {
    fn traits(&self) -> &'static EndpointTraits {
        &TRAITS
    }

    fn request_body(
        &self,
        conversation: &Conversation,
        turn: usize,
        answers: &[Arc<str>],
    ) -> Vec<u8> {
        let Some(this) = conversation.turns.get(turn) else { return Vec::new() };
        if let Some(raw) = body::raw(this) {
            return raw;
        }
        let items: Vec<_> = history(conversation, turn, answers)
            .into_iter()
            .map(|said| Item {
                kind: "message",
                role: said.role(),
                content: said.saying(|text| Part::InputText { text }, part),
            })
            .collect();
        let mut body = Body::new(&self.config, "input", made(&items))
            .with("model", Member::Text(&this.model))
            .with("stream", Member::Switch(self.config.streaming));
        if let Some(system) = &conversation.system {
            body = body.with("instructions", Member::Text(system));
        }
        if let Some(max_tokens) = this.max_tokens {
            body = body.with("max_output_tokens", Member::Number(max_tokens));
        }
        body.to_json()
    }

    fn has_content(&self, event: &[u8]) -> bool {
        reader::has_content::<Events>(event)
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        reader::parse::<Events>(body)
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
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "as the API calls them")]
enum Part<'a> {
    InputText { text: Content<'a> },
    InputImage { image_url: String },
    InputAudio { input_audio: Audio<'a> },
    InputFile { file_url: &'a str },
}

#[derive(Serialize)]
struct Audio<'a> {
    data: String,
    format: &'a str,
}

fn part(media: &Media) -> Part<'_> {
    match &media.content {
        content if media.kind == MediaKinds::IMAGE => Part::InputImage { image_url: content.url() },
        MediaContent::Url(url) => Part::InputFile { file_url: url },
        MediaContent::Inline(file) => {
            Part::InputAudio { input_audio: Audio { data: file.base64(), format: file.format() } }
        }
    }
}

#[cfg(test)]
mod tests;
