//! Hugging Face's Text Generation Inference: `/generate`.

pub(in crate::endpoint) mod read;

use serde_json::{Map, Value};

use dataset::Turn;

use self::read::Tokens;
use super::{Asked, Dialect, build};
use crate::endpoint::body::{self, Body, Member};
use crate::endpoint::{Config, EndpointTraits};

/// The dialect's properties and capabilities.
pub(crate) static TRAITS: EndpointTraits = EndpointTraits {
    streaming_path: Some("/generate_stream"),
    ..EndpointTraits::text("huggingface_generate", "/generate", build::<HuggingFaceGenerate>)
};

/// `/generate`, and `/generate_stream` for streams.
///
/// A request contains its turn's texts, joined by spaces. Earlier turns and responses are not
/// repeated, and the model is not sent. Extra inputs are sent as parameters. Streams are requested
/// with token counts at the end.
struct HuggingFaceGenerate;

impl Dialect for HuggingFaceGenerate {
    type Reader = Tokens;

    fn body(config: &Config, asked: &Asked<'_>) -> Vec<u8> {
        Body::plain("inputs", body::joined(asked.conversation, asked.turn))
            .with("parameters", Member::Object(parameters(config, asked.turn)))
            .sampling_in("parameters")
            .into_json(asked.turn)
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
