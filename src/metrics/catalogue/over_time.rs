//! How much went on at a time.

use crate::metrics::ConsoleGroup;
use crate::metrics::metric::{Metric, MetricFlags as Flag, MetricTag};
use crate::metrics::timeline::{Curve, Span};
use crate::units::Unit;

pub(super) const ABOUT: &str = "How much went on at a time, from the first request's start to the \
    last one's end, by the times of the requests themselves. Each value is weighed by how long it \
    lasted: `avg`, `std`, `min`, `max` and the percentiles 50, 90, 95 and 99, each the least \
    value that was not passed for so much of the time. A request is in prefill from its start to \
    its first content and in decode from there to its end, which comes after the last content \
    where the server sends usage or `[DONE]`. Requests that failed are in effective_concurrency \
    and in the time of active_total_throughput alone. `active_*` leave out the time in which no \
    request was in prefill, in decode or in flight.";

const TTFT: MetricTag = "time_to_first_token";
const ISL: MetricTag = "input_sequence_length";
const OSL: MetricTag = "output_sequence_length";

/// What a curve of a phase reads.
const PHASE: &[MetricTag] = &[TTFT];
const PREFILL: &[MetricTag] = &[TTFT, ISL];
const DECODE: &[MetricTag] = &[TTFT, OSL, "inter_chunk_latency"];
const BOTH: &[MetricTag] = &[TTFT, ISL, OSL];
const CHUNKS: &[MetricTag] = &[TTFT, ISL, OSL, "inter_chunk_latency"];

const BETTER: Flag = Flag::STREAMING_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER);

