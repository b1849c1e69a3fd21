//! Runs the load, processes its records and collects server metrics.

use std::io::Write as _;
use std::mem;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::Context;

use base::column::Store;
use base::interrupt::Interrupt;
use base::parallel;
use base::units::Clock;
use client::runner::{
    self, Counters, CpuShares, PhaseListener, Progress, RecordQueue, Runner, RunnerError,
};
use client::schedule::config::{PhaseConfig, has_several, only_measured};
use client::schedule::{PhaseKind, PhaseStats, ReplayStats, Shard};
use dataset::{CacheBust, Conversation};
use measure::metrics::breakdown::PhaseTimes;
use measure::metrics::output::{Canaries, Outputs};
use measure::metrics::prefix_cache::CacheLedger;
use measure::metrics::{Accumulator, CountChat, CountTokens, LoadReport, Measurer, Registry};
use measure::otlp_receiver::Receiver;
use measure::server_metrics::conservation::ClientCounts;
use measure::server_metrics::limits::ClientLimits;
use results::artifacts::{ArtifactSet, MAX_INPUT_BYTES};
use results::follow::{self, Began, Follower, Followers};
use results::processing::{Processed, Processing, ProcessingParts};
use results::run::ledger::Ledger;
use results::run::{EndedBy, Offered, RunOutcome, RunReport};
use results::terminal::Stderr;
use telemetry::{self, Telemetry};

use super::Run;
use super::adaptive::AdaptiveLoads;
use super::collections::Collections;
use super::early::EarlyStop;
use super::exports::finish_export;
use super::open_files::too_few_connections;
use crate::app::logging;
use crate::app::outcome::explained;
use crate::config::Ui;
use crate::server_control::Rejection;

/// Maximum size of records waiting in memory for the processors, in bytes; a closed loop uses
/// half of it.
const QUEUE_BUDGET: usize = 64 << 20;

/// Maximum number of conversations in inputs.json, if some are made while the run goes on.
const MAX_INPUTS: usize = 10_000;

/// Number of conversations that are made again for it at the same time.
const AT_ONCE: usize = 64;

/// Interval between updates of the counters.
const REFRESH: Duration = Duration::from_millis(100);

/// The outcome of the measurement.
pub(super) struct Measured {
    pub(super) report: RunReport,
    pub(super) processed: Processed,
}

