//! Tokens of reasoning that the server sends apart from the answer.

use crate::metrics::metric::{Metric, MetricFlags as Flag};
use crate::units::Unit;

pub(super) const ABOUT: &str = "Tokens of reasoning that the server sends apart from the answer, \
    as in `reasoning_content`. Reasoning inside the answer, as between `<think>` tags, counts as \
    output.";

pub(super) static ROWS: &[Metric] = &[
    Metric::record("reasoning_token_count", "Reasoning Token Count", Unit::Tokens, |facts, _| {
        facts.reasoning_tokens.map(|tokens| tokens as f64)
    })
    .short("Reasoning Tokens")
    .flagged(
        Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER).union(Flag::SUPPORTS_REASONING),
    )
    .off_console()
    .says(
        "Reasoning tokens of a request.",
        "tokens(all reasoning text joined). Absent where there is no reasoning text.",
    ),
    Metric::sum_of(
        "total_reasoning_tokens",
        "Total Reasoning Tokens",
        Unit::Tokens,
        &["reasoning_token_count"],
    )
    .short("Total Reasoning")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .off_console()
    .says("Reasoning tokens of all requests.", "Σ reasoning_token_count."),
];
