//! What the threads of a collection share.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::schedule::PhaseKind;
use crate::server_metrics::report::{Window, Windows};
use crate::server_metrics::scrape::PhaseMark;
use crate::server_metrics::store::Store;
use crate::units::{Clock, Nanos};

/// What the threads share.
#[derive(Debug)]
pub(super) struct Shared {
    store: Mutex<Store>,
    state: Mutex<State>,
    /// Something of the state, or the store, is new.
    changed: Condvar,
    clock: Clock,
}

/// Where the run is, and where the collection.
#[derive(Debug, Default)]
struct State {
    windows: Windows,
    /// The phase that is going on, and when it began: wall time.
    phase: Option<(PhaseMark, u64)>,
    last_end: Option<Nanos>,
    /// Scrapes between phases that are going on.
    boundaries: usize,
    /// Endpoints that are scraped.
    live: usize,
    /// Changes of the store.
    changes: u64,
}

impl Shared {
    /// The state before the first phase.
    pub(super) fn new(store: Store, clock: Clock) -> Self {
        Self { store: Mutex::new(store), state: Mutex::default(), changed: Condvar::new(), clock }
    }

    /// The store, held.
    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state());
        self.changed.notify_all();
        changed
    }

    /// Changes the store.
    pub(super) fn update(&self, update: impl FnOnce(&mut Store)) {
        update(&mut self.store());
        self.change(|state| state.changes += 1);
    }

    /// The phase that is going on.
    pub(super) fn phase(&self) -> Option<PhaseMark> {
        self.state().phase.map(|(mark, _)| mark)
    }

    /// The phase that is going on, if it had begun by `at_ns`: wall time.
    pub(super) fn phase_at(&self, at_ns: u64) -> Option<PhaseMark> {
        self.state().phase.filter(|(_, start_ns)| *start_ns <= at_ns).map(|(mark, _)| mark)
    }

    /// The phases so far.
    pub(super) fn windows(&self) -> Windows {
        self.state().windows
    }

    /// When the last phase ended.
    pub(super) fn last_end(&self) -> Option<Nanos> {
        self.state().last_end
    }

    /// A phase has begun. Of several of one kind the window is from the first on.
    pub(super) fn begin(&self, mark: PhaseMark, at: Nanos) {
        let at_ns = self.clock.wall_ns(at);
        self.change(|state| {
            state.phase = Some((mark, at_ns));
            let new = Window { start_ns: at_ns, end_ns: at_ns };
            window(&mut state.windows, mark.kind).get_or_insert(new);
        });
    }

    /// A phase has ended, and its final scrapes begin.
    pub(super) fn end(&self, mark: PhaseMark, at: Nanos) {
        self.extend(mark.kind, self.clock.wall_ns(at));
        self.change(|state| {
            state.phase = None;
            state.last_end = Some(at);
            state.boundaries += 1;
        });
    }

    /// The window of phase `kind` lasts until `end_ns` at least: wall time.
    pub(super) fn extend(&self, kind: PhaseKind, end_ns: u64) {
        self.change(|state| {
            if let Some(window) = window(&mut state.windows, kind) {
                window.end_ns = window.end_ns.max(end_ns);
            }
        });
    }

    /// The final scrapes of a phase are done.
    pub(super) fn boundary_done(&self) {
        self.change(|state| state.boundaries = state.boundaries.saturating_sub(1));
    }

    /// One more endpoint is scraped.
    pub(super) fn one_more(&self) {
        self.change(|state| state.live += 1);
    }

    /// An endpoint is not scraped any more.
    pub(super) fn one_less(&self) {
        self.change(|state| state.live = state.live.saturating_sub(1));
    }

    /// Whether no endpoint is scraped any more.
    pub(super) fn is_over(&self) -> bool {
        self.state().live == 0
    }

    /// Waits until the final scrapes are done, until `deadline` at most.
    pub(super) fn await_boundaries(&self, deadline: Nanos) {
        let bound = Duration::from(deadline.since(Clock::now()));
        let waits = |state: &mut State| state.boundaries > 0;
        drop(self.changed.wait_timeout_while(self.state(), bound, waits));
    }

    /// Waits until the store changes, for `bound` at most.
    pub(super) fn await_change(&self, seen: u64, bound: Nanos) {
        let waits = |state: &mut State| state.changes == seen && state.live > 0;
        drop(self.changed.wait_timeout_while(self.state(), bound.into(), waits));
    }

    /// How often the store has changed.
    pub(super) fn changes(&self) -> u64 {
        self.state().changes
    }
}

fn window(windows: &mut Windows, kind: PhaseKind) -> &mut Option<Window> {
    match kind {
        PhaseKind::Warmup => &mut windows.warmup,
        PhaseKind::Profiling => &mut windows.profiling,
    }
}
