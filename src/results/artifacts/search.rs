//! `search_history.json`: the cells that a search has tried, and its result.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value, json};

use base::setting::Named as _;
use measure::metrics::{MetricTag, Verdict};
use measure::multi_run::evidence::{Basis, Condition, tail};
use measure::multi_run::history::{End, History, Point, Search};
use measure::multi_run::limit::{Limit, Standing};
use measure::multi_run::recipe::Recipe;
use measure::multi_run::search::{self, More};
use measure::multi_run::{Dimension, Filter, Load, space};

use super::aggregate::make;
use super::error::{ArtifactError, WriteFailure};
use super::whole::{pretty, write_whole};
use super::{layout, replace};

/// The path of the file.
#[derive(Debug)]
pub struct SearchFile(PathBuf);

impl SearchFile {
    /// Creates `directory` and checks the path.
    pub fn create(directory: &Path) -> Result<Self, ArtifactError> {
        make(directory)?;
        let path = directory.join(layout::SEARCH_HISTORY);
        replace::check(&path)?;
        Ok(Self(path))
    }

    /// Replaces the file; to be called after each cell, and once the search has ended.
    pub fn write<S: Described>(
        &self,
        history: &History<S>,
        has_ended: bool,
    ) -> Result<PathBuf, WriteFailure> {
        let end = has_ended.then(|| history.end());
        write_whole(&self.0, |out| pretty(out, &SearchHistory::new(history, end)))
    }
}

/// A search as its file describes it.
pub trait Described: Search {
    /// Returns the settings.
    fn settings(history: &History<Self>) -> Settings<'_>;

    /// Returns the values of the objectives of a cell, if there are any.
    fn objectives(tried: &Self::Tried) -> Option<Vec<Option<f64>>>;

    /// Returns the best cells.
    fn best(history: &History<Self>) -> Vec<&Point<Self::Tried>>;

    /// Returns what a cell shows about each condition, if that is judged by its requests.
    fn shown(_: &History<Self>, _: &Self::Tried) -> Option<Shown> {
        None
    }

    /// Adds what is known of the limit, if the search looks for one.
    fn add_limit<'a>(_: &mut SearchHistory<'a>, _: &'a History<Self>) {}
}

/// The file.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SearchHistory<'a> {
    config: Settings<'a>,
    /// The cells in the order in which they were tried.
    iterations: Vec<TriedCell<'a>>,
    /// The best cells; null if nothing was measured.
    best_trials: Option<Vec<Trial<'a>>>,
    /// The loads tried next below and above the best one, of a search for a load.
    #[serde(skip_serializing_if = "Option::is_none")]
    best_neighbours: Option<Neighbours<'a>>,
    /// The loads between which the conditions cease to be met; null before any was tried.
    boundary_summary: Option<BoundarySummary<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<SearchedLimit>,
    /// The recipe (`--search-recipe`), if it is one.
    recipe: Option<Recipe>,
    /// Why the search ended; null while it goes on.
    convergence_reason: Option<End>,
    /// Where and why an aborted search ended.
    error: Option<&'a str>,
}

/// The settings of a search.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Settings<'a> {
    /// How the next cell is chosen.
    planner: &'static str,
    objectives: Vec<Goal<'a>>,
    /// Always empty.
    outcome_constraints: [(); 0],
    /// Maximum number of cells to try.
    max_iterations: usize,
    /// Number of combinations that are spread evenly.
    #[serde(skip_serializing_if = "Option::is_none")]
    n_initial_points: Option<usize>,
    /// Seed of the choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    random_seed: Option<u64>,
    search_space: Vec<Axis<'a>>,
    /// The conditions that a cell must meet.
    sla_filters: &'a [Filter],
    /// The objectives of a request, by metric, in its display unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<std::collections::BTreeMap<String, f64>>"))]
    slos: Option<Map<String, Value>>,
}

/// A statistic to optimize.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Goal<'a> {
    #[cfg_attr(test, schemars(with = "String"))]
    metric: MetricTag,
    stat: &'a str,
    /// `MAXIMIZE` or `MINIMIZE`.
    direction: String,
    /// Always null.
    threshold: (),
}

/// A setting that is varied, with its bounds.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Axis<'a> {
    /// Its path in AIPerf's files.
    path: &'a str,
    #[cfg_attr(test, schemars(with = "f64"))]
    lo: Value,
    #[cfg_attr(test, schemars(with = "f64"))]
    hi: Value,
    /// Whether only whole numbers are tried: `int` or `real`.
    kind: &'static str,
}

