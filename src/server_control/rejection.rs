//! Why a server rejected all requests: what it offers instead.

use std::time::Duration;

use reqwest::Client;
use serde_json::Value;
use url::Url;
use uuid::Uuid;

use base::interrupt::Interrupt;
use base::redact::{self, PathAndQuery, Secret};
use client::endpoint::EndpointType;
use client::runner::RequestBuilder;

use super::models;
use super::request::{answer, block_on, client};
use crate::config::{Connections, ServerConfig, url as urls};

/// Time for all questions to the server.
const TIME: Duration = Duration::from_secs(10);
/// Time for each of them.
const ATTEMPT: Duration = Duration::from_secs(2);

/// A run whose first requests were all rejected.
pub(crate) struct Rejection<'a> {
    /// Status of the last response.
    pub(crate) status: u16,
    /// The server's message, if there was one.
    pub(crate) message: Option<String>,
    pub(crate) server: &'a ServerConfig,
    pub(crate) connections: &'a Connections,
    /// Path of the endpoint relative to the base URL.
    pub(crate) path: &'a str,
    /// The models that were requested.
    pub(crate) models: &'a [String],
    pub(crate) builder: &'a RequestBuilder,
}

impl Rejection<'_> {
    /// Returns the likely cause and what to do about it, after asking the first server what it
    /// offers: at its own origin, with the headers of the run, and for a limited time.
    pub(crate) fn cause(&self, interrupt: &Interrupt) -> String {
        let advice = block_on(in_time(self.ask()), interrupt).ok().flatten().flatten();
        let advice = advice.unwrap_or_else(|| self.advice().to_owned());
        match &self.message {
            Some(message) => {
                let message = redact::printable(told(message).trim());
                format!("{}; {advice}", message.trim_end_matches('.'))
            }
            None => advice,
        }
    }

    /// What to do if the server does not reveal more.
    const fn advice(&self) -> &'static str {
        match self.status {
            401 | 403 => "check the credentials set with --api-key, AIPERF_API_KEY or --header",
            422 => "check --endpoint-type, --extra-inputs and the dataset",
            _ => "check --url, --endpoint-type, --endpoint and --model",
        }
    }

    /// Asks the server for its models, and for paths that exist if the model is not the cause.
    async fn ask(&self) -> Option<String> {
        if matches!(self.status, 401 | 403) {
            return None;
        }
        let base = self.server.urls.first()?;
        let client = client(self.connections, &self.server.urls, ATTEMPT).ok()?;
        let offered = models::listed(&client, base, self.headers()).await;
        if let Ok(offered) = &offered
            && let Some(missing) = self.models.iter().find(|model| !offered.contains(*model))
        {
            return Some(wrong_model(missing, offered));
        }
        if !matches!(self.status, 404 | 405) {
            return None;
        }
        let mut paths = Vec::new();
        for path in self.known_paths() {
            if self.answers(&client, &urls::join(base, path)).await {
                paths.push(path);
            }
        }
        let path = Secret::<PathAndQuery>::new(self.path.to_owned()).shown();
        (!paths.is_empty()).then(|| {
            format!(
                "the server does not serve {path}, but answers at {}; choose one of them with \
                 --endpoint-type or --endpoint",
                paths.join(", ")
            )
        })
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

/// Returns the words in the body of an error response, which usually is JSON.
fn told(body: &str) -> String {
    let words = |body: &Value| {
        let places = ["/error/message", "/message", "/detail", "/error"];
        places.iter().find_map(|place| body.pointer(place)?.as_str().map(str::to_owned))
    };
    serde_json::from_str(body).ok().as_ref().and_then(words).unwrap_or_else(|| body.to_owned())
}

/// Returns the result of `work`; `None` if it takes too long.
async fn in_time(work: impl Future<Output = Option<String>>) -> Option<String> {
    tokio::time::timeout(TIME, work).await.ok().flatten()
}

fn wrong_model(missing: &str, offered: &[String]) -> String {
    let missing = redact::printable(missing);
    if offered.is_empty() {
        return format!("the server does not offer any model, so not {missing} either");
    }
    format!(
        "the server does not offer the model {missing}, but {}; choose one of them with --model",
        models::named(offered)
    )
}
