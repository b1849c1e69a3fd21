//! The groups of the breakdown by turn: each of the first turns alone, later ones together.

use std::sync::{Arc, LazyLock};

use super::GroupResult;
use crate::metrics::tag::{self, MetricTag};

/// The metrics that the position in a conversation changes, and those that they require.
pub(super) const METRICS: [MetricTag; 11] = [
    tag::REQUEST_COUNT,
    tag::ERROR_REQUEST_COUNT,
    tag::TIME_TO_FIRST_TOKEN,
    tag::REQUEST_LATENCY,
    tag::INPUT_SEQUENCE_LENGTH,
    tag::OUTPUT_SEQUENCE_LENGTH,
    tag::USAGE_PROMPT_TOKENS,
    tag::TOTAL_USAGE_PROMPT_TOKENS,
    tag::USAGE_PROMPT_CACHE_READ_TOKENS,
    tag::TOTAL_USAGE_PROMPT_CACHE_READ_TOKENS,
    tag::OVERALL_USAGE_PROMPT_CACHE_READ_PCT,
];

/// Number of turns with a group of their own.
const ALONE: usize = 16;

/// Number of groups with several turns, without the last.
const DOUBLED: u32 = 6;

/// The name of each group, and the number of turns before its first.
static GROUPS: LazyLock<Vec<(Arc<str>, usize)>> = LazyLock::new(|| {
    let alone = (0..ALONE).map(|before| (Arc::from((before + 1).to_string()), before));
    // Each of the others has twice as many turns as the one before it; the last has all that follow.
    let others = (0..DOUBLED).map(|times| ALONE << times);
    let others = others.map(|before| (format!("{}-{}", before + 1, 2 * before), before));
    let last = ALONE << DOUBLED;
    let others = others.chain([(format!("{}+", last + 1), last)]);
    alone.chain(others.map(|(name, before)| (Arc::from(name), before))).collect()
});

/// Returns the name of the group of a turn with `before` turns before it.
pub(super) fn group(before: usize) -> &'static Arc<str> {
    name(index(before))
}

/// Returns the index of that group, which is lower for earlier turns.
pub(in crate::metrics) fn index(before: usize) -> u32 {
    let after = GROUPS.partition_point(|(_, first)| *first <= before);
    after.saturating_sub(1) as u32
}

/// Returns the name of a group.
pub(in crate::metrics) fn name(index: u32) -> &'static Arc<str> {
    &GROUPS[(index as usize).min(GROUPS.len() - 1)].0
}

/// Returns the groups in the order of their turns; none unless there are several.
pub(super) fn ordered(mut groups: Vec<GroupResult>) -> Vec<GroupResult> {
    groups.sort_by_key(|group| GROUPS.iter().position(|(name, _)| *name == group.name));
    if groups.len() < 2 {
        groups.clear();
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_the_first_turns_is_alone() {
        let names = [0, 1, 15, 16, 31, 32, 63, 64].map(|before| &**group(before));
        assert_eq!(names, ["1", "2", "16", "17-32", "17-32", "33-64", "33-64", "65-128"]);
    }

    #[test]
    fn the_last_group_has_all_further_turns() {
        let names = [1023, 1024, usize::MAX].map(|before| &**group(before));
        assert_eq!(names, ["513-1024", "1025+", "1025+"]);
    }

    #[test]
    fn groups_are_in_the_order_of_their_turns() {
        let empty_group = |name: &str| GroupResult { name: Arc::from(name), results: Vec::new() };
        let ordered = ordered(vec![
            empty_group("10"),
            empty_group("2"),
            empty_group("17-32"),
            empty_group("1"),
        ]);
        let names: Vec<&str> = ordered.iter().map(|group| &*group.name).collect();
        assert_eq!(names, ["1", "2", "10", "17-32"]);
        assert!(super::ordered(vec![empty_group("1")]).is_empty());
    }
}
