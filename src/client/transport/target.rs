//! Request targets: base URLs that are parsed once, before the run.

use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::HeaderValue;
use percent_encoding::percent_decode_str;
use thiserror::Error;
use url::Url;

use base::redact::{Secret, ShownUrl};

/// Error of a base URL.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TargetError {
    /// The scheme is neither `http` nor `https`.
    #[error(
        "{0:?} is not a valid server URL: only http and https are supported; expected a URL such \
         as http://localhost:8000"
    )]
    Scheme(ShownUrl),
    /// The URL does not have a host.
    #[error(
        "{0:?} is not a valid server URL: the host is missing; expected a URL such as \
         http://localhost:8000"
    )]
    Host(ShownUrl),
}

/// One server and the path of its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The full URL, for records.
    pub url: ShownUrl,
    pub tls: bool,
    /// Host name or address, without the brackets of IPv6.
    pub host: Arc<str>,
    pub port: u16,
    /// Value of the `Host` header.
    pub(crate) host_header: HeaderValue,
    /// Credentials from the user name and password of the URL, for requests without an
    /// `Authorization` header.
    pub authorization: Option<HeaderValue>,
    pub(crate) path_and_query: Secret<Arc<str>>,
}

impl Target {
    /// Parses `url`. Its path and query are those of the requests.
    pub fn new(url: &Url) -> Result<Self, TargetError> {
        let shown = without_user(url);
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(TargetError::Scheme(shown)),
        };
        let no_host = || TargetError::Host(shown.clone());
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(no_host)?;
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let path_and_query = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        Ok(Self {
            url: shown.clone(),
            tls,
            host: host.trim_start_matches('[').trim_end_matches(']').into(),
            port: url.port_or_known_default().unwrap_or(if tls { 443 } else { 80 }),
            host_header: HeaderValue::from_str(&authority).map_err(|_| no_host())?,
            authorization: authorization(url),
            path_and_query: Secret::new(path_and_query),
        })
    }

    /// Returns scheme, host and port: the start of the URL.
    pub(super) fn origin(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        // The header was made from text.
        format!("{scheme}://{}", self.host_header.to_str().unwrap_or_default())
    }

    /// Returns host and port in the form used in requests to a proxy.
    pub(super) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Returns `Basic` credentials (RFC 7617) if the URL has a user name or a password.
fn authorization(url: &Url) -> Option<HeaderValue> {
    let password = url.password().unwrap_or_default();
    if url.username().is_empty() && password.is_empty() {
        return None;
    }
    let plain = |text| percent_decode_str(text).collect::<Vec<u8>>();
    let credentials = [plain(url.username()), plain(password)].join(&b':');
    let text = format!("Basic {}", BASE64_STANDARD.encode(credentials));
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn without_user(url: &Url) -> ShownUrl {
    let mut url = url.clone();
    // Both fail only for URLs that cannot have credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    ShownUrl::new(url.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let url = Url::parse("https://user:secret@[::1]:8443/v1/chat/completions?x=1").unwrap();
        let target = Target::new(&url).unwrap();
        assert_eq!(&*target.url, "https://[::1]:8443/v1/chat/completions?x=1");
        assert_eq!((&*target.host, target.port, target.tls), ("::1", 8443, true));
        assert_eq!(target.host_header, "[::1]:8443");
        assert_eq!(target.origin(), "https://[::1]:8443");
        assert_eq!(target.authority(), "[::1]:8443");
        assert_eq!(&**target.path_and_query.expose(), "/v1/chat/completions?x=1");
        assert_eq!(target.authorization.as_ref().unwrap(), "Basic dXNlcjpzZWNyZXQ=");
        assert!(!format!("{target:?}").contains("dXNlcjpzZWNyZXQ"));
    }

    #[test]
    fn secrets_are_sent_and_not_shown() {
        let target = Target::new(&Url::parse("http://h/v1?api_key=s&x=1").unwrap()).unwrap();
        assert_eq!(&**target.path_and_query.expose(), "/v1?api_key=s&x=1");
        assert_eq!(&*target.url, "http://h/v1?api_key=redacted&x=1");
        assert!(!format!("{target:?}").contains("key=s"));
    }

    #[test]
    fn default_ports_are_left_out_of_the_host_header() {
        let target = Target::new(&Url::parse("http://example.org/v1").unwrap()).unwrap();
        assert_eq!(target.authorization, None);
        assert_eq!(target.authority(), "example.org:80");
        assert_eq!((target.port, target.host_header.to_str().unwrap()), (80, "example.org"));
    }

    #[test]
    fn other_schemes_are_refused() {
        let error = Target::new(&Url::parse("ftp://example.org/").unwrap()).unwrap_err();
        assert_eq!(error, TargetError::Scheme("ftp://example.org/".into()));
    }
}
