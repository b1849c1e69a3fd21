//! Time slices of a phase, each with its own results.
//!
//! A request belongs to the slice in which it was sent, regardless of when it ended. During
//! a phase its requests are only logged, since the start of the slices need not be known
//! yet. Afterwards the requests of each slice are added to a new [`Accumulator`], one slice
//! after the other, so that slices are computed like phases and only one is in memory.

use std::ops::Range;
use std::sync::Arc;

use thiserror::Error;

use base::units::Nanos;

use super::accumulate::{Accumulator, Part};
use super::metric::MetricResult;
use super::registry::Registry;
use super::timeline::OverTime;

mod log;

pub(super) use log::Log;

/// Maximum number of slices of a phase.
pub(crate) const MAX_SLICES: u64 = 100_000;

/// The error if there would be too many slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "time slices of {} s would exceed the maximum of {MAX_SLICES}, so no slices are written; \
     raise --slice-duration", .0.as_seconds()
)]
pub struct TooManySlices(Nanos);

/// A time slice of a phase, in wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    pub start_ns: u64,
    /// Its end (exclusive).
    pub end_ns: u64,
    /// Whether it has the full length; only the last one may be shorter.
    pub is_complete: bool,
}

impl Slice {
    /// Its length.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        Nanos(self.end_ns.saturating_sub(self.start_ns)).as_seconds()
    }
}

/// Divides `window` into slices of `duration`, the last of which may be shorter.
pub fn cut(window: &Range<u64>, duration: Nanos) -> Result<Vec<Slice>, TooManySlices> {
    let length = window.end.saturating_sub(window.start);
    if duration == Nanos::ZERO || length.div_ceil(duration.0) > MAX_SLICES {
        return Err(TooManySlices(duration));
    }
    let slice = |index: u64| {
        let start_ns = window.start + index * duration.0;
        let is_complete = window.end - start_ns >= duration.0;
        let end_ns = if is_complete { start_ns + duration.0 } else { window.end };
        Slice { start_ns, end_ns, is_complete }
    };
    Ok((0..length.div_ceil(duration.0)).map(slice).collect())
}

/// The slices of a phase, with the data for their results.
#[derive(Debug, Clone)]
pub struct Slices {
    registry: Arc<Registry>,
    log: Arc<Log>,
    /// For each slice its bounds, the curves in it, and the end of its part of `order`.
    parts: Vec<(Slice, OverTime, usize)>,
    /// The requests of the log, slice by slice.
    order: Vec<u32>,
    /// By row: 0 for counts and sums of the phase, for slices that add nothing.
    nothing: Arc<[Option<f64>]>,
}

impl Slices {
    /// Creates the slices `all` of the phase that `log` is of, with the curves `over_time` of
    /// each. A request that was sent outside all slices belongs to the nearest.
    pub(super) fn new(
        registry: Arc<Registry>,
        log: Arc<Log>,
        all: &[Slice],
        over_time: Vec<OverTime>,
        nothing: Arc<[Option<f64>]>,
    ) -> Self {
        let slice_of = |start_ns: u64| {
            all.partition_point(|slice| slice.end_ns <= start_ns).min(all.len().saturating_sub(1))
        };
        // Where the requests of each slice begin; then where the next one of each belongs.
        let mut next = vec![0; all.len().max(1) + 1];
        log.starts_ns().for_each(|start_ns| next[slice_of(start_ns) + 1] += 1);
        for at in 1..next.len() {
            next[at] += next[at - 1];
        }
        let mut order = vec![0; next.last().copied().unwrap_or(0)];
        for (request, start_ns) in log.starts_ns().enumerate() {
            let place = &mut next[slice_of(start_ns)];
            order[*place] = request as u32;
            *place += 1;
        }
        // By now each is where the requests of the slice end.
        let parts = all.iter().copied().zip(over_time).zip(next);
        let parts = parts.map(|((slice, over_time), until)| (slice, over_time, until)).collect();
        Self { registry, log, parts, order, nothing }
    }

    /// Iterates over all slices with their results, in order, including those without requests.
    pub fn iter(&self) -> impl Iterator<Item = (Slice, Vec<MetricResult>)> {
        let mut from = 0;
        self.parts.iter().map(move |(slice, over_time, until)| {
            let requests = &self.order[from..*until];
            from = *until;
            let mut accumulator = Accumulator::of_part(
                Arc::clone(&self.registry),
                Part {
                    length: Nanos(slice.end_ns - slice.start_ns),
                    over_time: over_time.clone(),
                    nothing: Arc::clone(&self.nothing),
                },
            );
            for request in requests {
                accumulator.observe(&self.log.observation(*request));
            }
            (*slice, accumulator.results())
        })
    }
}

#[cfg(test)]
mod tests;
