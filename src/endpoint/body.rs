//! Request bodies: members in a fixed order, extras laid over them.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::Config;
use super::part::Part;
use crate::dataset::{Conversation, Text, Turn};

/// A body while it is put together.
pub(super) struct Body<'a> {
    members: Vec<(&'static str, Member<'a>)>,
    extras: &'a [(String, Value)],
}

/// The value of a member that the dialects make.
#[derive(serde::Serialize)]
#[serde(untagged)]
pub(super) enum Member<'a> {
    Messages(Vec<Message<'a>>),
    Raw(&'a RawValue),
    Prompt(&'a Text),
    Text(&'a str),
    Owned(String),
    Texts(Vec<Member<'a>>),
    Number(u32),
    Switch(bool),
    /// Of a dialect's own making.
    Made(Box<RawValue>),
    /// An extra object of its name is laid over it, member by member.
    Object(Map<String, Value>),
    StreamOptions(StreamOptions),
}

impl Member<'_> {
    /// A text with another after it, a blank between them. Other values stay as they are.
    pub(super) fn followed_by(self, more: &str) -> Self {
        match self {
            Self::Prompt(text) => Self::Owned(format!("{text} {more}")),
            Self::Owned(text) => Self::Owned(format!("{text} {more}")),
            other => other,
        }
    }
}

/// One message of a chat.
#[derive(serde::Serialize)]
pub(super) struct Message<'a> {
    pub(super) role: &'a str,
    pub(super) content: Content<'a>,
}

/// The text of a message, or its parts.
#[derive(serde::Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Plain(&'a str),
    Asked(&'a Text),
    Parts(Vec<Part<'a>>),
}

#[derive(serde::Serialize)]
pub(super) struct StreamOptions {
    include_usage: bool,
}

impl<'a> Body<'a> {
    /// A body without extras that opens with `name`.
    pub(super) fn plain(name: &'static str, value: Member<'a>) -> Self {
        Self { members: vec![(name, value)], extras: &[] }
    }

    /// A body that opens with `name`.
    pub(super) fn new(config: &'a Config, name: &'static str, value: Member<'a>) -> Self {
        Self { members: vec![(name, value)], extras: &config.extra_inputs }
    }

    /// The body with one more member.
    pub(super) fn with(mut self, name: &'static str, value: Member<'a>) -> Self {
        self.members.push((name, value));
        self
    }

    /// The body with one more member, if there is one.
    pub(super) fn with_some(self, name: &'static str, value: Option<Member<'a>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The body with what dialects that generate text have in common. Usage is
    /// asked for in every stream: it is one small event at the end.
    pub(super) fn generating(self, config: &Config, limit: &'static str, turn: &'a Turn) -> Self {
        let options = Member::StreamOptions(StreamOptions { include_usage: true });
        self.with("model", Member::Text(&turn.model))
            .with("stream", Member::Switch(config.streaming))
            .with_some(limit, turn.max_tokens.map(Member::Number))
            .with_some("stream_options", config.streaming.then_some(options))
    }

    /// The body as JSON.
    pub(super) fn to_json(&self) -> Vec<u8> {
        // Text, numbers and JSON values always serialise.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The last extra of this name: it takes the member's place.
    fn extra(&self, name: &str) -> Option<&Value> {
        self.extras.iter().rev().find(|(extra, _)| extra == name).map(|(_, value)| value)
    }

    fn is_member(&self, name: &str) -> bool {
        self.members.iter().any(|(member, _)| *member == name)
    }
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in &self.members {
            match (self.extra(name), value) {
                (Some(Value::Object(extra)), Member::Object(own)) => {
                    let mut both = own.clone();
                    both.extend(extra.clone());
                    map.serialize_entry(name, &both)?;
                }
                (Some(extra), _) => map.serialize_entry(name, extra)?,
                (None, _) => map.serialize_entry(name, value)?,
            }
        }
        for (at, (name, value)) in self.extras.iter().enumerate() {
            let is_last = !self.extras[at + 1..].iter().any(|(later, _)| later == name);
            if is_last && !self.is_member(name) {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}

/// A member that a dialect makes itself.
pub(super) fn made(value: &impl Serialize) -> Member<'static> {
    // Text, numbers and JSON values always serialise.
    Member::Made(to_raw_value(value).unwrap_or_default())
}

/// The body that a turn brings along, to be sent as it is.
pub(super) fn raw(turn: &Turn) -> Option<Vec<u8>> {
    turn.raw_payload.as_ref().map(|payload| payload.get().as_bytes().to_vec())
}

/// A turn's texts for a dialect without messages: one text, or a list where
/// there are several. The conversation's system message and context are put
/// before each, a line feed between them.
pub(super) fn prompt<'a>(conversation: &'a Conversation, turn: &'a Turn) -> Member<'a> {
    let mut texts = prompts(conversation, turn);
    match turn.texts.len() {
        0 | 1 => texts.next().unwrap_or(Member::Text("")),
        _ => Member::Texts(texts.collect()),
    }
}

/// A turn's texts, each with what stands before it as in [`prompt`].
pub(super) fn prompts<'a>(
    conversation: &'a Conversation,
    turn: &'a Turn,
) -> impl Iterator<Item = Member<'a>> {
    let lead = lead(conversation);
    turn.texts.iter().map(move |text| match &lead {
        None => Member::Prompt(text),
        Some(lead) => Member::Owned(format!("{lead}\n{text}")),
    })
}

/// A turn's texts for a dialect that takes one: those of several with a blank
/// between them. What stands before is as in [`prompt`].
pub(super) fn joined<'a>(conversation: &'a Conversation, turn: &'a Turn) -> Member<'a> {
    match turn.texts.as_slice() {
        [] | [_] => prompt(conversation, turn),
        _ => Member::Owned(joined_text(conversation, turn)),
    }
}

/// As [`joined`], as a text.
pub(super) fn joined_text(conversation: &Conversation, turn: &Turn) -> String {
    let texts: Vec<String> = turn.texts.iter().map(Text::to_string).collect();
    let lead = lead(conversation).map(|lead| lead + "\n").unwrap_or_default();
    lead + &texts.join(" ")
}

/// The conversation's system message and context.
fn lead(conversation: &Conversation) -> Option<String> {
    let Conversation { system, user_context, .. } = conversation;
    let texts: Vec<&str> = [system, user_context].into_iter().flatten().map(|t| &**t).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

#[cfg(test)]
mod tests;
