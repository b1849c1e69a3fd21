//! Arrival times of the content events of a streamed response.

use base::units::Unit;
use client::endpoint::ContentPiece;

use super::{SECOND, ratio};
use crate::metrics::ConsoleGroup::Default;
use crate::metrics::metric::{Facts, Metric, MetricFlags as Flag, MetricKind};
use crate::metrics::tag;

pub(super) const ABOUT: &str = "Arrival times of the content events of a streamed response. A \
                                content event is a stream event with text, reasoning or tool-call \
                                content; events with only a role, usage or `[DONE]` are not. Only \
                                with `--streaming` and endpoint types that produce tokens.";

/// Longest time between content events that arrive together: an engine needs longer for a token.
const TOGETHER_NS: f64 = 50_000.0;

/// Returns the times between the consecutive content events of each choice, in nanoseconds.
fn gaps<'a>(facts: &'a Facts<'_>) -> impl Iterator<Item = f64> + 'a {
    let of_choice = |pieces: &'a [ContentPiece]| {
        pieces.windows(2).map(|two| two[1].arrival.at.since(two[0].arrival.at).0 as f64)
    };
    facts.choices().flat_map(of_choice)
}

/// Returns the sum of the times between the first and the last content event of each choice, in
/// nanoseconds; `None` if no choice has two.
fn decode_by_choice(facts: &Facts<'_>) -> Option<f64> {
    let several = || facts.choices().filter(|pieces| pieces.len() >= 2);
    several().next()?;
    let of_choice = |pieces: &[ContentPiece]| {
        let [first, .., last] = pieces else { return 0.0 };
        last.arrival.at.since(first.arrival.at).0 as f64
    };
    Some(several().map(of_choice).sum())
}

