//! The embedded o200k vocabulary, whose tokens are those of OpenAI's tiktoken.

use std::sync::LazyLock;

mod table;

use super::bpe::{self, Pieces, Tokens};
use table::{FREE, Hash, SLOTS};

/// All tokens in order of their numbers: a byte with the length, then the bytes.
pub(super) static TOKENS: &[u8] = include_bytes!("o200k/o200k.tokens");

/// Little-endian numbers: where the bytes of each token start in [`TOKENS`], then the slots of the
/// hash table.
static INDEX: &[[u8; 4]] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.index")).as_chunks().0;

/// The kinds of pieces but spaces, of which the first match applies.
const WORDS: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"|\s*[\r\n]+",
);

/// The vocabulary, with the expressions compiled at its first use.
pub(super) static O200K: LazyLock<O200k> = LazyLock::new(O200k::load);

/// Encoder and decoder of the vocabulary.
pub(super) struct O200k {
    /// Where the bytes of each token start in [`TOKENS`].
    starts: &'static [[u8; 4]],
    slots: &'static [[u8; 4]],
    pieces: Pieces,
}

impl O200k {
    #[expect(clippy::expect_used, reason = "the patterns are constants")]
    fn load() -> Self {
        let (starts, slots) = INDEX.split_at(INDEX.len() - SLOTS);
        Self { starts, slots, pieces: Pieces::new(WORDS).expect("patterns that compile") }
    }

    pub(super) fn encode(&self, text: &str) -> Vec<u32> {
        let mut tokens = Vec::with_capacity(text.len() / 4);
        bpe::encode(self, &self.pieces, text, &mut tokens);
        tokens
    }

    /// Returns the number of tokens.
    pub(super) fn size(&self) -> u32 {
        self.starts.len() as u32
    }

    /// Returns the bytes of `tokens`; unknown tokens have none.
    pub(super) fn decode(&self, tokens: &[u32]) -> Vec<u8> {
        tokens.iter().map(|token| self.bytes(*token)).collect::<Vec<_>>().concat()
    }
}

impl Tokens for O200k {
    fn id(&self, bytes: &[u8]) -> Option<u32> {
        let hash = Hash::of_bytes(bytes);
        hash.slots()
            .map(|at| u32::from_le_bytes(self.slots[at]))
            .take_while(|slot| *slot != FREE)
            .find(|slot| {
                let id = table::id(*slot);
                *slot == hash.slot(id) && self.bytes(id) == bytes
            })
            .map(table::id)
    }

    fn bytes(&self, token: u32) -> &'static [u8] {
        let Some(start) = self.starts.get(token as usize) else { return &[] };
        let start = u32::from_le_bytes(*start) as usize;
        &TOKENS[start..start + usize::from(TOKENS[start - 1])]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tiktoken(text: &str) -> Vec<u32> {
        tiktoken_rs::o200k_base_singleton().encode_ordinary(text)
    }

    #[test]
    fn the_vocabulary_is_tiktokens() {
        let tiktoken = tiktoken_rs::o200k_base_singleton();
        assert_eq!(O200K.starts.len(), 199_998);
        for id in 0..199_998 {
            let token = O200K.bytes(id);
            assert_eq!(tiktoken.decode_bytes(&[id]).unwrap(), token);
            // This is why windows can be joined: each token is the encoding of its bytes.
            assert_eq!(bpe::merge(&*O200K, token), [id]);
        }
    }

    #[test]
    fn a_long_piece_is_encoded_in_windows() {
        for text in
            ["a".repeat(70_000), "ab".repeat(9_000), " -=".repeat(20_000), "漢".repeat(9_000)]
        {
            assert_eq!(O200K.encode(&text), tiktoken(&text), "{:?}", &text[..6]);
        }
    }

    proptest! {
        #[test]
        fn tokens_are_tiktokens(text in "\\PC{0,120}|[a-cA-C' \n0-9é/.-]{0,120}|\\s{0,20}\\PC{0,20}\\s{0,20}") {
            prop_assert_eq!(O200K.encode(&text), tiktoken(&text));
        }

        #[test]
        fn windows_join_as_if_there_were_none(text in "[abnt]{1,400}|[a-z]{1,400}|(aaaa|ab|the){1,90}", window in 1..60usize) {
            prop_assert_eq!(bpe::encode_piece(&*O200K, text.as_bytes(), window), bpe::merge(&*O200K, text.as_bytes()));
        }
    }
}
