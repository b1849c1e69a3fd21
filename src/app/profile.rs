//! One benchmark run, from its configuration to its files.

mod many;
mod measure;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use self::measure::{Measured, profiling};
use super::readiness::Probe;
use super::start::Start;
use super::{Outcome, explained, interrupt, terminal_style};
use crate::artifacts::report::error_counts;
use crate::artifacts::{ArtifactError, RunDescription, RunReport};
use crate::cli;
use crate::config::{RunConfig, Secret, Ui, selfcheck, url as urls};
use crate::console::{self, Style};
use crate::dataset::{self, Dataset, Sampler, Sampling, Seed, Source};
use crate::endpoint::{self, Endpoint};
use crate::metrics::health::SelfCheck;
use crate::metrics::metric::MeasuredRecord;
use crate::metrics::{Accumulator, Registry};
use crate::runner::{Interrupt, RequestBuilder, Targets, Workload};
use crate::schedule;
use crate::tokenizer::{self, TokenCounter};
use crate::transport::Target;
use crate::units::{Clock, Nanos};

/// A schedule whose first request comes later than this is remarked on.
const LATE_START: Nanos = Nanos(60_000_000_000);

/// Runs the benchmark that `config` describes; results go to `out`.
pub(super) fn profile(config: RunConfig, out: &mut impl Write) -> anyhow::Result<Outcome> {
    if config.multi_run.is_many() {
        return many::profile(config, out);
    }
    let start = Start::of(&config)?;
    let mut run = Run::prepare(config)?;
    // Until here there is nothing to drain or to write: a signal just ends it.
    let interrupt = interrupt::listen()?;
    run.wait_until_ready(&interrupt)?;
    if let Some(start) = start {
        start.come_close(&interrupt)?;
        // Wall time is read again: the wait may have been long.
        run.clock = Clock::start();
    }
    let measured = run.measure(&interrupt, None)?;
    run.conclude(measured).show(out)
}

/// Shown each record when it has been measured.
pub(super) type Observer = Box<dyn FnMut(&MeasuredRecord) + Send>;

/// Makes a single run, and shows each record to `observer`; the user may end it by
/// `interrupt`.
pub(super) fn observed(
    config: RunConfig,
    interrupt: &watch::Receiver<Interrupt>,
    observer: Observer,
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    let mut run = Run::prepare(config)?;
    let measured = run.measure(interrupt, Some(observer))?;
    run.conclude(measured).show(out)
}

/// What is read and made before a run; any number of runs may use it.
#[derive(Clone)]
struct Material {
    seed: Seed,
    counter: Arc<TokenCounter>,
    dataset: Arc<Dataset>,
}

impl Material {
    /// Loads tokenizer and dataset; the dataset settles what `config` leaves to it.
    fn load(config: &mut RunConfig) -> anyhow::Result<Self> {
        let environment = |name: &str| std::env::var(name).ok();
        let counter = Arc::new(counter(config, &environment)?);
        raise_file_limit();
        Self::with(config, counter)
    }

    /// Loads the dataset; `counter` counts its tokens.
    fn with(config: &mut RunConfig, counter: Arc<TokenCounter>) -> anyhow::Result<Self> {
        let seed = Seed::or_random(config.dataset.random_seed);
        let traits = config.endpoint.endpoint_type.traits();
        if config.ui != Ui::None
            && let Source::Synthetic(synthetic) = &config.dataset.source
            && synthetic.needs_encoder()
        {
            // Nobody is left to tell if the terminal is gone.
            let _ = writeln!(io::stderr(), "encoding media with ffmpeg before the run");
        }
        let generated = dataset::Config { random_seed: Some(seed.0), ..config.dataset.clone() };
        let mut dataset = Dataset::load(&generated, &counter, traits.tokenizes_input)?;
        if !traits.takes_messages && dataset.bears_messages() {
            anyhow::bail!(
                "the dataset bears `messages`, which only chat and chat_embeddings send; give \
                 --endpoint-type chat"
            );
        }
        endpoint::check(&*endpoint::build(&config.endpoint), &dataset)?;
        settle_schedule(config, &mut dataset)?;
        config.validate_shares()?;
        config.validate_searched()?;
        Ok(Self { seed, counter, dataset: Arc::new(dataset) })
    }
}

