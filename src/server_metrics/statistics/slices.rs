//! A phase cut into slices.

use crate::units::Nanos;

use super::super::report::{self, Timeslice, Window};
use super::super::store::EndpointStore;

/// More slices of a phase than this are not made.
pub const MAX_SLICES: u64 = 100_000;

/// A part of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) is_complete: bool,
}

impl Slice {
    pub(super) fn seconds(&self) -> f64 {
        Nanos(self.end_ns.saturating_sub(self.start_ns)).as_seconds()
    }

    /// This slice with its statistics.
    pub(super) fn with<T>(&self, stats: T) -> Timeslice<T> {
        let Self { start_ns, end_ns, is_complete } = *self;
        Timeslice { start_ns, end_ns, is_complete, stats }
    }
}

/// The slices of `window`.
pub(super) fn of(endpoint: &EndpointStore, window: Window, duration: Nanos) -> Vec<Slice> {
    let length = window.end_ns.saturating_sub(window.start_ns);
    let is_too_short = duration.0 == 0
        || length / duration.0 >= MAX_SLICES
        || report::median_update_interval_ns(endpoint)
            .is_some_and(|interval| (duration.0 as f64) < interval);
    if is_too_short { between_updates(endpoint, window) } else { equal(window, duration.0) }
}

fn equal(window: Window, duration: u64) -> Vec<Slice> {
    let length = window.end_ns.saturating_sub(window.start_ns);
    let slice = |start_ns: u64| {
        let is_complete = window.end_ns - start_ns >= duration;
        let end_ns = if is_complete { start_ns + duration } else { window.end_ns };
        Slice { start_ns, end_ns, is_complete }
    };
    (0..length.div_ceil(duration)).map(|index| slice(window.start_ns + index * duration)).collect()
}

/// From each update to the next one. The first slice begins with the phase; the
/// last ends with it, and is complete where an update stands there.
fn between_updates(endpoint: &EndpointStore, window: Window) -> Vec<Slice> {
    let scrapes = endpoint.scrapes();
    let mut bounds = vec![window.start_ns];
    let times = endpoint.updates().iter().filter_map(|update| scrapes.get(*update as usize));
    bounds.extend(
        times
            .map(|times| times.first_byte_ns)
            .filter(|time| *time > window.start_ns && *time <= window.end_ns),
    );
    bounds.dedup();
    let ends_with_update = bounds.len() > 1 && bounds.last() == Some(&window.end_ns);
    if !ends_with_update && window.end_ns > window.start_ns {
        bounds.push(window.end_ns);
    }
    let pairs = bounds.windows(2).take(MAX_SLICES as usize);
    pairs
        .map(|pair| Slice {
            start_ns: pair[0],
            end_ns: pair[1],
            is_complete: ends_with_update || pair[1] != window.end_ns,
        })
        .collect()
}
