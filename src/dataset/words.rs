//! A corpus as words with additive token counts.
//!
//! Tokenizers split text before a word and its space, so that the tokens of a text are the sum of
//! those of its words. Words that are counted once compose texts of an exact number of tokens
//! without the tokenizer. This is needed for traces, which have gigabytes of prompts.

use std::collections::{HashMap, HashSet};

use rand::seq::SliceRandom;

use tokens::tokenizer::TokenCounter;

use super::Seed;

/// Text before a word while it is counted; the word's space would otherwise be at the start of a
/// text.
const ANCHOR: &str = "a";

/// The words of a corpus, each with the space before it.
pub(super) struct Words {
    corpus: &'static str,
    /// Start of each word in the corpus, and the end of the last one.
    bounds: Vec<u32>,
    /// Number of tokens before each word, and in total.
    tokens: Vec<u32>,
    /// Words that may begin a text, in random order: plain words with the same number of tokens
    /// with and without their space.
    openers: Vec<u32>,
    /// The distinct words among them.
    distinct: Vec<u32>,
    /// For each opener, the place among the distinct words of the word before it, if it is one of them.
    before: Vec<Option<u32>>,
    /// A plain word for each number of tokens, if there is one.
    fillers: Vec<Option<&'static str>>,
    adds_up: bool,
}

impl Words {
    /// Counts the tokens of the words in `corpus`.
    ///
    /// # Errors
    ///
    /// Fails if the tokenizer does not have a word that a text could begin with.
    pub(super) fn new(
        corpus: &'static str,
        counter: &TokenCounter,
        seed: Seed,
    ) -> Result<Self, String> {
        let mut words = Self {
            corpus,
            bounds: bounds(corpus),
            tokens: vec![0],
            openers: Vec::new(),
            distinct: Vec::new(),
            before: Vec::new(),
            fillers: Vec::new(),
            adds_up: false,
        };
        let anchor = counter.count(ANCHOR);
        let behind_anchor = |text: &str| {
            let tokens = counter.count(&format!("{ANCHOR}{text}")).saturating_sub(anchor);
            u32::try_from(tokens).unwrap_or(u32::MAX)
        };
        let mut known: HashMap<&str, (u32, bool)> = HashMap::new();
        let mut total = 0u32;
        for index in 0..words.count() {
            let text = words.word(index);
            let (tokens, is_plain) = *known.entry(text).or_insert_with(|| {
                let tokens = behind_anchor(text);
                (tokens, is_plain(text) && counter.count(text.trim()) == u64::from(tokens))
            });
            total += tokens;
            words.tokens.push(total);
            if is_plain && tokens > 0 {
                words.openers.push(index as u32);
                words.offer_filler(text, tokens as usize);
            }
        }
        words.adds_up = behind_anchor(words.run(0, words.count())) == total;
        if words.openers.is_empty() {
            return Err(
                "the tokenizer counts no word as it does within a text, so no prompt can be \
                        made to length; use another"
                    .to_owned(),
            );
        }
        words.openers.shuffle(&mut seed.stream("dataset.words"));
        words.distinct = words.distinct_openers();
        words.before = words.words_before();
        Ok(words)
    }

    fn offer_filler(&mut self, word: &'static str, tokens: usize) {
        if self.fillers.len() <= tokens {
            self.fillers.resize(tokens + 1, None);
        }
        self.fillers[tokens].get_or_insert(word);
    }

    fn distinct_openers(&self) -> Vec<u32> {
        let mut seen = HashSet::new();
        let is_new = |word: &u32| seen.insert(self.word(*word as usize));
        self.openers.iter().copied().filter(is_new).collect()
    }

    fn words_before(&self) -> Vec<Option<u32>> {
        let distinct = self.distinct.iter().map(|word| self.word(*word as usize));
        let places: HashMap<&str, u32> = distinct.zip(0..).collect();
        let before = |place: &u32| (*place as usize).checked_sub(1).unwrap_or(self.count() - 1);
        self.openers.iter().map(|place| places.get(self.word(before(place))).copied()).collect()
    }

