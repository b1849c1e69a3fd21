//! What is known of requests that failed.

use crate::metrics::metric::{Kind, Metric, MetricFlags as Flag, MetricTag};
use crate::record::RequestError;
use crate::units::Unit;

pub(super) const ABOUT: &str = "What is known of requests that failed; a cancelled request has \
    failed. No other metric of a single request counts them. `adj_*` are the latencies with an \
    infinite one for each request that failed: a server that refuses half of the load is not fast. \
    They have `min`, `count` and those percentiles that are finite, each the value whose place is \
    nearest, and are absent where nothing failed.";

pub(super) static ROWS: &[Metric] = &[
    Metric::record("error_isl", "Error Input Sequence Length", Unit::Tokens, |facts, _| {
        facts.input_tokens.map(|tokens| tokens as f64)
    })
    .short("Error ISL")
    .flagged(Flag::ERROR_ONLY.union(Flag::LARGER_IS_BETTER).union(Flag::TOKENIZES_INPUT_ONLY))
    .off_console()
    .says(
        "Input tokens of a request that failed.",
        "As input_sequence_length, of failed requests.",
    ),
    Metric::sum_of(
        "total_error_isl",
        "Total Error Input Sequence Length",
        Unit::Tokens,
        &["error_isl"],
    )
    .short("Total Error ISL")
    .flagged(Flag::ERROR_ONLY.union(Flag::LARGER_IS_BETTER).union(Flag::TOKENIZES_INPUT_ONLY))
    .off_console()
    .says("Input tokens of all requests that failed.", "Σ error_isl."),
    Metric::aggregate(
        "context_overflow_count",
        "Context Overflow Count",
        Unit::Requests,
        Kind::Sum(|observation, _| {
            let error = observation.error.as_ref()?;
            Some(f64::from(u8::from(is_overflow(error))))
        }),
    )
    .short("Ctx Overflow")
    .flagged(Flag::ERROR_ONLY.union(Flag::NO_INDIVIDUAL_RECORDS))
    .says(
        "Requests that the server refused because the model's context is too short for them.",
        "count(records whose error says `context length`, `maximum context`, \
         `context_length_exceeded` or `prompt is too long`, in any case). Absent where none \
         failed.",
    ),
    adjusted(
        "adj_request_latency",
        "Request Latency (error-adjusted)",
        Flag::empty(),
        &["request_latency"],
    )
    .short("Adj Req Latency")
    .says(
        "Request latency with an infinite one for each request that failed.",
        "request_latency and ∞ for each failure.",
    ),
    adjusted(
        "adj_time_to_first_token",
        "Time to First Token (error-adjusted)",
        Flag::STREAMING_TOKENS_ONLY,
        &["time_to_first_token"],
    )
    .short("Adj TTFT")
    .says(
        "Time to first token with an infinite one for each request that failed.",
        "time_to_first_token and ∞ for each failure.",
    ),
    adjusted(
        "adj_inter_token_latency",
        "Inter Token Latency (error-adjusted)",
        Flag::STREAMING_TOKENS_ONLY,
        &["inter_token_latency"],
    )
    .short("Adj ITL")
    .says(
        "Inter token latency with an infinite one for each request that failed.",
        "inter_token_latency and ∞ for each failure.",
    ),
    adjusted(
        "adj_decode_duration",
        "Decode Duration (error-adjusted)",
        Flag::STREAMING_TOKENS_ONLY,
        &["decode_duration"],
    )
    .short("Adj Decode Duration")
    .says(
        "Decode duration with an infinite one for each request that failed.",
        "decode_duration and ∞ for each failure.",
    ),
];

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

/// What servers say of a prompt that is too long for the model.
const OVERFLOWS: [&str; 4] =
    ["context length", "maximum context", "context_length_exceeded", "prompt is too long"];

/// Whether the request failed because its prompt was too long.
fn is_overflow(error: &RequestError) -> bool {
    [&error.name, &error.message].into_iter().any(|text| {
        let text = text.to_lowercase();
        OVERFLOWS.iter().any(|words| text.contains(words))
    })
}
