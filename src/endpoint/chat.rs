//! OpenAI chat completions.

use super::body::{Body, Content, Member, Message};
use super::dialect::{Asked, Dialect, build};
use super::history::Said;
use super::part::Part;
use super::response::Choices;
use super::{Config, EndpointTraits};
use crate::dataset::{MediaKinds, Turn};

/// What the dialect is and what it can do.
pub static TRAITS: EndpointTraits = EndpointTraits {
    takes: MediaKinds::all(),
    takes_messages: true,
    repeats_history: true,
    ..EndpointTraits::text("chat", "/v1/chat/completions", build::<Chat>)
};

/// `/v1/chat/completions`.
///
/// A request bears the system message, the context, every earlier turn with its
/// answer, and this turn. A turn of several texts is several messages, one with media
/// is one message of parts. Turns that bear their whole history, or messages of their
/// own, are sent alone.
struct Chat;

impl Dialect for Chat {
    const TRAITS: &'static EndpointTraits = &TRAITS;

    type Reader = Choices;

    fn body<'a>(config: &'a Config, asked: &Asked<'a>) -> Body<'a> {
        let limit =
            if config.use_legacy_max_tokens { "max_tokens" } else { "max_completion_tokens" };
        let messages = match &asked.turn.messages {
            Some(messages) => Member::Raw(messages),
            None => Member::Messages(messages(asked, asked.history())),
        };
        Body::new(config, "messages", messages).generating(config, limit, asked.turn)
    }
}

/// The messages of a request that repeats what is `said`.
pub(super) fn messages<'a>(asked: &Asked<'a>, said: Vec<Said<'a>>) -> Vec<Message<'a>> {
    let system = asked.conversation.system.as_deref();
    let opening = system.map(|text| Message { role: "system", content: Content::Plain(text) });
    let mut messages = Vec::with_capacity(said.len() + 1);
    messages.extend(opening);
    for said in said {
        match said {
            Said::Asked(turn) => messages.extend(own(turn)),
            Said::Context(text) | Said::Answered(text) => {
                messages.push(Message { role: said.role(), content: Content::Plain(text) });
            }
        }
    }
    messages
}

/// The messages of a turn itself: one for each text, or one of parts where there
/// are media.
fn own(turn: &Turn) -> impl Iterator<Item = Message<'_>> {
    let role = turn.role.as_deref().unwrap_or("user");
    let is_text = turn.media.is_empty();
    let texts = turn.texts.iter().filter(move |_| is_text).map(Content::Asked);
    let parts = (!is_text).then(|| Content::Parts(Part::all(turn)));
    texts.chain(parts).map(move |content| Message { role, content })
}
