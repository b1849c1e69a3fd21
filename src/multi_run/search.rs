//! The search for the highest load that meets the objectives.
//!
//! Starting at the lower bound, the load is doubled until too few requests are good; then the
//! range between the highest feasible and the lowest infeasible load is bisected.

use std::cmp::Ordering;

use super::{Load, Range, Trials, Variation};
use crate::metrics::tag;
use crate::metrics::{MetricTag, Verdict};
use serde::{Deserialize, Serialize};

/// The recipe's name (`--search-recipe`).
pub(crate) const RECIPE: &str = "max-goodput-under-slo";

/// The metric to maximize.
pub(crate) const OBJECTIVE: MetricTag = tag::GOODPUT;

/// The metric that determines whether a load is feasible.
pub(crate) const FEASIBILITY: MetricTag = tag::GOOD_REQUEST_FRACTION;

/// Maximum number of loads to try: enough for 1 to a million.
pub(crate) const MAX_POINTS: usize = 30;

/// The settings of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The loads to search.
    #[serde(flatten)]
    pub range: Range,
    /// Required fraction of good requests, above 0 and at most 1 (`--slo-attainment-fraction`).
    pub attainment: f64,
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The range is narrow enough.
    Found,
    /// The upper bound is feasible.
    AllFeasible,
    /// The lower bound is infeasible.
    NoneFeasible,
    /// The maximum number of loads was tried.
    MostPoints,
    /// The user interrupted it.
    Cancelled,
    /// A run could not be performed or saved, or the server responded to none of its requests.
    Failed,
}

impl End {
    /// Returns its name in AIPerf's files.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Found => "monotonic_precision_reached",
            Self::AllFeasible => "monotonic_no_failure_in_range",
            Self::NoneFeasible => "monotonic_no_pass_in_range",
            Self::MostPoints => "max_iterations",
            Self::Cancelled => "cancelled",
            Self::Failed => "aborted",
        }
    }
}

/// Returns the load to try after those `tried`, each with whether it is feasible, or why the search
/// ended.
fn next(range: &Range, tried: impl ExactSizeIterator<Item = (Load, bool)>) -> Result<Load, End> {
    if tried.len() >= MAX_POINTS {
        return Err(End::MostPoints);
    }
    let (mut feasible, mut infeasible) = (None, None);
    for (load, is_feasible) in tried {
        // The last of each kind is the nearest to the limit.
        *if is_feasible { &mut feasible } else { &mut infeasible } = Some(load.amount());
    }
    match (feasible, infeasible) {
        (None, None) => Ok(range.first()),
        (None, Some(_)) => Err(End::NoneFeasible),
        (Some(good), None) if good >= range.max => Err(End::AllFeasible),
        (Some(good), None) => Ok(range.doubled(good)),
        (Some(good), Some(bad)) => range.between(good, bad).ok_or(End::Found),
    }
}

/// A load that was tried, with its results.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) variation: Variation,
    pub(crate) load: Load,
    /// Good requests per second, mean over its runs.
    pub(crate) goodput: Option<f64>,
    /// Fraction of good requests, mean over its runs.
    pub(crate) good_fraction: Option<f64>,
    /// Whether it is feasible: enough requests are good, and all runs completed.
    pub(crate) is_feasible: bool,
    /// The worst verdict on client health.
    pub(crate) verdict: Option<Verdict>,
    /// Why a run failed, if one did.
    pub(crate) error: Option<String>,
}

