//! Random streams that depend on a seed and a name alone.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use uuid::Uuid;

/// The seed of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// The stream of random numbers called `name`: the same on every machine
    /// and in every thread, and apart from all other names' streams.
    #[must_use]
    pub fn stream(&self, name: &str) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.0 ^ fnv1a(name.as_bytes()))
    }

    /// The `index`th identifier called `name`.
    #[must_use]
    pub fn uuid(&self, name: &str, index: u64) -> Uuid {
        let mut bytes = [0; 16];
        self.stream(&format!("{name}.{index}")).fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}

/// FNV-1a of 64 bits (Fowler, Noll, Vo): stable across releases, which the
/// standard library's hasher does not promise.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        // Vectors of the FNV reference implementation.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn streams_depend_on_seed_and_name() {
        let first = |seed: u64, name: &str| Seed(seed).stream(name).next_u64();
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
        assert_ne!(first(1, "a"), first(2, "a"));
        assert_ne!(Seed(1).uuid("x", 0), Seed(1).uuid("x", 1));
    }
}
