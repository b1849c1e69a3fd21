//! The files of the recipes that are sweeps, with the members of AIPerf's.

use serde_json::{Value, json};

use measure::metrics::{MetricTag, tag};
use measure::multi_run::curve::{Evaluation, Fit, GOOD_FIT, degraded, points};
use measure::multi_run::sweep::{Cell, Results};

use super::super::search::{Breach, breaches};

/// Returns the name and the content of the file of `evaluation`.
pub(super) fn file(results: &Results, evaluation: &Evaluation) -> (&'static str, Value) {
    match evaluation {
        Evaluation::Degradation { metric, statistic, threshold } => {
            ("degradation_knee.json", degradation(results, *metric, statistic, *threshold))
        }
        Evaluation::Prefill => ("prefill_curve.json", prefill(results)),
        Evaluation::Decode => ("decode_itl_surface.json", decode(results)),
        Evaluation::Pareto => ("pareto_sweep.json", pareto(results)),
        Evaluation::Breach => ("sla_breach.json", breach(results)),
    }
}

/// Returns a value of a parameter as it is in the files: without decimals if it is whole.
fn plain(value: f64) -> Value {
    if value.fract() == 0.0 { json!(value as i64) } else { json!(value) }
}

/// Returns the path of the parameter with this index, and its last part.
fn parameter(results: &Results, index: usize) -> (&str, &str) {
    let path = results.sweep.parameters.get(index).map_or("", |parameter| &parameter.path);
    (path, path.rsplit('.').next().unwrap_or(path))
}

fn degradation(results: &Results, metric: MetricTag, statistic: &str, threshold: f64) -> Value {
    let points = points(results, 0, metric, statistic);
    let (path, leaf) = parameter(results, 0);
    let (first, knee) = (points.first(), degraded(&points, threshold));
    let all: Vec<Value> =
        points.iter().map(|(x, y)| json!({leaf: plain(*x), statistic: y})).collect();
    json!({
        format!("baseline_{leaf}"): first.map(|(x, _)| plain(*x)),
        format!("baseline_{statistic}"): first.map(|(_, y)| y),
        format!("knee_{leaf}"): knee.map(|(x, _)| plain(x)),
        format!("knee_{statistic}"): knee.map(|(_, y)| y),
        "threshold_pct": threshold,
        "swept_metric": metric,
        "stat": statistic,
        "swept_param": path,
        "all_points": all,
    })
}

fn prefill(results: &Results) -> Value {
    let metric = tag::TIME_TO_FIRST_TOKEN;
    let points = points(results, 0, metric, "avg");
    let fit = Fit::to_points(&points);
    // Any so many points are on a curve with as many coefficients.
    let r_squared = fit.as_ref().and_then(Fit::r_squared);
    let half_widths = fit.as_ref().and_then(|fit| fit.half_widths.clone());
    let coefficients = fit.map(|fit| fit.coefficients).unwrap_or_default();
    let raw: Vec<Value> =
        points.iter().map(|(x, y)| json!({"isl": plain(*x), "ttft_ms": y})).collect();
    let mut curve = json!({
        "fit_form": if coefficients.len() > 2 { "quadratic" } else { "linear" },
        "coefficients": coefficients,
        "coefficient_half_widths": half_widths,
        "r_squared": r_squared,
        "below_floor": r_squared.is_none_or(|found| found < GOOD_FIT),
        "r_squared_floor": GOOD_FIT,
        "raw_points": raw,
        "swept_metric": metric,
        "stat": "avg",
        "swept_param": parameter(results, 0).0,
    });
    if coefficients.is_empty() {
        curve["error_reason"] =
            json!("a curve requires successful runs of at least two input lengths");
    }
    curve
}

/// Returns the whole number that a cell has for the parameter with the last part, or the part
/// before it, `name`.
fn number(results: &Results, cell: &Cell, name: &str) -> Option<u64> {
    let ends_in_name = |path: &str| path.rsplit('.').take(2).any(|part| part == name);
    let parameter =
        results.sweep.parameters.iter().find(|parameter| ends_in_name(&parameter.path))?;
    cell.variation.values.get(&parameter.path)?.as_u64()
}

