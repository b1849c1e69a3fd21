//! Scraping of GPU telemetry during a run.

use std::sync::{Arc, Weak};

use base::interrupt::Interrupt;
use base::redact::ShownUrl;
use base::units::Clock;
use client::runner::PhaseListener;
use measure::gpu;
use measure::gpu::fields::Fields;
use measure::gpu::report::{self, GpuReport};
use measure::gpu::sample;
use measure::server_metrics::store::Store;
use measure::server_metrics::{Collected, Collector, EndpointConfig, Scrape, ScrapeSink};
use results::artifacts::ArtifactSet;
use results::artifacts::gpu::GpuLines;
use results::follow::{Follower, Followers};
use telemetry::Telemetry;

use crate::config::RunConfig;

/// The exporters of GPUs while they are being scraped.
pub(crate) struct GpuCollection {
    collector: Collector<Sink>,
    config: gpu::Config,
}

/// Passes the samples on to the telemetry exporter, to the file and to the followers of the run.
struct Sink {
    telemetry: Weak<Telemetry>,
    lines: GpuLines,
    fields: Fields,
    /// Number of endpoints of servers, whose scrapes are exported and shown too.
    servers: usize,
    followers: Followers,
}

impl ScrapeSink for Sink {
    fn scrape(&mut self, scrape: &Scrape<'_>) {
        let samples = sample::samples(scrape.snapshot, &self.fields);
        if !samples.is_empty() {
            self.followers.sampled(self.servers + scrape.index, &samples);
        }
        if let Some(telemetry) = self.telemetry.upgrade() {
            let (url, at_ns) = (&scrape.endpoint.url, scrape.times.first_byte_ns);
            telemetry.gpus(self.servers + scrape.index, url, at_ns, &samples);
        }
        self.lines.append(scrape, &samples);
    }

    fn idle(&mut self) {
        self.lines.flush();
    }
}

impl GpuCollection {
    /// Starts scraping, and measures the idle GPUs if there are any; `None` without exporters, or
    /// if nothing will be sent.
    pub(crate) fn start(
        config: &RunConfig,
        clock: Clock,
        telemetry: &Arc<Telemetry>,
        interrupt: &Interrupt,
        files: &ArtifactSet,
        followers: &Followers,
    ) -> anyhow::Result<Option<Self>> {
        let connections = &config.transport.connections;
        let servers = config.server_metrics.endpoints.len();
        let config = config.gpu.clone();
        if interrupt.is_draining() || config.scrapes.endpoints.is_empty() {
            return Ok(None);
        }
        let lines = files.gpu_lines(config.batch_size);
        let telemetry = Arc::downgrade(telemetry);
        let sink = Sink {
            telemetry,
            lines,
            fields: config.fields.clone(),
            servers,
            followers: followers.clone(),
        };
        let collector =
            Collector::start(config.scrapes.clone(), connections, clock, sink, interrupt)?;
        if collector.read(|store| report::has_any(store, &config.fields)) {
            interrupt.sleep_until(Clock::now() + config.idle);
        }
        Ok(Some(Self { collector, config }))
    }

    pub(crate) fn listener(&self) -> Arc<dyn PhaseListener> {
        Arc::new(self.collector.handle())
    }

    /// Waits for the counters of energy to pass the end of the load, up to a limit or an interrupt,
    /// then stops scraping and returns the report; `None` if no exporter reported a GPU and the
    /// user did not ask for it.
    pub(crate) fn finish(
        self,
        interrupt: &Interrupt,
        files: &mut ArtifactSet,
    ) -> Option<GpuReport> {
        let Self { collector, config } = self;
        let end_ns = collector.windows().profiling.map_or(0, |window| window.end_ns);
        let is_settled = |store: &Store| report::is_settled(store, &config.fields, end_ns);
        let Collected { store, windows, sink } = collector.finish(interrupt, is_settled);
        if let Some(sink) = sink {
            files.close_gpu_lines(sink.lines);
        }
        let endpoints = config.scrapes.endpoints.iter();
        let discovered: Vec<ShownUrl> =
            endpoints.filter(|one| one.is_discovered).map(EndpointConfig::shown).collect();
        let report = report::build(&store, &config.fields, &windows, &discovered, config.is_asked)?;
        (config.is_asked || !report.exporters.is_empty()).then_some(report)
    }
}
