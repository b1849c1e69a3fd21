//! Statistics over runs: for each statistic of each metric, its mean over the runs with a
//! confidence interval.

use base::statistics::percentile::exact_sum;
use base::statistics::student_t;

use super::{RunResult, Trials};
use crate::metrics::metric::{MetricKind, MetricResult, Statistic};
use crate::metrics::time_breakdown::{Division, Stage, TimeBreakdown};
use crate::metrics::{Metric, MetricTag, Registry};

/// A statistic of a metric, over runs.
#[derive(Debug, Clone)]
pub struct Row {
    pub metric: &'static Metric,
    /// Which of its statistics: `avg`, `p99` and the like.
    pub statistic: Statistic,
    /// Its statistics over the runs, in the metric's display unit.
    pub across: Across,
}

impl Row {
    /// Returns a name such as `time_to_first_token_p99`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}_{}", self.metric.tag, self.statistic)
    }
}

/// Statistics of a value over runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Across {
    /// Number of runs that have it.
    pub runs: usize,
    /// Mean.
    pub mean: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Its variation; absent for a single run.
    pub spread: Option<Dispersion>,
}

/// The variation of a value over runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dispersion {
    /// Sample standard deviation: squared differences over n - 1.
    pub std: f64,
    /// Coefficient of variation, std / |mean|; absent if the mean is 0.
    pub cv: Option<f64>,
    /// Standard error of the mean, std / √n.
    pub se: f64,
    /// Lower end of the interval: mean - `t_critical` · se, but at least the lowest possible value.
    pub ci_low: f64,
    /// Upper end of the interval: mean + `t_critical` · se.
    pub ci_high: f64,
    /// The critical value of Student's t with n - 1 degrees of freedom.
    pub t_critical: f64,
}

impl Across {
    /// Computes statistics of `values`, one per run, with an interval for their mean at the
    /// confidence `level`, which is cut off at `least`, the lowest possible value. `None` without
    /// values.
    #[must_use]
    pub fn from_values(values: &[f64], level: f64, least: f64) -> Option<Self> {
        let runs = values.len();
        let min = values.iter().copied().reduce(f64::min)?;
        let max = values.iter().copied().reduce(f64::max)?;
        let n = runs as f64;
        // The mean of equal values must be exactly that value despite rounding.
        let mean = (exact_sum(values.iter().copied()) / n).clamp(min, max);
        let spread = student_t::critical(level, n - 1.0).map(|t_critical| {
            let squares = exact_sum(values.iter().map(|value| (value - mean).powi(2)));
            let std = (squares / (n - 1.0)).sqrt();
            let se = std / n.sqrt();
            Dispersion {
                std,
                cv: (mean != 0.0).then(|| std / mean.abs()),
                se,
                ci_low: (mean - t_critical * se).max(least.min(mean)),
                ci_high: mean + t_critical * se,
                t_critical,
            }
        });
        Some(Self { runs, mean, min, max, spread })
    }
}

/// Returns the statistics over the successful runs of a statistic of the metric `tag`, if they have
/// it; of a rate, in the long run.
#[must_use]
pub fn across(trials: &Trials, tag: MetricTag, statistic: &str) -> Option<Across> {
    let statistic = Statistic::named(statistic)?;
    let values: Vec<f64> =
        trials.successful().filter_map(|run| run.value(tag, statistic)).collect();
    Across::from_values(&values, trials.config.confidence_level, f64::NEG_INFINITY)
}

/// Returns all statistics of all metrics that a successful run has, in catalogue order,
/// without instants, whose mean is meaningless.
#[must_use]
pub fn rows(trials: &Trials) -> Vec<Row> {
    rows_of(trials, |run| &run.results)
}

/// Returns the same of the steady states of those runs that have one.
#[must_use]
pub fn steady_rows(trials: &Trials) -> Vec<Row> {
    rows_of(trials, |run| &run.steady_results)
}

