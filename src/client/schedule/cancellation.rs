//! Requests that are cancelled on purpose.

use base::units::Nanos;
use dataset::Seed;

use super::config::Cancellation;

/// Selects requests by their index alone, so that the result depends neither on the caller nor on
/// the time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cancellations {
    seed: Seed,
    share: f64,
    delay: Nanos,
}

impl Cancellations {
    /// Creates the selection that `config` describes, drawn from `seed`.
    #[must_use]
    pub(crate) fn new(config: Cancellation, seed: Seed) -> Self {
        let seed = seed.derive("timing.request.cancellation");
        Self { seed, share: config.percent / 100.0, delay: config.delay }
    }

    /// Returns the time between sending the request for turn `turn` of session `session` and
    /// cancelling it; `None` if it is not cancelled.
    #[must_use]
    pub(crate) fn delay(&self, session: u64, turn: usize) -> Option<Nanos> {
        let drawn = Seed(self.seed.number(session)).number(turn as u64);
        // The upper 53 bits as a number in [0, 1).
        let uniform = (drawn >> 11) as f64 / (1u64 << 53) as f64;
        (uniform < self.share).then_some(self.delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(percent: f64) -> usize {
        let config = Cancellation { percent, delay: Nanos(7) };
        let cancellations = Cancellations::new(config, Seed(3));
        (0..10_000).filter(|session| cancellations.delay(*session, 0).is_some()).count()
    }

    #[test]
    fn the_share_is_met() {
        assert_eq!(chosen(100.0), 10_000);
        // Expected 2,500, standard deviation sqrt(10,000 · 1/4 · 3/4) = 43.
        assert!(chosen(25.0).abs_diff(2500) < 4 * 43);
    }

    #[test]
    fn turns_of_a_session_are_chosen_apart() {
        let config = Cancellation { percent: 50.0, delay: Nanos(7) };
        let cancellations = Cancellations::new(config, Seed(3));
        let chosen: Vec<_> = (0..100).map(|turn| cancellations.delay(5, turn)).collect();
        assert!(chosen.contains(&None) && chosen.contains(&Some(Nanos(7))));
        let again: Vec<_> = (0..100).map(|turn| cancellations.delay(5, turn)).collect();
        assert_eq!(chosen, again);
    }
}
