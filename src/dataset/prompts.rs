//! Prompts with an exact number of tokens, cut from a corpus.

use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use base::lock::Lock;
use base::setting::InvalidSetting;
use tokens::tokenizer::TokenCounter;

use super::{Corpus, DatasetError, Seed};

/// Number of beginnings tried for a prompt before an inexact one is used.
const MAX_PLACES: usize = 64;
/// Number of lengths tried with one beginning.
const MAX_LENGTHS: usize = 8;
/// Most tokens of each of the two pieces of the corpus that a prompt begins with.
const PIECE: usize = 3;
/// Number of tokens after a place of the corpus among which the beginning of a word is looked for.
const WORD: usize = 8;

/// A generated text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prompt {
    pub(super) text: Arc<str>,
    /// Number of tokens according to the counter.
    pub(super) tokens: u64,
}

/// Cuts prompts out of the tokenised corpus.
///
/// A prompt is two short pieces of the corpus and a long one, each from a place that is drawn
/// independently of all others. With 50,000 places there are about 10¹⁴ beginnings, so that prompts differ
/// within their first tokens however many there are: a server would serve one that begins like another from its
/// prefix cache.
#[derive(Debug)]
pub(super) struct PromptCutter {
    tokens: Vec<u32>,
    /// The text of the first token, in front of which others are decoded.
    anchor: String,
    lengths: Lock<Lengths>,
}

/// How many of the texts have the length that was wanted.
#[derive(Debug, Default, Clone, Copy)]
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

impl PromptCutter {
    /// Tokenises the corpus.
    pub(super) fn new(corpus: Corpus, counter: &TokenCounter, seed: Seed) -> Self {
        let tokens = corpus.tokens(counter, seed);
        let anchor = counter.decode(tokens.get(..1).unwrap_or_default());
        Self { tokens, anchor, lengths: Lock::default() }
    }

