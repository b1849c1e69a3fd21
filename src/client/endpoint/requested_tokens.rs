//! The output tokens requested by a body, whether it was built by a dialect, `--extra-inputs`, a
//! template, or the user.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::text::{Number, Text, ignore_scalars};

/// Names for the maximum number of output tokens. If a body has several, the first in this list
/// applies: OpenAI's new name before its old one.
const NAMES: &[&str] = &[
    "max_completion_tokens",
    "max_tokens",
    "max_output_tokens",
    "max_new_tokens",
    "maxOutputTokens",
    "max_tokens_to_sample",
    "num_predict",
];

/// Maximum depth of nested objects to search: `generationConfig`, `parameters`, `options`, and any
/// wrapper of a template.
const DEEPEST: usize = 4;

/// Returns the output tokens that `body` requests in all its choices together (`n`); `None` if it
/// does not request any or is not JSON.
#[must_use]
pub fn requested_output_tokens(body: &[u8]) -> Option<u64> {
    let mut found = RequestedCounts::default();
    let mut json = serde_json::Deserializer::from_slice(body);
    Looker { found: &mut found, depth: 0 }.deserialize(&mut json).ok()?;
    let tokens = found.limits.into_iter().flatten().next()?;
    Some(tokens.saturating_mul(found.choices.unwrap_or(1).max(1)))
}

/// The number under each name, from the outermost object.
#[derive(Default)]
struct RequestedCounts {
    limits: [Option<u64>; NAMES.len()],
    /// The number of choices, which only the outermost object has.
    choices: Option<u64>,
}

struct Looker<'f> {
    found: &'f mut RequestedCounts,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Looker<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Looker<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request's body")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut inner = RequestedCounts::default();
        while let Some(name) = members.next_key::<Text<'de>>()? {
            if let Some(place) = NAMES.iter().position(|known| *known == name.0) {
                let number = members.next_value::<Number>()?.whole();
                self.found.limits[place] = number.or(self.found.limits[place]);
            } else if name.0 == "n" && self.depth == 0 {
                self.found.choices = members.next_value::<Number>()?.whole();
            } else if self.depth < DEEPEST {
                let depth = self.depth + 1;
                members.next_value_seed(Looker { found: &mut inner, depth })?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        for (outer, inner) in self.found.limits.iter_mut().zip(inner.limits) {
            *outer = outer.or(inner);
        }
        Ok(())
    }

    /// Messages and tools do not contain limits.
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    ignore_scalars!();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_servers_name_is_known() {
        let asked = |json: &str| requested_output_tokens(json.as_bytes());
        for (json, tokens) in [
            (r#"{"messages":[{"content":"max_tokens"}],"max_tokens":7}"#, 7),
            (r#"{"max_tokens":7,"max_completion_tokens":8}"#, 8),
            (r#"{"max_output_tokens":9}"#, 9),
            (r#"{"contents":[],"generationConfig":{"maxOutputTokens":10}}"#, 10),
            (r#"{"inputs":"a","parameters":{"max_new_tokens":11}}"#, 11),
            (r#"{"model":"m","options":{"num_predict":12}}"#, 12),
            (r#"{"request":{"body":{"max_tokens":13}}}"#, 13),
            // The outermost number applies.
            (r#"{"a":{"max_tokens":1},"max_tokens":14,"z":{"max_tokens":2}}"#, 14),
            (r#"{"n":2,"max_tokens":16}"#, 32),
            (r#"{"n":null,"max_tokens":17,"a":{"n":9}}"#, 17),
            (r#"{"n":0,"max_tokens":18}"#, 18),
            // The last of two equal names applies, as in most parsers.
            (r#"{"max_tokens":1,"max_tokens":15}"#, 15),
        ] {
            assert_eq!(asked(json), Some(tokens), "{json}");
        }
        for json in [
            "",
            "--boundary\r\n",
            "{}",
            "[1]",
            r#"{"max_tokens":null}"#,
            r#"{"max_tokens":"7"}"#,
            r#"{"max_tokens":-1}"#,
            r#"{"messages":[{"max_tokens":7}]}"#,
            r#"{"max_tokens":7"#,
        ] {
            assert_eq!(asked(json), None, "{json}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(body: Vec<u8>, text in "[{}\\[\\]\",:a-z_0-9]{0,60}") {
            let _ = requested_output_tokens(&body);
            let _ = requested_output_tokens(text.as_bytes());
        }
    }
}
