//! OpenAI chat completions.

pub(in crate::endpoint) mod read;

use serde_json::value::RawValue;

use dataset::{MediaKinds, Turn};

use self::read::Choices;
use super::{Asked, Dialect, build};
use crate::endpoint::body::{Body, Content, Member, Message};
use crate::endpoint::history::{SYSTEM, Said};
use crate::endpoint::part::Part;
use crate::endpoint::{Config, EndpointTraits};

/// The dialect's properties and capabilities.
pub(crate) static TRAITS: EndpointTraits = EndpointTraits {
    takes: MediaKinds::all(),
    takes_image_uuids: true,
    takes_messages: true,
    repeats_history: true,
    ..EndpointTraits::text("chat", "/v1/chat/completions", build::<Chat>)
};

/// `/v1/chat/completions`.
///
/// A request contains the system message, the context, all earlier turns with their
/// responses, and this turn. A turn with several texts becomes several messages, a turn with
/// media a single message of parts. Turns that contain their whole history, or their own
/// messages, are sent alone.
struct Chat;

impl Dialect for Chat {
    type Reader = Choices;

    fn body(config: &Config, asked: &Asked<'_>) -> Vec<u8> {
        let limit =
            if config.use_legacy_max_tokens { "max_tokens" } else { "max_completion_tokens" };
        let messages = match &asked.turn.messages {
            Some(messages) if asked.stands_alone() => Member::Raw(messages),
            Some(_) => Member::Made(joined(asked.history())),
            None => Member::Messages(messages(asked, asked.history())),
        };
        let body = Body::new(config, "messages", messages);
        let body = match &asked.turn.tools {
            Some(tools) => body.with("tools", Member::Raw(tools)),
            None => body,
        };
        body.generating(config, limit, asked.turn).into_json(asked.turn)
    }
}

/// Returns the messages of a request that repeats `said`, the earlier turns and responses.
pub(super) fn messages<'a>(asked: &Asked<'a>, said: Vec<Said<'a>>) -> Vec<Message<'a>> {
    let opening = asked.system().map(|content| Message { role: SYSTEM, content });
    let mut messages = Vec::with_capacity(said.len() + 1);
    messages.extend(opening);
    for said in said {
        match said {
            Said::Asked(turn) => messages.extend(own(turn)),
            Said::Made(made) => {
                messages.push(Message { role: made.role, content: Content::Asked(&made.text) });
            }
            Said::Context(text) | Said::Answered(text) => {
                messages.push(Message { role: said.role(), content: Content::Plain(text) });
            }
        }
    }
    messages
}

/// Returns the messages that turns bring themselves, with the responses in between.
fn joined(said: Vec<Said<'_>>) -> Box<RawValue> {
    let mut text = String::from("[");
    for said in said {
        let messages = match said {
            Said::Asked(Turn { messages: Some(messages), .. }) => {
                let array = messages.get().trim();
                let inner = array.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                inner.unwrap_or_default().to_owned()
            }
            Said::Answered(text) => {
                let message = Message { role: said.role(), content: Content::Plain(text) };
                serde_json::to_string(&message).unwrap_or_default()
            }
            Said::Asked(_) | Said::Made(_) | Said::Context(_) => continue,
        };
        if text.len() > 1 && !messages.trim().is_empty() {
            text.push(',');
        }
        text.push_str(&messages);
    }
    text.push(']');
    // The parts are JSON values, so that the whole is too.
    RawValue::from_string(text).unwrap_or_default()
}

