//! Byte-pair encoding of text, as by OpenAI's tiktoken.
//!
//! Text is split into pieces (words, numbers, punctuation, space). A piece that is a token is
//! encoded as that token. Otherwise its bytes are merged pair by pair: each step merges the
//! adjacent pair whose union is the token with the lowest number. The time is linear in the length of
//! the text, and the memory beyond the tokens is bounded, for any text.

use std::panic::{RefUnwindSafe, UnwindSafe};

use regex_automata::meta::{BuildError, Cache, Regex};
use regex_automata::util::pool::Pool;
use regex_automata::{Anchored, Input};

/// Maximum length in bytes that is merged at once.
const WINDOW: usize = 256;

/// Number of tokens at the end of a window that may change with the text after it.
const UNSETTLED: usize = 4;

/// Result of two parts whose union is not a token.
const NO_TOKEN: u32 = u32::MAX;

/// A vocabulary that has each byte as a token.
pub(super) trait Tokens {
    /// Returns the token that consists of `bytes`, if there is one.
    fn id(&self, bytes: &[u8]) -> Option<u32>;

    /// Returns the bytes of `token`; an unknown token has none.
    fn bytes(&self, token: u32) -> &[u8];
}

/// Splits text into pieces.
pub(super) struct Pieces {
    expressions: Regex,
    /// Pool of caches for the expressions: one per text, instead of one per piece from its own pool.
    caches: Pool<Cache, NewCache>,
}

type NewCache = Box<dyn Fn() -> Cache + Send + Sync + UnwindSafe + RefUnwindSafe>;

/// Index of the expression that matches one character too many.
const LOOKS_AHEAD: usize = 1;

impl Pieces {
    /// Creates the splitter of a vocabulary whose `words` are the expressions for everything but spaces
    /// that are not followed by a line break: `\s+(?!\S)|\s+` for all vocabularies.
    pub(super) fn new(words: &str) -> Result<Self, Box<BuildError>> {
        // The space before a word except for its last character, which belongs to the word, for an engine
        // without look-ahead.
        let all = [&*format!(r"{words}|\s+$"), r"\s+\s", r"\s+"];
        let expressions = Regex::new_many(&all).map_err(Box::new)?;
        let new_cache = expressions.clone();
        let caches = Pool::new(Box::new(move || new_cache.create_cache()) as NewCache);
        Ok(Self { expressions, caches })
    }

    fn split<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let mut rest = text;
        let mut cache = self.caches.get();
        std::iter::from_fn(move || {
            let input = Input::new(rest).anchored(Anchored::Yes);
            let found = self.expressions.search_with(&mut cache, &input)?;
            let mut piece = &rest[found.range()];
            if found.pattern().as_usize() == LOOKS_AHEAD {
                let last = piece.chars().next_back().map_or(0, char::len_utf8);
                piece = &piece[..piece.len() - last];
            }
            rest = &rest[piece.len()..];
            Some(piece)
        })
    }
}

/// Appends the tokens of `text` to `found`.
pub(super) fn encode(tokens: &impl Tokens, pieces: &Pieces, text: &str, found: &mut Vec<u32>) {
    for piece in pieces.split(text) {
        match tokens.id(piece.as_bytes()) {
            Some(id) => found.push(id),
            None => found.append(&mut encode_piece(tokens, piece.as_bytes(), WINDOW)),
        }
    }
}

/// Returns the tokens of a piece of any length, merging about `window` bytes at once.
///
/// A sequence of tokens is the encoding of its text exactly if each two neighbours are the
/// encoding of theirs. Windows may therefore be joined if this holds for the two tokens at the
/// seam. If it does not hold, the seam moves back.
pub(super) fn encode_piece(tokens: &impl Tokens, piece: &[u8], mut window: usize) -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    let mut start = 0;
    while start < piece.len() {
        let end = piece.len().min(start + window);
        let ahead = merge(tokens, &piece[start..end]);
        if let (Some(last), Some(next)) = (found.last(), ahead.first()) {
            let both = [tokens.bytes(*last), tokens.bytes(*next)].concat();
            if merge(tokens, &both) != [*last, *next] {
                start -= tokens.bytes(*last).len();
                found.pop();
                // This ends, because the window finally covers the whole piece.
                window *= 2;
                continue;
            }
        }
        let settled = if end == piece.len() {
            ahead.len()
        } else {
            ahead.len().saturating_sub(UNSETTLED).max(1)
        };
        start += ahead[..settled].iter().map(|token| tokens.bytes(*token).len()).sum::<usize>();
        found.extend(&ahead[..settled]);
    }
    found
}

/// Merges the bytes of `text` until no two neighbours form a token.
pub(super) fn merge(tokens: &impl Tokens, text: &[u8]) -> Vec<u32> {
    // The start of each part, and the token that it forms with the next one; the last entry
    // marks the end.
    let mut parts: Vec<(usize, u32)> = (0..=text.len()).map(|start| (start, NO_TOKEN)).collect();
    let union = |parts: &[(usize, u32)], at: usize| {
        let end = parts.get(at + 2).map(|part| part.0);
        end.and_then(|end| tokens.id(&text[parts[at].0..end])).unwrap_or(NO_TOKEN)
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
    parts.windows(2).filter_map(|pair| tokens.id(&text[pair[0].0..pair[1].0])).collect()
}

/// Returns the first part whose union with the next one is the lowest token.
fn first_least(parts: &[(usize, u32)]) -> Option<usize> {
    let (at, (_, id)) = parts.iter().enumerate().min_by_key(|(_, (_, id))| *id)?;
    (*id != NO_TOKEN).then_some(at)
}
