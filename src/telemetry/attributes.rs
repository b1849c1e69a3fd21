//! Attributes of the exported data: few, and bounded in number.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use opentelemetry::KeyValue;
use url::Url;

use base::redact::ShownUrl;
use base::semconv::attribute;
use client::record::ErrorKind;
use client::schedule::PhaseKind;
use measure::metrics::metric::MeasuredRecord;

use super::{Config, Identity};

/// Replaces every value that does not have an attribute value of its own.
pub(super) const OTHER: &str = "_OTHER";

/// Maximum number of distinct `gen_ai.response.model` values. The server chooses them, so their
/// number must be bounded by the client.
const MAX_RESPONSE_MODELS: usize = 16;

/// Maximum length of such a value in bytes; a longer one is not a model name.
const LONGEST_MODEL: usize = 256;

/// Number of values of `error.type`, including its absence.
const ERROR_TYPES: usize = 7;

/// The attribute set of a request: indices into the [`Interner`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SetKey {
    phase: PhaseKind,
    /// Index of its phase in the run, if several are measured.
    phase_index: Option<usize>,
    /// Index of its tenant, if tenants share the load.
    tenant: Option<usize>,
    server: usize,
    /// `None` for a model that was not given by `--model`.
    request_model: Option<usize>,
    response_model: Option<ResponseModel>,
    error: Option<ErrorKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ResponseModel {
    Known(usize),
    Other,
}

/// The server of requests, as attributes describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    /// `gen_ai.provider.name`
    pub(super) provider: String,
    address: Option<String>,
    port: Option<u16>,
}

/// Maps each request to its attribute set.
#[derive(Debug)]
pub(super) struct Interner {
    operation: &'static str,
    provider: Option<String>,
    models: Vec<Arc<str>>,
    urls: Vec<ShownUrl>,
    by_url: HashMap<ShownUrl, usize>,
    servers: Vec<Server>,
    response_models: Vec<String>,
    /// The names of the phases, if several are measured.
    phases: Vec<Arc<str>>,
    tenants: Vec<Arc<str>>,
}

