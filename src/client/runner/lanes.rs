//! Lanes, each of which replays trees of conversations, one after the other.
//!
//! The phases of a run continue what the lanes have begun: the [`Lanes`] pass from one to the next.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::watch;
use tokio::task::JoinSet;

use base::lock::Lock;
use base::units::{Clock, Nanos};
use dataset::{CacheBust, Conversation};

use super::Workload;
use super::phase::{Pace, PhaseRun, Stop};
use super::session::{SendTimes, Session};
use super::slots::Slot;
use super::tree::{OfLane, TreeRun};
use super::worker::{PhaseWorker, begin};
use crate::record::RequestRecord;
use crate::schedule::Shard;
use crate::schedule::agentic::{self, SystemIdle};
use crate::schedule::config::{Agentic, AgenticPart};
use crate::schedule::tree::{Due, Hold, Moment, Primer, ROOT, Tree};

/// The lanes of a run.
#[derive(Debug)]
pub(super) struct Lanes {
    all: Vec<Lane>,
    /// The part of the run's lanes that these are.
    shard: Shard,
    /// Seed of the times at which lanes enter their first trees.
    seed: u64,
    /// ID of the run, which is in the markers of prompts.
    benchmark: Arc<str>,
    /// How often lanes have begun each conversation.
    passes: Lock<HashMap<usize, u64>>,
    idle: Lock<SystemIdle>,
    /// By how much all timers were moved to earlier times.
    moved: watch::Sender<Nanos>,
    /// The longest time before its entry at which a primer was sent in a recorded run.
    longest_lead: AtomicU64,
}

/// A lane.
#[derive(Debug)]
struct Lane {
    /// Its number among the lanes of the process.
    number: usize,
    /// The tree that it replays; `None` between two trees.
    run: Lock<Option<Arc<TreeRun>>>,
    /// Number of requests that it sends after those of its tree, before it has warmed the cache.
    left: AtomicU64,
}

impl Lanes {
    /// Creates the lanes of a `shard` of so many, which have not entered any tree.
    pub(super) fn new(count: u64, shard: Shard, seed: u64, benchmark: Arc<str>) -> Self {
        let lane = |number| Lane { number, run: Lock::default(), left: AtomicU64::new(0) };
        let all: Vec<Lane> = (0..shard.share(count) as usize).map(lane).collect();
        let idle = Lock::new(SystemIdle::new(None, all.len(), Nanos::ZERO));
        Self {
            all,
            shard,
            seed,
            benchmark,
            passes: Lock::default(),
            idle,
            moved: watch::Sender::new(Nanos::ZERO),
            longest_lead: AtomicU64::new(0),
        }
    }

    /// Prepares a phase, before workers begin it: lanes without a tree enter one in the middle, in the order of
    /// their numbers.
    pub(super) fn prepare(&self, phase: &PhaseRun, agentic: &Agentic, workload: &Workload) {
        let of = &workload.dataset.conversations;
        let now = Moment::from(phase.at(Nanos::ZERO));
        if !matches!(agentic.part, AgenticPart::Primers) || self.are_new() {
            self.moved.send_replace(Nanos::ZERO);
        }
        if self.are_new() {
            for lane in &self.all {
                *lane.run.lock() = self.enter(lane.number, phase, agentic, workload);
            }
        }
        let runs = || self.all.iter().filter_map(|lane| Some((lane, lane.run.lock().clone()?)));
        let cap = match agentic.part {
            AgenticPart::Primers => {
                let primers = runs().flat_map(|(_, run)| run.with(|tree| tree.primers(of)));
                let leads = primers.map(|primer| capped(primer.lead, agentic));
                self.longest_lead.store(leads.max().unwrap_or_default().0, Relaxed);
                None
            }
            AgenticPart::CacheRequests(most) => {
                self.hurry(of, most, now);
                None
            }
            AgenticPart::CacheDuration(_) => {
                self.hurry(of, u64::MAX, now);
                None
            }
            AgenticPart::Replay => {
                phase.counters.count_replay(|stats| stats.lanes = self.all.len() as u64);
                let first = |run: &TreeRun| run.with(|tree| tree.first_offset(of));
                let of_all = runs().filter_map(|(_, run)| first(&run)).min().unwrap_or_default();
                for (_, run) in runs() {
                    let own = first(&run).unwrap_or_default();
                    let begins = if agentic.bursts { own } else { of_all };
                    run.with(|tree| tree.replay(of, begins, agentic.tree_idle_cap, now));
                }
                agentic.system_idle_cap
            }
        };
        *self.idle.lock() = SystemIdle::new(cap, self.all.len(), now.at);
        for (lane, run) in runs() {
            let standing = run.standing();
            phase.counters.count_lanes(|counts| counts.stands(lane.number, standing.live));
            self.update(lane.number, (standing.in_flight, standing.earliest), now.at);
        }
    }

