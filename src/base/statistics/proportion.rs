//! The share of requests that have a property, and its interval.
//!
//! The interval is that of Clopper and Pearson, "The use of confidence or fiducial limits illustrated
//! in the case of the binomial", Biometrika 26 (1934). Its ends are quantiles of beta distributions,
//! so that the counts need not be whole: requests that depend on each other count for fewer.
//! A percentile is below a limit exactly if few enough values are beyond it.

/// `hits` of `trials` requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Proportion {
    pub hits: f64,
    pub trials: f64,
}

impl Proportion {
    /// Returns whether so few hits have at most the probability `tail` if the share is `limit` or
    /// more: the upper end of the interval is then at most `limit`.
    #[must_use]
    pub fn is_below(self, limit: f64, tail: f64) -> bool {
        let Self { hits, trials } = self;
        hits < trials && regularized(1.0 - limit, trials - hits, hits + 1.0) <= tail
    }

    /// Returns whether so many hits have at most the probability `tail` if the share is `limit` or
    /// less.
    #[must_use]
    pub fn is_above(self, limit: f64, tail: f64) -> bool {
        let Self { hits, trials } = self;
        hits > 0.0 && regularized(limit, hits, trials - hits + 1.0) <= tail
    }

    /// Returns the most hits of `trials` that still show that the share is [below](Self::is_below)
    /// `limit`; `None` if even none of them do, since there are too few trials.
    #[must_use]
    pub fn most_hits(trials: u64, limit: f64, tail: f64) -> Option<u64> {
        let is_below =
            |hits: u64| Self { hits: hits as f64, trials: trials as f64 }.is_below(limit, tail);
        // The first number of hits that does not.
        let first = first(0, trials, |hits| !is_below(hits));
        first.checked_sub(1)
    }

    /// Returns the smallest number of further trials, none of which is a hit, that show that the share
    /// is [below](Self::is_below) `limit`.
    #[must_use]
    pub fn more_trials(self, limit: f64, tail: f64) -> u64 {
        /// More than any run has.
        const MOST: u64 = 1 << 50;
        let is_below = |more: u64| {
            Self { hits: self.hits, trials: self.trials + more as f64 }.is_below(limit, tail)
        };
        let mut enough = 1;
        while enough < MOST && !is_below(enough) {
            enough *= 2;
        }
        first(0, enough, is_below)
    }

    /// Returns the ends of the interval, outside of which the share is with the probability `tail` on
    /// each side.
    #[must_use]
    pub fn interval(self, tail: f64) -> [f64; 2] {
        // The largest share that the hits are above, and the smallest that they are below.
        let low = boundary(|share| !self.is_above(share, tail));
        let high = boundary(|share| self.is_below(share, tail));
        [low, high]
    }
}

/// Returns the smallest number of requests, none of which is a hit, that show that the share is at
/// most `limit`: (1 - limit)ⁿ ≤ tail. At least 1.
#[must_use]
pub fn least_trials(limit: f64, tail: f64) -> u64 {
    let least = tail.ln() / (-limit).ln_1p();
    // The ratio of two logarithms is exact to a few units of its last digit.
    (least - 1e-9).ceil().max(1.0) as u64
}

