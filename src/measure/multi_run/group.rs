//! The results of the runs of a command that performs several.

use uuid::Uuid;

use super::sweep::Results;
use super::{Config, Failure, RunResult, Trials, Variation};

/// The results of several runs: of one load, or of the cells of a sweep.
#[derive(Debug)]
pub enum GroupResults {
    Trials(Box<Trials>),
    Sweep(Box<Results>),
}

impl GroupResults {
    /// Computes the statistics of `cells`: those of a sweep if `config` has one, otherwise a single
    /// one without a variation.
    pub fn from_cells(
        config: &Config,
        sweep_id: Uuid,
        mut cells: Vec<(Option<Variation>, Trials)>,
    ) -> Self {
        if let Some(sweep) = &config.sweep {
            let cells = cells.into_iter().filter_map(|(cell, trials)| Some((cell?, trials)));
            return Self::Sweep(Box::new(Results::from_cells(config, sweep, sweep_id, cells)));
        }
        let trials = cells.pop().map(|(_, trials)| trials);
        let trials = trials.unwrap_or_else(|| Trials::new(config.clone(), sweep_id));
        Self::Trials(Box::new(trials))
    }

    /// Iterates over all runs that were started.
    pub fn runs(&self) -> Box<dyn Iterator<Item = &RunResult> + '_> {
        match self {
            Self::Trials(trials) => Box::new(trials.runs.iter()),
            Self::Sweep(results) => Box::new(results.runs().map(|(_, run)| run)),
        }
    }

    /// Iterates over the reasons of the runs that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.runs().filter_map(|run| run.failure.as_ref())
    }
}
