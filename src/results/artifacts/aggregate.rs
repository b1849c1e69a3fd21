//! The files of several runs: statistics over the runs, and the requests of all runs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use uuid::Uuid;

use measure::metrics::health::LoadVerdict;
use measure::metrics::{MetricTag, Verdict};
use measure::multi_run::aggregate::{Across, Row};
use measure::multi_run::convergence::Mode;
use measure::multi_run::pooled::{Pooled, pooled};
use measure::multi_run::{RunResult, Trials};

use super::error::{ArtifactError, WriteFailure};
use super::pairs::Pairs;
use super::replace;
use super::sections::Sections;
use super::whole::{pretty, write_whole};

/// Versions of the file layouts.
const AGGREGATE_VERSION: &str = "1.0";
const COLLATED_VERSION: &str = "1.0.0";

/// The paths of the files over all runs.
#[derive(Debug)]
pub struct AggregateFiles {
    json: PathBuf,
    csv: PathBuf,
    collated: PathBuf,
}

impl AggregateFiles {
    /// Creates `directory` and checks every path.
    pub fn create(directory: &Path) -> Result<Self, ArtifactError> {
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
    pub fn write(&self, trials: &Trials, rows: &[Row]) -> Result<Vec<PathBuf>, WriteFailure> {
        if trials.successful().count() < 2 {
            if let Some(directory) = self.json.parent() {
                // The directory was created for these files; it remains if it contains others.
                let _ = std::fs::remove_dir(directory);
            }
            return Ok(Vec::new());
        }
        Ok(vec![
            write_whole(&self.json, |out| pretty(out, &Aggregate::new(trials, rows)))?,
            write_whole(&self.csv, |out| write_csv(out, trials, rows))?,
            write_whole(&self.collated, |out| pretty(out, &Collated::from_trials(trials)))?,
        ])
    }
}

pub(super) fn make(directory: &Path) -> Result<(), ArtifactError> {
    std::fs::create_dir_all(directory)
        .map_err(|why| ArtifactError::Directory { path: directory.to_owned(), why })
}

/// `profile_export_aiperf_aggregate.json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Aggregate<'a> {
    /// Version of the layout.
    schema_version: &'static str,
    /// Version of the program that wrote the file.
    aiperf_version: &'static str,
    metadata: Metadata<'a>,
    /// The statistics over the runs of each statistic of each metric, by names such as
    /// `time_to_first_token_p99`.
    metrics: Pairs<Statistics>,
}

/// `profile_export_aiperf_collated.json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Collated<'a> {
    /// Version of the layout.
    schema_version: &'static str,
    /// Version of the program that wrote the file.
    aiperf_version: &'static str,
    /// What the file contains.
    description: &'static str,
    metadata: Metadata<'a>,
    /// The values of each metric.
    metrics: Pairs<Pooled>,
}

/// The runs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Metadata<'a> {
    /// `confidence` or `detailed`.
    aggregation_type: &'static str,
    /// Number of runs that were asked for.
    num_profile_runs: u64,
    num_successful_runs: usize,
    failed_runs: Vec<FailedRun<'a>>,
    /// Pause between runs.
    cooldown_seconds: f64,
    /// The labels of all runs that were started.
    run_labels: Vec<&'a str>,
    #[cfg_attr(test, schemars(with = "String"))]
    sweep_id: Uuid,
    /// All runs that were started.
    runs: Vec<StartedRun<'a>>,
    was_cancelled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    convergence: Option<Convergence<'a>>,
    /// Confidence level of the intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence_level: Option<f64>,
}

/// A run without results.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FailedRun<'a> {
    pub(super) label: String,
    /// Why it is excluded from the statistics.
    pub(super) error: &'a str,
}

/// Why no further run was made.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Convergence<'a> {
    /// The metric that decides.
    #[cfg_attr(test, schemars(with = "String"))]
    metric: MetricTag,
    stat: &'a str,
    mode: Mode,
    threshold: f64,
    /// What is compared with the threshold; null if it does not have a value.
    observed: Option<f64>,
    converged: bool,
    /// `converged`, `interrupted` or `max_runs`.
    reason: &'static str,
    /// Number of runs that were made.
    num_runs: usize,
}

/// A run's location and whether its results are valid.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct StartedRun<'a> {
    label: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    benchmark_id: Option<Uuid>,
    /// Its directory, relative to that of all runs.
    directory: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    random_seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_verdict: Option<Verdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    load_verdict: Option<LoadVerdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_verdict: Option<Verdict>,
}

