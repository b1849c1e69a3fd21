//! Which requests of other conversations had ended before a request was sent, so that they may be the cause of
//! it.

use std::collections::BTreeSet;

/// A request by the place of its conversation and its own place in that.
pub(super) type RequestIndex = (usize, usize);

/// Returns for each request those of the other conversations after which it is sent, if `conversations` have
/// the times at which each request was sent and answered, in seconds.
///
/// Of each other conversation, that is the request that was answered last by then. If one of these had
/// ended before another one was sent, the other one stands for it.
pub(super) fn predecessors(conversations: &[Vec<(f64, f64)>]) -> Vec<Vec<Vec<RequestIndex>>> {
    let all = || {
        let turns_of =
            |(own, times): (usize, &Vec<_>)| (0..times.len()).map(move |turn| (own, turn));
        conversations.iter().enumerate().flat_map(turns_of).collect::<Vec<RequestIndex>>()
    };
    let time = |(conversation, turn): RequestIndex| conversations[conversation][turn];
    let (mut by_start, mut by_end) = (all(), all());
    by_start.sort_by(|a, b| time(*a).0.total_cmp(&time(*b).0));
    by_end.sort_by(|a, b| {
        let ((start, end), (other_start, other_end)) = (time(*a), time(*b));
        end.total_cmp(&other_end).then(start.total_cmp(&other_start))
    });
    let mut found: Vec<Vec<Vec<RequestIndex>>> =
        conversations.iter().map(|own| vec![Vec::new(); own.len()]).collect();
    let mut ended = by_end.into_iter().peekable();
    let mut last = Last { turns: vec![None; conversations.len()], ..Last::default() };
    for (own, turn) in by_start {
        let (start, _) = time((own, turn));
        while let Some(place) =
            ended.next_if(|place| time(*place).1 <= start && time(*place).0 < start)
        {
            last.remove(place.0, time);
            last.insert(place, time);
        }
        let before = last.remove(own, time);
        found[own][turn] = last.overlapping();
        if let Some(before) = before {
            last.insert((own, before), time);
        }
    }
    found
}

/// The request of each conversation that was answered last.
#[derive(Default)]
struct Last {
    turns: Vec<Option<usize>>,
    by_start: BTreeSet<(u64, usize)>,
    by_end: BTreeSet<(u64, usize)>,
}

impl Last {
    fn insert(
        &mut self,
        (conversation, turn): RequestIndex,
        time: impl Fn(RequestIndex) -> (f64, f64),
    ) {
        let (start, end) = time((conversation, turn));
        self.turns[conversation] = Some(turn);
        self.by_start.insert((ordered(start), conversation));
        self.by_end.insert((ordered(end), conversation));
    }

    /// Removes the request of a conversation, and returns it.
    fn remove(&mut self, of: usize, time: impl Fn(RequestIndex) -> (f64, f64)) -> Option<usize> {
        let turn = self.turns[of].take()?;
        let (start, end) = time((of, turn));
        self.by_start.remove(&(ordered(start), of));
        self.by_end.remove(&(ordered(end), of));
        Some(turn)
    }

    /// Returns the requests that no other one follows: those that had not ended before the last one
    /// started, in the order of the conversations.
    fn overlapping(&self) -> Vec<RequestIndex> {
        let Some((latest, _)) = self.by_start.last().copied() else { return Vec::new() };
        let unfinished = self.by_end.range((latest + 1, 0)..).map(|(_, at)| *at);
        let latest = self.by_start.range((latest, 0)..).map(|(_, at)| *at);
        let all: BTreeSet<usize> = unfinished.chain(latest).collect();
        all.into_iter().filter_map(|at| Some((at, self.turns[at]?))).collect()
    }
}

/// Returns a number in the order of times.
fn ordered(time: f64) -> u64 {
    // Without a negative zero.
    let bits = (time + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_comes_after_the_last_ones_that_had_ended() {
        // The times are those of AIPerf's function for the same requests.
        let main = vec![(0.0, 2.0), (5.0, 6.0), (20.0, 21.0)];
        let one = vec![(6.0, 9.0), (10.0, 12.0)];
        let other = vec![(6.0, 15.0)];
        let found = predecessors(&[main, one, other]);
        // A request that ends as another one is sent counts.
        assert_eq!(found[0], [vec![], vec![], vec![(1, 1), (2, 0)]]);
        assert_eq!(found[1], [vec![(0, 1)], vec![(0, 1)]]);
        assert_eq!(found[2], [vec![(0, 1)]]);
    }

    /// The predecessors as they are defined.
    fn defined(conversations: &[Vec<(f64, f64)>], own: usize, start: f64) -> Vec<RequestIndex> {
        let time = |(conversation, turn): RequestIndex| conversations[conversation][turn];
        let others = (0..conversations.len()).filter(|other| *other != own);
        let last: Vec<RequestIndex> = others
            .filter_map(|other| {
                let turns = (0..conversations[other].len()).map(|turn| (other, turn));
                let ended = turns.filter(|it| time(*it).1 <= start && time(*it).0 < start);
                ended.max_by(|a, b| time(*a).1.total_cmp(&time(*b).1))
            })
            .collect();
        let is_followed = |one: &RequestIndex| {
            let (start, end) = time(*one);
            last.iter().any(|other| {
                let (other_start, _) = time(*other);
                other != one && start < other_start && end <= other_start
            })
        };
        last.iter().filter(|one| !is_followed(one)).copied().collect()
    }

    proptest! {
        /// Against the definition: all requests that had ended, without those that another one follows.
        #[test]
        fn the_last_ones_stand_for_all(
            all in prop::collection::vec(
                prop::collection::vec((0u32..40, 0u32..10), 1..6), 1..5,
            ),
        ) {
            let times = |own: Vec<(u32, u32)>| {
                let mut own: Vec<(f64, f64)> =
                    own.into_iter().map(|(start, took)| (start.into(), (start + took).into())).collect();
                own.sort_by(|a, b| a.0.total_cmp(&b.0));
                own
            };
            let all: Vec<Vec<(f64, f64)>> = all.into_iter().map(times).collect();
            let found = predecessors(&all);
            for (own, requests) in all.iter().enumerate() {
                for (turn, (start, _)) in requests.iter().enumerate() {
                    prop_assert_eq!(&found[own][turn], &defined(&all, own, *start));
                    for (conversation, before) in &found[own][turn] {
                        prop_assert_ne!(*conversation, own);
                        let (began, ended) = all[*conversation][*before];
                        prop_assert!(began < *start && ended <= *start);
                        // No later one of the same conversation had ended.
                        let later = all[*conversation].iter();
                        prop_assert!(!later.clone().any(|it| it.0 < *start && it.1 <= *start && it.1 > ended));
                    }
                    // Each conversation with an ended request has a place, or something that follows it.
                    for (other, requests) in all.iter().enumerate().filter(|(other, _)| *other != own) {
                        let ended = requests.iter().filter(|it| it.0 < *start && it.1 <= *start);
                        let Some(last) = ended.map(|it| it.1).reduce(f64::max) else { continue };
                        let stands = found[own][turn].iter().any(|(at, before)| {
                            *at == other || all[*at][*before].0 >= last
                        });
                        prop_assert!(stands);
                    }
                }
            }
        }
    }
}
