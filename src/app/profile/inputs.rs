//! The tokenizer and the dataset of a run, and what depends on them.

use std::io::Write as _;
use std::sync::Arc;

use base::units::Nanos;
use client::endpoint;
use client::schedule;
use client::schedule::config::{LoadPattern, PhaseConfig, Replay, UseOfTimestamps};
use dataset::{Account, CacheBust, Canary, CanaryConfig, Dataset, MediaKinds, Part, Seed, Source};
use results::terminal::Stderr;
use tokens::tokenizer::TokenCounter;

use super::download;
use crate::app::datasets;
use crate::config::{Environment, RunConfig, Ui};

/// Delay of the first request above which a warning is printed.
const LATE_START: Nanos = Nanos(60_000_000_000);

/// The tokenizer and the dataset of a run, loaded before it. Any number of runs can share them.
#[derive(Clone)]
pub(super) struct RunInputs {
    pub(super) seed: Seed,
    pub(super) counter: Arc<TokenCounter>,
    pub(super) dataset: Arc<Dataset>,
    /// The requests of the parts of the dataset that are read, if there are any.
    pub(super) account: Option<Account>,
    /// The canaries of the dataset, with their answers as far as these are known.
    pub(super) canaries: Vec<Canary>,
    /// Whether the times of each part of the dataset are a schedule.
    is_fixed: Vec<bool>,
    /// The settings that the dataset was made from.
    origin: serde_json::Value,
}

impl RunInputs {
    /// Loads tokenizer and dataset; completes `config` with what depends on the dataset.
    pub(super) fn load(config: &mut RunConfig) -> anyhow::Result<Self> {
        let counter = Arc::new(counter(config)?);
        Self::with(config, counter)
    }

    /// Loads the dataset, counting its tokens with `counter`; completes `config` with what depends
    /// on the dataset.
    pub(super) fn with(config: &mut RunConfig, counter: Arc<TokenCounter>) -> anyhow::Result<Self> {
        let inputs = Self::make(config, counter)?;
        inputs.settle(config)?;
        Ok(inputs)
    }

    /// Returns whether the run of `config` has this dataset. Without a seed each run has its own, unless it is
    /// read.
    pub(super) fn fits(&self, config: &RunConfig) -> anyhow::Result<bool> {
        Ok(config.dataset.random_seed.is_some() && self.origin == origin(config)?)
    }

    /// Drops the dataset, which no run has then.
    pub(super) fn forget(&mut self) {
        self.dataset = Arc::default();
        self.origin = serde_json::Value::Null;
    }

    /// Completes `config` with what depends on the dataset.
    pub(super) fn settle(&self, config: &mut RunConfig) -> anyhow::Result<()> {
        settle_schedule(config, &self.dataset, &self.is_fixed)?;
        config.schedule.check_shares()?;
        config.check_canaries()?;
        Ok(config.check_searched()?)
    }

    /// Loads the dataset, counting its tokens with `counter`.
    fn make(config: &RunConfig, counter: Arc<TokenCounter>) -> anyhow::Result<Self> {
        let seed = Seed::or_random(config.dataset.random_seed);
        let traits = config.endpoint.endpoint_type.traits();
        let needs_encoder =
            |part: &Part| matches!(&part.source, Source::Synthetic(it) if it.needs_encoder());
        if config.ui != Ui::None && config.dataset.parts.iter().any(needs_encoder) {
            // An error means that the terminal is gone; there is nowhere to report it.
            let _ = writeln!(Stderr, "encoding media with ffmpeg before the run starts");
        }
        let generated = dataset::Config { random_seed: Some(seed.0), ..config.dataset.clone() };
        let canaries = config.canaries.as_ref().map(CanaryConfig::load).transpose()?;
        let canaries = canaries.unwrap_or_default();
        let hub = datasets::hub(config.ui);
        let mut parts = Dataset::load_parts(&generated, &counter, traits.tokenizes_input, &hub)?;
        let is_read = config.dataset.parts.iter().map(|part| part.source.is_read());
        let mut is_fixed = Vec::new();
        for (index, part) in parts.iter_mut().enumerate() {
            is_fixed.push(schedule::settle_dataset(&config.schedule.replay_of(index), part)?);
        }
        let read = parts.iter().zip(is_read).filter(|(_, is_read)| *is_read);
        let account = read.map(|(part, _)| part.conversations.account()).reduce(Account::and);
        let mut dataset = Dataset::joined(parts);
        if !traits.takes_messages && dataset.bears_messages() {
            anyhow::bail!(
                "the dataset contains `messages`, which only chat and chat_embeddings support; use \
                 --endpoint-type chat"
            );
        }
        if config.dataset.cache_bust != CacheBust::None
            && (!traits.tokenizes_input || dataset.bears_payloads())
        {
            anyhow::bail!(
                "--cache-bust adds a marker to prompts, but {}; remove the flag",
                if traits.tokenizes_input {
                    "the dataset has payloads, which are sent unchanged".to_owned()
                } else {
                    format!("{} requests do not have any", traits.name)
                }
            );
        }
        if traits.takes.contains(MediaKinds::IMAGE) && !traits.takes_urls {
            download::images(&mut dataset, &config.transport.connections)?;
        }
        let dataset = dataset.with_canaries(&canaries, |text| counter.count(text));
        endpoint::check(&*endpoint::build(&config.endpoint), &dataset)?;
        let origin = origin(config)?;
        Ok(Self { seed, counter, dataset: Arc::new(dataset), account, canaries, is_fixed, origin })
    }
}

