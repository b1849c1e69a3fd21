//! OpenAI completions.

use std::sync::Arc;

use super::body::{self, Body};
use super::response::Choices;
use super::{Config, Endpoint, EndpointTraits, ParsedResponse, reader};
use crate::dataset::Conversation;
use crate::record::ResponseBody;

/// What the dialect is and what it can do.
pub static TRAITS: EndpointTraits = EndpointTraits {
    operation_name: "text_completion",
    ..EndpointTraits::text("completions", "/v1/completions", |config| {
        Arc::new(Completions::new(config))
    })
};

/// `/v1/completions`.
///
/// A request bears its own turn's text, or the list of its texts; earlier turns
/// and answers are not repeated, for there is no dialect-wide way to write them.
/// The limit is `max_tokens`: completions know no other name.
#[derive(Debug)]
pub struct Completions {
    config: Config,
}

impl Completions {
    /// The dialect with these settings.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self { config: config.clone() }
    }
}

impl Endpoint for Completions {
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
            Body::new(&self.config, "prompt", body::prompt(conversation, turn))
                .generating(&self.config, "max_tokens", turn)
                .to_json()
        })
    }

    fn has_content(&self, event: &[u8]) -> bool {
        reader::has_content::<Choices>(event)
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        reader::parse::<Choices>(body)
    }
}
