//! Finds the texts of values whose shape is not known, by the names of their members.
//!
//! Servers add places for content faster than a client can know them: a list of parts in place of a
//! text, `reasoning_details` instead of `reasoning`. A string is text if its member's name has a word
//! such as `text`, `thinking` or `transcript`, or if a member around it has and its own name does not
//! say otherwise, as `id` or `signature` do.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::text::{Text, textless};

/// Maximum length of the name of a place in bytes.
const PLACE_LIMIT: usize = 80;

/// What a text is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum TextKind {
    #[default]
    Output,
    Reasoning,
}

/// A text that was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) kind: TextKind,
    pub(super) text: String,
    /// The names of the members around it, as in `thinking[].text`.
    pub(super) place: String,
}

/// The texts that were found in values of unknown shapes, in their order.
pub(super) type Found = Vec<Piece>;

/// What the name of a member says of the strings in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// They are text.
    Text(TextKind),
    /// They are what the strings around them are.
    Inherited,
    /// They are not generated text.
    Other,
}

/// Words in the names of members without generated text.
const OTHER: &[&str] = &[
    "annotation",
    "annotations",
    "arguments",
    "b64",
    "budget",
    "bytes",
    "cache",
    "call",
    "calls",
    "citation",
    "citations",
    "code",
    "created",
    "data",
    "effort",
    "encrypted",
    "error",
    "file",
    "fingerprint",
    "finish",
    "format",
    "function",
    "hash",
    "id",
    "ids",
    "image",
    "images",
    "index",
    "input",
    "language",
    "level",
    "logprob",
    "logprobs",
    "matched",
    "metadata",
    "mime",
    "mode",
    "model",
    "name",
    "object",
    "prompt",
    "redacted",
    "result",
    "results",
    "role",
    "safety",
    "search",
    "seed",
    "service",
    "signature",
    "status",
    "stop",
    "tier",
    "token",
    "tokens",
    "tool",
    "tools",
    "type",
    "uri",
    "url",
    "usage",
    "verbosity",
    "video",
    "voice",
];
/// Words in the names of members with reasoning.
const REASONING: &[&str] = &["reasoning", "summary", "thinking", "thought", "thoughts"];
/// Words in the names of members with other generated text.
const OUTPUT: &[&str] =
    &["answer", "content", "contents", "output", "refusal", "text", "texts", "transcript"];

impl Meaning {
    fn from_name(name: &str) -> Self {
        let has = |words: &[&str]| self::words(name).any(|word| words.contains(&&*word));
        if has(OTHER) {
            Self::Other
        } else if has(REASONING) {
            Self::Text(TextKind::Reasoning)
        } else if has(OUTPUT) {
            Self::Text(TextKind::Output)
        } else {
            Self::Inherited
        }
    }
}

/// Returns the words of a name such as `reasoning_content` or `thoughtSummary`, in lower case.
fn words(name: &str) -> impl Iterator<Item = String> + '_ {
    let mut rest = name;
    std::iter::from_fn(move || {
        let start = rest.find(|c: char| c.is_ascii_alphanumeric())?;
        rest = &rest[start..];
        let ends =
            |(at, c): (usize, char)| at > 0 && !(c.is_ascii_lowercase() || c.is_ascii_digit());
        let is_upper = rest.starts_with(|c: char| c.is_ascii_uppercase());
        let all_upper = rest.find(|c: char| !c.is_ascii_uppercase()).unwrap_or(rest.len());
        let end = if is_upper && all_upper > 1 {
            all_upper
        } else {
            rest.char_indices().find(|place| ends(*place)).map_or(rest.len(), |(at, _)| at)
        };
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word.to_ascii_lowercase())
    })
}

/// Returns the kind of text in the events of a type that a reader does not know, such as
/// `response.audio.transcript.delta`; `None` if it is sound.
pub(super) fn kind_of_event(name: &str) -> Option<TextKind> {
    let words: Vec<String> = words(name).collect();
    let has = |one: &str| words.iter().any(|word| word == one);
    if has("audio") && !has("transcript") {
        return None;
    }
    let is_reasoning = words.iter().any(|word| REASONING.contains(&&**word));
    Some(if is_reasoning { TextKind::Reasoning } else { TextKind::Output })
}

/// Reads the value of a member that a reader does not know, and adds the texts in it.
///
/// # Errors
/// If the value is not valid JSON.
pub(super) fn member<'de, A: MapAccess<'de>>(
    name: &str,
    members: &mut A,
    found: &mut Found,
) -> Result<(), A::Error> {
    match Meaning::from_name(name) {
        Meaning::Other => members.next_value::<IgnoredAny>().map(drop),
        Meaning::Inherited => members.next_value_seed(Value { place: name, kind: None, found }),
        Meaning::Text(kind) => {
            members.next_value_seed(Value { place: name, kind: Some(kind), found })
        }
    }
}

/// Adds the texts of a value to `found`.
pub(super) struct Value<'f> {
    /// The names of the members around it.
    pub(super) place: &'f str,
    /// What a string is here; `None` if it is not generated text.
    pub(super) kind: Option<TextKind>,
    pub(super) found: &'f mut Found,
}

