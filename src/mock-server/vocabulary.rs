//! The words of generated text, and the tokens of prompts.

use std::collections::HashMap;

use base::lock::Lock;
use tokens::tokenizer::TokenCounter;

use super::request::Prompt;
use super::schedule::mix;

/// Words that, with a preceding space, are one token each of the o200k vocabulary, alone and after
/// any other, and need no escape in JSON.
pub const WORDS: &[&str] = &[
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

/// Words of another script, of one token each as well.
const FOREIGN_WORDS: &[&str] = &[
    "время",
    "день",
    "год",
    "что",
    "это",
    "как",
    "для",
    "после",
    "может",
    "было",
    "только",
    "также",
    "если",
    "все",
    "они",
    "его",
];

/// The endless text of a server: the word at each position, of which there are 2^64.
#[derive(Debug)]
pub(super) struct Vocabulary {
    words: &'static [&'static str],
    /// Determines the words; without one, they are in the order of the list.
    seed: Option<u64>,
}

impl Vocabulary {
    pub(super) const fn new(seed: u64) -> Self {
        Self { words: WORDS, seed: Some(seed) }
    }

    /// The words in the order of the list, so that a test can write a text down.
    #[cfg(test)]
    pub(super) const fn in_order(words: &'static [&'static str]) -> Self {
        Self { words, seed: None }
    }

    /// Appends `count` tokens, from the position `first` on.
    pub(super) fn append(&self, out: &mut String, first: u64, count: u64) {
        for index in 0..count {
            self.append_one(out, self.words, first.wrapping_add(index));
        }
    }

    /// Appends one token of another script.
    pub(super) fn append_foreign(&self, out: &mut String, position: u64) {
        self.append_one(out, FOREIGN_WORDS, position);
    }

    fn append_one(&self, out: &mut String, words: &[&str], position: u64) {
        let number = self.seed.map_or(position, |seed| mix(seed, position));
        out.push(' ');
        out.push_str(words[(number % words.len() as u64) as usize]);
    }
}

/// Maximum number of texts that are remembered by their hash; beyond it, all are forgotten.
const CACHED_TEXTS: usize = 16_384;

/// Hashes prompts and counts their o200k tokens. It remembers the counts, since benchmarks repeat
/// prompts.
#[derive(Debug, Default)]
pub(super) struct PromptCounter {
    counts: Lock<HashMap<u64, u64>>,
}

/// The prompts of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Measured {
    /// A hash of them all, the same in every process and on every platform.
    pub(super) hash: u64,
    pub(super) tokens: u64,
}

impl PromptCounter {
    pub(super) fn measure(&self, prompts: &[Prompt<'_>]) -> Measured {
        let mut all = Measured { hash: 0, tokens: 0 };
        for prompt in prompts {
            let (hash, tokens) = match prompt {
                Prompt::Text(text) => {
                    let hash = hash_text(text);
                    (hash, self.count(hash, text))
                }
                Prompt::TokenIds(ids) => (hash_ids(ids), ids.len() as u64),
            };
            all = Measured { hash: mix(all.hash, hash), tokens: all.tokens + tokens };
        }
        all
    }

    fn count(&self, hash: u64, text: &str) -> u64 {
        if let Some(count) = self.counts.lock().get(&hash) {
            return *count;
        }
        let count = TokenCounter::builtin().count(text);
        let mut counts = self.counts.lock();
        if counts.len() >= CACHED_TEXTS {
            counts.clear();
        }
        counts.insert(hash, count);
        count
    }
}

/// Returns a hash of the length and of every eight bytes as a little-endian number.
fn hash_text(text: &str) -> u64 {
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let hash =
        words.iter().fold(text.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    if rest.is_empty() { hash } else { mix(hash, u64::from_le_bytes(last)) }
}

/// Returns a hash of the length and of every token ID.
fn hash_ids(ids: &[u32]) -> u64 {
    ids.iter().fold(ids.len() as u64, |hash, id| mix(hash, u64::from(*id)))
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
        for &word in WORDS.iter().chain(FOREIGN_WORDS) {
            let piece = format!(" {word}");
            assert_eq!(TokenCounter::builtin().count(&piece), 1, "{piece}");
        }
    }

    #[test]
    fn a_text_has_a_word_at_each_position() {
        let text = |vocabulary: Vocabulary, first, count| {
            let mut out = String::new();
            vocabulary.append(&mut out, first, count);
            out
        };
        let in_order = || Vocabulary::in_order(&["a", "b", "c"]);
        assert_eq!(text(in_order(), 1, 4), " b c a b");
        assert_eq!(text(in_order(), 8, 0), "");
        // 2^64 - 1 is a multiple of 3, and position 0 follows it.
        assert_eq!(text(in_order(), u64::MAX, 3), " a a b");
        // The first output of SplitMix64 with the seed 0 is e220a8397b1dcdaf, and af % 64 is 47.
        assert_eq!(text(Vocabulary::new(0), 0, 1), format!(" {}", WORDS[47]));
    }

    proptest! {
        #[test]
        fn any_stretch_has_as_many_tokens_as_asked(seed: u64, first: u64, count in 0..6_000u64) {
            let mut out = String::new();
            Vocabulary::new(seed).append(&mut out, first, count);
            prop_assert_eq!(TokenCounter::builtin().count(&out), count);
        }
    }

    fn text(text: &str) -> Prompt<'_> {
        Prompt::Text(text.into())
    }

    #[test]
    fn prompts_are_counted_alike_again() {
        let counter = PromptCounter::default();
        let tokens = |prompts: &[Prompt<'_>]| counter.measure(prompts).tokens;
        for _ in 0..2 {
            assert_eq!(tokens(&[text("hello world")]), 2);
            assert_eq!(tokens(&[text("hello world"), Prompt::TokenIds(vec![7, 7, 7])]), 5);
            assert_eq!(tokens(&[text("")]), 0);
            assert_eq!(tokens(&[]), 0);
        }
    }

    /// The values are those of an implementation in Python, by the definition.
    #[test]
    fn hashes_are_the_same_everywhere() {
        assert_eq!(hash_text(""), 0);
        assert_eq!(hash_text("hello world"), 0xedff_4186_2fdf_6e44);
        assert_eq!(hash_text("größer"), 0x7d67_a3c7_2552_3618);
        assert_eq!(hash_ids(&[1, 2, 3]), 0x78d7_3342_ca1a_11bb);
        let counter = PromptCounter::default();
        let hash = |prompts: &[Prompt<'_>]| counter.measure(prompts).hash;
        assert_eq!(hash(&[text("hello world")]), 0x2986_8e2a_8a6e_5cea);
        assert_eq!(hash(&[text("hello"), text(" world")]), 0xd248_5893_e319_8df2);
    }

    #[test]
    fn the_length_counts() {
        assert_ne!(hash_text("a"), hash_text("a\0"));
        assert_ne!(hash_ids(&[0]), hash_ids(&[0, 0]));
    }
}
