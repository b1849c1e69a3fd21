//! A worker: a thread with its runtime and the loop that starts sessions.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Waker};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::runtime::{self, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinError, JoinSet, LocalSet};
use uuid::Uuid;

use base::timer::Timer;
use base::units::{Clock, Nanos};

use super::phase::{Pace, PhaseRun, Stop};
use super::reach::Reach;
use super::session::{SendTimes, UserTurns};
use super::slots::Slot;
use super::{RecordQueue, RunnerError, Workload};
use crate::schedule::{Arrival, Users};
use crate::transport::{self, Client, Connector};

/// Maximum number of due times that are skipped at once because no turn was ready for them.
const MAX_SKIPPED: usize = 1 << 16;

/// How a worker's part of a phase ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartEnd {
    /// The worker has finished it.
    Done,
    /// The worker ended before, possibly because of a panic.
    Lost,
}

/// A phase for a worker. When it is dropped, the runner receives how it ended.
pub(super) struct Part {
    pub(super) phase: Arc<PhaseRun>,
    ends: UnboundedSender<PartEnd>,
    end: PartEnd,
}

impl Part {
    /// Creates a worker's part of `phase`, whose end is sent to `ends`.
    pub(super) fn new(phase: Arc<PhaseRun>, ends: UnboundedSender<PartEnd>) -> Self {
        Self { phase, ends, end: PartEnd::Lost }
    }

    fn done(mut self) {
        self.end = PartEnd::Done;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // The runner no longer exists once the run is over.
        let _ = self.ends.send(self.end);
    }
}

/// The components of a worker.
pub(super) struct WorkerParts {
    pub(super) id: u32,
    /// Number of workers that share the load.
    pub(super) workers: usize,
    pub(super) connector: Arc<Connector>,
    pub(super) workload: Workload,
    pub(super) queue: Arc<RecordQueue>,
}

/// Minimum length of a sleep before which nothing can have been left to read. A worker that has
/// something to read wakes at once, and then takes some microseconds for each socket.
const MIN_SLEEP: Nanos = Nanos(50_000);

/// How long a thread may take to wake before the kernel counts it as waiting for a core: another
/// core has to interrupt its core first.
const WAKE: Nanos = Nanos(100_000);

/// The last time that a worker slept because it had nothing to do.
#[derive(Debug, Default)]
pub(super) struct Sleep {
    from: AtomicU64,
    until: AtomicU64,
    /// How long the thread had waited for a core when this was last read, in nanoseconds.
    waited: AtomicU64,
}

impl Sleep {
    /// Returns whether the worker slept at the instant `at`.
    pub(super) fn covers(&self, at: Nanos) -> bool {
        (self.from.load(Relaxed)..=self.until.load(Relaxed)).contains(&at.0)
    }

    /// Records the sleeps of the runtime that `builder` builds.
    fn watch(self: &Arc<Self>, builder: &mut runtime::Builder) {
        let (before, after) = (Arc::clone(self), Arc::clone(self));
        builder.on_thread_park(move || before.begin()).on_thread_unpark(move || after.end());
    }

    fn begin(&self) {
        // In less time, it cannot have waited for long.
        if Clock::now().since(Nanos(self.until.load(Relaxed))) > MIN_SLEEP
            && let Some(waited) = Clock::thread_waited()
        {
            self.waited.store(waited.0, Relaxed);
        }
        // Read last: a wait for a core between the two readings would otherwise count as sleep.
        self.from.store(Clock::now().0, Relaxed);
    }

    fn end(&self) {
        let (from, until) = (Nanos(self.from.load(Relaxed)), Clock::now());
        self.until.store(until.0, Relaxed);
        if until.since(from) > MIN_SLEEP
            && let Some(waited) = Clock::thread_waited()
        {
            let before = Nanos(self.waited.swap(waited.0, Relaxed));
            if let Some(woken) = woken(from, until, waited.since(before)) {
                transport::slept_until(woken);
            }
        }
    }
}

/// Returns until when a worker slept that had nothing to do `from` an instant on, and ran again
/// `until` another, after it had `waited` for a core; `None` if it hardly slept. What woke it came
/// [`WAKE`] before it began to wait, or later.
fn woken(from: Nanos, until: Nanos, waited: Nanos) -> Option<Nanos> {
    let woken = until.since(waited).since(WAKE);
    (woken > from + MIN_SLEEP).then_some(woken)
}

/// A worker that has not been started.
pub(super) struct Worker {
    parts: WorkerParts,
    runtime: Runtime,
    sleep: Arc<Sleep>,
}

impl Worker {
    pub(super) fn new(parts: WorkerParts) -> Result<Self, RunnerError> {
        let sleep = Arc::<Sleep>::default();
        let mut builder = runtime::Builder::new_current_thread();
        sleep.watch(&mut builder);
        let runtime = builder
            .enable_all()
            // A low interval: sockets and timers are polled often, since a timestamp that waits
            // behind other tasks is wrong.
            .event_interval(8)
            .build()?;
        Ok(Self { parts, runtime, sleep })
    }

