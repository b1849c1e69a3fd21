//! Sends a single scrape.

use std::thread;
use std::time::Duration;

use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Response, StatusCode};
use thiserror::Error;
use tokio::sync::oneshot;
use url::Url;

use base::causes::root;
use base::input::packed::gunzipped;
use base::redact::{Secret, ShownUrl};
use base::units::{Clock, Nanos};
use client::transport::Connections;

use super::collector::{CollectorError, LocalExporter};
use super::exposition::Format;
use super::scrape::FetchTimes;
use super::store::MAX_VALUE_BYTES;

/// Maximum size of a body in bytes, both as sent and decompressed; larger ones three times per
/// second would disturb the run.
pub(super) const BODY_LIMIT: usize = 64 << 20;

/// The `Accept` header: both formats, preferably the newer one, or else anything.
const FORMATS: &str =
    "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

/// Maximum number of redirects of one request.
const MAX_REDIRECTS: usize = 5;

/// Maximum number of characters of a server's text that are shown.
const SHOWN: usize = 160;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum ScrapeError {
    /// A temporary error; a later scrape may succeed.
    #[error("{0}")]
    Failed(String),
    /// The content type is not that of an exposition.
    #[error(
        "returned non-Prometheus content-type '{0}'; expected text/plain (Prometheus exposition \
         format)"
    )]
    ContentType(String),
    /// The body is not an exposition.
    #[error("returned a body that is not in the Prometheus exposition format: {0}")]
    Unparsable(String),
    /// The body is too large.
    #[error("returned more than {} MiB, too much to scrape repeatedly", BODY_LIMIT >> 20)]
    TooLarge,
    /// The stored metrics exceed their limit.
    #[error(
        "exceeded {} MiB of stored server metrics; its statistics cover the scrapes until \
         now",
        MAX_VALUE_BYTES >> 20
    )]
    TooMuch,
}

/// The compression of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Identity,
    Gzip,
}

/// A response as received.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) times: FetchTimes,
    pub(super) format: Format,
    encoding: Encoding,
    body: Vec<u8>,
}

impl Fetched {
    /// Returns the decompressed body.
    pub(super) fn into_body(self) -> Result<Vec<u8>, ScrapeError> {
        match self.encoding {
            Encoding::Identity => Ok(self.body),
            Encoding::Gzip => inflate(&self.body),
        }
    }
}

fn inflate(body: &[u8]) -> Result<Vec<u8>, ScrapeError> {
    let inflated = gunzipped(body, BODY_LIMIT as u64)
        .map_err(|error| ScrapeError::Failed(format!("its gzip body is invalid: {error}")))?;
    inflated.ok_or(ScrapeError::TooLarge)
}

/// Sends scrapes.
#[derive(Debug, Clone)]
pub(super) struct Fetcher {
    client: Client,
    clock: Clock,
    /// Makes the expositions of endpoints that are not URLs of HTTP.
    local: Option<LocalExporter>,
}

