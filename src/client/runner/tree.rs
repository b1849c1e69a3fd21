//! A tree of conversations that a session sends, shared by the tasks that send its conversations.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use uuid::Uuid;

use base::lock::Lock;
use base::units::Nanos;
use dataset::{Conversation, Recorded};

use super::ahead::Made;
use crate::record::Ancestry;
use crate::schedule::tree::{Due, Hold, Moment, Tree};

/// A tree that is being sent.
#[derive(Debug)]
pub(super) struct TreeRun {
    /// Number of the session.
    pub(super) number: u64,
    /// Index of the tenant that it belongs to, if tenants share the load.
    pub(super) tenant: Option<usize>,
    /// The lane that replays it, and the marker of all its prompts, if a lane does.
    pub(super) lane: Option<OfLane>,
    /// Its only conversation, if that was made while the run went on.
    pub(super) made: Option<Made>,
    state: Lock<State>,
    changed: Notify,
}

/// The settings that a tree has from the lane that replays it.
#[derive(Debug)]
pub(super) struct OfLane {
    /// The number of the lane among those of the process.
    pub(super) number: usize,
    /// Its number among the lanes of the run, which several processes may share.
    pub(super) place: u64,
    /// Marker of all its prompts, if they have one.
    pub(super) marker: Option<Arc<str>>,
}

#[derive(Debug)]
struct State {
    tree: Tree,
    begun: Vec<Option<Begun>>,
    /// The tasks of the conversations that others started.
    tasks: Vec<JoinHandle<()>>,
    last_end: Nanos,
    /// From the first request of the phase to its last response, and the same in the recorded run.
    span: Option<(Span, Option<Span>)>,
}

/// From a request to a response.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: Nanos,
    end: Nanos,
}

impl Span {
    fn and(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    fn length(self) -> Nanos {
        self.end.since(self.start)
    }
}

/// The state of a conversation that has begun.
#[derive(Debug, Clone)]
pub(super) struct Begun {
    pub(super) correlation_id: Uuid,
    /// Its place in the tree, if there is one.
    pub(super) ancestry: Option<Ancestry>,
    /// Marker of its prompts, if they have one.
    pub(super) marker: Option<Arc<str>>,
    /// The texts of the responses to all turns before, of which failed ones have none.
    pub(super) answers: Vec<Option<Arc<str>>>,
}

/// The event for which a lane waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    pub(super) in_flight: usize,
    /// Number of conversations that have begun and not ended.
    pub(super) live: usize,
    /// See [`Tree::earliest`].
    pub(super) earliest: Option<Nanos>,
}

impl Standing {
    /// Returns whether nothing will be sent any more.
    pub(super) const fn is_over(self) -> bool {
        self.live == 0
    }
}

impl TreeRun {
    pub(super) fn new(
        tree: Tree,
        (number, tenant): (u64, Option<usize>),
        lane: Option<OfLane>,
        begins: Nanos,
    ) -> Self {
        let begun = (0..tree.streams()).map(|_| None).collect();
        let state = State { tree, begun, tasks: Vec::new(), last_end: begins, span: None };
        let state = Lock::new(state);
        Self { number, tenant, lane, made: None, state, changed: Notify::new() }
    }

    /// Adds the conversation, if it was made while the run went on.
    pub(super) fn with_made(self, made: Option<Made>) -> Self {
        Self { made, ..self }
    }

    /// Returns the conversations that the tree is of, `all` of the dataset unless it has its own.
    pub(super) fn conversations<'a>(&'a self, all: &'a [Conversation]) -> &'a [Conversation] {
        self.made.as_ref().map_or(all, |made| std::slice::from_ref(&*made.conversation))
    }

