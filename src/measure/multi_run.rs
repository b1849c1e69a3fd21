//! Repeated runs with statistics over them, sweeps over settings, and the search for the highest
//! load that meets its objectives.
//!
//! The runs of a command are a plan of cells. A cell has settings that no other cell has, and one
//! or more trials. Nothing here performs runs: this module determines which run comes next, where
//! its files are, and summarizes the results.

pub mod aggregate;
pub mod capacity;
pub mod convergence;
pub mod curve;
pub mod evidence;
pub mod filter;
mod group;
pub mod history;
pub mod knee;
pub mod limit;
mod load;
mod planner;
pub mod pooled;
pub mod recipe;
pub mod search;
pub mod space;
pub mod sweep;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use base::setting::InvalidSetting;
use base::statistics::Estimate;
use base::units::Nanos;

use crate::metrics::health::LoadVerdict;
use crate::metrics::health::RateBounds;
use crate::metrics::metric::{LatencyFrom, MetricResult, Percent, Statistic};
use crate::metrics::time_breakdown::TimeBreakdown;
use crate::metrics::{Accumulator, LongRun, MetricTag, Verdict};

use convergence::Convergence;
use evidence::Evidence;
use sweep::Choice;

pub use filter::Filter;
pub use group::GroupResults;
pub use load::{Dimension, Load, Range};
pub use planner::{Next, Planner};

/// The settings of repeated runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Number of runs of a load (`--num-profile-runs`).
    pub runs: u64,
    /// Pause between runs (`--profile-run-cooldown-seconds`).
    pub cooldown: Nanos,
    /// Confidence level of the intervals, between 0 and 1 (`--confidence-level`).
    pub confidence_level: f64,
    /// Whether runs after the first have a warmup too.
    pub repeats_warmup: bool,
    /// Whether each run has its own seed, derived from the one of the command.
    pub varies_seed: bool,
    /// When the runs of a load are enough before their number is reached.
    #[serde(default)]
    pub convergence: Option<convergence::Config>,
    /// The sweep that the runs are part of, if any.
    #[serde(default)]
    pub sweep: Option<sweep::Config>,
}

impl Default for Config {
    /// Returns the settings of a single run.
    fn default() -> Self {
        Self {
            runs: 1,
            cooldown: Nanos::ZERO,
            confidence_level: 0.95,
            repeats_warmup: false,
            varies_seed: true,
            convergence: None,
            sweep: None,
        }
    }
}

impl Config {
    /// Returns whether the seed is one higher in each cell, and the same in all runs of a cell, as in AIPerf.
    #[must_use]
    pub fn has_seed_by_cell(&self) -> bool {
        let differs = |sweep: &sweep::Config| !sweep.same_seed && !sweep.is_search();
        !self.varies_seed && self.sweep.as_ref().is_some_and(differs)
    }

