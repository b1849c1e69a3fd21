//! Conversations generated from the embedded text.

use std::sync::Arc;

use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::corpus::{Corpus, Counted};
use super::seed::Seed;
use super::sequence::SequenceDistribution;
use super::{Config, Conversation, DatasetError, Spread, Synthetic, Turn};
use crate::tokenizer::TokenCounter;
use crate::units::Nanos;

/// Generates the conversations that `synthetic` describes. Each depends on the
/// seed and on its place alone.
pub(super) fn generate(
    config: &Config,
    synthetic: &Synthetic,
    counter: &TokenCounter,
    seed: Seed,
) -> Result<Vec<Conversation>, DatasetError> {
    let sequences =
        synthetic.sequence_distribution.as_deref().map(SequenceDistribution::parse).transpose()?;
    let corpus = Corpus::new(counter);
    let mut rng = seed.stream("dataset.prefix");
    let prefixes: Vec<Counted> = (0..synthetic.prefix_pool_size)
        .map(|_| corpus.prompt(synthetic.prefix_length, &mut rng))
        .collect();
    let generator = Generator {
        synthetic,
        output: config.output_tokens,
        sequences,
        prefixes,
        system: system_prompt(synthetic, &corpus, counter, seed),
        corpus,
        counter,
        seed,
    };
    Ok((0..synthetic.entries as u64).map(|index| generator.conversation(index)).collect())
}

/// The system prompt that all conversations share.
fn system_prompt(
    synthetic: &Synthetic,
    corpus: &Corpus<'_>,
    counter: &TokenCounter,
    seed: Seed,
) -> Option<Counted> {
    if let Some(text) = &synthetic.system_prompt {
        return Some(Counted { text: text.clone(), tokens: counter.count(text) });
    }
    let length = synthetic.shared_system_prompt_length?;
    Some(corpus.prompt(length, &mut seed.stream("dataset.system")))
}

struct Generator<'a> {
    synthetic: &'a Synthetic,
    output: Option<Spread>,
    sequences: Option<SequenceDistribution>,
    prefixes: Vec<Counted>,
    system: Option<Counted>,
    corpus: Corpus<'a>,
    counter: &'a TokenCounter,
    seed: Seed,
}

impl Generator<'_> {
    fn conversation(&self, index: u64) -> Conversation {
        let mut rng = self.seed.stream(&format!("dataset.conversation.{index}"));
        let turns = self.synthetic.turns.draw(&mut rng);
        let context = self.synthetic.user_context_prompt_length;
        let context = context.map(|length| self.corpus.prompt(length, &mut rng));
        let tokens = |text: &Option<Counted>| text.as_ref().map_or(0, |counted| counted.tokens);
        Conversation {
            id: self.seed.uuid("dataset.id", index).to_string().into(),
            context_tokens: Some(tokens(&self.system) + tokens(&context)),
            system: self.system.as_ref().map(|counted| counted.text.as_str().into()),
            user_context: context.map(|counted| counted.text.into()),
            turns: (0..turns).map(|turn| self.turn(turn, &mut rng)).collect(),
        }
    }

    fn turn(&self, number: u64, rng: &mut ChaCha8Rng) -> Turn {
        let (input, output) = match &self.sequences {
            Some(sequences) => {
                let (input, output) = sequences.draw(rng);
                (input, Some(output))
            }
            None => (self.synthetic.input_tokens, self.output),
        };
        let prefix = if number == 0 { self.prefixes.choose(rng) } else { None };
        let (mut texts, mut tokens) = (Vec::new(), 0);
        for _ in 0..self.synthetic.batch_size.max(1) {
            let mut counted = self.corpus.prompt(input.draw(rng) as usize, rng);
            if let Some(prefix) = prefix {
                counted.text = format!("{} {}", prefix.text, counted.text);
                counted.tokens = self.counter.count(&counted.text);
            }
            tokens += counted.tokens;
            texts.push(Arc::from(counted.text));
        }
        let delay_ms = if number == 0 { 0.0 } else { self.synthetic.turn_delay_ms.sample(rng) };
        Turn {
            texts,
            max_tokens: output.map(|output| output.draw(rng) as u32),
            delay: Nanos::from_millis(delay_ms * self.synthetic.delay_ratio),
            input_tokens: Some(tokens),
            ..Turn::default()
        }
    }
}