impl Point {
    /// Summarizes the runs of a load, with the required fraction `attainment` of good requests;
    /// `None` if they say nothing about it.
    #[must_use]
    fn of(variation: &Variation, trials: &Trials, attainment: f64) -> Option<Self> {
        let says_nothing = trials.was_cancelled() || trials.obstacle().is_some();
        let load = Load::of(&variation.values).filter(|_| !says_nothing)?;
        let mean = |tag: MetricTag| {
            let values: Vec<f64> = trials.runs.iter().filter_map(|run| run.average(tag)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let good_fraction = mean(FEASIBILITY);
        let are_whole = trials.failed().next().is_none();
        Some(Self {
            variation: variation.clone(),
            load,
            goodput: mean(OBJECTIVE),
            good_fraction,
            is_feasible: are_whole && good_fraction.is_some_and(|share| share >= attainment),
            verdict: trials.runs.iter().filter_map(|run| run.verdict).max(),
            error: trials.failed().map(|(_, failure)| failure.message().to_owned()).next(),
        })
    }
}

/// The loads tried so far, and why the search ended.
#[derive(Debug, Clone)]
pub(crate) struct History {
    /// The settings of the search.
    pub(crate) config: Config,
    /// The loads, in the order in which they were tried.
    pub(crate) points: Vec<Point>,
    /// Why it ended; absent while it continues.
    pub(crate) end: Option<End>,
    /// The error that ended it, if any.
    pub(crate) failure: Option<String>,
}

impl History {
    /// Nothing tried yet.
    #[must_use]
    pub(crate) const fn new(config: Config) -> Self {
        Self { config, points: Vec::new(), end: None, failure: None }
    }

    /// Summarizes `cells`; without those that say nothing about their load.
    pub(crate) fn of<'a>(
        config: Config,
        cells: impl Iterator<Item = (&'a Variation, &'a Trials)>,
    ) -> Self {
        let point = |(variation, trials)| Point::of(variation, trials, config.attainment);
        Self { points: cells.filter_map(point).collect(), ..Self::new(config) }
    }

    /// Returns the next load to try, or why the search ended.
    pub(crate) fn next(&self) -> Result<Load, End> {
        next(&self.config.range, self.points.iter().map(|point| (point.load, point.is_feasible)))
    }

    /// Returns whether any load is feasible.
    #[must_use]
    pub(crate) fn has_feasible(&self) -> bool {
        self.points.iter().any(|point| point.is_feasible)
    }

    /// Returns the feasible load with the highest goodput, or the load with the highest goodput
    /// if none is feasible.
    #[must_use]
    pub(crate) fn best(&self) -> Option<&Point> {
        let has_feasible = self.has_feasible();
        let candidates = self.points.iter().filter(|point| point.is_feasible || !has_feasible);
        let scored = candidates.filter_map(|point| Some((point.goodput?, point)));
        scored.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, point)| point)
    }

    /// Returns the loads in ascending order.
    #[must_use]
    pub(crate) fn by_load(&self) -> Vec<&Point> {
        let mut points: Vec<&Point> = self.points.iter().collect();
        points.sort_by(|a, b| by_amount(a, b));
        points
    }

    /// Returns the loads tried next below and above the best.
    #[must_use]
    pub(crate) fn neighbours(&self) -> [Option<&Point>; 2] {
        let points = self.by_load();
        let best = self.best().map(|best| best.variation.index);
        let at = points.iter().position(|point| Some(point.variation.index) == best);
        let Some(at) = at else { return [None, None] };
        [at.checked_sub(1).map(|below| points[below]), points.get(at + 1).copied()]
    }

    /// Returns the highest feasible load.
    #[must_use]
    pub(crate) fn feasible_max(&self) -> Option<&Point> {
        let feasible = self.points.iter().filter(|point| point.is_feasible);
        feasible.max_by(|a, b| by_amount(a, b))
    }

    /// Returns the lowest infeasible load.
    #[must_use]
    pub(crate) fn infeasible_min(&self) -> Option<&Point> {
        let infeasible = self.points.iter().filter(|point| !point.is_feasible);
        infeasible.min_by(|a, b| by_amount(a, b))
    }
}

fn by_amount(a: &Point, b: &Point) -> Ordering {
    a.load.amount().total_cmp(&b.load.amount())
}

#[cfg(test)]
mod tests;
