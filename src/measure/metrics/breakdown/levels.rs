//! The requests of the windows in which an adaptive load had one level.

use std::ops::Range;
use std::sync::Arc;

use base::column::Store;

use crate::metrics::accumulate::Accumulator;
use crate::metrics::metric::{MetricResult, Observation};
use crate::metrics::registry::Registry;

/// An accumulator for each window. A request belongs to the window of its phase in which it started.
#[derive(Debug)]
pub struct Levels {
    registry: Arc<Registry>,
    store: Store,
    windows: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    phase: u32,
    /// In nanoseconds since the epoch.
    time: Range<u64>,
    values: Accumulator,
}

impl Levels {
    /// Creates an instance without windows, whose values will be in `store`.
    pub const fn new(registry: Arc<Registry>, store: Store) -> Self {
        Self { registry, store, windows: Vec::new() }
    }

    /// Adds a window of the phase with this index; its end is the greatest number until it is known.
    pub fn add(&mut self, phase: u32, time: Range<u64>) {
        let values = Accumulator::keeping_in(self.store.clone(), Arc::clone(&self.registry));
        self.windows.push(Level { phase, time, values });
    }

    /// Moves the start of the last window to this time, before which none of its requests started.
    pub fn start(&mut self, at: u64) {
        if let Some(last) = self.windows.last_mut() {
            last.time.start = at;
        }
    }

    /// Ends the last window at this time; requests that started later do not belong to it.
    pub fn end(&mut self, at: u64) {
        if let Some(last) = self.windows.last_mut() {
            last.time.end = at;
        }
    }

    /// Adds a request of the phase with this index; returns the number of its window, if it has one.
    pub fn observe(&mut self, phase: u32, request: &Observation) -> Option<usize> {
        let has =
            |level: &Level| level.phase == phase && level.time.contains(&request.start_wall_ns);
        let at = self.windows.iter().rposition(has)?;
        self.windows[at].values.observe(request);
        Some(at)
    }

    /// Returns the number of windows.
    pub const fn len(&self) -> usize {
        self.windows.len()
    }

    /// Returns the results of a window, in catalogue order.
    pub fn results_of_window(&self, window: usize) -> Vec<MetricResult> {
        self.windows.get(window).map_or_else(Vec::new, |level| level.values.results())
    }

    /// Returns the results of each window.
    pub fn results(&self) -> Vec<Vec<MetricResult>> {
        self.windows.iter().map(|level| level.values.results()).collect()
    }
}
