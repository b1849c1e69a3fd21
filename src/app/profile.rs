//! One benchmark run, from its configuration to its files.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::watch;
use uuid::Uuid;

use super::readiness::Probe;
use super::{Outcome, interrupt, logging, terminal_style};
use crate::artifacts::report::error_counts;
use crate::artifacts::{ArtifactSet, RunDescription, RunReport};
use crate::cli;
use crate::config::{RunConfig, Secret, selfcheck, url as urls};
use crate::console::{self, LiveView, Style};
use crate::dataset::{self, Dataset, Sampler, Sampling, Seed};
use crate::endpoint::{self, Endpoint, EndpointType};
use crate::metrics::health::SelfCheck;
use crate::metrics::metric::MeasuredRecord;
use crate::metrics::{ClientHealth, CountTokens, LoadReport, Measurer, Registry};
use crate::runner::{self, Interrupt, Progress, RecordQueue, RequestBuilder, Runner, Workload};
use crate::schedule::config::PhaseConfig;
use crate::schedule::{self, PhaseKind, PhaseStats};
use crate::telemetry::pipeline::{Pipeline, PipelineOutcome, PipelineParts, RecordSink};
use crate::telemetry::{Identity, Telemetry, TelemetryReport};
use crate::tokenizer::TokenCounter;
use crate::transport::{self, Target};
use crate::units::{Clock, Nanos};

/// Bytes of records that may wait for the processors in memory; a closed loop
/// keeps to half of it.
const QUEUE_BUDGET: usize = 128 << 20;

/// Texts of a dataset, in bytes, up to which they are written down.
const MOST_INPUT_BYTES: u64 = 256 << 20;

/// Time between two looks at the counters.
const REFRESH: Duration = Duration::from_millis(100);

/// A schedule whose first request comes later than this is remarked on.
const LATE_START: Nanos = Nanos(60_000_000_000);

/// Bound on the last export.
const EXPORT_DEADLINE: Duration = Duration::from_secs(10);

/// Runs the benchmark that `config` describes; results go to `out`.
pub(super) fn profile(config: RunConfig, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let run = Run::prepare(config)?;
    // Until here there is nothing to drain or to write: a signal just ends it.
    let interrupt = interrupt::listen()?;
    run.wait_until_ready(&interrupt)?;
    let measured = run.measure(&interrupt, None)?;
    run.conclude(measured, out)
}

/// Shown each record when it has been measured.
pub(super) type Observer = Box<dyn FnMut(&MeasuredRecord) + Send>;

/// Runs as [`profile`] does and shows each record to `observer`.
pub(super) fn observed(
    config: RunConfig,
    observer: Observer,
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    let run = Run::prepare(config)?;
    let interrupt = interrupt::listen()?;
    let measured = run.measure(&interrupt, Some(observer))?;
    run.conclude(measured, out)
}

/// A run that is ready to start.
struct Run {
    config: RunConfig,
    clock: Clock,
    seed: Seed,
    description: RunDescription,
    endpoint: Arc<dyn Endpoint>,
    dataset: Arc<Dataset>,
    counter: Arc<TokenCounter>,
    registry: Arc<Registry>,
    workload: Workload,
    builder: Arc<RequestBuilder>,
    selfcheck: Option<SelfCheck>,
}

/// What a run came to.
struct Measured {
    pipeline: PipelineOutcome<Files>,
    phases: Vec<PhaseStats>,
    load: LoadReport,
    health: ClientHealth,
    telemetry: TelemetryReport,
    failure: Option<anyhow::Error>,
    /// The user did not wait for all records to be measured.
    is_cut_short: bool,
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
struct Files {
    set: ArtifactSet,
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
    /// Loads tokenizer and dataset and makes the request bodies.
    fn prepare(mut config: RunConfig) -> anyhow::Result<Self> {
        let environment = |name: &str| std::env::var(name).ok();
        let seed = Seed::or_random(config.dataset.random_seed);
        let counter = Arc::new(TokenCounter::load(&config.tokenizer, &environment)?);
        let endpoint = endpoint::build(&config.endpoint);
        let traits = endpoint.traits();
        let generated = dataset::Config { random_seed: Some(seed.0), ..config.dataset.clone() };
        raise_file_limit();
        let mut dataset = Dataset::load(&generated, &counter, traits.tokenizes_input)?;
        if config.endpoint.endpoint_type != EndpointType::Chat && dataset.bears_messages() {
            anyhow::bail!(
                "the dataset bears `messages`, which only chat sends; give --endpoint-type chat"
            );
        }
        settle_schedule(&mut config, &mut dataset)?;
        let dataset = Arc::new(dataset);
        let sampling = config.dataset.sampling.unwrap_or(Sampling::Sequential);
        let sampler = Sampler::new(sampling, dataset.conversations.len(), seed);
        let registry = Registry::new(config.metrics.clone(), traits, config.endpoint.streaming)?;
        let api_key = config.transport.api_key.as_ref().map(Secret::expose);
        let builder =
            RequestBuilder::new(config.endpoint.streaming, api_key, &config.transport.headers)?;
        let builder = Arc::new(builder);
        let workload = Workload::new(
            Arc::clone(&dataset),
            Arc::new(sampler),
            Arc::clone(&endpoint),
            targets(&config)?,
            Arc::clone(&builder),
        );
        let description = RunDescription {
            benchmark_id: Uuid::new_v4(),
            endpoint: traits,
            streaming: config.endpoint.streaming,
            settings: config.metrics.clone(),
            input_config: config.input_config.clone(),
            cli_command: config.cli_command.clone(),
            random_seed: Some(seed.0),
            show_trace_timing: config.show_trace_timing,
            show_server_metrics: config.show_server_metrics,
        };
        let registry = Arc::new(registry);
        let selfcheck = known_limits(&mut config);
        let clock = Clock::start();
        Ok(Self {
            config,
            clock,
            seed,
            description,
            endpoint,
            dataset,
            counter,
            registry,
            workload,
            builder,
            selfcheck,
        })
    }

