//! The parts of the dataset: each has a source of its own, and phases draw from one of them.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;

use tokens::hub::Hub;
use tokens::tokenizer::TokenCounter;

use super::account::Conversations;
use super::growth::{Change, Growth, Maker, Seeds, Stream};
use super::{
    Config, Conversation, Dataset, DatasetError, Length, Sampler, Sampling, Seed, Source,
    TenantLengths, file, finish, forks, hub,
};

/// A part of the dataset.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// Whether it is generated or read from a file.
    pub source: Source,
    /// Order in which sessions draw conversations; `None` is the default of the source
    /// (sequential).
    pub sampling: Option<Sampling>,
    /// Requested output tokens for turns whose file has none.
    pub output_tokens: Option<Length>,
    /// Factor applied to the delay of every turn.
    pub delay_ratio: f64,
    /// The conversations of a generated part that belong to tenants; empty if they share all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantLengths>,
    /// Whether more conversations are generated while the run goes on, instead of sending some again.
    pub grows: bool,
}

impl From<Source> for Part {
    /// Creates a part without any settings that change what `source` has.
    fn from(source: Source) -> Self {
        Self {
            source,
            sampling: None,
            output_tokens: None,
            delay_ratio: 1.0,
            tenants: Vec::new(),
            grows: false,
        }
    }
}

impl Config {
    /// Returns the only part; `None` if phases draw from several.
    #[must_use]
    pub fn only_part(&self) -> Option<&Part> {
        match self.parts.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Returns whether the conversations of any part are read, and not generated.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.parts.iter().any(|part| part.source.is_read())
    }

    /// Returns the seeds of the part with this index. Each has others: prompts that begin alike would
    /// be in the prefix cache of a server.
    fn seeds_of(part: usize, seeds: Seeds) -> Seeds {
        if part == 0 { seeds } else { seeds.derive(&format!("dataset.part.{part}")) }
    }
}

impl Dataset {
    /// Creates a dataset of one part.
    #[must_use]
    pub fn from_conversations(conversations: impl Into<Conversations>) -> Self {
        let conversations = conversations.into();
        let parts = std::iter::once(0..conversations.len()).collect();
        Self { conversations, parts, canaries: 0, growth: None }
    }

    /// Takes note that conversations of a dataset of one part were added, removed or changed, as those are
    /// `changed` that are made while the run goes on.
    pub fn rearranged(&mut self, changed: impl Fn(&mut Conversation) + Send + Sync + 'static) {
        self.parts = std::iter::once(0..self.conversations.len()).collect();
        if let Some(growth) = self.growth.as_mut().and_then(Arc::get_mut) {
            let changed: Change = Arc::new(changed);
            growth.changed_by(&changed);
            growth.begins_at(self.conversations.len());
        }
    }

    /// Returns what draws the conversations of a part for sessions.
    pub fn sampler(&self, index: usize, part: &Part, seed: Seed) -> Sampler {
        self.sampler_of(self.roots(index), (index, part), None, seed)
    }

    /// Returns what draws the conversations of a tenant in a part, if tenants have conversations of their own.
    pub fn sampler_of_tenant(
        &self,
        index: usize,
        part: &Part,
        tenant: usize,
        seed: Seed,
    ) -> Option<Sampler> {
        let Range { start, end } = part.ranges_of_tenants().get(tenant)?.clone();
        let first = self.roots(index).start;
        Some(self.sampler_of(first + start..first + end, (index, part), Some(tenant), seed))
    }

    fn sampler_of(
        &self,
        roots: Range<usize>,
        (index, part): (usize, &Part),
        tenant: Option<usize>,
        seed: Seed,
    ) -> Sampler {
        let sampler = Sampler::new(part.sampling.unwrap_or_default(), roots, seed);
        match &self.growth {
            Some(growth) => growth.sampler(sampler, index, tenant),
            None => sampler,
        }
    }

    /// Generates or reads the conversations that `config` describes.
    ///
    /// `counter` generates the prompts and counts their tokens. `tokenizes_input` states whether
    /// the input of the endpoint is text whose tokens are to be counted. `hub` provides the
    /// datasets that are not on this machine.
    pub fn load(
        config: &Config,
        counter: &TokenCounter,
        tokenizes_input: bool,
        hub: &Hub,
    ) -> Result<Self, DatasetError> {
        Self::load_parts(config, counter, tokenizes_input, hub).map(Self::joined)
    }

