//! An export soon after the first record, so that a short run is visible while it is in progress.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{convert, io};

/// A thread that exports after a delay. Dropping it ends the delay without an export.
#[derive(Debug)]
pub(super) struct EarlyExport {
    /// Ends the delay when dropped; nothing is sent.
    _delay: mpsc::Sender<convert::Infallible>,
    thread: JoinHandle<()>,
}

impl EarlyExport {
    /// Starts the thread, which calls `export` after `delay`.
    pub(super) fn after(
        delay: Duration,
        export: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, is_over) = mpsc::channel();
        let thread = thread::Builder::new().name("aiperf-otlp-first".into()).spawn(move || {
            if is_over.recv_timeout(delay) == Err(RecvTimeoutError::Timeout) {
                export();
            }
        })?;
        Ok(Self { _delay: sender, thread })
    }

    /// Ends the delay; the returned thread ends at once, or with the export that it has begun.
    pub(super) fn cancel(self) -> JoinHandle<()> {
        self.thread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_that_is_cancelled_ends_its_thread() {
        let export = || panic!("exported after an hour");
        let cancelled = EarlyExport::after(Duration::from_hours(1), export).unwrap();
        assert!(cancelled.cancel().join().is_ok());
    }

    #[test]
    fn an_export_that_is_not_cancelled_takes_place() {
        let (done, is_done) = mpsc::channel();
        let export = move || done.send(()).unwrap();
        let _export = EarlyExport::after(Duration::from_millis(1), export).unwrap();
        assert_eq!(is_done.recv(), Ok(()));
    }
}
