//! At which amount a share that grows with it crosses a limit.

/// Slopes that are tried, of the logarithm of the odds over that of the amount: from 1 by this factor.
const SLOPES: i32 = 40;
const FACTOR: f64 = 1.22;

/// Number of steps between the places that are tried for the crossing.
const STEPS: u32 = 200;

/// Ratio of the ends of the places to the centre.
const RANGE: f64 = 4.0;

/// The evidence on the share at an amount: of so many trials, how many are hits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    pub amount: f64,
    pub hits: f64,
    pub trials: f64,
}

/// Returns the ends of the interval of the amount at which the share is `limit`, looked for around
/// `centre`; `None` for an end that is not known.
///
/// The odds of a hit are taken to be a power of the amount; above the limit they may be lower than that, since
/// a share cannot exceed 1. A place is within the interval if the logarithm of the likelihood of the best curve
/// through it is at most `drops` below that of the best of all curves (profile likelihood); the first of `drops`
/// is for the lower end, the second for the upper one.
#[must_use]
pub fn crossing(known: &[Trial], limit: f64, centre: f64, drops: [f64; 2]) -> [Option<f64>; 2] {
    let odds = (limit / (1.0 - limit)).ln();
    let likelihood = |place: f64, slope: f64| {
        let term = |it: &Trial| {
            let of_curve = odds + slope * (it.amount / place).ln();
            let own = (it.hits / (it.trials - it.hits)).ln();
            let log_odds = if own > odds { of_curve.min(own) } else { of_curve };
            // The logarithm of the probability of a miss.
            let miss = -log_odds.max(0.0) - (-log_odds.abs()).exp().ln_1p();
            it.hits * log_odds + it.trials * miss
        };
        known.iter().map(term).sum::<f64>()
    };
    let best_through = |place: f64| {
        let found = (0..SLOPES).map(|step| likelihood(place, FACTOR.powi(step)));
        found.fold(f64::NEG_INFINITY, f64::max)
    };
    let step = 2.0 * RANGE.ln() / f64::from(STEPS);
    let place = |number: u32| centre / RANGE * (step * f64::from(number)).exp();
    let all: Vec<(f64, f64)> =
        (0..=STEPS).map(place).map(|place| (place, best_through(place))).collect();
    let best = all.iter().map(|(_, found)| *found).fold(f64::NEG_INFINITY, f64::max);
    let [low, high] = drops;
    let first = all.iter().position(|(_, found)| best - found <= low).filter(|at| *at > 0);
    let last = all.iter().rposition(|(_, found)| best - found <= high);
    let last = last.filter(|at| at + 1 < all.len());
    [first, last].map(|end| Some(all.get(end?)?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: f64 = 0.05;
    const DROPS: [f64; 2] = [1.92, 1.92];

    /// Odds that grow with the power 6, and are those of the limit at 10.
    fn trials(count: f64) -> Vec<Trial> {
        let likelihood_at = |amount: f64| {
            let odds = LIMIT / (1.0 - LIMIT) * (amount / 10.0).powi(6);
            Trial { amount, hits: count * odds / (1.0 + odds), trials: count }
        };
        [7.0, 9.0, 11.0, 13.0].map(likelihood_at).to_vec()
    }

    #[test]
    fn the_interval_is_around_the_crossing_and_narrower_with_more_trials() {
        let width = |count| {
            let [Some(low), Some(high)] = crossing(&trials(count), LIMIT, 11.0, DROPS) else {
                panic!("{count}")
            };
            assert!(low < 10.0 && 10.0 < high, "{low} to {high}");
            high - low
        };
        // A quarter of the standard error, or more where the shares above the limit do not tell the slope.
        let ratio = width(100.0) / width(1600.0);
        assert!(ratio > 2.5, "{ratio}");
    }

    #[test]
    fn an_end_that_is_not_known_is_absent() {
        assert_eq!(crossing(&[], LIMIT, 10.0, DROPS), [None, None]);
        // 0.95^58 is 5.1%, whose logarithm is below -1.92: 58 trials without a hit show that the
        // crossing is above their amount.
        let none = |trials| [Trial { amount: 10.0, hits: 0.0, trials }];
        let [Some(low), None] = crossing(&none(58.0), LIMIT, 10.0, DROPS) else { panic!() };
        assert!((9.5..10.5).contains(&low), "{low}");
        let all = [Trial { amount: 10.0, hits: 20.0, trials: 20.0 }];
        let [None, Some(high)] = crossing(&all, LIMIT, 10.0, DROPS) else { panic!() };
        assert!(high < 10.5, "{high}");
    }
}