    /// Runs its parts of all phases.
    pub(super) fn run(self, mut parts_of_phases: UnboundedReceiver<Part>) {
        let Self { parts, runtime, sleep } = self;
        let local = LocalSet::new();
        let _entered = runtime.enter();
        let Ok(timer) = Timer::new() else {
            // The runner receives the end and reports it.
            return;
        };
        let mut alarm = local.spawn_local(timer.clone().run());
        let shared = Rc::new(Shared {
            id: parts.id,
            workers: parts.workers,
            timer,
            client: Client::new(parts.connector),
            workload: parts.workload,
            queue: parts.queue,
            sleep,
            ids: RefCell::new(ChaCha8Rng::from_seed(entropy())),
        });
        let tending = Rc::clone(&shared);
        local.spawn_local(async move { tending.client.tend().await });
        let acknowledging = Rc::clone(&shared);
        local.spawn_local(async move { acknowledging.client.acknowledge().await });
        // Between phases, too, idle connections must make room for requests of other workers.
        while let Some(part) = local.block_on(&runtime, parts_of_phases.recv()) {
            let runner = Rc::new(PhaseWorker {
                shared: Rc::clone(&shared),
                phase: Arc::clone(&part.phase),
                ready: RefCell::default(),
                became_ready: Notify::new(),
                held_until: Cell::new(Nanos::ZERO),
                sessions: Cell::new(0),
            });
            let counters = Arc::clone(&runner.phase.counters);
            let (begin, cpu) = (Clock::now(), Clock::thread_cpu());
            let rest = local.block_on(&runtime, async {
                tokio::select! {
                    biased;
                    rest = runner.run() => Some(rest),
                    // Without its timer the worker would wait forever.
                    failure = &mut alarm => {
                        tracing::error!("worker {}: its timer failed: {failure:?}", parts.id);
                        None
                    }
                }
            });
            counters.add_worker_cpu(Clock::thread_cpu().since(cpu), begin);
            let Some(mut rest) = rest else { return };
            if rest.is_empty() {
                part.done();
                continue;
            }
            // The next phase does not wait for these.
            local.spawn_local(async move {
                while let Some(ended) = rest.join_next().await {
                    settle(ended);
                }
                part.done();
            });
        }
    }
}

/// Starts a task, and lets it run up to its first wait: if all started before any ran, each would wait for the
/// connects of all others.
pub(super) async fn begin(tasks: &mut JoinSet<()>, task: impl Future<Output = ()> + 'static) {
    tasks.spawn_local(task);
    tokio::task::yield_now().await;
}

/// Removes the sessions that have ended from `tasks`.
fn take_ended(tasks: &mut JoinSet<()>) {
    while let Some(ended) = tasks.try_join_next() {
        settle(ended);
    }
}

