//! The rules: what makes a result doubtful, and what to do about it. Why they
//! are as they are is in `docs/decisions/client-health.md`.

use super::{ClientHealth, Cpu, Queue, Reason, Spread, Verdict};
use crate::metrics::metric::MetricResult;

/// What is measured counts as no finer than this, in milliseconds: below it the
/// noise of any machine would be doubtful.
const FINEST_MS: f64 = 5.0;
/// Errors above this are doubtful whatever is measured, in milliseconds.
const DOUBTFUL_MS: f64 = 100.0;
/// The same for results that are none.
const RUINOUS_MS: f64 = 1000.0;
/// An error is doubtful above this share of what is measured.
const DOUBTFUL_SHARE: f64 = 0.1;
/// And leaves no result above this one.
const RUINOUS_SHARE: f64 = 1.0 / 3.0;
/// Below this share of stamps by the kernel, the lag of the reads is among the
/// errors that a 99th percentile sees.
const STAMPED_SHARE: f64 = 0.99;
/// A worker this busy has no time to be on time.
const SATURATED: f64 = 0.95;
/// From here on it is the worker that is late, and not the machine.
const BUSY: f64 = 0.8;
/// Sends held back, as a share of the requests, above which the load was another.
const HELD_BACK_SHARE: f64 = 0.1;

/// What the rules need beside [`ClientHealth`].
pub(super) struct Facts {
    requests: u64,
    /// How late requests left, 99th percentile.
    late_ms: Option<f64>,
    /// The same of sends that were due while the worker slept.
    idle_late_ms: Option<f64>,
    /// The median time to respond.
    response: Option<Scale>,
    /// The smallest median of what arrivals are used for.
    finest: Option<Scale>,
}

/// Something measured that errors are held against.
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
        let latency = median("request_latency", "request latency");
        let first_token = median("time_to_first_token", "time to first token");
        let between = median("inter_token_latency", "inter-token latency");
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

/// Every reason for doubt, the gravest first.
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
    // Stable: of two that are as grave, the one that was told first.
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.verdict));
    reasons
}

/// How grave an error of `ms` is beside what is measured.
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

/// `, 19% of the median time to first token (200 ms)`; nothing where the median is
/// so small that the share says nothing.
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
            "workers that slept were woken late, so something else had the processor: keep other \
             programs, the server among them, off the client's cores"
                .to_owned()
        } else {
            more_workers(health.cpu.as_ref(), "lower the rate")
        },
    })
}

/// Bytes that were read late have waited under a stamp that is not theirs. Where
/// the program's own time stands in for the kernel's, the lag of its reads is an
/// error too.
fn vague_arrivals(health: &ClientHealth, facts: &Facts) -> Option<Reason> {
    let p99 = |spread: &Option<Spread>| spread.map(|spread| spread.p99);
    let is_stamped = health.reads.is_some_and(|reads| reads.kernel_share >= STAMPED_SHARE);
    let lag = if is_stamped { None } else { p99(&health.read_lag_ms) };
    let error = [p99(&health.arrival_error_ms), lag].into_iter().flatten().reduce(f64::max)?;
    Some(Reason {
        verdict: gravity(error, facts.finest)?,
        finding: format!(
            "events were read late: arrivals are known only to within {} at p99{}",
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
            "the busiest worker used {:.0}% of a core: rates and latencies may be the client's own",
            100.0 * cpu.worker_max
        ),
        advice: more_workers(Some(cpu), "lower the load"),
    })
}

/// What helps a client that is late: more threads if it is they that are busy
/// and there are cores for them, else more of the machine.
fn more_workers(cpu: Option<&Cpu>, or: &str) -> String {
    match cpu {
        Some(cpu) if cpu.worker_max < BUSY => format!(
            "the workers had time to spare ({:.0}% of a core at most), so something else held \
             them up: keep other programs, the server among them, off the client's cores, or {or}",
            100.0 * cpu.worker_max
        ),
        Some(cpu) if cpu.workers >= cpu.cores => format!(
            "{} in use for {}: give the client more cores and raise --workers-max, or {or}",
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
        finding: format!("{} never measured", counted(queue.lost_records, "record")),
        advice: "see logs/aiperf.log, check the disk of --artifact-dir, and let the run come to \
                 its end"
            .to_owned(),
    })
}

/// A closed loop that waits for its own processors is not the load asked for.
fn held_back(queue: &Queue, facts: &Facts) -> Option<Reason> {
    let share = queue.pauses as f64 / facts.requests.max(1) as f64;
    (queue.pauses > 0).then(|| Reason {
        verdict: if share > HELD_BACK_SHARE { Verdict::Invalid } else { Verdict::Suspect },
        finding: format!(
            "{} held back ({:.1}% of the requests) while records waited to be processed",
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
            "{} ({:.1} MB) went through a file, written by the threads that measure",
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
        advice: "free some disk space in --artifact-dir, or name another".to_owned(),
    })
}

const SLOW_PROCESSORS: &str = "raise --record-processors and give the client more cores, write \
     less with --export-level, or lower the load";

/// `1 core`, `2 cores`
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Milliseconds with three digits that say something.
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
