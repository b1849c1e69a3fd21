//! Anthropic Messages.

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
    api_key_header: "x-api-key",
    headers: &[("anthropic-version", "2023-06-01")],
    takes: MediaKinds::IMAGE,
    repeats_history: true,
    ..EndpointTraits::text("messages", "/v1/messages", |config| Arc::new(Messages::new(config)))
};

/// The API wants a limit in every request; this one where the turn names none.
const DEFAULT_MAX_TOKENS: u32 = 1024;

/// `/v1/messages`.
///
/// A request bears the context, every earlier turn with its answer, and this
/// turn; the system message is `system`.
#[derive(Debug)]
pub struct Messages {
    config: Config,
}

impl Messages {
    /// The dialect with these settings.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self { config: config.clone() }
    }
}

impl Endpoint for Messages {
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
        let messages: Vec<_> = history(conversation, turn, answers)
            .into_iter()
            .map(|said| Message {
                role: said.role(),
                content: said.saying(|text| Part::Text { text }, image),
            })
            .collect();
        let limit = this.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
        let mut body = Body::new(&self.config, "model", Member::Text(&this.model))
            .with("messages", made(&messages))
            .with("max_tokens", Member::Number(limit));
        if self.config.streaming {
            body = body.with("stream", Member::Switch(true));
        }
        if let Some(system) = &conversation.system {
            body = body.with("system", Member::Text(system));
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
