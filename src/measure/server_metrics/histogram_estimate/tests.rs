use proptest::prelude::*;

use super::*;

const INF: f64 = f64::INFINITY;

fn close(actual: [f64; 9], expected: [f64; 9], tolerance: f64) {
    for (actual, expected) in actual.iter().zip(expected) {
        assert!((actual - expected).abs() <= tolerance, "{actual} for {expected}");
    }
}

fn unlearned(bounds: &[f64], cumulative: &[f64], sum: f64) -> Option<[f64; 9]> {
    percentiles(bounds, cumulative, sum, &LearnedBuckets::new(bounds))
}

#[test]
fn linear_interpolation_is_that_of_prometheus() {
    let spread = linear_percentiles(&[1.0, 2.0, INF], &[10.0, 20.0, 20.0]).unwrap();
    close(spread, [0.02, 0.1, 0.2, 0.5, 1.0, 1.5, 1.8, 1.9, 1.98], 1e-12);
    let above = linear_percentiles(&[1.0, INF], &[0.0, 2.0]).unwrap();
    close(above, [1.0; 9], 0.0);
    let at_zero = linear_percentiles(&[0.0, 1.0, INF], &[4.0, 4.0, 4.0]).unwrap();
    close(at_zero, [0.0; 9], 0.0);
}

#[test]
fn what_cannot_be_estimated_is_none() {
    assert_eq!(unlearned(&[], &[], 1.0), None);
    assert_eq!(unlearned(&[INF], &[3.0], 1.0), None);
    assert_eq!(unlearned(&[1.0, INF], &[0.0, 0.0], 0.0), None);
    assert_eq!(unlearned(&[1.0, INF], &[1.0], 1.0), None);
    assert_eq!(unlearned(&[1.0, INF], &[1.0, f64::NAN], 1.0), None);
    assert_eq!(unlearned(&[1.0, INF], &[1.0, 1.0], f64::NAN), None);
    assert_eq!(unlearned(&[1.0, INF], &[1.0, 1.0], -0.5), None);
    assert_eq!(unlearned(&[2.0, 1.0, INF], &[1.0, 1.0, 1.0], 0.5), None);
    assert_eq!(linear_percentiles(&[1.0, INF], &[0.0, 0.0]), None);
}

#[test]
fn a_sum_of_zero_means_zeros() {
    assert_eq!(unlearned(&[1.0, INF], &[5.0, 5.0], 0.0), Some([0.0; 9]));
}

#[test]
fn one_observation_is_the_sum() {
    close(unlearned(&[1.0, 2.0, INF], &[0.0, 1.0, 1.0], 1.3).unwrap(), [1.3; 9], 1e-12);
    close(unlearned(&[1.0, 2.0, INF], &[0.0, 0.0, 1.0], 7.0).unwrap(), [7.0; 9], 1e-12);
}

/// 100 observations between 0 and 1 with the mean 0.5 are even: the rank of p is 99p + 0.5, so p50
/// is 0.5 and p1 is 0.0149.
#[test]
fn a_mean_at_the_centre_is_an_even_spread() {
    let even = unlearned(&[1.0, INF], &[100.0, 100.0], 50.0).unwrap();
    let expected = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0]
        .map(|percent: f64| (0.99 * percent + 0.5) / 100.0);
    close(even, expected, 1e-12);
}

/// Observations between 0 and 1 with the mean 0.2: 0.8 of them are below it, 0.2 above.
#[test]
fn the_sum_moves_the_observations() {
    let low = unlearned(&[1.0, INF], &[100.0, 100.0], 20.0).unwrap();
    assert!((low[4] - 0.2 * 50.0 / 80.0).abs() < 1e-12, "{low:?}");
    assert!((low[7] - (0.2 + 0.8 * (94.55 - 80.0) / 20.0)).abs() < 1e-12, "{low:?}");
}

/// Four observations above 1 with the sum 12: their mean is 3, so they reach from 1 to 5.
#[test]
fn above_the_last_bound_the_sum_tells_the_mean() {
    let above = unlearned(&[1.0, INF], &[0.0, 4.0], 12.0).unwrap();
    assert!((above[4] - 3.0).abs() < 1e-12, "{above:?}");
    assert!((above[8] - (1.0 + 3.47)).abs() < 1e-12, "{above:?}");
}

#[test]
fn a_constant_is_found_again() {
    let bounds = [10.0, 100.0, INF];
    for intervals in [10, 14, 40] {
        let mut learned = LearnedBuckets::new(&bounds);
        let mut total = 0.0;
        for at in 0..intervals {
            let count = if at % 5 == 0 { 2.0 } else { 1.0 };
            learned.observe(&[0.0, count, count], count * 51.5);
            total += count;
        }
        let found = percentiles(&bounds, &[0.0, total, total], total * 51.5, &learned).unwrap();
        close(found, [51.5; 9], 1e-3);
    }
}

/// `numpy.percentile([0.5, 5.5], …)`: values between buckets are interpolated.
#[test]
fn few_observations_have_the_percentiles_of_numpy() {
    let found = unlearned(&[1.0, 10.0, INF], &[1.0, 2.0, 2.0], 6.0).unwrap();
    close(found, [0.55, 0.75, 1.0, 1.75, 3.0, 4.25, 5.0, 5.25, 5.45], 1e-12);
}