    /// Looks at the tree, or changes it.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Tree) -> T) -> T {
        act(&mut self.state.lock().tree)
    }

    /// Takes note that the next turn of a stream is sent; see [`Tree::sent`].
    pub(super) fn sent(&self, of: &[Conversation], stream: usize, now: Moment) -> Vec<usize> {
        self.with(|tree| tree.sent(of, stream, now))
    }

    /// Takes note of a response; see [`Tree::returned`].
    pub(super) fn returned(
        &self,
        of: &[Conversation],
        stream: usize,
        ends: bool,
        now: Moment,
    ) -> Vec<usize> {
        let born = {
            let mut state = self.state.lock();
            state.last_end = state.last_end.max(now.at);
            state.tree.returned(of, stream, ends, now)
        };
        self.changed.notify_waiters();
        born
    }

    /// Takes note that the next turn of a stream is never sent; see [`Tree::abandon`].
    pub(super) fn abandon(&self, of: &[Conversation], stream: usize, now: Moment) {
        self.with(|tree| tree.abandon(of, stream, now));
        self.changed.notify_waiters();
    }

    /// Returns when the next turn of a stream may be sent.
    pub(super) fn due(&self, stream: usize, moved: Nanos) -> Due {
        self.with(|tree| tree.due(stream, moved))
    }

    /// Returns what the next turn of a stream waits for besides its delay.
    pub(super) fn hold(&self, stream: usize) -> Option<Hold> {
        self.with(|tree| tree.hold(stream))
    }

    /// Returns a wait until something has happened in the tree since this call.
    pub(super) fn changed(&self) -> impl Future<Output = ()> + '_ {
        self.changed.notified()
    }

    pub(super) fn standing(&self) -> Standing {
        self.with(|tree| Standing {
            in_flight: tree.in_flight(),
            live: tree.live().count(),
            earliest: tree.earliest(),
        })
    }

    /// Returns what is known of a stream, which has begun. If nothing is yet, it gets an ID from `new_id`,
    /// and its own `marker` unless it inherits one.
    pub(super) fn begun(
        &self,
        of: &[Conversation],
        stream: usize,
        new_id: &mut dyn FnMut() -> Uuid,
        marker: &dyn Fn(Uuid) -> Option<Arc<str>>,
    ) -> Begun {
        let known = self.state.lock().begun[stream].clone();
        if let Some(known) = known {
            return known;
        }
        let (index, parent) = self.with(|tree| (tree.conversation(stream), tree.parent(stream)));
        let parent =
            parent.map(|(parent, branch)| (self.begun(of, parent, new_id, marker), branch.is_fork));
        let correlation_id = new_id();
        let ancestry = if let Some((parent, _)) = &parent {
            let above = parent.ancestry.unwrap_or(Ancestry::of_root(parent.correlation_id));
            Some(above.of_child(parent.correlation_id))
        } else {
            let starts = of.get(index).is_some_and(|it| !it.branches.is_empty());
            starts.then(|| Ancestry::of_root(correlation_id))
        };
        // A fork continues the prompts of its parent.
        let forked = parent.filter(|(_, is_fork)| *is_fork).map(|(parent, _)| parent);
        let inherited = match &self.lane {
            Some(lane) => lane.marker.clone(),
            None => {
                forked.as_ref().and_then(|it| it.marker.clone()).or_else(|| marker(correlation_id))
            }
        };
        let answers = forked.map(|it| it.answers).unwrap_or_default();
        let begun = Begun { correlation_id, ancestry, marker: inherited, answers };
        self.state.lock().begun[stream] = Some(begun.clone());
        begun
    }

    /// Keeps the responses that a stream has got so far, for those that continue it.
    pub(super) fn keep_answers(&self, stream: usize, answers: &[Option<Arc<str>>]) {
        if let Some(begun) = &mut self.state.lock().begun[stream] {
            begun.answers = answers.to_vec();
        }
    }

    /// Adds the times of a request, and those of the recorded one.
    pub(super) fn span(&self, start: Nanos, end: Nanos, recorded: Option<Recorded>) {
        let own = Span { start, end };
        let recorded = recorded.map(|it| Span { start: it.start, end: it.end });
        let mut state = self.state.lock();
        state.span = Some(match state.span {
            None => (own, recorded),
            Some((before, known)) => {
                let both = known.zip(recorded).map(|(one, other)| one.and(other));
                (before.and(own), both.or(known).or(recorded))
            }
        });
    }

    /// Returns the time from the first request of the phase to its last response, and the same in the
    /// recorded run; `None` without any. It begins anew.
    pub(super) fn take_span(&self) -> Option<(Nanos, Nanos)> {
        let (own, recorded) = self.state.lock().span.take()?;
        Some((own.length(), recorded.map_or(Nanos::ZERO, Span::length)))
    }

    /// Adds the task of a stream that another one started.
    pub(super) fn add(&self, task: JoinHandle<()>) {
        self.state.lock().tasks.push(task);
    }

    /// Waits until the tasks of all conversations have ended, and returns when the last response did.
    pub(super) async fn ended(&self) -> Nanos {
        loop {
            let task = self.state.lock().tasks.pop();
            let Some(task) = task else { return self.state.lock().last_end };
            if let Err(error) = task.await
                && let Ok(panic) = error.try_into_panic()
            {
                // The worker ends, as with a panic of the root.
                std::panic::resume_unwind(panic);
            }
        }
    }
}
