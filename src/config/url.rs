//! Server URLs as users write them.

use url::Url;

use super::{ConfigError, redact};

/// Reads a base URL; `http://` is put before what has no scheme.
pub fn parse(text: &str) -> Result<Url, ConfigError> {
    let refuse = |why: &str| ConfigError::Url { url: redact::url(text), why: why.to_owned() };
    let text = text.trim();
    let with_scheme;
    let candidate = if text.contains("://") {
        text
    } else {
        with_scheme = format!("http://{text}");
        &with_scheme
    };
    let url = Url::parse(candidate).map_err(|error| refuse(&error.to_string()))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        "http" | "https" => Err(refuse("it names no host")),
        other => Err(refuse(&format!("{other} is neither http nor https"))),
    }
}

/// The URL of `path` below `base`.
///
/// A version that ends the base and begins the path is not doubled:
/// `http://host/v1` and `/v1/models` make `http://host/v1/models`. A base that
/// already ends in the path is taken as it is. A query of the base is kept.
#[must_use]
pub fn join(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_fragment(None);
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    };
    let below = path.trim_start_matches('/');
    let above = base.path().trim_end_matches('/');
    let joined = if below.is_empty() {
        base.path().to_owned()
    } else if above.ends_with(&format!("/{below}")) {
        above.to_owned()
    } else {
        let overlap = above.rsplit('/').next().unwrap_or_default();
        match below.strip_prefix(overlap).and_then(|rest| rest.strip_prefix('/')) {
            Some(rest) if is_version(overlap) => format!("{above}/{rest}"),
            _ => format!("{above}/{below}"),
        }
    };
    url.set_path(&joined);
    if query.is_some() {
        url.set_query(query);
    }
    url
}

/// Whether a path segment is `v` and a number.
fn is_version(segment: &str) -> bool {
    segment
        .strip_prefix('v')
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}
