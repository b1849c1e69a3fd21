//! The search for the best load that meets the conditions.
//!
//! Starting at the lower bound, the load is doubled until a condition seems not to be met; then the
//! range between the highest load that seems to meet them and the next one is bisected. Loads that
//! cannot be told are repeated (`limit.rs`).

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::evidence::{Condition, tail};
use super::history::{self, End, Search};
use super::limit::{self, Level, Limit, Next, Standing, Stop};
use super::recipe::Recipe;
use super::{Dimension, Filter, Load, Range, Trials, Variation};
use crate::metrics::metric::{Metric, Objective};
use crate::metrics::{MetricTag, Registry, tag};

/// Maximum number of loads to try: enough for 1 to a million.
pub const MAX_POINTS: usize = 30;

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
    pub fn wants_highest(&self) -> bool {
        self.recipe == Recipe::MaxConcurrency
    }

    /// Returns the catalogue's row of the metric to maximize.
    #[must_use]
    pub fn row(&self) -> Option<&'static Metric> {
        Registry::row(self.objective)
    }
}

impl From<Stop> for End {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Found => Self::Found,
            Stop::AllMet => Self::AllFeasible,
            Stop::NoneMet => Self::NoneFeasible,
            Stop::CannotTell => Self::CannotTell,
        }
    }
}

/// What is known of a load that was tried.
#[derive(Debug, Clone)]
pub struct Tried {
    pub load: Load,
    /// The metric to maximize, mean over the runs.
    pub objective: Option<f64>,
    /// Whether what each condition limits is a percentile of too few requests.
    pub few: Vec<bool>,
    /// What its runs say about the conditions.
    pub level: Level,
    /// Whether it is shown to meet them, or not to.
    pub standing: Standing,
    /// Mean duration of its runs in seconds, and requests per second.
    pub pace: Option<(f64, f64)>,
}

/// A load that was tried, with its results.
pub type Point = history::Point<Tried>;

/// The loads tried so far, and the highest one that meets the conditions.
pub type History = history::History<Config>;

impl Search for Config {
    type Tried = Tried;
    type Limit = Limit;
    type Next = Next;

    fn tried(&self, filters: &[Filter], variation: &Variation, trials: &Trials) -> Option<Tried> {
        let level = Level::from_trials(filters, variation, trials)?;
        let mean = |tag| trials.mean(tag, "avg");
        // Of requests that arrive at random, more may come than in the long run.
        let is_of_requests = [tag::GOODPUT, tag::REQUEST_THROUGHPUT].contains(&self.objective);
        let most = match level.load {
            Load::RequestRate(rate) if is_of_requests => rate,
            _ => f64::INFINITY,
        };
        Some(Tried {
            load: level.load,
            objective: mean(self.objective).map(|value| value.min(most)),
            few: filters.iter().map(|it| trials.are_few(it.metric, &it.statistic)).collect(),
            level,
            standing: Standing::CannotTell,
            pace: mean(tag::BENCHMARK_DURATION).zip(mean(tag::REQUEST_THROUGHPUT)),
        })
    }

    /// Determines the limit from all loads, and what it says about each.
    fn judge(history: &mut History) {
        history.limit = Limit::fit(&history.conditions(), &history.levels(), history.confidence);
        for point in &mut history.points {
            let load = point.tried.load;
            point.tried.standing = history.limit.standing(load);
            point.is_feasible =
                history.limit.seems_met(load) && point.tried.standing != Standing::Missed;
        }
    }

    fn next(history: &History) -> Result<Next, End> {
        match limit::next(&history.config.range, &history.levels(), &history.limit) {
            Ok(Next::Load(_)) if history.points.len() >= MAX_POINTS => Err(End::MostPoints),
            found => found.map_err(End::from),
        }
    }

    fn name(variation: &Variation) -> String {
        Load::from_values(&variation.values)
            .map_or_else(|| variation.directory.clone(), |load| load.to_string())
    }
}

/// What further runs would tell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum More {
    /// A load would be told by about so many requests, which take about so many seconds.
    Requests {
        #[serde(rename = "value")]
        load: Load,
        requests: u64,
        seconds: f64,
    },
    /// The limit would be found in about so many runs, which take about so many seconds.
    Runs { runs: u64, seconds: f64 },
}

impl History {
    fn conditions(&self) -> Vec<Condition> {
        self.filters.iter().map(Condition::from_filter).chain([Condition::SUCCESS]).collect()
    }

    fn levels(&self) -> Vec<Level> {
        self.points.iter().map(|point| point.tried.level.clone()).collect()
    }