impl Fetcher {
    /// Creates a fetcher for `urls`, with times of `clock`.
    pub(super) fn new<'a>(
        connections: &Connections,
        urls: impl IntoIterator<Item = &'a Secret<Url>>,
        clock: Clock,
        local: Option<LocalExporter>,
    ) -> Result<Self, CollectorError> {
        let client = connections
            .plain_client(urls)?
            .redirect(Policy::custom(follow_at_home))
            .referer(false)
            .user_agent(concat!("aiperf/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| CollectorError::Client(root_cause(&error)))?;
        Ok(Self { client, clock, local })
    }

    /// Scrapes `url` until the instant `deadline`.
    pub(super) async fn fetch(
        &self,
        url: &Secret<Url>,
        deadline: Nanos,
    ) -> Result<Fetched, ScrapeError> {
        let sent = Clock::now();
        let bound = deadline.since(sent);
        let late = || {
            ScrapeError::Failed(format!("it did not respond within {:.1} s", bound.as_seconds()))
        };
        let answer = tokio::time::timeout(Duration::from(bound), self.answer(url, sent));
        let fetched = answer.await.map_err(|_| late())??;
        // If the timer fires late, a late response must not be accepted.
        if fetched.times.first_byte_ns > self.clock.wall_ns(deadline) {
            return Err(late());
        }
        Ok(fetched)
    }

    async fn answer(&self, url: &Secret<Url>, sent: Nanos) -> Result<Fetched, ScrapeError> {
        match self.local.filter(|_| !url.expose().scheme().starts_with("http")) {
            Some(expose) => self.read(expose, url.expose().clone(), sent).await,
            None => self.exchange(url, sent).await,
        }
    }

    /// Reads an endpoint of this machine on another thread, since it may block.
    async fn read(
        &self,
        expose: LocalExporter,
        url: Url,
        sent: Nanos,
    ) -> Result<Fetched, ScrapeError> {
        let failed = ScrapeError::Failed;
        let (sender, text) = oneshot::channel();
        // The receiver is gone after a timeout.
        let read = move || drop(sender.send(expose(&url)));
        let thread = thread::Builder::new().name("exporter".to_owned());
        thread.spawn(read).map_err(|error| failed(error.to_string()))?;
        let text = text.await.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
        let now = self.clock.wall_ns(Clock::now());
        let sent = self.clock.wall_ns(sent);
        let times = FetchTimes { request_sent_ns: sent, first_byte_ns: now, last_byte_ns: now };
        let (format, encoding) = (Format::Text, Encoding::Identity);
        Ok(Fetched { times, format, encoding, body: text.into_bytes() })
    }

    async fn exchange(&self, url: &Secret<Url>, sent: Nanos) -> Result<Fetched, ScrapeError> {
        let request = self.client.get(url.expose().clone());
        let request = request.header(ACCEPT, FORMATS).header(ACCEPT_ENCODING, "gzip");
        let response = request.send().await.map_err(failed)?;
        let first_byte = Clock::now();
        accept_status(response.status())?;
        let format = accept_type(&header(&response, &CONTENT_TYPE))?;
        let encoding = accept_encoding(&header(&response, &CONTENT_ENCODING))?;
        let body = read(response).await?;
        let times = FetchTimes {
            request_sent_ns: self.clock.wall_ns(sent),
            first_byte_ns: self.clock.wall_ns(first_byte),
            last_byte_ns: self.clock.wall_ns(Clock::now()),
        };
        Ok(Fetched { times, format, encoding, body })
    }
}

/// Follows a redirect within the server; credentials are not sent to any other.
fn follow_at_home(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let previous = attempt.previous();
    let home = previous.first().map(Url::origin);
    if previous.len() <= MAX_REDIRECTS && home == Some(attempt.url().origin()) {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

fn accept_status(status: StatusCode) -> Result<(), ScrapeError> {
    if status.is_success() {
        return Ok(());
    }
    let note = if status.is_redirection() { ", a redirect, which is not followed" } else { "" };
    Err(ScrapeError::Failed(format!("it returned status {status}{note}")))
}

/// Returns the format that a content type announces. A JSON body is not read at all.
fn accept_type(content_type: &str) -> Result<Format, ScrapeError> {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Err(ScrapeError::ContentType(clipped(content_type)));
    }
    Ok(Format::of_content_type(content_type))
}

fn accept_encoding(encoding: &str) -> Result<Encoding, ScrapeError> {
    match encoding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(Encoding::Identity),
        "gzip" | "x-gzip" => Ok(Encoding::Gzip),
        other => Err(ScrapeError::Failed(format!(
            "its body has the content encoding `{}`, which was not requested",
            clipped(other)
        ))),
    }
}

fn header(response: &Response, name: &http::HeaderName) -> String {
    let value = response.headers().get(name);
    value.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).unwrap_or_default()
}

