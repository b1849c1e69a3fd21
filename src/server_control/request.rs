//! Requests to the servers that are not measured.

use std::io;
use std::time::Duration;

use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use tokio::runtime;
use url::Url;

use base::causes;
use base::interrupt::Interrupt;
use base::redact::{self, Secret, ShownUrl};
use client::endpoint::http_error;
use client::record::{ErrorKind, RequestError};

use crate::config::Connections;

/// Maximum size of a response in bytes, as in the run.
const MAX_BYTES: usize = 64 << 20;

/// Maximum size of an error response in bytes, of which less is shown.
const MAX_ERROR_BYTES: usize = 16 << 10;

/// Creates a client for requests to `urls`, each with a `timeout`.
pub(super) fn client<'a>(
    connections: &Connections,
    urls: impl IntoIterator<Item = &'a Secret<Url>>,
    timeout: Duration,
) -> anyhow::Result<Client> {
    // Headers contain keys and bodies prompts, so neither may be sent elsewhere. The run's requests
    // do not follow redirects either.
    let client = connections.plain_client(urls)?.redirect(Policy::none()).timeout(timeout);
    Ok(client.build()?)
}

/// Runs `work` to its end; `None` if the user interrupts it.
///
/// # Errors
/// If the system does not provide what the wait needs.
pub(super) fn block_on<T>(
    work: impl Future<Output = T>,
    interrupt: &Interrupt,
) -> io::Result<Option<T>> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(interrupt.unless(work));
    // A DNS lookup cannot be cancelled.
    runtime.shutdown_background();
    Ok(outcome)
}

/// Why a request failed.
pub(super) struct Refusal {
    /// The response's status, if there was one.
    pub(super) status: Option<StatusCode>,
    /// The reason on one line: the server's message, or the client's without the URL's
    /// credentials.
    pub(super) why: String,
    /// The same as an error of a request, which knows its remedy.
    pub(super) error: RequestError,
}

impl Refusal {
    /// Without a response, or with one that cannot be used.
    pub(super) fn new(status: Option<StatusCode>, why: String) -> Self {
        let error = RequestError::new(ErrorKind::Other, String::new(), why.clone());
        Self { status, why, error }
    }

    /// Returns that of a request without a response.
    fn unanswered(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let root = causes::root(&error);
        let why = redact::printable(&root.to_string());
        let refused = root.downcast_ref::<io::Error>().map(io::Error::kind);
        let (name, message) = if refused == Some(io::ErrorKind::ConnectionRefused) {
            ("ConnectionRefused", why.clone())
        } else if why.contains("InvalidContentType") {
            ("TlsError", "the server does not use TLS on this port".to_owned())
        } else {
            ("", why.clone())
        };
        // A timeout is not that of the run's requests, so that their remedy is not its.
        Self { status: None, error: RequestError::new(ErrorKind::Other, name, message), why }
    }
}

/// Sends `request`, and returns the body of a successful response, or why the request failed.
pub(super) async fn answer(request: reqwest::RequestBuilder) -> Result<Vec<u8>, Refusal> {
    with_headers(request).await.map(|(_, body)| body)
}

/// Like [`answer`], and returns the headers of the response, too.
pub(super) async fn with_headers(
    request: reqwest::RequestBuilder,
) -> Result<(HeaderMap, Vec<u8>), Refusal> {
    let mut response = request.send().await.map_err(Refusal::unanswered)?;
    let status = response.status();
    let refused = |why: String| Refusal::new(Some(status), why);
    if status.is_redirection() {
        return Err(refused(redirected(&response)));
    }
    let most = if status.is_success() { MAX_BYTES } else { MAX_ERROR_BYTES };
    let mut body = Vec::new();
    let mut is_whole = true;
    while let Some(piece) = response.chunk().await.map_err(Refusal::unanswered)? {
        let room = most - body.len();
        body.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() > room {
            is_whole = false;
            break;
        }
    }
    if !status.is_success() {
        let error = http_error(status.as_u16(), None, &body);
        let why = format!("it returned status {}", redact::printable(error.in_words().trim()));
        return Err(Refusal { status: Some(status), why, error });
    }
    if is_whole {
        Ok((response.headers().clone(), body))
    } else {
        Err(refused(format!("its response exceeds {} MiB", MAX_BYTES >> 20)))
    }
}

/// The message about a redirect, with its target, secrets redacted.
fn redirected(response: &Response) -> String {
    let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
    let to = to.and_then(|to| response.url().join(to).ok()).map(|mut to| {
        to.set_query(None);
        redact::printable(&ShownUrl::new(to.as_str()))
    });
    format!(
        "it returned status {}, a redirect to {}, which is not followed, since headers and prompt \
         would be sent there; if that is the server to benchmark, use it as --url",
        response.status().as_u16(),
        to.as_deref().unwrap_or("no location")
    )
}