/// Ends the worker if a session panicked, because its slot and its turns are lost.
fn settle(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

/// Returns a seed from the system.
fn entropy() -> [u8; 32] {
    let mut seed = [0; 32];
    seed[..16].copy_from_slice(Uuid::new_v4().as_bytes());
    seed[16..].copy_from_slice(Uuid::new_v4().as_bytes());
    seed
}

/// State that all phases of a worker share.
pub(super) struct Shared {
    pub(super) id: u32,
    pub(super) workers: usize,
    pub(super) timer: Timer,
    pub(super) client: Client,
    pub(super) workload: Workload,
    pub(super) queue: Arc<RecordQueue>,
    pub(super) sleep: Arc<Sleep>,
    ids: RefCell<ChaCha8Rng>,
}

impl Shared {
    /// Returns how long the next request to `server` is held back.
    pub(super) fn pause(&self, reach: &Reach, server: usize) -> Option<Nanos> {
        reach.pause(server, &mut *self.ids.borrow_mut())
    }

    /// Returns a new ID, without a system call.
    pub(super) fn new_id(&self) -> Uuid {
        let mut bytes = [0; 16];
        self.ids.borrow_mut().fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}

/// A later turn that waits for a due time.
struct ReadyTurn {
    /// The tenant whose arrivals it waits for, if tenants share the load.
    tenant: Option<usize>,
    due: oneshot::Sender<Nanos>,
}

/// One phase on one worker.
pub(super) struct PhaseWorker {
    pub(super) shared: Rc<Shared>,
    pub(super) phase: Arc<PhaseRun>,
    /// Later turns that wait for a due time, in the order in which they became ready.
    ready: RefCell<VecDeque<ReadyTurn>>,
    became_ready: Notify,
    /// When the last wait of an arrival for a slot ended; arrivals due earlier were delayed by it.
    held_until: Cell<Nanos>,
    /// Number of sessions of this worker that have not ended.
    sessions: Cell<usize>,
}

impl PhaseWorker {
    /// Runs the phase, and returns the sessions that the next phase does not wait for.
    async fn run(self: Rc<Self>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        match self.phase.pace {
            Pace::Room => self.closed_loop(&mut tasks).await,
            Pace::Rate | Pace::Trace => self.open_loop(&mut tasks).await,
            Pace::Users(users) => self.start_users(&mut tasks, users).await,
            Pace::Lanes(agentic) => self.run_lanes(&mut tasks, agentic).await,
        }
        // Later turns that are still waiting get no due time.
        self.ready.borrow_mut().clear();
        loop {
            tokio::select! {
                biased;
                ended = tasks.join_next() => match ended {
                    Some(ended) => settle(ended),
                    None => break,
                },
                () = self.phase.stopped(Stop::Sending), if self.phase.is_seamless => break,
            }
        }
        tasks
    }

    /// Takes this worker's share of the slots, and runs sessions in each, one after the other.
    async fn closed_loop(self: &Rc<Self>, tasks: &mut JoinSet<()>) {
        for _ in 0..self.phase.slots_of_each(self.shared.workers) {
            if !self.phase.may_start(None) {
                return;
            }
            let Some(slot) = self.phase.slot(&self.shared.timer).await else { return };
            let Some(first) = self.next_session().await else { return };
            let tenant = self.phase.tenant_of_slot();
            begin(tasks, Rc::clone(self).sessions(first, tenant, slot)).await;
            take_ended(tasks);
        }
    }

    /// Runs sessions of a tenant in a slot until none may start any more, or the slot is to be closed.
    async fn sessions(self: Rc<Self>, first: u64, tenant: Option<usize>, slot: Slot) {
        let begin = slot.free_from.max(self.phase.at(Nanos::ZERO));
        let (mut next, mut free_from) = (Some(first), begin);
        while let Some(number) = next {
            let send = SendTimes { due: None, issued: Clock::now(), free_from, held_by: None };
            free_from = self.session(number, tenant, send, None).await;
            if self.phase.has_surplus() {
                break;
            }
            next = self.next_session().await;
        }
        self.phase.counters.slot_held(free_from.since(begin));
        slot.end(free_from);
    }

    /// Starts a session of a closed loop once the queue has room, and returns its number; `None` if
    /// no more may start.
    pub(super) async fn next_session(&self) -> Option<u64> {
        tokio::select! {
            biased;
            () = self.shared.queue.room() => {}
            () = self.phase.stopped(Stop::Sending) => return None,
        }
        let number = self.phase.start_session(None)?;
        self.phase.counters.session_started();
        Some(number)
    }

    /// At each due time, sends the turn that has been ready longest, or starts a session.
    async fn open_loop(self: &Rc<Self>, tasks: &mut JoinSet<()>) {
        let mut not_before = Nanos::ZERO;
        while self.phase.stop() == Stop::No {
            if !self.phase.may_start(None) && self.ready.borrow().is_empty() {
                // Only later turns are left. Due times that pass before one is ready have nothing
                // to send.
                if !self.wait_for_ready().await {
                    return;
                }
                not_before = Clock::now();
            }
            let Some(arrival) = self.next_arrival(not_before) else { return };
            if !self.phase.wait_until(arrival.due, &self.shared.timer).await {
                return;
            }
            take_ended(tasks);
            if !self.serve(tasks, arrival).await {
                return;
            }
            // Responses are read between arrivals, even if the next one is overdue and there is no
            // wait.
            tokio::task::yield_now().await;
        }
    }

    /// Sends the turn that has been ready longest, or starts a session once it has a slot; returns
    /// whether sending continues. A turn that becomes ready meanwhile is sent first, because all
    /// slots may belong to sessions that wait for a due time.
    async fn serve(self: &Rc<Self>, tasks: &mut JoinSet<()>, arrival: Arrival) -> bool {
        let mut slot = pin!(self.phase.slot(&self.shared.timer));
        loop {
            let changed = self.became_ready.notified();
            if self.send_ready(arrival) || !self.phase.may_start(arrival.session) {
                return true;
            }
            tokio::select! {
                biased;
                slot = &mut slot => {
                    let Some(slot) = slot else { return false };
                    self.held_until.set(self.held_until.get().max(slot.free_from));
                    self.start_session(tasks, slot, arrival);
                    return true;
                }
                () = changed => self.held_until.set(Clock::now()),
            }
        }
    }

    /// Returns the next arrival from `not_before` on. If the rate is so high that very many
    /// arrivals lie before it, the worker does not go through all of them, and the arrival is due
    /// at `not_before`.
    fn next_arrival(&self, not_before: Nanos) -> Option<Arrival> {
        let mut tenant = None;
        for _ in 0..MAX_SKIPPED {
            let arrival = self.phase.next_arrival()?;
            if arrival.due >= not_before {
                return Some(arrival);
            }
            tenant = arrival.tenant;
        }
        Some(Arrival { due: not_before, session: None, tenant })
    }

    /// Hands the due time of `arrival` to the turn of its tenant that has been ready longest; returns
    /// whether there was one.
    fn send_ready(&self, arrival: Arrival) -> bool {
        let next = || {
            let mut ready = self.ready.borrow_mut();
            let at = ready.iter().position(|turn| turn.tenant == arrival.tenant)?;
            ready.remove(at)
        };
        loop {
            let Some(turn) = next() else { return false };
            if turn.due.send(arrival.due).is_ok() {
                return true;
            }
        }
    }

    /// Waits until a later turn is ready; returns false if none will be.
    async fn wait_for_ready(&self) -> bool {
        loop {
            let changed = self.became_ready.notified();
            if !self.ready.borrow().is_empty() {
                return true;
            }
            if self.sessions.get() == 0 {
                return false;
            }
            tokio::select! {
                () = changed => {}
                () = self.phase.stopped(Stop::Sending) => return false,
            }
        }
    }

    /// Waits for the due time of a later turn of a tenant; returns `None` if there will be none.
    pub(super) async fn due_for_turn(&self, tenant: Option<usize>) -> Option<Nanos> {
        let (sender, due) = oneshot::channel();
        self.ready.borrow_mut().push_back(ReadyTurn { tenant, due: sender });
        self.became_ready.notify_one();
        due.await.ok()
    }

    /// Starts the session of an arrival.
    fn start_session(self: &Rc<Self>, tasks: &mut JoinSet<()>, slot: Slot, arrival: Arrival) {
        let Some(session) = self.phase.start_session(arrival.session) else { return };
        let (due, free_from) = (Some(arrival.due), self.held_until.get());
        let send = SendTimes { due, issued: Clock::now(), free_from, held_by: None };
        self.phase.counters.session_started();
        self.sessions.set(self.sessions.get() + 1);
        let worker = Rc::clone(self);
        let mut session = Box::pin(async move {
            slot.end(worker.session(session, arrival.tenant, send, None).await);
            worker.sessions.set(worker.sessions.get() - 1);
            worker.became_ready.notify_one();
        });
        // A due turn is sent now, not after all other ready tasks have run. The task polls it
        // again, so that it is woken by what it waits for.
        let mut nobody = Context::from_waker(Waker::noop());
        if session.as_mut().poll(&mut nobody).is_pending() {
            tasks.spawn_local(session);
        }
    }

    /// Starts this worker's share of the users, one user ahead of those that are due.
    async fn start_users(self: &Rc<Self>, tasks: &mut JoinSet<()>, users: Users) {
        for user in users.iter().skip(self.shared.id as usize).step_by(self.shared.workers) {
            let Some(first) = users.due(user, 0) else { return };
            tasks.spawn_local(Rc::clone(self).user(users, user));
            if !self.phase.wait_until(self.phase.at(first), &self.shared.timer).await {
                return;
            }
            take_ended(tasks);
        }
    }

    /// Runs the sessions of one user, one after the other.
    async fn user(self: Rc<Self>, users: Users, user: u64) {
        let turns = UserTurns::new(users, user);
        let sessions = (0..).map(|nth| users.session(user, nth));
        let mut last_end = Nanos::ZERO;
        for nth in sessions.take_while(|nth| self.phase.may_start(Some(*nth))) {
            let Some(due) = turns.next_due().map(|due| self.phase.at(due)) else { return };
            if !self.phase.wait_until(due, &self.shared.timer).await {
                return;
            }
            let Some(slot) = self.phase.slot(&self.shared.timer).await else { return };
            let Some(session) = self.phase.start_session(Some(nth)) else { return };
            self.phase.counters.session_started();
            let free_from = last_end.max(slot.free_from);
            let send = SendTimes { due: Some(due), issued: Clock::now(), free_from, held_by: None };
            last_end = self.session(session, None, send, Some(&turns)).await;
            slot.end(last_end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_wakes_when_it_begins_to_wait_for_a_core() {
        let at = |us: u64| Nanos(us * 1_000);
        assert_eq!(woken(at(1_000), at(9_000), at(0)), Some(at(8_900)));
        assert_eq!(woken(at(1_000), at(9_000), at(3_000)), Some(at(5_900)));
        // It had something to read and ran again at once, or after a wait.
        assert_eq!(woken(at(1_000), at(1_140), at(0)), None);
        assert_eq!(woken(at(1_000), at(9_000), at(7_950)), None);
        assert_eq!(woken(at(1_000), at(9_000), at(10_000)), None);
    }
}
