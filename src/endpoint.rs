//! API dialects: a turn becomes a request body, response bytes become content
//! and usage. Pure: no I/O, no clock.

pub mod audio_transcription;
pub mod body;
pub mod chat;
pub mod chat_embeddings;
pub mod completions;
mod detect;
mod dialect;
pub mod embeddings;
pub mod error;
mod field;
mod fit;
#[cfg(test)]
mod fixture;
pub mod gemini;
mod history;
pub mod huggingface_generate;
pub mod image_edit;
pub mod image_generation;
pub mod image_retrieval;
pub mod messages;
mod messages_of;
mod multipart;
pub mod nim_embeddings;
mod part;
pub mod rankings;
pub mod raw;
mod reader;
pub mod response;
pub mod responses;
pub mod solido_rag;
pub mod sse;
pub mod template;
pub mod text;
pub mod usage;
pub mod video_generation;

use std::fmt;
use std::sync::Arc;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::dataset::{Conversation, MediaKinds};
use crate::record::{RequestError, ResponseBody};
use crate::redact;
use crate::units::Nanos;

pub use error::http_error;
pub use fit::{MisfitError, check};
pub use messages_of::{ChatMessages, chat_messages};

/// A dialect, told from others by its name.
#[derive(Debug, Clone, Copy)]
pub struct EndpointType(&'static EndpointTraits);

impl EndpointType {
    /// OpenAI chat completions.
    pub const CHAT: Self = Self(&chat::TRAITS);
    /// OpenAI completions.
    pub const COMPLETIONS: Self = Self(&completions::TRAITS);
    /// OpenAI embeddings.
    pub const EMBEDDINGS: Self = Self(&embeddings::TRAITS);

    /// OpenAI Responses.
    pub const RESPONSES: Self = Self(&responses::TRAITS);
    /// Anthropic Messages.
    pub const MESSAGES: Self = Self(&messages::TRAITS);
    /// Google's `generateContent`.
    pub const GEMINI: Self = Self(&gemini::TRAITS);
    /// Hugging Face's Text Generation Inference.
    pub const HUGGINGFACE_GENERATE: Self = Self(&huggingface_generate::TRAITS);
    /// Cohere's rankings.
    pub const COHERE_RANKINGS: Self = Self(&rankings::COHERE);
    /// Rankings of Hugging Face's Text Embeddings Inference.
    pub const HF_TEI_RANKINGS: Self = Self(&rankings::HF_TEI);
    /// Rankings of NVIDIA's NIM.
    pub const NIM_RANKINGS: Self = Self(&rankings::NIM);
    /// Bodies as a file has them.
    pub const RAW: Self = Self(&raw::TRAITS);
    /// Bodies by a template of the user's.
    pub const TEMPLATE: Self = Self(&template::TRAITS);

    /// OpenAI image generation.
    pub const IMAGE_GENERATION: Self = Self(&image_generation::TRAITS);
    /// OpenAI image edits.
    pub const IMAGE_EDIT: Self = Self(&image_edit::TRAITS);
    /// OpenAI audio transcription.
    pub const AUDIO_TRANSCRIPTION: Self = Self(&audio_transcription::TRAITS);
    /// OpenAI video generation.
    pub const VIDEO_GENERATION: Self = Self(&video_generation::TRAITS);

    /// Embeddings of the messages of a chat.
    pub const CHAT_EMBEDDINGS: Self = Self(&chat_embeddings::TRAITS);
    /// Embeddings of NVIDIA's NIM.
    pub const NIM_EMBEDDINGS: Self = Self(&nim_embeddings::TRAITS);
    /// What NVIDIA's NIM finds in images.
    pub const IMAGE_RETRIEVAL: Self = Self(&image_retrieval::TRAITS);
    /// Solido's answers by what it retrieves.
    pub const SOLIDO_RAG: Self = Self(&solido_rag::TRAITS);

    /// Every dialect. A new one is a file of its own and a row here.
    pub const ALL: &[Self] = &[
        Self::CHAT,
        Self::COMPLETIONS,
        Self::EMBEDDINGS,
        Self::RESPONSES,
        Self::MESSAGES,
        Self::GEMINI,
        Self::HUGGINGFACE_GENERATE,
        Self::COHERE_RANKINGS,
        Self::HF_TEI_RANKINGS,
        Self::NIM_RANKINGS,
        Self::RAW,
        Self::TEMPLATE,
        Self::IMAGE_GENERATION,
        Self::IMAGE_EDIT,
        Self::AUDIO_TRANSCRIPTION,
        Self::VIDEO_GENERATION,
        Self::CHAT_EMBEDDINGS,
        Self::NIM_EMBEDDINGS,
        Self::IMAGE_RETRIEVAL,
        Self::SOLIDO_RAG,
    ];

    /// What the dialect is and what it can do.
    #[must_use]
    pub const fn traits(self) -> &'static EndpointTraits {
        self.0
    }

    /// The dialect that `--endpoint-type` calls `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|endpoint| endpoint.0.name == name)
    }
}