    /// Returns whether the tokenizer's count of a text is the sum of its words' counts.
    pub(super) const fn adds_up(&self) -> bool {
        self.adds_up
    }

    /// Appends the text of `block`, cut to `tokens`, to `pieces`; returns its number of tokens.
    /// Blocks with different numbers differ, unless they have only a few words. A shorter cut of a
    /// block has the same beginning as a longer one.
    ///
    /// The first part has a leading space. The number of tokens is as requested unless the
    /// tokenizer does not have a plain word of one token.
    pub(super) fn write(&self, block: u64, tokens: u32, pieces: &mut Vec<&'static str>) -> u32 {
        let mut left = tokens;
        let (opener, mut from) = self.place(block);
        if let Some(opener) = opener
            && self.tokens_of(opener, opener + 1) < left
        {
            pieces.push(self.word(opener));
            left -= self.tokens_of(opener, opener + 1);
        }
        while let Some(to) = self.end_of_run(from, left) {
            pieces.push(self.run(from, to));
            left -= self.tokens_of(from, to);
            // Wrap around at the end of the corpus.
            from = to % self.count();
        }
        self.fill(&mut left, pieces);
        tokens - left
    }

    /// Returns the word at which block number `block` begins. There are more blocks than words, so
    /// from the second round on the block is preceded by a word that does not precede it in the
    /// corpus, and that differs in each round.
    fn place(&self, block: u64) -> (Option<usize>, usize) {
        let places = self.openers.len() as u64;
        let at = (block % places) as usize;
        let others = self.distinct.len().saturating_sub(1).max(1) as u64;
        let opener = (block / places).checked_sub(1).and_then(|round| {
            let nth = (round % others) as usize;
            let skips = self.before[at].is_some_and(|before| nth >= before as usize);
            self.distinct.get(nth + usize::from(skips)).map(|word| *word as usize)
        });
        (opener, self.openers[at] as usize)
    }

    fn word(&self, index: usize) -> &'static str {
        self.run(index, index + 1)
    }

    /// Returns the end of the longest run of words from `from` with at most `tokens` tokens, within
    /// the corpus; `None` if not even one word fits.
    fn end_of_run(&self, from: usize, tokens: u32) -> Option<usize> {
        let most = self.tokens[from].saturating_add(tokens);
        let to = self.tokens.partition_point(|before| *before <= most) - 1;
        (to > from && self.tokens_of(from, to) > 0).then_some(to)
    }

    /// Fills the rest with plain words.
    fn fill(&self, left: &mut u32, pieces: &mut Vec<&'static str>) {
        while *left > 0 {
            let upto = self.fillers.len().min(*left as usize + 1);
            let longest = (1..upto).rev().find_map(|n| self.fillers[n].map(|word| (n, word)));
            let Some((tokens, word)) = longest else { return };
            pieces.push(word);
            *left -= tokens as u32;
        }
    }

    fn count(&self) -> usize {
        self.bounds.len() - 1
    }

    fn tokens_of(&self, from: usize, to: usize) -> u32 {
        self.tokens[to] - self.tokens[from]
    }

    fn run(&self, from: usize, to: usize) -> &'static str {
        &self.corpus[self.bounds[from] as usize..self.bounds[to] as usize]
    }
}

/// Returns where the words begin, including the space before them, and the end of the text. Text
/// before the first space is left out. Line feeds do not separate words, since some tokenizers
/// combine them with a preceding full stop.
fn bounds(text: &str) -> Vec<u32> {
    let text = text.trim_end();
    let spaces = memchr::memchr_iter(b' ', text.as_bytes());
    spaces.chain([text.len()]).map(|at| at as u32).collect()
}