    /// Returns whether there is an answer: a load that is shown to meet the conditions, which the limit is
    /// not below, or that the limit is beyond the range.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.limit.low.is_some() || matches!(self.end(), End::AllFeasible | End::NoneFeasible)
    }

    /// Returns the loads at the limit that could not be believed in any run because of the client.
    pub fn doubted(&self) -> impl Iterator<Item = &Point> {
        let at = |load: Option<&Point>| load.map(|point| point.variation.index);
        let ends = [at(self.feasible_max()), at(self.infeasible_min())];
        let is_doubted = move |point: &&Point| {
            !point.tried.level.is_believed && ends.contains(&Some(point.variation.index))
        };
        self.points.iter().filter(is_doubted)
    }

    /// Returns what would tell more.
    #[must_use]
    pub fn more(&self) -> Option<More> {
        if self.next().is_ok() { self.runs_left() } else { self.requests_needed() }
    }

    /// Estimates the runs until the limit is found; `None` if it is not yet between two loads.
    #[must_use]
    pub fn runs_left(&self) -> Option<More> {
        self.next().ok()?;
        let (below, above) = (self.feasible_max()?, self.infeasible_min()?);
        let (low, high) = (below.tried.load.amount(), above.tried.load.amount());
        let narrow = match self.config.range.dimension {
            Dimension::Concurrency => (high * Range::PRECISION).max(1.0),
            Dimension::RequestRate => high * Range::PRECISION,
        };
        let divisions = ((high - low) / narrow).log2().ceil().max(0.0);
        let at_ends = [below, above].into_iter();
        let repeats = at_ends.filter(|it| it.tried.standing == Standing::CannotTell).count();
        let runs = (divisions as u64).max(repeats as u64).max(1);
        let seconds = below.tried.pace.or(above.tried.pace)?.0;
        Some(More::Runs { runs, seconds: seconds * runs as f64 })
    }

    /// Estimates how many requests would tell the load at the limit that cannot be told.
    fn requests_needed(&self) -> Option<More> {
        let ends = [self.feasible_max(), self.infeasible_min()];
        let is_open =
            |it: &&Point| it.tried.standing == Standing::CannotTell && it.tried.level.is_believed;
        let point = ends.into_iter().flatten().find(is_open)?;
        let tail = tail(self.confidence);
        let needed = |(condition, found): (Condition, &super::evidence::Evidence)| {
            let times = condition.times_needed(&found.block(), tail)?;
            Some((times * found.requests as f64).ceil() as u64)
        };
        let conditions = self.conditions();
        let all = conditions.into_iter().zip(&point.tried.level.evidence).map(needed);
        let requests = all.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
        // The first two digits: it is an estimate.
        let unit = 10_u64.pow(requests.max(1).ilog10().saturating_sub(1));
        let requests = requests.div_ceil(unit) * unit;
        let (_, rate) = point.tried.pace?;
        Some(More::Requests { load: point.tried.load, requests, seconds: requests as f64 / rate })
    }

    /// Returns whether any load is feasible.
    #[must_use]
    pub fn has_feasible(&self) -> bool {
        self.points.iter().any(|point| point.is_feasible)
    }

    /// Returns the best of the feasible loads, or of all if none is feasible.
    #[must_use]
    pub fn best(&self) -> Option<&Point> {
        let has_feasible = self.has_feasible();
        let candidates = self.points.iter().filter(|point| point.is_feasible || !has_feasible);
        let score = |point: &Point| {
            if self.config.wants_highest() {
                Some(point.tried.load.amount())
            } else {
                point.tried.objective
            }
        };
        let scored = candidates.filter_map(|point| Some((score(point)?, point)));
        scored.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, point)| point)
    }

    /// Returns the loads in ascending order.
    #[must_use]
    pub fn by_load(&self) -> Vec<&Point> {
        let mut points: Vec<&Point> = self.points.iter().collect();
        points.sort_by(|a, b| by_amount(a, b));
        points
    }

    /// Returns the loads tried next below and above the best.
    #[must_use]
    pub fn neighbours(&self) -> [Option<&Point>; 2] {
        let points = self.by_load();
        let best = self.best().map(|best| best.variation.index);
        let at = points.iter().position(|point| Some(point.variation.index) == best);
        let Some(at) = at else { return [None, None] };
        [at.checked_sub(1).map(|below| points[below]), points.get(at + 1).copied()]
    }

    /// Returns the highest feasible load.
    #[must_use]
    pub fn feasible_max(&self) -> Option<&Point> {
        let feasible = self.points.iter().filter(|point| point.is_feasible);
        feasible.max_by(|a, b| by_amount(a, b))
    }

    /// Returns the lowest infeasible load.
    #[must_use]
    pub fn infeasible_min(&self) -> Option<&Point> {
        let infeasible = self.points.iter().filter(|point| !point.is_feasible);
        infeasible.min_by(|a, b| by_amount(a, b))
    }
}

fn by_amount(a: &Point, b: &Point) -> Ordering {
    a.tried.load.amount().total_cmp(&b.tried.load.amount())
}

#[cfg(test)]
mod tests;
