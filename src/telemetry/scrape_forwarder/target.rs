//! The resource of server metrics: identifies the server and the run that scraped it.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics;
use opentelemetry_proto::tonic::resource::v1::Resource;
use url::{Host, Url};

use base::semconv::{SCHEMA_URL, attribute as key};
use measure::server_metrics::exposition::Label;

use super::super::{Config, Identity};
use super::point::{attribute, text};

/// Service name of every server; the names of its metrics show which software it runs.
pub(super) const SERVER: &str = "inference-server";

/// Service name of every exporter of GPUs.
pub(super) const GPU_EXPORTER: &str = "gpu-exporter";

/// Attributes that the user sets for aiperf itself, which do not apply to the servers.
const OF_THE_CLIENT: &[&str] =
    &[key::SERVICE_NAME, key::SERVICE_INSTANCE_ID, key::SERVICE_VERSION, "service.namespace"];

/// The attributes that the resources of all servers have in common.
pub(super) struct Run(Vec<KeyValue>);

impl Run {
    /// Creates them from the run's identifier, which the client's own series have too, and
    /// `--otel-resource-attributes`.
    pub(super) fn new(config: &Config, identity: &Identity) -> Self {
        let id = identity.benchmark_id.to_string();
        let mut attributes = vec![text(key::AIPERF_BENCHMARK_ID, &id)];
        for (key, value) in &config.resource_attributes {
            if !OF_THE_CLIENT.contains(&key.as_str()) {
                put(&mut attributes, text(key, value));
            }
        }
        Self(attributes)
    }

    /// Returns the resource of the `service` at `url`, which describes itself with `labels`.
    /// Identifying attributes override those of the user, which override the labels.
    pub(super) fn resource(
        &self,
        service: &str,
        url: &str,
        labels: &[Label<'_>],
    ) -> ResourceMetrics {
        let mut attributes: Vec<KeyValue> = Vec::new();
        let of_labels = labels.iter().map(|label| text(&label.name, &label.value));
        let all = of_labels.chain(self.0.iter().cloned()).chain(identity(service, url));
        all.for_each(|attribute| put(&mut attributes, attribute));
        ResourceMetrics {
            resource: Some(Resource { attributes, ..Resource::default() }),
            scope_metrics: Vec::new(),
            schema_url: SCHEMA_URL.to_owned(),
        }
    }
}

/// Sets an attribute, overriding an earlier value.
fn put(attributes: &mut Vec<KeyValue>, attribute: KeyValue) {
    attributes.retain(|have| have.key != attribute.key);
    attributes.push(attribute);
}

/// Returns the attributes that identify the `service` at `url`.
fn identity(service: &str, url: &str) -> Vec<KeyValue> {
    let mut attributes = vec![text(key::SERVICE_NAME, service)];
    let parsed = Url::parse(url).ok();
    let Some((url, host)) = parsed.as_ref().and_then(|url| Some((url, url.host()?))) else {
        attributes.push(text(key::SERVICE_INSTANCE_ID, url));
        return attributes;
    };
    // An IPv6 address is in brackets only if a port follows.
    let address = match host {
        Host::Ipv6(address) => address.to_string(),
        _ => host.to_string(),
    };
    let port = url.port_or_known_default().unwrap_or_default();
    attributes.push(text(key::SERVICE_INSTANCE_ID, &format!("{host}:{port}")));
    attributes.push(text(key::SERVER_ADDRESS, &address));
    attributes.push(attribute(key::SERVER_PORT, Value::IntValue(port.into())));
    attributes.push(text(key::URL_SCHEME, url.scheme()));
    attributes
}
