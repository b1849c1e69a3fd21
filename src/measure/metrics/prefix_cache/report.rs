//! The results of the ledger, as in the summary.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::cost::Slope;
use super::{BLOCK_BYTES, Sums};

/// Maximum number of prefixes that are listed.
const MAX_PREFIXES: usize = 20;

/// Share of the prompt tokens by which the cache must exceed what is expected to be told.
const MIN_EXCESS: f64 = 0.01;

/// Standard errors of an estimate that are attributed to chance.
const MAX_DEVIATIONS: f64 = 4.0;

/// What the prompts of the measurement repeat, what the server read from its cache, and what the rest
/// cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PrefixCache {
    /// Number of bytes of text in the blocks by which prompts are compared.
    pub(crate) block_bytes: u64,
    /// All successful requests.
    pub total: CacheUse,
    /// The server's own counters, if it has any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<ServerCache>,
    /// The cost of computing prompt tokens; absent unless the time to first token grows with them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prefill: Option<PrefillCost>,
    /// The requests by their position in the conversation, if they have several.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub by_turn: Vec<TurnUse>,
    /// The requests whose prompts begin alike, those that repeat most first; at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub by_prefix: Vec<PrefixUse>,
}

/// The cache as some of the requests used it. Ratios are shares of their prompt tokens, from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CacheUse {
    /// Number of successful requests.
    pub requests: u64,
    /// Tokens of their prompts, as the server reports them, or else as the client counts them.
    pub prompt_tokens: f64,
    /// What a cache that started empty and kept everything would have found.
    pub expected_ratio: f64,
    /// What such a cache would have found at most, given that text is compared in blocks, and that the
    /// server may add text that all prompts share.
    pub expected_most_ratio: f64,
    /// What the server reports as cached; absent if it does not for each request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cached_ratio: Option<f64>,
    /// Share of the computed prompt tokens that an earlier prompt had too.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repeated_prefill_ratio: Option<f64>,
    /// Mean time to first token in milliseconds; absent without streaming.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mean_ttft_ms: Option<f64>,
}

/// The server's own counters over the measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ServerCache {
    /// The metric of the tokens that were found, or several with ` + ` between them.
    pub metric: Arc<str>,
    /// Tokens that were looked up.
    pub queried_tokens: f64,
    /// Tokens that were found.
    pub cached_tokens: f64,
}

/// The cost of computing prompt tokens, by a straight line through the times to first token over the
/// computed tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PrefillCost {
    /// Milliseconds for each computed token.
    pub ms_per_token: f64,
    /// Half the width of the 95% interval of `ms_per_token`.
    pub half_width: f64,
    /// Milliseconds of the mean time to first token for what was computed again.
    pub repeated_ms: f64,
    /// Milliseconds that the cache has saved of the mean time to first token.
    pub saved_ms: f64,
}

/// The requests of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TurnUse {
    /// The turn, from 1; later ones are together, such as `17-32`.
    pub turn: String,
    pub cache: CacheUse,
}

/// The requests whose prompts begin alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PrefixUse {
    /// Number of bytes of text that all of them begin with, in whole blocks; 65536 is that or more.
    pub prefix_bytes: u64,
    /// The beginning of that text.
    pub starts_with: String,
    pub cache: CacheUse,
}

/// A cache that found more than the prompts of the run explain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Excess {
    /// The tokens that were found, as a share of the prompt tokens.
    pub cached: f64,
    /// What the prompts of the run explain, and at most.
    pub expected: f64,
    pub expected_most: f64,
}

impl CacheUse {
    /// Returns what requests with these `sums` did, of whose blocks `new` are in no other prompt before;
    /// `error` is the standard error of that number, relative to it.
    pub(super) fn from_sums(sums: &Sums, new: f64, error: f64) -> Self {
        let share = |blocks: f64| {
            let bytes = blocks * BLOCK_BYTES as f64;
            (bytes / sums.bytes.max(1) as f64).clamp(0.0, 1.0)
        };
        let blocks = sums.blocks as f64;
        let expected = share(blocks - new);
        let tokens = sums.prompt_tokens.max(1.0);
        let hidden = sums.hidden_tokens / tokens;
        let cached = (sums.with_cached == sums.requests).then(|| sums.cached_tokens / tokens);
        let again = |cached: f64| {
            let computed = 1.0 - cached;
            if computed > 0.0 { ((expected - cached) / computed).max(0.0) } else { 0.0 }
        };
        Self {
            requests: sums.requests,
            prompt_tokens: sums.prompt_tokens,
            expected_ratio: expected,
            expected_most_ratio: (share(blocks - new * (1.0 - MAX_DEVIATIONS * error)) + hidden)
                .min(1.0),
            cached_ratio: cached,
            repeated_prefill_ratio: cached.map(again),
            mean_ttft_ms: (sums.with_ttft > 0).then(|| sums.ttft_ms / sums.with_ttft as f64),
        }
    }

    /// Returns the tokens that the prompts repeat.
    fn expected_tokens(&self) -> f64 {
        self.expected_ratio * self.prompt_tokens
    }
}

impl ServerCache {
    /// Returns the share of the tokens that were found; `None` if none were looked up.
    pub fn ratio(&self) -> Option<f64> {
        (self.queried_tokens > 0.0).then(|| self.cached_tokens / self.queried_tokens)
    }
}

impl PrefillCost {
    pub(super) fn from_slope(slope: Slope, total: &CacheUse) -> Self {
        let mean = |ratio: f64| ratio * total.prompt_tokens / total.requests.max(1) as f64;
        let cached = total.cached_ratio.unwrap_or(0.0);
        Self {
            ms_per_token: slope.value,
            half_width: slope.half_width,
            repeated_ms: slope.value * mean((total.expected_ratio - cached).max(0.0)),
            saved_ms: slope.value * mean(cached),
        }
    }
}

impl PrefixCache {
    /// Returns the share of the prompt tokens that the server read from its cache: as it reports for each
    /// request, or else by its counters.
    #[must_use]
    pub fn cached_ratio(&self) -> Option<f64> {
        self.total.cached_ratio.or_else(|| self.server.as_ref()?.ratio())
    }

    /// Returns by how much the server found more than a cache that started empty, if it did.
    #[must_use]
    pub fn excess(&self) -> Option<Excess> {
        let CacheUse { expected_ratio: expected, expected_most_ratio: expected_most, .. } =
            self.total;
        let cached = self.cached_ratio()?;
        let is_excess = cached > expected_most + MIN_EXCESS;
        is_excess.then_some(Excess { cached, expected, expected_most })
    }
}

/// Returns those of the prefixes that repeat most, the most first.
pub(super) fn largest(mut prefixes: Vec<PrefixUse>) -> Vec<PrefixUse> {
    prefixes.sort_by(|a, b| b.cache.expected_tokens().total_cmp(&a.cache.expected_tokens()));
    prefixes.truncate(MAX_PREFIXES);
    prefixes
}
