//! `profile_export_aiperf_sweep.json`: the cells of a sweep, and what follows from them.

use serde::Serialize;
use serde_json::{Map, Value};

use base::statistics::Bounded;
use measure::metrics::metric::MetricResult;
use measure::metrics::time_breakdown::{Growth, Stage};
use measure::metrics::{MetricTag, Verdict};
use measure::multi_run::aggregate::{DividedRow, PartRow, Row};
use measure::multi_run::knee::{End, Saturation};
use measure::multi_run::sweep::{Best, Cell, Mode, Results};
use measure::multi_run::{Filter, Load, RunResult};

use super::super::aggregate::{Convergence, FailedRun, StartedRun};
use super::super::entry::{Average, Entry};
use super::super::pairs::Pairs;
use super::super::search::KnownLimit;
use super::{best_cells, successful};

/// The file.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::artifacts) struct Summary<'a> {
    /// Always `sweep`.
    aggregation_type: &'static str,
    /// Version of the program that wrote the file.
    aiperf_version: &'static str,
    sweep_id: String,
    /// Number of runs that were planned, and not made needless by earlier ones.
    num_profile_runs: u64,
    num_successful_runs: usize,
    failed_runs: Vec<FailedRun<'a>>,
    /// Whether all planned runs succeeded.
    is_complete: bool,
    metadata: Metadata<'a>,
    /// The cells.
    per_combination_metrics: &'a [Combination<'a>],
    best_configurations: BestConfigurations<'a>,
    /// The settings of the cells on the Pareto front.
    pareto_optimal: Vec<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    saturation: Option<SaturationFound<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    beyond: Option<Beyond>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<KnownLimit>,
}

/// What the sweep was.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Metadata<'a> {
    /// Always `sweep`.
    aggregation_type: &'static str,
    sweep_parameters: Vec<Parameter<'a>>,
    /// Number of cells.
    num_combinations: usize,
    /// The order of the runs.
    sweep_mode: Mode,
    /// Confidence level of the intervals.
    confidence_level: f64,
    num_trials_per_value: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sla_constraints: Option<Constraints<'a>>,
}

/// A setting that is varied.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Parameter<'a> {
    name: &'a str,
    /// Its values, in the order of the cells.
    values: Vec<&'a Value>,
}

/// The conditions, and how many cells meet them.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Constraints<'a> {
    active_filters: &'a [Filter],
    feasible_count: usize,
    infeasible_count: usize,
}

/// A cell with its statistics.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Combination<'a> {
    /// Its settings.
    parameters: Map<String, Value>,
    label: &'a str,
    directory: &'a str,
    pub(super) metrics: Pairs<Figures<'a>>,
    /// Its runs.
    runs: Vec<StartedRun<'a>>,
    /// The worst verdict on client health.
    client_verdict: Option<Verdict>,
    /// Whether no other cell is at least as good in throughput and latency, and better in one.
    pareto_optimal: bool,
    /// Why a run is missing from the results, if one is.
    error: Option<&'a str>,
    /// Whether it meets all conditions, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    feasible: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steady_state: Option<SteadyState<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_breakdown: Option<TimeBreakdown<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    convergence: Option<Convergence<'a>>,
}

/// The statistics of the steady states.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SteadyState<'a> {
    metrics: Pairs<Figures<'a>>,
}

/// The statistics of a metric, if each cell has one trial; or else of a statistic of a metric.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(super) enum Figures<'a> {
    Trials(OverTrials),
    Run(Box<OfRun<'a>>),
}

/// The statistics over the trials; those that a single trial does not have are null.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct OverTrials {
    mean: f64,
    /// Sample standard deviation.
    std: Option<f64>,
    min: f64,
    max: f64,
    /// Coefficient of variation, std / |mean|.
    cv: Option<f64>,
    /// Lower end of the confidence interval of the mean.
    ci_low: Option<f64>,
    /// Its upper end.
    ci_high: Option<f64>,
    unit: &'static str,
}

/// The statistics of the requests of a single run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct OfRun<'a> {
    #[serde(flatten)]
    entry: Entry<'a>,
    mean: Option<Average>,
    /// Always null, as the following.
    cv: (),
    ci_low: (),
    ci_high: (),
}

/// Where the time of latencies went, or why that is not known.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum TimeBreakdown<'a> {
    Metrics(Vec<Divided>),
    Reason(&'a str),
}

/// A mean latency as the sum of its parts.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Divided {
    #[cfg_attr(test, schemars(with = "String"))]
    metric: MetricTag,
    mean_ms: f64,
    /// Number of runs in which it is known.
    num_runs: usize,
    /// The parts, in order of time.
    parts: Vec<Part>,
}

/// A part of a mean latency.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Part {
    stage: Stage,
    mean_ms: f64,
    /// Its maximum error.
    bound_ms: f64,
    /// Sample standard deviation over the trials, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    std_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ci_low_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ci_high_ms: Option<f64>,
}

