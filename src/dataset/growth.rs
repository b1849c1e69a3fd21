//! Generated conversations by their numbers, before the run and while it goes on.
//!
//! The conversation with number n of a part follows from the settings, the seed, the part and n alone. It can
//! be made in any order, by any process and again later.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use base::lock::Lock;
use base::parallel;
use tokens::tokenizer::TokenCounter;

use super::{
    Config, Conversation, DatasetError, Media, Part, Rankings, Sampler, Seed, Source, Synthetic,
    finish, media, rankings, synthetic,
};

/// The seeds of a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seeds {
    /// The seed of its conversations.
    pub(super) own: Seed,
    /// The seed of what the runs of a command share: system prompts and prefixes.
    pub(super) shared: Seed,
}

impl Seeds {
    /// Returns the seeds for the purpose `name`.
    pub(super) fn derive(self, name: &str) -> Self {
        Self { own: self.own.derive(name), shared: self.shared.derive(name) }
    }
}

/// Makes the conversations of a part.
#[derive(Debug)]
pub(super) struct Maker {
    kind: PartGenerator,
    /// The settings that all parts have in common.
    config: Config,
    /// The part, of which its output lengths and its delays matter.
    part: Part,
    seed: Seed,
    tokenizes_input: bool,
    /// A system message with its tokens, which conversations may share.
    system: Lock<Option<(Arc<str>, u64)>>,
    /// Media of turns that were made before the run, if they take ffmpeg to make. Later turns have the same.
    borrowed: Vec<Vec<Media>>,
}

#[derive(Debug)]
enum PartGenerator {
    Synthetic(Box<synthetic::Generator>),
    Rankings(rankings::Generator),
}

impl Maker {
    /// Prepares the conversations of `part`; `None` if they are read.
    pub(super) fn new(
        part: &Part,
        config: &Config,
        counter: &TokenCounter,
        tokenizes_input: bool,
        seeds: Seeds,
    ) -> Result<Option<Self>, DatasetError> {
        let kind = match &part.source {
            Source::Synthetic(own) => {
                let output_tokens = part.output_tokens.as_ref();
                let seeds = (seeds.own, seeds.shared);
                let generator = synthetic::Generator::new(own, output_tokens, counter, seeds)?;
                PartGenerator::Synthetic(Box::new(generator))
            }
            Source::Rankings(own) => {
                PartGenerator::Rankings(rankings::Generator::new(*own, counter, seeds.shared))
            }
            Source::File { .. } | Source::Hub(_) => return Ok(None),
        };
        Ok(Some(Self {
            kind,
            config: Config { parts: Vec::new(), ..config.clone() },
            part: part.clone(),
            seed: seeds.own,
            tokenizes_input,
            system: Lock::default(),
            borrowed: Vec::new(),
        }))
    }

    /// Makes the conversations that exist before the run, on all cores.
    pub(super) fn first(
        &mut self,
        counter: &TokenCounter,
    ) -> Result<Vec<Conversation>, DatasetError> {
        let bytes = AtomicU64::new(0);
        let one = |number: usize| self.make(number as u64, counter, &bytes);
        let made = parallel::in_order(parallel::threads(), self.part.source.entries(), one);
        let mut made = made.into_iter().collect::<Result<Vec<_>, _>>()?;
        match &self.kind {
            PartGenerator::Synthetic(generator) => {
                generator.warn();
                media::encode(&mut made, generator.config(), self.seed)?;
                if generator.config().needs_encoder() {
                    let turns = made.iter().flat_map(|conversation| &conversation.turns);
                    self.borrowed = turns.map(|turn| turn.media.clone()).collect();
                }
            }
            PartGenerator::Rankings(generator) => generator.warn(),
        }
        Ok(made)
    }

