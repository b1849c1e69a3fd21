//! Which turn of a tree of conversations may be sent when.
//!
//! A tree begins with one conversation, whose turns start others. It is a state machine without a clock: it is told
//! what was sent and what has returned, and reports from when on each conversation may send its next turn. Every
//! load sends its sessions by it; most consist of a single conversation.

mod entry;

use base::setting::named;
use base::units::Nanos;
use dataset::{Branch, BranchStart, Conversation, Predecessor, Turn};

pub use self::entry::Primer;

/// The root of a tree.
pub const ROOT: usize = 0;

/// A time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    /// The time.
    pub at: Nanos,
    /// By how much all timers of the system had been moved to earlier times by then.
    pub moved: Nanos,
}

impl From<Nanos> for Moment {
    fn from(at: Nanos) -> Self {
        Self { at, moved: Nanos::ZERO }
    }
}

/// A tree of conversations while it is sent. Conversations are named by their place in it; the first one is
/// the root.
#[derive(Debug)]
pub struct Tree {
    streams: Vec<Stream>,
    /// The streams by the index of their conversation, if turns wait for those of other conversations.
    by_conversation: Vec<(usize, usize)>,
    in_flight: usize,
    /// When the last request returned, or when the tree began.
    idle_since: Nanos,
    /// Longest time in which no request is in flight.
    idle_cap: Option<Nanos>,
    /// By how much the timers were moved to earlier times because of it.
    moved: Nanos,
    /// Whether turns follow each other without their delays.
    is_immediate: bool,
    /// The time of the recorded run from which on turns are sent.
    entered: Nanos,
}

/// A conversation of a tree.
#[derive(Debug)]
struct Stream {
    conversation: usize,
    origin: Option<Origin>,
    children: Vec<usize>,
    state: State,
    /// The turn that is sent next, or that is in flight.
    next: usize,
    /// The first turn that is not sent in this phase.
    limit: usize,
    /// When its last turn ended, or when it began.
    last_end: Nanos,
    /// When the delay of the next turn is over, plus all by which timers had been moved when that became known.
    timer: Nanos,
    /// The event for which the next turn waits besides.
    hold: Option<Hold>,
    /// The event for which its next turn has waited, and when that wait ended.
    released: Nanos,
    held: Option<Hold>,
}

/// How a conversation is started.
#[derive(Debug, Clone, Copy)]
struct Origin {
    /// The stream that starts it.
    parent: usize,
    branch: Branch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing has started it.
    Unborn,
    /// Its next turn has not been sent.
    Waiting,
    /// A turn of it is in flight.
    InFlight,
    /// It sends nothing any more.
    Ended,
}

/// The event for which a turn waits besides its delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Conversations that were started before it.
    Join,
    /// Turns of other conversations that had ended before it when the tree was recorded.
    Barrier,
}

named! { Hold { "join" => Join, "barrier" => Barrier } }

/// When the next turn of a conversation may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// At this time, unless something moves it.
    At(Nanos),
    /// Something else must end first.
    Held(Hold),
    /// Not in this phase.
    Never,
}

impl Tree {
    /// Creates the tree of the conversation `root`, which begins at `now`. Returns it with the
    /// streams that may send: the root, and those that begin with it.
    pub fn begin(of: &[Conversation], root: usize, now: Moment) -> (Self, Vec<usize>) {
        let mut tree = Self::unborn(of, root);
        let mut born = Vec::new();
        tree.bear(of, ROOT, now, &mut born);
        tree.idle_since = now.at;
        tree.refresh(of, now);
        (tree, born)
    }

    /// Creates the tree of the conversation `root`, of which nothing has begun.
    fn unborn(of: &[Conversation], root: usize) -> Self {
        let mut tree = Self {
            streams: Vec::with_capacity(1),
            by_conversation: Vec::new(),
            in_flight: 0,
            idle_since: Nanos::ZERO,
            idle_cap: None,
            moved: Nanos::ZERO,
            is_immediate: false,
            entered: Nanos::ZERO,
        };
        tree.plant(of, root);
        // Parents are before their children.
        tree.entered = (0..tree.streams.len())
            .map(|stream| tree.start(of, stream, tree.streams[stream].next))
            .min()
            .unwrap_or_default();
        let waits = |stream: &Stream| {
            let turns = of.get(stream.conversation).map_or(&[][..], |it| &it.turns);
            turns.iter().any(|turn| !turn.predecessors.is_empty())
        };
        if tree.streams.len() > 1 && tree.streams.iter().any(waits) {
            let streams = tree.streams.iter().enumerate();
            tree.by_conversation = streams.map(|(at, stream)| (stream.conversation, at)).collect();
            tree.by_conversation.sort_unstable();
        }
        tree
    }

