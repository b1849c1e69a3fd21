//! Scraped samples to the collector, as the server exposed them.
//!
//! The metrics API takes neither timestamps nor buckets that were counted
//! elsewhere nor names with `:`, so the messages are built here. A scrape is
//! converted and encoded where it comes; a queue with a bound holds it; a task
//! on the exporter's runtime sends it over the exporter's connection.

mod convert;
mod distribution;
mod pack;
mod point;
mod queue;
mod target;
#[cfg(test)]
mod tests;
mod unit;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use serde::{Deserialize, Serialize};

use super::connection::Connection;
use super::protobuf::{self, MOST_REQUEST_BYTES};
use super::send::{Courier, SendTask};
use super::{Config, Identity};
use crate::server_metrics::Scrape;

use self::pack::{Packer, Scope};
use self::queue::{PackedScrape, ScrapeQueue};
use self::target::Run;

/// How the samples that were scraped from the servers went to the collector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScrapesReport {
    /// Scrapes that the collector took.
    pub scrapes_forwarded: u64,
    /// Scrapes that it did not take in full: they fell out of the full queue,
    /// their requests failed, or the run ended.
    pub scrapes_dropped: u64,
    /// Data points that the collector took.
    pub points_forwarded: u64,
    /// Data points that it said it rejected.
    pub points_rejected: u64,
    /// Data points that did not reach it.
    pub points_dropped: u64,
    /// Series that OTLP cannot express, counted at each scrape: histograms whose
    /// buckets contradict each other, gauge histograms.
    pub points_inexpressible: u64,
    /// Requests that the collector took.
    pub requests_ok: u64,
    /// Requests that were given up.
    pub requests_failed: u64,
    /// Whether the collector has the last scrape of each endpoint.
    pub delivered_final: bool,
}

/// Sends scrapes to the collector.
pub(super) struct ScrapeForwarder {
    run: Run,
    queue: Arc<ScrapeQueue>,
    task: SendTask,
}

impl ScrapeForwarder {
    /// A forwarder over `connection`; nothing is sent before the first scrape.
    pub(super) fn start(connection: Arc<Connection>, config: &Config, identity: &Identity) -> Self {
        let queue = Arc::new(ScrapeQueue::new());
        let taken = Arc::clone(&queue);
        let task = SendTask::start(connection, "the servers' metrics", |courier| {
            Sender { courier, queue: taken }.run()
        });
        Self { run: Run::new(config, identity), queue, task }
    }

    /// Takes a scrape. Never waits: what the collector is too slow for is dropped.
    pub(super) fn forward(&self, scrape: &Scrape<'_>) {
        let labels = convert::target_labels(scrape.exposition);
        let resource = self.run.resource(&scrape.endpoint.url, labels);
        let mut packer = Packer::new(&resource, scope(), MOST_REQUEST_BYTES);
        let inexpressible =
            convert::convert(scrape.exposition, scrape.times.first_byte_ns, &mut packer);
        let (requests, oversized) = packer.finish();
        self.queue.push(scrape.index, requests, inexpressible + oversized);
    }

    /// No scrape comes any more: what waits is sent, and what fails is tried
    /// again for a moment only.
    pub(super) fn close(&self) {
        self.task.hurry();
        self.queue.close();
    }

    /// Waits for what is still to be sent, `patience` at most, and gives up the rest.
    /// `None` where nothing was scraped.
    pub(super) fn finish(&self, patience: Duration) -> Option<ScrapesReport> {
        self.close();
        self.task.end(patience);
        self.queue.report()
    }
}

impl fmt::Debug for ScrapeForwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScrapeForwarder").finish_non_exhaustive()
    }
}

/// Who translates.
fn scope() -> Scope {
    Scope { scope: protobuf::scope(), schema_url: String::new() }
}

/// The task that sends.
struct Sender {
    courier: Courier,
    queue: Arc<ScrapeQueue>,
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

    /// Sends scrapes. Whether the collector could be reached.
    async fn deliver(&mut self, batch: &[PackedScrape]) -> bool {
        let mut has_all = true;
        for request in queue::requests(batch) {
            match self.courier.send::<ExportMetricsServiceResponse>(&request.body).await {
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
}
