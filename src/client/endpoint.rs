//! API dialects: build request bodies from turns, and parse responses into content and usage.
//! Pure: no I/O, no clock.

pub mod body;
mod chat_messages;
mod config;
mod detect;
pub mod dialect;
mod envelope;
pub mod error;
mod field;
mod fit;
#[cfg(test)]
mod fixture;
mod history;
mod joined;
pub mod multipart;
pub mod note;
mod parsed;
mod part;
mod reader;
mod reports;
mod requested_tokens;
pub mod sse;
mod structure;
pub mod text;
mod tool_calls;
mod traits;
pub mod usage;

use std::sync::Arc;

use dataset::Conversation;

use self::dialect::{
    audio_transcription, chat, chat_embeddings, completions, embeddings, gemini,
    huggingface_generate, image_edit, image_generation, image_retrieval, messages, nim_embeddings,
    rankings, raw, responses, solido_rag, template, video_generation,
};
use serde::{Serialize, Serializer};

use base::setting::Named;
use base::units::Nanos;

use crate::record::{RequestError, ResponseBody};

pub use chat_messages::{ChatMessages, chat_messages};
pub use config::{Config, VideoJobs};
pub use error::{ContextOverflow, http_error};
pub use fit::check;
pub use parsed::{ContentPiece, ParsedResponse, choices};
pub use requested_tokens::requested_output_tokens;
pub use tool_calls::ToolCalls;
pub use traits::EndpointTraits;
pub use usage::Usage;

/// A dialect, identified by its name.
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
    pub(crate) const HF_TEI_RANKINGS: Self = Self(&rankings::HF_TEI);
    /// Rankings of NVIDIA's NIM.
    pub(crate) const NIM_RANKINGS: Self = Self(&rankings::NIM);
    /// Request bodies from a file, sent unchanged.
    pub const RAW: Self = Self(&raw::TRAITS);
    /// Request bodies from a user-defined template.
    pub const TEMPLATE: Self = Self(&template::TRAITS);

    /// OpenAI image generation.
    pub const IMAGE_GENERATION: Self = Self(&image_generation::TRAITS);
    /// OpenAI image edits.
    pub const IMAGE_EDIT: Self = Self(&image_edit::TRAITS);
    /// OpenAI audio transcription.
    pub const AUDIO_TRANSCRIPTION: Self = Self(&audio_transcription::TRAITS);
    /// OpenAI video generation.
    pub const VIDEO_GENERATION: Self = Self(&video_generation::TRAITS);

    /// Embeddings of chat messages.
    pub const CHAT_EMBEDDINGS: Self = Self(&chat_embeddings::TRAITS);
    /// Embeddings of NVIDIA's NIM.
    pub const NIM_EMBEDDINGS: Self = Self(&nim_embeddings::TRAITS);
    /// Image retrieval of NVIDIA's NIM.
    pub const IMAGE_RETRIEVAL: Self = Self(&image_retrieval::TRAITS);
    /// Solido's retrieval-augmented generation.
    pub const SOLIDO_RAG: Self = Self(&solido_rag::TRAITS);

    /// All dialects. To add one, add a file in `dialect` and a row here.
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

    /// Returns the dialect's properties and capabilities.
    #[must_use]
    pub const fn traits(self) -> &'static EndpointTraits {
        self.0
    }
}

impl Named for EndpointType {
    const NAMES: &'static [(&'static str, Self)] = &{
        let mut names = [("", Self::CHAT); Self::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = (Self::ALL[at].0.name, Self::ALL[at]);
            at += 1;
        }
        names
    };
}

impl Serialize for EndpointType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name)
    }
}

impl PartialEq for EndpointType {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for EndpointType {}

/// Creates the endpoint of `config`.
#[must_use]
pub fn build(config: &Config) -> Arc<dyn Endpoint> {
    (config.endpoint_type.0.build)(config)
}

/// An API dialect.
pub trait Endpoint: Send + Sync + std::fmt::Debug {
    /// Returns its properties and capabilities.
    fn traits(&self) -> &'static EndpointTraits;

    /// Checks requirements on `conversation` beyond its traits. [`check`] calls it for each
    /// conversation before the run.
    ///
    /// # Errors
    /// If the dialect cannot send the conversation; the error says what is wrong and what to do.
    fn check(&self, _conversation: &Conversation) -> Result<(), String> {
        Ok(())
    }

    /// Builds the request body for `turn` of `conversation`. `answers` are the responses to the
    /// earlier turns, one for each; `None` if a turn failed.
    fn request_body(
        &self,
        conversation: &Conversation,
        turn: usize,
        answers: &[Option<Arc<str>>],
    ) -> Vec<u8>;

    /// Returns whether a stream event, given as raw text, has content that would be in
    /// [`ParsedResponse::content`]. Not called for dialects without streaming.
    fn has_content(&self, event: &[u8]) -> bool {
        !event.is_empty()
    }

    /// Returns the next step after `last`, the response with a status of 2xx to the request or
    /// to its step `asked`; `None` if the request is complete.
    ///
    /// # Errors
    /// If the response does not belong to what was requested.
    fn next_step(
        &self,
        _asked: Option<&NextStep>,
        _last: &ResponseBody,
    ) -> Result<Option<NextStep>, RequestError> {
        Ok(None)
    }

    /// Parses a response with a status of 2xx. Never fails: errors are in
    /// [`ParsedResponse::error`], next to whatever could be parsed.
    fn parse(&self, body: &ResponseBody) -> ParsedResponse;
}

/// A further request (`GET`) that a response requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextStep {
    /// How long to wait before sending it.
    pub after: Nanos,
    /// The suffix to the first request's path, starting with a slash.
    pub suffix: String,
    /// Whether its response is only timed, and the previous response has the result.
    pub(crate) is_download: bool,
    /// What the step waits for, as error messages name it.
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
        assert_eq!(EndpointType::named("chats"), None);
    }

    /// As the specification's table has them: all but three are a chat.
    #[test]
    fn operations_have_the_names_of_the_specification() {
        for endpoint in EndpointType::ALL {
            let traits = endpoint.traits();
            let expected = match traits.name {
                "embeddings" => "embeddings",
                "completions" => "text_completion",
                _ => "chat",
            };
            assert_eq!(traits.operation_name, expected, "{}", traits.name);
        }
    }
}
