//! Delays of requests against the schedule, and latency measured from the due time.

use base::units::{Nanos, Unit};

use crate::metrics::ConsoleGroup::Effective;
use crate::metrics::metric::{Facts, Metric, MetricFlags as Flag};
use crate::metrics::tag::{self, MetricTag};

pub(super) const ABOUT: &str = "A schedule determines when each request is due. In a closed loop \
                                requests do not have a due time; the time at which they were issued \
                                is used instead: when a slot became free and the client took the \
                                request up. The latencies of other families are measured from the \
                                request's start, when it was handed to the transport, so a client \
                                that waits for a slow server before it starts the next request \
                                hides that wait (coordinated omission). `effective_latency` and \
                                `effective_time_to_first_token` include it. They end where \
                                `request_latency` and `time_to_first_token` do, and are longer by \
                                `credit_to_start_latency`. With `--latency-from due`, objectives, \
                                gates and searches that name the one judge the other.";

/// p99 of the lag above which a replay is degraded, in milliseconds.
const DEGRADED_MS: f64 = 500.0;

const LAG_BRIEF: &str = "Delay of the requests of a fixed schedule.";

/// The console group of waits.
const WAIT: &[MetricTag; 1] = &[tag::CREDIT_TO_START_LATENCY];

pub(super) static ROWS: &[Metric] = &[
    Metric::record(
        tag::EFFECTIVE_TIME_TO_FIRST_TOKEN,
        "Effective Time to First Token (CO-aware)",
        Unit::Nanoseconds,
        |facts, _| {
            facts.mean_of_choices(|pieces| Some(since(wanted(facts), pieces.first()?.arrival.at)))
        },
    )
    .short("Eff TTFT")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .at(Effective, 95)
    .says(
        "Time from the request's due time to its first content event: the wait that a user \
         experiences.",
        "content[0].arrival − request.due, or − request.issued without a due time. Absent without \
         content and for failed requests.",
    ),
    Metric::record(
        tag::EFFECTIVE_LATENCY,
        "Effective Latency (CO-aware)",
        Unit::Nanoseconds,
        |facts, _| {
            facts.response.content.last().map(|piece| since(wanted(facts), piece.arrival.at))
        },
    )
    .short("Eff Latency")
    .shown_in(Unit::Milliseconds)
    .at(Effective, 100)
    .says(
        "Time from the request's due time to its last content event: the latency that a user \
         experiences.",
        "content[last].arrival − request.due, or − request.issued without a due time. Absent \
         without content and for failed requests.",
    ),
    Metric::record(
        tag::CREDIT_TO_START_LATENCY,
        "Credit-to-Start Latency",
        Unit::Nanoseconds,
        |facts, _| Some(since(wanted(facts), facts.record.start)),
    )
    .short("Credit to Start")
    .shown_in(Unit::Milliseconds)
    .at(Effective, 200)
    .says(
        "Time from the request's due time to its start: its wait in the client.",
        "request.start − request.due, or − request.issued without a due time.",
    ),
    Metric::record(
        tag::CREDIT_DROP_LATENCY,
        "Credit Drop Latency",
        Unit::Nanoseconds,
        |facts, _| Some(since(facts.record.issued, facts.record.start)),
    )
    .short("Credit Latency")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::INTERNAL)
    .off_console()
    .says(
        "Time from when a worker took the request up until its start.",
        "request.start − request.issued.",
    ),
    Metric::record(
        tag::REPLAY_SEND_SCHEDULE_OFFSET,
        "Replay Send Schedule Offset",
        Unit::Nanoseconds,
        |facts, _| facts.record.due.map(|due| since(due, facts.record.start)),
    )
    .short("Sched Offset")
    .flagged(Flag::INTERNAL.union(Flag::FIXED_SCHEDULE_ONLY))
    .off_console()
    .says(
        "Delay of a request of a fixed schedule.",
        "request.start − request.due. Absent without a due time.",
    ),
    lag(tag::REPLAY_SCHED_LAG_P50, "Replay Schedule Lag p50", 50.0)
        .short("Sched Lag p50")
        .says(LAG_BRIEF, "percentile(credit_to_start_latency, 50)."),
    lag(tag::REPLAY_SCHED_LAG_P90, "Replay Schedule Lag p90", 90.0)
        .short("Sched Lag p90")
        .says(LAG_BRIEF, "percentile(credit_to_start_latency, 90)."),
    lag(tag::REPLAY_SCHED_LAG_P99, "Replay Schedule Lag p99", 99.0)
        .short("Sched Lag p99")
        .says(LAG_BRIEF, "percentile(credit_to_start_latency, 99)."),
    Metric::derived(
        tag::REPLAY_SCHED_DEGRADED,
        "Replay Schedule Degraded",
        Unit::Count,
        |totals| {
            let lag = totals.total(tag::REPLAY_SCHED_LAG_P99)?;
            Some(f64::from(u8::from(lag > DEGRADED_MS)))
        },
    )
    .int()
    .short("Sched Degraded")
    .flagged(Flag::FIXED_SCHEDULE_ONLY)
    .off_console()
    .requires(&[tag::REPLAY_SCHED_LAG_P99])
    .says(
        "1 if the client could not keep to the schedule, so that the load was not the configured \
         one; otherwise 0.",
        "1 if replay_sched_lag_p99 > 500 ms, otherwise 0.",
    ),
];

const fn lag(tag: MetricTag, header: &'static str, percent: f64) -> Metric {
    Metric::percentile_of(tag, header, Unit::Milliseconds, percent, WAIT)
        .flagged(Flag::FIXED_SCHEDULE_ONLY)
        .off_console()
}

/// Returns when the request should have been sent.
fn wanted(facts: &Facts<'_>) -> Nanos {
    facts.record.due.unwrap_or(facts.record.issued)
}

fn since(from: Nanos, to: Nanos) -> f64 {
    to.since(from).0 as f64
}