    /// Has each lane send its next `most` turns from `now` on, without delays.
    fn hurry(&self, of: &[Conversation], most: u64, now: Moment) {
        for lane in &self.all {
            let run = lane.run.lock().clone();
            let chosen = run.map_or(0, |run| run.with(|tree| tree.hurry(of, most, now)));
            lane.left.store(most - chosen, Relaxed);
        }
    }

    fn are_new(&self) -> bool {
        self.passes.lock().is_empty()
    }

    /// Has a lane enter a tree in the middle: the next one of the dataset that has requests left there.
    fn enter(
        &self,
        lane: usize,
        phase: &PhaseRun,
        agentic: &Agentic,
        workload: &Workload,
    ) -> Option<Arc<TreeRun>> {
        let of = &workload.dataset.conversations;
        for _ in workload.dataset.roots(phase.dataset) {
            let number = phase.start_session(None)?;
            let root = phase.conversation(number);
            let id = of.get(root).map_or("", |root| &root.id);
            let span = Tree::span(of, root);
            let place = self.shard.nth(lane as u64);
            let at = agentic::entry(agentic.entry, span, (self.seed, id, place));
            if let Some(tree) = Tree::entered(of, root, at) {
                phase.counters.session_started();
                return Some(self.cast(tree, (root, number), lane, workload, phase));
            }
        }
        // There is nothing left in the middle of any of them.
        let number = phase.start_session(None)?;
        let root = phase.conversation(number);
        let (tree, _) = Tree::begin(of, root, phase.at(Nanos::ZERO).into());
        phase.counters.session_started();
        Some(self.cast(tree, (root, number), lane, workload, phase))
    }

    /// Makes a tree that of a lane.
    fn cast(
        &self,
        tree: Tree,
        (root, number): (usize, u64),
        lane: usize,
        workload: &Workload,
        phase: &PhaseRun,
    ) -> Arc<TreeRun> {
        let of = &workload.dataset.conversations;
        let pass = {
            let mut passes = self.passes.lock();
            let next = passes.entry(root).or_default();
            *next += 1;
            *next - 1
        };
        let is_marked = workload.cache_bust == CacheBust::FirstTurnPrefix;
        let id = of.get(root).map_or("", |root| &root.id);
        let place = self.shard.nth(lane as u64);
        let marker = is_marked.then(|| agentic::marker(&self.benchmark, pass, place, id).into());
        let lane = OfLane { number: lane, place, marker };
        Arc::new(TreeRun::new(tree, (number, None), Some(lane), phase.at(Nanos::ZERO)))
    }

    /// Takes note of what a lane waits for.
    fn update(&self, lane: usize, standing: (usize, Option<Nanos>), at: Nanos) {
        let moved = {
            let mut idle = self.idle.lock();
            idle.update(lane, standing, at);
            idle.moved()
        };
        self.moved.send_if_modified(|before| std::mem::replace(before, moved) != moved);
    }
}

/// The time before its entry at which a primer is sent, which a cap on idle time limits.
fn capped(lead: Nanos, agentic: &Agentic) -> Nanos {
    agentic.system_idle_cap.map_or(lead, |cap| lead.min(cap))
}

impl PhaseRun {
    /// Returns whether requests ask for a single token: they prepare the server.
    pub(super) const fn asks_for_one_token(&self) -> bool {
        matches!(self.pace, Pace::Lanes(agentic) if !matches!(agentic.part, AgenticPart::Replay))
    }
}

