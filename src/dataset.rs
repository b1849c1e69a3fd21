//! What is asked: conversations, synthetic or from files.
//!
//! A dataset is complete before the first request: every text, model, requested
//! length and token count is known, and all of it follows from the
//! configuration and the seed.

mod file;
mod finish;
mod lengths;
mod media;
mod payload;
mod prompts;
mod rankings;
mod sampler;
pub mod seed;
mod size;
mod synthetic;
mod text;
mod words;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

pub use self::lengths::{SequenceDistribution, SequencePair};
pub use self::media::{
    AudioFormat, AudioNoise, ImageFormat, ImageNoise, Inline, Media, MediaContent, MediaKinds,
    Scene, SoundCodec, VideoClip, VideoFormat, VideoSound, audio_seconds,
};
pub use self::payload::tokens_sent;
pub use self::sampler::Sampler;
pub use self::seed::Seed;
pub use self::text::Text;
use crate::tokenizer::TokenCounter;
use crate::units::Nanos;

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
    /// Factor on every turn's delay.
    pub delay_ratio: f64,
    /// Seed of every random choice; `None` draws one.
    pub random_seed: Option<u64>,
}

/// The kinds of dataset.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a run has one of them")]
pub enum Source {
    /// Generated from the embedded corpus.
    Synthetic(Synthetic),
    /// A query and passages each, generated from the same corpus.
    Rankings(Rankings),
    /// Read from a file; `None` finds the format out from the content.
    File {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: Option<FileFormat>,
        /// How prompts are made of it, if it is a trace.
        traces: TraceSettings,
    },
}

/// Formats of dataset files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// JSONL, one request a line.
    SingleTurn,
    /// JSONL, one conversation a line.
    MultiTurn,
    /// JSONL, one request a line, drawn at random.
    RandomPool,
    /// JSONL, one body a line, sent as it is.
    RawPayload,
    /// `inputs.json` of an earlier run: bodies sent as they are.
    InputsJson,
    /// The ShareGPT JSON array.
    ShareGpt,
    /// JSONL, one request a line: lengths, or prompts, and when it was made.
    MooncakeTrace,
    /// JSONL, one request a line, linked to the one before it.
    BailianTrace,
    /// CSV, one request a line.
    BurstGptTrace,
}

/// How prompts are made of a trace, which has lengths instead of texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TraceSettings {
    /// Tokens of the block that a hash id stands for; `None` is the format's own.
    pub block_tokens: Option<u32>,
    /// Requests with longer prompts are left out.
    pub max_input_tokens: Option<u32>,
    /// No more output tokens are asked for.
    pub max_output_tokens: Option<u32>,
}

/// A normal distribution, clipped to at least one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Its mean.
    pub mean: f64,
    /// Its standard deviation.
    pub stddev: f64,
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
    /// Images of each turn.
    pub images: Option<ImageNoise>,
    /// Sound of each turn.
    pub audio: Option<AudioNoise>,
    /// Videos of each turn.
    pub video: Option<VideoClip>,
}

/// What generated rankings look like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rankings {
    /// Requests to generate.
    pub entries: usize,
    /// Passages of a request.
    pub passages: Spread,
    /// Tokens of a passage.
    pub passage_tokens: Spread,
    /// Tokens of the query.
    pub query_tokens: Spread,
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
    /// Whether each turn bears its whole history: earlier turns and answers are
    /// not repeated before it.
    pub standalone_turns: bool,
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
    pub texts: Vec<Text>,
    /// Images, audio and video beside the texts.
    pub media: Vec<Media>,
    /// Messages of a chat to send as they are (a JSON array), instead of those
    /// made of the texts.
    pub messages: Option<Arc<serde_json::value::RawValue>>,
    /// Requested output tokens.
    pub max_tokens: Option<u32>,
    /// When a trace wants it sent, on the trace's own time axis.
    pub timestamp: Option<Nanos>,
    /// Wait between the previous turn's end and this one.
    pub delay: Nanos,
    /// Body to send as it is (`inputs_json`), instead of one built from the texts.
    pub raw_payload: Option<Arc<serde_json::value::RawValue>>,
    /// Tokens of this turn's own texts (with `add_special_tokens=false`), or of
    /// all texts of a raw payload; absent where the endpoint does not tokenise
    /// or a raw payload has no text.
    pub input_tokens: Option<u64>,
}

