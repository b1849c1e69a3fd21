//! Assignment of conversations to sessions.

use std::ops::Range;

use super::{Sampling, Seed};

/// Maps session numbers to conversations. This is a pure function, so that any worker may call it
/// for any session.
#[derive(Debug, Clone)]
pub struct Sampler {
    sampling: Sampling,
    /// Index of the first conversation.
    first: u64,
    conversations: u64,
    seed: Seed,
    /// Where conversations go on that are made while the run goes on, if they do: the index of the first
    /// one, and the distance of the next.
    beyond: Option<(usize, usize)>,
}

impl Sampler {
    /// Creates a sampler of the conversations with the indices `of`; an empty range counts as one.
    #[must_use]
    pub fn new(sampling: Sampling, of: Range<usize>, seed: Seed) -> Self {
        let (first, conversations) = (of.start as u64, of.len().max(1) as u64);
        Self { sampling, first, conversations, seed: seed.derive("dataset.sampling"), beyond: None }
    }

    /// Returns a sampler that draws each conversation once: after those of the range, that of index `first`,
    /// the `step`th after it, and so on.
    #[must_use]
    pub(super) fn growing(self, first: usize, step: usize) -> Self {
        Self { beyond: Some((first, step)), ..self }
    }

    /// Returns the number of conversations.
    pub const fn len(&self) -> u64 {
        self.conversations
    }

    /// Returns the index of the `nth` conversation, whatever the order in which they are drawn.
    pub const fn nth(&self, nth: u64) -> usize {
        (self.first + nth) as usize
    }

    /// Returns the index of the conversation that is drawn as number `session`, from 0.
    #[must_use]
    pub fn conversation(&self, session: u64) -> usize {
        if let Some((first, step)) = self.beyond {
            return match session.checked_sub(self.conversations) {
                None => self.nth(session),
                Some(beyond) => first + beyond as usize * step,
            };
        }
        let index = match self.sampling {
            Sampling::Sequential => session % self.conversations,
            Sampling::Random => self.seed.below(session, self.conversations),
            Sampling::Shuffle => {
                let epoch = Seed(self.seed.number(session / self.conversations));
                shuffled(session % self.conversations, self.conversations, epoch)
            }
        };
        self.nth(index)
    }
}

/// Returns the position of `card` in a shuffled deck of `cards`.
///
/// It uses the swap-or-not shuffle (Hoang, Morris and Rogaway, "An Enciphering Scheme Based on a
/// Card Shuffle", 2012): each round pairs every card with another one and swaps the pair or not. It
/// needs no memory and works for any number of cards. It uses the paper's six rounds per bit, and a
/// few more for small decks.
fn shuffled(card: u64, cards: u64, seed: Seed) -> u64 {
    let rounds = 16 + 6 * u64::from(u64::BITS - cards.leading_zeros());
    (0..rounds).fold(card, |place, round| {
        let pivot = seed.below(2 * round, cards);
        let partner = (pivot + cards - place) % cards;
        let coins = Seed(seed.number(2 * round + 1));
        let swap = coins.number(place.max(partner)) & 1 == 1;
        if swap { partner } else { place }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn drawn(sampling: Sampling, conversations: usize, sessions: u64) -> Vec<usize> {
        let sampler = Sampler::new(sampling, 0..conversations, Seed(11));
        (0..sessions).map(|session| sampler.conversation(session)).collect()
    }

    #[test]
    fn sequential_repeats_the_order_of_the_file() {
        assert_eq!(drawn(Sampling::Sequential, 3, 7), [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn conversations_are_those_of_a_range() {
        for sampling in [Sampling::Sequential, Sampling::Shuffle, Sampling::Random] {
            let sampler_of = |range| {
                let sampler = Sampler::new(sampling, range, Seed(11));
                (0..20).map(|session| sampler.conversation(session)).collect::<Vec<_>>()
            };
            let moved: Vec<usize> = sampler_of(0..5).into_iter().map(|index| index + 7).collect();
            assert_eq!(sampler_of(7..12), moved, "{sampling:?}");
        }
    }

    #[test]
    fn random_draws_evenly() {
        let counts =
            drawn(Sampling::Random, 4, 40_000).into_iter().fold([0u32; 4], |mut counts, index| {
                counts[index] += 1;
                counts
            });
        // Expected 10,000 each, standard deviation sqrt(40,000 · 1/4 · 3/4) = 87.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 4 * 87), "{counts:?}");
    }

    #[test]
    fn epochs_are_shuffled_differently() {
        let drawn = drawn(Sampling::Shuffle, 50, 100);
        assert_ne!(drawn[..50], drawn[50..]);
    }

    #[test]
    fn all_orders_of_a_small_deck_are_equally_likely() {
        let mut orders: HashMap<Vec<u64>, u32> = HashMap::new();
        for seed in 0..24_000 {
            let order = (0..4).map(|card| shuffled(card, 4, Seed(seed))).collect();
            *orders.entry(order).or_default() += 1;
        }
        // 24 orders, expected 1,000 each, standard deviation 31.
        assert_eq!(orders.len(), 24);
        assert!(orders.values().all(|count| count.abs_diff(1000) < 155), "{orders:?}");
    }

    proptest! {
        #[test]
        fn shuffle_draws_each_once_an_epoch(conversations in 1usize..300, seed: u64, epoch in 0u64..1000) {
            let sampler = Sampler::new(Sampling::Shuffle, 0..conversations, Seed(seed));
            let first = epoch * conversations as u64;
            let mut drawn: Vec<usize> =
                (first..first + conversations as u64).map(|s| sampler.conversation(s)).collect();
            drawn.sort_unstable();
            prop_assert_eq!(drawn, (0..conversations).collect::<Vec<_>>());
        }
    }
}