impl PhaseWorker {
    /// Runs this worker's share of the lanes.
    pub(super) async fn run_lanes(self: &Rc<Self>, tasks: &mut JoinSet<()>, agentic: Agentic) {
        let Some(lanes) = &self.phase.lanes else { return };
        let own = lanes.all.iter().skip(self.shared.id as usize).step_by(self.shared.workers);
        for lane in own {
            if agentic.part != AgenticPart::Primers {
                begin(tasks, Rc::clone(self).lane(lane.number)).await;
                continue;
            }
            let run = lane.run.lock().clone();
            let Some(run) = run else { continue };
            let longest = Nanos(lanes.longest_lead.load(Relaxed));
            for primer in run.with(|tree| tree.primers(self.conversations())) {
                let wait = longest.since(capped(primer.lead, &agentic));
                let wait = if agentic.bursts { Nanos::ZERO } else { wait };
                let at = self.phase.at(wait);
                begin(tasks, Rc::clone(self).prime(Arc::clone(&run), primer, at)).await;
            }
        }
    }

    /// Sends a primer `at` a time.
    async fn prime(self: Rc<Self>, run: Arc<TreeRun>, primer: Primer, at: Nanos) {
        let Primer { stream, turn, .. } = primer;
        let Some((session, _)) = self.session_of(&run, stream, None) else { return };
        let answers = vec![None; turn];
        if self.phase.wait_until(at, &self.shared.timer).await && self.phase.next_turn() {
            let (issued, free_from) = (Clock::now(), Nanos::ZERO);
            let send = SendTimes { due: Some(at), issued, free_from, held_by: None };
            let record = self.request(&session, turn, &answers, send, Slot::default()).await;
            self.observe_lane(&session, &record);
            self.shared.queue.push(record);
        }
    }

    /// Sends what is left of a lane's tree, and the trees after it, until the phase stops.
    async fn lane(self: Rc<Self>, number: usize) {
        let Some(lanes) = &self.phase.lanes else { return };
        let Some(lane) = lanes.all.get(number) else { return };
        let mut free_from = self.phase.at(Nanos::ZERO);
        loop {
            let entered = lane.run.lock().clone();
            let (run, first) = match entered {
                Some(run) => (run, None),
                None => match self.next_tree(lanes, lane).await {
                    Some(run) => {
                        let (due, issued) = (Some(free_from), Clock::now());
                        (run, Some(SendTimes { due, issued, free_from, held_by: None }))
                    }
                    None => break,
                },
            };
            let live: Vec<usize> = run.with(|tree| tree.live().collect());
            self.start(&run, &live);
            if live.contains(&ROOT) {
                self.send(&run, ROOT, first, None).await;
            }
            free_from = run.ended().await;
            if let Some((took, recorded)) = run.take_span() {
                self.phase.counters.count_replay(|stats| stats.add_tree(took, recorded));
            }
            if !run.standing().is_over() {
                if !self.phase.asks_for_one_token() {
                    self.phase.counters.session_cut_short();
                }
                break;
            }
            *lane.run.lock() = None;
        }
        self.phase.counters.count_lanes(|counts| counts.stands(number, 0));
        lanes.update(number, (0, None), Clock::now());
    }

    /// Returns the next tree of a lane, which begins now; `None` if there is none in this phase.
    async fn next_tree(&self, lanes: &Lanes, lane: &Lane) -> Option<Arc<TreeRun>> {
        let Pace::Lanes(agentic) = self.phase.pace else { return None };
        let is_warmup = agentic.part != AgenticPart::Replay;
        if is_warmup && lane.left.load(Relaxed) == 0 {
            return None;
        }
        let session = self.next_session().await?;
        let of = self.conversations();
        let now = self.moment(Clock::now());
        let root = self.phase.conversation(session);
        let (mut tree, _) = Tree::begin(of, root, now);
        if is_warmup {
            let left = lane.left.load(Relaxed);
            let chosen = tree.hurry(of, left, now);
            lane.left.store(left - chosen, Relaxed);
        } else {
            tree.cap_idle(agentic.tree_idle_cap);
        }
        let workload = &self.shared.workload;
        let run = lanes.cast(tree, (root, session), lane.number, workload, &self.phase);
        *lane.run.lock() = Some(Arc::clone(&run));
        self.note(&run, now.at);
        Some(run)
    }

