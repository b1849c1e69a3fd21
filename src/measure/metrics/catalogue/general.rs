//! Metrics of every run: latency, counts, throughput, duration.

use base::units::Unit;

use super::{per_second, ratio};
use crate::metrics::ConsoleGroup::Default;
use crate::metrics::metric::{Metric, MetricFlags as Flag, MetricKind, Rank, Totals};
use crate::metrics::tag;

pub(super) const ABOUT: &str = "Metrics of every run.";

pub(super) static ROWS: &[Metric] = &[
    Metric::record(tag::REQUEST_LATENCY, "Request Latency", Unit::Nanoseconds, |facts, _| {
        facts.response.content.last().map(|piece| facts.since_start(piece.arrival.at))
    })
    .short("Req Latency")
    .shown_in(Unit::Milliseconds)
    .at(Default, 300)
    .says(
        "Time from sending the request to its last content event.",
        "content[last].arrival − request.start. A response that is not streamed is a single \
         content event. Absent without content.",
    ),
    Metric::aggregate(
        tag::REQUEST_COUNT,
        "Request Count",
        Unit::Requests,
        MetricKind::Tally(|observation, _| Some(observation.error.is_none())),
    )
    .short("Requests")
    .flagged(Flag::LARGER_IS_BETTER.union(Flag::NO_INDIVIDUAL_RECORDS))
    .at(Default, 1100)
    .says("Successful requests.", "count(records without error). Absent without any record."),
    Metric::aggregate(
        tag::ERROR_REQUEST_COUNT,
        "Error Request Count",
        Unit::Requests,
        MetricKind::Tally(|observation, _| observation.error.as_ref().map(|_| true)),
    )
    .short("Error Count")
    .flagged(Flag::ERROR_ONLY.union(Flag::NO_INDIVIDUAL_RECORDS))
    .says(
        "Requests that failed or were cancelled.",
        "count(records with an error). Absent if none failed.",
    ),
    Metric::aggregate(
        tag::INCOMPLETE_HISTORY_COUNT,
        "Incomplete History Count",
        Unit::Requests,
        MetricKind::Tally(|observation, _| (observation.missing_answers > 0).then_some(true)),
    )
    .short("Incomplete History")
    .flagged(Flag::NO_INDIVIDUAL_RECORDS)
    .off_console()
    .says(
        "Requests that were sent without an earlier response of their session, since that turn \
         had failed.",
        "count(records with `missing_answers` > 0), including failed requests. Absent if there are \
         none.",
    ),
    Metric::derived(
        tag::COMPLETED_REQUEST_COUNT,
        "Completed Requests (Success + Error)",
        Unit::Requests,
        |totals| Some(completed(totals)).filter(|completed| *completed > 0.0),
    )
    .int()
    .short("Completed")
    .flagged(Flag::NO_INDIVIDUAL_RECORDS)
    .at(Default, 1075)
    .requires(&[tag::ERROR_REQUEST_COUNT, tag::REQUEST_COUNT])
    .says(
        "Requests that succeeded or failed.",
        "request_count + error_request_count. Absent without any record.",
    ),
    Metric::derived(tag::REQUEST_ERROR_RATE, "Request Error Rate", Unit::Percent, |totals| {
        let failed = totals.total(tag::ERROR_REQUEST_COUNT).unwrap_or(0.0);
        Some(ratio(failed, completed(totals))? * 100.0)
    })
    .short("Err %")
    .flagged(Flag::NO_INDIVIDUAL_RECORDS)
    .at(Default, 1080)
    .requires(&[tag::ERROR_REQUEST_COUNT, tag::REQUEST_COUNT])
    .says(
        "Percentage of requests that failed or were cancelled.",
        "error_request_count / (request_count + error_request_count) · 100. Absent without any \
         record.",
    ),
    Metric::aggregate(
        tag::MIN_REQUEST_TIMESTAMP,
        "Minimum Request Timestamp",
        Unit::Nanoseconds,
        MetricKind::Earliest(|observation| Some(observation.start_wall_ns)),
    )
    .short("Min Req")
    .flagged(Flag::NO_INDIVIDUAL_RECORDS)
    .off_console()
    .says(
        "Wall time at which the first request was sent, in nanoseconds since the Unix epoch.",
        "min(request.start_wall), including failed requests.",
    ),
    Metric::aggregate(
        tag::MAX_RESPONSE_TIMESTAMP,
        "Maximum Response Timestamp",
        Unit::Nanoseconds,
        MetricKind::Latest(|observation| match observation.values.scalar(tag::REQUEST_LATENCY) {
            Some(latency) => {
                (Rank::Own, observation.start_wall_ns.saturating_add(latency.round() as u64))
            }
            None => (Rank::Substitute, observation.end_wall_ns),
        }),
    )
    .short("Max Resp")
    .flagged(Flag::NO_INDIVIDUAL_RECORDS)
    .off_console()
    .requires(&[tag::REQUEST_LATENCY])
    .says(
        "Wall time at which the last response ended, in nanoseconds since the Unix epoch.",
        "max(request.start_wall + request_latency). If no request has a latency, the time at \
         which the last one failed.",
    ),
    Metric::derived(tag::BENCHMARK_DURATION, "Benchmark Duration", Unit::Nanoseconds, |totals| {
        let end = totals.instant(tag::MAX_RESPONSE_TIMESTAMP)?;
        let start = totals.instant(tag::MIN_REQUEST_TIMESTAMP)?;
        Some(end.saturating_sub(start) as f64)
    })
    .int()
    .short("Duration")
    .shown_in(Unit::Seconds)
    .off_console()
    .requires(&[tag::MAX_RESPONSE_TIMESTAMP, tag::MIN_REQUEST_TIMESTAMP])
    .says(
        "Time from the first request sent to the last response received, or to the last failure \
         without any response.",
        "max_response_timestamp − min_request_timestamp.",
    ),
    Metric::derived(
        tag::REQUEST_THROUGHPUT,
        "Request Throughput",
        Unit::RequestsPerSecond,
        |totals| per_second(totals, totals.total(tag::REQUEST_COUNT)?),
    )
    .short("Req/sec")
    .flagged(Flag::LARGER_IS_BETTER)
    .at(Default, 900)
    .requires(&[tag::BENCHMARK_DURATION, tag::REQUEST_COUNT])
    .says("Successful requests per second.", "request_count / benchmark_duration."),
];

/// Returns the number of requests that ended, successfully or not.
fn completed(totals: &dyn Totals) -> f64 {
    let total = |tag| totals.total(tag).unwrap_or(0.0);
    total(tag::REQUEST_COUNT) + total(tag::ERROR_REQUEST_COUNT)
}
