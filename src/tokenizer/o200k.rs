//! The embedded o200k vocabulary: text to tokens by byte-pair encoding.
//!
//! Text is split into pieces (words, numbers, punctuation, space). A piece that
//! is a token is that token; else its bytes are merged pair by pair, each time
//! the adjacent pair whose union is the token of the lowest number. The tokens
//! are those of OpenAI's tiktoken; time is `n log n` in the longest piece and
//! memory beyond the tokens bounded, whatever the text.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::LazyLock;

use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input};

/// Each token in order of its number: a byte of length, then its bytes.
static TOKENS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.tokens"));

/// What a piece is: the first of these that fits.
const PIECES: [&str; 3] = [
    concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|\p{N}{1,3}",
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"|\s*[\r\n]+",
        r"|\s+$",
    ),
    // The space before a word but for its last, which is the word's own:
    // `\s+(?!\S)` for an engine that cannot look ahead.
    r"\s+\s",
    r"\s+",
];

/// Which of [`PIECES`] takes a character too many.
const LOOKS_AHEAD: usize = 1;

/// Longest stretch, in bytes, that is merged at once.
const WINDOW: usize = 4096;

/// Tokens at a window's end that may become others when the text goes on.
const UNSETTLED: usize = 16;

/// The vocabulary, decoded at its first use.
pub(super) static O200K: LazyLock<O200k> = LazyLock::new(O200k::load);

/// Encodes and decodes.
pub(super) struct O200k {
    tokens: Vec<&'static [u8]>,
    ids: HashMap<&'static [u8], u32>,
    pieces: Regex,
}

impl O200k {
    #[expect(clippy::expect_used, reason = "the patterns are constants")]
    fn load() -> Self {
        let mut tokens = Vec::with_capacity(200_000);
        let mut rest = TOKENS;
        while let Some((token, after)) =
            rest.split_first().and_then(|(len, rest)| rest.split_at_checked(usize::from(*len)))
        {
            tokens.push(token);
            rest = after;
        }
        let ids = tokens.iter().zip(0..).map(|(token, id)| (*token, id)).collect();
        let pieces = Regex::new_many(&PIECES).expect("patterns that compile");
        Self { tokens, ids, pieces }
    }

    /// The tokens of `text`.
    pub(super) fn encode(&self, text: &str) -> Vec<u32> {
        let mut tokens = Vec::with_capacity(text.len() / 4);
        for piece in self.split(text) {
            match self.ids.get(piece.as_bytes()) {
                Some(id) => tokens.push(*id),
                None => tokens.append(&mut self.encode_piece(piece.as_bytes(), WINDOW)),
            }
        }
        tokens
    }

    /// The bytes of `tokens`; none for those that are not in the vocabulary.
    pub(super) fn decode(&self, tokens: &[u32]) -> Vec<u8> {
        tokens.iter().flat_map(|token| self.bytes(*token)).copied().collect()
    }

    fn bytes(&self, token: u32) -> &'static [u8] {
        self.tokens.get(token as usize).copied().unwrap_or_default()
    }

    fn split<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let mut rest = text;
        std::iter::from_fn(move || {
            let found = self.pieces.find(Input::new(rest).anchored(Anchored::Yes))?;
            let mut piece = &rest[found.range()];
            if found.pattern().as_usize() == LOOKS_AHEAD {
                let last = piece.chars().next_back().map_or(0, char::len_utf8);
                piece = &piece[..piece.len() - last];
            }
            rest = &rest[piece.len()..];
            Some(piece)
        })
    }

    /// The tokens of a piece of any length, at most about `window` bytes at once.
    ///
    /// Tokens are the encoding of their text exactly where each two neighbours
    /// are the encoding of theirs. So windows may be joined wherever this holds
    /// of the two tokens at the seam; where it does not, the seam moves back.
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
                // Wide enough in the end for all of the piece: this ends.
                window *= 2;
                continue;
            }
            let settled = match end == piece.len() {
                true => ahead.len(),
                false => ahead.len().saturating_sub(UNSETTLED).max(1),
            };
            start += ahead[..settled].iter().map(|token| self.bytes(*token).len()).sum::<usize>();
            tokens.extend(&ahead[..settled]);
        }
        tokens
    }

    /// Merges the bytes of `text` until no two neighbours make a token.
    fn merge(&self, text: &[u8]) -> Vec<u32> {
        // A part is known by its first byte; where one has been merged away its end is 0.
        let mut ends: Vec<usize> = (1..=text.len()).collect();
        let mut previous: Vec<usize> =
            (0..text.len()).map(|start| start.saturating_sub(1)).collect();
        let union = |start: usize, end: usize| {
            self.ids.get(&text[start..end]).map(|id| Reverse((*id, start, end)))
        };
        let mut unions: BinaryHeap<_> =
            (2..=text.len()).filter_map(|end| union(end - 2, end)).collect();
        while let Some(Reverse((_, start, end))) = unions.pop() {
            let middle = ends[start];
            if middle == 0 || middle >= end || ends[middle] != end {
                // One of the two is no longer what it was.
                continue;
            }
            ends[start] = end;
            ends[middle] = 0;
            if start > 0 {
                unions.extend(union(previous[start], end));
            }
            if end < text.len() {
                previous[end] = start;
                unions.extend(union(start, ends[end]));
            }
        }
        let mut parts = Vec::new();
        let mut start = 0;
        while start < text.len() {
            parts.extend(self.ids.get(&text[start..ends[start]]));
            start = ends[start];
        }
        parts
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
        assert_eq!(O200K.tokens.len(), 199_998);
        for (token, id) in O200K.tokens.iter().zip(0..) {
            assert_eq!(tiktoken.decode_bytes(&[id]).unwrap(), *token);
            // What lets windows be joined: each token is the encoding of its bytes.
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