impl Run {
    /// Runs the load and the record processors until both end.
    pub(super) fn measure(
        &mut self,
        interrupt: &Interrupt,
        followers: &Followers,
    ) -> anyhow::Result<Measured> {
        self.ask_canaries(interrupt)?;
        let early = EarlyStop::from_config(&self.config.judge);
        let store = Store::of_run(self.config.artifacts.directory.clone());
        let phases = &self.config.schedule.phases;
        let adaptive = AdaptiveLoads::new(phases, &self.registry, &store, self.clock);
        let followers = &adaptive.among(&early.among(followers));
        self.begin(followers);
        let measurer = self.measurer();
        let mut files = self.open_files(interrupt)?;
        self.warn();
        let schedule = &self.config.schedule;
        let phases = schedule.phases.clone();
        let own_phases = schedule.own_phases();
        let telemetry =
            Telemetry::start(&self.config.telemetry, &self.identity(), Registry::catalogue());
        let telemetry = Arc::new(telemetry?);
        let collections = Collections::start(self, &telemetry, interrupt, &mut files, followers)?;
        let queue = self.queue();
        let receiver = self.start_receiver()?;
        let progress = Arc::new(Progress::new(&own_phases));
        let parts = ProcessingParts {
            queue: Arc::clone(&queue),
            spans: receiver.as_ref().map(Receiver::join),
            measurer,
            registry: Arc::clone(&self.registry),
            telemetry: Arc::clone(&telemetry),
            progress: Arc::clone(&progress),
            followers: followers.clone(),
            clock: self.clock,
        };
        let processors = self.config.runner.processors.unwrap_or(1);
        let ledger = self.ledger(&store);
        let counts_tokens = !self.description.settings.use_server_token_count;
        let outputs = Outputs::new(self.config.dataset.cache_bust, counts_tokens);
        let processed = Processed { ledger, files };
        let processing = Processing::start(parts, outputs, processed, processors)?;
        let runner = self.runner(phases, &own_phases, &queue, &progress);
        let runner =
            collections.listen_to(runner).until(early.enough()).following(adaptive.dials());
        let failure =
            self.drive(runner, interrupt, &progress, &telemetry, &processing, followers).err();
        collections.load_ended();
        // Not closed yet if the runner could not start or panicked.
        queue.close();
        let (mut processed, is_cut_short) = process_rest(processing, interrupt, self.config.ui)?;
        self.record_grown(&mut processed.files, interrupt);
        let knows_all = failure.is_none() && queue.stats().lost == 0;
        let counts = knows_all.then(|| self.client_counts(&processed));
        let limits =
            ClientLimits::from_accumulator(&processed.ledger.profiling).filter(|_| knows_all);
        let mut found = collections.finish(counts, limits, interrupt, &mut processed.files);
        let ledger = &mut processed.ledger;
        ledger.profiling.set_round_trip(found.round_trip_ns);
        let phases = progress.snapshots();
        let counters = measured_counters(&progress, &phases);
        let load = load_report(only_measured(&own_phases), &phases, &counters);
        let queue = queue.stats();
        let mut health = ledger.health.report(&load, &queue, &most_cpu(&counters));
        health.selfcheck.clone_from(&self.selfcheck);
        found.add_to(&mut health, &ledger.responders.ends());
        let (paths, levels) = adaptive.paths();
        let outcome = RunOutcome {
            ended_early: early.end(),
            adaptive: paths,
            sent: ledger.sent(),
            branches: self.has_trees().then(|| counters.iter().map(|it| it.branches()).sum()),
            replay: ReplayStats::of_all(counters.iter().filter_map(|it| it.replay())),
            load,
            client_health: Some(health),
            gpus: found.gpus,
            ..self.outcome(&phases, failure.as_ref(), is_cut_short)
        };
        let mut notes = Vec::new();
        let description = self.description.clone();
        let mut report = ledger.report(description, outcome, found.servers, &mut notes);
        for note in notes {
            tracing::warn!("{note}");
        }
        (report.phases, report.levels) = (phases, levels);
        let is_over = failure.is_some() || !report.outcome.was_cancelled;
        if report.failed() > 0 && !report.has_success() && is_over {
            report.outcome.offered = self.offered(ledger, interrupt);
        }
        report.divide_times(&self.config.server_metrics.shown_endpoints());
        let mut exported = finish_export(&telemetry, &report, ledger, queue, interrupt);
        exported.receiver = receiver.as_ref().map(Receiver::report);
        report.outcome.telemetry = Some(exported).filter(|exported| !exported.is_empty());
        Ok(Measured { report, processed })
    }

    /// Returns how the run ended, as far as the phases show.
    fn outcome(
        &self,
        phases: &[PhaseStats],
        failure: Option<&anyhow::Error>,
        is_cut_short: bool,
    ) -> RunOutcome {
        // Without a failure, a phase is missing only if the user interrupted the run.
        let is_short = failure.is_none() && phases.len() < self.config.schedule.phases.len();
        let was_cancelled =
            is_short || is_cut_short || phases.iter().any(|phase| phase.was_cancelled);
        let by_user = || was_cancelled.then(|| "cancelled by the user".to_owned());
        let (first, last) = (profiling(phases).next(), profiling(phases).last());
        let start = first.map_or_else(Clock::now, |phase| phase.start);
        let end = last.map_or_else(Clock::now, |phase| phase.requests_end.unwrap_or(phase.now));
        RunOutcome {
            start_wall_ns: self.clock.wall_ns(start),
            end_wall_ns: self.clock.wall_ns(end),
            phases: self.phase_times(phases),
            was_cancelled,
            incomplete_reason: failure.map(explained).or_else(by_user),
            ended_by: failure.map(ended_by),
            ..RunOutcome::default()
        }
    }

    /// Returns what the servers offer if they rejected all requests.
    fn offered(&self, ledger: &Ledger, interrupt: &Interrupt) -> Option<Offered> {
        let Ledger { profiling, warmup, .. } = ledger;
        let errors = [profiling, warmup].map(Accumulator::errors);
        let status = errors.into_iter().flatten().find_map(|(error, _)| error.code)?;
        let rejection = Rejection {
            status,
            server: &self.config.server,
            connections: &self.config.transport.connections,
            path: &self.config.endpoint.path(&self.config.dataset.models[0]),
            models: self.config.dataset.requested_models(),
            builder: &self.builder,
        };
        rejection.offered(interrupt)
    }

