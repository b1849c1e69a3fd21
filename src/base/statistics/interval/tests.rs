use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, StandardNormal};
use serde::Deserialize;

use super::*;
use crate::column::Store;
use crate::statistics::normal;
use crate::statistics::simulation;

/// Intervals by numpy and scipy: `tests/check_intervals.py` compares the file with them.
const GOLDEN: &str = include_str!("../../../../tests/golden/intervals.json");

#[derive(Deserialize)]
struct Golden {
    level: f64,
    base: Vec<f64>,
    new: Vec<f64>,
    expected: Expected,
}

#[derive(Deserialize)]
struct Expected {
    half_width: [f64; 1],
    mean: [f64; 2],
    p50: [f64; 2],
    p90: [f64; 2],
}

fn mean(values: &[f64]) -> Measured {
    Measured::mean(|| values.iter().copied()).unwrap()
}

fn percentile(values: &[f64], percent: f64) -> Measured {
    let column = Column::from_values(Store::default(), values.iter().copied());
    Measured::percentile(column, percent).unwrap()
}

fn assert_near(found: &[f64], expected: &[f64]) {
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} {expected}");
    }
}

#[test]
fn intervals_are_numpys() {
    let Golden { level, base, new, expected } = serde_json::from_str(GOLDEN).unwrap();
    assert_near(&[mean(&base).half_width(level).unwrap()], &expected.half_width);
    let ratio =
        |base, new| difference(&base, &new, Scale::Ratio, level).expect("it has an interval");
    assert_near(&ratio(mean(&base), mean(&new)), &expected.mean);
    for (percent, expected) in [(50.0, expected.p50), (90.0, expected.p90)] {
        assert_near(&ratio(percentile(&base, percent), percentile(&new, percent)), &expected);
    }
}

#[test]
fn independent_values_have_welchs_interval() {
    let [base, new] = [[10.0, 12.0, 14.0], [20.0, 21.0, 25.0]]
        .map(|values| Measured::of_independent(&values).unwrap());
    let found = difference(&base, &new, Scale::Difference, 0.95).unwrap();
    // By hand: means 12 and 22; variances 4 and 7, of the means 4/3 and 7/3, together 11/3;
    // (11/3)² / ((4/3)²/2 + (7/3)²/2) = 3.7231 degrees: scipy.stats.t.ppf(0.975, 3.7231) = 2.859817.
    let half = 2.859_817_048_025_411_3 * (11.0_f64 / 3.0).sqrt();
    assert_near(&found, &[10.0 - half, 10.0 + half]);
}

#[test]
fn a_ratio_is_positive_however_wide_its_interval() {
    let [base, new] = [[1.0, 50.0, 2.0], [0.1, 9.0, 0.2]]
        .map(|values| Measured::of_independent(&values).unwrap());
    let [low, high] = difference(&base, &new, Scale::Ratio, 0.99).unwrap();
    assert!(low.exp_m1() > -1.0 && low < -2.0 && high > 0.0, "{low} {high}");
    let [low, _] = difference(&base, &new, Scale::Difference, 0.99).unwrap();
    assert!(low < -base.value, "{low}");
}

#[test]
fn equal_values_are_exact() {
    let equal = mean(&[0.1; 100]);
    assert_eq!(difference(&equal, &equal, Scale::Ratio, 0.95), Some([0.0, 0.0]));
    let p50 = percentile(&[7.0; 100], 50.0);
    assert_eq!(difference(&p50, &p50, Scale::Ratio, 0.95), Some([0.0, 0.0]));
    // Of few values, nothing is known.
    assert_eq!(difference(&mean(&[1.0, 2.0, 1.0]), &equal, Scale::Ratio, 0.95), None);
    assert!(Measured::mean(std::iter::empty).is_none());
}

#[test]
fn a_share_of_few_has_few_degrees() {
    let share = |every: usize| {
        let values = (0..400).map(move |at| f64::from(u8::from(at % every == every / 2)));
        Measured::share(|| values.clone()).unwrap()
    };
    let (rare, frequent) = (share(200), share(2));
    assert!(rare.degrees < 3.0 && frequent.degrees > 8.0, "{rare:?} {frequent:?}");
}

#[test]
fn the_interval_of_a_share_is_wilsons() {
    // 5 of 50 at 95%: 0.0434781 to 0.2136058 (Newcombe, "Two-sided confidence intervals for the single
    // proportion", Statistics in Medicine 17, 1998, has the formula).
    let [low, high] = wilson(0.1, 50.0, 1.959_963_984_540_054);
    let z2 = 3.841_458_820_694_124_f64;
    let root = (z2 * (z2 + 4.0 * 5.0 * 0.9)).sqrt();
    assert_near(
        &[low, high],
        &[(10.0 + z2 - root) / (2.0 * (50.0 + z2)), (10.0 + z2 + root) / (2.0 * (50.0 + z2))],
    );
}

