//! Derives the configurations of several runs from one.

use std::path::PathBuf;

use serde_json::Value;

use base::units::Nanos;
use client::schedule::PhaseKind;
use client::schedule::config::{Limit, LoadPattern, PhaseConfig, RatePoint};
use dataset::{CacheBust, Seed};
use measure::multi_run::{Dimension, Load, Member, evidence, limit};

use super::{Cell, RunConfig, Space};

/// Minimum duration of a run at a given rate in seconds, if a number of requests ends the
/// run: a queue takes time to grow.
const MIN_SECONDS: f64 = 5.0;

/// Minimum number of requests of each concurrent session for an interval: there are as many blocks of
/// requests that depend on each other at least.
const TURNS: u64 = 10;

/// The part of the requests that tell a condition which a run at a rate has at least.
const PARTS: u64 = 4;

/// Minimum number of requests for an interval of the throughput.
const LEAST: u64 = 100;

impl RunConfig {
    /// Returns whether the server may have prompts of an earlier run in its prefix cache, if they are the
    /// same.
    #[must_use]
    pub(crate) fn may_find_cached(&self) -> bool {
        let traits = self.endpoint.endpoint_type.traits();
        let has_prefill = traits.tokenizes_input && traits.produces_tokens;
        let is_reset = self.server.control.reset_kv_cache.is_some();
        has_prefill && !is_reset && self.dataset.cache_bust == CacheBust::None
    }

    /// Returns a warning if several runs send the same prompts to a server whose prefix cache is not
    /// emptied between them.
    #[must_use]
    pub(crate) fn warning_of_same_prompts(&self) -> Option<String> {
        let is_read = self.dataset.is_read();
        let is_same = !self.multi_run.varies_seed;
        let same_in_trials = self.multi_run.runs > 1 && (is_read || is_same);
        let same_in_cells = self.multi_run.sweep.as_ref().is_some_and(|sweep| {
            is_read || sweep.same_seed || (is_same && !self.multi_run.has_seed_by_cell())
        });
        if !self.may_find_cached() || !(same_in_trials || same_in_cells) {
            return None;
        }
        let other = if is_read {
            "send other prompts with --cache-bust"
        } else {
            "remove the flags that give the runs the same seed"
        };
        Some(format!(
            "the runs send the same prompts, which the server may have in its prefix cache from the second \
             run on; empty it before each with --reset-kv-cache, or {other}"
        ))
    }

    /// The configuration of the run `member`, with files in `directory`. Runs after the first skip
    /// the warmup, unless it is to be repeated. Each run has its own seed, derived from `seed`, which is that of
    /// the command, unless they are to have the same.
    #[must_use]
    pub(crate) fn run_of_many(&self, member: Member, directory: PathBuf, seed: u64) -> Self {
        let mut config = self.clone();
        config.artifacts.directory = directory;
        config.artifacts.has_default_directory = false;
        // There is one page, of all runs.
        config.page = None;
        if member.trial > 0 && !self.multi_run.repeats_warmup {
            config.schedule.phases.retain(|phase| phase.kind != PhaseKind::Warmup);
        }
        if let Some(load) =
            member.variation.as_ref().and_then(|cell| Load::from_values(&cell.values))
        {
            config.grow(load, member.trial);
        }
        if self.multi_run.varies_seed {
            let has_same = self.multi_run.sweep.as_ref().is_some_and(|sweep| sweep.same_seed);
            let cell = member.variation.as_ref().filter(|_| !has_same);
            let name = format!("run.{}.{}", cell.map_or(0, |cell| cell.index), member.trial);
            // 32 bits, which JSON readers represent exactly.
            config.dataset.random_seed = Some(Seed(seed).derive(&name).0 >> 32);
            config.dataset.shared_seed = Some(seed);
        }
        config.member = Some(member);
        config
    }