fn rows_of(trials: &Trials, results: fn(&RunResult) -> &Vec<MetricResult>) -> Vec<Row> {
    let is_instant =
        |metric: &Metric| matches!(metric.kind, MetricKind::Earliest(_) | MetricKind::Latest(_));
    let level = trials.config.confidence_level;
    let mut rows = Vec::new();
    for metric in Registry::catalogue().iter().filter(|metric| !is_instant(metric)) {
        let found: Vec<&MetricResult> = trials
            .successful()
            .filter_map(|run| results(run).iter().find(|found| found.metric.tag == metric.tag))
            .collect();
        let least = if metric.is_signed() { f64::NEG_INFINITY } else { 0.0 };
        let further = found.first().into_iter().flat_map(|result| result.stats.all());
        let further = further.map(|(statistic, _)| statistic).skip(Statistic::ALL.len());
        let all = Statistic::ALL.into_iter().chain(further);
        for statistic in all.filter(|statistic| *statistic != Statistic::Count) {
            let values = found.iter().filter_map(|result| statistic.value_in(&result.stats));
            let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
            let across = Across::from_values(&values, level, least);
            rows.extend(across.map(|across| Row { metric, statistic, across }));
        }
    }
    rows
}

/// A mean latency as the sum of its parts, over runs.
#[derive(Debug, Clone)]
pub struct DividedRow {
    pub metric: MetricTag,
    /// Its mean in a run, in milliseconds.
    pub mean_ms: Across,
    /// Its parts, in order of time.
    pub parts: Vec<PartRow>,
}

impl DividedRow {
    /// Returns the means of its parts in milliseconds; `None` if a part is not of all runs, so that
    /// they do not add up.
    pub fn means(&self) -> Option<Vec<(Stage, f64)>> {
        let mean = |part: &PartRow| {
            (part.mean_ms.runs == self.mean_ms.runs).then_some((part.stage, part.mean_ms.mean))
        };
        self.parts.iter().map(mean).collect()
    }
}

/// A part of a mean latency, over runs.
#[derive(Debug, Clone)]
pub struct PartRow {
    pub stage: Stage,
    /// Its mean in a run, in milliseconds.
    pub mean_ms: Across,
    /// Mean over the runs of the maximum error, in milliseconds.
    pub bound_ms: f64,
}

