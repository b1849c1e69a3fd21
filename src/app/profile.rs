//! A benchmark run, from its configuration to its files.

mod ab;
mod adaptive;
mod canaries;
mod collections;
mod download;
mod dry_run;
mod early;
mod exports;
mod inputs;
mod many;
mod measure;
mod open_files;
mod together;

use std::io::Write;
use std::sync::Arc;

use ::measure::metrics::Registry;
use ::measure::metrics::health::SelfCheck;
use ::measure::otlp_receiver;
use base::interrupt::Interrupt;
use base::units::Clock;
use client::endpoint::{self, Endpoint};
use client::record::TraceShare;
use client::runner::{OwnConversations, RequestBuilder, Targets, TenantRequests, Workload};
use client::schedule::config::{PhaseConfig, measured, only_measured};
use client::transport::Target;
use dataset::{Canary, Dataset, Seed};
use results::api::Listener;
use results::artifacts::Claim;
use results::console;
use results::follow::Followers;
use results::processing::Processed;
use results::run::RunDescription;
use results::run::provenance::Provenance;
use results::run::setup::Setup;
use results::terminal::Stderr;
use tokens::tokenizer::TokenCounter;

pub(super) use self::ab::ab;
use self::inputs::RunInputs;
pub(super) use self::inputs::counter;
use self::measure::Measured;
use self::open_files::raise_file_limit;
use super::audience::Audience;
use super::ending::{Delivery, Ending, RunEnding, deliver};
use super::outcome::Outcome;
use super::output::Output;
use super::start::Start;
use super::{gates, interrupt, page};
use crate::config::{Benchmark, RunConfig, Ui, selfcheck, url as urls};
use crate::server_control::{Probe, Profiler, Servers};

/// The commit that the program was built from, if the build knew it.
const COMMIT: Option<&str> = option_env!("AIPERF_COMMIT");

/// Performs the benchmark, and writes the results to `out`.
pub(super) fn profile(benchmark: Benchmark, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let config = &benchmark.config;
    if let Some(form) = config.dry_run {
        return dry_run::show(benchmark.config, form, out);
    }
    raise_file_limit()?;
    gates::check(config.judge.junit.as_deref())?;
    page::check(config.page.as_ref())?;
    let listener = Listener::bind(&config.api)?;
    if config.multi_run.is_many() {
        return many::profile(benchmark, listener, out);
    }
    let start = Start::from_config(config)?;
    let mut run = Run::prepare(benchmark.config)?;
    // Until here there is nothing to drain or write, so a signal ends the process.
    let interrupter = interrupt::listen()?;
    let interrupt = interrupter.interrupt();
    let audience = Audience::start(&run.config, listener, &interrupter)?;
    run.open_receiver()?;
    run.show_receiver();
    run.ready_servers(&interrupt)?;
    run.ask_canaries(&interrupt)?;
    let member = run.meet_others(&interrupt)?;
    let agreed = || Start::agreed(run.config.schedule.start_at.unwrap_or_default(), &run.config);
    if let Some(start) = start.or_else(|| member.is_some().then(agreed)) {
        start.come_close(&interrupt)?;
        // The wait may have been long, so the wall clock is read again.
        run.clock = Clock::start();
    }
    audience.view().open();
    let followers = audience.followers();
    let measured = run.measure(&interrupt, &followers)?;
    audience.view().close();
    match member {
        None => run.finish(measured, followers, &interrupt, out),
        Some(member) => run.finish_together(measured, &member, followers, &interrupt, out),
    }
}

/// Returns an error for a directory with the files of another run, before any slow work.
pub(super) fn check_place(config: &RunConfig) -> anyhow::Result<()> {
    if config.dry_run.is_some() {
        return Ok(());
    }
    let resumes = config.multi_run.sweep.as_ref().is_some_and(|sweep| sweep.resumes);
    // A default directory gets a number.
    if !resumes && !config.artifacts.has_default_directory {
        config.artifacts.wanted().check()?;
    }
    Ok(())
}

/// Performs a single run with these `followers`; `interrupt` ends it early.
pub(super) fn followed(
    config: RunConfig,
    interrupt: &Interrupt,
    followers: Followers,
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    let mut run = Run::prepare(config)?;
    let measured = run.measure(interrupt, &followers)?;
    run.finish(measured, followers, interrupt, out)
}

