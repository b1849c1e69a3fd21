//! Drives the schedule through the transport: workers, sessions, cancellation.
//!
//! Workers are threads, each with a single-threaded runtime and a connection
//! pool of its own. They share the budget of sessions and requests, the
//! arrivals and the concurrency slots, so that no worker idles while another
//! is full. Finished records go to a [queue](RecordQueue); nothing else happens
//! here: no JSON, no tokens, no files.

mod listener;
mod phase;
mod progress;
mod queue;
mod request;
mod session;
mod slots;
mod steps;
mod targets;
mod timer;
mod worker;

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;

pub use listener::PhaseListener;
pub use progress::{Counters, CpuShares, Progress};
pub use queue::{QueueStats, RecordQueue};
pub use request::{HeaderError, RequestBuilder};
pub use targets::Targets;

use crate::dataset::seed::Seed;
use crate::dataset::{Dataset, Sampler};
use crate::endpoint::Endpoint;
use crate::schedule::Shard;
use crate::schedule::config::PhaseConfig;
use crate::transport::{self, Connector, TlsError};
use crate::units::{Clock, Nanos};
use phase::{FailedShare, PhaseRun, Stop};
use worker::{Worker, WorkerEvent, WorkerParts};

/// Time between two looks at how many requests have failed.
const FAILURE_CHECK: Duration = Duration::from_millis(100);

/// How the load is driven.
#[derive(Debug, Clone)]
pub struct Config {
    /// Worker threads.
    pub workers: usize,
    /// The phases, in order.
    pub phases: Vec<PhaseConfig>,
    /// Seed of the arrivals.
    pub seed: Seed,
    /// The part of the phases that is driven.
    pub shard: Shard,
    /// When the first phase starts; `None` is as soon as the workers have.
    pub start_at: Option<Nanos>,
}

/// The user's wish to end the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interrupt {
    /// None: go on.
    #[default]
    None,
    /// Send no more, let requests in flight finish within the grace period.
    Drain,
    /// Stop now.
    Abort,
}

/// The run cannot be driven.
#[derive(Debug, Error)]
pub enum RunnerError {
    /// A thread or its runtime could not be made.
    #[error("a worker cannot be started; check the limits on threads and open files")]
    Worker(#[from] std::io::Error),
    /// TLS is needed and cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A worker ended before its work did.
    #[error("a worker thread ended unexpectedly; the run is not complete")]
    WorkerLost,
    /// The time to start had passed when all was ready.
    #[error(
        "--start-at was {} s ago when all was ready to start: nothing was sent, since what was due \
         by then would have left at once; give a later time",
        late.as_seconds()
    )]
    TooLate {
        /// By how much.
        late: Nanos,
    },
    /// More requests failed than are tolerated.
    #[error(
        "{failed} of {returned} requests failed, more than --failed-request-threshold allows: the \
         run was given up"
    )]
    TooManyFailures {
        /// Requests that failed.
        failed: u64,
        /// Requests that had returned.
        returned: u64,
    },
}

/// Bytes of bodies that are made before the run. The prompts of a long trace
/// are some gigabytes; made when it is sent, one of 20 000 tokens takes about
/// 35 µs.
const BODIES_BUDGET: usize = 256 << 20;

/// Everything that is asked, of whom, and how.
#[derive(Debug, Clone)]
pub struct Workload {
    dataset: Arc<Dataset>,
    sampler: Arc<Sampler>,
    endpoint: Arc<dyn Endpoint>,
    targets: Targets,
    builder: Arc<RequestBuilder>,
    /// Bodies of first turns: of each conversation, or as many from the first on
    /// as [`BODIES_BUDGET`] holds.
    first_bodies: Arc<[Bytes]>,
}