impl PartialEq for EndpointType {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for EndpointType {}

/// The dialect that `config` names.
#[must_use]
pub fn build(config: &Config) -> Arc<dyn Endpoint> {
    (config.endpoint_type.0.build)(config)
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
    /// How the videos of jobs are waited for.
    pub video: VideoJobs,
}

/// How a client waits for videos, which are generated by jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VideoJobs {
    /// Pause between two looks at a job (`AIPERF_HTTP_VIDEO_POLL_INTERVAL`).
    pub poll_interval: Nanos,
    /// Whether the video is downloaded, within the request (`--download-video-content`).
    pub download: bool,
}

impl Default for VideoJobs {
    fn default() -> Self {
        Self { poll_interval: Nanos(100_000_000), download: false }
    }
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
            .field("video", &self.video)
            .finish()
    }
}

/// Where a path has the name of the model that is asked.
const MODEL: &str = "{model}";

impl Config {
    /// Path below the base URL: `--endpoint`, else the dialect's own. A `{model}`
    /// in it is the model that is asked.
    fn path_template(&self) -> &str {
        let traits = self.endpoint_type.traits();
        let own = traits.streaming_path.filter(|_| self.streaming).unwrap_or(traits.path);
        self.path.as_deref().unwrap_or(own)
    }

    /// Whether requests to different models go to different paths.
    #[must_use]
    pub fn path_names_model(&self) -> bool {
        self.path_template().contains(MODEL)
    }

    /// Path below the base URL of requests that ask `model`.
    #[must_use]
    pub fn path(&self, model: &str) -> String {
        let model = utf8_percent_encode(model, PATH_SEGMENT).to_string();
        self.path_template().replace(MODEL, &model)
    }
}

/// What a segment of a path must not have as it is (RFC 3986, 3.3); a model's
/// slash is part of its name, and stays.
const PATH_SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}');

/// One dialect.
pub trait Endpoint: Send + Sync + std::fmt::Debug {
    /// What it is and what it can do.
    fn traits(&self) -> &'static EndpointTraits;

    /// Whether it can ask what `conversation` has, beyond what its traits say:
    /// [`check`] asks it of each before the run. The error says what is wrong, and
    /// what would be right.
    fn check(&self, _conversation: &Conversation) -> Result<(), String> {
        Ok(())
    }

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

    /// What to ask next, after `answers` answers of status 2xx to a request, of
    /// which `last` is the last; `None` where the request has been answered.
    fn next_step(&self, _answers: usize, _last: &ResponseBody) -> Option<NextStep> {
        None
    }

    /// Reads a response of status 2xx. Never fails: what could not be read is
    /// in [`ParsedResponse::error`], beside whatever could.
    fn parse(&self, body: &ResponseBody) -> ParsedResponse;
}

/// A further request that an answer takes (`GET`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextStep {
    /// How long to wait before.
    pub after: Nanos,
    /// What follows the path of the first request, from a slash.
    pub suffix: String,
    /// Whether its answer is only taken for its time: what the request came to is
    /// in the answer before it.
    pub is_download: bool,
    /// What is waited for, for messages.
    pub waits_for: String,
}

