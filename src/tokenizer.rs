//! Text to token counts.
//!
//! Three kinds of vocabulary: the embedded o200k, a local `tokenizer.json`,
//! and a model's on the hub, found in the local cache or downloaded into it.
//! Counts never include special tokens that a tokenizer would add by itself.

mod chat_template;
mod hub;
mod o200k;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use thiserror::Error;

use chat_template::ChatTemplate;
pub use chat_template::Wrapping;
use o200k::{O200K, O200k};

/// Which tokenizer counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The embedded o200k vocabulary.
    Builtin,
    /// A `tokenizer.json`, or a directory that holds one.
    Path(PathBuf),
    /// A name on the model hub: from the local cache, else downloaded.
    Hub {
        /// As in `org/name`.
        name: String,
        /// Branch, tag or commit.
        revision: String,
    },
}

impl Source {
    /// Reads the value of `--tokenizer`: `builtin`, what exists as a path or can
    /// be nothing else, else a name on the hub at revision `main`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let path = Path::new(text);
        let is_path = path.is_absolute() || text.starts_with(['.', '~']);
        if text == "builtin" {
            Self::Builtin
        } else if is_path || path.exists() {
            Self::Path(PathBuf::from(text))
        } else {
            Self::Hub { name: text.to_owned(), revision: "main".to_owned() }
        }
    }

    /// The same tokenizer at another revision; only the hub has revisions.
    #[must_use]
    pub fn at_revision(self, revision: &str) -> Self {
        match self {
            Self::Hub { name, .. } => Self::Hub { name, revision: revision.to_owned() },
            other => other,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin => f.write_str("builtin"),
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Hub { name, .. } => f.write_str(name),
        }
    }
}

/// Whether `model`'s tokenizer is on this machine: `model` is a path that holds
/// one, or the hub's cache has its `revision`.
#[must_use]
pub fn is_local(model: &str, revision: &str, environment: Environment<'_>) -> bool {
    let path = Path::new(model);
    let is_file = path.is_file() && path.extension().is_some_and(|ending| ending == "json");
    is_file
        || path.join("tokenizer.json").is_file()
        || hub::Hub::new(environment).cached(model, revision).is_some()
}

/// Looks an environment variable up by its name.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Why a tokenizer could not be had.
#[derive(Debug, Error)]
pub enum TokenizerError {
    /// There is no readable `tokenizer.json` where the path says.
    #[error(
        "cannot read tokenizer {path}: {source}; \
         --tokenizer takes a tokenizer.json, a directory that holds one, a hub name, or `builtin`"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is no tokenizer, or one that cannot encode.
    #[error("{origin} is no usable tokenizer: {reason}; `--tokenizer builtin` needs no file")]
    Invalid {
        /// File or URL.
        origin: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no chat template, or none that can be used.
    #[error("--apply-chat-template: {origin}: {reason}")]
    ChatTemplate {
        /// The tokenizer, or the file.
        origin: String,
        /// What is wrong.
        reason: String,
    },
    /// The name cannot be one of the hub's.
    #[error("{name:?} is neither an existing path nor a name on the hub such as `org/model`")]
    Name {
        /// Name or revision.
        name: String,
    },
    /// It is not in the cache and the environment forbids the download.
    #[error(
        "tokenizer {name} is not in the cache {cache} and {variable} forbids the download; \
         unset it, or give --tokenizer a local path or `builtin`"
    )]
    Offline {
        /// Name on the hub.
        name: String,
        /// Directory that was searched.
        cache: PathBuf,
        /// Variable that forbids it.
        variable: &'static str,
    },
    /// The download failed.
    #[error(
        "cannot download tokenizer {name}: {reason}; give --tokenizer a local path or `builtin`"
    )]
    Download {
        /// Name on the hub.
        name: String,
        /// What happened; never holds a token or a signed address.
        reason: String,
    },
}

/// Counts tokens. Clones share one vocabulary and may be used from any thread.
#[derive(Clone)]
pub struct TokenCounter {
    name: Arc<str>,
    vocabulary: Vocabulary,
    chat: Option<Arc<ChatTemplate>>,
}

#[derive(Clone)]
enum Vocabulary {
    Builtin(&'static O200k),
    File(Arc<tokenizers::Tokenizer>),
}

impl TokenCounter {
    /// Loads the tokenizer that `source` names.
    ///
    /// `environment` is asked for the hub's variables: `HF_HUB_CACHE`,
    /// `HF_HOME`, `HF_ENDPOINT`, `HF_TOKEN`, `HF_HUB_OFFLINE`,
    /// `TRANSFORMERS_OFFLINE`, `XDG_CACHE_HOME` and `HOME`. May block for the
    /// time of a download, at most two minutes.
    pub fn load(source: &Source, environment: Environment<'_>) -> Result<Self, TokenizerError> {
        let vocabulary = match source {
            Source::Builtin => Vocabulary::Builtin(&O200K),
            Source::Path(path) => Vocabulary::File(from_path(path)?),
            Source::Hub { name, revision } => {
                Vocabulary::File(hub::Hub::new(environment).load(name, revision)?)
            }
        };
        Ok(Self { name: source.to_string().into(), vocabulary, chat: None })
    }

