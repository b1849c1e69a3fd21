//! The load, what is read of it, and the server's own word on it.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::watch;

use super::{Observer, Run};
use crate::app::logging;
use crate::app::server_metrics::Collection;
use crate::artifacts::ArtifactSet;
use crate::config::RunConfig;
use crate::console::LiveView;
use crate::metrics::metric::MeasuredRecord;
use crate::metrics::{ClientHealth, CountChat, CountTokens, LoadReport, Measurer, Registry};
use crate::runner::{self, Interrupt, Progress, RecordQueue, Runner};
use crate::schedule::config::PhaseConfig;
use crate::schedule::{PhaseKind, PhaseStats, Shard};
use crate::server_metrics::conservation::ClientCounts;
use crate::server_metrics::report::ServerMetrics;
use crate::telemetry::pipeline::{Pipeline, PipelineOutcome, PipelineParts, RecordSink};
use crate::telemetry::{Identity, Telemetry, TelemetryReport};
use crate::transport;
use crate::units::{Clock, Nanos};

/// Bytes of records that may wait for the processors in memory; a closed loop
/// keeps to half of it.
const QUEUE_BUDGET: usize = 64 << 20;

/// Texts of a dataset, in bytes, up to which they are written down.
const MOST_INPUT_BYTES: u64 = 256 << 20;

/// Time between two looks at the counters.
const REFRESH: Duration = Duration::from_millis(100);

/// Bound on the last export.
const EXPORT_DEADLINE: Duration = Duration::from_secs(10);

/// What a run came to.
pub(super) struct Measured {
    pub(super) pipeline: PipelineOutcome<Files>,
    pub(super) phases: Vec<PhaseStats>,
    pub(super) load: LoadReport,
    pub(super) health: ClientHealth,
    pub(super) telemetry: TelemetryReport,
    pub(super) server_metrics: Option<ServerMetrics>,
    pub(super) failure: Option<anyhow::Error>,
    /// The user did not wait for all records to be measured.
    pub(super) is_cut_short: bool,
}

/// The user's, once the load is over and records are still being measured: at an
/// end with the second signal.
struct Patience {
    signals: watch::Receiver<Interrupt>,
    heard: u32,
}

impl Patience {
    fn new(interrupt: &watch::Receiver<Interrupt>) -> Self {
        let mut signals = interrupt.clone();
        signals.mark_unchanged();
        Self { signals, heard: 0 }
    }

    fn is_over(&mut self) -> bool {
        if self.signals.has_changed().unwrap_or(false) {
            self.signals.mark_unchanged();
            self.heard += 1;
            if self.heard == 1 {
                tracing::warn!(
                    "the load is over and its records are being measured; interrupt again to \
                     leave out the rest"
                );
            }
        }
        self.heard > 1
    }
}

/// The files, as the pipeline sees them.
pub(super) struct Files {
    pub(super) set: ArtifactSet,
    clock: Clock,
    observer: Option<Observer>,
}

impl RecordSink for Files {
    fn record(&mut self, measured: &MeasuredRecord) {
        self.set.record(measured, &self.clock);
        if let Some(observer) = &mut self.observer {
            observer(measured);
        }
    }

    fn tick(&mut self, now: Nanos) {
        self.set.tick(now);
    }
}