    /// Returns that texts do not have the lengths that were wanted, if any does not: the tokenizer does
    /// not read all of its tokens back as they were.
    fn deviations(&self) -> Option<String> {
        let Lengths { texts, inexact, worst: (wanted, tokens) } = *self.lengths.lock();
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

    /// Generates a text of `length` tokens according to the counter; `rng` decides which.
    ///
    /// It does not begin or end with white space, which chat templates strip. If the tokenizer
    /// makes exactly `length` impossible, the nearest length is used.
    pub(super) fn cut(
        &self,
        counter: &TokenCounter,
        rng: &mut ChaCha8Rng,
        length: u32,
    ) -> Result<Arc<str>, DatasetError> {
        Ok(self.cut_behind(counter, rng, "", length)?.text)
    }

    /// Returns the text `opening`, a space and a new prompt that adds `length` tokens to those of
    /// the opening.
    pub(super) fn cut_behind(
        &self,
        counter: &TokenCounter,
        rng: &mut ChaCha8Rng,
        opening: &str,
        length: u32,
    ) -> Result<Prompt, DatasetError> {
        let target = counter.count(opening) + u64::from(length);
        let deviation = |prompt: &Prompt| prompt.tokens.abs_diff(target);
        let mut best: Option<Prompt> = None;
        for _ in 0..MAX_PLACES {
            let places = [(); 3].map(|()| self.place(counter, rng));
            let Some(prompt) = self.cut_at(counter, places, opening, length, target) else {
                continue;
            };
            let is_exact = prompt.tokens == target;
            if best.as_ref().is_none_or(|best| deviation(&prompt) < deviation(best)) {
                best = Some(prompt);
            }
            if is_exact {
                break;
            }
        }
        if let Some(prompt) = &best {
            self.lengths.lock().add(target, prompt.tokens);
        }
        let why = "the tokenizer cannot decode its tokens, so prompts cannot be generated; use \
                   another tokenizer, or --input-file";
        best.ok_or_else(|| InvalidSetting::new("--tokenizer", why).into())
    }

    /// Draws a place of the corpus: the first word that begins at a random one, or soon after it.
    fn place(&self, counter: &TokenCounter, rng: &mut ChaCha8Rng) -> usize {
        let drawn = rng.random_range(0..self.tokens.len().max(1));
        let begins_word = |place: &usize| {
            let (Some(anchor), Some(token)) = (self.tokens.first(), self.tokens.get(*place)) else {
                return false;
            };
            let text = counter.decode(&[*anchor, *token]);
            text.strip_prefix(&*self.anchor).is_some_and(|own| own.starts_with(char::is_whitespace))
        };
        (drawn..drawn + WORD).find(begins_word).unwrap_or(drawn)
    }

    /// Returns the text of pieces from these places, after `opening`, whose count is nearest to `target`. A
    /// join or stripped white space may change the count, so the number of corpus tokens is adjusted from
    /// `length` on until it fits.
    fn cut_at(
        &self,
        counter: &TokenCounter,
        places: [usize; 3],
        opening: &str,
        length: u32,
        target: u64,
    ) -> Option<Prompt> {
        let mut best: Option<(u64, String)> = None;
        let piece = (length as usize / places.len()).min(PIECE);
        let mut taken = i64::from(length);
        for _ in 0..MAX_LENGTHS {
            let text = self.text_at(counter, places, piece, taken as usize);
            let text = match (opening, text.trim()) {
                (_, "") => {
                    taken += 1;
                    continue;
                }
                ("", text) => text.to_owned(),
                (opening, text) => format!("{opening} {text}"),
            };
            let tokens = counter.count(&text);
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

    /// Returns the text of `taken` tokens: `piece` from each place but the last one, and from there the
    /// rest, wrapping around at the end of the corpus.
    fn text_at(
        &self,
        counter: &TokenCounter,
        [first, second, last]: [usize; 3],
        piece: usize,
        taken: usize,
    ) -> String {
        let from = |place: usize| {
            let ring = self.tokens.get(place..).unwrap_or_default().iter();
            ring.chain(self.tokens.iter().cycle())
        };
        let pieces = from(first).take(piece).chain(from(second).take(piece)).chain(from(last));
        let tokens: Vec<u32> = pieces.take(taken).copied().collect();
        counter.decode(&tokens)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::PathBuf;

    use base::environment::Environment;
    use base::setting::Named;
    use tokens::tokenizer::Source;

    use super::*;

    fn golden_counter() -> TokenCounter {
        let path = PathBuf::from("../../tests/golden/tiny-model");
        TokenCounter::load(&Source::Path(path), Environment::new(&|_| None)).unwrap()
    }

    fn assert_exact(counter: &TokenCounter) {
        for (_, corpus) in Corpus::NAMES {
            let cutter = PromptCutter::new(*corpus, counter, Seed(5));
            let mut rng = Seed(5).stream("test");
            for length in (1..=100).chain([250, 600]) {
                let text = cutter.cut(counter, &mut rng, length).unwrap();
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
        let cutter = PromptCutter::new(Corpus::Prose, &counter, Seed(3));
        let mut rng = Seed(3).stream("test");
        assert_eq!(counter.count(&cutter.cut(&counter, &mut rng, 1).unwrap()), 3);
        let said = cutter.deviations().unwrap();
        assert!(said.starts_with("1 of 1 generated texts"), "{said}");
        assert!(said.ends_with("has 3 tokens instead of 1"), "{said}");
        let exact = TokenCounter::builtin();
        let cutter = PromptCutter::new(Corpus::Prose, &exact, Seed(3));
        cutter.cut(&exact, &mut rng, 64).unwrap();
        assert_eq!(cutter.deviations(), None);
    }

    #[test]
    fn prompts_longer_than_the_corpus_are_exact_too() {
        let counter = TokenCounter::builtin();
        let cutter = PromptCutter::new(Corpus::Prose, &counter, Seed(5));
        let text = cutter.cut(&counter, &mut Seed(5).stream("test"), 100_000).unwrap();
        assert_eq!(counter.count(&text), 100_000);
    }

    /// Servers cache whole blocks of 16 tokens.
    #[test]
    fn prompts_differ_within_their_first_block() {
        let counter = TokenCounter::builtin();
        for (_, corpus) in Corpus::NAMES {
            let cutter = PromptCutter::new(*corpus, &counter, Seed(5));
            let mut rng = Seed(5).stream("test");
            let mut blocks = HashSet::new();
            let prompts = if *corpus == Corpus::Prose { 20_000 } else { 2000 };
            for _ in 0..prompts {
                let tokens = counter.encode(&cutter.cut(&counter, &mut rng, 32).unwrap());
                assert_eq!(tokens.len(), 32);
                blocks.insert(tokens[..16].to_vec());
            }
            assert_eq!(blocks.len(), prompts, "{corpus:?}");
        }
    }

    #[test]
    fn there_are_only_so_many_prompts_of_one_token() {
        let counter = TokenCounter::builtin();
        let cutter = PromptCutter::new(Corpus::Prose, &counter, Seed(5));
        let mut rng = Seed(5).stream("test");
        for _ in 0..6000 {
            assert_eq!(counter.count(&cutter.cut(&counter, &mut rng, 1).unwrap()), 1);
        }
    }
}
