//! Texts, whole or composed of parts.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// A text. The long prompts of a trace have much in common, so they are stored as references to
/// parts of the embedded corpus, without memory of their own.
#[derive(Clone)]
pub struct Text {
    kept: Kept,
    name: Option<Arc<str>>,
}

#[derive(Clone)]
enum Kept {
    Whole(Arc<str>),
    Pieces(Arc<[&'static str]>),
}

impl Text {
    /// Concatenates `pieces` without separators.
    pub(super) fn joined(pieces: &[&'static str]) -> Self {
        Kept::Pieces(pieces.into()).into()
    }

    /// Gives the text a name, which identifies its role in a request, such as `query` and
    /// `passages` of a ranking.
    #[must_use]
    pub fn named(self, name: impl Into<Arc<str>>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Returns the name of the text, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the parts of the text, in order.
    pub fn pieces(&self) -> impl Iterator<Item = &str> {
        let (whole, pieces): (Option<&str>, &[&'static str]) = match &self.kept {
            Kept::Whole(text) => (Some(text), &[]),
            Kept::Pieces(pieces) => (None, pieces),
        };
        whole.into_iter().chain(pieces.iter().copied())
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.pieces().map(str::len).sum()
    }
}

impl From<Kept> for Text {
    fn from(kept: Kept) -> Self {
        Self { kept, name: None }
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::from("")
    }
}

impl From<Arc<str>> for Text {
    fn from(text: Arc<str>) -> Self {
        Kept::Whole(text).into()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Kept::Whole(text.into()).into()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Kept::Whole(text.into()).into()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces().try_for_each(|piece| f.write_str(piece))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.kept {
            Kept::Whole(text) => serializer.serialize_str(text),
            Kept::Pieces(_) => serializer.collect_str(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_read_as_one_text() {
        let joined = Text::joined(&["a \"b", "\" c", "\n"]);
        assert_eq!(joined.to_string(), "a \"b\" c\n");
        assert_eq!(joined.bytes(), 8);
        assert_eq!(serde_json::to_string(&joined).unwrap(), r#""a \"b\" c\n""#);
        let whole = Text::from("a \"b\" c\n");
        assert_eq!(whole.to_string(), joined.to_string());
        assert_eq!(serde_json::to_string(&whole).unwrap(), r#""a \"b\" c\n""#);
        assert_eq!(format!("{whole:?}"), format!("{joined:?}"));
    }
}
