//! Values that are used but never shown.

use std::fmt;

use serde::{Serialize, Serializer};
use url::Url;

use super::{REDACTED, ShownUrl};

/// A value that does not appear in files, logs or debug output, since it is or may contain a
/// secret.
///
/// There is no `Display`: what is shown of a URL is its [`ShownUrl`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret<T = String>(T);

impl<T> Secret<T> {
    /// Wraps `value`.
    #[must_use]
    pub fn new(value: impl Into<T>) -> Self {
        Self(value.into())
    }

    /// Returns the value itself, to send it.
    #[must_use]
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl Secret<Url> {
    /// Returns the URL as it may be shown.
    #[must_use]
    pub fn shown(&self) -> ShownUrl {
        ShownUrl::new(self.0.as_str())
    }
}

/// The path and query of a URL, whose parameters may be secrets.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PathAndQuery(String);

impl From<String> for PathAndQuery {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Secret<PathAndQuery> {
    /// Returns the text, to send it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.0
    }

    /// Returns the path as it may be shown.
    #[must_use]
    pub fn shown(&self) -> ShownUrl {
        ShownUrl::of_path(self.as_str())
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

impl Serialize for Secret<PathAndQuery> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.shown().serialize(serializer)
    }
}

impl Serialize for Secret<Url> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.shown().serialize(serializer)
    }
}
