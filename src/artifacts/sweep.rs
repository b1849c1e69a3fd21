//! The files of a sweep: its plan, from which it can be continued, and its results.

mod cells;
mod evaluation;
mod plan;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::aggregate::{convergence, described, make, pretty};
use super::entry::Entry;
use super::error::{ArtifactError, WriteFailure};
use super::replace;
use super::sections::Sections;
use super::whole::write_whole;
use crate::metrics::Verdict;
use crate::metrics::metric::MetricResult;
use crate::multi_run::aggregate::{DividedRow, Row};
use crate::multi_run::knee::{End, Saturation};
use crate::multi_run::sweep::{Best, Cell, Results, by_values, plain};
use crate::multi_run::{Load, RunResult};
use crate::setting::Named as _;
use crate::statistics::Estimate;

pub(crate) use plan::Plan;

/// The statistics over trials of a metric in the CSV file, and their decimals.
const COLUMNS: &[(&str, usize)] = &[("mean", 2), ("std", 2), ("min", 2), ("max", 2), ("cv", 4)];

/// The paths of the results.
#[derive(Debug)]
pub(crate) struct SweepFiles {
    json: PathBuf,
    csv: PathBuf,
    table: PathBuf,
    /// A row for each cell, without other sections.
    cells: PathBuf,
}

impl SweepFiles {
    /// Creates `directory` and checks every path.
    pub(crate) fn create(directory: &Path) -> Result<Self, ArtifactError> {
        make(directory)?;
        let file = |ending: &str| directory.join(format!("profile_export_aiperf_sweep.{ending}"));
        let files = Self {
            json: file("json"),
            csv: file("csv"),
            table: file("parquet"),
            cells: directory.join("sweep_cells.csv"),
        };
        [&files.json, &files.csv, &files.table, &files.cells]
            .into_iter()
            .try_for_each(|p| replace::check(p))?;
        Ok(files)
    }

    /// Writes all files.
    pub(crate) fn write(&self, results: &Results) -> Result<Vec<PathBuf>, WriteFailure> {
        let cells: Vec<Value> =
            results.cells.iter().map(|cell| combination(results, cell)).collect();
        let mut written = vec![
            write_whole(&self.json, |out| pretty(out, &summary(results, &cells)))?,
            write_whole(&self.csv, |out| write_csv(out, results, &cells))?,
            table::write(&self.table, results)?,
            write_whole(&self.cells, |out| cells::write(out, results))?,
        ];
        if let Some(evaluation) = &results.sweep.evaluation {
            let (name, content) = evaluation::file(results, evaluation);
            let path = self.json.with_file_name(name);
            written.push(write_whole(&path, |out| pretty(out, &content))?);
        }
        Ok(written)
    }
}

/// `profile_export_aiperf_sweep.json`.
fn summary(results: &Results, cells: &[Value]) -> Value {
    let failed: Vec<Value> = results
        .failed()
        .map(|(cell, run, failure)| {
            let label = format!("{}, {}", cell.variation.label, run.member.run_label);
            json!({"label": label, "error": failure.message()})
        })
        .collect();
    let mut best = Map::new();
    for (name, found) in best_cells(results) {
        if let Some(found) = found {
            best.insert(name.to_owned(), described_best(results, &found));
        }
    }
    let mut front: Vec<&Cell> = results.cells.iter().filter(|cell| cell.is_pareto).collect();
    front.sort_by(|a, b| by_values(a, b));
    let front: Vec<Value> = front.into_iter().map(|cell| parameters(results, cell)).collect();
    let mut summary = json!({
        "aggregation_type": "sweep",
        "aiperf_version": env!("CARGO_PKG_VERSION"),
        "sweep_id": results.sweep_id.to_string(),
        "num_profile_runs": results.planned(),
        "num_successful_runs": successful(results),
        "failed_runs": failed,
        "is_complete": is_complete(results),
        "metadata": {
            "aggregation_type": "sweep",
            "sweep_parameters": swept(results),
            "num_combinations": results.cells.len(),
            "sweep_mode": results.sweep.mode.name(),
            "confidence_level": results.config.confidence_level,
            "num_trials_per_value": results.config.runs,
        },
        "per_combination_metrics": cells,
        "best_configurations": best,
        "pareto_optimal": front,
    });
    if let Some(constraints) = constraints(results) {
        summary["metadata"]["sla_constraints"] = constraints;
    }
    if let Some(saturation) = &results.saturation {
        summary["saturation"] = saturated(results, saturation);
    }
    if let Some(beyond) = results.beyond() {
        summary["beyond"] = json!({
            "from": parameters(results, beyond.from),
            "to": parameters(results, beyond.to),
            "growth": beyond.growth,
        });
    }
    if let Some(limit) = &results.limit {
        let value = |load: Option<Load>| load.map(Load::value);
        summary["limit"] = json!({
            "confidence_level": results.config.confidence_level,
            "shown_met_until": value(limit.low),
            "shown_missed_from": value(limit.high),
            "best_tested": value(limit.best),
        });
    }
    summary
}

