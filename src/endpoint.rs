//! API dialects: a turn becomes a request body, response bytes become content
//! and usage. Pure: no I/O, no clock.

pub mod audio_transcription;
pub mod body;
pub mod chat;
pub mod chat_embeddings;
pub mod completions;
mod config;
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
mod parsed;
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
mod traits;
pub mod usage;
pub mod video_generation;

use std::sync::Arc;

use crate::dataset::Conversation;
use crate::record::{RequestError, ResponseBody};
use crate::units::Nanos;

pub use config::{Config, VideoJobs};
pub use error::http_error;
pub use fit::{MisfitError, check};
pub use messages_of::{ChatMessages, chat_messages};
pub use parsed::{ContentPiece, ParsedResponse};
pub use traits::EndpointTraits;
pub use usage::Usage;

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

    /// What to ask next, where `last` is the answer, of status 2xx, to the request or
    /// to its step `asked`; `None` where the request has been answered. The error is
    /// that of an answer which is none to what was asked.
    fn next_step(
        &self,
        _asked: Option<&NextStep>,
        _last: &ResponseBody,
    ) -> Result<Option<NextStep>, RequestError> {
        Ok(None)
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
