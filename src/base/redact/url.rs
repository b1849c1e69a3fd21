//! URLs as they may be shown.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;

use super::{MARK, is_secret_name, is_secret_value};

/// A URL that may be written: one without user name, password and the values of secret parameters.
///
/// It is only made by redaction, also when it is read from a file. A URL to which requests are sent
/// is a [`Secret`](super::Secret), which cannot be displayed.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, schemars::JsonSchema)]
pub struct ShownUrl(Arc<str>);

impl ShownUrl {
    /// Redacts `text`. Of a text that is not a URL, nothing before an `@` or after a `?` or `#`
    /// remains.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(redacted(text).into())
    }

    /// Redacts the parameters of a path, as given to `--endpoint`.
    #[must_use]
    pub(crate) fn of_path(text: &str) -> Self {
        Self(parameters_after_path(text).into())
    }

    /// Returns the text to share.
    #[must_use]
    pub const fn text(&self) -> &Arc<str> {
        &self.0
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for ShownUrl {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ShownUrl {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for ShownUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ShownUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl Serialize for ShownUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ShownUrl {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(from).map(|text| Self::new(&text))
    }
}

/// Names of parameters that are secrets although they are not for headers and JSON. A `code` is
/// exchanged for a token in OAuth 2.0 (RFC 6749, section 4.1.2), and is the key of Azure functions.
const SECRET_PARAMETERS: &[&str] = &["code", "session", "sessionid", "session_id", "sid"];

/// Returns whether the parameter `name`, which may have a number as in `key2`, is a secret.
fn is_secret_parameter(name: &str) -> bool {
    let name = name.trim().trim_end_matches(|c: char| c.is_ascii_digit());
    is_secret_name(name) || SECRET_PARAMETERS.iter().any(|secret| name.eq_ignore_ascii_case(secret))
}

/// Returns `text` without user name, password and the values of secret parameters. It is otherwise
/// unchanged if it has none of these.
fn redacted(text: &str) -> String {
    if !text.contains(['@', '?', '#']) && !text.contains("%40") {
        return text.to_owned();
    }
    let has_scheme = after_scheme(text) > 0;
    let with_scheme = if has_scheme { text.to_owned() } else { format!("http://{text}") };
    let is_half = !has_scheme && is_near_url(text);
    let parsed = Url::parse(&with_scheme).ok().filter(|url| !is_half && !has_user_in_path(url));
    let Some(mut url) = parsed else { return cut(text) };
    // A text that was redacted before stays as it is.
    let has_user = !matches!(url.username(), "" | MARK) || url.password().is_some();
    let query = url.query().and_then(without_secrets);
    let fragment = url.fragment().and_then(without_secrets);
    if !has_user && query.is_none() && fragment.is_none() {
        return text.to_owned();
    }
    if has_user {
        // Both fail only for URLs that cannot contain credentials.
        let _ = url.set_password(None);
        let _ = url.set_username(MARK);
    }
    if query.is_some() {
        url.set_query(query.as_deref());
    }
    if fragment.is_some() {
        url.set_fragment(fragment.as_deref());
    }
    let shown = url.as_str();
    if has_scheme { shown } else { shown.strip_prefix("http://").unwrap_or(shown) }.to_owned()
}

/// Returns where the scheme of `text` ends, with `://`; 0 without one.
fn after_scheme(text: &str) -> usize {
    let is_scheme = |scheme: &str| {
        scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) && scheme.len() < 16
    };
    text.find("://").filter(|at| is_scheme(&text[..*at])).map_or(0, |at| at + 3)
}

/// Returns whether `text`, which does not begin with a scheme, has one that is incomplete, or after
/// something else, such as a quote. What follows is then not a path.
fn is_near_url(text: &str) -> bool {
    let before_parameters = text.split(['?', '#']).next().unwrap_or_default();
    before_parameters.contains("://") || begins(text, "http:") || begins(text, "https:")
}

fn begins(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}

/// Returns whether a part of the path has the form of credentials, as in `http//user:secret@host` and
/// in `http://http://token@host`.
fn has_user_in_path(url: &Url) -> bool {
    let has_user = |part: &str| part.contains('@') || part.contains("%40");
    let mut is_after_slashes = false;
    url.path().split('/').skip(1).any(|part| {
        let is_host = std::mem::replace(&mut is_after_slashes, part.is_empty());
        let after_name = part.split_once(':').map(|(_, rest)| rest);
        is_host && has_user(part) || after_name.is_some_and(has_user)
    })
}

/// Returns what may be shown of a text that is not a URL.
fn cut(text: &str) -> String {
    let (scheme, rest) = text.split_at(after_scheme(text));
    let (user, rest) = match rest.rfind('@') {
        Some(at) => (MARK, &rest[at..]),
        None => ("", rest),
    };
    match rest.find(['?', '#']) {
        Some(at) => format!("{scheme}{user}{}{MARK}", &rest[..=at]),
        None => format!("{scheme}{user}{rest}"),
    }
}

/// Returns a path without the values of secret parameters after it.
pub(super) fn parameters_after_path(text: &str) -> String {
    let Some(at) = text.find(['?', '#']) else { return text.to_owned() };
    let (path, parameters) = text.split_at(at + 1);
    without_secrets(parameters).map_or_else(|| text.to_owned(), |shown| format!("{path}{shown}"))
}

/// Returns the parameters of a query or a fragment without the values of secrets; `None` if there
/// are none.
fn without_secrets(parameters: &str) -> Option<String> {
    let shown = parameters.split('&').map(|parameter| match secret_in(parameter) {
        Some(at) => Cow::from(format!("{}{MARK}", &parameter[..at])),
        None => Cow::from(parameter),
    });
    let shown: Vec<Cow<'_, str>> = shown.collect();
    let has_any = shown.iter().any(|parameter| matches!(parameter, Cow::Owned(_)));
    has_any.then(|| shown.join("&"))
}

/// Returns where a secret begins in `parameter`, which may contain others after a `;` or, encoded,
/// in its value.
fn secret_in(parameter: &str) -> Option<usize> {
    let mut start = 0;
    for (at, _) in parameter.match_indices('=') {
        if ends_in_secret_name(&decoded(&parameter[start..at])) {
            return Some(at + 1);
        }
        start = at + 1;
    }
    let first = parameter.find('=').map_or(0, |at| at + 1);
    let value = decoded(&parameter[first..]);
    let names = value.rsplit_once('=').map(|(names, _)| names);
    let has_parameter = names.is_some_and(|names| names.split('=').any(ends_in_secret_name));
    let host = value.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    let has_user = host.is_some_and(|host| host.contains('@'));
    (has_parameter || has_user || is_secret_value(&value)).then_some(first)
}

/// Returns whether the last parameter in `text`, which ends with its name, is a secret.
fn ends_in_secret_name(text: &str) -> bool {
    text.rsplit(['?', '&', ';', '#', '/']).next().is_some_and(is_secret_parameter)
}

/// Decodes a part of a query.
fn decoded(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests;
