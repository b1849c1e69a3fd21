//! Processes finished records: takes each from the queue, measures it once, and passes it to the
//! statistics, client health, the files, telemetry and the followers of the run.
//!
//! Processor threads have low priority, so that they never delay a worker that has to take a
//! timestamp. Threads of normal priority replace them after the load, and while a closed loop is
//! stuck because other programs leave the processors hardly any CPU time.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{io, iter};

use thiserror::Error;

use crate::artifacts::ArtifactSet;
use crate::column::Store;
use crate::dataset::{Sent, SentCounter};
use crate::follow::{Follower, Followers};
use crate::lock::{Condition, Lock};
use crate::metrics::breakdown::{Breakdowns, Grouped, asked_rate};
use crate::metrics::health::LoadTimes;
use crate::metrics::name_counts::{self, NameCounts};
use crate::metrics::prefix_cache::{CacheLedger, PrefixCache, PromptBlocks};
use crate::metrics::session::{SessionLedger, SessionTurn, Sessions};
use crate::metrics::silence::EventTimes;
use crate::metrics::{Accumulator, AgentTotals, ClientHealth, Health, Measurer, Registry};
use crate::otlp_receiver::SpanJoin;
use crate::platform::Background;
use crate::platform::process::yield_to_measurement;
use crate::record::RequestRecord;
use crate::run::provenance::Responders;
use crate::runner::{Progress, RecordQueue};
use crate::schedule::PhaseKind;
use crate::schedule::config::PhaseConfig;
use crate::server_metrics::prefix_cache;
use crate::server_metrics::report::ServerMetrics;
use crate::telemetry::Telemetry;
use crate::units::{Clock, Nanos};

/// Maximum time that a processor waits for a record before it does other work.
const POP_TIMEOUT: Duration = Duration::from_millis(250);

/// Time that the processors have for the records left at the end before the calling thread helps,
/// so that a single processor writes the last records of a short run in the order of the queue.
const ALONE: Duration = Duration::from_millis(100);

/// Time between two looks at whether the user ends the wait for spans.
const SPANS_TIMEOUT: Duration = Duration::from_millis(100);

/// Time that a closed loop waits for room in the queue before a thread of normal priority makes
/// some. A processor that has a core processes hundreds of records in it.
const STUCK: Duration = Duration::from_millis(100);

/// Processors cannot be started, or one of them ended unexpectedly.
#[derive(Debug, Error)]
pub(crate) enum ProcessingError {
    /// A thread cannot be started.
    #[error("cannot start a record processor thread; check the limit on threads")]
    Thread(#[from] io::Error),
    /// A processor ended before its work was done.
    #[error(
        "a record processor thread ended unexpectedly; some records are missing from the results"
    )]
    ProcessorLost,
}

/// The inputs of processing.
pub(crate) struct ProcessingParts {
    pub(crate) queue: Arc<RecordQueue>,
    /// Where records wait for the spans of the servers, if these are received.
    pub(crate) spans: Option<Arc<SpanJoin>>,
    /// Computes the values of records.
    pub(crate) measurer: Measurer,
    /// The metrics that apply.
    pub(crate) registry: Arc<Registry>,
    /// Where the values of all requests are kept.
    pub(crate) store: Store,
    /// Exports each record's values as OpenTelemetry metrics and traces.
    pub(crate) telemetry: Arc<Telemetry>,
    /// Counts the outcomes of requests and sessions.
    pub(crate) progress: Arc<Progress>,
    /// Whether the measurement is divided into time slices.
    pub(crate) is_sliced: bool,
    /// For each phase, whether its requests are in the account of the dataset.
    pub(crate) accounted_phases: Vec<bool>,
    /// The groups of the measurement's requests.
    pub(crate) breakdowns: Breakdowns,
    /// What prompts repeat, if the endpoint takes prompts.
    pub(crate) prefix_cache: Option<CacheLedger>,
    /// The sessions of the measurement, if conversations have several turns or start others.
    pub(crate) sessions: Option<SessionLedger>,
    /// Those who are passed each record.
    pub(crate) followers: Followers,
    pub(crate) clock: Clock,
}

/// Running processor threads.
pub(crate) struct Processing {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Closed when all threads have ended; nothing is sent.
    ended: Receiver<()>,
}

