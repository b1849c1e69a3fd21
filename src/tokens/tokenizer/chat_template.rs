//! Chat templates, which convert messages to the text that a model expects.
//!
//! They are rendered as by the `transformers` library: the lines of blocks are trimmed, and
//! `raise_exception`, `strftime_now`, Python's methods and Python's `tojson` are available.

use std::path::Path;

use chrono::Local;
use chrono::format::StrftimeItems;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use base::jinja::{self, Template};

use super::{Source, TokenCounter, TokenizerError, limited, open};
use crate::hub::HubError;

/// File with a template of its own.
const TEMPLATE: &str = "chat_template.jinja";
/// File with a template as a member, and with the names of special tokens.
pub(super) const CONFIG: &str = "tokenizer_config.json";
/// File with the special tokens if the configuration has none.
const SPECIALS: &str = "special_tokens_map.json";
/// Name of the template to use if there are several.
const DEFAULT: &str = "default";

/// The chat template of a model.
#[derive(Debug)]
pub(super) struct ChatTemplate {
    template: Template,
    /// `bos_token` and similar tokens, by name.
    specials: Map<String, Value>,
}

#[derive(Default, Deserialize)]
struct Config {
    chat_template: Option<Templates>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

impl ChatTemplate {
    /// Loads the template that belongs to the tokenizer of `source`.
    pub(super) fn load(
        source: &Source,
        environment: base::environment::Environment<'_>,
    ) -> Result<Self, TokenizerError> {
        let fault = |origin: &dyn ToString, reason: &str| TokenizerError::ChatTemplate {
            origin: origin.to_string(),
            reason: reason.to_owned(),
        };
        let file = |name: &str| match source {
            Source::Builtin => Ok(None),
            Source::Path(path) => beside(path, name),
            Source::Hub { name: model, revision } => {
                match open(model, revision, name, environment) {
                    Ok(file) => {
                        limited(file).map(Some).map_err(|why| fault(source, &why.to_string()))
                    }
                    // A model without this file, or with one that may not be downloaded.
                    Err(HubError::NotFound | HubError::Offline { .. }) => Ok(None),
                    Err(error) => Err(TokenizerError::hub(model, error)),
                }
            }
        };
        let members = |name: &str| -> Result<Option<Value>, TokenizerError> {
            let Some(bytes) = file(name)? else { return Ok(None) };
            let parsed = serde_json::from_slice(&bytes);
            parsed.map(Some).map_err(|error| fault(&name, &error.to_string()))
        };
        let config: Config = match members(CONFIG)? {
            Some(config) => serde_json::from_value(config)
                .map_err(|error| fault(&CONFIG, &error.to_string()))?,
            None => Config::default(),
        };
        let text = match (file(TEMPLATE)?, config.chat_template) {
            (Some(bytes), _) => {
                String::from_utf8(bytes).map_err(|_| fault(&TEMPLATE, "not valid UTF-8"))?
            }
            (None, Some(templates)) => {
                templates.chosen().map_err(|reason| fault(&CONFIG, &reason))?
            }
            (None, None) => {
                let reason = "neither chat_template.jinja nor tokenizer_config.json contains a chat \
                              template; remove the flag, or use another --tokenizer";
                return Err(fault(source, reason));
            }
        };
        let mut specials = members(SPECIALS)?.map(specials).unwrap_or_default();
        specials.extend(self::specials(Value::Object(config.rest)));
        Self::new(&text, specials).map_err(|reason| fault(source, &reason))
    }

    fn new(source: &str, specials: Map<String, Value>) -> Result<Self, String> {
        let template = Template::new(environment(), without_generation(source))?;
        Ok(Self { template, specials })
    }