    /// The embedded o200k vocabulary.
    #[must_use]
    pub fn builtin() -> Self {
        let name = Source::Builtin.to_string().into();
        Self { name, vocabulary: Vocabulary::Builtin(&O200K), chat: None }
    }

    /// The same with the chat template that stands beside the tokenizer of
    /// `source`, from which the counter was loaded.
    pub fn with_chat_template(
        self,
        source: &Source,
        environment: Environment<'_>,
    ) -> Result<Self, TokenizerError> {
        let chat = ChatTemplate::load(source, environment)?;
        Ok(Self { chat: Some(Arc::new(chat)), ..self })
    }

    /// The text that the model gets for `messages` (a JSON array) and `tools`,
    /// with what bids it to answer. `None` without a chat template; the error says
    /// why the template makes no text of them.
    #[must_use]
    pub fn chat_text(&self, messages: &Value, tools: &Value) -> Option<Result<String, String>> {
        self.chat.as_ref().map(|template| template.render(messages, tools))
    }

    /// Whether it has a chat template.
    #[must_use]
    pub const fn has_chat_template(&self) -> bool {
        self.chat.is_some()
    }

    /// What the chat template adds to the tokens of messages.
    #[must_use]
    pub fn wrapping(&self) -> Wrapping {
        Wrapping::of(self)
    }

    /// Its name as given: `builtin`, a path, or a name on the hub.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tokens of `text`, none added.
    #[must_use]
    pub fn count(&self, text: &str) -> u64 {
        self.encode(text).len() as u64
    }

    /// The tokens of `text`, none added. Empty where the tokenizer has no
    /// token for a character and none for the unknown: [`TokenCounter::load`]
    /// refuses those it can tell.
    #[must_use]
    pub fn encode(&self, text: &str) -> Vec<u32> {
        match &self.vocabulary {
            Vocabulary::Builtin(o200k) => o200k.encode(text),
            Vocabulary::File(tokenizer) => tokenizer
                .encode_fast(text, false)
                .map(|encoding| encoding.get_ids().to_vec())
                .unwrap_or_default(),
        }
    }

    /// The text of `tokens`; bytes that are no UTF-8 become U+FFFD and unknown
    /// tokens nothing.
    #[must_use]
    pub fn decode(&self, tokens: &[u32]) -> String {
        match &self.vocabulary {
            Vocabulary::Builtin(o200k) => {
                String::from_utf8_lossy(&o200k.decode(tokens)).into_owned()
            }
            Vocabulary::File(tokenizer) => tokenizer.decode(tokens, false).unwrap_or_default(),
        }
    }
}

impl fmt::Debug for TokenCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenCounter").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Letters, digits, marks, an emoji and a private-use character: a tokenizer
/// that can encode these does not fail on other text.
const PROBE: &str = "The quick brown fox, 1234567890.\n\t\"Ünïcödé\" 漢字 \u{1F600} \u{E000}";

fn from_path(path: &Path) -> Result<Arc<tokenizers::Tokenizer>, TokenizerError> {
    let file = if path.is_dir() { path.join("tokenizer.json") } else { path.to_owned() };
    let bytes = std::fs::read(&file)
        .map_err(|source| TokenizerError::Read { path: file.clone(), source })?;
    from_bytes(&bytes, &file.display().to_string())
}

/// Reads a `tokenizer.json`, without the truncation and padding that it may
/// ask for: a count is of the whole text.
fn from_bytes(bytes: &[u8], origin: &str) -> Result<Arc<tokenizers::Tokenizer>, TokenizerError> {
    let invalid = |reason: String| TokenizerError::Invalid { origin: origin.to_owned(), reason };
    let mut tokenizer =
        tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| invalid(error.to_string()))?;
    tokenizer.with_padding(None);
    tokenizer.with_truncation(None).map_err(|error| invalid(error.to_string()))?;
    match tokenizer.encode_fast(PROBE, false) {
        Ok(encoding) if encoding.is_empty() => Err(invalid("it gives text no tokens".to_owned())),
        Ok(_) => Ok(Arc::new(tokenizer)),
        Err(error) => Err(invalid(error.to_string())),
    }
}
