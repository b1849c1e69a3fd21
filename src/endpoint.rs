//! API dialects: a turn becomes a request body, response bytes become content
//! and usage. Pure: no I/O, no clock.

pub mod body;
pub mod chat;
pub mod completions;
pub mod embeddings;
pub mod error;
pub mod response;
pub mod sse;
pub mod text;
pub mod usage;

use std::fmt;
use std::sync::Arc;

use crate::dataset::Conversation;
use crate::record::{RequestError, ResponseBody};
use crate::redact;
use crate::units::Nanos;

pub use chat::ChatCompletions;
pub use completions::Completions;
pub use embeddings::Embeddings;
pub use error::http_error;

/// The dialect that `config` names.
#[must_use]
pub fn build(config: &Config) -> Arc<dyn Endpoint> {
    match config.endpoint_type {
        EndpointType::Chat => Arc::new(ChatCompletions::new(config)),
        EndpointType::Completions => Arc::new(Completions::new(config)),
        EndpointType::Embeddings => Arc::new(Embeddings::new(config)),
    }
}

/// The dialects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndpointType {
    /// OpenAI chat completions.
    Chat,
    /// OpenAI completions.
    Completions,
    /// OpenAI embeddings.
    Embeddings,
}

impl EndpointType {
    /// What the dialect is and what it can do.
    #[must_use]
    pub const fn traits(self) -> &'static EndpointTraits {
        match self {
            Self::Chat => &chat::TRAITS,
            Self::Completions => &completions::TRAITS,
            Self::Embeddings => &embeddings::TRAITS,
        }
    }
}

/// How requests are formed.
#[derive(Clone)]
pub struct Config {
    /// The dialect.
    pub endpoint_type: EndpointType,
    /// Whether responses are streamed.
    pub streaming: bool,
    /// Path instead of the dialect's own (`--endpoint`).
    pub path: Option<String>,
    /// Members added to every body, in order (`--extra-inputs`).
    pub extra_inputs: Vec<(String, serde_json::Value)>,
    /// `max_tokens` instead of `max_completion_tokens`.
    pub use_legacy_max_tokens: bool,
    /// Ask for usage in streams and count tokens by it.
    pub use_server_token_count: bool,
}

impl fmt::Debug for Config {
    /// Shows neither extra members nor parameters that bear secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut extra = serde_json::Value::Object(self.extra_inputs.iter().cloned().collect());
        redact::json(&mut extra);
        f.debug_struct("Config")
            .field("endpoint_type", &self.endpoint_type)
            .field("streaming", &self.streaming)
            .field("path", &self.path.as_deref().map(redact::path))
            .field("extra_inputs", &extra)
            .field("use_legacy_max_tokens", &self.use_legacy_max_tokens)
            .field("use_server_token_count", &self.use_server_token_count)
            .finish()
    }
}

impl Config {
    /// Path below the base URL: `--endpoint`, else the dialect's own.
    #[must_use]
    pub fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(self.endpoint_type.traits().path)
    }
}

/// One dialect.
pub trait Endpoint: Send + Sync + std::fmt::Debug {
    /// What it is and what it can do.
    fn traits(&self) -> &'static EndpointTraits;

    /// The body of the request for `turn` of `conversation`. `answers` are the
    /// server's answers to the turns before it, one for each.
    fn request_body(
        &self,
        conversation: &Conversation,
        turn: usize,
        answers: &[Arc<str>],
    ) -> Vec<u8>;

    /// Whether an event of a stream, given as its raw text, bears content as
    /// [`ParsedResponse::content`] has it. A dialect that does not stream is
    /// never asked.
    fn has_content(&self, event: &[u8]) -> bool {
        !event.is_empty()
    }

    /// Reads a response of status 2xx. Never fails: what could not be read is
    /// in [`ParsedResponse::error`], beside whatever could.
    fn parse(&self, body: &ResponseBody) -> ParsedResponse;
}

/// Properties of a dialect.
#[derive(Debug, PartialEq, Eq)]
pub struct EndpointTraits {
    /// The name given to `--endpoint-type`.
    pub name: &'static str,
    /// Path below the base URL.
    pub path: &'static str,
    /// Whether it can stream.
    pub supports_streaming: bool,
    /// Whether responses bear text.
    pub produces_tokens: bool,
    /// Whether the input is text that is tokenised.
    pub tokenizes_input: bool,
    /// Whether a later turn's request repeats the earlier turns and answers.
    pub repeats_history: bool,
    /// Title of its console tables.
    pub metrics_title: &'static str,
    /// `gen_ai.operation.name`.
    pub operation_name: &'static str,
}

/// Content of a response.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParsedResponse {
    /// Arrival and kind of each piece with non-empty content, in order: text,
    /// reasoning, or tool-call deltas. Role-only, usage-only and `[DONE]`
    /// pieces are not here.
    pub content: Vec<ContentPiece>,
    /// All output text joined: text and tool calls' names and arguments,
    /// without reasoning.
    pub output_text: String,
    /// All reasoning text joined.
    pub reasoning_text: String,
    /// The usage the server reported: the last non-null value of each field.
    pub usage: Option<Usage>,
    /// The last `finish_reason`.
    pub finish_reason: Option<String>,
    /// The model that the server says answered.
    pub model: Option<String>,
    /// Why the response is a failure although its status was 2xx: an `error`
    /// event, invalid JSON, no content at all, a stream cut short.
    pub error: Option<RequestError>,
}

/// One piece of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentPiece {
    /// When it arrived.
    pub arrival: Nanos,
    /// Whether it bears output other than reasoning.
    pub is_output: bool,
}

/// Token counts as the server reports them, vendor's shapes made one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Prompt tokens.
    pub prompt_tokens: Option<u64>,
    /// Completion tokens, reasoning included.
    pub completion_tokens: Option<u64>,
    /// Prompt and completion tokens.
    pub total_tokens: Option<u64>,
    /// Reasoning tokens.
    pub reasoning_tokens: Option<u64>,
    /// Prompt tokens read from the cache.
    pub prompt_cache_read_tokens: Option<u64>,
    /// Prompt tokens written to the cache.
    pub prompt_cache_write_tokens: Option<u64>,
    /// Prompt tokens that missed the cache.
    pub prompt_cache_miss_tokens: Option<u64>,
    /// Audio tokens of the prompt.
    pub prompt_audio_tokens: Option<u64>,
    /// Audio tokens of the completion.
    pub completion_audio_tokens: Option<u64>,
    /// Seconds of audio in the prompt.
    pub prompt_audio_seconds: Option<f64>,
    /// Prompt tokens of tool declarations.
    pub tool_use_prompt_tokens: Option<u64>,
    /// Predicted tokens that the model used.
    pub accepted_prediction_tokens: Option<u64>,
    /// Predicted tokens that it did not.
    pub rejected_prediction_tokens: Option<u64>,
}