    /// Checks the range of loads.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        match self.range() {
            Some(Range { dimension, min, max, .. }) if min >= max => {
                let [lower, upper] = dimension.flags();
                let why = format!("must be less than {upper} ({max}), got {min}");
                Err(InvalidSetting::new(lower, why))
            }
            _ => Ok(()),
        }
    }

    /// Returns the loads among which the next one is chosen from the results of those before it;
    /// `None` if all cells are known before the first run.
    #[must_use]
    pub fn range(&self) -> Option<Range> {
        self.sweep.as_ref()?.choice.range()
    }

    /// Returns the number of runs of `cells` cells; `None` if it depends on their results.
    #[must_use]
    pub fn planned(&self, cells: usize) -> Option<u64> {
        let is_open = self.sweep.as_ref().is_some_and(|sweep| sweep.choice.is_open());
        let is_known = !is_open && self.convergence.is_none();
        is_known.then_some(self.runs * cells as u64)
    }

    /// Returns whether loads are chosen by the throughput of those before them.
    #[must_use]
    pub fn is_led_by_throughput(&self) -> bool {
        self.sweep.as_ref().is_some_and(|sweep| matches!(sweep.choice, Choice::Knee(_)))
    }

    /// Returns the conditions that the runs of each load are evidence for: those of a search for a
    /// load, and of a sweep over known ones.
    #[must_use]
    pub fn conditions(&self) -> &[Filter] {
        match &self.sweep {
            Some(sweep) if matches!(sweep.choice, Choice::Known | Choice::Search(_)) => {
                &sweep.filters
            }
            _ => &[],
        }
    }

    /// Makes its conditions and objectives judge latencies from the time that `from` says.
    pub fn count_latencies(&mut self, from: LatencyFrom) {
        let Some(sweep) = &mut self.sweep else { return };
        sweep
            .filters
            .iter_mut()
            .for_each(|filter| filter.metric = from.judged_metric(filter.metric));
        if let Choice::Space(space) = &mut sweep.choice {
            space.objectives.iter_mut().for_each(|it| it.metric = from.judged_metric(it.metric));
        }
    }

    /// Returns the percentiles of its conditions and objectives that not every run has.
    pub fn percentiles(&self) -> impl Iterator<Item = Percent> {
        let sweep = self.sweep.iter();
        let filters = sweep.clone().flat_map(|sweep| &sweep.filters).map(|it| &it.statistic);
        let objectives = sweep.flat_map(|sweep| match &sweep.choice {
            Choice::Space(space) => space.objectives.as_slice(),
            _ => &[],
        });
        let objectives = objectives.map(|it| &it.statistic);
        let convergence = self.convergence.iter().map(|it| &it.statistic);
        let names = filters.chain(objectives).chain(convergence);
        names.filter_map(|name| Statistic::named(name)?.percentile())
    }

    /// Returns the largest number of runs that a cell may have.
    #[must_use]
    pub fn most_runs(&self) -> u64 {
        let is_search = self.sweep.as_ref().is_some_and(|sweep| sweep.search().is_some());
        self.runs + if is_search { limit::REPEATS } else { 0 }
    }

    /// Returns the cell with the index `index` and these values of the parameters.
    #[must_use]
    pub fn cell(&self, index: u64, values: &[Value]) -> Variation {
        let Some(sweep) = &self.sweep else { return Variation::of_search(index, Map::new()) };
        let cell = sweep.cell(index, values);
        if sweep.is_search() { Variation::of_search(index, cell.values) } else { cell }
    }

    /// Returns whether there can be more than one run.
    #[must_use]
    pub const fn is_many(&self) -> bool {
        self.runs > 1 || self.sweep.is_some()
    }

    /// Returns the directory of a run of the cell `variation`, relative to that of all runs.
    #[must_use]
    pub fn directory(&self, variation: Option<&Variation>, trial: u64) -> PathBuf {
        let cell = variation.map_or(Path::new(""), |variation| Path::new(&variation.directory));
        let Some(sweep) = self.sweep.as_ref().filter(|sweep| !sweep.is_search()) else {
            return cell.join(Member::place(trial));
        };
        let trial = PathBuf::from(Member::PLACES).join(label(trial));
        match sweep.mode {
            _ if self.runs == 1 => cell.to_owned(),
            sweep::Mode::Repeated => trial.join(cell),
            sweep::Mode::Independent => cell.join(trial),
        }
    }

    /// Returns the directory of the statistics over the runs of the cell `variation`, relative to
    /// that of all runs.
    #[must_use]
    pub fn aggregate_directory(&self, variation: Option<&Variation>) -> PathBuf {
        let cell = variation.map_or(Path::new(""), |variation| Path::new(&variation.directory));
        match &self.sweep {
            Some(sweep) if sweep.mode == sweep::Mode::Repeated => Path::new(AGGREGATE).join(cell),
            _ => cell.join(AGGREGATE),
        }
    }

    /// Returns the directory of the results of a sweep, relative to that of all runs.
    #[must_use]
    pub fn sweep_directory(&self) -> PathBuf {
        let is_repeated =
            self.sweep.as_ref().is_some_and(|sweep| sweep.mode == sweep::Mode::Repeated);
        let parent = if self.runs > 1 && is_repeated { AGGREGATE } else { "" };
        Path::new(parent).join(SWEEP_AGGREGATE)
    }
}

