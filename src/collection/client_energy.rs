//! The energy of the client's own processors, if it can be read.

use std::sync::Arc;

use tokio::sync::oneshot;

use base::lock::Lock;
use base::platform::energy::{self, Counter};
use base::units::Nanos;
use client::runner::PhaseListener;
use client::schedule::PhaseKind;

/// Reads the energy counters at the start and the end of the profiling phase.
#[derive(Debug, Default)]
pub(crate) struct ClientEnergy {
    before: Lock<Vec<Counter>>,
    joules: Lock<Option<f64>>,
}

impl ClientEnergy {
    /// Creates a listener; `None` if there are no counters that can be read.
    pub(crate) fn start() -> Option<Arc<Self>> {
        (!energy::packages().is_empty()).then(Arc::default)
    }

    /// Returns the energy of the processors in the profiling phase, in joules.
    pub(crate) fn joules(&self) -> Option<f64> {
        *self.joules.lock()
    }
}

impl PhaseListener for ClientEnergy {
    fn phase_started(&self, _index: u32, kind: PhaseKind, _at: Nanos) {
        if kind == PhaseKind::Profiling {
            // Of several phases, the first.
            let mut before = self.before.lock();
            if before.is_empty() {
                *before = energy::packages();
            }
        }
    }

    fn phase_ended(&self, _index: u32, kind: PhaseKind, _at: Nanos) -> oneshot::Receiver<()> {
        if kind == PhaseKind::Profiling {
            let before = self.before.lock();
            let joules = energy::joules(&before, &energy::packages());
            *self.joules.lock() = joules;
        }
        // The sender is dropped, so that nothing waits.
        oneshot::channel().1
    }
}
