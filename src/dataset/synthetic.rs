//! Generated conversations.
//!
//! Every aspect draws from its own random stream. Prompts therefore stay the same if other output
//! lengths are configured.

use std::sync::Arc;

use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::lengths::{Correlated, Length, Window};
use super::media::{self, Gallery, MediaMaker};
use super::prompts::PromptCutter;
use super::{
    Conversation, DatasetError, RecordedLengths, Seed, SequenceDistribution, Synthetic, Text, Turn,
};
use crate::tokenizer::{TokenCounter, Wrapping};
use crate::units::Nanos;

/// Generates the conversations that `config` describes. Models, identifiers and the token counts of
/// the messages before the turns are added later, as are output lengths unless the sequence
/// distribution, recorded lengths or ranges set them, or they
/// are correlated with the input lengths: `output_tokens` are their distribution.
pub(super) fn generate(
    config: &Synthetic,
    output_tokens: Option<&Length>,
    counter: &TokenCounter,
    seed: Seed,
) -> Result<Vec<Conversation>, DatasetError> {
    let mut generator = Generator::new(config, output_tokens, counter, seed)?;
    let conversations = (0..config.entries).map(|_| generator.conversation());
    let mut conversations = conversations.collect::<Result<Vec<_>, _>>()?;
    generator.cutter.warn();
    media::encode(&mut conversations, config, seed)?;
    Ok(conversations)
}