fn is_plain(word: &str) -> bool {
    word.trim_start().bytes().all(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::PathBuf;
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use base::environment::Environment;
    use tokens::tokenizer::Source;

    use super::*;
    use crate::Corpus;

    fn prose() -> &'static str {
        Corpus::Prose.text().unwrap()
    }

    fn golden_counter() -> TokenCounter {
        let path = PathBuf::from("../../tests/golden/tiny-model");
        TokenCounter::load(&Source::Path(path), Environment::new(&|_| None)).unwrap()
    }

    static GOLDEN: LazyLock<(TokenCounter, Words)> = LazyLock::new(|| {
        let counter = golden_counter();
        let words = Words::new(prose(), &counter, Seed(9)).unwrap();
        (counter, words)
    });
    static BUILTIN: LazyLock<Words> =
        LazyLock::new(|| Words::new(prose(), &TokenCounter::builtin(), Seed(9)).unwrap());

    fn text(words: &Words, block: u64, tokens: u32) -> String {
        let mut pieces = Vec::new();
        assert_eq!(words.write(block, tokens, &mut pieces), tokens);
        pieces.concat().trim_start().to_owned()
    }

    #[test]
    fn texts_have_exactly_the_tokens_asked_for() {
        for corpus in [Corpus::Prose, Corpus::Sonnet, Corpus::Coding] {
            for counter in [TokenCounter::builtin(), golden_counter()] {
                let words = Words::new(corpus.text().unwrap(), &counter, Seed(5)).unwrap();
                assert!(words.adds_up(), "{corpus:?}");
                for tokens in 1..=600 {
                    let text = text(&words, u64::from(tokens), tokens);
                    assert_eq!(counter.count(&text), u64::from(tokens), "{text:?}");
                    assert_eq!(text.trim(), text);
                }
            }
        }
    }

    #[test]
    fn texts_longer_than_the_corpus_are_exact_too() {
        let counter = TokenCounter::builtin();
        let words = Words::new(prose(), &counter, Seed(5)).unwrap();
        assert_eq!(counter.count(&text(&words, 7, 100_000)), 100_000);
    }

    #[test]
    fn blocks_differ() {
        let texts: HashSet<String> = (0..200_000).map(|block| text(&BUILTIN, block, 48)).collect();
        assert_eq!(texts.len(), 200_000);
    }

    #[test]
    fn a_word_that_begins_a_text_is_counted_like_any_other() {
        for counter in [TokenCounter::builtin(), golden_counter()] {
            let words = Words::new(prose(), &counter, Seed(5)).unwrap();
            for index in words.openers.iter().take(2000).map(|word| *word as usize) {
                let word = words.word(index);
                let tokens = u64::from(words.tokens_of(index, index + 1));
                assert_eq!(counter.count(word.trim()), tokens, "{word}");
            }
        }
    }

    proptest! {
        #[test]
        fn blocks_add_up(blocks in prop::collection::vec((0u64..300_000, 1u32..700), 1..6)) {
            let (counter, words) = &*GOLDEN;
            let mut pieces = Vec::new();
            let tokens: u32 =
                blocks.iter().map(|(block, tokens)| words.write(*block, *tokens, &mut pieces)).sum();
            prop_assert_eq!(counter.count(pieces.concat().trim_start()), u64::from(tokens));
            prop_assert_eq!(tokens, blocks.iter().map(|(_, tokens)| tokens).sum::<u32>());
        }

        #[test]
        fn a_shorter_block_begins_like_the_longer(block in 0u64..300_000, tokens in 40u32..512) {
            let words = &*BUILTIN;
            let (short, long) = (text(words, block, tokens), text(words, block, 512));
            let same = short.bytes().zip(long.bytes()).take_while(|(a, b)| a == b).count();
            // Except for what fills up the cut, which has fewer tokens than a word may have.
            prop_assert!(same + 40 >= short.len(), "{short:?} {long:?}");
        }
    }
}
