//! The dataset: conversations, generated or read from files.
//!
//! Every text, model, requested output length and token count follows from the configuration and the seed.
//! What is read is complete before the first request. Generated conversations follow from their numbers, so
//! that more of them are made while a run goes on that needs more.

mod account;
pub(crate) mod agentic_code;
pub(crate) mod anonymous;
mod cache_bust;
mod check;
mod corpus;
mod dialog;
pub(crate) mod file;
mod finish;
mod forks;
pub(crate) mod growth;
mod hub;
pub(crate) mod known_prefixes;
mod lengths;
mod media;
mod parts;
mod payload;
pub(crate) mod preview;
mod prompts;
mod rankings;
mod rows;
mod said;
mod sampler;
pub mod seed;
mod size;
mod synthetic;
mod tenants;
mod text;
mod trees;
mod words;

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

pub(crate) use self::account::SentCounter;
pub use self::account::{Account, Conversations, LeftOut, Pool, Sent};
pub use self::cache_bust::CacheBust;
pub use self::corpus::Corpus;
pub(crate) use self::dialog::Message;
pub use self::dialog::Prompt;
pub(crate) use self::file::{
    Sessions, TraceAnalysis, Tree, analyze as analyze_trace, inline, read_recorded,
};
pub(crate) use self::finish::conversation_id;
pub use self::forks::Inherited;
pub use self::growth::Grown;
pub use self::hub::{HubDataset, PUBLIC, Public};
pub(crate) use self::lengths::LengthPreset;
pub use self::lengths::{Length, RandomRange, RangeStyle, RecordedLengths, SequenceDistribution};
pub(crate) use self::media::{
    AudioFormat, AudioNoise, ImageFormat, ImageNoise, ImageShape, Inline, MAX_FILE_BYTES,
    MAX_TOTAL_BYTES, PictureSampling, Pictures, Scene, SoundCodec, VideoClip, VideoFormat,
    VideoSound,
};
pub use self::media::{Media, MediaContent, MediaKinds, audio_seconds};
pub use self::parts::Part;
pub(crate) use self::payload::{prompt_bytes, tokens_sent};
pub use self::sampler::Sampler;
pub(crate) use self::seed::Seed;
pub use self::tenants::TenantLengths;
pub use self::text::Text;
use crate::setting::{self, InvalidSetting, named};
use crate::units::Nanos;
use serde::Serialize;

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

/// Formats of dataset files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// JSONL with one request per line.
    SingleTurn,
    /// JSONL with one conversation per line.
    MultiTurn,
    /// JSONL with one request per line, drawn at random.
    RandomPool,
    /// JSONL with one body per line, sent unchanged.
    RawPayload,
    /// JSONL of OpenAI's Batch API, whose bodies are sent unchanged.
    OpenAiBatch,
    /// `inputs.json` of an earlier run, whose bodies are sent unchanged.
    InputsJson,
    /// JSON array of ShareGPT conversations.
    ShareGpt,
    /// JSONL with one request per line: lengths or prompts, and the time of the request.
    MooncakeTrace,
    /// JSONL with one request per line, linked to the request before it.
    BailianTrace,
    /// CSV with one request per line.
    BurstGptTrace,
    /// JSONL with one conversation per line, whose turns may start others.
    DagJsonl,
    /// JSON documents with the requests of an agent and of its sub-agents.
    WekaTrace,
    /// JSONL with one request of an agent per line.
    TraceLab,
    /// JSONL with one session of an agent per line, with its messages.
    Exgentic,
    /// A table with one request per row, with its prompt.
    BasetenTrace,
    /// JSONL with one request per line, captured by an Amazon `SageMaker` endpoint.
    SageMakerDataCapture,
    /// OpenTelemetry traces of requests to models.
    Otel,
    /// JSONL with one question per line: a part of SPEED-Bench, or a category of it.
    SpeedBench(&'static str),
}