/// Directory of the statistics over several runs.
pub const AGGREGATE: &str = "aggregate";

/// Directory of the results of a sweep.
pub const SWEEP_AGGREGATE: &str = "sweep_aggregate";

/// Returns the label of the run with the index `trial`: `trial_0001` is the first.
fn label(trial: u64) -> String {
    format!("trial_{:04}", trial + 1)
}

/// A run's position in its group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// The group's UUID, the same for all of its runs.
    pub sweep_id: String,
    /// Index of the run among those of its load, from 0.
    pub trial: u64,
    /// Its label in the files; `trial_0001` is the first.
    pub run_label: String,
    /// Its cell, if there are several.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub variation: Option<Variation>,
}

impl Member {
    /// Directory of several runs of a cell.
    pub const PLACES: &str = "profile_runs";

    /// Creates the run with the index `trial` of the cell `variation` in the group `sweep_id`.
    #[must_use]
    pub fn new(sweep_id: Uuid, trial: u64, variation: Option<Variation>) -> Self {
        Self { sweep_id: sweep_id.to_string(), trial, run_label: label(trial), variation }
    }

    /// Returns whether it is the first run of the group.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.trial == 0 && self.variation.as_ref().is_none_or(|variation| variation.index == 0)
    }

    /// Returns its label among all runs of the command.
    #[must_use]
    pub fn label(&self, config: &Config) -> String {
        match &self.variation {
            None => self.run_label.clone(),
            Some(variation) if config.runs == 1 => variation.directory.clone(),
            Some(variation) => format!("{}, {}", variation.directory, self.run_label),
        }
    }

    /// Returns the directory of the run with the index `trial` of a single load, relative to that
    /// of all its runs.
    #[must_use]
    pub fn place(trial: u64) -> PathBuf {
        PathBuf::from(Self::PLACES).join(format!("run_{:04}", trial + 1))
    }
}

/// The settings that distinguish a cell from the others: a load that a search tries, or a
/// combination of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variation {
    /// Its label in the files.
    pub label: String,
    /// Its directory.
    pub directory: String,
    /// Its index, from 0.
    pub index: u64,
    /// The settings by their paths in AIPerf's files.
    pub values: Map<String, Value>,
}

impl Variation {
    /// Prefix of the directories of a search.
    pub(crate) const LABEL: &str = "search_iter_";

    /// Creates the cell that a search tries next; `search_iter_0000` is the first.
    #[must_use]
    pub fn of_search(index: u64, values: Map<String, Value>) -> Self {
        let label = format!("{}{index:04}", Self::LABEL);
        Self { directory: label.clone(), label, index, values }
    }
}

/// The result of a run of a group.
#[derive(Debug, Clone)]
pub struct RunResult {
    /// The run.
    pub member: Member,
    /// Its benchmark ID; absent if it could not start.
    pub benchmark_id: Option<Uuid>,
    /// Its directory, relative to that of all runs.
    pub directory: PathBuf,
    /// Its seed, if it started.
    pub random_seed: Option<u64>,
    /// Why it is excluded from the statistics, if it is.
    pub failure: Option<Failure>,
    /// The results of its measurement, in display units.
    pub results: Vec<MetricResult>,
    /// The results of its steady state; empty without one.
    pub steady_results: Vec<MetricResult>,
    /// Its latencies divided by the server's times, if the server reports them.
    pub time_breakdown: Option<TimeBreakdown>,
    /// The measured values; absent if they are not needed.
    pub values: Option<Accumulator>,
    /// What its rates are in the long run; those of a closed loop by its latencies.
    pub long_run: LongRun,
    /// What they are while all slots of a closed loop are busy.
    pub sustained: LongRun,
    /// Its throughput with an interval, or why there is none.
    pub throughput: Result<Estimate, String>,
    /// What it says about each condition of a search or a sweep; `None` if it lacks the metric.
    pub evidence: Vec<Option<Evidence>>,
    /// How far its client may have shifted rates.
    pub rate_bounds: Option<RateBounds>,
    /// The verdict on its client health.
    pub verdict: Option<Verdict>,
    /// The verdict on its load.
    pub load_verdict: Option<LoadVerdict>,
    /// The verdict on the server's outputs.
    pub output_verdict: Option<Verdict>,
    /// Number of GPUs that serve the model; 0 if it is not known.
    pub gpus: u64,
}

