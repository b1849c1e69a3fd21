//! The search for the most sessions in flight that still meet the objectives.
//!
//! From the lower bound the concurrency doubles until too few requests are good;
//! then the range between the last good and the first bad one is halved.

use super::Trials;
use super::Variation;
use crate::metrics::{MetricTag, Verdict};

/// The recipe's name (`--search-recipe`).
pub const RECIPE: &str = "max-goodput-under-slo";

/// What is as great as it can be.
pub const OBJECTIVE: MetricTag = "goodput";

/// What says whether a load meets the objectives.
pub const FEASIBILITY: MetricTag = "good_request_fraction";

/// Loads that are tried at most: enough from 1 to the most that may be in flight.
pub const MOST_POINTS: usize = 30;

/// The range is narrow enough when it is this share of its upper end.
const PRECISION: f64 = 0.05;

/// What is searched for, and where.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Least concurrency (`--concurrency-min`).
    pub min: u64,
    /// Most (`--concurrency-max`).
    pub max: u64,
    /// Least share of good requests, above 0 and at most 1 (`--slo-attainment-fraction`).
    pub attainment: f64,
    /// Whether the warmup has the measurement's concurrency.
    pub warmup_follows: bool,
}

/// How far a search is.
#[derive(Debug, Clone)]
pub struct Search {
    config: Config,
    tried: usize,
    /// The greatest concurrency that was feasible.
    feasible: Option<u64>,
    /// The least that was not.
    infeasible: Option<u64>,
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

    /// The concurrency to try next, or why there is none.
    pub fn next(&self) -> Result<u64, End> {
        let Config { min, max, .. } = self.config;
        match (self.feasible, self.infeasible) {
            _ if self.tried >= MOST_POINTS => Err(End::MostPoints),
            (None, None) => Ok(min),
            (None, Some(_)) => Err(End::NoneFeasible),
            (Some(good), None) if good >= max => Err(End::AllFeasible),
            (Some(good), None) => Ok(good.saturating_mul(2).min(max)),
            (Some(good), Some(bad)) => {
                let gap = bad - good;
                let is_narrow = gap <= 1 || gap as f64 / (bad as f64) < PRECISION;
                if is_narrow { Err(End::Found) } else { Ok(good + gap / 2) }
            }
        }
    }

    /// Learns that [`next`](Self::next) was feasible, or was not.
    pub fn learn(&mut self, concurrency: u64, is_feasible: bool) {
        self.tried += 1;
        let bound = if is_feasible { &mut self.feasible } else { &mut self.infeasible };
        *bound = Some(concurrency);
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

    /// The loads in order of their concurrency.
    #[must_use]
    pub fn by_concurrency(&self) -> Vec<&Point> {
        let mut points: Vec<&Point> = self.points.iter().collect();
        points.sort_by_key(|point| point.variation.concurrency);
        points
    }

    /// The nearest loads that were tried below and above the best.
    #[must_use]
    pub fn neighbours(&self) -> [Option<&Point>; 2] {
        let points = self.by_concurrency();
        let best = self.best().map(|best| best.variation.index);
        let at = points.iter().position(|point| Some(point.variation.index) == best);
        let Some(at) = at else { return [None, None] };
        [at.checked_sub(1).map(|below| points[below]), points.get(at + 1).copied()]
    }

    /// The greatest concurrency that meets the objectives.
    #[must_use]
    pub fn feasible_max(&self) -> Option<&Point> {
        let feasible = self.points.iter().filter(|point| point.is_feasible);
        feasible.max_by_key(|point| point.variation.concurrency)
    }

    /// The least that does not.
    #[must_use]
    pub fn infeasible_min(&self) -> Option<&Point> {
        let infeasible = self.points.iter().filter(|point| !point.is_feasible);
        infeasible.min_by_key(|point| point.variation.concurrency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn config(min: u64, max: u64) -> Config {
        Config { min, max, attainment: 0.95, warmup_follows: true }
    }

    /// Tries a server that holds up to `capacity`.
    fn search(min: u64, max: u64, capacity: u64) -> (Vec<u64>, End) {
        let mut search = Search::new(config(min, max));
        let mut tried = Vec::new();
        loop {
            match search.next() {
                Ok(concurrency) => {
                    tried.push(concurrency);
                    search.learn(concurrency, concurrency <= capacity);
                }
                Err(end) => return (tried, end),
            }
        }
    }

    #[test]
    fn doubles_then_halves() {
        assert_eq!(search(1, 1000, 5), (vec![1, 2, 4, 8, 6, 5], End::Found));
        assert_eq!(search(1, 1000, 1), (vec![1, 2], End::Found));
        assert_eq!(search(1, 10, 100), (vec![1, 2, 4, 8, 10], End::AllFeasible));
        assert_eq!(search(3, 10, 2), (vec![3], End::NoneFeasible));
        // (104 - 100) / 104 is below 5 %.
        assert_eq!(search(1, 1000, 100).0, [1, 2, 4, 8, 16, 32, 64, 128, 96, 112, 104, 100]);
    }

    fn point(index: u64, concurrency: u64, goodput: Option<f64>, is_feasible: bool) -> Point {
        Point {
            variation: Variation::new(index, concurrency),
            goodput,
            good_fraction: None,
            is_feasible,
            verdict: None,
            error: None,
        }
    }

    #[test]
    fn the_best_is_feasible_if_any_is() {
        let points = vec![
            point(0, 1, Some(1.0), true),
            point(1, 8, Some(9.0), false),
            point(2, 4, Some(4.0), true),
            point(3, 6, None, false),
        ];
        let history = History { points, ..History::new(config(1, 8)) };
        assert_eq!(history.best().unwrap().variation.concurrency, 4);
        let neighbours = history.neighbours().map(|point| point.unwrap().variation.concurrency);
        assert_eq!(neighbours, [1, 6]);
        assert_eq!(history.feasible_max().unwrap().variation.concurrency, 4);
        assert_eq!(history.infeasible_min().unwrap().variation.concurrency, 6);
        let none = History {
            points: vec![point(0, 1, Some(1.0), false), point(1, 2, Some(3.0), false)],
            ..history
        };
        assert!(!none.has_feasible());
        assert_eq!(none.best().unwrap().variation.concurrency, 2);
        assert!(none.neighbours()[1].is_none());
    }

    proptest! {
        #[test]
        fn every_search_ends_near_the_capacity(
            min in 1_u64..100, length in 1_u64..1_000_000, capacity in 0_u64..2_000_000,
        ) {
            let max = min + length;
            let (tried, end) = search(min, max, capacity);
            prop_assert!(tried.len() < MOST_POINTS, "{}", tried.len());
            prop_assert!(tried.iter().all(|at| (min..=max).contains(at)));
            let good = tried.iter().copied().filter(|at| *at <= capacity).max();
            match end {
                End::NoneFeasible => prop_assert!(capacity < min),
                End::AllFeasible => prop_assert!(capacity >= max),
                End::Found => {
                    let short = capacity - good.unwrap();
                    prop_assert!(short as f64 <= 0.06 * capacity as f64, "{good:?} {capacity}");
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}