async fn read(mut response: Response) -> Result<Vec<u8>, ScrapeError> {
    let announced = response.content_length().unwrap_or_default();
    if announced > BODY_LIMIT as u64 {
        return Err(ScrapeError::TooLarge);
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if body.len() + chunk.len() > BODY_LIMIT {
            return Err(ScrapeError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn failed(error: reqwest::Error) -> ScrapeError {
    let stage = match () {
        () if error.is_connect() => "cannot connect: ",
        () if error.is_body() || error.is_decode() => "its body is incomplete: ",
        () => "",
    };
    ScrapeError::Failed(format!("{stage}{}", root_cause(&error.without_url())))
}

/// Returns the innermost cause; the outer ones only describe where it occurred.
fn root_cause(error: &reqwest::Error) -> String {
    clipped(&root(error).to_string())
}

/// Returns the beginning of a text that a server may control, on one line.
pub(super) fn clipped(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    // Quotes need no escape here.
    shown.replace("\\'", "'").replace("\\\"", "\"")
}

/// Returns `url` without credentials.
pub(super) fn shown(url: &Secret<Url>) -> ShownUrl {
    let mut url = url.expose().clone();
    // Both fail only for URLs that cannot have credentials.
    let _ = url.set_password(None);
    let _ = url.set_username("");
    ShownUrl::new(url.as_str())
}

/// Returns the URL of the exposition on servers that return something else at `…/metrics`: the same
/// with `/prometheus/metrics` at its end. `None` if the path does not end in `/metrics`, or already
/// ends in `/prometheus/metrics`.
pub(super) fn alternative(url: &Secret<Url>) -> Option<Secret<Url>> {
    let url = url.expose();
    let base = url.path().strip_suffix("/metrics")?;
    if base.ends_with("/prometheus") {
        return None;
    }
    let mut alternative = url.clone();
    alternative.set_path(&format!("{base}/prometheus/metrics"));
    Some(Secret::new(alternative))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn url(text: &str) -> Secret<Url> {
        Secret::new(Url::parse(text).unwrap())
    }

    #[test]
    fn the_other_place_is_beside_a_path_that_ends_in_metrics() {
        let probed = |text: &str| alternative(&url(text)).map(|url| url.expose().to_string());
        for (from, to) in [
            ("http://h:1/metrics", "http://h:1/prometheus/metrics"),
            ("http://h:1/v1/metrics", "http://h:1/v1/prometheus/metrics"),
            ("http://h:1/api/metrics?x=1", "http://h:1/api/prometheus/metrics?x=1"),
            ("http://u:p@h:1/metrics", "http://u:p@h:1/prometheus/metrics"),
        ] {
            assert_eq!(probed(from).as_deref(), Some(to), "{from}");
        }
        for none in ["/stats", "/telemetry", "/prometheus/metrics", "/a/prometheus/metrics", "/"] {
            assert_eq!(probed(&format!("http://h:1{none}")), None, "{none}");
        }
        assert_eq!(probed("http://h:1/llm_metrics"), None);
    }

    #[test]
    fn a_url_is_shown_without_credentials() {
        let shown = shown(&url("http://user:secret@h:1/metrics?token=abc&x=1"));
        assert_eq!(&*shown, "http://h:1/metrics?token=redacted&x=1");
    }

    #[test]
    fn json_is_refused_by_its_announcement() {
        for json in ["application/json", "Application/JSON; charset=utf-8"] {
            assert!(matches!(accept_type(json), Err(ScrapeError::ContentType(_))), "{json}");
        }
        assert_eq!(accept_type(""), Ok(Format::Text));
        assert_eq!(
            accept_type("application/openmetrics-text; version=1.0.0"),
            Ok(Format::OpenMetrics)
        );
    }

    #[test]
    fn what_a_server_says_is_shown_on_one_line_and_cut_short() {
        assert_eq!(clipped("a `b'\n\x1b[2J\"c\""), "a `b'\\n\\u{1b}[2J\"c\"");
        assert_eq!(clipped(&"x".repeat(9999)).chars().count(), SHOWN + 1);
    }

    #[test]
    fn a_body_inflates_up_to_the_limit() {
        let packed = |bytes: usize| {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&vec![b'\n'; bytes]).unwrap();
            encoder.finish().unwrap()
        };
        assert_eq!(inflate(&packed(BODY_LIMIT)).map(|body| body.len()), Ok(BODY_LIMIT));
        assert_eq!(inflate(&packed(BODY_LIMIT + 1)), Err(ScrapeError::TooLarge));
        let mut cut = packed(1000);
        cut.truncate(cut.len() - 5);
        assert!(matches!(inflate(&cut), Err(ScrapeError::Failed(_))));
    }
}