/// The best cells.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BestConfigurations<'a> {
    /// The highest request throughput.
    #[serde(skip_serializing_if = "Option::is_none")]
    best_throughput: Option<BestCell<'a>>,
    /// The lowest p99 of the time to first token, or of the request latency without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    best_latency_p99: Option<BestCell<'a>>,
}

/// A best cell.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct BestCell<'a> {
    /// Its settings.
    parameters: Map<String, Value>,
    /// The value in which it is the best.
    metric: f64,
    unit: &'a str,
    /// The name of that value, such as `time_to_first_token_p99`.
    metric_key: String,
}

/// Where throughput stops growing.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SaturationFound<'a> {
    /// `saturated`, `still_growing`, `max_iterations` or `aborted`; null if the sweep was interrupted.
    status: Option<&'static str>,
    /// Why the sweep could not continue, if it could not.
    error: Option<&'a str>,
    /// The setting that is varied.
    parameter: Option<&'a str>,
    confidence_level: f64,
    /// The load at which the highest throughput is reached.
    knee: Option<Bounded>,
    /// The highest throughput that was sustained.
    request_throughput: Option<Bounded>,
    /// The highest load with a lower throughput, if one was tried.
    grows_until: Option<f64>,
    /// The lowest load whose throughput is not below that of any higher one.
    saturated_from: Option<f64>,
    /// The loads that were tried.
    levels: Vec<Level>,
    /// Mean power of the GPUs at the lowest load with the full throughput.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_power_watts: Option<f64>,
}

/// A load with its throughput, if it is known.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Level {
    value: Load,
    request_throughput: Option<Bounded>,
}

/// How mean latencies grow beyond the limit.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Beyond {
    /// The settings of the last cell up to the limit.
    from: Map<String, Value>,
    /// The settings of the cell after it.
    to: Map<String, Value>,
    growth: Vec<Growth>,
}

impl<'a> Summary<'a> {
    /// Describes `results`, of which `cells` are the cells.
    pub(super) fn new(results: &'a Results, cells: &'a [Combination<'a>]) -> Self {
        let failed = results.failed().map(|(cell, run, failure)| FailedRun {
            label: format!("{}, {}", cell.variation.label, run.member.run_label),
            error: failure.message(),
        });
        let beyond = results.beyond().map(|beyond| Beyond {
            from: parameters(results, beyond.from),
            to: parameters(results, beyond.to),
            growth: beyond.growth,
        });
        let confidence_level = results.config.confidence_level;
        let successful = successful(results);
        let [best_throughput, best_latency_p99] =
            best_cells(results).map(|best| best.map(|best| BestCell::new(results, &best)));
        Self {
            aggregation_type: "sweep",
            aiperf_version: env!("CARGO_PKG_VERSION"),
            sweep_id: results.sweep_id.to_string(),
            num_profile_runs: results.planned(),
            num_successful_runs: successful,
            failed_runs: failed.collect(),
            is_complete: successful as u64 == results.planned(),
            metadata: Metadata::from_results(results),
            per_combination_metrics: cells,
            best_configurations: BestConfigurations { best_throughput, best_latency_p99 },
            pareto_optimal: (results.front().into_iter())
                .map(|cell| parameters(results, cell))
                .collect(),
            saturation: results.saturation.as_ref().map(|it| SaturationFound::new(results, it)),
            beyond,
            limit: results.limit.map(|limit| KnownLimit { confidence_level, limit }),
        }
    }
}

impl<'a> Metadata<'a> {
    fn from_results(results: &'a Results) -> Self {
        let names = results.sweep.parameters.iter().zip(results.sweep.aiperf_names());
        let parameters = names.map(|(parameter, name)| {
            let mut values: Vec<&Value> = Vec::new();
            for cell in &results.cells {
                let value = cell.variation.values.get(&parameter.path);
                values.extend(value.filter(|value| !values.contains(value)));
            }
            Parameter { name, values }
        });
        let filters = &results.sweep.filters;
        let feasible = results.cells.iter().filter(|cell| cell.is_feasible).count();
        let constraints = Constraints {
            active_filters: filters,
            feasible_count: feasible,
            infeasible_count: results.cells.len() - feasible,
        };
        Self {
            aggregation_type: "sweep",
            sweep_parameters: parameters.collect(),
            num_combinations: results.cells.len(),
            sweep_mode: results.sweep.mode,
            confidence_level: results.config.confidence_level,
            num_trials_per_value: results.config.runs,
            sla_constraints: (!filters.is_empty()).then_some(constraints),
        }
    }
}

impl<'a> Combination<'a> {
    /// Describes a cell of `results`.
    pub(super) fn new(results: &'a Results, cell: &'a Cell) -> Self {
        let steady = metrics(results, cell, &cell.steady_rows, |run| &run.steady_results);
        Self {
            parameters: parameters(results, cell),
            label: &cell.variation.label,
            directory: &cell.variation.directory,
            metrics: metrics(results, cell, &cell.rows, |run| &run.results),
            runs: cell.trials.runs.iter().map(StartedRun::from_run_result).collect(),
            client_verdict: cell.verdict(),
            pareto_optimal: cell.is_pareto,
            error: cell.error(),
            feasible: (!results.sweep.filters.is_empty()).then_some(cell.is_feasible),
            steady_state: steady.unless_empty().map(|metrics| SteadyState { metrics }),
            time_breakdown: cell.time_breakdown.as_ref().map(|found| match found {
                Ok(rows) => {
                    TimeBreakdown::Metrics(rows.iter().map(Divided::from_divided_row).collect())
                }
                Err(reason) => TimeBreakdown::Reason(reason),
            }),
            convergence: Convergence::from_trials(&cell.trials),
        }
    }
}

impl Figures<'_> {
    /// Returns the mean, standard deviation, minimum, maximum and coefficient of variation, as far as they
    /// are finite.
    pub(super) fn values(&self) -> [Option<f64>; 5] {
        let values = match self {
            Self::Trials(OverTrials { mean, std, min, max, cv, .. }) => {
                [Some(*mean), *std, Some(*min), Some(*max), *cv]
            }
            Self::Run(run) => {
                let mean = run.mean.map(|mean| match mean {
                    Average::Instant(value) => value as f64,
                    Average::Number(value) => value,
                });
                let Entry { std, min, max, .. } = run.entry;
                [mean, std, min, max, None]
            }
        };
        values.map(|value| value.filter(|value| value.is_finite()))
    }
}