    fn wait_until_ready(&self, interrupt: &watch::Receiver<Interrupt>) -> anyhow::Result<()> {
        let probe = Probe {
            transport: &self.config.transport,
            path: self.config.endpoint.path(),
            models: &self.config.dataset.models,
            body: self.workload.first_body(),
            builder: &self.builder,
        };
        probe.wait(interrupt)
    }

    /// Drives the load, with the processors beside it, to its end.
    fn measure(
        &self,
        interrupt: &watch::Receiver<Interrupt>,
        observer: Option<Observer>,
    ) -> anyhow::Result<Measured> {
        let files = Files { set: self.open_files()?, clock: self.clock, observer };
        for warning in &self.config.warnings {
            tracing::warn!("{warning}");
        }
        self.warn_of_connection_limit();
        let phases = self.config.schedule.phases.clone();
        let telemetry = Arc::new(Telemetry::start(
            &self.config.telemetry,
            &self.identity(),
            Registry::catalogue(),
        )?);
        let bodies = Arc::clone(self.workload.first_bodies());
        let queue = RecordQueue::new(QUEUE_BUDGET)
            .spilling_to(self.config.artifacts.directory.clone(), bodies);
        let queue = Arc::new(queue);
        let progress = Arc::new(Progress::new(&phases));
        let parts = PipelineParts {
            queue: Arc::clone(&queue),
            measurer: self.measurer(),
            registry: Arc::clone(&self.registry),
            telemetry: Arc::clone(&telemetry),
            progress: Arc::clone(&progress),
        };
        let processors = self.config.runner.processors.unwrap_or(1);
        let pipeline = Pipeline::start(parts, files, processors)?;
        let runner = Runner::new(
            runner::Config {
                workers: self.config.runner.workers.unwrap_or(1),
                phases,
                seed: self.seed,
            },
            transport_config(&self.config),
            self.workload.clone(),
            Arc::clone(&queue),
            Arc::clone(&progress),
        );
        let failure = self.drive(runner, interrupt, &progress, &queue, &telemetry).err();
        // A runner that could not start, or died, has not closed it.
        queue.close();
        let mut patience = Patience::new(interrupt);
        let pipeline = pipeline.finish(|| patience.is_over())?;
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
        let asked = self.config.schedule.phases.last();
        let load = load_report(asked, profiling(&phases), peak_in_flight);
        let cpu = counters.map(|counters| counters.cpu_shares()).unwrap_or_default();
        let results = pipeline.profiling.results();
        let mut health = pipeline.health.report(&load, &queue.stats(), &cpu, &results);
        health.selfcheck.clone_from(&self.selfcheck);
        telemetry.queue(PhaseKind::Profiling, &queue.stats());
        telemetry.health(PhaseKind::Profiling, &health);
        let telemetry = Arc::into_inner(telemetry)
            .map_or_else(TelemetryReport::default, |telemetry| telemetry.finish(EXPORT_DEADLINE));
        let is_cut_short = patience.is_over();
        Ok(Measured { pipeline, phases, load, health, telemetry, failure, is_cut_short })
    }

