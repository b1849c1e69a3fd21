//! The way from the workers to the processors, within a budget of bytes.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::record::{RequestRecord, SseEvent};

/// Finished records on their way to the processors.
///
/// Pushing never waits. A closed loop asks for [room](RecordQueue::room) before
/// it sends; an open loop must not, so there the queue may pass its budget,
/// which is counted.
#[derive(Debug)]
pub struct RecordQueue {
    state: Mutex<State>,
    filled: Condvar,
    drained: Notify,
    budget_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    records: VecDeque<RequestRecord>,
    bytes: usize,
    is_closed: bool,
    stats: QueueStats,
}

/// How full the queue was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Most bytes at once.
    pub peak_bytes: usize,
    /// Records that were pushed over the budget.
    pub over_budget: u64,
    /// Times that a send was held back for want of room.
    pub pauses: u64,
}

impl RecordQueue {
    /// An empty queue.
    #[must_use]
    pub fn new(budget_bytes: usize) -> Self {
        Self {
            state: Mutex::default(),
            filled: Condvar::new(),
            drained: Notify::new(),
            budget_bytes,
        }
    }

    /// Adds a record. Once the queue is closed nobody takes it any more, and it
    /// is dropped.
    pub fn push(&self, record: RequestRecord) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        state.bytes += footprint(&record);
        state.stats.peak_bytes = state.stats.peak_bytes.max(state.bytes);
        state.stats.over_budget += u64::from(state.bytes > self.budget_bytes);
        state.records.push_back(record);
        drop(state);
        self.filled.notify_one();
    }

    /// Waits until the queue is within its budget.
    pub async fn room(&self) {
        let mut has_paused = false;
        loop {
            let drained = self.drained.notified();
            {
                let mut state = self.lock();
                if state.bytes <= self.budget_bytes || state.is_closed {
                    return;
                }
                state.stats.pauses += u64::from(!has_paused);
                has_paused = true;
            }
            drained.await;
        }
    }

    /// The next record; `None` once the queue is closed and empty. Waits at
    /// most `patience`; an empty `Some` says that nothing came.
    pub fn pop(&self, patience: Duration) -> Option<Option<RequestRecord>> {
        let (mut state, _) = self
            .filled
            .wait_timeout_while(self.lock(), patience, |state| {
                state.records.is_empty() && !state.is_closed
            })
            .unwrap_or_else(PoisonError::into_inner);
        let Some(record) = state.records.pop_front() else {
            return if state.is_closed { None } else { Some(None) };
        };
        let was_over = state.bytes > self.budget_bytes;
        state.bytes = state.bytes.saturating_sub(footprint(&record));
        let is_within = state.bytes <= self.budget_bytes;
        drop(state);
        if was_over && is_within {
            self.drained.notify_waiters();
        }
        Some(Some(record))
    }

    /// No more records will come.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
        self.drained.notify_waiters();
    }

    /// How full it has been.
    #[must_use]
    pub fn stats(&self) -> QueueStats {
        self.lock().stats
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that a record holds for itself: a session's first payload is shared with
/// the dataset, later ones are its own.
fn footprint(record: &RequestRecord) -> usize {
    let payload = if record.turn.turn > 0 { record.payload.len() } else { 0 };
    size_of::<RequestRecord>()
        + payload
        + record.body.bytes.capacity()
        + record.body.events.capacity() * size_of::<SseEvent>()
}
