//! The causes of a run's latencies and throughput that its data show, each in a sentence, the one that
//! limits the throughput first.

use base::redact::printable;
use measure::metrics::breakdown::{GroupResult, Pace, Worker, slowest_url};
use measure::metrics::health::{LoadVerdict, Verdict};
use measure::metrics::silence::Silence;
use measure::metrics::tag;
use measure::multi_run::GroupResults;
use measure::multi_run::sweep::Beyond;

use super::{Request, growth};
use crate::console::runs::conclusion;
use crate::run::{LoadLimit, RunReport};
use crate::tables::format::{count, four_digits};
use crate::warnings::share;

/// Least share of rejected requests that is a cause, and of prompt tokens from a cache.
const NOTABLE_SHARE: f64 = 0.01;
const NOTABLE_CACHED_PERCENT: f64 = 10.0;
/// How many times slower the first requests are if it is worth a sentence.
const COLD: f64 = 1.5;
/// A pause is this many times as long as the median of the longest gaps, and at least so long.
const PAUSE: f64 = 10.0;
const SHORTEST_PAUSE_NS: f64 = 100e6;

/// Returns the causes, at least one: what limits the throughput, or that it is not known.
pub(super) fn causes(report: &RunReport, requests: &[Request]) -> Vec<String> {
    let mut causes = limits(report);
    causes.extend(report.silences.first().map(|longest| silence(longest, report.silences.len())));
    causes.extend(slow_url(&report.breakdowns.by_url));
    causes.extend(slow_workers(report));
    causes.extend(cold_start(requests));
    causes.extend(pauses(requests, &report.silences, report.outcome.start_wall_ns));
    causes.extend(cached(report));
    causes
}

/// Returns what limits the throughput. If the client could not keep up, that comes first, and of the rest
/// only what does not depend on it.
fn limits(report: &RunReport) -> Vec<String> {
    let counted = rejected(report).or_else(|| Some(counted(report, report.load_limit()?)));
    let client = report.outcome.client_health.as_ref();
    if let Some(health) = client.filter(|health| health.verdict == Some(Verdict::Invalid)) {
        let why = health.reasons.first().map(|reason| format!(": {}", printable(&reason.finding)));
        let first = format!("The client limits the results{}.", why.unwrap_or_default());
        return [Some(first), counted].into_iter().flatten().collect();
    }
    let found = counted
        .or_else(|| saturated(report))
        .or_else(|| configured_rate(report))
        .or_else(|| concurrency(report));
    vec![found.unwrap_or_else(|| "What limits the throughput is not known.".to_owned())]
}

/// Requests that the server rejected at once, which is not a queue.
fn rejected(report: &RunReport) -> Option<String> {
    let of = report.ended();
    let with = |code: u16| -> u64 {
        let errors = report.errors.iter();
        errors.filter(|one| one.error_details.code == Some(code)).map(|one| one.count).sum()
    };
    let (code, requests) =
        [429, 503, 529].map(|code| (code, with(code))).into_iter().max_by_key(|(_, n)| *n)?;
    (requests > 0 && requests as f64 >= NOTABLE_SHARE * of as f64).then(|| {
        let what = if code == 429 { "A rate limit of the server" } else { "The server's overload" };
        format!(
            "{what} limits the throughput: it rejected {} with status {code}.",
            share(requests, of)
        )
    })
}

/// Returns what the results of several runs show together: of a search its answer, and whether the throughput
/// grew with the concurrency.
pub(super) fn of_group(results: &GroupResults) -> Vec<String> {
    let GroupResults::Sweep(results) = results else { return Vec::new() };
    let answer = results.search.as_ref().map(conclusion);
    let beyond = results.beyond();
    let stages = beyond.iter().flat_map(Beyond::sentences);
    answer.into_iter().chain(growth::of(results)).chain(stages).collect()
}

/// States a limit that the data count.
fn counted(report: &RunReport, limit: LoadLimit) -> String {
    match limit {
        LoadLimit::ServerQueue { running, waiting } => format!(
            "The server limits the throughput: on average it ran {} requests, and {} waited in its \
             queue. More requests in flight only wait longer.",
            four_digits(running),
            four_digits(waiting)
        ),
        LoadLimit::ThinkTime { share } => format!(
            "The think time of sessions limits the throughput: they spent {:.0}% of their time between \
             turns.",
            100.0 * share
        ),
        LoadLimit::Concurrency(most) => {
            let load = &report.outcome.load;
            match (load.requested_rate, load.reached_rate) {
                (Some(wanted), Some(sent)) => format!(
                    "The configured concurrency limits the throughput: with at most {} in flight, \
                     {sent:.1} of {wanted:.1} requests/s were sent. Raise --concurrency, or leave it out.",
                    count(most)
                ),
                _ => format!(
                    "The concurrency limits the throughput: {} in flight, and hardly any waited in \
                     the server, so a higher concurrency may give a higher throughput.",
                    if most == 1 {
                        "1 request was".to_owned()
                    } else {
                        format!("{} requests were", count(most))
                    }
                ),
            }
        }
    }
}

fn saturated(report: &RunReport) -> Option<String> {
    let load = report.outcome.load_health.filter(|load| load.verdict == LoadVerdict::Saturated)?;
    Some(format!(
        "The server limits the throughput: {:.1} requests/s were offered and {:.1} served, so that its \
         queue grew.",
        load.offered_rate, load.served_rate
    ))
}

