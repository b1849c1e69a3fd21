//! Times and counts in JSON.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of a JSON object, in their order. Each value stays text until it is asked for, since
/// a report has many members that nobody reads.
#[derive(Debug, Default)]
pub struct Object<'e>(Vec<(&'e str, &'e RawValue)>);

impl<'e> Object<'e> {
    /// Returns the members of the object in `json`; none if it is not an object.
    pub fn parse(json: &'e str) -> Self {
        serde_json::from_str(json).unwrap_or_default()
    }

    /// Returns the JSON of the member `name`; `None` if it is `null`.
    pub(in crate::server_family) fn json(&self, name: &str) -> Option<&'e str> {
        let named = |(known, _): &&(&str, &RawValue)| *known == name;
        let (_, value) = self.0.iter().rev().find(named)?;
        Some(value.get()).filter(|json| *json != "null")
    }

    /// Returns the members of the object that the member `name` is.
    pub(in crate::server_family) fn object(&self, name: &str) -> Self {
        self.json(name).map(Self::parse).unwrap_or_default()
    }

    /// Returns the text that the member `name` is.
    pub(in crate::server_family) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.json(name)?).ok()
    }

    /// Returns the number that the member `name` is.
    pub(in crate::server_family) fn number(&self, name: &str) -> Option<f64> {
        self.json(name)?.parse().ok()
    }

    /// Returns the whole number that the member `name` is.
    pub(in crate::server_family) fn count(&self, name: &str) -> Option<u64> {
        self.json(name)?.parse().ok()
    }

    /// Returns whether it is empty.
    pub(in crate::server_family) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de: 'e, 'e> Deserialize<'de> for Object<'e> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut object = Object(Vec::with_capacity(USUAL_MEMBERS));
        while let Some(Name(name)) = members.next_key()? {
            let value = members.next_value()?;
            if let Some(name) = name {
                object.0.push((name, value));
            }
        }
        Ok(object)
    }
}

/// The members of a report are about as many.
const USUAL_MEMBERS: usize = 16;

/// The name of a member, unless it has escapes, which no name that is asked for has.
struct Name<'e>(Option<&'e str>);

impl<'de: 'e, 'e> Deserialize<'de> for Name<'e> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NameVisitor)
    }
}

struct NameVisitor;

impl<'de> Visitor<'de> for NameVisitor {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Name(Some(name)))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Name(None))
    }
}

/// Nanoseconds in the unit in which a server writes times.
#[derive(Debug, Clone, Copy)]
pub(in crate::server_family) struct Scale(f64);

impl Scale {
    pub(in crate::server_family) const SECONDS: Self = Self(1e9);
    pub(in crate::server_family) const MILLISECONDS: Self = Self(1e6);
    pub(in crate::server_family) const NANOSECONDS: Self = Self(1.0);

    /// Returns the time that the member `name` of `object` has, in nanoseconds; `None` if it is
    /// negative or not a number.
    pub(in crate::server_family) fn read_member(
        self,
        object: &Object<'_>,
        name: &str,
    ) -> Option<f64> {
        self.parse(object.json(name)?)
    }

    /// Returns the time in `text`, in nanoseconds; `None` if it is negative or not a number.
    pub(in crate::server_family) fn parse(self, text: &str) -> Option<f64> {
        self.nanos(text.trim().parse().ok()?)
    }

    /// Returns `value` in nanoseconds; `None` if it is negative or too large.
    pub(in crate::server_family) fn nanos(self, value: f64) -> Option<f64> {
        Some(value * self.0).filter(|nanos| nanos.is_finite() && *nanos >= 0.0)
    }
}

/// Returns `whole` without `part`; `None` if either is unknown, or if the part is longer.
pub(in crate::server_family) fn rest(whole: Option<f64>, part: Option<f64>) -> Option<f64> {
    Some(whole? - part?).filter(|rest| *rest >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_by_name_and_the_last_of_two_applies() {
        let object = Object::parse(
            r#"{"a":1.5,"b":{"c":7},"d":null,"e":"x\ny","a":2.5,"f\u006f":3,"g":[1],"h":-1}"#,
        );
        assert_eq!(Scale::MILLISECONDS.read_member(&object, "a"), Some(2.5e6));
        assert_eq!(object.object("b").count("c"), Some(7));
        assert_eq!(object.text("e").as_deref(), Some("x\ny"));
        assert_eq!(
            (object.json("d"), object.json("z"), object.json("g")),
            (None, None, Some("[1]"))
        );
        for name in ["b", "d", "e", "g", "h"] {
            assert_eq!(Scale::SECONDS.read_member(&object, name), None, "{name}");
            assert_eq!(object.count(name), None, "{name}");
            assert!(name == "b" || object.object(name).is_empty(), "{name}");
        }
    }

    #[test]
    fn what_is_not_an_object_has_no_members() {
        for json in ["", "null", "[]", "3", "\"x\"", "{", "{\"a\":}"] {
            assert!(Object::parse(json).is_empty(), "{json}");
        }
    }
}
