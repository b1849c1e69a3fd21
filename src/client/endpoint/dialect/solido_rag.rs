//! Solido's retrieval-augmented generation.

use serde_json::json;

use super::{Asked, Dialect, build};
use crate::endpoint::body::{self, Body, Member};
use crate::endpoint::envelope::enveloped;
use crate::endpoint::reader::{Answer, Reader};
use crate::endpoint::text::Text;
use crate::endpoint::{Config, EndpointTraits};

/// The dialect's properties and capabilities.
pub(crate) static TRAITS: EndpointTraits = EndpointTraits {
    metrics_title: "SOLIDO RAG Metrics",
    ..EndpointTraits::text("solido_rag", "/rag/api/prompt", build::<SolidoRag>)
};

/// `/rag/api/prompt`.
///
/// A request contains the list of its turn's texts, and the documents to search, which an
/// extra input `filters` overrides. It does not request a stream or a limit; extra inputs can,
/// if the server supports them.
struct SolidoRag;

impl Dialect for SolidoRag {
    type Reader = Contents;

    fn body(config: &Config, asked: &Asked<'_>) -> Vec<u8> {
        let queries = body::prompts(asked.conversation, asked.turn).collect();
        Body::new(config, "query", Member::Texts(queries))
            .with("filters", body::made(&json!({"family": "Solido", "tool": "SDE"})))
            .with("inference_model", Member::Text(&asked.turn.model))
            .into_json(asked.turn)
    }
}

/// Parses the response, or the events of a stream; sources are not parsed.
#[derive(Default)]
struct Contents;

enveloped! {
    struct Event<'a> {
        #[serde(borrow, default)]
        content: Text<'a>,
    }
}

impl Reader for Contents {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        let event: Event<'_> = serde_json::from_slice(json)?;
        answer.output(&event.content.0);
        answer.usage(event.usage);
        answer.error(event.envelope(), json, answer.has_content());
        Ok(())
    }

    /// No event marks the end of the stream.
    fn is_complete(&self, _answer: &Answer) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
