use proptest::prelude::*;

use super::*;
use std::cmp::Reverse;

/// A request: start, input tokens, duration, blocks.
type Row<'a> = (f64, u32, f64, &'a [i64]);

fn recorded<'a>(rows: &[Row<'a>], output: u32) -> Vec<Recorded<'a>> {
    let recorded = |&(start, input, api, blocks): &Row<'a>| Recorded {
        start,
        end: start + api,
        input,
        output,
        model: "m",
        blocks,
    };
    rows.iter().map(recorded).collect()
}

fn named(chains: &[Chain]) -> Vec<(String, Vec<usize>)> {
    chains.iter().map(|chain| (chain.role.to_string(), chain.requests.clone())).collect()
}

fn expected(chains: &[(&str, &[usize])]) -> Vec<(String, Vec<usize>)> {
    chains.iter().map(|(name, requests)| ((*name).to_owned(), requests.to_vec())).collect()
}

/// The values of this test and the next two are those of AIPerf's own functions.
#[test]
fn a_prompt_that_leaves_the_last_one_while_it_is_answered_is_of_a_sub_agent() {
    let rows: &[Row<'_>] = &[
        (0.0, 256, 2.0, &[1, 2, 3, 4]),
        (3.0, 320, 10.0, &[1, 2, 3, 4, 5]),
        (4.0, 192, 1.0, &[1, 2, 9]),
        (6.0, 256, 1.0, &[1, 2, 9, 10]),
        (20.0, 384, 1.0, &[1, 2, 3, 4, 5, 6]),
    ];
    let chains = split(&recorded(rows, 100));
    assert_eq!(named(&chains), expected(&[("", &[0, 1, 4]), ("fa:000", &[2, 3])]));
}

#[test]
fn a_prompt_that_leaves_the_last_one_afterwards_continues_it() {
    let rows = |last: f64| -> Vec<Row<'static>> {
        vec![
            (0.0, 256, 2.0, &[1, 2, 3, 4]),
            (3.0, 320, 1.0, &[1, 2, 3, 4, 5]),
            (last, 192, 1.0, &[1, 2, 9]),
        ]
    };
    let chains = split(&recorded(&rows(10.0), 100));
    assert_eq!(named(&chains), expected(&[("", &[0, 1, 2])]));
    // After more than an hour, with less than half in common.
    let chains = split(&recorded(&rows(4000.0), 100));
    assert_eq!(named(&chains), expected(&[("", &[0, 1]), ("aux:000", &[2])]));
}

#[test]
fn three_sub_agents_beside_each_other_are_a_group() {
    let rows: &[Row<'_>] = &[
        (0.0, 256, 2.0, &[1, 2, 3, 4]),
        (3.0, 20_000, 5.0, &[1, 2, 20]),
        (3.0, 20_000, 5.0, &[1, 2, 21]),
        (3.0, 20_000, 5.0, &[1, 2, 22]),
        (20.0, 320, 1.0, &[1, 2, 3, 4, 5]),
    ];
    let group =
        [("", &[0, 4][..]), ("wg:000_000", &[1]), ("wg:000_001", &[2]), ("wg:000_002", &[3])];
    assert_eq!(named(&split(&recorded(rows, 5000))), expected(&group));
    let reductions = [("", &[0, 4][..]), ("aux:000", &[1]), ("aux:001", &[2]), ("aux:002", &[3])];
    assert_eq!(named(&split(&recorded(rows, 10))), expected(&reductions));
}

#[test]
fn a_first_request_that_nothing_repeats_belongs_to_the_agent() {
    let rows: &[Row<'_>] = &[
        (0.0, 64, 1.0, &[99]),
        (2.0, 128, 1.0, &[1, 2]),
        (4.0, 192, 1.0, &[1, 2, 3]),
        (5.0, 10, 1.0, &[]),
    ];
    assert_eq!(named(&split(&recorded(rows, 64))), expected(&[("", &[0, 1, 2, 3])]));
    // A longer one is a chain of its own if a block of it occurs elsewhere.
    let mut rows = rows.to_vec();
    rows[2].3 = &[1, 2, 99];
    let chains = split(&recorded(&rows, 65));
    assert_eq!(named(&chains), expected(&[("", &[0, 3]), ("fa:000", &[1, 2])]));
    assert_eq!(split(&[]), [Chain { requests: vec![], role: Role::Main }]);
}

#[test]
fn another_model_is_another_agent() {
    let mut requests = recorded(&[(0.0, 64, 1.0, &[1]), (2.0, 128, 1.0, &[1, 2])], 100);
    requests[1].model = "small";
    assert_eq!(named(&split(&requests)), expected(&[("", &[0]), ("aux:000", &[1])]));
}

// The rules as they are defined, in a time that grows with the square of the requests.

