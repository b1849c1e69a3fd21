//! Which sessions send a canary.

use std::ops::Range;

use dataset::Seed;

/// The sessions that send a canary instead of what they would draw. They are a share of all sessions of
/// the run, and follow from the numbers of the sessions alone, so that all processes that share a run
/// choose the same ones.
#[derive(Debug, Clone)]
pub(super) struct Canaries {
    /// The share of the sessions, above 0 and at most 1.
    share: f64,
    seed: Seed,
    /// Indices of the conversations of the canaries.
    of: Range<usize>,
}

impl Canaries {
    pub(super) fn new(share: f64, seed: Seed, of: Range<usize>) -> Self {
        Self { share, seed: seed.derive("runner.canaries"), of }
    }

    /// Returns the conversation of the canary that the session `number` sends, if it sends one. Canaries
    /// take turns.
    ///
    /// The sessions are divided into blocks of `1 / share`: the block number k has those from
    /// `k / share` on, and one of them, at a place that is drawn, sends the canary number k.
    pub(super) fn conversation(&self, number: u64) -> Option<usize> {
        // A block has at least one session, so that its number is that of the session's place, or one
        // beside it, as numbers are rounded.
        let about = (number as f64 * self.share) as u64;
        let canary = (about.saturating_sub(1)..=about + 1).find(|k| self.session(*k) == number)?;
        let count = u64::try_from(self.of.len()).ok().filter(|count| *count > 0)?;
        usize::try_from(canary % count).ok().map(|at| self.of.start + at)
    }

    /// Returns the session that sends the canary number `k`.
    fn session(&self, k: u64) -> u64 {
        let start = |k: u64| (k as f64 / self.share).ceil() as u64;
        let first = start(k);
        first + self.seed.below(k, start(k + 1).saturating_sub(first).max(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chosen(canaries: &Canaries, sessions: Range<u64>) -> Vec<(u64, usize)> {
        sessions.filter_map(|number| Some((number, canaries.conversation(number)?))).collect()
    }

    #[test]
    fn one_session_of_each_block_sends_a_canary() {
        let canaries = Canaries::new(0.1, Seed(7), 20..23);
        let found = chosen(&canaries, 0..100);
        let blocks: Vec<u64> = found.iter().map(|(number, _)| number / 10).collect();
        assert_eq!(blocks, (0..10).collect::<Vec<_>>());
        // They take turns.
        let of: Vec<usize> = found.iter().map(|(_, conversation)| *conversation).collect();
        assert_eq!(of, [20, 21, 22, 20, 21, 22, 20, 21, 22, 20]);
        // The places in the blocks differ, and follow from the seed.
        let places = |canaries: &Canaries| -> Vec<u64> {
            chosen(canaries, 0..100).iter().map(|(number, _)| number % 10).collect()
        };
        assert!(places(&canaries).windows(2).any(|two| two[0] != two[1]));
        assert_eq!(places(&canaries), places(&Canaries::new(0.1, Seed(7), 0..8)));
        assert_ne!(places(&canaries), places(&Canaries::new(0.1, Seed(8), 0..8)));
    }

    #[test]
    fn shares_may_be_any_fraction() {
        let count =
            |share, sessions| chosen(&Canaries::new(share, Seed(1), 0..8), 0..sessions).len();
        assert_eq!([count(0.5, 1000), count(1.0, 50), count(0.01, 10_000)], [500, 50, 100]);
        // 3 of 7 sessions.
        assert_eq!(count(3.0 / 7.0, 7000), 3000);
        assert_eq!(Canaries::new(0.5, Seed(1), 3..3).conversation(0), None);
    }

    proptest! {
        #[test]
        fn the_share_is_exact(share in 0.0001_f64..=0.5, seed: u64, sessions in 1_u64..5000) {
            let found = chosen(&Canaries::new(share, Seed(seed), 0..8), 0..sessions);
            let expected = sessions as f64 * share;
            prop_assert!((found.len() as f64 - expected).abs() <= 1.0, "{} {expected}", found.len());
            for (at, (_, conversation)) in found.iter().enumerate() {
                prop_assert_eq!(*conversation, at % 8);
            }
        }
    }
}
