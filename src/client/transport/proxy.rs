//! Proxies from the environment: which servers they apply to, and tunnels through them.

use std::fmt;
use std::sync::Arc;

use http::{HeaderValue, StatusCode, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Url;

use base::environment::Environment;

use super::Target;
use crate::record::{ErrorKind, RequestError};
use serde::{Serialize, Serializer};

/// Maximum size of the head of a proxy's response, in bytes.
const LONGEST_HEAD: usize = 16 << 10;

/// Maximum number of headers in a proxy's response.
const MAX_HEADERS: usize = 64;

/// The value of a proxy variable is not usable.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{variable} must be the URL of an HTTP proxy, such as http://proxy:3128; correct or unset it"
)]
pub struct ProxyError {
    /// Name of the variable. Its value may contain a password.
    pub variable: &'static str,
}

/// The proxies and the servers that they apply to. `NO_PROXY` is interpreted as by curl.
#[derive(Clone, Default)]
pub struct Proxies(Option<Arc<Matcher>>);

impl fmt::Debug for Proxies {
    /// Prints no values, since the variables may contain passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Proxies").field(&self.0.is_some()).finish()
    }
}

impl Serialize for Proxies {
    /// Serializes whether there are any, since the variables may contain passwords.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(self.are_used())
    }
}

impl Proxies {
    /// Reads the proxies from `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, or their
    /// lower-case forms, from `environment`.
    pub fn from_environment(environment: Environment<'_>) -> Result<Self, ProxyError> {
        let lookup = |name| environment.get(name);
        let variable = |names: [&'static str; 2]| -> Result<String, ProxyError> {
            let Some((variable, value)) =
                names.into_iter().find_map(|name| Some((name, lookup(name)?)))
            else {
                return Ok(String::new());
            };
            let value = value.trim();
            if is_http_proxy(value) { Ok(value.to_owned()) } else { Err(ProxyError { variable }) }
        };
        let exempt = lookup("NO_PROXY").or_else(|| lookup("no_proxy")).unwrap_or_default();
        let matcher = Matcher::builder()
            .http(variable(["HTTP_PROXY", "http_proxy"])?)
            .https(variable(["HTTPS_PROXY", "https_proxy"])?)
            .all(variable(["ALL_PROXY", "all_proxy"])?)
            .no(exempt)
            .build();
        Ok(Self(Some(Arc::new(matcher))))
    }

    /// Returns whether the proxies of the environment are used at all.
    #[must_use]
    pub const fn are_used(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether requests to `url` go through a proxy.
    #[must_use]
    pub fn apply_to(&self, url: &Url) -> bool {
        self.intercept(url.as_str()).is_some()
    }

    /// Returns the proxy for `target`, if any.
    pub(super) fn on_the_way_to(&self, target: &Target) -> Option<Proxy> {
        Proxy::new(&self.intercept(&target.url)?)
    }

    fn intercept(&self, url: &str) -> Option<Intercept> {
        self.0.as_ref()?.intercept(&url.parse::<Uri>().ok()?)
    }
}

/// Returns whether `value` is the URL of a proxy that uses plain HTTP.
fn is_http_proxy(value: &str) -> bool {
    let uri = value.parse::<Uri>();
    let host = |uri: &Uri| uri.host().is_some_and(|host| !host.is_empty());
    uri.is_ok_and(|uri| host(&uri) && matches!(uri.scheme_str(), None | Some("http")))
}

pub(super) struct Proxy {
    pub(super) host: Arc<str>,
    pub(super) port: u16,
    /// Value of `Proxy-Authorization`, from the user name and password in the URL.
    pub(super) authorization: Option<HeaderValue>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Proxy {
    fn new(found: &Intercept) -> Option<Self> {
        let host = found.uri().host()?;
        Some(Self {
            host: host.trim_start_matches('[').trim_end_matches(']').into(),
            port: found.uri().port_u16().unwrap_or(80),
            authorization: found.basic_auth().cloned(),
        })
    }

    /// Opens a tunnel to `target` (RFC 9110 §9.3.6) through the proxy at the other end of `stream`.
    pub(super) async fn tunnel(
        &self,
        stream: &mut TcpStream,
        target: &Target,
    ) -> Result<(), RequestError> {
        let authority = target.authority();
        stream
            .write_all(&self.connect_request(&authority))
            .await
            .map_err(|error| self.error(format_args!("broke the connection: {error}")))?;
        match self.answer(stream).await? {
            status if (200..300).contains(&status) => Ok(()),
            status => {
                let code = StatusCode::from_u16(status).ok();
                let reason = code.and_then(|code| code.canonical_reason()).unwrap_or_default();
                Err(self.error(format_args!("refused a tunnel to {authority}: {status} {reason}")))
            }
        }
    }

    fn connect_request(&self, authority: &str) -> Vec<u8> {
        let mut request =
            format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
        if let Some(credentials) = &self.authorization {
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(credentials.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        request
    }

    /// Reads the response of the proxy and returns its status.
    async fn answer(&self, stream: &mut TcpStream) -> Result<u16, RequestError> {
        let mut head = Vec::with_capacity(512);
        loop {
            let read = stream.read_buf(&mut head).await;
            let read =
                read.map_err(|error| self.error(format_args!("broke the connection: {error}")))?;
            let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
            let mut answer = httparse::Response::new(&mut headers);
            match answer.parse(&head) {
                Ok(httparse::Status::Complete(_)) => return Ok(answer.code.unwrap_or(0)),
                Ok(httparse::Status::Partial) if read == 0 => {
                    return Err(self.error("closed the connection"));
                }
                Ok(httparse::Status::Partial) if head.len() < LONGEST_HEAD => {}
                Ok(httparse::Status::Partial) => {
                    return Err(self.error("sent a response head that is too long"));
                }
                Err(error) => {
                    return Err(self.error(format_args!("sent an invalid HTTP response: {error}")));
                }
            }
        }
    }

    fn error(&self, what: impl fmt::Display) -> RequestError {
        let message = format!("the proxy {self:?} {what}");
        RequestError::new(ErrorKind::Other, "ProxyError", message)
    }
}

#[cfg(test)]
mod tests;
