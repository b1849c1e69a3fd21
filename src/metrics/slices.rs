//! A phase cut into slices of time, each with results of its own.
//!
//! A request belongs to the slice in which it was sent, whenever it ended. While a
//! phase goes on its requests are only noted in a log: where the slices begin
//! need not be known yet. Afterwards each slice's requests are observed again, by an
//! [`Accumulator`] of its own, one slice after the other, so that a slice is computed
//! as a phase is and no more than one is in memory.

use std::ops::Range;
use std::sync::Arc;

use thiserror::Error;

use super::accumulate::{Accumulator, Part};
use super::metric::MetricResult;
use super::registry::Registry;
use super::timeline::OverTime;
use crate::units::Nanos;

mod log;

pub(super) use log::Log;

/// More slices of a phase than this are not made.
pub const MAX_SLICES: u64 = 100_000;

/// There would be too many slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "slices of {} s would be more than {MAX_SLICES}: there are no files of them; give a greater \
     --slice-duration", .0.as_seconds()
)]
pub struct TooManySlices(Nanos);

/// A part of a phase; wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Its start.
    pub start_ns: u64,
    /// Its end, which belongs to the next one.
    pub end_ns: u64,
    /// It is as long as the others: only the last one may not be.
    pub is_complete: bool,
}

impl Slice {
    /// Its length.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        Nanos(self.end_ns.saturating_sub(self.start_ns)).as_seconds()
    }
}

/// `window` in slices of `duration` from its start on, the last one cut by its end.
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

/// The slices of a phase, and what is needed to compute their results.
#[derive(Debug, Clone)]
pub struct Slices {
    registry: Arc<Registry>,
    log: Arc<Log>,
    /// One for each slice: its bounds, what went on in it, and how many of `order`
    /// come before its end.
    parts: Vec<(Slice, OverTime, usize)>,
    /// The requests of the log, slice by slice.
    order: Vec<u32>,
    /// What adds up over the phase, by row: 0 in a slice that adds nothing.
    nothing: Arc<[Option<f64>]>,
}

impl Slices {
    /// The slices `all` of a phase that `log` is of; `over_time` has what went on in
    /// each. A request that was sent outside of them is of the nearest.
    pub(super) fn new(
        registry: Arc<Registry>,
        log: Arc<Log>,
        all: &[Slice],
        over_time: Vec<OverTime>,
        nothing: Arc<[Option<f64>]>,
    ) -> Self {
        let of = |request: &u32| {
            let start_ns = log.start_ns(*request);
            all.partition_point(|slice| slice.end_ns <= start_ns).min(all.len().saturating_sub(1))
        };
        let mut order: Vec<u32> = (0..log.len()).collect();
        order.sort_by_cached_key(of);
        let parts = all.iter().copied().zip(over_time).enumerate();
        let parts = parts
            .map(|(at, (slice, over_time))| {
                (slice, over_time, order.partition_point(|request| of(request) <= at))
            })
            .collect();
        Self { registry, log, parts, order, nothing }
    }

    /// Each slice with its results, in order of time; those without a request too.
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
                accumulator.observe(&self.log.observation(*request, &self.registry));
            }
            (*slice, accumulator.results())
        })
    }
}

#[cfg(test)]
mod tests;
