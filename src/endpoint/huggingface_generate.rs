//! Hugging Face's Text Generation Inference: `/generate`.

pub(super) mod read;

use serde_json::{Map, Value};

use self::read::Tokens;
use super::body::{self, Body, Member};
use super::dialect::{Asked, Dialect, build};
use super::{Config, EndpointTraits};
use crate::dataset::Turn;

/// What the dialect is and what it can do.
pub static TRAITS: EndpointTraits = EndpointTraits {
    streaming_path: Some("/generate_stream"),
    ..EndpointTraits::text("huggingface_generate", "/generate", build::<HuggingFaceGenerate>)
};

/// `/generate`, and `/generate_stream` for streams.
///
/// A request bears its own turn's texts, a blank between them; earlier turns
/// and answers are not repeated, and there is no member for a model. Extra
/// inputs are parameters. A stream is asked to count its tokens at its end.
struct HuggingFaceGenerate;

impl Dialect for HuggingFaceGenerate {
    const TRAITS: &'static EndpointTraits = &TRAITS;

    type Reader = Tokens;

    fn body<'a>(config: &'a Config, asked: &Asked<'a>) -> Body<'a> {
        Body::plain("inputs", body::joined(asked.conversation, asked.turn))
            .with("parameters", Member::Object(parameters(config, asked.turn)))
    }
}

fn parameters(config: &Config, turn: &Turn) -> Map<String, Value> {
    let mut parameters = Map::new();
    if let Some(max_tokens) = turn.max_tokens {
        parameters.insert("max_new_tokens".to_owned(), max_tokens.into());
    }
    if config.streaming {
        parameters.insert("details".to_owned(), true.into());
    }
    parameters.extend(config.extra_inputs.iter().cloned());
    parameters
}

#[cfg(test)]
mod tests;