impl Interner {
    /// Creates an interner for the run described by `identity`.
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
            phases: identity.phases.clone(),
            tenants: identity.tenants.clone(),
        }
    }

    /// Returns the maximum number of attribute sets that an instrument can legitimately have.
    pub(super) fn cardinality_limit(&self) -> usize {
        const TOKEN_TYPES: usize = 3;
        // Warmup and measurement, or else those that are named.
        let phases = self.phases.len().max(2);
        let response_models = MAX_RESPONSE_MODELS + 2;
        let tenants = self.tenants.len().max(1);
        let models = [self.models.len() + 1, response_models];
        let product = models.into_iter().chain([ERROR_TYPES, phases, tenants, TOKEN_TYPES]);
        product.fold(self.urls.len().max(1), usize::saturating_mul).min(100_000)
    }

    /// Returns the attributes of data that describes a phase rather than a request.
    pub(super) fn of_phases(&self) -> PhaseAttributes {
        let server = self.first_server();
        let model = self.models.first().map_or(OTHER, |model| model);
        let of_run = vec![
            KeyValue::new(attribute::GEN_AI_OPERATION_NAME, self.operation),
            KeyValue::new(attribute::GEN_AI_PROVIDER_NAME, server.provider),
            KeyValue::new(attribute::GEN_AI_REQUEST_MODEL, model.to_owned()),
        ];
        PhaseAttributes { of_run, phases: self.phases.clone() }
    }

    /// Returns the first of the run's servers.
    pub(super) fn first_server(&self) -> Server {
        self.server(self.urls.first().map_or("", ShownUrl::as_str))
    }

    /// Returns the attribute set of a request.
    pub(super) fn key(&mut self, measured: &MeasuredRecord) -> SetKey {
        SetKey {
            phase: measured.observation.phase,
            phase_index: Some(measured.record.phase_index as usize)
                .filter(|index| *index < self.phases.len()),
            tenant: self.tenant(measured.record.tenant.as_deref()),
            server: self.server_index(&measured.record.url),
            request_model: self.request_model(&measured.record.model),
            response_model: self.response_model(measured.response.model.as_deref()),
            error: measured.observation.error.as_ref().map(|error| error.kind),
        }
    }

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
        attributes.extend(key.phase_index.and_then(|index| name_of_phase(&self.phases, index)));
        let tenant = key.tenant.and_then(|index| self.tenants.get(index));
        let tenant = tenant.map(|name| KeyValue::new(attribute::AIPERF_TENANT, name.to_string()));
        attributes.extend(tenant);
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

    fn tenant(&self, name: Option<&str>) -> Option<usize> {
        let name = name?;
        self.tenants.iter().position(|known| **known == *name)
    }

    fn server_index(&mut self, url: &ShownUrl) -> usize {
        if let Some(index) = self.by_url.get(url) {
            return *index;
        }
        let server = self.server(url);
        let known = self.servers.iter().position(|have| *have == server);
        let index = known.unwrap_or_else(|| {
            self.servers.push(server);
            self.servers.len() - 1
        });
        self.by_url.insert(url.clone(), index);
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

    /// Returns the index of the requested model. With several models it is read from the body.
    fn request_model(&self, model: &str) -> Option<usize> {
        match self.models.as_slice() {
            [] => None,
            [_] => Some(0),
            several => several.iter().position(|known| **known == *model),
        }
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

/// The attributes of `aiperf.timing.*` and of final results, without the phase.
#[derive(Debug, Clone)]
pub(super) struct PhaseAttributes {
    of_run: Vec<KeyValue>,
    /// The names of the phases, if several are measured.
    phases: Vec<Arc<str>>,
}

impl PhaseAttributes {
    /// Returns the attributes of all phases of a kind together.
    pub(super) fn for_kind(&self, phase: PhaseKind) -> Vec<KeyValue> {
        let phase = KeyValue::new(attribute::AIPERF_BENCHMARK_PHASE, phase.as_str());
        self.of_run.iter().cloned().chain([phase]).collect()
    }

    /// Returns the attributes of the phase with this index, with its name if it has one.
    pub(super) fn of_one(&self, phase: PhaseKind, index: u32) -> Vec<KeyValue> {
        self.for_kind(phase)
            .into_iter()
            .chain(name_of_phase(&self.phases, index as usize))
            .collect()
    }
}

/// Returns the name of the phase with this index as an attribute, if several are measured.
pub(super) fn name_of_phase(names: &[Arc<str>], index: usize) -> Option<KeyValue> {
    let name = names.get(index)?;
    Some(KeyValue::new(attribute::AIPERF_PHASE_NAME, name.to_string()))
}

/// Returns the address and the port of the server at `url`, as attributes.
pub(super) fn address(url: &str) -> Vec<KeyValue> {
    let Ok(url) = Url::parse(&with_scheme(url)) else { return Vec::new() };
    let address =
        url.host_str().map(|host| KeyValue::new(attribute::SERVER_ADDRESS, unbracketed(host)));
    let port = url.port_or_known_default().filter(|_| address.is_some());
    let port = port.map(|port| KeyValue::new(attribute::SERVER_PORT, i64::from(port)));
    address.into_iter().chain(port).collect()
}

/// Host names and the `gen_ai.provider.name` that they imply; `*` matches one or more characters.
const PROVIDERS: &[(&str, &str)] = &[
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

/// The provider of IBM's hosts, which serve much else, so that the path is checked as well.
const WATSONX: &str = "ibm.watsonx.ai";

/// Returns the provider that a URL's host implies.
fn infer_provider(url: &Url) -> &'static str {
    let host = url.host_str().unwrap_or_default();
    let found = PROVIDERS.iter().find(|(pattern, _)| matches(pattern, host));
    match found {
        Some((_, WATSONX)) if !is_watsonx(url) => OTHER,
        Some((_, provider)) => provider,
        None => OTHER,
    }
}

/// Returns whether the URL is of watsonx, which serves `/ml/v1/…` on `<region>.ml.cloud.ibm.com`;
/// other paths must contain its name.
fn is_watsonx(url: &Url) -> bool {
    let path = url.path().to_ascii_lowercase();
    path.starts_with("/ml/") || path.contains("watsonx")
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

/// Returns an IPv6 address without the brackets that URLs put around it.
fn unbracketed(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}

#[cfg(test)]
mod tests;
