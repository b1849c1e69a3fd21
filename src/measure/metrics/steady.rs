//! The steady state of a phase: the time in which its load was the configured one.
//!
//! It is found from the starts and ends of requests, and its results are computed from what the
//! accumulator keeps for those of the whole phase. `docs/decisions/steady-state.md` explains the
//! rules.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use thiserror::Error;

use base::column::{Sorted, Store};
use base::statistics::interval::Measured;
use base::statistics::rate;
use base::units::Nanos;
use client::schedule::HeldLoad;

use super::accumulate::Accumulator;
use super::metric::MetricResult;
use super::tag::{self, MetricTag};
use super::timeline::Request;

/// The metrics that the console and OTLP have of the steady state.
pub const HEADLINES: &[MetricTag] = &[
    tag::TIME_TO_FIRST_TOKEN,
    tag::TIME_TO_SECOND_TOKEN,
    tag::INTER_TOKEN_LATENCY,
    tag::REQUEST_LATENCY,
    tag::OUTPUT_TOKEN_THROUGHPUT_PER_USER,
    tag::REQUEST_THROUGHPUT,
    tag::OUTPUT_TOKEN_THROUGHPUT,
    tag::TOTAL_TOKEN_THROUGHPUT,
    tag::GOODPUT,
];

/// The steady state of a phase.
#[derive(Debug, Clone)]
pub struct SteadyState {
    /// Its start, in nanoseconds since the Unix epoch.
    pub start_ns: u64,
    /// Its end, in the same unit.
    pub end_ns: u64,
    /// Number of requests that started in it, including failed ones.
    pub request_count: u64,
    /// Their fraction of all requests of the phase.
    pub request_share: f64,
    /// How far rate times mean latency is above the mean number of requests in flight, in percent of
    /// it: 0 by Little's law. `None` if no request took any time.
    pub littles_law_residual_percent: Option<f64>,
    /// Half the width of the 95% confidence interval of its requests per second, from how they vary within
    /// it. `None` if there are too few requests to know.
    pub request_throughput_half_width: Option<f64>,
    /// Statistics of the requests that started in it; in counts, sums and rates, each request counts
    /// by the share of its time that lies in it.
    pub results: Vec<MetricResult>,
}

/// The shortest steady state of an open loop, as a fraction of the time in which requests were sent
/// after the ramp.
const LEAST_LEVEL: f64 = 0.3;

/// Confidence level of the interval of its throughput.
const CONFIDENCE: f64 = 0.95;

impl SteadyState {
    /// Its length.
    #[must_use]
    pub fn duration(&self) -> Nanos {
        Nanos(self.end_ns.saturating_sub(self.start_ns))
    }
}

/// Returns the seconds of a time, to a millisecond.
fn seconds(time: Nanos) -> f64 {
    time.as_millis().round() / 1e3
}

/// Why a phase does not have a steady state.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum Unsteady {
    /// The run's description does not contain the load.
    #[error("the configured load is not known")]
    UnknownLoad,
    /// There is no limit on the requests in flight.
    #[error("all requests were sent at once")]
    AllAtOnce,
    /// Too few requests were in flight at any time.
    #[error(
        "at most {most} requests were in flight, less than {}% of the concurrency of {asked}",
        percent(*.fraction)
    )]
    NotReached {
        /// Maximum number of requests in flight.
        most: u64,
        /// The concurrency.
        asked: u64,
        /// The fraction of it that was not reached.
        fraction: f64,
    },
    /// Too few requests were in flight in between.
    #[error(
        "on average {mean:.2} requests were in flight from the first to the last time at which \
         {}% of the concurrency of {asked} were, less than that",
        percent(*.fraction)
    )]
    NotHeld {
        /// Average number of requests in flight.
        mean: f64,
        /// The concurrency.
        asked: u64,
        /// The fraction of it that was not held.
        fraction: f64,
    },
    /// Too few requests were sent to limit a time.
    #[error("fewer than two requests were sent after the ramp of {} s", seconds(*.0))]
    NoneSent(Nanos),
    /// The requests in flight increased until the end.
    #[error(
        "the requests in flight increased for more than {:.0}% of the {} s from the end of the ramp \
         until the last one was sent",
        100.0 * (1.0 - LEAST_LEVEL), seconds(*.0)
    )]
    Growing(Nanos),
    /// No request ended in it.
    #[error(
        "no request ended in the last {} s in which requests were sent, when as many as usual were \
         in flight",
        seconds(*.0)
    )]
    NoneEnded(Nanos),
}

fn percent(fraction: f64) -> f64 {
    (fraction * 1e8).round() / 1e6
}

