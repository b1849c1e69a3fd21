//! Attributes of what is exported: few, and bounded in number.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use opentelemetry::KeyValue;
use serde::Deserialize;
use url::Url;

use super::{Config, Identity};
use crate::metrics::metric::MeasuredRecord;
use crate::record::ErrorKind;
use crate::schedule::PhaseKind;
use crate::semconv::attribute;

/// Stands for every value that has none of its own.
pub(super) const OTHER: &str = "_OTHER";

/// Distinct `gen_ai.response.model` values; the server chooses them, so that
/// their number must be bounded here.
const MAX_RESPONSE_MODELS: usize = 16;

/// Bytes of such a value; a longer one is no name.
const LONGEST_MODEL: usize = 256;

/// Values of `error.type`, and none.
const ERROR_TYPES: usize = 7;

/// Which attribute set a request belongs to: indices into the [`Interner`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SetKey {
    phase: PhaseKind,
    server: usize,
    /// `None` is a model that nobody asked for by `--model`.
    request_model: Option<usize>,
    response_model: Option<ResponseModel>,
    error: Option<ErrorKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ResponseModel {
    Known(usize),
    Other,
}

/// Where requests went, as attributes say it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Server {
    provider: String,
    address: Option<String>,
    port: Option<u16>,
}

/// Finds each request's attribute set.
#[derive(Debug)]
pub(super) struct Interner {
    operation: &'static str,
    provider: Option<String>,
    models: Vec<Arc<str>>,
    urls: Vec<String>,
    by_url: HashMap<Arc<str>, usize>,
    servers: Vec<Server>,
    response_models: Vec<String>,
}

impl Interner {
    /// For the run that `identity` describes.
    pub(super) fn new(config: &Config, identity: &Identity) -> Self {
        let provider = config.provider.as_deref().map(str::trim).filter(|name| !name.is_empty());
        Self {
            operation: identity.endpoint_type.traits().operation_name,
            provider: provider.map(str::to_owned),
            models: identity.models.clone(),
            urls: identity.urls.clone(),
            by_url: HashMap::new(),
            servers: Vec::new(),
            response_models: Vec::new(),
        }
    }

    /// As many attribute sets as an instrument can legitimately have.
    pub(super) fn cardinality_limit(&self) -> usize {
        const PHASES: usize = 2;
        const TOKEN_TYPES: usize = 2;
        let response_models = MAX_RESPONSE_MODELS + 2;
        let product = [self.models.len() + 1, response_models, ERROR_TYPES, PHASES, TOKEN_TYPES];
        product.into_iter().fold(self.urls.len().max(1), usize::saturating_mul).min(100_000)
    }

    /// The attributes of what describes a phase rather than a request.
    pub(super) fn of_phases(&self) -> PhaseAttributes {
        let server = self.server(self.urls.first().map_or("", String::as_str));
        let model = self.models.first().map_or(OTHER, |model| model);
        PhaseAttributes(vec![
            KeyValue::new(attribute::GEN_AI_OPERATION_NAME, self.operation),
            KeyValue::new(attribute::GEN_AI_PROVIDER_NAME, server.provider),
            KeyValue::new(attribute::GEN_AI_REQUEST_MODEL, model.to_owned()),
        ])
    }

    /// The attribute set of a request.
    pub(super) fn key(&mut self, measured: &MeasuredRecord) -> SetKey {
        SetKey {
            phase: measured.observation.phase,
            server: self.server_index(&measured.record.url),
            request_model: self.request_model(&measured.record.payload),
            response_model: self.response_model(measured.response.model.as_deref()),
            error: measured.observation.error.as_ref().map(|error| error.kind),
        }
    }

    /// The attributes of a set.
    pub(super) fn attributes(&self, key: SetKey) -> Vec<KeyValue> {
        let model = key.request_model.and_then(|index| self.models.get(index));
        let mut attributes = vec![
            KeyValue::new(attribute::AIPERF_BENCHMARK_PHASE, key.phase.as_str()),
            KeyValue::new(attribute::GEN_AI_OPERATION_NAME, self.operation),
            KeyValue::new(
                attribute::GEN_AI_REQUEST_MODEL,
                model.map_or(OTHER, |model| model).to_owned(),
            ),
        ];
        if let Some(server) = self.servers.get(key.server) {
            let provider = server.provider.clone();
            attributes.push(KeyValue::new(attribute::GEN_AI_PROVIDER_NAME, provider));
            if let Some(address) = &server.address {
                attributes.push(KeyValue::new(attribute::SERVER_ADDRESS, address.clone()));
                let port =
                    server.port.map(|port| KeyValue::new(attribute::SERVER_PORT, i64::from(port)));
                attributes.extend(port);
            }
        }
        if let Some(model) = key.response_model {
            let name = match model {
                ResponseModel::Known(index) => self.response_models.get(index).map(String::as_str),
                ResponseModel::Other => None,
            };
            let name = name.unwrap_or(OTHER).to_owned();
            attributes.push(KeyValue::new(attribute::GEN_AI_RESPONSE_MODEL, name));
        }
        if let Some(error) = key.error {
            attributes.push(KeyValue::new(attribute::ERROR_TYPE, error.as_str()));
        }
        attributes
    }

