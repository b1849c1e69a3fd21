//! Ends the load of a run once enough is known (`--stop-when`).

use std::sync::Arc;

use base::lock::Lock;
use base::units::{Clock, Nanos};
use client::runner::Enough;
use client::schedule::{HeldLoad, PhaseKind, PhaseStats};
use measure::judge::early::{Decision, EarlyDecision};
use measure::judge::{self, EarlyEnd, StopWhen};
use measure::metrics::health::{LoadHealth, LoadVerdict};
use measure::metrics::metric::MeasuredRecord;
use results::follow::{Began, Follower, Followers, Progress};

/// Time between two looks at what is known.
const INTERVAL: Nanos = Nanos(500_000_000);

/// By how much the time has grown from one look at the load to the next. Its verdict is not one that may
/// be looked at at any time: looks are few, and two in succession must agree.
const GROWTH: f64 = 1.3;

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
    load: Option<HeldLoad>,
    clock: Option<Clock>,
    gates: Option<EarlyDecision>,
    next_look: Nanos,
    next_look_at_load: Nanos,
    /// Whether the last look at the load found it saturated.
    was_saturated: bool,
    end: Option<EarlyEnd>,
}

impl EarlyStop {
    /// Prepares what `config` asks for.
    pub(super) fn from_config(config: &judge::Config) -> Self {
        if config.stop_when.is_empty() {
            return Self::default();
        }
        let gates = config.stop_when.contains(&StopWhen::Decided);
        let state = State {
            load: None,
            clock: None,
            gates: EarlyDecision::for_gates(&config.gates).filter(|_| gates),
            next_look: Nanos::ZERO,
            next_look_at_load: Nanos::ZERO,
            was_saturated: false,
            end: None,
        };
        let (when, state) = (config.stop_when.clone(), Lock::new(state));
        Self { watch: Some(Arc::new(Watch { when, state, enough: Enough::default() })) }
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

impl State {
    /// Returns what the gates decide, if they do. That they hold is only believed of a load that the
    /// server sustains, since they may not hold later otherwise.
    fn decision(&self, health: impl Fn() -> Option<LoadHealth>) -> Option<String> {
        match self.gates.as_ref()?.decision()? {
            Decision::Missed(gate) => Some(format!("{gate} does not hold")),
            Decision::Held => {
                let is_open = matches!(self.load, Some(HeldLoad::Arrivals { .. }));
                let holds_on = health().is_none_or(|health| match health.verdict {
                    LoadVerdict::Sustained => true,
                    LoadVerdict::TooShort => !is_open,
                    LoadVerdict::NotStationary
                    | LoadVerdict::Saturated
                    | LoadVerdict::Rejecting
                    | LoadVerdict::Failing => false,
                });
                holds_on.then(|| "the gates hold".to_owned())
            }
        }
    }

    /// Returns that the load is saturated, once two looks have found it.
    fn saturation(
        &mut self,
        phase: &PhaseStats,
        health: impl Fn() -> Option<LoadHealth>,
    ) -> Option<String> {
        if phase.now < self.next_look_at_load {
            return None;
        }
        let so_far = phase.now.since(phase.start).as_seconds();
        self.next_look_at_load = phase.start + Nanos::from_seconds(so_far * GROWTH);
        let health = health().filter(|health| health.verdict.is_too_much());
        let was_saturated = std::mem::replace(&mut self.was_saturated, health.is_some());
        health.filter(|_| was_saturated).map(|health| match health.verdict {
            LoadVerdict::Rejecting => format!("of the requests, {health}"),
            _ => format!("the load is {health}"),
        })
    }
}

impl Follower for Watch {
    fn began(&self, run: &Began<'_>) {
        let mut state = self.state.lock();
        state.load = run.run.own_held_load();
        state.clock = Some(run.clock);
    }

    fn record(&self, record: &MeasuredRecord) {
        if let Some(gates) = &mut self.state.lock().gates {
            gates.observe(&record.observation);
        }
    }

    fn progress(&self, progress: &Progress<'_>) {
        let is_measuring = |phase: &&PhaseStats| {
            phase.phase == PhaseKind::Profiling && phase.requests_end.is_none()
        };
        let Some(phase) = progress.phases.last().filter(is_measuring) else { return };
        let mut state = self.state.lock();
        if state.end.is_some() || phase.now < state.next_look {
            return;
        }
        state.next_look = phase.now + INTERVAL;
        let (load, start) = (state.load, state.clock.map(|clock| clock.wall_ns(phase.start)));
        let health = || LoadHealth::judge(&(progress.load_times)(), load, start?);
        let found = self.when.iter().find_map(|when| {
            let finding = match when {
                StopWhen::Decided => state.decision(health),
                StopWhen::Saturated => state.saturation(phase, health),
            };
            Some((*when, finding?))
        });
        if let Some((cause, finding)) = found {
            let seconds = phase.now.since(phase.start).as_seconds();
            state.end = Some(EarlyEnd { cause, seconds, finding });
            self.enough.end();
        }
    }
}
