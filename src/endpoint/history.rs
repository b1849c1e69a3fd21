//! What a request repeats of its conversation, before a dialect writes it.

use std::sync::Arc;

use super::body::Content;
use crate::dataset::{Conversation, Media, Turn};

/// Who says something, and what.
#[derive(Debug, Clone, Copy)]
pub(super) enum Said<'a> {
    /// The context that stands before the turns.
    Context(&'a str),
    /// A turn.
    Asked(&'a Turn),
    /// What the server answered to a turn.
    Answered(&'a str),
}

/// The conversation up to `turn`, each earlier turn with its answer if it had one. Turns that
/// bear their whole history stand alone. The system message is not here.
pub(super) fn history<'a>(
    conversation: &'a Conversation,
    turn: usize,
    answers: &'a [Option<Arc<str>>],
) -> Vec<Said<'a>> {
    let repeated = if conversation.standalone_turns { 0 } else { turn };
    let mut said = Vec::with_capacity(2 * repeated + 2);
    said.extend(conversation.user_context.as_deref().map(Said::Context));
    for (index, earlier) in conversation.turns.iter().take(repeated).enumerate() {
        said.push(Said::Asked(earlier));
        let answer = answers.get(index).and_then(Option::as_deref);
        said.extend(answer.map(Said::Answered));
    }
    said.extend(conversation.turns.get(turn).map(Said::Asked));
    said
}

/// What a message says: a text as it is, or parts.
#[derive(serde::Serialize)]
#[serde(untagged)]
pub(super) enum Saying<'a, P> {
    Alone(Content<'a>),
    Parts(Vec<P>),
}

impl<'a> Said<'a> {
    /// `user`, `assistant`, or what the file says.
    pub(super) fn role(self) -> &'a str {
        match self {
            Self::Context(_) => "user",
            Self::Asked(turn) => turn.role.as_deref().unwrap_or("user"),
            Self::Answered(_) => "assistant",
        }
    }

    /// Its texts and media as parts, in that order.
    pub(super) fn parts<P>(
        self,
        text: impl Fn(Content<'a>) -> P,
        media: impl Fn(&'a Media) -> P,
    ) -> Vec<P> {
        match self {
            Self::Context(plain) | Self::Answered(plain) => vec![text(Content::Plain(plain))],
            Self::Asked(turn) => {
                let texts = turn.texts.iter().map(|asked| text(Content::Asked(asked)));
                texts.chain(turn.media.iter().map(media)).collect()
            }
        }
    }

    /// Its text as it is where there is one and nothing else, otherwise parts.
    pub(super) fn saying<P>(
        self,
        text: impl Fn(Content<'a>) -> P,
        media: impl Fn(&'a Media) -> P,
    ) -> Saying<'a, P> {
        match self {
            Self::Context(plain) | Self::Answered(plain) => Saying::Alone(Content::Plain(plain)),
            Self::Asked(Turn { texts, media, .. }) if texts.len() == 1 && media.is_empty() => {
                Saying::Alone(Content::Asked(&texts[0]))
            }
            Self::Asked(_) => Saying::Parts(self.parts(text, media)),
        }
    }
}
