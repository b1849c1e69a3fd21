//! The turns that forks continue, which they share with their parents: copies of a chain of forks would take
//! memory that grows with the square of its length.

use std::ops::Range;
use std::sync::Arc;

use super::{Conversation, Turn};

/// The first turns of a conversation that are those of the conversations that it continues.
#[derive(Debug, Clone)]
pub struct Inherited(Arc<Shared>);

/// Turns after those of another conversation.
#[derive(Debug, Clone)]
struct Shared {
    before: Option<Inherited>,
    turns: Arc<[Turn]>,
    /// Number of turns with those before; a part of `turns` may be left out.
    length: usize,
}

impl Shared {
    fn start(&self) -> usize {
        self.before.as_ref().map_or(0, Inherited::len)
    }

    fn own(&self) -> &[Turn] {
        self.turns.get(..self.length - self.start()).unwrap_or(&self.turns)
    }
}

impl Drop for Shared {
    /// Drops a chain from its end, since it may be longer than the stack is deep.
    fn drop(&mut self) {
        let mut before = self.before.take();
        while let Some(Inherited(shared)) = before {
            before = Arc::into_inner(shared).and_then(|mut shared| shared.before.take());
        }
    }
}

impl Inherited {
    /// Returns the number of turns.
    pub(super) fn len(&self) -> usize {
        self.0.length
    }

    /// Returns the first `length` of the turns, of which there are at least as many.
    fn first(&self, length: usize) -> Self {
        let mut at = self;
        while let Some(before) = at.0.before.as_ref().filter(|before| before.len() >= length) {
            at = before;
        }
        let mut shared = Shared::clone(&at.0);
        shared.length = length;
        Self(Arc::new(shared))
    }
}

impl Conversation {
    /// Returns the number of turns that are not among its own.
    fn shared_turns(&self) -> usize {
        self.inherited.as_ref().map_or(0, Inherited::len)
    }

    /// Returns the number of all turns, with those that it continues.
    pub fn len(&self) -> usize {
        self.shared_turns() + self.turns.len()
    }

    /// Returns the turn at `index` of all turns.
    pub fn turn(&self, index: usize) -> Option<&Turn> {
        let Some(own) = index.checked_sub(self.shared_turns()) else {
            let mut at = self.inherited.as_ref()?;
            while index < at.0.start() {
                at = at.0.before.as_ref()?;
            }
            return at.0.own().get(index - at.0.start());
        };
        self.turns.get(own)
    }

    /// Returns the turn at `index` of all turns to change it; `None` if it is shared.
    pub fn turn_mut(&mut self, index: usize) -> Option<&mut Turn> {
        let own = index.checked_sub(self.shared_turns())?;
        self.turns.get_mut(own)
    }

    /// Returns the turns that it sends itself.
    pub fn own_turns(&self) -> &[Turn] {
        let first = self.inherited_turns.saturating_sub(self.shared_turns());
        self.turns.get(first..).unwrap_or_default()
    }

    /// Returns the slices of all turns, the last one first.
    fn pieces(&self) -> impl Iterator<Item = &[Turn]> {
        let shared = std::iter::successors(self.inherited.as_ref(), |it| it.0.before.as_ref());
        [self.turns.as_slice()].into_iter().chain(shared.map(|it| it.0.own()))
    }

    /// Returns all turns, with those that it continues.
    pub(crate) fn all_turns(&self) -> impl Iterator<Item = &Turn> {
        let mut pieces: Vec<&[Turn]> = self.pieces().collect();
        pieces.reverse();
        pieces.into_iter().flatten()
    }

    /// Returns the turns in `range` of all turns, as far as there are any.
    pub fn turns_in(&self, range: Range<usize>) -> impl Iterator<Item = &Turn> {
        let mut end = self.len();
        let mut pieces = Vec::new();
        for piece in self.pieces() {
            let start = end - piece.len();
            let (from, until) = (range.start.max(start), range.end.min(end));
            if from < until {
                pieces.push(&piece[from - start..until - start]);
            }
            if start <= range.start {
                break;
            }
            end = start;
        }
        pieces.reverse();
        pieces.into_iter().flatten()
    }

    /// Returns the index of the last turn up to `turn` for which `is` holds.
    pub(super) fn last_turn(&self, turn: usize, is: impl Fn(&Turn) -> bool) -> Option<usize> {
        let mut end = self.len();
        for piece in self.pieces() {
            let start = end - piece.len();
            let until = (turn + 1).clamp(start, end) - start;
            if let Some(found) = piece[..until].iter().rposition(&is) {
                return Some(start + found);
            }
            end = start;
        }
        None
    }

    /// Returns the conversation with copies of all turns, to change them.
    #[must_use]
    pub(super) fn with_all_turns(&self) -> Self {
        let turns = if self.inherited.is_some() {
            self.all_turns().cloned().collect()
        } else {
            self.turns.clone()
        };
        Self { turns, inherited: None, ..self.clone() }
    }
}

