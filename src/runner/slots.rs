//! Slots that limit a number of concurrent things.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::Semaphore;

use super::phase::Slot;
use crate::schedule::Line;
use crate::timer::Timer;
use crate::units::{Clock, Nanos};

/// Slots shared by the workers. On a ramp, more slots open over time; the waiting tasks open them.
#[derive(Debug)]
pub(super) struct Slots {
    line: Line,
    start: Nanos,
    free: Arc<Semaphore>,
    /// Number of opened slots.
    open: AtomicU64,
}

impl Slots {
    /// Creates the slots of a phase that starts at `start`.
    pub(super) fn new(line: Line, start: Nanos) -> Self {
        let free = Arc::new(Semaphore::new(0));
        let slots = Self { line, start, free, open: AtomicU64::new(0) };
        slots.open_due();
        slots
    }

    /// Returns how many of the slots belong to one of `workers`, so that together they have all.
    pub(super) fn of_each(&self, workers: usize) -> u64 {
        self.line.open_at(Nanos(u64::MAX)).div_ceil(workers as u64)
    }

    /// Waits for a slot and takes it, in order of arrival.
    pub(super) async fn take(&self, timer: &Timer) -> Slot {
        let mut next = self.open_due();
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Slot { permit: Some(permit), free_from: Nanos::ZERO };
        }
        let mut free = pin!(Arc::clone(&self.free).acquire_owned());
        loop {
            tokio::select! {
                biased;
                permit = &mut free => match permit {
                    Ok(permit) => {
                        return Slot { permit: Some(permit), free_from: Clock::now() };
                    }
                    // The semaphore is never closed.
                    Err(_) => std::future::pending().await,
                },
                () = timer.until_some(next) => next = self.open_due(),
            }
        }
    }

    /// Opens the slots that are due; returns when the next one opens.
    fn open_due(&self) -> Option<Nanos> {
        let due = self.line.open_at(Clock::now().since(self.start));
        let open = self.open.fetch_max(due, Relaxed);
        if due > open {
            let more = usize::try_from(due - open).unwrap_or(usize::MAX);
            let room = Semaphore::MAX_PERMITS - self.free.available_permits();
            self.free.add_permits(more.min(room));
        }
        self.line.opens(due.max(open)).map(|opens| self.start + opens)
    }
}