/// The results of processing.
pub(crate) struct Processed {
    pub(crate) warmup: Accumulator,
    /// Statistics of the measurement.
    pub(crate) profiling: Accumulator,
    /// Statistics of the measurement by model and by URL.
    pub(crate) breakdowns: Breakdowns,
    /// What the prompts of the measurement repeat, if the endpoint takes prompts.
    pub(crate) prefix_cache: Option<CacheLedger>,
    /// The sessions of the measurement, if conversations have several turns or start others.
    pub(crate) sessions: Option<Sessions>,
    /// Why the outputs of the measurement ended.
    pub(crate) finish_reasons: NameCounts,
    pub(crate) response_notes: NameCounts,
    /// Client health in the measurement.
    pub(crate) health: Health,
    /// When the requests of the measurement arrived and ended.
    pub(crate) load_times: LoadTimes,
    /// When the events of their responses arrived.
    pub(crate) event_times: EventTimes,
    /// Agents of the warmup, and those of the measurement.
    pub(crate) agents: [AgentTotals; 2],
    /// The requests of the dataset that were sent in all phases.
    pub(crate) sent: Sent,
    /// The servers that have responded in all phases.
    pub(crate) responders: Responders,
    /// The files, still open.
    pub(crate) files: ArtifactSet,
}

impl Processed {
    /// Returns the values of the phase with this name among `phases`, or without one those of the
    /// measurement, and the requests per second that it was to send, if that is a certain number.
    pub(crate) fn values(
        &self,
        phase: Option<&str>,
        phases: &[PhaseConfig],
    ) -> Option<(&Accumulator, Option<f64>)> {
        let of_phase = |name| self.breakdowns.phase(phases, name);
        let values = phase.map_or(Some(&self.profiling), of_phase)?;
        Some((values, asked_rate(phases, phase)))
    }

    /// Returns what prompts repeat beside what the servers read from their caches.
    pub(crate) fn prefix_cache(&self, servers: Option<&ServerMetrics>) -> Option<PrefixCache> {
        let counted = servers.and_then(|servers| prefix_cache::counted(&servers.report));
        self.prefix_cache.as_ref()?.report(counted)
    }
}

struct Shared {
    parts: ProcessingParts,
    /// Whether prompts are compared.
    compares_prompts: bool,
    readers: Lock<Readers>,
    stage: Lock<Stage>,
    stage_changed: Condition,
}

/// Which threads process records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The processors, of low priority.
    Background,
    /// The relief, of normal priority; the processors pause, so that none of them holds the lock of
    /// the readers without getting CPU time.
    Relief,
    /// The load has ended: the finishers, of normal priority, and the processors end.
    Finishing,
}

/// The consumers that process one record at a time. Telemetry and followers process them
/// concurrently.
struct Readers {
    warmup: Accumulator,
    profiling: Accumulator,
    breakdowns: Breakdowns,
    prefix_cache: Option<CacheLedger>,
    sessions: Option<SessionLedger>,
    finish_reasons: NameCounts,
    response_notes: NameCounts,
    health: Health,
    load_times: LoadTimes,
    event_times: EventTimes,
    /// Agents of the warmup, and those of the measurement.
    agents: [AgentTotals; 2],
    sent: SentCounter<usize>,
    responders: Responders,
    files: ArtifactSet,
}

impl Processing {
    /// Starts `processors` threads that process records until the queue is closed, and write them to
    /// `files`.
    pub(crate) fn start(
        mut parts: ProcessingParts,
        files: ArtifactSet,
        processors: usize,
    ) -> Result<Self, ProcessingError> {
        let accumulator =
            || Accumulator::keeping_in(parts.store.clone(), Arc::clone(&parts.registry));
        let breakdowns = std::mem::take(&mut parts.breakdowns);
        let prefix_cache = parts.prefix_cache.take();
        let sessions = parts.sessions.take();
        let compares_prompts = prefix_cache.is_some();
        let readers = Readers {
            warmup: accumulator(),
            profiling: if parts.is_sliced { accumulator().sliced() } else { accumulator() },
            breakdowns,
            prefix_cache,
            sessions,
            finish_reasons: NameCounts::default(),
            response_notes: NameCounts::default(),
            health: Health::keeping_in(parts.store.clone()),
            load_times: LoadTimes::default(),
            event_times: EventTimes::default(),
            agents: Default::default(),
            sent: SentCounter::default(),
            responders: Responders::default(),
            files,
        };
        let shared = Arc::new(Shared {
            parts,
            compares_prompts,
            readers: Lock::new(readers),
            stage: Lock::new(Stage::Background),
            stage_changed: Condition::default(),
        });
        let (running, ended) = mpsc::channel();
        let start = |name: String, work: fn(&Shared)| {
            let (shared, running) = (Arc::clone(&shared), running.clone());
            thread::Builder::new().name(name).spawn(move || {
                let _running = running;
                work(&shared);
            })
        };
        let processors = (0..processors.max(1))
            .map(|number| start(format!("processor-{number}"), Shared::process_in_background));
        let relief = iter::once_with(|| start("relief".to_owned(), Shared::relieve));
        let threads = processors.chain(relief).collect::<io::Result<_>>()?;
        Ok(Self { shared, threads, ended })
    }

