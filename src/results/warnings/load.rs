//! Warnings about the run as a whole, its load, and what its prompts repeat.

use base::redact::printable;
use client::record::ErrorKind;
use measure::metrics::health::{LoadHealth, LoadVerdict};
use measure::metrics::prefix_cache::Excess;
use measure::metrics::tag;

use super::{Found, Given, Level, WarningKind, counted, share};
use crate::run::{ErrorCount, RunReport};
use crate::tables::format::count;

/// Shortfall of the request rate that is attributed to chance, in percent.
const RATE_SLACK_PERCENT: f64 = 5.0;
/// Deviation of a random arrival process that is attributed to chance, in standard deviations.
const RATE_SLACK_DEVIATIONS: f64 = 3.0;
/// The least share of requests that time out to warn of it.
const MANY_TIMEOUTS: f64 = 0.1;
/// The least share of the prompt tokens that the server read from its cache, in percent.
const NOTABLE_CACHED_PERCENT: f64 = 1.0;
/// The least share of requests that repeat an earlier one.
const REPEATED: f64 = 0.1;

pub(super) const KINDS: &[WarningKind] = &[
    WarningKind {
        name: "incomplete-run",
        title: "Incomplete Run",
        level: Level::Bad,
        find: |report, _| {
            let cancelled = || report.outcome.was_cancelled.then_some("The run was cancelled.");
            report.outcome.incomplete_reason.as_deref().or_else(cancelled).map(incomplete)
        },
        example: |_| incomplete("The run was cancelled."),
    },
    WarningKind {
        name: "nothing-succeeded",
        title: "No Request Succeeded",
        level: Level::Bad,
        find: |report, _| {
            let has_any = counted(report, tag::REQUEST_COUNT) > 0;
            (report.failed() > 0 && !has_any).then(|| nothing_succeeded(report.failed()))
        },
        example: |_| nothing_succeeded(100),
    },
    WarningKind {
        name: "not-authorized",
        title: "Not Authorized",
        level: Level::Bad,
        find: |report, _| {
            let requests = errors(report, |it| matches!(it.error_details.code, Some(401 | 403)));
            let had_key = report.run.setup.has_credentials;
            (requests > 0).then(|| not_authorized(requests, report.ended(), had_key))
        },
        example: |_| not_authorized(100, 100, false),
    },
    WarningKind {
        name: "requests-timed-out",
        title: "Requests Timed Out",
        level: Level::Bad,
        find: |report, _| {
            let requests = errors(report, |it| it.error_details.kind == ErrorKind::Timeout);
            let is_notable = requests as f64 >= MANY_TIMEOUTS * report.ended().max(1) as f64;
            is_notable.then(|| timed_out(requests, report.ended()))
        },
        example: |_| timed_out(12, 100),
    },
    WarningKind {
        name: "connections-failed",
        title: "Connections Failed",
        level: Level::Bad,
        find: |report, given| {
            let held_back = report.outcome.load.sends_held_back;
            (held_back > 0).then(|| connections_failed(held_back, given))
        },
        example: |given| connections_failed(20, given),
    },
    WarningKind {
        name: "connection-limit-reached",
        title: "Connection Limit Reached",
        level: Level::Doubtful,
        find: |report, _| {
            let waits = report.results.iter().find(|it| it.metric.tag == tag::HTTP_REQ_BLOCKED)?;
            let longest_ms = waits.stats.distribution?.max;
            (longest_ms > 0.0).then(|| connections_limited(waits.stats.avg, longest_ms))
        },
        example: |_| connections_limited(80.0, 250.0),
    },
    WarningKind {
        name: "concurrency-not-reached",
        title: "Concurrency Not Reached",
        level: Level::Doubtful,
        // Only for a closed loop: with a rate, the concurrency is only a limit.
        find: |report, _| {
            let load = &report.outcome.load;
            let requested = load.requested_concurrency.filter(|_| load.requested_rate.is_none())?;
            let reached = load.reached_concurrency;
            (reached < requested).then(|| concurrency_not_reached(requested, reached))
        },
        example: |_| concurrency_not_reached(64, 40),
    },
    WarningKind {
        name: "rate-not-reached",
        title: "Request Rate Not Reached",
        level: Level::Doubtful,
        // Arrivals are random: the rate of `n` requests deviates by `1/√n`.
        find: |report, given| {
            let load = &report.outcome.load;
            let (requested, reached) = (load.requested_rate?, load.reached_rate?);
            let by_chance = RATE_SLACK_DEVIATIONS / (report.ended().max(1) as f64).sqrt();
            let slack = by_chance.max(RATE_SLACK_PERCENT / 100.0);
            let is_short = reached < requested * (1.0 - slack);
            is_short.then(|| rate_not_reached(requested, reached, given))
        },
        example: |given| rate_not_reached(20.0, 15.0, given),
    },
    WarningKind {
        name: "depends-on-length",
        title: "Latencies Depend on the Length of the Run",
        level: Level::Doubtful,
        find: |report, _| {
            let load = report.outcome.load_health.filter(|load| load.verdict.is_of_length());
            load.as_ref().map(depends_on_length)
        },
        example: |_| {
            depends_on_length(&LoadHealth {
                verdict: LoadVerdict::Saturated,
                offered_rate: 20.0,
                served_rate: 15.0,
                queue_slope: None,
                latency_drift_percent: None,
                since_seconds: None,
                needed_seconds: None,
                needed_requests: None,
                failures: None,
            })
        },
    },
    WarningKind {
        name: "cache-not-cold",
        title: "Prefix Cache Was Not Cold",
        level: Level::Doubtful,
        find: |report, given| {
            let excess = report.outcome.prefix_cache.as_ref()?.excess()?;
            Some(cache_not_cold(excess, given))
        },
        example: |given| {
            cache_not_cold(Excess { cached: 0.96, expected: 0.0, expected_most: 0.04 }, given)
        },
    },
    WarningKind {
        name: "prompts-repeat",
        title: "Prompts Repeat",
        level: Level::Doubtful,
        // Lanes begin traces again by design.
        find: |report, _| {
            let sent = report.outcome.sent?;
            let is_wanted = !report.run.setup.is_read() || report.outcome.replay.is_some();
            let (repeated, of) = (sent.repeated, sent.total());
            let is_notable = !is_wanted && repeated as f64 >= REPEATED * of as f64 && repeated > 0;
            is_notable.then(|| prompts_repeat(repeated, of, report.cached_percent()))
        },
        example: |_| prompts_repeat(900, 1000, Some(88.0)),
    },
    WarningKind {
        name: "incomplete-history",
        title: "Incomplete History",
        level: Level::Doubtful,
        find: |report, _| {
            let requests = counted(report, tag::INCOMPLETE_HISTORY_COUNT);
            let of = counted(report, tag::COMPLETED_REQUEST_COUNT);
            (requests > 0).then(|| incomplete_history(requests, of))
        },
        example: |_| incomplete_history(3, 100),
    },
];

