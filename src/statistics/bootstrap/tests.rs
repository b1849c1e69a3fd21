use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::column::Store;

/// Resamples by numpy: `tests/check_bootstrap.py` compares the file with it.
const GOLDEN: &str = include_str!("../../../tests/golden/bootstrap.json");

#[derive(Deserialize)]
struct Golden {
    length: usize,
    level: f64,
    latencies: Vec<f64>,
    gaps: Vec<f64>,
    starts: Vec<Vec<usize>>,
    expected: Expected,
}

#[derive(Deserialize)]
struct Expected {
    mean: Vec<f64>,
    rate: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
    interval: [f64; 2],
}

/// The ratio of the sums of `over` and `under`.
fn ratio(over: &[f64], under: &[f64]) -> Sample {
    let mut terms = Terms::default();
    terms.extend(over.iter().copied().zip(under.iter().copied()));
    Sample::Ratio(terms)
}

/// The mean of `values`.
fn mean(values: &[f64]) -> Sample {
    ratio(values, &vec![1.0; values.len()])
}

fn assert_near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found} {expected}");
    }
}

#[test]
fn resamples_are_numpys() {
    let golden: Golden = serde_json::from_str(GOLDEN).unwrap();
    let drawn = |sample: &Sample| {
        let mut starts = golden.starts.iter();
        sample.resampled(golden.length, golden.starts.len(), |into| {
            into.copy_from_slice(starts.next().unwrap());
        })
    };
    let ones = vec![1.0; golden.latencies.len()];
    let mean = drawn(&mean(&golden.latencies));
    assert_near(&mean, &golden.expected.mean);
    let rate = drawn(&ratio(&ones, &golden.gaps));
    assert_near(&rate, &golden.expected.rate);
    for (percent, expected) in [(50.0, &golden.expected.p50), (99.0, &golden.expected.p99)] {
        let values = golden.latencies.clone();
        assert_near(&drawn(&Sample::Percentile { values, percent }), expected);
    }
    let ends = interval(&mean[..20], &mean[20..], golden.level).unwrap();
    assert_near(&ends, &golden.expected.interval);
}

/// Terms that each depend on the one before by the factor `by`.
fn dependent(n: usize, by: f64) -> Vec<f64> {
    seeded(n, by, 5)
}

fn seeded(n: usize, by: f64, seed: u64) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut last = 0.0;
    let next = |_| {
        last = by * last + random.random_range(-1.0..1.0);
        last
    };
    (0..n).map(next).collect()
}

#[test]
fn blocks_are_as_long_as_the_dependence() {
    assert_eq!(block_length(&[]), 1);
    assert_eq!(block_length(&[0.1; 500]), 1);
    let [none, some, much] = [0.0, 0.5, 0.9].map(|by| block_length(&dependent(4000, by)));
    assert!(none <= 6, "{none}");
    // (6 r² / (1 - r²)² n)^(1/3), from the covariances r^k: 22 for 0.5, 81 for 0.9.
    assert!((11..=44).contains(&some), "{some}");
    assert!((40..=160).contains(&much), "{much}");
}

#[test]
fn terms_that_compensate_each_other_need_no_long_blocks() {
    // Four requests start at once, then none for a while.
    let gaps: Vec<f64> = (0..200).map(|at| f64::from(u8::from(at % 4 == 3))).collect();
    let sample = ratio(&vec![1.0; gaps.len()], &gaps);
    let length = sample.block_length();
    assert!((4..=20).contains(&length), "{length}");
    assert_eq!(sample.shortage(length), None);
}

#[test]
fn dependence_widens_the_interval() {
    let values = dependent(4000, 0.9);
    let sample = mean(&values);
    let width = |length: usize| {
        let [base, new] = [0, 1].map(|stream| sample.bootstrap(length, RESAMPLES, stream));
        let [low, high] = interval(&base, &new, 0.95).unwrap();
        assert!(low < 0.0 && high > 0.0, "{low} {high}");
        high - low
    };
    // The variance of the mean is 19 times that of independent terms with the same variance.
    let ratio = width(sample.block_length()) / width(1);
    assert!((3.0..5.5).contains(&ratio), "{ratio}");
}

