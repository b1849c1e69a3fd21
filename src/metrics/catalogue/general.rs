//! Metrics of every run: latency, counts, throughput, duration.

use super::{per_second, ratio};
use crate::metrics::ConsoleGroup::Default;
use crate::metrics::metric::{Kind, Metric, MetricFlags as Flag, Totals};
use crate::units::Unit;

pub(super) const ABOUT: &str = "Metrics of every run.";

pub(super) static ROWS: &[Metric] = &[
    Metric::record("request_latency", "Request Latency", Unit::Nanoseconds, |facts, _| {
        facts.response.content.last().map(|piece| facts.since_start(piece.arrival))
    })
    .short("Req Latency")
    .shown_in(Unit::Milliseconds)
    .at(Default, 300)
    .says(
        "Time from sending the request to the last piece of its response.",
        "content[last].arrival − request.start. A response that is not streamed is one piece. \
         Absent without content.",
    ),
    Metric::aggregate(
        "request_count",
        "Request Count",
        Unit::Requests,
        Kind::Sum(|observation, _| Some(if observation.error.is_none() { 1.0 } else { 0.0 })),
    )
    .short("Requests")
    .flagged(Flag::LARGER_IS_BETTER.union(Flag::NO_INDIVIDUAL_RECORDS))
    .at(Default, 1100)
    .says("Requests that succeeded.", "count(records without error). Absent without any record."),
    Metric::aggregate(
        "error_request_count",
        "Error Request Count",
        Unit::Requests,
        Kind::Sum(|observation, _| observation.error.as_ref().map(|_| 1.0)),
    )
    .short("Error Count")
    .flagged(Flag::ERROR_ONLY.union(Flag::NO_INDIVIDUAL_RECORDS))
    .says(
        "Requests that failed or were cancelled.",
        "count(records with an error). Absent where none failed.",
    ),
    Metric::derived(
        "completed_request_count",
        "Completed Requests (Success + Error)",
        Unit::Requests,
        |totals| Some(completed(totals)).filter(|completed| *completed > 0.0),
    )
    .int()
    .short("Completed")
    .flagged(Flag::NO_INDIVIDUAL_RECORDS)
    .at(Default, 1075)
    .requires(&["error_request_count", "request_count"])
    .says(
        "Requests that succeeded or failed.",
        "request_count + error_request_count. Absent without any record.",
    ),
    Metric::derived("request_error_rate", "Request Error Rate", Unit::Percent, |totals| {
        let failed = totals.total("error_request_count").unwrap_or(0.0);
        Some(ratio(failed, completed(totals))? * 100.0)
    })
    .short("Err %")
    .flagged(Flag::NO_INDIVIDUAL_RECORDS)
    .at(Default, 1080)
    .requires(&["error_request_count", "request_count"])
    .says(
        "Share of requests that failed or were cancelled.",
        "error_request_count / (request_count + error_request_count) · 100. Absent without any \
         record.",
    ),
    Metric::aggregate(
        "min_request_timestamp",
        "Minimum Request Timestamp",
        Unit::Nanoseconds,
        Kind::Earliest(|observation| Some(observation.start_wall_ns)),
    )
    .short("Min Req")
    .flagged(Flag::INTERNAL.union(Flag::NO_INDIVIDUAL_RECORDS))
    .off_console()
    .says(
        "Wall time at which the first request was sent, in nanoseconds since the epoch.",
        "min(request.start_wall), failed requests too.",
    ),
    Metric::aggregate(
        "max_response_timestamp",
        "Maximum Response Timestamp",
        Unit::Nanoseconds,
        Kind::Latest(|observation| {
            let latency = observation.values.scalar("request_latency")?;
            Some(observation.start_wall_ns.saturating_add(latency.round() as u64))
        }),
    )
    .short("Max Resp")
    .flagged(Flag::INTERNAL.union(Flag::NO_INDIVIDUAL_RECORDS))
    .off_console()
    .requires(&["request_latency"])
    .says(
        "Wall time at which the last response ended, in nanoseconds since the epoch.",
        "max(request.start_wall + request_latency). Absent where no request succeeded.",
    ),
    Metric::derived("benchmark_duration", "Benchmark Duration", Unit::Nanoseconds, |totals| {
        let end = totals.instant("max_response_timestamp")?;
        let start = totals.instant("min_request_timestamp")?;
        Some(end.saturating_sub(start) as f64)
    })
    .int()
    .short("Duration")
    .shown_in(Unit::Seconds)
    .off_console()
    .requires(&["max_response_timestamp", "min_request_timestamp"])
    .says(
        "Time from the first request sent to the last response received.",
        "max_response_timestamp − min_request_timestamp.",
    ),
    Metric::derived(
        "request_throughput",
        "Request Throughput",
        Unit::RequestsPerSecond,
        |totals| per_second(totals, totals.total("request_count")?),
    )
    .short("Req/sec")
    .flagged(Flag::LARGER_IS_BETTER)
    .at(Default, 900)
    .requires(&["benchmark_duration", "request_count"])
    .says("Successful requests per second.", "request_count / benchmark_duration."),
];

/// Requests that ended, in whatever way.
fn completed(totals: &dyn Totals) -> f64 {
    let of = |tag| totals.total(tag).unwrap_or(0.0);
    of("request_count") + of("error_request_count")
}