/// Ten observations at a time, all at 2 or all at 10: assumed to be independent, as a mean of ten
/// varies, they would reach beyond 100. The mean is 6, 5 above the bound: in an exponential tail,
/// one of 2000 is more than 5 ln 2000 above it.
#[test]
fn above_the_last_bound_the_spread_is_at_most_an_exponential_one() {
    let bounds = [1.0, INF];
    let mut learned = LearnedBuckets::new(&bounds);
    for round in 0..40_u32 {
        // Neither together nor alternating.
        let value = if round.count_ones() % 2 == 0 { 2.0 } else { 10.0 };
        learned.observe(&[0.0, 10.0], 10.0 * value);
    }
    let found = percentiles(&bounds, &[0.0, 400.0], 2400.0, &learned).unwrap();
    assert!(found[8] <= 1.0 + 5.0 * 2000.0_f64.ln(), "{found:?}");
}

/// The first half of a long run is at 0.1, the second at 0.9; if only the beginning were kept, all
/// would be at 0.1.
#[test]
fn of_a_long_run_some_intervals_are_kept_from_start_to_end() {
    let bounds = [0.5, 1.0, INF];
    let mut learned = LearnedBuckets::new(&bounds);
    for _ in 0..70_000 {
        learned.observe(&[1.0, 1.0, 1.0], 0.1);
    }
    for _ in 0..70_000 {
        learned.observe(&[0.0, 1.0, 1.0], 0.9);
    }
    let estimates = learned.estimates(&Bucket::all(&bounds).unwrap());
    assert!((estimates[0].mean - 0.1).abs() < 1e-3, "{estimates:?}");
    assert!((estimates[1].mean - 0.9).abs() < 1e-3, "{estimates:?}");
}

/// No interval has a single bucket only, but together they determine both means.
#[test]
fn mixed_intervals_tell_the_means_together() {
    let bounds = [0.1, 0.2, 0.5, 1.0, INF];
    let mut learned = LearnedBuckets::new(&bounds);
    for round in 0..40 {
        let (first, second) = (f64::from(round % 3 + 1), f64::from(round % 5 + 1));
        let sum = first * 0.12 + second * 0.93;
        learned.observe(&[0.0, first, first, first + second, first + second], sum);
    }
    let estimates = learned.estimates(&Bucket::all(&bounds).unwrap());
    assert!((estimates[1].mean - 0.12).abs() < 1e-3, "{estimates:?}");
    assert!((estimates[3].mean - 0.93).abs() < 1e-3, "{estimates:?}");
    assert!(estimates[3].spread() < 1e-3, "{estimates:?}");
}

#[test]
fn intervals_that_make_no_sense_tell_nothing() {
    let bounds = [0.1, 0.2, INF];
    let mut learned = LearnedBuckets::new(&bounds);
    let untouched = learned.clone();
    learned.observe(&[0.0, 1.0], 0.15);
    learned.observe(&[0.0, 0.0, 0.0], 0.0);
    learned.observe(&[0.0, -1.0, -1.0], -0.15);
    learned.observe(&[0.0, 2.0, 1.0], 0.15);
    learned.observe(&[0.0, 1.0, f64::NAN], 0.15);
    learned.observe(&[0.0, 1.0, 1.0], f64::NAN);
    // One observation up to 0.2 cannot be 3.
    learned.observe(&[0.0, 1.0, 1.0], 3.0);
    assert_eq!(learned, untouched);
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => 0.0..1e4,
        2 => -1e3..1e3,
        1 => prop::sample::select(vec![f64::NAN, INF, -INF, 0.0, 1e308, -1e308, 5e-324]),
    ]
}

fn numbers() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(any_number(), 0..8)
}

proptest! {
    #[test]
    fn anything_gives_ascending_percentiles_or_none(
        mut bounds in numbers(),
        ascending in any::<bool>(),
        cumulative in numbers(),
        sum in any_number(),
        intervals in prop::collection::vec((numbers(), any_number()), 0..20),
    ) {
        if ascending {
            bounds.sort_unstable_by(f64::total_cmp);
            bounds.push(INF);
        }
        let mut learned = LearnedBuckets::new(&bounds);
        for (deltas, sum) in &intervals {
            learned.observe(deltas, *sum);
        }
        for found in [
            percentiles(&bounds, &cumulative, sum, &learned),
            linear_percentiles(&bounds, &cumulative),
        ].into_iter().flatten() {
            prop_assert!(found.is_sorted(), "{found:?}");
            prop_assert!(found.iter().all(|value| value.is_finite()), "{found:?}");
        }
    }

    /// Any observations, scrape by scrape.
    #[test]
    fn percentiles_lie_within_the_buckets_that_hold_observations(
        scrapes in prop::collection::vec(prop::collection::vec(0.0..200.0_f64, 0..9), 1..30),
    ) {
        let bounds = [0.0, 0.5, 1.0, 10.0, 11.0, 100.0, INF];
        let mut learned = LearnedBuckets::new(&bounds);
        let mut total = [0.0; 7];
        let mut sum = 0.0;
        for observations in &scrapes {
            let deltas = bounds.map(|bound| observations.iter().filter(|v| **v <= bound).count() as f64);
            learned.observe(&deltas, observations.iter().sum());
            for (total, delta) in total.iter_mut().zip(deltas) {
                *total += delta;
            }
            sum += observations.iter().sum::<f64>();
        }
        let Some(found) = percentiles(&bounds, &total, sum, &learned) else {
            prop_assert!(total[6] <= 0.0);
            return Ok(());
        };
        let counts = per_bucket(&bounds, &total).unwrap();
        let buckets = Bucket::all(&bounds).unwrap();
        let first = counts.iter().position(|count| *count > 0.0).unwrap();
        let last = counts.iter().rposition(|count| *count > 0.0).unwrap();
        prop_assert!(found.is_sorted(), "{found:?}");
        prop_assert!(found[0] >= buckets[first].low && found[8] <= buckets[last].high, "{found:?}");
    }
}