    fn server_index(&mut self, url: &Arc<str>) -> usize {
        if let Some(index) = self.by_url.get(url) {
            return *index;
        }
        let server = self.server(url);
        let known = self.servers.iter().position(|have| *have == server);
        let index = known.unwrap_or_else(|| {
            self.servers.push(server);
            self.servers.len() - 1
        });
        self.by_url.insert(Arc::clone(url), index);
        index
    }

    fn server(&self, url: &str) -> Server {
        let url = Url::parse(&with_scheme(url)).ok();
        let inferred = || url.as_ref().map_or(OTHER, infer_provider).to_owned();
        Server {
            provider: self.provider.clone().unwrap_or_else(inferred),
            address: url.as_ref().and_then(Url::host_str).map(unbracketed),
            port: url.as_ref().and_then(Url::port_or_known_default),
        }
    }

    /// With several models the body says which was asked.
    fn request_model(&self, payload: &[u8]) -> Option<usize> {
        #[derive(Deserialize)]
        struct Asked<'a> {
            #[serde(borrow)]
            model: Cow<'a, str>,
        }
        if self.models.len() <= 1 {
            return (!self.models.is_empty()).then_some(0);
        }
        let asked: Asked<'_> = serde_json::from_slice(payload).ok()?;
        self.models.iter().position(|model| **model == *asked.model)
    }

    fn response_model(&mut self, name: Option<&str>) -> Option<ResponseModel> {
        let name = name.filter(|name| !name.is_empty())?;
        if let Some(index) = self.response_models.iter().position(|have| have == name) {
            return Some(ResponseModel::Known(index));
        }
        if self.response_models.len() == MAX_RESPONSE_MODELS || name.len() > LONGEST_MODEL {
            return Some(ResponseModel::Other);
        }
        self.response_models.push(name.to_owned());
        Some(ResponseModel::Known(self.response_models.len() - 1))
    }
}

/// The attributes of `aiperf.timing.*` and of final results, but for the phase.
#[derive(Debug, Clone)]
pub(super) struct PhaseAttributes(Vec<KeyValue>);

impl PhaseAttributes {
    /// With the phase.
    pub(super) fn of(&self, phase: PhaseKind) -> Vec<KeyValue> {
        let phase = KeyValue::new(attribute::AIPERF_BENCHMARK_PHASE, phase.as_str());
        self.0.iter().cloned().chain([phase]).collect()
    }
}

/// Hosts and the `gen_ai.provider.name` they imply; `*` is one character or more.
const PROVIDERS: [(&str, &str); 15] = [
    ("api.openai.com", "openai"),
    ("api.anthropic.com", "anthropic"),
    ("api.deepseek.com", "deepseek"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.cohere.ai", "cohere"),
    ("api.cohere.com", "cohere"),
    ("api.x.ai", "x_ai"),
    ("api.groq.com", "groq"),
    ("api.perplexity.ai", "perplexity"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("*-aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("bedrock-runtime.*.amazonaws.com", "aws.bedrock"),
    ("*.openai.azure.com", "azure.ai.openai"),
    ("*.services.ai.azure.com", "azure.ai.inference"),
    ("*.ibm.com", WATSONX),
];

/// IBM's hosts serve much else, so that this needs a path as well.
const WATSONX: &str = "ibm.watsonx.ai";

/// The provider that a URL's host implies.
fn infer_provider(url: &Url) -> &'static str {
    let host = url.host_str().unwrap_or_default();
    let found = PROVIDERS.iter().find(|(pattern, _)| matches(pattern, host));
    match found {
        Some((_, WATSONX)) if !is_watsonx(url, host) => OTHER,
        Some((_, provider)) => provider,
        None => OTHER,
    }
}

/// Watsonx serves `/ml/v1/…` on `<region>.ml.cloud.ibm.com`, which serves
/// nothing else; other hosts must name it in the path.
fn is_watsonx(url: &Url, host: &str) -> bool {
    let path = url.path().to_ascii_lowercase();
    path.starts_with("/ml/") || path.contains("watsonx") || host.ends_with(".ml.cloud.ibm.com")
}

fn matches(pattern: &str, host: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == host,
        Some((before, after)) => {
            host.len() > before.len() + after.len()
                && host.starts_with(before)
                && host.ends_with(after)
        }
    }
}

fn with_scheme(url: &str) -> Cow<'_, str> {
    if url.contains("://") { url.into() } else { format!("http://{url}").into() }
}

/// An IPv6 address without the brackets that URLs put around it.
fn unbracketed(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}

#[cfg(test)]
mod tests;
