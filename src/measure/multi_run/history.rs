//! What a search has tried, whatever it searches for, and why it ended.

use std::fmt::Debug;

use base::setting::named;

use super::filter::is_feasible;
use super::sweep::{self, Parameter};
use super::{Filter, Trials, Variation};
use crate::metrics::Verdict;

/// The settings of a search, from which follows how cells are judged and what is tried next.
pub trait Search: Debug + Clone {
    /// What is known of a tried cell besides what every search knows.
    type Tried: Debug + Clone;
    /// What all cells together show.
    type Limit: Debug + Clone + Default;
    /// What is tried next.
    type Next;

    /// Returns what the runs of a cell show; `None` if they are not complete.
    fn tried(
        &self,
        filters: &[Filter],
        variation: &Variation,
        trials: &Trials,
    ) -> Option<Self::Tried>;

    /// Determines from all cells what is known of each.
    fn judge(history: &mut History<Self>);

    /// Returns what to try next, or why the search ended.
    fn next(history: &History<Self>) -> Result<Self::Next, End>;

    /// Returns the name of a cell in the reason why it ended a search.
    fn name(variation: &Variation) -> String;
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The range is narrow enough.
    Found,
    /// The upper bound is feasible.
    AllFeasible,
    /// The lower bound is infeasible.
    NoneFeasible,
    /// A load cannot be told in the runs that it may have.
    CannotTell,
    /// The maximum number of cells was tried.
    MostPoints,
    /// There are no other combinations.
    Exhausted,
    /// It was interrupted.
    Cancelled,
    /// A run could not be performed or saved, or the server responded to none of its requests.
    Failed,
}

// As in AIPerf's files.
named! {
    End {
        "monotonic_precision_reached" => Found,
        "monotonic_no_failure_in_range" => AllFeasible,
        "monotonic_no_pass_in_range" => NoneFeasible,
        "cannot_tell" => CannotTell,
        "max_iterations" => MostPoints,
        "search_space_exhausted" => Exhausted,
        "cancelled" => Cancelled,
        "aborted" => Failed,
    }
}

/// A cell that was tried, with its results.
#[derive(Debug, Clone)]
pub struct Point<T> {
    pub variation: Variation,
    /// What each condition limits, mean over the runs, and whether it is within the limit.
    pub observed: Vec<(Option<f64>, bool)>,
    /// Whether it seems to meet the conditions, by all that is known.
    pub is_feasible: bool,
    /// The worst verdict on client health.
    pub verdict: Option<Verdict>,
    /// Why a run failed, if one did.
    pub error: Option<String>,
    /// What this kind of search knows of it.
    pub tried: T,
}

/// The cells tried so far.
#[derive(Debug, Clone)]
pub struct History<S: Search> {
    /// The settings of the search.
    pub config: S,
    /// What it varies.
    pub parameters: Vec<Parameter>,
    /// The conditions that a cell must meet.
    pub filters: Vec<Filter>,
    /// Confidence level of the limit.
    pub confidence: f64,
    /// The cells, in the order in which they were tried.
    pub points: Vec<Point<S::Tried>>,
    /// What they show together.
    pub limit: S::Limit,
    /// The error that ended the search, if any.
    pub failure: Option<String>,
}

impl<S: Search> History<S> {
    /// Creates the history of a search with the settings `config` that has tried nothing.
    pub fn new(config: &S, sweep: &sweep::Config) -> Self {
        Self {
            config: config.clone(),
            parameters: sweep.parameters.clone(),
            filters: sweep.filters.clone(),
            confidence: super::Config::default().confidence_level,
            points: Vec::new(),
            limit: S::Limit::default(),
            failure: None,
        }
    }

    /// Summarizes `cells` up to the first one that says nothing about its settings.
    pub fn from_cells<'a>(
        config: &S,
        sweep: &sweep::Config,
        cells: impl Iterator<Item = (&'a Variation, &'a Trials)>,
    ) -> Self {
        let mut history = Self::new(config, sweep);
        for (variation, trials) in cells {
            history.confidence = trials.config.confidence_level;
            if let Some(why) = trials.obstacle() {
                history.fail(variation, &why);
                break;
            }
            let tried = config.tried(&history.filters, variation, trials);
            history.points.extend(tried.map(|tried| Point {
                variation: variation.clone(),
                observed: history.filters.iter().map(|filter| filter.evaluate(trials)).collect(),
                is_feasible: is_feasible(&history.filters, trials),
                verdict: trials.runs.iter().filter_map(|run| run.verdict).max(),
                error: trials.failed().map(|(_, failure)| failure.message().to_owned()).next(),
                tried,
            }));
        }
        history.judge();
        history
    }

    /// Determines from all cells what is known of each.
    pub fn judge(&mut self) {
        S::judge(self);
    }

    /// Ends the search at a cell because of an error.
    pub fn fail(&mut self, variation: &Variation, why: &str) {
        self.failure = Some(format!("{}: {why}", S::name(variation)));
    }

    /// Returns what to try next, or why the search ended.
    pub fn next(&self) -> Result<S::Next, End> {
        if self.failure.is_some() { Err(End::Failed) } else { S::next(self) }
    }

    /// Returns why the search ended, which is not to be continued.
    #[must_use]
    pub fn end(&self) -> End {
        self.next().err().unwrap_or(End::Cancelled)
    }
}
