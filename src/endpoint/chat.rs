//! OpenAI chat completions.

use std::sync::Arc;

use super::body::{self, Body, Content, Member, Message};
use super::{Config, Endpoint, EndpointTraits, ParsedResponse, response};
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
/// answer, and this turn. A turn of several texts is several messages. Turns that
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
        response::has_content(event)
    }

    fn parse(&self, body: &ResponseBody) -> ParsedResponse {
        response::parse(body)
    }
}

fn messages<'a>(
    conversation: &'a Conversation,
    turn: usize,
    answers: &'a [Arc<str>],
) -> Vec<Message<'a>> {
    let mut messages = Vec::with_capacity(2 * turn + 3);
    if let Some(system) = &conversation.system {
        messages.push(Message { role: "system", content: Content::Plain(system) });
    }
    if let Some(context) = &conversation.user_context {
        messages.push(Message { role: "user", content: Content::Plain(context) });
    }
    let repeated = if conversation.standalone_turns { 0 } else { turn };
    for (index, earlier) in conversation.turns.iter().take(repeated).enumerate() {
        messages.extend(own(earlier));
        if let Some(answer) = answers.get(index) {
            messages.push(Message { role: "assistant", content: Content::Plain(answer) });
        }
    }
    messages.extend(conversation.turns.get(turn).into_iter().flat_map(own));
    messages
}

/// The messages of a turn itself.
fn own(turn: &Turn) -> impl Iterator<Item = Message<'_>> {
    let role = turn.role.as_deref().unwrap_or("user");
    turn.texts.iter().map(move |text| Message { role, content: Content::Asked(text) })
}