/// Counts which of 100 pairs of samples of the same process differ, in either direction.
///
/// The interval of 200 resamples extends from the 6th to the 195th of them, so 6% of the pairs of
/// independent values differ: 0 or more than 15 have a probability of 0.2% and 0.1%. Dependent
/// values with blocks differ in up to 13% (`docs/decisions/comparing.md`): more than 24 have 0.1%.
/// Without blocks, the interval is too narrow by √((1 + 0.7) / (1 - 0.7)), so that 41% differ: fewer
/// than 26 have 0.1%.
#[test]
fn two_samples_of_one_process_seldom_differ() {
    let found = |n: usize, by: f64, blocks: bool| {
        let differs = |pair: &u64| {
            let sample = |seed: u64| mean(&seeded(n, by, 1000 + seed));
            let [base, new] = [sample(2 * pair), sample(2 * pair + 1)];
            let length = |of: &Sample| if blocks { of.block_length() } else { 1 };
            let difference = new.value().unwrap() - base.value().unwrap();
            let drawn = |of: &Sample, stream: u64| of.bootstrap(length(of), 200, stream);
            let [low, high] = interval(&drawn(&base, 0), &drawn(&new, 1), 0.95).unwrap();
            assert!((low..=high).contains(&difference), "{low} {difference} {high}");
            low > 0.0 || high < 0.0
        };
        (0..100).filter(differs).count()
    };
    let independent = found(500, 0.0, true);
    assert!((1..=15).contains(&independent), "{independent}");
    let dependent = found(500, 0.7, true);
    assert!((1..=24).contains(&dependent), "{dependent}");
    let without_blocks = found(100, 0.7, false);
    assert!(without_blocks >= 26, "{without_blocks}");
}

#[test]
fn few_requests_are_no_sample() {
    let of = |n: usize, percent: Option<f64>| {
        let values = dependent(n, 0.0);
        match percent {
            Some(percent) => Sample::Percentile { values, percent },
            None => mean(&values),
        }
    };
    assert!(of(49, None).shortage(1).unwrap().contains("at least 50"));
    assert_eq!(of(50, None).shortage(5), None);
    assert!(of(50, None).shortage(6).unwrap().contains("at least 60"));
    assert!(of(999, Some(99.0)).shortage(1).unwrap().contains("at least 1000"));
    assert_eq!(of(1000, Some(99.0)).shortage(10), None);
    assert_eq!(of(50, Some(50.0)).shortage(1), None);
}

#[test]
fn terms_of_many_requests_have_the_same_sums() {
    let mut terms = Terms::with_most(8);
    terms.extend((1..=100).map(|at| (f64::from(at), 1.0)));
    // 100 requests, 16 in a term: 1 + … + 16 = 136, and 256 more in each; the last has 97 to 100.
    assert_eq!(terms.over, [136.0, 392.0, 648.0, 904.0, 1160.0, 1416.0, 394.0]);
    assert_eq!(terms.under, [16.0, 16.0, 16.0, 16.0, 16.0, 16.0, 4.0]);
    let sample = Sample::Ratio(terms);
    assert_eq!((sample.len(), sample.value()), (100, Some(50.5)));
    // Blocks of two terms, the last of one: here the first two, three times, and the last.
    let drawn = sample.resampled(32, 1, |starts| starts.copy_from_slice(&[0, 0, 0, 6]));
    assert_eq!(drawn, [(3.0 * 528.0 + 394.0) / 100.0]);
}

#[test]
fn percentiles_of_many_requests_vary_as_if_drawn_one_by_one() {
    let values = dependent(20_000, 0.7);
    for percent in [50.0, 99.0] {
        let column = || Column::of(Store::default(), values.iter().copied());
        let single = Sample::percentile_with(column(), percent, values.len());
        let many = Sample::percentile_with(column(), percent, 2_000);
        assert!(matches!(many, Sample::PercentileOfMany { .. }));
        assert_eq!(single.value(), many.value());
        let width = |sample: &Sample| {
            let [base, new] = [0, 1].map(|stream| sample.bootstrap(96, RESAMPLES, stream));
            let [low, high] = interval(&base, &new, 0.95).unwrap();
            assert!(low < 0.0 && high > 0.0, "{low} {high}");
            high - low
        };
        let ratio = width(&many) / width(&single);
        assert!((0.9..1.1).contains(&ratio), "p{percent}: {ratio}");
    }
}

proptest! {
    // Each case draws thousands of resamples.
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn a_resample_is_within_the_values(
        values in prop::collection::vec(0.0_f64..1e6, 1..80),
        length in 1_usize..100,
        percent in 0.0_f64..100.0,
    ) {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        let column = Column::of(Store::default(), values.iter().copied());
        for sample in [
            Sample::percentile_with(column.clone(), percent, values.len()),
            Sample::percentile_with(column, percent, 8),
            mean(&values),
        ] {
            let first = sample.bootstrap(length, RESAMPLES, 3);
            prop_assert_eq!(first.len(), RESAMPLES);
            prop_assert!(first.iter().all(|one| (least - 1e-6..=most + 1e-6).contains(one)));
            prop_assert_eq!(&first, &sample.bootstrap(length, RESAMPLES, 3));
        }
    }
}

proptest! {
    #[test]
    fn any_terms_have_a_block_length(terms in prop::collection::vec(-1e9_f64..1e9, 0..200)) {
        let length = block_length(&terms);
        prop_assert!(length >= 1 && length <= terms.len().max(1));
    }
}