impl OverTrials {
    fn from_row(row: &Row) -> Self {
        let spread = row.across.spread;
        Self {
            mean: row.across.mean,
            std: spread.map(|spread| spread.std),
            min: row.across.min,
            max: row.across.max,
            cv: spread.and_then(|spread| spread.cv),
            ci_low: spread.map(|spread| spread.ci_low),
            ci_high: spread.map(|spread| spread.ci_high),
            unit: row.metric.display_unit.label(),
        }
    }
}

/// Returns the statistics `rows` of a cell, computed from these results of each run: by metric for
/// a single trial, or else by metric and statistic.
fn metrics<'a>(
    results: &Results,
    cell: &'a Cell,
    rows: &[Row],
    of_run: fn(&RunResult) -> &Vec<MetricResult>,
) -> Pairs<Figures<'a>> {
    if results.config.runs > 1 {
        let figures = |row: &Row| (row.key().into(), Figures::Trials(OverTrials::from_row(row)));
        return rows.iter().map(figures).collect();
    }
    let run = cell.trials.successful().next();
    let all = run.into_iter().flat_map(of_run);
    let known = all.filter(|it| rows.iter().any(|row| row.metric.tag == it.metric.tag));
    let figures = known.map(|result| {
        let entry = Entry::from_result(result);
        let run = OfRun { mean: entry.avg, entry, cv: (), ci_low: (), ci_high: () };
        (result.metric.tag.name().into(), Figures::Run(Box::new(run)))
    });
    figures.collect()
}

impl Divided {
    fn from_divided_row(row: &DividedRow) -> Self {
        let part = |part: &PartRow| Part {
            stage: part.stage,
            mean_ms: part.mean_ms.mean,
            bound_ms: part.bound_ms,
            std_ms: part.mean_ms.spread.map(|spread| spread.std),
            ci_low_ms: part.mean_ms.spread.map(|spread| spread.ci_low),
            ci_high_ms: part.mean_ms.spread.map(|spread| spread.ci_high),
        };
        Self {
            metric: row.metric,
            mean_ms: row.mean_ms.mean,
            num_runs: row.mean_ms.runs,
            parts: row.parts.iter().map(part).collect(),
        }
    }
}

impl<'a> BestCell<'a> {
    fn new(results: &Results, best: &Best<'a>) -> Self {
        Self {
            parameters: parameters(results, best.cell),
            metric: best.row.across.mean,
            unit: best.row.metric.display_unit.label(),
            metric_key: best.row.key(),
        }
    }
}

impl<'a> SaturationFound<'a> {
    fn new(results: &'a Results, found: &'a Saturation) -> Self {
        let levels = results.levels().into_iter().map(|level| Level {
            value: level.load,
            request_throughput: level.throughput.as_ref().ok().map(Bounded::from),
        });
        Self {
            status: found.end.as_ref().map(End::as_str),
            error: found.obstacle(),
            parameter: results.sweep.aiperf_names().first().copied(),
            confidence_level: results.config.confidence_level,
            knee: found.knee,
            request_throughput: found.throughput.as_ref().map(Bounded::from),
            grows_until: found.grows_until,
            saturated_from: found.saturated_from,
            levels: levels.collect(),
            gpu_power_watts: results.saturated_watts(),
        }
    }
}

/// Returns the settings of a cell by the names of the parameters.
fn parameters(results: &Results, cell: &Cell) -> Map<String, Value> {
    let named = results.sweep.parameters.iter().zip(results.sweep.aiperf_names());
    let pairs = named.filter_map(|(parameter, name)| {
        Some((name.to_owned(), cell.variation.values.get(&parameter.path)?.clone()))
    });
    pairs.collect()
}
