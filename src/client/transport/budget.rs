//! A common limit on the memory of all responses that are being received.
//!
//! The size of a single response is limited too, but many large responses at once would exceed the
//! memory of the machine.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use base::platform::limits;

/// Limit if the memory of the machine is unknown.
const UNKNOWN: usize = 1 << 30;
/// Minimum limit, so that a tiny container can receive responses.
const MIN_BYTES: usize = 64 << 20;
/// Divisor of the available memory for responses. The remaining memory is for records that wait to
/// be processed, and for their processing.
const SHARE: u64 = 4;

/// Bytes that responses in flight may hold together.
#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    used: AtomicUsize,
}

/// The part of the budget that one response holds while it is received.
#[derive(Debug)]
pub(super) struct Held<'a> {
    budget: &'a Budget,
    bytes: usize,
}

/// The budget is exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exhausted {
    /// The whole budget in bytes.
    pub(super) limit: usize,
}

impl Budget {
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    pub(super) const fn hold(&self) -> Held<'_> {
        Held { budget: self, bytes: 0 }
    }
}

impl Held<'_> {
    /// Grows to `bytes` if the budget has room for it.
    pub(super) fn grow_to(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return Ok(());
        }
        let before = self.budget.used.fetch_add(more, Relaxed);
        if before.saturating_add(more) > self.budget.limit {
            self.budget.used.fetch_sub(more, Relaxed);
            return Err(Exhausted { limit: self.budget.limit });
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Relaxed);
    }
}

/// Returns a quarter of the memory available to the program, in bytes.
pub(super) fn of_this_machine() -> usize {
    limits::memory_bytes().map_or(UNKNOWN, |bytes| {
        usize::try_from(bytes / SHARE).unwrap_or(usize::MAX).max(MIN_BYTES)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_given_back() {
        let budget = Budget::new(100);
        let mut one = budget.hold();
        assert_eq!(one.grow_to(60), Ok(()));
        // A smaller size than the current one needs no growth.
        assert_eq!(one.grow_to(10), Ok(()));
        let mut other = budget.hold();
        assert_eq!(other.grow_to(41), Err(Exhausted { limit: 100 }));
        assert_eq!(other.grow_to(40), Ok(()));
        assert_eq!(one.grow_to(61), Err(Exhausted { limit: 100 }));
        drop(one);
        assert_eq!(other.grow_to(100), Ok(()));
        drop(other);
        assert_eq!(budget.used.load(Relaxed), 0);
    }

    #[test]
    fn a_machine_has_memory() {
        assert!(of_this_machine() >= MIN_BYTES);
    }
}