/// A run that is ready to start.
struct Run {
    config: RunConfig,
    /// Its name among several runs, such as `Run 2 of 4: concurrency_2`.
    name: Option<String>,
    /// The run's directory.
    claim: Claim,
    clock: Clock,
    seed: Seed,
    description: RunDescription,
    endpoint: Arc<dyn Endpoint>,
    dataset: Arc<Dataset>,
    /// The tokenizer, until the load starts. The record processors take it, so that its memory
    /// is freed before the statistics are computed.
    counter: Option<Arc<TokenCounter>>,
    registry: Arc<Registry>,
    workload: Workload,
    builder: Arc<RequestBuilder>,
    selfcheck: Option<SelfCheck>,
    /// The canaries, with the answers that are known.
    canaries: Vec<Canary>,
    /// The reserved address of the receiver of spans, until it receives.
    receiver: Option<otlp_receiver::Listener>,
}

impl Run {
    /// Loads tokenizer and dataset and builds the request bodies.
    fn prepare(mut config: RunConfig) -> anyhow::Result<Self> {
        let inputs = RunInputs::load(&mut config)?;
        Self::new(config, inputs)
    }

    /// Builds the request bodies from `inputs`, which were loaded for this load.
    fn new(mut config: RunConfig, inputs: RunInputs) -> anyhow::Result<Self> {
        let RunInputs { seed, counter, dataset, account, canaries, .. } = inputs;
        if let Some(growth) = &dataset.growth {
            growth.begin(Arc::clone(&counter));
        }
        let endpoint = endpoint::build(&config.endpoint);
        let traits = endpoint.traits();
        let parts = || config.dataset.parts.iter().enumerate();
        let samplers = parts().map(|(index, part)| dataset.sampler(index, part, seed));
        let samplers = samplers.collect();
        let tenants = config.tenants.iter().map(|it| (&*it.traffic.name, it.objectives.as_slice()));
        let registry = Registry::new(config.metrics.clone(), traits, config.endpoint.streaming)?
            .with_tenants(tenants);
        let api_key = config.server.api_key.as_ref().map(|key| key.expose().as_str());
        let headers = &config.server.headers;
        let with_headers = |headers: &[(String, String)]| {
            RequestBuilder::new(traits, config.endpoint.streaming, api_key, headers)?
                .with_session_header(config.server.session_header.as_deref())
                .map(|builder| builder.with_session_copies(&config.server.session_copies))
        };
        let traced = |builder: RequestBuilder| {
            if !config.sends_trace_context() {
                return builder;
            }
            let is_random = config.telemetry.trace_random_flag;
            let traced = builder.with_trace_context(trace_share(&config), is_random);
            // Servers' spans are joined with requests by the ID of the trace.
            let is_joined = config.otel_receiver.is_some();
            if is_joined { traced.tracing_each_request() } else { traced }
        };
        let builder = with_headers(headers)?;
        let of_load = traced(builder.clone());
        let mut tenants = Vec::new();
        for (at, tenant) in config.tenants.iter().enumerate() {
            let all: Vec<_> = headers.iter().chain(&tenant.headers).cloned().collect();
            let own = parts().filter_map(|(index, part)| {
                let sampler = dataset.sampler_of_tenant(index, part, at, seed)?;
                Some(OwnConversations::new(sampler))
            });
            tenants.push(TenantRequests {
                name: tenant.traffic.name.as_str().into(),
                builder: traced(with_headers(&all)?),
                conversations: own.collect(),
            });
        }
        let builder = Arc::new(builder);
        let workload = Workload::new(
            Arc::clone(&dataset),
            samplers,
            Arc::clone(&endpoint),
            targets(&config, &dataset)?,
            Arc::new(of_load),
        )
        .with_cache_bust(config.dataset.cache_bust)
        .with_context_overflow(config.metrics.context_overflow.clone())
        .with_tenants(tenants)
        .with_canaries(config.canaries.as_ref().map(|canaries| canaries.share), seed);
        check_chat_template(&counter, &workload)?;
        // The directory may get a number, which the description contains.
        let claim = claim(&mut config)?;
        let counts = traits.tokenizes_input || traits.produces_tokens;
        let serialized = serde_json::to_value(&config)?;
        let description = RunDescription {
            benchmark_id: config.benchmark_id(seed),
            endpoint: traits,
            streaming: config.endpoint.streaming,
            settings: config.metrics.clone(),
            dataset: account,
            gates: config.judge.gates.clone(),
            input_config: config.input_config(),
            setup: Setup::read(&serialized)?,
            config: serialized,
            cli_command: config.cli_command.clone(),
            provenance: Provenance::here(COMMIT, counts.then_some(&counter)),
            random_seed: Some(seed.0),
            member: config.member.clone(),
            shard: config.schedule.shard,
            start_at_ns: config.schedule.start_at,
            agreement: None,
            tables: config.tables,
            held_load: only_measured(&config.schedule.phases).and_then(PhaseConfig::held_load),
        };
        let registry = Arc::new(registry);
        let selfcheck = known_limits(&mut config);
        let clock = Clock::start();
        Ok(Self {
            config,
            name: None,
            claim,
            clock,
            seed,
            description,
            endpoint,
            dataset,
            counter: Some(counter),
            registry,
            workload,
            builder,
            selfcheck,
            canaries,
            receiver: None,
        })
    }

