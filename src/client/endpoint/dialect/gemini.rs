//! Google's Gemini API: `generateContent`.

pub(in crate::endpoint) mod read;

use serde::Serialize;
use serde_json::Map;

use dataset::{Media, MediaContent, MediaKinds};

use self::read::Chunks;
use super::{Asked, Dialect, build};
use crate::endpoint::body::{Body, Content, Member, made};
use crate::endpoint::{Config, EndpointTraits};

/// The dialect's properties and capabilities.
pub(crate) static TRAITS: EndpointTraits = EndpointTraits {
    streaming_path: Some("/v1beta/models/{model}:streamGenerateContent?alt=sse"),
    api_key_header: "x-goog-api-key",
    takes: MediaKinds::all(),
    repeats_history: true,
    ..EndpointTraits::text("gemini", "/v1beta/models/{model}:generateContent", build::<Gemini>)
};

/// `/v1beta/models/{model}:generateContent`, and `:streamGenerateContent` for
/// streams.
///
/// A request contains the context, all earlier turns with their responses, and this turn as
/// contents; the system message is `systemInstruction`. An extra input `generationConfig` is
/// merged with the one that has the limit.
struct Gemini;

impl Dialect for Gemini {
    type Reader = Chunks;

    fn body(config: &Config, asked: &Asked<'_>) -> Vec<u8> {
        let contents: Vec<_> = asked
            .history()
            .into_iter()
            .map(|said| Message {
                role: Some(if said.role() == "assistant" { "model" } else { said.role() }),
                parts: said.parts(|text| Part::Text { text }, part),
            })
            .collect();
        let system = asked.system().map(|text| {
            let parts = vec![Part::Text { text }];
            made(&Message { role: None, parts })
        });
        let limit = asked.turn.max_tokens.map(|max_tokens| {
            Member::Object(Map::from_iter([("maxOutputTokens".to_owned(), max_tokens.into())]))
        });
        Body::new(config, "contents", made(&contents))
            .with_some("systemInstruction", system)
            .with_some("generationConfig", limit)
            .sampling_in("generationConfig")
            .into_json(asked.turn)
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
