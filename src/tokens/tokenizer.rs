//! Token counts of texts.
//!
//! There are three kinds of vocabulary: the embedded o200k, a `tokenizer.json`, and a `tiktoken.model`.
//! Files are local, or those of a model on the hub, which are found in the local cache or downloaded into
//! it. Counts never include special tokens that a tokenizer would add by itself.

mod bpe;
mod chat_template;
mod o200k;
#[cfg(test)]
mod tests;
mod tiktoken;

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use serde::Serialize;

use base::input;
use base::setting;
use serde_json::Value;
use thiserror::Error;
use tokenizers::PostProcessor as _;

use base::environment::Environment;

use crate::hub::{Hub, HubError, RepositoryKind, hexadecimal};
pub use chat_template::Wrapping;
use chat_template::{CONFIG, ChatTemplate, beside};
use o200k::{O200K, O200k};
use tiktoken::{TIKTOKEN, Tiktoken};

/// Name of the file with a tokenizer.
const TOKENIZER: &str = "tokenizer.json";

/// Source of the tokenizer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The embedded o200k vocabulary.
    Builtin,
    /// A `tokenizer.json` or `tiktoken.model`, or a directory that contains one.
    #[serde(serialize_with = "setting::path")]
    Path(PathBuf),
    /// A name on the model hub, from the local cache or downloaded.
    Hub {
        /// The name, as in `org/name`.
        name: String,
        /// Branch, tag or commit.
        revision: String,
    },
}

impl Source {
    /// Parses the value of `--tokenizer`: `builtin`, an existing path or a text that can only be a
    /// path, otherwise a name on the hub at revision `main`.
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

    /// Returns the same source at another revision; only sources on the hub have revisions.
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

/// Returns whether the tokenizer of `model` is on this machine: `model` is a path that contains
/// one, or the hub's cache contains its `revision`.
#[must_use]
pub fn is_local(model: &str, revision: &str, environment: Environment<'_>) -> bool {
    let path = Path::new(model);
    let is_json = path.extension().is_some_and(|ending| ending == "json");
    let hub = Hub::new(environment);
    let repository = hub.repository(RepositoryKind::Model, model, revision);
    let is_cached = |file| repository.as_ref().is_ok_and(|it| it.cached(file).is_some());
    path.is_file() && (is_json || path.ends_with(TIKTOKEN))
        || [TOKENIZER, TIKTOKEN]
            .into_iter()
            .any(|file| path.join(file).is_file() || is_cached(file))
}

/// Error of loading a tokenizer.
#[derive(Debug, Error)]
pub enum TokenizerError {
    /// The path does not contain a readable `tokenizer.json` or `tiktoken.model`.
    #[error(
        "cannot read the tokenizer {path}: {source}; --tokenizer accepts a tokenizer.json or \
         tiktoken.model, a directory that contains one, a Hugging Face name, or `builtin`"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is not a tokenizer, or cannot encode text.
    #[error("{origin} is not a usable tokenizer: {reason}; `--tokenizer builtin` requires no file")]
    Invalid {
        /// File or URL.
        origin: String,
        /// Description of the error.
        reason: String,
    },
    /// The chat template is missing or not usable.
    #[error("--apply-chat-template: {origin}: {reason}")]
    ChatTemplate {
        /// The tokenizer, or the file.
        origin: String,
        /// Description of the error.
        reason: String,
    },
    /// The name is not valid on the hub.
    #[error("{name:?} is neither an existing path nor a Hugging Face name such as `org/model`")]
    Name {
        /// Name or revision.
        name: String,
    },
    /// The tokenizer is not in the cache, and the environment forbids the download.
    #[error(
        "the tokenizer {name} is not in the cache {cache}, and {variable} forbids downloading it; \
         unset it, or set --tokenizer to a local path or `builtin`"
    )]
    Offline {
        /// Name on the hub.
        name: String,
        /// Cache directory that was searched.
        cache: PathBuf,
        /// Variable that forbids the download.
        variable: &'static str,
    },
    /// The download failed.
    #[error(
        "cannot download the tokenizer {name}: {reason}; set --tokenizer to a local path or \
         `builtin`"
    )]
    Download {
        /// Name on the hub.
        name: String,
        /// Description of the error, without tokens and signed URLs.
        reason: String,
    },
}