    /// Makes the conversation with this number, from 0; it lacks its identifier.
    fn make(
        &self,
        number: u64,
        counter: &TokenCounter,
        media_bytes: &AtomicU64,
    ) -> Result<Conversation, DatasetError> {
        let seed = Seed(self.seed.derive("dataset.conversation").number(number));
        let first_turn = number.wrapping_mul(self.turns());
        let mut conversation = match &self.kind {
            PartGenerator::Synthetic(generator) => {
                let place = (first_turn, seed);
                generator.conversation(place, counter, (&self.borrowed, media_bytes))?
            }
            PartGenerator::Rankings(generator) => generator.conversation(seed, counter)?,
        };
        let own = std::slice::from_mut(&mut conversation);
        finish::assign_models(own, &self.config, seed, first_turn);
        finish::fill_output_tokens(own, self.part.output_tokens.as_ref(), seed);
        finish::scale_delays(own, self.part.delay_ratio);
        if self.tokenizes_input {
            let mut system = self.system.lock().clone();
            finish::count_tokens(own, counter, &mut system);
            *self.system.lock() = system;
        } else {
            finish::forget_tokens(own);
        }
        Ok(conversation)
    }

    /// Returns the usual number of turns of a conversation, so that models take turns.
    fn turns(&self) -> u64 {
        match &self.kind {
            PartGenerator::Synthetic(generator) => {
                generator.config().turns.mean.round().max(1.0) as u64
            }
            PartGenerator::Rankings(_) => 1,
        }
    }
}

impl Source {
    /// Returns the number of conversations that are generated before the run; 0 if they are read.
    pub const fn entries(&self) -> usize {
        match self {
            Self::Synthetic(Synthetic { entries, .. })
            | Self::Rankings(Rankings { entries, .. }) => *entries,
            Self::File { .. } | Self::Hub(_) => 0,
        }
    }
}

/// The conversations of a part, or of a tenant in it, that are numbered together.
pub(super) struct Stream {
    pub(super) maker: Maker,
    /// Index of the part.
    pub(super) part: usize,
    /// Index of the tenant, if tenants have conversations of their own.
    pub(super) tenant: Option<usize>,
    /// Number of conversations that exist before the run.
    pub(super) first: u64,
    /// How conversations are changed after they were made.
    pub(super) change: Option<Change>,
}

/// A conversation that was made while the run went on. Two are equal if they are the same one in memory.
#[derive(Debug, Clone)]
pub struct Grown(Arc<Conversation>);

impl From<Conversation> for Grown {
    fn from(conversation: Conversation) -> Self {
        Self(Arc::new(conversation))
    }
}

impl Deref for Grown {
    type Target = Conversation;

    fn deref(&self) -> &Conversation {
        &self.0
    }
}

impl PartialEq for Grown {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Grown {}

/// A change of a conversation.
pub(super) type Change = Arc<dyn Fn(&mut Conversation) + Send + Sync>;

/// Makes conversations beyond those that exist before the run. Their indices follow those of the dataset, the
/// streams in turn.
#[derive(Default)]
pub struct Growth {
    streams: Vec<Stream>,
    /// Number of conversations of the dataset.
    first: usize,
    /// Number of these that do not count in the identifiers, since they are canaries.
    skipped: usize,
    /// Index after that of the last conversation that was sent.
    end: AtomicUsize,
    counter: Lock<Option<Arc<TokenCounter>>>,
}

impl fmt::Debug for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Growth")
            .field("streams", &self.streams.len())
            .field("first", &self.first)
            .finish_non_exhaustive()
    }
}

impl Growth {
    /// Creates the growth of one part; `None` if it does not grow.
    pub(super) fn from_streams(streams: Vec<Stream>) -> Option<Self> {
        let first = streams.iter().map(|stream| stream.first as usize).sum();
        (!streams.is_empty()).then(|| Self { streams, first, ..Self::default() })
    }

    /// Adds the streams of another part.
    pub(super) fn add(&mut self, other: Self) {
        self.streams.extend(other.streams);
    }

    /// Sets the number of conversations of the dataset.
    pub(super) const fn begins_at(&mut self, first: usize) {
        self.first = first;
    }

    /// Takes note of conversations of the dataset that were added and do not count in identifiers.
    pub(super) const fn skip(&mut self, count: usize) {
        self.first += count;
        self.skipped += count;
    }

