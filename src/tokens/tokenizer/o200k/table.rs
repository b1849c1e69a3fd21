//! The hash table from bytes to tokens: `build.rs` writes it, the tokenizer reads it.
//!
//! A token is in the first free slot from that of its hash on. A slot holds the number of the token
//! in its low bits, and bits of the hash above them, so that few other tokens need to be compared.

/// Number of slots, a power of two; the tokens occupy two fifths of them.
pub(super) const SLOTS: usize = 1 << 19;

/// Content of a slot without a token.
pub(super) const FREE: u32 = u32::MAX;

/// Number of bits of a slot that hold the number of a token.
const ID_BITS: u32 = 18;

/// The hash of some bytes: FNV-1a.
#[derive(Clone, Copy)]
pub(super) struct Hash(u64);

impl Hash {
    pub(super) fn of_bytes(bytes: &[u8]) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Self(hash)
    }

    /// Returns the indices of the slots to look at, without end.
    pub(super) fn slots(self) -> impl Iterator<Item = usize> {
        (self.0 as usize..).map(|at| at % SLOTS)
    }

    /// Returns the content of the slot of the token `id`, whose bytes have this hash.
    pub(super) const fn slot(self, id: u32) -> u32 {
        ((self.0 >> (32 + ID_BITS)) as u32) << ID_BITS | id
    }
}

/// Returns the number of the token in `slot`.
pub(super) const fn id(slot: u32) -> u32 {
    slot & ((1 << ID_BITS) - 1)
}