    /// The cell with the index `index` and this load, with enough requests to measure it. The
    /// warmup has the same load if it follows.
    #[must_use]
    pub fn cell_at(&self, index: u64, load: Load) -> Cell {
        let mut config = self.clone();
        let follows = self.multi_run.range().is_some_and(|range| range.warmup_follows);
        let least = self.least_requests(load);
        for phase in &mut config.schedule.phases {
            let is_measurement = phase.kind == PhaseKind::Profiling;
            if is_measurement {
                phase.stop.requests = phase.stop.requests.map(|given| given.max(least));
            }
            if is_measurement || follows {
                put(phase, load);
            }
        }
        if self.multi_run.has_seed_by_cell() {
            let seed = &mut config.dataset.random_seed;
            *seed = seed.map(|seed| seed.wrapping_add(index));
        }
        Cell { variation: self.multi_run.cell(index, &[load.value()]), config }
    }

    /// Returns the minimum number of requests of the first run of `load`.
    fn least_requests(&self, load: Load) -> u64 {
        let level = self.multi_run.confidence_level;
        let told = evidence::least_requests(self.multi_run.conditions(), level);
        let least = if self.multi_run.is_led_by_throughput() { LEAST } else { 0 };
        least_requests(load, told.max(least))
    }

    /// Gives a further run of a load, which a search makes because those before do not tell it, more requests.
    fn grow(&mut self, load: Load, trial: u64) {
        let further = (trial + 1).saturating_sub(self.multi_run.runs);
        if further == 0 || self.multi_run.range().is_none() {
            return;
        }
        let least = self.least_requests(load).saturating_mul(limit::growth(further));
        for phase in self.schedule.phases.iter_mut().filter(|it| it.kind == PhaseKind::Profiling) {
            phase.stop.requests = phase.stop.requests.map(|given| given.max(least));
        }
    }

    /// The cell with the index `index` and these values of the parameters: this configuration with
    /// another load, or one of `space`.
    ///
    /// # Errors
    ///
    /// Fails if the settings of a cell of `space` do not go with each other.
    pub(crate) fn cell_of(
        &self,
        space: Option<&dyn Space>,
        index: u64,
        values: &[Value],
    ) -> Result<Cell, String> {
        let load = self.multi_run.range().zip(values.first().and_then(Value::as_f64));
        if let Some((range, amount)) = load {
            return Ok(self.cell_at(index, range.dimension.load(amount)));
        }
        let space = space.ok_or("the command does not choose its cells")?;
        let mut config = space.config(index, values)?;
        let variation = self.multi_run.cell(index, values);
        let dimensions = [Dimension::Concurrency, Dimension::RequestRate];
        let loads = dimensions.into_iter().filter_map(|dimension| {
            Some(dimension.load(variation.values.get(dimension.path())?.as_f64()?))
        });
        let least = loads.map(|load| least_requests(load, 0)).max().unwrap_or(0);
        let is_measurement = |phase: &&mut PhaseConfig| phase.kind == PhaseKind::Profiling;
        for phase in config.schedule.phases.iter_mut().filter(is_measurement) {
            phase.stop.requests = phase.stop.requests.map(|given| given.max(least));
        }
        config.artifacts.directory.clone_from(&self.artifacts.directory);
        Ok(Cell { variation, config })
    }
}

/// The minimum number of requests to measure `load`: two for each concurrent session, or as many as
/// the rate sends in [`MIN_SECONDS`]. Intervals need `told`, 0 without any, and more of each session; rates are
/// told by all of them together, so that a part of it is enough.
fn least_requests(load: Load, told: u64) -> u64 {
    let turns = if told > 0 { TURNS } else { 2 };
    match load {
        Load::Concurrency(sessions) => sessions.saturating_mul(turns).max(told),
        Load::RequestRate(rate) => ((rate * MIN_SECONDS).ceil() as u64).max(told / PARTS),
    }
}

/// Sets the phase's load, if it has the same dimension.
fn put(phase: &mut PhaseConfig, load: Load) {
    match (load, &mut phase.load) {
        (Load::RequestRate(rate), LoadPattern::Rate(given)) => {
            given.points = vec![RatePoint { at: Nanos::ZERO, rate }];
        }
        (Load::Concurrency(sessions), LoadPattern::ClosedLoop) => {
            let most = sessions.min(phase.stop.requests.unwrap_or(sessions)).max(1);
            phase.concurrency = Some(Limit::constant(most));
            if let Some(prefill) = &mut phase.prefill_concurrency {
                prefill.most = prefill.most.min(most);
            }
        }
        _ => {}
    }
}
