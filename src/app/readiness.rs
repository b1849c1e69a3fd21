//! Waiting for the model before the first request (`--wait-for-model-*`).

use std::time::Duration;

use anyhow::bail;
use bytes::Bytes;
use http::StatusCode;
use http::header::LOCATION;
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use tokio::runtime;
use url::Url;
use uuid::Uuid;

use crate::config::{Connections, ServerConfig, WaitMode, url as urls};
use crate::endpoint::http_error;
use crate::interrupt::Interrupt;
use crate::redact;
use crate::runner::RequestBuilder;
use crate::units::{Clock, Nanos};

/// Timeout of a single attempt.
const ATTEMPT: Duration = Duration::from_secs(30);

/// Maximum size of a response in bytes, as in the run.
const MAX_BYTES: usize = 64 << 20;

/// Maximum size of an error response in bytes, of which less is shown.
const MAX_ERROR_BYTES: usize = 16 << 10;

/// The requests that check whether a server is ready.
pub(super) struct Probe<'a> {
    pub(super) server: &'a ServerConfig,
    pub(super) connections: &'a Connections,
    /// Path of the endpoint relative to the base URL.
    pub(super) path: &'a str,
    pub(super) models: &'a [String],
    /// A request of the run.
    pub(super) body: Bytes,
    pub(super) builder: &'a RequestBuilder,
}

impl Probe<'_> {
    /// Waits until every server serves the model. Returns immediately if no wait is configured,
    /// and when interrupted.
    ///
    /// # Errors
    /// If a server does not serve the model within the timeout.
    pub(super) fn wait(&self, interrupt: &Interrupt) -> anyhow::Result<()> {
        if self.server.wait_for_model.timeout == Nanos::ZERO || interrupt.is_draining() {
            return Ok(());
        }
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let outcome = runtime.block_on(interrupt.unless(self.until_served()));
        // A DNS lookup cannot be cancelled.
        runtime.shutdown_background();
        outcome.unwrap_or(Ok(()))
    }

    /// Polls every server until it serves the model.
    async fn until_served(&self) -> anyhow::Result<()> {
        let wait = self.server.wait_for_model;
        let client = self.client()?;
        let deadline = Clock::now() + wait.timeout;
        for base in &self.server.urls {
            while let Err(reason) = self.ask(&client, base).await {
                let left = deadline.since(Clock::now());
                if left == Nanos::ZERO {
                    bail!(
                        "the model did not become available within {} s: {reason}; start the \
                         server first, or raise --wait-for-model-timeout",
                        wait.timeout.as_seconds()
                    );
                }
                tracing::info!("waiting for the model: {reason}");
                tokio::time::sleep(wait.interval.min(left).into()).await;
            }
        }
        Ok(())
    }

    fn client(&self) -> anyhow::Result<Client> {
        let client = self.connections.plain_client(&self.server.urls)?;
        let client = client
            // Headers contain keys and the body the prompt, so neither may be sent elsewhere. The
            // run's requests do not follow redirects either.
            .redirect(Policy::none())
            .timeout(ATTEMPT.min(self.server.wait_for_model.timeout.into()));
        Ok(client.build()?)
    }

    async fn ask(&self, client: &Client, base: &Url) -> Result<(), String> {
        let mode = self.server.wait_for_model.mode;
        if mode != WaitMode::Inference {
            self.ask_models(client, base).await?;
        }
        if mode != WaitMode::Models {
            self.ask_inference(client, base).await?;
        }
        Ok(())
    }

    async fn ask_models(&self, client: &Client, base: &Url) -> Result<(), String> {
        let request = client.get(urls::join(base, "/v1/models")).headers(self.headers());
        let text = match answer(request).await {
            Err(refusal) if refusal.status == Some(StatusCode::NOT_FOUND) => {
                return self.ask_base(client, base).await;
            }
            answered => answered.map_err(|refusal| refusal.why)?,
        };
        let listed: serde_json::Value = serde_json::from_slice(&text)
            .map_err(|error| format!("cannot parse its list of models: {error}"))?;
        let served = |model: &String| {
            let models = listed["data"].as_array().into_iter().flatten();
            models.into_iter().any(|entry| entry["id"].as_str() == Some(model))
        };
        match self.models.iter().find(|model| !served(model)) {
            None => Ok(()),
            Some(model) => Err(format!("{model:?} is not in its list of models")),
        }
    }

    /// Checks a server that lists no models: any response counts, except one that reports that
    /// the server is not ready.
    async fn ask_base(&self, client: &Client, base: &Url) -> Result<(), String> {
        match answer(client.get(base.clone()).headers(self.headers())).await {
            Err(refusal) if !refusal.status.is_some_and(|status| status.is_client_error()) => {
                Err(refusal.why)
            }
            _ => Ok(()),
        }
    }

    async fn ask_inference(&self, client: &Client, base: &Url) -> Result<(), String> {
        let request = client.post(urls::join(base, self.path)).headers(self.headers());
        answer(request.body(self.body.clone())).await.map(drop).map_err(|refusal| refusal.why)
    }

    fn headers(&self) -> http::HeaderMap {
        self.builder.headers(Uuid::new_v4(), Uuid::new_v4())
    }
}

/// Why a server is not ready.
struct Refusal {
    /// The response's status, if there was one.
    status: Option<StatusCode>,
    /// The reason on one line: the server's message, or the client's without the URL's
    /// credentials.
    why: String,
}

/// The body of a successful response, or why the server is not ready.
async fn answer(request: reqwest::RequestBuilder) -> Result<Vec<u8>, Refusal> {
    let failed = |error: reqwest::Error| Refusal {
        status: None,
        why: redact::printable(&error.without_url().to_string()),
    };
    let mut response = request.send().await.map_err(failed)?;
    let status = response.status();
    let refused = |why: String| Refusal { status: Some(status), why };
    if status.is_redirection() {
        return Err(refused(redirected(&response)));
    }
    let most = if status.is_success() { MAX_BYTES } else { MAX_ERROR_BYTES };
    let mut body = Vec::new();
    let mut is_whole = true;
    while let Some(piece) = response.chunk().await.map_err(failed)? {
        let room = most - body.len();
        body.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() > room {
            is_whole = false;
            break;
        }
    }
    if !status.is_success() {
        let refusal = http_error(status.as_u16(), None, &body);
        let words = redact::printable(refusal.message.trim());
        return Err(refused(format!(
            "it returned status {} {}: {words}",
            status.as_u16(),
            refusal.name
        )));
    }
    if is_whole {
        Ok(body)
    } else {
        Err(refused(format!("its response exceeds {} MiB", MAX_BYTES >> 20)))
    }
}

/// The message about a redirect, with its target, secrets redacted.
fn redirected(response: &Response) -> String {
    let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
    let to = to.and_then(|to| response.url().join(to).ok()).map(|mut to| {
        to.set_query(None);
        redact::printable(&redact::url(to.as_str()))
    });
    format!(
        "it returned status {}, a redirect to {}, which is not followed, since headers and prompt \
         would be sent there; if that is the server to benchmark, use it as --url",
        response.status().as_u16(),
        to.as_deref().unwrap_or("no location")
    )
}