/// Why a run is excluded from the statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The load caused it: too few of its requests succeeded, or none in time.
    Load(String),
    /// The server caused it, regardless of the load: no request succeeded and none was late,
    /// so the server is down or rejects everything.
    Server(String),
    /// The run could not be performed or saved, which says nothing about the load.
    Client(String),
    /// The user interrupted it.
    Cancelled(String),
    /// Only a part of it is known: its process was killed, or a shard is missing or incomplete.
    Partial(String),
}

impl Failure {
    /// Returns whether the user interrupted the run.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled(_))
    }

    /// Returns whether only a part of the run is known.
    #[must_use]
    pub const fn is_partial(&self) -> bool {
        matches!(self, Self::Partial(_))
    }

    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Load(message)
            | Self::Server(message)
            | Self::Client(message)
            | Self::Cancelled(message)
            | Self::Partial(message) => message,
        }
    }
}

impl RunResult {
    /// Creates the result of a failed run.
    #[must_use]
    pub fn failed(member: Member, directory: PathBuf, failure: Failure) -> Self {
        Self {
            member,
            benchmark_id: None,
            directory,
            random_seed: None,
            failure: Some(failure),
            results: Vec::new(),
            steady_results: Vec::new(),
            time_breakdown: None,
            values: None,
            long_run: LongRun::default(),
            sustained: LongRun::default(),
            throughput: Err("the run failed".to_owned()),
            evidence: Vec::new(),
            rate_bounds: None,
            verdict: None,
            load_verdict: None,
            output_verdict: None,
            gpus: 0,
        }
    }

    /// Returns whether the load is more than the server takes: it does not keep up, or its outputs are
    /// corrupt.
    #[must_use]
    pub fn is_too_much(&self) -> bool {
        self.load_verdict.is_some_and(LoadVerdict::is_too_much)
            || self.output_verdict == Some(Verdict::Invalid)
    }

    /// Returns whether what it measured can be believed to be the server's doing.
    #[must_use]
    pub fn is_believed(&self) -> bool {
        self.verdict.is_none_or(|verdict| verdict == Verdict::Valid)
            && self.load_verdict != Some(LoadVerdict::NotStationary)
    }

    /// Returns the mean, or the single value, of the metric `tag`.
    #[must_use]
    pub fn average(&self, tag: MetricTag) -> Option<f64> {
        self.value(tag, Statistic::Avg)
    }

    /// Returns a statistic of the metric `tag`, if it is finite; of a rate, that in the long run.
    #[must_use]
    pub fn value(&self, tag: MetricTag, statistic: Statistic) -> Option<f64> {
        let result = self.results.iter().find(|result| result.metric.tag == tag)?;
        let value = statistic.value_in(&result.stats).filter(|value| value.is_finite())?;
        Some(self.long_run.value(result.metric, value))
    }

    /// Like [`value`](Self::value), but of a rate of a closed loop, that while all slots are busy: without the
    /// start and the end of the run.
    #[must_use]
    pub fn sustained(&self, tag: MetricTag, statistic: Statistic) -> Option<f64> {
        let result = self.results.iter().find(|result| result.metric.tag == tag)?;
        let value = statistic.value_in(&result.stats).filter(|value| value.is_finite())?;
        Some(self.sustained.value(result.metric, value))
    }
}

