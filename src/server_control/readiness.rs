//! Waiting for the model before the first request (`--wait-for-model-*`).

use std::time::Duration;

use anyhow::bail;
use bytes::Bytes;
use http::StatusCode;
use reqwest::Client;
use url::Url;
use uuid::Uuid;

use base::interrupt::Interrupt;
use base::redact::Secret;
use base::units::{Clock, Nanos};
use client::runner::RequestBuilder;

use super::models;
use super::request::{answer, block_on, client};
use crate::config::{Connections, ServerConfig, WaitMode, url as urls};

/// Timeout of a single attempt.
const ATTEMPT: Duration = Duration::from_secs(30);

/// The requests that check whether a server is ready.
pub(crate) struct Probe<'a> {
    pub(crate) server: &'a ServerConfig,
    pub(crate) connections: &'a Connections,
    /// Path of the endpoint relative to the base URL.
    pub(crate) path: &'a str,
    pub(crate) models: &'a [String],
    /// A request of the run.
    pub(crate) body: Bytes,
    pub(crate) builder: &'a RequestBuilder,
}

impl Probe<'_> {
    /// Waits until every server serves the model. Returns immediately if no wait is configured,
    /// and when interrupted.
    ///
    /// # Errors
    /// If a server does not serve the model within the timeout.
    pub(crate) fn wait(&self, interrupt: &Interrupt) -> anyhow::Result<()> {
        if self.server.wait_for_model.timeout == Nanos::ZERO || interrupt.is_draining() {
            return Ok(());
        }
        block_on(self.until_served(), interrupt)?.unwrap_or(Ok(()))
    }

    /// Polls every server until it serves the model.
    async fn until_served(&self) -> anyhow::Result<()> {
        let wait = self.server.wait_for_model;
        let timeout = ATTEMPT.min(wait.timeout.into());
        let client = client(self.connections, &self.server.urls, timeout)?;
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

    async fn ask(&self, client: &Client, base: &Secret<Url>) -> Result<(), String> {
        let mode = self.server.wait_for_model.mode;
        if mode != WaitMode::Inference {
            self.ask_models(client, base).await?;
        }
        if mode != WaitMode::Models {
            self.ask_inference(client, base).await?;
        }
        Ok(())
    }

    async fn ask_models(&self, client: &Client, base: &Secret<Url>) -> Result<(), String> {
        let listed = match models::listed(client, base, self.headers()).await {
            Err(refusal) if refusal.status == Some(StatusCode::NOT_FOUND) => {
                return self.ask_base(client, base).await;
            }
            answered => answered.map_err(|refusal| refusal.why)?,
        };
        match self.models.iter().find(|model| !listed.contains(*model)) {
            None => Ok(()),
            Some(model) => Err(format!("{model:?} is not in its list of models")),
        }
    }

    /// Checks a server that lists no models: any response counts, except one that reports that
    /// the server is not ready.
    async fn ask_base(&self, client: &Client, base: &Secret<Url>) -> Result<(), String> {
        match answer(client.get(base.expose().clone()).headers(self.headers())).await {
            Err(refusal) if !refusal.status.is_some_and(|status| status.is_client_error()) => {
                Err(refusal.why)
            }
            _ => Ok(()),
        }
    }

    async fn ask_inference(&self, client: &Client, base: &Secret<Url>) -> Result<(), String> {
        let request =
            client.post(urls::join(base, self.path).expose().clone()).headers(self.headers());
        answer(request.body(self.body.clone())).await.map(drop).map_err(|refusal| refusal.why)
    }

    fn headers(&self) -> http::HeaderMap {
        self.builder.headers(Uuid::new_v4(), Uuid::new_v4())
    }
}
