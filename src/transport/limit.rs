//! The bound on the connections of a process: open ones, used or idle, whatever
//! server they lead to. First come, first served.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{AcquireError, Semaphore, SemaphorePermit, oneshot, watch};

/// The bound, shared by all clients of a process.
///
/// A request that may go over any idle connection first takes a turn, of which
/// there are as many as connections. With a turn it finds a connection of its
/// own, or room for one, or an idle connection that can be closed to make room.
#[derive(Debug)]
pub(super) struct ConnectionLimit {
    turns: Semaphore,
    slots: Mutex<Slots>,
    /// Told whenever a slot is wanted and none is free.
    wanted: watch::Sender<()>,
}

#[derive(Debug)]
struct Slots {
    free: usize,
    /// Those who wait; none does while a slot is free.
    waiting: VecDeque<oneshot::Sender<()>>,
}

/// Room for one connection, as long as it is open.
#[derive(Debug)]
pub(super) struct Slot(Arc<ConnectionLimit>);

impl ConnectionLimit {
    pub(super) fn new(limit: usize) -> Self {
        let limit = limit.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            turns: Semaphore::new(limit),
            slots: Mutex::new(Slots { free: limit, waiting: VecDeque::new() }),
            wanted: watch::Sender::new(()),
        }
    }

    /// A turn, if nobody else waits for one.
    pub(super) fn try_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.try_acquire().ok()
    }

    /// Waits for a turn.
    pub(super) async fn turn(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.turns.acquire().await
    }

    /// A slot, if one is free.
    pub(super) fn try_slot(self: &Arc<Self>) -> Option<Slot> {
        let mut slots = self.slots();
        slots.free = slots.free.checked_sub(1)?;
        Some(Slot(Arc::clone(self)))
    }

    /// Waits for a slot, and asks all clients to close a connection that idles.
    pub(super) async fn slot(self: &Arc<Self>) -> Slot {
        let promise = {
            let mut slots = self.slots();
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
        // The other end keeps its promise, or is still in the queue.
        let _ = (&mut waiting.promise).await;
        waiting.is_over = true;
        Slot(Arc::clone(self))
    }

    /// Whether somebody waits for a slot.
    pub(super) fn is_wanted(&self) -> bool {
        !self.slots().waiting.is_empty()
    }

    /// Tells when a slot is wanted.
    pub(super) fn wanted(&self) -> watch::Receiver<()> {
        self.wanted.subscribe()
    }

    /// Gives a slot to the one who has waited longest.
    fn release(&self) {
        let mut slots = self.slots();
        while let Some(next) = slots.waiting.pop_front() {
            if next.send(()).is_ok() {
                return;
            }
        }
        slots.free += 1;
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// The wait for a slot; one who goes away passes on what was promised.
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
        // It is promised: nobody who comes now may take it.
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
            // Promised to the first, who never takes it.
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
