//! Request bodies from a user-defined template.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use base::jinja::{self, Template};
use dataset::{Conversation, Media, MediaKinds, Turn};

use crate::endpoint::detect::Detect;
pub use crate::endpoint::detect::RESPONSE_FIELD;
use crate::endpoint::{Config, Endpoint, EndpointTraits, ParsedResponse, body};
use crate::record::ResponseBody;

/// The dialect's properties and capabilities.
pub(crate) static TRAITS: EndpointTraits = EndpointTraits {
    takes: MediaKinds::all(),
    ..EndpointTraits::text("template", "", |config| Arc::new(Templated::new(config)))
};

/// Name of the extra input with the template.
pub const PAYLOAD_TEMPLATE: &str = "payload_template";

/// Predefined templates.
const NAMED: &[(&str, &str)] = &[("nv-embedqa", r#"{"text": {{ texts|tojson }}}"#)];

/// Maximum length of rendered text in an error.
const SHOWN: usize = 120;

/// Renders each body from a Jinja template, and parses responses of any dialect.
#[derive(Debug)]
struct Templated {
    made: Result<Made, String>,
    detect: Detect,
    streaming: bool,
}

#[derive(Debug)]
struct Made {
    template: Template,
    extras: Map<String, Value>,
}

impl Templated {
    fn new(config: &Config) -> Self {
        let (made, detect) = (Made::new(config), Detect::new(config));
        Self { made, detect, streaming: config.streaming }
    }

    fn body(&self, conversation: &Conversation, turn: usize) -> Result<Vec<u8>, String> {
        let made = self.made.as_ref().map_err(Clone::clone)?;
        let turns: Vec<&Turn> = conversation.turns_in(0..turn + 1).collect();
        let Some(turn) = turns.last() else { return Ok(Vec::new()) };
        match body::raw(turn) {
            Some(body) => Ok(body),
            None => made.body(&variables(turn, &turns, self.streaming)),
        }
    }
}

impl Made {
    fn new(config: &Config) -> Result<Self, String> {
        let is_body =
            |(name, _): &&(String, Value)| name != PAYLOAD_TEMPLATE && name != RESPONSE_FIELD;
        let extras = config.extra_inputs.iter().filter(is_body).cloned().collect();
        let given = config.extra_inputs.iter().rev().find(|(name, _)| name == PAYLOAD_TEMPLATE);
        let source = match given.map(|(_, source)| source) {
            None => {
                return Err("the template is missing; use --extra-inputs payload_template:FILE, \
                            or the template itself instead of a file"
                    .to_owned());
            }
            Some(Value::String(source)) => source.clone(),
            // A template without variables may be JSON.
            Some(json) => json.to_string(),
        };
        let named = NAMED.iter().find(|(name, _)| *name == source);
        let source = named.map_or(source, |(_, template)| (*template).to_owned());
        let mut environment = jinja::environment();
        environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
        let template = Template::new(environment, source).map_err(|why| blame(&why))?;
        Ok(Self { template, extras })
    }

    fn body(&self, variables: &Map<String, Value>) -> Result<Vec<u8>, String> {
        let text = self.template.render(variables).map_err(|why| {
            let unknown = self.template.variables();
            let unknown = unknown.iter().find(|name| !variables.contains_key(*name));
            match unknown.filter(|_| why.contains("undefined value")) {
                Some(name) => {
                    let known: Vec<&str> = variables.keys().map(String::as_str).collect();
                    blame(&format!(
                        "{why}: unknown variable {name:?}; available are {}",
                        known.join(", ")
                    ))
                }
                None => blame(&why),
            }
        })?;
        let mut value: Value = serde_json::from_str(&text).map_err(|error| {
            let shown: String = text.chars().take(SHOWN).collect();
            blame(&format!(
                "it does not render valid JSON: {error} in {shown:?}; write texts as {{{{ \
                 text|tojson }}}}"
            ))
        })?;
        if !self.extras.is_empty() {
            let Value::Object(members) = &mut value else {
                return Err(blame(
                    "it does not render a JSON object, which other --extra-inputs require",
                ));
            };
            members.extend(self.extras.clone());
        }
        // JSON values always serialise.
        Ok(serde_json::to_vec(&value).unwrap_or_default())
    }
}

fn blame(why: &str) -> String {
    format!("--extra-inputs {PAYLOAD_TEMPLATE}: {why}")
}

impl Endpoint for Templated {
    fn traits(&self) -> &'static EndpointTraits {
        &TRAITS
    }

    /// Renders the bodies of all turns, so that none can fail during the run.
    fn check(&self, conversation: &Conversation) -> Result<(), String> {
        if conversation.system.is_some() || conversation.user_context.is_some() {
            return Err(
                "templates do not support system prompts and contexts; write them into the \
                 template"
                    .to_owned(),
            );
        }
        self.detect.check()?;
        (0..conversation.len()).try_for_each(|turn| self.body(conversation, turn).map(drop))
    }

    fn request_body(
        &self,
        conversation: &Conversation,
        turn: usize,
        _answers: &[Option<Arc<str>>],
    ) -> Vec<u8> {
        self.body(conversation, turn).unwrap_or_default()
    }

    fn has_content(&self, event: &[u8]) -> bool {
        self.detect.has_content(event)
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        self.detect.parse(body)
    }
}

/// Returns the variables of a template.
fn variables(turn: &Turn, turns: &[&Turn], streaming: bool) -> Map<String, Value> {
    let texts: Vec<String> = turn.texts.iter().map(ToString::to_string).collect();
    let named = |wanted: &[&str]| -> Vec<&String> {
        let has_name =
            |at: &usize| turn.texts[*at].name().is_some_and(|name| wanted.contains(&name));
        (0..texts.len()).filter(has_name).map(|at| &texts[at]).collect()
    };
    let (queries, passages) = (named(&["query", "queries"]), named(&["passages", "passage"]));
    let media = |kind| -> Vec<String> {
        turn.media
            .iter()
            .filter(|media| media.kind == kind)
            .map(|media| media.content.url())
            .collect()
    };
    let (images, audios, videos) =
        (media(MediaKinds::IMAGE), media(MediaKinds::AUDIO), media(MediaKinds::VIDEO));
    let Value::Object(variables) = json!({
        "text": texts.first(), "texts": texts, "texts_by_name": by_name(turn),
        "query": queries.first(), "queries": queries,
        "passage": passages.first(), "passages": passages,
        "image": images.first(), "images": images,
        "audio": audios.first(), "audios": audios,
        "video": videos.first(), "videos": videos,
        "model": &*turn.model, "max_tokens": turn.max_tokens, "role": turn.role,
        "stream": streaming,
        "turn": shown(turn), "turns": turns.iter().map(|turn| shown(turn)).collect::<Vec<_>>(),
    }) else {
        return Map::new();
    };
    variables
}

fn by_name(turn: &Turn) -> Map<String, Value> {
    let mut by_name: Map<String, Value> = Map::new();
    for text in &turn.texts {
        let Some(name) = text.name() else { continue };
        let texts = by_name.entry(name).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(texts) = texts {
            texts.push(text.to_string().into());
        }
    }
    by_name
}

/// Returns a turn as a template sees it.
fn shown(turn: &Turn) -> Value {
    let texts: Vec<Value> = turn
        .texts
        .iter()
        .map(|text| json!({"name": text.name().unwrap_or_default(), "contents": [text]}))
        .collect();
    let media: Vec<String> = turn.media.iter().map(|media: &Media| media.content.url()).collect();
    json!({"texts": texts, "media": media, "role": turn.role, "model": &*turn.model,
           "max_tokens": turn.max_tokens})
}

#[cfg(test)]
mod tests;