    /// Adds the streams of the conversation `root` and of all that it starts, each after its parent. A
    /// tree may be deeper than a thread's stack.
    fn plant(&mut self, of: &[Conversation], root: usize) {
        // Streams whose children are being added, and the next branch of each.
        let mut open = vec![(self.add(of, root, None), 0)];
        while let Some((parent, nth)) = open.last_mut() {
            let parent = *parent;
            let found = of.get(self.streams[parent].conversation);
            let Some(branch) = found.and_then(|it| it.branches.get(*nth)).copied() else {
                open.pop();
                continue;
            };
            *nth += 1;
            let child = self.add(of, branch.conversation, Some(Origin { parent, branch }));
            self.streams[parent].children.push(child);
            open.push((child, 0));
        }
    }

    fn add(&mut self, of: &[Conversation], conversation: usize, origin: Option<Origin>) -> usize {
        let found = of.get(conversation);
        self.streams.push(Stream {
            conversation,
            origin,
            children: Vec::new(),
            state: State::Unborn,
            next: found.map_or(0, |it| it.inherited_turns),
            limit: usize::MAX,
            last_end: Nanos::ZERO,
            timer: Nanos::ZERO,
            hold: None,
            released: Nanos::ZERO,
            held: None,
        });
        self.streams.len() - 1
    }

    /// Has a conversation and those that begin with it wait for their first turns, as of `now`.
    fn bear(&mut self, of: &[Conversation], stream: usize, now: Moment, born: &mut Vec<usize>) {
        let moved = now.moved + self.moved;
        let is_immediate = self.is_immediate;
        let mut beginning = vec![stream];
        while let Some(stream) = beginning.pop() {
            let own = &mut self.streams[stream];
            own.last_end = now.at;
            let Some(first) = turn(of, own.conversation, own.next) else {
                own.state = State::Ended;
                continue;
            };
            own.state = State::Waiting;
            // The load says when the first turn of all is due.
            let is_due = own.origin.is_none() || is_immediate;
            own.timer = now.at + if is_due { Nanos::ZERO } else { first.delay } + moved;
            born.push(stream);
            beginning.extend(self.beginning(stream, (None, BranchStart::Response)).rev());
        }
    }

    /// Starts the children of `stream` that begin with this event of a turn.
    fn bear_children(
        &mut self,
        of: &[Conversation],
        stream: usize,
        event: (Option<usize>, BranchStart),
        now: Moment,
        born: &mut Vec<usize>,
    ) {
        let beginning: Vec<usize> = self.beginning(stream, event).collect();
        for child in beginning {
            self.bear(of, child, now, born);
        }
    }

