//! Tokens of reasoning that the server sends apart from the answer.

use super::ratio;
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
    Metric::record("thinking_efficiency", "Thinking Efficiency", Unit::Ratio, |_, values| {
        ratio(values.scalar("reasoning_token_count")?, values.scalar("output_token_count")?)
    })
    .float()
    .flagged(THINKING)
    .requires(&["output_token_count", "reasoning_token_count"])
    .says(
        "Reasoning tokens of a request for each token of its answer.",
        "reasoning_token_count / output_token_count. Absent where either is.",
    ),
    Metric::derived(
        "overall_thinking_efficiency",
        "Overall Thinking Efficiency",
        Unit::Ratio,
        |totals| {
            ratio(totals.total("total_reasoning_tokens")?, totals.total("total_output_tokens")?)
        },
    )
    .short("Overall Eff.")
    .flagged(THINKING)
    .requires(&["total_output_tokens", "total_reasoning_tokens"])
    .says(
        "Reasoning tokens of all requests for each token of their answers.",
        "total_reasoning_tokens / total_output_tokens. Absent where the latter is zero.",
    ),
];

const THINKING: Flag =
    Flag::PRODUCES_TOKENS_ONLY.union(Flag::SUPPORTS_REASONING).union(Flag::EXPERIMENTAL);
