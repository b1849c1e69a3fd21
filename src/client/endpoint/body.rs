//! Request bodies: fields in a fixed order, merged with extra inputs.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use dataset::{Conversation, Text, Turn};

use super::Config;
use super::part::Part;

/// A builder for a request body.
pub(super) struct Body<'a> {
    members: Vec<(&'static str, Member<'a>)>,
    extras: &'a [(String, Value)],
    /// Members of the turn's own; the others take precedence.
    own: &'a [(String, Value)],
    /// The member with the settings of sampling, if they are not members of the body.
    sampling: Option<&'static str>,
}

/// The value of a field that a dialect sets.
#[derive(serde::Serialize)]
#[serde(untagged)]
pub(super) enum Member<'a> {
    Messages(Vec<Message<'a>>),
    Raw(&'a RawValue),
    Prompt(&'a Text),
    Text(&'a str),
    Content(Content<'a>),
    Owned(String),
    Texts(Vec<Member<'a>>),
    TokenIds(&'a [u32]),
    Number(u32),
    Switch(bool),
    /// A value built by the dialect.
    Made(Box<RawValue>),
    /// An object that an extra input of the same name is merged into, field by field.
    Object(Map<String, Value>),
    StreamOptions(StreamOptions),
}

impl Member<'_> {
    /// Appends a text, separated by a space. Other values are unchanged.
    pub(super) fn followed_by(self, more: &str) -> Self {
        match self {
            Self::Prompt(text) => Self::Owned(format!("{text} {more}")),
            Self::Owned(text) => Self::Owned(format!("{text} {more}")),
            other => other,
        }
    }
}

/// A chat message.
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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    continuous_usage_stats: bool,
}

impl<'a> Body<'a> {
    /// Creates a body without extra inputs whose first field is `name`.
    pub(super) fn plain(name: &'static str, value: Member<'a>) -> Self {
        Self { members: vec![(name, value)], extras: &[], own: &[], sampling: None }
    }

    /// Creates a body whose first field is `name`.
    pub(super) fn new(config: &'a Config, name: &'static str, value: Member<'a>) -> Self {
        Self {
            members: vec![(name, value)],
            extras: &config.extra_inputs,
            own: &[],
            sampling: None,
        }
    }

    /// Adds a field.
    pub(super) fn with(mut self, name: &'static str, value: Member<'a>) -> Self {
        self.members.push((name, value));
        self
    }

    /// Adds a field, if there is a value.
    pub(super) fn with_some(self, name: &'static str, value: Option<Member<'a>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds the fields that all dialects for text generation have. Usage is requested in every
    /// stream, since it is only one small event at the end.
    pub(super) fn generating(self, config: &Config, limit: &'static str, turn: &'a Turn) -> Self {
        let options = Member::StreamOptions(StreamOptions {
            include_usage: true,
            continuous_usage_stats: config.per_chunk_usage,
        });
        self.with("model", Member::Text(&turn.model))
            .with("stream", Member::Switch(config.streaming))
            .with_some(limit, turn.max_tokens.map(Member::Number))
            .with_some("stream_options", config.streaming.then_some(options))
    }

    /// Sets the member that has the settings of sampling.
    pub(super) fn sampling_in(self, name: &'static str) -> Self {
        Self { sampling: Some(name), ..self }
    }

    /// Returns the body as JSON, with the members that the turn itself has.
    pub(super) fn into_json(self, turn: &'a Turn) -> Vec<u8> {
        let sampling = self.sampling;
        // Text, numbers and JSON values always serialise.
        let body = serde_json::to_vec(&Self { own: &turn.extra, ..self }).unwrap_or_default();
        if turn.is_greedy { greedy(&body, sampling).unwrap_or(body) } else { body }
    }

    /// Returns the last extra input of this name, or else the turn's own member, which replaces the
    /// field.
    fn extra(&self, name: &str) -> Option<&Value> {
        let extras = self.own.iter().chain(self.extras).rev();
        extras.into_iter().find(|(extra, _)| extra == name).map(|(_, value)| value)
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
        let extras = || self.own.iter().chain(self.extras);
        for (at, (name, value)) in extras().enumerate() {
            let is_last = !extras().skip(at + 1).any(|(later, _)| later == name);
            if is_last && !self.is_member(name) {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}

/// Returns a body with a temperature of 0, in the member `sampling` if there is such one.
fn greedy(body: &[u8], sampling: Option<&str>) -> Option<Vec<u8>> {
    let mut whole: Map<String, Value> = serde_json::from_slice(body).ok()?;
    let settings = match sampling {
        Some(name) => whole.entry(name).or_insert_with(|| Map::new().into()).as_object_mut()?,
        None => &mut whole,
    };
    settings.insert("temperature".to_owned(), 0.into());
    serde_json::to_vec(&whole).ok()
}

/// Returns a field that a dialect builds itself.
pub(super) fn made(value: &impl Serialize) -> Member<'static> {
    // Text, numbers and JSON values always serialise.
    Member::Made(to_raw_value(value).unwrap_or_default())
}

/// Returns the body that a turn already has, to be sent unchanged.
pub(super) fn raw(turn: &Turn) -> Option<Vec<u8>> {
    turn.raw_payload.as_ref().map(|payload| payload.get().as_bytes().to_vec())
}

/// Returns a turn's texts for a dialect without messages: a text, or a list if there are
/// several. Each is prefixed with the conversation's system message and context, separated by
/// line feeds. If the turn has token IDs, they are returned instead.
pub(super) fn prompt<'a>(conversation: &'a Conversation, turn: &'a Turn) -> Member<'a> {
    let ids = turn.token_ids.iter().map(|ids| Member::TokenIds(ids));
    let mut prompts: Vec<Member<'a>> = if turn.token_ids.is_empty() {
        prompts(conversation, turn).collect()
    } else {
        ids.collect()
    };
    match prompts.len() {
        0 | 1 => prompts.pop().unwrap_or(Member::Text("")),
        _ => Member::Texts(prompts),
    }
}

/// Returns a turn's texts, each with the prefix as in [`prompt`].
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

/// Returns a turn's texts for a dialect that accepts one text: several are joined by spaces,
/// with the prefix as in [`prompt`].
pub(super) fn joined<'a>(conversation: &'a Conversation, turn: &'a Turn) -> Member<'a> {
    match turn.texts.as_slice() {
        [] | [_] => prompt(conversation, turn),
        _ => Member::Owned(joined_text(conversation, turn)),
    }
}

/// Like [`joined`], but returns a string.
pub(super) fn joined_text(conversation: &Conversation, turn: &Turn) -> String {
    let texts: Vec<String> = turn.texts.iter().map(Text::to_string).collect();
    let lead = lead(conversation).map(|lead| lead + "\n").unwrap_or_default();
    lead + &texts.join(" ")
}

/// Returns the conversation's system message and context.
fn lead(conversation: &Conversation) -> Option<String> {
    let Conversation { system, user_context, .. } = conversation;
    let texts: Vec<&str> = [system, user_context].into_iter().flatten().map(|t| &**t).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

#[cfg(test)]
mod tests;