    /// Has each conversation changed after it was made.
    pub(super) fn changed_by(&mut self, change: &Change) {
        self.streams.iter_mut().for_each(|stream| stream.change = Some(Arc::clone(change)));
    }

    /// Lets conversations be made, whose tokens `counter` counts.
    pub fn begin(&self, counter: Arc<TokenCounter>) {
        self.end.store(0, Relaxed);
        *self.counter.lock() = Some(counter);
    }

    /// Frees the memory of the tokenizer; no conversation is made any more.
    pub fn end(&self) {
        *self.counter.lock() = None;
    }

    /// Returns the number of streams.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Returns the index of the first conversation.
    pub const fn first(&self) -> usize {
        self.first
    }

    /// Returns the index of the first conversation of a stream that the process `index` of `count` sends.
    pub fn first_of(&self, stream: usize, (index, count): (u64, u64)) -> usize {
        let first = self.streams.get(stream).map_or(0, |stream| stream.first);
        let own = (index + count - first % count) % count;
        self.first + stream + own as usize * self.streams.len()
    }

    /// Takes note that the conversation with this index is sent.
    pub fn note(&self, index: usize) {
        self.end.fetch_max(index.saturating_add(1), Relaxed);
    }

    /// Returns the index after that of the last conversation that was sent.
    pub fn end_of_sent(&self) -> usize {
        self.end.load(Relaxed)
    }

    /// Returns whether its conversations may have several turns.
    pub fn has_several_turns(&self) -> bool {
        let several = |stream: &Stream| match &stream.maker.kind {
            PartGenerator::Synthetic(generator) => {
                let turns = generator.config().turns;
                turns.stddev > 0.0 || turns.mean >= 1.5
            }
            PartGenerator::Rankings(_) => false,
        };
        self.streams.iter().any(several)
    }

    /// Returns the sampler that goes on after `sampler`, which draws the conversations of a part or of a
    /// tenant that exist before the run.
    pub(super) fn sampler(&self, sampler: Sampler, part: usize, tenant: Option<usize>) -> Sampler {
        let is_wanted = |stream: &Stream| stream.part == part && stream.tenant == tenant;
        match self.streams.iter().position(is_wanted) {
            Some(stream) => sampler.growing(self.first + stream, self.streams.len()),
            None => sampler,
        }
    }

    /// Makes the conversation with this index; `None` if there is no such one, or if it cannot be made.
    pub fn make(&self, index: usize) -> Option<Conversation> {
        let beyond = index.checked_sub(self.first)?;
        let stream = self.streams.get(beyond % self.streams.len().max(1))?;
        let number = stream.first + (beyond / self.streams.len()) as u64;
        let counter = self.counter.lock().clone()?;
        let made = stream.maker.make(number, &counter, &AtomicU64::new(0));
        let mut made = made
            .inspect_err(|error| tracing::warn!("cannot generate conversation {number}: {error}"))
            .ok()?;
        made.id = finish::conversation_id(index - self.skipped).into();
        if let Some(change) = &stream.change {
            change(&mut made);
        }
        Some(made)
    }
}

#[cfg(test)]
mod tests {
    use base::environment::Environment;
    use tokens::hub::Hub;

    use super::*;
    use crate::{Corpus, Dataset, Length, ModelSelection, NormalDistribution};

