//! The models that a server lists.

use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use reqwest::Client;
use serde_json::Value;
use tokio::runtime;
use url::Url;

use base::redact::{self, Secret};

use super::request::{Refusal, answer, client};
use crate::config::{Connections, ServerConfig, url as urls};

/// Time for the question.
const TIME: Duration = Duration::from_secs(5);
/// Maximum number of models that an error names.
const MAX_NAMED: usize = 10;

/// Returns the models that the server at `base` lists.
///
/// # Errors
/// If it does not respond with a list.
pub(super) async fn listed(
    client: &Client,
    base: &Secret<Url>,
    headers: HeaderMap,
) -> Result<Vec<String>, Refusal> {
    let url = urls::join(base, "/v1/models");
    let body = answer(client.get(url.expose().clone()).headers(headers)).await?;
    let listed: Value = serde_json::from_slice(&body)
        .map_err(|error| Refusal::new(None, format!("cannot parse its list of models: {error}")))?;
    let entries = listed["data"].as_array().into_iter().flatten();
    Ok(entries.filter_map(|entry| entry["id"].as_str().map(str::to_owned)).collect())
}

/// Returns the only model that the first server lists, for a run that does not name one.
///
/// # Errors
/// If the server does not respond, or has another number of models, with what to do.
pub(crate) fn only_model(
    server: &ServerConfig,
    connections: &Connections,
    headers: HeaderMap,
) -> Result<String, String> {
    let Some(base) = server.urls.first() else {
        return Err("name the model with --model".to_owned());
    };
    let shown = base.shown();
    let failed = |why: String| {
        format!("the model is not named, and {shown} did not list one: {why}; use --model NAME")
    };
    let has_credentials = headers.contains_key(AUTHORIZATION);
    let refused = |refusal: Refusal| {
        let url = shown.to_string();
        match refusal.error.remedy(url.trim_end_matches('/'), has_credentials) {
            Some(remedy) => {
                let why = refusal.why.trim_end_matches('.');
                format!(
                    "--model is not given, and {shown} cannot be asked for its models: {why}. {}",
                    remedy.advice
                )
            }
            None => failed(refusal.why),
        }
    };
    let ask = async {
        let client =
            client(connections, [base], TIME).map_err(|error| failed(error.to_string()))?;
        listed(&client, base, headers).await.map_err(refused)
    };
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(error.to_string()))?;
    let models = runtime.block_on(ask);
    // A DNS lookup cannot be cancelled.
    runtime.shutdown_background();
    match models?.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(failed("its list is empty".to_owned())),
        several => Err(format!(
            "{shown} has {} models: {}; choose one with --model",
            several.len(),
            redact::printable_names(several, MAX_NAMED)
        )),
    }
}
