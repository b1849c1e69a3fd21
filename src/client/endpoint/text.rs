//! Lenient types for members of a response: an unexpected type in one member must not make the
//! whole response invalid.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The methods of a [`Visitor`] for values that are neither text nor contain any.
macro_rules! textless {
    ($value:ty, $nothing:expr) => {
        fn visit_unit<E>(self) -> Result<$value, E> {
            Ok($nothing)
        }

        fn visit_bool<E>(self, _: bool) -> Result<$value, E> {
            Ok($nothing)
        }

        fn visit_i64<E>(self, _: i64) -> Result<$value, E> {
            Ok($nothing)
        }

        fn visit_u64<E>(self, _: u64) -> Result<$value, E> {
            Ok($nothing)
        }

        fn visit_f64<E>(self, _: f64) -> Result<$value, E> {
            Ok($nothing)
        }
    };
}
pub(super) use textless;

/// The methods of a [`Visitor`] of objects for values without members, which are ignored.
macro_rules! ignore_scalars {
    () => {
        $crate::endpoint::text::textless!((), ());

        fn visit_str<E>(self, _: &str) -> Result<(), E> {
            Ok(())
        }
    };
}
pub(super) use ignore_scalars;

/// Text that borrows from the response unless it contains escapes. `null` and types without text
/// are empty. A list of parts, as in `[{"type":"text","text":"…"}]`, is converted to their joined
/// texts.
#[derive(Debug, Default)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Text<'_> {
    /// Returns the text; `None` if it is empty.
    #[must_use]
    pub fn non_empty(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(&*self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    textless!(Self::Value, Text::default());

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let mut joined = String::new();
        while let Some(part) = parts.next_element::<Text<'de>>()? {
            joined.push_str(&part.0);
        }
        Ok(Text(Cow::Owned(joined)))
    }

    /// Reads a part as the text of its `text` member.
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = Text::default();
        while let Some(name) = members.next_key::<Text<'de>>()? {
            if name.0 == "text" {
                found = members.next_value()?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// A finite number that is not negative; absent for every other value.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Number(pub Option<f64>);

impl Number {
    /// Returns the number if it is an integer that a double represents exactly.
    #[must_use]
    pub fn whole(self) -> Option<u64> {
        self.0.filter(|number| number.fract() == 0.0 && *number <= MAX_EXACT).map(|n| n as u64)
    }
}

/// 2^53: above it, doubles cannot represent every integer.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl<'de> Visitor<'de> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Number(Some(number as f64)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Number(u64::try_from(number).ok().map(|number| number as f64)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Number(Some(number).filter(|number| number.is_finite() && *number >= 0.0)))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Number(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Number(None))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Number(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Number(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Number(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> String {
        serde_json::from_str::<Text<'_>>(json).unwrap().0.into_owned()
    }

    #[test]
    fn text_borrows_where_nothing_is_escaped() {
        let plain: Text<'_> = serde_json::from_str(r#""héllo""#).unwrap();
        assert!(matches!(plain.0, Cow::Borrowed("héllo")));
        assert_eq!(text(r#""a\nb\u00e9""#), "a\nbé");
    }

    #[test]
    fn values_without_text_are_empty_and_parts_are_joined() {
        for json in ["null", "true", "-1", "7", "1.5", "[]", "{}", r#"{"type":"image"}"#] {
            assert_eq!(text(json), "", "{json}");
        }
        assert_eq!(text(r#"[{"type":"text","text":"a"},{"type":"x"},"b",null]"#), "ab");
    }

    #[test]
    fn numbers_are_lenient() {
        let whole = |json| serde_json::from_str::<Number>(json).unwrap().whole();
        assert_eq!(whole("12"), Some(12));
        assert_eq!(whole("12.0"), Some(12));
        for json in ["null", "-1", "12.5", r#""12""#, "true", "[1]", r#"{"a":1}"#, "1e300"] {
            assert_eq!(whole(json), None, "{json}");
        }
    }
}
