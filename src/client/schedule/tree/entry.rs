//! Trees that are entered in the middle, and the turns that prepare a server for them.

use base::units::Nanos;
use dataset::Conversation;

use super::{Moment, State, Tree};

/// A turn before the one with which a conversation is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Primer {
    pub stream: usize,
    pub turn: usize,
    /// How long before the entry it was sent.
    pub lead: Nanos,
}

impl Tree {
    /// Creates the tree of the conversation `root` as it was when its recorded run had come to the time
    /// `entry`. Each conversation is before the first turn from then on. Returns `None` if none of them
    /// has such a turn.
    pub(crate) fn entered(of: &[Conversation], root: usize, entry: Nanos) -> Option<Self> {
        let mut tree = Self::unborn(of, root);
        tree.entered = entry;
        for stream in 0..tree.streams.len() {
            tree.enter(of, stream, entry);
        }
        let is_usable = tree.live().next().is_some();
        tree.refresh(of, Moment::default());
        is_usable.then_some(tree)
    }

    fn enter(&mut self, of: &[Conversation], stream: usize, entry: Nanos) {
        let own = &self.streams[stream];
        let first = own.next;
        let turns = of.get(own.conversation).map_or(0, Conversation::len);
        let next = (first..turns).find(|turn| self.start(of, stream, *turn) >= entry);
        let has_begun = own.origin.is_none_or(|origin| {
            let parent = &self.streams[origin.parent];
            let is_started = origin.branch.after.is_none_or(|after| after < parent.next);
            parent.state != State::Unborn && (is_started || self.start(of, stream, first) <= entry)
        });
        let own = &mut self.streams[stream];
        if has_begun {
            own.next = next.unwrap_or(turns);
            own.state = if next.is_some() { State::Waiting } else { State::Ended };
        }
    }

    /// Returns the first and the last time at which the recorded run of the conversation `root` sent a request.
    pub fn span(of: &[Conversation], root: usize) -> (Nanos, Nanos) {
        let tree = Self::unborn(of, root);
        let all = tree
            .streams
            .iter()
            .flat_map(|stream| of.get(stream.conversation).into_iter().flat_map(|it| &it.turns));
        let starts = all.filter_map(|turn| turn.recorded).map(|recorded| recorded.start);
        let span = starts.map(|start| (start, start));
        span.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or_default()
    }

    /// Returns the turn before its entry of each conversation that was entered in the middle.
    pub fn primers(&self, of: &[Conversation]) -> Vec<Primer> {
        let primer = |stream: usize| {
            let own = &self.streams[stream];
            let first = of.get(own.conversation)?.inherited_turns;
            let turn = own.next.checked_sub(1).filter(|turn| *turn >= first)?;
            let lead = self.entered.since(self.start(of, stream, turn));
            Some(Primer { stream, turn, lead })
        };
        self.live().filter_map(primer).collect()
    }

    /// Has the tree send its next `most` turns in the order in which they were recorded, and no others, from `now` on and
    /// without delays. Returns how many these are.
    pub fn hurry(&mut self, of: &[Conversation], most: u64, now: Moment) -> u64 {
        let mut turns: Vec<(Nanos, &str, usize, usize)> = Vec::new();
        for (at, own) in self.streams.iter().enumerate().filter(|(_, it)| it.state != State::Ended)
        {
            let Some(found) = of.get(own.conversation) else { continue };
            let later = (own.next..found.len())
                .map(|turn| (self.start(of, at, turn), &*found.id, turn, at));
            turns.extend(later);
        }
        turns.sort_unstable();
        turns.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        for own in &mut self.streams {
            own.limit = own.next;
        }
        for (.., stream) in &turns {
            self.streams[*stream].limit += 1;
        }
        self.is_immediate = true;
        self.begin_phase(now, |_, _| Nanos::ZERO);
        self.refresh(of, now);
        turns.len() as u64
    }

    /// Returns how long after the entry the recorded run sent the first of those turns that come next.
    pub(crate) fn first_offset(&self, of: &[Conversation]) -> Option<Nanos> {
        let unheld = self.live().filter(|stream| self.streams[*stream].hold.is_none());
        unheld.map(|stream| self.offset(of, stream)).min()
    }

    fn offset(&self, of: &[Conversation], stream: usize) -> Nanos {
        self.start(of, stream, self.streams[stream].next).since(self.entered)
    }

    /// Has the tree send its turns as recorded from `now` on. The turn that came `first` after the entry is
    /// sent now, and the others as much later as they were.
    pub fn replay(
        &mut self,
        of: &[Conversation],
        first: Nanos,
        idle_cap: Option<Nanos>,
        now: Moment,
    ) {
        self.idle_cap = idle_cap;
        self.is_immediate = false;
        for own in &mut self.streams {
            own.limit = usize::MAX;
        }
        self.begin_phase(now, |tree, stream| tree.offset(of, stream).since(first));
        self.refresh(of, now);
    }

    /// Limits the time for which the tree may be without a request in flight.
    pub(crate) fn cap_idle(&mut self, cap: Option<Nanos>) {
        self.idle_cap = cap;
    }

    /// Sets the timers of the conversations that have begun, as of `now`.
    fn begin_phase(&mut self, now: Moment, after: impl Fn(&Self, usize) -> Nanos) {
        self.idle_since = now.at;
        self.moved = Nanos::ZERO;
        for stream in 0..self.streams.len() {
            let timer = now.at + after(self, stream) + now.moved;
            let own = &mut self.streams[stream];
            own.timer = timer;
            own.released = Nanos::ZERO;
            own.last_end = now.at;
        }
    }
}
