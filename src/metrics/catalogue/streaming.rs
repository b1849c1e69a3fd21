//! Arrival times of the content events of a streamed response.

use super::{SECOND, ratio};
use crate::metrics::ConsoleGroup::Default;
use crate::metrics::metric::{Metric, MetricFlags as Flag};
use crate::metrics::tag;
use crate::units::Unit;

pub(super) const ABOUT: &str = "Arrival times of the content events of a streamed response. A \
                                content event is a stream event with text, reasoning or tool-call \
                                content; events with only a role, usage or `[DONE]` are not. Only \
                                with `--streaming` and endpoint types that produce tokens.";

pub(super) static ROWS: &[Metric] = &[
    Metric::record(
        tag::TIME_TO_FIRST_TOKEN,
        "Time to First Token",
        Unit::Nanoseconds,
        |facts, _| facts.until_content(0),
    )
    .short("TTFT")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .at(Default, 100)
    .says(
        "Time from sending the request to the first content event.",
        "content[0].arrival − request.start. Absent without content.",
    ),
    Metric::record(
        tag::TIME_TO_SECOND_TOKEN,
        "Time to Second Token",
        Unit::Nanoseconds,
        |facts, _| Some(facts.until_content(1)? - facts.until_content(0)?),
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
            let output = facts.response.content.iter().find(|piece| piece.is_output)?;
            Some(facts.since_start(output.arrival.at))
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
        |facts, _| Some(facts.since_start(facts.record.end) - facts.until_content(0)?),
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
            let streamed = facts.response.content.len() >= 2;
            let decode =
                values.scalar(tag::REQUEST_LATENCY)? - values.scalar(tag::TIME_TO_FIRST_TOKEN)?;
            // A count that lags, or that is the whole response, says nothing.
            let first = facts.first_content_tokens.map(|first| first as f64);
            let first = first.filter(|first| (1.0..tokens).contains(first)).unwrap_or(1.0);
            streamed.then(|| decode / (tokens - first))
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
         server reports with the first content event take the place of the 1.",
    ),
    Metric::record_list(
        tag::INTER_CHUNK_LATENCY,
        "Inter Chunk Latency",
        Unit::Nanoseconds,
        |facts| {
            let pieces = &facts.response.content;
            (pieces.len() >= 2).then(|| {
                pieces
                    .windows(2)
                    .map(|two| two[1].arrival.at.since(two[0].arrival.at).0 as f64)
                    .collect()
            })
        },
    )
    .short("ICL")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .off_console()
    .says(
        "Times between consecutive content events: a list for each request.",
        "content[i].arrival − content[i − 1].arrival for i ≥ 1; statistics are over all of them. \
         Absent with fewer than two content events.",
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
        |_, values| {
            let tokens =
                values.scalar(tag::OUTPUT_SEQUENCE_LENGTH).filter(|tokens| *tokens >= 2.0)?;
            Some(values.scalar(tag::FULL_DECODE_DURATION)? / (tokens - 1.0))
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
        "full_decode_duration / (output_sequence_length − 1). Absent with fewer than two tokens.",
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