pub(super) static ROWS: &[Metric] = &[
    effective(
        "effective_concurrency",
        "Effective Concurrency",
        Unit::Requests,
        Curve::Concurrency,
        10,
    )
    .short("Eff Concurrency")
    .says("Requests in flight.", "Requests from request.start to request.end, failed ones too."),
    effective(
        "effective_decode_throughput",
        "Effective Decode Throughput",
        Unit::TokensPerSecond,
        Curve::DecodeThroughput,
        20,
    )
    .short("Eff Decode TPS")
    .flagged(BETTER)
    .requires(DECODE)
    .says(
        "Output tokens per second, as they came.",
        "Σ of the requests in decode: (output_sequence_length − 1) / (gaps that are not 0) / gap, \
         in the gap between two pieces of content. Absent where no output came in pieces.",
    ),
    effective(
        "effective_prefill_throughput",
        "Effective Prefill Throughput",
        Unit::TokensPerSecond,
        Curve::PrefillThroughput,
        30,
    )
    .short("Eff Prefill TPS")
    .flagged(BETTER)
    .requires(PREFILL)
    .says(
        "Input tokens per second that the server takes in.",
        "Σ of the requests in prefill: input_sequence_length / time_to_first_token.",
    ),
    effective(
        "effective_decode_concurrency",
        "Effective Decode Concurrency",
        Unit::Requests,
        Curve::DecodeConcurrency,
        40,
    )
    .short("Eff Decode Conc")
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .requires(PHASE)
    .says("Requests in decode.", "Requests from their first content to request.end."),
    effective(
        "effective_prefill_concurrency",
        "Effective Prefill Concurrency",
        Unit::Requests,
        Curve::PrefillConcurrency,
        50,
    )
    .short("Eff Prefill Conc")
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .requires(PHASE)
    .says("Requests in prefill.", "Requests from request.start to their first content."),
    effective(
        "effective_total_throughput",
        "Effective Total Throughput",
        Unit::TokensPerSecond,
        Curve::TotalThroughput,
        60,
    )
    .short("Eff Total TPS")
    .flagged(BETTER)
    .requires(BOTH)
    .says(
        "Tokens per second, in and out.",
        "Σ of the requests in prefill: input_sequence_length / time_to_first_token; in decode: \
         (output_sequence_length − 1) / (request.end − first content), evenly.",
    ),
    effective(
        "effective_decode_throughput_per_user",
        "Effective Decode Throughput Per User",
        Unit::TokensPerSecondPerUser,
        Curve::DecodeThroughputPerUser,
        70,
    )
    .short("Eff Decode TPS/User")
    .flagged(BETTER)
    .requires(DECODE)
    .says(
        "Output tokens per second of a request in decode, as they came.",
        "effective_decode_throughput / effective_decode_concurrency, at each moment; 0 where the \
         latter is.",
    ),
    effective(
        "effective_prefill_throughput_per_user",
        "Effective Prefill Throughput Per User",
        Unit::TokensPerSecondPerUser,
        Curve::PrefillThroughputPerUser,
        80,
    )
    .short("Eff Prefill TPS/User")
    .flagged(BETTER)
    .requires(PREFILL)
    .says(
        "Input tokens per second of a request in prefill.",
        "effective_prefill_throughput / effective_prefill_concurrency, at each moment; 0 where \
         the latter is.",
    ),
    effective("tokens_in_flight", "Tokens In Flight", Unit::Tokens, Curve::TokensInFlight, 90)
        .flagged(Flag::STREAMING_TOKENS_ONLY)
        .requires(CHUNKS)
        .says(
            "Tokens that the server holds for the requests in flight: what fills its KV cache.",
            "Σ of the requests: input_sequence_length from request.start, 1 more from the first \
         content, (output_sequence_length − 1) / gaps more from each further piece, up to \
         request.end. Output in one piece comes whole with it.",
        ),
    active(
        "active_decode_throughput",
        "Active Decode Throughput",
        Unit::TokensPerSecond,
        Curve::DecodeThroughput,
        10,
    )
    .short("Act Decode TPS")
    .requires(DECODE)
    .says(
        "Output tokens per second, as they came, while a request was in decode.",
        "effective_decode_throughput where effective_decode_concurrency > 0.",
    ),
    active(
        "active_prefill_throughput",
        "Active Prefill Throughput",
        Unit::TokensPerSecond,
        Curve::PrefillThroughput,
        20,
    )
    .short("Act Prefill TPS")
    .requires(PREFILL)
    .says(
        "Input tokens per second that the server takes in while a request is in prefill.",
        "effective_prefill_throughput where effective_prefill_concurrency > 0.",
    ),
    active(
        "active_decode_throughput_per_user",
        "Active Decode Throughput Per User",
        Unit::TokensPerSecondPerUser,
        Curve::DecodeThroughputPerUser,
        30,
    )
    .short("Act Decode TPS/User")
    .requires(DECODE)
    .says(
        "Output tokens per second of a request in decode, while there was one.",
        "effective_decode_throughput_per_user where effective_decode_concurrency > 0.",
    ),
    active(
        "active_prefill_throughput_per_user",
        "Active Prefill Throughput Per User",
        Unit::TokensPerSecondPerUser,
        Curve::PrefillThroughputPerUser,
        40,
    )
    .short("Act Prefill TPS/User")
    .requires(PREFILL)
    .says(
        "Input tokens per second of a request in prefill, while there was one.",
        "effective_prefill_throughput_per_user where effective_prefill_concurrency > 0.",
    ),
    active(
        "active_total_throughput",
        "Active Total Throughput",
        Unit::TokensPerSecond,
        Curve::TotalThroughput,
        50,
    )
    .short("Act Total TPS")
    .requires(BOTH)
    .says(
        "Tokens per second, in and out, while a request was in flight.",
        "effective_total_throughput where effective_concurrency > 0.",
    ),
];

const fn effective(
    tag: MetricTag,
    header: &'static str,
    unit: Unit,
    curve: Curve,
    order: u32,
) -> Metric {
    Metric::over_time(tag, header, unit, curve, Span::Whole).at(ConsoleGroup::Effective, order)
}

const fn active(
    tag: MetricTag,
    header: &'static str,
    unit: Unit,
    curve: Curve,
    order: u32,
) -> Metric {
    let row = Metric::over_time(tag, header, unit, curve, Span::Active);
    row.flagged(BETTER).at(ConsoleGroup::Active, order)
}
