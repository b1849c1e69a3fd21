//! The servers of a run, for requests that control them: resetting their prefix caches.

use anyhow::bail;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use reqwest::Client;
use url::Url;
use uuid::Uuid;

use base::interrupt::Interrupt;
use base::redact::{PathAndQuery, Secret};
use base::units::{Clock, Nanos};
use client::runner::RequestBuilder;

use super::request::{Refusal, answer, block_on, client};
use crate::config::{Connections, ServerConfig, url as urls};

/// Time after the first attempt within which a reset is repeated.
const RETRY_TIME: Nanos = Nanos(60_000_000_000);

/// Waits between attempts: the first, which doubles with each attempt, and the longest.
const RETRY_WAITS: (Nanos, Nanos) = (Nanos(1_000_000_000), Nanos(8_000_000_000));

/// Statuses of a server that is busy; the reset is repeated.
const BUSY: [StatusCode; 4] = [
    StatusCode::CONFLICT,
    StatusCode::LOCKED,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::SERVICE_UNAVAILABLE,
];

/// The servers of a run, for requests that control them.
#[derive(Clone)]
pub(crate) struct Servers {
    /// One URL for each host and port.
    origins: Vec<Secret<Url>>,
    headers: HeaderMap,
    connections: Connections,
}

impl Servers {
    /// Returns the servers of a run whose requests have the headers of `builder`.
    pub(crate) fn new(
        server: &ServerConfig,
        connections: &Connections,
        builder: &RequestBuilder,
    ) -> Self {
        let mut origins: Vec<Secret<Url>> = Vec::new();
        for url in &server.urls {
            if origins.iter().all(|known| known.expose().origin() != url.expose().origin()) {
                origins.push(url.clone());
            }
        }
        let mut headers = builder.headers(Uuid::new_v4(), Uuid::new_v4());
        // The body is empty, and the response may be anything.
        headers.remove(CONTENT_TYPE);
        headers.remove(ACCEPT);
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        Self { origins, headers, connections: connections.clone() }
    }

    /// Resets the prefix cache of every server, if `server` has it. Returns early when interrupted.
    ///
    /// # Errors
    /// If a server does not reset its cache.
    pub(crate) fn reset_kv_cache(
        &self,
        server: &ServerConfig,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        let Some(reset) = &server.control.reset_kv_cache else { return Ok(()) };
        let all = async {
            let client = self.client(reset.timeout)?;
            for url in self.at(&reset.path) {
                if let Err(refusal) = self.post_until_free(&client, &url).await {
                    bail!(
                        "cannot reset the KV cache with {}: {}; enable this endpoint of the \
                         server, set --reset-kv-cache-path, or remove --reset-kv-cache",
                        url.shown(),
                        refusal.why
                    );
                }
            }
            Ok(())
        };
        block_on(all, interrupt)?.unwrap_or(Ok(()))
    }

    /// Posts to `url` again while the server is busy or does not respond.
    async fn post_until_free(&self, client: &Client, url: &Secret<Url>) -> Result<(), Refusal> {
        let deadline = Clock::now() + RETRY_TIME;
        let (mut wait, longest) = RETRY_WAITS;
        loop {
            let Err(refusal) = self.post(client, url).await else { return Ok(()) };
            let may_pass = refusal.status.is_none_or(|status| BUSY.contains(&status));
            if !may_pass || Clock::now() + wait >= deadline {
                return Err(refusal);
            }
            tracing::info!("resetting the KV cache again: {}", refusal.why);
            tokio::time::sleep(wait.into()).await;
            wait = (wait + wait).min(longest);
        }
    }

    /// Posts an empty request to `url`.
    pub(super) async fn post(&self, client: &Client, url: &Secret<Url>) -> Result<(), Refusal> {
        answer(client.post(url.expose().clone()).headers(self.headers.clone())).await.map(drop)
    }

    /// Returns the URL of `path` on each server.
    pub(super) fn at(&self, path: &Secret<PathAndQuery>) -> impl Iterator<Item = Secret<Url>> {
        self.origins.iter().map(move |origin| urls::on_origin(origin, path.as_str()))
    }

    /// Creates a client for requests to the servers, each with a `timeout`.
    pub(super) fn client(&self, timeout: Nanos) -> anyhow::Result<Client> {
        client(&self.connections, &self.origins, timeout.into())
    }
}