/// A run that is ready to start.
struct Run {
    config: RunConfig,
    clock: Clock,
    seed: Seed,
    description: RunDescription,
    endpoint: Arc<dyn Endpoint>,
    dataset: Arc<Dataset>,
    /// The tokenizer, until the load begins: what reads the records takes it along, so
    /// that its memory is free again when their statistics need some.
    counter: Option<Arc<TokenCounter>>,
    registry: Arc<Registry>,
    workload: Workload,
    builder: Arc<RequestBuilder>,
    selfcheck: Option<SelfCheck>,
}

impl Run {
    /// Loads tokenizer and dataset and makes the request bodies.
    fn prepare(mut config: RunConfig) -> anyhow::Result<Self> {
        let material = Material::load(&mut config)?;
        Self::new(config, material)
    }

    /// Makes the request bodies of `material`, which was loaded for this load.
    fn new(mut config: RunConfig, material: Material) -> anyhow::Result<Self> {
        let Material { seed, counter, dataset } = material;
        let endpoint = endpoint::build(&config.endpoint);
        let traits = endpoint.traits();
        let sampling = config.dataset.sampling.unwrap_or(Sampling::Sequential);
        let sampler = Sampler::new(sampling, dataset.conversations.len(), seed);
        let registry = Registry::new(config.metrics.clone(), traits, config.endpoint.streaming)?;
        let api_key = config.transport.api_key.as_ref().map(Secret::expose);
        let headers = &config.transport.headers;
        let builder = RequestBuilder::new(traits, config.endpoint.streaming, api_key, headers)?;
        let of_load = match config.telemetry.trace_sample {
            Some(sample) => builder.clone().with_trace_context(sample.share()),
            None => builder.clone(),
        };
        let builder = Arc::new(builder);
        let workload = Workload::new(
            Arc::clone(&dataset),
            Arc::new(sampler),
            Arc::clone(&endpoint),
            targets(&config, &dataset)?,
            Arc::new(of_load),
        );
        check_chat_template(&counter, &workload)?;
        let description = RunDescription {
            benchmark_id: config.benchmark_id(seed),
            endpoint: traits,
            streaming: config.endpoint.streaming,
            settings: config.metrics.clone(),
            input_config: config.input_config.clone(),
            cli_command: config.cli_command.clone(),
            random_seed: Some(seed.0),
            member: config.member.clone(),
            shard: config.schedule.shard,
            start_at_ns: config.schedule.start_at,
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
            counter: Some(counter),
            registry,
            workload,
            builder,
            selfcheck,
        })
    }

    fn wait_until_ready(&self, interrupt: &watch::Receiver<Interrupt>) -> anyhow::Result<()> {
        let probe = Probe {
            transport: &self.config.transport,
            path: &self.config.endpoint.path(&self.config.dataset.models[0]),
            models: &self.config.dataset.models,
            body: self.workload.first_body(),
            builder: &self.builder,
        };
        probe.wait(interrupt)
    }

    /// Writes the summaries.
    fn conclude(self, measured: Measured) -> Concluded {
        let report = self.report(&measured);
        let Measured { pipeline, failure, .. } = measured;
        let files = pipeline.sink.set.finish(&report, &console::render(&report, Style::FILE));
        let directory = self.config.artifacts.directory;
        let outcome = match failure {
            Some(failure) => Err(failure),
            None if report.was_cancelled => Ok(Outcome::Interrupted),
            None if report.average("request_count").is_none_or(|count| count == 0.0) => {
                Err(anyhow::anyhow!(
                    "no request succeeded; the error summary says why, and the records are in `{}`",
                    directory.display()
                ))
            }
            None => Ok(Outcome::Done),
        };
        Concluded { report, profiling: pipeline.profiling, directory, files, outcome }
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
            Some(failure) => Some(explained(failure)),
            None if was_cancelled => Some("cancelled by the user".to_owned()),
            None => None,
        };
        let (start_wall_ns, end_wall_ns) = (self.clock.wall_ns(start), self.clock.wall_ns(end));
        let slices = self.description.slice_duration().and_then(|duration| {
            let slices = pipeline.profiling.slices(&(start_wall_ns..end_wall_ns), duration);
            slices.map_err(|error| tracing::warn!("{error}")).ok()?
        });
        RunReport {
            run: self.description.clone(),
            start_wall_ns,
            end_wall_ns,
            was_cancelled,
            incomplete_reason,
            results: pipeline.profiling.results(),
            slices,
            warmup_results: pipeline.warmup.results_if_any(),
            errors: error_counts(&pipeline.profiling),
            load: measured.load.clone(),
            client_health: Some(measured.health.clone()),
            server_metrics: measured.server_metrics.clone(),
            phases: phases.clone(),
            telemetry: Some(measured.telemetry.clone()),
            shards: None,
        }
    }
}

