//! Prompts of a given length from the embedded text.

use rand::{Rng, RngExt};

use crate::tokenizer::TokenCounter;

/// Public-domain prose; see the README beside it.
const TEXT: &str = include_str!("corpus/eighty_days.txt");

/// Places in the text that are tried for one prompt.
const ATTEMPTS: usize = 16;

/// Corrections of the length at one place.
const CORRECTIONS: usize = 8;

/// The text as tokens of one vocabulary.
#[derive(Debug)]
pub(super) struct Corpus<'a> {
    counter: &'a TokenCounter,
    tokens: Vec<u32>,
}

/// A text and the number of its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) text: String,
    pub(super) tokens: u64,
}

impl<'a> Corpus<'a> {
    pub(super) fn new(counter: &'a TokenCounter) -> Self {
        Self { counter, tokens: counter.encode(TEXT) }
    }

    /// A text of `length` tokens from a random place.
    ///
    /// A piece cut out of a tokenised text need not have as many tokens when it
    /// is encoded by itself, so it is counted and made longer or shorter until
    /// it has. Where a vocabulary never allows it, the nearest text is given
    /// with its true count.
    pub(super) fn prompt(&self, length: usize, rng: &mut impl Rng) -> Counted {
        let mut nearest = Counted { text: String::new(), tokens: 0 };
        if length == 0 || self.tokens.is_empty() {
            return nearest;
        }
        for _ in 0..ATTEMPTS {
            let offset = rng.random_range(0..self.tokens.len());
            let mut taken = length;
            for _ in 0..CORRECTIONS {
                let text = self.piece(offset, taken);
                let found = Counted { tokens: self.counter.count(&text), text };
                let miss = (length as u64).cast_signed() - found.tokens.cast_signed();
                if miss.unsigned_abs() < (length as u64).abs_diff(nearest.tokens) {
                    nearest = found;
                }
                if miss == 0 {
                    return nearest;
                }
                taken = taken.saturating_add_signed(miss as isize).max(1);
            }
        }
        nearest
    }

    /// `length` tokens from `offset` on, as text; the corpus goes round.
    fn piece(&self, offset: usize, length: usize) -> String {
        let tokens: Vec<u32> =
            self.tokens.iter().cycle().skip(offset).take(length).copied().collect();
        // A cut through a character leaves replacement characters at the ends.
        self.counter.decode(&tokens).trim_matches('\u{fffd}').to_owned()
    }
}
