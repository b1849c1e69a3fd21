//! The dataset: conversations, generated or read from files.
//!
//! Every text, model, requested output length and token count follows from the configuration and the seed.
//! Datasets that are read are complete before the first request. Generated conversations follow from their numbers, so
//! that more of them are made while a run goes on that needs more.

mod account;
pub mod agentic_code;
pub mod anonymous;
mod cache_bust;
mod canary;
mod check;
mod corpus;
mod dialog;
mod error;
pub mod file;
mod finish;
mod forks;
pub mod growth;
mod hub;
pub mod known_prefixes;
mod lengths;
mod media;
mod parts;
mod payload;
pub mod preview;
mod prompts;
mod rankings;
mod rows;
mod said;
mod sampler;
pub mod seed;
mod settings;
mod size;
mod synthetic;
mod tenants;
mod text;
mod trees;
mod words;

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use base::units::Nanos;

pub use self::account::{Account, Conversations, LeftOut, Pool, Sent, SentCounter};
pub use self::cache_bust::CacheBust;
pub use self::canary::{Canary, CanaryConfig};
pub use self::corpus::Corpus;
pub use self::dialog::{Message, Prompt};
pub use self::error::DatasetError;
pub use self::file::{
    FileFormat, Sessions, TraceAnalysis, Tree, analyze as analyze_trace, detected_format, inline,
    read_recorded,
};
pub use self::finish::conversation_id;
pub use self::forks::Inherited;
pub use self::growth::Grown;
pub use self::hub::{HubDataset, PUBLIC, Public};
pub use self::lengths::{
    Length, LengthPreset, RandomRange, RangeStyle, RecordedLengths, SequenceDistribution,
};
pub use self::media::{
    AudioFormat, AudioNoise, ImageFormat, ImageNoise, ImageShape, Inline, MAX_FILE_BYTES,
    MAX_TOTAL_BYTES, Media, MediaContent, MediaKinds, PictureSampling, Pictures, Scene, SoundCodec,
    VideoClip, VideoFormat, VideoSound, audio_seconds,
};
pub use self::parts::Part;
pub use self::payload::{prompt_bytes, tokens_sent};
pub use self::sampler::Sampler;
pub use self::seed::Seed;
pub use self::settings::{
    Config, ModelSelection, NormalDistribution, Rankings, ReplayOutputs, Sampling, SessionColumn,
    Source, Synthesis, Synthetic, TraceSettings,
};
pub use self::tenants::TenantLengths;
pub use self::text::Text;

/// The conversations of a run.
#[derive(Debug, Clone, Default)]
pub struct Dataset {
    /// The conversations of all parts, in the order of the file or of generation, and then the canaries.
    pub conversations: Conversations,
    /// The places of the conversations of each part.
    parts: Vec<Range<usize>>,
    /// Number of conversations after those of all parts that are canaries.
    canaries: usize,
    /// The maker of more conversations while the run goes on, if there is one.
    pub growth: Option<Arc<growth::Growth>>,
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
    /// The event of that turn that starts it.
    pub from: BranchStart,
    /// The turn of the other conversation that waits for its end.
    pub join: Option<usize>,
    /// Whether it continues the messages and responses of the other conversation.
    pub is_fork: bool,
}

/// The event of a turn that starts a branch.
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
    /// Whether the response is that of greedy decoding, whatever else the body sets.
    pub is_greedy: bool,
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

/// The part of a prompt that a prefix cache that keeps everything would find, if the requests of each trace came
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
    pub fn as_text(&self) -> Cow<'_, Self> {
        match &self.prompt {
            None => Cow::Borrowed(self),
            Some(prompt) => {
                let texts = vec![prompt.text()];
                Cow::Owned(Self { texts, prompt: None, ..self.clone() })
            }
        }
    }
}

impl Dataset {
    /// Returns whether a turn is sent as a body of its own.
    #[must_use]
    pub fn bears_payloads(&self) -> bool {
        self.turns().any(|turn| turn.raw_payload.is_some())
    }

    /// Returns whether a turn has chat messages instead of a text.
    #[must_use]
    pub fn bears_messages(&self) -> bool {
        self.turns().any(|turn| turn.messages.is_some())
    }

    /// Returns the models of the turns, each once, in the order of their first turns.
    pub fn models(&self) -> impl Iterator<Item = Arc<str>> {
        let mut seen = HashSet::new();
        self.turns().map(|turn| &turn.model).filter(move |model| seen.insert(*model)).cloned()
    }

    /// Returns the most turns of a conversation; of one that is made while the run goes on, only whether it may
    /// have several is known.
    #[must_use]
    pub fn most_turns(&self) -> usize {
        let known = self.conversations.iter().map(Conversation::len).max().unwrap_or(0);
        let grows_longer = self.growth.as_ref().is_some_and(|growth| growth.has_several_turns());
        known.max(1 + usize::from(grows_longer))
    }

    fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.conversations.iter().flat_map(|conversation| &conversation.turns)
    }
}

/// Returns how many `conversations` of a part are drawn by sessions; the others are the last ones.
pub fn roots(conversations: &[Conversation]) -> usize {
    conversations.partition_point(|conversation| !conversation.is_child)
}

impl Conversation {
    /// Returns whether another conversation continues this one after `turn`.
    pub fn forks_after(&self, turn: usize) -> bool {
        self.branches.iter().any(|branch| branch.is_fork && branch.after == Some(turn))
    }

    /// Returns whether another conversation continues this one.
    pub fn has_forks(&self) -> bool {
        self.branches.iter().any(|branch| branch.is_fork)
    }

    /// Returns whether it is the work of an agent: it has several turns, starts other conversations,
    /// or is started by one.
    pub fn is_agent(&self) -> bool {
        self.len() > 1 || self.is_child || !self.branches.is_empty()
    }

    /// Returns the earlier turns that the request of `turn` repeats.
    pub fn repeated(&self, turn: usize) -> Range<usize> {
        let from_here = || self.last_turn(turn, |turn| turn.starts_anew);
        let start = if self.standalone_turns { turn } else { from_here().unwrap_or(0) };
        start..turn
    }

    /// Returns a conversation with only the turn `index` and what precedes every turn, without the
    /// earlier turns and their responses.
    #[must_use]
    pub fn alone(&self, index: usize) -> Self {
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
