//! Google's Gemini API: `generateContent`.

mod read;

use std::sync::Arc;

use serde::Serialize;
use serde_json::Map;

use self::read::Chunks;
use super::body::{self, Body, Content, Member, made};
use super::history::history;
use super::{Config, Endpoint, EndpointTraits, ParsedResponse, reader};
use crate::dataset::{Conversation, Media, MediaContent, MediaKinds};
use crate::record::ResponseBody;

/// What the dialect is and what it can do.
pub static TRAITS: EndpointTraits = EndpointTraits {
    streaming_path: Some("/v1beta/models/{model}:streamGenerateContent?alt=sse"),
    api_key_header: "x-goog-api-key",
    takes: MediaKinds::all(),
    repeats_history: true,
    ..EndpointTraits::text("gemini", "/v1beta/models/{model}:generateContent", |config| {
        Arc::new(Gemini::new(config))
    })
};

/// `/v1beta/models/{model}:generateContent`, and `:streamGenerateContent` for
/// streams.
///
/// A request bears the context, every earlier turn with its answer, and this
/// turn as contents; the system message is `systemInstruction`. An extra input
/// `generationConfig` is laid over the one that bears the limit.
#[derive(Debug)]
pub struct Gemini {
    config: Config,
}

impl Gemini {
    /// The dialect with these settings.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self { config: config.clone() }
    }
}

impl Endpoint for Gemini {
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
        let contents: Vec<_> = history(conversation, turn, answers)
            .into_iter()
            .map(|said| Message {
                role: Some(if said.role() == "assistant" { "model" } else { said.role() }),
                parts: said.parts(|text| Part::Text { text }, part),
            })
            .collect();
        let mut body = Body::new(&self.config, "contents", made(&contents));
        if let Some(system) = &conversation.system {
            let parts = vec![Part::Text { text: Content::Plain(system) }];
            body = body.with("systemInstruction", made(&Message { role: None, parts }));
        }
        if let Some(max_tokens) = this.max_tokens {
            let limit = Map::from_iter([("maxOutputTokens".to_owned(), max_tokens.into())]);
            body = body.with("generationConfig", Member::Object(limit));
        }
        body.to_json()
    }

    fn has_content(&self, event: &[u8]) -> bool {
        reader::has_content::<Chunks>(event)
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        reader::parse::<Chunks>(body)
    }
}

#[derive(Serialize)]
struct Message<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a str>,
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Text {
        text: Content<'a>,
    },
    #[serde(rename_all = "camelCase")]
    Inline {
        inline_data: Inline<'a>,
    },
    #[serde(rename_all = "camelCase")]
    File {
        file_data: File<'a>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inline<'a> {
    mime_type: &'a str,
    data: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    file_uri: &'a str,
}

fn part(media: &Media) -> Part<'_> {
    match &media.content {
        MediaContent::Url(url) => Part::File { file_data: File { file_uri: url } },
        MediaContent::Inline(file) => Part::Inline {
            inline_data: Inline { mime_type: &file.media_type, data: file.base64() },
        },
    }
}

#[cfg(test)]
mod tests;
