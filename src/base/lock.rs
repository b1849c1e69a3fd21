//! Locks that a panic does not poison.
//!
//! What a lock protects is valid after each statement, so the other threads can go on with it when
//! a holder panics. The panic is reported where its thread is joined.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A mutex that stays usable after a panic of its holder.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

/// Exclusive access to the value of a [`Lock`], until it is dropped.
pub type Guard<'a, T> = MutexGuard<'a, T>;

impl<T> Lock<T> {
    /// Creates a lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Blocks until no other thread holds the lock.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What holders of a [`Lock`] wait for: a change of its value by another thread. They release the
/// lock meanwhile.
#[derive(Debug, Default)]
pub struct Condition(Condvar);

impl Condition {
    /// Wakes one thread that waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Blocks until another thread notifies this condition; may also return earlier.
    pub fn wait<'a, T>(&self, guard: Guard<'a, T>) -> Guard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`Condition::wait`], for at most `timeout`.
    pub fn wait_timeout<'a, T>(&self, guard: Guard<'a, T>, timeout: Duration) -> Guard<'a, T> {
        self.0.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Blocks while `is_so` returns true for the value.
    pub fn wait_while<'a, T>(
        &self,
        guard: Guard<'a, T>,
        is_so: impl FnMut(&mut T) -> bool,
    ) -> Guard<'a, T> {
        self.0.wait_while(guard, is_so).unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`Condition::wait_while`], for at most `timeout`.
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: Guard<'a, T>,
        timeout: Duration,
        is_so: impl FnMut(&mut T) -> bool,
    ) -> Guard<'a, T> {
        self.0.wait_timeout_while(guard, timeout, is_so).unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn a_panic_of_a_holder_leaves_the_value() {
        let lock = Arc::new(Lock::new(1));
        let held = Arc::clone(&lock);
        let panicked = thread::spawn(move || {
            let mut value = held.lock();
            *value = 2;
            panic!("while it holds the lock");
        });
        assert!(panicked.join().is_err());
        *lock.lock() += 1;
        let condition = Condition::default();
        let guard = condition.wait_timeout(lock.lock(), Duration::ZERO);
        let guard = condition.wait_timeout_while(guard, Duration::ZERO, |_| true);
        let guard = condition.wait_while(guard, |value| *value != 3);
        drop(guard);
        assert_eq!(Arc::into_inner(lock).unwrap().into_inner(), 3);
    }

    #[test]
    fn a_change_wakes_those_that_wait_for_it() {
        let shared = Arc::new((Lock::new(0), Condition::default()));
        let waiting = Arc::clone(&shared);
        let waits = thread::spawn(move || {
            let (lock, condition) = &*waiting;
            *condition.wait_while(lock.lock(), |value| *value < 2)
        });
        for _ in 0..2 {
            *shared.0.lock() += 1;
            shared.1.notify_all();
        }
        assert_eq!(waits.join().unwrap(), 2);
    }
}
