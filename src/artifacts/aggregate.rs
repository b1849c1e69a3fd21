//! The files of several runs: statistics over the runs, and the requests of all runs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::error::{ArtifactError, WriteFailure};
use super::replace;
use super::sections::Sections;
use super::whole::write_whole;
use crate::metrics::Verdict;
use crate::metrics::health::LoadVerdict;
use crate::multi_run::aggregate::{Across, Row};
use crate::multi_run::pooled::{Pooled, pooled};
use crate::multi_run::{RunResult, Trials};

/// Versions of the file layouts.
const AGGREGATE_VERSION: &str = "1.0";
const COLLATED_VERSION: &str = "1.0.0";

/// The paths of the files over all runs.
#[derive(Debug)]
pub(crate) struct AggregateFiles {
    json: PathBuf,
    csv: PathBuf,
    collated: PathBuf,
}

impl AggregateFiles {
    /// Creates `directory` and checks every path.
    pub(crate) fn create(directory: &Path) -> Result<Self, ArtifactError> {
        make(directory)?;
        let files = Self {
            json: directory.join("profile_export_aiperf_aggregate.json"),
            csv: directory.join("profile_export_aiperf_aggregate.csv"),
            collated: directory.join("profile_export_aiperf_collated.json"),
        };
        [&files.json, &files.csv, &files.collated]
            .into_iter()
            .try_for_each(|p| replace::check(p))?;
        Ok(files)
    }

    /// Writes all files; `rows` are the statistics over the runs.
    ///
    /// None is written if fewer than two runs succeeded, since they would only repeat the single
    /// run.
    pub(crate) fn write(
        &self,
        trials: &Trials,
        rows: &[Row],
    ) -> Result<Vec<PathBuf>, WriteFailure> {
        if trials.successful().count() < 2 {
            if let Some(directory) = self.json.parent() {
                // The directory was created for these files; it remains if it contains others.
                let _ = std::fs::remove_dir(directory);
            }
            return Ok(Vec::new());
        }
        Ok(vec![
            write_whole(&self.json, |out| pretty(out, &aggregate(trials, rows)))?,
            write_whole(&self.csv, |out| write_csv(out, trials, rows))?,
            write_whole(&self.collated, |out| pretty(out, &collated(trials)))?,
        ])
    }
}

pub(super) fn make(directory: &Path) -> Result<(), ArtifactError> {
    std::fs::create_dir_all(directory)
        .map_err(|why| ArtifactError::Directory { path: directory.to_owned(), why })
}

pub(super) fn pretty(out: &mut dyn Write, value: &Value) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    out.write_all(b"\n")
}

/// `profile_export_aiperf_aggregate.json`.
fn aggregate(trials: &Trials, rows: &[Row]) -> Value {
    let mut metadata = metadata(trials, "confidence");
    metadata.insert("confidence_level".to_owned(), json!(trials.config.confidence_level));
    if trials.successful().count() == 1 {
        metadata.insert("single_run".to_owned(), json!(true));
    }
    let metrics: Map<String, Value> = rows.iter().map(|row| (row.key(), statistics(row))).collect();
    json!({
        "schema_version": AGGREGATE_VERSION,
        "aiperf_version": env!("CARGO_PKG_VERSION"),
        "metadata": metadata,
        "metrics": metrics,
    })
}

/// Returns the statistics; values that a single run does not have are null.
fn statistics(row: &Row) -> Value {
    let Across { runs, mean, min, max, spread } = row.across;
    json!({
        "mean": mean,
        "std": spread.map(|spread| spread.std),
        "min": min,
        "max": max,
        "cv": spread.and_then(|spread| spread.cv),
        "se": spread.map(|spread| spread.se),
        "ci_low": spread.map(|spread| spread.ci_low),
        "ci_high": spread.map(|spread| spread.ci_high),
        "t_critical": spread.map(|spread| spread.t_critical),
        "unit": row.metric.display_unit.label(),
        "num_runs": runs,
    })
}

/// Returns the label of each run, including failed ones.
fn labels(trials: &Trials) -> Vec<&str> {
    trials.runs.iter().map(|run| run.member.run_label.as_str()).collect()
}

