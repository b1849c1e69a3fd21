//! Text to token counts.
//!
//! Special tokens are never added: a count is that of the text alone
//! (`add_special_tokens=false`).

mod hub;

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

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

/// A tokenizer that cannot be had.
#[derive(Debug, Error)]
pub enum TokenizerError {
    /// No `tokenizer.json` at the path.
    #[error(
        "no tokenizer at `{0}`: give a tokenizer.json, a directory that holds one, or `builtin`"
    )]
    Missing(PathBuf),
    /// The file cannot be read or is no tokenizer.
    #[error("`{path}` is no tokenizer that can be used: {reason}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Not in the cache, and the environment forbids downloads.
    #[error(
        "tokenizer `{0}` is not in the local hub cache and {1} forbids to download it; \
         give a local directory or `builtin` to --tokenizer, or unset {1}"
    )]
    Offline(String, &'static str),
    /// The download failed.
    #[error(
        "tokenizer `{name}` cannot be downloaded: {reason}; \
         give a local directory or `builtin` to --tokenizer"
    )]
    Download {
        /// As in `org/name`.
        name: String,
        /// What went wrong.
        reason: String,
    },
}

/// Counts tokens. Shared between threads.
pub struct TokenCounter(Vocabulary);

enum Vocabulary {
    Builtin(&'static bpe_openai::Tokenizer),
    Loaded(Box<tokenizers::Tokenizer>),
}

impl fmt::Debug for TokenCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Vocabulary::Builtin(_) => "TokenCounter(builtin)",
            Vocabulary::Loaded(_) => "TokenCounter(loaded)",
        })
    }
}

impl TokenCounter {
    /// Loads the tokenizer that `source` names. `environment` looks up the
    /// hub's variables: `HF_HUB_CACHE`, `HF_HOME`, `HF_ENDPOINT`, `HF_TOKEN`,
    /// `HF_HUB_OFFLINE`, `TRANSFORMERS_OFFLINE`, `XDG_CACHE_HOME`, `HOME`.
    pub fn load(
        source: &Source,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, TokenizerError> {
        match source {
            Source::Builtin => Ok(Self::builtin()),
            Source::Path(path) => Self::open(path),
            Source::Hub { name, revision } => {
                Self::open(&hub::tokenizer_file(name, revision, environment)?)
            }
        }
    }

    /// The embedded o200k vocabulary.
    #[must_use]
    pub fn builtin() -> Self {
        Self(Vocabulary::Builtin(bpe_openai::o200k_base()))
    }

    fn open(path: &Path) -> Result<Self, TokenizerError> {
        let file = if path.is_dir() { path.join("tokenizer.json") } else { path.to_owned() };
        if !file.is_file() {
            return Err(TokenizerError::Missing(path.to_owned()));
        }
        let invalid = |reason: String| TokenizerError::Invalid { path: file.clone(), reason };
        let mut tokenizer =
            tokenizers::Tokenizer::from_file(&file).map_err(|e| invalid(e.to_string()))?;
        // The file may ask for padding or truncation, which would falsify counts.
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|e| invalid(e.to_string()))?;
        Ok(Self(Vocabulary::Loaded(Box::new(tokenizer))))
    }

    /// Tokens of `text`.
    #[must_use]
    pub fn count(&self, text: &str) -> u64 {
        match &self.0 {
            Vocabulary::Builtin(tokenizer) => tokenizer.count(text) as u64,
            Vocabulary::Loaded(_) => self.encode(text).len() as u64,
        }
    }

    /// The tokens of `text`; none where the tokenizer cannot encode it.
    #[must_use]
    pub fn encode(&self, text: &str) -> Vec<u32> {
        match &self.0 {
            Vocabulary::Builtin(tokenizer) => tokenizer.encode(text),
            Vocabulary::Loaded(tokenizer) => tokenizer
                .encode_fast(text, false)
                .map(|tokens| tokens.get_ids().to_vec())
                .unwrap_or_default(),
        }
    }

    /// The text of `tokens`; bytes that are no UTF-8 become replacement characters.
    #[must_use]
    pub fn decode(&self, tokens: &[u32]) -> String {
        match &self.0 {
            Vocabulary::Builtin(tokenizer) => tokenizer.decode(tokens).unwrap_or_default(),
            Vocabulary::Loaded(tokenizer) => tokenizer.decode(tokens, false).unwrap_or_default(),
        }
    }
}

/// Whether `name`'s tokenizer is in the local hub cache.
#[must_use]
pub fn is_cached(name: &str, revision: &str, environment: &dyn Fn(&str) -> Option<String>) -> bool {
    hub::cached_file(name, revision, environment).is_some()
}

#[cfg(test)]
mod tests;
