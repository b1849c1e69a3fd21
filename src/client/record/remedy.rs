//! What a user can do about a failed request.

use serde_json::Value;

use super::{ErrorKind, RequestError};

/// The path of the API's version, which base URLs may end with.
const VERSION: &str = "/v1";

/// What to do about an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// In a sentence.
    pub advice: String,
    /// The base URL to use instead, if that is the remedy.
    pub url: Option<String>,
    /// Whether the server wants a key.
    pub needs_key: bool,
}

impl Remedy {
    fn new(advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), url: None, needs_key: false }
    }

    fn with_url(advice: &str, url: String) -> Self {
        Self { advice: format!("{advice}; use --url {url}"), url: Some(url), needs_key: false }
    }
}

impl RequestError {
    /// Returns what happened in the server's own words: `503 Service Unavailable: the queue is full`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let code = self.code.map(|code| format!("{code} ")).unwrap_or_default();
        if self.is_page() {
            return format!("{code}{}, with an HTML page", self.name);
        }
        format!("{code}{}: {}", self.name, words(&self.message))
    }

    fn is_page(&self) -> bool {
        let text = self.message.to_ascii_lowercase();
        ["<!doctype html", "<html"].iter().any(|start| text.contains(start))
    }

    /// Returns what to do about it if the server is at the base URL `url`; `None` if the error does not tell.
    #[must_use]
    pub fn remedy(&self, url: &str, has_credentials: bool) -> Option<Remedy> {
        if let Some(shorter) = url.strip_suffix(VERSION).filter(|it| it.ends_with(VERSION)) {
            let shorter = shorter.strip_suffix(VERSION).unwrap_or(shorter);
            return Some(Remedy::with_url("The URL has /v1 twice", shorter.to_owned()));
        }
        if self.name == "TlsError" && self.message.contains("does not use TLS") {
            let plain = url.replacen("https://", "http://", 1);
            return Some(Remedy::with_url("The server does not use TLS", plain));
        }
        if matches!(self.code, Some(401 | 403)) {
            let advice = if has_credentials {
                "The server does not accept the key; check --api-key, AIPERF_API_KEY or --header."
            } else {
                "The server needs a key; set it with --api-key or AIPERF_API_KEY."
            };
            return Some(Remedy { needs_key: true, ..Remedy::new(advice) });
        }
        if self.name == "ConnectionRefused" {
            return Some(Remedy::new(format!(
                "Nothing listens at {url}. Start the server, or set its address with --url; \
                 --wait-for-model-timeout 60 waits until it is ready."
            )));
        }
        if self.is_page() {
            return Some(Remedy::new(format!(
                "{url} is the address of a web page, not of an API; set that of the API with --url."
            )));
        }
        if self.kind == ErrorKind::Timeout {
            let advice =
                "Raise --request-timeout-seconds, or check that the server responds at all.";
            return Some(Remedy::new(advice));
        }
        (self.message.contains("context") && self.code == Some(400))
            .then(|| Remedy::new("Send shorter requests with --isl and --osl."))
    }
}

/// Returns the words in the body of an error response, which usually is JSON.
fn words(body: &str) -> String {
    let found = |body: &Value| {
        let places = ["/error/message", "/message", "/detail", "/error"];
        places.iter().find_map(|place| body.pointer(place)?.as_str().map(str::to_owned))
    };
    serde_json::from_str(body).ok().as_ref().and_then(found).unwrap_or_else(|| body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://localhost:8000";

    fn error(code: Option<u16>, name: &str, message: &str) -> RequestError {
        RequestError { code, ..RequestError::new(ErrorKind::Other, name, message) }
    }

    #[test]
    fn the_words_of_the_server_are_found_in_its_body() {
        let words = |body| error(Some(404), "Not Found", body).in_words();
        for body in [
            r#"{"error": {"message": "no such model"}}"#,
            r#"{"error": "no such model"}"#,
            r#"{"detail": "no such model"}"#,
            "no such model",
        ] {
            assert_eq!(words(body), "404 Not Found: no such model");
        }
        assert_eq!(words("<!DOCTYPE HTML>\n<html>…"), "404 Not Found, with an HTML page");
        assert_eq!(
            error(None, "ConnectionReset", "by peer").in_words(),
            "ConnectionReset: by peer"
        );
    }

    #[test]
    fn a_remedy_names_what_to_change() {
        let remedy = |error: RequestError, url, has_credentials| error.remedy(url, has_credentials);
        let advice = |error, url| remedy(error, url, false).map(|it| it.advice);
        let missing = || error(Some(404), "Not Found", "no such path");
        assert_eq!(advice(missing(), URL), None);
        let twice = remedy(missing(), "http://localhost:8000/v1/v1", false).unwrap();
        assert_eq!(twice.advice, "The URL has /v1 twice; use --url http://localhost:8000");
        assert_eq!(twice.url.as_deref(), Some(URL));
        let tls = error(None, "TlsError", "the server does not use TLS on this port");
        let tls = remedy(tls, "https://localhost:8000", false).unwrap();
        assert_eq!(tls.advice, "The server does not use TLS; use --url http://localhost:8000");
        for (has_credentials, flag) in [(false, "needs a key"), (true, "does not accept the key")] {
            let denied =
                remedy(error(Some(401), "Unauthorized", ""), URL, has_credentials).unwrap();
            assert!(denied.needs_key && denied.advice.contains(flag), "{denied:?}");
        }
        let refused = advice(error(None, "ConnectionRefused", ""), URL).unwrap();
        assert!(refused.starts_with("Nothing listens at http://localhost:8000."), "{refused}");
        let page = advice(error(Some(404), "Not Found", "<html>"), URL).unwrap();
        assert!(page.contains("a web page, not of an API"), "{page}");
        let long = error(Some(400), "Bad Request", "maximum context length is 4096");
        assert!(advice(long, URL).unwrap().contains("--isl"));
    }
}
