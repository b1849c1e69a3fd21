//! Sources of random choices.
//!
//! All of them follow from one number. Each purpose draws from its own stream, named as in
//! `dataset.turns`, so that an additional draw for one purpose does not change another. Streams
//! depend on the seed and the name alone, not on the machine, the thread or the order of use.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use uuid::Uuid;

/// The seed of a run, or of one purpose in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// Returns the seed `given`, or one from the system. That has 32 bits, so that any JSON parser
    /// reads it exactly.
    #[must_use]
    pub fn or_random(given: Option<u64>) -> Self {
        Self(given.unwrap_or_else(|| Uuid::new_v4().as_u64_pair().1 & 0xffff_ffff))
    }

    /// Returns the seed for the purpose `name`: FNV-1a of the name, mixed with this seed.
    #[must_use]
    pub fn derive(self, name: &str) -> Self {
        Self(mix(mix(self.0.wrapping_add(GOLDEN)) ^ fnv1a(name.as_bytes())))
    }

    /// Returns the `index`-th output of `SplitMix64` from this seed.
    #[must_use]
    pub fn number(self, index: u64) -> u64 {
        mix(self.0.wrapping_add(GOLDEN.wrapping_mul(index.wrapping_add(1))))
    }

    /// Returns an integer below `limit` for `index`, or 0 if `limit` is 0.
    #[must_use]
    pub fn below(self, index: u64, limit: u64) -> u64 {
        ((u128::from(self.number(index)) * u128::from(limit)) >> 64) as u64
    }

    /// Returns the random number generator for the purpose `name`.
    #[must_use]
    pub fn stream(self, name: &str) -> ChaCha8Rng {
        let derived = self.derive(name);
        let mut key = [0; 32];
        for (index, word) in (0..).zip(key.chunks_exact_mut(8)) {
            word.copy_from_slice(&derived.number(index).to_le_bytes());
        }
        ChaCha8Rng::from_seed(key)
    }
}

/// Increment of `SplitMix64`: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Applies the output function of `SplitMix64` (Steele, Lea and Flood, 2014).
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the 64-bit FNV-1a hash (draft-eastlake-fnv).
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;

    #[test]
    fn fnv1a_matches_its_published_vectors() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn numbers_are_those_of_splitmix64() {
        // First outputs of the reference implementation for seed 1234567.
        let seed = Seed(1_234_567);
        let numbers: Vec<u64> = (0..5).map(|index| seed.number(index)).collect();
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }

    #[test]
    fn streams_differ_by_name_and_by_seed() {
        let first = |seed: u64, name: &str| Seed(seed).stream(name).random::<u64>();
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
        assert_ne!(first(1, "a"), first(2, "a"));
    }

    #[test]
    fn below_stays_below() {
        assert_eq!(Seed(3).below(9, 0), 0);
        assert!((0..1000).all(|index| Seed(3).below(index, 7) < 7));
    }
}
