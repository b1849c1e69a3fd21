//! Parsing and joining of server URLs.

use url::Url;

use base::redact::{Secret, ShownUrl};

use super::ConfigError;

/// Parses a base URL; the scheme defaults to `http://`.
pub(crate) fn parse(text: &str) -> Result<Secret<Url>, ConfigError> {
    let refuse = |why: &str| ConfigError::Url { url: ShownUrl::new(text), why: why.to_owned() };
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
        "http" | "https" if url.has_host() => Ok(Secret::new(url)),
        "http" | "https" => Err(refuse("the host is missing")),
        other => Err(refuse(&format!("the scheme must be http or https, got {other:?}"))),
    }
}

/// The URL of `path` below `base`.
///
/// A version at the end of the base and at the start of the path is not repeated:
/// `http://host/v1` and `/v1/models` become `http://host/v1/models`. A base that already
/// ends in the path is used unchanged. The base's query is kept.
#[must_use]
pub(crate) fn join(base: &Secret<Url>, path: &str) -> Secret<Url> {
    let base = base.expose();
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
    Secret::new(url)
}

/// The URL of `path`, which begins with a slash, on the host and port of `base`. Credentials in
/// `base` are kept.
#[must_use]
pub(crate) fn on_origin(base: &Secret<Url>, path: &str) -> Secret<Url> {
    let mut url = base.expose().clone();
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    };
    url.set_path(path);
    url.set_query(query);
    url.set_fragment(None);
    Secret::new(url)
}

/// Whether a path segment is a version such as `v1` or `v1beta`.
pub(super) fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| {
        let stage = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        stage.len() < rest.len() && matches!(stage, "" | "alpha" | "beta")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn joined(base: &str, path: &str) -> String {
        join(&parse(base).unwrap(), path).expose().to_string()
    }

    #[test]
    fn a_scheme_is_added_and_nonsense_refused() {
        assert_eq!(parse("localhost:8000").unwrap().expose().as_str(), "http://localhost:8000/");
        assert_eq!(parse(" https://h/v1 ").unwrap().expose().as_str(), "https://h/v1");
        assert_eq!(parse("[::1]:80").unwrap().expose().as_str(), "http://[::1]/");
        for wrong in ["", "ftp://h", "http://", "h:port", "http://u:secret@h:port"] {
            let error = parse(wrong).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn the_version_is_not_doubled() {
        let path = "/v1/chat/completions";
        for base in ["http://h", "http://h/", "http://h/v1", "http://h/v1/"] {
            assert_eq!(joined(base, path), "http://h/v1/chat/completions", "{base}");
        }
        assert_eq!(joined("http://h/v1/chat/completions", path), "http://h/v1/chat/completions");
        assert_eq!(joined("http://h/api/v1", path), "http://h/api/v1/chat/completions");
        assert_eq!(joined("http://h/api", path), "http://h/api/v1/chat/completions");
        assert_eq!(joined("http://h/v2", path), "http://h/v2/v1/chat/completions");
    }

    #[test]
    fn paths_of_ones_own_and_queries() {
        assert_eq!(joined("http://h", "custom"), "http://h/custom");
        assert_eq!(joined("http://h/base", ""), "http://h/base");
        assert_eq!(joined("http://h/?k=v", "/v1/x"), "http://h/v1/x?k=v");
        assert_eq!(joined("http://h", "/x?api-version=1"), "http://h/x?api-version=1");
        assert_eq!(joined("http://h/chat", "/chat/x"), "http://h/chat/chat/x");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String, path: String) {
            if let Ok(base) = parse(&text) {
                let _ = join(&base, &path);
            }
        }
    }
}
