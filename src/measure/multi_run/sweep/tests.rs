use super::*;
use crate::metrics::metric::{MetricResult, Stats};
use crate::metrics::time_breakdown::Stage;
use crate::metrics::{Extent, Registry};
use crate::multi_run::aggregate::{Across, PartRow};
use crate::multi_run::{Config as ManyRuns, Member, RunResult};
use proptest::prelude::*;
use serde_json::json;

fn config(paths: &[&str], mode: Mode) -> Config {
    let parameter = |path: &&str| Parameter { name: (*path).to_owned(), path: (*path).to_owned() };
    Config { parameters: paths.iter().map(parameter).collect(), mode, ..Config::default() }
}

const CONCURRENCY: &str = "phases.profiling.concurrency";
const ISL: &str = "datasets.main.prompts.isl.mean";
const OSL: &str = "datasets.main.prompts.osl.mean";

#[test]
fn repeated_sweeps_go_over_all_cells_and_independent_ones_over_all_trials() {
    let order = |mode| -> Vec<(usize, u64)> {
        steps(mode, 2, 3).map(|step| (step.cell, step.trial)).collect()
    };
    assert_eq!(order(Mode::Repeated), [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]);
    assert_eq!(order(Mode::Independent), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    let pauses = |mode| -> Vec<bool> {
        let config = config(&[], mode);
        let steps: Vec<Step> = steps(mode, 2, 2).collect();
        steps.windows(2).map(|pair| config.is_between_cells(pair[0], pair[1])).collect()
    };
    assert_eq!(pauses(Mode::Repeated), [true, false, true]);
    assert_eq!(pauses(Mode::Independent), [false, true, false]);
}

#[test]
fn cells_are_named_as_in_aiperf() {
    let one = config(&[ISL, CONCURRENCY], Mode::Repeated);
    let cell = one.cell(3, &[json!(20), json!(1)]);
    assert_eq!(cell.directory, "mean_20__concurrency_1");
    assert_eq!(cell.label, format!("{ISL}=20, {CONCURRENCY}=1"));
    assert_eq!(cell.index, 3);
    assert_eq!(json!(cell.values), json!({ISL: 20, CONCURRENCY: 1}));
    assert_eq!(one.aiperf_names(), ["mean", "concurrency"]);
    // Both have a mean.
    let both = config(&[ISL, OSL], Mode::Repeated);
    assert_eq!(both.cell(0, &[json!(20), json!(4)]).directory, "isl_20__osl_4");
    assert_eq!(both.aiperf_names(), [ISL, OSL]);
    let rate = config(&["phases.profiling.rate"], Mode::Repeated);
    assert_eq!(rate.cell(0, &[json!(20.0)]).directory, "rate_20.0");
    assert_eq!(rate.cell(0, &[json!("inf")]).directory, "rate_inf");
    assert_eq!(Variation::named(0, "a/../b: \"c\"?", Map::new()).directory, "ab c");
}

#[test]
fn directories_depend_on_the_order_and_the_number_of_trials() {
    let places = |mode, runs| {
        let sweep = config(&[CONCURRENCY], mode);
        let cell = sweep.cell(0, &[json!(1)]);
        let many = ManyRuns { runs, sweep: Some(sweep), ..ManyRuns::default() };
        let text = |path: std::path::PathBuf| path.display().to_string();
        [
            text(many.directory(Some(&cell), 1)),
            text(many.aggregate_directory(Some(&cell))),
            text(many.sweep_directory()),
        ]
    };
    let [run, _, sweep] = places(Mode::Repeated, 1);
    assert_eq!([run, sweep], ["concurrency_1", "sweep_aggregate"]);
    assert_eq!(
        places(Mode::Repeated, 2),
        [
            "profile_runs/trial_0002/concurrency_1",
            "aggregate/concurrency_1",
            "aggregate/sweep_aggregate"
        ]
    );
    assert_eq!(
        places(Mode::Independent, 2),
        ["concurrency_1/profile_runs/trial_0002", "concurrency_1/aggregate", "sweep_aggregate"]
    );
    let many = ManyRuns { runs: 2, ..ManyRuns::default() };
    assert_eq!(many.directory(None, 1).display().to_string(), "profile_runs/run_0002");
    assert_eq!(many.aggregate_directory(None).display().to_string(), "aggregate");
}

/// Returns a cell whose single run had these results, or failed.
fn cell(index: u64, throughput_and_latency: Option<(f64, f64)>) -> (Variation, Trials) {
    let variation = config(&[CONCURRENCY], Mode::Repeated).cell(index, &[json!(index + 1)]);
    let metric = |tag| Registry::catalogue().iter().find(|metric| metric.tag == tag).unwrap();
    let mut run = RunResult::failed(
        Member::new(Uuid::nil(), 0, Some(variation.clone())),
        std::path::PathBuf::new(),
        Failure::Load("no request succeeded".to_owned()),
    );
    if let Some((throughput, latency)) = throughput_and_latency {
        run.failure = None;
        let distribution =
            crate::metrics::metric::Distribution { p99: latency, ..Default::default() };
        run.results = vec![
            MetricResult {
                metric: metric(tag::REQUEST_LATENCY),
                stats: Stats { avg: 1.0, instant: None, distribution: Some(distribution) },
            },
            MetricResult {
                metric: metric(tag::REQUEST_THROUGHPUT),
                stats: Stats { avg: throughput, instant: None, distribution: None },
            },
        ];
    }
    let mut trials = Trials::new(ManyRuns::default(), Uuid::nil());
    trials.runs.push(run);
    (variation, trials)
}

#[test]
fn runs_are_enough_once_their_spread_is_small() {
    use crate::multi_run::convergence::{self, Mode as By};
    // Returns after how many runs with these throughputs none is needed, and what decided.
    let after = |mode, threshold, throughputs: &[Option<f64>]| {
        let condition = convergence::Config {
            metric: tag::REQUEST_THROUGHPUT,
            statistic: "avg".to_owned(),
            mode,
            threshold,
        };
        let config = ManyRuns { runs: 5, convergence: Some(condition), ..ManyRuns::default() };
        let mut trials = Trials::new(config, Uuid::nil());
        for (trial, throughput) in (0..).zip(throughputs) {
            if !trials.needs(trial) {
                break;
            }
            let (_, mut one) = cell(0, throughput.map(|throughput| (throughput, 1.0)));
            one.runs[0].member.trial = trial;
            trials.add(one.runs.remove(0));
        }
        let observed = trials.convergence.and_then(|convergence| convergence.observed);
        assert_eq!(trials.is_short(), trials.runs.len() < 5 && !trials.is_converged());
        (trials.runs.len(), trials.is_converged(), observed.unwrap_or(f64::NAN))
    };
    let (runs, is_converged, observed) = after(By::Cv, 0.05, &[10.0, 10.0, 10.0, 10.0].map(Some));
    assert_eq!((runs, is_converged, observed), (3, true, 0.0));
    // A deviation of 1 and a mean of 10; t for 2 degrees is 4.303, so the width is 2 · 4.303 / √3.
    let (runs, is_converged, observed) = after(By::Cv, 0.11, &[9.0, 10.0, 11.0].map(Some));
    assert!(runs == 3 && is_converged && (observed - 0.1).abs() < 1e-12, "{observed}");
    let width = 2.0 * 4.302_652_729_7 / 3.0_f64.sqrt() / 10.0;
    let (runs, is_converged, observed) = after(By::CiWidth, 0.49, &[9.0, 10.0, 11.0].map(Some));
    assert!(runs == 3 && !is_converged && (observed - width).abs() < 1e-9, "{observed}");
    let (.., is_converged, _) = after(By::CiWidth, 0.5, &[9.0, 10.0, 11.0].map(Some));
    assert!(is_converged);
    // A failed run does not count.
    let (runs, is_converged, _) = after(By::Cv, 0.1, &[Some(5.0), None, Some(5.0), Some(5.0)]);
    assert_eq!((runs, is_converged), (4, true));
    // Runs without values do not have a distribution.
    assert!(after(By::Distribution, 0.05, &[1.0; 5].map(Some)).2.is_nan());
}

fn results(cells: &[Option<(f64, f64)>]) -> Results {
    let cells = (0..).zip(cells).map(|(index, values)| cell(index, *values));
    let sweep = config(&[CONCURRENCY], Mode::Repeated);
    Results::from_cells(&ManyRuns::default(), &sweep, Uuid::nil(), cells)
}

#[test]
fn the_best_cells_are_known_even_if_one_failed() {
    let found = results(&[Some((10.0, 5.0)), None, Some((30.0, 9.0)), Some((20.0, 9.0))]);
    let best = found.best_throughput().unwrap();
    assert_eq!((best.cell.variation.index, best.row.across.mean), (2, 30.0));
    let best = found.best_latency().unwrap();
    assert_eq!((best.cell.variation.index, best.row.key()), (0, "request_latency_p99".to_owned()));
    let front: Vec<bool> = found.cells.iter().map(|cell| cell.is_pareto).collect();
    assert_eq!(front, [true, false, true, false]);
    assert_eq!(found.cells[1].error(), Some("no request succeeded"));
    assert_eq!((found.planned(), found.failed().count()), (4, 1));
    // Rates are compared as they are in the long run: two requests a second apart are not 2/s.
    let (variation, mut trials) = cell(0, Some((2.0, 5.0)));
    let mut extent = Extent::default();
    for start in [0, 1_000_000_000] {
        extent.add(start, start + 1);
    }
    trials.runs[0].long_run = extent.long_run(None);
    let sweep = config(&[CONCURRENCY], Mode::Repeated);
    let cells = [(variation, trials), cell(1, Some((1.5, 5.0)))];
    let found = Results::from_cells(&ManyRuns::default(), &sweep, Uuid::nil(), cells);
    assert_eq!(found.best_throughput().unwrap().cell.variation.index, 1);
    assert_eq!(found.cells.iter().map(|cell| cell.is_pareto).collect::<Vec<_>>(), [false, true]);
    // The first of equals.
    let equal = results(&[Some((1.0, 1.0)), Some((1.0, 1.0))]);
    assert_eq!(equal.best_throughput().unwrap().cell.variation.index, 0);
    assert!(equal.cells.iter().all(|cell| cell.is_pareto));
    let none = results(&[None, None]);
    assert!(none.best_throughput().is_none() && none.best_latency().is_none());
}

/// Sets the parts of the mean request latency of each cell.
fn divide(results: &mut Results, parts: &[&[(Stage, f64)]]) {
    let across = |value| Across::from_values(&[value], 0.95, f64::NEG_INFINITY).unwrap();
    for (cell, parts) in results.cells.iter_mut().zip(parts) {
        let rows = parts.iter().map(|(stage, ms)| PartRow {
            stage: *stage,
            mean_ms: across(*ms),
            bound_ms: 0.1,
        });
        let mean_ms = across(parts.iter().map(|(_, ms)| ms).sum());
        let metric = tag::REQUEST_LATENCY;
        cell.time_breakdown = Some(Ok(vec![DividedRow { metric, mean_ms, parts: rows.collect() }]));
    }
}

#[test]
fn what_grows_beyond_the_knee_is_known() {
    let mut found = results(&[Some((10.0, 5.0)), Some((20.0, 9.0)), Some((20.0, 9.0))]);
    let parts = |queue, decode| [(Stage::Queue, queue), (Stage::Decode, decode)];
    let cells = [parts(0.0, 5.0), parts(1.0, 5.5), parts(31.0, 6.0)];
    divide(&mut found, &[&cells[0], &cells[1], &cells[2]]);
    assert!(found.beyond().is_none(), "without a knee or conditions");
    found.saturation = Some(Saturation {
        end: None,
        throughput: None,
        at_least: None,
        knee: None,
        around: None,
        grows_until: Some(1.0),
        saturated_from: Some(2.0),
    });
    let sentences = |found: &Results| -> Vec<String> {
        found.beyond().iter().flat_map(Beyond::sentences).collect()
    };
    let text = "Mean request latency grew by 30.5 ms from concurrency 2 to concurrency 3: queue \
                +30.0, decode +0.5.";
    assert_eq!(sentences(&found), [text]);
    // Cells are in the order in which they were tried.
    found.cells.reverse();
    assert_eq!(sentences(&found), [text]);
    // The highest load that meets all conditions.
    found.saturation = None;
    found.sweep.filters.push(Filter::parse("request_latency:p99<6").unwrap());
    for cell in &mut found.cells {
        cell.is_feasible = cell.variation.index == 0;
    }
    let text = "Mean request latency grew by 1.50 ms from concurrency 1 to concurrency 2: queue \
                +1.00, decode +0.50.";
    assert_eq!(sentences(&found), [text]);
    // A latency that does not grow, and other stages.
    divide(&mut found, &[&cells[0], &cells[0], &cells[0]]);
    assert!(found.beyond().is_none());
    divide(&mut found, &[&cells[2], &[(Stage::QueueAndPrefill, 9.0)], &cells[0]]);
    assert!(found.beyond().is_none());
}

proptest! {
    #[test]
    fn the_front_is_what_no_point_beats(
        points in prop::collection::vec(prop::option::of((0_u8..6, 0_u8..6)), 0..12)
    ) {
        let given: Vec<Option<(f64, f64)>> =
            points.iter().map(|point| point.map(|(x, y)| (f64::from(x), f64::from(y)))).collect();
        // Brute force over whole numbers: sort by falling throughput and rising latency, and keep
        // each point with a lower latency than all with a higher throughput.
        let mut known: Vec<(u8, u8)> = points.iter().flatten().copied().collect();
        known.sort_by_key(|(x, y)| (std::cmp::Reverse(*x), *y));
        let mut front = std::collections::BTreeSet::new();
        let mut least = u8::MAX;
        for (x, y) in known {
            if y < least {
                least = y;
                front.insert((x, y));
            }
        }
        let expected: Vec<bool> =
            points.iter().map(|point| point.is_some_and(|point| front.contains(&point))).collect();
        prop_assert_eq!(pareto(&given), expected);
    }
}
