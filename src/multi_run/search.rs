//! The search for the best load that meets the conditions.
//!
//! Starting at the lower bound, the load is doubled until a condition is not met; then the range
//! between the highest feasible and the lowest infeasible load is bisected.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::filter::is_feasible;
use super::recipe::Recipe;
use super::{Filter, Load, Range, Trials, Variation};
use crate::metrics::metric::{Metric, Objective};
use crate::metrics::{MetricTag, Registry, Verdict};

/// Maximum number of loads to try: enough for 1 to a million.
pub(crate) const MAX_POINTS: usize = 30;

/// The settings of a search. Its conditions are those of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The recipe (`--search-recipe`).
    pub recipe: Recipe,
    /// The loads to search.
    #[serde(flatten)]
    pub range: Range,
    /// The metric to maximize.
    pub objective: MetricTag,
    /// The objectives of a request, for the files.
    pub slos: Vec<Objective>,
}

impl Config {
    /// Returns whether the best load is the highest, and not that with the highest objective.
    #[must_use]
    pub(crate) fn wants_highest(&self) -> bool {
        self.recipe == Recipe::MaxConcurrency
    }

    /// Returns the catalogue's row of the metric to maximize.
    #[must_use]
    pub(crate) fn row(&self) -> Option<&'static Metric> {
        Registry::row(self.objective)
    }
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
    /// It was interrupted.
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
    /// The metric to maximize, mean over the runs.
    pub(crate) objective: Option<f64>,
    /// What each condition limits, and whether it is met.
    pub(crate) observed: Vec<(Option<f64>, bool)>,
    /// Whether it is feasible: all conditions are met, and all runs completed.
    pub(crate) is_feasible: bool,
    /// The worst verdict on client health.
    pub(crate) verdict: Option<Verdict>,
    /// Why a run failed, if one did.
    pub(crate) error: Option<String>,
}

impl Point {
    /// Summarizes the runs of a load; `None` if the user interrupted them.
    #[must_use]
    fn of(
        config: &Config,
        filters: &[Filter],
        variation: &Variation,
        trials: &Trials,
    ) -> Option<Self> {
        let load = Load::of(&variation.values).filter(|_| !trials.was_cancelled())?;
        Some(Self {
            variation: variation.clone(),
            load,
            objective: trials.mean(config.objective, "avg"),
            observed: filters.iter().map(|filter| filter.of(trials)).collect(),
            is_feasible: is_feasible(filters, trials),
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
    /// The conditions that a load must meet.
    pub(crate) filters: Vec<Filter>,
    /// The loads, in the order in which they were tried.
    pub(crate) points: Vec<Point>,
    /// The error that ended it, if any.
    pub(crate) failure: Option<String>,
}

impl History {
    /// Summarizes `cells` up to the first one that says nothing about its load.
    pub(crate) fn of<'a>(
        config: &Config,
        filters: &[Filter],
        cells: impl Iterator<Item = (&'a Variation, &'a Trials)>,
    ) -> Self {
        let mut history = Self {
            config: config.clone(),
            filters: filters.to_vec(),
            points: Vec::new(),
            failure: None,
        };
        for (variation, trials) in cells {
            if let Some(why) = trials.obstacle() {
                history.fail(variation, &why);
                break;
            }
            history.points.extend(Point::of(config, filters, variation, trials));
        }
        history
    }

    /// Ends the search at a load because of an error.
    pub(crate) fn fail(&mut self, variation: &Variation, why: &str) {
        let place = Load::of(&variation.values).map(|load| format!("{load}: "));
        self.failure = Some(format!("{}{why}", place.unwrap_or_default()));
    }

    /// Returns the next load to try, or why the search ended.
    pub(crate) fn next(&self) -> Result<Load, End> {
        if self.failure.is_some() {
            return Err(End::Failed);
        }
        next(&self.config.range, self.points.iter().map(|point| (point.load, point.is_feasible)))
    }

    /// Returns why the search ended, which is not to be continued.
    #[must_use]
    pub(crate) fn end(&self) -> End {
        self.next().err().unwrap_or(End::Cancelled)
    }

    /// Returns whether any load is feasible.
    #[must_use]
    pub(crate) fn has_feasible(&self) -> bool {
        self.points.iter().any(|point| point.is_feasible)
    }

    /// Returns the best of the feasible loads, or of all if none is feasible.
    #[must_use]
    pub(crate) fn best(&self) -> Option<&Point> {
        let has_feasible = self.has_feasible();
        let candidates = self.points.iter().filter(|point| point.is_feasible || !has_feasible);
        let score = |point: &Point| {
            if self.config.wants_highest() { Some(point.load.amount()) } else { point.objective }
        };
        let scored = candidates.filter_map(|point| Some((score(point)?, point)));
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
