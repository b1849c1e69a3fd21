use dataset::Recorded;

use super::*;
use crate::schedule::agentic;
use crate::schedule::config::EntryRange;

const fn ms(number: u64) -> Nanos {
    Nanos(number * 1_000_000)
}

fn now(at: u64) -> Moment {
    ms(at).into()
}

/// A turn that was sent at `start` and took `api`, after a `delay`; all in milliseconds.
fn timed(start: u64, api: u64, delay: u64) -> Turn {
    let recorded = Some(Recorded { start: ms(start), end: ms(start + api) });
    Turn { recorded, delay: ms(delay), ..Turn::default() }
}

fn conversation(id: &str, turns: Vec<Turn>) -> Conversation {
    let waits_beside_branches = true;
    Conversation { id: id.into(), turns, waits_beside_branches, ..Conversation::default() }
}

fn branch(conversation: usize, after: usize, join: Option<usize>) -> Branch {
    let after = Some(after);
    Branch { conversation, after, from: BranchStart::Response, join, is_fork: false }
}

/// Requests at 0, 5 and 9 s, of which the first takes 2 s and the others 1 s.
fn three() -> Vec<Conversation> {
    let turns = vec![timed(0, 2_000, 0), timed(5_000, 1_000, 3_000), timed(9_000, 1_000, 3_000)];
    vec![conversation("t3", turns)]
}

/// The tree of `three` in the lane of this number, as AIPerf enters it.
fn entered(lane: u64) -> Tree {
    let of = three();
    let range = EntryRange { min: 0.25, max: 0.75 };
    let span = Tree::span(&of, 0);
    Tree::entered(&of, 0, agentic::entry(range, span, (42, "t3", lane))).unwrap()
}

#[test]
fn four_lanes_enter_a_trace_in_the_middle() {
    let of = three();
    let lanes = [0, 1, 2, 3].map(entered);
    assert_eq!(lanes.each_ref().map(|lane| lane.next(ROOT)), [1, 1, 1, 2].map(Some));
    let primers = lanes.each_ref().map(|lane| lane.primers(&of)[0]);
    assert_eq!(primers.map(|primer| primer.turn), [0, 0, 0, 1]);
    let leads = primers.map(|primer| primer.lead.0);
    assert_eq!(leads, [4_871_030_205, 4_582_942_644, 2_866_825_109, 577_642_031]);
    let offsets = lanes.each_ref().map(|lane| lane.first_offset(&of).unwrap().0);
    assert_eq!(offsets, [128_969_795, 417_057_356, 2_133_174_891, 3_422_357_969]);
}

#[test]
fn lanes_begin_at_their_recorded_distances_or_all_at_once() {
    let of = three();
    let first = entered(0).first_offset(&of).unwrap();
    let at = |lane, own: bool| {
        let mut tree = entered(lane);
        let begins = if own { tree.first_offset(&of).unwrap() } else { first };
        tree.replay(&of, begins, None, now(100_000));
        tree.due(ROOT, Nanos::ZERO)
    };
    let after = |offset: u64| Due::At(Nanos(100_000_000_000 + offset));
    let spread = [0, 288_087_561, 2_004_205_096, 3_293_388_174];
    for (lane, offset) in (0..).zip(spread) {
        assert_eq!(at(lane, false), after(offset));
        assert_eq!(at(lane, true), after(0));
    }
}

#[test]
fn a_cache_is_warmed_by_the_turns_after_the_entry() {
    let of = three();
    let mut tree = entered(0);
    assert_eq!(tree.hurry(&of, 1, now(0)), 1);
    assert_eq!(tree.due(ROOT, Nanos::ZERO), Due::At(ms(0)));
    tree.sent(&of, ROOT, now(1));
    tree.returned(&of, ROOT, false, now(5));
    assert_eq!((tree.next(ROOT), tree.live().next().is_none()), (None, false));
    // The measurement begins with turn 2.
    tree.replay(&of, tree.first_offset(&of).unwrap(), None, now(10));
    assert_eq!((tree.next(ROOT), tree.due(ROOT, Nanos::ZERO)), (Some(2), Due::At(ms(10))));
}

