//! Generated conversations.
//!
//! Every aspect draws from its own random stream. Prompts therefore stay the same if other output
//! lengths are configured.

use std::sync::Arc;

use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::lengths::{Length, Window};
use super::media::{self, Gallery, MediaMaker};
use super::prompts::PromptCutter;
use super::{Conversation, DatasetError, Seed, Synthetic, Text, Turn};
use crate::tokenizer::{TokenCounter, Wrapping};
use crate::units::Nanos;

/// Generates the conversations that `config` describes. Models, identifiers and the token counts of
/// the messages before the turns are added later, as are output lengths unless the sequence
/// distribution or ranges set them.
pub(super) fn generate(
    config: &Synthetic,
    counter: &TokenCounter,
    seed: Seed,
) -> Result<Vec<Conversation>, DatasetError> {
    let mut generator = Generator::new(config, counter, seed)?;
    let conversations = (0..config.entries).map(|_| generator.conversation());
    let mut conversations = conversations.collect::<Result<Vec<_>, _>>()?;
    media::encode(&mut conversations, config, seed)?;
    Ok(conversations)
}

struct Generator<'a> {
    config: &'a Synthetic,
    counter: &'a TokenCounter,
    cutter: PromptCutter<'a>,
    /// Tokens that the chat template adds to prompts if it counts; prompts are shorter by that
    /// number.
    wrapping: Wrapping,
    /// Ranges of the input and output length, if there are any.
    windows: Option<[Window; 2]>,
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
            windows: config.range.map(|range| range.windows(added)).transpose()?,
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
        let pair =
            self.config.sequence_distribution.as_ref().map(|all| all.draw(&mut self.lengths));
        let input_tokens =
            pair.map_or(Length::Normal(self.config.input_tokens), |pair| pair.input_tokens);
        let mut texts = Vec::with_capacity(self.config.batch_size);
        let mut tokens = 0;
        for _ in 0..self.config.batch_size {
            let length = match self.windows {
                Some([input, _]) => input.draw(&mut self.lengths),
                None => input_tokens.draw_count(&mut self.lengths),
            };
            let wrapping = if is_first { self.wrapping.first } else { self.wrapping.later };
            let length = length.saturating_sub(wrapping as u32).max(1);
            let prefix = if is_first { self.prefix() } else { None };
            let prompt = self.cutter.cut_behind(prefix.as_deref().unwrap_or_default(), length)?;
            tokens += prompt.tokens;
            texts.push(prompt.text.into());
        }
        let max_tokens = match self.windows {
            Some([_, output]) => Some(output.draw(&mut self.output_lengths)),
            None => pair.map(|pair| pair.output_tokens.draw_count(&mut self.output_lengths)),
        };
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