/// A run that has ended, and whose files are written.
struct Concluded {
    report: RunReport,
    /// The values of its measurement.
    profiling: Accumulator,
    directory: PathBuf,
    files: Result<Vec<PathBuf>, ArtifactError>,
    /// How the load went.
    outcome: anyhow::Result<Outcome>,
}

impl Concluded {
    /// Prints the summaries and says how the run ended. Whoever reads the output may
    /// have gone away, which changes nothing of that.
    fn show(self, out: &mut impl Write) -> anyhow::Result<Outcome> {
        let shown = out.write_all(console::render(&self.report, terminal_style()).as_bytes());
        let files = console::render_files(&self.directory, &self.files?);
        let shown = shown.and_then(|()| out.write_all(files.as_bytes()));
        match self.outcome? {
            Outcome::Done => Ok(shown.map(|()| Outcome::Done)?),
            other => Ok(other),
        }
    }
}

/// The tokenizer, with the chat template where it counts.
fn counter(
    config: &RunConfig,
    environment: tokenizer::Environment<'_>,
) -> anyhow::Result<TokenCounter> {
    let counter = TokenCounter::load(&config.tokenizer, environment)?;
    if !config.apply_chat_template {
        return Ok(counter);
    }
    Ok(counter.with_chat_template(&config.tokenizer, environment)?)
}

/// Refuses messages of which the chat template makes no text.
fn check_chat_template(counter: &TokenCounter, workload: &Workload) -> anyhow::Result<()> {
    if !counter.has_chat_template() {
        return Ok(());
    }
    for (number, body) in (1..).zip(workload.first_bodies().iter()) {
        let text = endpoint::chat_messages(body)
            .and_then(|chat| counter.chat_text(&chat.messages, &chat.tools));
        if let Some(Err(why)) = text {
            anyhow::bail!(
                "--apply-chat-template: the template of {} makes no text of conversation \
                 {number}: {why}",
                counter.name()
            );
        }
    }
    Ok(())
}

/// Lets the dataset decide what it decides about the schedule.
fn settle_schedule(config: &mut RunConfig, dataset: &mut Dataset) -> anyhow::Result<()> {
    let was_fixed = config.schedule.is_fixed_schedule();
    let has_default_directory = config.artifacts.directory == config.default_directory();
    schedule::settle(&mut config.schedule, dataset)?;
    config.metrics.fixed_schedule = config.schedule.is_fixed_schedule();
    config.warnings.extend(late_start(&config.schedule, dataset));
    if config.schedule.is_fixed_schedule() && !was_fixed {
        if has_default_directory {
            config.artifacts.directory = config.default_directory();
        }
        cli::record_changes(config);
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
    for phase in &config.schedule.own_phases() {
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

/// Every server, with the path of each model where that is in it.
fn targets(config: &RunConfig, dataset: &Dataset) -> anyhow::Result<Targets> {
    let asking = |model: &str| -> anyhow::Result<Vec<Target>> {
        let path = config.endpoint.path(model);
        let target = |base| Target::new(&urls::join(base, &path)).map_err(Into::into);
        config.transport.urls.iter().map(target).collect()
    };
    let targets = Targets::new(asking(&config.dataset.models[0])?);
    if !config.endpoint.path_names_model() {
        return Ok(targets);
    }
    let named = |model: Arc<str>| Ok((Arc::clone(&model), asking(&model)?));
    Ok(targets.with_models(dataset.models().map(named).collect::<anyhow::Result<Vec<_>>>()?))
}