    /// Returns the children of `stream` that begin with this event of a turn.
    fn beginning(
        &self,
        stream: usize,
        (after, from): (Option<usize>, BranchStart),
    ) -> impl DoubleEndedIterator<Item = usize> + '_ {
        let children = self.streams[stream].children.iter().copied();
        children.filter(move |child| {
            let own = &self.streams[*child];
            own.state == State::Unborn
                && own.origin.is_some_and(|it| it.branch.after == after && it.branch.from == from)
        })
    }

    /// Returns the index of a stream's conversation in the dataset.
    pub fn conversation(&self, stream: usize) -> usize {
        self.streams[stream].conversation
    }

    /// Returns the stream that starts this one, and how; `None` for the root.
    pub fn parent(&self, stream: usize) -> Option<(usize, Branch)> {
        self.streams[stream].origin.map(|origin| (origin.parent, origin.branch))
    }

    /// Returns the number of streams.
    pub const fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Returns the turn that a stream sends next; `None` if it sends none any more in this phase.
    pub fn next(&self, stream: usize) -> Option<usize> {
        let own = &self.streams[stream];
        (own.state == State::Waiting && own.next < own.limit).then_some(own.next)
    }

    /// Returns the streams that have begun and not ended.
    pub fn live(&self) -> impl Iterator<Item = usize> {
        let streams = self.streams.iter().enumerate();
        let live = |state| matches!(state, State::Waiting | State::InFlight);
        streams.filter(move |(_, stream)| live(stream.state)).map(|(at, _)| at)
    }

    /// Returns the number of conversations with a request in flight.
    pub const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns when the last turn of a stream ended, or when it began.
    pub fn last_end(&self, stream: usize) -> Nanos {
        self.streams[stream].last_end.max(self.streams[stream].released)
    }

    /// Returns when the next turn of a stream may be sent, in a system whose timers were `moved` to earlier
    /// times by so much.
    pub fn due(&self, stream: usize, moved: Nanos) -> Due {
        let own = &self.streams[stream];
        match own.hold {
            _ if own.state != State::Waiting || own.next >= own.limit => Due::Never,
            Some(hold) => Due::Held(hold),
            None => {
                let early = moved + self.moved + self.overdue(moved);
                Due::At(own.timer.since(early).max(own.released))
            }
        }
    }

    /// Returns the earliest time at which a turn may be sent, before all by which the timers of the
    /// system are moved.
    pub fn earliest(&self) -> Option<Nanos> {
        self.timers().min().map(|timer| timer.since(self.moved))
    }

    /// Returns the timers of the turns that wait for nothing else.
    fn timers(&self) -> impl Iterator<Item = Nanos> {
        let waits = |own: &&Stream| {
            own.state == State::Waiting && own.hold.is_none() && own.next < own.limit
        };
        self.streams.iter().filter(waits).map(|own| own.timer)
    }

    /// Returns by how much the timers must move for the next turn to be sent before the tree was idle for
    /// too long.
    fn overdue(&self, moved: Nanos) -> Nanos {
        let Some(cap) = self.idle_cap.filter(|_| self.in_flight == 0) else { return Nanos::ZERO };
        let earliest = self.earliest().map(|timer| timer.since(moved));
        earliest.map_or(Nanos::ZERO, |at| at.since(self.idle_since + cap))
    }

    /// Returns what the next turn of a stream waits for besides its delay.
    pub fn hold(&self, stream: usize) -> Option<Hold> {
        self.streams[stream].hold
    }

    /// Returns what the next turn of a stream has waited for after its delay; `None` if it was sent after
    /// its delay.
    pub fn held(&self, stream: usize, moved: Nanos) -> Option<Hold> {
        let own = &self.streams[stream];
        own.held.filter(|_| own.timer.since(moved + self.moved) < own.released)
    }

    /// Takes note that the next turn of a stream is sent `now`, and returns the streams that begin
    /// with it.
    pub fn sent(&mut self, of: &[Conversation], stream: usize, now: Moment) -> Vec<usize> {
        self.moved = self.moved + self.overdue(now.moved);
        self.in_flight += 1;
        let own = &mut self.streams[stream];
        own.state = State::InFlight;
        let turn = Some(own.next);
        let mut born = Vec::new();
        self.bear_children(of, stream, (turn, BranchStart::Issue), now, &mut born);
        if !born.is_empty() {
            self.refresh(of, now);
        }
        born
    }

    /// Takes note that the response to the turn in flight of a stream has ended `now`. It is the last one of
    /// the conversation if it `ends` it. Returns the streams that begin with it.
    pub fn returned(
        &mut self,
        of: &[Conversation],
        stream: usize,
        ends: bool,
        now: Moment,
    ) -> Vec<usize> {
        let moved = now.moved + self.moved;
        let is_immediate = self.is_immediate;
        self.in_flight = self.in_flight.saturating_sub(1);
        self.idle_since = self.idle_since.max(now.at);
        let own = &mut self.streams[stream];
        let event = (Some(own.next), BranchStart::Response);
        own.next += 1;
        own.last_end = now.at;
        own.held = None;
        let mut born = Vec::new();
        match turn(of, own.conversation, own.next) {
            Some(_) if ends => own.state = State::Ended,
            next => {
                own.state = if next.is_some() { State::Waiting } else { State::Ended };
                let delay = next.filter(|_| !is_immediate).map_or(Nanos::ZERO, |next| next.delay);
                own.timer = now.at + delay + moved;
                self.bear_children(of, stream, event, now, &mut born);
            }
        }
        self.refresh(of, now);
        born
    }

    /// Ends a stream whose next turn is never sent, so that nothing waits for it.
    pub(crate) fn abandon(&mut self, of: &[Conversation], stream: usize, now: Moment) {
        self.streams[stream].state = State::Ended;
        self.refresh(of, now);
    }

    /// Looks what turns wait for after something happened `now`.
    fn refresh(&mut self, of: &[Conversation], now: Moment) {
        if self.streams.len() == 1 {
            return;
        }
        for stream in 0..self.streams.len() {
            if self.streams[stream].state == State::Waiting {
                self.reconsider(of, stream, now);
            }
        }
        if self.in_flight > 0 {
            return;
        }
        // Turns that wait for each other would wait for ever.
        let sends = |stream: &usize| self.next(*stream).is_some();
        let waiting: Vec<usize> = (0..self.streams.len()).filter(sends).collect();
        if waiting.iter().all(|stream| self.streams[*stream].hold.is_some()) {
            let start = |stream: &usize| self.start(of, *stream, self.streams[*stream].next);
            if let Some(first) = waiting.into_iter().min_by_key(start) {
                self.streams[first].hold = None;
                self.streams[first].released = now.at;
            }
        }
    }

    fn reconsider(&mut self, of: &[Conversation], stream: usize, now: Moment) {
        let found = self.found_hold(of, stream);
        let moved = now.moved + self.moved;
        let own = &mut self.streams[stream];
        if let (Some(before), None) = (own.hold, found) {
            own.released = now.at;
            own.held = Some(before);
            let begins_now = |it: &&Conversation| before == Hold::Join && !it.waits_beside_branches;
            if let Some(found) = of.get(own.conversation).filter(begins_now) {
                let delay = found.turn(own.next).map_or(Nanos::ZERO, |turn| turn.delay);
                own.timer = now.at + delay + moved;
            }
        }
        own.hold = found;
    }

    /// Returns what the next turn of a stream waits for.
    fn found_hold(&self, of: &[Conversation], stream: usize) -> Option<Hold> {
        let own = &self.streams[stream];
        let is_joined = |child: &&usize| {
            let origin = self.streams[**child].origin;
            origin.is_some_and(|it| it.branch.join == Some(own.next)) && self.is_alive(**child)
        };
        if own.children.iter().any(|child| is_joined(&child)) {
            return Some(Hold::Join);
        }
        let next = turn(of, own.conversation, own.next)?;
        let are_done = next.predecessors.iter().all(|before| self.is_done(before));
        (!are_done).then_some(Hold::Barrier)
    }

    /// Returns whether a stream, or one that it has started, has begun and not ended.
    fn is_alive(&self, stream: usize) -> bool {
        let mut rest = vec![stream];
        while let Some(stream) = rest.pop() {
            let own = &self.streams[stream];
            if matches!(own.state, State::Waiting | State::InFlight) {
                return true;
            }
            rest.extend(&own.children);
        }
        false
    }

    fn is_done(&self, before: &Predecessor) -> bool {
        let at = self.by_conversation.binary_search_by_key(&before.conversation, |(it, _)| *it);
        let Ok(at) = at else { return true };
        let (_, stream) = self.by_conversation[at];
        let own = &self.streams[stream];
        own.state == State::Ended || own.next > before.turn || !self.may_send(stream)
    }

    /// Returns whether a stream has begun or may still begin.
    fn may_send(&self, mut stream: usize) -> bool {
        loop {
            let own = &self.streams[stream];
            let Some(Origin { parent, branch }) = own.origin else { return true };
            if own.state != State::Unborn {
                return true;
            }
            let above = &self.streams[parent];
            let is_ahead = branch.after.is_some_and(|after| above.next <= after);
            if !is_ahead || above.state == State::Ended {
                return false;
            }
            stream = parent;
        }
    }

    /// Returns when a turn was sent in the recorded run; zero if that is not known.
    fn start(&self, of: &[Conversation], stream: usize, nth: usize) -> Nanos {
        let found = turn(of, self.streams[stream].conversation, nth);
        found.and_then(|turn| turn.recorded).map_or(Nanos::ZERO, |recorded| recorded.start)
    }
}

/// Returns a turn of the conversation at this index.
fn turn(of: &[Conversation], conversation: usize, turn: usize) -> Option<&Turn> {
    of.get(conversation)?.turn(turn)
}

#[cfg(test)]
mod tests;
