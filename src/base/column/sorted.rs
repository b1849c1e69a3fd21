//! Sorts more values than fit into memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Column, Fixed, Store};

/// Number of values that are sorted at once.
const RUN: usize = 1 << 17;

/// Values in the order of their keys: sorted runs, which are merged when they are read.
#[derive(Debug)]
pub struct Sorted<T> {
    runs: Vec<Column<T>>,
    key: fn(&T) -> u64,
}

impl<T: Fixed> Sorted<T> {
    /// Sorts `values` by `key`, using `store`. Values with the same key keep their order.
    pub fn new(values: impl Iterator<Item = T>, key: fn(&T) -> u64, store: &Store) -> Self {
        let mut values = values.peekable();
        let mut runs = Vec::new();
        let mut run = Vec::new();
        while values.peek().is_some() {
            run.extend(values.by_ref().take(RUN));
            run.sort_by_key(key);
            runs.push(Column::from_values(store.clone(), run.drain(..)));
        }
        Self { runs, key }
    }

    /// Iterates over the values in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        let mut runs: Vec<_> = self.runs.iter().map(Column::iter).collect();
        let mut firsts: Vec<T> = vec![T::default(); runs.len()];
        // The smallest key, and the first of the runs that have it.
        let mut order = BinaryHeap::with_capacity(runs.len());
        for (which, run) in runs.iter_mut().enumerate() {
            if let Some(value) = run.next() {
                firsts[which] = value;
                order.push(Reverse(((self.key)(&value), which)));
            }
        }
        std::iter::from_fn(move || {
            let mut first = order.peek_mut()?;
            let Reverse((_, which)) = *first;
            let value = firsts[which];
            if let Some(next) = runs[which].next() {
                firsts[which] = next;
                *first = Reverse(((self.key)(&next), which));
            } else {
                std::collections::binary_heap::PeekMut::pop(first);
            }
            Some(value)
        })
    }
}