/// Where the lengths of a turn come from.
enum Lengths<'a> {
    /// One distribution of input lengths. Output lengths are independent of them.
    Input(&'a Length),
    Correlated(Correlated<'a>),
    Pairs(&'a SequenceDistribution),
    Recorded(&'a RecordedLengths),
    /// Ranges of the input and the output length.
    Ranges([Window; 2]),
}

impl<'a> Lengths<'a> {
    /// Returns the source that `config` selects; `added` are the tokens that the tokenizer adds to
    /// each prompt.
    fn new(
        config: &'a Synthetic,
        output_tokens: Option<&'a Length>,
        added: u32,
    ) -> Result<Self, DatasetError> {
        let input = &config.input_tokens;
        Ok(if let Some(range) = config.range {
            Self::Ranges(range.windows(added)?)
        } else if let Some(recorded) = config.recorded_lengths.as_deref() {
            Self::Recorded(recorded)
        } else if let Some(pairs) = &config.sequence_distribution {
            Self::Pairs(pairs)
        } else if let (Some(rank), Some(output)) = (config.length_correlation, output_tokens) {
            Self::Correlated(Correlated::new(input, output, rank))
        } else {
            Self::Input(input)
        })
    }

    /// Draws the input lengths of `texts` texts from `inputs`, and the output length from `outputs`
    /// if it does not belong to an input length; `None` if it is drawn independently of them.
    fn draw(
        &self,
        texts: usize,
        inputs: &mut ChaCha8Rng,
        outputs: &mut ChaCha8Rng,
    ) -> (Vec<u32>, Option<u32>) {
        match self {
            Self::Input(length) => ((0..texts).map(|_| length.draw_count(inputs)).collect(), None),
            Self::Correlated(both) => {
                let [input, output] = both.draw(inputs);
                (vec![input; texts], Some(output))
            }
            Self::Pairs(all) => {
                let pair = all.draw(inputs);
                let lengths = (0..texts).map(|_| pair.input_tokens.draw_count(inputs)).collect();
                (lengths, Some(pair.output_tokens.draw_count(outputs)))
            }
            Self::Recorded(all) => {
                let (input, output) = all.draw(inputs);
                (vec![input; texts], output)
            }
            Self::Ranges([input, output]) => {
                let lengths = (0..texts).map(|_| input.draw(inputs)).collect();
                (lengths, Some(output.draw(outputs)))
            }
        }
    }
}

struct Generator<'a> {
    config: &'a Synthetic,
    counter: &'a TokenCounter,
    cutter: PromptCutter<'a>,
    /// Tokens that the chat template adds to prompts if it counts; prompts are shorter by that
    /// number.
    wrapping: Wrapping,
    source: Lengths<'a>,
    system: Option<Arc<str>>,
    prefixes: Vec<Arc<str>>,
    turns: ChaCha8Rng,
    lengths: ChaCha8Rng,
    output_lengths: ChaCha8Rng,
    delays: ChaCha8Rng,
    prefix_choice: ChaCha8Rng,
    pictures: Option<Gallery>,
    media: MediaMaker,
}

impl<'a> Generator<'a> {
    fn new(
        config: &'a Synthetic,
        output_tokens: Option<&'a Length>,
        counter: &'a TokenCounter,
        seed: Seed,
    ) -> Result<Self, DatasetError> {
        let mut cutter = PromptCutter::new(config.corpus, counter, seed);
        let system = match (&config.system_prompt, config.shared_system_prompt_length) {
            (Some(text), _) => Some(Arc::from(text.as_str())),
            (None, Some(length)) => Some(cutter.cut(length as u32)?),
            (None, None) => None,
        };
        let prefixes = (0..config.prefix_pool_size)
            .map(|_| cutter.cut(config.prefix_length as u32))
            .collect::<Result<_, _>>()?;
        // A chat template contains the tokens that the tokenizer would otherwise add.
        // To token IDs, the server adds none.
        let has_all_tokens = counter.has_chat_template() || config.sends_token_ids;
        let added = if has_all_tokens { 0 } else { counter.added_tokens() };
        Ok(Self {
            config,
            counter,
            cutter,
            wrapping: counter.wrapping(),
            source: Lengths::new(config, output_tokens, added)?,
            system,
            prefixes,
            turns: seed.stream("dataset.turns"),
            lengths: seed.stream("dataset.input_tokens"),
            output_lengths: seed.stream("dataset.sequence_output_tokens"),
            delays: seed.stream("dataset.turn_delay"),
            prefix_choice: seed.stream("dataset.prefix"),
            pictures: config.pictures.as_ref().map(|it| Gallery::open(it, seed)).transpose()?,
            media: MediaMaker::new(config.images.as_ref(), config.audio.as_ref(), seed),
        })
    }

    fn conversation(&mut self) -> Result<Conversation, DatasetError> {
        let user_context = match self.config.user_context_prompt_length {
            Some(length) => Some(self.cutter.cut(length as u32)?),
            None => None,
        };
        let turns = self.config.turns.draw_count(&mut self.turns);
        let mut conversation = Conversation {
            system: self.system.clone(),
            user_context,
            turns: (0..turns).map(|index| self.turn(index == 0)).collect::<Result<_, _>>()?,
            ..Conversation::default()
        };
        if self.config.sends_token_ids {
            self.add_token_ids(&mut conversation);
        }
        Ok(conversation)
    }

    /// Gives each turn the token IDs of its prompts: those of the system message, of the context and
    /// of the text, so that a prompt has as many as they have together.
    fn add_token_ids(&self, conversation: &mut Conversation) {
        let Conversation { system, user_context, turns, .. } = conversation;
        let lead = [system, user_context].into_iter().flatten();
        let lead: Vec<u32> = lead.flat_map(|text| self.counter.encode(text)).collect();
        for turn in turns {
            let of_prompt = |text: &Text| {
                lead.iter().copied().chain(self.counter.encode(&text.to_string())).collect()
            };
            turn.token_ids = turn.texts.iter().map(of_prompt).collect();
        }
    }

    fn turn(&mut self, is_first: bool) -> Result<Turn, DatasetError> {
        let texts_of_turn = self.config.batch_size;
        let (lengths, max_tokens) =
            self.source.draw(texts_of_turn, &mut self.lengths, &mut self.output_lengths);
        let mut texts = Vec::with_capacity(self.config.batch_size);
        let mut tokens = 0;
        for length in lengths {
            let wrapping = if is_first { self.wrapping.first } else { self.wrapping.later };
            let length = length.saturating_sub(wrapping as u32).max(1);
            let prefix = if is_first { self.prefix() } else { None };
            let prompt = self.cutter.cut_behind(prefix.as_deref().unwrap_or_default(), length)?;
            tokens += prompt.tokens;
            texts.push(prompt.text.into());
        }
        let delay = if is_first { Nanos::ZERO } else { self.delay() };
        let mut media = self.pictures.as_mut().map(Gallery::draw).unwrap_or_default();
        media.extend(self.media.media()?);
        Ok(Turn { texts, media, max_tokens, delay, input_tokens: Some(tokens), ..Turn::default() })
    }

    /// Draws a prefix from the pool; `None` without a pool.
    fn prefix(&mut self) -> Option<Arc<str>> {
        self.prefixes.choose(&mut self.prefix_choice).cloned()
    }

    fn delay(&mut self) -> Nanos {
        Nanos::from_millis(self.config.turn_delay_ms.draw(&mut self.delays))
    }
}
