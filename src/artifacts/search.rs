//! `search_history.json`: the loads that a search has tried, and its result.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::aggregate::{make, pretty};
use super::error::{ArtifactError, WriteFailure};
use super::whole::write_whole;
use super::{layout, replace};
use crate::metrics::Verdict;
use crate::multi_run::evidence::{Basis, Condition, tail};
use crate::multi_run::search::{self, End, History, More, Point};
use crate::multi_run::{Dimension, Filter, Load, space};
use crate::setting::Named as _;

/// The path of the file.
#[derive(Debug)]
pub(crate) struct SearchFile(PathBuf);

impl SearchFile {
    /// Creates `directory` and checks the path.
    pub(crate) fn create(directory: &Path) -> Result<Self, ArtifactError> {
        make(directory)?;
        let path = directory.join(layout::SEARCH_HISTORY);
        replace::check(&path)?;
        Ok(Self(path))
    }

    /// Replaces the file; to be called after each load, and once the search has ended.
    pub(crate) fn write(
        &self,
        history: &History,
        has_ended: bool,
    ) -> Result<PathBuf, WriteFailure> {
        let end = has_ended.then(|| history.end());
        write_whole(&self.0, |out| pretty(out, &found(history, end)))
    }

    /// Like [`SearchFile::write`], for a search over several settings.
    pub(crate) fn write_space(
        &self,
        history: &space::History,
        has_ended: bool,
    ) -> Result<PathBuf, WriteFailure> {
        let end = has_ended.then(|| history.end());
        write_whole(&self.0, |out| pretty(out, &found_in_space(history, end)))
    }
}

fn found_in_space(history: &space::History, end: Option<space::End>) -> Value {
    let config = &history.config;
    let summary = |point: &space::Point| {
        json!({
            "iteration_idx": point.variation.index,
            "variation_values": point.variation.values,
            "objective_values": point.objectives,
            "feasible": point.is_feasible,
        })
    };
    let iteration = |point: &space::Point| {
        let mut iteration = summary(point);
        let observed = history.filters.iter().map(Filter::key).zip(&point.observed);
        let observed: Map<String, Value> =
            observed.map(|(key, value)| (key, json!(value))).collect();
        iteration["non_monotonic_warning"] = json!(false);
        iteration["observed"] = json!(observed);
        iteration["client_verdict"] = json!(point.verdict.map(Verdict::as_str));
        iteration["error"] = json!(point.error);
        iteration["directory"] = json!(point.variation.directory);
        iteration
    };
    let feasible = history.points.iter().filter(|point| point.is_feasible).count();
    let best: Vec<Value> = history
        .best()
        .into_iter()
        .map(|point| {
            let mut best = summary(point);
            best["feasible_count"] = json!(feasible);
            best["pareto_rank"] = json!(0);
            best
        })
        .collect();
    let objectives: Vec<Value> = config
        .objectives
        .iter()
        .map(|it| {
            json!({
                "metric": it.metric, "stat": it.statistic, "direction": it.direction.name().to_uppercase(),
                "threshold": null,
            })
        })
        .collect();
    let space: Vec<Value> = history
        .parameters
        .iter()
        .zip(&config.ranges)
        .map(|(parameter, range)| {
            json!({
                "path": parameter.path, "lo": range.json(range.lo), "hi": range.json(range.hi),
                "kind": if range.is_whole { "int" } else { "real" },
            })
        })
        .collect();
    json!({
        "config": {
            "planner": "bayesian",
            "objectives": objectives,
            "outcome_constraints": [],
            "max_iterations": config.iterations,
            "n_initial_points": config.initial,
            "random_seed": config.seed,
            "search_space": space,
            "sla_filters": history.filters,
        },
        "iterations": history.points.iter().map(iteration).collect::<Vec<_>>(),
        "best_trials": if best.is_empty() { Value::Null } else { json!(best) },
        "boundary_summary": null,
        "recipe": null,
        "convergence_reason": end.map(space::End::as_str),
        "error": history.failure,
    })
}

fn found(history: &History, end: Option<End>) -> Value {
    let iterations: Vec<Value> =
        history.points.iter().map(|point| iteration(history, point)).collect();
    let feasible = history.points.iter().filter(|point| point.is_feasible).count();
    let best = history.best().map(|point| {
        json!([{
            "iteration_idx": point.variation.index,
            "objective_values": objective_values(point),
            "variation_values": point.variation.values,
            "feasible": point.is_feasible,
            "feasible_count": feasible,
            "pareto_rank": 0,
        }])
    });
    let [below, above] =
        history.neighbours().map(|point| point.map(|point| iteration(history, point)));
    json!({
        "config": config(history),
        "iterations": iterations,
        "best_trials": best,
        "best_neighbours": {"below": below, "above": above},
        "boundary_summary": boundary(history),
        "limit": limit(history),
        "recipe": history.config.recipe,
        "convergence_reason": end.map(End::as_str),
        "error": history.failure,
    })
}