    /// Runs the load, with the profilers of the servers if they are used.
    fn drive(
        &self,
        runner: Runner,
        interrupt: &Interrupt,
        progress: &Progress,
        telemetry: &Telemetry,
        processing: &Processing,
        followers: &Followers,
    ) -> anyhow::Result<()> {
        let profiler = self.profiler(interrupt);
        let listener = profiler.clone().map(|profiler| -> Arc<dyn PhaseListener> { profiler });
        let runner = runner.with_listener(listener);
        let watch = |stats: &PhaseStats| profiler.iter().for_each(|profiler| profiler.watch(stats));
        let outcome = drive(runner, interrupt, progress, telemetry, processing, followers, &watch);
        if let Some(profiler) = &profiler {
            profiler.stop();
        }
        outcome
    }

    /// Returns whether conversations of the dataset start others.
    fn has_trees(&self) -> bool {
        self.dataset.conversations.iter().any(|conversation| !conversation.branches.is_empty())
    }

    /// Returns the runner of `phases`, of which this process has `own_phases`.
    fn runner(
        &self,
        phases: Vec<PhaseConfig>,
        own_phases: &[PhaseConfig],
        queue: &Arc<RecordQueue>,
        progress: &Arc<Progress>,
    ) -> Runner {
        Runner::new(
            self.runner_config(phases, own_phases),
            self.config.transport.clone(),
            self.workload.clone(),
            Arc::clone(queue),
            Arc::clone(progress),
        )
    }

    /// Returns the configuration of the runner for `phases`, of which this process has `own_phases`.
    fn runner_config(
        &self,
        phases: Vec<PhaseConfig>,
        own_phases: &[PhaseConfig],
    ) -> runner::Config {
        let schedule = &self.config.schedule;
        runner::Config {
            workers: self.workers_for(own_phases),
            phases,
            seed: self.seed,
            tenants: self.config.tenants.iter().map(|tenant| tenant.traffic.clone()).collect(),
            shard: schedule.shard.unwrap_or(Shard::WHOLE),
            benchmark: self.description.benchmark_id.to_string().into(),
            start_at: schedule.start_at.map(|at| self.clock.at_wall_ns(at)),
            rejection_limit: self.config.runner.rejection_limit,
        }
    }

    /// Returns the number of workers for `phases` on this machine.
    fn workers_for(&self, phases: &[PhaseConfig]) -> usize {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let in_flight = phases.iter().map(PhaseConfig::estimated_in_flight);
        self.config.runner.workers_for(in_flight, cores)
    }

    /// What the client counts to compare with the server.
    fn client_counts(&self, processed: &Processed) -> ClientCounts {
        let counts =
            ClientCounts::in_phases([&processed.ledger.warmup, &processed.ledger.profiling]);
        counts.of_choices(self.description.setup.choices())
    }

    /// Returns the ledger, still empty, whose values will be in `store`.
    fn ledger(&self, store: &Store) -> Ledger {
        let turns = self.dataset.most_turns();
        let starts_any = self.dataset.conversations.iter().any(Conversation::is_agent);
        let traits = self.endpoint.traits();
        let counts_tokens = !self.description.settings.use_server_token_count;
        let has_prefill = traits.tokenizes_input && traits.produces_tokens;
        Ledger::new(&self.description, &self.registry, store, turns)
            .with_sessions(starts_any || turns > 1)
            .with_prefix_cache(has_prefill.then(|| CacheLedger::new(counts_tokens)))
    }

    /// Returns when each phase ran, if several are measured.
    pub(super) fn phase_times(&self, phases: &[PhaseStats]) -> Vec<PhaseTimes> {
        if !has_several(&self.config.schedule.phases) {
            return Vec::new();
        }
        let times = |phase: &PhaseStats| PhaseTimes {
            start_wall_ns: self.clock.wall_ns(phase.start),
            end_wall_ns: self.clock.wall_ns(phase.requests_end.unwrap_or(phase.now)),
        };
        phases.iter().map(times).collect()
    }

    /// Prints the warnings about the configuration.
    fn warn(&self) {
        for warning in &self.config.warnings {
            tracing::warn!("{warning}");
        }
        let in_flight = self.config.schedule.limited_in_flight();
        let limit = self.config.transport.connections.limit as u64;
        if let Some(warning) = too_few_connections(in_flight, limit) {
            tracing::warn!("{warning}");
        }
    }

    /// Tells the followers that the run begins.
    fn begin(&self, followers: &Followers) {
        followers.began(&Began {
            run: &self.description,
            name: self.name.as_deref(),
            registry: &self.registry,
            workers: self.workers_for(&self.config.schedule.own_phases()),
            clock: self.clock,
        });
    }

