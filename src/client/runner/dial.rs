//! The load of a phase that is changed while it runs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use tokio::sync::watch;

use base::lock::Lock;
use base::units::{Clock, Nanos};

use super::Enough;

/// Sets the load of one phase, and tells when its requests have ended. All clones are of the same phase.
#[derive(Debug, Clone)]
pub struct Dial {
    level: watch::Sender<f64>,
    flight: Arc<Lock<Flight>>,
    enough: Enough,
}

/// The requests that have been sent and not ended, by the number of marks before them.
#[derive(Debug, Default)]
struct Flight {
    marks: u64,
    in_flight: BTreeMap<u64, u64>,
}

/// A request that has been sent, until it is dropped.
#[derive(Debug)]
pub(super) struct InFlight {
    flight: Arc<Lock<Flight>>,
    mark: u64,
}

impl Dial {
    /// Creates the dial of a phase that starts with `level`.
    #[must_use]
    pub fn new(level: f64) -> Self {
        Self { level: watch::Sender::new(level), flight: Arc::default(), enough: Enough::default() }
    }

    /// Sets the load.
    pub fn set(&self, level: f64) {
        self.level.send_replace(level);
    }

    /// Returns the load.
    #[must_use]
    pub fn level(&self) -> f64 {
        *self.level.borrow()
    }

    /// Separates the requests that are sent from now on from earlier ones; returns the number of this mark,
    /// and the time. Requests that start before it are earlier ones.
    #[must_use]
    pub fn mark(&self) -> (u64, Nanos) {
        let mut flight = self.flight.lock();
        let now = Clock::now();
        flight.marks += 1;
        (flight.marks, now)
    }

    /// Returns the number of requests in flight that were sent from one mark on and before another; those
    /// before the first mark have the number 0.
    #[must_use]
    pub fn in_flight(&self, marks: Range<u64>) -> u64 {
        self.flight.lock().in_flight.range(marks).map(|(_, count)| count).sum()
    }

    /// Ends the phase, as if its duration were over.
    pub fn end(&self) {
        self.enough.end();
    }

    pub(super) const fn enough(&self) -> &Enough {
        &self.enough
    }

    /// Waits until the load is set again; returns it.
    pub(super) async fn changed(levels: &mut watch::Receiver<f64>) -> f64 {
        if levels.changed().await.is_err() {
            // Nobody can set it any more.
            std::future::pending::<()>().await;
        }
        *levels.borrow_and_update()
    }

    pub(super) fn levels(&self) -> watch::Receiver<f64> {
        self.level.subscribe()
    }

    /// Counts a request that is about to be sent.
    pub(super) fn enter(&self) -> InFlight {
        let mut flight = self.flight.lock();
        let mark = flight.marks;
        *flight.in_flight.entry(mark).or_default() += 1;
        InFlight { flight: Arc::clone(&self.flight), mark }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut flight = self.flight.lock();
        if let Some(count) = flight.in_flight.get_mut(&self.mark) {
            *count -= 1;
            if *count == 0 {
                flight.in_flight.remove(&self.mark);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_before_a_mark_are_told_from_later_ones() {
        let dial = Dial::new(1.0);
        let first = dial.enter();
        let (one, before) = dial.mark();
        let (second, third) = (dial.enter(), dial.enter());
        let (two, after) = dial.mark();
        assert!(before <= after);
        assert_eq!(
            [dial.in_flight(0..one), dial.in_flight(one..two), dial.in_flight(0..two)],
            [1, 2, 3]
        );
        drop(second);
        assert_eq!([dial.in_flight(0..one), dial.in_flight(one..two)], [1, 1]);
        drop(first);
        assert_eq!([dial.in_flight(0..one), dial.in_flight(one..two)], [0, 1]);
        drop(third);
        assert_eq!(dial.flight.lock().in_flight.len(), 0);
    }
}
