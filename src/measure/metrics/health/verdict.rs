//! The rules for the verdict, with advice. `docs/decisions/client-health.md` explains them.

use super::bounds::{Bound, ErrorBounds, MetricBounds};
use super::client_health::{ClientHealth, Cpu, Queue, Reason, TimeStatistics, Verdict};
use super::host;
use super::throughput::RateBounds;

/// Lower limit for the statistics that errors are compared with, in milliseconds. Below it, the
/// clocks and the noise of any machine would raise doubt.
const FINEST_MS: f64 = 2.0;
/// An error above this fraction of the statistic is suspect: who compares two servers acts on
/// differences of that size.
const DOUBTFUL_SHARE: f64 = 0.05;
/// An error above this fraction of what it is compared with is invalid.
const RUINOUS_SHARE: f64 = 1.0 / 3.0;
/// Lower limit for the median response time that lateness is compared with, in milliseconds.
const FINEST_RESPONSE_MS: f64 = 5.0;
/// Median lateness above this fraction of the median response time is suspect.
const DOUBTFUL_LATENESS: f64 = 0.1;
/// Lateness above this is always suspect, in milliseconds.
const DOUBTFUL_MS: f64 = 100.0;
/// Lateness above this is always invalid, in milliseconds.
const RUINOUS_MS: f64 = 1000.0;
/// Number of requests from which more than one is above the 99th percentile.
const MANY_REQUESTS: u64 = 200;
/// A worker above this CPU usage is overloaded.
const SATURATED: f64 = 0.95;
/// Above this CPU usage, delays are attributed to the worker and not to the machine.
const BUSY: f64 = 0.8;
/// Fraction of delayed sends above which the load was not the configured one.
const HELD_BACK_SHARE: f64 = 0.1;

/// Input of the rules in addition to [`ClientHealth`].
pub(super) struct Facts {
    pub(super) requests: u64,
    /// The part of the slip that only the client caused.
    pub(super) late: Option<TimeStatistics>,
    /// The lateness of requests that were due while the worker slept.
    pub(super) idle_late: Option<TimeStatistics>,
}

/// Returns all reasons for doubt, the most serious first.
pub(super) fn reasons(health: &ClientHealth, facts: &Facts) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = [
        late_sends(health, facts),
        uncertain_statistic(health),
        uncertain_throughput(health),
        saturated_worker(health),
    ]
    .into_iter()
    .flatten()
    .collect();
    if let Some(queue) = &health.queue {
        let of_queue = [lost_records(queue), held_back(queue, facts), spilled(queue), kept(queue)];
        reasons.extend(of_queue.into_iter().flatten());
    }
    // A stable sort keeps reasons of the same severity in order.
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.verdict));
    reasons
}

/// Returns an example of each reason: those of a client that every rule finds fault with.
pub fn reasons_by_example() -> Vec<Reason> {
    let late = TimeStatistics { count: 1000, avg: 8.0, p50: 8.0, p90: 9.0, p99: 10.0, max: 12.0 };
    let first = Bound { value: 50.0, below: 5.0, ..Bound::default() };
    let first = MetricBounds { count: 1000, avg: first, p50: first, p99: first };
    let health = ClientHealth {
        error_bounds_ms: Some(ErrorBounds {
            time_to_first_token: Some(first),
            ..ErrorBounds::default()
        }),
        throughput_bounds: Some(RateBounds {
            above_percent: 8.0,
            likely_above_percent: 8.0,
            delay_ms: 8.0,
            ..RateBounds::default()
        }),
        queue: Some(Queue {
            budget_bytes: 1_000_000_000,
            pauses: 20,
            spilled_records: 100,
            spilled_bytes: 2_000_000,
            kept_over_budget: 100,
            lost_records: 3,
            ..Queue::default()
        }),
        cpu: Some(Cpu { workers: 2, worker_max: 0.98, cores: 8, ..Cpu::default() }),
        ..ClientHealth::default()
    };
    let mut all = reasons(&health, &Facts { requests: 1000, late: Some(late), idle_late: None });
    all.extend(host::reasons_by_example());
    all
}

/// How late requests were sent.
struct Lateness {
    verdict: Verdict,
    /// `5.00 ms late at p50, 10% of the median time to first token (50.0 ms)`.
    what: String,
}

