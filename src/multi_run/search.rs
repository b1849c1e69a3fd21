//! The search for the greatest load that still meets the objectives.
//!
//! From the lower bound the load doubles until too few requests are good; then the
//! range between the last good and the first bad one is halved.

use std::cmp::Ordering;

use super::{Dimension, Load, Trials, Variation};
use crate::metrics::{MetricTag, Verdict};

/// The recipe's name (`--search-recipe`).
pub const RECIPE: &str = "max-goodput-under-slo";

/// What is as great as it can be.
pub const OBJECTIVE: MetricTag = "goodput";

/// What says whether a load meets the objectives.
pub const FEASIBILITY: MetricTag = "good_request_fraction";

/// Loads that are tried at most: enough from 1 to a million.
pub const MOST_POINTS: usize = 30;

/// The range is narrow enough when it is this share of its upper end.
const PRECISION: f64 = 0.05;

/// What is searched for, and where.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// What is varied.
    pub dimension: Dimension,
    /// Least of it (`--concurrency-min`, `--request-rate-min`).
    pub min: f64,
    /// Most (`--concurrency-max`, `--request-rate-max`).
    pub max: f64,
    /// Least share of good requests, above 0 and at most 1 (`--slo-attainment-fraction`).
    pub attainment: f64,
    /// Whether the warmup has the measurement's load.
    pub warmup_follows: bool,
}

impl Config {
    /// The load that is tried first.
    #[must_use]
    pub const fn first(&self) -> Load {
        self.dimension.load(self.min)
    }
}

/// How far a search is.
#[derive(Debug, Clone)]
pub struct Search {
    config: Config,
    tried: usize,
    /// The greatest amount that was feasible.
    feasible: Option<f64>,
    /// The least that was not.
    infeasible: Option<f64>,
}

/// Why a search has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The range is narrow enough.
    Found,
    /// Even the upper bound is feasible.
    AllFeasible,
    /// Not even the lower bound is.
    NoneFeasible,
    /// Enough was tried.
    MostPoints,
    /// The user ended it.
    Cancelled,
    /// A run could not be made, or not be kept, or the server answered none of its requests.
    Failed,
}

impl End {
    /// As AIPerf's files name it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
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

impl Search {
    /// Nothing tried yet.
    #[must_use]
    pub const fn new(config: Config) -> Self {
        Self { config, tried: 0, feasible: None, infeasible: None }
    }

    /// The load to try next, or why there is none.
    pub fn next(&self) -> Result<Load, End> {
        let Config { dimension, min, max, .. } = self.config;
        let amount = match (self.feasible, self.infeasible) {
            _ if self.tried >= MOST_POINTS => return Err(End::MostPoints),
            (None, None) => min,
            (None, Some(_)) => return Err(End::NoneFeasible),
            (Some(good), None) if good >= max => return Err(End::AllFeasible),
            (Some(good), None) => (good * 2.0).min(max),
            (Some(good), Some(bad)) if self.is_narrow(good, bad) => return Err(End::Found),
            (Some(good), Some(bad)) => good.midpoint(bad),
        };
        Ok(dimension.load(amount))
    }

    /// Whether there is nothing worth a try between the last good and the first bad
    /// amount.
    fn is_narrow(&self, good: f64, bad: f64) -> bool {
        let has_none_between = self.config.dimension == Dimension::Concurrency && bad - good <= 1.0;
        has_none_between || (bad - good) / bad < PRECISION
    }

    /// Learns that [`next`](Self::next) was feasible, or was not.
    pub fn learn(&mut self, load: Load, is_feasible: bool) {
        self.tried += 1;
        let bound = if is_feasible { &mut self.feasible } else { &mut self.infeasible };
        *bound = Some(load.amount());
    }
}

/// A load that was tried.
#[derive(Debug, Clone)]
pub struct Point {
    /// Which, and how much of it.
    pub variation: Variation,
    /// Good requests a second, mean over its runs.
    pub goodput: Option<f64>,
    /// Share of good requests, mean over its runs.
    pub good_fraction: Option<f64>,
    /// Whether that is enough, in runs that all did what was asked.
    pub is_feasible: bool,
    /// The worst verdict on its clients.
    pub verdict: Option<Verdict>,
    /// Why a run of it failed, if one did.
    pub error: Option<String>,
}

impl Point {
    /// What the runs of a load came to, where `attainment` is wanted.
    #[must_use]
    pub fn of(variation: Variation, trials: &Trials, attainment: f64) -> Self {
        let mean = |tag: &str| {
            let values: Vec<f64> = trials.runs.iter().filter_map(|run| run.average(tag)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let good_fraction = mean(FEASIBILITY);
        let are_whole = !trials.was_cancelled() && trials.failed().next().is_none();
        Self {
            variation,
            goodput: mean(OBJECTIVE),
            good_fraction,
            is_feasible: are_whole && good_fraction.is_some_and(|share| share >= attainment),
            verdict: trials.runs.iter().filter_map(|run| run.verdict).max(),
            error: trials.failed().map(|(_, failure)| failure.message().to_owned()).next(),
        }
    }
}

/// What was tried so far, and why no more.
#[derive(Debug, Clone)]
pub struct History {
    /// What was searched for.
    pub config: Config,
    /// The loads, in the order tried.
    pub points: Vec<Point>,
    /// Why it ended; absent while it goes on.
    pub end: Option<End>,
    /// What went wrong and where, if that ended it.
    pub failure: Option<String>,
}

impl History {
    /// Nothing tried yet.
    #[must_use]
    pub const fn new(config: Config) -> Self {
        Self { config, points: Vec::new(), end: None, failure: None }
    }

    /// Whether any load meets the objectives.
    #[must_use]
    pub fn has_feasible(&self) -> bool {
        self.points.iter().any(|point| point.is_feasible)
    }

    /// The load with the greatest goodput, of those that meet the objectives; where
    /// none does, of all.
    #[must_use]
    pub fn best(&self) -> Option<&Point> {
        let has_feasible = self.has_feasible();
        let candidates = self.points.iter().filter(|point| point.is_feasible || !has_feasible);
        let scored = candidates.filter_map(|point| Some((point.goodput?, point)));
        scored.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, point)| point)
    }

    /// The loads from the least to the greatest.
    #[must_use]
    pub fn by_load(&self) -> Vec<&Point> {
        let mut points: Vec<&Point> = self.points.iter().collect();
        points.sort_by(|a, b| by_amount(a, b));
        points
    }

    /// The nearest loads that were tried below and above the best.
    #[must_use]
    pub fn neighbours(&self) -> [Option<&Point>; 2] {
        let points = self.by_load();
        let best = self.best().map(|best| best.variation.index);
        let at = points.iter().position(|point| Some(point.variation.index) == best);
        let Some(at) = at else { return [None, None] };
        [at.checked_sub(1).map(|below| points[below]), points.get(at + 1).copied()]
    }

    /// The greatest load that meets the objectives.
    #[must_use]
    pub fn feasible_max(&self) -> Option<&Point> {
        let feasible = self.points.iter().filter(|point| point.is_feasible);
        feasible.max_by(|a, b| by_amount(a, b))
    }

    /// The least that does not.
    #[must_use]
    pub fn infeasible_min(&self) -> Option<&Point> {
        let infeasible = self.points.iter().filter(|point| !point.is_feasible);
        infeasible.min_by(|a, b| by_amount(a, b))
    }
}

fn by_amount(a: &Point, b: &Point) -> Ordering {
    a.variation.load.amount().total_cmp(&b.variation.load.amount())
}

#[cfg(test)]
mod tests;