impl Value<'_> {
    fn text(self, text: &str) {
        if let Some(kind) = self.kind.filter(|_| !text.is_empty()) {
            let mut end = self.place.len().min(PLACE_LIMIT);
            while !self.place.is_char_boundary(end) {
                end -= 1;
            }
            let place = self.place[..end].to_owned();
            self.found.push(Piece { kind, text: text.to_owned(), place });
        }
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    textless!((), ());

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.text(text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let place = format!("{}[]", self.place);
        let Self { kind, found, .. } = self;
        while items.next_element_seed(Value { place: &place, kind, found })?.is_some() {}
        Ok(())
    }

    /// Reads the members. A `type` says what all texts beside it are, as in
    /// `{"type":"reasoning.text","text":"…"}`; parts of types such as `tool_result` do not have any.
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { place, kind, found } = self;
        let first = found.len();
        let mut of_type = Meaning::Inherited;
        while let Some(name) = members.next_key::<Text<'de>>()? {
            let name = &*name.0;
            if name == "type" {
                of_type = Meaning::from_name(&members.next_value::<Text<'de>>()?.0);
                continue;
            }
            let kind = match (Meaning::from_name(name), kind) {
                (Meaning::Other, _) => {
                    members.next_value::<IgnoredAny>()?;
                    continue;
                }
                (Meaning::Inherited, kind) => kind,
                (Meaning::Text(_), Some(TextKind::Reasoning)) => Some(TextKind::Reasoning),
                (Meaning::Text(kind), _) => Some(kind),
            };
            let place = if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
            members.next_value_seed(Value { place: &place, kind, found })?;
        }
        match of_type {
            Meaning::Other => found.truncate(first),
            Meaning::Text(TextKind::Reasoning) => {
                found[first..].iter_mut().for_each(|piece| piece.kind = TextKind::Reasoning);
            }
            _ => {}
        }
        Ok(())
    }
}

/// A value of a response that may have another shape, or more members, than the client knows.
pub(super) trait Open<'de>: Default {
    /// Reads an object.
    fn object<A: MapAccess<'de>>(&mut self, members: A) -> Result<(), A::Error>;

    /// Returns the texts that are not in known places.
    fn extra(&mut self) -> &mut Found;

    /// Reads a text.
    fn text(&mut self, text: Cow<'de, str>) {
        anywhere(self.extra()).text(&text);
    }
}

/// Returns a seed for a value that is output, whatever its shape.
fn anywhere(found: &mut Found) -> Value<'_> {
    Value { place: "", kind: Some(TextKind::Output), found }
}

/// Reads an [`Open`] value. Numbers, booleans and `null` do not have any text.
pub(super) struct OpenVisitor<T>(pub(super) PhantomData<T>);

impl<'de, T: Open<'de>> Visitor<'de> for OpenVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        let mut open = T::default();
        open.object(members)?;
        Ok(open)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<T, A::Error> {
        let mut open = T::default();
        anywhere(open.extra()).visit_seq(items)?;
        Ok(open)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<T, E> {
        let mut open = T::default();
        open.text(Cow::Borrowed(text));
        Ok(open)
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        let mut open = T::default();
        open.text(Cow::Owned(text.to_owned()));
        Ok(open)
    }

    textless!(T, T::default());
}

/// Declares an object as an [`Open`] value: the names of its members in JSON, its fields and their
/// types. The texts of all other members are in its field `extra`.
macro_rules! open_object {
    (
        $(#[$attribute:meta])*
        struct $name:ident<$a:lifetime> {
            $($(#[$member_attribute:meta])* $json:literal => $member:ident: $type:ty,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Default)]
        struct $name<$a> {
            $($(#[$member_attribute])* $member: $type,)*
            extra: $crate::endpoint::structure::Found,
        }

        impl<'de: $a, $a> $crate::endpoint::structure::Open<'de> for $name<$a> {
            fn object<A: ::serde::de::MapAccess<'de>>(
                &mut self,
                mut members: A,
            ) -> Result<(), A::Error> {
                while let Some(name) = members.next_key::<$crate::endpoint::text::Text<'de>>()? {
                    match &*name.0 {
                        $($json => self.$member = members.next_value()?,)*
                        name => $crate::endpoint::structure::member(
                            name,
                            &mut members,
                            &mut self.extra,
                        )?,
                    }
                }
                Ok(())
            }

            fn extra(&mut self) -> &mut $crate::endpoint::structure::Found {
                &mut self.extra
            }
        }

        impl<'de: $a, $a> ::serde::Deserialize<'de> for $name<$a> {
            fn deserialize<D: ::serde::Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
                let visitor = $crate::endpoint::structure::OpenVisitor(::std::marker::PhantomData);
                json.deserialize_any(visitor)
            }
        }
    };
}
pub(super) use open_object;

/// The value of a member that has content: usually a text, or a list of parts in which each has a
/// `text`. The text borrows from the response unless it has escapes.
#[derive(Debug, Default)]
pub(super) struct Content<'a> {
    pub(super) text: Cow<'a, str>,
    /// The texts of a value of any other shape.
    pub(super) extra: Found,
}

impl Content<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.extra.is_empty()
    }
}