impl Lateness {
    /// Judges the requests that were sent `late`. The median is compared with the median response
    /// time: it is the delay of the load as a whole. The few requests that were later have no
    /// influence on the others unless they are very late.
    fn judge(late: &TimeStatistics, health: &ClientHealth) -> Option<Self> {
        let bounds = health.error_bounds_ms.unwrap_or_default();
        let first_token = bounds.time_to_first_token.map(|of| ("time to first token", of));
        let response = first_token.or(bounds.request_latency.map(|of| ("request latency", of)));
        let median = response.map_or(f64::INFINITY, |(_, of)| of.p50.value);
        let scale = median.max(FINEST_RESPONSE_MS);
        let judged = |ms: f64, scale: f64| {
            if ms > (scale * RUINOUS_SHARE).min(RUINOUS_MS) {
                Some(Verdict::Invalid)
            } else if ms > (scale * DOUBTFUL_LATENESS).min(DOUBTFUL_MS) {
                Some(Verdict::Suspect)
            } else {
                None
            }
        };
        let (name, rare) =
            if late.count < MANY_REQUESTS { ("p90", late.p90) } else { ("p99", late.p99) };
        let (of_most, of_few) = (judged(late.p50, scale), judged(rare, f64::INFINITY));
        let what = if of_few > of_most {
            format!("{} late at {name}", shown(rare))
        } else {
            let beside = response.filter(|_| median >= FINEST_RESPONSE_MS);
            let beside = beside.map(|(metric, of)| {
                let percent = 100.0 * late.p50 / of.p50.value;
                format!(", {percent:.0}% of the median {metric} ({})", shown(of.p50.value))
            });
            format!("{} late at p50{}", shown(late.p50), beside.unwrap_or_default())
        };
        Some(Self { verdict: of_most.max(of_few)?, what })
    }
}

fn late_sends(health: &ClientHealth, facts: &Facts) -> Option<Reason> {
    let Lateness { verdict, what } = Lateness::judge(&facts.late?, health)?;
    let slept = facts.idle_late.is_some_and(|late| Lateness::judge(&late, health).is_some());
    Some(Reason {
        name: "late-sends".into(),
        verdict,
        finding: format!("requests left {what}"),
        advice: if slept {
            "sleeping workers were woken late, so other programs used the CPU; keep other \
             programs, including the server, off the client's cores"
                .to_owned()
        } else {
            more_workers(health.cpu.as_ref(), "lower the rate")
        },
    })
}

/// Checks the statistic with the largest likely error that the client caused, relative to its
/// value.
pub(super) fn uncertain_statistic(health: &ClientHealth) -> Option<Reason> {
    let bounds = health.error_bounds_ms?;
    let all = bounds.iter().flat_map(|(metric, statistics)| {
        statistics.percentiles().map(move |(percent, bound)| (metric, percent, bound))
    });
    let judged = all.filter_map(|of| Some((judged(&of.2)?, of)));
    let worst = judged.max_by(|(one, of_one), (other, of_other)| {
        one.cmp(other).then(error_share(&of_one.2).total_cmp(&error_share(&of_other.2)))
    });
    let (verdict, (metric, percent, bound)) = worst?;
    let relative = if bound.value >= FINEST_MS {
        format!(" ({:.0}%)", 100.0 * error_share(&bound))
    } else {
        String::new()
    };
    let [below, above] = bound.likely();
    Some(Reason {
        name: "uncertain-statistic".into(),
        verdict,
        finding: format!(
            "the client was late to send or to read, so that the p{percent} of the {metric}, {}, \
             may be {}{relative} {}",
            shown(bound.value),
            shown(below.max(above)),
            if below < above { "higher" } else { "lower" },
        ),
        advice: more_workers(health.cpu.as_ref(), "lower the load"),
    })
}

/// Checks how much higher the throughput may be without the client's delays.
pub(super) fn uncertain_throughput(health: &ClientHealth) -> Option<Reason> {
    let bounds = health.throughput_bounds?;
    let percent = bounds.likely_above_percent.max(bounds.below_percent);
    // The delays of an idle machine matter for a server that responds at once.
    let fineness = bounds.cycle_ms.map_or(1.0, |cycle| (cycle / FINEST_MS).min(1.0));
    let verdict = match fineness * percent / 100.0 {
        share if share > RUINOUS_SHARE => Verdict::Invalid,
        share if share > DOUBTFUL_SHARE => Verdict::Suspect,
        _ => return None,
    };
    let (direction, of) = if bounds.likely_above_percent < bounds.below_percent {
        ("lower", bounds.below_percent)
    } else {
        ("higher", bounds.likely_above_percent)
    };
    Some(Reason {
        name: "uncertain-throughput".into(),
        verdict,
        finding: format!(
            "requests left {} after the client could have sent them on average, so the \
             throughput may be {of:.0}% {direction}",
            shown(bounds.delay_ms)
        ),
        advice: more_workers(health.cpu.as_ref(), "lower the load"),
    })
}