impl TokenizerError {
    /// Returns the error of the model `name` on the hub.
    fn hub(name: &str, error: HubError) -> Self {
        let name = name.to_owned();
        match error {
            HubError::Name { name } => Self::Name { name },
            HubError::Offline { cache, variable } => Self::Offline { name, cache, variable },
            HubError::NotFound => {
                let reason = "the model does not exist on the hub, or has neither a \
                              tokenizer.json nor a tiktoken.model";
                Self::Download { name, reason: reason.to_owned() }
            }
            error => Self::Download { name, reason: error.to_string() },
        }
    }
}

/// Counter of tokens. Clones share one vocabulary and may be used from any thread.
#[derive(Clone)]
pub struct TokenCounter {
    name: Arc<str>,
    vocabulary: Vocabulary,
    chat: Option<Arc<ChatTemplate>>,
}

#[derive(Clone)]
enum Vocabulary {
    Builtin(&'static O200k),
    File(Loaded),
    Tiktoken(Arc<Tiktoken>),
}

/// SHA-256 of the embedded vocabulary, computed at its first use: it takes a millisecond.
static O200K_SHA256: LazyLock<Arc<str>> = LazyLock::new(|| sha256(o200k::TOKENS));

impl TokenCounter {
    /// Loads the tokenizer that `source` names.
    ///
    /// `environment` provides the variables of the hub: `HF_HUB_CACHE`, `HF_HOME`, `HF_ENDPOINT`,
    /// `HF_TOKEN`, `HF_HUB_OFFLINE`, `TRANSFORMERS_OFFLINE`, `XDG_CACHE_HOME` and `HOME`. This may
    /// block during a download.
    pub fn load(source: &Source, environment: Environment<'_>) -> Result<Self, TokenizerError> {
        let vocabulary = match source {
            Source::Builtin => return Ok(Self::builtin()),
            Source::Path(path) => from_path(path)?,
            Source::Hub { name, revision } => from_hub(name, revision, environment)?,
        };
        Ok(Self { name: source.to_string().into(), vocabulary, chat: None })
    }

    /// Returns a counter with the embedded o200k vocabulary.
    #[must_use]
    pub fn builtin() -> Self {
        let name = Source::Builtin.to_string().into();
        Self { name, vocabulary: Vocabulary::Builtin(&O200K), chat: None }
    }

    /// Adds the chat template that belongs to the tokenizer of `source`, from which the counter was
    /// loaded.
    pub fn with_chat_template(
        self,
        source: &Source,
        environment: Environment<'_>,
    ) -> Result<Self, TokenizerError> {
        let chat = ChatTemplate::load(source, environment)?;
        Ok(Self { chat: Some(Arc::new(chat)), ..self })
    }

    /// Applies the chat template to `messages` (a JSON array) and `tools`, including the prompt for
    /// the model's response. Returns `None` without a chat template. The error describes why the
    /// template fails.
    #[must_use]
    pub fn chat_text(&self, messages: &Value, tools: &Value) -> Option<Result<String, String>> {
        self.chat.as_ref().map(|template| template.render(messages, tools))
    }

    /// Encodes and decodes a text of some length in several scripts. A vocabulary that is broken or
    /// takes too many resources fails here.
    pub fn try_out(&self) {
        let _ = self.decode(&self.encode(&PROBE.repeat(1000)));
    }

    #[must_use]
    pub const fn has_chat_template(&self) -> bool {
        self.chat.is_some()
    }

    /// Returns what the chat template adds to the tokens of messages.
    #[must_use]
    pub fn wrapping(&self) -> Wrapping {
        Wrapping::from_counter(self)
    }

    /// Returns the name as given: `builtin`, a path, or a name on the hub.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the SHA-256 of the `tokenizer.json`, of the `tiktoken.model` or of the embedded vocabulary, in
    /// hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> &str {
        match &self.vocabulary {
            Vocabulary::Builtin(_) => &O200K_SHA256,
            Vocabulary::File(file) => &file.sha256,
            Vocabulary::Tiktoken(file) => &file.sha256,
        }
    }