/// Returns the number of errors of a kind.
fn errors(report: &RunReport, is_it: fn(&ErrorCount) -> bool) -> u64 {
    report.errors.iter().filter(|error| is_it(error)).map(|error| error.count).sum()
}

fn incomplete(reason: &str) -> Found {
    let reason = printable(reason);
    let reason = reason.trim_end_matches('.');
    let found = Found::new(
        reason,
        [format!("{reason}."), "The statistics cover only the requests that completed.".to_owned()],
        ["Let the run complete, or configure fewer requests or a shorter duration."],
    );
    Found { may_quote: true, ..found }
}

fn nothing_succeeded(failed: u64) -> Found {
    let failed = count(failed);
    Found::new(
        format!("all {failed} requests failed"),
        [format!("All {failed} requests failed, so there are no latencies to report.")],
        [
            "See the messages in the error summary.",
            "Send one request manually, and check --url, --endpoint-type and --model.",
        ],
    )
}

fn not_authorized(requests: u64, of: u64, had_key: bool) -> Found {
    let share = share(requests, of);
    let advice = if had_key {
        "Check the credentials set with --api-key, AIPERF_API_KEY or --header."
    } else {
        "Set the server's API key with --api-key or AIPERF_API_KEY."
    };
    Found::new(
        format!("the server rejected {share} as not authorized"),
        [format!("The server rejected {share} with status 401 or 403.")],
        [advice],
    )
}

fn timed_out(requests: u64, of: u64) -> Found {
    let what =
        format!("{} did not get a response within --request-timeout-seconds", share(requests, of));
    Found::new(
        what.clone(),
        [what + "."],
        [
            "Raise --request-timeout-seconds, so that the latencies include these requests.",
            "Or lower the load until the server responds in time.",
        ],
    )
}

fn connections_failed(held_back: u64, given: &Given) -> Found {
    let sends = count(held_back);
    let check = "See the messages in the error summary, and check that the server keeps running.";
    let wait = "To start the run when the server is ready, use --wait-for-model-timeout.";
    Found::new(
        format!("connections failed; {sends} sends were each delayed"),
        [format!(
            "Connections failed repeatedly, and {sends} sends were each delayed by up to a second, so \
             the load was lower than configured."
        )],
        [Some(check), (!given.waits_for_model).then_some(wait)].into_iter().flatten(),
    )
}

