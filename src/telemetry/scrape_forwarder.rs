//! Forwards scraped samples to the collector, unchanged.
//!
//! The metrics API accepts neither timestamps, nor buckets counted elsewhere, nor names with `:`,
//! so the messages are built here. A scrape is converted and encoded where it arrives, waits in a
//! bounded queue, and is sent by a task on the exporter's runtime over the exporter's connection.

mod convert;
mod distribution;
mod hardware;
mod pack;
mod point;
mod queue;
mod target;
#[cfg(test)]
mod tests;
mod translate;
mod unit;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use serde::{Deserialize, Serialize};

use base::interrupt::Interrupt;
use base::units::Nanos;
use measure::gpu::sample::GpuSample;
use measure::server_metrics::Scrape;

use super::attributes::{Interner, OTHER};
use super::connection::Connection;
use super::protobuf::{self, MAX_REQUEST_BYTES};
use super::send::{Courier, Failure, SendTask};
use super::temporality::{Deltas, Temporality};
use super::{Config, Identity, MetricSet};

use self::pack::{Packer, Scope};
use self::queue::{PackedScrape, ScrapeQueue};
use self::target::{GPU_EXPORTER, Run, SERVER};
use self::translate::Translation;

/// The outcome of forwarding server metrics to the collector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct ScrapesReport {
    /// Number of scrapes that the collector accepted.
    pub scrapes_forwarded: u64,
    /// Number of scrapes that it did not accept in full: they were dropped from the full queue,
    /// their requests failed, or the run ended.
    pub scrapes_dropped: u64,
    /// Number of data points that the collector accepted, including those that delta temporality
    /// omits because nothing was added.
    pub points_forwarded: u64,
    /// Number of data points that it reported as rejected.
    pub points_rejected: u64,
    /// Number of data points that did not reach it.
    pub points_dropped: u64,
    /// Number of series that OTLP cannot represent, counted at each scrape: histograms with
    /// contradictory buckets, and gauge histograms.
    pub points_inexpressible: u64,
    /// Number of requests that the collector accepted.
    pub requests_ok: u64,
    /// Number of requests that failed, including retries.
    pub requests_failed: u64,
    /// Whether the collector has the last scrape of each endpoint.
    pub delivered_final: bool,
}

/// Sends scrapes to the collector.
pub(super) struct ScrapeForwarder {
    run: Run,
    /// The servers' metrics that are forwarded.
    set: MetricSet,
    /// Present if latencies are also exported under the names of the GenAI conventions.
    translation: Option<Translation>,
    queue: Arc<ScrapeQueue>,
    task: SendTask,
}

impl ScrapeForwarder {
    /// Starts a forwarder over `connection`; nothing is sent before the first scrape.
    pub(super) fn start(
        connection: Arc<Connection>,
        config: &Config,
        identity: &Identity,
        temporality: Temporality,
    ) -> Self {
        let queue = Arc::new(ScrapeQueue::new());
        let taken = Arc::clone(&queue);
        let deltas = temporality.is_delta().then(Deltas::of_servers);
        let task = SendTask::start(connection, "server metrics", |courier| {
            Sender { courier, queue: taken, deltas }.run()
        });
        let translation = config.translates_servers.then(|| translation(config, identity));
        let run = Run::new(config, identity);
        Self { run, set: config.metric_set, translation, queue, task }
    }

    /// Accepts a scrape. Never waits: if the collector is too slow, scrapes are dropped.
    pub(super) fn forward(&self, scrape: &Scrape<'_>) {
        let labels = convert::target_labels(scrape.exposition);
        let resource = self.run.resource(SERVER, &scrape.endpoint.url, labels);
        let mut packer = Packer::new(&resource, scope(), MAX_REQUEST_BYTES);
        let (exposition, time) = (scrape.exposition, scrape.times.first_byte_ns);
        let translation = self.translation.as_ref();
        let inexpressible = convert::convert(exposition, time, self.set, translation, &mut packer);
        let (requests, oversized) = packer.finish();
        self.queue.push(scrape.index, requests, inexpressible + oversized);
    }

    /// Accepts the samples of the GPUs of the exporter at `url`. Never waits.
    pub(super) fn forward_gpus(&self, index: usize, url: &str, at_ns: u64, samples: &[GpuSample]) {
        let resource = self.run.resource(GPU_EXPORTER, url, &[]);
        let mut packer = Packer::new(&resource, scope(), MAX_REQUEST_BYTES);
        for metric in hardware::metrics(samples, at_ns) {
            packer.push(0, metric);
        }
        let (requests, oversized) = packer.finish();
        self.queue.push(index, requests, oversized);
    }

    /// Ends the input: waiting scrapes are sent, and failed requests are retried for a moment only.
    pub(super) fn close(&self) {
        self.task.hurry();
        self.queue.close();
    }

    /// Waits until the remaining scrapes are sent, at most until `deadline` and until the user
    /// interrupts the run, and drops the rest. `None` if nothing was scraped.
    pub(super) fn finish(&self, deadline: Nanos, interrupt: &Interrupt) -> Option<ScrapesReport> {
        self.close();
        self.task.end(deadline, interrupt);
        self.queue.report()
    }
}

impl fmt::Debug for ScrapeForwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScrapeForwarder").finish_non_exhaustive()
    }
}

fn scope() -> Scope {
    Scope { scope: protobuf::scope(), schema_url: String::new() }
}

/// Returns what the client knows of the requests that the servers process.
fn translation(config: &Config, identity: &Identity) -> Translation {
    let server = Interner::new(config, identity).first_server();
    Translation {
        operation: identity.endpoint_type.traits().operation_name,
        provider: server.provider,
        model: identity.models.first().map_or(OTHER, |model| model).to_owned(),
    }
}

/// The sending task.
struct Sender {
    courier: Courier,
    queue: Arc<ScrapeQueue>,
    /// The accepted values, with delta temporality. Scrapes that were dropped or failed are part
    /// of the difference to the next one.
    deltas: Option<Deltas>,
}

impl Sender {
    async fn run(mut self) {
        while let Some(batch) = self.queue.next().await {
            let is_reached = self.deliver(&batch).await;
            if !is_reached && self.queue.is_closed() {
                return;
            }
        }
    }

    /// Sends scrapes. Returns whether the collector could be reached.
    async fn deliver(&mut self, batch: &[PackedScrape]) -> bool {
        let mut has_all = true;
        for request in queue::requests(batch) {
            match self.send(&request.body).await {
                Ok(rejected) => self.queue.taken(request.points, rejected),
                Err(failure) => {
                    self.queue.failed();
                    has_all = false;
                    if failure.is_passing {
                        return false;
                    }
                }
            }
        }
        if has_all {
            self.queue.delivered(batch);
        }
        true
    }

    /// Sends the totals in `body`, or what was added to them. Returns the number of data points
    /// that the collector rejected.
    async fn send(&mut self, body: &Bytes) -> Result<u64, Failure> {
        let Some(deltas) = &mut self.deltas else {
            return self.courier.send::<ExportMetricsServiceResponse>(body).await;
        };
        let (differences, pending) = deltas.convert_encoded(body);
        if differences.is_empty() {
            return Ok(0);
        }
        let courier = &mut self.courier;
        let rejected =
            courier.send_differences::<ExportMetricsServiceResponse>(&differences, body).await?;
        deltas.accept(pending);
        Ok(rejected)
    }
}
