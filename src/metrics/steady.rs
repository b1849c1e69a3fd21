//! The steady state of a phase: the time in which its load was the configured one.
//!
//! It is found from the starts and ends of requests, and its results are computed from what the
//! accumulator keeps for those of the whole phase.

use std::ops::RangeInclusive;

use thiserror::Error;

use super::accumulate::Accumulator;
use super::metric::MetricResult;
use super::tag::{self, MetricTag};
use crate::column::Sorted;
use crate::schedule::HeldLoad;
use crate::units::Nanos;

/// The metrics that the console and OTLP have of the steady state.
pub(crate) const HEADLINES: &[MetricTag] = &[
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
    /// Statistics of the requests that started in it, counts and rates of those that ended in it.
    pub results: Vec<MetricResult>,
}

impl SteadyState {
    /// Its length.
    #[must_use]
    pub fn duration(&self) -> Nanos {
        Nanos(self.end_ns.saturating_sub(self.start_ns))
    }
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
    #[error("fewer than two requests were sent after the ramp of {} s", .0.as_seconds())]
    NoneSent(Nanos),
    /// No request ended in it.
    #[error(
        "no request ended in the {} s from the end of the ramp until the last one was sent",
        .0.as_seconds()
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
    pub(crate) fn steady_state(
        &self,
        load: Option<HeldLoad>,
        phase_start_ns: u64,
    ) -> Result<SteadyState, Unsteady> {
        let requests = || self.timeline().requests();
        let window = match load.ok_or(Unsteady::UnknownLoad)? {
            HeldLoad::AllAtOnce => return Err(Unsteady::AllAtOnce),
            HeldLoad::Concurrency(asked) => {
                let store = self.scratch();
                let starts = requests().map(|request| request.start);
                let starts = Sorted::new(starts, |start| *start, &store);
                let ends = Sorted::new(requests().map(|request| request.end()), |end| *end, &store);
                let fraction = self.settings().steady_state_fraction;
                plateau(starts.iter(), ends.iter(), asked, fraction)?
            }
            HeldLoad::Arrivals { ramp_ns } => {
                let after = phase_start_ns.saturating_add(ramp_ns.0);
                let starts = || requests().map(|request| request.start);
                let first = starts().min().unwrap_or(0);
                let (start, end) = (first.max(after), starts().max().unwrap_or(0));
                if end <= start {
                    return Err(Unsteady::NoneSent(ramp_ns));
                }
                start..=end
            }
        };
        let length = Nanos(window.end() - window.start());
        if !requests().any(|request| window.contains(&request.end())) {
            return Err(Unsteady::NoneEnded(length));
        }
        let count = requests().filter(|request| window.contains(&request.start)).count();
        Ok(SteadyState {
            start_ns: *window.start(),
            end_ns: *window.end(),
            request_count: count as u64,
            request_share: count as f64 / self.timeline().len() as f64,
            results: self.results_in(&window),
        })
    }
}

/// Returns the time from the first to the last instant at which the requests in flight, of which
/// `starts` and `ends` are given in ascending order, were at least `fraction` of `asked`.
///
/// A request that ends is replaced a little later, so their number may be lower in between; their
/// mean may not.
fn plateau(
    starts: impl Iterator<Item = u64>,
    ends: impl Iterator<Item = u64>,
    asked: u64,
    fraction: f64,
) -> Result<RangeInclusive<u64>, Unsteady> {
    let (mut starts, mut ends) = (starts.peekable(), ends.peekable());
    // Less by what rounding may have added.
    let wanted = asked as f64 * fraction * (1.0 - 1e-12);
    let enough = (wanted.ceil() as u64).max(1);
    let (mut now, mut running, mut most) = (0, 0_u64, 0);
    let (mut first, mut last) = (None, 0);
    // Nanoseconds of all requests in flight since `first`, and until `last`.
    let (mut area, mut area_until_last) = (0, 0);
    while let Some(end) = ends.peek() {
        let next = starts.peek().map_or(*end, |start| *start.min(end));
        area += u128::from(running) * u128::from(next - now);
        if running >= enough {
            (last, area_until_last) = (next, area);
        }
        now = next;
        // None ends before it starts, so that at any time at least as many have started as ended.
        while starts.next_if_eq(&now).is_some() {
            running += 1;
        }
        while ends.next_if_eq(&now).is_some() {
            running -= 1;
        }
        most = most.max(running);
        if first.is_none() && running >= enough {
            (first, area) = (Some(now), 0);
        }
    }
    let first = first.ok_or(Unsteady::NotReached { most, asked, fraction })?;
    let mean = area_until_last as f64 / (last - first) as f64;
    if mean < wanted {
        return Err(Unsteady::NotHeld { mean, asked, fraction });
    }
    Ok(first..=last)
}

#[cfg(test)]
mod tests;