    /// Requests beyond the limit wait in the client, not at the server.
    fn warn_of_connection_limit(&self) {
        let limit = self.config.transport.connections.limit as u64;
        let asked = self.config.schedule.phases.iter().filter_map(|phase| phase.concurrency);
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

    fn measurer(&self) -> Measurer {
        let counter = Arc::clone(&self.counter);
        let count: Arc<CountTokens> = Arc::new(move |text: &str| counter.count(text));
        Measurer::new(
            Arc::clone(&self.endpoint),
            Some(count),
            Arc::clone(&self.dataset),
            Arc::clone(&self.registry),
            self.clock,
        )
    }

    fn identity(&self) -> Identity {
        Identity {
            benchmark_id: self.description.benchmark_id,
            endpoint_type: self.config.endpoint.endpoint_type,
            models: self.config.dataset.models.iter().map(|model| model.as_str().into()).collect(),
            urls: self.config.transport.urls.iter().map(ToString::to_string).collect(),
        }
    }

    /// Writes the summaries, prints them, and says how the run ended.
    fn conclude(self, measured: Measured, out: &mut impl Write) -> anyhow::Result<Outcome> {
        let report = self.report(&measured);
        let Measured { pipeline, failure, .. } = measured;
        // The files first: whoever reads the output may have gone away, which
        // changes nothing of how the run ended.
        let files = pipeline.sink.set.finish(&report, &console::render(&report, Style::FILE));
        let shown = out.write_all(console::render(&report, terminal_style()).as_bytes());
        let directory = &self.config.artifacts.directory;
        let files = files?;
        let shown =
            shown.and_then(|()| out.write_all(console::render_files(directory, &files).as_bytes()));
        match failure {
            Some(failure) => Err(failure),
            None if report.was_cancelled => Ok(Outcome::Interrupted),
            None if report.average("request_count").is_none_or(|count| count == 0.0) => {
                anyhow::bail!(
                    "no request succeeded; the error summary says why, and the records are in `{}`",
                    directory.display()
                )
            }
            None => Ok(shown.map(|()| Outcome::Done)?),
        }
    }

    fn report(&self, measured: &Measured) -> RunReport {
        let Measured { pipeline, phases, failure, is_cut_short, .. } = measured;
        // A run without a failure leaves a phase out only where the user stopped it before.
        let is_short = failure.is_none() && phases.len() < self.config.schedule.phases.len();
        let was_cancelled =
            is_short || *is_cut_short || phases.iter().any(|phase| phase.was_cancelled);
        let (start, end) = profiling(phases).map_or_else(
            || (Clock::now(), Clock::now()),
            |phase| (phase.start, phase.requests_end.unwrap_or(phase.now)),
        );
        let incomplete_reason = match failure {
            Some(failure) => Some(format!("{failure:#}")),
            None if was_cancelled => Some("cancelled by the user".to_owned()),
            None => None,
        };
        RunReport {
            run: self.description.clone(),
            start_wall_ns: self.clock.wall_ns(start),
            end_wall_ns: self.clock.wall_ns(end),
            was_cancelled,
            incomplete_reason,
            results: pipeline.profiling.results(),
            warmup_results: pipeline.warmup.results_if_any(),
            errors: error_counts(&pipeline.profiling),
            load: measured.load.clone(),
            client_health: Some(measured.health.clone()),
            server_metrics: None,
            phases: phases.clone(),
            telemetry: Some(measured.telemetry.clone()),
        }
    }
}

/// Lets the dataset decide what it decides about the schedule.
fn settle_schedule(config: &mut RunConfig, dataset: &mut Dataset) -> anyhow::Result<()> {
    let was_fixed = config.schedule.is_fixed_schedule();
    let has_default_directory = config.artifacts.directory == config.default_directory();
    schedule::settle(&mut config.schedule, dataset)?;
    config.metrics.fixed_schedule = config.schedule.is_fixed_schedule();
    config.warnings.extend(late_start(&config.schedule, dataset));
    if config.schedule.is_fixed_schedule() && !was_fixed {
        cli::record_phases(config);
        if has_default_directory {
            config.artifacts.directory = config.default_directory();
        }
    }
    Ok(())
}

/// Says where a schedule begins with a long wait: traces may count from 1970.
fn late_start(schedule: &schedule::config::Config, dataset: &Dataset) -> Option<String> {
    let first = dataset.conversations.first()?.turns.first()?.timestamp?;
    (schedule.is_fixed_schedule() && first > LATE_START).then(|| {
        format!(
            "the first request is due {} s after the start; --fixed-schedule-auto-offset starts \
             with it",
            first.as_seconds()
        )
    })
}

/// What is known of this machine; a load beyond it is added to the warnings.
fn known_limits(config: &mut RunConfig) -> Option<SelfCheck> {
    let path = config.selfcheck_file.as_ref()?;
    let found = selfcheck::read(path, &selfcheck::machine());
    let check = found.map_err(|error| config.warnings.push(error.to_string())).ok()??;
    for phase in &config.schedule.phases {
        config
            .warnings
            .extend(check.excess(phase.concurrency.map(|limit| limit.most), phase.steady_rate()));
    }
    Some(check)
}

/// Allows as many open files as the system lets us: each connection is one.
fn raise_file_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        // A system that refuses leaves the limit as it is; connections that
        // meet it become error records.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    }
}

fn targets(config: &RunConfig) -> anyhow::Result<Arc<[Target]>> {
    let path = config.endpoint.path();
    let target = |base| Target::new(&urls::join(base, path)).map_err(Into::into);
    config.transport.urls.iter().map(target).collect()
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
fn profiling(phases: &[PhaseStats]) -> Option<&PhaseStats> {
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