impl Workload {
    /// Draws conversations of `dataset` by `sampler`, speaks `endpoint` to
    /// `targets` (a session goes to the next in turn), with the headers of
    /// `builder`. Bodies that are the same each time are made here, as many as
    /// memory is set aside for: those of the rest when they are sent.
    #[must_use]
    pub fn new(
        dataset: Arc<Dataset>,
        sampler: Arc<Sampler>,
        endpoint: Arc<dyn Endpoint>,
        targets: Targets,
        builder: Arc<RequestBuilder>,
    ) -> Self {
        let first_bodies = dataset
            .conversations
            .iter()
            .map(|conversation| Bytes::from(endpoint.request_body(conversation, 0, &[])))
            .scan(0, |bytes, body: Bytes| {
                *bytes += body.len();
                (*bytes <= BODIES_BUDGET).then_some(body)
            })
            .collect();
        Self { dataset, sampler, endpoint, targets, builder, first_bodies }
    }

    /// Body of the first conversation's first turn.
    #[must_use]
    pub fn first_body(&self) -> Bytes {
        self.body(0, 0, &[])
    }

    /// Bodies of first turns that were made before the run, by conversation.
    #[must_use]
    pub const fn first_bodies(&self) -> &Arc<[Bytes]> {
        &self.first_bodies
    }
}

/// Drives the phases of one run.
#[derive(Debug)]
pub struct Runner {
    config: Config,
    transport: transport::Config,
    workload: Workload,
    queue: Arc<RecordQueue>,
    progress: Arc<Progress>,
    listener: Option<Arc<dyn PhaseListener>>,
}

impl Runner {
    /// A runner whose records go to `queue` and whose counters are in `progress`.
    #[must_use]
    pub const fn new(
        config: Config,
        transport: transport::Config,
        workload: Workload,
        queue: Arc<RecordQueue>,
        progress: Arc<Progress>,
    ) -> Self {
        Self { config, transport, workload, queue, progress, listener: None }
    }

    /// The runner, whose phases `listener` is told of.
    #[must_use]
    pub fn told_to(mut self, listener: Option<Arc<dyn PhaseListener>>) -> Self {
        self.listener = listener;
        self
    }

    /// Runs every phase; returns when the last request has returned. Blocks.
    ///
    /// The queue is closed at the end, also after an error.
    pub fn run(self, interrupt: watch::Receiver<Interrupt>) -> Result<(), RunnerError> {
        let outcome = self.run_phases(interrupt);
        self.queue.close();
        outcome
    }

    fn run_phases(&self, mut interrupt: watch::Receiver<Interrupt>) -> Result<(), RunnerError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
        let workers = self.start_workers(&sender)?;
        drop(sender);
        if let Some(at) = self.config.start_at {
            runtime.block_on(wait_for_start(at, &mut interrupt))?;
        }
        let mut start_at = self.config.start_at;
        let mut first_session = 0;
        for (index, phase) in self.config.phases.iter().enumerate() {
            if *interrupt.borrow() > Interrupt::None {
                break;
            }
            let counters = self.progress.start(index, start_at.take().unwrap_or_else(Clock::now));
            if let Some(listener) = &self.listener {
                listener.phase_started(index as u32, phase.kind, counters.start());
            }
            let run = Arc::new(PhaseRun::new(
                index as u32,
                phase,
                (self.config.seed, self.config.shard),
                counters,
                first_session,
                &self.workload.dataset,
            ));
            for worker in &workers {
                worker.phases.send(Arc::clone(&run)).map_err(|_| RunnerError::WorkerLost)?;
            }
            let overseen = oversee(&run, workers.len(), &mut events, &mut interrupt);
            let outcome = runtime.block_on(overseen);
            if outcome.is_err() {
                // Nobody would wait for what the others still sent.
                run.abort(false);
            }
            let end = Clock::now();
            self.progress.finish(index, end);
            let done = self
                .listener
                .as_ref()
                .map(|listener| listener.phase_ended(index as u32, phase.kind, end));
            outcome?;
            let is_last = index + 1 == self.config.phases.len();
            if let Some(done) = done.filter(|_| !is_last) {
                runtime.block_on(listener::pause(done, &mut interrupt));
            }
            first_session = run.next_session();
        }
        for worker in workers {
            drop(worker.phases);
            worker.thread.join().map_err(|_| RunnerError::WorkerLost)?;
        }
        Ok(())
    }

    fn start_workers(
        &self,
        events: &UnboundedSender<WorkerEvent>,
    ) -> Result<Vec<WorkerHandle>, RunnerError> {
        // TLS is set up here, so that what is wrong with it shows before the run.
        let connector = Connector::new(self.transport.clone(), self.workload.targets.servers())?;
        let connector = Arc::new(connector);
        let start = |id: usize| {
            let (phases, receiver) = mpsc::channel();
            let parts = WorkerParts {
                id: id as u32,
                workers: self.config.workers.max(1),
                connector: Arc::clone(&connector),
                workload: self.workload.clone(),
                queue: Arc::clone(&self.queue),
            };
            let events = events.clone();
            let worker = Worker::new(parts)?;
            let thread = thread::Builder::new()
                .name(format!("worker-{id}"))
                .spawn(move || worker.run(&receiver, &events))?;
            Ok(WorkerHandle { phases, thread })
        };
        (0..self.config.workers.max(1)).map(start).collect()
    }
}

