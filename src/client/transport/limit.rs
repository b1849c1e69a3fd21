//! The limit on the open connections of a process, used or idle, to any server. Requests wait in
//! order of arrival.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{AcquireError, Semaphore, SemaphorePermit, oneshot, watch};

use base::lock::Lock;

/// The limit, shared by all clients of a process.
///
/// A request that may use any idle connection first takes a turn. There are as many turns as
/// connections. A request with a turn finds an idle connection at its client, a free slot, or an
/// idle connection that can be closed to free a slot.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    turns: Semaphore,
    slots: Lock<Slots>,
    /// Notified whenever a slot is requested and none is free.
    wanted: watch::Sender<()>,
}

#[derive(Debug)]
struct Slots {
    free: usize,
    /// Requests that wait for a slot; empty while a slot is free.
    waiting: VecDeque<oneshot::Sender<()>>,
}

/// The slot of one connection, held while the connection is open.
#[derive(Debug)]
pub(super) struct Slot(Arc<ConnectionLimit>);

impl ConnectionLimit {
    pub(super) fn new(limit: usize) -> Self {
        let limit = limit.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            turns: Semaphore::new(limit),
            slots: Lock::new(Slots { free: limit, waiting: VecDeque::new() }),
            wanted: watch::Sender::new(()),
        }
    }

    /// Takes a turn if no one else waits for one.
    pub(super) fn try_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.try_acquire().ok()
    }

    pub(super) async fn turn(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.turns.acquire().await
    }

    /// Takes a slot if one is free.
    pub(super) fn try_slot(self: &Arc<Self>) -> Option<Slot> {
        let mut slots = self.slots.lock();
        slots.free = slots.free.checked_sub(1)?;
        Some(Slot(Arc::clone(self)))
    }

    /// Waits for a slot, and asks all clients to close an idle connection.
    pub(super) async fn slot(self: &Arc<Self>) -> Slot {
        let promise = {
            let mut slots = self.slots.lock();
            if slots.free > 0 {
                slots.free -= 1;
                return Slot(Arc::clone(self));
            }
            let (sender, promise) = oneshot::channel();
            slots.waiting.push_back(sender);
            promise
        };
        self.wanted.send_replace(());
        let mut waiting = Waiting { promise, limit: self, is_over: false };
        // The other end fulfils its promise or is still in the queue.
        let _ = (&mut waiting.promise).await;
        waiting.is_over = true;
        Slot(Arc::clone(self))
    }

    /// Returns whether a request waits for a slot.
    pub(super) fn is_wanted(&self) -> bool {
        !self.slots.lock().waiting.is_empty()
    }

    /// Returns a receiver that is notified when a slot is requested.
    pub(super) fn wanted(&self) -> watch::Receiver<()> {
        self.wanted.subscribe()
    }

    /// Passes a slot to the request that has waited longest.
    fn release(&self) {
        let mut slots = self.slots.lock();
        while let Some(next) = slots.waiting.pop_front() {
            if next.send(()).is_ok() {
                return;
            }
        }
        slots.free += 1;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A wait for a slot. If it is dropped, it passes a promised slot on.
struct Waiting<'a> {
    promise: oneshot::Receiver<()>,
    limit: &'a ConnectionLimit,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.promise.close();
        if self.promise.try_recv().is_ok() {
            self.limit.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn slots_go_to_those_who_wait_in_their_order() {
        let limit = Arc::new(ConnectionLimit::new(1));
        let slot = limit.try_slot().unwrap();
        assert!(limit.try_slot().is_none() && !limit.is_wanted());
        let (mut first, mut second) = (pin!(limit.slot()), pin!(limit.slot()));
        assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
        assert!(limit.is_wanted());
        drop(slot);
        // The slot is promised, so a new request must not take it.
        assert!(limit.try_slot().is_none());
        assert!(poll(second.as_mut()).is_pending());
        let Poll::Ready(slot) = poll(first.as_mut()) else { panic!("first come, first served") };
        drop(slot);
        assert!(poll(second.as_mut()).is_ready());
        assert!(!limit.is_wanted());
        assert!(limit.try_slot().is_some());
    }

    #[test]
    fn one_who_goes_away_passes_the_slot_on() {
        let limit = Arc::new(ConnectionLimit::new(1));
        let slot = limit.try_slot().unwrap();
        let mut second = pin!(limit.slot());
        {
            let (mut first, mut gone) = (pin!(limit.slot()), pin!(limit.slot()));
            assert!(poll(first.as_mut()).is_pending() && poll(gone.as_mut()).is_pending());
            assert!(poll(second.as_mut()).is_pending());
            // Promised to the first request, which never takes it.
            drop(slot);
        }
        assert!(poll(second.as_mut()).is_ready());
    }

    #[test]
    fn a_wish_is_told_to_all_clients() {
        let limit = Arc::new(ConnectionLimit::new(1));
        let (one, other) = (limit.wanted(), limit.wanted());
        let _slot = limit.try_slot().unwrap();
        assert!(!one.has_changed().unwrap());
        let mut waiting = pin!(limit.slot());
        assert!(poll(waiting.as_mut()).is_pending());
        assert!(one.has_changed().unwrap() && other.has_changed().unwrap());
    }
}