/// The statistics of a value over the runs; those that a single run does not have are null.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Statistics {
    mean: f64,
    /// Sample standard deviation.
    std: Option<f64>,
    min: f64,
    max: f64,
    /// Coefficient of variation, std / |mean|.
    cv: Option<f64>,
    /// Standard error of the mean.
    se: Option<f64>,
    /// Lower end of the confidence interval of the mean.
    ci_low: Option<f64>,
    /// Its upper end.
    ci_high: Option<f64>,
    /// The critical value of Student's t.
    t_critical: Option<f64>,
    unit: &'static str,
    /// Number of runs that have the value.
    num_runs: usize,
}

impl<'a> Aggregate<'a> {
    fn new(trials: &'a Trials, rows: &[Row]) -> Self {
        let confidence_level = Some(trials.config.confidence_level);
        Self {
            schema_version: AGGREGATE_VERSION,
            aiperf_version: env!("CARGO_PKG_VERSION"),
            metadata: Metadata { confidence_level, ..Metadata::new(trials, "confidence") },
            metrics: rows.iter().map(|row| (row.key().into(), Statistics::from_row(row))).collect(),
        }
    }
}

impl<'a> Collated<'a> {
    fn from_trials(trials: &'a Trials) -> Self {
        Self {
            schema_version: COLLATED_VERSION,
            aiperf_version: env!("CARGO_PKG_VERSION"),
            description: "The requests of all successful runs as one population. The confidence \
                          aggregate next to it has statistics over the results of each run.",
            metadata: Metadata::new(trials, "detailed"),
            metrics: pooled(trials).into_iter().map(|it| (it.tag.name().into(), it)).collect(),
        }
    }
}

impl<'a> Metadata<'a> {
    fn new(trials: &'a Trials, aggregation_type: &'static str) -> Self {
        let failed = trials.failed().map(|(run, failure)| FailedRun {
            label: run.member.run_label.clone(),
            error: failure.message(),
        });
        Self {
            aggregation_type,
            num_profile_runs: trials.config.runs,
            num_successful_runs: trials.successful().count(),
            failed_runs: failed.collect(),
            cooldown_seconds: trials.config.cooldown.as_seconds(),
            run_labels: labels(trials),
            sweep_id: trials.sweep_id,
            runs: trials.runs.iter().map(StartedRun::from_run_result).collect(),
            was_cancelled: trials.was_cancelled(),
            convergence: Convergence::from_trials(trials),
            confidence_level: None,
        }
    }
}

/// Returns the label of each run, including failed ones.
fn labels(trials: &Trials) -> Vec<&str> {
    trials.runs.iter().map(|run| run.member.run_label.as_str()).collect()
}

impl<'a> Convergence<'a> {
    /// Returns why no further run was made, if there is a condition for it.
    pub(super) fn from_trials(trials: &'a Trials) -> Option<Self> {
        let condition = trials.config.convergence.as_ref()?;
        let reason = if trials.is_converged() {
            "converged"
        } else if trials.is_short() {
            "interrupted"
        } else {
            "max_runs"
        };
        Some(Self {
            metric: condition.metric,
            stat: &condition.statistic,
            mode: condition.mode,
            threshold: condition.threshold,
            observed: trials.convergence.and_then(|convergence| convergence.observed),
            converged: trials.is_converged(),
            reason,
            num_runs: trials.runs.len(),
        })
    }
}

impl<'a> StartedRun<'a> {
    pub(super) fn from_run_result(run: &'a RunResult) -> Self {
        Self {
            label: &run.member.run_label,
            benchmark_id: run.benchmark_id,
            directory: run.directory.display().to_string(),
            random_seed: run.random_seed,
            client_verdict: run.verdict,
            load_verdict: run.load_verdict,
            output_verdict: run.output_verdict,
        }
    }
}

impl Statistics {
    fn from_row(row: &Row) -> Self {
        let Across { runs, mean, min, max, spread } = row.across;
        Self {
            mean,
            std: spread.map(|spread| spread.std),
            min,
            max,
            cv: spread.and_then(|spread| spread.cv),
            se: spread.map(|spread| spread.se),
            ci_low: spread.map(|spread| spread.ci_low),
            ci_high: spread.map(|spread| spread.ci_high),
            t_critical: spread.map(|spread| spread.t_critical),
            unit: row.metric.display_unit.label(),
            num_runs: runs,
        }
    }
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
    let Statistics { mean, std, min, max, cv, se, ci_low, ci_high, t_critical, unit, .. } =
        Statistics::from_row(row);
    let two = |value: Option<f64>| value.map(|value| format!("{value:.2}")).unwrap_or_default();
    let four = |value: Option<f64>| value.map(|value| format!("{value:.4}")).unwrap_or_default();
    vec![
        row.key(),
        two(Some(mean)),
        two(std),
        two(Some(min)),
        two(Some(max)),
        four(cv),
        four(se),
        two(ci_low),
        two(ci_high),
        four(t_critical),
        unit.to_owned(),
    ]
}
