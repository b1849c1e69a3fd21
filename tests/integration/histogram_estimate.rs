//! Estimated percentiles against exact ones, over the bounds of real servers.

#[path = "../bench/histogram/mod.rs"]
mod simulated;

use simulated::{CASES, errors};

/// Runs of each case.
const RUNS: u64 = 20;

fn mean(errors: [f64; 4]) -> f64 {
    errors.iter().sum::<f64>() / 4.0
}

/// A scrape interval tells a bucket's mean and many tell its spread, so what is
/// left is the shape: far less than the width of a bucket, which is linear's
/// error. A third leaves room for three in the least telling cases.
#[test]
fn learned_buckets_err_by_less_than_a_third_of_linear_interpolation() {
    let all: Vec<_> = CASES.iter().map(|case| (case, errors(case, RUNS))).collect();
    for (case, errors) in &all {
        let (estimate, linear) = (mean(errors.estimate), mean(errors.linear));
        assert!(estimate < linear, "{}: {errors:?}", case.name());
        assert!(estimate < 6.0, "{}: {errors:?}", case.name());
    }
    let over_all = |of: fn(&simulated::Errors) -> f64| all.iter().map(|(_, e)| of(e)).sum::<f64>();
    let estimate = over_all(|errors| mean(errors.estimate));
    assert!(3.0 * estimate < over_all(|errors| mean(errors.linear)));
    assert!(estimate < over_all(|errors| mean(errors.listed)));
    // Without anything learned the sum still helps.
    assert!(over_all(|errors| mean(errors.unlearned)) < over_all(|errors| mean(errors.linear)));
}
