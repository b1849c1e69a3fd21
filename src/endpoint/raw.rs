//! Bodies as a file has them, for servers of any dialect.

use std::sync::Arc;

use super::detect::Detect;
use super::{Endpoint, EndpointTraits, ParsedResponse, body};
use crate::dataset::{Conversation, MediaKinds};
use crate::record::ResponseBody;

/// What the dialect is and what it can do.
pub static TRAITS: EndpointTraits = EndpointTraits {
    takes: MediaKinds::all(),
    ..EndpointTraits::text("raw", "", |config| Arc::new(Raw(Detect::new(config))))
};

/// Sends the bodies of the dataset as they are to the URL as it is; the shape of
/// answers is found out from their content.
#[derive(Debug)]
struct Raw(Detect);

impl Endpoint for Raw {
    fn traits(&self) -> &'static EndpointTraits {
        &TRAITS
    }

    fn check(&self, conversation: &Conversation) -> Result<(), String> {
        self.0.check()?;
        if conversation.turns.iter().all(|turn| turn.raw_payload.is_some()) {
            return Ok(());
        }
        Err("raw sends bodies as a file has them, and a turn has none: give --input-file FILE \
             --custom-dataset-type raw-payload (or inputs-json)"
            .to_owned())
    }

    fn request_body(
        &self,
        conversation: &Conversation,
        turn: usize,
        _answers: &[Arc<str>],
    ) -> Vec<u8> {
        conversation.turns.get(turn).and_then(body::raw).unwrap_or_default()
    }

    fn has_content(&self, event: &[u8]) -> bool {
        self.0.has_content(event)
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        self.0.parse(body)
    }
}
