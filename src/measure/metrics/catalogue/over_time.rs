//! Concurrency and throughput over time.

use base::units::Unit;

use crate::metrics::ConsoleGroup;
use crate::metrics::metric::{Metric, MetricFlags as Flag};
use crate::metrics::tag;
use crate::metrics::tag::MetricTag;
use crate::metrics::timeline::{Curve, Span};

pub(super) const ABOUT: &str = "Concurrency and throughput over time, from the start of the first \
                                request to the end of the last, reconstructed from the timestamps \
                                of the requests. Each value is weighted by how long it lasted: \
                                `avg`, `std`, `min`, `max` and the percentiles 50, 90, 95 and 99, \
                                each the smallest value that was not exceeded for that fraction of \
                                the time. A request is in prefill from its start to its first \
                                content event and in decode from there to its end, which is after \
                                the last content event if the server sends usage or `[DONE]`. \
                                Failed requests are included only in effective_concurrency and in \
                                the time of active_total_throughput. `active_*` exclude the time \
                                in which no request was in prefill, in decode or in flight, \
                                respectively.";

const TTFT: MetricTag = tag::TIME_TO_FIRST_TOKEN;
const ISL: MetricTag = tag::INPUT_SEQUENCE_LENGTH;
const OSL: MetricTag = tag::OUTPUT_SEQUENCE_LENGTH;

/// The metrics that a curve depends on.
const PHASE: &[MetricTag] = &[TTFT];
const PREFILL: &[MetricTag] = &[TTFT, ISL];
const DECODE: &[MetricTag] = &[TTFT, OSL, tag::INTER_CHUNK_LATENCY];
const BOTH: &[MetricTag] = &[TTFT, ISL, OSL];
const CHUNKS: &[MetricTag] = &[TTFT, ISL, OSL, tag::INTER_CHUNK_LATENCY];

const BETTER: Flag = Flag::STREAMING_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER);

