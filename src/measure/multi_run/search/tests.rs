use super::*;
use crate::metrics::tag;
use crate::multi_run::evidence::Evidence;
use crate::multi_run::{Dimension, sweep};
use proptest::prelude::*;

fn config(dimension: Dimension, min: f64, max: f64) -> Config {
    Config {
        recipe: Recipe::MaxGoodput,
        range: Range { dimension, min, max, warmup_follows: true },
        objective: tag::GOODPUT,
        slos: Vec::new(),
    }
}

/// Tries a server that holds up to `capacity`, which each run tells.
fn search(config: &Config, capacity: f64) -> (Vec<f64>, End) {
    let mut history = searched(config, Vec::new());
    loop {
        match history.next() {
            Ok(Next::Load(load)) => {
                assert_eq!(load.dimension(), config.range.dimension);
                let index = history.points.len() as u64;
                history.points.push(point(index, load, Some(1.0), load.amount() <= capacity));
                history.judge();
            }
            Ok(Next::Again(load)) => panic!("{load} was told"),
            Err(end) => {
                return (
                    history.points.iter().map(|point| point.tried.load.amount()).collect(),
                    end,
                );
            }
        }
    }
}

/// A search with a condition that was made so far.
fn searched(config: &Config, points: Vec<Point>) -> History {
    let good = Filter::parse("good_request_fraction:avg:ge:0.95").unwrap();
    let known = History::new(config, &sweep::Config::default());
    let mut history = History { filters: vec![good], points, ..known };
    history.judge();
    history
}

#[test]
fn sessions_double_then_halve() {
    let search = |min, max, capacity| search(&config(Dimension::Concurrency, min, max), capacity);
    assert_eq!(search(1.0, 1000.0, 5.0), (vec![1.0, 2.0, 4.0, 8.0, 6.0, 5.0], End::Found));
    assert_eq!(search(1.0, 1000.0, 1.0), (vec![1.0, 2.0], End::Found));
    assert_eq!(search(1.0, 10.0, 100.0), (vec![1.0, 2.0, 4.0, 8.0, 10.0], End::AllFeasible));
    assert_eq!(search(3.0, 10.0, 2.0), (vec![3.0], End::NoneFeasible));
    // 4 and 7: 5 is between, not 5.5. (104 - 100) / 104 is below 5 %.
    assert_eq!(search(4.0, 7.0, 6.0), (vec![4.0, 7.0, 5.0, 6.0], End::Found));
    assert_eq!(
        search(1.0, 1000.0, 100.0).0,
        [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 96.0, 112.0, 104.0, 100.0]
    );
}

#[test]
fn rates_are_found_between_whole_numbers() {
    let search = |min, max, capacity| search(&config(Dimension::RequestRate, min, max), capacity);
    // (5.5 - 5.25) / 5.5 is below 5 %.
    assert_eq!(
        search(1.0, 1000.0, 5.3),
        (vec![1.0, 2.0, 4.0, 8.0, 6.0, 5.0, 5.5, 5.25], End::Found)
    );
    assert_eq!(search(0.25, 0.75, 1.0), (vec![0.25, 0.5, 0.75], End::AllFeasible));
}

/// A load at which 1,000 requests were good, or half of them.
fn point(index: u64, load: Load, goodput: Option<f64>, is_met: bool) -> Point {
    let mean = if is_met { 0.0 } else { 0.5 };
    let good = Evidence { mean, weight: 1000.0, requests: 1000 };
    let success = Evidence { mean: 0.0, weight: 1.0, requests: 0 };
    let evidence = vec![good, success];
    Point {
        variation: Variation::of_search(index, load.values()),
        observed: Vec::new(),
        is_feasible: false,
        verdict: None,
        error: None,
        tried: Tried {
            load,
            objective: goodput,
            few: Vec::new(),
            level: Level { load, runs: 1, is_believed: true, can_repeat: true, evidence },
            standing: Standing::CannotTell,
            pace: None,
        },
    }
}

fn amount(point: Option<&Point>) -> f64 {
    point.unwrap().tried.load.amount()
}

#[test]
fn the_best_is_feasible_if_any_is() {
    let points = vec![
        point(0, Load::Concurrency(1), Some(1.0), true),
        point(1, Load::Concurrency(8), Some(9.0), false),
        point(2, Load::Concurrency(4), Some(4.0), true),
        point(3, Load::Concurrency(6), None, false),
    ];
    let config = config(Dimension::Concurrency, 1.0, 8.0);
    let history = searched(&config, points);
    assert_eq!(amount(history.best()), 4.0);
    assert_eq!(history.neighbours().map(amount), [1.0, 6.0]);
    assert_eq!(amount(history.feasible_max()), 4.0);
    assert_eq!(amount(history.infeasible_min()), 6.0);
    let mut highest = history.clone();
    highest.config.recipe = Recipe::MaxConcurrency;
    highest.points[2].tried.objective = None;
    assert_eq!(amount(highest.best()), 4.0);
    let bad =
        |index, sessions, goodput| point(index, Load::Concurrency(sessions), Some(goodput), false);
    let none = searched(&history.config, vec![bad(0, 1, 1.0), bad(1, 2, 3.0)]);
    assert!(!none.has_feasible());
    assert_eq!(amount(none.best()), 2.0);
    assert!(none.neighbours()[1].is_none());
}

proptest! {
    #[test]
    fn every_search_ends_near_the_capacity(
        of_sessions: bool,
        min in 1_u64..100,
        length in 1_u64..1_000_000,
        capacity in 0.0..2_000_000.0,
    ) {
        let dimension =
            if of_sessions { Dimension::Concurrency } else { Dimension::RequestRate };
        let (min, max) = (min as f64, (min + length) as f64);
        let (tried, end) = search(&config(dimension, min, max), capacity);
        prop_assert!(tried.len() < MAX_POINTS, "{}", tried.len());
        prop_assert!(tried.iter().all(|at| (min..=max).contains(at)));
        prop_assert!(!of_sessions || tried.iter().all(|at| at.fract() == 0.0));
        let good = tried.iter().copied().filter(|at| *at <= capacity).max_by(f64::total_cmp);
        match end {
            End::NoneFeasible => prop_assert!(capacity < min),
            End::AllFeasible => prop_assert!(capacity >= max),
            End::Found => {
                let short = capacity - good.unwrap();
                let most = if of_sessions { 1.0 } else { 0.0 };
                prop_assert!(short <= (0.06 * capacity).max(most), "{good:?} {capacity}");
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }
}

/// Of 60 requests that arrive at random at 0.9/s, more than that may come in their time.
#[test]
fn no_goodput_is_above_the_rate_of_its_load() {
    use crate::metrics::metric::{MetricResult, Stats};
    use crate::multi_run::{self, Failure, Member};
    let load = Load::RequestRate(0.9);
    let variation = Variation::of_search(0, load.values());
    let member = Member::new(uuid::Uuid::nil(), 0, Some(variation.clone()));
    let failure = Failure::Client(String::new());
    let mut run = multi_run::RunResult::failed(member, std::path::PathBuf::new(), failure);
    run.failure = None;
    run.results = vec![MetricResult {
        metric: Registry::row(tag::GOODPUT).unwrap(),
        stats: Stats { avg: 1.1, ..Stats::default() },
    }];
    let mut trials = Trials::new(multi_run::Config::default(), uuid::Uuid::nil());
    trials.runs.push(run);
    let config = config(Dimension::RequestRate, 0.4, 0.9);
    let found = config.tried(&[], &variation, &trials).unwrap();
    assert_eq!(found.objective, Some(0.9));
}
