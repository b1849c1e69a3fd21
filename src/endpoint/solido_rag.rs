//! Solido's answers by what it retrieves.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::body::{self, Body, Member};
use super::dialect::{Asked, Dialect, build};
use super::reader::{Answer, Reader};
use super::text::Text;
use super::{Config, EndpointTraits};

/// What the dialect is and what it can do.
pub static TRAITS: EndpointTraits = EndpointTraits {
    metrics_title: "SOLIDO RAG Metrics",
    ..EndpointTraits::text("solido_rag", "/rag/api/prompt", build::<SolidoRag>)
};

/// `/rag/api/prompt`.
///
/// A request bears the list of its own turn's texts, and says which documents to look
/// in; an extra `filters` says others. Nothing in it asks for a stream or a limit:
/// extras do where the server knows some.
struct SolidoRag;

impl Dialect for SolidoRag {
    const TRAITS: &'static EndpointTraits = &TRAITS;

    type Reader = Contents;

    fn body<'a>(config: &'a Config, asked: &Asked<'a>) -> Body<'a> {
        let queries = body::prompts(asked.conversation, asked.turn).collect();
        Body::new(config, "query", Member::Texts(queries))
            .with("filters", body::made(&json!({"family": "Solido", "tool": "SDE"})))
            .with("inference_model", Member::Text(&asked.turn.model))
    }
}

/// Reads the answer, or the events that bear it piece by piece; its sources are not read.
#[derive(Default)]
struct Contents;

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    content: Text<'a>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Text<'a>,
}

impl Reader for Contents {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        let event: Event<'_> = serde_json::from_slice(json)?;
        answer.output(&event.content.0);
        answer.usage(event.usage);
        if let Some(error) = event.error {
            answer.report_json(error.get().as_bytes());
        } else if !answer.found.output && event.message.non_empty().is_some() {
            answer.report_json(json);
        }
        Ok(())
    }

    /// No event is known to say that the stream ends.
    fn is_complete(&self, _answer: &Answer) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
