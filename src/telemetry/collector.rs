//! The OTLP exporter of what is measured, over the shared connection.
//!
//! The SDK's reader polls it on a bare thread, so every poll happens in the
//! context of the connection's runtime.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry_otlp::{
    Compression, MetricExporter, Protocol as OtlpProtocol, WithExportConfig, WithHttpConfig,
    WithTonicConfig,
};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber;
use tracing::level_filters::LevelFilter;
use tracing::span;

use super::TelemetryError;
use super::connection::{Client, Connection, described};

/// A collector that exports can be sent to.
#[derive(Debug)]
pub(super) struct Collector {
    exporter: MetricExporter,
    connection: Arc<Connection>,
    rejections: tracing::Dispatch,
    rejected: Arc<AtomicU64>,
}

impl Collector {
    /// Builds the exporter; nothing is sent yet.
    pub(super) fn new(connection: Arc<Connection>) -> Result<Self, TelemetryError> {
        let exporter = {
            let _context = connection.runtime().enter();
            match connection.client.clone() {
                Client::Grpc(channel) => grpc(channel, &connection),
                Client::Http(client) => http(client, &connection),
            }
        };
        let exporter = exporter.map_err(|reason| TelemetryError::Exporter {
            endpoint: connection.url.to_string(),
            reason,
        })?;
        let rejected = Arc::new(AtomicU64::new(0));
        let rejections = tracing::Dispatch::new(Rejections(Arc::clone(&rejected)));
        Ok(Self { exporter, connection, rejections, rejected })
    }

    /// The way to it.
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Sends `metrics`. Returns how many data points the collector rejected, or
    /// why it did not take them.
    pub(super) async fn export(&self, metrics: &ResourceMetrics) -> Result<u64, String> {
        let before = self.rejected.load(Ordering::Acquire);
        let export = self.exporter.export(metrics).with_subscriber(self.rejections.clone());
        let mut export = pin!(export);
        let outcome = poll_fn(|context| {
            let _runtime = self.connection.runtime().enter();
            export.as_mut().poll(context)
        });
        outcome.await.map_err(|error| error.to_string())?;
        Ok(self.rejected.load(Ordering::Acquire) - before)
    }
}

fn grpc(channel: Channel, to: &Connection) -> Result<MetricExporter, String> {
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

fn http(client: reqwest::Client, to: &Connection) -> Result<MetricExporter, String> {
    let headers: HashMap<String, String> = to
        .headers
        .iter()
        .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
        .collect();
    let mut builder = MetricExporter::builder()
        .with_temporality(Temporality::Cumulative)
        .with_http()
        .with_http_client(client)
        .with_protocol(OtlpProtocol::HttpBinary)
        .with_endpoint(to.url.to_string())
        .with_headers(headers)
        .with_timeout(to.timeout);
    if to.gzip {
        builder = builder.with_compression(Compression::Gzip);
    }
    builder.build().map_err(described)
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
