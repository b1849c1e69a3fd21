//! Generated rankings: a query and passages to rank.

use super::prompts::{Prompt, PromptCutter};
use super::{Conversation, DatasetError, Rankings, Seed, Text, Turn};
use crate::tokenizer::TokenCounter;

/// Generates conversations of one turn each, whose texts are named `query` and `passages`.
pub(super) fn generate(
    config: &Rankings,
    counter: &TokenCounter,
    seed: Seed,
) -> Result<Vec<Conversation>, DatasetError> {
    let Rankings { entries, passages, passage_tokens, query_tokens, corpus } = config;
    let mut cutter = PromptCutter::new(*corpus, counter, seed);
    let mut counts = seed.stream("dataset.rankings.passages");
    let mut passage_lengths = seed.stream("dataset.rankings.passage_tokens");
    let mut query_lengths = seed.stream("dataset.rankings.query_tokens");
    let mut ranking = || {
        let mut tokens = 0;
        let mut text = |name: &str, prompt: Prompt| {
            tokens += prompt.tokens;
            Text::from(prompt.text).named(name)
        };
        let query = cutter.cut_behind("", query_tokens.draw_count(&mut query_lengths))?;
        let mut texts = vec![text("query", query)];
        for _ in 0..passages.draw_count(&mut counts) {
            let length = passage_tokens.draw_count(&mut passage_lengths);
            texts.push(text("passages", cutter.cut_behind("", length)?));
        }
        let turn = Turn { texts, input_tokens: Some(tokens), ..Turn::default() };
        Ok(Conversation { turns: vec![turn], ..Conversation::default() })
    };
    let rankings = (0..*entries).map(|_| ranking()).collect();
    cutter.warn();
    rankings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{Corpus, NormalDistribution};

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
        let rankings = generate(&config, &counter, Seed(3)).unwrap();
        assert_eq!(rankings.len(), 2);
        for ranking in rankings {
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
        let rankings = generate(&config, &TokenCounter::builtin(), Seed(3)).unwrap();
        let counts: Vec<usize> =
            rankings.iter().map(|ranking| ranking.turns[0].texts.len() - 1).collect();
        assert!(counts.iter().any(|count| *count != 5), "{counts:?}");
        assert!(counts.iter().all(|count| (1..20).contains(count)), "{counts:?}");
    }
}
