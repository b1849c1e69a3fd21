//! The errors of percentiles estimated from a histogram, for the bucket bounds of real servers: by
//! the project's estimate, by plain linear interpolation, and by AIPerf's polynomial estimate.

#![allow(clippy::unwrap_used, reason = "the parameters are constants")]

mod listed;

use measure::server_metrics::histogram_estimate::{
    LearnedBuckets, linear_percentiles, percentiles,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp, LogNormal, Poisson, Uniform};

pub(crate) use listed::Listed;

/// Bounds of a recorded histogram, without `+Inf`.
pub(crate) struct Buckets {
    pub(crate) name: &'static str,
    pub(crate) bounds: &'static [f64],
}

pub(crate) const VLLM_TTFT: Buckets = Buckets {
    name: "vLLM TTFT",
    bounds: &[
        0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
        20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
    ],
};
pub(crate) const VLLM_ITL: Buckets = Buckets {
    name: "vLLM ITL",
    bounds: &[
        0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
        20.0, 40.0, 80.0,
    ],
};
pub(crate) const VLLM_E2E: Buckets = Buckets {
    name: "vLLM e2e",
    bounds: &[
        0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0,
        240.0, 480.0, 960.0, 1920.0, 7680.0,
    ],
};
pub(crate) const DYNAMO_TTFT: Buckets = Buckets {
    name: "Dynamo TTFT",
    bounds: &[
        0.0, 0.0022, 0.0047, 0.01, 0.022, 0.047, 0.1, 0.22, 0.47, 1.0, 2.2, 4.7, 10.0, 22.0, 48.0,
        100.0, 220.0, 480.0,
    ],
};
pub(crate) const DYNAMO_ITL: Buckets = Buckets {
    name: "Dynamo ITL",
    bounds: &[
        0.0, 0.0018, 0.0033, 0.0059, 0.011, 0.02, 0.035, 0.064, 0.12, 0.21, 0.38, 0.69, 1.2, 2.3,
        4.1, 7.4, 13.0, 24.0, 44.0, 80.0,
    ],
};
pub(crate) const DYNAMO_DURATION: Buckets = Buckets {
    name: "Dynamo duration",
    bounds: &[0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 130.0, 260.0, 510.0],
};
/// Bounds of an HTTP middleware: they are few, and slow requests are above the last one.
pub(crate) const FEW: Buckets = Buckets { name: "0.1, 0.5, 1", bounds: &[0.1, 0.5, 1.0] };

/// A distribution of latencies.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// Median and sigma of the logarithm.
    LogNormal(f64, f64),
    /// Two lognormals, and the fraction of the first.
    Bimodal((f64, f64), (f64, f64), f64),
    Constant(f64),
    Uniform(f64, f64),
    /// Mean.
    Exponential(f64),
    /// A lognormal whose median moves from the first value to the second.
    Drifting(f64, f64, f64),
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Self::LogNormal(..) => "lognormal",
            Self::Bimodal(..) => "bimodal",
            Self::Constant(_) => "constant",
            Self::Uniform(..) => "uniform",
            Self::Exponential(_) => "exponential",
            Self::Drifting(..) => "drifting",
        }
    }

    fn draw(self, progress: f64, rng: &mut ChaCha8Rng) -> f64 {
        let lognormal = |(median, sigma): (f64, f64), rng: &mut ChaCha8Rng| {
            LogNormal::new(median.ln(), sigma).unwrap().sample(rng)
        };
        match self {
            Self::LogNormal(median, sigma) => lognormal((median, sigma), rng),
            Self::Bimodal(first, second, share) => {
                let part = Uniform::new(0.0, 1.0).unwrap().sample(rng);
                lognormal(if part < share { first } else { second }, rng)
            }
            Self::Constant(value) => value,
            Self::Uniform(low, high) => Uniform::new(low, high).unwrap().sample(rng),
            Self::Drifting(from, to, sigma) => {
                lognormal((from + (to - from) * progress, sigma), rng)
            }
            Self::Exponential(mean) => Exp::new(1.0 / mean).unwrap().sample(rng),
        }
    }
}

/// A distribution in a histogram.
pub(crate) struct Case {
    pub(crate) buckets: &'static Buckets,
    pub(crate) shape: Shape,
    /// Mean number of observations per scrape.
    pub(crate) per_scrape: f64,
}

impl Case {
    pub(crate) fn name(&self) -> String {
        format!("{}, {}, {}", self.buckets.name, self.shape.name(), self.per_scrape)
    }
}

const fn case(buckets: &'static Buckets, shape: Shape, per_scrape: f64) -> Case {
    Case { buckets, shape, per_scrape }
}

