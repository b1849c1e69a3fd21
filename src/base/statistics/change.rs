//! When a sequence of events changes to a known rate.

use std::ops::RangeInclusive;

/// Half of the 95th percentile of the χ² distribution with one degree of freedom: how far the logarithm of
/// the likelihood may be below its maximum within the interval of one parameter.
const HALF_CHI_SQUARE: f64 = 1.920_729;

/// Least share of events before the change.
const LEAST_BEFORE: f64 = 0.5;

/// When trials changed to a known share of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Number of trials before the change.
    pub before: usize,
    /// Those for which the likelihood is not much lower: an interval of about 95%.
    pub interval: RangeInclusive<usize>,
}

impl Change {
    /// Finds the change in `trials`, each of which is an event or not: before it, at least half of them
    /// are events, and from it on they have `share`, which is above 0 and below a half. It is the
    /// number of trials with the greatest likelihood, and its interval that of the likelihood ratio (D.
    /// V. Hinkley, Inference about the change-point in a sequence of random variables, 1970).
    ///
    /// All trials are before the change if there is no trial after it that speaks for one.
    pub fn to_share(trials: &[bool], share: f64) -> Self {
        let all = trials.iter().filter(|is_event| **is_event).count();
        let mut events = 0;
        let mut likelihoods = Vec::with_capacity(trials.len() + 1);
        for before in 0..=trials.len() {
            events += usize::from(before > 0 && trials[before - 1]);
            let own = (events as f64 / before.max(1) as f64).max(LEAST_BEFORE);
            let after = trials.len() - before;
            likelihoods
                .push(likelihood(events, before, own) + likelihood(all - events, after, share));
        }
        let greatest = likelihoods.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let at_least = |least: f64| move |likelihood: &f64| *likelihood >= least;
        let first = |least| likelihoods.iter().position(at_least(least)).unwrap_or(0);
        let limit = greatest - HALF_CHI_SQUARE;
        let last = likelihoods.iter().rposition(at_least(limit)).unwrap_or(0);
        Self { before: first(greatest), interval: first(limit)..=last }
    }
}

/// Returns the logarithm of the likelihood of so many events in `trials` with this share.
fn likelihood(events: usize, trials: usize, share: f64) -> f64 {
    let term = |count: usize, share: f64| if count == 0 { 0.0 } else { count as f64 * share.ln() };
    term(events, share) + term(trials - events, 1.0 - share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(trials: &str) -> (usize, usize, usize) {
        let trials: Vec<bool> = trials.chars().map(|trial| trial == 'x').collect();
        let Change { before, interval } = Change::to_share(&trials, 0.05);
        (before, *interval.start(), *interval.end())
    }

    #[test]
    fn a_clear_change_is_found_to_the_trial() {
        // The likelihoods of 3, 4 and 5 trials before it are
        // ln 0.05 + 20 ln 0.95 = -4.02, 20 ln 0.95 = -1.03 and
        // 4 ln 0.8 + ln 0.2 + 19 ln 0.95 = -3.48: only one is within 1.92 of the greatest.
        assert_eq!(change("xxxx...................."), (4, 4, 4));
        // Each trial before a change without any event costs ln 0.5 - ln 0.95 = -0.642.
        assert_eq!(change("...................."), (0, 0, 2));
    }

    #[test]
    fn a_single_event_after_it_is_not_a_change() {
        // 4 before it: ln 0.05 + 19 ln 0.95 = -3.97. 11 before it: 11 ln 0.5
        // + 13 ln 0.95 = -8.29.
        assert_eq!(change("xxxx......x............."), (4, 4, 4));
    }

    #[test]
    fn a_gradual_change_is_less_certain() {
        // By a script with the formulas above: the greatest of the likelihoods is that of 8 trials, and
        // those of 4, 6 and 9 are within 1.92 of it.
        assert_eq!(change("xxxx.x.x................"), (8, 4, 9));
    }

    #[test]
    fn a_sequence_may_never_change() {
        assert_eq!(change("xxxxxxxx").0, 8);
        assert_eq!(change(""), (0, 0, 0));
    }
}