pub(super) static ROWS: &[Metric] = &[
    effective(
        tag::EFFECTIVE_CONCURRENCY,
        "Effective Concurrency",
        Unit::Requests,
        Curve::Concurrency,
        10,
    )
    .short("Eff Concurrency")
    .says(
        "Requests in flight.",
        "Requests from request.start to request.end, including failed ones.",
    ),
    effective(
        tag::EFFECTIVE_DECODE_THROUGHPUT,
        "Effective Decode Throughput",
        Unit::TokensPerSecond,
        Curve::DecodeThroughput,
        20,
    )
    .short("Eff Decode TPS")
    .flagged(BETTER)
    .requires(DECODE)
    .says(
        "Output tokens per second, as they arrived.",
        "Σ over requests in decode: (output_sequence_length − 1) / (number of nonzero gaps) / gap, \
         in the gap between two content events. Absent if no output had several content events.",
    ),
    effective(
        tag::EFFECTIVE_PREFILL_THROUGHPUT,
        "Effective Prefill Throughput",
        Unit::TokensPerSecond,
        Curve::PrefillThroughput,
        30,
    )
    .short("Eff Prefill TPS")
    .flagged(BETTER)
    .requires(PREFILL)
    .says(
        "Input tokens per second that the server processes.",
        "Σ over requests in prefill: input_sequence_length / time_to_first_token.",
    ),
    effective(
        tag::EFFECTIVE_DECODE_CONCURRENCY,
        "Effective Decode Concurrency",
        Unit::Requests,
        Curve::DecodeConcurrency,
        40,
    )
    .short("Eff Decode Conc")
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .requires(PHASE)
    .says("Requests in decode.", "Requests from their first content event to request.end."),
    effective(
        tag::EFFECTIVE_PREFILL_CONCURRENCY,
        "Effective Prefill Concurrency",
        Unit::Requests,
        Curve::PrefillConcurrency,
        50,
    )
    .short("Eff Prefill Conc")
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .requires(PHASE)
    .says("Requests in prefill.", "Requests from request.start to their first content event."),
    effective(
        tag::EFFECTIVE_TOTAL_THROUGHPUT,
        "Effective Total Throughput",
        Unit::TokensPerSecond,
        Curve::TotalThroughput,
        60,
    )
    .short("Eff Total TPS")
    .flagged(BETTER)
    .requires(BOTH)
    .says(
        "Input and output tokens per second.",
        "Σ over requests in prefill: input_sequence_length / time_to_first_token; in decode: \
         (output_sequence_length − 1) / (request.end − first content event).",
    ),
    effective(
        tag::EFFECTIVE_DECODE_THROUGHPUT_PER_USER,
        "Effective Decode Throughput Per User",
        Unit::TokensPerSecondPerUser,
        Curve::DecodeThroughputPerUser,
        70,
    )
    .short("Eff Decode TPS/User")
    .flagged(BETTER)
    .requires(DECODE)
    .says(
        "Output tokens per second per request in decode, as they arrived.",
        "effective_decode_throughput / effective_decode_concurrency, at each moment; 0 if the \
         latter is 0.",
    ),
    effective(
        tag::EFFECTIVE_PREFILL_THROUGHPUT_PER_USER,
        "Effective Prefill Throughput Per User",
        Unit::TokensPerSecondPerUser,
        Curve::PrefillThroughputPerUser,
        80,
    )
    .short("Eff Prefill TPS/User")
    .flagged(BETTER)
    .requires(PREFILL)
    .says(
        "Input tokens per second per request in prefill.",
        "effective_prefill_throughput / effective_prefill_concurrency, at each moment; 0 if \
         the latter is 0.",
    ),
    effective(tag::TOKENS_IN_FLIGHT, "Tokens In Flight", Unit::Tokens, Curve::TokensInFlight, 90)
        .flagged(Flag::STREAMING_TOKENS_ONLY)
        .requires(CHUNKS)
        .says(
            "Tokens of the requests in flight, which the server holds in its KV cache.",
            "Σ over requests: input_sequence_length from request.start, plus 1 from the first \
         content event, plus (output_sequence_length − 1) / gaps from each further content event, \
         until request.end. The output of a single content event is added with that event.",
        ),
    active(
        tag::ACTIVE_DECODE_THROUGHPUT,
        "Active Decode Throughput",
        Unit::TokensPerSecond,
        Curve::DecodeThroughput,
        10,
    )
    .short("Act Decode TPS")
    .requires(DECODE)
    .says(
        "Output tokens per second, as they arrived, while any request was in decode.",
        "effective_decode_throughput while effective_decode_concurrency > 0.",
    ),
    active(
        tag::ACTIVE_PREFILL_THROUGHPUT,
        "Active Prefill Throughput",
        Unit::TokensPerSecond,
        Curve::PrefillThroughput,
        20,
    )
    .short("Act Prefill TPS")
    .requires(PREFILL)
    .says(
        "Input tokens per second that the server processes while any request is in prefill.",
        "effective_prefill_throughput while effective_prefill_concurrency > 0.",
    ),
    active(
        tag::ACTIVE_DECODE_THROUGHPUT_PER_USER,
        "Active Decode Throughput Per User",
        Unit::TokensPerSecondPerUser,
        Curve::DecodeThroughputPerUser,
        30,
    )
    .short("Act Decode TPS/User")
    .requires(DECODE)
    .says(
        "Output tokens per second per request in decode, while there was any.",
        "effective_decode_throughput_per_user while effective_decode_concurrency > 0.",
    ),
    active(
        tag::ACTIVE_PREFILL_THROUGHPUT_PER_USER,
        "Active Prefill Throughput Per User",
        Unit::TokensPerSecondPerUser,
        Curve::PrefillThroughputPerUser,
        40,
    )
    .short("Act Prefill TPS/User")
    .requires(PREFILL)
    .says(
        "Input tokens per second per request in prefill, while there was any.",
        "effective_prefill_throughput_per_user while effective_prefill_concurrency > 0.",
    ),
    active(
        tag::ACTIVE_TOTAL_THROUGHPUT,
        "Active Total Throughput",
        Unit::TokensPerSecond,
        Curve::TotalThroughput,
        50,
    )
    .short("Act Total TPS")
    .requires(BOTH)
    .says(
        "Input and output tokens per second, while any request was in flight.",
        "effective_total_throughput while effective_concurrency > 0.",
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
