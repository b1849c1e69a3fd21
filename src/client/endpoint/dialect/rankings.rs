//! Rankings of passages by a query: Cohere's, Text Embeddings Inference's and NIM's, which
//! differ only in names.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;

use dataset::{Conversation, Turn};

use super::{Asked, Dialect, build};
use crate::endpoint::body::{self, Body, Member};
use crate::endpoint::envelope::enveloped;
use crate::endpoint::reader::{Answer, Reader};
use crate::endpoint::text::Text;
use crate::endpoint::{Config, EndpointTraits, EndpointType};

/// Cohere's API, which vLLM and others also implement.
pub(crate) static COHERE: EndpointTraits = traits("cohere_rankings", "/v2/rerank");

/// The API of Hugging Face's Text Embeddings Inference.
pub(crate) static HF_TEI: EndpointTraits = traits("hf_tei_rankings", "/rerank");

/// The API of NVIDIA's NIM.
pub static NIM: EndpointTraits =
    EndpointTraits { metrics_title: "Rankings Metrics", ..traits("nim_rankings", "/v1/ranking") };

const fn traits(name: &'static str, path: &'static str) -> EndpointTraits {
    EndpointTraits {
        supports_streaming: false,
        produces_tokens: false,
        ranks: true,
        metrics_title: "Ranking Metrics",
        ..EndpointTraits::text(name, path, build::<Rankings>)
    }
}

/// A dialect for rankings.
///
/// A request contains its turn's text named `query` (or `queries`), and those named
/// `passages`. The response is a single content event without text; its scores are not parsed.
struct Rankings;

impl Dialect for Rankings {
    type Reader = Scores;

    fn check(conversation: &Conversation) -> Result<(), String> {
        let [turn] = &conversation.turns[..] else {
            return Err("a ranking request has only one turn".to_owned());
        };
        if turn.raw_payload.is_some() {
            return Ok(());
        }
        if conversation.system.is_some() || conversation.user_context.is_some() {
            return Err("a ranking request cannot have a system prompt or a context".to_owned());
        }
        if let Some(other) = turn.texts.iter().find(|text| !is_query(text) && !is_passage(text)) {
            let name = other.name().map_or("unnamed".to_owned(), |name| format!("named {name:?}"));
            return Err(format!(
                "a text is {name}, but a ranking requires texts named `query` and `passages`, \
                 such as {{\"texts\": [{{\"name\": \"query\", \"contents\": [\"…\"]}}, {{\"name\": \
                 \"passages\", \"contents\": [\"…\", \"…\"]}}]}}"
            ));
        }
        match (queries(turn).count(), passages(turn).count()) {
            (1, 1..) => Ok(()),
            (1, 0) => Err("a text named `passages` is missing".to_owned()),
            (count, _) => Err(format!("expected one text named `query`, got {count}")),
        }
    }

    fn body(config: &Config, Asked { turn, .. }: &Asked<'_>) -> Vec<u8> {
        let query = || queries(turn).next().map_or(Member::Text(""), Member::Prompt);
        let texts = || Member::Texts(passages(turn).map(Member::Prompt).collect());
        let wrapped = |text: &dataset::Text| json!({"text": text});
        let with_model = || Body::new(config, "model", Member::Text(&turn.model));
        let body = if config.endpoint_type == EndpointType::HF_TEI_RANKINGS {
            Body::new(config, "query", query()).with("texts", texts())
        } else if config.endpoint_type == EndpointType::NIM_RANKINGS {
            with_model()
                .with("query", body::made(&queries(turn).next().map(wrapped)))
                .with("passages", body::made(&passages(turn).map(wrapped).collect::<Vec<_>>()))
        } else {
            with_model().with("query", query()).with("documents", texts())
        };
        body.into_json(turn)
    }
}

fn queries(turn: &Turn) -> impl Iterator<Item = &dataset::Text> {
    turn.texts.iter().filter(|text| is_query(text))
}

fn passages(turn: &Turn) -> impl Iterator<Item = &dataset::Text> {
    turn.texts.iter().filter(|text| is_passage(text))
}

fn is_query(text: &dataset::Text) -> bool {
    matches!(text.name(), Some("query" | "queries"))
}

fn is_passage(text: &dataset::Text) -> bool {
    text.name() == Some("passages")
}

/// Parses the responses of all formats.
#[derive(Default)]
struct Scores;

enveloped! {
    struct Reply<'a> {
        #[serde(default)]
        results: Option<Vec<IgnoredAny>>,
        #[serde(default)]
        rankings: Option<Vec<IgnoredAny>>,
        #[serde(borrow, default)]
        meta: Option<Meta<'a>>,
        #[serde(borrow, default)]
        error_type: Text<'a>,
    }
}

/// The field with Cohere's usage.
#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default)]
    tokens: Option<&'a RawValue>,
}

impl Reader for Scores {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        if json.trim_ascii_start().starts_with(b"[") {
            let scores: Vec<IgnoredAny> = serde_json::from_slice(json)?;
            answer.find_if(!scores.is_empty());
            return Ok(());
        }
        let reply: Reply<'_> = serde_json::from_slice(json)?;
        let scores = reply.rankings.as_ref().or(reply.results.as_ref());
        let has_scores = scores.is_some_and(|scores| !scores.is_empty());
        answer.find_if(has_scores);
        // Text Embeddings Inference has the error's type next to it; the first reported error is
        // kept.
        answer.report_typed(reply.error, &reply.error_type);
        answer.envelope(reply.envelope(), json, has_scores);
        if reply.usage.is_none() {
            answer.usage(reply.meta.as_ref().and_then(|meta| meta.tokens));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