struct WorkerHandle {
    phases: mpsc::Sender<Arc<PhaseRun>>,
    thread: thread::JoinHandle<()>,
}

/// How long before an instant the runtime's timer, which counts in milliseconds,
/// is left for the system's.
const COARSE: Nanos = Nanos(3_000_000);

/// Waits until `at`, or until the user does not want to start any more.
async fn wait_for_start(
    at: Nanos,
    interrupt: &mut watch::Receiver<Interrupt>,
) -> Result<(), RunnerError> {
    let now = Clock::now();
    if now > at {
        return Err(RunnerError::TooLate { late: now.since(at) });
    }
    tokio::select! {
        biased;
        Ok(_) = interrupt.wait_for(|wish| *wish > Interrupt::None) => {}
        () = tokio::time::sleep(at.since(now + COARSE).into()) => {
            thread::sleep(at.since(Clock::now()).into());
        }
    }
    Ok(())
}

/// Waits until all workers are done with a phase, and ends it by its clock or
/// by the user's wish.
async fn oversee(
    run: &PhaseRun,
    workers: usize,
    events: &mut UnboundedReceiver<WorkerEvent>,
    interrupt: &mut watch::Receiver<Interrupt>,
) -> Result<(), RunnerError> {
    let mut remaining = workers;
    let mut deadline = run.sending_deadline();
    let mut failures = None;
    while remaining > 0 {
        tokio::select! {
            event = events.recv() => match event {
                Some(WorkerEvent::PhaseDone) => remaining -= 1,
                Some(WorkerEvent::Ended) | None => return Err(RunnerError::WorkerLost),
            },
            () = until(deadline) => {
                deadline = match run.stop() {
                    Stop::No => {
                        run.stop_sending(false);
                        run.grace_deadline(Clock::now())
                    }
                    Stop::Sending | Stop::Now => {
                        run.abort(true);
                        None
                    }
                };
            }
            share = too_many_failures(run), if failures.is_none() => {
                failures = Some(share);
                run.stop_sending(true);
                deadline = run.grace_deadline(Clock::now());
            }
            Ok(()) = interrupt.changed() => match *interrupt.borrow_and_update() {
                Interrupt::None => {}
                Interrupt::Drain => {
                    run.stop_sending(true);
                    deadline = run.grace_deadline(Clock::now());
                }
                Interrupt::Abort => run.abort(false),
            },
        }
    }
    match failures {
        Some(FailedShare { failed, returned }) => {
            Err(RunnerError::TooManyFailures { failed, returned })
        }
        None => Ok(()),
    }
}

/// Waits until more requests have failed than are tolerated.
async fn too_many_failures(run: &PhaseRun) -> FailedShare {
    loop {
        if let Some(share) = run.has_failed() {
            return share;
        }
        tokio::time::sleep(FAILURE_CHECK).await;
    }
}

/// Waits until `deadline`; for ever without one.
async fn until(deadline: Option<Nanos>) {
    match deadline {
        Some(at) => tokio::time::sleep(at.since(Clock::now()).into()).await,
        None => std::future::pending().await,
    }
}