fn decode(results: &Results) -> Value {
    let metric = tag::INTER_TOKEN_LATENCY;
    let point = |cell: &Cell| {
        let place = (number(results, cell, "concurrency")?, number(results, cell, "osl")?);
        Some((place, cell.value(metric, "avg")?))
    };
    let points: Vec<((u64, u64), f64)> = results.cells.iter().filter_map(point).collect();
    let axis = |of: fn(&(u64, u64)) -> u64| {
        let mut values: Vec<u64> = points.iter().map(|(place, _)| of(place)).collect();
        values.sort_unstable();
        values.dedup();
        values
    };
    let (concurrencies, lengths) = (axis(|place| place.0), axis(|place| place.1));
    let at = |place| points.iter().find(|(it, _)| *it == place).map(|(_, value)| *value);
    let grid: Vec<Vec<Option<f64>>> = concurrencies
        .iter()
        .map(|concurrency| lengths.iter().map(|osl| at((*concurrency, *osl))).collect())
        .collect();
    let raw: Vec<Value> = points
        .iter()
        .map(|((concurrency, osl), value)| {
            json!({"concurrency": concurrency, "osl": osl, "itl_ms": value})
        })
        .collect();
    let paths: Vec<&str> =
        results.sweep.parameters.iter().map(|parameter| parameter.path.as_str()).collect();
    json!({
        "swept_metric": metric,
        "stat": "avg",
        "swept_params": paths,
        "raw_points": raw,
        "surface": {
            "concurrency_axis": concurrencies, "osl_axis": lengths, "itl_grid": grid,
        },
        "surface_fit_failed": points.is_empty(),
    })
}

fn pareto(results: &Results) -> Value {
    let (x, y) = ((tag::TIME_TO_FIRST_TOKEN, "p95"), (tag::OUTPUT_TOKEN_THROUGHPUT, "avg"));
    let point = |cell: &Cell| Some((cell.value(x.0, x.1)?, cell.value(y.0, y.1)?));
    let points: Vec<(&Cell, (f64, f64))> =
        results.cells.iter().filter_map(|cell| Some((cell, point(cell)?))).collect();
    let is_dominated = |(x, y): (f64, f64)| {
        let is_better = |(ox, oy): (f64, f64)| ox <= x && oy >= y && (ox < x || oy > y);
        points.iter().any(|(_, other)| is_better(*other))
    };
    let cells: Vec<Value> = points
        .iter()
        .map(|(cell, point)| {
            json!({
                "isl": number(results, cell, "isl"),
                "osl": number(results, cell, "osl"),
                "concurrency": number(results, cell, "concurrency"),
                "x": point.0,
                "y": point.1,
                "pareto_optimal": !is_dominated(*point),
            })
        })
        .collect();
    json!({"x_metric": x.0, "x_stat": x.1, "y_metric": y.0, "y_stat": y.1, "cells": cells})
}

/// Returns the highest cell that meets the conditions and the lowest that does not. A failed cell
/// does not meet them.
fn breach(results: &Results) -> Value {
    let filters = &results.sweep.filters;
    let (path, leaf) = parameter(results, 0);
    let mut cells: Vec<(f64, &Cell)> = results
        .cells
        .iter()
        .filter(|cell| !cell.trials.runs.is_empty())
        .filter_map(|cell| Some((cell.variation.values.get(path)?.as_f64()?, cell)))
        .collect();
    cells.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let broken = |cell: &Cell| -> Vec<Breach<'_>> {
        let observed: Vec<_> = filters.iter().map(|filter| filter.evaluate(&cell.trials)).collect();
        breaches(filters, &observed).collect()
    };
    let highest = cells.iter().rfind(|(_, cell)| cell.is_feasible);
    let lowest = cells.iter().find(|(_, cell)| !cell.is_feasible);
    let points: Vec<Value> = cells
        .iter()
        .map(|(x, cell)| {
            json!({leaf: plain(*x), "feasible": cell.is_feasible, "breaches": broken(cell)})
        })
        .collect();
    let is_monotonic = match (highest, lowest) {
        (Some((highest, _)), Some((lowest, _))) => highest < lowest,
        _ => true,
    };
    json!({
        "swept_param": path,
        format!("max_passing_{leaf}"): highest.map(|(x, _)| plain(*x)),
        format!("first_failing_{leaf}"): lowest.map(|(x, _)| plain(*x)),
        "first_failing_breach": lowest.and_then(|(_, cell)| broken(cell).into_iter().next()),
        "all_points": points,
        "monotonicity_check": is_monotonic,
        "filters": filters,
    })
}