impl Accumulator {
    /// Finds the steady state of a phase that began at `phase_start_ns` and holds `load`.
    ///
    /// # Errors
    ///
    /// Returns the reason if there is none.
    pub fn steady_state(
        &self,
        load: Option<HeldLoad>,
        phase_start_ns: u64,
    ) -> Result<SteadyState, Unsteady> {
        let load = load.ok_or(Unsteady::UnknownLoad)?;
        let spans = || self.timeline().requests().map(|request| (request.start, request.end()));
        let fraction = self.settings().steady_state_fraction;
        let window = window(&spans, load, phase_start_ns, fraction, &self.scratch())?;
        let started = started(&spans, &window).count();
        let results = self.results_in(&window);
        let throughput = results.iter().find(|it| it.metric.tag == tag::REQUEST_THROUGHPUT);
        let error = throughput.and_then(|_| self.throughput_error(&window));
        Ok(SteadyState {
            start_ns: *window.start(),
            end_ns: *window.end(),
            request_count: started as u64,
            request_share: started as f64 / self.timeline().len() as f64,
            littles_law_residual_percent: littles_law_residual(&spans, &window)
                .map(|residual| 100.0 * residual),
            request_throughput_half_width: throughput
                .zip(error)
                .map(|(throughput, error)| throughput.stats.avg * error),
            results,
        })
    }

    /// Returns half the width of the 95% confidence interval of the rate of the requests that started in
    /// `window`, as a fraction of the rate.
    fn throughput_error(&self, window: &RangeInclusive<u64>) -> Option<f64> {
        let started = || self.timeline().requests().filter(|it| window.contains(&it.start));
        let by_start = Sorted::new(started(), |request| request.start, &self.scratch());
        let by_end = Sorted::new(started(), Request::end, &self.scratch());
        let seconds = |time: u64| Nanos(time - window.start()).as_seconds();
        let span = |request: Request| rate::Span {
            start: seconds(request.start),
            end: seconds(request.end()),
            weight: 1.0,
        };
        let found = rate::rate(|| by_start.iter().map(span), || by_end.iter().map(span))?;
        let measured = Measured::of_sum(
            found.weight / found.seconds,
            found.seconds,
            found.exactness,
            found.batch,
            found.weight as usize,
        );
        Some(measured.half_width(CONFIDENCE)? / measured.value)
    }
}

/// Start and end of a request.
type Span = (u64, u64);

/// Returns the steady state of the requests with the times `spans`.
fn window<I: Iterator<Item = Span>>(
    spans: &impl Fn() -> I,
    load: HeldLoad,
    phase_start: u64,
    fraction: f64,
    store: &Store,
) -> Result<RangeInclusive<u64>, Unsteady> {
    let starts = Sorted::new(spans().map(|(start, _)| start), |start| *start, store);
    let ends = Sorted::new(spans().map(|(_, end)| end), |end| *end, store);
    let levels = || levels(starts.iter(), ends.iter());
    let window = match load {
        HeldLoad::AllAtOnce => return Err(Unsteady::AllAtOnce),
        HeldLoad::Concurrency(asked) => settled(spans, plateau(levels(), asked, fraction)?),
        HeldLoad::Arrivals { ramp_ns } => {
            let after = phase_start.saturating_add(ramp_ns.0);
            let first = starts.iter().next().unwrap_or(0);
            let (start, end) = (first.max(after), starts.iter().last().unwrap_or(0));
            if end <= start {
                return Err(Unsteady::NoneSent(ramp_ns));
            }
            filled(levels, start..=end).ok_or(Unsteady::Growing(Nanos(end - start)))?
        }
    };
    if !ends.iter().any(|end| window.contains(&end)) {
        return Err(Unsteady::NoneEnded(Nanos(window.end() - window.start())));
    }
    Ok(window)
}

/// Iterates over the lengths of the requests that started in `window`, in nanoseconds.
fn started<I: Iterator<Item = Span>>(
    spans: &impl Fn() -> I,
    window: &RangeInclusive<u64>,
) -> impl Iterator<Item = u64> {
    let started = spans().filter(|(start, _)| window.contains(start));
    started.map(|(start, end)| end - start)
}

/// Returns the mean length of the requests that started in `window`; `None` if none did.
fn mean_latency<I: Iterator<Item = Span>>(
    spans: &impl Fn() -> I,
    window: &RangeInclusive<u64>,
) -> Option<f64> {
    let (count, sum) = started(spans, window)
        .fold((0_u64, 0_u128), |(count, sum), nanos| (count + 1, sum + u128::from(nanos)));
    (count > 0).then(|| sum as f64 / count as f64)
}

/// Returns rate times mean latency, divided by the mean number of requests in flight, minus 1. By
/// Little's law it is 0 in the long run. `None` without requests.
fn littles_law_residual<I: Iterator<Item = Span>>(
    spans: &impl Fn() -> I,
    window: &RangeInclusive<u64>,
) -> Option<f64> {
    // Rate and mean number are both relative to the length of the window.
    let shares: f64 = spans().map(|(start, end)| share_in(start, end, window)).sum();
    let in_flight: f64 = spans().map(|(start, end)| overlap(start, end, window) as f64).sum();
    let residual = shares * mean_latency(spans, window)? / in_flight - 1.0;
    Some(residual).filter(|residual| residual.is_finite())
}

