//! Sends the requests of the schedule through the transport: workers, sessions, cancellation.
//!
//! Workers are threads, each with a single-threaded runtime and a connection pool of its own. They
//! share the budget of sessions and requests, the arrivals and the concurrency slots, so that no
//! worker is idle while another is full. In a closed loop, each takes an equal share of the slots,
//! and starts the next session of a slot where the last one ended. Finished records go to a
//! [queue](RecordQueue). This module does not parse JSON, count tokens or write files.

mod ahead;
mod canaries;
mod dial;
mod enough;
mod lanes;
mod listener;
mod phase;
mod progress;
mod queue;
mod reach;
mod request;
mod session;
mod slots;
mod steps;
mod targets;
mod tree;
mod worker;
mod workload;

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{oneshot, watch};

pub use dial::Dial;
pub use enough::Enough;
pub use listener::PhaseListener;
pub use progress::{Counters, CpuShares, Progress};
pub use queue::{QueueStats, RecordQueue, has_shared_payload};
pub use request::RequestBuilder;
pub use targets::Targets;
pub use workload::{OwnConversations, TenantRequests, Workload};

use base::interrupt::Interrupt;
use base::units::{Clock, Nanos};
use dataset::seed::Seed;

use crate::schedule::config::{LoadPattern, PhaseConfig};
use crate::schedule::{PhaseKind, Shard, Tenant};
use crate::transport::{self, Connector, TlsError};
use ahead::{Ahead, Threads};
use lanes::Lanes;
use phase::{Cause, Draws, GivenUp, PhaseRun, Stop};
use reach::{Reach, Rejection};
use worker::{Part, PartEnd, Worker, WorkerParts};

/// Interval between checks whether the run is to be aborted.
const FAILURE_CHECK: Duration = Duration::from_millis(100);

/// Configuration of the runner.
#[derive(Debug, Clone)]
pub struct Config {
    /// Number of worker threads.
    pub workers: usize,
    /// The phases, in order.
    pub phases: Vec<PhaseConfig>,
    /// Seed of the arrival times.
    pub seed: Seed,
    /// The tenants that share the load; empty for a load of one client.
    pub tenants: Vec<Tenant>,
    /// The shard of the phases that this process drives.
    pub shard: Shard,
    /// ID of the run, which is part of the markers of lanes.
    pub benchmark: Arc<str>,
    /// When the first phase starts; `None` starts it as soon as the workers are ready.
    pub start_at: Option<Nanos>,
    /// Number of first requests after whose rejection the run is aborted; 0 never aborts it.
    pub rejection_limit: u64,
}

/// Error of a run.
#[derive(Debug, Error)]
pub enum RunnerError {
    /// A worker thread or its runtime could not be created.
    #[error("cannot start a worker; check the limits on threads and open files")]
    Worker(#[from] std::io::Error),
    /// TLS is required and could not be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A worker ended before the end of the run.
    #[error("a worker thread ended unexpectedly; the run is incomplete")]
    WorkerLost,
    /// The start time had passed before the run was ready.
    #[error(
        "--start-at was {} s ago when the run was ready to start; nothing was sent, since all \
         requests due by then would have been sent at once. Use a later time",
        late.as_seconds()
    )]
    TooLate {
        /// Time since the start time.
        late: Nanos,
    },
    /// A listener did not let a phase start.
    #[error("{0}")]
    NotReady(String),
    /// No connection to any server ever succeeded.
    #[error(
        "cannot connect to any server: {reason}; the run was aborted. Check --url and that \
         the server is running; --wait-for-model-timeout waits until it is"
    )]
    NeverConnected {
        /// Error of the last attempt.
        reason: String,
    },
    /// The first requests were all rejected with a status such as 401 or 404.
    #[error(
        "the first {requests} requests were all rejected, the last with status {status}; the run was \
         aborted"
    )]
    Rejected {
        /// Number of rejected requests.
        requests: u64,
        /// Status of the last response.
        status: u16,
    },
    /// A request failed that prepares the server for a lane.
    #[error(
        "a request failed that prepares the server for a lane, so that the lane could not be entered; the \
         run was aborted"
    )]
    WarmupFailed,
    /// Requests that prepare the server for lanes did not return in time.
    #[error(
        "requests that prepare the server for the lanes did not return within \
         --agentic-warmup-grace-period; the run was aborted"
    )]
    WarmupStuck,
    /// More requests failed than the threshold allows.
    #[error(
        "{failed} of {returned} requests failed, more than --failed-request-threshold allows; the \
         run was aborted"
    )]
    TooManyFailures {
        /// Number of failed requests.
        failed: u64,
        /// Number of returned requests.
        returned: u64,
    },
}