/// A cell that was tried.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TriedCell<'a> {
    /// Its number, from 0.
    iteration_idx: u64,
    /// Its settings by their paths in AIPerf's files.
    variation_values: &'a Map<String, Value>,
    /// The values of the objectives, means over its runs.
    objective_values: Option<Vec<Option<f64>>>,
    /// Whether it seems to meet all conditions, by all runs together.
    feasible: bool,
    /// Always false: where the evidence is not monotonic, neighbours are pooled.
    non_monotonic_warning: bool,
    /// What each condition limits, by names such as `time_to_first_token_p95`.
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, Option<f64>>"))]
    observed: Map<String, Value>,
    #[serde(flatten)]
    shown: Option<Shown>,
    /// The worst verdict on client health.
    client_verdict: Option<Verdict>,
    /// Why a run failed, if one did.
    error: Option<&'a str>,
    /// Its directory.
    directory: &'a str,
}

/// What a load shows about the conditions.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Shown {
    /// Whether it is shown to meet the conditions, or not to.
    standing: Standing,
    /// Number of runs that count.
    num_runs: u64,
    /// Whether the client of one of them was valid.
    is_believed: bool,
    /// What its runs say about each condition.
    evidence: Vec<Evidence>,
}

/// What the runs of a load say about a condition.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Evidence {
    /// What it limits, such as `time_to_first_token_p95`.
    condition: String,
    basis: Basis,
    /// Number of requests.
    requests: u64,
    /// Number of independent requests that would say as much, if the basis is a share.
    independent_requests: Option<f64>,
    /// Share of the requests that violate it, if the basis is a share.
    violating_share: Option<f64>,
    /// Lower end of the interval: of the share, or of the value; null if the basis is exact.
    ci_low: Option<f64>,
    /// Its upper end.
    ci_high: Option<f64>,
}

/// One of the best cells.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Trial<'a> {
    /// Its number, from 0.
    iteration_idx: u64,
    objective_values: Option<Vec<Option<f64>>>,
    variation_values: &'a Map<String, Value>,
    feasible: bool,
    /// Number of cells that are feasible.
    feasible_count: usize,
    /// Always 0: no other cell is better.
    pareto_rank: u64,
}

/// The loads next to the best one.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Neighbours<'a> {
    below: Option<TriedCell<'a>>,
    above: Option<TriedCell<'a>>,
}

/// The loads between which the conditions cease to be met.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BoundarySummary<'a> {
    /// The path of the load in AIPerf's files.
    swept_dim_path: &'static str,
    feasible_max: Option<Feasible>,
    infeasible_min: Option<Infeasible<'a>>,
}

/// The highest load that is feasible.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Feasible {
    value: Load,
    iteration_idx: u64,
    objective_value: Option<f64>,
}

/// The lowest load that is not.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Infeasible<'a> {
    value: Load,
    iteration_idx: u64,
    first_breach: Option<Breach<'a>>,
}

/// A condition that is not met.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Breach<'a> {
    #[serde(flatten)]
    filter: &'a Filter,
    observed: Option<f64>,
}

/// The highest load that meets the conditions, as a search has found it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SearchedLimit {
    /// Whether there is an answer: a load that is shown to meet the conditions, or that the limit is beyond
    /// the range.
    is_told: bool,
    #[serde(flatten)]
    known: KnownLimit,
    /// What would tell more; null if nothing is open.
    more: Option<More>,
}

/// The highest load that meets the conditions, as an interval.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct KnownLimit {
    pub(super) confidence_level: f64,
    #[serde(flatten)]
    pub(super) limit: Limit,
}

impl<'a> SearchHistory<'a> {
    /// Describes a search; `end` is why it ended.
    fn new<S: Described>(history: &'a History<S>, end: Option<End>) -> Self {
        let feasible = history.points.iter().filter(|point| point.is_feasible).count();
        let best = S::best(history).into_iter().map(|point| Trial {
            iteration_idx: point.variation.index,
            objective_values: S::objectives(&point.tried),
            variation_values: &point.variation.values,
            feasible: point.is_feasible,
            feasible_count: feasible,
            pareto_rank: 0,
        });
        let best: Vec<Trial<'_>> = best.collect();
        let iterations = history.points.iter().map(|point| TriedCell::new(history, point));
        let mut file = Self {
            config: S::settings(history),
            iterations: iterations.collect(),
            best_trials: (!best.is_empty()).then_some(best),
            best_neighbours: None,
            boundary_summary: None,
            limit: None,
            recipe: None,
            convergence_reason: end,
            error: history.failure.as_deref(),
        };
        S::add_limit(&mut file, history);
        file
    }
}

impl<'a> TriedCell<'a> {
    fn new<S: Described>(history: &History<S>, point: &'a Point<S::Tried>) -> Self {
        let observed = history.filters.iter().zip(&point.observed);
        Self {
            iteration_idx: point.variation.index,
            variation_values: &point.variation.values,
            objective_values: S::objectives(&point.tried),
            feasible: point.is_feasible,
            non_monotonic_warning: false,
            observed: observed.map(|(filter, (value, _))| (filter.key(), json!(value))).collect(),
            shown: S::shown(history, &point.tried),
            client_verdict: point.verdict,
            error: point.error.as_deref(),
            directory: &point.variation.directory,
        }
    }
}

