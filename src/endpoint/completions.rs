//! OpenAI completions.

use std::sync::Arc;

use super::body::{self, Body};
use super::{Config, Endpoint, EndpointTraits, ParsedResponse, response};
use crate::dataset::Conversation;
use crate::record::ResponseBody;

/// What the dialect is and what it can do.
pub const TRAITS: EndpointTraits = EndpointTraits {
    name: "completions",
    path: "/v1/completions",
    supports_streaming: true,
    produces_tokens: true,
    tokenizes_input: true,
    repeats_history: false,
    metrics_title: "LLM Metrics",
    operation_name: "text_completion",
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
        response::has_content(event)
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        response::parse(body)
    }
}
