//! What the machine does to the client while it measures.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::oneshot;

use base::platform::machine::{Counters, Ends, Queues};
use base::platform::{Background, machine_files::Machine, process};
use base::units::{Clock, Nanos};
use client::runner::PhaseListener;
use client::schedule::PhaseKind;
use measure::metrics::health::{Frequency, HostActivity, Reason};

/// Time between two readings of the frequency.
const INTERVAL: Duration = Duration::from_secs(1);

/// The bounds of the profiling phase.
enum Note {
    Began,
    Ended,
    /// No other phase follows.
    Over,
}

/// Reads the machine's counters at the start and the end of the profiling phase, and the frequency of
/// the cores in between, on a thread of its own.
#[derive(Debug)]
pub(crate) struct HostWatch {
    notes: Sender<Note>,
    thread: JoinHandle<Option<Watched>>,
}

/// Passes the bounds of the profiling phase on.
struct Notifier(Sender<Note>);

/// What was read.
#[derive(Debug)]
struct Watched {
    before: Counters,
    after: Counters,
    seconds: f64,
    /// The frequency of the fastest core in MHz, once a second.
    frequencies: Vec<u64>,
}

impl HostWatch {
    /// Starts the thread; `None` after a warning if it cannot be started.
    pub(crate) fn start() -> Option<Self> {
        let (notes, received) = mpsc::channel();
        let watch = move || {
            process::yield_to_measurement(Background::Timely);
            watch(&Machine::this(), &received)
        };
        match thread::Builder::new().name("host-watch".to_owned()).spawn(watch) {
            Ok(thread) => Some(Self { notes, thread }),
            Err(error) => {
                tracing::warn!("cannot start a thread that observes this machine: {error}");
                None
            }
        }
    }

    pub(crate) fn listener(&self) -> Arc<dyn PhaseListener> {
        Arc::new(Notifier(self.notes.clone()))
    }

    /// Ends the thread. Returns what happened on the way to the servers, given the `ends` of
    /// connections to them, and the reasons for doubt; `None` if the phase did not begin.
    pub(crate) fn finish(self, ends: &[Ends]) -> Option<(HostActivity, Vec<Reason>)> {
        let _ = self.notes.send(Note::Over);
        drop(self.notes);
        let watched = self.thread.join().ok()??;
        let machine = Machine::this();
        let activity = HostActivity {
            frequency_mhz: Frequency::from_readings(&watched.frequencies),
            ..HostActivity::between(
                &watched.before,
                &watched.after,
                watched.seconds,
                &devices(&machine, ends),
            )
        };
        let reasons = activity.reasons(machine.scaling().as_ref());
        Some((activity, reasons))
    }
}

/// Returns the network devices between `ends`, each once.
fn devices(machine: &Machine, ends: &[Ends]) -> Vec<(String, Queues)> {
    let mut names: Vec<String> =
        ends.iter().filter_map(|ends| machine.device_between(*ends)).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| (name.clone(), machine.queues(&name))).collect()
}

/// Waits for the phase to begin and to end.
fn watch(machine: &Machine, notes: &Receiver<Note>) -> Option<Watched> {
    let Ok(Note::Began) = notes.recv() else { return None };
    let (start, before) = (Clock::now(), machine.counters());
    let mut frequencies = Vec::new();
    // Another phase of the measurement may follow, or begin before the last one has ended.
    let mut running = 1;
    loop {
        frequencies.extend(machine.fastest_mhz());
        match notes.recv_timeout(INTERVAL) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Note::Began) => running += 1,
            Ok(Note::Ended) if running > 1 => running -= 1,
            Ok(Note::Ended | Note::Over) | Err(RecvTimeoutError::Disconnected) => {
                let after = machine.counters();
                let seconds = Clock::now().since(start).as_seconds();
                if !matches!(notes.recv(), Ok(Note::Began)) {
                    return Some(Watched { before, after, seconds, frequencies });
                }
                running = 1;
            }
        }
    }
}

impl PhaseListener for Notifier {
    fn phase_started(&self, _index: u32, kind: PhaseKind, _at: Nanos) {
        if kind == PhaseKind::Profiling {
            // The thread only ends before if it panicked.
            let _ = self.0.send(Note::Began);
        }
    }

    fn phase_ended(&self, _index: u32, kind: PhaseKind, _at: Nanos) -> oneshot::Receiver<()> {
        if kind == PhaseKind::Profiling {
            let _ = self.0.send(Note::Ended);
        }
        // The sender is dropped, so that nothing waits.
        oneshot::channel().1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_profiling_phase_is_watched() {
        let watch = HostWatch::start().unwrap();
        let listener = watch.listener();
        listener.phase_started(0, PhaseKind::Warmup, Nanos(1));
        drop(listener.phase_ended(0, PhaseKind::Warmup, Nanos(2)));
        assert!(watch.finish(&[]).is_none());

        let watch = HostWatch::start().unwrap();
        let listener = watch.listener();
        listener.phase_started(0, PhaseKind::Profiling, Nanos(1));
        drop(listener.phase_ended(0, PhaseKind::Profiling, Nanos(2)));
        let (activity, _) = watch.finish(&[]).unwrap();
        assert!(activity.network.is_empty());
    }

    #[test]
    fn a_phase_that_never_ends_is_watched_until_the_run_does() {
        let watch = HostWatch::start().unwrap();
        watch.listener().phase_started(0, PhaseKind::Profiling, Nanos(1));
        assert!(watch.finish(&[]).is_some());
    }
}
