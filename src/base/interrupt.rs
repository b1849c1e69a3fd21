//! The user's request to end the run, and the waits that it ends.
//!
//! The first signal drains: no more requests are sent, and those in flight may finish. The second
//! aborts. A wait that such a request ends is woken by it; nothing polls.

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::sync::watch;

use crate::units::{Clock, Nanos};

/// Number of signals that drain.
const DRAIN: u32 = 1;

/// Number of signals that abort.
const ABORT: u32 = 2;

/// Counts the user's signals for the [`Interrupt`]s of one run.
#[derive(Debug, Clone, Default)]
pub struct Interrupter(watch::Sender<u32>);

impl Interrupter {
    /// Adds a signal and wakes what waits for it.
    pub fn signal(&self) {
        self.0.send_modify(|signals| *signals = signals.saturating_add(1));
    }

    /// Returns a handle to the signals.
    #[must_use]
    pub fn interrupt(&self) -> Interrupt {
        Interrupt { signals: self.0.subscribe(), ignored: 0 }
    }
}

/// A handle to the user's signals. All clones count the same ones.
#[derive(Debug, Clone)]
pub struct Interrupt {
    signals: watch::Receiver<u32>,
    /// Number of earlier signals that do not count.
    ignored: u32,
}

impl Interrupt {
    /// Returns an interrupt that never happens.
    #[must_use]
    pub fn never() -> Self {
        Interrupter::default().interrupt()
    }

    /// Returns a handle that counts only the signals from now on.
    #[must_use]
    pub fn since_now(&self) -> Self {
        let ignored = *self.signals.borrow();
        Self { signals: self.signals.clone(), ignored }
    }

    /// Returns whether the user interrupted the run.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.has(DRAIN)
    }

    /// Returns whether the user interrupted the run again.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.has(ABORT)
    }

    /// Waits until the user interrupts the run.
    pub async fn draining(&self) {
        self.reaches(DRAIN).await;
    }

    /// Waits until the user interrupts the run again.
    pub async fn aborted(&self) {
        self.reaches(ABORT).await;
    }

    /// Returns the output of `work`, or `None` if the user interrupts the run before it is done.
    pub async fn unless<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            output = work => Some(output),
            () = self.draining() => None,
        }
    }

    /// Blocks until `work` is done and returns its output, or `None` if the user interrupts the run
    /// or `deadline` passes before. `work` runs on this thread, outside any runtime: it can wait for
    /// channels, but not for timers or sockets.
    pub fn wait_for<T>(&self, work: impl Future<Output = T>, deadline: Nanos) -> Option<T> {
        block_on(self.unless(work), Some(deadline)).flatten()
    }

    /// Blocks until `deadline`, or until the user interrupts the run.
    pub fn sleep_until(&self, deadline: Nanos) {
        self.wait_for(pending::<()>(), deadline);
    }

    /// Blocks until the user interrupts the run.
    pub fn wait(&self) {
        block_on(self.draining(), None);
    }

    fn has(&self, signals: u32) -> bool {
        *self.signals.borrow() - self.ignored >= signals
    }

    async fn reaches(&self, signals: u32) {
        let mut received = self.signals.clone();
        if received.wait_for(|received| received - self.ignored >= signals).await.is_err() {
            // There is no sender any more, so there will be no signal.
            pending::<()>().await;
        }
    }
}

/// Blocks until `work` is done and returns its output, or `None` once `deadline` has passed.
fn block_on<T>(work: impl Future<Output = T>, deadline: Option<Nanos>) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut work = pin!(work);
    loop {
        if let Poll::Ready(output) = work.as_mut().poll(&mut context) {
            return Some(output);
        }
        // A wake since the poll has the thread continue at once.
        match deadline.map(|deadline| deadline.since(Clock::now())) {
            None => thread::park(),
            Some(Nanos::ZERO) => return None,
            Some(left) => thread::park_timeout(left.into()),
        }
    }
}

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    const FAR: Nanos = Nanos(u64::MAX);

    fn soon() -> Nanos {
        Clock::now() + Nanos(1_000_000)
    }

    #[test]
    fn the_first_signal_drains_and_the_second_aborts() {
        let interrupter = Interrupter::default();
        let interrupt = interrupter.interrupt();
        let stages = || (interrupt.is_draining(), interrupt.is_aborted());
        assert_eq!(stages(), (false, false));
        interrupter.signal();
        assert_eq!(stages(), (true, false));
        interrupter.signal();
        assert_eq!(stages(), (true, true));
        interrupter.signal();
        assert_eq!(stages(), (true, true));
    }

    #[test]
    fn only_signals_since_now_on_count() {
        let interrupter = Interrupter::default();
        interrupter.signal();
        let later = interrupter.interrupt().since_now();
        assert!(!later.is_draining() && later.clone().wait_for(pending::<()>(), soon()).is_none());
        interrupter.signal();
        assert!(later.is_draining() && !later.is_aborted());
        assert!(!later.since_now().is_draining());
    }

    #[test]
    fn a_signal_wakes_every_wait() {
        let interrupter = Interrupter::default();
        let (interrupt, aborted) = (interrupter.interrupt(), interrupter.interrupt());
        thread::scope(|scope| {
            scope.spawn(|| interrupt.wait());
            scope.spawn(|| interrupt.sleep_until(FAR));
            scope.spawn(|| assert_eq!(interrupt.wait_for(pending::<()>(), FAR), None));
            scope.spawn(|| block_on(aborted.aborted(), None));
            interrupter.signal();
            interrupter.signal();
        });
    }

    #[test]
    fn a_wait_ends_with_its_work_or_at_its_deadline() {
        let interrupt = Interrupt::never();
        let deadline = soon();
        interrupt.sleep_until(deadline);
        assert!(Clock::now() >= deadline);
        let (done, outcome) = oneshot::channel();
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(interrupt.wait_for(outcome, FAR), Some(Ok(7))));
            done.send(7).unwrap();
        });
    }

    #[test]
    fn work_that_is_done_counts_even_after_a_signal() {
        let interrupter = Interrupter::default();
        interrupter.signal();
        let interrupt = interrupter.interrupt();
        assert_eq!(interrupt.wait_for(async { 7 }, Nanos::ZERO), Some(7));
        assert_eq!(interrupt.wait_for(pending::<u8>(), FAR), None);
    }
}
