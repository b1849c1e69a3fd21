//! The part of a conversation that a request contains, independent of the dialect.

use std::sync::Arc;

use dataset::{Conversation, Media, Message, Turn};

use super::body::Content;

/// A message and its author.
#[derive(Debug, Clone, Copy)]
pub(super) enum Said<'a> {
    /// The context before the first turn.
    Context(&'a str),
    Asked(&'a Turn),
    /// One of the messages that the turn has instead of texts.
    Made(&'a Message),
    /// The server's response to a turn.
    Answered(&'a str),
}

/// The role of a system message.
pub(super) const SYSTEM: &str = "system";

/// Returns the conversation up to `turn`, each earlier turn with its response if there was one.
/// Turns that contain their whole history are sent alone, and the response to a turn is left out if
/// the next one has it. `made` are the messages that the turn has instead of texts. The system message
/// is not included.
pub(super) fn history<'a>(
    conversation: &'a Conversation,
    turn: usize,
    answers: &'a [Option<Arc<str>>],
    made: &'a [Message],
) -> Vec<Said<'a>> {
    let repeated = conversation.repeated(turn);
    let mut said = Vec::with_capacity(2 * repeated.len() + 2);
    said.extend(conversation.user_context.as_deref().map(Said::Context));
    for (index, earlier) in repeated.clone().zip(conversation.turns_in(repeated)) {
        said.push(Said::Asked(earlier));
        let answer = answers.get(index).filter(|_| !earlier.answer_is_recorded);
        said.extend(answer.and_then(Option::as_deref).map(Said::Answered));
    }
    if made.is_empty() {
        said.extend(conversation.turn(turn).map(Said::Asked));
    }
    said.extend(made.iter().filter(|message| message.role != SYSTEM).map(Said::Made));
    said
}

/// The content of a message: an unchanged text, or parts.
#[derive(serde::Serialize)]
#[serde(untagged)]
pub(super) enum Saying<'a, P> {
    Alone(Content<'a>),
    Parts(Vec<P>),
}

impl<'a> Said<'a> {
    /// Returns `user`, `assistant`, or the role in the file.
    pub(super) fn role(self) -> &'a str {
        match self {
            Self::Context(_) => "user",
            Self::Asked(turn) => turn.role.as_deref().unwrap_or("user"),
            Self::Made(message) => message.role,
            Self::Answered(_) => "assistant",
        }
    }

    /// Returns the texts and media as parts, in that order.
    pub(super) fn parts<P>(
        self,
        text: impl Fn(Content<'a>) -> P,
        media: impl Fn(&'a Media) -> P,
    ) -> Vec<P> {
        match self {
            Self::Context(plain) | Self::Answered(plain) => vec![text(Content::Plain(plain))],
            Self::Made(message) => vec![text(Content::Asked(&message.text))],
            Self::Asked(turn) => {
                let texts = turn.texts.iter().map(|asked| text(Content::Asked(asked)));
                texts.chain(turn.media.iter().map(media)).collect()
            }
        }
    }

    /// Returns the text unchanged if there is exactly one and nothing else, otherwise parts.
    pub(super) fn saying<P>(
        self,
        text: impl Fn(Content<'a>) -> P,
        media: impl Fn(&'a Media) -> P,
    ) -> Saying<'a, P> {
        match self {
            Self::Context(plain) | Self::Answered(plain) => Saying::Alone(Content::Plain(plain)),
            Self::Made(message) => Saying::Alone(Content::Asked(&message.text)),
            Self::Asked(Turn { texts, media, .. }) if texts.len() == 1 && media.is_empty() => {
                Saying::Alone(Content::Asked(&texts[0]))
            }
            Self::Asked(_) => Saying::Parts(self.parts(text, media)),
        }
    }
}
