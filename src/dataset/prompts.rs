//! Prompts with an exact number of tokens, cut from a corpus.

use std::collections::HashSet;
use std::sync::Arc;

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::{Corpus, DatasetError, Seed};
use crate::setting::InvalidSetting;
use crate::tokenizer::TokenCounter;

/// Number of positions tried for a prompt before a repeated or inexact one is used.
const MAX_PLACES: usize = 64;
/// Number of lengths tried at one position.
const MAX_LENGTHS: usize = 8;

/// A generated text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prompt {
    pub(super) text: Arc<str>,
    /// Number of tokens according to the counter.
    pub(super) tokens: u64,
}

/// Cuts prompts out of the tokenised corpus, each at a different position.
pub(super) struct PromptCutter<'a> {
    counter: &'a TokenCounter,
    tokens: Vec<u32>,
    /// Unused positions, in random order. Two prompts from the same position would share a prefix,
    /// and a server would serve the second one from its cache.
    places: Vec<usize>,
    rng: ChaCha8Rng,
    cut: HashSet<Arc<str>>,
    lengths: Lengths,
}

/// How many of the texts have the length that was wanted.
#[derive(Debug, Default)]
struct Lengths {
    texts: u64,
    inexact: u64,
    /// The wanted and the actual length of the text that differs most.
    worst: (u64, u64),
}

impl Lengths {
    fn add(&mut self, wanted: u64, tokens: u64) {
        self.texts += 1;
        self.inexact += u64::from(tokens != wanted);
        let (worst_wanted, worst) = self.worst;
        if tokens.abs_diff(wanted) > worst.abs_diff(worst_wanted) {
            self.worst = (wanted, tokens);
        }
    }
}

impl<'a> PromptCutter<'a> {
    /// Tokenises the corpus.
    pub(super) fn new(corpus: Corpus, counter: &'a TokenCounter, seed: Seed) -> Self {
        Self {
            counter,
            tokens: corpus.tokens(counter, seed),
            places: Vec::new(),
            rng: seed.stream("dataset.prompts"),
            cut: HashSet::new(),
            lengths: Lengths::default(),
        }
    }

    /// Returns that texts do not have the lengths that were wanted, if any does not: the tokenizer does
    /// not read all of its tokens back as they were.
    fn deviations(&self) -> Option<String> {
        let Lengths { texts, inexact, worst: (wanted, tokens) } = self.lengths;
        (inexact > 0).then(|| {
            format!(
                "{inexact} of {texts} generated texts do not have the length that was drawn, since the \
                 tokenizer does not count its own tokens as it wrote them; the one that differs most \
                 has {tokens} tokens instead of {wanted}"
            )
        })
    }

    /// Warns of texts that do not have their length.
    pub(super) fn warn(&self) {
        if let Some(deviations) = self.deviations() {
            tracing::warn!("{deviations}");
        }
    }

    /// Generates a text of `length` tokens according to the counter, different from all earlier
    /// texts.
    ///
    /// It does not begin or end with white space, which chat templates strip. If the tokenizer
    /// makes exactly `length` impossible, the nearest length is used. If no new text is found
    /// (there are only so many of one token), a text is repeated.
    pub(super) fn cut(&mut self, length: u32) -> Result<Arc<str>, DatasetError> {
        Ok(self.cut_behind("", length)?.text)
    }

    /// Returns the text `opening`, a space and a new prompt that adds `length` tokens to those of
    /// the opening.
    pub(super) fn cut_behind(
        &mut self,
        opening: &str,
        length: u32,
    ) -> Result<Prompt, DatasetError> {
        let target = self.counter.count(opening) + u64::from(length);
        let deviation = |prompt: &Prompt| prompt.tokens.abs_diff(target);
        let mut best: Option<Prompt> = None;
        for _ in 0..MAX_PLACES {
            let place = self.next_place();
            let Some(prompt) = self.cut_at(place, opening, length, target) else {
                continue;
            };
            if prompt.tokens == target && self.cut.insert(Arc::clone(&prompt.text)) {
                best = Some(prompt);
                break;
            }
            if best.as_ref().is_none_or(|best| deviation(&prompt) < deviation(best)) {
                best = Some(prompt);
            }
        }
        if let Some(prompt) = &best {
            self.lengths.add(target, prompt.tokens);
        }
        let why = "the tokenizer cannot decode its tokens, so prompts cannot be generated; use \
                   another tokenizer, or --input-file";
        best.ok_or_else(|| InvalidSetting::new("--tokenizer", why).into())
    }

    fn next_place(&mut self) -> usize {
        if self.places.is_empty() {
            self.places = (0..self.tokens.len()).collect();
            self.places.shuffle(&mut self.rng);
        }
        self.places.pop().unwrap_or_default()
    }

