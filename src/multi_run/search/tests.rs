use super::*;
use crate::metrics::tag;
use crate::multi_run::Dimension;
use proptest::prelude::*;

fn config(dimension: Dimension, min: f64, max: f64) -> Config {
    Config {
        recipe: Recipe::MaxGoodput,
        range: Range { dimension, min, max, warmup_follows: true },
        objective: tag::GOODPUT,
        slos: Vec::new(),
    }
}

/// Tries a server that holds up to `capacity`.
fn search(config: &Config, capacity: f64) -> (Vec<f64>, End) {
    let mut tried: Vec<(Load, bool)> = Vec::new();
    loop {
        match next(&config.range, tried.iter().copied()) {
            Ok(load) => {
                assert_eq!(load.dimension(), config.range.dimension);
                tried.push((load, load.amount() <= capacity));
            }
            Err(end) => return (tried.iter().map(|(load, _)| load.amount()).collect(), end),
        }
    }
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

fn point(index: u64, sessions: u64, goodput: Option<f64>, is_feasible: bool) -> Point {
    Point {
        variation: Variation::of_search(index, Load::Concurrency(sessions).values()),
        load: Load::Concurrency(sessions),
        objective: goodput,
        observed: Vec::new(),
        is_feasible,
        verdict: None,
        error: None,
    }
}

fn amount(point: Option<&Point>) -> f64 {
    point.unwrap().load.amount()
}

#[test]
fn the_best_is_feasible_if_any_is() {
    let points = vec![
        point(0, 1, Some(1.0), true),
        point(1, 8, Some(9.0), false),
        point(2, 4, Some(4.0), true),
        point(3, 6, None, false),
    ];
    let config = config(Dimension::Concurrency, 1.0, 8.0);
    let history = History { config, filters: Vec::new(), points, failure: None };
    assert_eq!(amount(history.best()), 4.0);
    assert_eq!(history.neighbours().map(amount), [1.0, 6.0]);
    assert_eq!(amount(history.feasible_max()), 4.0);
    assert_eq!(amount(history.infeasible_min()), 6.0);
    let mut highest = history.clone();
    highest.config.recipe = Recipe::MaxConcurrency;
    highest.points[2].objective = None;
    assert_eq!(amount(highest.best()), 4.0);
    let none = History {
        points: vec![point(0, 1, Some(1.0), false), point(1, 2, Some(3.0), false)],
        ..history
    };
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
