//! Settings: the names of their values, names that are similar, and what makes a setting invalid.

#[doc(hidden)]
pub use schemars;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use thiserror::Error;

/// Maximum length in bytes of a name that the user gives to a part of the load.
pub const MAX_NAME: usize = 64;

/// Returns whether `text` can be the name of a part of the load, such as a phase or a tenant.
pub fn is_name(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.len() <= MAX_NAME && text.chars().all(is_allowed)
}

/// A setting with a few values, each of which has a name.
///
/// Files and the command line use the same names; the command line also accepts `-` for `_`, and
/// any case.
pub trait Named: Copy + PartialEq + Send + Sync + 'static {
    /// The values in the order of the help text. A value may have several names, of which files
    /// use the first.
    const NAMES: &'static [(&'static str, Self)];

    /// Returns the first name of the value.
    fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, value)| *value == self);
        found.map_or("", |(name, _)| name)
    }

    /// Returns the value with the name `text`, in any case and with `-` for `_`.
    fn named(text: &str) -> Option<Self> {
        let plain = |name: &str| name.trim().to_ascii_lowercase().replace('_', "-");
        let wanted = plain(text);
        Self::NAMES.iter().find(|(name, _)| plain(name) == wanted).map(|(_, value)| *value)
    }
}

/// Gives the values of an enum their names, as [`Named`] and for files.
#[macro_export]
macro_rules! named {
    ($type:ident { $($name:literal => $value:ident $(($part:literal))?),+ $(,)? }) => {
        impl $crate::setting::Named for $type {
            const NAMES: &'static [(&'static str, Self)] = &[$(($name, Self::$value $(($part))?)),+];
        }

        impl ::serde::Serialize for $type {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($crate::setting::Named::name(*self))
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $type {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                $crate::setting::Named::named(&text)
                    .ok_or_else(|| ::serde::de::Error::custom(format!("unknown value {text:?}")))
            }
        }

        impl $crate::setting::schemars::JsonSchema for $type {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn schema_id() -> ::std::borrow::Cow<'static, str> {
                concat!(module_path!(), "::", stringify!($type)).into()
            }

            fn json_schema(_: &mut $crate::setting::schemars::SchemaGenerator) -> $crate::setting::schemars::Schema {
                use $crate::setting::Named as _;
                let mut names: Vec<_> = Self::NAMES.iter().map(|(_, value)| value.name()).collect();
                names.dedup();
                $crate::setting::schemars::json_schema!({ "type": "string", "enum": names })
            }
        }
    };
}
pub use named;

/// Serializes a path, of which bytes that are not UTF-8 are replaced.
pub fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// Like [`path`].
pub fn optional_path<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.display().to_string()).serialize(serializer)
}

/// Maximum number of characters of a name that are compared with others.
const MAX_COMPARED: usize = 64;

/// Returns those of `names` that `name` may have been meant to be, nearest first: at most half of
/// their characters differ.
pub fn similar<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let name: Vec<char> = name.chars().take(MAX_COMPARED).collect();
    let near = names.map(|other| (edits(&name, other), other));
    let mut near: Vec<_> = near.filter(|(edits, other)| edits * 2 <= other.len()).collect();
    near.sort_unstable();
    near.into_iter().map(|(_, other)| other).collect()
}

/// Returns the Levenshtein distance: the number of character insertions, deletions and
/// replacements.
fn edits(a: &[char], b: &str) -> usize {
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, b_char) in b.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, a_char) in a.iter().enumerate() {
            let replaced = diagonal + usize::from(*a_char != b_char);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[a.len()]
}

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{flag}: {why}")]
pub struct InvalidSetting {
    pub flag: String,
    /// What is wrong and what to do about it.
    pub why: String,
}

impl InvalidSetting {
    pub fn new(flag: impl Into<String>, why: impl Into<String>) -> Self {
        Self { flag: flag.into(), why: why.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Level {
        Low,
        High,
    }
    named! { Level { "low" => Low, "very_high" => High, "extreme" => High } }

    #[test]
    fn edits_are_counted() {
        let edits_between = |a: &str, b| edits(&a.chars().collect::<Vec<_>>(), b);
        assert_eq!(edits_between("kitten", "sitting"), 3);
        assert_eq!(edits_between("", "abc"), 3);
        assert_eq!(edits_between("abc", "abc"), 0);
    }

    #[test]
    fn similar_names_are_in_the_order_of_their_distance() {
        let names = ["isl", "osl", "url", "concurrency"];
        assert_eq!(similar("isl", names.into_iter()), ["isl", "osl"]);
        assert_eq!(similar("concurency", names.into_iter()), ["concurrency"]);
        assert!(similar("zzz", names.into_iter()).is_empty());
    }

    #[test]
    fn files_use_the_first_name_of_a_value() {
        assert_eq!([Level::Low.name(), Level::High.name()], ["low", "very_high"]);
        assert_eq!(Level::named(" Very-HIGH"), Some(Level::High));
        assert_eq!(Level::named("higher"), None);
        assert_eq!(
            serde_json::to_string(&[Level::High, Level::Low]).unwrap(),
            r#"["very_high","low"]"#
        );
        assert_eq!(serde_json::from_str::<Level>(r#""extreme""#).unwrap(), Level::High);
    }
}