pub(super) static ROWS: &[Metric] = &[
    Metric::record(
        tag::TIME_TO_FIRST_TOKEN,
        "Time to First Token",
        Unit::Nanoseconds,
        |facts, _| facts.until_first_content(),
    )
    .short("TTFT")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .at(Default, 100)
    .says(
        "Time from sending the request to the first content event.",
        "content[0].arrival − request.start; with several choices, the mean over them. Absent without \
         content.",
    ),
    Metric::record(
        tag::TIME_TO_SECOND_TOKEN,
        "Time to Second Token",
        Unit::Nanoseconds,
        |facts, _| {
            facts.mean_of_choices(|pieces| {
                let [first, second, ..] = pieces else { return None };
                Some(second.arrival.at.since(first.arrival.at).0 as f64)
            })
        },
    )
    .short("TTST")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .at(Default, 200)
    .says(
        "Time between the first and the second content event.",
        "content[1].arrival − content[0].arrival. Absent with fewer than two content events.",
    ),
    Metric::record(
        tag::TIME_TO_FIRST_OUTPUT_TOKEN,
        "Time to First Output Token",
        Unit::Nanoseconds,
        |facts, _| {
            facts.mean_of_choices(|pieces| {
                let output = pieces.iter().find(|piece| piece.is_output)?;
                Some(facts.since_start(output.arrival.at))
            })
        },
    )
    .short("TTFO")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY.union(Flag::SUPPORTS_REASONING))
    .at(Default, 210)
    .says(
        "Time from sending the request to the first content event that is not reasoning.",
        "first(content that is not reasoning).arrival − request.start. Absent if all content is \
         reasoning.",
    ),
    Metric::record(tag::DECODE_DURATION, "Decode Duration", Unit::Nanoseconds, |_, values| {
        Some(values.scalar(tag::REQUEST_LATENCY)? - values.scalar(tag::TIME_TO_FIRST_TOKEN)?)
    })
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .at(Default, 350)
    .requires(&[tag::REQUEST_LATENCY, tag::TIME_TO_FIRST_TOKEN])
    .says(
        "Time from the first to the last content event.",
        "request_latency − time_to_first_token; 0 with a single content event.",
    ),
    Metric::record(
        tag::FULL_DECODE_DURATION,
        "Full Decode Duration",
        Unit::Nanoseconds,
        |facts, _| Some(facts.since_start(facts.record.end) - facts.until_first_content()?),
    )
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .off_console()
    .says(
        "Time from the first content event to the end of the response.",
        "response.end − content[0].arrival. Absent without content.",
    ),
    Metric::record(
        tag::INTER_TOKEN_LATENCY,
        "Inter Token Latency",
        Unit::Nanoseconds,
        |facts, values| {
            let tokens =
                values.scalar(tag::OUTPUT_SEQUENCE_LENGTH).filter(|tokens| *tokens >= 2.0)?;
            let decode = decode_by_choice(facts)?;
            let choices = facts.choices().count() as f64;
            // A count that lags, or that is the whole response, says nothing.
            let first = facts.first_content_tokens.map(|first| first as f64);
            let first = first.filter(|first| (choices..tokens).contains(first)).unwrap_or(choices);
            (tokens > first).then(|| decode / (tokens - first))
        },
    )
    .float()
    .short("ITL")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .at(Default, 400)
    .requires(&[tag::OUTPUT_SEQUENCE_LENGTH, tag::REQUEST_LATENCY, tag::TIME_TO_FIRST_TOKEN])
    .says(
        "Mean time between tokens after the first.",
        "(request_latency − time_to_first_token) / (output_sequence_length − 1). Absent with \
         fewer than two content events or two tokens. With `--per-chunk-usage`, the tokens that the \
         server reports with the first content event take the place of the 1. With n choices, the sum \
         of the times between the first and the last content event of each, divided by \
         (output_sequence_length − n).",
    ),
    Metric::record_list(
        tag::INTER_CHUNK_LATENCY,
        "Inter Chunk Latency",
        Unit::Nanoseconds,
        |facts| {
            let gaps: Vec<f64> = gaps(facts).collect();
            (!gaps.is_empty()).then_some(gaps)
        },
    )
    .short("ICL")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .off_console()
    .says(
        "Times between consecutive content events: a list for each request.",
        "content[i].arrival − content[i − 1].arrival for i ≥ 1, of the same choice; statistics are over \
         all of them. Absent with fewer than two content events.",
    ),
    Metric::record(tag::CHUNK_COUNT, "Chunk Count", Unit::Count, |facts, _| {
        Some(facts.pieces.len() as f64).filter(|count| *count > 0.0)
    })
    .short("Chunks")
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .off_console()
    .says("Content events of a response.", "count(content). Absent without content."),
    Metric::record(
        tag::COALESCED_CHUNK_COUNT,
        "Coalesced Chunk Count",
        Unit::Count,
        |facts, _| {
            let is_together = |gap: &f64| *gap <= TOGETHER_NS;
            let count = gaps(facts).filter(is_together).count();
            (!facts.pieces.is_empty()).then_some(count as f64)
        },
    )
    .short("Coalesced Chunks")
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .off_console()
    .says(
        "Content events of a response that arrived together with the one before.",
        "count(content[i].arrival − content[i − 1].arrival ≤ 50 µs), of the same choice. Absent without \
         content.",
    ),
    Metric::share_of(
        tag::COALESCED_CHUNK_SHARE,
        "Coalesced Chunk Share",
        &[tag::COALESCED_CHUNK_COUNT, tag::CHUNK_COUNT],
    )
    .short("Coalesced Chunks %")
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .off_console()
    .says(
        "Share of the content events that arrived together with the one before.",
        "100 * sum(coalesced_chunk_count) / sum(chunk_count); `sum` and `count` are these two sums.",
    ),
    Metric::aggregate(
        tag::BUFFERED_RESPONSE_COUNT,
        "Buffered Response Count",
        Unit::Requests,
        MetricKind::Tally(|observation, _| {
            let values = &observation.values;
            let tokens = values.scalar(tag::OUTPUT_SEQUENCE_LENGTH)?;
            let chunks = values.scalar(tag::CHUNK_COUNT)?;
            let together = values.scalar(tag::COALESCED_CHUNK_COUNT)?;
            Some(tokens >= 2.0 && together + 1.0 >= chunks)
        }),
    )
    .short("Buffered Responses")
    .flagged(Flag::STREAMING_TOKENS_ONLY.union(Flag::NO_INDIVIDUAL_RECORDS))
    .off_console()
    .requires(&[tag::OUTPUT_SEQUENCE_LENGTH, tag::CHUNK_COUNT, tag::COALESCED_CHUNK_COUNT])
    .says(
        "Requests whose output of several tokens arrived all at once.",
        "count(records with output_sequence_length ≥ 2 and coalesced_chunk_count = chunk_count − 1). \
         Absent without content.",
    ),
    Metric::record(
        tag::OUTPUT_TOKEN_THROUGHPUT_PER_USER,
        "Output Token Throughput Per User",
        Unit::TokensPerSecondPerUser,
        |_, values| ratio(1.0, values.scalar(tag::INTER_TOKEN_LATENCY)? / SECOND),
    )
    .float()
    .short("Output TPS/User")
    .flagged(Flag::STREAMING_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .at(Default, 500)
    .requires(&[tag::INTER_TOKEN_LATENCY])
    .says(
        "Tokens per second that one user sees after the first token.",
        "1 / inter_token_latency in seconds. Absent if that is absent or zero.",
    ),
    Metric::record(
        tag::FULL_RESPONSE_INTER_TOKEN_LATENCY,
        "Full Response Inter Token Latency",
        Unit::Nanoseconds,
        |facts, values| {
            let tokens =
                values.scalar(tag::OUTPUT_SEQUENCE_LENGTH).filter(|tokens| *tokens >= 2.0)?;
            let choices = facts.choices().count() as f64;
            let decode = values.scalar(tag::FULL_DECODE_DURATION)? * choices;
            (tokens > choices).then(|| decode / (tokens - choices))
        },
    )
    .float()
    .short("Full ITL")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .off_console()
    .requires(&[tag::OUTPUT_SEQUENCE_LENGTH, tag::FULL_DECODE_DURATION])
    .says(
        "Mean time between tokens after the first, until the end of the response.",
        "full_decode_duration / (output_sequence_length − 1); with n choices, n · full_decode_duration \
         / (output_sequence_length − n). Absent with fewer than two tokens.",
    ),
    Metric::record(
        tag::FULL_RESPONSE_OUTPUT_TOKEN_THROUGHPUT_PER_USER,
        "Full Response Output Token Throughput Per User",
        Unit::TokensPerSecondPerUser,
        |_, values| ratio(1.0, values.scalar(tag::FULL_RESPONSE_INTER_TOKEN_LATENCY)? / SECOND),
    )
    .float()
    .short("Full TPS/User")
    .flagged(Flag::STREAMING_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .off_console()
    .requires(&[tag::FULL_RESPONSE_INTER_TOKEN_LATENCY])
    .says(
        "Tokens per second that one user sees after the first token, until the end of the response.",
        "1 / full_response_inter_token_latency in seconds. Absent if that is absent or zero.",
    ),
    Metric::record(
        tag::PREFILL_THROUGHPUT_PER_USER,
        "Prefill Throughput Per User",
        Unit::TokensPerSecondPerUser,
        |_, values| {
            let seconds = values.scalar(tag::TIME_TO_FIRST_TOKEN)? / SECOND;
            ratio(values.scalar(tag::INPUT_SEQUENCE_LENGTH)?, seconds)
        },
    )
    .float()
    .short("Prefill TPS/User")
    .flagged(
        Flag::STREAMING_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER).union(Flag::TOKENIZES_INPUT_ONLY),
    )
    .off_console()
    .requires(&[tag::INPUT_SEQUENCE_LENGTH, tag::TIME_TO_FIRST_TOKEN])
    .says(
        "Input tokens per second until the first token.",
        "input_sequence_length / time_to_first_token in seconds.",
    ),
    Metric::record(
        tag::STREAM_SETUP_LATENCY,
        "Stream Setup Latency",
        Unit::Nanoseconds,
        |facts, _| facts.record.ack.map(|ack| facts.since_start(ack)),
    )
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_ONLY.union(Flag::EXPERIMENTAL))
    .says(
        "Time from sending the request to the response headers. Not meaningful for servers that \
         send headers together with the first token.",
        "response.headers_complete − request.start.",
    ),
    Metric::record(
        tag::STREAM_PREFILL_LATENCY,
        "Stream Prefill Latency",
        Unit::Nanoseconds,
        |_, values| {
            Some(
                values.scalar(tag::TIME_TO_FIRST_TOKEN)?
                    - values.scalar(tag::STREAM_SETUP_LATENCY)?,
            )
        },
    )
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY.union(Flag::EXPERIMENTAL))
    .requires(&[tag::STREAM_SETUP_LATENCY, tag::TIME_TO_FIRST_TOKEN])
    .says(
        "Time from the response headers to the first content event.",
        "time_to_first_token − stream_setup_latency.",
    ),
];
