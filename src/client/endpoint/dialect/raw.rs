//! Request bodies from a file, for servers of any dialect.

use std::sync::Arc;

use dataset::{Conversation, MediaKinds};

use crate::endpoint::detect::Detect;
use crate::endpoint::{Endpoint, EndpointTraits, ParsedResponse, body};
use crate::record::ResponseBody;

/// The dialect's properties and capabilities.
pub(crate) static TRAITS: EndpointTraits = EndpointTraits {
    takes: MediaKinds::all(),
    ..EndpointTraits::text("raw", "", |config| Arc::new(Raw(Detect::new(config))))
};

/// Sends the bodies of the dataset unchanged to the URL as given; the format of responses is
/// detected from their content.
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
        Err("raw sends request bodies from a file, but a turn has none; use --input-file FILE \
             --custom-dataset-type raw-payload (or inputs-json)"
            .to_owned())
    }

    fn request_body(
        &self,
        conversation: &Conversation,
        turn: usize,
        _answers: &[Option<Arc<str>>],
    ) -> Vec<u8> {
        conversation.turn(turn).and_then(body::raw).unwrap_or_default()
    }

    fn has_content(&self, event: &[u8]) -> bool {
        self.0.has_content(event)
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        self.0.parse(body)
    }
}