/// Returns the conditions and how many cells meet them; `None` without conditions.
fn constraints(results: &Results) -> Option<Value> {
    let filters = &results.sweep.filters;
    let feasible = results.cells.iter().filter(|cell| cell.is_feasible).count();
    (!filters.is_empty()).then(|| {
        json!({
            "active_filters": filters,
            "feasible_count": feasible,
            "infeasible_count": results.cells.len() - feasible,
        })
    })
}

/// Returns where throughput stops growing.
fn saturated(results: &Results, saturation: &Saturation) -> Value {
    let interval = |estimate: &Estimate| {
        let [low, high] = estimate.interval();
        json!({"value": estimate.value, "ci_low": low, "ci_high": high})
    };
    let throughputs: Vec<Value> = results
        .levels()
        .iter()
        .map(|level| {
            json!({
                "value": level.load.value(),
                "request_throughput": level.throughput.as_ref().ok().map(interval),
            })
        })
        .collect();
    let mut found = json!({
        "status": saturation.end.as_ref().map(End::as_str),
        "error": saturation.obstacle(),
        "parameter": results.sweep.aiperf_names().first(),
        "confidence_level": results.config.confidence_level,
        "knee": saturation.knee.map(
            |knee| json!({"value": knee.value, "ci_low": knee.low, "ci_high": knee.high})
        ),
        "request_throughput": saturation.throughput.as_ref().map(interval),
        "grows_until": saturation.grows_until,
        "saturated_from": saturation.saturated_from,
        "levels": throughputs,
    });
    if let Some(watts) = results.saturated_watts() {
        found["gpu_power_watts"] = watts.into();
    }
    found
}

fn successful(results: &Results) -> usize {
    results.cells.iter().map(|cell| cell.trials.successful().count()).sum()
}

/// Returns whether all planned runs succeeded.
fn is_complete(results: &Results) -> bool {
    successful(results) as u64 == results.planned()
}

/// Returns the best cells by their names in the files.
fn best_cells(results: &Results) -> [(&'static str, Option<Best<'_>>); 2] {
    [("best_throughput", results.best_throughput()), ("best_latency_p99", results.best_latency())]
}

fn described_best(results: &Results, best: &Best<'_>) -> Value {
    json!({
        "parameters": parameters(results, best.cell),
        "metric": best.row.across.mean,
        "unit": best.row.metric.display_unit.label(),
        "metric_key": best.row.key(),
    })
}