named! {
    FileFormat {
        "single_turn" => SingleTurn,
        "multi_turn" => MultiTurn,
        "random_pool" => RandomPool,
        "raw_payload" => RawPayload,
        "openai_batch" => OpenAiBatch,
        "inputs_json" => InputsJson,
        "sharegpt" => ShareGpt,
        "mooncake_trace" => MooncakeTrace,
        "bailian_trace" => BailianTrace,
        "burst_gpt_trace" => BurstGptTrace,
        "dag_jsonl" => DagJsonl,
        "weka_trace" => WekaTrace,
        "tracelab" => TraceLab,
        "exgentic" => Exgentic,
        "baseten_trace" => BasetenTrace,
        "sagemaker_data_capture" => SageMakerDataCapture,
        "otel" => Otel,
        "speed_bench_qualitative" => SpeedBench("qualitative"),
        "speed_bench_coding" => SpeedBench("coding"),
        "speed_bench_humanities" => SpeedBench("humanities"),
        "speed_bench_math" => SpeedBench("math"),
        "speed_bench_multilingual" => SpeedBench("multilingual"),
        "speed_bench_qa" => SpeedBench("qa"),
        "speed_bench_rag" => SpeedBench("rag"),
        "speed_bench_reasoning" => SpeedBench("reasoning"),
        "speed_bench_roleplay" => SpeedBench("roleplay"),
        "speed_bench_stem" => SpeedBench("stem"),
        "speed_bench_summarization" => SpeedBench("summarization"),
        "speed_bench_writing" => SpeedBench("writing"),
        "speed_bench_throughput_1k" => SpeedBench("throughput_1k"),
        "speed_bench_throughput_1k_low_entropy" => SpeedBench("throughput_1k_low_entropy"),
        "speed_bench_throughput_1k_mixed" => SpeedBench("throughput_1k_mixed"),
        "speed_bench_throughput_1k_high_entropy" => SpeedBench("throughput_1k_high_entropy"),
        "speed_bench_throughput_2k" => SpeedBench("throughput_2k"),
        "speed_bench_throughput_2k_low_entropy" => SpeedBench("throughput_2k_low_entropy"),
        "speed_bench_throughput_2k_mixed" => SpeedBench("throughput_2k_mixed"),
        "speed_bench_throughput_2k_high_entropy" => SpeedBench("throughput_2k_high_entropy"),
        "speed_bench_throughput_8k" => SpeedBench("throughput_8k"),
        "speed_bench_throughput_8k_low_entropy" => SpeedBench("throughput_8k_low_entropy"),
        "speed_bench_throughput_8k_mixed" => SpeedBench("throughput_8k_mixed"),
        "speed_bench_throughput_8k_high_entropy" => SpeedBench("throughput_8k_high_entropy"),
        "speed_bench_throughput_16k" => SpeedBench("throughput_16k"),
        "speed_bench_throughput_16k_low_entropy" => SpeedBench("throughput_16k_low_entropy"),
        "speed_bench_throughput_16k_mixed" => SpeedBench("throughput_16k_mixed"),
        "speed_bench_throughput_16k_high_entropy" => SpeedBench("throughput_16k_high_entropy"),
        "speed_bench_throughput_32k" => SpeedBench("throughput_32k"),
        "speed_bench_throughput_32k_low_entropy" => SpeedBench("throughput_32k_low_entropy"),
        "speed_bench_throughput_32k_mixed" => SpeedBench("throughput_32k_mixed"),
        "speed_bench_throughput_32k_high_entropy" => SpeedBench("throughput_32k_high_entropy"),
    }
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
    /// Whether the hashes of a `baseten_trace` are not sent, which tell a router what is in the caches of
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
    /// What the prompts are made from; `None` is code for traces of agents, and otherwise prose.
    pub corpus: Option<Corpus>,
    /// Which responses later requests of a conversation repeat, if the trace has them; `None` is
    /// those of the run.
    pub replay_outputs: Option<ReplayOutputs>,
    /// Whether recorded responses are repeated unless `replay_outputs` says otherwise, in a trace of any
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
    const fn changes_prompts(&self) -> bool {
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
    /// What the prompts are made from.
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
    pub(crate) entries: usize,
    /// Number of passages in a request.
    pub(crate) passages: NormalDistribution,
    pub(crate) passage_tokens: NormalDistribution,
    pub(crate) query_tokens: NormalDistribution,
    /// What the texts are made from.
    pub(crate) corpus: Corpus,
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

/// The conversations of a run.
#[derive(Debug, Clone, Default)]
pub struct Dataset {
    /// The conversations of all parts, in the order of the file or of generation.
    pub conversations: Conversations,
    /// The places of the conversations of each part.
    parts: Vec<Range<usize>>,
    /// What makes more conversations while the run goes on, if anything does.
    pub(crate) growth: Option<Arc<growth::Growth>>,
}

/// One conversation: turns that are sent one after the other.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    /// Identifier from the file, or one generated from the conversation's index.
    pub id: Arc<str>,
    /// System message at the start of every request of the conversation.
    pub system: Option<Arc<str>>,
    /// Message after the system message and before the turns in every request
    /// (`--user-context-prompt-length`).
    pub user_context: Option<Arc<str>>,
    /// Tokens of `system` and `user_context` together; absent if the endpoint does not tokenise its
    /// input.
    pub context_tokens: Option<u64>,
    /// Whether each turn contains its whole history. If it does, earlier turns and responses are
    /// not repeated before it.
    pub standalone_turns: bool,
    /// Turns before `turns` that it shares with the conversation that it continues.
    pub inherited: Option<Inherited>,
    /// The turns after these, at least one.
    pub turns: Vec<Turn>,
    /// Number of first turns of all that another conversation has sent, whose messages and responses
    /// this one continues.
    pub inherited_turns: usize,
    /// Conversations that this one starts.
    pub branches: Vec<Branch>,
    /// Whether the delay of a turn passes while the branches that it waits for run; otherwise it
    /// begins once they have ended.
    pub waits_beside_branches: bool,
    /// Whether only other conversations start this one. Such conversations are the last of their
    /// part of the dataset.
    pub is_child: bool,
}

/// A conversation that another one starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// Index of the conversation in the dataset.
    pub conversation: usize,
    /// The turn of the other conversation after which it starts; `None` before the first turn.
    pub after: Option<usize>,
    /// What of that turn starts it.
    pub from: BranchStart,
    /// The turn of the other conversation that waits for its end.
    pub join: Option<usize>,
    /// Whether it continues the messages and responses of the other conversation.
    pub is_fork: bool,
}

