//! How late requests were sent, and the latency that counts from when they
//! were due.

use crate::metrics::ConsoleGroup::Effective;
use crate::metrics::metric::{Facts, Metric, MetricFlags as Flag};
use crate::units::{Nanos, Unit};

pub(super) const ABOUT: &str = "A schedule says when each request is due; in a closed loop nothing \
is due, and a request counts from when it was issued: when a slot was free and the client took it \
up. The latencies of other families count from sending, so that a client that waits for a slow \
server before it sends hides the wait (coordinated omission). `effective_latency` does not. Both \
latencies end at the last piece of the response, so that `effective_latency` = \
`credit_to_start_latency` + `request_latency`.";

/// p99 of the lag, in milliseconds, above which a replay is degraded.
const DEGRADED_MS: f64 = 500.0;

const LAG_BRIEF: &str = "How late the requests of a fixed schedule were sent.";

/// What waits are called in the catalogue.
const WAIT: &[&str; 1] = &["credit_to_start_latency"];

pub(super) static ROWS: &[Metric] = &[
    Metric::record(
        "effective_latency",
        "Effective Latency (CO-aware)",
        Unit::Nanoseconds,
        |facts, _| facts.response.content.last().map(|piece| since(wanted(facts), piece.arrival)),
    )
    .short("Eff Latency")
    .shown_in(Unit::Milliseconds)
    .at(Effective, 100)
    .says(
        "Time from when the request was due to the last piece of its response: the latency of a \
         user who does not wait for the client.",
        "content[last].arrival − request.due, or − request.issued where nothing was due. Absent \
         without content; failed requests have none.",
    ),
    Metric::record(
        "credit_to_start_latency",
        "Credit-to-Start Latency",
        Unit::Nanoseconds,
        |facts, _| Some(since(wanted(facts), facts.record.start)),
    )
    .short("Credit to Start")
    .shown_in(Unit::Milliseconds)
    .at(Effective, 200)
    .says(
        "Time from when the request was due to when it was sent: its wait in the client.",
        "request.start − request.due, or − request.issued where nothing was due.",
    ),
    Metric::record("credit_drop_latency", "Credit Drop Latency", Unit::Nanoseconds, |facts, _| {
        Some(since(facts.record.issued, facts.record.start))
    })
    .short("Credit Latency")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::INTERNAL)
    .off_console()
    .says(
        "Time from when a worker took the request up to when it was sent.",
        "request.start − request.issued.",
    ),
    Metric::record(
        "replay_send_schedule_offset",
        "Replay Send Schedule Offset",
        Unit::Nanoseconds,
        |facts, _| facts.record.due.map(|due| since(due, facts.record.start)),
    )
    .short("Sched Offset")
    .flagged(Flag::INTERNAL.union(Flag::FIXED_SCHEDULE_ONLY))
    .off_console()
    .says(
        "How late a request of a fixed schedule was sent.",
        "request.start − request.due. Absent where nothing was due.",
    ),
    lag("replay_sched_lag_p50", "Replay Schedule Lag p50", 50.0)
        .short("Sched Lag p50")
        .says(LAG_BRIEF, "percentile(credit_to_start_latency, 50)."),
    lag("replay_sched_lag_p90", "Replay Schedule Lag p90", 90.0)
        .short("Sched Lag p90")
        .says(LAG_BRIEF, "percentile(credit_to_start_latency, 90)."),
    lag("replay_sched_lag_p99", "Replay Schedule Lag p99", 99.0)
        .short("Sched Lag p99")
        .says(LAG_BRIEF, "percentile(credit_to_start_latency, 99)."),
    Metric::derived("replay_sched_degraded", "Replay Schedule Degraded", Unit::Count, |totals| {
        let lag = totals.total("replay_sched_lag_p99")?;
        Some(f64::from(u8::from(lag > DEGRADED_MS)))
    })
    .int()
    .short("Sched Degraded")
    .flagged(Flag::FIXED_SCHEDULE_ONLY)
    .off_console()
    .requires(&["replay_sched_lag_p99"])
    .says(
        "1 where the client could not keep to the schedule, so that the load was not the one \
         asked for; else 0.",
        "1 if replay_sched_lag_p99 > 500 ms, else 0.",
    ),
];

const fn lag(tag: &'static str, header: &'static str, percent: f64) -> Metric {
    Metric::percentile_of(tag, header, Unit::Milliseconds, percent, WAIT)
        .flagged(Flag::FIXED_SCHEDULE_ONLY)
        .off_console()
}

/// When the request should have been sent.
fn wanted(facts: &Facts<'_>) -> Nanos {
    facts.record.due.unwrap_or(facts.record.issued)
}

fn since(from: Nanos, to: Nanos) -> f64 {
    to.since(from).0 as f64
}
