//! Where a statistic likely is, if each value is only known to be within a span.
//!
//! The bounds of a statistic are reached only if every value is at the same end of its span, which
//! many values hardly ever are. Here, each value is anywhere in its span with the same probability,
//! independently of the others, and the statistic is within the interval with a probability of 95%.
//!
//! The k-th smallest value is at most x if k values are. How many are is the sum of independent
//! events of different probability, which has a Poisson binomial distribution (Hong, "On computing
//! the distribution function for the Poisson binomial distribution", Computational Statistics and
//! Data Analysis 59, 2013): computed exactly for few events, and by the normal approximation for
//! many.

use base::statistics::normal;
use base::statistics::percentile::{Neighbours, exact_sum, interpolate, sorted_at};

/// Probability that the statistic is outside the interval, on each side.
const TAIL: f64 = 0.025;
/// Number of parts of the range of a value of which rank is sought; the interval ends at one of
/// their ends, so it is at most two parts too wide.
const PARTS: usize = 64;
/// Number of uncertain events from which their sum is taken to have a normal distribution.
const MANY: usize = 128;

/// Where a value is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Span {
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Returns where the mean of values in `spans` likely is: by the normal distribution, within the
/// means of all ends. `spans` is called several times. There must be a value.
pub(super) fn mean<I: Iterator<Item = Span>>(spans: impl Fn() -> I) -> Span {
    let count = spans().count() as f64;
    let low = exact_sum(spans().map(|span| span.low));
    let high = exact_sum(spans().map(|span| span.high));
    // The variance of the continuous uniform distribution.
    let variance = exact_sum(spans().map(|span| (span.high - span.low).powi(2) / 12.0));
    let reach = normal::QUANTILE * variance.sqrt();
    let middle = f64::midpoint(low, high);
    Span { low: low.max(middle - reach) / count, high: high.min(middle + reach) / count }
}

/// Returns where the percentile at `place` of values in `spans` likely is; `spans` is called several
/// times. There must be a value.
pub(super) fn percentile<I: Iterator<Item = Span>>(
    spans: impl Fn() -> I,
    place: &Neighbours,
) -> Span {
    let ranks = [place.below, place.above];
    let lowest = sorted_at(|| spans().map(|span| span.low), ranks);
    let highest = sorted_at(|| spans().map(|span| span.high), ranks);
    let [below, above] = ranks.map(|rank| {
        let range = Span {
            low: lowest.get(&rank).copied().unwrap_or(f64::NAN),
            high: highest.get(&rank).copied().unwrap_or(f64::NAN),
        };
        of_rank(spans(), rank, range)
    });
    Span {
        low: interpolate(below.low, above.low, place.share),
        high: interpolate(below.high, above.high, place.share),
    }
}

/// Returns where the value with `rank` (from 0) of the sorted values likely is, which is certainly
/// within `range`.
fn of_rank(spans: impl Iterator<Item = Span>, rank: u64, range: Span) -> Span {
    if range.low >= range.high {
        return range;
    }
    let step = (range.high - range.low) / PARTS as f64;
    let ends: [f64; PARTS + 1] = std::array::from_fn(|part| range.low + part as f64 * step);
    let mut counts = vec![Count::default(); PARTS + 1];
    let mut below = 0;
    for span in spans.filter(|span| span.low < range.high) {
        if span.high <= range.low {
            below += 1;
            continue;
        }
        for (count, end) in counts.iter_mut().zip(ends) {
            count.add(span, end);
        }
    }
    for count in &mut counts {
        count.certain += below;
    }
    let is_above = |part: &usize| counts[*part].is_hardly_more_than(rank);
    let is_below = |part: &usize| counts[*part].is_likely_more_than(rank);
    Span {
        low: (0..=PARTS).take_while(is_above).last().map_or(range.low, |part| ends[part]),
        high: (0..=PARTS).find(is_below).map_or(range.high, |part| ends[part]),
    }
}

/// How many values are at most a limit.
#[derive(Debug, Clone, Default)]
struct Count {
    /// Values that certainly are.
    certain: u64,
    /// Values that may be.
    possible: u64,
    /// The mean number of those that are.
    mean: f64,
    /// Its variance.
    variance: f64,
    /// The probabilities that one of them is, two, and so on; those that none is are the rest.
    /// Only used below [`MANY`].
    exact: Vec<f64>,
}

impl Count {
    fn add(&mut self, span: Span, limit: f64) {
        if span.high <= limit {
            self.certain += 1;
        } else if span.low < limit {
            let probability = (limit - span.low) / (span.high - span.low);
            self.possible += 1;
            self.mean += probability;
            self.variance += probability * (1.0 - probability);
            if self.exact.len() < MANY {
                self.add_exactly(probability);
            }
        }
    }

    /// Adds an event to the exact distribution.
    fn add_exactly(&mut self, probability: f64) {
        let none = 1.0 - self.exact.iter().sum::<f64>();
        self.exact.push(0.0);
        for at in (0..self.exact.len()).rev() {
            let fewer = if at == 0 { none } else { self.exact[at - 1] };
            self.exact[at] += (fewer - self.exact[at]) * probability;
        }
    }

    /// Returns whether the probability that more than `rank` values are is at most [`TAIL`].
    fn is_hardly_more_than(&self, rank: u64) -> bool {
        self.beyond(rank).is_some_and(|beyond| match beyond {
            Beyond::Probability(more) => more <= TAIL,
            Beyond::Deviations(up) => up >= normal::QUANTILE,
        })
    }

