//! The wait for the model before the first request (`--wait-for-model-*`).

use std::time::Duration;

use anyhow::bail;
use bytes::Bytes;
use reqwest::Client;
use tokio::runtime;
use tokio::sync::watch;
use url::Url;
use uuid::Uuid;

use crate::config::{TransportConfig, WaitMode, url as urls};
use crate::endpoint::http_error;
use crate::runner::{Interrupt, RequestBuilder};
use crate::units::{Clock, Nanos};

/// Longest single attempt.
const ATTEMPT: Duration = Duration::from_secs(30);

/// What is asked of each server until it answers.
pub(super) struct Probe<'a> {
    pub(super) transport: &'a TransportConfig,
    /// Path of the endpoint below the base URL.
    pub(super) path: &'a str,
    pub(super) models: &'a [String],
    /// A request of the run.
    pub(super) body: Bytes,
    pub(super) builder: &'a RequestBuilder,
}

impl Probe<'_> {
    /// Waits until every server serves the model; an error after the timeout.
    /// Returns at once where no wait is asked for, and when interrupted.
    pub(super) fn wait(&self, interrupt: &watch::Receiver<Interrupt>) -> anyhow::Result<()> {
        if self.transport.wait_for_model.timeout == Nanos::ZERO {
            return Ok(());
        }
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let mut interrupt = interrupt.clone();
        let outcome = runtime.block_on(async {
            tokio::select! {
                biased;
                Ok(_) = interrupt.wait_for(|wish| *wish > Interrupt::None) => Ok(()),
                outcome = self.until_served() => outcome,
            }
        });
        // A look-up of a name cannot be told to stop.
        runtime.shutdown_background();
        outcome
    }

    /// Asks every server again and again until it serves the model.
    async fn until_served(&self) -> anyhow::Result<()> {
        let wait = self.transport.wait_for_model;
        let client = self.client()?;
        let deadline = Clock::now() + wait.timeout;
        for base in &self.transport.urls {
            while let Err(reason) = self.ask(&client, base).await {
                let left = deadline.since(Clock::now());
                if left == Nanos::ZERO {
                    bail!(
                        "the model is not served within {} s: {reason}; start the server first, \
                         or give a longer --wait-for-model-timeout",
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
        let client = self.transport.connections.plain_client(&self.transport.urls)?;
        Ok(client.timeout(ATTEMPT.min(self.transport.wait_for_model.timeout.into())).build()?)
    }

    async fn ask(&self, client: &Client, base: &Url) -> Result<(), String> {
        let mode = self.transport.wait_for_model.mode;
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
        let text = answer(request).await?;
        let listed: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| format!("its list of models: {error}"))?;
        let served = |model: &String| {
            let models = listed["data"].as_array().into_iter().flatten();
            models.into_iter().any(|entry| entry["id"].as_str() == Some(model))
        };
        match self.models.iter().find(|model| !served(model)) {
            None => Ok(()),
            Some(model) => Err(format!("`{model}` is not in its list of models")),
        }
    }

    async fn ask_inference(&self, client: &Client, base: &Url) -> Result<(), String> {
        let request = client.post(urls::join(base, self.path)).headers(self.headers());
        answer(request.body(self.body.clone())).await.map(drop)
    }

    fn headers(&self) -> http::HeaderMap {
        self.builder.headers(Uuid::new_v4(), Uuid::new_v4())
    }
}

/// The body of a success; else what is wrong: the server's words, or the
/// client's without the URL's credentials.
async fn answer(request: reqwest::RequestBuilder) -> Result<String, String> {
    let response = async {
        let response = request.send().await?;
        Ok::<_, reqwest::Error>((response.status(), response.text().await?))
    };
    let (status, text) = response.await.map_err(|error| error.without_url().to_string())?;
    if status.is_success() {
        return Ok(text);
    }
    let refusal = http_error(status.as_u16(), None, text.as_bytes());
    Err(format!("it answers {} {}: {}", status.as_u16(), refusal.name, refusal.message.trim()))
}
