//! When the pieces of a streamed response arrive.

use super::{SECOND, ratio};
use crate::metrics::ConsoleGroup::Default;
use crate::metrics::metric::{Metric, MetricFlags as Flag};
use crate::units::Unit;

pub(super) const ABOUT: &str = "When the pieces of a streamed response arrive. A piece is an \
    event with text, reasoning or tool-call content; events with a role, usage or `[DONE]` alone \
    are none. Only with `--streaming` and endpoints that produce tokens.";

pub(super) static ROWS: &[Metric] = &[
    Metric::record("time_to_first_token", "Time to First Token", Unit::Nanoseconds, |facts, _| {
        facts.until_content(0)
    })
    .short("TTFT")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .at(Default, 100)
    .says(
        "Time from sending the request to the first piece of content.",
        "content[0].arrival − request.start. Absent without content.",
    ),
    Metric::record(
        "time_to_second_token",
        "Time to Second Token",
        Unit::Nanoseconds,
        |facts, _| Some(facts.until_content(1)? - facts.until_content(0)?),
    )
    .short("TTST")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .at(Default, 200)
    .says(
        "Time between the first and the second piece of content.",
        "content[1].arrival − content[0].arrival. Absent with fewer than two pieces.",
    ),
    Metric::record(
        "time_to_first_output_token",
        "Time to First Output Token",
        Unit::Nanoseconds,
        |facts, _| {
            let output = facts.response.content.iter().find(|piece| piece.is_output)?;
            Some(facts.since_start(output.arrival))
        },
    )
    .short("TTFO")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY.union(Flag::SUPPORTS_REASONING))
    .at(Default, 210)
    .says(
        "Time from sending the request to the first piece of content that is not reasoning.",
        "first(content that is output).arrival − request.start. Absent where all content is \
         reasoning.",
    ),
    Metric::record("decode_duration", "Decode Duration", Unit::Nanoseconds, |_, values| {
        Some(values.scalar("request_latency")? - values.scalar("time_to_first_token")?)
    })
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .at(Default, 350)
    .requires(&["request_latency", "time_to_first_token"])
    .says(
        "Time from the first to the last piece of content.",
        "request_latency − time_to_first_token; 0 with one piece.",
    ),
    Metric::record(
        "inter_token_latency",
        "Inter Token Latency",
        Unit::Nanoseconds,
        |facts, values| {
            let tokens = values.scalar("output_sequence_length").filter(|tokens| *tokens >= 2.0)?;
            let streamed = facts.response.content.len() >= 2;
            let decode =
                values.scalar("request_latency")? - values.scalar("time_to_first_token")?;
            streamed.then(|| decode / (tokens - 1.0))
        },
    )
    .float()
    .short("ITL")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .at(Default, 400)
    .requires(&["output_sequence_length", "request_latency", "time_to_first_token"])
    .says(
        "Mean time between tokens after the first.",
        "(request_latency − time_to_first_token) / (output_sequence_length − 1). Absent with \
         fewer than two pieces of content or two tokens.",
    ),
    Metric::record_list("inter_chunk_latency", "Inter Chunk Latency", Unit::Nanoseconds, |facts| {
        let pieces = &facts.response.content;
        (pieces.len() >= 2).then(|| {
            pieces.windows(2).map(|two| two[1].arrival.since(two[0].arrival).0 as f64).collect()
        })
    })
    .short("ICL")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .off_console()
    .says(
        "Times between consecutive pieces of content: a list for each request.",
        "content[i].arrival − content[i − 1].arrival for i ≥ 1; statistics are over all of them. \
         Absent with fewer than two pieces.",
    ),
    Metric::record(
        "output_token_throughput_per_user",
        "Output Token Throughput Per User",
        Unit::TokensPerSecondPerUser,
        |_, values| ratio(1.0, values.scalar("inter_token_latency")? / SECOND),
    )
    .float()
    .short("Output TPS/User")
    .flagged(Flag::STREAMING_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .at(Default, 500)
    .requires(&["inter_token_latency"])
    .says(
        "Tokens per second that one user sees after the first token.",
        "1 / inter_token_latency in seconds. Absent where that is absent or zero.",
    ),
    Metric::record(
        "prefill_throughput_per_user",
        "Prefill Throughput Per User",
        Unit::TokensPerSecondPerUser,
        |_, values| {
            let seconds = values.scalar("time_to_first_token")? / SECOND;
            ratio(values.scalar("input_sequence_length")?, seconds)
        },
    )
    .float()
    .short("Prefill TPS/User")
    .flagged(
        Flag::STREAMING_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER).union(Flag::TOKENIZES_INPUT_ONLY),
    )
    .off_console()
    .requires(&["input_sequence_length", "time_to_first_token"])
    .says(
        "Input tokens per second until the first token.",
        "input_sequence_length / time_to_first_token in seconds.",
    ),
    Metric::record(
        "stream_setup_latency",
        "Stream Setup Latency",
        Unit::Nanoseconds,
        |facts, _| facts.record.ack.map(|ack| facts.since_start(ack)),
    )
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_ONLY.union(Flag::EXPERIMENTAL))
    .says(
        "Time from sending the request to the response's headers. Some servers send them with \
         the first token only; then it says nothing.",
        "response.headers_complete − request.start.",
    ),
    Metric::record(
        "stream_prefill_latency",
        "Stream Prefill Latency",
        Unit::Nanoseconds,
        |_, values| {
            Some(values.scalar("time_to_first_token")? - values.scalar("stream_setup_latency")?)
        },
    )
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY.union(Flag::EXPERIMENTAL))
    .requires(&["stream_setup_latency", "time_to_first_token"])
    .says(
        "Time from the response's headers to the first piece of content.",
        "time_to_first_token − stream_setup_latency.",
    ),
];
