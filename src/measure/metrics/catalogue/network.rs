//! The round-trip time of the network, and latencies without it.

use base::units::Unit;

use crate::metrics::ConsoleGroup::Default;
use crate::metrics::metric::{Metric, MetricFlags as Flag};
use crate::metrics::tag::{self, MetricTag};

pub(super) const ABOUT: &str = "The time that a message takes to the server and back, and \
                                latencies without it, beside the measured ones ([network \
                                latency](server-metrics.md#network-latency)). Only with \
                                `--network-latency-automatic` or `--network-latency-mean`, and \
                                only over the whole profiling phase and its steady state: it is \
                                known after the run, so single requests, time slices and \
                                breakdowns do not have them.";

pub(super) static ROWS: &[Metric] = &[
    Metric::round_trip(tag::NETWORK_RTT, "Network RTT", Unit::Nanoseconds)
        .short("Net RTT")
        .shown_in(Unit::Milliseconds)
        .flagged(Flag::NO_INDIVIDUAL_RECORDS)
        .at(Default, 305)
        .says(
            "Round-trip time to the server that is subtracted from latencies.",
            "Mean duration of the successful TCP connects, or the given time. One number, so that \
             all statistics are the same and `std` is 0. Absent if no connect succeeded.",
        ),
    less(
        tag::NETWORK_ADJUSTED_TIME_TO_FIRST_TOKEN,
        "Network-Adjusted Time to First Token",
        &[tag::TIME_TO_FIRST_TOKEN],
    )
    .short("Net-Adj TTFT")
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .at(Default, 101)
    .says(
        "Time to the first content event without the network's round trip.",
        "max(time_to_first_token − network_rtt, 0) of each request.",
    ),
    less(
        tag::NETWORK_ADJUSTED_TIME_TO_FIRST_OUTPUT_TOKEN,
        "Network-Adjusted Time to First Output Token",
        &[tag::TIME_TO_FIRST_OUTPUT_TOKEN],
    )
    .short("Net-Adj TTFO")
    .flagged(Flag::STREAMING_TOKENS_ONLY.union(Flag::SUPPORTS_REASONING))
    .at(Default, 211)
    .says(
        "Time to the first content event that is not reasoning, without the network's round trip.",
        "max(time_to_first_output_token − network_rtt, 0) of each request.",
    ),
    less(
        tag::NETWORK_ADJUSTED_REQUEST_LATENCY,
        "Network-Adjusted Request Latency",
        &[tag::REQUEST_LATENCY],
    )
    .short("Net-Adj Req Latency")
    .at(Default, 301)
    .says(
        "Time to the last content event without the network's round trip.",
        "max(request_latency − network_rtt, 0) of each request.",
    ),
];

/// Returns a row without its description.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the row keeps the reference")]
const fn less(tag: MetricTag, header: &'static str, of: &'static [MetricTag; 1]) -> Metric {
    Metric::less_round_trip(tag, header, Unit::Nanoseconds, of).shown_in(Unit::Milliseconds)
}