    /// Returns whether the probability that more than `rank` values are is at least 1 - [`TAIL`].
    fn is_likely_more_than(&self, rank: u64) -> bool {
        self.beyond(rank).is_none_or(|beyond| match beyond {
            Beyond::Probability(more) => more >= 1.0 - TAIL,
            Beyond::Deviations(up) => up <= -normal::QUANTILE,
        })
    }

    /// Returns how far more than `rank` values are from what is expected; `None` if they certainly
    /// are.
    fn beyond(&self, rank: u64) -> Option<Beyond> {
        let needed = (rank + 1).checked_sub(self.certain).filter(|needed| *needed > 0)?;
        Some(if needed > self.possible {
            Beyond::Probability(0.0)
        } else if self.exact.len() < MANY {
            Beyond::Probability(self.exact.iter().skip(needed as usize - 1).sum())
        } else {
            // Continuity correction.
            Beyond::Deviations((needed as f64 - 0.5 - self.mean) / self.variance.sqrt())
        })
    }
}

/// How likely a number of values is reached.
enum Beyond {
    /// Its probability.
    Probability(f64),
    /// Its distance above the mean, in standard deviations.
    Deviations(f64),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(all: &[(f64, f64)]) -> Vec<Span> {
        all.iter().map(|&(low, high)| Span { low, high }).collect()
    }

    fn likely(all: &[(f64, f64)], percent: f64) -> Span {
        let spans = spans(all);
        percentile(|| spans.iter().copied(), &Neighbours::at_percent(percent, all.len() as u64 - 1))
    }

    fn average(all: &[(f64, f64)]) -> Span {
        let spans = spans(all);
        mean(|| spans.iter().copied())
    }

    #[test]
    fn certain_values_have_certain_percentiles() {
        let all = [(1.0, 1.0), (2.0, 2.0), (4.0, 4.0), (9.0, 9.0)];
        assert_eq!(likely(&all, 50.0), Span { low: 3.0, high: 3.0 });
        assert_eq!(average(&all), Span { low: 4.0, high: 4.0 });
    }

    #[test]
    fn a_single_value_is_likely_in_95_percent_of_its_span() {
        // From 2.5% to 97.5% of the span, at ends of 64ths that include it: 1/64 and 63/64.
        let all = [(0.0, 64.0)];
        assert_eq!(likely(&all, 99.0), Span { low: 1.0, high: 63.0 });
        // The others are certain to be smaller.
        let all = [(0.0, 1.0), (5.0, 5.0), (10.0, 74.0)];
        assert_eq!(likely(&all, 100.0), Span { low: 11.0, high: 73.0 });
        assert_eq!(likely(&all, 50.0), Span { low: 5.0, high: 5.0 });
    }

    #[test]
    fn the_median_of_many_is_near_the_middle() {
        // The median of 101 uniform values has a beta distribution with parameters 51 and 51:
        // scipy.stats.beta.ppf([0.025, 0.975], 51, 51) = [0.4036, 0.5964].
        let Span { low, high } = likely(&[(0.0, 64.0); 101], 50.0);
        assert_eq!((low, high), (25.0, 39.0));
        // The largest of 20 uniform values: beta with parameters 20 and 1, [0.8316, 0.9987].
        assert_eq!(likely(&[(0.0, 64.0); 20], 100.0), Span { low: 53.0, high: 64.0 });
    }

    #[test]
    fn a_rank_is_that_of_the_value_in_the_middle() {
        // The second of three is the one in the middle.
        let all = [(0.0, 1.0), (10.0, 74.0), (73.0, 10_000.0)];
        let Span { low, high } = likely(&all, 50.0);
        assert_eq!((low, high), (11.0, 73.0));
    }

    #[test]
    fn the_distribution_of_few_and_many_events_is_that_of_the_binomial_one() {
        let count = |events: usize| {
            let mut count = Count::default();
            for _ in 0..events {
                count.add(Span { low: 0.0, high: 10.0 }, 3.0);
            }
            count
        };
        // scipy.stats.binom.sf([3, 5], 10, 0.3)
        let more = |rank| match count(10).beyond(rank) {
            Some(Beyond::Probability(more)) => more,
            _ => f64::NAN,
        };
        assert!(
            (more(3) - 0.350_389_281_6).abs() < 1e-9 && (more(5) - 0.047_348_987_4).abs() < 1e-9
        );
        // scipy.stats.binom.sf([329, 326, 270, 273], 1000, 0.3) = [0.0216, 0.0345, 0.9799, 0.9671]
        let many = count(1_000);
        assert!(many.is_hardly_more_than(329) && !many.is_hardly_more_than(326));
        assert!(many.is_likely_more_than(270) && !many.is_likely_more_than(273));
    }

    #[test]
    fn the_mean_of_many_is_near_the_middle() {
        // The standard deviation of the mean of 48 values in spans of 12 is 12 / 24 = 0.5.
        let found = average(&[(6.0, 18.0); 48]);
        assert!((found.low - (12.0 - 0.979_982)).abs() < 1e-9, "{found:?}");
        assert!((found.high - (12.0 + 0.979_982)).abs() < 1e-9, "{found:?}");
        // The mean of two values cannot be below both of their lower ends.
        let found = average(&[(0.0, 1.0), (5.0, 5.0)]);
        assert_eq!(found, Span { low: 2.5, high: 3.0 });
    }
}