/// Returns normal values, each with the correlation `by` to the one before.
fn dependent(count: usize, by: f64, seed: u64) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut last: f64 = StandardNormal.sample(&mut random);
    let next = |_| {
        let value = last;
        let step: f64 = StandardNormal.sample(&mut random);
        last = by * last + (1.0 - by * by).sqrt() * step;
        value
    };
    (0..count).map(next).collect()
}

/// A marginal distribution: its name, the value of a normal one, and the mean.
type Marginal = (&'static str, fn(f64) -> f64, f64);

fn normal_value(value: f64) -> f64 {
    10.0 + value
}

fn exponential(value: f64) -> f64 {
    -normal::probability(-value).ln()
}

/// Lognormal with a coefficient of variation of 1.
fn lognormal(value: f64) -> f64 {
    (value * 2.0_f64.ln().sqrt()).exp()
}

const MARGINALS: [Marginal; 3] = [
    ("normal", normal_value, 10.0),
    ("exponential", exponential, 1.0),
    ("lognormal", lognormal, std::f64::consts::SQRT_2),
];

/// Counts in how many of `runs` samples the 95% interval contains the truth: of the mean without
/// `percent`, of that percentile otherwise; and in how many there is none, since there are too few
/// independent values.
fn covered(
    (_, of, mean_of_all): Marginal,
    by: f64,
    count: usize,
    percent: Option<f64>,
    runs: u64,
) -> [u64; 2] {
    let mut found = [0, 0];
    for seed in 0..runs {
        let values: Vec<f64> = dependent(count, by, seed).into_iter().map(of).collect();
        let (measured, truth, least) = match percent {
            None => (mean(&values), mean_of_all, 5.0),
            Some(percent) => {
                let rarer = percent.min(100.0 - percent) / 100.0;
                let truth = of(normal::quantile(percent / 100.0));
                (percentile(&values, percent), truth, 5.0 / rarer)
            }
        };
        if measured.independent < least {
            found[1] += 1;
            continue;
        }
        let t = critical(0.95, measured.degrees).unwrap();
        let [below, above] = measured.reach(t, Scale::Difference).unwrap();
        let contains = measured.value - below <= truth && truth <= measured.value + above;
        found[0] += u64::from(contains);
    }
    found
}

/// Of 400 intervals that contain the truth with 95%, fewer than 365 do with a probability of 0.1%, and more than
/// 393 with 0.05%.
#[test]
fn intervals_contain_the_truth_as_often_as_they_say() {
    for by in [0.0, 0.7] {
        for (count, percent) in [(100, None), (400, None), (400, Some(50.0))] {
            let [contained, without] = covered(MARGINALS[0], by, count, percent, 400);
            assert_eq!(without, 0, "{by} {count} {percent:?}");
            assert!((365..=393).contains(&contained), "{by} {count} {percent:?}: {contained}");
        }
    }
    // Without regard to dependence, the interval of the mean is √((1 + 0.7) / (1 - 0.7)) = 2.4 times too
    // narrow, and contains the truth with 59%: more than 270 of 400 have a probability of 0.01%.
    let ignored = (0..400).filter(|seed| {
        let values = dependent(400, 0.7, *seed);
        let independent = Measured::of_independent(&values).unwrap();
        independent.value.abs() <= independent.half_width(0.95).unwrap()
    });
    let contained = ignored.count();
    assert!(contained <= 270, "{contained}");
}

/// Prints the table of `docs/decisions/comparing.md`.
#[test]
fn how_often_intervals_contain_the_truth() {
    println!("| distribution | correlation | requests | mean | p50 | p90 | p99 |");
    for marginal in MARGINALS {
        for by in [0.0, 0.7, 0.9] {
            for (count, runs) in [(100, 2000), (400, 2000), (2000, 1000)] {
                let shown = [None, Some(50.0), Some(90.0), Some(99.0)].map(|percent| {
                    if percent.is_some_and(|it| (100.0 - it) / 100.0 * (count as f64) < 10.0) {
                        return "-".to_owned();
                    }
                    let runs = simulation::runs(runs);
                    let [contained, without] = covered(marginal, by, count, percent, runs);
                    // Independent values, of which there are always enough, at most 7% of them outside.
                    let outside = (runs - without - contained) as usize;
                    let is_right = by > 0.0 || outside <= simulation::most_of(runs, 0.07);
                    assert!(is_right, "{} {count} {percent:?}: {outside} of {runs}", marginal.0);
                    let share = 100.0 * contained as f64 / (runs - without).max(1) as f64;
                    let none = 100.0 * without as f64 / runs as f64;
                    if none >= 0.5 {
                        format!("{share:.1} ({none:.0}% none)")
                    } else {
                        format!("{share:.1}")
                    }
                });
                println!("| {} | {by} | {count} | {} |", marginal.0, shown.join(" | "));
            }
        }
    }
}
