//! Who is told where one phase ends and the next begins.

use std::fmt;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::Interrupt;
use crate::schedule::PhaseKind;
use crate::units::Nanos;

/// Longest pause between two phases.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Told when phases start and end.
pub trait PhaseListener: Send + Sync {
    /// Phase number `index` starts at `at` (monotonic clock); no request of it was sent yet.
    fn phase_started(&self, index: u32, kind: PhaseKind, at: Nanos);
    /// Its last request has returned. The next phase starts when the receiver has resolved
    /// (also by being dropped), or after a bound.
    fn phase_ended(&self, index: u32, kind: PhaseKind, at: Nanos) -> oneshot::Receiver<()>;
}

impl fmt::Debug for dyn PhaseListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PhaseListener")
    }
}

/// Waits until `done` resolves, for a bounded time, and no longer than the user
/// lets the run go on: there is no next phase then.
pub(super) async fn pause(done: oneshot::Receiver<()>, interrupt: &mut watch::Receiver<Interrupt>) {
    tokio::select! {
        _ = done => {}
        () = tokio::time::sleep(LONGEST_PAUSE) => {}
        Ok(_) = interrupt.wait_for(|wish| *wish > Interrupt::None) => {}
    }
}
