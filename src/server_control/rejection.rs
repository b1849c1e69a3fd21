//! What a server offers that rejected all requests.

use std::time::Duration;

use reqwest::Client;
use url::Url;
use uuid::Uuid;

use base::interrupt::Interrupt;
use base::redact::Secret;
use client::endpoint::EndpointType;
use client::runner::RequestBuilder;
use results::run::Offered;

use super::models;
use super::request::{answer, block_on, client};
use crate::config::{Connections, ServerConfig, url as urls};

/// Time for all questions to the server.
const TIME: Duration = Duration::from_secs(10);
/// Time for each of them.
const ATTEMPT: Duration = Duration::from_secs(2);

/// A run whose requests were all rejected.
pub(crate) struct Rejection<'a> {
    /// Status of a response.
    pub(crate) status: u16,
    pub(crate) server: &'a ServerConfig,
    pub(crate) connections: &'a Connections,
    /// Path of the endpoint relative to the base URL.
    pub(crate) path: &'a str,
    /// The models that were requested.
    pub(crate) models: &'a [String],
    pub(crate) builder: &'a RequestBuilder,
}

impl Rejection<'_> {
    /// Asks the first server what it offers: at its own origin, with the headers of the run, and for a
    /// limited time.
    pub(crate) fn offered(&self, interrupt: &Interrupt) -> Option<Offered> {
        block_on(in_time(self.ask()), interrupt).ok().flatten().flatten()
    }

    /// Asks the server for its models, and for paths that exist if the model is not the cause.
    async fn ask(&self) -> Option<Offered> {
        if matches!(self.status, 401 | 403) {
            return None;
        }
        let base = self.server.urls.first()?;
        let client = client(self.connections, &self.server.urls, ATTEMPT).ok()?;
        let models = models::listed(&client, base, self.headers()).await.unwrap_or_default();
        let has_wrong_model = self.models.iter().any(|model| !models.contains(model));
        let mut offered = Offered { models, paths: Vec::new() };
        if !has_wrong_model || offered.models.is_empty() {
            offered.paths = self.paths(&client, base).await;
        }
        Some(offered)
    }

    /// Returns the paths that the server answers at, if the rejected one may not be among them.
    async fn paths(&self, client: &Client, base: &Secret<Url>) -> Vec<String> {
        let mut paths = Vec::new();
        if !matches!(self.status, 404 | 405) {
            return paths;
        }
        for path in self.known_paths() {
            if self.answers(client, &urls::join(base, path)).await {
                paths.push(path.to_owned());
            }
        }
        paths
    }

    /// Returns the paths of all endpoint types but the one in use, each once.
    fn known_paths(&self) -> Vec<&'static str> {
        let mut paths: Vec<&'static str> = Vec::new();
        for path in EndpointType::ALL.iter().map(|kind| kind.traits().path) {
            let is_plain = path.len() > 1 && !path.contains('{') && path != self.path;
            if is_plain && !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }

    /// Returns whether the server has `url`: an empty request, which nothing can be generated for, is
    /// rejected in another way than one to an unknown path.
    async fn answers(&self, client: &Client, url: &Secret<Url>) -> bool {
        let request = client.post(url.expose().clone()).headers(self.headers()).body("{}");
        match answer(request).await {
            Ok(_) => true,
            Err(refusal) => refusal.status.is_some_and(|status| {
                !status.is_redirection() && !matches!(status.as_u16(), 401 | 403 | 404 | 405 | 501)
            }),
        }
    }

    fn headers(&self) -> http::HeaderMap {
        self.builder.headers(Uuid::new_v4(), Uuid::new_v4())
    }
}

/// Returns the result of `work`; `None` if it takes too long.
async fn in_time(work: impl Future<Output = Option<Offered>>) -> Option<Offered> {
    tokio::time::timeout(TIME, work).await.ok().flatten()
}