/// Ten requests: two of the tree that was entered, three of each of the next two, and two more.
#[test]
fn a_warmup_of_the_cache_goes_on_with_further_trees() {
    let of = three();
    let send_all = |tree: &mut Tree| {
        let mut sent = 0;
        while tree.next(ROOT).is_some() {
            // Without delays.
            assert_eq!(tree.due(ROOT, Nanos::ZERO), Due::At(ms(sent)));
            tree.sent(&of, ROOT, now(sent));
            sent += 1;
            tree.returned(&of, ROOT, false, now(sent));
        }
        sent
    };
    let mut left = 10;
    let mut tree = entered(0);
    let mut parts = Vec::new();
    loop {
        left -= tree.hurry(&of, left, now(0));
        parts.push(send_all(&mut tree));
        if left == 0 {
            break;
        }
        assert!(tree.live().next().is_none());
        tree = Tree::begin(&of, 0, now(0)).0;
    }
    assert_eq!(parts, [2, 3, 3, 2]);
    tree.replay(&of, Nanos::ZERO, None, now(0));
    assert_eq!(tree.next(ROOT), Some(2));
}

#[test]
fn later_turns_follow_their_delays() {
    let of = three();
    let (mut tree, born) = Tree::begin(&of, 0, now(50));
    assert_eq!((born, tree.due(ROOT, Nanos::ZERO)), (vec![ROOT], Due::At(ms(50))));
    tree.sent(&of, ROOT, now(60));
    assert_eq!(tree.due(ROOT, Nanos::ZERO), Due::Never);
    tree.returned(&of, ROOT, false, now(100));
    assert_eq!(tree.due(ROOT, Nanos::ZERO), Due::At(ms(3_100)));
    tree.sent(&of, ROOT, now(3_100));
    tree.returned(&of, ROOT, false, now(3_200));
    tree.sent(&of, ROOT, now(6_200));
    tree.returned(&of, ROOT, true, now(6_300));
    assert!(tree.live().next().is_none());
}

/// A root that starts two conversations; the last turn of the root waits for both.
fn family() -> Vec<Conversation> {
    let turns = vec![timed(0, 2_000, 0), timed(5_000, 1_000, 3_000), timed(20_000, 1_000, 14_000)];
    let mut root = conversation("m", turns);
    root.branches = vec![branch(1, 1, Some(2)), branch(2, 1, Some(2))];
    let one = conversation("a", vec![timed(6_000, 3_000, 0), timed(10_000, 2_000, 1_000)]);
    let other = conversation("b", vec![timed(6_000, 9_000, 0)]);
    let mut all = vec![root, one, other];
    let before = |conversation, turn| Predecessor { conversation, turn };
    all[0].turns[2].predecessors = vec![before(1, 1), before(2, 0)];
    all[1].turns[0].predecessors = vec![before(0, 1)];
    all[2].turns[0].predecessors = vec![before(0, 1)];
    all[1..].iter_mut().for_each(|child| child.is_child = true);
    all
}

#[test]
fn a_turn_waits_for_the_conversations_that_it_joins() {
    let of = family();
    let (mut tree, _) = Tree::begin(&of, 0, now(0));
    tree.sent(&of, ROOT, now(0));
    tree.returned(&of, ROOT, false, now(10));
    tree.sent(&of, ROOT, now(3_010));
    assert_eq!(tree.returned(&of, ROOT, false, now(3_020)), [1, 2]);
    assert_eq!(tree.due(ROOT, Nanos::ZERO), Due::Held(Hold::Join));
    assert_eq!(tree.due(1, Nanos::ZERO), Due::At(ms(3_020)));
    for stream in [1, 2] {
        tree.sent(&of, stream, now(3_021));
    }
    tree.returned(&of, 2, true, now(3_030));
    tree.returned(&of, 1, false, now(3_040));
    assert_eq!(tree.due(1, Nanos::ZERO), Due::At(ms(4_040)));
    tree.sent(&of, 1, now(4_040));
    tree.returned(&of, 1, true, now(4_050));
    // Its own delay is not over.
    assert_eq!(tree.due(ROOT, Nanos::ZERO), Due::At(ms(17_020)));
    assert_eq!(tree.held(ROOT, Nanos::ZERO), None);
}

