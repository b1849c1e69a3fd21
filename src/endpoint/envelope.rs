//! Members that the responses of most dialects have in common, under the same names.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::value::RawValue;

use super::text::Text;

/// The model, the usage, and the error in either of its formats.
#[derive(Debug, Default)]
pub(super) struct Envelope<'a> {
    pub(super) model: Text<'a>,
    pub(super) usage: Option<&'a RawValue>,
    pub(super) error: Option<&'a RawValue>,
    /// The message of an error without a wrapper: `{"object":"error","message":…,"code":…}`.
    pub(super) message: Text<'a>,
}

/// A response or an event with an [`Envelope`] in addition to a dialect's `own` members. It is
/// parsed in one pass, without a copy in between.
#[derive(Debug, Default)]
pub(super) struct Enveloped<'a, T> {
    pub(super) envelope: Envelope<'a>,
    pub(super) own: T,
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for Enveloped<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut found = Members::default();
        let own = T::deserialize(Opened { deserializer, found: &mut found })?;
        Ok(Self { envelope: found.envelope, own })
    }
}

/// The members of an envelope that were parsed so far.
#[derive(Default)]
struct Members<'a> {
    envelope: Envelope<'a>,
    /// Whether each member was parsed, by name.
    have_come: [bool; 4],
}