    /// Returns the number of tokens of `text`, without added tokens.
    #[must_use]
    pub fn count(&self, text: &str) -> u64 {
        self.encode(text).len() as u64
    }

    /// Returns the tokens of `text`, without added tokens. The result is empty if the tokenizer has
    /// neither a token for a character nor an unknown token. [`TokenCounter::load`] rejects such
    /// tokenizers where it can detect them.
    #[must_use]
    pub fn encode(&self, text: &str) -> Vec<u32> {
        match &self.vocabulary {
            Vocabulary::Builtin(o200k) => o200k.encode(text),
            Vocabulary::File(file) => file
                .tokenizer
                .encode_fast(text, false)
                .map(|encoding| encoding.get_ids().to_vec())
                .unwrap_or_default(),
            Vocabulary::Tiktoken(file) => file.encode(text),
        }
    }

    /// Returns the number of token IDs, of which some may be unused.
    #[must_use]
    pub fn vocabulary_size(&self) -> u32 {
        match &self.vocabulary {
            Vocabulary::Builtin(o200k) => o200k.size(),
            Vocabulary::File(file) => {
                u32::try_from(file.tokenizer.get_vocab_size(true)).unwrap_or(u32::MAX)
            }
            Vocabulary::Tiktoken(file) => file.size(),
        }
    }

    /// Returns whether `token` is a text of its own, which is encoded as this token: not a special
    /// token, a part of a character, or white space.
    #[must_use]
    pub fn is_text(&self, token: u32) -> bool {
        let is_added = match &self.vocabulary {
            Vocabulary::Builtin(_) => false,
            Vocabulary::File(Loaded { tokenizer, .. }) => tokenizer
                .id_to_token(token)
                .is_none_or(|text| tokenizer.get_added_vocabulary().is_special_token(&text)),
            Vocabulary::Tiktoken(file) => file.is_special(token),
        };
        if is_added {
            return false;
        }
        let text = self.decode(&[token]);
        !text.trim().is_empty() && !text.contains('\u{fffd}') && self.encode(&text) == [token]
    }

    /// Returns the number of tokens that the tokenizer adds to a text, such as one for its
    /// beginning. They are not part of any other count.
    #[must_use]
    pub fn added_tokens(&self) -> u32 {
        match &self.vocabulary {
            // Kimi's code adds none either.
            Vocabulary::Builtin(_) | Vocabulary::Tiktoken(_) => 0,
            Vocabulary::File(file) => file
                .tokenizer
                .get_post_processor()
                .map_or(0, |processor| processor.added_tokens(false) as u32),
        }
    }

    /// Returns the text of `tokens`. Bytes that are not valid UTF-8 become U+FFFD, and unknown
    /// tokens are skipped.
    #[must_use]
    pub fn decode(&self, tokens: &[u32]) -> String {
        match &self.vocabulary {
            Vocabulary::Builtin(o200k) => {
                String::from_utf8_lossy(&o200k.decode(tokens)).into_owned()
            }
            Vocabulary::File(file) => file.tokenizer.decode(tokens, false).unwrap_or_default(),
            Vocabulary::Tiktoken(file) => {
                String::from_utf8_lossy(&file.decode(tokens)).into_owned()
            }
        }
    }
}

impl fmt::Debug for TokenCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenCounter").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Letters, digits, combining marks, an emoji and a private-use character. A tokenizer that can
/// encode these does not fail on other text.
const PROBE: &str = "The quick brown fox, 1234567890.\n\t\"Ünïcödé\" 漢字 \u{1F600} \u{E000}";

/// A parsed tokenizer file. Clones share it.
#[derive(Debug, Clone)]
struct Loaded {
    tokenizer: Arc<tokenizers::Tokenizer>,
    sha256: Arc<str>,
}

fn sha256(bytes: &[u8]) -> Arc<str> {
    hexadecimal(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref()).into()
}

