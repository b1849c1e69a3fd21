//! Lengths of inputs and outputs, and token throughput.

use base::units::Unit;

use super::{SECOND, per_second, ratio};
use crate::metrics::ConsoleGroup::Default;
use crate::metrics::metric::{Metric, MetricFlags as Flag};
use crate::metrics::tag;

pub(super) const ABOUT: &str = "Lengths of inputs and outputs, counted by the tokenizer without \
    special tokens; with `--use-server-token-count` the counts that the server reports.";

pub(super) static ROWS: &[Metric] = &[
    Metric::record(tag::OUTPUT_TOKEN_COUNT, "Output Token Count", Unit::Tokens, |facts, _| {
        facts.output_tokens.map(|tokens| tokens as f64)
    })
    .short("Output Tokens")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .off_console()
    .says(
        "Output tokens of a request without reasoning, including names and arguments of tool \
         calls.",
        "tokens(all output text joined); with server counts, completion − reasoning tokens. \
         Absent without output text.",
    ),
    Metric::record(
        tag::OUTPUT_SEQUENCE_LENGTH,
        "Output Sequence Length",
        Unit::Tokens,
        |_, values| {
            let output = values.scalar(tag::OUTPUT_TOKEN_COUNT);
            let reasoning = values.scalar(tag::REASONING_TOKEN_COUNT);
            (output.is_some() || reasoning.is_some())
                .then(|| output.unwrap_or(0.0) + reasoning.unwrap_or(0.0))
        },
    )
    .short("OSL")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .at(Default, 600)
    .requires(&[tag::OUTPUT_TOKEN_COUNT, tag::REASONING_TOKEN_COUNT])
    .says(
        "Tokens generated for a request, including reasoning.",
        "(output_token_count or 0) + (reasoning_token_count or 0). Absent if both are.",
    ),
    Metric::record(
        tag::INPUT_SEQUENCE_LENGTH,
        "Input Sequence Length",
        Unit::Tokens,
        |facts, _| facts.input_tokens.map(|tokens| tokens as f64),
    )
    .short("ISL")
    .flagged(Flag::LARGER_IS_BETTER.union(Flag::TOKENIZES_INPUT_ONLY))
    .at(Default, 700)
    .says(
        "Tokens of a request's whole prompt: context, earlier turns and responses, and this turn.",
        "tokens(prompt); for a body that is sent unchanged, the tokens of its texts, of the tools \
         that it declares and of the tool calls that it repeats. Absent if there are none.",
    ),
    Metric::record(
        tag::E2E_OUTPUT_TOKEN_THROUGHPUT,
        "E2E Output Token Throughput",
        Unit::TokensPerSecondPerUser,
        |_, values| {
            let seconds = values.scalar(tag::REQUEST_LATENCY)? / SECOND;
            ratio(values.scalar(tag::OUTPUT_SEQUENCE_LENGTH)?, seconds)
        },
    )
    .float()
    .short("E2E Output TPS/User")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .at(Default, 510)
    .requires(&[tag::OUTPUT_SEQUENCE_LENGTH, tag::REQUEST_LATENCY])
    .says(
        "Output tokens per second of one request, including the wait for the first token.",
        "output_sequence_length / request_latency in seconds.",
    ),
    Metric::sum_of(
        tag::TOTAL_OUTPUT_TOKENS,
        "Total Output Tokens",
        Unit::Tokens,
        &[tag::OUTPUT_TOKEN_COUNT],
    )
    .short("Total Output")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .off_console()
    .says("Output tokens of all requests, without reasoning.", "Σ output_token_count."),
    Metric::sum_of(
        tag::TOTAL_OSL,
        "Total Output Sequence Length",
        Unit::Tokens,
        &[tag::OUTPUT_SEQUENCE_LENGTH],
    )
    .short("Total OSL")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .off_console()
    .says("Tokens generated for all requests, including reasoning.", "Σ output_sequence_length."),
    Metric::sum_of(
        tag::TOTAL_ISL,
        "Total Input Sequence Length",
        Unit::Tokens,
        &[tag::INPUT_SEQUENCE_LENGTH],
    )
    .short("Total ISL")
    .flagged(Flag::LARGER_IS_BETTER.union(Flag::TOKENIZES_INPUT_ONLY))
    .off_console()
    .says("Input tokens of all successful requests.", "Σ input_sequence_length."),
    Metric::derived(
        tag::OUTPUT_TOKEN_THROUGHPUT,
        "Output Token Throughput",
        Unit::TokensPerSecond,
        |totals| per_second(totals, totals.total(tag::TOTAL_OSL)?),
    )
    .short("Output TPS")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .at(Default, 800)
    .requires(&[tag::BENCHMARK_DURATION, tag::TOTAL_OSL])
    .says(
        "Output tokens that the server generates per second, over all requests.",
        "total_osl / benchmark_duration in seconds.",
    ),
    Metric::derived(
        tag::INPUT_TOKEN_THROUGHPUT,
        "Input Token Throughput",
        Unit::TokensPerSecond,
        |totals| per_second(totals, totals.total(tag::TOTAL_ISL)?),
    )
    .short("Input TPS")
    .flagged(Flag::LARGER_IS_BETTER)
    .at(Default, 805)
    .requires(&[tag::BENCHMARK_DURATION, tag::TOTAL_ISL])
    .says(
        "Input tokens that the server processes per second, over all requests.",
        "total_isl / benchmark_duration in seconds.",
    ),
    Metric::derived(
        tag::TOTAL_TOKEN_THROUGHPUT,
        "Total Token Throughput",
        Unit::TokensPerSecond,
        |totals| per_second(totals, totals.total(tag::TOTAL_ISL)? + totals.total(tag::TOTAL_OSL)?),
    )
    .short("Total TPS")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .off_console()
    .requires(&[tag::BENCHMARK_DURATION, tag::TOTAL_ISL, tag::TOTAL_OSL])
    .says(
        "Input and output tokens that the server processes per second, over all requests.",
        "(total_isl + total_osl) / benchmark_duration in seconds.",
    ),
];
