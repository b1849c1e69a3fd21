//! Repeated runs of one load with statistics over them, and the search for the highest load
//! that meets its objectives.
//!
//! Nothing here performs runs: this module determines which run comes next and summarizes the
//! results.

pub(crate) mod aggregate;
mod load;
pub(crate) mod pooled;
pub(crate) mod search;
pub(crate) mod student_t;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::metrics::metric::MetricResult;
use crate::metrics::{Accumulator, MetricTag, Verdict};
use crate::setting::InvalidSetting;
use crate::units::Nanos;

pub use load::{Dimension, Load};

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
    /// Whether each run has its own seed, derived from the common one.
    pub varies_seed: bool,
    /// The search that the runs are part of, if any.
    pub search: Option<search::Config>,
}

impl Default for Config {
    /// Returns the settings of a single run.
    fn default() -> Self {
        Self {
            runs: 1,
            cooldown: Nanos::ZERO,
            confidence_level: 0.95,
            repeats_warmup: false,
            varies_seed: false,
            search: None,
        }
    }
}

impl Config {
    /// Checks the range of the search.
    pub(crate) fn check(&self) -> Result<(), InvalidSetting> {
        match &self.search {
            Some(search) if search.min >= search.max => {
                let [lower, upper] = search.dimension.flags();
                let why = format!("must be less than {upper} ({}), got {}", search.max, search.min);
                Err(InvalidSetting::new(lower, why))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether there can be more than one run.
    #[must_use]
    pub(crate) const fn is_many(&self) -> bool {
        self.runs > 1 || self.search.is_some()
    }
}

/// A run's position in its group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// The group's UUID, the same for all of its runs.
    pub(crate) sweep_id: String,
    /// Index of the run among those of its load, from 0.
    pub(crate) trial: u64,
    /// Its label in the files; `trial_0001` is the first.
    pub(crate) run_label: String,
    /// Its load, if loads differ.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) variation: Option<Variation>,
}

impl Member {
    /// Directory of the runs of a load, relative to the load's directory.
    pub(crate) const PLACES: &str = "profile_runs";

    /// Creates the run with the index `trial` of the load `variation` in the group `sweep_id`.
    #[must_use]
    pub(crate) fn new(sweep_id: Uuid, trial: u64, variation: Option<Variation>) -> Self {
        let run_label = format!("trial_{:04}", trial + 1);
        Self { sweep_id: sweep_id.to_string(), trial, run_label, variation }
    }

    /// Returns whether it is the first run of the group.
    #[must_use]
    pub(crate) fn is_first(&self) -> bool {
        self.trial == 0 && self.variation.as_ref().is_none_or(|variation| variation.index == 0)
    }

    /// Returns its directory, relative to its load's directory.
    #[must_use]
    pub(crate) fn directory(&self) -> PathBuf {
        Self::place(self.trial)
    }

    /// Returns the directory of the run with the index `trial`, relative to its load's directory.
    #[must_use]
    pub(crate) fn place(trial: u64) -> PathBuf {
        PathBuf::from(Self::PLACES).join(format!("run_{:04}", trial + 1))
    }
}

/// A load that a search tries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Variation {
    /// Its label in the files and its directory; `search_iter_0000` is the first.
    pub(crate) label: String,
    /// Its index, from 0.
    pub(crate) index: u64,
    pub(crate) load: Load,
}

impl Variation {
    pub(crate) const LABEL: &str = "search_iter_";

    #[must_use]
    pub(crate) fn new(index: u64, load: Load) -> Self {
        Self { label: format!("{}{index:04}", Self::LABEL), index, load }
    }
}

/// The result of a run of a group.
#[derive(Debug, Clone)]
pub(crate) struct RunResult {
    /// The run.
    pub(crate) member: Member,
    /// Its benchmark ID; absent if it could not start.
    pub(crate) benchmark_id: Option<Uuid>,
    /// Its directory, relative to the group's.
    pub(crate) directory: PathBuf,
    /// Its seed, if it started.
    pub(crate) random_seed: Option<u64>,
    /// Why it is excluded from the statistics, if it is.
    pub(crate) failure: Option<Failure>,
    /// The results of its measurement, in display units.
    pub(crate) results: Vec<MetricResult>,
    /// The measured values; absent if they are not needed.
    pub(crate) values: Option<Accumulator>,
    /// The verdict on its client health.
    pub(crate) verdict: Option<Verdict>,
}

/// Why a run is excluded from the statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The load caused it: too few of its requests succeeded, or none in time.
    Load(String),
    /// The server caused it, regardless of the load: no request succeeded and none was late,
    /// so the server is down or rejects everything.
    Server(String),
    /// The run could not be performed or saved, which says nothing about the load.
    Client(String),
    /// The user interrupted it.
    Cancelled(String),
}

impl Failure {
    #[must_use]
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Load(message)
            | Self::Server(message)
            | Self::Client(message)
            | Self::Cancelled(message) => message,
        }
    }
}

impl RunResult {
    /// Creates the result of a failed run.
    #[must_use]
    pub(crate) const fn failed(member: Member, directory: PathBuf, failure: Failure) -> Self {
        Self {
            member,
            benchmark_id: None,
            directory,
            random_seed: None,
            failure: Some(failure),
            results: Vec::new(),
            values: None,
            verdict: None,
        }
    }

    /// Returns the mean, or the single value, of the metric `tag`.
    #[must_use]
    pub(crate) fn average(&self, tag: MetricTag) -> Option<f64> {
        let result = self.results.iter().find(|result| result.metric.tag == tag)?;
        Some(result.stats.avg).filter(|value| value.is_finite())
    }
}

/// The runs of a load, with their settings.
#[derive(Debug, Clone)]
pub(crate) struct Trials {
    /// The settings.
    pub(crate) config: Config,
    /// The group.
    pub(crate) sweep_id: Uuid,
    /// The runs that were started, in order.
    pub(crate) runs: Vec<RunResult>,
}

impl Trials {
    /// Returns the runs that the statistics cover.
    pub(crate) fn successful(&self) -> impl Iterator<Item = &RunResult> {
        self.runs.iter().filter(|run| run.failure.is_none())
    }

    /// Returns the other runs that were started, each with the reason.
    pub(crate) fn failed(&self) -> impl Iterator<Item = (&RunResult, &Failure)> {
        self.runs.iter().filter_map(|run| Some((run, run.failure.as_ref()?)))
    }

    /// Returns whether the user interrupted before all runs were performed.
    #[must_use]
    pub(crate) fn was_cancelled(&self) -> bool {
        let mut failures = self.failed();
        failures.any(|(_, failure)| matches!(failure, Failure::Cancelled(_)))
            || (self.runs.len() as u64) < self.config.runs
    }
}