/// What a dialect is and what it can do.
#[derive(Debug)]
pub struct EndpointTraits {
    /// The name given to `--endpoint-type`.
    pub name: &'static str,
    /// Path below the base URL. A `{model}` in it is the model that is asked;
    /// empty where the URL itself is the path.
    pub path: &'static str,
    /// Path of streamed requests where it is another.
    pub streaming_path: Option<&'static str>,
    /// Media type of request bodies.
    pub content_type: &'static str,
    /// Header that bears the API key; `authorization` bears it as `Bearer`.
    pub api_key_header: &'static str,
    /// Headers that every request bears beside the usual ones.
    pub headers: &'static [(&'static str, &'static str)],
    /// Whether it can stream.
    pub supports_streaming: bool,
    /// Whether responses bear text.
    pub produces_tokens: bool,
    /// Whether the input is text that is tokenised.
    pub tokenizes_input: bool,
    /// The media that a request may bear beside its text.
    pub takes: MediaKinds,
    /// Of them, the media that a request must bear.
    pub needs: MediaKinds,
    /// Whether a request must bear a text.
    pub needs_text: bool,
    /// Whether the server gets media from URLs: otherwise they must be files.
    pub takes_urls: bool,
    /// The media that a response bears.
    pub produces: MediaKinds,
    /// Whether a request may bear messages of an OpenAI chat as a file has them.
    pub takes_messages: bool,
    /// Whether a request bears a query, and passages to be ranked by it.
    pub ranks: bool,
    /// Whether a later turn's request repeats the earlier turns and answers.
    pub repeats_history: bool,
    /// Title of its console tables.
    pub metrics_title: &'static str,
    /// `gen_ai.operation.name`.
    pub operation_name: &'static str,
    /// Makes the dialect.
    pub build: fn(&Config) -> Arc<dyn Endpoint>,
}

impl EndpointTraits {
    /// A dialect that takes a text and answers with one, streamed or not.
    #[must_use]
    pub const fn text(
        name: &'static str,
        path: &'static str,
        build: fn(&Config) -> Arc<dyn Endpoint>,
    ) -> Self {
        Self {
            name,
            path,
            streaming_path: None,
            content_type: "application/json",
            api_key_header: "authorization",
            headers: &[],
            supports_streaming: true,
            produces_tokens: true,
            tokenizes_input: true,
            takes: MediaKinds::empty(),
            needs: MediaKinds::empty(),
            needs_text: false,
            takes_urls: true,
            produces: MediaKinds::empty(),
            takes_messages: false,
            ranks: false,
            repeats_history: false,
            metrics_title: "LLM Metrics",
            operation_name: "chat",
            build,
        }
    }
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
    /// Seconds that generating a video took, as the server says.
    pub inference_seconds: Option<f64>,
    /// Most memory of the accelerator meanwhile, in megabytes, as the server says.
    pub peak_memory_megabytes: Option<f64>,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn config(path: Option<&str>) -> Config {
        Config {
            endpoint_type: EndpointType::CHAT,
            streaming: true,
            path: path.map(str::to_owned),
            extra_inputs: Vec::new(),
            use_legacy_max_tokens: false,
            use_server_token_count: false,
            video: VideoJobs::default(),
        }
    }

    #[test]
    fn every_dialect_has_a_name_of_its_own() {
        for (at, endpoint) in EndpointType::ALL.iter().enumerate() {
            let name = endpoint.traits().name;
            assert_eq!(EndpointType::named(name), Some(*endpoint));
            assert!(EndpointType::ALL[..at].iter().all(|other| other.traits().name != name));
        }
        assert_eq!(EndpointType::named("Chat"), None);
    }

    /// As `gen_ai.operation.name` has them: what has no name of its own there is a chat.
    #[test]
    fn operations_have_the_names_of_the_conventions() {
        for endpoint in EndpointType::ALL {
            let traits = endpoint.traits();
            let expected = match traits.name {
                "embeddings" | "chat_embeddings" | "nim_embeddings" => "embeddings",
                "cohere_rankings" | "hf_tei_rankings" | "nim_rankings" => "rerank",
                "completions" => "text_completion",
                _ => "chat",
            };
            assert_eq!(traits.operation_name, expected, "{}", traits.name);
        }
    }

    #[test]
    fn a_path_may_name_the_model() {
        assert_eq!(config(None).path("m"), "/v1/chat/completions");
        assert!(!config(None).path_names_model());
        let named = config(Some("/models/{model}:generate?alt=sse"));
        assert!(named.path_names_model());
        assert_eq!(named.path("org/m 1?#"), "/models/org/m%201%3F%23:generate?alt=sse");
    }
}
