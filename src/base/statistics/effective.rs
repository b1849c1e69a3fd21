//! How much requests that depend on each other vary in common: of so many requests, how many that do
//! not depend on each other would be as informative.

use super::percentile::exact_sum;

/// Number of terms from which consecutive ones are averaged.
const MANY: usize = 8192;

/// Consecutive correlations that must be insignificant before the rest is neglected.
const WINDOW: usize = 5;

/// Returns by which factor, at least 1, the variance of the mean of `terms` exceeds what it would be if
/// they were independent: 1 + 2 Σ w ρ, with the flat-top weights and the choice of the lag by
/// Politis, "Adaptive bandwidth choice", Journal of Nonparametric Statistics 15 (2003). Terms up to
/// `reach` from each other are taken to depend on each other, such as the requests that are in flight
/// at the same time, however few of them there are.
#[must_use]
pub fn inflation(terms: &[f64], reach: f64) -> f64 {
    let variance = spread(terms);
    if terms.len() < 4 || variance <= 0.0 {
        return 1.0;
    }
    let size = terms.len().div_ceil(MANY);
    let means: Vec<f64> = terms.chunks(size).map(mean).collect();
    let group = if size == 1 { 1.0 } else { size as f64 * spread(&means) / variance };
    let factor = group * of_few(&means, (reach / size as f64).ceil().max(1.0) as usize);
    // Opposite neighbours compensate each other, but a stall does not know of them.
    factor.clamp(1.0, terms.len() as f64)
}

fn of_few(terms: &[f64], reach: usize) -> f64 {
    let n = terms.len();
    let most = n / 4;
    let centre = mean(terms);
    let centred: Vec<f64> = terms.iter().map(|term| term - centre).collect();
    let covariance =
        |lag: usize| centred.iter().zip(&centred[lag..]).map(|(a, b)| a * b).sum::<f64>();
    let variance = covariance(0);
    if variance <= 0.0 {
        return 1.0;
    }
    let bound = 2.0 * ((n as f64).log10() / n as f64).sqrt();
    let mut correlations: Vec<f64> = Vec::new();
    let mut quiet = 0;
    while correlations.len() < most && (quiet < WINDOW || correlations.len() < reach + WINDOW) {
        let correlation = covariance(correlations.len() + 1) / variance;
        quiet = if correlation.abs() < bound { quiet + 1 } else { 0 };
        correlations.push(correlation);
    }
    let lag = (correlations.len() - quiet).max(reach);
    let bandwidth = (2 * lag).min(most);
    let weight = |lag: usize| (2.0 * (1.0 - lag as f64 / bandwidth as f64)).clamp(0.0, 1.0);
    let known = |lag: usize| {
        correlations.get(lag - 1).copied().unwrap_or_else(|| covariance(lag) / variance)
    };
    1.0 + 2.0 * (1..=bandwidth).map(|lag| weight(lag) * known(lag)).sum::<f64>()
}

fn mean(terms: &[f64]) -> f64 {
    exact_sum(terms.iter().copied()) / terms.len() as f64
}

/// The variance of `terms`; 0 if they are equal except for rounding.
fn spread(terms: &[f64]) -> f64 {
    let centre = mean(terms);
    let variance = terms.iter().map(|term| (term - centre).powi(2)).sum::<f64>();
    let variance = variance / terms.len() as f64;
    if variance > f64::EPSILON * centre.powi(2) { variance } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution as _, StandardNormal};

    use super::*;

    /// A series in which each term depends on the one before with this correlation.
    fn series(count: usize, correlation: f64, seed: u64) -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut last: f64 = StandardNormal.sample(&mut random);
        let next = |_| {
            let noise: f64 = StandardNormal.sample(&mut random);
            last = correlation * last + (1.0 - correlation * correlation).sqrt() * noise;
            last
        };
        (0..count).map(next).collect()
    }

    fn average(count: usize, correlation: f64) -> f64 {
        (0..40).map(|seed| inflation(&series(count, correlation, seed), 1.0)).sum::<f64>() / 40.0
    }

    #[test]
    fn a_series_has_the_inflation_of_theory() {
        // (1 + r) / (1 - r): 1 for independent terms, 3 for r = 0.5, 9 for r = 0.8.
        for (correlation, expected) in [(0.0, 1.0), (0.5, 3.0), (0.8, 9.0)] {
            let found = average(2000, correlation);
            assert!((found / expected - 1.0).abs() < 0.2, "{correlation}: {found}");
        }
        // The averages of many terms have the same.
        let found = inflation(&series(40_000, 0.8, 1), 1.0);
        assert!((found / 9.0 - 1.0).abs() < 0.25, "{found}");
    }

    #[test]
    fn a_single_stall_counts_once() {
        // All requests in flight at one time are slow: 16 consecutive ones of 400, or 64 of 640.
        for (count, stalled) in [(400, 4), (400, 16), (640, 64)] {
            let is_slow = |at: usize| f64::from(u8::from((100..100 + stalled).contains(&at)));
            let terms: Vec<f64> = (0..count).map(is_slow).collect();
            let events = stalled as f64 / inflation(&terms, stalled as f64);
            assert!((0.8..1.5).contains(&events), "{stalled} of {count}: {events}");
        }
    }

    #[test]
    fn what_does_not_vary_is_not_inflated() {
        assert_eq!(inflation(&[1.0; 500], 16.0), 1.0);
        assert_eq!(inflation(&[0.1; 3], 1.0), 1.0);
        assert_eq!(inflation(&[], 1.0), 1.0);
        let alternating: Vec<f64> = (0..100).map(|at| f64::from(at % 2)).collect();
        assert_eq!(inflation(&alternating, 1.0), 1.0);
    }
}