/// Returns the likely error of a statistic relative to its value.
fn error_share(bound: &Bound) -> f64 {
    let [below, above] = bound.likely();
    below.max(above) / bound.value.max(FINEST_MS)
}

/// Judges a statistic by its likely error. If there are too few requests for the statistic, other
/// requests would shift it further than small errors do.
fn judged(bound: &Bound) -> Option<Verdict> {
    let share = error_share(bound);
    match bound.requests_needed {
        None if share > RUINOUS_SHARE => Some(Verdict::Invalid),
        None if share > DOUBTFUL_SHARE => Some(Verdict::Suspect),
        Some(_) if share > RUINOUS_SHARE => Some(Verdict::Suspect),
        _ => None,
    }
}

fn saturated_worker(health: &ClientHealth) -> Option<Reason> {
    let cpu = health.cpu.as_ref()?;
    (cpu.worker_max >= SATURATED).then(|| Reason {
        name: "busy-worker".into(),
        verdict: Verdict::Suspect,
        finding: format!(
            "the busiest worker used {:.0}% of a core, so rates and latencies may be limited by \
             the client",
            100.0 * cpu.worker_max
        ),
        advice: more_workers(Some(cpu), "lower the load"),
    })
}

/// Returns advice for an overloaded client: more threads if the workers are busy and cores
/// are available, otherwise more resources.
fn more_workers(cpu: Option<&Cpu>, or: &str) -> String {
    match cpu {
        Some(cpu) if cpu.worker_max < BUSY => format!(
            "the workers were not busy ({:.0}% of a core at most), so other programs delayed \
             them; keep other programs, including the server, off the client's cores, or {or}",
            100.0 * cpu.worker_max
        ),
        Some(cpu) if cpu.workers >= cpu.cores => format!(
            "{} in use for {}; give the client more cores and raise --workers-max, or {or}",
            counted(cpu.cores, "core"),
            counted(cpu.workers, "worker"),
        ),
        Some(cpu) => format!("raise --workers-max above {}, or {or}", cpu.workers),
        None => format!("raise --workers-max, or {or}"),
    }
}

fn lost_records(queue: &Queue) -> Option<Reason> {
    (queue.lost_records > 0).then(|| Reason {
        name: "lost-records".into(),
        verdict: Verdict::Invalid,
        finding: format!("{} were never measured", counted(queue.lost_records, "record")),
        advice: "see logs/aiperf.log, check the disk of --artifact-dir, and let the run complete"
            .to_owned(),
    })
}

/// Checks delayed sends: a closed loop that waits for its own record processors does not
/// produce the configured load.
fn held_back(queue: &Queue, facts: &Facts) -> Option<Reason> {
    let share = queue.pauses as f64 / facts.requests.max(1) as f64;
    (queue.pauses > 0).then(|| Reason {
        name: "delayed-sends".into(),
        verdict: if share > HELD_BACK_SHARE { Verdict::Invalid } else { Verdict::Suspect },
        finding: format!(
            "{} delayed ({:.1}% of the requests) while records were waiting to be processed",
            if queue.pauses == 1 {
                "1 send was".to_owned()
            } else {
                format!("{} sends were", queue.pauses)
            },
            100.0 * share
        ),
        advice: SLOW_PROCESSORS.to_owned(),
    })
}

fn spilled(queue: &Queue) -> Option<Reason> {
    (queue.spilled_records > 0).then(|| Reason {
        name: "spilled-records".into(),
        verdict: Verdict::Suspect,
        finding: format!(
            "{} ({:.1} MB) were spilled to a file, written by the threads that measure",
            counted(queue.spilled_records, "record"),
            queue.spilled_bytes as f64 / 1e6
        ),
        advice: SLOW_PROCESSORS.to_owned(),
    })
}

fn kept(queue: &Queue) -> Option<Reason> {
    (queue.kept_over_budget > 0).then(|| Reason {
        name: "kept-records".into(),
        verdict: Verdict::Suspect,
        finding: format!(
            "{} beyond the budget of {:.0} MB stayed in memory, since no file could be written",
            counted(queue.kept_over_budget, "record"),
            queue.budget_bytes as f64 / 1e6
        ),
        advice: "free disk space in --artifact-dir, or use another directory".to_owned(),
    })
}

const SLOW_PROCESSORS: &str = "raise --record-processors and give the client more cores, write \
     less with --export-level, or lower the load";

/// Formats a count as `1 core`, `2 cores`.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Formats milliseconds with three significant digits.
fn shown(ms: f64) -> String {
    let decimals = if ms < 1.0 {
        3
    } else if ms < 10.0 {
        2
    } else {
        usize::from(ms < 100.0)
    };
    format!("{ms:.decimals$} ms")
}
