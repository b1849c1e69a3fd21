//! Rankings of passages by a query: Cohere's, Text Embeddings Inference's and NIM's, which
//! differ only in names.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;

use crate::dataset::{self, Conversation, Turn};
use crate::endpoint::body::{self, Body, Member};
use crate::endpoint::envelope::enveloped;
use crate::endpoint::reader::{self, Answer, Reader};
use crate::endpoint::text::Text;
use crate::endpoint::{Config, Endpoint, EndpointTraits, ParsedResponse};
use crate::record::ResponseBody;

/// Cohere's API, which vLLM and others also implement.
pub(crate) static COHERE: EndpointTraits =
    traits("cohere_rankings", "/v2/rerank", |config| build(Form::Cohere, config));

/// The API of Hugging Face's Text Embeddings Inference.
pub(crate) static HF_TEI: EndpointTraits =
    traits("hf_tei_rankings", "/rerank", |config| build(Form::HfTei, config));

/// The API of NVIDIA's NIM.
pub(crate) static NIM: EndpointTraits = EndpointTraits {
    metrics_title: "Rankings Metrics",
    ..traits("nim_rankings", "/v1/ranking", |config| build(Form::Nim, config))
};

const fn traits(
    name: &'static str,
    path: &'static str,
    build: fn(&Config) -> Arc<dyn Endpoint>,
) -> EndpointTraits {
    EndpointTraits {
        supports_streaming: false,
        produces_tokens: false,
        ranks: true,
        metrics_title: "Ranking Metrics",
        ..EndpointTraits::text(name, path, build)
    }
}

fn build(form: Form, config: &Config) -> Arc<dyn Endpoint> {
    Arc::new(Rankings { config: config.clone(), form })
}

/// The format of a request.
#[derive(Debug, Clone, Copy)]
enum Form {
    Cohere,
    HfTei,
    Nim,
}

/// A dialect for rankings.
///
/// A request contains its turn's text named `query` (or `queries`), and those named
/// `passages`. The response is a single content event without text; its scores are not parsed.
#[derive(Debug)]
struct Rankings {
    config: Config,
    form: Form,
}

impl Endpoint for Rankings {
    fn traits(&self) -> &'static EndpointTraits {
        match self.form {
            Form::Cohere => &COHERE,
            Form::HfTei => &HF_TEI,
            Form::Nim => &NIM,
        }
    }

    fn check(&self, conversation: &Conversation) -> Result<(), String> {
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

    fn request_body(
        &self,
        conversation: &Conversation,
        turn: usize,
        _answers: &[Option<Arc<str>>],
    ) -> Vec<u8> {
        let Some(turn) = conversation.turn(turn) else { return Vec::new() };
        body::raw(turn).unwrap_or_else(|| self.body(turn))
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        reader::parse::<Scores>(body)
    }
}

impl Rankings {
    fn body(&self, turn: &Turn) -> Vec<u8> {
        let query = queries(turn).next().map_or(Member::Text(""), Member::Prompt);
        let texts = || Member::Texts(passages(turn).map(Member::Prompt).collect());
        let wrapped = |text: &dataset::Text| json!({"text": text});
        match self.form {
            Form::Cohere => Body::new(&self.config, "model", Member::Text(&turn.model))
                .with("query", query)
                .with("documents", texts()),
            Form::HfTei => Body::new(&self.config, "query", query).with("texts", texts()),
            Form::Nim => Body::new(&self.config, "model", Member::Text(&turn.model))
                .with("query", body::made(&queries(turn).next().map(wrapped)))
                .with("passages", body::made(&passages(turn).map(wrapped).collect::<Vec<_>>())),
        }
        .into_json(turn)
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