/// What of a turn starts a branch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BranchStart {
    /// The end of its response.
    #[default]
    Response,
    /// Its request. A branch that begins with it does not have the response among its messages.
    Issue,
}

/// The times of a recorded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// When it was sent.
    pub start: Nanos,
    /// When its response had arrived.
    pub end: Nanos,
}

/// A turn of another conversation of the same tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Predecessor {
    /// Index of the conversation in the dataset.
    pub conversation: usize,
    /// Index of the turn in it.
    pub turn: usize,
}

/// One turn: the input of a request.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// Model to request.
    pub model: Arc<str>,
    /// Role of the message; `user` if the file has none.
    pub role: Option<Arc<str>>,
    /// One text, or several for a batch (`--batch-size`).
    pub texts: Vec<Text>,
    /// Messages of blocks with the whole history, instead of `texts`.
    pub prompt: Option<Prompt>,
    /// Token IDs to send instead of each of the texts, and of the conversation's system message and
    /// context before it (`--prompt-token-ids`); empty to send texts.
    pub token_ids: Vec<Arc<[u32]>>,
    /// Images, audio and video in addition to the texts.
    pub media: Vec<Media>,
    /// Chat messages to send unchanged (a JSON array), instead of messages with the texts.
    pub messages: Option<Arc<serde_json::value::RawValue>>,
    /// Tools to declare with `messages`, a JSON array that is sent unchanged.
    pub tools: Option<Arc<serde_json::value::RawValue>>,
    /// Further members of the body.
    pub extra: Vec<(String, serde_json::Value)>,
    /// Requested output tokens.
    pub max_tokens: Option<u32>,
    /// Timestamp of the turn, on the time axis of its trace.
    pub timestamp: Option<Nanos>,
    /// Delay between the end of the previous turn and this one.
    pub delay: Nanos,
    /// When it was sent and answered in the recorded run, since the start of its trace.
    pub recorded: Option<Recorded>,
    /// Turns of other conversations of its tree that must have ended before it is sent.
    pub predecessors: Vec<Predecessor>,
    /// Whether the request repeats no earlier turn, and later ones repeat none before it.
    pub starts_anew: bool,
    /// Whether the next turn has the response to this one among its messages, so that the response
    /// of the run is not repeated.
    pub answer_is_recorded: bool,
    /// Body to send unchanged, as in `inputs_json`, instead of one built from the texts.
    pub raw_payload: Option<Arc<serde_json::value::RawValue>>,
    /// Tokens of this turn's own texts (with `add_special_tokens=false`), or of all texts of a raw
    /// payload; absent if the endpoint does not tokenise its input or a raw payload does not
    /// contain text.
    pub input_tokens: Option<u64>,
    /// How many of the first blocks of its prompt earlier requests of its trace have.
    pub known_blocks: Option<KnownBlocks>,
}

