//! Ends the load of a run once enough is known (`--stop-when`).

use std::sync::Arc;

use crate::follow::{Follower, Followers, Progress};
use crate::judge::early::{Decision, EarlyDecision};
use crate::judge::{self, EarlyEnd, StopWhen};
use crate::lock::Lock;
use crate::metrics::metric::MeasuredRecord;
use crate::runner::Enough;
use crate::schedule::{PhaseKind, PhaseStats};
use crate::units::Nanos;

/// Time between two looks at what is known.
const INTERVAL: Nanos = Nanos(500_000_000);

/// Follows a run, and ends its load; does nothing without `--stop-when`.
#[derive(Default)]
pub(super) struct EarlyStop {
    watch: Option<Arc<Watch>>,
}

struct Watch {
    when: Vec<StopWhen>,
    state: Lock<State>,
    enough: Enough,
}

struct State {
    gates: Option<EarlyDecision>,
    next_look: Nanos,
    end: Option<EarlyEnd>,
}

impl EarlyStop {
    /// Prepares what `config` asks for.
    pub(super) fn of(config: &judge::Config) -> Self {
        if config.stop_when.is_empty() {
            return Self::default();
        }
        let gates = config.stop_when.contains(&StopWhen::Decided);
        let gates = EarlyDecision::of(&config.gates).filter(|_| gates);
        let state = Lock::new(State { gates, next_look: Nanos::ZERO, end: None });
        let watch = Watch { when: config.stop_when.clone(), state, enough: Enough::default() };
        Self { watch: Some(Arc::new(watch)) }
    }

    /// Returns `followers` and this one, if it has anything to do.
    pub(super) fn among(&self, followers: &Followers) -> Followers {
        let mut all = followers.clone();
        if let Some(watch) = &self.watch {
            all.add(Arc::<Watch>::clone(watch));
        }
        all
    }

    /// Returns what ends the measurement.
    pub(super) fn enough(&self) -> Enough {
        self.watch.as_ref().map(|watch| watch.enough.clone()).unwrap_or_default()
    }

    /// Returns why the load ended before its configured end, if it did.
    pub(super) fn end(&self) -> Option<EarlyEnd> {
        self.watch.as_ref()?.state.lock().end.clone()
    }
}

impl Watch {
    /// Returns why the load is to end, with what is known now.
    fn look(&self, state: &State) -> Option<(StopWhen, String)> {
        let decision = state.gates.as_ref().and_then(EarlyDecision::decision)?;
        let finding = match decision {
            Decision::Held => "the gates hold".to_owned(),
            Decision::Missed(gate) => format!("{gate} does not hold"),
        };
        Some((StopWhen::Decided, finding))
    }

    fn is_measuring(phase: &PhaseStats) -> bool {
        phase.phase == PhaseKind::Profiling && phase.requests_end.is_none()
    }
}

impl Follower for Watch {
    fn record(&self, record: &MeasuredRecord) {
        if let Some(gates) = &mut self.state.lock().gates {
            gates.observe(&record.observation);
        }
    }

    fn progress(&self, progress: &Progress<'_>) {
        let Some(phase) = progress.phases.last().filter(|phase| Self::is_measuring(phase)) else {
            return;
        };
        let mut state = self.state.lock();
        if state.end.is_some() || phase.now < state.next_look {
            return;
        }
        state.next_look = phase.now + INTERVAL;
        if let Some((cause, finding)) = self.look(&state) {
            let seconds = phase.now.since(phase.start).as_seconds();
            state.end = Some(EarlyEnd { cause, seconds, finding });
            self.enough.end();
        }
    }
}