/// The places of texts in lists of parts.
const PARTS: [&str; 3] = ["[]", "[].text", "text"];

impl<'de: 'a, 'a> Open<'de> for Content<'a> {
    fn object<A: MapAccess<'de>>(&mut self, members: A) -> Result<(), A::Error> {
        anywhere(&mut self.extra).visit_map(members)
    }

    fn extra(&mut self) -> &mut Found {
        &mut self.extra
    }

    fn text(&mut self, text: Cow<'de, str>) {
        self.text = text;
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        let mut content = json.deserialize_any(OpenVisitor::<Self>(PhantomData))?;
        let is_part =
            |piece: &Piece| piece.kind == TextKind::Output && PARTS.contains(&&*piece.place);
        for part in content.extra.extract_if(.., |piece| is_part(piece)) {
            content.text.to_mut().push_str(&part.text);
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(json: &str) -> Vec<(TextKind, String, String)> {
        let mut found = Found::new();
        let value = Value { place: "", kind: None, found: &mut found };
        value.deserialize(&mut serde_json::Deserializer::from_str(json)).unwrap();
        found.into_iter().map(|piece| (piece.kind, piece.text, piece.place)).collect()
    }

    fn one(kind: TextKind, text: &str, place: &str) -> Vec<(TextKind, String, String)> {
        vec![(kind, text.to_owned(), place.to_owned())]
    }

    #[test]
    fn names_are_split_into_words() {
        let words_of = |name| words(name).collect::<Vec<_>>();
        assert_eq!(words_of("reasoning_content"), ["reasoning", "content"]);
        assert_eq!(words_of("thoughtSummary"), ["thought", "summary"]);
        assert_eq!(words_of("reasoning.text"), ["reasoning", "text"]);
        assert_eq!(words_of("TEXT"), ["text"]);
        assert_eq!(words_of("é_-"), Vec::<String>::new());
    }

    /// The shapes of Mistral, `OpenRouter`, `OpenAI`'s audio and `LiteLLM`.
    #[test]
    fn texts_of_servers_are_found() {
        let (output, reasoning) = (TextKind::Output, TextKind::Reasoning);
        let mistral =
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":" a"}]}]}"#;
        assert_eq!(found(mistral), one(reasoning, " a", "content[].thinking[].text"));
        let open_router = r#"{"reasoning_details":[
            {"type":"reasoning.text","text":" a","format":"anthropic","index":0,"signature":"xyz"},
            {"type":"reasoning.encrypted","data":"opaque"}]}"#;
        assert_eq!(found(open_router), one(reasoning, " a", "reasoning_details[].text"));
        let audio = r#"{"audio":{"id":"audio_1","data":"UklG","transcript":" a"}}"#;
        assert_eq!(found(audio), one(output, " a", "audio.transcript"));
        let lite_llm = r#"{"provider_specific_fields":{"thinking_blocks":[{"thinking":"a"}]}}"#;
        let place = "provider_specific_fields.thinking_blocks[].thinking";
        assert_eq!(found(lite_llm), one(reasoning, "a", place));
        let typed = r#"{"content":[{"type":"reasoning_text","text":"a"}]}"#;
        assert_eq!(found(typed), one(reasoning, "a", "content[].text"));
        assert_eq!(found(r#"{"content":{"parts":["a"]}}"#), one(output, "a", "content.parts[]"));
    }

    #[test]
    fn what_is_not_generated_is_left_out() {
        for json in [
            r#"{"role":"assistant","id":"x","object":"chat","reasoning_effort":"high"}"#,
            r#"{"text":{"format":{"type":"text"},"verbosity":"medium"}}"#,
            r#"{"content":[{"type":"tool_result","content":[{"type":"text","text":"a"}]}]}"#,
            r#"{"annotations":[{"url_citation":{"title":"a","content":"b"}}]}"#,
            r#"{"logprobs":{"content":[{"token":"a","text":"b"}]}}"#,
            r#"{"encrypted_content":"a","signature":"b","text":"","summary":null,"thinking":true}"#,
            r#"{"native_finish_reason":"stop","text_tokens":"7","unknown":"a"}"#,
        ] {
            assert_eq!(found(json), [], "{json}");
        }
    }

    #[test]
    fn a_long_place_is_cut() {
        let json = format!("{}\"a\"{}", r#"{"texté":"#.repeat(60), "}".repeat(60));
        let place = &found(&json)[0].2;
        assert!(place.len() <= PLACE_LIMIT && place.starts_with("texté.texté"), "{place}");
    }

    proptest! {
        #[test]
        fn any_json_is_read(name in "[a-z_]{0,12}|thinking|text", text: String, number: f64) {
            let value = serde_json::json!({&*name: [{&*text: text, "content": number}, null, text]});
            let _ = found(&value.to_string());
        }
    }
}
