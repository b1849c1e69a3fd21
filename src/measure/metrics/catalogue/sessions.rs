//! Sessions of several turns.

use base::units::{Nanos, Unit};

use crate::metrics::ConsoleGroup::Sessions;
use crate::metrics::metric::{Metric, MetricFlags as Flag};
use crate::metrics::session::{SessionCounts, Work};
use crate::metrics::tag::{self, MetricTag};

pub(super) const ABOUT: &str = "What all requests of a session took together ([sessions](\
                                concepts.md#sessions)): a conversation and all those that it \
                                starts. Only if conversations have several turns or start others. \
                                Distributions have one value for each completed session, which is \
                                one whose turns were all sent and succeeded.";

const OF_TOKENS: Flag = Flag::PRODUCES_TOKENS_ONLY;

pub(super) static ROWS: &[Metric] = &[
    time(tag::SESSION_DURATION, "Session Duration", 10, |work| Some(nanos(work.duration()))).says(
        "Time from the start of a session's first request to the end of its last.",
        "max(request.end) − min(request.start) over the session.",
    ),
    time(tag::SESSION_SERVER_TIME, "Session Server Time", 20, |work| Some(nanos(work.server_time))).says(
        "Time in which a session waited for the server.",
        "Time in which at least one request of the session was in flight.",
    ),
    time(tag::SESSION_DELAY_TIME, "Session Delay Time", 30, |work| Some(nanos(work.delay_time))).says(
        "Time in which a session waited as the dataset says, as for tools or a user.",
        "Σ over the times without a request in flight: each until the delay of the next turn has \
         passed, or until its timestamp with a fixed schedule.",
    ),
    time(tag::SESSION_SCHEDULE_TIME, "Session Schedule Time", 40, |work| {
        Some(nanos(work.schedule_time()))
    })
    .says(
        "Time in which a session waited for the load: for a rate's next send or for a slot.",
        "session_duration − session_server_time − session_delay_time.",
    ),
    Metric::of_session(tag::SESSION_TURNS, "Session Turns", Unit::Requests, |work| {
        Some(work.turns as f64)
    })
    .at(Sessions, 50)
    .says("Requests of a session.", "count(records of the session)."),
    Metric::of_session(tag::SESSION_INPUT_TOKENS, "Session Input Tokens", Unit::Tokens, |work| {
        work.input_tokens
    })
    .at(Sessions, 60)
    .says(
        "Input tokens of all requests of a session, including what later turns repeat.",
        "Σ input_sequence_length.",
    ),
    Metric::of_session(tag::SESSION_OUTPUT_TOKENS, "Session Output Tokens", Unit::Tokens, |work| {
        work.output_tokens
    })
    .flagged(OF_TOKENS)
    .at(Sessions, 70)
    .says("Output tokens of all requests of a session.", "Σ output_sequence_length."),
    Metric::of_session(
        tag::SESSION_CACHE_READ_PCT,
        "Session Cache Read %",
        Unit::Percent,
        |work| Some(100.0 * work.cached_tokens? / work.prompt_tokens.filter(|all| *all > 0.0)?),
    )
    .float()
    .flagged(OF_TOKENS.union(Flag::LARGER_IS_BETTER))
    .at(Sessions, 80)
    .says(
        "Share of a session's prompt tokens that the server read from its cache.",
        "Σ usage_prompt_cache_read_tokens / Σ usage_prompt_tokens · 100.",
    ),
    Metric::of_session(
        tag::SESSION_FIRST_TIME_TO_FIRST_TOKEN,
        "Session First Time to First Token",
        Unit::Nanoseconds,
        |work| work.first_ttft,
    )
    .shown_in(Unit::Milliseconds)
    .float()
    .short("Session First TTFT")
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .at(Sessions, 90)
    .says(
        "Time to first token of a session's first request.",
        "time_to_first_token of the request that started first.",
    ),
    Metric::of_session(
        tag::SESSION_LATER_TIME_TO_FIRST_TOKEN,
        "Session Later Time to First Token",
        Unit::Nanoseconds,
        |work| work.later_ttft,
    )
    .shown_in(Unit::Milliseconds)
    .float()
    .short("Session Later TTFT")
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .at(Sessions, 100)
    .says(
        "Mean time to first token of a session's later requests.",
        "mean(time_to_first_token) over the requests that follow another one of their \
         conversation. Absent if there are none.",
    ),
    count(tag::SESSION_COUNT, "Session Count", 110, |counts| Some(counts.completed as f64))
        .says("Completed sessions.", "count(sessions whose turns were all sent and succeeded)."),
    count(tag::ERROR_SESSION_COUNT, "Error Session Count", 120, |counts| {
        Some(counts.failed as f64)
    })
    .says("Sessions with a failed turn.", "count(sessions with a failed request)."),
    count(tag::CANCELLED_SESSION_COUNT, "Cancelled Session Count", 130, |counts| {
        Some(counts.cancelled as f64)
    })
    .says(
        "Sessions that the run ended before they were complete.",
        "count(sessions without a failed request that lack turns or have a cancelled one).",
    ),
    rate(tag::SESSION_THROUGHPUT, "Session Throughput", 140, |counts| {
        counts.per_second(counts.completed)
    })
    .says("Completed sessions per second.", "session_count / benchmark_duration in seconds."),
    count(tag::GOOD_SESSION_COUNT, "Good Session Count", 150, |counts| Some(counts.good as f64))
        .flagged(Flag::GOODPUT)
        .says(
            "Completed sessions whose requests all meet every objective.",
            "count(completed sessions with good_request_count = session_turns).",
        ),
    Metric::of_sessions(
        tag::GOOD_SESSION_FRACTION,
        "Good Session Fraction",
        Unit::Ratio,
        |counts| {
            let ended = counts.completed + counts.failed;
            (ended > 0).then(|| counts.good as f64 / ended as f64)
        },
    )
    .flagged(Flag::GOODPUT.union(Flag::LARGER_IS_BETTER))
    .at(Sessions, 160)
    .says(
        "Fraction of the sessions that ended, including failed ones, that are good.",
        "good_session_count / (session_count + error_session_count). Absent if none ended.",
    ),
    rate(tag::SESSION_GOODPUT, "Session Goodput", 170, |counts| counts.per_second(counts.good))
        .flagged(Flag::GOODPUT.union(Flag::LARGER_IS_BETTER))
        .says("Good sessions per second.", "good_session_count / benchmark_duration in seconds."),
];

/// Returns the row of a time of a session, without its description.
const fn time(
    tag: MetricTag,
    header: &'static str,
    place: u32,
    compute: fn(&Work) -> Option<f64>,
) -> Metric {
    Metric::of_session(tag, header, Unit::Nanoseconds, compute)
        .shown_in(Unit::Milliseconds)
        .at(Sessions, place)
}

/// Returns the row of a number of sessions, without its description.
const fn count(
    tag: MetricTag,
    header: &'static str,
    place: u32,
    compute: fn(&SessionCounts) -> Option<f64>,
) -> Metric {
    Metric::of_sessions(tag, header, Unit::Sessions, compute).int().at(Sessions, place)
}

/// Returns the row of a rate of sessions, without its description.
const fn rate(
    tag: MetricTag,
    header: &'static str,
    place: u32,
    compute: fn(&SessionCounts) -> Option<f64>,
) -> Metric {
    Metric::of_sessions(tag, header, Unit::SessionsPerSecond, compute)
        .flagged(Flag::LARGER_IS_BETTER)
        .at(Sessions, place)
}

fn nanos(time: Nanos) -> f64 {
    time.0 as f64
}