    /// Loads each part as a dataset of its own.
    pub fn load_parts(
        config: &Config,
        counter: &TokenCounter,
        tokenizes_input: bool,
        hub: &Hub,
    ) -> Result<Vec<Self>, DatasetError> {
        let own = Seed::or_random(config.random_seed);
        let seeds = Seeds { own, shared: config.shared_seed.map_or(own, Seed) };
        // Generated identifiers are numbered over all parts.
        let mut number = 0;
        let mut load = |(index, part): (usize, &Part)| {
            let seeds = Config::seeds_of(index, seeds);
            let loading = Loading { config, counter, tokenizes_input, hub };
            let (conversations, makers) = if part.tenants.is_empty() {
                let (conversations, maker) = loading.part(part, seeds, &mut number)?;
                (conversations, Vec::from_iter(maker))
            } else {
                loading.of_tenants(part, seeds, &mut number)?
            };
            let firsts = part.ranges_of_tenants();
            let stream = |(tenant, maker): (usize, Maker)| {
                let range = firsts.get(tenant);
                let first = range.map_or(conversations.len(), ExactSizeIterator::len) as u64;
                let tenant = range.map(|_| tenant);
                Stream { maker, part: index, tenant, first, change: None }
            };
            let grown = makers.into_iter().filter(|_| part.grows).enumerate().map(stream);
            let growth = Growth::from_streams(grown.collect()).map(Arc::new);
            Ok(Self { growth, ..Self::from_conversations(conversations) })
        };
        config.parts.iter().enumerate().map(&mut load).collect()
    }

    /// Returns the dataset of which `parts` are the parts. A conversation with the identifier of one of
    /// another part before it gets one of its own.
    pub fn joined(mut parts: Vec<Self>) -> Self {
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let (mut all, mut ranges) = (Vec::new(), Vec::new());
        let mut growth: Option<Growth> = None;
        let mut ids: HashSet<Arc<str>> = HashSet::new();
        for part in parts {
            let first = all.len();
            for mut conversation in part.conversations.into_vec() {
                while ids.contains(&conversation.id) {
                    conversation.id = format!("{}_", conversation.id).into();
                }
                conversation.move_by(first);
                all.push(conversation);
            }
            ids.extend(all[first..].iter().map(|it: &Conversation| Arc::clone(&it.id)));
            ranges.push(first..all.len());
            if let Some(own) = part.growth.and_then(Arc::into_inner) {
                growth.get_or_insert_default().add(own);
            }
        }
        if let Some(growth) = &mut growth {
            growth.begins_at(all.len());
        }
        Self { conversations: all.into(), parts: ranges, canaries: 0, growth: growth.map(Arc::new) }
    }

    /// Returns the conversations of a part.
    #[must_use]
    pub fn part(&self, index: usize) -> &[Conversation] {
        let range = self.parts.get(index).cloned().unwrap_or_default();
        self.conversations.get(range).unwrap_or_default()
    }

    /// Returns the indices of the conversations of a part that sessions draw: all but those that others
    /// start.
    #[must_use]
    pub fn roots(&self, part: usize) -> Range<usize> {
        let first = self.parts.get(part).map_or(0, |range| range.start);
        first..first + super::roots(self.part(part))
    }
}

impl Conversation {
    /// Adds `places` to the indices of the conversations that it names.
    fn move_by(&mut self, places: usize) {
        let branches = self.branches.iter_mut().map(|branch| &mut branch.conversation);
        let turns = self.turns.iter_mut().flat_map(|turn| &mut turn.predecessors);
        branches.chain(turns.map(|before| &mut before.conversation)).for_each(|at| *at += places);
    }
}

/// The settings that are needed to load a part.
pub(super) struct Loading<'a> {
    config: &'a Config,
    counter: &'a TokenCounter,
    tokenizes_input: bool,
    hub: &'a Hub,
}