/// Opens `file` of the model `name` on the hub.
fn open(
    name: &str,
    revision: &str,
    file: &str,
    environment: Environment<'_>,
) -> Result<File, HubError> {
    Hub::new(environment).repository(RepositoryKind::Model, name, revision)?.open(file, MAX_BYTES)
}

/// Loads the `tokenizer.json` of a model on the hub, or else its `tiktoken.model`.
fn from_hub(
    name: &str,
    revision: &str,
    environment: Environment<'_>,
) -> Result<Vocabulary, TokenizerError> {
    let open = |file| open(name, revision, file, environment);
    let failed = |error| TokenizerError::hub(name, error);
    let read = |file| {
        let reason = |why: io::Error| why.to_string();
        let failed = |reason| TokenizerError::Download { name: name.to_owned(), reason };
        limited(file).map_err(reason).map_err(failed)
    };
    let is_missing =
        |error: &HubError| matches!(error, HubError::NotFound | HubError::Offline { .. });
    match open(TOKENIZER) {
        Ok(file) => from_json(&read(file)?, &format!("{TOKENIZER} of {name}")),
        Err(missing) if is_missing(&missing) => {
            let model = match open(TIKTOKEN) {
                Ok(file) => read(file)?,
                Err(error) if is_missing(&error) => return Err(failed(missing)),
                Err(error) => return Err(failed(error)),
            };
            let config = match open(CONFIG) {
                Ok(file) => Some(read(file)?),
                Err(HubError::NotFound) => None,
                Err(error) => return Err(failed(error)),
            };
            from_tiktoken(&model, config.as_deref(), &format!("{TIKTOKEN} of {name}"))
        }
        Err(error) => Err(failed(error)),
    }
}

fn from_path(path: &Path) -> Result<Vocabulary, TokenizerError> {
    let within = |name| if path.is_dir() { path.join(name) } else { path.to_owned() };
    let json = within(TOKENIZER);
    let tiktoken = within(TIKTOKEN);
    let is_tiktoken = tiktoken.ends_with(TIKTOKEN) && (tiktoken == json || !json.exists());
    let file = if is_tiktoken && tiktoken.exists() { tiktoken } else { json };
    let bytes =
        read(&file).map_err(|source| TokenizerError::Read { path: file.clone(), source })?;
    let origin = file.display().to_string();
    if file.ends_with(TIKTOKEN) {
        from_tiktoken(&bytes, beside(&file, CONFIG)?.as_deref(), &origin)
    } else {
        from_json(&bytes, &origin)
    }
}

fn from_tiktoken(
    model: &[u8],
    config: Option<&[u8]>,
    origin: &str,
) -> Result<Vocabulary, TokenizerError> {
    let parsed = Tiktoken::parse(model, config);
    let parsed =
        parsed.map_err(|reason| TokenizerError::Invalid { origin: origin.to_owned(), reason });
    Ok(Vocabulary::Tiktoken(Arc::new(parsed?)))
}

/// Maximum size of a file in bytes; four times that of the largest vocabularies in use.
const MAX_BYTES: u64 = 128 << 20;

/// Reads a file of limited length.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    limited(File::open(file)?)
}

fn limited(file: File) -> io::Result<Vec<u8>> {
    input::whole(file, MAX_BYTES)
}

/// Parses a `tokenizer.json` without its truncation and padding, since a count covers the whole
/// text.
fn from_json(bytes: &[u8], origin: &str) -> Result<Vocabulary, TokenizerError> {
    let invalid = |reason: String| TokenizerError::Invalid { origin: origin.to_owned(), reason };
    let mut tokenizer =
        tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| invalid(error.to_string()))?;
    tokenizer.with_padding(None);
    tokenizer.with_truncation(None).map_err(|error| invalid(error.to_string()))?;
    match tokenizer.encode_fast(PROBE, false) {
        Ok(encoding) if encoding.is_empty() => {
            Err(invalid("it returns no tokens for text".to_owned()))
        }
        Ok(_) => {
            let tokenizer = Arc::new(tokenizer);
            Ok(Vocabulary::File(Loaded { tokenizer, sha256: sha256(bytes) }))
        }
        Err(error) => Err(invalid(error.to_string())),
    }
}
