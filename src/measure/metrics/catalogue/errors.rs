//! Metrics of failed requests.

use base::units::Unit;

use crate::metrics::metric::{Metric, MetricFlags as Flag, MetricKind};
use crate::metrics::tag;
use crate::metrics::tag::MetricTag;

pub(super) const ABOUT: &str = "Metrics of failed requests, including cancelled ones. No other \
                                metric of a single request includes them. `adj_*` are latencies \
                                with an infinite value for each failed request, so that a server \
                                which rejects half of the load does not appear fast. They have \
                                `min`, `count` and the percentiles that are finite (nearest rank), \
                                and are absent if no request failed.";

pub(super) static ROWS: &[Metric] = &[
    Metric::record(tag::ERROR_ISL, "Error Input Sequence Length", Unit::Tokens, |facts, _| {
        facts.input_tokens.map(|tokens| tokens as f64)
    })
    .short("Error ISL")
    .flagged(Flag::ERROR_ONLY.union(Flag::LARGER_IS_BETTER).union(Flag::TOKENIZES_INPUT_ONLY))
    .off_console()
    .says(
        "Input tokens of a failed request.",
        "Like input_sequence_length, but of failed requests.",
    ),
    Metric::record(tag::ERROR_OSL, "Error Output Sequence Length", Unit::Tokens, |facts, _| {
        let counted = [facts.output_tokens, facts.reasoning_tokens];
        let counted = counted.into_iter().flatten().reduce(|sum, tokens| sum + tokens);
        let events = facts.response.content.len();
        (events > 0).then(|| counted.map_or(events as f64, |tokens| tokens as f64))
    })
    .short("Error OSL")
    .flagged(Flag::ERROR_ONLY.union(Flag::PRODUCES_TOKENS_ONLY))
    .off_console()
    .says(
        "Output tokens of a failed request, including reasoning, that had arrived when it failed or was \
         cancelled.",
        "Like output_sequence_length, but of failed requests. A content event counts as one token if \
         neither the client nor the server counts them. Absent without content.",
    ),
    Metric::sum_of(
        tag::TOTAL_ERROR_ISL,
        "Total Error Input Sequence Length",
        Unit::Tokens,
        &[tag::ERROR_ISL],
    )
    .short("Total Error ISL")
    .flagged(Flag::ERROR_ONLY.union(Flag::LARGER_IS_BETTER).union(Flag::TOKENIZES_INPUT_ONLY))
    .off_console()
    .says("Input tokens of all failed requests.", "Σ error_isl."),
    Metric::aggregate(
        tag::CONTEXT_OVERFLOW_COUNT,
        "Context Overflow Count",
        Unit::Requests,
        MetricKind::Tally(|observation, settings| {
            Some(settings.context_overflow.matches(observation.error.as_ref()?))
        }),
    )
    .short("Ctx Overflow")
    .flagged(Flag::ERROR_ONLY.union(Flag::NO_INDIVIDUAL_RECORDS))
    .says(
        "Requests that the server rejected because they exceed the model's context length.",
        "count(records whose error contains `context length`, `maximum context`, \
         `context_length_exceeded` or `prompt is too long`, ignoring case). Absent if none \
         failed.",
    ),
    Metric::aggregate(
        tag::SKIPPED_CONTEXT_OVERFLOW_COUNT,
        "Skipped Context Overflow Count",
        Unit::Requests,
        MetricKind::Tally(|observation, settings| settings.skips_overflow(observation).then_some(true)),
    )
    .short("Skipped Ctx Overflow")
    .flagged(Flag::ERROR_ONLY.union(Flag::NO_INDIVIDUAL_RECORDS))
    .off_console()
    .says(
        "Requests that exceed the model's context length and are left out of all other metrics, because \
         a scenario has it so.",
        "count(records of context_overflow_count with `--scenario`). Absent if there are none.",
    ),
    adjusted(
        tag::ADJ_REQUEST_LATENCY,
        "Request Latency (error-adjusted)",
        Flag::empty(),
        &[tag::REQUEST_LATENCY],
    )
    .short("Adj Req Latency")
    .says(
        "Request latency, with an infinite value for each failed request.",
        "request_latency and ∞ for each failure.",
    ),
    adjusted(
        tag::ADJ_TIME_TO_FIRST_TOKEN,
        "Time to First Token (error-adjusted)",
        Flag::STREAMING_TOKENS_ONLY,
        &[tag::TIME_TO_FIRST_TOKEN],
    )
    .short("Adj TTFT")
    .says(
        "Time to first token, with an infinite value for each failed request.",
        "time_to_first_token and ∞ for each failure.",
    ),
    adjusted(
        tag::ADJ_INTER_TOKEN_LATENCY,
        "Inter Token Latency (error-adjusted)",
        Flag::STREAMING_TOKENS_ONLY,
        &[tag::INTER_TOKEN_LATENCY],
    )
    .short("Adj ITL")
    .says(
        "Inter token latency, with an infinite value for each failed request.",
        "inter_token_latency and ∞ for each failure.",
    ),
    adjusted(
        tag::ADJ_DECODE_DURATION,
        "Decode Duration (error-adjusted)",
        Flag::STREAMING_TOKENS_ONLY,
        &[tag::DECODE_DURATION],
    )
    .short("Adj Decode Duration")
    .says(
        "Decode duration, with an infinite value for each failed request.",
        "decode_duration and ∞ for each failure.",
    ),
];

#[expect(clippy::trivially_copy_pass_by_ref, reason = "a row keeps the reference")]
const fn adjusted(
    tag: MetricTag,
    header: &'static str,
    flags: Flag,
    of: &'static [MetricTag; 1],
) -> Metric {
    Metric::with_failures(tag, header, Unit::Nanoseconds, of)
        .shown_in(Unit::Milliseconds)
        .flagged(flags)
}
