//! The server's side of a run: its metrics are scraped beside the load.

use std::sync::{Arc, Weak};

use tokio::sync::watch;

use crate::artifacts::layout::Layout;
use crate::artifacts::server_metrics::ScrapeLines;
use crate::artifacts::{ArtifactSet, WriteFailure};
use crate::config::RunConfig;
use crate::runner::{Interrupt, PhaseListener};
use crate::server_metrics::conservation::{self, ClientCounts, Comparison};
use crate::server_metrics::report::{self, ServerMetrics};
use crate::server_metrics::store::Store;
use crate::server_metrics::{Collected, Collector, Scrape, ScrapeSink};
use crate::telemetry::Telemetry;
use crate::units::{Clock, Nanos};

/// The endpoints of a run, scraped from now on.
pub(super) struct Collection {
    collector: Collector<Sink>,
    /// There is a file of scrapes.
    has_lines: bool,
    slice_duration: Option<Nanos>,
    /// Others ask the server too, as parts of the same run.
    has_others: bool,
}

/// Shows scrapes to the collector of telemetry and to the file.
struct Sink {
    /// Ends with the run, whether or not the last scrape was written.
    telemetry: Weak<Telemetry>,
    lines: Option<ScrapeLines>,
}

impl ScrapeSink for Sink {
    fn scrape(&mut self, scrape: &Scrape<'_>) {
        if let Some(telemetry) = self.telemetry.upgrade() {
            telemetry.scrape(scrape);
        }
        if let Some(lines) = &mut self.lines {
            lines.append(scrape);
        }
    }

    fn idle(&mut self) {
        if let Some(lines) = &mut self.lines {
            lines.flush();
        }
    }
}

impl Collection {
    /// Asks every endpoint of `config` once, then again and again; `None` where
    /// there is none to ask, or nothing will be sent.
    pub(super) fn start(
        config: &RunConfig,
        clock: Clock,
        telemetry: &Arc<Telemetry>,
        interrupt: &watch::Receiver<Interrupt>,
        files: &mut ArtifactSet,
    ) -> anyhow::Result<Option<Self>> {
        let lines = files.open_scrapes()?;
        let is_over = || *interrupt.borrow() > Interrupt::None;
        if is_over() || config.server_metrics.endpoints.is_empty() {
            return Ok(None);
        }
        let has_lines = lines.is_some();
        let sink = Sink { telemetry: Arc::downgrade(telemetry), lines };
        let connections = &config.transport.connections;
        let collector =
            Collector::start(config.server_metrics.clone(), connections, clock, sink, is_over)?;
        let slice_duration = config.artifacts.server_metrics.slice_duration;
        let has_others = config.schedule.shard.is_some_and(|shard| shard.count() > 1);
        Ok(Some(Self { collector, has_lines, slice_duration, has_others }))
    }

    /// Who is to be told of the phases.
    pub(super) fn listener(&self) -> Arc<dyn PhaseListener> {
        Arc::new(self.collector.handle())
    }

    /// Waits, for a bounded time and no longer than the user likes, until the
    /// server has counted what the client has; then stops, and sums up: `None`
    /// where no endpoint gave metrics. `client` is absent where the client itself
    /// does not know it all. Where others ask the server too its counts are theirs as
    /// well: they are waited for as long as may be, and compared when the parts are
    /// combined.
    pub(super) fn finish(
        self,
        client: Option<ClientCounts>,
        interrupt: &watch::Receiver<Interrupt>,
        files: &mut ArtifactSet,
    ) -> Option<ServerMetrics> {
        let compare = |store: &Store| {
            client.as_ref().map(|counts| conservation::compare(store, counts)).unwrap_or_default()
        };
        let mut is_over = false;
        let Collected { store, windows, sink, .. } = self.collector.finish(|store| {
            is_over |= *interrupt.borrow() > Interrupt::None;
            is_over || (!self.has_others && agree(&compare(store)))
        });
        match sink {
            Some(sink) => sink.lines.into_iter().for_each(|lines| files.close_scrapes(lines)),
            None if self.has_lines => files.note(Err(unfinished(files.layout()))),
            None => {}
        }
        if store.endpoints().iter().all(|endpoint| endpoint.scrapes().is_empty()) {
            return None;
        }
        let mut conservation = compare(&store);
        // A server that was given no time to count, or of which not all is known, is not
        // told that it counts wrongly.
        let is_known = !is_over && store.is_whole();
        conservation.retain(|comparison| is_known || (comparison.agrees && !self.has_others));
        Some(ServerMetrics {
            report: report::build(&store, windows, self.slice_duration),
            store: Arc::new(store),
            conservation,
        })
    }
}

fn unfinished(layout: &Layout) -> WriteFailure {
    let path = layout.server_metrics_lines.clone();
    WriteFailure { path, error: "its last lines could not be written in time".to_owned() }
}

fn agree(comparisons: &[Comparison]) -> bool {
    comparisons.iter().all(|comparison| comparison.agrees)
}
