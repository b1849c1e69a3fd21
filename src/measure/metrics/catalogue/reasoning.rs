//! Reasoning tokens that the server reports separately from the output text.

use base::units::Unit;

use super::ratio;
use crate::metrics::metric::{Metric, MetricFlags as Flag};
use crate::metrics::tag;

pub(super) const ABOUT: &str = "Reasoning tokens that the server sends separately from the output \
                                text, for example in `reasoning_content`. Reasoning within the \
                                text, for example between `<think>` tags, counts as output text.";

pub(super) static ROWS: &[Metric] = &[
    Metric::record(
        tag::REASONING_TOKEN_COUNT,
        "Reasoning Token Count",
        Unit::Tokens,
        |facts, _| facts.reasoning_tokens.map(|tokens| tokens as f64),
    )
    .short("Reasoning Tokens")
    .flagged(
        Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER).union(Flag::SUPPORTS_REASONING),
    )
    .off_console()
    .says(
        "Reasoning tokens of a request.",
        "tokens(all reasoning text joined). Absent without reasoning text.",
    ),
    Metric::sum_of(
        tag::TOTAL_REASONING_TOKENS,
        "Total Reasoning Tokens",
        Unit::Tokens,
        &[tag::REASONING_TOKEN_COUNT],
    )
    .short("Total Reasoning")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .off_console()
    .says("Reasoning tokens of all requests.", "Σ reasoning_token_count."),
    Metric::record(tag::THINKING_EFFICIENCY, "Thinking Efficiency", Unit::Ratio, |_, values| {
        ratio(values.scalar(tag::REASONING_TOKEN_COUNT)?, values.scalar(tag::OUTPUT_TOKEN_COUNT)?)
    })
    .float()
    .flagged(THINKING)
    .requires(&[tag::OUTPUT_TOKEN_COUNT, tag::REASONING_TOKEN_COUNT])
    .says(
        "Reasoning tokens of a request per token of its output text.",
        "reasoning_token_count / output_token_count. Absent if either is.",
    ),
    Metric::derived(
        tag::OVERALL_THINKING_EFFICIENCY,
        "Overall Thinking Efficiency",
        Unit::Ratio,
        |totals| {
            ratio(
                totals.total(tag::TOTAL_REASONING_TOKENS)?,
                totals.total(tag::TOTAL_OUTPUT_TOKENS)?,
            )
        },
    )
    .short("Overall Eff.")
    .flagged(THINKING)
    .requires(&[tag::TOTAL_OUTPUT_TOKENS, tag::TOTAL_REASONING_TOKENS])
    .says(
        "Reasoning tokens of all requests per token of their output texts.",
        "total_reasoning_tokens / total_output_tokens. Absent if the latter is zero.",
    ),
];

const THINKING: Flag =
    Flag::PRODUCES_TOKENS_ONLY.union(Flag::SUPPORTS_REASONING).union(Flag::EXPERIMENTAL);
