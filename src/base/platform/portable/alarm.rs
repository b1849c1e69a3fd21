//! The runtime's timer, with a resolution of one millisecond.

use std::io;
use std::time::Duration;

use tokio::sync::Notify;

use super::clock::monotonic_ns;

use crate::lock::Lock;

/// A timer of the runtime.
#[derive(Debug, Default)]
pub struct Alarm {
    set_to: Lock<Option<u64>>,
    changed: Notify,
}

impl Alarm {
    /// Creates an alarm that is not set.
    pub fn new() -> io::Result<Self> {
        Ok(Self::default())
    }

    /// Sets the only time at which it rings, in nanoseconds of the monotonic clock.
    pub fn set(&self, at_ns: u64) {
        *self.set_to.lock() = Some(at_ns);
        self.changed.notify_one();
    }

    /// Waits until it has rung.
    pub(crate) async fn rings(&self) -> io::Result<()> {
        loop {
            let at_ns = *self.set_to.lock();
            tokio::select! {
                () = self.changed.notified() => {}
                () = until(at_ns) => {
                    *self.set_to.lock() = None;
                    return Ok(());
                }
            }
        }
    }
}

async fn until(at_ns: Option<u64>) {
    match at_ns {
        Some(at) => {
            tokio::time::sleep(Duration::from_nanos(at.saturating_sub(monotonic_ns()))).await;
        }
        None => std::future::pending().await,
    }
}
