//! A phase cut into slices.

use crate::metrics::slices::cut;
use crate::units::Nanos;

pub use crate::metrics::slices::MAX_SLICES;
pub(super) use crate::metrics::slices::Slice;

use super::super::report::{self, Timeslice, Window};
use super::super::store::EndpointStore;

impl Slice {
    /// This slice with its statistics.
    pub(super) fn with<T>(&self, stats: T) -> Timeslice<T> {
        let Self { start_ns, end_ns, is_complete } = *self;
        Timeslice { start_ns, end_ns, is_complete, stats }
    }
}

/// The slices of `window`.
pub(super) fn of(endpoint: &EndpointStore, window: Window, duration: Nanos) -> Vec<Slice> {
    let is_too_short = report::median_update_interval_ns(endpoint)
        .is_some_and(|interval| (duration.0 as f64) < interval);
    let equal = || cut(&(window.start_ns..window.end_ns), duration).ok();
    let equal = if is_too_short { None } else { equal() };
    equal.unwrap_or_else(|| between_updates(endpoint, window))
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