fn configured_rate(report: &RunReport) -> Option<String> {
    report.outcome.load.requested_rate.map(|rate| {
        format!(
            "The configured load limits the throughput: {rate:.1} requests/s were to be sent, and the \
             server was not measurably slower."
        )
    })
}

/// A closed loop whose server does not report whether requests wait, or few requests.
fn concurrency(report: &RunReport) -> Option<String> {
    let latency = report.average(tag::REQUEST_LATENCY)?;
    let concurrency = report.outcome.load.requested_concurrency?;
    Some(format!(
        "The concurrency limits the throughput: at most {} were in flight, of {} ms each. Whether \
         they waited in the server is not known without its metrics; a higher concurrency shows whether \
         it can do more.",
        count(concurrency),
        four_digits(latency)
    ))
}

/// A time in which nothing arrived on any stream.
fn silence(longest: &Silence, all: usize) -> String {
    let others = match all {
        0 | 1 => String::new(),
        all => format!(" There were {all} such times; this was the longest."),
    };
    format!("The whole server was silent: {longest}.{others}")
}

fn slow_url(urls: &[GroupResult]) -> Option<String> {
    let (name, slow, fast) = slowest_url(urls)?;
    Some(format!(
        "{} is slower than the other servers: its mean request latency is {} ms, that of the fastest {} \
         ms.",
        printable(name),
        four_digits(slow),
        four_digits(fast)
    ))
}

fn slow_workers(report: &RunReport) -> Option<String> {
    let workers = &report.breakdowns.workers.as_ref()?.workers;
    let is_slower = |tag| {
        let finding = move |worker: &Worker| worker.latency(tag)?.finding;
        workers.iter().find(|worker| finding(worker) == Some(Pace::Slower))
    };
    let slow = is_slower(tag::REQUEST_LATENCY).or_else(|| is_slower(tag::TIME_TO_FIRST_TOKEN))?;
    let latency = slow.latency(tag::REQUEST_LATENCY)?;
    Some(format!(
        "The worker {} is slower than the others: its mean request latency is {} ms, that of all {} ms.",
        printable(&slow.name),
        four_digits(latency.mean_ms),
        report.average(tag::REQUEST_LATENCY).map_or_else(String::new, four_digits)
    ))
}

/// First requests that took longer than later ones.
fn cold_start(requests: &[Request]) -> Option<String> {
    let mut ordered: Vec<&Request> = requests.iter().collect();
    ordered.sort_by_key(|request| request.start_wall_ns);
    let later = ordered.get(ordered.len() / 4..)?;
    let usual = median(later.iter().map(|request| request.latency_ns))?;
    let is_slow = |request: &&&Request| request.latency_ns > COLD * usual;
    let cold = ordered.iter().take_while(is_slow).count();
    let slow_later = later.iter().filter(is_slow).count();
    // Slow requests that also come later are not those of a start.
    let is_start = cold >= 3 && cold <= ordered.len() / 5 && slow_later * 20 <= later.len();
    is_start.then(|| {
        let first = median(ordered.iter().take(cold).map(|request| request.latency_ns));
        format!(
            "The server was cold: the first {cold} requests took {} ms (median), later ones {} ms. Use \
             --warmup-request-count.",
            four_digits(first.unwrap_or(0.0) / 1e6),
            four_digits(usual / 1e6)
        )
    })
}

/// Outputs that stopped in the middle for much longer than others.
fn pauses(requests: &[Request], silences: &[Silence], start_wall_ns: u64) -> Option<String> {
    let gaps = || requests.iter().filter_map(|request| Some((request, request.longest_gap?)));
    let usual = median(gaps().map(|(_, (gap, _))| gap))?;
    let least = SHORTEST_PAUSE_NS.max(PAUSE * usual);
    let ends_of = |silence: &Silence| {
        let start = start_wall_ns as f64 + silence.start_seconds * 1e9;
        start..start + silence.duration_seconds * 1e9
    };
    let is_known = |request: &Request| {
        silences.iter().map(ends_of).any(|silent| {
            (request.start_wall_ns as f64) < silent.end
                && request.start_wall_ns as f64 + request.latency_ns > silent.start
        })
    };
    let paused: Vec<_> =
        gaps().filter(|(request, (gap, _))| *gap >= least && !is_known(request)).collect();
    let length = median(paused.iter().map(|(_, (gap, _))| *gap))?;
    let after = median(paused.iter().map(|(_, (_, events))| *events as f64))?;
    let is_paused = |one: &Request| one.longest_gap.is_some_and(|(gap, _)| gap >= least);
    let mut others: Vec<f64> =
        requests.iter().filter(|one| !is_paused(one)).map(|one| one.latency_ns).collect();
    others.sort_by(f64::total_cmp);
    let p99 = others.get((0.99 * others.len() as f64) as usize)?;
    Some(format!(
        "{} of {} outputs paused for about {:.0} ms after {after:.0} events (median); the p99 of the \
         latency of the others is {} ms.",
        count(paused.len() as u64),
        count(requests.len() as u64),
        length / 1e6,
        four_digits(p99 / 1e6)
    ))
}

fn cached(report: &RunReport) -> Option<String> {
    let percent = report.cached_percent().filter(|percent| *percent >= NOTABLE_CACHED_PERCENT)?;
    Some(format!(
        "Prompts were cached: the server read {percent:.1}% of the prompt tokens from its prefix cache, \
         which makes the time to first token shorter than that of new prompts."
    ))
}

/// Returns the median; `None` without values.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