    fn open_files(&self, interrupt: &Interrupt) -> anyhow::Result<ArtifactSet> {
        let artifacts = &self.config.artifacts;
        let mut set =
            ArtifactSet::create(&self.claim, artifacts, &self.description, &self.registry)?;
        let exports = telemetry::exports(&self.config.telemetry);
        logging::start(&set.layout().log, self.config.log_level, exports)
            .context("cannot create the log file")?;
        self.record_inputs(&mut set, interrupt);
        if !self.canaries.is_empty() {
            set.write_canaries(&self.canaries);
        }
        Ok(set)
    }

    /// Writes inputs.json, unless it would be too large or the user interrupted the run.
    fn record_inputs(&self, set: &mut ArtifactSet, interrupt: &Interrupt) {
        let of_dataset = self.dataset.conversations.iter();
        if set.write_inputs(of_dataset.map(|it| self.input(it)), &|| !interrupt.is_draining()) {
            return;
        }
        if !interrupt.is_draining() {
            tracing::warn!(
                "inputs.json is not written, since it would exceed {} MiB; use the same dataset \
                 with --random-seed {} to reproduce the requests",
                MAX_INPUT_BYTES >> 20,
                self.seed.0
            );
        }
        set.leave_out_inputs(self.dataset.conversations.iter().map(|c| c.id.to_string()));
    }

    /// Writes inputs.json again with the conversations that were made while the run went on, as far as they are
    /// among its first [`MAX_INPUTS`]; no more are made after it.
    fn record_grown(&self, set: &mut ArtifactSet, interrupt: &Interrupt) {
        let Some(growth) = &self.dataset.growth else { return };
        let all = &self.dataset.conversations;
        let grown = growth.first()..growth.end_of_sent().min(MAX_INPUTS);
        // The processes that share a run write the same file.
        let is_whole = self.config.schedule.shard.is_none();
        if is_whole && !grown.is_empty() && !interrupt.is_draining() {
            let several = |first: usize| {
                let count = (grown.end - first).min(AT_ONCE);
                let made = |at| growth.make(first + at).map(|made| self.input(&made));
                parallel::in_order(parallel::threads(), count, made).into_iter().flatten()
            };
            let made = grown.clone().step_by(AT_ONCE).flat_map(several);
            let inputs = all.iter().map(|it| self.input(it)).chain(made);
            if !set.write_inputs(inputs, &|| !interrupt.is_draining()) {
                set.leave_out_inputs(all.iter().map(|it| it.id.to_string()));
            }
        }
        growth.end();
    }

    /// Returns the name of a conversation and its request bodies. The body of a later turn leaves out the
    /// earlier turns that it repeats.
    fn input(&self, conversation: &Conversation) -> (String, Vec<Vec<u8>>) {
        let repeats_history = self.endpoint.traits().repeats_history;
        let body = |turn| {
            if repeats_history {
                self.endpoint.request_body(&conversation.alone(turn), 0, &[])
            } else {
                self.endpoint.request_body(conversation, turn, &[])
            }
        };
        let own = conversation.inherited_turns..conversation.len();
        (conversation.id.to_string(), own.map(body).collect())
    }

    /// Returns the queue of records.
    fn queue(&self) -> Arc<RecordQueue> {
        let bodies = Arc::clone(self.workload.first_bodies());
        let directory = self.config.artifacts.directory.clone();
        Arc::new(RecordQueue::new(QUEUE_BUDGET).spilling_to(directory, bodies))
    }

    /// Starts receiving the spans of the servers, if configured.
    fn start_receiver(&mut self) -> anyhow::Result<Option<Receiver>> {
        self.open_receiver()?;
        let receiver = self.receiver.take().map(|listener| listener.serve(self.trace_share()));
        Ok(receiver.transpose()?)
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
        )
        .counting_bodies(self.config.dataset.cache_bust != CacheBust::None)
        .sharing(Arc::clone(self.workload.first_bodies()))
        .with_canaries(Arc::new(Canaries::new(&self.canaries)));
        let Some(counter) = counter.filter(|_| self.config.apply_chat_template) else {
            return measurer;
        };
        let chat: Arc<CountChat> = Arc::new(move |chat| {
            let text = counter.chat_text(&chat.messages, &chat.tools)?.ok()?;
            Some(counter.count(&text))
        });
        measurer.counting_chats(chat)
    }
}

