//! State shared by the threads of a collection.

use tokio::sync::watch;

use base::lock::{Guard, Lock};
use base::units::{Clock, Nanos};
use client::schedule::PhaseKind;

use crate::server_metrics::report::{Window, Windows};
use crate::server_metrics::scrape::PhaseMark;
use crate::server_metrics::store::Store;

/// The state shared by the threads.
#[derive(Debug)]
pub(super) struct Shared {
    store: Lock<Store>,
    /// Also wakes what waits for a change of the store.
    state: watch::Sender<State>,
    clock: Clock,
}

/// Progress of the run and of the collection.
#[derive(Debug, Default)]
struct State {
    windows: Windows,
    /// The current phase, and the wall time of its start.
    phase: Option<(PhaseMark, u64)>,
    last_end: Option<Nanos>,
    /// Number of ended phases whose final scrapes are pending.
    boundaries: usize,
    /// Number of endpoints that are scraped.
    live: usize,
    /// Number of changes of the store.
    changes: u64,
}

impl Shared {
    /// Creates the state before the first phase.
    pub(super) fn new(store: Store, clock: Clock) -> Self {
        Self { store: Lock::new(store), state: watch::Sender::default(), clock }
    }

    /// Returns the locked store.
    pub(super) fn store(&self) -> Guard<'_, Store> {
        self.store.lock()
    }

    fn state(&self) -> watch::Ref<'_, State> {
        self.state.borrow()
    }

    pub(super) fn update(&self, update: impl FnOnce(&mut Store)) {
        update(&mut self.store());
        self.state.send_modify(|state| state.changes += 1);
    }

    pub(super) fn phase(&self) -> Option<PhaseMark> {
        self.state().phase.map(|(mark, _)| mark)
    }

    /// Returns the current phase if it had begun at the wall time `at_ns`.
    pub(super) fn phase_at(&self, at_ns: u64) -> Option<PhaseMark> {
        self.state().phase.filter(|(_, start_ns)| *start_ns <= at_ns).map(|(mark, _)| mark)
    }

    /// Returns the times of the phases so far.
    pub(super) fn windows(&self) -> Windows {
        self.state().windows
    }

    /// Returns when the last phase ended.
    pub(super) fn last_end(&self) -> Option<Nanos> {
        self.state().last_end
    }

    /// Records the start of a phase. The window of several phases of one kind begins with the
    /// first.
    pub(super) fn begin(&self, mark: PhaseMark, at: Nanos) {
        let at_ns = self.clock.wall_ns(at);
        self.state.send_modify(|state| {
            state.phase = Some((mark, at_ns));
            let new = Window { start_ns: at_ns, end_ns: at_ns };
            window(&mut state.windows, mark.kind).get_or_insert(new);
        });
    }

    /// Records the end of a phase, whose final scrapes begin.
    pub(super) fn end(&self, mark: PhaseMark, at: Nanos) {
        let end_ns = self.clock.wall_ns(at);
        self.state.send_modify(|state| {
            if let Some(window) = window(&mut state.windows, mark.kind) {
                window.end_ns = end_ns;
            }
            // The next one may have begun already.
            state.phase = state.phase.filter(|(current, _)| *current != mark);
            state.last_end = Some(at);
            state.boundaries += 1;
        });
    }

    /// Records that the final scrapes of a phase are done.
    pub(super) fn boundary_done(&self) {
        self.state.send_modify(|state| state.boundaries = state.boundaries.saturating_sub(1));
    }

    /// Records that one more endpoint is scraped.
    pub(super) fn one_more(&self) {
        self.state.send_modify(|state| state.live += 1);
    }

    /// Records that an endpoint was dropped and is not scraped any more.
    pub(super) fn one_less(&self) {
        self.state.send_modify(|state| state.live = state.live.saturating_sub(1));
    }

    /// Waits until the final scrapes are done.
    pub(super) async fn boundaries_done(&self) {
        self.reaches(|state| state.boundaries == 0).await;
    }

    /// Waits until the store is `ready`, which is called after each change of it, or until no
    /// endpoint is scraped any more.
    pub(super) async fn store_is(&self, mut ready: impl FnMut(&Store) -> bool) {
        loop {
            let seen = self.state().changes;
            if ready(&self.store()) || self.state().live == 0 {
                return;
            }
            self.reaches(|state| state.changes != seen || state.live == 0).await;
        }
    }

    async fn reaches(&self, wanted: impl FnMut(&State) -> bool) {
        // `self` owns the sender, so the channel cannot close during the wait.
        let _ = self.state.subscribe().wait_for(wanted).await;
    }
}

fn window(windows: &mut Windows, kind: PhaseKind) -> &mut Option<Window> {
    match kind {
        PhaseKind::Warmup => &mut windows.warmup,
        PhaseKind::Profiling => &mut windows.profiling,
    }
}