impl Run {
    /// Drives the load, with the processors beside it, to its end.
    pub(super) fn measure(
        &mut self,
        interrupt: &watch::Receiver<Interrupt>,
        observer: Option<Observer>,
    ) -> anyhow::Result<Measured> {
        let measurer = self.measurer();
        let mut files = Files { set: self.open_files()?, clock: self.clock, observer };
        for warning in &self.config.warnings {
            tracing::warn!("{warning}");
        }
        self.warn_of_connection_limit();
        let schedule = &self.config.schedule;
        let phases = schedule.phases.clone();
        let own_phases = schedule.own_phases();
        let telemetry = Arc::new(Telemetry::start(
            &self.config.telemetry,
            &self.identity(),
            Registry::catalogue(),
        )?);
        let collection =
            Collection::start(&self.config, self.clock, &telemetry, interrupt, &mut files.set)?;
        let bodies = Arc::clone(self.workload.first_bodies());
        let queue = RecordQueue::new(QUEUE_BUDGET)
            .spilling_to(self.config.artifacts.directory.clone(), bodies);
        let queue = Arc::new(queue);
        let progress = Arc::new(Progress::new(&own_phases));
        let parts = PipelineParts {
            queue: Arc::clone(&queue),
            measurer,
            registry: Arc::clone(&self.registry),
            telemetry: Arc::clone(&telemetry),
            progress: Arc::clone(&progress),
            is_sliced: self.description.slice_duration().is_some(),
        };
        let processors = self.config.runner.processors.unwrap_or(1);
        let pipeline = Pipeline::start(parts, files, processors)?;
        let runner = Runner::new(
            runner::Config {
                workers: self.config.runner.workers.unwrap_or(1),
                phases,
                seed: self.seed,
                shard: schedule.shard.unwrap_or(Shard::WHOLE),
                start_at: schedule.start_at.map(|at| self.clock.from_wall_ns(at)),
            },
            transport_config(&self.config),
            self.workload.clone(),
            Arc::clone(&queue),
            Arc::clone(&progress),
        )
        .told_to(collection.as_ref().map(Collection::listener));
        let failure = self.drive(runner, interrupt, &progress, &queue, &telemetry).err();
        // A runner that could not start, or died, has not closed it.
        queue.close();
        let mut patience = Patience::new(interrupt);
        let mut pipeline = pipeline.finish(|| patience.is_over())?;
        let is_cut_short = patience.is_over();
        let knows_all = failure.is_none() && queue.stats().lost == 0;
        let counts = || ClientCounts::of([&pipeline.warmup, &pipeline.profiling]);
        let counts = knows_all.then(counts);
        let server_metrics =
            collection.and_then(|found| found.finish(counts, interrupt, &mut pipeline.sink.set));
        let phases = progress.snapshots();
        for stats in &phases {
            telemetry.phase(stats);
            telemetry.results(
                stats.phase,
                &match stats.phase {
                    PhaseKind::Warmup => pipeline.warmup.results(),
                    PhaseKind::Profiling => pipeline.profiling.results(),
                },
            );
        }
        let last = self.config.schedule.phases.len().saturating_sub(1);
        let counters = progress.phase(last);
        let peak_in_flight = counters.map_or(0, |counters| counters.peak_in_flight());
        let asked = own_phases.last();
        let load = load_report(asked, profiling(&phases), peak_in_flight);
        let cpu = counters.map(|counters| counters.cpu_shares()).unwrap_or_default();
        let results = pipeline.profiling.results();
        let mut health = pipeline.health.report(&load, &queue.stats(), &cpu, &results);
        health.selfcheck.clone_from(&self.selfcheck);
        telemetry.queue(PhaseKind::Profiling, &queue.stats());
        telemetry.health(PhaseKind::Profiling, &health);
        let telemetry = telemetry.finish(EXPORT_DEADLINE);
        Ok(Measured {
            pipeline,
            phases,
            load,
            health,
            telemetry,
            server_metrics,
            failure,
            is_cut_short,
        })
    }

    /// Requests beyond the limit wait in the client, not at the server.
    fn warn_of_connection_limit(&self) {
        let limit = self.config.transport.connections.limit as u64;
        let phases = self.config.schedule.own_phases();
        let asked = phases.iter().filter_map(|phase| phase.concurrency);
        let asked = asked.map(|limit| limit.most).max();
        if let Some(asked) = asked.filter(|asked| *asked > limit) {
            tracing::warn!(
                "--concurrency {asked} is more than the {limit} connections allowed: the rest wait \
                 in the client; raise AIPERF_HTTP_CONNECTION_LIMIT"
            );
        }
    }

    /// Runs the load on a thread of its own and shows how it goes.
    fn drive(
        &self,
        runner: Runner,
        interrupt: &watch::Receiver<Interrupt>,
        progress: &Progress,
        queue: &RecordQueue,
        telemetry: &Telemetry,
    ) -> anyhow::Result<()> {
        let interrupt = interrupt.clone();
        let load = thread::Builder::new()
            .name("runner".to_owned())
            .spawn(move || runner.run(interrupt))?;
        let stderr = io::stderr();
        let mut view = LiveView::new(self.config.ui, stderr.is_terminal(), Box::new(stderr));
        while !load.is_finished() {
            thread::sleep(REFRESH);
            let phases = progress.snapshots();
            for stats in &phases {
                telemetry.phase(stats);
            }
            if let Some(stats) = phases.last() {
                let waiting = queue.stats();
                telemetry.queue(stats.phase, &waiting);
                view.update(stats, waiting.is_behind());
            }
        }
        if let Some(stats) = progress.snapshots().last() {
            view.finish(stats);
        }
        match load.join() {
            Ok(outcome) => outcome.context("the load could not be driven to its end"),
            Err(_) => anyhow::bail!("the runner ended unexpectedly; the run is not complete"),
        }
    }

