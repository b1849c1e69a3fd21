//! What is written of a run: parameters, metrics and tags, with AIPerf's names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use client::schedule::PhaseKind;
use client::schedule::config::PhaseConfig;
use measure::metrics::metric::{MetricResult, Statistic};

use super::Config;
use crate::run::{RunDescription, RunReport};

/// Maximum length of a parameter's value, in characters. Older servers reject longer ones.
const MAX_PARAM: usize = 500;

/// Maximum length of a tag's value, in characters.
const MAX_TAG: usize = 5000;

/// Parameters, metrics and tags by name.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Content {
    #[serde(skip)]
    pub(super) run_name: String,
    /// Whether the run failed or was cancelled.
    #[serde(skip)]
    pub(super) status: Ended,
    #[serde(skip)]
    pub(super) start_ms: u64,
    pub(super) params: BTreeMap<String, String>,
    pub(super) metrics: BTreeMap<String, f64>,
    pub(super) tags: BTreeMap<String, String>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Ended {
    #[default]
    Finished,
    Failed,
    Killed,
}

impl Ended {
    /// Returns MLflow's name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Finished => "FINISHED",
            Self::Failed => "FAILED",
            Self::Killed => "KILLED",
        }
    }
}

/// A value of a metric at one time.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Sample {
    key: String,
    value: f64,
    /// Milliseconds since the epoch.
    timestamp: u64,
    /// Seconds since the start.
    step: u64,
}

impl Sample {
    pub(super) const fn new(key: String, value: f64, timestamp: u64, step: u64) -> Self {
        Self { key, value, timestamp, step }
    }
}

impl Content {
    /// Returns what is known before the first request.
    pub(super) fn of_run(run: &RunDescription, config: &Config) -> Self {
        let id = run.benchmark_id.to_string();
        let default_name = || format!("aiperf-{}", id.get(..8).unwrap_or(&id));
        let run_name = config.run_name.clone().unwrap_or_else(default_name);
        let mut tags = BTreeMap::from([
            ("aiperf.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("benchmark_id".to_owned(), id),
        ]);
        if let Some(parent) = &config.parent_run_id {
            tags.insert("mlflow.parentRunId".to_owned(), parent.clone());
        }
        if let Some(member) = &run.member {
            tags.insert("aiperf.run_label".to_owned(), member.run_label.clone());
            tags.insert("aiperf.sweep_id".to_owned(), member.sweep_id.clone());
        }
        tags.extend(config.tags.iter().cloned());
        let cut = |(name, value): (String, String)| (name, value.chars().take(MAX_TAG).collect());
        Self {
            run_name,
            params: params(run),
            tags: tags.into_iter().map(cut).collect(),
            ..Self::default()
        }
    }

    /// Returns everything of a run that has ended.
    pub(super) fn of_report(report: &RunReport, config: &Config) -> Self {
        let mut content = Self::of_run(&report.run, config);
        let was_cancelled = report.outcome.was_cancelled;
        content.tags.insert("aiperf.was_cancelled".to_owned(), was_cancelled.to_string());
        content.metrics = metrics(&report.results);
        let profiling = || report.phases.iter().filter(|it| it.phase == PhaseKind::Profiling);
        if profiling().next().is_some() {
            let completed: u64 = profiling().map(|phase| phase.requests_completed).sum();
            content.metrics.insert("aiperf.completed_requests".to_owned(), completed as f64);
            let expected: Option<u64> = profiling().map(|it| it.total_expected_requests).sum();
            if let Some(expected) = expected {
                let name = "aiperf.total_expected_requests".to_owned();
                content.metrics.insert(name, expected as f64);
            }
        }
        content.status = match (was_cancelled, report.is_complete()) {
            (true, _) => Ended::Killed,
            (false, true) => Ended::Finished,
            (false, false) => Ended::Failed,
        };
        content.start_ms = report.outcome.start_wall_ns / 1_000_000;
        content
    }
}

/// Returns the finite statistics of each metric: `<tag>` is the mean or the single value, and
/// `<tag>.<statistic>` any other.
pub(super) fn metrics(results: &[MetricResult]) -> BTreeMap<String, f64> {
    let metric_of = |result: &MetricResult| {
        let (tag, stats) = (result.metric.tag.name(), result.stats);
        let finite = stats.all().filter(|(_, value)| value.is_finite());
        finite.map(move |(statistic, value)| {
            let is_mean = statistic == Statistic::Avg;
            let name = if is_mean { tag.to_owned() } else { format!("{tag}.{statistic}") };
            (name, value)
        })
    };
    results.iter().flat_map(metric_of).collect()
}

/// Returns the settings in which runs differ.
fn params(run: &RunDescription) -> BTreeMap<String, String> {
    let setup = &run.setup;
    let of_run = [
        ("endpoint.type", run.endpoint.name.to_owned()),
        ("endpoint.models", setup.models.join(",")),
        ("endpoint.urls", setup.urls.join(",")),
        ("output.artifact_directory", setup.directory.display().to_string()),
        ("aiperf.cli_command", run.cli_command.clone()),
    ];
    let number = |number: f64| Value::from(number).to_string();
    let of_phase = setup.measured_phase().map(|phase| {
        let PhaseConfig { load, concurrency, stop, .. } = phase;
        [
            ("timing.mode", Some(load.name().to_owned())),
            ("loadgen.concurrency", concurrency.map(|limit| limit.most.to_string())),
            ("loadgen.request_rate", phase.rate().map(number)),
            ("loadgen.request_count", stop.requests.map(|requests| requests.to_string())),
            ("loadgen.benchmark_duration", stop.duration.map(|it| number(it.as_seconds()))),
        ]
    });
    let of_phase = of_phase.into_iter().flatten();
    let of_phase = of_phase.filter_map(|(name, value)| Some((name, value?)));
    let all = of_run.into_iter().filter(|(_, value)| !value.is_empty()).chain(of_phase);
    all.map(|(name, value)| (name.to_owned(), value.chars().take(MAX_PARAM).collect())).collect()
}
