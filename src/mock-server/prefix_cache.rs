//! The simulated prefix cache: which of a prompt's first tokens the server has seen before.
//!
//! It works as vLLM's does. Prompts are cut into blocks of tokens. A block is found only if all blocks
//! before it are found. Only whole blocks are kept, and the last token of a prompt is always computed,
//! since the first output token follows from it. The block that was used the longest time ago is evicted
//! first, and of blocks that were last used together the one that is farthest from the start of the
//! prompt.

use std::collections::{BTreeMap, HashMap};

/// The size of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixCacheSize {
    /// Number of tokens of a block; at least 1.
    pub block_tokens: usize,
    /// Number of blocks that the cache can hold; at least 1.
    pub blocks: usize,
}

/// The blocks that the server has in its cache.
#[derive(Debug)]
pub(super) struct PrefixCache {
    size: PrefixCacheSize,
    /// The ID and last use of each block, by the ID of the block before it and its own tokens.
    blocks: HashMap<Key, Block>,
    /// The blocks in the order of their last use.
    uses: BTreeMap<u64, Key>,
    /// Number of IDs and uses so far.
    ids: u64,
    clock: u64,
}

/// A block: the ID of the one before it, 0 for none, and its tokens.
type Key = (u64, Box<[u32]>);

#[derive(Debug, Clone, Copy)]
struct Block {
    id: u64,
    used: u64,
}

impl PrefixCache {
    pub(super) fn new(size: PrefixCacheSize) -> Self {
        Self { size, blocks: HashMap::new(), uses: BTreeMap::new(), ids: 0, clock: 0 }
    }

    /// Looks a prompt up and keeps its blocks. Returns how many of its first tokens were cached.
    pub(super) fn admit(&mut self, prompt: &[u32]) -> u64 {
        let size = self.size.block_tokens;
        let mut known = 0;
        let mut before = 0;
        let mut path = Vec::new();
        for tokens in prompt.chunks_exact(size).take(self.size.blocks) {
            let key = (before, Box::from(tokens));
            before = if let Some(block) = self.blocks.get(&key) {
                known += 1;
                block.id
            } else {
                self.ids += 1;
                self.blocks.insert(key.clone(), Block { id: self.ids, used: 0 });
                self.ids
            };
            path.push(key);
        }
        for key in path.into_iter().rev() {
            self.touch(key);
        }
        self.evict();
        let most = prompt.len().saturating_sub(1) / size;
        (known.min(most) * size) as u64
    }

    /// Removes all blocks.
    pub(super) fn reset(&mut self) {
        self.blocks.clear();
        self.uses.clear();
    }

    fn touch(&mut self, key: Key) {
        self.clock += 1;
        if let Some(block) = self.blocks.get_mut(&key) {
            self.uses.remove(&block.used);
            block.used = self.clock;
            self.uses.insert(self.clock, key);
        }
    }

    fn evict(&mut self) {
        while self.blocks.len() > self.size.blocks {
            let Some((_, key)) = self.uses.pop_first() else { return };
            self.blocks.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cache(block_tokens: usize, blocks: usize) -> PrefixCache {
        PrefixCache::new(PrefixCacheSize { block_tokens, blocks })
    }

    #[test]
    fn whole_blocks_from_the_start_are_found() {
        let mut cache = cache(2, 100);
        assert_eq!(cache.admit(&[1, 2, 3, 4, 5]), 0);
        // The last token is always computed.
        assert_eq!(cache.admit(&[1, 2, 3, 4]), 2);
        assert_eq!(cache.admit(&[1, 2, 3, 4, 9]), 4);
        // The second block is known, but not after this first one.
        assert_eq!(cache.admit(&[7, 8, 3, 4, 5]), 0);
        // The third block of the first prompt was not whole.
        assert_eq!(cache.admit(&[1, 2, 3, 4, 5, 6, 7]), 4);
        assert_eq!(cache.admit(&[1, 2, 3, 4, 5, 6, 7]), 6);
        assert_eq!(cache.admit(&[]), 0);
        cache.reset();
        assert_eq!(cache.admit(&[1, 2, 3, 4, 5]), 0);
    }

    #[test]
    fn the_end_of_the_least_recent_prompt_is_evicted_first() {
        let mut cache = cache(1, 4);
        cache.admit(&[1, 2, 3]);
        // Evicts the 3 of the first prompt.
        cache.admit(&[8, 9]);
        assert_eq!(cache.admit(&[1, 2, 3, 0]), 2);
        // That prompt filled the cache with its four blocks.
        assert_eq!(cache.admit(&[8, 9, 0]), 0);
    }

    /// The blocks as whole prefixes, the most recently used first.
    struct Slow {
        size: PrefixCacheSize,
        prefixes: Vec<Vec<u32>>,
    }

    impl Slow {
        fn admit(&mut self, prompt: &[u32]) -> u64 {
            let size = self.size.block_tokens;
            let ends = (1..=(prompt.len() / size).min(self.size.blocks)).map(|n| n * size);
            let all: Vec<Vec<u32>> = ends.map(|end| prompt[..end].to_vec()).collect();
            let known = all.iter().take_while(|prefix| self.prefixes.contains(prefix));
            let longest = known.map(Vec::len).max().unwrap_or(0);
            self.prefixes.retain(|prefix| !all.contains(prefix));
            self.prefixes.splice(0..0, all);
            self.prefixes.truncate(self.size.blocks);
            let most = (0..prompt.len()).filter(|end| end % size == 0).max().unwrap_or(0);
            longest.min(most) as u64
        }
    }

    proptest! {
        #[test]
        fn it_finds_what_a_list_of_prefixes_has(
            block_tokens in 1..4usize,
            blocks in 1..12usize,
            prompts in prop::collection::vec(prop::collection::vec(0..2u32, 0..14), 0..40),
        ) {
            let size = PrefixCacheSize { block_tokens, blocks };
            let (mut cache, mut slow) =
                (PrefixCache::new(size), Slow { size, prefixes: Vec::new() });
            for prompt in &prompts {
                prop_assert_eq!(cache.admit(prompt), slow.admit(prompt));
                prop_assert!(cache.blocks.len() <= blocks);
                prop_assert_eq!(cache.blocks.len(), cache.uses.len());
            }
        }
    }
}
