//! The tree of the prompts of a trace: which of them begin with the same blocks.

use std::collections::HashMap;

use super::trace::HashId;

/// A radix tree of prompts, each a sequence of blocks. A block has the same node in two prompts if
/// all blocks before it are also the same, as in the prefix cache of a server.
#[derive(Debug, Default)]
pub(super) struct PrefixTree {
    /// Number of prompts with each node; the root is not among them.
    prompts: Vec<u64>,
    /// The node of a block after a node.
    nodes: HashMap<(Option<usize>, HashId), usize>,
}

impl PrefixTree {
    /// Adds a prompt. Returns how many of its first blocks earlier prompts have too.
    pub(super) fn insert(&mut self, blocks: &[HashId]) -> usize {
        let mut at = None;
        let mut known = 0;
        for block in blocks {
            let next = self.prompts.len();
            let node = *self.nodes.entry((at, *block)).or_insert(next);
            if node == next {
                self.prompts.push(0);
            } else {
                known += 1;
            }
            self.prompts[node] += 1;
            at = Some(node);
        }
        known
    }

    /// Returns how many of the first blocks of a prompt of the tree another prompt has too.
    pub(super) fn shared(&self, blocks: &[HashId]) -> usize {
        let mut at = None;
        let is_shared = |block: &&HashId| {
            at = self.nodes.get(&(at, **block)).copied();
            at.is_some_and(|node| self.prompts[node] > 1)
        };
        blocks.iter().take_while(is_shared).count()
    }

    /// Returns the number of different prefixes.
    pub(super) fn prefixes(&self) -> u64 {
        self.prompts.len() as u64
    }

    /// Returns the number of first blocks that several prompts have.
    pub(super) fn shared_roots(&self) -> u64 {
        let roots = self.nodes.iter().filter(|((before, _), _)| before.is_none());
        roots.filter(|(_, node)| self.prompts[**node] > 1).count() as u64
    }

    /// Returns the share of blocks of all prompts that belong to a prefix of several prompts, from
    /// 0 to 1; 0 without blocks.
    pub(super) fn reuse(&self) -> f64 {
        let total: u64 = self.prompts.iter().sum();
        let reused: u64 = self.prompts.iter().filter(|prompts| **prompts > 1).sum();
        if total == 0 { 0.0 } else { reused as f64 / total as f64 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tree(prompts: &[Vec<HashId>]) -> PrefixTree {
        let mut tree = PrefixTree::default();
        for prompt in prompts {
            tree.insert(prompt);
        }
        tree
    }

    /// Worked out by hand: the nodes are 1 (3 prompts), 1-2 (2), 1-2-3 (1), 1-4 (1), 5 (1), 5-2 (1).
    #[test]
    fn a_block_is_shared_only_after_the_same_blocks() {
        let prompts = [vec![1, 2, 3], vec![1, 2], vec![1, 4], vec![5, 2]];
        let mut grown = PrefixTree::default();
        let known: Vec<usize> = prompts.iter().map(|prompt| grown.insert(prompt)).collect();
        assert_eq!(known, [0, 2, 1, 0]);
        let shared: Vec<usize> = prompts.iter().map(|prompt| grown.shared(prompt)).collect();
        assert_eq!(shared, [2, 2, 1, 0]);
        assert_eq!((grown.prefixes(), grown.shared_roots()), (6, 1));
        assert!((grown.reuse() - 5.0 / 9.0).abs() < 1e-12);
        assert_eq!(PrefixTree::default().reuse(), 0.0);
    }

    proptest! {
        /// The same figures from a comparison of every two prompts.
        #[test]
        fn the_tree_agrees_with_a_comparison_of_all_pairs(
            prompts in prop::collection::vec(prop::collection::vec(0i128..4, 0..6), 0..8)
        ) {
            let common = |a: &[HashId], b: &[HashId]| {
                a.iter().zip(b).take_while(|(a, b)| a == b).count()
            };
            let tree = tree(&prompts);
            for (index, prompt) in prompts.iter().enumerate() {
                let others = prompts.iter().enumerate().filter(|(other, _)| *other != index);
                let longest = others.map(|(_, other)| common(prompt, other)).max().unwrap_or(0);
                prop_assert_eq!(tree.shared(prompt), longest);
            }
            let prefixes = prompts.iter().flat_map(|p| (1..=p.len()).map(|n| p[..n].to_vec()));
            let distinct: std::collections::HashSet<_> = prefixes.collect();
            prop_assert_eq!(tree.prefixes(), distinct.len() as u64);
        }
    }
}