    /// Returns the queue of records.
    pub(crate) fn queue(&self) -> &RecordQueue {
        &self.shared.parts.queue
    }

    /// Returns the longest time that a record waits for the spans of the servers, if these are
    /// received.
    pub(crate) fn longest_wait(&self) -> Option<Nanos> {
        self.shared.parts.spans.as_ref().map(|spans| spans.wait())
    }

    /// Returns client health in the measurement so far.
    pub(crate) fn health_so_far(&self) -> ClientHealth {
        self.shared.readers.lock().health.so_far(&self.shared.parts.queue.stats())
    }

    /// Returns when the requests of the measurement that have been processed arrived and ended.
    pub(crate) fn load_times_so_far(&self) -> LoadTimes {
        self.shared.readers.lock().load_times.clone()
    }

    /// Processes the records left in the queue, which must be closed, and returns the results.
    /// Remaining records are discarded once `gives_up` returns true, which is called after each
    /// record that this thread processes. `waits` is called with the number of records while these
    /// wait for the spans of the servers, and returns false to end the wait.
    ///
    /// The load has ended, so that nothing is disturbed any more: the calling thread and others of
    /// normal priority soon replace the processors. On a machine that other programs keep busy, a
    /// processor gets hardly any CPU time, and the others would wait for the lock that it holds.
    pub(crate) fn finish(
        self,
        gives_up: impl FnMut() -> bool,
        waits: impl FnMut(usize) -> bool,
    ) -> Result<Processed, ProcessingError> {
        let _ = self.ended.recv_timeout(ALONE);
        self.shared.set_stage(Stage::Finishing);
        let help = |number: usize| {
            let shared = Arc::clone(&self.shared);
            let work = move || shared.process(|| true, || false);
            thread::Builder::new().name(format!("finisher-{number}")).spawn(work)
        };
        // As many as there were processors, with this thread. Without help, it only takes longer.
        let helpers: Vec<_> = (2..self.threads.len()).filter_map(|n| help(n).ok()).collect();
        self.shared.process(|| true, gives_up);
        for thread in self.threads.into_iter().chain(helpers) {
            thread.join().map_err(|_| ProcessingError::ProcessorLost)?;
        }
        self.shared.await_spans(waits);
        let shared = Arc::try_unwrap(self.shared).map_err(|_| ProcessingError::ProcessorLost)?;
        let readers = shared.readers.into_inner();
        let Readers {
            warmup,
            profiling,
            breakdowns,
            prefix_cache,
            sessions,
            finish_reasons,
            response_notes,
            health,
            load_times,
            event_times,
            agents,
            sent,
            responders,
            files,
        } = readers;
        let sent = sent.sent();
        Ok(Processed {
            warmup,
            profiling,
            breakdowns,
            prefix_cache,
            sessions: sessions.as_ref().and_then(SessionLedger::sessions),
            finish_reasons,
            response_notes,
            health,
            load_times,
            event_times,
            agents,
            sent,
            responders,
            files,
        })
    }
}

impl Shared {
    /// Processes records at low priority until the queue is closed and empty or the load has ended.
    fn process_in_background(&self) {
        yield_to_measurement(Background::Queued);
        let is_relieved = |stage: &mut Stage| *stage == Stage::Relief;
        let goes_on =
            || *self.stage_changed.wait_while(self.stage.lock(), is_relieved) == Stage::Background;
        self.process(goes_on, || false);
    }

    /// Empties the queue each time that a closed loop is stuck, until the queue is closed.
    fn relieve(&self) {
        let queue = &self.parts.queue;
        while queue.is_stuck_for(STUCK) {
            self.set_stage(Stage::Relief);
            self.process(|| queue.stats().bytes > 0, || false);
            self.set_stage(Stage::Background);
        }
    }

    /// Sets the stage, unless the last one has begun.
    fn set_stage(&self, next: Stage) {
        let mut stage = self.stage.lock();
        if *stage != Stage::Finishing {
            *stage = next;
        }
        self.stage_changed.notify_all();
    }

