//! The search for the best load that meets the conditions.
//!
//! Starting at the lower bound, the load is doubled until a condition seems not to be met; then the
//! range between the highest load that seems to meet them and the next one is bisected. Loads that
//! cannot be told are repeated (`limit.rs`).

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::evidence::{Condition, tail};
use super::limit::{self, Level, Limit, Next, Standing, Stop};
use super::recipe::Recipe;
use super::{Dimension, Filter, Load, Range, Trials, Variation};
use crate::metrics::metric::{Metric, Objective};
use crate::metrics::{MetricTag, Registry, Verdict, tag};

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
    /// A load cannot be told in the runs that it may have.
    CannotTell,
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
            Self::CannotTell => "cannot_tell",
            Self::MostPoints => "max_iterations",
            Self::Cancelled => "cancelled",
            Self::Failed => "aborted",
        }
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

/// A load that was tried, with its results.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) variation: Variation,
    pub(crate) load: Load,
    /// The metric to maximize, mean over the runs.
    pub(crate) objective: Option<f64>,
    /// What each condition limits, mean over the runs, and whether it is within the limit.
    pub(crate) observed: Vec<(Option<f64>, bool)>,
    /// Whether each is a percentile of too few requests.
    pub(crate) few: Vec<bool>,
    /// What its runs say about the conditions.
    pub(crate) level: Level,
    /// Whether it is shown to meet them, or not to.
    pub(crate) standing: Standing,
    /// Whether it seems to meet them, by all that is known.
    pub(crate) is_feasible: bool,
    /// The worst verdict on client health.
    pub(crate) verdict: Option<Verdict>,
    /// Why a run failed, if one did.
    pub(crate) error: Option<String>,
    /// Mean duration of its runs in seconds, and requests per second.
    pub(crate) pace: Option<(f64, f64)>,
}

impl Point {
    /// Summarizes the runs of a load; `None` if they are not complete.
    #[must_use]
    fn of(
        config: &Config,
        filters: &[Filter],
        variation: &Variation,
        trials: &Trials,
    ) -> Option<Self> {
        let level = Level::of(filters, variation, trials)?;
        let mean = |tag| trials.mean(tag, "avg");
        // Of requests that arrive at random, more may come than in the long run.
        let is_of_requests = [tag::GOODPUT, tag::REQUEST_THROUGHPUT].contains(&config.objective);
        let most = match level.load {
            Load::RequestRate(rate) if is_of_requests => rate,
            _ => f64::INFINITY,
        };
        Some(Self {
            variation: variation.clone(),
            load: level.load,
            objective: mean(config.objective).map(|value| value.min(most)),
            observed: filters.iter().map(|filter| filter.of(trials)).collect(),
            few: filters.iter().map(|it| trials.are_few(it.metric, &it.statistic)).collect(),
            level,
            standing: Standing::CannotTell,
            is_feasible: false,
            verdict: trials.runs.iter().filter_map(|run| run.verdict).max(),
            error: trials.failed().map(|(_, failure)| failure.message().to_owned()).next(),
            pace: mean(tag::BENCHMARK_DURATION).zip(mean(tag::REQUEST_THROUGHPUT)),
        })
    }
}

/// What further runs would tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum More {
    /// A load would be told by about so many requests, which take about so many seconds.
    Requests { load: Load, requests: u64, seconds: f64 },
    /// The limit would be found in about so many runs, which take about so many seconds.
    Runs { runs: u64, seconds: f64 },
}