/// Returns the messages of a turn itself: one for each text, or one with parts if there are
/// media.
fn own(turn: &Turn) -> impl Iterator<Item = Message<'_>> {
    let role = turn.role.as_deref().unwrap_or("user");
    let is_text = turn.media.is_empty();
    let texts = turn.texts.iter().filter(move |_| is_text).map(Content::Asked);
    let parts = (!is_text).then(|| Content::Parts(Part::all(turn)));
    texts.chain(parts).map(move |content| Message { role, content })
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;
    use serde_json::{Value, json};

    use dataset::Conversation;

    use super::*;
    use crate::endpoint::EndpointType;
    use crate::endpoint::fixture::config;

    #[test]
    fn messages_of_turns_are_joined_with_the_responses_in_between() {
        let raw = |value: Value| Some(to_raw_value(&value).unwrap().into());
        let said = |role: &str, text: &str| json!({"role": role, "content": text});
        let turn = |messages: Value| Turn { messages: raw(messages), ..Turn::default() };
        let mut turns = vec![
            turn(json!([said("system", "s"), said("user", "a")])),
            turn(json!([said("user", "b")])),
        ];
        turns[1].extra = vec![("seed".to_owned(), json!(4)), ("model".to_owned(), json!("other"))];
        let mut conversation = Conversation { turns, ..Conversation::default() };
        let mut config = config(EndpointType::CHAT, false);
        let body = |config: &Config, conversation: &Conversation, answer: Option<&str>| -> Value {
            let endpoint = crate::endpoint::build(config);
            let body = endpoint.request_body(conversation, 1, &[answer.map(Into::into)]);
            serde_json::from_slice(&body).unwrap()
        };
        let sent = body(&config, &conversation, Some("it \"is\""));
        let expected = [
            said("system", "s"),
            said("user", "a"),
            said("assistant", "it \"is\""),
            said("user", "b"),
        ];
        assert_eq!(sent["messages"], json!(expected));
        assert_eq!((&sent["seed"], &sent["model"]), (&json!(4), &json!("other")));
        assert_eq!(body(&config, &conversation, None)["messages"].as_array().unwrap().len(), 3);
        config.extra_inputs = vec![("seed".to_owned(), json!(5))];
        assert_eq!(body(&config, &conversation, None)["seed"], json!(5));
        conversation.standalone_turns = true;
        let sent = body(&config, &conversation, Some("x"));
        assert_eq!(sent["messages"], json!([said("user", "b")]));
    }

    #[test]
    fn a_turn_may_bring_the_response_before_it_or_begin_anew() {
        let raw = |value: Value| Some(to_raw_value(&value).unwrap().into());
        let said = |role: &str, text: &str| json!({"role": role, "content": text});
        let turn = |messages: Value| Turn { messages: raw(messages), ..Turn::default() };
        let turns = vec![
            Turn { answer_is_recorded: true, ..turn(json!([said("user", "a")])) },
            turn(json!([said("assistant", "recorded"), said("user", "b")])),
            Turn { starts_anew: true, ..turn(json!([said("user", "c")])) },
            turn(json!([said("user", "d")])),
        ];
        let conversation = Conversation { turns, ..Conversation::default() };
        let endpoint = crate::endpoint::build(&config(EndpointType::CHAT, false));
        let answers = ["0", "1", "2"].map(|text| Some(text.into()));
        let sent = |turn: usize| -> Value {
            let body = endpoint.request_body(&conversation, turn, &answers[..turn]);
            serde_json::from_slice::<Value>(&body).unwrap()["messages"].take()
        };
        let recorded = json!([said("user", "a"), said("assistant", "recorded"), said("user", "b")]);
        assert_eq!(sent(1), recorded);
        assert_eq!(sent(2), json!([said("user", "c")]));
        assert_eq!(sent(3), json!([said("user", "c"), said("assistant", "2"), said("user", "d")]));
    }

    #[test]
    fn tools_are_sent_beside_the_messages_of_a_turn() {
        let raw = |value: Value| Some(to_raw_value(&value).unwrap().into());
        let turn = Turn {
            messages: raw(json!([{"role": "user", "content": "Hi"}])),
            tools: raw(json!([{"type": "function", "function": {"name": "f"}}])),
            model: "m".into(),
            ..Turn::default()
        };
        let conversation = Conversation { turns: vec![turn], ..Conversation::default() };
        let mut config = config(EndpointType::CHAT, false);
        let endpoint = crate::endpoint::build(&config);
        let body: Value =
            serde_json::from_slice(&endpoint.request_body(&conversation, 0, &[])).unwrap();
        assert_eq!(body["messages"], json!([{"role": "user", "content": "Hi"}]));
        assert_eq!(body["tools"], json!([{"type": "function", "function": {"name": "f"}}]));
        // As for every field, --extra-inputs takes precedence.
        config.extra_inputs = vec![("tools".to_owned(), json!([]))];
        let endpoint = crate::endpoint::build(&config);
        let body: Value =
            serde_json::from_slice(&endpoint.request_body(&conversation, 0, &[])).unwrap();
        assert_eq!(body["tools"], json!([]));
    }
}
