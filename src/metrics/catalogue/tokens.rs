//! Lengths of inputs and outputs, and token throughput.

use super::{SECOND, per_second, ratio};
use crate::metrics::ConsoleGroup::Default;
use crate::metrics::metric::{Metric, MetricFlags as Flag};
use crate::units::Unit;

pub(super) const ABOUT: &str = "Lengths of inputs and outputs, counted by the tokenizer without \
    special tokens; with `--use-server-token-count` they are the server's own counts.";

pub(super) static ROWS: &[Metric] = &[
    Metric::record("output_token_count", "Output Token Count", Unit::Tokens, |facts, _| {
        facts.output_tokens.map(|tokens| tokens as f64)
    })
    .short("Output Tokens")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .off_console()
    .says(
        "Output tokens of a request without reasoning; tool calls' names and arguments count.",
        "tokens(all output text joined); of the server's counts, completion − reasoning tokens. \
         Absent where there is no output text.",
    ),
    Metric::record(
        "output_sequence_length",
        "Output Sequence Length",
        Unit::Tokens,
        |_, values| {
            let output = values.scalar("output_token_count");
            let reasoning = values.scalar("reasoning_token_count");
            (output.is_some() || reasoning.is_some())
                .then(|| output.unwrap_or(0.0) + reasoning.unwrap_or(0.0))
        },
    )
    .short("OSL")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .at(Default, 600)
    .requires(&["output_token_count", "reasoning_token_count"])
    .says(
        "Tokens that a request generated, output and reasoning.",
        "(output_token_count or 0) + (reasoning_token_count or 0). Absent where both are.",
    ),
    Metric::record("input_sequence_length", "Input Sequence Length", Unit::Tokens, |facts, _| {
        facts.input_tokens.map(|tokens| tokens as f64)
    })
    .short("ISL")
    .flagged(Flag::LARGER_IS_BETTER.union(Flag::TOKENIZES_INPUT_ONLY))
    .at(Default, 700)
    .says(
        "Tokens of a request's whole prompt: context, earlier turns and answers, this turn.",
        "tokens(prompt); of a body that is sent as it is, the tokens of its texts, of the tools that it \
         declares and of the calls that it repeats. Absent where it has none.",
    ),
    Metric::record(
        "e2e_output_token_throughput",
        "E2E Output Token Throughput",
        Unit::TokensPerSecondPerUser,
        |_, values| {
            let seconds = values.scalar("request_latency")? / SECOND;
            ratio(values.scalar("output_sequence_length")?, seconds)
        },
    )
    .float()
    .short("E2E Output TPS/User")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .at(Default, 510)
    .requires(&["output_sequence_length", "request_latency"])
    .says(
        "Tokens per second of one request, the wait for the first token included.",
        "output_sequence_length / request_latency in seconds.",
    ),
    Metric::sum_of(
        "total_output_tokens",
        "Total Output Tokens",
        Unit::Tokens,
        &["output_token_count"],
    )
    .short("Total Output")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .off_console()
    .says("Output tokens of all requests, without reasoning.", "Σ output_token_count."),
    Metric::sum_of(
        "total_osl",
        "Total Output Sequence Length",
        Unit::Tokens,
        &["output_sequence_length"],
    )
    .short("Total OSL")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .off_console()
    .says("Tokens that all requests generated.", "Σ output_sequence_length."),
    Metric::sum_of(
        "total_isl",
        "Total Input Sequence Length",
        Unit::Tokens,
        &["input_sequence_length"],
    )
    .short("Total ISL")
    .flagged(Flag::LARGER_IS_BETTER.union(Flag::TOKENIZES_INPUT_ONLY))
    .off_console()
    .says("Input tokens of all successful requests.", "Σ input_sequence_length."),
    Metric::derived(
        "output_token_throughput",
        "Output Token Throughput",
        Unit::TokensPerSecond,
        |totals| per_second(totals, totals.total("total_osl")?),
    )
    .short("Output TPS")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .at(Default, 800)
    .requires(&["benchmark_duration", "total_osl"])
    .says(
        "Tokens that the server generates per second, over all requests.",
        "total_osl / benchmark_duration in seconds.",
    ),
    Metric::derived(
        "input_token_throughput",
        "Input Token Throughput",
        Unit::TokensPerSecond,
        |totals| per_second(totals, totals.total("total_isl")?),
    )
    .short("Input TPS")
    .flagged(Flag::LARGER_IS_BETTER)
    .at(Default, 805)
    .requires(&["benchmark_duration", "total_isl"])
    .says(
        "Tokens that the server takes in per second, over all requests.",
        "total_isl / benchmark_duration in seconds.",
    ),
    Metric::derived(
        "total_token_throughput",
        "Total Token Throughput",
        Unit::TokensPerSecond,
        |totals| per_second(totals, totals.total("total_isl")? + totals.total("total_osl")?),
    )
    .short("Total TPS")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .off_console()
    .requires(&["benchmark_duration", "total_isl", "total_osl"])
    .says(
        "Tokens that the server takes in and generates per second, over all requests.",
        "(total_isl + total_osl) / benchmark_duration in seconds.",
    ),
];