/// Has forks share the first `length` turns of their parents. A parent may come after its fork.
pub(super) fn share(conversations: &mut [Conversation], length: impl Fn(&Conversation) -> usize) {
    let is_fork: Vec<(usize, usize)> = forks(conversations).collect();
    let mut is_child = vec![false; conversations.len()];
    for (_, child) in &is_fork {
        if let Some(it) = is_child.get_mut(*child) {
            *it = true;
        }
    }
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); conversations.len()];
    for (parent, child) in is_fork {
        children[parent].push(child);
    }
    let parents = (0..conversations.len()).filter(|at| !is_child[*at] && !children[*at].is_empty());
    let mut open: Vec<usize> = parents.collect();
    while let Some(parent) = open.pop() {
        let before = conversations[parent].inherited.clone();
        let turns: Arc<[Turn]> = conversations[parent].turns.as_slice().into();
        let whole = conversations[parent].len();
        let shared = Inherited(Arc::new(Shared { before, turns, length: whole }));
        for child in std::mem::take(&mut children[parent]) {
            let Some(fork) = conversations.get_mut(child) else { continue };
            let length = length(fork).min(whole);
            fork.inherited = (length > 0).then(|| shared.first(length));
            open.push(child);
        }
    }
}

/// Has forks share the turns of their parents again, after these have changed.
pub(super) fn share_again(conversations: &mut [Conversation]) {
    if conversations.iter().any(|it| it.inherited.is_some()) {
        share(conversations, Conversation::shared_turns);
    }
}

/// Returns each fork with its parent before it.
fn forks(conversations: &[Conversation]) -> impl Iterator<Item = (usize, usize)> {
    conversations.iter().enumerate().flat_map(|(parent, it)| {
        let forks = it.branches.iter().filter(|branch| branch.is_fork);
        forks.map(move |branch| (parent, branch.conversation))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Branch, BranchStart};

    /// Conversations of `turns` turns, each a fork of the one before after its turn `after` of all.
    fn chain(count: usize, turns: u32, after: impl Fn(usize) -> usize) -> Vec<Conversation> {
        let mut inherited = 0;
        let mut all = Vec::new();
        for at in 0..count {
            let turn = |nth| Turn { max_tokens: Some(at as u32 * turns + nth), ..Turn::default() };
            let branch = Branch {
                conversation: at + 1,
                after: Some(after(at)),
                from: BranchStart::Response,
                join: None,
                is_fork: true,
            };
            all.push(Conversation {
                turns: (0..turns).map(turn).collect(),
                branches: if at + 1 < count { vec![branch] } else { Vec::new() },
                inherited_turns: inherited,
                is_child: at > 0,
                ..Conversation::default()
            });
            inherited = after(at) + 1;
        }
        share(&mut all, |it| it.inherited_turns);
        all
    }

    fn numbers<'a>(turns: impl Iterator<Item = &'a Turn>) -> Vec<u32> {
        turns.filter_map(|turn| turn.max_tokens).collect()
    }

    /// Worked out by hand: turns 0 and 1; forks after the first one with turns 2 and 3; and after the
    /// second turn of those, which is 2, with turns 4 and 5.
    #[test]
    fn forks_have_the_turns_of_their_parents_up_to_their_own() {
        let all = chain(3, 2, |at| at);
        let found: Vec<Vec<u32>> = all.iter().map(|it| numbers(it.all_turns())).collect();
        assert_eq!(found, [vec![0, 1], vec![0, 2, 3], vec![0, 2, 4, 5]]);
        for it in &all {
            let each: Vec<u32> =
                (0..it.len()).map(|at| it.turn(at).unwrap().max_tokens.unwrap()).collect();
            assert_eq!(each, numbers(it.all_turns()));
            assert!(it.turn(it.len()).is_none());
            assert_eq!(it.own_turns().len(), 2);
            for from in 0..=it.len() {
                for until in from..=it.len() + 1 {
                    let expected = &each[from..until.min(each.len())];
                    assert_eq!(numbers(it.turns_in(from..until)), expected);
                }
            }
            for turn in 0..it.len() {
                assert_eq!(
                    it.last_turn(turn, |it| it.max_tokens.unwrap() < 3),
                    each[..=turn].iter().rposition(|it| *it < 3)
                );
            }
            assert_eq!(numbers(it.with_all_turns().turns.iter()), each);
        }
    }

    #[test]
    fn forks_of_forks_share_the_memory_of_their_turns() {
        let all = chain(50_000, 1, |at| at);
        let last = all.last().unwrap();
        assert_eq!((last.len(), last.turns.len()), (50_000, 1));
        assert_eq!(last.turn(7).unwrap().max_tokens, Some(7));
        let of_first = |it: &Conversation| std::ptr::from_ref(it.turn(0).unwrap());
        assert_eq!(of_first(&all[1]), of_first(last));
        assert_eq!(numbers(last.all_turns()), (0..50_000).collect::<Vec<_>>());
    }
}
