//! Many runs of one load: statistics over them, and the search for the load that
//! still meets its objectives.
//!
//! Nothing here runs anything: it says which run comes next and what all of them
//! came to.

pub mod aggregate;
mod load;
pub mod pooled;
pub mod search;
pub mod student_t;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::metrics::metric::MetricResult;
use crate::metrics::{Accumulator, Verdict};
use crate::units::Nanos;

pub use load::{Dimension, Load};

/// How often a load is run, and what is the same each time.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Runs of a load (`--num-profile-runs`).
    pub runs: u64,
    /// Pause between two runs (`--profile-run-cooldown-seconds`).
    pub cooldown: Nanos,
    /// How sure an interval is to hold the mean, between 0 and 1 (`--confidence-level`).
    pub confidence_level: f64,
    /// Whether runs after the first have a warmup too.
    pub repeats_warmup: bool,
    /// Whether each run has a seed of its own, that follows from the given one.
    pub varies_seed: bool,
    /// The search that the runs are made for, if they are.
    pub search: Option<search::Config>,
}

impl Default for Config {
    /// A single run.
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
    /// Whether there is more than one run to make.
    #[must_use]
    pub const fn is_many(&self) -> bool {
        self.runs > 1 || self.search.is_some()
    }
}

/// A run's place among the others of its group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// The group, a UUID: the same of all its runs.
    pub sweep_id: String,
    /// Which run of one load it is, from 0.
    pub trial: u64,
    /// What files call it: `trial_0001` is the first.
    pub run_label: String,
    /// What makes its load another, where loads differ.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub variation: Option<Variation>,
}

impl Member {
    /// The run `trial`, from 0, of the load `variation` in the group `sweep_id`.
    #[must_use]
    pub fn new(sweep_id: Uuid, trial: u64, variation: Option<Variation>) -> Self {
        let run_label = format!("trial_{:04}", trial + 1);
        Self { sweep_id: sweep_id.to_string(), trial, run_label, variation }
    }

    /// Whether it is the first of the whole group.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.trial == 0 && self.variation.as_ref().is_none_or(|variation| variation.index == 0)
    }

    /// Its directory, in that of its load.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        Self::place(self.trial)
    }

    /// The directory of the run `trial`, from 0, in that of its load.
    #[must_use]
    pub fn place(trial: u64) -> PathBuf {
        PathBuf::from("profile_runs").join(format!("run_{:04}", trial + 1))
    }
}

/// One of the loads that a search tries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variation {
    /// What files call it, its directory too: `search_iter_0000` is the first.
    pub label: String,
    /// Which it is, from 0.
    pub index: u64,
    /// How much load it is.
    pub load: Load,
}

impl Variation {
    /// The load that is tried as number `index`, from 0.
    #[must_use]
    pub fn new(index: u64, load: Load) -> Self {
        Self { label: format!("search_iter_{index:04}"), index, load }
    }
}

/// What one of many runs came to.
#[derive(Debug, Clone)]
pub struct RunResult {
    /// Its place.
    pub member: Member,
    /// Its own id; absent where it could not begin.
    pub benchmark_id: Option<Uuid>,
    /// Its directory, in that of the group.
    pub directory: PathBuf,
    /// Its seed, if it began.
    pub random_seed: Option<u64>,
    /// Why it is left out of the statistics, if it is.
    pub failure: Option<Failure>,
    /// What its measurement came to, in display units.
    pub results: Vec<MetricResult>,
    /// The values that were measured; absent where nobody asks for them.
    pub values: Option<Accumulator>,
    /// Whether its client kept up.
    pub verdict: Option<Verdict>,
}

/// Why a run is left out of the statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Too few of its requests succeeded, or none in time: that is what the load does.
    Load(String),
    /// None of its requests succeeded, and none was late: the server is not there, or
    /// refuses everything, whatever the load.
    Server(String),
    /// It could not be made or kept, which says nothing of the load.
    Client(String),
    /// The user ended it.
    Cancelled(String),
}

impl Failure {
    /// What there is to say of it.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Load(message)
            | Self::Server(message)
            | Self::Client(message)
            | Self::Cancelled(message) => message,
        }
    }
}

impl RunResult {
    /// Of a run that came to nothing.
    #[must_use]
    pub const fn failed(member: Member, directory: PathBuf, failure: Failure) -> Self {
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

    /// The mean, or the single value, of the metric `tag`.
    #[must_use]
    pub fn average(&self, tag: &str) -> Option<f64> {
        let result = self.results.iter().find(|result| result.metric.tag == tag)?;
        Some(result.stats.avg).filter(|value| value.is_finite())
    }
}

/// The runs of a load, and what was asked of them.
#[derive(Debug, Clone)]
pub struct Trials {
    /// What was asked.
    pub config: Config,
    /// The group.
    pub sweep_id: Uuid,
    /// The runs that were begun, in order.
    pub runs: Vec<RunResult>,
}

impl Trials {
    /// The runs that statistics are made of.
    pub fn successful(&self) -> impl Iterator<Item = &RunResult> {
        self.runs.iter().filter(|run| run.failure.is_none())
    }

    /// The others that were begun, each with the reason.
    pub fn failed(&self) -> impl Iterator<Item = (&RunResult, &Failure)> {
        self.runs.iter().filter_map(|run| Some((run, run.failure.as_ref()?)))
    }

    /// Whether the user ended it before all runs were made.
    #[must_use]
    pub fn was_cancelled(&self) -> bool {
        let mut failures = self.failed();
        failures.any(|(_, failure)| matches!(failure, Failure::Cancelled(_)))
            || (self.runs.len() as u64) < self.config.runs
    }
}