/// Runs the load on its own thread and tells the followers about its progress. The counters of the current phase are
/// passed to `watch`.
fn drive(
    runner: Runner,
    interrupt: &Interrupt,
    progress: &Progress,
    telemetry: &Telemetry,
    processing: &Processing,
    followers: &Followers,
    watch: &dyn Fn(&PhaseStats),
) -> anyhow::Result<()> {
    let interrupt = interrupt.clone();
    // Closed when the load ends; nothing is sent.
    let (running, ended) = mpsc::channel::<()>();
    let load = thread::Builder::new().name("runner".to_owned()).spawn(move || {
        let _running = running;
        runner.run(&interrupt)
    })?;
    let mut is_running = true;
    while is_running {
        is_running = ended.recv_timeout(REFRESH) == Err(RecvTimeoutError::Timeout);
        let phases = progress.snapshots();
        for stats in &phases {
            telemetry.phase(stats);
        }
        if let Some(stats) = phases.last() {
            watch(stats);
            let waiting = processing.queue().stats();
            telemetry.queue(stats.phase, &waiting);
            followers.progress(&follow::Progress {
                phases: &phases,
                name: progress.name(stats),
                is_behind: waiting.is_behind(),
                health: &|| processing.health_so_far(),
                load_times: &|| processing.load_times_so_far(),
            });
        }
    }
    if let Some(stats) = progress.snapshots().last() {
        followers.load_ended(stats);
    }
    match load.join() {
        Ok(outcome) => outcome.context("the load ended with an error"),
        Err(_) => anyhow::bail!("the runner ended unexpectedly; the run is incomplete"),
    }
}

/// Processes the records that are left after the load, and returns whether the user cut that short.
/// A first signal from now on is answered with a warning, and ends the wait for the spans of the
/// servers, which is announced unless `ui` is none; a second one ends the processing.
fn process_rest(
    processing: Processing,
    interrupt: &Interrupt,
    ui: Ui,
) -> anyhow::Result<(Processed, bool)> {
    let since_load = interrupt.since_now();
    let mut has_warned = false;
    let mut wait = processing.longest_wait().filter(|_| ui != Ui::None);
    let waits = |waiting: usize| {
        if let Some(most) = wait.take() {
            // An error means that the terminal is gone; there is nowhere to report it.
            let _ = writeln!(
                Stderr,
                "waiting at most {} s for the servers' spans of {waiting} requests; interrupt to \
                 go on without them",
                most.as_seconds()
            );
        }
        !since_load.is_draining()
    };
    let gives_up = || {
        if since_load.is_draining() && !mem::replace(&mut has_warned, true) {
            tracing::warn!(
                "the load has ended and its records are being processed; interrupt again to skip \
                 the rest"
            );
        }
        since_load.is_aborted()
    };
    let processed = processing.finish(gives_up, waits)?;
    Ok((processed, since_load.is_aborted()))
}

/// Returns what ended a load that failed with this error.
fn ended_by(failure: &anyhow::Error) -> EndedBy {
    match failure.downcast_ref() {
        Some(RunnerError::TooManyFailures { .. } | RunnerError::Rejected { .. }) => {
            EndedBy::Requests
        }
        _ => EndedBy::Client,
    }
}

/// Returns the phases of the measurement, in order.
fn profiling(phases: &[PhaseStats]) -> impl Iterator<Item = &PhaseStats> {
    phases.iter().filter(|phase| phase.phase == PhaseKind::Profiling)
}

/// Returns the counters of the phases of the measurement.
fn measured_counters<'a>(progress: &'a Progress, phases: &[PhaseStats]) -> Vec<&'a Counters> {
    let progress_of =
        |phase: &PhaseStats| progress.phase(phase.phase_index as usize).map(|of| &**of);
    profiling(phases).filter_map(progress_of).collect()
}

/// Returns the use of processors in the phase that needed most of them, which shows the client's limits.
fn most_cpu(counters: &[&Counters]) -> CpuShares {
    let shares = counters.iter().map(|counters| counters.cpu_shares());
    shares.max_by(|a, b| a.process.total_cmp(&b.process)).unwrap_or_default()
}

/// Returns the configured load of the measurement, if it is one phase, and what all of its phases
/// reached.
fn load_report(
    asked: Option<&PhaseConfig>,
    phases: &[PhaseStats],
    counters: &[&Counters],
) -> LoadReport {
    let slot_seconds: f64 = counters.iter().map(|it| it.slot_time().as_seconds()).sum();
    let reached = profiling(phases).last().filter(|_| asked.is_some());
    LoadReport {
        requested_concurrency: asked.and_then(PhaseConfig::steady_concurrency),
        reached_concurrency: counters.iter().map(|it| it.peak_in_flight()).max().unwrap_or(0),
        slot_seconds: Some(slot_seconds).filter(|seconds| *seconds > 0.0),
        sends_held_back: counters.iter().map(|it| it.sends_held_back()).sum(),
        requested_rate: asked.and_then(PhaseConfig::steady_rate),
        reached_rate: reached.and_then(PhaseStats::send_rate),
    }
}