impl Dataset {
    /// Generates or reads the conversations that `config` describes.
    ///
    /// `counter` makes the prompts and counts them; `tokenizes_input` says
    /// whether the endpoint's input is text, whose tokens are worth counting.
    pub fn load(
        config: &Config,
        counter: &TokenCounter,
        tokenizes_input: bool,
    ) -> Result<Self, DatasetError> {
        let seed = Seed::or_random(config.random_seed);
        let mut conversations = match &config.source {
            Source::Synthetic(synthetic) => synthetic::generate(synthetic, counter, seed)?,
            Source::Rankings(rankings) => rankings::generate(rankings, counter, seed)?,
            Source::File { path, format, traces } => {
                file::read(path, *format, traces, counter, seed)?
            }
        };
        finish::fill_ids(&mut conversations, seed);
        finish::assign_models(&mut conversations, config, seed)?;
        finish::fill_output_tokens(&mut conversations, config.output_tokens, seed)?;
        finish::scale_delays(&mut conversations, config.delay_ratio)?;
        if tokenizes_input {
            finish::count_tokens(&mut conversations, counter);
        } else {
            finish::forget_tokens(&mut conversations);
        }
        Ok(Self { conversations })
    }

    /// Bytes of all texts.
    #[must_use]
    pub fn text_bytes(&self) -> u64 {
        self.turns().flat_map(|turn| &turn.texts).map(|text| text.bytes() as u64).sum()
    }

    /// Whether a turn brings messages of a chat instead of a text.
    #[must_use]
    pub fn bears_messages(&self) -> bool {
        self.turns().any(|turn| turn.messages.is_some())
    }

    /// The models that turns ask, each once, in the order of their first turns.
    pub fn models(&self) -> impl Iterator<Item = Arc<str>> {
        let mut seen = HashSet::new();
        self.turns().map(|turn| &turn.model).filter(move |model| seen.insert(*model)).cloned()
    }

    fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.conversations.iter().flat_map(|conversation| &conversation.turns)
    }
}

/// Why there is no dataset.
#[derive(Debug, Error)]
pub enum DatasetError {
    /// The file cannot be read.
    #[error("cannot read dataset {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Something in the file is not as its format has it.
    #[error("{path}, line {line}: {reason}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// An entry of the document is not as the format has it.
    #[error("{path}, entry {entry}: {reason}")]
    Entry {
        /// The file.
        path: PathBuf,
        /// Its place in the document's array, from 1.
        entry: usize,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// The content does not look like any format.
    #[error(
        "cannot tell the format of {path}: its first line has none of the members `text`, \
         `texts`, `turns`, `image`, `audio`, `video`, `data`, `input_length`, `text_input`, \
         `messages` and `chat_id`, and it is no header of BurstGPT; see --custom-dataset-type"
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// The file has no conversation to offer.
    #[error("{path} holds no conversation that can be asked{note}")]
    Empty {
        /// The file.
        path: PathBuf,
        /// What was skipped, if anything was.
        note: String,
    },
    /// Media that no encoder made.
    #[error("cannot make {what}: {reason}")]
    Encode {
        /// What was to be made.
        what: String,
        /// What the encoder did.
        reason: String,
    },
    /// A setting that no dataset can be made from.
    #[error("{flag}: {reason}")]
    Setting {
        /// The flag that sets it.
        flag: &'static str,
        /// What is wrong, and what would be right.
        reason: String,
    },
}
