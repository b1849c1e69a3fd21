//! What a dialect says of itself, and the endpoint that is made of it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::body::{self, Body};
use super::history::{Said, history};
use super::reader::{self, Reader};
use super::{Config, Endpoint, EndpointTraits, ParsedResponse};
use crate::dataset::{Conversation, Turn};
use crate::record::ResponseBody;

/// A dialect: how its requests are written and its responses are read.
pub(super) trait Dialect: Send + Sync + 'static {
    /// What it is and what it can do.
    const TRAITS: &'static EndpointTraits;

    /// Reads its responses.
    type Reader: Reader + Default;

    /// Whether it can ask what `turn` has, beyond what its traits say: the error is
    /// as that of [`Endpoint::check`]. A turn that brings its own body is never asked.
    fn check(_turn: &Turn) -> Result<(), String> {
        Ok(())
    }

    /// The body of a request. A turn that brings its own is never asked.
    fn body<'a>(config: &'a Config, asked: &Asked<'a>) -> Body<'a>;
}

/// What a request asks.
pub(super) struct Asked<'a> {
    pub(super) conversation: &'a Conversation,
    pub(super) turn: &'a Turn,
    at: usize,
    answers: &'a [Arc<str>],
}

impl<'a> Asked<'a> {
    /// The conversation up to this turn, without the system message.
    pub(super) fn history(&self) -> Vec<Said<'a>> {
        history(self.conversation, self.at, self.answers)
    }
}

/// The endpoint that speaks `D`.
pub(super) fn build<D: Dialect>(config: &Config) -> Arc<dyn Endpoint> {
    Arc::new(Spoken::<D> { config: config.clone(), dialect: PhantomData })
}

struct Spoken<D> {
    config: Config,
    dialect: PhantomData<D>,
}

impl<D: Dialect> fmt::Debug for Spoken<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(D::TRAITS.name).field("config", &self.config).finish()
    }
}

impl<D: Dialect> Endpoint for Spoken<D> {
    fn traits(&self) -> &'static EndpointTraits {
        D::TRAITS
    }

    fn check(&self, conversation: &Conversation) -> Result<(), String> {
        let mut made = conversation.turns.iter().filter(|turn| turn.raw_payload.is_none());
        made.try_for_each(D::check)
    }

    fn request_body(
        &self,
        conversation: &Conversation,
        at: usize,
        answers: &[Arc<str>],
    ) -> Vec<u8> {
        let Some(turn) = conversation.turns.get(at) else { return Vec::new() };
        let asked = Asked { conversation, turn, at, answers };
        body::raw(turn).unwrap_or_else(|| D::body(&self.config, &asked).to_json())
    }

    fn has_content(&self, event: &[u8]) -> bool {
        reader::has_content::<D::Reader>(event)
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        reader::parse::<D::Reader>(body)
    }
}
