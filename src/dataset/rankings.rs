//! Generated rankings: a query and passages to rank.

use tokens::tokenizer::TokenCounter;

use super::prompts::{Prompt, PromptCutter};
use super::{Conversation, DatasetError, Rankings, Seed, Text, Turn};

/// Makes conversations of one turn each, whose texts are named `query` and `passages`.
#[derive(Debug)]
pub(super) struct Generator {
    config: Rankings,
    cutter: PromptCutter,
}

impl Generator {
    /// Prepares the conversations that `config` describes; tokens of a random corpus follow from the seed
    /// `shared`.
    pub(super) fn new(config: Rankings, counter: &TokenCounter, shared: Seed) -> Self {
        Self { config, cutter: PromptCutter::new(config.corpus, counter, shared) }
    }

    /// Warns of texts that do not have their length.
    pub(super) fn warn(&self) {
        self.cutter.warn();
    }

    /// Makes the conversation of which `seed` is the seed.
    pub(super) fn conversation(
        &self,
        seed: Seed,
        counter: &TokenCounter,
    ) -> Result<Conversation, DatasetError> {
        let Rankings { passages, passage_tokens, query_tokens, .. } = self.config;
        let mut prompts = seed.stream("dataset.prompts");
        let mut passage_lengths = seed.stream("dataset.rankings.passage_tokens");
        let mut tokens = 0;
        let mut text = |name: &str, length: u32| -> Result<Text, DatasetError> {
            let Prompt { text, tokens: own } =
                self.cutter.cut_behind(counter, &mut prompts, "", length)?;
            tokens += own;
            Ok(Text::from(text).named(name))
        };
        let length = query_tokens.draw_count(&mut seed.stream("dataset.rankings.query_tokens"));
        let mut texts = vec![text("query", length)?];
        for _ in 0..passages.draw_count(&mut seed.stream("dataset.rankings.passages")) {
            texts.push(text("passages", passage_tokens.draw_count(&mut passage_lengths))?);
        }
        let turn = Turn { texts, input_tokens: Some(tokens), ..Turn::default() };
        Ok(Conversation { turns: vec![turn], ..Conversation::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Corpus, NormalDistribution};

    #[test]
    fn a_query_and_passages_of_the_lengths_asked_for() {
        let counter = TokenCounter::builtin();
        let spread = |mean| NormalDistribution { mean, stddev: 0.0 };
        let config = Rankings {
            entries: 2,
            passages: spread(3.0),
            passage_tokens: spread(20.0),
            query_tokens: spread(7.0),
            corpus: Corpus::Prose,
        };
        let generator = Generator::new(config, &counter, Seed(3));
        for seed in [1, 2] {
            let ranking = generator.conversation(Seed(seed), &counter).unwrap();
            let [turn] = &ranking.turns[..] else { panic!("{ranking:?}") };
            let names: Vec<_> = turn.texts.iter().map(|text| text.name().unwrap()).collect();
            assert_eq!(names, ["query", "passages", "passages", "passages"]);
            let lengths: Vec<u64> =
                turn.texts.iter().map(|text| counter.count(&text.to_string())).collect();
            assert_eq!(lengths, [7, 20, 20, 20]);
            assert_eq!(turn.input_tokens, Some(67));
        }
    }

    #[test]
    fn the_number_of_passages_varies() {
        let config = Rankings {
            entries: 40,
            passages: NormalDistribution { mean: 5.0, stddev: 2.0 },
            passage_tokens: NormalDistribution { mean: 1.0, stddev: 0.0 },
            query_tokens: NormalDistribution { mean: 1.0, stddev: 0.0 },
            corpus: Corpus::Prose,
        };
        let counter = TokenCounter::builtin();
        let generator = Generator::new(config, &counter, Seed(3));
        let passages =
            |seed| generator.conversation(Seed(seed), &counter).unwrap().turns[0].texts.len() - 1;
        let counts: Vec<usize> = (0..40).map(passages).collect();
        assert!(counts.iter().any(|count| *count != 5), "{counts:?}");
        assert!(counts.iter().all(|count| (1..20).contains(count)), "{counts:?}");
    }
}