/// Returns each parameter with its values, in the order of the cells.
fn swept(results: &Results) -> Vec<Value> {
    let parameters = results.sweep.parameters.iter().zip(results.sweep.aiperf_names());
    parameters
        .map(|(parameter, name)| {
            let mut values: Vec<&Value> = Vec::new();
            for value in
                results.cells.iter().filter_map(|c| c.variation.values.get(&parameter.path))
            {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            json!({"name": name, "values": values})
        })
        .collect()
}

/// Returns the settings of a cell by the names of the parameters.
fn parameters(results: &Results, cell: &Cell) -> Value {
    let named = results.sweep.parameters.iter().zip(results.sweep.aiperf_names());
    let pairs = named.filter_map(|(parameter, name)| {
        Some((name.to_owned(), cell.variation.values.get(&parameter.path)?.clone()))
    });
    Value::Object(pairs.collect())
}

/// Returns a cell with its statistics.
fn combination(results: &Results, cell: &Cell) -> Value {
    let mut combination = json!({
        "parameters": parameters(results, cell),
        "label": cell.variation.label,
        "directory": cell.variation.directory,
        "metrics": metrics(results, cell, &cell.rows, |run| &run.results),
        "runs": cell.trials.runs.iter().map(described).collect::<Vec<_>>(),
        "client_verdict": cell.verdict().map(Verdict::as_str),
        "pareto_optimal": cell.is_pareto,
        "error": cell.error(),
    });
    if !results.sweep.filters.is_empty() {
        combination["feasible"] = json!(cell.is_feasible);
    }
    let steady = metrics(results, cell, &cell.steady_rows, |run| &run.steady_results);
    if !steady.is_empty() {
        combination["steady_state"] = json!({ "metrics": steady });
    }
    match &cell.time_breakdown {
        None => {}
        Some(Err(reason)) => combination["time_breakdown"] = json!({ "reason": reason }),
        Some(Ok(rows)) => {
            let rows: Vec<Value> = rows.iter().map(divided).collect();
            combination["time_breakdown"] = json!({ "metrics": rows });
        }
    }
    if let Some(convergence) = convergence(&cell.trials) {
        combination["convergence"] = convergence;
    }
    combination
}

/// Returns the statistics `rows` of a cell, computed from these results of each run: by metric for
/// a single trial, or else by metric and statistic.
fn metrics(
    results: &Results,
    cell: &Cell,
    rows: &[Row],
    of_run: fn(&RunResult) -> &Vec<MetricResult>,
) -> Map<String, Value> {
    if results.config.runs > 1 {
        return rows.iter().map(|row| (row.key(), over_trials(row))).collect();
    }
    let has_rows: BTreeSet<_> = rows.iter().map(|row| row.metric.tag.name()).collect();
    let run = cell.trials.successful().next();
    let all = run.into_iter().flat_map(of_run);
    let known = all.filter(|result| has_rows.contains(result.metric.tag.name()));
    known
        .map(|result| {
            let mut entry = json!(Entry::of(result));
            entry["mean"] = entry["avg"].clone();
            for unknown in ["cv", "ci_low", "ci_high"] {
                entry[unknown] = Value::Null;
            }
            (result.metric.tag.name().to_owned(), entry)
        })
        .collect()
}

fn over_trials(row: &Row) -> Value {
    let spread = row.across.spread;
    json!({
        "mean": row.across.mean,
        "std": spread.map(|spread| spread.std),
        "min": row.across.min,
        "max": row.across.max,
        "cv": spread.and_then(|spread| spread.cv),
        "ci_low": spread.map(|spread| spread.ci_low),
        "ci_high": spread.map(|spread| spread.ci_high),
        "unit": row.metric.display_unit.label(),
    })
}

/// Returns a mean latency with its parts, as in the summary of a run; with intervals over trials.
fn divided(row: &DividedRow) -> Value {
    let parts: Vec<Value> = row
        .parts
        .iter()
        .map(|part| {
            let mut entry = json!({
                "stage": part.stage,
                "mean_ms": part.mean_ms.mean,
                "bound_ms": part.bound_ms,
            });
            if let Some(spread) = part.mean_ms.spread {
                entry["std_ms"] = json!(spread.std);
                entry["ci_low_ms"] = json!(spread.ci_low);
                entry["ci_high_ms"] = json!(spread.ci_high);
            }
            entry
        })
        .collect();
    json!({
        "metric": row.metric,
        "mean_ms": row.mean_ms.mean,
        "num_runs": row.mean_ms.runs,
        "parts": parts,
    })
}

/// `profile_export_aiperf_sweep.csv`: the cells, the best of them, the Pareto front, the settings,
/// and where the time went.
fn write_csv(out: &mut dyn io::Write, results: &Results, cells: &[Value]) -> io::Result<()> {
    let names: Vec<String> = results.sweep.aiperf_names().into_iter().map(str::to_owned).collect();
    let values = |cell: &Cell| -> Vec<String> {
        let paths = results.sweep.parameters.iter().map(|parameter| &parameter.path);
        paths.map(|path| cell.variation.values.get(path).map(plain).unwrap_or_default()).collect()
    };
    let of_cells: Vec<BTreeMap<&str, &Value>> = cells
        .iter()
        .map(|cell| {
            let metrics = cell["metrics"].as_object();
            metrics.into_iter().flatten().map(|(key, entry)| (key.as_str(), entry)).collect()
        })
        .collect();
    let keys: BTreeSet<&str> = of_cells.iter().flat_map(|cell| cell.keys().copied()).collect();
    let header =
        keys.iter().flat_map(|key| COLUMNS.iter().map(move |(name, _)| format!("{key}_{name}")));
    let mut sections = Sections::new(out);
    let rows = results.cells.iter().zip(&of_cells).map(|(cell, metrics)| {
        let figures = keys.iter().flat_map(|key| {
            COLUMNS.iter().map(move |(name, decimals)| {
                let value = metrics.get(key).and_then(|entry| entry[*name].as_f64());
                value.map(|value| format!("{value:.decimals$}")).unwrap_or_default()
            })
        });
        values(cell).into_iter().chain(figures).collect()
    });
    sections.write(names.iter().cloned().chain(header), rows)?;

    let with_title = |title: &str| vec![title.to_owned()];
    let best: Vec<Vec<String>> = ["Best Throughput", "Best Latency P99"]
        .into_iter()
        .zip(best_cells(results))
        .filter_map(|(title, (_, best))| {
            let best = best?;
            let mut row = with_title(title);
            row.extend(values(best.cell));
            row.push(format!("{:.2}", best.row.across.mean));
            row.push(best.row.metric.display_unit.label().to_owned());
            Some(row)
        })
        .collect();
    let mut header = with_title("Configuration");
    header.extend(names.iter().cloned());
    header.extend(["Metric", "Unit"].map(str::to_owned));
    sections.write(with_title("Best Configurations"), std::iter::once(header).chain(best))?;

    let mut front: Vec<&Cell> = results.cells.iter().filter(|cell| cell.is_pareto).collect();
    front.sort_by(|a, b| by_values(a, b));
    let rows: Vec<Vec<String>> = match front.as_slice() {
        [] => vec![with_title("None")],
        front => std::iter::once(names.clone()).chain(front.iter().map(|c| values(c))).collect(),
    };
    sections.write(with_title("Pareto Optimal Points"), rows.into_iter())?;

    let facts = [
        ("Field", "Value".to_owned()),
        ("Aggregation Type", "sweep".to_owned()),
        ("Sweep Parameters", names.join(" ")),
        ("Number of Combinations", results.cells.len().to_string()),
        ("Number of Profile Runs", results.planned().to_string()),
        ("Number of Successful Runs", successful(results).to_string()),
    ];
    let pair = |(name, value): (&str, String)| vec![name.to_owned(), value];
    sections.write(with_title("Metadata"), facts.into_iter().map(pair))?;

    let mut parts: Vec<Vec<String>> = Vec::new();
    for cell in &results.cells {
        for row in cell.time_breakdown.iter().flatten().flatten() {
            for part in &row.parts {
                let mut line = values(cell);
                line.extend([row.metric.name().to_owned(), part.stage.title().to_owned()]);
                line.extend([part.mean_ms.mean, part.bound_ms].map(|ms| format!("{ms:.6}")));
                parts.push(line);
            }
        }
    }
    if parts.is_empty() {
        return Ok(());
    }
    let mut header = names;
    header.extend(["Metric", "Part", "Mean (ms)", "Bound (ms)"].map(str::to_owned));
    let rows = std::iter::once(header).chain(parts);
    sections.write(with_title("Time Breakdown"), rows)
}
