//! Non-blocking standard error: a paused terminal, or a pipe that nobody reads, delays
//! neither the load nor the end of a run.

use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// Maximum number of buffered bytes; further output is dropped.
const MAX_WAITING: usize = 1 << 20;

/// Maximum time to wait for the reader when the program ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// A writer whose output a separate thread writes to standard error, in order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stderr;

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    is_writing: bool,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes queued output for the rest of the program's life.
    fn serve(&self) {
        loop {
            let ready = self.changed.wait_while(self.lock(), |waiting| waiting.bytes.is_empty());
            let mut waiting = ready.unwrap_or_else(PoisonError::into_inner);
            let bytes = std::mem::take(&mut waiting.bytes);
            waiting.is_writing = true;
            drop(waiting);
            // An error means that the reader is gone; there is nowhere to report it.
            let _ = io::stderr().write_all(&bytes);
            self.lock().is_writing = false;
            self.changed.notify_all();
        }
    }
}

/// The queue; `None` if its thread could not be started.
fn queue() -> Option<&'static Queue> {
    static QUEUE: OnceLock<Option<&'static Queue>> = OnceLock::new();
    *QUEUE.get_or_init(|| {
        let queue: &'static Queue = Box::leak(Box::default());
        let thread = thread::Builder::new().name("stderr".to_owned());
        thread.spawn(move || queue.serve()).ok().map(|_| queue)
    })
}

/// Starts the thread, so that it does not get the priority of the first thread that writes.
pub(super) fn start() {
    queue();
}

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(queue) = queue() else { return io::stderr().write(bytes) };
        let mut waiting = queue.lock();
        if waiting.bytes.len() + bytes.len() <= MAX_WAITING {
            waiting.bytes.extend_from_slice(bytes);
            queue.changed.notify_all();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits a limited time until all output is written.
pub(super) fn finish() {
    let Some(queue) = queue() else { return };
    let is_left = |waiting: &mut Waiting| waiting.is_writing || !waiting.bytes.is_empty();
    drop(queue.changed.wait_timeout_while(queue.lock(), FLUSH_TIMEOUT, is_left));
}