    fn load(entries: usize, grows: bool, seed: u64, shared: Option<u64>) -> Dataset {
        let normal = |mean, stddev| NormalDistribution { mean, stddev };
        let synthetic = Synthetic {
            entries,
            input_tokens: Length::Normal(normal(30.0, 5.0)),
            length_correlation: None,
            recorded_lengths: None,
            sequence_distribution: None,
            range: None,
            corpus: Corpus::Prose,
            batch_size: 1,
            sends_token_ids: false,
            turns: normal(2.0, 1.0),
            turn_delay_ms: normal(50.0, 10.0),
            prefix_pool_size: 3,
            prefix_length: 8,
            shared_system_prompt_length: Some(12),
            user_context_prompt_length: Some(9),
            system_prompt: None,
            images: None,
            pictures: None,
            audio: None,
            video: None,
        };
        let part = Part {
            output_tokens: Some(Length::Normal(normal(20.0, 4.0))),
            delay_ratio: 0.5,
            grows,
            ..Source::Synthetic(synthetic).into()
        };
        let models = vec!["a".to_owned(), "b".to_owned()];
        let config = Config {
            parts: vec![part],
            model_selection: ModelSelection::Random,
            random_seed: Some(seed),
            shared_seed: shared,
            ..Config::new(Source::Rankings(RANKINGS), models)
        };
        let hub = Hub::new(Environment::new(&|_| None));
        Dataset::load(&config, &TokenCounter::builtin(), true, &hub).unwrap()
    }

    const RANKINGS: Rankings = Rankings {
        entries: 1,
        passages: NormalDistribution::exactly(1.0),
        passage_tokens: NormalDistribution::exactly(1.0),
        query_tokens: NormalDistribution::exactly(1.0),
        corpus: Corpus::Prose,
    };

    #[test]
    fn conversations_that_are_made_later_are_those_of_a_larger_dataset() {
        let (small, large) = (load(5, true, 7, None), load(20, false, 7, None));
        assert!(large.growth.is_none());
        let growth = small.growth.unwrap();
        assert!(growth.make(5).is_none(), "there is no tokenizer yet");
        growth.begin(Arc::new(TokenCounter::builtin()));
        let shown = |found: &Conversation| format!("{found:?}");
        let first: Vec<_> = small.conversations.iter().map(shown).collect();
        // In any order.
        let mut later: Vec<_> = (5..20).rev().map(|at| shown(&growth.make(at).unwrap())).collect();
        later.reverse();
        let all: Vec<_> = large.conversations.iter().map(shown).collect();
        assert_eq!([first, later].concat(), all);
        assert!(growth.make(4).is_none(), "it exists");
    }

    #[test]
    fn canaries_do_not_change_the_conversations_that_are_made_later() {
        let plain = load(5, true, 7, None).growth.unwrap();
        let counter = Arc::new(TokenCounter::builtin());
        let with = load(5, true, 7, None).with_canaries(&crate::Canary::standard(), |_| 1);
        let growth = with.growth.unwrap();
        growth.begin(Arc::clone(&counter));
        plain.begin(counter);
        assert_eq!((plain.first(), growth.first()), (5, 13));
        assert!(growth.make(12).is_none(), "it is a canary");
        let made = |growth: &Growth, at| format!("{:?}", growth.make(at).unwrap());
        assert_eq!(made(&growth, 15), made(&plain, 7));
    }

    #[test]
    fn runs_have_system_prompts_and_prefixes_in_common_and_nothing_else() {
        let [one, two] = [1, 2].map(|seed| load(10, false, seed, Some(9)));
        let opening = |found: &Conversation| {
            let text = found.turns[0].texts[0].to_string();
            text.split(' ').take(3).collect::<Vec<_>>().join(" ")
        };
        let openings = |of: &Dataset| -> std::collections::BTreeSet<String> {
            of.conversations.iter().map(opening).collect()
        };
        assert_eq!(one.conversations[0].system, two.conversations[0].system);
        assert_eq!(openings(&one), openings(&two));
        for (a, b) in one.conversations.iter().zip(two.conversations.iter()) {
            assert_ne!(a.user_context, b.user_context);
            assert_ne!(a.turns[0].texts[0].to_string(), b.turns[0].texts[0].to_string());
        }
    }

    #[test]
    fn each_process_begins_with_its_own_conversation() {
        let growth = load(5, true, 7, None).growth.unwrap();
        // Numbers 5 and more: of three processes, the first has 6, the second 7, and the third 5.
        assert_eq!([0, 1, 2].map(|index| growth.first_of(0, (index, 3))), [6, 7, 5]);
    }
}
