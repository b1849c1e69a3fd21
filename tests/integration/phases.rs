//! The start and end of phases, as reported to a listener.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use base::interrupt::Interrupter;
use base::units::{Clock, Nanos};
use client::runner::PhaseListener;
use client::schedule::PhaseKind::{self, Profiling, Warmup};
use client::schedule::config::PhaseConfig;
use mock_server::{MockServer, Script};
use tokio::sync::oneshot;

use crate::support::load::{Load, closed_loop, mock};

/// The events of a listener, and how many requests the server had served at each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    is_start: bool,
    index: u32,
    kind: PhaseKind,
    at: Nanos,
    served: u64,
}

/// An action at the end of a phase.
type Ended = Box<dyn Fn() -> oneshot::Receiver<()> + Send + Sync>;

struct Listener {
    server: MockServer,
    told: Mutex<Vec<Told>>,
    ended: Ended,
}

impl Listener {
    fn on(server: MockServer, ended: Ended) -> Arc<Self> {
        Arc::new(Self { server, told: Mutex::default(), ended })
    }

    fn note(&self, is_start: bool, index: u32, kind: PhaseKind, at: Nanos) {
        let served = self.server.requests_served();
        let told = Told { is_start, index, kind, at, served };
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(told);
    }
}

impl PhaseListener for Listener {
    fn phase_started(&self, index: u32, kind: PhaseKind, at: Nanos) {
        self.note(true, index, kind, at);
    }

    fn phase_ended(&self, index: u32, kind: PhaseKind, at: Nanos) -> oneshot::Receiver<()> {
        self.note(false, index, kind, at);
        (self.ended)()
    }
}

fn phases() -> Vec<PhaseConfig> {
    vec![PhaseConfig { kind: Warmup, ..closed_loop(2, 3) }, closed_loop(2, 5)]
}

#[test]
fn the_next_phase_starts_when_the_listener_is_done_with_the_last() {
    let resolved = Arc::new(AtomicU64::new(0));
    let ended: Ended = {
        let resolved = Arc::clone(&resolved);
        Box::new(move || {
            let (done, receiver) = oneshot::channel();
            let resolved = Arc::clone(&resolved);
            thread::spawn(move || {
                // Only the pause between the phases is waited for.
                let _ = resolved.compare_exchange(
                    0,
                    Clock::now().0,
                    Ordering::SeqCst,
                    Ordering::SeqCst,
                );
                let _ = done.send(());
            });
            receiver
        })
    };
    let server = mock(Script::default());
    let url = server.url();
    let listener = Listener::on(server, ended);
    let heard: Arc<dyn PhaseListener> = Arc::clone(&listener) as _;
    let outcome = Load { phases: phases(), listener: Some(heard), ..Load::on(&url) }.run();
    let told = listener.told.lock().unwrap().clone();
    let order: Vec<_> = told.iter().map(|t| (t.is_start, t.index, t.kind, t.served)).collect();
    assert_eq!(
        order,
        [
            (true, 0, Warmup, 0),
            (false, 0, Warmup, 3),
            (true, 1, Profiling, 3),
            (false, 1, Profiling, 8)
        ]
    );
    let [warmup, profiling] = &outcome.phases[..] else { panic!("{:?}", outcome.phases) };
    assert_eq!([told[0].at, told[2].at], [warmup.start, profiling.start]);
    // The pause does not belong to either phase.
    assert_eq!([told[1].at, told[3].at], [warmup.now, profiling.now]);
    assert!(warmup.requests_end.unwrap() <= warmup.now);
    let resolved = Nanos(resolved.load(Ordering::SeqCst));
    assert!(warmup.now <= resolved && resolved <= profiling.start);
    for record in outcome.records.iter().filter(|record| record.phase_index == 1) {
        assert!(record.start >= profiling.start);
    }
}

#[test]
fn a_listener_cannot_hold_the_run_up() {
    let unresolved: Arc<Mutex<Vec<oneshot::Sender<()>>>> = Arc::default();
    let ended: Ended = Box::new(move || {
        let (done, receiver) = oneshot::channel();
        unresolved.lock().unwrap().push(done);
        receiver
    });
    let server = mock(Script::default());
    let url = server.url();
    let listener = Listener::on(server, ended);
    let outcome = Load { phases: phases(), listener: Some(listener), ..Load::on(&url) }.run();
    assert_eq!(outcome.records.len(), 8);
}

#[test]
fn an_interrupt_between_phases_leaves_out_the_next() {
    for signals in [1, 2] {
        let interrupter = Interrupter::default();
        let ended: Ended = {
            let interrupter = interrupter.clone();
            Box::new(move || {
                let (done, receiver) = oneshot::channel();
                (0..signals).for_each(|_| interrupter.signal());
                // A future that never resolves.
                std::mem::forget(done);
                receiver
            })
        };
        let server = mock(Script::default());
        let url = server.url();
        let listener = Listener::on(server, ended);
        let load =
            Load { phases: phases(), interrupter, listener: Some(listener), ..Load::on(&url) };
        let outcome = load.run();
        assert_eq!((outcome.records.len(), outcome.phases.len()), (3, 1));
    }
}
