//! The words of generated text, and the tokens of prompts.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use base::lock::Lock;
use tokens::tokenizer::TokenCounter;

use super::schedule::mix;

/// Words that, with a preceding space, are one token each of the o200k vocabulary, alone and after
/// any other, and need no escape in JSON.
const WORDS: &[&str] = &[
    "the",
    "time",
    "people",
    "way",
    "water",
    "day",
    "world",
    "work",
    "life",
    "part",
    "number",
    "house",
    "light",
    "music",
    "green",
    "river",
    "paper",
    "table",
    "story",
    "point",
    "small",
    "large",
    "first",
    "last",
    "long",
    "great",
    "little",
    "other",
    "right",
    "high",
    "different",
    "next",
    "early",
    "young",
    "important",
    "public",
    "able",
    "good",
    "new",
    "and",
    "that",
    "with",
    "from",
    "have",
    "this",
    "they",
    "about",
    "which",
    "when",
    "make",
    "like",
    "just",
    "know",
    "take",
    "into",
    "year",
    "your",
    "some",
    "could",
    "them",
    "see",
    "than",
    "then",
    "now",
];

/// Number of tokens before the text repeats.
const CYCLE: usize = 4096;

/// The endless text of a server, which the seed determines.
#[derive(Debug)]
pub(super) struct Vocabulary {
    text: String,
    /// The end of each token.
    ends: Vec<usize>,
}

impl Vocabulary {
    pub(super) fn new(seed: u64) -> Self {
        let mut text = String::with_capacity(CYCLE * 6);
        let mut ends = Vec::with_capacity(CYCLE);
        for index in 0..CYCLE as u64 {
            text.push(' ');
            text.push_str(WORDS[(mix(seed, index) % WORDS.len() as u64) as usize]);
            ends.push(text.len());
        }
        Self { text, ends }
    }

    /// Appends `count` tokens, from the index `first` on.
    pub(super) fn append(&self, out: &mut String, first: u64, count: u64) {
        let mut at = (first % CYCLE as u64) as usize;
        let mut left = count;
        while left > 0 {
            let take = left.min((CYCLE - at) as u64);
            let start = if at == 0 { 0 } else { self.ends[at - 1] };
            out.push_str(&self.text[start..self.ends[at + take as usize - 1]]);
            left -= take;
            at = 0;
        }
    }
}

/// Maximum number of texts that are remembered by their hash; beyond it, all are forgotten.
const CACHED_TEXTS: usize = 16_384;

/// Counts o200k tokens and remembers the counts, since benchmarks repeat prompts.
#[derive(Debug, Default)]
pub(super) struct PromptCounter {
    hasher: RandomState,
    counts: Lock<HashMap<u64, u64>>,
}

impl PromptCounter {
    pub(super) fn count(&self, text: &str) -> u64 {
        let key = self.hasher.hash_one(text);
        if let Some(count) = self.counts.lock().get(&key) {
            return *count;
        }
        let count = TokenCounter::builtin().count(text);
        let mut counts = self.counts.lock();
        if counts.len() >= CACHED_TEXTS {
            counts.clear();
        }
        counts.insert(key, count);
        count
    }
}

/// Returns the tokens of a prompt's text.
pub(super) fn encode(text: &str) -> Vec<u32> {
    TokenCounter::builtin().encode(text)
}

/// Decodes the vocabulary in advance rather than at the first count.
pub(super) fn load() {
    let _ = TokenCounter::builtin();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_word_is_one_token() {
        for &word in WORDS {
            let piece = format!(" {word}");
            assert_eq!(TokenCounter::builtin().count(&piece), 1, "{piece}");
        }
    }

    #[test]
    fn texts_repeat_after_a_cycle() {
        let vocabulary = Vocabulary::new(3);
        let text = |first, count| {
            let mut out = String::new();
            vocabulary.append(&mut out, first, count);
            out
        };
        let cycle = text(0, CYCLE as u64);
        assert_eq!(text(0, 3 * CYCLE as u64), cycle.repeat(3));
        assert_eq!(text(5, 10) + &text(15, 2), text(5, 12));
        assert_eq!(text(CYCLE as u64 + 9, 4), text(9, 4));
        assert_eq!(text(8, 0), "");
    }

    proptest! {
        #[test]
        fn any_stretch_has_as_many_tokens_as_asked(seed: u64, first: u64, count in 0..6_000u64) {
            let mut out = String::new();
            Vocabulary::new(seed).append(&mut out, first, count);
            prop_assert_eq!(TokenCounter::builtin().count(&out), count);
        }
    }

    #[test]
    fn prompts_are_counted_alike_again() {
        let counter = PromptCounter::default();
        for _ in 0..2 {
            assert_eq!(counter.count("hello world"), 2);
            assert_eq!(counter.count(""), 0);
        }
    }
}
