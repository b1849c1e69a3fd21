//! Notification of the start and end of phases.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use base::interrupt::Interrupt;
use base::parallel;
use base::units::Nanos;

use crate::schedule::PhaseKind;

/// Maximum pause between two phases.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Receives the start and end of phases.
pub trait PhaseListener: Send + Sync {
    /// Called before a phase starts, which waits until this returns.
    ///
    /// # Errors
    /// If the phase must not start; the run ends.
    fn before_phase(&self, _kind: PhaseKind) -> Result<(), String> {
        Ok(())
    }
    /// Called when phase number `index` starts at `at` (monotonic clock). No request of the phase
    /// has been sent yet.
    fn phase_started(&self, index: u32, kind: PhaseKind, at: Nanos);
    /// Called when the last request of the phase has returned. The next phase starts when the
    /// receiver resolves or its sender is dropped, or after a maximum pause.
    fn phase_ended(&self, index: u32, kind: PhaseKind, at: Nanos) -> oneshot::Receiver<()>;
}

impl fmt::Debug for dyn PhaseListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PhaseListener")
    }
}

/// Asks whether a phase may start. Listeners may wait for servers with a runtime of their own, which the
/// thread that drives the phases, and so has one, must not; another thread calls them.
pub(super) fn before_phase(
    listeners: &[Arc<dyn PhaseListener>],
    kind: PhaseKind,
) -> Result<(), String> {
    let ask = || listeners.iter().try_for_each(|listener| listener.before_phase(kind));
    parallel::apart("phase", ask)
        .map_err(|why| format!("cannot start a thread before the phase: {why}"))?
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Waits until all of `done` resolve, for a limited time. An interrupt also ends the wait, because
/// no further phase follows.
pub(super) async fn pause(done: Vec<oneshot::Receiver<()>>, interrupt: &Interrupt) {
    let all = async {
        for one in done {
            // Nothing is sent.
            let _ = one.await;
        }
    };
    tokio::select! {
        () = all => {}
        () = tokio::time::sleep(LONGEST_PAUSE) => {}
        () = interrupt.draining() => {}
    }
}
