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

use base::lock::{Condition, Lock};
use base::platform::Background;
use base::platform::process::yield_to_measurement;
use base::units::{Clock, Nanos};
use client::record::RequestRecord;
use client::runner::{Progress, RecordQueue};
use measure::metrics::health::LoadTimes;
use measure::metrics::name_counts;
use measure::metrics::output::Outputs;
use measure::metrics::prefix_cache::PromptBlocks;
use measure::metrics::session::SessionTurn;
use measure::metrics::{ClientHealth, Measurer, Registry};
use measure::otlp_receiver::SpanJoin;
use telemetry::Telemetry;

use crate::artifacts::ArtifactSet;
use crate::follow::{Follower, Followers};
use crate::run::ledger::{Entry, Ledger, Live};

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
pub enum ProcessingError {
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
pub struct ProcessingParts {
    pub queue: Arc<RecordQueue>,
    /// Where records wait for the spans of the servers, if these are received.
    pub spans: Option<Arc<SpanJoin>>,
    /// Computes the values of records.
    pub measurer: Measurer,
    /// The metrics that apply.
    pub registry: Arc<Registry>,
    /// Exports each record's values as OpenTelemetry metrics and traces.
    pub telemetry: Arc<Telemetry>,
    /// Counts the outcomes of requests and sessions.
    pub progress: Arc<Progress>,
    /// Those who are passed each record.
    pub followers: Followers,
    pub clock: Clock,
}

/// Running processor threads.
pub struct Processing {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Closed when all threads have ended; nothing is sent.
    ended: Receiver<()>,
}

/// What the processors add to, one record at a time. Telemetry and followers process records
/// concurrently.
pub struct Processed {
    /// The analyses of the requests.
    pub ledger: Ledger,
    /// The files, still open.
    pub files: ArtifactSet,
}

struct Shared {
    parts: ProcessingParts,
    /// Whether prompts are compared.
    compares_prompts: bool,
    /// What outputs are compared by.
    outputs: Lock<Outputs>,
    processed: Lock<Processed>,
    stage: Lock<Stage>,
    stage_changed: Condition,
}

/// Which threads process records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The processors, of low priority.
    Background,
    /// The relief, of normal priority; the processors pause, so that none of them holds the lock of
    /// the results without getting CPU time.
    Relief,
    /// The load has ended: the finishers, of normal priority, and the processors end.
    Finishing,
}

impl Processing {
    /// Starts `processors` threads that process records until the queue is closed, and add them to
    /// `processed`.
    pub fn start(
        parts: ProcessingParts,
        outputs: Outputs,
        processed: Processed,
        processors: usize,
    ) -> Result<Self, ProcessingError> {
        let compares_prompts = processed.ledger.prefix_cache.is_some();
        let shared = Arc::new(Shared {
            parts,
            compares_prompts,
            outputs: Lock::new(outputs),
            processed: Lock::new(processed),
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
    pub fn queue(&self) -> &RecordQueue {
        &self.shared.parts.queue
    }

    /// Returns the longest time that a record waits for the spans of the servers, if these are
    /// received.
    pub fn longest_wait(&self) -> Option<Nanos> {
        self.shared.parts.spans.as_ref().map(|spans| spans.wait())
    }

    /// Returns client health in the measurement so far.
    pub fn health_so_far(&self) -> ClientHealth {
        self.shared.processed.lock().ledger.health.so_far(&self.shared.parts.queue.stats())
    }

    /// Returns when the requests of the measurement that have been processed arrived and ended.
    pub fn load_times_so_far(&self) -> LoadTimes {
        self.shared.processed.lock().ledger.load_times.clone()
    }

    /// Processes the records left in the queue, which must be closed, and returns the results.
    /// Remaining records are discarded once `gives_up` returns true, which is called after each
    /// record that this thread processes. `waits` is called with the number of records while these
    /// wait for the spans of the servers, and returns false to end the wait.
    ///
    /// The load has ended, so that nothing is disturbed any more: the calling thread and others of
    /// normal priority soon replace the processors. On a machine that other programs keep busy, a
    /// processor gets hardly any CPU time, and the others would wait for the lock that it holds.
    pub fn finish(
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
        Ok(shared.processed.into_inner())
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
            self.processed.lock().files.tick(Clock::now());
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
        let mut measured = self.parts.measurer.measure(record);
        let beside = self.outputs.lock().faults(&measured);
        let output = &mut measured.observation.output;
        output.faults = output.faults.union(beside);
        let observation = &measured.observation;
        if let Some(counters) = self.parts.progress.phase(phase_index) {
            let is_left_out = self.parts.registry.settings().leaves_out(observation);
            counters.measured(&measured.record.turn, observation.error.as_ref(), is_left_out);
        }
        self.parts.telemetry.record(&measured, &self.parts.registry);
        self.parts.followers.record(&measured);
        // Before the lock, which others wait for.
        let prompt = self.compares_prompts.then(|| PromptBlocks::from_record(&measured));
        let reason = name_counts::joined(&measured.response.finish_reasons);
        let notes = name_counts::joined(&measured.response.notes);
        let turn = measured.record.turn;
        let due_wall_ns = measured.record.due.map(|due| self.parts.clock.wall_ns(due));
        let mut processed = self.processed.lock();
        let Processed { ledger, files } = &mut *processed;
        let has_sessions = ledger.has_sessions();
        let id = has_sessions.then(|| files.conversation_id(&measured));
        ledger.observe(&Entry {
            observation,
            phase_index: measured.record.phase_index,
            model: &measured.record.model,
            url: &measured.record.url,
            request_id: Some(measured.record.request_id),
            worker: measured.response.server.as_ref().and_then(|server| server.worker.as_ref()),
            tenant: measured.record.tenant.as_ref(),
            conversation: Some(turn.conversation),
            turn: Some(turn.turn),
            due_wall_ns,
            retries: measured.record.retry_count.into(),
            client_errors: None,
            finish_reason: reason.as_deref(),
            response_notes: notes.as_deref(),
            session: id.as_deref().map(|id| SessionTurn::for_request(&measured, id, due_wall_ns)),
            live: Some(Live { record: &measured, prompt: prompt.as_ref() }),
        });
        files.record(&measured);
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