    /// Reserves the address of the receiver of spans, if there is one.
    fn open_receiver(&mut self) -> anyhow::Result<()> {
        if let (None, Some(config)) = (&self.receiver, &self.config.otel_receiver) {
            self.receiver = Some(otlp_receiver::Listener::bind(config)?);
        }
        Ok(())
    }

    /// Prints the address of the receiver of spans, which may have a port that was free.
    fn show_receiver(&self) {
        if let Some(receiver) = self.receiver.as_ref().filter(|_| self.config.ui != Ui::None) {
            // An error means that the terminal is gone; there is nowhere to report it.
            let _ = writeln!(
                Stderr,
                "receiving the servers' spans at {} (OTLP over gRPC and HTTP)",
                receiver.address()
            );
        }
    }

    /// Returns the share of requests whose spans the servers send.
    fn trace_share(&self) -> TraceShare {
        trace_share(&self.config)
    }

    /// Waits until the servers serve the model, and has them reset their caches if configured.
    fn ready_servers(&self, interrupt: &Interrupt) -> anyhow::Result<()> {
        let probe = Probe {
            server: &self.config.server,
            connections: &self.config.transport.connections,
            path: &self.config.endpoint.path(&self.config.dataset.models[0]),
            models: &self.config.dataset.models,
            body: self.workload.first_body(),
            builder: &self.builder,
        };
        probe.wait(interrupt)?;
        if self.controls_servers() {
            self.servers().reset_kv_cache(&self.config.server, interrupt)?;
        }
        Ok(())
    }

    /// Whether this process sends the requests that control the servers: of several processes, only
    /// the first does.
    fn controls_servers(&self) -> bool {
        self.config.schedule.shard.is_none_or(|shard| shard.index() == 0)
    }

    /// The servers, for requests that control them.
    fn servers(&self) -> Servers {
        Servers::new(&self.config.server, &self.config.transport.connections, &self.builder)
    }

    /// The profilers of the servers, if they are used.
    fn profiler(&self, interrupt: &Interrupt) -> Option<Arc<Profiler>> {
        let settings = self.config.server.control.server_profiler.clone();
        let settings = settings.filter(|_| self.controls_servers())?;
        let phases = self.config.schedule.own_phases();
        let limits = measured(&phases).filter_map(|phase| phase.concurrency);
        let concurrency = limits.map(|limit| limit.most).max();
        let fraction = self.config.metrics.steady_state_fraction;
        let full = concurrency.map_or(1, |most| (most as f64 * fraction).ceil() as u64);
        Some(Profiler::new(self.servers(), settings, full, interrupt))
    }

    /// Writes the summaries of a single run and delivers it.
    fn finish(
        self,
        measured: Measured,
        followers: Followers,
        interrupt: &Interrupt,
        out: &mut impl Write,
    ) -> anyhow::Result<Outcome> {
        let delivery = Delivery::new(&self.config, followers, interrupt);
        let mut out = Output::new(out);
        let ending = Ending::Run(Box::new(measured.conclude()));
        let outcome = deliver(ending, &delivery, &mut out);
        out.finish(outcome)
    }
}

