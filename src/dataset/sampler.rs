//! Which conversation a session draws: a function of its number alone.

use std::sync::{Mutex, PoisonError};

use rand::RngExt;
use rand::seq::SliceRandom;

use super::Sampling;
use super::seed::Seed;

/// Draws conversations.
#[derive(Debug)]
pub struct Sampler {
    sampling: Sampling,
    conversations: u64,
    seed: Seed,
    /// The epoch whose permutation was computed last, and the permutation.
    shuffled: Mutex<(u64, Vec<usize>)>,
}

impl Sampler {
    /// Draws from `conversations` many.
    #[must_use]
    pub const fn new(sampling: Sampling, conversations: usize, seed: Seed) -> Self {
        Self {
            sampling,
            conversations: conversations as u64,
            seed,
            shuffled: Mutex::new((0, Vec::new())),
        }
    }

    /// Index of the conversation that session number `session` draws.
    #[must_use]
    pub fn conversation(&self, session: u64) -> usize {
        let Some(place) = session.checked_rem(self.conversations) else { return 0 };
        match self.sampling {
            Sampling::Sequential => place as usize,
            Sampling::Random => {
                let mut rng = self.seed.stream(&format!("dataset.sample.{session}"));
                rng.random_range(0..self.conversations) as usize
            }
            Sampling::Shuffle => self.shuffled(session / self.conversations, place as usize),
        }
    }

    fn shuffled(&self, epoch: u64, place: usize) -> usize {
        let mut shuffled = self.shuffled.lock().unwrap_or_else(PoisonError::into_inner);
        if shuffled.1.is_empty() || shuffled.0 != epoch {
            let mut order: Vec<usize> = (0..self.conversations as usize).collect();
            order.shuffle(&mut self.seed.stream(&format!("dataset.shuffle.{epoch}")));
            *shuffled = (epoch, order);
        }
        shuffled.1.get(place).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_goes_round() {
        let sampler = Sampler::new(Sampling::Sequential, 3, Seed(1));
        assert_eq!((0..5).map(|n| sampler.conversation(n)).collect::<Vec<_>>(), [0, 1, 2, 0, 1]);
    }

    #[test]
    fn shuffle_draws_each_once_an_epoch() {
        let sampler = Sampler::new(Sampling::Shuffle, 20, Seed(1));
        let epoch =
            |n: u64| (n * 20..n * 20 + 20).map(|s| sampler.conversation(s)).collect::<Vec<_>>();
        let (first, second) = (epoch(0), epoch(1));
        assert_ne!(first, second);
        assert_eq!(epoch(0), first);
        for mut order in [first, second] {
            order.sort_unstable();
            assert_eq!(order, (0..20).collect::<Vec<_>>());
        }
    }

    #[test]
    fn random_depends_on_the_session_alone() {
        let sampler = Sampler::new(Sampling::Random, 10, Seed(1));
        let forward: Vec<_> = (0..50).map(|n| sampler.conversation(n)).collect();
        let mut backward: Vec<_> = (0..50).rev().map(|n| sampler.conversation(n)).collect();
        backward.reverse();
        assert_eq!(forward, backward);
        assert!(forward.iter().any(|index| *index != forward[0]));
    }
}
