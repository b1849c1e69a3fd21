//! The ledger of the server's prefix cache: what the prompts of a run repeat, what the server read from
//! its cache, and what the rest costs.
//!
//! What prompts repeat follows from the prompts alone, by blocks of their text: it is what a cache that
//! started empty and kept everything would have found ([`KnownPrefixes`]). A server that finds more had
//! prompts in its cache before the run; one that finds less computes them again.

mod cost;
mod families;
mod report;

use std::collections::BTreeMap;

use client::schedule::PhaseKind;
use dataset::known_prefixes::{KnownPrefixes, MAX_PREFIXES, prefixes};
use dataset::prompt_bytes;

use self::cost::Line;
use self::families::Families;
pub use self::report::{CacheUse, Excess, PrefixCache, ServerCache};
use self::report::{PrefillCost, PrefixUse, TurnUse};
use super::breakdown::turns;
use super::metric::MeasuredRecord;
use super::tag;

/// Number of bytes of a block of a prompt's text: about as much as 16 tokens, vLLM's block.
pub(crate) const BLOCK_BYTES: usize = 64;

/// Tokens of a prompt that the client may not know of, where it does not count tokens itself: those of
/// the chat template, which all prompts share.
const TEMPLATE_TOKENS: f64 = 64.0;

/// The owner of prefixes that are not of the measurement: those of the warmup, of requests that failed,
/// and of responses, which a server also has in its cache.
const OTHERS: u32 = 0;

/// The text of a request, in blocks.
#[derive(Debug)]
pub struct PromptBlocks {
    /// The text of the prompt, followed by that of the response.
    text: Vec<u8>,
    /// Number of bytes of the prompt.
    bytes: usize,
    /// The prefixes of the prompt, followed by those of the prompt with its response.
    prefixes: Vec<u64>,
    /// Number of those of the prompt.
    own: usize,
}

impl PromptBlocks {
    /// Reads the prompt of a request, and its response.
    pub fn from_record(measured: &MeasuredRecord) -> Self {
        Self::new(prompt_bytes(&measured.record.payload), &measured.response.output_text)
    }

    fn new(mut text: Vec<u8>, response: &str) -> Self {
        let bytes = text.len();
        if !response.is_empty() {
            // As the texts of a prompt are joined.
            text.push(b'\n');
            text.extend_from_slice(response.as_bytes());
        }
        let prefixes = prefixes(&text, BLOCK_BYTES);
        Self { text, bytes, prefixes, own: bytes / BLOCK_BYTES }
    }

    fn own(&self) -> &[u64] {
        &self.prefixes[..self.own]
    }
}

/// Sums over requests.
#[derive(Debug, Clone, Default, PartialEq)]
struct Sums {
    requests: u64,
    bytes: u64,
    /// Whole blocks of the prompts.
    blocks: u64,
    prompt_tokens: f64,
    /// Tokens that the cache may have found although the blocks of the text do not show it.
    hidden_tokens: f64,
    cached_tokens: f64,
    /// Number of requests whose cached tokens the server reported.
    with_cached: u64,
    ttft_ms: f64,
    with_ttft: u64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.blocks += other.blocks;
        self.prompt_tokens += other.prompt_tokens;
        self.hidden_tokens += other.hidden_tokens;
        self.cached_tokens += other.cached_tokens;
        self.with_cached += other.with_cached;
        self.ttft_ms += other.ttft_ms;
        self.with_ttft += other.with_ttft;
    }
}

/// Adds up the requests of a run.
#[derive(Debug)]
pub struct CacheLedger {
    known: KnownPrefixes,
    /// By the index of the group of turns.
    turns: BTreeMap<u32, Sums>,
    families: Families,
    /// Milliseconds to the first token over computed tokens.
    line: Line,
    /// Whether the client counts the tokens of prompts itself.
    counts_tokens: bool,
}

impl CacheLedger {
    /// Creates a ledger without requests.
    pub fn new(counts_tokens: bool) -> Self {
        Self {
            known: KnownPrefixes::keeping(MAX_PREFIXES),
            turns: BTreeMap::new(),
            families: Families::default(),
            line: Line::default(),
            counts_tokens,
        }
    }

