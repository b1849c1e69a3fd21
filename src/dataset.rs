//! What is asked: conversations, synthetic or from files.

mod corpus;
mod inputs_json;
mod jsonl;
mod load;
mod sampler;
pub mod seed;
mod sequence;
mod share_gpt;
mod synthetic;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::Rng;
use rand_distr::{Distribution, Normal};
use thiserror::Error;

use crate::units::Nanos;

pub use sampler::Sampler;
pub use sequence::SequenceDistribution;

/// A dataset that cannot be had.
#[derive(Debug, Error)]
pub enum DatasetError {
    /// The file cannot be read.
    #[error("dataset `{path}` cannot be read: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// A line is not what the format says.
    #[error("dataset `{path}`, line {line}: {reason}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The file as a whole is not what the format says.
    #[error("dataset `{path}`: {reason}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nothing to ask.
    #[error(
        "the dataset has no conversation; give a file with at least one, or more --num-dataset-entries"
    )]
    Empty,
    /// `--seq-dist` cannot be read.
    #[error("--seq-dist `{0}`: {1}; give it as `isl|stddev,osl|stddev:probability;…`")]
    SequenceDistribution(String, String),
}

impl DatasetError {
    fn read(path: &Path, error: &io::Error) -> Self {
        Self::Read { path: path.to_owned(), reason: error.to_string() }
    }

    fn line(path: &Path, line: usize, reason: String) -> Self {
        Self::Line { path: path.to_owned(), line, reason }
    }
}

/// Where conversations come from and how they are drawn.
#[derive(Debug, Clone)]
pub struct Config {
    /// Generated, or read from a file.
    pub source: Source,
    /// Models to ask, at least one.
    pub models: Vec<String>,
    /// How a turn gets its model.
    pub model_selection: ModelSelection,
    /// Order in which sessions draw conversations; `None` is the source's own
    /// (sequential).
    pub sampling: Option<Sampling>,
    /// Requested output tokens for turns whose file says nothing: mean and stddev.
    pub output_tokens: Option<Spread>,
    /// Seed of every random choice; `None` draws one.
    pub random_seed: Option<u64>,
}

/// The kinds of dataset.
#[derive(Debug, Clone)]
pub enum Source {
    /// Generated from the embedded corpus.
    Synthetic(Synthetic),
    /// Read from a file; `None` finds the format out from the content.
    File {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: Option<FileFormat>,
    },
}

/// Formats of dataset files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// JSONL, one request a line.
    SingleTurn,
    /// JSONL, one conversation a line.
    MultiTurn,
    /// `inputs.json` of an earlier run: bodies sent as they are.
    InputsJson,
    /// The ShareGPT JSON array.
    ShareGpt,
}

/// A normal distribution, clipped to at least one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Its mean.
    pub mean: f64,
    /// Its standard deviation.
    pub stddev: f64,
}

impl Spread {
    /// Always one.
    pub const ONE: Self = Self { mean: 1.0, stddev: 0.0 };

    /// Draws a value.
    fn sample(&self, rng: &mut impl Rng) -> f64 {
        Normal::new(self.mean, self.stddev).map_or(self.mean, |normal| normal.sample(rng))
    }

    /// Draws a whole number of at least one.
    fn draw(&self, rng: &mut impl Rng) -> u64 {
        self.sample(rng).round().max(1.0) as u64
    }
}

/// What generated conversations look like.
#[derive(Debug, Clone)]
pub struct Synthetic {
    /// Conversations to generate.
    pub entries: usize,
    /// Input tokens of a turn.
    pub input_tokens: Spread,
    /// Pairs of input and output length with their probability
    /// (`--seq-dist "isl|sd,osl|sd:prob;…"`); overrides the two spreads.
    pub sequence_distribution: Option<String>,
    /// Texts in one request (`--batch-size`).
    pub batch_size: usize,
    /// Turns of a conversation.
    pub turns: Spread,
    /// Wait before each later turn, in milliseconds.
    pub turn_delay_ms: Spread,
    /// Factor on every delay.
    pub delay_ratio: f64,
    /// Prefix prompts: how many distinct ones.
    pub prefix_pool_size: usize,
    /// Prefix prompts: tokens of each.
    pub prefix_length: usize,
    /// Tokens of one system prompt that all conversations share.
    pub shared_system_prompt_length: Option<usize>,
    /// Tokens of a context message of each conversation's own.
    pub user_context_prompt_length: Option<usize>,
    /// System prompt given word for word.
    pub system_prompt: Option<String>,
}

/// How a turn gets its model where there are several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ModelSelection {
    /// In turn.
    #[default]
    RoundRobin,
    /// At random.
    Random,
}

/// Order in which sessions draw conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// In the file's order, again and again.
    Sequential,
    /// Every conversation once in random order, then anew.
    Shuffle,
    /// Each time any.
    Random,
}

/// Conversations a run draws from.
#[derive(Debug, Clone, Default)]
pub struct Dataset {
    /// The conversations, in the order of the file or of their generation.
    pub conversations: Vec<Conversation>,
}

/// One conversation: turns that are asked one after the other.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    /// Identifier: the file's, or a generated one that depends on the seed.
    pub id: Arc<str>,
    /// System message that opens every request of the conversation.
    pub system: Option<Arc<str>>,
    /// Message that stands after the system message in every request, before
    /// the turns (`--user-context-prompt-length`).
    pub user_context: Option<Arc<str>>,
    /// Tokens of `system` and `user_context` together; absent where the
    /// endpoint does not tokenise its input.
    pub context_tokens: Option<u64>,
    /// The turns, at least one.
    pub turns: Vec<Turn>,
}

/// One request to be made.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// Model to ask.
    pub model: Arc<str>,
    /// Role of the message; `user` where the file says nothing.
    pub role: Option<Arc<str>>,
    /// Texts: one, or a batch (`--batch-size`).
    pub texts: Vec<Arc<str>>,
    /// Requested output tokens.
    pub max_tokens: Option<u32>,
    /// Wait between the previous turn's end and this one.
    pub delay: Nanos,
    /// Body to send as it is (`inputs_json`), instead of one built from the texts.
    pub raw_payload: Option<Arc<serde_json::value::RawValue>>,
    /// Tokens of this turn's own texts (with `add_special_tokens=false`);
    /// absent where the endpoint does not tokenise or the payload is raw.
    pub input_tokens: Option<u64>,
}