/// Returns the metadata that both files contain.
fn metadata(trials: &Trials, kind: &str) -> Map<String, Value> {
    let failed: Vec<Value> = trials
        .failed()
        .map(|(run, failure)| json!({"label": run.member.run_label, "error": failure.message()}))
        .collect();
    let labels = labels(trials);
    let runs: Vec<Value> = trials.runs.iter().map(described).collect();
    let members = [
        ("aggregation_type", json!(kind)),
        ("num_profile_runs", json!(trials.config.runs)),
        ("num_successful_runs", json!(trials.successful().count())),
        ("failed_runs", json!(failed)),
        ("cooldown_seconds", json!(trials.config.cooldown.as_seconds())),
        ("run_labels", json!(labels)),
        ("sweep_id", json!(trials.sweep_id.to_string())),
        ("runs", json!(runs)),
        ("was_cancelled", json!(trials.was_cancelled())),
    ];
    let convergence = convergence(trials).map(|value| ("convergence", value));
    let members = members.into_iter().chain(convergence);
    members.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns why no further run was made, if there is a condition for it.
pub(super) fn convergence(trials: &Trials) -> Option<Value> {
    let condition = trials.config.convergence.as_ref()?;
    let reason = if trials.is_converged() {
        "converged"
    } else if trials.is_short() {
        "interrupted"
    } else {
        "max_runs"
    };
    Some(json!({
        "metric": condition.metric,
        "stat": condition.statistic,
        "mode": condition.mode,
        "threshold": condition.threshold,
        "observed": trials.convergence.and_then(|convergence| convergence.observed),
        "converged": trials.is_converged(),
        "reason": reason,
        "num_runs": trials.runs.len(),
    }))
}

/// Returns a run's location and whether its results are valid.
pub(super) fn described(run: &RunResult) -> Value {
    #[derive(Serialize)]
    struct Described<'a> {
        label: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        benchmark_id: Option<String>,
        directory: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        random_seed: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        client_verdict: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        load_verdict: Option<&'static str>,
    }
    json!(Described {
        label: &run.member.run_label,
        benchmark_id: run.benchmark_id.map(|id| id.to_string()),
        directory: run.directory.display().to_string(),
        random_seed: run.random_seed,
        client_verdict: run.verdict.map(Verdict::as_str),
        load_verdict: run.load_verdict.map(LoadVerdict::as_str),
    })
}

/// `profile_export_aiperf_aggregate.csv`: a row per statistic, then the metadata.
fn write_csv(out: &mut dyn Write, trials: &Trials, rows: &[Row]) -> io::Result<()> {
    const HEADER: [&str; 11] = [
        "metric",
        "mean",
        "std",
        "min",
        "max",
        "cv",
        "se",
        "ci_low",
        "ci_high",
        "t_critical",
        "unit",
    ];
    let mut sections = Sections::new(out);
    sections.write(HEADER.map(str::to_owned), rows.iter().map(csv_row))?;
    let facts = [
        ("Total Runs", trials.config.runs.to_string()),
        ("Successful Runs", trials.successful().count().to_string()),
        ("Confidence Level", trials.config.confidence_level.to_string()),
        ("Cooldown Seconds", trials.config.cooldown.as_seconds().to_string()),
        ("Run Labels", labels(trials).join(" ")),
    ];
    let pair = |(name, value): (&str, String)| vec![name.to_owned(), value];
    let first = ["Aggregation Type", "confidence"].map(str::to_owned);
    sections.write(first, facts.into_iter().map(pair))
}

fn csv_row(row: &Row) -> Vec<String> {
    let Across { mean, min, max, spread, .. } = row.across;
    let two = |value: Option<f64>| value.map(|value| format!("{value:.2}")).unwrap_or_default();
    let four = |value: Option<f64>| value.map(|value| format!("{value:.4}")).unwrap_or_default();
    vec![
        row.key(),
        two(Some(mean)),
        two(spread.map(|spread| spread.std)),
        two(Some(min)),
        two(Some(max)),
        four(spread.and_then(|spread| spread.cv)),
        four(spread.map(|spread| spread.se)),
        two(spread.map(|spread| spread.ci_low)),
        two(spread.map(|spread| spread.ci_high)),
        four(spread.map(|spread| spread.t_critical)),
        row.metric.display_unit.label().to_owned(),
    ]
}

/// `profile_export_aiperf_collated.json`.
fn collated(trials: &Trials) -> Value {
    let of = |pooled: &Pooled| {
        let [p50, p90, p95, p99] = pooled.percentiles;
        let per_run: Vec<Value> = pooled
            .per_run
            .iter()
            .map(|run| json!({"label": run.label, "mean": run.mean, "count": run.count}))
            .collect();
        json!({
            "combined": {
                "mean": pooled.mean, "std": pooled.std, "p50": p50, "p90": p90, "p95": p95,
                "p99": p99, "count": pooled.count,
            },
            "per_run": per_run,
            "unit": pooled.unit,
        })
    };
    let metrics: Map<String, Value> =
        pooled(trials).iter().map(|pooled| (pooled.tag.name().to_owned(), of(pooled))).collect();
    json!({
        "schema_version": COLLATED_VERSION,
        "aiperf_version": env!("CARGO_PKG_VERSION"),
        "description": "The requests of all successful runs as one population. The confidence \
                        aggregate next to it has statistics over the results of each run.",
        "metadata": metadata(trials, "detailed"),
        "metrics": metrics,
    })
}