/// The runs of a cell, with their settings.
#[derive(Debug, Clone)]
pub struct Trials {
    /// The settings.
    pub config: Config,
    /// The group.
    pub sweep_id: Uuid,
    /// The runs that were started, in order.
    pub runs: Vec<RunResult>,
    /// Whether they are enough, if there is a condition.
    pub convergence: Option<Convergence>,
}

impl Trials {
    /// Creates a cell without runs.
    pub const fn new(config: Config, sweep_id: Uuid) -> Self {
        Self { config, sweep_id, runs: Vec::new(), convergence: None }
    }

    /// Adds a run.
    pub fn add(&mut self, run: RunResult) {
        self.runs.push(run);
        self.runs.sort_by_key(|run| run.member.trial);
        self.convergence =
            self.config.convergence.as_ref().map(|condition| condition.evaluate(self));
    }

    /// Returns whether the runs are enough, although there may be fewer than the maximum.
    #[must_use]
    pub fn is_converged(&self) -> bool {
        self.convergence.is_some_and(|convergence| convergence.is_reached)
    }

    /// Returns whether runs are missing.
    #[must_use]
    pub fn is_short(&self) -> bool {
        (self.runs.len() as u64) < self.config.runs && !self.is_converged()
    }

    /// Returns the runs that the statistics cover.
    pub fn successful(&self) -> impl Iterator<Item = &RunResult> {
        self.runs.iter().filter(|run| run.failure.is_none())
    }

    /// Returns whether the run with this index was started.
    fn has(&self, trial: u64) -> bool {
        self.runs.iter().any(|run| run.member.trial == trial)
    }

    /// Returns whether the run with this index is still to be performed.
    pub fn needs(&self, trial: u64) -> bool {
        !self.has(trial) && !self.is_converged()
    }

    /// Returns whether a run failed for a reason other than that it was not finished.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let is_cut = |failure: &Failure| failure.is_cancelled() || failure.is_partial();
        self.failed().any(|(_, failure)| !is_cut(failure))
    }

    /// Returns the other runs that were started, each with the reason.
    pub fn failed(&self) -> impl Iterator<Item = (&RunResult, &Failure)> {
        self.runs.iter().filter_map(|run| Some((run, run.failure.as_ref()?)))
    }

    /// Returns whether a run has too few values for the percentile `statistic` of a metric.
    #[must_use]
    pub fn are_few(&self, tag: MetricTag, statistic: &str) -> bool {
        let Some(Statistic::Percentile(percent)) = Statistic::named(statistic) else {
            return false;
        };
        let counts = self.successful().filter_map(|run| run.value(tag, Statistic::Count));
        let counts = counts.map(|count| count as u64).filter(|count| *count > 0);
        counts.min().is_some_and(|least| percent.too_few(least).is_some())
    }

    /// Returns the mean of a statistic of the metric `tag` over all runs that have it, including
    /// failed ones.
    #[must_use]
    pub fn mean(&self, tag: MetricTag, statistic: &str) -> Option<f64> {
        let statistic = Statistic::named(statistic)?;
        let values: Vec<f64> =
            self.runs.iter().filter_map(|run| run.value(tag, statistic)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Returns why its runs say nothing about their load, if there is a reason.
    #[must_use]
    pub fn obstacle(&self) -> Option<String> {
        self.failed().find_map(|(_, failure)| match failure {
            Failure::Client(message) => Some(message.clone()),
            Failure::Server(message) => {
                Some(format!("{message}; check whether the server is still running"))
            }
            Failure::Load(_) | Failure::Cancelled(_) | Failure::Partial(_) => None,
        })
    }

    /// Returns whether its runs were ended before all of them were complete.
    #[must_use]
    pub fn was_cancelled(&self) -> bool {
        let is_cut = |failure: &Failure| failure.is_cancelled() || failure.is_partial();
        self.failed().any(|(_, failure)| is_cut(failure)) || self.is_short()
    }
}