/// The loads tried so far, and why the search ended.
#[derive(Debug, Clone)]
pub(crate) struct History {
    /// The settings of the search.
    pub(crate) config: Config,
    /// The conditions that a load must meet.
    pub(crate) filters: Vec<Filter>,
    /// Confidence level of the limit.
    pub(crate) confidence: f64,
    /// The loads, in the order in which they were tried.
    pub(crate) points: Vec<Point>,
    /// The highest load that meets the conditions.
    pub(crate) limit: Limit,
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
            confidence: super::Config::default().confidence_level,
            points: Vec::new(),
            limit: Limit::default(),
            failure: None,
        };
        for (variation, trials) in cells {
            history.confidence = trials.config.confidence_level;
            if let Some(why) = trials.obstacle() {
                history.fail(variation, &why);
                break;
            }
            history.points.extend(Point::of(config, filters, variation, trials));
        }
        history.judge();
        history
    }

    /// Determines the limit from all loads, and what it says about each.
    pub(crate) fn judge(&mut self) {
        self.limit = Limit::of(&self.conditions(), &self.levels(), self.confidence);
        for point in &mut self.points {
            point.standing = self.limit.standing(point.load);
            point.is_feasible =
                self.limit.seems_met(point.load) && point.standing != Standing::Missed;
        }
    }

    fn conditions(&self) -> Vec<Condition> {
        self.filters.iter().map(Condition::of).chain([Condition::SUCCESS]).collect()
    }

    fn levels(&self) -> Vec<Level> {
        self.points.iter().map(|point| point.level.clone()).collect()
    }

    /// Ends the search at a load because of an error.
    pub(crate) fn fail(&mut self, variation: &Variation, why: &str) {
        let place = Load::of(&variation.values).map(|load| format!("{load}: "));
        self.failure = Some(format!("{}{why}", place.unwrap_or_default()));
    }

    /// Returns the next run, or why the search ended.
    pub(crate) fn next(&self) -> Result<Next, End> {
        if self.failure.is_some() {
            return Err(End::Failed);
        }
        match limit::next(&self.config.range, &self.levels(), &self.limit) {
            Ok(Next::Load(_)) if self.points.len() >= MAX_POINTS => Err(End::MostPoints),
            found => found.map_err(End::from),
        }
    }

    /// Returns why the search ended, which is not to be continued.
    #[must_use]
    pub(crate) fn end(&self) -> End {
        self.next().err().unwrap_or(End::Cancelled)
    }

    /// Returns whether there is an answer: a load that is shown to meet the conditions, which the limit is
    /// not below, or that the limit is beyond the range.
    #[must_use]
    pub(crate) fn is_told(&self) -> bool {
        self.limit.low.is_some() || matches!(self.end(), End::AllFeasible | End::NoneFeasible)
    }

    /// Returns the loads at the limit that could not be believed in any run because of the client.
    pub(crate) fn doubted(&self) -> impl Iterator<Item = &Point> {
        let at = |load: Option<&Point>| load.map(|point| point.variation.index);
        let ends = [at(self.feasible_max()), at(self.infeasible_min())];
        let is_doubted = move |point: &&Point| {
            !point.level.is_believed && ends.contains(&Some(point.variation.index))
        };
        self.points.iter().filter(is_doubted)
    }

    /// Returns what would tell more.
    #[must_use]
    pub(crate) fn more(&self) -> Option<More> {
        if self.next().is_ok() { self.runs_left() } else { self.requests_needed() }
    }

    /// Estimates the runs until the limit is found; `None` if it is not yet between two loads.
    #[must_use]
    pub(crate) fn runs_left(&self) -> Option<More> {
        self.next().ok()?;
        let (below, above) = (self.feasible_max()?, self.infeasible_min()?);
        let (low, high) = (below.load.amount(), above.load.amount());
        let narrow = match self.config.range.dimension {
            Dimension::Concurrency => (high * Range::PRECISION).max(1.0),
            Dimension::RequestRate => high * Range::PRECISION,
        };
        let divisions = ((high - low) / narrow).log2().ceil().max(0.0);
        let at_ends = [below, above].into_iter();
        let repeats = at_ends.filter(|it| it.standing == Standing::CannotTell).count();
        let runs = (divisions as u64).max(repeats as u64).max(1);
        let seconds = below.pace.or(above.pace)?.0;
        Some(More::Runs { runs, seconds: seconds * runs as f64 })
    }

    /// Estimates how many requests would tell the load at the limit that cannot be told.
    fn requests_needed(&self) -> Option<More> {
        let ends = [self.feasible_max(), self.infeasible_min()];
        let is_open = |it: &&Point| it.standing == Standing::CannotTell && it.level.is_believed;
        let point = ends.into_iter().flatten().find(is_open)?;
        let tail = tail(self.confidence);
        let needed = |(condition, found): (Condition, &super::evidence::Evidence)| {
            let times = condition.times_needed(&found.block(), tail)?;
            Some((times * found.requests as f64).ceil() as u64)
        };
        let conditions = self.conditions();
        let all = conditions.into_iter().zip(&point.level.evidence).map(needed);
        let requests = all.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
        // The first two digits: it is an estimate.
        let unit = 10_u64.pow(requests.max(1).ilog10().saturating_sub(1));
        let requests = requests.div_ceil(unit) * unit;
        let (_, rate) = point.pace?;
        Some(More::Requests { load: point.load, requests, seconds: requests as f64 / rate })
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
