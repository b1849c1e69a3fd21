//! The way to the collector: an OTLP exporter on a runtime of our own.
//!
//! The SDK's reader has a bare thread, on which asynchronous clients find no
//! runtime; and the application's runtime ends before the final flush. So one
//! thread here drives connections and timers, and every poll of an export
//! happens in its context.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use opentelemetry_otlp::{
    Compression, MetricExporter, Protocol as OtlpProtocol, WithExportConfig, WithHttpConfig,
    WithTonicConfig,
};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber;
use tracing::level_filters::LevelFilter;
use tracing::span;
use url::Url;

use super::TelemetryError;
use super::settings::{Destination, Protocol};
use crate::background::yield_to_measurement;

/// Connecting takes less than this where there is a collector at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A collector that exports can be sent to.
#[derive(Debug)]
pub(super) struct Collector {
    url: Url,
    exporter: MetricExporter,
    runtime: ExportRuntime,
    rejections: tracing::Dispatch,
    rejected: Arc<AtomicU64>,
}

impl Collector {
    /// Sets the way up; nothing is sent or connected yet.
    pub(super) fn new(destination: Destination) -> Result<Self, TelemetryError> {
        // TLS needs a process-wide provider; another module may have set it.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let runtime = ExportRuntime::start()?;
        let exporter = {
            let _context = runtime.handle.enter();
            match destination.protocol {
                Protocol::Grpc => grpc(&destination),
                Protocol::Http => http(&destination),
            }
        };
        let exporter = exporter.map_err(|reason| TelemetryError::Exporter {
            endpoint: destination.url.to_string(),
            reason,
        })?;
        let rejected = Arc::new(AtomicU64::new(0));
        let rejections = tracing::Dispatch::new(Rejections(Arc::clone(&rejected)));
        Ok(Self { url: destination.url, exporter, runtime, rejections, rejected })
    }

    /// The collector's URL; it bears no secrets.
    pub(super) fn endpoint(&self) -> &Url {
        &self.url
    }

    /// Sends `metrics`. Returns how many data points the collector rejected, or
    /// why it did not take them.
    pub(super) async fn export(&self, metrics: &ResourceMetrics) -> Result<u64, String> {
        let before = self.rejected.load(Ordering::Acquire);
        let export = self.exporter.export(metrics).with_subscriber(self.rejections.clone());
        let mut export = pin!(export);
        let outcome = poll_fn(|context| {
            let _runtime = self.runtime.handle.enter();
            export.as_mut().poll(context)
        });
        outcome.await.map_err(|error| error.to_string())?;
        Ok(self.rejected.load(Ordering::Acquire) - before)
    }
}

/// An exporter over gRPC. The channel is ours because the exporter's own
/// neither bounds connecting nor reads certificates.
fn grpc(to: &Destination) -> Result<MetricExporter, String> {
    let mut endpoint = Endpoint::from_shared(to.url.to_string())
        .and_then(|endpoint| endpoint.user_agent(user_agent()))
        .map_err(described)?
        .connect_timeout(CONNECT_TIMEOUT.min(to.timeout))
        .timeout(to.timeout);
    if to.url.scheme() == "https" {
        endpoint = endpoint.tls_config(client_tls(to)).map_err(described)?;
    }
    let channel: Channel = endpoint.connect_lazy();
    let mut builder = MetricExporter::builder()
        .with_temporality(Temporality::Cumulative)
        .with_tonic()
        .with_channel(channel)
        .with_metadata(MetadataMap::from_headers(to.headers.clone()))
        .with_timeout(to.timeout);
    if to.gzip {
        builder = builder.with_compression(Compression::Gzip);
    }
    builder.build().map_err(described)
}

fn client_tls(to: &Destination) -> ClientTlsConfig {
    let tls = match &to.authorities {
        Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    match &to.client {
        Some((certificate, key)) => tls.identity(Identity::from_pem(certificate, key)),
        None => tls,
    }
}

/// An exporter over HTTP with protobuf bodies.
fn http(to: &Destination) -> Result<MetricExporter, String> {
    let mut client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT.min(to.timeout))
        .timeout(to.timeout)
        // A redirect would take the headers' secrets elsewhere.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(user_agent());
    if let Some(pem) = &to.authorities {
        let authorities = reqwest::Certificate::from_pem_bundle(pem).map_err(described)?;
        client = client.tls_certs_only(authorities);
    }
    if let Some((certificate, key)) = &to.client {
        let both = [certificate.as_slice(), b"\n", key].concat();
        client = client.identity(reqwest::Identity::from_pem(&both).map_err(described)?);
    }
    let headers: HashMap<String, String> = to
        .headers
        .iter()
        .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
        .collect();
    let mut builder = MetricExporter::builder()
        .with_temporality(Temporality::Cumulative)
        .with_http()
        .with_http_client(client.build().map_err(described)?)
        .with_protocol(OtlpProtocol::HttpBinary)
        .with_endpoint(to.url.to_string())
        .with_headers(headers)
        .with_timeout(to.timeout);
    if to.gzip {
        builder = builder.with_compression(Compression::Gzip);
    }
    builder.build().map_err(described)
}

fn user_agent() -> &'static str {
    concat!("aiperf/", env!("CARGO_PKG_VERSION"))
}

/// An error with its causes: the outermost alone often says nothing.
fn described(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// A runtime on a thread of its own, which ends when this is dropped.
#[derive(Debug)]
struct ExportRuntime {
    handle: Handle,
    /// Dropping it wakes the thread.
    _stop: oneshot::Sender<()>,
}

impl ExportRuntime {
    fn start() -> Result<Self, TelemetryError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        thread::Builder::new().name("aiperf-otlp".into()).spawn(move || {
            yield_to_measurement();
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, _stop: stop })
    }
}

/// The exporter tells of rejected points in a log event alone. This subscriber
/// sees the events of one export and adds them up.
struct Rejections(Arc<AtomicU64>);

/// The field that the exporter's event has.
const REJECTED: &str = "rejected_data_points";

impl tracing::Subscriber for Rejections {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_event() && metadata.fields().field(REJECTED).is_some()
    }

    /// What the exporter's event has; more would make other code's events dearer.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut RejectedPoints(&self.0));
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct RejectedPoints<'a>(&'a AtomicU64);

impl Visit for RejectedPoints<'_> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name() == REJECTED {
            self.0.fetch_add(u64::try_from(value).unwrap_or(0), Ordering::AcqRel);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