/// What a prefix cache that keeps everything would find of a prompt, if the requests of each trace came
/// in the recorded order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownBlocks {
    /// Number of first blocks that earlier requests have.
    pub known: u32,
    /// Number of all blocks.
    pub all: u32,
    /// Number of its tokens when it was recorded.
    pub tokens: u32,
}

/// Most requested output tokens that a response in a history is assumed to have. Logs have greater numbers
/// for requests without a limit.
const MAX_ASSUMED_OUTPUT: u32 = 1 << 20;

impl Turn {
    /// Returns the tokens of the response to it, of which only the requested number is known: none if that
    /// is more than [`MAX_ASSUMED_OUTPUT`].
    pub(crate) fn assumed_output(&self) -> u32 {
        self.max_tokens.filter(|tokens| *tokens <= MAX_ASSUMED_OUTPUT).unwrap_or(0)
    }

    /// Returns the turn with its messages of blocks as one text, for APIs without messages.
    pub(crate) fn as_text(&self) -> Cow<'_, Self> {
        match &self.prompt {
            None => Cow::Borrowed(self),
            Some(prompt) => {
                let texts = vec![prompt.text()];
                Cow::Owned(Self { texts, prompt: None, ..self.clone() })
            }
        }
    }
}

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
    pub(crate) fn requested_models(&self) -> &[String] {
        if self.lora_modules.is_empty() { &self.models } else { &self.lora_modules }
    }
}

impl Synthetic {
    /// Returns whether input and output lengths are drawn independently of each other.
    #[must_use]
    pub(crate) const fn has_independent_lengths(&self) -> bool {
        self.sequence_distribution.is_none() && self.recorded_lengths.is_none()
    }
}

impl Source {
    /// Returns whether the conversations are read, and not generated.
    #[must_use]
    pub(crate) const fn is_read(&self) -> bool {
        matches!(self, Self::File { .. } | Self::Hub(_))
    }
}

impl Dataset {
    /// Returns whether a turn is sent as a body of its own.
    #[must_use]
    pub(crate) fn bears_payloads(&self) -> bool {
        self.turns().any(|turn| turn.raw_payload.is_some())
    }

    /// Returns whether a turn has chat messages instead of a text.
    #[must_use]
    pub(crate) fn bears_messages(&self) -> bool {
        self.turns().any(|turn| turn.messages.is_some())
    }

    /// Returns the models of the turns, each once, in the order of their first turns.
    pub(crate) fn models(&self) -> impl Iterator<Item = Arc<str>> {
        let mut seen = HashSet::new();
        self.turns().map(|turn| &turn.model).filter(move |model| seen.insert(*model)).cloned()
    }

