//! How many conversations a session may start.

use std::collections::HashSet;

use super::Conversation;

/// Number of conversations that a session may start even if it starts the same ones many times. Each
/// takes memory while the session is sent.
const MAX_STARTED: u64 = 10_000;

/// Checks the sizes of the trees of `conversations`. Several conversations may start the same one, which
/// is then sent as often, so that a small file could have a tree of any size.
///
/// # Errors
///
/// Returns the place of a conversation that starts too many, and the reason.
pub(super) fn check(conversations: &[Conversation]) -> Result<(), (usize, String)> {
    if conversations.iter().all(|it| it.branches.is_empty()) {
        return Ok(());
    }
    let sizes = sizes(conversations);
    let roots = conversations.iter().enumerate().filter(|(_, it)| !it.is_child);
    for (root, conversation) in roots {
        // A tree without repetitions is as large as the file makes it.
        if sizes[root] > MAX_STARTED && sizes[root] > tree(conversations, root).len() as u64 {
            let why = format!(
                "{:?} starts more than {MAX_STARTED} conversations, directly or not, most of them \
                 repeatedly; start them at fewer places",
                conversation.id
            );
            return Err((root, why));
        }
    }
    Ok(())
}

/// Returns the number of conversations of the tree of each, as often as they are started.
fn sizes(conversations: &[Conversation]) -> Vec<u64> {
    const UNKNOWN: u64 = 0;
    let mut sizes = vec![UNKNOWN; conversations.len()];
    for start in 0..conversations.len() {
        // Conversations whose branches are being counted, and the next one of these.
        let mut open = vec![(start, 0)];
        let mut is_open: HashSet<usize> = HashSet::from([start]);
        while let Some((at, nth)) = open.last_mut() {
            let at = *at;
            if sizes[at] != UNKNOWN {
                is_open.remove(&at);
                open.pop();
                continue;
            }
            let branches = &conversations[at].branches;
            if let Some(branch) = branches.get(*nth) {
                *nth += 1;
                let child = branch.conversation;
                if child < conversations.len() && is_open.insert(child) {
                    open.push((child, 0));
                } else if sizes.get(child) == Some(&UNKNOWN) {
                    // It starts itself.
                    sizes[child] = u64::MAX;
                }
                continue;
            }
            let of_child = |size: u64, child: usize| {
                size.saturating_add(sizes.get(child).copied().unwrap_or_default())
            };
            sizes[at] = branches.iter().map(|it| it.conversation).fold(1, of_child);
        }
    }
    sizes
}

/// Returns the conversation `root` and those that it starts, directly or not, each once.
pub(super) fn tree(conversations: &[Conversation], root: usize) -> Vec<usize> {
    let mut tree = vec![root];
    let mut known = HashSet::from([root]);
    let mut next = 0;
    while let Some(at) = tree.get(next).copied() {
        next += 1;
        let started = conversations[at].branches.iter().map(|branch| branch.conversation);
        tree.extend(started.filter(|at| known.insert(*at)));
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Branch, BranchStart};

    /// Conversations that start those after them: `starts[i]` has the places of those of `i`.
    fn starting(starts: &[&[usize]]) -> Vec<Conversation> {
        let branch = |conversation: &usize| Branch {
            conversation: *conversation,
            after: Some(0),
            from: BranchStart::Response,
            join: None,
            is_fork: false,
        };
        let conversation = |(at, own): (usize, &&[usize])| Conversation {
            id: format!("c{at}").into(),
            branches: own.iter().map(branch).collect(),
            is_child: at > 0,
            ..Conversation::default()
        };
        starts.iter().enumerate().map(conversation).collect()
    }

    /// Worked out by hand: 3 is alone, 2 starts it twice, 1 starts 2 and 3, 0 starts 1 and 2.
    #[test]
    fn a_conversation_counts_as_often_as_it_is_started() {
        let all = starting(&[&[1, 2], &[2, 3], &[3, 3], &[]]);
        assert_eq!(sizes(&all), [9, 5, 3, 1]);
        assert_eq!(tree(&all, 0), [0, 1, 2, 3]);
        assert_eq!(check(&all), Ok(()));
    }

    #[test]
    fn trees_that_grow_exponentially_are_rejected_and_long_ones_are_not() {
        let doubled = |levels: usize| {
            let starts: Vec<Vec<usize>> = (1..=levels).map(|next| vec![next, next]).collect();
            let mut starts: Vec<&[usize]> = starts.iter().map(Vec::as_slice).collect();
            starts.push(&[]);
            check(&starting(&starts))
        };
        assert_eq!(doubled(12), Ok(()));
        // 2^31 - 1 conversations, and more than fit into 64 bits.
        for levels in [30, 100] {
            let (root, why) = doubled(levels).unwrap_err();
            assert_eq!(root, 0);
            assert!(why.contains("\"c0\" starts more than 10000 conversations"), "{why}");
        }
        let long: Vec<Vec<usize>> = (1..=30_000).map(|next| vec![next]).collect();
        let mut long: Vec<&[usize]> = long.iter().map(Vec::as_slice).collect();
        long.push(&[]);
        assert_eq!(check(&starting(&long)), Ok(()));
    }

    #[test]
    fn a_conversation_that_starts_itself_is_rejected() {
        assert!(check(&starting(&[&[1], &[2], &[1]])).is_err());
    }
}
