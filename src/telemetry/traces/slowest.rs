//! The slowest requests so far.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Keeps the `count` slowest requests, preferring the earliest of equally slow ones.
pub(super) struct Slowest<T> {
    count: usize,
    given: u64,
    /// The fastest kept request is on top.
    kept: BinaryHeap<Reverse<Entry<T>>>,
}

struct Entry<T> {
    latency: u64,
    number: u64,
    /// `None` if it was already exported.
    what: Option<T>,
}

impl<T> Entry<T> {
    const fn rank(&self) -> (u64, Reverse<u64>) {
        (self.latency, Reverse(self.number))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> Slowest<T> {
    pub(super) fn new(count: usize) -> Self {
        Self { count, given: 0, kept: BinaryHeap::new() }
    }

    /// Returns whether a request of this latency would be among the slowest.
    pub(super) fn has_place_for(&self, latency: u64) -> bool {
        self.kept.len() < self.count
            || self.kept.peek().is_some_and(|Reverse(fastest)| latency > fastest.latency)
    }

    /// Adds a request, and drops the fastest if there are too many; `what` is absent if it was
    /// already exported.
    pub(super) fn put(&mut self, latency: u64, what: Option<T>) {
        let number = self.given;
        self.given += 1;
        self.kept.push(Reverse(Entry { latency, number, what }));
        if self.kept.len() > self.count {
            self.kept.pop();
        }
    }

    /// Returns those of the slowest that were not exported yet, the slowest first.
    pub(super) fn untold(self) -> impl Iterator<Item = T> {
        self.kept.into_sorted_vec().into_iter().filter_map(|Reverse(entry)| entry.what)
    }
}