    fn open_files(&self) -> anyhow::Result<ArtifactSet> {
        let mut set =
            ArtifactSet::create(&self.config.artifacts, &self.description, &self.registry)?;
        logging::start(&set.layout().log, self.config.log_level)
            .context("the log file cannot be made")?;
        self.record_inputs(&mut set);
        Ok(set)
    }

    /// Writes what is asked, unless it is so much that the file would be no help.
    fn record_inputs(&self, set: &mut ArtifactSet) {
        let bytes = self.dataset.text_bytes();
        if bytes <= MOST_INPUT_BYTES {
            set.write_inputs(self.inputs());
            return;
        }
        tracing::warn!(
            "inputs.json is left out: it would take {} MB; the dataset and --random-seed {} make \
             the same requests again",
            bytes >> 20,
            self.seed.0
        );
        set.leave_out_inputs(self.dataset.conversations.iter().map(|c| c.id.to_string()));
    }

    /// Request bodies by conversation; later turns without the answers that
    /// they will repeat.
    fn inputs(&self) -> impl Iterator<Item = (String, Vec<Vec<u8>>)> {
        self.dataset.conversations.iter().map(|conversation| {
            let answers = vec![Arc::from(""); conversation.turns.len()];
            let body = |turn| self.endpoint.request_body(conversation, turn, &answers[..turn]);
            (conversation.id.to_string(), (0..conversation.turns.len()).map(body).collect())
        })
    }

    fn measurer(&mut self) -> Measurer {
        let counter = self.counter.take();
        let count = counter
            .clone()
            .map(|counter| -> Arc<CountTokens> { Arc::new(move |text: &str| counter.count(text)) });
        let measurer = Measurer::new(
            Arc::clone(&self.endpoint),
            count,
            Arc::clone(&self.dataset),
            Arc::clone(&self.registry),
            self.clock,
        );
        let Some(counter) = counter.filter(|_| self.config.apply_chat_template) else {
            return measurer;
        };
        let chat: Arc<CountChat> = Arc::new(move |chat| {
            let text = counter.chat_text(&chat.messages, &chat.tools)?.ok()?;
            Some(counter.count(&text))
        });
        measurer.counting_chats(chat)
    }

    fn identity(&self) -> Identity {
        Identity {
            benchmark_id: self.description.benchmark_id,
            sweep_id: self.description.member.as_ref().map(|member| member.sweep_id.clone()),
            shard: self.config.schedule.shard,
            endpoint_type: self.config.endpoint.endpoint_type,
            models: self.config.dataset.models.iter().map(|model| model.as_str().into()).collect(),
            urls: self.config.transport.urls.iter().map(ToString::to_string).collect(),
        }
    }
}

fn transport_config(config: &RunConfig) -> transport::Config {
    transport::Config {
        request_timeout: config.transport.request_timeout,
        connections: config.transport.connections.clone(),
        quick_ack: config.transport.quick_ack,
        kernel_timestamps: config.transport.kernel_timestamps,
        ip_version: config.transport.ip_version,
        keep_chunks: config.artifacts.http_trace,
        keep_headers: config.artifacts.http_trace
            || config.artifacts.export_level == crate::artifacts::ExportLevel::Raw,
        ..transport::Config::default()
    }
}

/// The measurement, as it ended.
pub(super) fn profiling(phases: &[PhaseStats]) -> Option<&PhaseStats> {
    phases.iter().rev().find(|phase| phase.phase == PhaseKind::Profiling)
}

/// What was asked of the measurement and what came of it.
fn load_report(
    asked: Option<&PhaseConfig>,
    reached: Option<&PhaseStats>,
    peak_in_flight: u64,
) -> LoadReport {
    LoadReport {
        requested_concurrency: asked.and_then(PhaseConfig::steady_concurrency),
        reached_concurrency: peak_in_flight,
        requested_rate: asked.and_then(PhaseConfig::steady_rate),
        reached_rate: reached.and_then(PhaseStats::send_rate),
    }
}