/// Drives the phases of one run.
#[derive(Debug)]
pub struct Runner {
    config: Config,
    transport: transport::Config,
    workload: Workload,
    queue: Arc<RecordQueue>,
    progress: Arc<Progress>,
    listeners: Vec<Arc<dyn PhaseListener>>,
    enough: Enough,
    /// What sets the load of each phase that is adaptive, by its index.
    dials: Vec<Option<Dial>>,
}

impl Runner {
    /// Creates a runner that pushes its records to `queue` and updates the counters in `progress`.
    #[must_use]
    pub fn new(
        config: Config,
        transport: transport::Config,
        workload: Workload,
        queue: Arc<RecordQueue>,
        progress: Arc<Progress>,
    ) -> Self {
        let (listeners, enough, dials) = (Vec::new(), Enough::default(), Vec::new());
        Self { config, transport, workload, queue, progress, listeners, enough, dials }
    }

    /// Lets `enough` end the measurement.
    #[must_use]
    pub fn until(self, enough: Enough) -> Self {
        Self { enough, ..self }
    }

    /// Lets `dials` set the load of phases, by their index.
    #[must_use]
    pub fn following(self, dials: Vec<Option<Dial>>) -> Self {
        Self { dials, ..self }
    }

    /// Adds a listener that is notified of phases, if there is one.
    #[must_use]
    pub fn with_listener(mut self, listener: Option<Arc<dyn PhaseListener>>) -> Self {
        self.listeners.extend(listener);
        self
    }

    /// Runs all phases and returns when the last request has returned. This blocks.
    ///
    /// Once the user has interrupted the run, no more requests are sent, and those in flight may
    /// finish within the grace period; a second signal cancels them. The queue is closed at the
    /// end, also after an error.
    ///
    /// # Errors
    ///
    /// Fails if a worker or TLS cannot be set up, if the start time has passed, if a listener does
    /// not let a phase start, or if the run is aborted because of failed requests.
    pub fn run(self, interrupt: &Interrupt) -> Result<(), RunnerError> {
        let outcome = self.run_phases(interrupt);
        self.queue.close();
        outcome
    }