    /// Waits until the next turn of a conversation in a lane is due, and takes a request from the budget;
    /// returns `None` if the turn will not be sent.
    pub(super) async fn turn_of_lane(&self, session: &Session<'_>) -> Option<SendTimes> {
        let (run, stream) = (session.run, session.stream);
        let mut moved = self.phase.lanes.as_ref()?.moved.subscribe();
        loop {
            let changed = run.changed();
            let skipped = *moved.borrow_and_update();
            let due = match run.due(stream, skipped) {
                Due::At(at) if at <= Clock::now() => {
                    let held_by = run.with(|tree| tree.held(stream, skipped));
                    self.phase.counters.count_replay(|stats| match held_by {
                        Some(Hold::Join) => stats.held_by_join += 1,
                        Some(Hold::Barrier) => stats.held_by_barrier += 1,
                        None => {}
                    });
                    let free_from = run.with(|tree| tree.last_end(stream));
                    let (due, issued) = (Some(at), Clock::now());
                    let send = SendTimes { due, issued, free_from, held_by };
                    return (self.phase.stop() == Stop::No && self.phase.next_turn())
                        .then_some(send);
                }
                Due::At(at) => Some(at),
                Due::Held(_) => None,
                Due::Never => return None,
            };
            tokio::select! {
                biased;
                () = self.shared.timer.until_some(due) => {}
                () = changed => {}
                _ = moved.changed() => {}
                () = self.phase.stopped(Stop::Sending) => return None,
            }
        }
    }

    /// Returns whether a request of a lane exceeded the context of the model, as all later ones of the
    /// conversation would.
    pub(super) fn exceeds_context(&self, run: &TreeRun, record: &RequestRecord) -> bool {
        let overflow = &self.shared.workload.context_overflow;
        run.lane.is_some()
            && overflow.is_response(record.status, &record.body.bytes)
            && self.answer(record).is_none()
    }

    /// Returns the moment of an instant.
    pub(super) fn moment(&self, at: Nanos) -> Moment {
        let moved = self.phase.lanes.as_ref().map(|lanes| *lanes.moved.borrow());
        Moment { at, moved: moved.unwrap_or_default() }
    }

    /// Takes note of what the lane of a tree waits for after something happened in it. Once the tree is over,
    /// the lane is busy until it has begun the next one.
    pub(super) fn note(&self, run: &TreeRun, at: Nanos) {
        if let (Some(lanes), Some(lane)) = (&self.phase.lanes, &run.lane) {
            let standing = run.standing();
            if !standing.is_over() {
                self.phase.counters.count_lanes(|counts| counts.stands(lane.number, standing.live));
                lanes.update(lane.number, (standing.in_flight, standing.earliest), at);
            }
        }
    }

    /// Counts a request that a lane sends, or with `returns` its return.
    pub(super) fn count_in_flight(&self, session: &Session<'_>, turn: usize, returns: bool) {
        if session.run.lane.is_none() {
            return;
        }
        let prompt = session.conversation.turn(turn).and_then(|turn| turn.known_blocks);
        let depth = session.depth();
        self.phase.counters.count_lanes(|counts| {
            if returns { counts.returned(depth, prompt) } else { counts.sent(depth, prompt) }
        });
    }

    /// Counts how a request of a lane followed the recorded run. If one of a lane's first conversation fails before
    /// the measurement, the run is aborted.
    pub(super) fn observe_lane(&self, session: &Session<'_>, record: &RequestRecord) {
        if session.run.lane.is_none() {
            return;
        }
        if !self.phase.asks_for_one_token() {
            let turn = session.conversation.turn(record.turn.turn);
            let recorded = turn.and_then(|turn| turn.recorded);
            session.run.span(record.start, record.end, recorded);
            let took = record.end.since(record.start);
            self.phase.counters.count_replay(|stats| stats.add(took, recorded));
        } else if session.stream == ROOT && record.has_failed() {
            self.phase.warmup_failed();
        }
    }
}