impl Measured {
    /// Writes the summaries.
    fn conclude(self) -> RunEnding {
        let Self { report, processed: Processed { ledger, files } } = self;
        let layout = files.layout().clone();
        let files = files.finish(&report, &console::render_file(&report));
        RunEnding { report, layout, values: ledger.profiling, files }
    }
}

/// Returns the share of requests that are sampled: all, if they are only received and not exported.
fn trace_share(config: &RunConfig) -> TraceShare {
    let sample = config.telemetry.trace_sample;
    sample.map_or(TraceShare::of_percent(100.0), |sample| sample.share())
}

/// Claims the directory for a run, or for several, and prints where an earlier run's files
/// were moved to, or which directory is used instead of the default one.
fn claim(config: &mut RunConfig) -> anyhow::Result<Claim> {
    let wanted = config.artifacts.wanted();
    let has_default = config.artifacts.has_default_directory;
    let sweep = config.multi_run.sweep.as_ref().filter(|_| config.member.is_none());
    let (claim, directory) = match sweep {
        Some(sweep) if sweep.resumes => (Claim::again(wanted)?, wanted.directory.to_owned()),
        _ if has_default && !wanted.overwrite => Claim::take_next(wanted)?,
        _ => (Claim::take(wanted)?, wanted.directory.to_owned()),
    };
    if has_default {
        claim.link_latest();
    }
    let moved = claim
        .moved_to()
        .map(|place| format!("moved the files of an earlier run to {}", place.display()));
    let numbered = (directory != wanted.directory).then(|| {
        format!(
            "{} has the files of an earlier run, so this one writes to {}",
            wanted.directory.display(),
            directory.display()
        )
    });
    for line in moved.into_iter().chain(numbered).filter(|_| config.ui != Ui::None) {
        // An error means that the terminal is gone; there is nowhere to report it.
        let _ = writeln!(Stderr, "{line}");
    }
    config.artifacts.directory = directory;
    Ok(claim)
}

/// Returns an error for messages that the chat template cannot render.
fn check_chat_template(counter: &TokenCounter, workload: &Workload) -> anyhow::Result<()> {
    if !counter.has_chat_template() {
        return Ok(());
    }
    for (number, body) in (1..).zip(workload.first_bodies().iter()) {
        let text = endpoint::chat_messages(body)
            .and_then(|chat| counter.chat_text(&chat.messages, &chat.tools));
        if let Some(Err(why)) = text {
            anyhow::bail!(
                "--apply-chat-template: the template of {} cannot render conversation \
                 {number}: {why}",
                counter.name()
            );
        }
    }
    Ok(())
}

/// Reads the self-check of this machine; adds a warning if the load exceeds its limits.
fn known_limits(config: &mut RunConfig) -> Option<SelfCheck> {
    let path = config.selfcheck_file.as_ref()?;
    let found = selfcheck::read(path, &selfcheck::machine());
    let check = found.map_err(|error| config.warnings.push(error.to_string())).ok()??;
    for phase in &config.schedule.own_phases() {
        config
            .warnings
            .extend(check.excess(phase.concurrency.map(|limit| limit.most), phase.steady_rate()));
    }
    Some(check)
}

/// The URLs of all servers, one for each model if the path contains the model.
fn targets(config: &RunConfig, dataset: &Dataset) -> anyhow::Result<Targets> {
    let asking = |model: &str| -> anyhow::Result<Vec<Target>> {
        let path = config.endpoint.path(model);
        let target = |base| Target::new(urls::join(base, &path).expose()).map_err(Into::into);
        config.server.urls.iter().map(target).collect()
    };
    let targets = Targets::new(asking(&config.dataset.models[0])?);
    if !config.endpoint.path_names_model() {
        return Ok(targets);
    }
    let named = |model: Arc<str>| Ok((Arc::clone(&model), asking(&model)?));
    Ok(targets.with_models(dataset.models().map(named).collect::<anyhow::Result<Vec<_>>>()?))
}

#[cfg(test)]
mod tests;