fn config(history: &History) -> Value {
    let slos = history.config.slos.iter();
    let slos: Map<String, Value> =
        slos.map(|slo| (slo.tag.name().to_owned(), json!(slo.threshold))).collect();
    let range = history.config.range;
    let dimension = range.dimension;
    json!({
        "planner": "monotonic",
        "objectives": [{
            "metric": history.config.objective, "stat": "avg", "direction": "MAXIMIZE",
            "threshold": null,
        }],
        "outcome_constraints": [],
        "max_iterations": search::MAX_POINTS,
        "search_space": [{
            "path": dimension.path(),
            "lo": dimension.load(range.min).value(),
            "hi": dimension.load(range.max).value(),
            "kind": match dimension {
                Dimension::Concurrency => "int",
                Dimension::RequestRate => "real",
            },
        }],
        "sla_filters": history.filters,
        "slos": slos,
    })
}

fn iteration(history: &History, point: &Point) -> Value {
    let observed: Map<String, Value> = history
        .filters
        .iter()
        .zip(&point.observed)
        .map(|(filter, (value, _))| (filter.key(), json!(value)))
        .collect();
    json!({
        "iteration_idx": point.variation.index,
        "variation_values": point.variation.values,
        "objective_values": objective_values(point),
        "feasible": point.is_feasible,
        // Where the evidence is not monotonic, neighbours are pooled.
        "non_monotonic_warning": false,
        "observed": observed,
        "standing": point.standing.name(),
        "num_runs": point.level.runs,
        "is_believed": point.level.is_believed,
        "evidence": evidence(history, point),
        "client_verdict": point.verdict.map(Verdict::as_str),
        "error": point.error,
        "directory": point.variation.directory,
    })
}

/// Returns what the runs of a load say about each condition.
fn evidence(history: &History, point: &Point) -> Vec<Value> {
    let tail = tail(history.confidence);
    let conditions = history.filters.iter().zip(&point.level.evidence);
    conditions
        .map(|(filter, found)| {
            let interval = found.interval(filter, tail);
            let ends = interval.map_or([None; 2], |ends| ends.map(Some));
            let basis = Condition::of(filter).basis;
            json!({
                "condition": filter.key(),
                "basis": basis.name(),
                "requests": found.requests,
                "independent_requests": (basis == Basis::Share).then_some(found.weight),
                "violating_share": (basis == Basis::Share).then_some(found.mean),
                "ci_low": ends[0],
                "ci_high": ends[1],
            })
        })
        .collect()
}

/// Returns the highest load that meets the conditions, as an interval.
fn limit(history: &History) -> Value {
    let value = |load: Option<Load>| load.map(Load::value);
    let more = history.more().map(|more| match more {
        More::Requests { load, requests, seconds } => {
            json!({"value": load.value(), "requests": requests, "seconds": seconds})
        }
        More::Runs { runs, seconds } => json!({"runs": runs, "seconds": seconds}),
    });
    json!({
        "is_told": history.is_told(),
        "confidence_level": history.confidence,
        "shown_met_until": value(history.limit.low),
        "shown_missed_from": value(history.limit.high),
        "best_tested": value(history.limit.best),
        "more": more,
    })
}

fn objective_values(point: &Point) -> Option<[f64; 1]> {
    point.objective.map(|objective| [objective])
}

/// Returns the loads between which the conditions cease to be met; null before any was tried.
fn boundary(history: &History) -> Option<Value> {
    (!history.points.is_empty()).then(|| {
        let feasible = history.feasible_max().map(|point| {
            json!({
                "value": point.load.value(),
                "iteration_idx": point.variation.index,
                "objective_value": point.objective,
            })
        });
        let infeasible = history.infeasible_min().map(|point| {
            json!({
                "value": point.load.value(),
                "iteration_idx": point.variation.index,
                "first_breach": breaches(&history.filters, &point.observed).next(),
            })
        });
        json!({
            "swept_dim_path": history.config.range.dimension.path(),
            "feasible_max": feasible,
            "infeasible_min": infeasible,
        })
    })
}

/// Iterates over the conditions that are not met, each with what was observed.
pub(super) fn breaches(
    filters: &[Filter],
    observed: &[(Option<f64>, bool)],
) -> impl Iterator<Item = Value> {
    filters.iter().zip(observed).filter(|(_, (_, is_met))| !is_met).map(|(filter, (value, _))| {
        let mut breach = json!(filter);
        breach["observed"] = json!(value);
        breach
    })
}
