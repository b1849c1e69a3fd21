//! Which requests of other conversations had ended before a request was sent, so that they may be the cause of
//! it.

/// A request by the place of its conversation and its own place in that.
pub(super) type Place = (usize, usize);

/// Returns for each request those of the other conversations after which it is sent, if `conversations` have
/// the times at which each request was sent and answered, in seconds.
///
/// Of each other conversation, that is the request that was answered last by then. If one of these had
/// ended before another one was sent, the other one stands for it.
pub(super) fn predecessors(conversations: &[Vec<(f64, f64)>]) -> Vec<Vec<Vec<Place>>> {
    let by_end: Vec<Vec<usize>> = conversations.iter().map(|own| sorted_by_end(own)).collect();
    let of_request = |own: usize, start: f64| {
        let others = (0..conversations.len()).filter(|other| *other != own);
        let last = others.filter_map(|other| {
            let times = &conversations[other];
            let ended = by_end[other].partition_point(|at| times[*at].1 <= start);
            let mut before = by_end[other][..ended].iter().rev();
            let turn = *before.find(|at| times[**at].0 < start)?;
            Some((other, turn))
        });
        let mut last: Vec<Place> = last.collect();
        let time = |(conversation, turn): Place| conversations[conversation][turn];
        let all = last.clone();
        last.retain(|one| {
            let (start, end) = time(*one);
            !all.iter().any(|other| {
                let (other_start, other_end) = time(*other);
                other != one && start < other_start && end <= other_start && other_end >= end
            })
        });
        last
    };
    let of_conversation = |(own, times): (usize, &Vec<(f64, f64)>)| {
        times.iter().map(|(start, _)| of_request(own, *start)).collect()
    };
    conversations.iter().enumerate().map(of_conversation).collect()
}

/// Returns the places of requests in the order in which they were answered.
fn sorted_by_end(times: &[(f64, f64)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by(|a, b| times[*a].1.total_cmp(&times[*b].1));
    order
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
