//! How far a percentile would differ with other values: the confidence interval between two of the
//! sorted values, which assumes nothing about their distribution (David and Nagaraja, "Order
//! Statistics", 2003, section 7.1). It assumes that the values do not depend on each other.

/// Probability that the true percentile is outside the interval, on each side.
pub const TAIL: f64 = 0.025;

/// The indices of the sorted values at which the interval begins and ends; absent if there are too
/// few values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    pub low: Option<u64>,
    pub high: Option<u64>,
}

/// Returns the interval of the quantile `share` (above 0 and below 1) of `count` values.
///
/// The number of values below the true quantile is binomially distributed. The interval begins at
/// the last index that more values than that are below with a probability of at most [`TAIL`], and
/// ends at the first one likewise.
pub fn interval(count: u64, share: f64) -> Interval {
    let (from, weights) = binomial(count, share);
    let total: f64 = weights.iter().sum();
    let bound = |weights: &mut dyn Iterator<Item = &f64>| {
        let mut sum = 0.0;
        weights
            .take_while(|weight| {
                sum += **weight;
                sum < TAIL * total
            })
            .count() as u64
    };
    // The smallest numbers whose probability, with that of all smaller or larger ones, exceeds it.
    let least = from + bound(&mut weights.iter());
    let most = from + weights.len() as u64 - 1 - bound(&mut weights.iter().rev());
    Interval { low: least.checked_sub(1), high: Some(most).filter(|most| *most < count) }
}

/// Returns the smallest number of values whose interval has both ends.
pub fn needed(share: f64) -> u64 {
    (TAIL.ln() / share.max(1.0 - share).ln()).ceil() as u64
}

/// Returns a number, and the probabilities of it and the next larger numbers of successes in
/// `count` trials with the probability `share`, up to a factor; all others are negligible.
fn binomial(count: u64, share: f64) -> (u64, Vec<f64>) {
    /// Probabilities below this fraction of the largest are negligible.
    const NEGLIGIBLE: f64 = 1e-18;
    let odds = share / (1.0 - share);
    let likeliest = ((count + 1) as f64 * share).floor().min(count as f64) as u64;
    let up = |(number, weight): (u64, f64)| {
        (number < count)
            .then(|| (number + 1, weight * (count - number) as f64 / (number + 1) as f64 * odds))
    };
    let down = |(number, weight): (u64, f64)| {
        (number > 0)
            .then(|| (number - 1, weight * number as f64 / (count - number + 1) as f64 / odds))
    };
    let is_relevant = |(_, weight): &(u64, f64)| *weight > NEGLIGIBLE;
    let successors = |next: &dyn Fn((u64, f64)) -> Option<(u64, f64)>| -> Vec<(u64, f64)> {
        std::iter::successors(Some((likeliest, 1.0)), |last| next(*last))
            .take_while(is_relevant)
            .collect()
    };
    let (below, above) = (successors(&down), successors(&up));
    let from = below.last().map_or(likeliest, |(number, _)| *number);
    let weights = below.iter().skip(1).rev().chain(&above).map(|(_, weight)| *weight).collect();
    (from, weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_those_of_the_binomial_distribution() {
        // scipy.stats.binom: low = ppf(0.025) - 1 and high = ppf(0.975), if below the count.
        let cases = [
            (1, 0.5, None, None),
            (5, 0.5, None, None),
            (6, 0.5, Some(0), Some(5)),
            (40, 0.5, Some(13), Some(26)),
            (1_001, 0.5, Some(469), Some(531)),
            (40, 0.99, Some(37), None),
            (367, 0.99, Some(358), None),
            (368, 0.99, Some(359), Some(367)),
            (500, 0.99, Some(489), Some(499)),
            (10_000, 0.99, Some(9_879), Some(9_919)),
            (1_000_000, 0.5, Some(499_019), Some(500_980)),
            (1_000_000, 0.99, Some(989_804), Some(990_195)),
        ];
        for (count, share, low, high) in cases {
            assert_eq!(interval(count, share), Interval { low, high }, "{count} {share}");
        }
    }

    #[test]
    fn a_percentile_needs_a_value_beyond_it() {
        assert_eq!((needed(0.5), needed(0.99), needed(0.01)), (6, 368, 368));
        let has_both = |count, share| {
            let Interval { low, high } = interval(count, share);
            low.is_some() && high.is_some()
        };
        assert!(!has_both(5, 0.5) && has_both(6, 0.5));
        assert!(!has_both(367, 0.99) && has_both(368, 0.99));
    }

    #[test]
    fn no_values_have_no_interval() {
        assert_eq!(interval(0, 0.5), Interval { low: None, high: None });
    }
}