/// The settings that a dataset is made from.
fn origin(config: &RunConfig) -> anyhow::Result<serde_json::Value> {
    let RunConfig { dataset, canaries, endpoint, schedule, .. } = config;
    let replay = |part: usize| {
        let mut replay = schedule.replay_of(part);
        if let UseOfTimestamps::IfPresent(concurrency) = &mut replay.schedule {
            // The load of the run, not a property of the dataset.
            *concurrency = None;
        }
        replay
    };
    let replays: Vec<Replay> = (0..dataset.parts.len()).map(replay).collect();
    let mut dataset = dataset.clone();
    if dataset.parts.iter().all(|part| part.source.is_read()) {
        // What is read is read once for all runs: it may come from a pipe.
        (dataset.random_seed, dataset.shared_seed) = (None, None);
    }
    Ok(serde_json::to_value((dataset, canaries, endpoint, replays))?)
}

/// The tokenizer, with the chat template if tokens are counted with it.
pub(in crate::app) fn counter(config: &RunConfig) -> anyhow::Result<TokenCounter> {
    let environment = Environment::process();
    let counter = TokenCounter::load(&config.tokenizer, environment)?;
    if !config.apply_chat_template {
        return Ok(counter);
    }
    Ok(counter.with_chat_template(&config.tokenizer, environment)?)
}

/// Completes the schedule with what depends on the dataset.
fn settle_schedule(
    config: &mut RunConfig,
    dataset: &Dataset,
    is_fixed: &[bool],
) -> anyhow::Result<()> {
    let was_fixed = config.schedule.is_fixed_schedule();
    let sends_whole_file = |phase: &&PhaseConfig| {
        let source = &config.dataset.parts[phase.dataset].source;
        matches!(source, Source::File { .. }) && phase.sends_whole_dataset()
    };
    let whole: Vec<usize> =
        config.schedule.phases.iter().filter(sends_whole_file).map(|it| it.dataset).collect();
    schedule::settle_phases(&mut config.schedule, dataset, is_fixed)?;
    config.metrics.fixed_schedule = config.schedule.is_fixed_schedule();
    let late = config.schedule.measured().filter_map(|phase| late_start(phase, dataset));
    let whole = whole.into_iter().map(|part| {
        format!(
            "sending the whole file, {} conversations once each; use --request-count or \
             --num-sessions to send fewer",
            dataset.roots(part).len()
        )
    });
    for warning in late.chain(whole).collect::<Vec<_>>() {
        // The schedule of several runs is settled for all and for each.
        if !config.warnings.contains(&warning) {
            config.warnings.push(warning);
        }
    }
    let has_default_directory = config.artifacts.has_default_directory;
    if config.schedule.is_fixed_schedule() && !was_fixed && has_default_directory {
        config.artifacts.directory = config.default_directory();
    }
    Ok(())
}

/// Warns if a schedule starts with a long wait, since the timestamps of traces may be Unix
/// time.
fn late_start(phase: &PhaseConfig, dataset: &Dataset) -> Option<String> {
    let first = dataset.part(phase.dataset).first()?.turns.first()?.timestamp?;
    (phase.load == LoadPattern::FixedSchedule && first > LATE_START).then(|| {
        format!(
            "the first request is due {} s after the start; use --fixed-schedule-auto-offset to \
             start with it",
            first.as_millis().round() / 1e3
        )
    })
}
