//! Hugging Face's Text Generation Inference: `/generate`.

mod read;

use std::sync::Arc;

use serde_json::{Map, Value};

use self::read::Tokens;
use super::body::{self, Body, Member};
use super::{Config, Endpoint, EndpointTraits, ParsedResponse, reader};
use crate::dataset::{Conversation, Turn};
use crate::record::ResponseBody;

/// What the dialect is and what it can do.
pub static TRAITS: EndpointTraits = EndpointTraits {
    streaming_path: Some("/generate_stream"),
    ..EndpointTraits::text("huggingface_generate", "/generate", |config| {
        Arc::new(HuggingFaceGenerate::new(config))
    })
};

/// `/generate`, and `/generate_stream` for streams.
///
/// A request bears its own turn's texts, a blank between them; earlier turns
/// and answers are not repeated, and there is no member for a model. Extra
/// inputs are parameters. A stream is asked to count its tokens at its end.
#[derive(Debug)]
pub struct HuggingFaceGenerate {
    config: Config,
}

impl HuggingFaceGenerate {
    /// The dialect with these settings.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self { config: config.clone() }
    }

    fn parameters(&self, turn: &Turn) -> Map<String, Value> {
        let mut parameters = Map::new();
        if let Some(max_tokens) = turn.max_tokens {
            parameters.insert("max_new_tokens".to_owned(), max_tokens.into());
        }
        if self.config.streaming {
            parameters.insert("details".to_owned(), true.into());
        }
        parameters.extend(self.config.extra_inputs.iter().cloned());
        parameters
    }
}

impl Endpoint for HuggingFaceGenerate {
    fn traits(&self) -> &'static EndpointTraits {
        &TRAITS
    }

    fn request_body(
        &self,
        conversation: &Conversation,
        turn: usize,
        _answers: &[Arc<str>],
    ) -> Vec<u8> {
        let Some(turn) = conversation.turns.get(turn) else { return Vec::new() };
        body::raw(turn).unwrap_or_else(|| {
            Body::plain("inputs", body::joined(conversation, turn))
                .with("parameters", Member::Object(self.parameters(turn)))
                .to_json()
        })
    }

    fn has_content(&self, event: &[u8]) -> bool {
        reader::has_content::<Tokens>(event)
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        reader::parse::<Tokens>(body)
    }
}

#[cfg(test)]
mod tests;