/// Typical latencies of servers, with the bounds that these servers use.
pub(crate) const CASES: [Case; 20] = [
    case(&VLLM_TTFT, Shape::LogNormal(0.13, 0.35), 1.0),
    case(&VLLM_TTFT, Shape::LogNormal(0.13, 0.35), 4.0),
    case(&VLLM_TTFT, Shape::LogNormal(0.13, 0.35), 20.0),
    case(&VLLM_TTFT, Shape::Bimodal((0.03, 0.1), (1.6, 0.2), 0.8), 4.0),
    case(&VLLM_TTFT, Shape::Constant(0.11), 4.0),
    case(&VLLM_TTFT, Shape::Uniform(0.05, 0.4), 4.0),
    case(&VLLM_TTFT, Shape::Exponential(0.3), 4.0),
    case(&VLLM_ITL, Shape::LogNormal(0.012, 0.1), 100.0),
    case(&VLLM_ITL, Shape::Bimodal((0.012, 0.1), (0.06, 0.2), 0.95), 100.0),
    case(&VLLM_E2E, Shape::LogNormal(3.0, 0.3), 4.0),
    case(&VLLM_E2E, Shape::Exponential(6.0), 4.0),
    case(&DYNAMO_TTFT, Shape::LogNormal(0.13, 0.35), 4.0),
    case(&DYNAMO_TTFT, Shape::Bimodal((0.03, 0.1), (1.6, 0.2), 0.8), 20.0),
    case(&DYNAMO_ITL, Shape::LogNormal(0.0125, 0.1), 100.0),
    case(&DYNAMO_DURATION, Shape::LogNormal(3.0, 0.3), 4.0),
    case(&DYNAMO_DURATION, Shape::LogNormal(2.8, 0.1), 20.0),
    case(&VLLM_ITL, Shape::Drifting(0.011, 0.019, 0.1), 100.0),
    case(&VLLM_TTFT, Shape::Drifting(0.12, 0.4, 0.2), 4.0),
    case(&FEW, Shape::LogNormal(3.0, 0.3), 4.0),
    case(&FEW, Shape::Bimodal((0.3, 0.2), (3.0, 0.3), 0.9), 4.0),
];

/// One minute at 3 Hz.
const SCRAPES: usize = 180;
/// Positions of p50, p90, p95 and p99 among the nine percentiles.
const SHOWN: [usize; 4] = [4, 6, 7, 8];
const FRACTIONS: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

/// Mean relative errors of p50, p90, p95 and p99, in percent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Errors {
    pub(crate) estimate: [f64; 4],
    /// The estimate without anything learned.
    pub(crate) unlearned: [f64; 4],
    pub(crate) linear: [f64; 4],
    pub(crate) listed: [f64; 4],
}

/// Returns the mean errors of `case` over `runs` runs of a minute.
pub(crate) fn errors(case: &Case, runs: u64) -> Errors {
    let mut errors = Errors::default();
    for seed in 0..runs {
        let [estimate, unlearned, linear, listed] = run(case, seed);
        for at in 0..4 {
            errors.estimate[at] += estimate[at] * 100.0 / runs as f64;
            errors.unlearned[at] += unlearned[at] * 100.0 / runs as f64;
            errors.linear[at] += linear[at] * 100.0 / runs as f64;
            errors.listed[at] += listed[at] * 100.0 / runs as f64;
        }
    }
    errors
}

/// Returns the relative errors of one run: of the estimate, of the estimate without anything
/// learned, of linear interpolation, and of AIPerf's estimate.
fn run(case: &Case, seed: u64) -> [[f64; 4]; 4] {
    let bounds: Vec<f64> = case.buckets.bounds.iter().copied().chain([f64::INFINITY]).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let arrivals = Poisson::new(case.per_scrape).unwrap();
    let mut learned = LearnedBuckets::new(&bounds);
    let mut listed = Listed::new(&bounds);
    let (mut total, mut sum, mut all) = (vec![0.0; bounds.len()], 0.0, Vec::new());
    for scrape in 0..SCRAPES {
        let progress = scrape as f64 / SCRAPES as f64;
        let observations: Vec<f64> = (0..arrivals.sample(&mut rng) as usize)
            .map(|_| case.shape.draw(progress, &mut rng))
            .collect();
        let up_to = |bound: &f64| observations.iter().filter(|value| *value <= bound).count();
        let deltas: Vec<f64> = bounds.iter().map(|bound| up_to(bound) as f64).collect();
        let rise: f64 = observations.iter().sum();
        learned.observe(&deltas, rise);
        listed.observe(&deltas, rise);
        total.iter_mut().zip(&deltas).for_each(|(total, delta)| *total += delta);
        sum += rise;
        all.extend(observations);
    }
    all.sort_unstable_by(f64::total_cmp);
    let exact = FRACTIONS.map(|fraction| listed::numpy_percentile(&all, fraction));
    let relative = |values: [f64; 9]| {
        let value = |at: usize| (values[SHOWN[at]] - exact[at]).abs() / exact[at];
        [value(0), value(1), value(2), value(3)]
    };
    [
        relative(percentiles(&bounds, &total, sum, &learned).unwrap()),
        relative(percentiles(&bounds, &total, sum, &LearnedBuckets::new(&bounds)).unwrap()),
        relative(linear_percentiles(&bounds, &total).unwrap()),
        relative(listed.percentiles(&total, sum).unwrap()),
    ]
}