    /// Renders `messages` and `tools`, including the prompt for the model's response.
    pub(super) fn render(&self, messages: &Value, tools: &Value) -> Result<String, String> {
        let mut variables = self.specials.clone();
        variables.insert("messages".to_owned(), messages.clone());
        variables.insert("tools".to_owned(), tools.clone());
        variables.insert("documents".to_owned(), Value::Null);
        variables.insert("add_generation_prompt".to_owned(), true.into());
        self.template.render(variables)
    }
}

/// Returns a template with blocks `with` instead of `generation`, a tag of the `transformers` library
/// that marks the assistant's tokens for training and outputs its content. Both have a scope of their
/// own. Other tags, comments and raw text are unchanged.
fn without_generation(source: &str) -> String {
    let mut output = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        output.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = |mark: &str| rest.find(mark).map_or(rest.len(), |end| end + mark.len());
        let (kept, replaced, word) = match tag(rest) {
            Some((at, name @ "generation")) => (at, name.len(), "with"),
            Some((at, name @ "endgeneration")) => (at, name.len(), "endwith"),
            Some((_, "raw")) => (end("endraw"), 0, ""),
            None if rest.starts_with("{#") => (end("#}"), 0, ""),
            _ => (1, 0, ""),
        };
        output.push_str(&rest[..kept]);
        output.push_str(word);
        rest = &rest[kept + replaced..];
    }
    output + rest
}

/// Returns the name of the tag at the start of `text`, and where it begins.
fn tag(text: &str) -> Option<(usize, &str)> {
    let name = text.strip_prefix("{%")?.trim_start_matches(['-', '+']).trim_start();
    let length = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    Some((text.len() - name.len(), &name[..length]))
}

/// Reads the file `name` in the tokenizer's directory.
pub(super) fn beside(tokenizer: &Path, name: &str) -> Result<Option<Vec<u8>>, TokenizerError> {
    let path =
        if tokenizer.is_dir() { tokenizer.join(name) } else { tokenizer.with_file_name(name) };
    match super::read(&path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TokenizerError::Read { path, source }),
    }
}

impl Templates {
    /// Returns the only template, or the default one of several.
    fn chosen(self) -> Result<String, String> {
        match self {
            Self::One(template) => Ok(template),
            Self::Named(mut templates) => {
                if let Some(at) = templates.iter().position(|template| template.name == DEFAULT) {
                    return Ok(templates.swap_remove(at).template);
                }
                let names: Vec<&str> = templates.iter().map(|found| found.name.as_str()).collect();
                let names = names.join(", ");
                Err(format!(
                    "none of its chat templates is named `{DEFAULT}`; available are {names}"
                ))
            }
        }
    }
}

/// Returns members such as `bos_token`, which are texts or objects with `content`.
fn specials(members: Value) -> Map<String, Value> {
    let Value::Object(members) = members else { return Map::new() };
    let token = |(name, value): (String, Value)| {
        let text = value.as_str().or_else(|| value["content"].as_str())?.to_owned();
        name.ends_with("_token").then_some((name, text.into()))
    };
    members.into_iter().filter_map(token).collect()
}

fn environment() -> Environment<'static> {
    let mut environment = jinja::environment();
    let blocks = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    // The default syntax is always valid.
    environment.set_syntax(blocks.unwrap_or_default());
    environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", |format: String| -> Result<String, Error> {
        let items = StrftimeItems::new(&format).parse();
        let items =
            items.map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
        Ok(Local::now().format_with_items(items.iter()).to_string())
    });
    environment
}

/// The tokens that a chat template adds to messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wrapping {
    /// Tokens added to a conversation with a single user message.
    pub first: u64,
    /// Tokens added with each later user message.
    pub later: u64,
}

impl Wrapping {
    /// Returns zero without a template, or if the template rejects such messages.
    pub(super) fn from_counter(counter: &TokenCounter) -> Self {
        const SAMPLE: &str = "The quick brown fox jumps over the lazy dog.";
        let count = |roles: &[&str]| {
            let message = |role: &&str| json!({"role": role, "content": SAMPLE});
            let messages: Value = roles.iter().map(message).collect();
            let text = counter.chat_text(&messages, &Value::Null)?.ok()?;
            counter.count(&text).checked_sub(counter.count(SAMPLE) * roles.len() as u64)
        };
        let Some(first) = count(&["user"]) else { return Self::default() };
        let three = count(&["user", "assistant", "user"]).unwrap_or(first);
        Self { first, later: three.saturating_sub(first) / 2 }
    }
}

#[cfg(test)]
mod tests;
