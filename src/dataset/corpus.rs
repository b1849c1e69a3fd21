//! The texts that prompts are generated from.

mod code;

use rand::RngExt;

use base::setting::named;
use tokens::tokenizer::TokenCounter;

use super::Seed;

/// Source of the text of generated prompts (`--prompt-corpus`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Corpus {
    /// English prose.
    #[default]
    Prose,
    /// Shakespeare's sonnets.
    Sonnet,
    /// Code, logs, diffs and output of tools.
    Coding,
    /// Random tokens of the tokenizer.
    Random,
}

named! { Corpus { "prose" => Prose, "sonnet" => Sonnet, "coding" => Coding, "random" => Random } }

/// English prose in the public domain; see `corpus/README.md`.
const PROSE: &str = include_str!("corpus/opticks.txt");
/// Verse in the public domain; see `corpus/README.md`.
const SONNETS: &str = include_str!("corpus/sonnets.txt");

/// Number of random tokens; prompts begin at different ones. The texts have about as many.
const RANDOM_TOKENS: usize = 50_000;

impl Corpus {
    /// Returns the text; `None` if it depends on the tokenizer.
    pub(super) fn text(self) -> Option<&'static str> {
        match self {
            Self::Prose => Some(PROSE),
            Self::Sonnet => Some(SONNETS),
            Self::Coding => Some(code::text()),
            Self::Random => None,
        }
    }

    /// Returns the tokens of the corpus. Only random ones depend on the seed.
    pub(super) fn tokens(self, counter: &TokenCounter, seed: Seed) -> Vec<u32> {
        self.text().map_or_else(|| random_tokens(counter, seed), |text| counter.encode(text))
    }
}

/// Returns tokens drawn independently, each with the same probability, from those that are a text
/// of their own. Special tokens and parts of characters are not: a server could not read them from
/// a request. Without such tokens the result is empty.
fn random_tokens(counter: &TokenCounter, seed: Seed) -> Vec<u32> {
    let mut rng = seed.stream("dataset.random_tokens");
    let size = counter.vocabulary_size().max(1);
    let drawn = (0..RANDOM_TOKENS * 4).map(|_| rng.random_range(0..size));
    drawn.filter(|token| counter.is_text(*token)).take(RANDOM_TOKENS).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::PathBuf;

    use base::environment::Environment;
    use tokens::tokenizer::Source;

    use super::*;

    #[test]
    fn the_texts_are_plain() {
        for corpus in [Corpus::Prose, Corpus::Sonnet, Corpus::Coding] {
            let text = corpus.text().unwrap();
            assert!((90_000..250_000).contains(&text.len()), "{corpus:?}: {}", text.len());
            assert!(text.bytes().all(|b| b == b'\n' || b == b'\t' || (0x20..0x7f).contains(&b)));
            // Words, with which prompts of traces are generated, are separated by one space.
            assert!(!text.contains("  "), "{corpus:?}");
        }
    }

    #[test]
    fn random_tokens_are_texts_of_the_whole_vocabulary() {
        let path = PathBuf::from("../../tests/golden/tiny-model");
        let tiny = TokenCounter::load(&Source::Path(path), Environment::new(&|_| None)).unwrap();
        for counter in [TokenCounter::builtin(), tiny] {
            let tokens = Corpus::Random.tokens(&counter, Seed(1));
            assert_eq!(tokens, Corpus::Random.tokens(&counter, Seed(1)));
            assert_ne!(tokens, Corpus::Random.tokens(&counter, Seed(2)));
            for token in tokens.iter().take(500) {
                let text = counter.decode(&[*token]);
                assert!(!text.trim().is_empty() && !text.contains('\u{fffd}'), "{text:?}");
                assert_eq!(counter.encode(&text), [*token]);
            }
            // With n draws from v tokens, v·(1 − e^(−n/v)) are expected to be different.
            let distinct: HashSet<u32> = tokens.iter().copied().collect();
            let vocabulary = (0..counter.vocabulary_size()).filter(|it| counter.is_text(*it));
            let size = vocabulary.count() as f64;
            let expected = size * (1.0 - (-(tokens.len() as f64) / size).exp());
            assert!((distinct.len() as f64 / expected - 1.0).abs() < 0.02, "{}", distinct.len());
        }
    }
}