    /// Returns the most turns of a conversation; of one that is made while the run goes on, only whether it may
    /// have several is known.
    #[must_use]
    pub(crate) fn most_turns(&self) -> usize {
        let known = self.conversations.iter().map(Conversation::len).max().unwrap_or(0);
        let grows_longer = self.growth.as_ref().is_some_and(|growth| growth.has_several_turns());
        known.max(1 + usize::from(grows_longer))
    }

    fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.conversations.iter().flat_map(|conversation| &conversation.turns)
    }
}

/// Returns how many `conversations` of a part are drawn by sessions; the others are the last ones.
pub(crate) fn roots(conversations: &[Conversation]) -> usize {
    conversations.partition_point(|conversation| !conversation.is_child)
}

impl Conversation {
    /// Returns whether another conversation continues this one after `turn`.
    pub(crate) fn forks_after(&self, turn: usize) -> bool {
        self.branches.iter().any(|branch| branch.is_fork && branch.after == Some(turn))
    }

    /// Returns whether another conversation continues this one.
    pub(crate) fn has_forks(&self) -> bool {
        self.branches.iter().any(|branch| branch.is_fork)
    }

    /// Returns whether it is the work of an agent: it has several turns, starts other conversations,
    /// or is started by one.
    pub(crate) fn is_agent(&self) -> bool {
        self.len() > 1 || self.is_child || !self.branches.is_empty()
    }

    /// Returns the earlier turns that the request of `turn` repeats.
    pub(crate) fn repeated(&self, turn: usize) -> Range<usize> {
        let from_here = || self.last_turn(turn, |turn| turn.starts_anew);
        let start = if self.standalone_turns { turn } else { from_here().unwrap_or(0) };
        start..turn
    }

    /// Returns a conversation with only the turn `index` and what precedes every turn, without the
    /// earlier turns and their responses.
    #[must_use]
    pub(crate) fn alone(&self, index: usize) -> Self {
        let turns = self.turn(index).cloned().into_iter().collect();
        Self {
            id: Arc::clone(&self.id),
            system: self.system.clone(),
            user_context: self.user_context.clone(),
            context_tokens: self.context_tokens,
            standalone_turns: self.standalone_turns,
            turns,
            ..Self::default()
        }
    }
}

/// Error of loading a dataset.
#[derive(Debug, Error)]
pub enum DatasetError {
    /// The file cannot be read.
    #[error("cannot read the dataset {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A line of the file does not match its format.
    #[error("{path}, line {line}: {reason}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// Description of the error, and of the expected content.
        reason: String,
    },
    /// An entry of the document does not match the format.
    #[error("{path}, entry {entry}: {reason}")]
    Entry {
        /// The file.
        path: PathBuf,
        /// Number of the entry in the document's array, from 1.
        entry: usize,
        /// Description of the error, and of the expected content.
        reason: String,
    },
    /// The content matches no known format.
    #[error(
        "cannot detect the format of {path}: its first line has none of the fields `text`, \
         `texts`, `turns`, `image`, `audio`, `video`, `data`, `input_length`, `text_input`, \
         `messages`, `chat_id`, `captureData`, `requests` and `resourceSpans`, and is not a BurstGPT \
         header; use --custom-dataset-type"
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// The file contains no usable conversation.
    #[error("{path} contains no usable conversation{note}")]
    Empty {
        /// The file.
        path: PathBuf,
        /// Note on what was skipped; may be empty.
        note: String,
    },
    /// The dataset cannot be downloaded, or is not usable.
    #[error("cannot load the dataset {name}: {reason}")]
    Hub {
        /// Name of the repository.
        name: String,
        /// Description of the error.
        reason: String,
    },
    /// Media could not be encoded.
    #[error("cannot generate {what}: {reason}")]
    Encode {
        /// Description of the media.
        what: String,
        /// Failure of the encoder.
        reason: String,
    },
    /// A setting from which no dataset can be generated.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
}

impl DatasetError {
    /// Returns whether the error is in the command line, and not in the system.
    #[must_use]
    pub(crate) const fn is_of_the_command_line(&self) -> bool {
        !matches!(self, Self::Encode { .. } | Self::Hub { .. })
    }
}