/// Adds the request `at` to the chain that it continues, or to a new one.
fn add(requests: &[Recorded<'_>], chains: &mut Vec<Growing>, at: usize) {
    let own = &requests[at];
    let is_continued = |chain: &Growing| {
        let tail = &requests[chain.tail];
        own.blocks.starts_with(tail.blocks)
            && tail.model == own.model
            && tail.end <= own.start + SAME_TIME
    };
    let length = |chain: &Growing| requests[chain.tail].blocks.len();
    let continued = chains.iter_mut().enumerate().filter(|(_, chain)| is_continued(chain));
    if let Some((_, chain)) = continued.max_by_key(|(nth, chain)| (length(chain), Reverse(*nth))) {
        chain.requests.push(at);
        chain.tail = at;
        return;
    }
    let depths = chains.iter().enumerate().map(|(nth, chain)| {
        (common(own.blocks, requests[chain.tail].blocks), length(chain), Reverse(nth), chain.tail)
    });
    let fork = depths.max().filter(|(depth, ..)| *depth > 0);
    let fork = fork.map(|(depth, _, _, tail)| (tail, depth));
    chains.push(Growing { requests: vec![at], tail: at, fork });
}

/// If the request `at` is the last one of its chain, appends the chain that continues it with a
/// shortened history, if there is one.
fn splice(requests: &[Recorded<'_>], chains: &mut Vec<Growing>, at: usize) {
    let Some(chain) = chains.iter().position(|chain| chain.tail == at) else { return };
    let tail = &requests[at];
    let depth =
        |other: &Growing| other.fork.filter(|(from, _)| *from == at).map(|(_, depth)| depth);
    let continues = |(nth, other): (usize, &Growing)| {
        let depth = depth(other)?;
        let first = &requests[other.requests[0]];
        let gap = first.start - tail.end;
        let is_unlike = gap > LONG_GAP && 2 * depth < tail.blocks.len();
        let follows = gap >= -SAME_TIME && first.model == tail.model && !is_unlike;
        follows.then_some((depth, first.start, nth))
    };
    let best = chains.iter().enumerate().filter_map(continues).max_by(|a, b| {
        // The deepest, then the earliest, then the first.
        a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)).then(b.2.cmp(&a.2))
    });
    let Some((_, _, elected)) = best else { return };
    // A chain is before those that fork from it.
    let elected = chains.remove(elected);
    for other in chains.iter_mut() {
        if let Some((from, _)) = &mut other.fork
            && *from == at
        {
            *from = elected.tail;
        }
    }
    chains[chain].requests.extend(elected.requests);
    chains[chain].tail = elected.tail;
}

/// Returns how many blocks two prompts have in common from their beginning.
fn common(one: &[i64], other: &[i64]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Returns the requests of these rows.
fn of_rows(rows: &[(u8, u8, Vec<i64>, u8)]) -> Vec<Recorded<'_>> {
    let models = ["a", "b"];
    let rows = rows.iter().map(|(start, api, blocks, model)| Recorded {
        start: f64::from(*start) * 1000.0,
        end: f64::from(*start) * 1000.0 + f64::from(*api) * 500.0,
        input: 64,
        output: 70,
        model: models[usize::from(*model)],
        blocks,
    });
    rows.collect()
}

proptest! {
    /// Each request is in one chain, in the order of the starts, and the first one is the agent's.
    #[test]
    fn chains_are_a_partition(
        rows in prop::collection::vec(
            (0u8..20, 0u8..6, prop::collection::vec(0i64..4, 0..5), 0u8..2), 1..30)
    ) {
        let models = ["a", "b"];
        let requests: Vec<Recorded<'_>> = rows.iter().map(|(start, api, blocks, model)| Recorded {
            start: f64::from(*start),
            end: f64::from(start + api),
            input: 64,
            output: 70,
            model: models[usize::from(*model)],
            blocks,
        }).collect();
        let chains = split(&requests);
        let mut all: Vec<usize> = chains.iter().flat_map(|chain| chain.requests.clone()).collect();
        for chain in &chains {
            let starts: Vec<u8> = chain.requests.iter().map(|at| rows[*at].0).collect();
            prop_assert!(starts.is_sorted(), "{starts:?}");
        }
        let first = (0..rows.len()).min_by_key(|at| (rows[*at].0, *at)).unwrap();
        if !rows[first].2.is_empty() {
            prop_assert_eq!(chains[0].requests[0], first);
        }
        all.sort_unstable();
        prop_assert_eq!(all, (0..rows.len()).collect::<Vec<_>>());
    }

    /// Against the definition.
    #[test]
    fn chains_are_those_of_the_definition(
        rows in prop::collection::vec(
            (0u8..30, 0u8..8, prop::collection::vec(0i64..3, 1..6), 0u8..2), 1..40)
    ) {
        let requests = of_rows(&rows);
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.sort_by(|a, b| requests[*a].start.total_cmp(&requests[*b].start));
        let mut defined: Vec<Growing> = Vec::new();
        for at in &order {
            add(&requests, &mut defined, *at);
        }
        let fast = grown(&requests, order.iter().copied());
        prop_assert_eq!(&fast, &defined);
        for at in &order {
            splice(&requests, &mut defined, *at);
        }
        prop_assert_eq!(spliced(&requests, fast, &order), defined);
    }
}
