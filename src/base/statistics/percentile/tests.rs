use proptest::prelude::*;
use serde::Deserialize;

use super::*;

/// An entry of `numpy.json`, which `numpy_reference.py` writes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reference {
    values: Vec<f64>,
    avg: f64,
    std: f64,
    sum: f64,
    percentiles: Vec<f64>,
}

#[test]
fn agrees_with_numpy() {
    let references: Vec<Reference> = serde_json::from_str(include_str!("numpy.json")).unwrap();
    assert_eq!(references.len(), 9);
    for reference in references {
        let ours = distribution(|| reference.values.iter().copied()).unwrap();
        let percentiles = [
            ours.p1, ours.p5, ours.p10, ours.p25, ours.p50, ours.p75, ours.p90, ours.p95, ours.p99,
        ];
        assert_eq!(percentiles.as_slice(), reference.percentiles, "{:?}", reference.values);
        assert_near(ours.sum, reference.sum);
        assert_near(ours.sum / ours.count as f64, reference.avg);
        assert_near(ours.std, reference.std);
    }
}

#[test]
fn nothing_has_no_statistics() {
    assert_eq!(distribution(std::iter::empty), None);
    assert_eq!(percentile(&[], 50.0), None);
    assert_eq!(percentile(&[1.0], 101.0), None);
    assert_eq!(percentile(&[1.0], f64::NAN), None);
}

#[test]
fn by_hand() {
    let ours = distribution(|| [40.0, 10.0, 30.0, 20.0].into_iter()).unwrap();
    // Position 3 · 0.9 = 2.7: 30 + 0.7 · 10.
    assert_eq!((ours.p90, ours.p50, ours.p25), (37.0, 25.0, 17.5));
    assert_eq!((ours.min, ours.max, ours.sum, ours.count), (10.0, 40.0, 100.0, 4));
    // Deviations 15, 5, 5, 15: variance 500 / 4.
    assert_eq!(ours.std, 125f64.sqrt());
}

#[test]
fn the_sum_keeps_what_cancels() {
    assert_eq!(exact_sum([1e16, 1.0, -1e16]), 1.0);
    assert_eq!(exact_sum([1.0, 1e100, 1.0, -1e100]), 2.0);
}

fn assert_near(ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() <= 1e-9 * theirs.abs(), "{ours} is not {theirs}");
}

/// The definition: repeated selection of the smallest value, and a weighted mean.
fn naive(values: &[f64], percent: f64) -> f64 {
    let mut left = values.to_vec();
    let mut ascending = Vec::new();
    while !left.is_empty() {
        let smallest =
            (0..left.len()).fold(0, |best, i| if left[i] < left[best] { i } else { best });
        ascending.push(left.remove(smallest));
    }
    let position = (values.len() - 1) as f64 * percent / 100.0;
    let weight = position.fract();
    let above = ascending[position.ceil() as usize];
    (1.0 - weight) * ascending[position as usize] + weight * above
}

#[test]
fn further_percentiles_are_those_of_numpy() {
    let percents = ["50", "99.9", "99.99"].map(|text| text.parse::<Percent>().unwrap());
    let values = || (0..1000).rev().map(f64::from);
    let found = distribution_with(values, &percents).unwrap();
    // Position 999 · 0.999 = 998.001 and 999 · 0.9999 = 998.9001 of the values 0 to 999; every
    // distribution has p50.
    let further: Vec<_> = found.further.iter().map(|(p, value)| (p.to_string(), value)).collect();
    assert_eq!(further.len(), 2);
    for ((name, value), (expected, at)) in
        further.iter().zip([("99.9", 998.001), ("99.99", 998.9001)])
    {
        assert_eq!(name, expected);
        assert!((value - at).abs() < 1e-9, "{value} {at}");
    }
    assert_eq!(found.percentile(Percent::whole(50)), Some(499.5));
    assert_eq!(found.percentile(percents[1]), Some(further[0].1));
    assert_eq!(found.percentile(Percent::whole(98)), None);
    // 2 of 1002 are infinite: rank 1001 · 0.999 = 999.999, which is the first of them.
    let failed = with_failures(values, 2, &percents).unwrap();
    assert_eq!(failed.percentile(percents[1]), Some(f64::INFINITY));
}

proptest! {
    #[test]
    fn agrees_with_the_definition(values in prop::collection::vec(0.0..1e6f64, 1..60)) {
        let ours = distribution(|| values.iter().copied()).unwrap();
        let got = [
            ours.p1, ours.p5, ours.p10, ours.p25, ours.p50, ours.p75, ours.p90, ours.p95, ours.p99,
        ];
        for (percent, got) in Distribution::PERCENTS.into_iter().zip(got) {
            let expected = naive(&values, percent);
            prop_assert!((got - expected).abs() <= 1e-9 * expected.max(1.0), "p{percent}");
        }
    }

    #[test]
    fn the_sum_is_that_of_exact_integers(values in prop::collection::vec(any::<i32>(), 0..200)) {
        // Eighths are exact in f64, and so is their sum below 2^53 eighths.
        let expected: i64 = values.iter().map(|value| i64::from(*value)).sum();
        let got = exact_sum(values.iter().map(|value| f64::from(*value) / 8.0));
        prop_assert_eq!(got, expected as f64 / 8.0);
    }

    #[test]
    fn percentiles_rise_and_stay_within(values in prop::collection::vec(-1e9..1e9f64, 1..40)) {
        let ours = distribution(|| values.iter().copied()).unwrap();
        let rising = [
            ours.min, ours.p1, ours.p5, ours.p10, ours.p25, ours.p50, ours.p75, ours.p90, ours.p95,
            ours.p99, ours.max,
        ];
        // Interpolation from either end may differ in the last bit.
        let slack = 1e-9 * rising.iter().fold(1.0f64, |most, value| most.max(value.abs()));
        prop_assert!(rising.windows(2).all(|two| two[0] <= two[1] + slack));
    }
}
