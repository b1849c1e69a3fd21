//! The profilers of the servers, which are started and stopped around the measurement.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;
use url::Url;

use base::interrupt::Interrupt;
use base::lock::Lock;
use base::redact::Secret;
use base::units::Nanos;
use client::runner::PhaseListener;
use client::schedule::{PhaseKind, PhaseStats};

use super::request::block_on;
use super::servers::Servers;
use crate::config::ServerProfiler;

/// Timeout of stopping a profiler after the user has interrupted the run.
const INTERRUPTED_STOP: Nanos = Nanos(10_000_000_000);

/// The profilers of the servers during a run.
pub(crate) struct Profiler {
    servers: Servers,
    settings: ServerProfiler,
    /// The number of requests in flight at which the concurrency counts as full.
    full: u64,
    interrupt: Interrupt,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    /// The paths of the servers whose profilers are to be stopped, by index.
    started: Vec<usize>,
    /// Since when the concurrency has been full.
    full_since: Option<Nanos>,
    /// Starts the profilers during the measurement.
    starting: Option<JoinHandle<()>>,
}

impl Profiler {
    /// Returns the profilers of `servers`. The concurrency is full with `full` requests in flight.
    pub(crate) fn new(
        servers: Servers,
        settings: ServerProfiler,
        full: u64,
        interrupt: &Interrupt,
    ) -> Arc<Self> {
        let state = Lock::default();
        Arc::new(Self { servers, settings, full, interrupt: interrupt.clone(), state })
    }

    /// Starts the profilers once the concurrency of the measurement has been full for long enough.
    /// If that fails, it is a warning, since the measurement is going on.
    pub(crate) fn watch(self: &Arc<Self>, phase: &PhaseStats) {
        let Some(hold) = self.settings.at_full_concurrency else { return };
        let mut state = self.state.lock();
        if phase.phase != PhaseKind::Profiling || state.starting.is_some() {
            return;
        }
        if phase.requests_in_flight() < self.full {
            state.full_since = None;
            return;
        }
        let since = *state.full_since.get_or_insert(phase.now);
        if phase.now.since(since) >= hold {
            let profiler = Arc::clone(self);
            let start = move || {
                if let Err(why) = profiler.start() {
                    tracing::warn!("{why}; the run continues without a profile");
                }
            };
            let thread = thread::Builder::new().name("profiler".to_owned()).spawn(start);
            match thread {
                Ok(thread) => state.starting = Some(thread),
                Err(error) => tracing::warn!("cannot start the server profiler: {error}"),
            }
        }
    }

    /// Starts the profiler of every server. If one does not start, those of the others are stopped.
    fn start(&self) -> Result<(), String> {
        let all = async {
            let client = self.servers.client(self.settings.timeout);
            let client = client.map_err(|error| error.to_string())?;
            for (index, url) in self.servers.at(&self.settings.start_path).enumerate() {
                // If there is no response, it may have been started.
                self.state.lock().started.push(index);
                let Err(refusal) = self.servers.post(&client, &url).await else { continue };
                if refusal.status.is_some() {
                    self.state.lock().started.pop();
                }
                return Err(format!(
                    "cannot start the server profiler with {}: {}; enable this endpoint of the \
                     server, set --server-profiler-start-path, or remove --server-profiler",
                    url.shown(),
                    refusal.why
                ));
            }
            Ok(())
        };
        block_on(all, &self.interrupt).map_err(|error| error.to_string())?.unwrap_or(Ok(()))
    }

    /// Stops the profilers that were started, the last one first. Failures are warnings, since the
    /// measurement is complete.
    pub(crate) fn stop(&self) {
        let starting = self.state.lock().starting.take();
        if let Some(thread) = starting
            && thread.join().is_err()
        {
            tracing::warn!("starting the server profiler ended unexpectedly");
        }
        let started = std::mem::take(&mut self.state.lock().started);
        if started.is_empty() {
            return;
        }
        let longest = Some(INTERRUPTED_STOP).filter(|_| self.interrupt.is_draining());
        let timeout = longest.unwrap_or(self.settings.timeout).min(self.settings.timeout);
        let urls: Vec<Secret<Url>> = self.servers.at(&self.settings.stop_path).collect();
        let all = async {
            let client = self.servers.client(timeout)?;
            for url in started.iter().rev().filter_map(|index| urls.get(*index)) {
                if let Err(refusal) = self.servers.post(&client, url).await {
                    tracing::warn!(
                        "cannot stop the server profiler with {}: {}; stop it yourself, since it \
                         may still be running",
                        url.shown(),
                        refusal.why
                    );
                }
            }
            anyhow::Ok(())
        };
        let why = match block_on(all, &self.interrupt.since_now()) {
            Ok(Some(Ok(()))) => return,
            Ok(Some(Err(error))) => error.to_string(),
            Ok(None) => "interrupted by the user".to_owned(),
            Err(error) => error.to_string(),
        };
        tracing::warn!("cannot stop the server profiler, which may still be running: {why}");
    }
}

impl PhaseListener for Profiler {
    fn before_phase(&self, kind: PhaseKind) -> Result<(), String> {
        match (kind, self.settings.at_full_concurrency) {
            (PhaseKind::Profiling, None) if self.state.lock().started.is_empty() => self.start(),
            _ => Ok(()),
        }
    }

    fn phase_started(&self, _index: u32, _kind: PhaseKind, _at: Nanos) {}

    fn phase_ended(&self, _index: u32, _kind: PhaseKind, _at: Nanos) -> oneshot::Receiver<()> {
        // The sender is dropped, so that nothing waits.
        oneshot::channel().1
    }
}