#[test]
fn a_turn_waits_for_those_that_had_ended_before_it() {
    let mut of = family();
    // The last turn joins neither, but both had ended before it.
    of[0].branches.iter_mut().for_each(|branch| branch.join = None);
    let (mut tree, _) = Tree::begin(&of, 0, now(0));
    for _ in 0..2 {
        tree.sent(&of, ROOT, now(0));
        tree.returned(&of, ROOT, false, now(0));
    }
    assert_eq!(tree.due(ROOT, Nanos::ZERO), Due::Held(Hold::Barrier));
    tree.sent(&of, 1, now(0));
    tree.sent(&of, 2, now(0));
    tree.returned(&of, 1, false, now(1_000));
    tree.sent(&of, 1, now(2_000));
    tree.returned(&of, 1, true, now(3_000));
    assert_eq!(tree.due(ROOT, Nanos::ZERO), Due::Held(Hold::Barrier));
    // Any end of a turn counts, here 26 s after the one of the root.
    tree.returned(&of, 2, true, now(26_000));
    assert_eq!(tree.due(ROOT, Nanos::ZERO), Due::At(ms(26_000)));
    assert_eq!(tree.held(ROOT, Nanos::ZERO), Some(Hold::Barrier));
}

#[test]
fn a_tree_is_entered_with_the_conversations_that_had_begun() {
    let of = family();
    // At 7 s both children have begun; one of them has nothing left.
    let tree = Tree::entered(&of, 0, ms(7_000)).unwrap();
    assert_eq!(tree.live().collect::<Vec<_>>(), [0, 1]);
    assert_eq!([tree.next(0), tree.next(1), tree.next(2)], [Some(2), Some(1), None]);
    assert_eq!(tree.due(ROOT, Nanos::ZERO), Due::Held(Hold::Join));
    assert_eq!(tree.first_offset(&of), Some(ms(3_000)));
    let primers = tree.primers(&of);
    let turns: Vec<_> = primers.iter().map(|it| (it.stream, it.turn, it.lead)).collect();
    assert_eq!(turns, [(0, 1, ms(2_000)), (1, 0, ms(1_000))]);
    // At 3 s nothing has started them.
    let tree = Tree::entered(&of, 0, ms(3_000)).unwrap();
    assert_eq!(tree.live().collect::<Vec<_>>(), [0]);
    assert!(Tree::entered(&of, 0, ms(20_001)).is_none());
}

#[test]
fn an_idle_tree_moves_its_timers_after_the_cap() {
    let mut of = vec![conversation("m", vec![timed(0, 0, 0), timed(1, 0, 400_000)])];
    let child = conversation("a", vec![timed(0, 0, 450_000)]);
    of.push(child);
    of[0].branches = vec![branch(1, 0, None)];
    let (mut tree, _) = Tree::begin(&of, 0, now(0));
    tree.sent(&of, ROOT, now(0));
    tree.returned(&of, ROOT, false, now(0));
    let due = |tree: &Tree, moved| [0, 1].map(|stream| tree.due(stream, moved));
    let at = |first, second| [Due::At(ms(first)), Due::At(ms(second))];
    assert_eq!(due(&tree, Nanos::ZERO), at(400_000, 450_000));
    tree.cap_idle(Some(ms(300_000)));
    assert_eq!(due(&tree, Nanos::ZERO), at(300_000, 350_000));
    // All timers of the system moved before.
    assert_eq!(due(&tree, ms(150_000)), at(250_000, 300_000));
    assert_eq!(due(&tree, ms(50_000)), at(300_000, 350_000));
    tree.sent(&of, ROOT, now(300_000));
    tree.returned(&of, ROOT, true, now(300_010));
    assert_eq!(tree.due(1, Nanos::ZERO), Due::At(ms(350_000)));
}

#[test]
fn turns_that_wait_for_each_other_are_sent_all_the_same() {
    let mut of = family();
    // Both children wait for each other.
    of[1].turns[0].predecessors = vec![Predecessor { conversation: 2, turn: 0 }];
    of[2].turns[0].predecessors = vec![Predecessor { conversation: 1, turn: 1 }];
    let (mut tree, _) = Tree::begin(&of, 0, now(0));
    for _ in 0..2 {
        tree.sent(&of, ROOT, now(0));
        tree.returned(&of, ROOT, false, now(0));
    }
    assert_eq!(tree.due(1, Nanos::ZERO), Due::At(ms(0)));
    assert_eq!(tree.due(2, Nanos::ZERO), Due::Held(Hold::Barrier));
}