    /// Adds a request, in any order. Those of the warmup and those that failed only show what the server
    /// may know.
    pub fn observe(&mut self, measured: &MeasuredRecord, prompt: &PromptBlocks) {
        let observation = &measured.observation;
        self.known.add(&prompt.prefixes[prompt.own..], OTHERS);
        let value = |tag| observation.values.scalar(tag);
        let tokens = value(tag::USAGE_PROMPT_TOKENS).or_else(|| value(tag::INPUT_SEQUENCE_LENGTH));
        let is_measured = observation.phase == PhaseKind::Profiling && observation.error.is_none();
        let Some(tokens) = tokens.filter(|_| is_measured) else {
            self.known.add(prompt.own(), OTHERS);
            return;
        };
        let cached = value(tag::USAGE_PROMPT_CACHE_READ_TOKENS);
        let ttft = value(tag::TIME_TO_FIRST_TOKEN).map(|ns| ns / 1e6);
        let counted = value(tag::INPUT_SEQUENCE_LENGTH).filter(|_| self.counts_tokens);
        let unknown = counted.map_or(TEMPLATE_TOKENS, |counted| (tokens - counted).max(0.0));
        let bytes = prompt.bytes;
        let block = tokens * BLOCK_BYTES as f64 / bytes.max(1) as f64;
        let sums = Sums {
            requests: 1,
            bytes: bytes as u64,
            blocks: prompt.own as u64,
            prompt_tokens: tokens,
            hidden_tokens: (block + unknown).min(tokens),
            cached_tokens: cached.unwrap_or(0.0),
            with_cached: u64::from(cached.is_some()),
            ttft_ms: ttft.unwrap_or(0.0),
            with_ttft: u64::from(ttft.is_some()),
        };
        if let Some((cached, ttft)) = cached.zip(ttft) {
            self.line.add(tokens - cached, ttft);
        }
        let turn = turns::index(measured.record.turn.turn);
        let family = self.families.add(prompt, &sums);
        self.known.add(prompt.own(), owner(turn, family));
        self.turns.entry(turn).or_default().add(&sums);
    }

    /// Returns the report, with what the `server` counts itself; `None` without requests.
    pub fn report(&self, server: Option<ServerCache>) -> Option<PrefixCache> {
        let mut by_turn: BTreeMap<u32, f64> = BTreeMap::new();
        let mut by_family: BTreeMap<u32, f64> = BTreeMap::new();
        for (owner, prefixes) in self.known.owned().into_iter().filter(|(it, _)| *it != OTHERS) {
            let (turn, family) = parts(owner);
            *by_turn.entry(turn).or_default() += prefixes;
            *by_family.entry(family).or_default() += prefixes;
        }
        let error = self.known.relative_error();
        let used = |sums: &Sums, new: f64| CacheUse::from_sums(sums, new, error);
        let new = |of: &BTreeMap<u32, f64>, at: u32| of.get(&at).copied().unwrap_or(0.0);
        let mut total = Sums::default();
        self.turns.values().for_each(|sums| total.add(sums));
        if total.requests == 0 {
            return None;
        }
        let turns = self.turns.iter().map(|(turn, sums)| TurnUse {
            turn: turns::name(*turn).to_string(),
            cache: used(sums, new(&by_turn, *turn)),
        });
        let families = self.families.several().map(|(at, family)| PrefixUse {
            prefix_bytes: family.common_bytes(),
            starts_with: family.starts_with.clone(),
            cache: used(&family.sums, new(&by_family, at)),
        });
        let turns: Vec<TurnUse> = turns.collect();
        let total = used(&total, by_turn.values().sum());
        Some(PrefixCache {
            block_bytes: BLOCK_BYTES as u64,
            prefill: self.line.slope().map(|slope| PrefillCost::from_slope(slope, &total)),
            total,
            server,
            by_turn: if turns.len() > 1 { turns } else { Vec::new() },
            by_prefix: report::largest(families.collect()),
        })
    }
}

/// Returns the owner of the prefixes of a turn and a family; the lowest turn comes first.
const fn owner(turn: u32, family: u32) -> u32 {
    ((turn + 1) << 16) | family
}

/// Returns the turn and the family of an owner.
const fn parts(owner: u32) -> (u32, u32) {
    ((owner >> 16) - 1, owner & 0xffff)
}

#[cfg(test)]
mod tests;