    /// Processes records until the queue is closed and empty, `goes_on` returns false, or this
    /// thread discards the rest because `gives_up` returned true.
    fn process(&self, goes_on: impl Fn() -> bool, mut gives_up: impl FnMut() -> bool) {
        let _notice = LossNotice(&self.parts.queue);
        while goes_on()
            && let Some(next) = self.parts.queue.pop(POP_TIMEOUT)
        {
            self.take(next);
            self.readers.lock().files.tick(Clock::now());
            if gives_up() {
                self.parts.queue.discard();
            }
        }
    }

    /// Passes on the next record, if there is one, and those that have waited for spans.
    fn take(&self, next: Option<RequestRecord>) {
        let Some(spans) = &self.parts.spans else {
            if let Some(record) = next {
                self.pass_on(record);
            }
            return;
        };
        let unheld = next.and_then(|record| {
            let bytes = self.parts.queue.footprint(&record);
            spans.hold(record, bytes)
        });
        for record in unheld.into_iter().chain(spans.ready()) {
            self.pass_on(record);
        }
    }

    /// Passes on the records that wait for spans, once they need not wait any longer.
    fn await_spans(&self, mut waits: impl FnMut(usize) -> bool) {
        let Some(spans) = &self.parts.spans else { return };
        loop {
            for record in spans.ready() {
                self.pass_on(record);
            }
            let waiting = spans.waiting();
            if waiting == 0 {
                return;
            }
            if !waits(waiting) {
                for record in spans.release_all() {
                    self.pass_on(record);
                }
                return;
            }
            spans.pause(SPANS_TIMEOUT);
        }
    }

    /// Measures a record once, for all consumers.
    fn pass_on(&self, record: RequestRecord) {
        let phase_index = record.phase_index as usize;
        let measured = self.parts.measurer.measure(record);
        let observation = &measured.observation;
        if let Some(counters) = self.parts.progress.phase(phase_index) {
            let is_left_out = self.parts.registry.settings().leaves_out(observation);
            counters.measured(&measured.record.turn, observation.error.as_ref(), is_left_out);
        }
        self.parts.telemetry.record(&measured, &self.parts.registry);
        self.parts.followers.record(&measured);
        // Before the lock, which others wait for.
        let prompt = self.compares_prompts.then(|| PromptBlocks::of(&measured));
        let reason = name_counts::joined(&measured.response.finish_reasons);
        let notes = name_counts::joined(&measured.response.notes);
        let mut readers = self.readers.lock();
        let readers = &mut *readers;
        if let (Some(ledger), Some(prompt)) = (&mut readers.prefix_cache, &prompt) {
            ledger.observe(&measured, prompt);
        }
        let turn = measured.record.turn;
        let is_accounted = self.parts.accounted_phases.get(phase_index) == Some(&true);
        readers.sent.count(is_accounted, turn.conversation, turn.turn);
        readers.breakdowns.observe_in(measured.record.phase_index, observation);
        let [of_warmup, of_profiling] = &mut readers.agents;
        match observation.phase {
            PhaseKind::Warmup => {
                of_warmup.observe(&measured);
                readers.warmup.observe(observation);
            }
            PhaseKind::Profiling => {
                of_profiling.observe(&measured);
                readers.profiling.observe(observation);
                let RequestRecord { model, url, tenant, .. } = &measured.record;
                let worker =
                    measured.response.server.as_ref().and_then(|server| server.worker.as_ref());
                readers.breakdowns.observe(Grouped {
                    model,
                    url,
                    worker,
                    tenant: tenant.as_ref(),
                    turn: Some(turn.turn),
                    observation,
                });
                if observation.error.is_none() {
                    readers.finish_reasons.observe(reason.as_deref());
                    readers.response_notes.observe(notes.as_deref());
                }
                readers.health.observe(&measured);
                let due = measured.record.due.map(|due| self.parts.clock.wall_ns(due));
                readers.load_times.observe(due, observation);
                readers.event_times.observe(observation);
                if let Some(sessions) = &mut readers.sessions {
                    let id = readers.files.conversation_id(&measured);
                    sessions.observe(&SessionTurn::of(&measured, &id, due));
                }
            }
        }
        readers.responders.observe(&measured.record);
        readers.files.record(&measured, &self.parts.clock);
    }
}

/// Closes the queue if a processor panics, since workers would wait for it forever.
struct LossNotice<'a>(&'a RecordQueue);

impl Drop for LossNotice<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.close();
        }
    }
}