/// Returns the part of the `plateau` of a closed loop from one mean latency after its start on, at
/// least half of it: its requests began together, and would end together.
fn settled<I: Iterator<Item = Span>>(
    spans: &impl Fn() -> I,
    plateau: RangeInclusive<u64>,
) -> RangeInclusive<u64> {
    let half = (plateau.end() - plateau.start()) / 2;
    let latency = mean_latency(spans, &plateau).map_or(0, |nanos| nanos as u64);
    let later = plateau.start() + latency.min(half)..=*plateau.end();
    if started(spans, &later).next().is_some() { later } else { plateau }
}

/// Returns how much of the time from `start` to `end` lies in `window`.
fn overlap(start: u64, end: u64, window: &RangeInclusive<u64>) -> u64 {
    end.min(*window.end()).saturating_sub(start.max(*window.start()))
}

/// Returns the share of the time of a request that lies in `window`; 1 for a request in it that did
/// not take any time.
pub(crate) fn share_in(start: u64, end: u64, window: &RangeInclusive<u64>) -> f64 {
    if end > start {
        overlap(start, end, window) as f64 / (end - start) as f64
    } else {
        f64::from(u8::from(window.contains(&start)))
    }
}

/// A time in which the number of requests in flight did not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Level {
    from: u64,
    until: u64,
    running: u64,
}

/// Returns the numbers of requests in flight from the first start to the last end, given the
/// `starts` and `ends` in ascending order.
fn levels(
    starts: impl Iterator<Item = u64>,
    ends: impl Iterator<Item = u64>,
) -> impl Iterator<Item = Level> {
    let (mut starts, mut ends) = (starts.peekable(), ends.peekable());
    let (mut from, mut running) = (0, 0_u64);
    std::iter::from_fn(move || {
        loop {
            // None ends before it starts, so that at any time at least as many have started as ended.
            let end = *ends.peek()?;
            let until = starts.peek().map_or(end, |start| *start.min(&end));
            let level = Level { from, until, running };
            from = until;
            while starts.next_if_eq(&until).is_some() {
                running += 1;
            }
            while ends.next_if_eq(&until).is_some() {
                running -= 1;
            }
            if (level.from > 0 || level.running > 0) && level.until > level.from {
                return Some(level);
            }
        }
    })
}

/// Returns the time from the first to the last instant at which the requests in flight were at least
/// `fraction` of `asked`.
///
/// A request that ends is replaced a little later, so their number may be lower in between; their
/// mean may not.
fn plateau(
    levels: impl Iterator<Item = Level>,
    asked: u64,
    fraction: f64,
) -> Result<RangeInclusive<u64>, Unsteady> {
    // Less by what rounding may have added.
    let wanted = asked as f64 * fraction * (1.0 - 1e-12);
    let enough = (wanted.ceil() as u64).max(1);
    let mut most = 0;
    let mut found = None;
    // Nanoseconds of all requests in flight since the first instant, and until the last.
    let (mut area, mut area_until_last) = (0, 0);
    for Level { from, until, running } in levels {
        most = most.max(running);
        let is_enough = running >= enough;
        if found.is_some() || is_enough {
            area += u128::from(running) * u128::from(until - from);
        }
        if is_enough {
            let (first, _) = found.unwrap_or((from, until));
            (found, area_until_last) = (Some((first, until)), area);
        }
    }
    let (first, last) = found.ok_or(Unsteady::NotReached { most, asked, fraction })?;
    let mean = area_until_last as f64 / (last - first) as f64;
    if mean < wanted {
        return Err(Unsteady::NotHeld { mean, asked, fraction });
    }
    Ok(first..=last)
}

/// Returns the part of `window` from when the queue has filled: the first instant at which at least
/// as many requests are in flight as in the median of the time from then on. `None` if less than
/// [`LEAST_LEVEL`] of the window would be left.
fn filled<L: Iterator<Item = Level>>(
    levels: impl Fn() -> L,
    window: RangeInclusive<u64>,
) -> Option<RangeInclusive<u64>> {
    let (mut start, end) = window.clone().into_inner();
    let least = ((end - start) as f64 * LEAST_LEVEL) as u64;
    while end - start >= least {
        let within = || {
            levels().filter_map(|level| {
                let (from, until) = (level.from.max(start), level.until.min(end));
                (from < until).then_some(Level { from, until, ..level })
            })
        };
        let median = median(within())?;
        let reached = within().find(|level| level.running >= median)?.from;
        if reached == start {
            return Some(start..=end);
        }
        start = reached;
    }
    None
}

/// Returns the smallest number of requests in flight that was not exceeded for half of the time.
fn median(levels: impl Iterator<Item = Level>) -> Option<u64> {
    let mut nanos: BTreeMap<u64, u64> = BTreeMap::new();
    for Level { from, until, running } in levels {
        *nanos.entry(running).or_default() += until - from;
    }
    let half = nanos.values().sum::<u64>().div_ceil(2);
    let mut below = 0;
    nanos.into_iter().find_map(|(running, of_level)| {
        below += of_level;
        (below >= half).then_some(running)
    })
}

#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