impl Described for space::Config {
    fn settings(history: &space::History) -> Settings<'_> {
        let config = &history.config;
        let objectives = config.objectives.iter().map(|it| Goal {
            metric: it.metric,
            stat: &it.statistic,
            direction: it.direction.name().to_uppercase(),
            threshold: (),
        });
        let axes = history.parameters.iter().zip(&config.ranges).map(|(parameter, range)| Axis {
            path: &parameter.path,
            lo: range.json(range.lo),
            hi: range.json(range.hi),
            kind: if range.is_whole { "int" } else { "real" },
        });
        Settings {
            planner: "bayesian",
            objectives: objectives.collect(),
            outcome_constraints: [],
            max_iterations: config.iterations,
            n_initial_points: Some(config.initial),
            random_seed: Some(config.seed),
            search_space: axes.collect(),
            sla_filters: &history.filters,
            slos: None,
        }
    }

    fn objectives(tried: &space::Tried) -> Option<Vec<Option<f64>>> {
        Some(tried.objectives.clone())
    }

    fn best(history: &space::History) -> Vec<&space::Point> {
        history.best()
    }
}

impl Described for search::Config {
    fn settings(history: &search::History) -> Settings<'_> {
        let config = &history.config;
        let range = config.range;
        let slos = config.slos.iter();
        let slos = slos.map(|slo| (slo.tag.name().to_owned(), json!(slo.threshold)));
        let objective = Goal {
            metric: config.objective,
            stat: "avg",
            direction: "MAXIMIZE".to_owned(),
            threshold: (),
        };
        let axis = Axis {
            path: range.dimension.path(),
            lo: range.dimension.load(range.min).value(),
            hi: range.dimension.load(range.max).value(),
            kind: match range.dimension {
                Dimension::Concurrency => "int",
                Dimension::RequestRate => "real",
            },
        };
        Settings {
            planner: "monotonic",
            objectives: vec![objective],
            outcome_constraints: [],
            max_iterations: search::MAX_POINTS,
            n_initial_points: None,
            random_seed: None,
            search_space: vec![axis],
            sla_filters: &history.filters,
            slos: Some(slos.collect()),
        }
    }

    fn objectives(tried: &search::Tried) -> Option<Vec<Option<f64>>> {
        tried.objective.map(|objective| vec![Some(objective)])
    }

    fn best(history: &search::History) -> Vec<&search::Point> {
        history.best().into_iter().collect()
    }

    fn shown(history: &search::History, tried: &search::Tried) -> Option<Shown> {
        let evidence = history.filters.iter().zip(&tried.level.evidence).map(|(filter, found)| {
            let ends = found.interval(filter, tail(history.confidence));
            let basis = Condition::from_filter(filter).basis;
            Evidence {
                condition: filter.key(),
                basis,
                requests: found.requests,
                independent_requests: (basis == Basis::Share).then_some(found.weight),
                violating_share: (basis == Basis::Share).then_some(found.mean),
                ci_low: ends.map(|[low, _]| low),
                ci_high: ends.map(|[_, high]| high),
            }
        });
        Some(Shown {
            standing: tried.standing,
            num_runs: tried.level.runs,
            is_believed: tried.level.is_believed,
            evidence: evidence.collect(),
        })
    }

    fn add_limit<'a>(file: &mut SearchHistory<'a>, history: &'a search::History) {
        let [below, above] =
            history.neighbours().map(|point| point.map(|point| TriedCell::new(history, point)));
        let feasible = history.feasible_max().map(|point| Feasible {
            value: point.tried.load,
            iteration_idx: point.variation.index,
            objective_value: point.tried.objective,
        });
        let infeasible = history.infeasible_min().map(|point| Infeasible {
            value: point.tried.load,
            iteration_idx: point.variation.index,
            first_breach: breaches(&history.filters, &point.observed).next(),
        });
        let summary = BoundarySummary {
            swept_dim_path: history.config.range.dimension.path(),
            feasible_max: feasible,
            infeasible_min: infeasible,
        };
        let confidence_level = history.confidence;
        let known = KnownLimit { confidence_level, limit: history.limit };
        let (is_told, more) = (history.is_told(), history.more());
        file.best_neighbours = Some(Neighbours { below, above });
        file.boundary_summary = (!history.points.is_empty()).then_some(summary);
        file.limit = Some(SearchedLimit { is_told, known, more });
        file.recipe = Some(history.config.recipe);
    }
}

/// Iterates over the conditions that are not met, each with what was observed.
pub(super) fn breaches<'a>(
    filters: &'a [Filter],
    observed: &[(Option<f64>, bool)],
) -> impl Iterator<Item = Breach<'a>> {
    let all = filters.iter().zip(observed);
    let missed = all.filter(|(_, (_, is_met))| !is_met);
    missed.map(|(filter, (value, _))| Breach { filter, observed: *value })
}