    /// Returns the text at `place`, after `opening`, whose count is nearest to `target`. A cut
    /// through a word, a join or stripped white space may change the count, so the number of corpus
    /// tokens is adjusted from `length` on until it fits.
    fn cut_at(&self, place: usize, opening: &str, length: u32, target: u64) -> Option<Prompt> {
        let mut best: Option<(u64, String)> = None;
        let mut taken = i64::from(length);
        for _ in 0..MAX_LENGTHS {
            let text = self.text_at(place, taken as usize);
            let text = match (opening, text.trim()) {
                (_, "") => {
                    taken += 1;
                    continue;
                }
                ("", text) => text.to_owned(),
                (opening, text) => format!("{opening} {text}"),
            };
            let tokens = self.counter.count(&text);
            let missing = target.cast_signed() - tokens.cast_signed();
            if best.as_ref().is_none_or(|(best, _)| missing.unsigned_abs() < best.abs_diff(target))
            {
                best = Some((tokens, text));
            }
            if missing == 0 {
                break;
            }
            taken = (taken + missing).max(1);
        }
        best.map(|(tokens, text)| Prompt { text: text.into(), tokens })
    }

    /// Returns the text of `taken` tokens from `place` on, wrapping around at the end of the
    /// corpus.
    fn text_at(&self, place: usize, taken: usize) -> String {
        let ring = self.tokens[place..].iter().chain(self.tokens.iter().cycle());
        let tokens: Vec<u32> = ring.take(taken).copied().collect();
        self.counter.decode(&tokens)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::environment::Environment;
    use crate::setting::Named;
    use crate::tokenizer::Source;

    fn golden_counter() -> TokenCounter {
        let path = PathBuf::from("tests/golden/tiny-model");
        TokenCounter::load(&Source::Path(path), Environment::new(&|_| None)).unwrap()
    }

    fn assert_exact(counter: &TokenCounter) {
        for (_, corpus) in Corpus::NAMES {
            let mut cutter = PromptCutter::new(*corpus, counter, Seed(5));
            for length in (1..=100).chain([250, 600]) {
                let text = cutter.cut(length).unwrap();
                assert_eq!(counter.count(&text), u64::from(length), "{corpus:?}: {text:?}");
                assert_eq!(text.trim(), &*text);
            }
        }
    }

    #[test]
    fn prompts_have_exactly_the_length_asked_for() {
        assert_exact(&TokenCounter::builtin());
        assert_exact(&golden_counter());
    }

    /// Each of its tokens is written as `[UNK]`, which it reads as three: one token is impossible.
    #[test]
    fn lengths_that_a_lossy_tokenizer_cannot_reach_are_said() {
        let directory = tempfile::tempdir().unwrap();
        let lossy = serde_json::json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
            "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null,
            "decoder": null,
            "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"},
        });
        std::fs::write(directory.path().join("tokenizer.json"), lossy.to_string()).unwrap();
        let source = Source::Path(directory.path().to_owned());
        let counter = TokenCounter::load(&source, Environment::new(&|_| None)).unwrap();
        let mut cutter = PromptCutter::new(Corpus::Prose, &counter, Seed(3));
        assert_eq!(counter.count(&cutter.cut(1).unwrap()), 3);
        let said = cutter.deviations().unwrap();
        assert!(said.starts_with("1 of 1 generated texts"), "{said}");
        assert!(said.ends_with("has 3 tokens instead of 1"), "{said}");
        let exact = TokenCounter::builtin();
        let mut cutter = PromptCutter::new(Corpus::Prose, &exact, Seed(3));
        cutter.cut(64).unwrap();
        assert_eq!(cutter.deviations(), None);
    }

    #[test]
    fn prompts_longer_than_the_corpus_are_exact_too() {
        let counter = TokenCounter::builtin();
        let text = PromptCutter::new(Corpus::Prose, &counter, Seed(5)).cut(100_000).unwrap();
        assert_eq!(counter.count(&text), 100_000);
    }

    #[test]
    fn prompts_differ_from_the_first_tokens_on() {
        let counter = TokenCounter::builtin();
        let mut cutter = PromptCutter::new(Corpus::Prose, &counter, Seed(5));
        let mut starts = HashSet::new();
        for _ in 0..2000 {
            let text = cutter.cut(64).unwrap();
            starts.insert(text.chars().take(120).collect::<String>());
        }
        assert_eq!(starts.len(), 2000);
    }

    #[test]
    fn more_short_prompts_than_there_are_words_repeat() {
        let counter = TokenCounter::builtin();
        let mut cutter = PromptCutter::new(Corpus::Prose, &counter, Seed(5));
        for _ in 0..6000 {
            assert_eq!(counter.count(&cutter.cut(1).unwrap()), 1);
        }
    }
}
