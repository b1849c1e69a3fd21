//! The settings of a dataset: where its parts come from, and how prompts are generated.

use std::path::PathBuf;

use serde::Serialize;

use base::setting::{self, named};

use super::{
    AudioNoise, CacheBust, Corpus, FileFormat, HubDataset, ImageNoise, Length, Part, Pictures,
    RandomRange, RecordedLengths, SequenceDistribution, VideoClip,
};

/// The parts of the dataset, and what they have in common.
#[derive(Debug, Clone, Serialize)]
pub struct Config {
    /// The parts, at least one. Each phase draws from one of them.
    pub parts: Vec<Part>,
    /// Models to request, at least one.
    pub models: Vec<String>,
    /// How models are assigned to turns.
    pub model_selection: ModelSelection,
    /// The weight of each model, if they are drawn by weight (`--model-weights`).
    pub model_weights: Vec<f64>,
    /// LoRA adapters to request instead of the model, one for each conversation
    /// (`--lora-modules`).
    pub lora_modules: Vec<String>,
    /// Where prompts have a marker against prefix caches.
    pub cache_bust: CacheBust,
    /// Whether an image is sent only once in each session, and later only its UUID
    /// (`--uuid-and-strip`).
    pub strips_repeated_images: bool,
    /// Seed of all random choices; `None` draws one.
    pub random_seed: Option<u64>,
    /// Seed of the system prompts and prefixes that the runs of a command have in common; `None` is
    /// `random_seed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_seed: Option<u64>,
}

/// Kinds of datasets.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Generated from a corpus.
    Synthetic(Synthetic),
    /// Generated from a corpus: a query and passages per request.
    Rankings(Rankings),
    /// Read from a file.
    File {
        /// The file.
        #[serde(serialize_with = "setting::path")]
        path: PathBuf,
        /// Format of the file; `None` detects it from the content.
        format: Option<FileFormat>,
        /// How prompts are generated if the file is a trace.
        traces: TraceSettings,
        /// Number of requests to draw from pools: from a directory, or in batches.
        entries: usize,
        /// Number of texts that a request has of the pool in a `random_pool` file
        /// (`--batch-size`); with 1, requests are lines of the file.
        batch_size: usize,
    },
    /// Read from the Hugging Face hub.
    Hub(HubDataset),
}

/// How prompts are generated for a trace, which has lengths instead of texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct TraceSettings {
    /// Tokens of the block that a hash ID stands for; `None` is the default of the format.
    pub block_tokens: Option<u32>,
    /// Maximum prompt length in tokens; requests with longer prompts are left out.
    pub max_input_tokens: Option<u32>,
    /// Upper limit of the requested output tokens.
    pub max_output_tokens: Option<u32>,
    /// How the trace is changed.
    pub synthesis: Synthesis,
    /// Share of the conversations to use, above 0 and up to 1, drawn at random; `None` is all.
    pub session_sample_ratio: Option<f64>,
    /// Maximum input and output tokens of a request; conversations with a longer one are left out.
    pub max_context_tokens: Option<u32>,
    /// Whether delays of agents are the recorded think times where there are any.
    pub uses_think_time: bool,
    /// Whether requests ask for as many output tokens at least as at most (`min_tokens`); `None` is
    /// only those of a `baseten_trace`.
    pub force_min_tokens: Option<bool>,
    /// Whether the hashes of a `baseten_trace` are not sent, from which a router knows what is in the caches of
    /// servers.
    pub omits_kv_hints: bool,
    /// The column with the sessions of a `baseten_trace`.
    #[serde(skip)]
    pub session_column: SessionColumn,
    /// Shortest call of a tool that is taken for the start of a sub-agent, in milliseconds, in a
    /// `tracelab`; `None` is 10 seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_spawn_millis: Option<u64>,
    /// Maximum number of conversations of a trace of agents; the others are not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<usize>,
    /// The corpus of the prompts; `None` is code for traces of agents, and otherwise prose.
    pub corpus: Option<Corpus>,
    /// Which responses later requests of a conversation repeat, if the trace has them; `None` is
    /// those of the run.
    pub replay_outputs: Option<ReplayOutputs>,
    /// Whether recorded responses are repeated unless `replay_outputs` is set otherwise, in a trace of any
    /// format.
    #[serde(skip)]
    pub prefers_recorded: bool,
}

/// The column with the sessions of a `baseten_trace`, if it has both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SessionColumn {
    /// `provided_session_id`: the one that clients gave.
    #[default]
    Provided,
    /// `poor_man_session_id`: the one that was derived from the prompts.
    Derived,
}

named! {
    SessionColumn { "provided_session_id" => Provided, "poor_man_session_id" => Derived }
}

/// Which responses later requests of a recorded conversation repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayOutputs {
    /// Those that the server gives in the run.
    Live,
    /// Those that were recorded.
    Recorded,
}

named! { ReplayOutputs { "live" => Live, "recorded" => Recorded } }

/// Factors by which a trace is changed; 1 leaves it as it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Synthesis {
    /// Divisor of the timestamps.
    pub speedup_ratio: f64,
    /// Factor of the length of the prefix that a prompt shares with others.
    pub prefix_len_multiplier: f64,
    /// Number of copies of the prefixes, among which sessions are distributed.
    pub prefix_root_multiplier: u32,
    /// Factor of the length of the rest of a prompt.
    pub prompt_len_multiplier: f64,
    /// Factor of the requested output tokens.
    pub output_len_multiplier: f64,
}

