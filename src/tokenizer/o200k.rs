//! The embedded o200k vocabulary: byte-pair encoding of text.
//!
//! Text is split into pieces (words, numbers, punctuation, space). A piece that is a token is
//! encoded as that token. Otherwise its bytes are merged pair by pair: each step merges the
//! adjacent pair whose union is the token with the lowest number. The tokens are those of OpenAI's
//! tiktoken. The time is linear in the length of the text, and the memory beyond the tokens is
//! bounded, for any text.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::LazyLock;

mod table;

use regex_automata::meta::{Cache, Regex};
use regex_automata::util::pool::Pool;
use regex_automata::{Anchored, Input};
use table::{FREE, Hash, SLOTS};

/// All tokens in order of their numbers: a byte with the length, then the bytes.
pub(super) static TOKENS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.tokens"));

/// Little-endian numbers: where the bytes of each token start in [`TOKENS`], then the slots of the
/// hash table.
static INDEX: &[[u8; 4]] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.index")).as_chunks().0;

/// The kinds of pieces, of which the first match applies.
const PIECES: [&str; 3] = [
    concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|\p{N}{1,3}",
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"|\s*[\r\n]+",
        r"|\s+$",
    ),
    // The space before a word except for its last character, which belongs to the word: `\s+(?!\S)`
    // for an engine without look-ahead.
    r"\s+\s",
    r"\s+",
];

/// Index in [`PIECES`] of the expression that matches one character too many.
const LOOKS_AHEAD: usize = 1;

/// Maximum length in bytes that is merged at once.
const WINDOW: usize = 256;

/// Number of tokens at the end of a window that may change with the text after it.
const UNSETTLED: usize = 4;

/// Result of two parts whose union is not a token.
const NO_TOKEN: u32 = u32::MAX;

/// The vocabulary, with the expressions compiled at its first use.
pub(super) static O200K: LazyLock<O200k> = LazyLock::new(O200k::load);

/// Encoder and decoder of the vocabulary.
pub(super) struct O200k {
    /// Where the bytes of each token start in [`TOKENS`].
    starts: &'static [[u8; 4]],
    slots: &'static [[u8; 4]],
    pieces: Regex,
    /// Pool of caches for the regular expression: one per text, instead of one per piece from its
    /// own pool.
    caches: Pool<Cache, NewCache>,
}

type NewCache = Box<dyn Fn() -> Cache + Send + Sync + UnwindSafe + RefUnwindSafe>;

impl O200k {
    #[expect(clippy::expect_used, reason = "the patterns are constants")]
    fn load() -> Self {
        let (starts, slots) = INDEX.split_at(INDEX.len() - SLOTS);
        let pieces = Regex::new_many(&PIECES).expect("patterns that compile");
        let new_cache = pieces.clone();
        let caches = Pool::new(Box::new(move || new_cache.create_cache()) as NewCache);
        Self { starts, slots, pieces, caches }
    }

    pub(super) fn encode(&self, text: &str) -> Vec<u32> {
        let mut tokens = Vec::with_capacity(text.len() / 4);
        for piece in self.split(text) {
            match self.id(piece.as_bytes()) {
                Some(id) => tokens.push(id),
                None => tokens.append(&mut self.encode_piece(piece.as_bytes(), WINDOW)),
            }
        }
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

    fn bytes(&self, token: u32) -> &'static [u8] {
        let Some(start) = self.starts.get(token as usize) else { return &[] };
        let start = u32::from_le_bytes(*start) as usize;
        &TOKENS[start..start + usize::from(TOKENS[start - 1])]
    }

    /// Returns the token that consists of `bytes`, if there is one.
    fn id(&self, bytes: &[u8]) -> Option<u32> {
        let hash = Hash::of(bytes);
        hash.slots()
            .map(|at| u32::from_le_bytes(self.slots[at]))
            .take_while(|slot| *slot != FREE)
            .find(|slot| {
                let id = table::id(*slot);
                *slot == hash.slot(id) && self.bytes(id) == bytes
            })
            .map(table::id)
    }

    fn split<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let mut rest = text;
        let mut cache = self.caches.get();
        std::iter::from_fn(move || {
            let input = Input::new(rest).anchored(Anchored::Yes);
            let found = self.pieces.search_with(&mut cache, &input)?;
            let mut piece = &rest[found.range()];
            if found.pattern().as_usize() == LOOKS_AHEAD {
                let last = piece.chars().next_back().map_or(0, char::len_utf8);
                piece = &piece[..piece.len() - last];
            }
            rest = &rest[piece.len()..];
            Some(piece)
        })
    }

    /// Returns the tokens of a piece of any length, merging about `window` bytes at once.
    ///
    /// A sequence of tokens is the encoding of its text exactly if each two neighbours are the
    /// encoding of theirs. Windows may therefore be joined if this holds for the two tokens at the
    /// seam. If it does not hold, the seam moves back.
    fn encode_piece(&self, piece: &[u8], mut window: usize) -> Vec<u32> {
        let mut tokens: Vec<u32> = Vec::new();
        let mut start = 0;
        while start < piece.len() {
            let end = piece.len().min(start + window);
            let ahead = self.merge(&piece[start..end]);
            if let (Some(last), Some(next)) = (tokens.last(), ahead.first())
                && self.merge(&self.decode(&[*last, *next])) != [*last, *next]
            {
                start -= self.bytes(*last).len();
                tokens.pop();
                // This ends, because the window finally covers the whole piece.
                window *= 2;
                continue;
            }
            let settled = if end == piece.len() {
                ahead.len()
            } else {
                ahead.len().saturating_sub(UNSETTLED).max(1)
            };
            start += ahead[..settled].iter().map(|token| self.bytes(*token).len()).sum::<usize>();
            tokens.extend(&ahead[..settled]);
        }
        tokens
    }

    /// Merges the bytes of `text` until no two neighbours form a token.
    fn merge(&self, text: &[u8]) -> Vec<u32> {
        // The start of each part, and the token that it forms with the next one; the last entry
        // marks the end.
        let mut parts: Vec<(usize, u32)> =
            (0..=text.len()).map(|start| (start, NO_TOKEN)).collect();
        let union = |parts: &[(usize, u32)], at: usize| {
            let end = parts.get(at + 2).map(|part| part.0);
            end.and_then(|end| self.id(&text[parts[at].0..end])).unwrap_or(NO_TOKEN)
        };
        for at in 0..text.len() {
            parts[at].1 = union(&parts, at);
        }
        while let Some(at) = first_least(&parts) {
            parts.remove(at + 1);
            parts[at].1 = union(&parts, at);
            if let Some(before) = at.checked_sub(1) {
                parts[before].1 = union(&parts, before);
            }
        }
        parts.windows(2).filter_map(|pair| self.id(&text[pair[0].0..pair[1].0])).collect()
    }
}

/// Returns the first part whose union with the next one is the lowest token.
fn first_least(parts: &[(usize, u32)]) -> Option<usize> {
    let (at, (_, id)) = parts.iter().enumerate().min_by_key(|(_, (_, id))| *id)?;
    (*id != NO_TOKEN).then_some(at)
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
            assert_eq!(O200K.merge(token), [id]);
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
            prop_assert_eq!(O200K.encode_piece(text.as_bytes(), window), O200K.merge(text.as_bytes()));
        }
    }
}
