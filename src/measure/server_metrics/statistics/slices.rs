//! Divides a phase into slices.

use base::units::Nanos;

pub(super) use crate::metrics::slices::Slice;
use crate::metrics::slices::{MAX_SLICES, cut};

use super::super::report::{self, Timeslice, Window};
use super::super::store::EndpointStore;

impl Slice {
    /// Returns this slice with its statistics.
    pub(super) fn with<T>(&self, stats: T) -> Timeslice<T> {
        let Self { start_ns, end_ns, is_complete } = *self;
        Timeslice { start_ns, end_ns, is_complete, stats }
    }
}

pub(super) fn slices(endpoint: &EndpointStore, window: Window, duration: Nanos) -> Vec<Slice> {
    let is_too_short =
        update_interval_ns(endpoint).is_some_and(|interval| (duration.0 as f64) < interval);
    let equal = || cut(&(window.start_ns..window.end_ns), duration).ok();
    let equal = if is_too_short { None } else { equal() };
    equal.unwrap_or_else(|| between_updates(endpoint, window))
}

/// Returns the median interval between scrapes with new values, or between all scrapes if values
/// never change.
fn update_interval_ns(endpoint: &EndpointStore) -> Option<f64> {
    report::median_update_interval_ns(endpoint)
        .or_else(|| report::median_interval_ns(&scrape_times(endpoint)))
}

fn scrape_times(endpoint: &EndpointStore) -> Vec<u64> {
    endpoint.scrapes().iter().map(|scrape| scrape.first_byte_ns).collect()
}

/// Returns slices from each update to the next, or from each scrape to the next if there are too
/// few updates. The first slice begins with the phase; the last ends with it, and is complete if
/// there is an update at its end.
fn between_updates(endpoint: &EndpointStore, window: Window) -> Vec<Slice> {
    let times = match report::median_update_interval_ns(endpoint) {
        Some(_) => report::update_times(endpoint),
        None => scrape_times(endpoint),
    };
    let mut bounds = vec![window.start_ns];
    bounds
        .extend(times.into_iter().filter(|time| *time > window.start_ns && *time <= window.end_ns));
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
