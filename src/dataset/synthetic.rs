//! Generated conversations.
//!
//! Every conversation has its own seed, and every aspect of it its own random stream. A conversation
//! therefore does not depend on how many others there are, and prompts stay the same if other output
//! lengths are configured.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use base::units::Nanos;
use tokens::tokenizer::{TokenCounter, Wrapping};

use super::lengths::{Correlated, Length, Window};
use super::media::{Gallery, MediaMaker};
use super::prompts::PromptCutter;
use super::{
    Conversation, DatasetError, Media, RecordedLengths, Seed, SequenceDistribution, Synthetic,
    Text, Turn,
};

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

/// Makes conversations. Models, identifiers and the token counts of the messages before the turns are added
/// later, as are output lengths unless the sequence distribution, recorded lengths or ranges set them, or they
/// are correlated with the input lengths.
#[derive(Debug)]
pub(super) struct Generator {
    config: Synthetic,
    /// The distribution of output lengths.
    output_tokens: Option<Length>,
    cutter: PromptCutter,
    /// Tokens that the chat template adds to prompts if it counts; prompts are shorter by that
    /// number.
    wrapping: Wrapping,
    /// Tokens that the tokenizer adds to each prompt.
    added: u32,
    system: Option<Arc<str>>,
    prefixes: Vec<Arc<str>>,
    pictures: Option<Gallery>,
}

impl Generator {
    /// Prepares the conversations that `config` describes. System prompt and prefixes follow from the seed
    /// `shared`.
    pub(super) fn new(
        config: &Synthetic,
        output_tokens: Option<&Length>,
        counter: &TokenCounter,
        (seed, shared): (Seed, Seed),
    ) -> Result<Self, DatasetError> {
        let cutter = PromptCutter::new(config.corpus, counter, shared);
        let mut rng = shared.stream("dataset.prefixes");
        let mut cut = |length: usize| cutter.cut(counter, &mut rng, length as u32);
        let system = match (&config.system_prompt, config.shared_system_prompt_length) {
            (Some(text), _) => Some(Arc::from(text.as_str())),
            (None, Some(length)) => Some(cut(length)?),
            (None, None) => None,
        };
        let prefixes = (0..config.prefix_pool_size)
            .map(|_| cut(config.prefix_length))
            .collect::<Result<_, _>>()?;
        // A chat template contains the tokens that the tokenizer would otherwise add.
        // To token IDs, the server adds none.
        let has_all_tokens = counter.has_chat_template() || config.sends_token_ids;
        let added = if has_all_tokens { 0 } else { counter.added_tokens() };
        Lengths::new(config, output_tokens, added)?;
        Ok(Self {
            config: config.clone(),
            output_tokens: output_tokens.cloned(),
            cutter,
            wrapping: counter.wrapping(),
            added,
            system,
            prefixes,
            pictures: config.pictures.as_ref().map(|it| Gallery::open(it, seed)).transpose()?,
        })
    }

    /// Returns the settings.
    pub(super) const fn config(&self) -> &Synthetic {
        &self.config
    }

    /// Warns of texts that do not have their length.
    pub(super) fn warn(&self) {
        self.cutter.warn();
    }

    /// Makes the conversation of which `seed` is the seed and whose first turn has the number `first_turn`. Its
    /// turns get the media of `borrowed` ones, if there are any, instead of their own, whose bytes are added to
    /// `media_bytes`.
    pub(super) fn conversation(
        &self,
        (first_turn, seed): (u64, Seed),
        counter: &TokenCounter,
        (borrowed, media_bytes): (&[Vec<Media>], &AtomicU64),
    ) -> Result<Conversation, DatasetError> {
        Draft {
            source: Lengths::new(&self.config, self.output_tokens.as_ref(), self.added)?,
            prompts: seed.stream("dataset.prompts"),
            turns: seed.stream("dataset.turns"),
            lengths: seed.stream("dataset.input_tokens"),
            output_lengths: seed.stream("dataset.sequence_output_tokens"),
            delays: seed.stream("dataset.turn_delay"),
            prefix_choice: seed.stream("dataset.prefix"),
            media: MediaMaker::new(
                self.config.images.as_ref(),
                self.config.audio.as_ref(),
                seed,
                media_bytes,
            ),
            of: self,
            counter,
            borrowed,
            first_turn,
        }
        .conversation()
    }
}

/// A conversation that is being made.
struct Draft<'a> {
    of: &'a Generator,
    counter: &'a TokenCounter,
    source: Lengths<'a>,
    first_turn: u64,
    prompts: ChaCha8Rng,
    turns: ChaCha8Rng,
    lengths: ChaCha8Rng,
    output_lengths: ChaCha8Rng,
    delays: ChaCha8Rng,
    prefix_choice: ChaCha8Rng,
    media: MediaMaker<'a>,
    borrowed: &'a [Vec<Media>],
}

impl Draft<'_> {
    fn conversation(&mut self) -> Result<Conversation, DatasetError> {
        let config = &self.of.config;
        let user_context = match config.user_context_prompt_length {
            Some(length) => {
                Some(self.of.cutter.cut(self.counter, &mut self.prompts, length as u32)?)
            }
            None => None,
        };
        let turns = config.turns.draw_count(&mut self.turns);
        let mut conversation = Conversation {
            system: self.of.system.clone(),
            user_context,
            turns: (0..turns).map(|index| self.turn(index)).collect::<Result<_, _>>()?,
            ..Conversation::default()
        };
        if config.sends_token_ids {
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

    fn turn(&mut self, index: u32) -> Result<Turn, DatasetError> {
        let is_first = index == 0;
        let Generator { config, wrapping, cutter, .. } = self.of;
        let (lengths, max_tokens) =
            self.source.draw(config.batch_size, &mut self.lengths, &mut self.output_lengths);
        let mut texts = Vec::with_capacity(config.batch_size);
        let mut tokens = 0;
        for length in lengths {
            let wrapping = if is_first { wrapping.first } else { wrapping.later };
            let length = length.saturating_sub(wrapping as u32).max(1);
            let prefix = if is_first { self.prefix() } else { None };
            let prefix = prefix.as_deref().unwrap_or_default();
            let prompt = cutter.cut_behind(self.counter, &mut self.prompts, prefix, length)?;
            tokens += prompt.tokens;
            texts.push(prompt.text.into());
        }
        let delay = if is_first { Nanos::ZERO } else { self.delay() };
        let media = self.media(self.first_turn.wrapping_add(u64::from(index)))?;
        Ok(Turn { texts, media, max_tokens, delay, input_tokens: Some(tokens), ..Turn::default() })
    }

    /// Returns the media of the turn with this number.
    fn media(&mut self, number: u64) -> Result<Vec<Media>, DatasetError> {
        if !self.borrowed.is_empty() {
            let at = number % self.borrowed.len() as u64;
            return Ok(self.borrowed[at as usize].clone());
        }
        let pictures = self.of.pictures.as_ref();
        let mut media = pictures.map(|gallery| gallery.draw(number)).unwrap_or_default();
        media.extend(self.media.media()?);
        Ok(media)
    }

    /// Draws a prefix from the pool; `None` without a pool.
    fn prefix(&mut self) -> Option<Arc<str>> {
        self.of.prefixes.choose(&mut self.prefix_choice).cloned()
    }

    fn delay(&mut self) -> Nanos {
        Nanos::from_millis(self.of.config.turn_delay_ms.draw(&mut self.delays))
    }
}