    fn run_phases(&self, interrupt: &Interrupt) -> Result<(), RunnerError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        // TLS is set up here, so that its errors are reported before the run.
        let targets = self.workload.targets.servers();
        let connector = Arc::new(Connector::new(self.transport.clone(), targets)?);
        let reach = Arc::new(Reach::new(
            targets.len(),
            Arc::clone(&connector),
            self.config.rejection_limit,
        ));
        let mut workload = self.workload.clone();
        workload.ahead = Ahead::new(&workload.dataset, &workload.endpoint, self.config.shard);
        let ahead = workload.ahead.clone().filter(|_| self.may_grow());
        let _threads = ahead.map(Threads::start).transpose()?;
        let workers = self.start_workers(&connector, &workload)?;
        runtime.block_on(self.drive(&workers, &reach, interrupt))?;
        for worker in workers {
            drop(worker.parts);
            worker.thread.join().map_err(|_| RunnerError::WorkerLost)?;
        }
        Ok(())
    }

    /// Runs the phases one after the other. Those that are seamless are still overseen while others run.
    async fn drive(
        &self,
        workers: &[WorkerHandle],
        reach: &Arc<Reach>,
        interrupt: &Interrupt,
    ) -> Result<(), RunnerError> {
        let mut start_at = self.config.start_at;
        let mut first_session = 0;
        // Number of sessions that have drawn from each part of the dataset.
        let mut drawn = vec![0; self.workload.samplers.len()];
        let mut lanes = None;
        let mut open = OpenPhases::default();
        for (index, phase) in self.config.phases.iter().enumerate() {
            listener::before_phase(&self.listeners, phase.kind).map_err(RunnerError::NotReady)?;
            if let Some(at) = start_at {
                wait_for_start(at, interrupt).await?;
            }
            if interrupt.is_draining() {
                break;
            }
            let counters = self.progress.start(index, start_at.take().unwrap_or_else(Clock::now));
            for listener in &self.listeners {
                listener.phase_started(index as u32, phase.kind, counters.start());
            }
            let agentic = match &phase.load {
                LoadPattern::Agentic(agentic) => Some(agentic),
                _ => None,
            };
            if agentic.is_some() && lanes.is_none() {
                lanes = Some(Arc::new(self.lanes(phase)));
            }
            let run = Arc::new(PhaseRun::new(
                (index as u32, phase),
                (self.config.seed, self.config.shard),
                counters,
                self.draws(phase, first_session, &drawn),
                (&self.workload.dataset, &self.config.tenants),
                Arc::clone(reach),
                (
                    lanes.clone().filter(|_| agentic.is_some()),
                    self.dials.get(index).cloned().flatten(),
                ),
            ));
            if let (Some(lanes), Some(agentic)) = (&run.lanes, agentic) {
                lanes.prepare(&run, agentic, &self.workload);
            }
            let (sender, ends) = tokio::sync::mpsc::unbounded_channel();
            for worker in workers {
                let part = Part::new(Arc::clone(&run), sender.clone());
                worker.parts.send(part).map_err(|_| RunnerError::WorkerLost)?;
            }
            drop(sender);
            open.add(&run, self.end_of(Arc::clone(&run), workers.len(), ends, interrupt));
            let is_last = index + 1 == self.config.phases.len();
            let is_seamless = phase.seamless && !is_last;
            let done = open.close(if is_seamless { Some(&run) } else { None }).await?;
            if !is_last && !is_seamless {
                listener::pause(done, interrupt).await;
            }
            let next_session = run.next_session();
            drawn[phase.dataset] += next_session - first_session;
            first_session = next_session;
        }
        open.close(None).await.map(drop)
    }

    /// Returns what the sessions of `phase` draw, the first of which is number `first_session`, if so many have
    /// `drawn` from each part of the dataset before.
    fn draws(&self, phase: &PhaseConfig, first_session: u64, drawn: &[u64]) -> Draws {
        let sampler = self.workload.samplers[phase.dataset].clone();
        Draws { sampler, first_session, drawn: drawn[phase.dataset] }
    }

    /// Returns the lanes of a run, whose number is the concurrency of their first `phase`.
    fn lanes(&self, phase: &PhaseConfig) -> Lanes {
        let count = phase.concurrency.map_or(1, |limit| limit.most);
        let config = &self.config;
        Lanes::new(count, config.shard, config.seed.0, Arc::clone(&config.benchmark))
    }

    /// Oversees a phase until its end, which it reports; returns what the next phase waits for.
    async fn end_of(
        &self,
        run: Arc<PhaseRun>,
        workers: usize,
        ends: UnboundedReceiver<PartEnd>,
        interrupt: &Interrupt,
    ) -> Result<Vec<oneshot::Receiver<()>>, RunnerError> {
        let enough = run.dial().map_or(&self.enough, Dial::enough);
        let outcome = oversee(&run, workers, ends, interrupt, enough).await;
        if outcome.is_err() {
            // No one would wait for the requests of the other workers.
            run.abort(false);
        }
        let end = Clock::now();
        self.progress.finish(run.index as usize, end);
        let ended =
            |listener: &Arc<dyn PhaseListener>| listener.phase_ended(run.index, run.kind, end);
        let done = self.listeners.iter().map(ended).collect();
        outcome.map(|()| done)
    }

    /// Returns whether sessions may need more conversations than exist before the run.
    fn may_grow(&self) -> bool {
        let mut drawn = vec![0u64; self.workload.samplers.len()];
        for PhaseConfig { dataset, stop, .. } in &self.config.phases {
            let sessions = stop.sessions.or(stop.requests).unwrap_or(u64::MAX);
            drawn[*dataset] = drawn[*dataset].saturating_add(sessions);
        }
        let tenants = self.workload.tenants.iter().any(|it| !it.conversations.is_empty());
        let samplers = self.workload.samplers.iter();
        tenants || samplers.zip(drawn).any(|(sampler, drawn)| drawn > sampler.len())
    }

    fn start_workers(
        &self,
        connector: &Arc<Connector>,
        workload: &Workload,
    ) -> Result<Vec<WorkerHandle>, RunnerError> {
        let start = |id: usize| {
            let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
            let parts = WorkerParts {
                id: id as u32,
                workers: self.config.workers.max(1),
                connector: Arc::clone(connector),
                workload: workload.clone(),
                queue: Arc::clone(&self.queue),
            };
            let worker = Worker::new(parts)?;
            let thread = thread::Builder::new()
                .name(format!("worker-{id}"))
                .spawn(move || worker.run(receiver))?;
            Ok(WorkerHandle { parts: sender, thread })
        };
        (0..self.config.workers.max(1)).map(start).collect()
    }
}

