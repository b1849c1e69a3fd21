//! Rankings of passages by a query: Cohere's, Text Embeddings Inference's and
//! NIM's, which differ in names alone.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use serde_json::value::RawValue;

use super::body::{self, Body, Member};
use super::reader::{self, Answer, Reader};
use super::text::Text;
use super::{Config, Endpoint, EndpointTraits, ParsedResponse};
use crate::dataset::{self, Conversation, Turn};
use crate::record::ResponseBody;

/// Cohere's, which vLLM and others have too.
pub static COHERE: EndpointTraits =
    traits("cohere_rankings", "/v2/rerank", |config| build(Form::Cohere, config));

/// Those of Hugging Face's Text Embeddings Inference.
pub static HF_TEI: EndpointTraits =
    traits("hf_tei_rankings", "/rerank", |config| build(Form::HfTei, config));

/// Those of NVIDIA's NIM.
pub static NIM: EndpointTraits = EndpointTraits {
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
        operation_name: "rerank",
        ..EndpointTraits::text(name, path, build)
    }
}

fn build(form: Form, config: &Config) -> Arc<dyn Endpoint> {
    Arc::new(Rankings { config: config.clone(), form })
}

/// How a request is written.
#[derive(Debug, Clone, Copy)]
enum Form {
    Cohere,
    HfTei,
    Nim,
}

/// One of the dialects of rankings.
///
/// A request bears its turn's text of the name `query` (or `queries`), and those
/// of the name `passages`. The response is one piece of content without text; its
/// scores are not read.
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
            return Err("a ranking is a conversation of one turn".to_owned());
        };
        if turn.raw_payload.is_some() {
            return Ok(());
        }
        if conversation.system.is_some() || conversation.user_context.is_some() {
            return Err("a ranking has no system prompt and no context".to_owned());
        }
        if let Some(other) = turn.texts.iter().find(|text| !is_query(text) && !is_passage(text)) {
            let name =
                other.name().map_or("no name".to_owned(), |name| format!("the name {name:?}"));
            return Err(format!(
                "a text has {name}: a ranking needs texts named `query` and `passages`, as in \
                 {{\"texts\": [{{\"name\": \"query\", \"contents\": [\"…\"]}}, {{\"name\": \
                 \"passages\", \"contents\": [\"…\", \"…\"]}}]}}"
            ));
        }
        match (queries(turn).count(), passages(turn).count()) {
            (1, 1..) => Ok(()),
            (1, 0) => Err("it has no text named `passages`".to_owned()),
            (count, _) => Err(format!("it has {count} texts named `query`, not one")),
        }
    }

    fn request_body(
        &self,
        conversation: &Conversation,
        turn: usize,
        _answers: &[Arc<str>],
    ) -> Vec<u8> {
        let Some(turn) = conversation.turns.get(turn) else { return Vec::new() };
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
        .to_json()
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

/// Reads the answers of all forms.
#[derive(Default)]
struct Scores;

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(default)]
    results: Option<Vec<IgnoredAny>>,
    #[serde(default)]
    rankings: Option<Vec<IgnoredAny>>,
    #[serde(borrow, default)]
    model: Text<'a>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    meta: Option<Meta<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error_type: Text<'a>,
    #[serde(borrow, default)]
    message: Text<'a>,
}

/// Where Cohere has its usage.
#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default)]
    tokens: Option<&'a RawValue>,
}

impl Reader for Scores {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        if json.trim_ascii_start().starts_with(b"[") {
            let scores: Vec<IgnoredAny> = serde_json::from_slice(json)?;
            answer.found.output |= !scores.is_empty();
            return Ok(());
        }
        let reply: Reply<'_> = serde_json::from_slice(json)?;
        let scores = reply.rankings.or(reply.results).unwrap_or_default();
        answer.found.output |= !scores.is_empty();
        answer.model(&reply.model);
        answer.usage(reply.usage.or_else(|| reply.meta?.tokens));
        match (reply.error, reply.message.non_empty()) {
            (Some(error), _) if error.get().starts_with('"') => {
                let message: Text<'_> = serde_json::from_str(error.get())?;
                let error = json!({"message": &*message.0, "type": &*reply.error_type.0});
                answer.report_json(error.to_string().as_bytes());
            }
            (Some(error), _) => answer.report_json(error.get().as_bytes()),
            (None, Some(_)) if scores.is_empty() => answer.report_json(json),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