/// Returns the division of the mean latencies of those runs in which it is known, or why it is not
/// known in any; `None` if the server does not report its times.
#[must_use]
pub fn time_breakdown(trials: &Trials) -> Option<Result<Vec<DividedRow>, String>> {
    let (mut divisions, mut why): (Vec<&Division>, _) = (Vec::new(), None);
    for found in trials.successful().filter_map(|run| run.time_breakdown.as_ref()) {
        match found {
            TimeBreakdown::Found(division) => divisions.push(division),
            TimeBreakdown::None { is_unreported: true, .. } => {}
            TimeBreakdown::None { reason, .. } => why = why.or_else(|| Some(reason.clone())),
        }
    }
    let Some(first) = divisions.first() else { return why.map(Err) };
    let across = |values: &[f64]| {
        Across::from_values(values, trials.config.confidence_level, f64::NEG_INFINITY)
    };
    let rows = first.metrics.iter().filter_map(|divided| {
        let metric = divided.metric;
        let of_runs = || divisions.iter().filter_map(move |division| division.get(metric));
        let means: Vec<f64> = of_runs().map(|divided| divided.mean_ms).collect();
        let parts = divided.parts.iter().filter_map(|part| {
            let found = || of_runs().filter_map(|divided| divided.part(part.stage));
            let means: Vec<f64> = found().map(|part| part.mean_ms).collect();
            let bounds: f64 = found().map(|part| part.bound_ms).sum();
            let bound_ms = bounds / means.len() as f64;
            Some(PartRow { stage: part.stage, mean_ms: across(&means)?, bound_ms })
        });
        Some(DividedRow { metric, mean_ms: across(&means)?, parts: parts.collect() })
    });
    Some(Ok(rows.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_runs_by_hand() {
        let across = Across::from_values(&[10.0, 12.0, 17.0], 0.95, 0.0).unwrap();
        assert_eq!((across.runs, across.mean, across.min, across.max), (3, 13.0, 10.0, 17.0));
        let spread = across.spread.unwrap();
        // Squares 9 + 1 + 16 over 2.
        assert!((spread.std - 13.0_f64.sqrt()).abs() < 1e-12);
        assert!((spread.cv.unwrap() - 13.0_f64.sqrt() / 13.0).abs() < 1e-12);
        assert!((spread.se - (13.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        // t for 2 degrees at 95 %, by the tables: 4.303.
        assert!((spread.t_critical - 4.302_652_729_749_462).abs() < 1e-9);
        assert!((spread.ci_low - (13.0 - 4.302_652_729_749_462 * spread.se)).abs() < 1e-9);
        assert!((spread.ci_high - (13.0 + 4.302_652_729_749_462 * spread.se)).abs() < 1e-9);
    }

    #[test]
    fn one_run_has_no_interval_and_no_runs_have_nothing() {
        let one = Across::from_values(&[5.0], 0.95, 0.0).unwrap();
        assert_eq!(one, Across { runs: 1, mean: 5.0, min: 5.0, max: 5.0, spread: None });
        assert_eq!(Across::from_values(&[], 0.95, 0.0), None);
    }

    #[test]
    fn a_mean_of_zero_has_no_relative_spread() {
        // t at 0.95 with one degree of freedom is 12.7: far below 0 without a least value.
        let ends = |least| {
            let spread = Across::from_values(&[1.0, 3.0], 0.95, least).unwrap().spread.unwrap();
            (spread.ci_low, spread.ci_high)
        };
        assert_eq!(ends(0.0).0, 0.0);
        assert!(ends(f64::NEG_INFINITY).0 < -10.0 && ends(0.0).1 == ends(f64::NEG_INFINITY).1);
        assert_eq!(
            Across::from_values(&[-1.0, 1.0], 0.9, f64::NEG_INFINITY).unwrap().spread.unwrap().cv,
            None
        );
    }

    #[test]
    fn parts_are_averaged_over_the_runs_that_have_them() {
        use crate::metrics::tag;
        use crate::metrics::time_breakdown::{Divided, Part};
        use crate::multi_run::{Config, Member};
        use uuid::Uuid;

        let run = |time_breakdown: Option<TimeBreakdown>| {
            let member = Member::new(Uuid::nil(), 0, None);
            let failure = crate::multi_run::Failure::Client(String::new());
            let failed = RunResult::failed(member, std::path::PathBuf::new(), failure);
            RunResult { failure: None, time_breakdown, ..failed }
        };
        let found = |queue_ms: f64, bound_ms: f64| {
            let parts = vec![Part { stage: Stage::Queue, mean_ms: queue_ms, bound_ms }];
            let divided = Divided { metric: tag::REQUEST_LATENCY, mean_ms: queue_ms, parts };
            run(Some(TimeBreakdown::Found(Division { request_count: 1, metrics: vec![divided] })))
        };
        let over = |runs: Vec<RunResult>| {
            let mut trials = Trials::new(Config { runs: 3, ..Config::default() }, Uuid::nil());
            trials.runs = runs;
            time_breakdown(&trials)
        };
        let reason = "it restarted".to_owned();
        let none =
            || run(Some(TimeBreakdown::None { reason: reason.clone(), is_unreported: false }));
        let rows = over(vec![found(2.0, 0.5), none(), found(4.0, 1.5)]).unwrap().unwrap();
        let [row] = rows.as_slice() else { panic!("{rows:?}") };
        let [part] = row.parts.as_slice() else { panic!("{row:?}") };
        assert_eq!((row.mean_ms.mean, row.mean_ms.runs), (3.0, 2));
        assert_eq!((part.stage, part.mean_ms.mean, part.bound_ms), (Stage::Queue, 3.0, 1.0));
        assert_eq!(over(vec![run(None), none()]).unwrap().unwrap_err(), reason);
        let reason = "no metrics".to_owned();
        let unreported = run(Some(TimeBreakdown::None { reason, is_unreported: true }));
        assert!(over(vec![run(None), unreported]).is_none());
    }

    proptest! {
        #[test]
        fn the_mean_is_within_its_interval_and_the_values(
            values in prop::collection::vec(-1e9_f64..1e9, 2..10), level in 0.5_f64..0.999,
        ) {
            let across = Across::from_values(&values, level, f64::NEG_INFINITY).unwrap();
            let spread = across.spread.unwrap();
            prop_assert!(across.min <= across.mean && across.mean <= across.max);
            prop_assert!(spread.ci_low <= across.mean && across.mean <= spread.ci_high);
            prop_assert!(spread.se <= spread.std && spread.std >= 0.0);
        }

        #[test]
        fn equal_values_do_not_vary(value in -1e12_f64..1e12, runs in 2_usize..10) {
            let across = Across::from_values(&vec![value; runs], 0.95, f64::NEG_INFINITY).unwrap();
            let spread = across.spread.unwrap();
            prop_assert_eq!((across.mean, spread.std), (value, 0.0));
            prop_assert_eq!((spread.ci_low, spread.ci_high), (value, value));
        }
    }
}