impl<'a> Members<'a> {
    fn read<M: MapAccess<'a>>(&mut self, name: Name, map: &mut M) -> Result<(), M::Error> {
        if std::mem::replace(&mut self.have_come[name as usize], true) {
            return Err(M::Error::duplicate_field(name.as_str()));
        }
        match name {
            Name::Model => self.envelope.model = map.next_value()?,
            Name::Usage => self.envelope.usage = map.next_value()?,
            Name::Error => self.envelope.error = map.next_value()?,
            Name::Message => self.envelope.message = map.next_value()?,
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Name {
    Model,
    Usage,
    Error,
    Message,
}

impl Name {
    fn of(name: &str) -> Option<Self> {
        match name {
            "model" => Some(Self::Model),
            "usage" => Some(Self::Usage),
            "error" => Some(Self::Error),
            "message" => Some(Self::Message),
            _ => None,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Usage => "usage",
            Self::Error => "error",
            Self::Message => "message",
        }
    }
}

/// Passes all members except the envelope's to a structure.
struct Opened<'f, 'a, D> {
    deserializer: D,
    found: &'f mut Members<'a>,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Opened<'_, 'de, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.deserializer.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        members: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = OwnMembers { visitor, found: self.found };
        self.deserializer.deserialize_struct(name, members, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        option unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier
        ignored_any
    }
}

struct OwnMembers<'f, 'a, V> {
    visitor: V,
    found: &'f mut Members<'a>,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for OwnMembers<'_, 'de, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<V::Value, M::Error> {
        self.visitor.visit_map(Rest { map, found: self.found })
    }

    fn visit_seq<S: SeqAccess<'de>>(self, items: S) -> Result<V::Value, S::Error> {
        self.visitor.visit_seq(items)
    }
}

struct Rest<'f, 'a, M> {
    map: M,
    found: &'f mut Members<'a>,
}

impl<'de, M: MapAccess<'de>> MapAccess<'de> for Rest<'_, 'de, M> {
    type Error = M::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        mut seed: K,
    ) -> Result<Option<K::Value>, M::Error> {
        loop {
            match self.map.next_key_seed(KeySeed(seed))? {
                None => return Ok(None),
                Some(Key::Own(key)) => return Ok(Some(key)),
                Some(Key::Envelope(name, unused)) => {
                    self.found.read(name, &mut self.map)?;
                    seed = unused;
                }
            }
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, M::Error> {
        self.map.next_value_seed(seed)
    }
}

/// The name of a member: one of the envelope's, or one for the structure.
enum Key<K, O> {
    Envelope(Name, K),
    Own(O),
}

struct KeySeed<K>(K);

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for KeySeed<K> {
    type Value = Key<K, K::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de, K: DeserializeSeed<'de>> Visitor<'de> for KeySeed<K> {
    type Value = Key<K, K::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        if let Some(name) = Name::of(name) {
            return Ok(Key::Envelope(name, self.0));
        }
        let name: StrDeserializer<'_, E> = name.into_deserializer();
        self.0.deserialize(name).map(Key::Own)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Default, serde::Deserialize)]
    #[serde(default)]
    struct Own<'a> {
        #[serde(borrow)]
        id: Text<'a>,
        #[serde(borrow)]
        raw: Option<&'a RawValue>,
    }

    /// The same members in a single derived structure.
    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct Flat<'a> {
        #[serde(borrow)]
        id: Text<'a>,
        #[serde(borrow)]
        raw: Option<&'a RawValue>,
        #[serde(borrow)]
        model: Text<'a>,
        #[serde(borrow)]
        usage: Option<&'a RawValue>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
        #[serde(borrow)]
        message: Text<'a>,
    }

    type Shown = (String, Option<String>, String, Option<String>, Option<String>, String);

    fn enveloped(json: &str) -> Result<Shown, String> {
        let Enveloped { envelope, own } =
            serde_json::from_str::<Enveloped<'_, Own<'_>>>(json).map_err(|e| e.to_string())?;
        let text = |text: Text<'_>| text.0.into_owned();
        let raw = |raw: Option<&RawValue>| raw.map(|raw| raw.get().to_owned());
        let Envelope { model, usage, error, message } = envelope;
        Ok((text(own.id), raw(own.raw), text(model), raw(usage), raw(error), text(message)))
    }

    fn flat(json: &str) -> Result<Shown, String> {
        let flat = serde_json::from_str::<Flat<'_>>(json);
        let flat = flat.map_err(|why| why.to_string().replace("struct Flat", "struct Own"))?;
        let text = |text: Text<'_>| text.0.into_owned();
        let raw = |raw: Option<&RawValue>| raw.map(|raw| raw.get().to_owned());
        let Flat { id, raw: own, model, usage, error, message } = flat;
        Ok((text(id), raw(own), text(model), raw(usage), raw(error), text(message)))
    }

    #[test]
    fn members_are_taken_from_anywhere_between_a_dialects_own() {
        let json = r#"{"usage":{"a":1},"id":"i","m\u006fdel":"m","x":[{}],"raw":[1, 2],
                       "error":null,"message":"no"}"#;
        assert_eq!(enveloped(json), flat(json));
        let (id, raw, model, usage, error, message) = enveloped(json).unwrap();
        assert_eq!((&*id, raw.as_deref(), &*model), ("i", Some("[1, 2]"), "m"));
        assert_eq!((usage.as_deref(), error, &*message), (Some(r#"{"a":1}"#), None, "no"));
    }

    #[test]
    fn a_text_borrows_from_the_answer() {
        let reply: Enveloped<'_, Own<'_>> =
            serde_json::from_str(r#"{"model":"m","id":"i"}"#).unwrap();
        assert!(matches!(reply.envelope.model.0, std::borrow::Cow::Borrowed("m")));
        assert!(matches!(reply.own.id.0, std::borrow::Cow::Borrowed("i")));
    }

    proptest! {
        #[test]
        fn an_envelope_is_as_members_of_one_structure(
            members in prop::collection::vec(
                (
                    prop::sample::select(vec!["id", "raw", "model", "usage", "error", "message", "x"]),
                    prop::sample::select(
                        vec!["null", "1", "\"a\"", "[]", "{\"text\":\"b\"}", "[\"c\"]", "{", "true"],
                    ),
                ),
                0..6,
            ),
            other in prop::sample::select(vec!["", "1", "\"a\"", "[]", "null", "true", "{", "[1"]),
        ) {
            let members: Vec<String> =
                members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            let json = format!("{{{}}}", members.join(","));
            prop_assert_eq!(enveloped(&json), flat(&json));
            prop_assert_eq!(enveloped(other), flat(other));
        }
    }
}
