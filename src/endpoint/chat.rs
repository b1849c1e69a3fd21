//! OpenAI chat completions.

use std::sync::Arc;

use super::body::{self, Body, Content, Member, Message};
use super::history::{Said, history};
use super::part::Part;
use super::response::Choices;
use super::{Config, Endpoint, EndpointTraits, ParsedResponse, reader};
use crate::dataset::{Conversation, MediaKinds, Turn};
use crate::record::ResponseBody;

/// What the dialect is and what it can do.
pub static TRAITS: EndpointTraits = EndpointTraits {
    takes: MediaKinds::all(),
    takes_messages: true,
    repeats_history: true,
    ..EndpointTraits::text("chat", "/v1/chat/completions", |config| {
        Arc::new(ChatCompletions::new(config))
    })
};

/// `/v1/chat/completions`.
///
/// A request bears the system message, the context, every earlier turn with its
/// answer, and this turn. A turn of several texts is several messages, one with media
/// is one message of parts. Turns that
/// bear their whole history, or messages of their own, are sent alone.
#[derive(Debug)]
pub struct ChatCompletions {
    config: Config,
}

impl ChatCompletions {
    /// The dialect with these settings.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self { config: config.clone() }
    }
}

impl Endpoint for ChatCompletions {
    fn traits(&self) -> &'static EndpointTraits {
        &TRAITS
    }

    fn request_body(
        &self,
        conversation: &Conversation,
        turn: usize,
        answers: &[Arc<str>],
    ) -> Vec<u8> {
        let Some(this) = conversation.turns.get(turn) else { return Vec::new() };
        if let Some(raw) = body::raw(this) {
            return raw;
        }
        let limit =
            if self.config.use_legacy_max_tokens { "max_tokens" } else { "max_completion_tokens" };
        let messages = match &this.messages {
            Some(messages) => Member::Raw(messages),
            None => Member::Messages(messages(conversation, turn, answers)),
        };
        Body::new(&self.config, "messages", messages)
            .generating(&self.config, limit, this)
            .to_json()
    }

    fn has_content(&self, event: &[u8]) -> bool {
        reader::has_content::<Choices>(event)
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        reader::parse::<Choices>(body)
    }
}

fn messages<'a>(
    conversation: &'a Conversation,
    turn: usize,
    answers: &'a [Arc<str>],
) -> Vec<Message<'a>> {
    let system = conversation.system.as_deref();
    let opening = system.map(|text| Message { role: "system", content: Content::Plain(text) });
    let said = history(conversation, turn, answers);
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
