//! A bounded queue of data that waits for the collector.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::Notify;

use base::lock::Lock;

/// An item of known size that is sent whole.
pub(super) trait Parcel {
    /// Returns its size in bytes.
    fn bytes(&self) -> usize;

    /// Returns how many items it counts for.
    fn items(&self) -> u64 {
        1
    }
}

/// The limits of a queue and its batches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Maximum total size of waiting parcels in bytes.
    pub(super) bytes: usize,
    /// Maximum number of waiting items, whatever their size.
    pub(super) items: u64,
    /// Maximum size of a batch in bytes, unless it is a single parcel.
    pub(super) batch: usize,
}

/// A bounded queue with one reader. If it is full, the oldest parcel is dropped.
pub(super) struct Queue<P> {
    state: Lock<State<P>>,
    changed: Notify,
    bounds: Bounds,
}

struct State<P> {
    parcels: VecDeque<P>,
    bytes: usize,
    items: u64,
    is_closed: bool,
}

impl<P: Parcel> Queue<P> {
    pub(super) fn new(bounds: Bounds) -> Self {
        let state = State { parcels: VecDeque::new(), bytes: 0, items: 0, is_closed: false };
        Self { state: Lock::new(state), changed: Notify::new(), bounds }
    }

    /// Appends a parcel, and drops the oldest ones if the queue is full. Returns the number
    /// of items dropped.
    pub(super) fn push(&self, parcel: P) -> u64 {
        let mut state = self.state.lock();
        let mut gone = 0;
        state.bytes += parcel.bytes();
        state.items += parcel.items();
        state.parcels.push_back(parcel);
        while state.bytes > self.bounds.bytes || state.items > self.bounds.items {
            let Some(dropped) = state.pop() else { break };
            gone += dropped.items();
        }
        drop(state);
        self.changed.notify_one();
        gone
    }

    /// Closes the queue to further parcels.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Waits for parcels, and returns a batch. `None` once the queue is closed and empty.
    pub(super) async fn next(&self) -> Option<Vec<P>> {
        loop {
            let batch = {
                let mut state = self.state.lock();
                if state.parcels.is_empty() && state.is_closed {
                    return None;
                }
                state.batch(self.bounds.batch)
            };
            if !batch.is_empty() {
                return Some(batch);
            }
            self.changed.notified().await;
        }
    }

    /// Lets parcels accumulate: waits for the first, and then for at most `longest` until they make
    /// up a batch or the queue is closed.
    pub(super) async fn gather(&self, longest: Duration) {
        self.wait_until(|state| state.bytes > 0).await;
        let gathered = self.wait_until(|state| state.bytes >= self.bounds.batch);
        let _ = tokio::time::timeout(longest, gathered).await;
    }

    async fn wait_until(&self, is_so: impl Fn(&State<P>) -> bool) {
        loop {
            {
                let state = self.state.lock();
                if state.is_closed || is_so(&state) {
                    return;
                }
            }
            self.changed.notified().await;
        }
    }
}

impl<P: Parcel> State<P> {
    fn pop(&mut self) -> Option<P> {
        let parcel = self.parcels.pop_front()?;
        self.bytes -= parcel.bytes();
        self.items -= parcel.items();
        Some(parcel)
    }

    /// Removes the oldest parcels that fit into a batch, and at least one.
    fn batch(&mut self, most_bytes: usize) -> Vec<P> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.parcels.front() {
            bytes += next.bytes();
            if !batch.is_empty() && bytes > most_bytes {
                break;
            }
            batch.extend(self.pop());
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Box(usize);

    impl Parcel for Box {
        fn bytes(&self) -> usize {
            self.0
        }
    }

    #[test]
    fn the_oldest_go_where_bytes_or_parcels_are_too_many() {
        let queue = Queue::new(Bounds { bytes: 10, items: 3, batch: 10 });
        // The parcel of 11 exceeds the limit even alone.
        let table = [(4, 0), (4, 0), (4, 1), (9, 2), (1, 0), (0, 0), (0, 1), (11, 4), (2, 0)];
        for (number, (bytes, gone)) in table.into_iter().enumerate() {
            assert_eq!(queue.push(Box(bytes)), gone, "{number}");
        }
        let state = queue.state.lock();
        assert_eq!((state.bytes, state.parcels.len()), (2, 1));
    }
}
