//! The dialects, each in its own file: how to build requests and how to parse responses.

pub mod audio_transcription;
pub mod chat;
pub mod chat_embeddings;
pub mod completions;
pub mod embeddings;
pub mod gemini;
pub mod huggingface_generate;
pub mod image_edit;
pub mod image_generation;
pub mod image_retrieval;
pub mod messages;
pub mod nim_embeddings;
pub mod rankings;
pub mod raw;
pub mod responses;
pub mod solido_rag;
pub mod template;
pub mod video_generation;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use dataset::{Conversation, Message, Prompt, Turn};

use super::body::{self, Content};
use super::history::{SYSTEM, Said, history};
use super::reader::{self, Reader};
use super::{Config, Endpoint, EndpointTraits, NextStep, ParsedResponse};
use crate::record::{RequestError, ResponseBody};

/// A dialect: builds requests and parses responses.
pub(super) trait Dialect: Send + Sync + 'static {
    /// The parser of its responses.
    type Reader: Reader + Default;

    /// Checks requirements on `conversation` beyond its traits, like [`Endpoint::check`].
    fn check(_conversation: &Conversation) -> Result<(), String> {
        Ok(())
    }

    /// Builds a request body. Not called for a turn that has its own body.
    fn body(config: &Config, asked: &Asked<'_>) -> Vec<u8>;

    /// Returns the next step of a request, like [`Endpoint::next_step`].
    fn next_step(
        _config: &Config,
        _asked: Option<&NextStep>,
        _last: &ResponseBody,
    ) -> Result<Option<NextStep>, RequestError> {
        Ok(None)
    }

    /// Parses a response, like [`Endpoint::parse`].
    fn parse(_config: &Config, body: &ResponseBody) -> ParsedResponse {
        reader::parse::<Self::Reader>(body)
    }
}

/// The input of a request.
pub(super) struct Asked<'a> {
    pub(super) conversation: &'a Conversation,
    pub(super) turn: &'a Turn,
    at: usize,
    answers: &'a [Option<Arc<str>>],
    /// The messages that the turn has instead of texts.
    made: &'a [Message],
}

impl<'a> Asked<'a> {
    /// Returns whether the turn is sent without earlier turns: it is the first, or has its whole
    /// history.
    pub(super) fn stands_alone(&self) -> bool {
        self.conversation.repeated(self.at).is_empty()
    }

    /// Returns the conversation up to this turn, without the system message.
    pub(super) fn history(&self) -> Vec<Said<'a>> {
        history(self.conversation, self.at, self.answers, self.made)
    }

    /// Returns the system message.
    pub(super) fn system(&self) -> Option<Content<'a>> {
        let own = self.made.iter().find(|message| message.role == SYSTEM);
        let system = self.conversation.system.as_deref().map(Content::Plain);
        own.map(|message| Content::Asked(&message.text)).or(system)
    }
}

/// Creates the endpoint for the dialect `D`.
pub(super) fn build<D: Dialect>(config: &Config) -> Arc<dyn Endpoint> {
    Arc::new(Spoken::<D> { config: config.clone(), dialect: PhantomData })
}

/// Returns a turn as the API takes it, which may not have messages.
fn sendable<'a>(turn: &'a Turn, traits: &EndpointTraits) -> Cow<'a, Turn> {
    if traits.repeats_history { Cow::Borrowed(turn) } else { turn.as_text() }
}

struct Spoken<D> {
    config: Config,
    dialect: PhantomData<D>,
}

impl<D: Dialect> fmt::Debug for Spoken<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.traits().name).field("config", &self.config).finish()
    }
}

impl<D: Dialect> Endpoint for Spoken<D> {
    fn traits(&self) -> &'static EndpointTraits {
        self.config.endpoint_type.traits()
    }

    fn check(&self, conversation: &Conversation) -> Result<(), String> {
        D::check(conversation)
    }

    fn request_body(
        &self,
        conversation: &Conversation,
        at: usize,
        answers: &[Option<Arc<str>>],
    ) -> Vec<u8> {
        let Some(turn) = conversation.turn(at) else { return Vec::new() };
        let turn = &*sendable(turn, self.traits());
        let made = turn.prompt.as_ref().map(Prompt::messages).unwrap_or_default();
        let asked = Asked { conversation, turn, at, answers, made: &made };
        body::raw(turn).unwrap_or_else(|| D::body(&self.config, &asked))
    }

    fn next_step(
        &self,
        asked: Option<&NextStep>,
        last: &ResponseBody,
    ) -> Result<Option<NextStep>, RequestError> {
        D::next_step(&self.config, asked, last)
    }

    fn has_content(&self, event: &[u8]) -> bool {
        reader::has_content::<D::Reader>(event)
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        D::parse(&self.config, body)
    }
}