/// Returns the first number from `low` to `high` for which `is_it`, which holds for all after it; `high`
/// if there is none before.
fn first(mut low: u64, mut high: u64, is_it: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let middle = low.midpoint(high);
        if is_it(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Returns the share between 0 and 1 from which on `is_beyond` holds, to 15 digits.
fn boundary(is_beyond: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..52 {
        let middle = low.midpoint(high);
        *if is_beyond(middle) { &mut high } else { &mut low } = middle;
    }
    if low == 0.0 { 0.0 } else { high }
}

/// Returns the regularized incomplete beta function I(x; a, b) for positive `a` and `b`, to about 14
/// digits: the continued fraction of the literature by Lentz's method (Press et al., third
/// edition, 2007, section 6.4; Abramowitz and Stegun, 26.5.8).
#[must_use]
pub(crate) fn regularized(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast below the mean; above, the function of the complement does.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - regularized(1.0 - x, b, a);
    }
    let factor = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    factor.exp() * fraction(x, a, b) / a
}

#[expect(clippy::many_single_char_names, reason = "the names of the literature")]
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    /// Most steps; about √(a + b) are needed.
    const STEPS: u32 = 100_000;
    let guarded = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = guarded(1.0 - (a + b) * x / (a + 1.0)).recip();
    let mut value = d;
    for step in 1..=STEPS {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = guarded(1.0 + term * d).recip();
            c = guarded(1.0 + term / c);
            change = c * d;
            value *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

/// Returns the logarithm of the gamma function of a positive number, to about 14 digits: Lanczos,
/// "A precision approximation of the gamma function", SIAM Journal on Numerical Analysis 1 (1964),
/// with the coefficients of Godfrey for g = 7 and n = 9.
pub fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let terms = (1..).zip(COEFFICIENTS).map(|(at, coefficient)| coefficient / (x + f64::from(at)));
    let sum = 0.999_999_999_999_809_9 + terms.sum::<f64>();
    let t = x + 7.5;
    0.5 * std::f64::consts::TAU.ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_beta_function_has_its_closed_forms() {
        let is_near = |found: f64, expected: f64| (found - expected).abs() < 1e-12;
        // I(x; 1, b) = 1 - (1 - x)^b, I(x; a, 1) = x^a, and I(1/2; a, a) = 1/2.
        assert!(is_near(regularized(0.3, 1.0, 4.0), 1.0 - 0.7_f64.powi(4)));
        assert!(is_near(regularized(0.9, 5.0, 1.0), 0.9_f64.powi(5)));
        assert!(is_near(regularized(0.5, 8.25, 8.25), 0.5));
        // I(x; 2, 3) = 6x² - 8x³ + 3x⁴.
        let x = 0.4_f64;
        let polynomial = 6.0 * x.powi(2) - 8.0 * x.powi(3) + 3.0 * x.powi(4);
        assert!(is_near(regularized(x, 2.0, 3.0), polynomial));
        assert_eq!((regularized(0.0, 2.0, 2.0), regularized(1.0, 2.0, 2.0)), (0.0, 1.0));
    }

    #[test]
    fn a_p99_needs_368_requests() {
        // 0.99^367 = 0.02500…, 0.99^368 = 0.02475….
        assert_eq!(least_trials(0.01, 0.025), 368);
        assert_eq!(least_trials(0.05, 0.025), 72);
        assert_eq!(least_trials(0.5, 0.025), 6);
        assert_eq!(least_trials(0.75, 0.25), 1);
        let none = |trials| Proportion { hits: 0.0, trials };
        assert!(none(368.0).is_below(0.01, 0.025) && !none(367.0).is_below(0.01, 0.025));
        let all = Proportion { hits: 6.0, trials: 6.0 };
        assert!(all.is_above(0.5, 0.025) && !all.is_below(0.99, 0.025));
    }

    #[test]
    fn hits_and_trials_are_those_of_mlperf() {
        // scipy.stats.binom: the largest t with cdf(t, n, 1 - p) <= 0.01, with p = 1 - limit.
        for (trials, limit, most) in [
            (458, 0.01, None),
            (459, 0.01, Some(0)),
            (1000, 0.01, Some(2)),
            (2000, 0.01, Some(9)),
            (10_000, 0.01, Some(77)),
            (270_336, 0.01, Some(2583)),
            (1000, 0.1, Some(78)),
            (100, 0.5, Some(37)),
            (0, 0.5, None),
        ] {
            assert_eq!(Proportion::most_hits(trials, limit, 0.01), most, "{trials} {limit}");
        }
        // The smallest n with cdf(t, n, 1 - p) <= 0.01: LoadGen's h + t for t = 0, 1, 2, 5 and 10.
        for (limit, needed) in [
            (0.5, [7, 11, 14, 22, 35]),
            (0.1, [44, 64, 81, 127, 197]),
            (0.01, [459, 662, 838, 1307, 2010]),
            (0.001, [4603, 6636, 8403, 13_105, 20_140]),
        ] {
            for (hits, needed) in [0.0, 1.0, 2.0, 5.0, 10.0].into_iter().zip(needed) {
                let found = Proportion { hits, trials: hits };
                assert_eq!(found.more_trials(limit, 0.01) + hits as u64, needed, "{limit} {hits}");
            }
        }
    }

    #[test]
    fn intervals_are_those_of_tables() {
        // Clopper and Pearson at 95 %: 0 of 10, 1 of 20 and 5 of 10, by statsmodels'
        // proportion_confint(method="beta").
        for (hits, trials, expected) in [
            (0.0, 10.0, [0.0, 0.308_497_1]),
            (1.0, 20.0, [0.001_265_09, 0.248_732_8]),
            (5.0, 10.0, [0.187_086_0, 0.812_914_0]),
        ] {
            let found = Proportion { hits, trials }.interval(0.025);
            let is_near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6);
            assert!(is_near, "{hits} of {trials}: {found:?}");
        }
    }

    proptest! {
        #[test]
        fn an_interval_contains_the_share_and_decides(
            trials in 1.0..5000.0_f64, share in 0.0..=1.0_f64, limit in 0.001..0.999_f64,
        ) {
            let found = Proportion { hits: share * trials, trials };
            let [low, high] = found.interval(0.025);
            prop_assert!(low <= share + 1e-9 && share <= high + 1e-9, "{low} {high}");
            if (high - limit).abs() > 1e-9 {
                prop_assert_eq!(found.is_below(limit, 0.025), high < limit);
            }
            if (low - limit).abs() > 1e-9 {
                prop_assert_eq!(found.is_above(limit, 0.025), low > limit);
            }
        }
    }
}
