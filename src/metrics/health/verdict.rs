//! The rules for the verdict, with advice. `docs/decisions/client-health.md` explains them.

use super::{ClientHealth, Cpu, Queue, Reason, TimeStatistics, Verdict};
use crate::metrics::metric::MetricResult;
use crate::metrics::tag;

/// Lower limit for the measured values that errors are compared with, in milliseconds. Below
/// it the noise of any machine would raise doubt.
const FINEST_MS: f64 = 5.0;
/// Errors above this are always suspect, in milliseconds.
const DOUBTFUL_MS: f64 = 100.0;
/// Errors above this are always invalid, in milliseconds.
const RUINOUS_MS: f64 = 1000.0;
/// An error above this fraction of the measured value is suspect.
const DOUBTFUL_SHARE: f64 = 0.1;
/// An error above this fraction of the measured value is invalid.
const RUINOUS_SHARE: f64 = 1.0 / 3.0;
/// Below this fraction of kernel timestamps, read lag affects the 99th percentile of errors.
const STAMPED_SHARE: f64 = 0.99;
/// A worker above this CPU usage is overloaded.
const SATURATED: f64 = 0.95;
/// Above this CPU usage, delays are attributed to the worker and not to the machine.
const BUSY: f64 = 0.8;
/// Fraction of delayed sends above which the load was not the configured one.
const HELD_BACK_SHARE: f64 = 0.1;

/// Input of the rules in addition to [`ClientHealth`].
pub(super) struct Facts {
    requests: u64,
    /// 99th percentile of the slip.
    late_ms: Option<f64>,
    /// 99th percentile of the slip of requests that were due while the worker slept.
    idle_late_ms: Option<f64>,
    /// The median response time.
    response: Option<Scale>,
    /// The smallest median of the metrics that arrival times are used for.
    finest: Option<Scale>,
}

/// A measured value that errors are compared with.
#[derive(Clone, Copy)]
struct Scale {
    name: &'static str,
    ms: f64,
}

impl Facts {
    pub(super) fn new(
        requests: u64,
        late_ms: Option<f64>,
        idle_late_ms: Option<f64>,
        results: &[MetricResult],
    ) -> Self {
        let median = |tag, name| {
            let result = results.iter().find(|result| result.metric.tag == tag)?;
            Some(Scale { name, ms: result.stats.distribution?.p50 })
        };
        let latency = median(tag::REQUEST_LATENCY, "request latency");
        let first_token = median(tag::TIME_TO_FIRST_TOKEN, "time to first token");
        let between = median(tag::INTER_TOKEN_LATENCY, "inter-token latency");
        let smaller = |one: Scale, other: Scale| if one.ms <= other.ms { one } else { other };
        Self {
            requests,
            late_ms,
            idle_late_ms,
            response: first_token.or(latency),
            finest: [latency, first_token, between].into_iter().flatten().reduce(smaller),
        }
    }
}

/// Returns all reasons for doubt, the most serious first.
pub(super) fn reasons(health: &ClientHealth, facts: &Facts) -> Vec<Reason> {
    let mut reasons: Vec<Reason> =
        [late_sends(health, facts), vague_arrivals(health, facts), saturated_worker(health)]
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

/// Returns the severity of an error of `ms` relative to the measured value.
fn gravity(ms: f64, scale: Option<Scale>) -> Option<Verdict> {
    let measured = scale.map_or(f64::INFINITY, |scale| scale.ms.max(FINEST_MS));
    let limit = |share: f64, most: f64| (measured * share).min(most);
    if ms > limit(RUINOUS_SHARE, RUINOUS_MS) {
        Some(Verdict::Invalid)
    } else if ms > limit(DOUBTFUL_SHARE, DOUBTFUL_MS) {
        Some(Verdict::Suspect)
    } else {
        None
    }
}

/// Formats `, 19% of the median time to first token (200 ms)`; empty if the median is too
/// small for a meaningful percentage.
fn beside(ms: f64, scale: Option<Scale>) -> String {
    scale.filter(|scale| scale.ms >= FINEST_MS).map_or_else(String::new, |scale| {
        let percent = 100.0 * ms / scale.ms;
        format!(", {percent:.0}% of the median {} ({})", scale.name, shown(scale.ms))
    })
}

fn late_sends(health: &ClientHealth, facts: &Facts) -> Option<Reason> {
    let late = facts.late_ms?;
    let slept = facts.idle_late_ms.is_some_and(|ms| gravity(ms, facts.response).is_some());
    Some(Reason {
        verdict: gravity(late, facts.response)?,
        finding: format!(
            "requests left {} late at p99{}",
            shown(late),
            beside(late, facts.response)
        ),
        advice: if slept {
            "sleeping workers were woken late, so other programs used the CPU; keep other \
             programs, including the server, off the client's cores"
                .to_owned()
        } else {
            more_workers(health.cpu.as_ref(), "lower the rate")
        },
    })
}

/// Checks arrival times. Bytes that were read late may have arrived before their timestamp.
/// Without kernel timestamps, read lag is an error too.
fn vague_arrivals(health: &ClientHealth, facts: &Facts) -> Option<Reason> {
    let p99 = |spread: &Option<TimeStatistics>| spread.map(|spread| spread.p99);
    let is_stamped = health.reads.is_some_and(|reads| reads.kernel_share >= STAMPED_SHARE);
    let lag = if is_stamped { None } else { p99(&health.read_lag_ms) };
    let error = [p99(&health.arrival_error_ms), lag].into_iter().flatten().reduce(f64::max)?;
    Some(Reason {
        verdict: gravity(error, facts.finest)?,
        finding: format!(
            "events were read late, so arrival times are uncertain by {} at p99{}",
            shown(error),
            beside(error, facts.finest)
        ),
        advice: more_workers(health.cpu.as_ref(), "lower the load"),
    })
}

fn saturated_worker(health: &ClientHealth) -> Option<Reason> {
    let cpu = health.cpu.as_ref()?;
    (cpu.worker_max >= SATURATED).then(|| Reason {
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
