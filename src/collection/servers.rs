//! Scraping of server metrics during a run.

use std::sync::{Arc, Weak};

use base::interrupt::Interrupt;
use base::units::{Clock, Nanos};
use client::runner::PhaseListener;
use measure::server_metrics::conservation::{self, ClientCounts, Comparison};
use measure::server_metrics::limits::ClientLimits;
use measure::server_metrics::report::{self, ServerMetrics};
use measure::server_metrics::scrape::Endpoint;
use measure::server_metrics::store::Store;
use measure::server_metrics::{Collected, Collector, Scrape, ScrapeSink};
use results::artifacts::layout::Layout;
use results::artifacts::server_metrics::ScrapeLines;
use results::artifacts::{ArtifactSet, WriteFailure};
use results::follow::{Follower, Followers};
use telemetry::Telemetry;

use crate::config::RunConfig;

/// The metrics endpoints of a run while they are being scraped.
pub(crate) struct ServerCollection {
    collector: Collector<Sink>,
    /// Whether there is a file of scrapes.
    has_lines: bool,
    slice_duration: Option<Nanos>,
    /// Whether other shards of the run use the server too.
    has_others: bool,
}

/// Passes scrapes on to the telemetry exporter, to the file and to the followers of the run.
struct Sink {
    /// Weak, since a scrape that is still being fetched must not keep the exporter from ending with the
    /// run.
    telemetry: Weak<Telemetry>,
    lines: Option<ScrapeLines>,
    followers: Followers,
}

impl ScrapeSink for Sink {
    fn scrape(&mut self, scrape: &Scrape<'_>) {
        if let Some(telemetry) = self.telemetry.upgrade() {
            telemetry.scrape(scrape);
        }
        if let Some(lines) = &mut self.lines {
            lines.append(scrape);
        }
        self.followers.scraped(scrape);
    }

    fn failed(&mut self, index: usize, endpoint: &Endpoint) {
        if let Some(telemetry) = self.telemetry.upgrade() {
            telemetry.scrape_failed(index, endpoint);
        }
    }

    fn idle(&mut self) {
        if let Some(lines) = &mut self.lines {
            lines.flush();
        }
    }
}

impl ServerCollection {
    /// Starts scraping the endpoints of `config`; `None` if there are none, or if nothing will be
    /// sent.
    pub(crate) fn start(
        config: &RunConfig,
        clock: Clock,
        telemetry: &Arc<Telemetry>,
        interrupt: &Interrupt,
        files: &mut ArtifactSet,
        followers: &Followers,
    ) -> anyhow::Result<Option<Self>> {
        let lines = files.open_scrapes()?;
        if interrupt.is_draining() || config.server_metrics.endpoints.is_empty() {
            return Ok(None);
        }
        let has_lines = lines.is_some();
        let followers = followers.clone();
        let sink = Sink { telemetry: Arc::downgrade(telemetry), lines, followers };
        let connections = &config.transport.connections;
        let collector =
            Collector::start(config.server_metrics.clone(), connections, clock, sink, interrupt)?;
        let slice_duration = config.artifacts.server_metrics.slice_duration;
        let has_others = config.schedule.shard.is_some_and(|shard| shard.count() > 1);
        Ok(Some(Self { collector, has_lines, slice_duration, has_others }))
    }

    pub(crate) fn listener(&self) -> Arc<dyn PhaseListener> {
        Arc::new(self.collector.handle())
    }

    /// Waits until the server's counters agree with the client's, up to a limit or an
    /// interrupt, then stops scraping and returns the report; `None` if no endpoint returned
    /// metrics. `client` and `limits` are absent if the client's own counts are incomplete. With other
    /// shards, the server's counters include their requests: the full wait is used, and the
    /// counts are compared when the shards are combined.
    pub(crate) fn finish(
        self,
        client: Option<ClientCounts>,
        limits: Option<ClientLimits>,
        interrupt: &Interrupt,
        files: &mut ArtifactSet,
    ) -> Option<ServerMetrics> {
        let compare = |store: &Store| {
            client.as_ref().map(|counts| conservation::compare(store, counts)).unwrap_or_default()
        };
        let is_settled = |store: &Store| {
            let compared = compare(store);
            // Counts that cannot be compared may be late too.
            let can_wait = client.is_some() && store.has_cumulative();
            !self.has_others && agree(&compared) && !(compared.is_empty() && can_wait)
        };
        let Collected { mut store, windows, sink, .. } =
            self.collector.finish(interrupt, is_settled);
        match sink {
            Some(sink) => sink.lines.into_iter().for_each(|lines| files.close_scrapes(lines)),
            None if self.has_lines => files.note(Err(unfinished(files.layout()))),
            None => {}
        }
        if store.endpoints().iter().all(|endpoint| endpoint.scrapes().is_empty()) {
            return None;
        }
        // The requests of other shards may be counted late, too.
        let own = client.as_ref().filter(|_| !self.has_others);
        let late = own.map(|counts| conservation::late(&store, &windows, counts));
        store.attribute_late(late.unwrap_or_default());
        let mut conservation = compare(&store);
        // Without time for the server to count, or with incomplete client counts, a difference
        // says nothing about the server.
        let is_known = !interrupt.is_draining() && store.is_whole();
        conservation.retain(|comparison| is_known || (comparison.agrees && !self.has_others));
        let mut report = report::build(&store, windows, self.slice_duration);
        if let Some(limits) = limits.filter(|_| !self.has_others) {
            limits.apply(&mut report);
        }
        Some(ServerMetrics { report, store: Arc::new(store), conservation })
    }
}

fn unfinished(layout: &Layout) -> WriteFailure {
    let path = layout.server_metrics_lines.clone();
    WriteFailure { path, error: "the last lines could not be written in time".to_owned() }
}

fn agree(comparisons: &[Comparison]) -> bool {
    comparisons.iter().all(|comparison| comparison.agrees)
}