struct WorkerHandle {
    parts: UnboundedSender<Part>,
    thread: thread::JoinHandle<()>,
}

/// What overseeing a phase returns: what the next phase waits for.
type EndOfPhase = Result<Vec<oneshot::Receiver<()>>, RunnerError>;

/// The phases that have begun and whose last request has not returned: the current one, and those before
/// it that are seamless.
#[derive(Default)]
struct OpenPhases<'a> {
    runs: Vec<Arc<PhaseRun>>,
    ends: Vec<Pin<Box<dyn Future<Output = EndOfPhase> + 'a>>>,
}

impl<'a> OpenPhases<'a> {
    fn add(&mut self, run: &Arc<PhaseRun>, end: impl Future<Output = EndOfPhase> + 'a) {
        self.runs.push(Arc::clone(run));
        self.ends.push(Box::pin(end));
    }

    /// Waits until all phases have ended, or until `seamless` no longer sends. If one of them fails, all
    /// are aborted.
    async fn close(&mut self, seamless: Option<&Arc<PhaseRun>>) -> EndOfPhase {
        let mut done = Vec::new();
        while !self.ends.is_empty() {
            let handed_over = async {
                match seamless {
                    Some(run) => run.stopped(Stop::Sending).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                ended = self.next() => match ended {
                    Ok(more) => done.extend(more),
                    Err(error) => {
                        self.runs.iter().for_each(|run| run.abort(false));
                        return Err(error);
                    }
                },
                () = handed_over => break,
            }
        }
        Ok(done)
    }

    /// Waits until any phase has ended.
    async fn next(&mut self) -> EndOfPhase {
        std::future::poll_fn(|context| {
            for at in 0..self.ends.len() {
                if let Poll::Ready(end) = self.ends[at].as_mut().poll(context) {
                    drop(self.ends.swap_remove(at));
                    self.runs.swap_remove(at);
                    return Poll::Ready(end);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Maximum time that requests in flight have after an interrupt. Together with the last scrapes and
/// exports, a pod then terminates within the default grace period of 30 s.
const LONGEST_DRAIN: Nanos = Nanos(15_000_000_000);

/// How long before an instant the wait moves from the runtime's timer, which has a resolution of a
/// millisecond, to the system's.
const COARSE: Nanos = Nanos(3_000_000);

/// Waits until `at`, or until the user interrupts the run.
async fn wait_for_start(at: Nanos, interrupt: &Interrupt) -> Result<(), RunnerError> {
    let now = Clock::now();
    if now > at {
        return Err(RunnerError::TooLate { late: now.since(at) });
    }
    tokio::select! {
        biased;
        () = interrupt.draining() => {}
        () = tokio::time::sleep(at.since(now + COARSE).into()) => {
            thread::sleep(at.since(Clock::now()).into());
        }
    }
    Ok(())
}

/// Waits until all workers have finished a phase, and ends it when its time is over, enough is known,
/// or the user interrupts the run.
async fn oversee(
    run: &PhaseRun,
    workers: usize,
    mut ends: UnboundedReceiver<PartEnd>,
    interrupt: &Interrupt,
    enough: &Enough,
) -> Result<(), RunnerError> {
    let mut remaining = workers;
    let mut deadline = run.sending_deadline();
    let mut failure = None;
    let (mut is_draining, mut is_aborted) = (false, false);
    let mut levels = run.dial().map(Dial::levels);
    while remaining > 0 {
        tokio::select! {
            end = ends.recv() => match end {
                Some(PartEnd::Done) => remaining -= 1,
                Some(PartEnd::Lost) | None => return Err(RunnerError::WorkerLost),
            },
            () = until(deadline) => {
                deadline = match run.stop() {
                    Stop::No => {
                        run.stop_sending(Cause::Duration);
                        run.grace_deadline(Clock::now())
                    }
                    Stop::Sending | Stop::Now => {
                        run.abort(true);
                        None
                    }
                };
            }
            level = changed(&mut levels) => run.set_level(level, Clock::now()),
            () = enough.wait(), if run.kind == PhaseKind::Profiling && run.stop() == Stop::No => {
                run.stop_sending(Cause::Enough);
                deadline = run.grace_deadline(Clock::now());
            }
            why = given_up(run), if failure.is_none() => {
                run.stop_sending(Cause::Cut);
                deadline = match why {
                    // The grace period is over already.
                    GivenUp::WarmupStuck => Some(Clock::now()),
                    _ => run.grace_deadline(Clock::now()),
                };
                failure = Some(why);
            }
            () = interrupt.draining(), if !is_draining => {
                is_draining = true;
                run.stop_sending(Cause::Cut);
                let (now, drained) = (Clock::now(), Clock::now() + LONGEST_DRAIN);
                let sooner = deadline.filter(|_| run.stop() > Stop::No);
                let ends = [run.grace_deadline(now), sooner, Some(drained)];
                deadline = ends.into_iter().flatten().min();
            }
            () = interrupt.aborted(), if !is_aborted => {
                (is_draining, is_aborted) = (true, true);
                run.abort(false);
            }
        }
    }
    // The workers may have ended sooner than this was noticed.
    match failure.or_else(|| run.given_up()) {
        Some(GivenUp::Failures { failed, returned }) => {
            Err(RunnerError::TooManyFailures { failed, returned })
        }
        Some(GivenUp::NeverConnected { reason }) => Err(RunnerError::NeverConnected { reason }),
        Some(GivenUp::Rejected(Rejection { requests, status })) => {
            Err(RunnerError::Rejected { requests, status })
        }
        Some(GivenUp::WarmupFailed) => Err(RunnerError::WarmupFailed),
        Some(GivenUp::WarmupStuck) => Err(RunnerError::WarmupStuck),
        None => Ok(()),
    }
}

/// Waits until the load is to change; forever if it is not adaptive.
async fn changed(levels: &mut Option<watch::Receiver<f64>>) -> f64 {
    match levels {
        Some(levels) => Dial::changed(levels).await,
        None => std::future::pending().await,
    }
}

/// Waits until there is a reason to abort the run.
async fn given_up(run: &PhaseRun) -> GivenUp {
    loop {
        if let Some(why) = run.given_up() {
            return why;
        }
        tokio::time::sleep(FAILURE_CHECK).await;
    }
}

/// Waits until `deadline`; without a deadline, forever.
async fn until(deadline: Option<Nanos>) {
    match deadline {
        Some(at) => tokio::time::sleep(at.since(Clock::now()).into()).await,
        None => std::future::pending().await,
    }
}
