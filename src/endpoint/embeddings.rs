//! OpenAI embeddings.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::body::{self, Body, Member};
use super::text::Text;
use super::{Config, ContentPiece, Endpoint, EndpointTraits, ParsedResponse, Usage, error};
use crate::dataset::Conversation;
use crate::record::ResponseBody;
use crate::units::Nanos;

/// What the dialect is and what it can do.
pub static TRAITS: EndpointTraits = EndpointTraits {
    supports_streaming: false,
    produces_tokens: false,
    metrics_title: "Embeddings Metrics",
    operation_name: "embeddings",
    ..EndpointTraits::text("embeddings", "/v1/embeddings", |config| {
        Arc::new(Embeddings::new(config))
    })
};

/// `/v1/embeddings`.
///
/// A request bears its own turn's text, or the list of its texts. The response
/// is one piece of content without text; its vectors are not read.
#[derive(Debug)]
pub struct Embeddings {
    config: Config,
}

impl Embeddings {
    /// The dialect with these settings.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self { config: config.clone() }
    }
}

impl Endpoint for Embeddings {
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
            Body::new(&self.config, "input", body::prompt(conversation, turn))
                .with("model", Member::Text(&turn.model))
                .to_json()
        })
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        let mut response = ParsedResponse::default();
        let Some(event) = body.events.first() else {
            response.error = Some(error::empty_response(None));
            return response;
        };
        let raw = body.raw(event);
        match serde_json::from_slice::<Reply<'_>>(raw) {
            Ok(reply) => reply.read(raw, event.arrival.at, &mut response),
            Err(why) => response.error = Some(error::invalid_json(1, 1, raw, &why)),
        }
        response
    }
}

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(default)]
    data: Option<Vec<IgnoredAny>>,
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Text<'a>,
}

impl Reply<'_> {
    fn read(&self, raw: &[u8], arrival: Nanos, response: &mut ParsedResponse) {
        response.model = self.model.non_empty().map(str::to_owned);
        if let Some(reported) = self.usage {
            let mut usage = Usage::default();
            usage.merge(reported);
            response.usage = (!usage.is_empty()).then_some(usage);
        }
        if self.data.as_ref().is_some_and(|vectors| !vectors.is_empty()) {
            response.content.push(ContentPiece { arrival, is_output: true });
        }
        response.error = match (self.error, self.message.non_empty()) {
            (Some(error), _) => {
                let value = serde_json::from_str(error.get()).unwrap_or(Value::Null);
                Some(error::reported(&value))
            }
            (None, Some(_)) if response.content.is_empty() => {
                let value = serde_json::from_slice(raw).unwrap_or(Value::Null);
                Some(error::reported(&value))
            }
            _ if response.content.is_empty() => Some(error::empty_response(None)),
            _ => None,
        };
    }
}