impl Loading<'_> {
    /// Generates or reads the conversations of a part that tenants share, or that is one tenant's. The
    /// generated identifiers begin with `number`. Returns what makes more of them, if they are generated.
    pub(super) fn part(
        &self,
        part: &Part,
        seeds: Seeds,
        number: &mut usize,
    ) -> Result<(Conversations, Option<Maker>), DatasetError> {
        let Self { config, counter, tokenizes_input, .. } = *self;
        let mut maker = Maker::new(part, config, counter, tokenizes_input, seeds)?;
        let mut conversations = match &mut maker {
            Some(maker) => maker.first(counter)?.into(),
            None => self.read(part, seeds.own)?,
        };
        if config.strips_repeated_images {
            finish::strip_repeated_images(&mut conversations)?;
        }
        finish::fill_ids(&mut conversations, number);
        if maker.is_some() {
            return Ok((conversations, maker));
        }
        let seed = seeds.own;
        finish::assign_models(&mut conversations, config, seed, 0);
        finish::fill_output_tokens(&mut conversations, part.output_tokens.as_ref(), seed);
        finish::scale_delays(&mut conversations, part.delay_ratio);
        if tokenizes_input {
            finish::count_tokens(&mut conversations, counter, &mut None);
        } else {
            finish::forget_tokens(&mut conversations);
        }
        let traces = match &part.source {
            Source::File { path, traces, .. } => Some((traces, path.display().to_string())),
            Source::Hub(dataset) => Some((&dataset.traces, dataset.repository.clone())),
            Source::Synthetic(_) | Source::Rankings(_) => None,
        };
        forks::share_again(&mut conversations);
        if let Some((traces, name)) = traces {
            finish::select(&mut conversations, traces, seed);
            if conversations.is_empty() {
                let note = format!(": {} left out", conversations.account().reasons());
                return Err(DatasetError::Empty { path: name.into(), note });
            }
            if traces.force_min_tokens == Some(true) {
                finish::force_min_tokens(&mut conversations);
                forks::share_again(&mut conversations);
            }
        }
        Ok((conversations, None))
    }

    /// Reads the conversations of a part.
    fn read(&self, part: &Part, seed: Seed) -> Result<Conversations, DatasetError> {
        match &part.source {
            Source::Synthetic(_) | Source::Rankings(_) => Ok(Conversations::default()),
            Source::File { path, format, traces, entries, batch_size } => {
                let drawn = (*entries, *batch_size);
                file::read(path, *format, traces, self.counter, seed, drawn)
            }
            Source::Hub(dataset) => hub::read(dataset, self.hub, self.counter, seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Branch, BranchStart, Predecessor, Turn};

    /// A conversation that starts another one, whose turn waits for its first turn.
    fn tree(id: &str) -> Vec<Conversation> {
        let branch = Branch {
            conversation: 1,
            after: Some(0),
            from: BranchStart::Response,
            join: None,
            is_fork: false,
        };
        let predecessors = vec![Predecessor { conversation: 0, turn: 0 }];
        let conversation = |id: &str, turn| Conversation {
            id: id.into(),
            turns: vec![turn],
            ..Conversation::default()
        };
        let root = Conversation { branches: vec![branch], ..conversation(id, Turn::default()) };
        let child = conversation(&format!("{id}/1"), Turn { predecessors, ..Turn::default() });
        vec![root, Conversation { is_child: true, ..child }]
    }

    #[test]
    fn joined_parts_keep_their_trees_and_have_names_of_their_own() {
        let parts = [tree("a"), tree("a"), tree("a")].map(Dataset::from_conversations);
        let all = Dataset::joined(parts.into());
        let ids: Vec<&str> = all.conversations.iter().map(|it| &*it.id).collect();
        assert_eq!(ids, ["a", "a/1", "a_", "a/1_", "a__", "a/1__"]);
        assert_eq!([0, 1, 2].map(|part| all.roots(part)), [0..1, 2..3, 4..5]);
        for (part, first) in [(0, 0), (1, 2), (2, 4)] {
            let [root, child] = all.part(part) else { panic!("{part}") };
            assert_eq!(root.branches[0].conversation, first + 1);
            assert_eq!(child.turns[0].predecessors[0].conversation, first);
        }
        assert!(all.part(3).is_empty());
    }
}
