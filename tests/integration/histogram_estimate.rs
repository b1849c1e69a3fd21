//! Estimated percentiles compared with exact ones, with the bounds of real servers.

#[path = "../bench/histogram/mod.rs"]
mod simulated;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use measure::server_metrics::histogram_estimate::{
    LearnedBuckets, linear_percentiles, percentiles,
};
use serde::Deserialize;
use simulated::{CASES, Listed, errors};

use crate::support::left_out::python;

/// Number of runs of each case.
const RUNS: u64 = 20;

fn mean(errors: [f64; 4]) -> f64 {
    errors.iter().sum::<f64>() / 4.0
}

/// A single scrape interval determines a bucket's mean, and many determine its variance. What
/// remains is the error of the shape, far less than the width of a bucket, which is the error of
/// linear interpolation. A limit of one third leaves a margin of a factor of three in the most
/// difficult cases.
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
    // Even without anything learned, the sum reduces the error.
    assert!(over_all(|errors| mean(errors.unlearned)) < over_all(|errors| mean(errors.linear)));
}

/// A line of the output of `tests/histogram_cases.py`.
#[derive(Deserialize)]
struct Drawn {
    seed: u64,
    kinds: Vec<String>,
    bounds: Vec<f64>,
    cumulative: Vec<Vec<f64>>,
    sums: Vec<f64>,
    exact: [f64; 9],
}

impl Drawn {
    /// Percentiles: estimated, by AIPerf's estimate, linear.
    fn estimated(&self) -> [[f64; 9]; 3] {
        let bounds: Vec<f64> = self.bounds.iter().copied().chain([f64::INFINITY]).collect();
        let (mut learned, mut listed) = (LearnedBuckets::new(&bounds), Listed::new(&bounds));
        let mut total = vec![0.0; bounds.len()];
        for (rises, sum) in self.cumulative.iter().zip(&self.sums) {
            learned.observe(rises, *sum);
            listed.observe(rises, *sum);
            total.iter_mut().zip(rises).for_each(|(total, rise)| *total += rise);
        }
        let sum = self.sums.iter().sum();
        let found = percentiles(&bounds, &total, sum, &learned).unwrap();
        let first = total.iter().position(|count| *count > 0.0).unwrap();
        let last = total.iter().position(|count| count == total.last().unwrap()).unwrap();
        let lowest = if first == 0 { 0.0 } else { bounds[first - 1] };
        let is_inside = found.iter().all(|value| (lowest..=bounds[last]).contains(value));
        assert!(found.is_sorted() && is_inside && found[8].is_finite(), "{}: {found:?}", self.seed);
        [
            found,
            listed.percentiles(&total, sum).unwrap(),
            linear_percentiles(&bounds, &total).unwrap(),
        ]
    }

    /// Mean relative errors of p50, p90, p95 and p99, in percent.
    fn error(&self, found: &[f64; 9]) -> f64 {
        mean([4, 6, 7, 8].map(|at| 100.0 * (found[at] - self.exact[at]).abs() / self.exact[at]))
    }
}

/// Mean, median and 99th percentile of a case.
fn summary(mut errors: Vec<f64>) -> [f64; 3] {
    errors.sort_unstable_by(f64::total_cmp);
    let at = |fraction: f64| errors[((errors.len() - 1) as f64 * fraction) as usize];
    [errors.iter().sum::<f64>() / errors.len() as f64, at(0.5), at(0.99)]
}

/// Cases that were not used for tuning, as many as `AIPERF_HISTOGRAM_CASES`. With `--nocapture`,
/// prints the table in `docs/decisions/histogram-estimate.md`.
#[test]
fn histograms_out_of_sample_are_estimated_better_than_as_listed() {
    let Some(python) = python() else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histogram_cases.py");
    let number = std::env::var("AIPERF_HISTOGRAM_CASES").unwrap_or_else(|_| "300".into());
    let output = Command::new(python).arg(script).args(["9000000", &number]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut errors: BTreeMap<String, [Vec<f64>; 3]> = BTreeMap::new();
    for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let drawn: Drawn = serde_json::from_slice(line).unwrap();
        let found = drawn.estimated();
        for kind in &drawn.kinds {
            let all = errors.entry(kind.clone()).or_default();
            for (all, found) in all.iter_mut().zip(&found) {
                all.push(drawn.error(found));
            }
        }
    }
    for (kind, errors) in &errors {
        let [ours, listed, linear] = errors.clone().map(summary);
        let show =
            |[mean, median, worst]: [f64; 3]| format!("{mean:.1} / {median:.1} / {worst:.0}");
        let number = errors[0].len();
        println!("| {kind} | {number} | {} | {} | {} |", show(ours), show(listed), show(linear));
    }
    let [ours, listed, linear] = errors["all"].clone().map(summary);
    for at in 0..3 {
        assert!(ours[at] < 0.75 * listed[at], "{ours:?} as listed {listed:?}");
        assert!(ours[at] < 0.5 * linear[at], "{ours:?} linear {linear:?}");
    }
}
