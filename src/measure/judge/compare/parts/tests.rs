use base::column::Store;

use super::*;
use crate::judge::compare::{Plan, Requests, Trial};
use crate::metrics::health::ClientBounds;
use crate::metrics::metric::Statistic;
use crate::metrics::steady::Unsteady;
use crate::metrics::tag;
use crate::metrics::time_breakdown::Division;

/// A run whose mean latency consists of these parts.
fn run(parts: &[(Stage, f64)]) -> Trial {
    let part =
        |(stage, mean_ms): &(Stage, f64)| Part { stage: *stage, mean_ms: *mean_ms, bound_ms: 0.5 };
    let mean_ms = parts.iter().map(|(_, mean_ms)| mean_ms).sum();
    let metric = tag::REQUEST_LATENCY;
    let divided = Divided { metric, mean_ms, parts: parts.iter().map(part).collect() };
    Trial {
        results: Vec::new(),
        steady_state: Err(Unsteady::UnknownLoad),
        time_breakdown: Some(Division { request_count: 9, metrics: vec![divided] }),
        prefix_cache: None,
        outputs: None,
        bounds: ClientBounds::default(),
        requested_rate: None,
        long_run: None,
        requests: Requests::new(&Plan::new(&[], &[], 0.95, 2.0, 1), &Store::default()),
    }
}

fn side(trials: Vec<Trial>) -> Side {
    Side { trials, ..Side::default() }
}

#[test]
fn single_runs_have_differences_without_intervals() {
    let base = side(vec![run(&[(Stage::Queue, 2.0), (Stage::Prefill, 5.0)])]);
    let new = side(vec![run(&[(Stage::Queue, 6.0), (Stage::Server, 1.0)])]);
    let row = |stage, base_ms: Option<f64>, new_ms, difference_ms| PartRow {
        metric: tag::REQUEST_LATENCY,
        stage,
        base_ms,
        new_ms,
        difference_ms,
        interval_ms: None,
    };
    let expected = [
        row(Stage::Queue, Some(2.0), Some(6.0), Some(4.0)),
        row(Stage::Prefill, Some(5.0), None, None),
        row(Stage::Server, None, Some(1.0), None),
    ];
    assert_eq!(compare(&base, &new, 0.95), expected);
    assert_eq!(compare(&side(Vec::new()), &side(Vec::new()), 0.95), []);
}

#[test]
fn three_runs_have_the_interval_of_welch() {
    let side_with =
        |values: [f64; 3]| side(values.map(|value| run(&[(Stage::Queue, value)])).into());
    let rows = compare(&side_with([1.0, 2.0, 3.0]), &side_with([11.0, 12.0, 13.0]), 0.95);
    assert_eq!((rows.len(), rows[0].difference_ms), (1, Some(10.0)));
    // Variances of 1, so the standard error is the root of 2/3, with 4 degrees of freedom: t is
    // 2.776 by the tables.
    let half = 2.776_445_105 * (2.0_f64 / 3.0).sqrt();
    let [low, high] = rows[0].interval_ms.unwrap();
    assert!((low - (10.0 - half)).abs() < 1e-6 && (high - (10.0 + half)).abs() < 1e-6);
    let two = side(vec![run(&[(Stage::Queue, 1.0)]), run(&[(Stage::Queue, 2.0)])]);
    let rows = compare(&two, &side_with([11.0, 12.0, 13.0]), 0.95);
    assert_eq!((rows[0].difference_ms, rows[0].interval_ms), (Some(10.5), None));
}

/// The row of the mean request latency.
fn mean(interval: [f64; 2], finding: Finding) -> Row {
    Row {
        is_steady: false,
        metric: tag::REQUEST_LATENCY,
        statistic: Statistic::Avg,
        unit: "ms",
        base: Some(7.0),
        new: Some(19.0),
        difference: Some(12.0),
        difference_percent: None,
        interval: Some(interval),
        interval_percent: None,
        block_lengths: None,
        client_errors: None,
        is_of_few: false,
        decides: true,
        gate: None,
        finding,
        needed: None,
        note: None,
    }
}

#[test]
fn a_difference_that_is_shown_is_divided() {
    let base = side(vec![run(&[(Stage::Queue, 2.0), (Stage::Decode, 5.0)])]);
    let new = side(vec![
        run(&[(Stage::Queue, 12.0), (Stage::Decode, 6.0)]),
        run(&[(Stage::Queue, 14.0), (Stage::Decode, 6.0)]),
    ]);
    let shown = [mean([8.0, 16.0], Finding::Regression)];
    let [found] = &growth(&base, &new, &shown)[..] else { panic!("one latency") };
    assert_eq!(
        found.sentence(""),
        "Mean request latency grew by 12.0 ms: queue +11.0, decode +1.0."
    );
    let none = |base: &Side, new: &Side, interval, finding| {
        growth(base, new, &[mean(interval, finding)]).is_empty()
    };
    // Chance explains it, it is tolerated, or nothing can be concluded.
    assert!(none(&base, &new, [-1.0, 25.0], Finding::Undecided));
    assert!(none(&base, &new, [0.1, 0.2], Finding::NoDifference));
    assert!(none(&base, &new, [8.0, 16.0], Finding::CannotTell));
    assert!(growth(&base, &new, &[]).is_empty());
    // Not the same stages on both sides, or in all runs of a side.
    let other = side(vec![run(&[(Stage::QueueAndPrefill, 14.0), (Stage::Decode, 5.0)])]);
    assert!(none(&base, &other, [8.0, 16.0], Finding::Regression));
    let mixed = side(vec![run(&[(Stage::Queue, 14.0), (Stage::Decode, 5.0)]), run(&[])]);
    assert!(none(&base, &mixed, [8.0, 16.0], Finding::Regression));
}