impl Default for Synthesis {
    fn default() -> Self {
        Self {
            speedup_ratio: 1.0,
            prefix_len_multiplier: 1.0,
            prefix_root_multiplier: 1,
            prompt_len_multiplier: 1.0,
            output_len_multiplier: 1.0,
        }
    }
}

impl Synthesis {
    /// Returns whether prompts are changed.
    pub(super) const fn changes_prompts(&self) -> bool {
        self.prefix_len_multiplier != 1.0
            || self.prefix_root_multiplier != 1
            || self.prompt_len_multiplier != 1.0
    }
}

/// A normal distribution; drawn counts are at least one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct NormalDistribution {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub stddev: f64,
}

/// Settings of generated conversations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Synthetic {
    /// Number of conversations to generate.
    pub entries: usize,
    /// Input tokens per turn.
    pub input_tokens: Length,
    /// Spearman's rank correlation of the input tokens and the requested output tokens
    /// (`--length-correlation`); `None` draws them independently.
    pub length_correlation: Option<f64>,
    /// Recorded lengths, of which pairs are drawn (`--lengths-from`). They override the
    /// distributions.
    pub recorded_lengths: Option<Box<RecordedLengths>>,
    /// Pairs of input and output length with their probability
    /// (`--seq-dist "isl|sd,osl|sd:prob;…"`). It overrides the two distributions.
    pub sequence_distribution: Option<SequenceDistribution>,
    /// Ranges of the input and output length. They override the distributions.
    pub range: Option<RandomRange>,
    /// The corpus of the prompts.
    pub corpus: Corpus,
    /// Number of texts in a request (`--batch-size`).
    pub batch_size: usize,
    /// Whether prompts are sent as token IDs (`--prompt-token-ids`).
    pub sends_token_ids: bool,
    /// Number of turns of a conversation.
    pub turns: NormalDistribution,
    /// Delay before each later turn, in milliseconds.
    pub turn_delay_ms: NormalDistribution,
    /// Number of distinct prefix prompts.
    pub prefix_pool_size: usize,
    /// Tokens of each prefix prompt.
    pub prefix_length: usize,
    /// Tokens of a system prompt that all conversations share.
    pub shared_system_prompt_length: Option<usize>,
    /// Tokens of a context message, which differs between conversations.
    pub user_context_prompt_length: Option<usize>,
    /// Literal system prompt.
    pub system_prompt: Option<String>,
    /// Images of noise per turn.
    pub images: Option<ImageNoise>,
    /// Pictures per turn, from a directory.
    pub pictures: Option<Box<Pictures>>,
    /// Audio per turn.
    pub audio: Option<AudioNoise>,
    /// Videos per turn.
    pub video: Option<VideoClip>,
}

/// Settings of generated rankings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rankings {
    /// Number of requests to generate.
    pub entries: usize,
    /// Number of passages in a request.
    pub passages: NormalDistribution,
    pub passage_tokens: NormalDistribution,
    pub query_tokens: NormalDistribution,
    /// The corpus of the texts.
    pub corpus: Corpus,
}

/// How models are assigned to turns if there are several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ModelSelection {
    /// One after the other.
    #[default]
    RoundRobin,
    /// At random.
    Random,
    /// At random, in proportion to their weights.
    Weighted,
}

named! {
    ModelSelection { "round_robin" => RoundRobin, "random" => Random, "weighted" => Weighted }
}

/// Order in which sessions draw conversations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sampling {
    /// In the order of the file, repeatedly.
    #[default]
    Sequential,
    /// Every conversation once in random order, then in a new order.
    Shuffle,
    /// Independently at random.
    Random,
}

named! { Sampling { "sequential" => Sequential, "shuffle" => Shuffle, "random" => Random } }

impl Config {
    /// Creates the settings of `source` without any that change what it has, for `models` in turn.
    #[must_use]
    pub fn new(source: Source, models: Vec<String>) -> Self {
        Self {
            parts: vec![source.into()],
            models,
            model_selection: ModelSelection::RoundRobin,
            model_weights: Vec::new(),
            lora_modules: Vec::new(),
            cache_bust: CacheBust::None,
            strips_repeated_images: false,
            random_seed: None,
            shared_seed: None,
        }
    }

    /// Returns the names that requests have as their model, unless the file has others: the LoRA
    /// adapters, or else the models.
    #[must_use]
    pub fn requested_models(&self) -> &[String] {
        if self.lora_modules.is_empty() { &self.models } else { &self.lora_modules }
    }
}

impl Synthetic {
    /// Returns whether input and output lengths are drawn independently of each other.
    #[must_use]
    pub const fn has_independent_lengths(&self) -> bool {
        self.sequence_distribution.is_none() && self.recorded_lengths.is_none()
    }
}

impl Source {
    /// Returns whether the conversations are read, and not generated.
    #[must_use]
    pub const fn is_read(&self) -> bool {
        matches!(self, Self::File { .. } | Self::Hub(_))
    }
}
