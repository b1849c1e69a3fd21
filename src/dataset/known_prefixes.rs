//! Which of the first blocks of prompts others have too: what a prefix cache that starts empty and
//! keeps everything would find.
//!
//! A prompt is cut into blocks, of tokens or of bytes. Each prefix of whole blocks has a hash. All
//! prompts together have a number of prefixes, counted once for each prompt, and a number of different
//! ones; the cache would find the former less the latter, in whichever order the prompts came. The
//! different ones are counted in a limited amount of memory by Wegman's adaptive sampling: while there
//! are too many, only those are kept whose hash begins with one more zero bit (P. Flajolet, *On adaptive
//! sampling*, Computing 43, 1990). Until then the count is exact.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, Hash};

use foldhash::fast::RandomState;
use foldhash::quality::FixedState;

/// Number of prefixes that a run keeps: 7/8 of a power of two, which a hash table holds in 9 MB.
pub const MAX_PREFIXES: usize = (1 << 19) / 8 * 7;

/// The different prefixes of the prompts so far, each with its owner.
#[derive(Debug)]
pub struct KnownPrefixes {
    /// The lowest owner of each prefix that is kept.
    owners: HashMap<u64, u32, RandomState>,
    /// Number of zero bits with which the hashes begin of those that are kept.
    level: u32,
    most: usize,
}

impl KnownPrefixes {
    /// Creates a count that keeps at most so many prefixes, at least 1.
    pub fn keeping(most: usize) -> Self {
        Self { owners: HashMap::default(), level: 0, most: most.max(1) }
    }

    /// Adds the prefixes of a prompt. A prefix belongs to the lowest owner that has it.
    pub fn add(&mut self, prefixes: &[u64], owner: u32) {
        for prefix in prefixes {
            if prefix.leading_zeros() < self.level {
                continue;
            }
            let known = self.owners.entry(*prefix).or_insert(owner);
            *known = owner.min(*known);
            while self.owners.len() > self.most {
                self.level += 1;
                let level = self.level;
                self.owners.retain(|prefix, _| prefix.leading_zeros() >= level);
            }
        }
    }

    /// Returns the number of different prefixes of each owner.
    pub fn owned(&self) -> BTreeMap<u32, f64> {
        let each = 2_f64.powi(i32::try_from(self.level).unwrap_or(i32::MAX));
        let mut owned = BTreeMap::new();
        for owner in self.owners.values() {
            *owned.entry(*owner).or_insert(0.0) += each;
        }
        owned
    }

    /// Returns the standard error of the number of all prefixes, relative to it: 1.20/√m, where m are
    /// kept at most (Flajolet); 0 if all are kept.
    pub fn relative_error(&self) -> f64 {
        if self.level == 0 { 0.0 } else { 1.2 / (self.most as f64).sqrt() }
    }
}

/// Returns the hash of each prefix of `units` that consists of whole blocks of `block` units, the
/// shortest first.
pub fn prefixes<T: Hash>(units: &[T], block: usize) -> Vec<u64> {
    let mut before = 0_u64;
    let blocks = units.chunks_exact(block.max(1));
    blocks
        .map(|block| {
            before = FixedState::default().hash_one((before, block));
            before
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    /// Returns the number of prefixes of an owner.
    fn prefixes_of_owner(known: &KnownPrefixes, owner: u32) -> f64 {
        known.owned().get(&owner).copied().unwrap_or(0.0)
    }

    #[test]
    fn a_prefix_belongs_to_the_lowest_owner() {
        let mut known = KnownPrefixes::keeping(100);
        let add = |known: &mut KnownPrefixes, text: &str, owner| {
            known.add(&prefixes(text.as_bytes(), 2), owner);
        };
        // ab, abcd; the last byte is not a whole block.
        add(&mut known, "abcde", 2);
        // ab is known, abxx and abxxyy are not.
        add(&mut known, "abxxyy", 3);
        assert_eq!((prefixes_of_owner(&known, 2), prefixes_of_owner(&known, 3)), (2.0, 2.0));
        // Owner 1 also has ab and abxx.
        add(&mut known, "abxx", 1);
        assert_eq!([1, 2, 3].map(|owner| prefixes_of_owner(&known, owner)), [2.0, 1.0, 1.0]);
        assert_eq!(known.relative_error(), 0.0);
    }

    #[test]
    fn a_block_after_another_is_another_prefix() {
        let [one, two] = ["aabb", "bbaa"].map(|text| prefixes(text.as_bytes(), 2));
        assert!(one.iter().all(|prefix| !two.contains(prefix)));
        assert_eq!(prefixes(b"aab", 2), one[..1]);
        assert!(prefixes(b"a", 2).is_empty());
    }

    /// The relative error is 1.2 / √4096 = 1.9%, so that 8% are more than four times as much.
    #[test]
    fn many_are_counted_in_limited_memory() {
        let mut known = KnownPrefixes::keeping(4096);
        for number in 0..100_000_u32 {
            known.add(&prefixes(&[number], 1), number % 4);
            assert!(known.owners.len() <= 4096);
        }
        assert_eq!(known.relative_error(), 1.2 / 64.0);
        let all: f64 = known.owned().values().sum();
        assert!((all / 100_000.0 - 1.0).abs() < 0.08, "{all}");
        // A quarter of them, of which a quarter is kept: an error of 3.8%.
        assert!((prefixes_of_owner(&known, 2) / 25_000.0 - 1.0).abs() < 0.16);
    }

    proptest! {
        #[test]
        fn what_is_not_new_was_in_an_earlier_prompt(
            prompts in prop::collection::vec(prop::collection::vec(0..3u8, 0..12), 0..12),
            block in 1..4usize,
        ) {
            let mut known = KnownPrefixes::keeping(1000);
            let (mut all, mut seen, mut found) = (0, HashSet::new(), 0);
            for prompt in &prompts {
                known.add(&prefixes(prompt, block), 0);
                for end in (block..=prompt.len()).step_by(block) {
                    all += 1;
                    found += usize::from(!seen.insert(prompt[..end].to_vec()));
                }
            }
            prop_assert_eq!(f64::from(all) - prefixes_of_owner(&known, 0), found as f64);
        }
    }
}