fn connections_limited(mean_ms: f64, longest_ms: f64) -> Found {
    Found::new(
        format!("requests waited up to {longest_ms:.1} ms for a connection"),
        [format!(
            "All connections that the client may open were in use, so requests waited for one \
             ({mean_ms:.1} ms on average, {longest_ms:.1} ms at most). Latencies include this wait \
             (http_req_blocked)."
        )],
        [
            "Raise AIPERF_HTTP_CONNECTION_LIMIT.",
            "Or limit the requests in flight with --concurrency; unless the variable is set, the limit \
             of connections follows it.",
        ],
    )
}

fn concurrency_not_reached(requested: u64, reached: u64) -> Found {
    let [requested, reached] = [requested, reached].map(count);
    Found::new(
        format!("at most {reached} of {requested} in flight"),
        [format!("The concurrency was set to {requested}, but never exceeded {reached}.")],
        [
            "Send at least as many requests as --concurrency, preferably ten times as many.",
            "If requests waited for connections, raise the limit on open files (ulimit -n).",
            "If this machine was busy, run aiperf on a dedicated machine.",
        ],
    )
}

fn rate_not_reached(requested: f64, reached: f64, given: &Given) -> Found {
    let limit = "Raise or remove --concurrency, which delays requests when responses are slow.";
    let busy = "If this machine was busy, run aiperf on a dedicated machine.";
    Found::new(
        format!("{reached:.2} of {requested:.2} requests/s were sent"),
        [format!(
            "The request rate was set to {requested:.2} per second, but {reached:.2} were sent."
        )],
        given.has_concurrency.then_some(limit).into_iter().chain([busy]),
    )
}

fn depends_on_length(load: &LoadHealth) -> Found {
    let advice = if load.verdict == LoadVerdict::Saturated {
        "Send fewer requests than are served, or search for the highest load that the server sustains."
    } else {
        "Warm the server up with --warmup-request-count, and check what else it does."
    };
    Found::new(
        format!("a longer run would have other latencies; load {}", load.verdict.words()),
        [format!("Load: {load}. A longer or shorter run would have other latencies.")],
        [advice],
    )
}

fn cache_not_cold(excess: Excess, given: &Given) -> Found {
    let Excess { cached, expected, expected_most } = excess;
    let [cached, expected, most] =
        [cached, expected, expected_most].map(|ratio| format!("{:.1}%", 100.0 * ratio));
    let reset = if given.resets_cache {
        "The cache was reset before the run; check that all servers behind the URL were, and that no \
         other client sends these prompts."
    } else {
        "Empty the server's cache before the run with --reset-kv-cache."
    };
    Found::new(
        format!("{cached} of the prompt tokens were cached, but prompts repeat {expected}"),
        [
            format!(
                "The server read {cached} of the prompt tokens from its prefix cache. The prompts of \
                 this run repeat {expected} of each other, so that a cache that started empty would have \
                 found at most {most}."
            ),
            "It had prompts in its cache before the run, such as those of an earlier run with the same \
             seed. The times to first token are shorter than those of a server that starts without them."
                .to_owned(),
        ],
        [
            reset,
            "Or send prompts that it does not know, with another --random-seed or with --cache-bust.",
        ],
    )
}

fn prompts_repeat(repeated: u64, of: u64, cached_percent: Option<f64>) -> Found {
    let share = share(repeated, of);
    let summary = cached_percent.map(|it| format!("; {it:.1}% of the prompt tokens were cached"));
    let cached = match cached_percent {
        None => "time_to_first_token may be that of cached prompts.".to_owned(),
        Some(percent) if percent < NOTABLE_CACHED_PERCENT => {
            format!("It read {percent:.1}% of the prompt tokens from its cache.")
        }
        Some(percent) => format!(
            "It read {percent:.1}% of the prompt tokens from its cache: time_to_first_token is that of \
             cached prompts."
        ),
    };
    Found::new(
        format!("{share} were sent before{}", summary.unwrap_or_default()),
        [format!(
            "{share} were the same as an earlier one, since the dataset has fewer: a server with a prefix \
             cache answers those sooner than it answers users. {cached}"
        )],
        [
            "Send fewer requests, or use a dataset with more of them.",
            "To keep the server from answering from its prefix cache, use --cache-bust.",
        ],
    )
}

fn incomplete_history(requests: u64, of: u64) -> Found {
    let share = share(requests, of);
    Found::new(
        format!("{share} lack an earlier response"),
        [format!(
            "{share} were sent without an earlier response of their session, since that turn had failed \
             or was cancelled; their prompts are shorter than intended."
        )],
        [
            "See missing_answers of each request in profile_export.jsonl.",
            "To end a session at its first failed turn, use --end-failed-sessions.",
        ],
    )
}
