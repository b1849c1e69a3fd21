//! Changes the lengths of a trace's prompts, and what they share.
//!
//! The first blocks of a prompt that another prompt has too are its *prefix*, and the rest is its
//! *own part*. Each is multiplied on its own.

use std::collections::HashMap;

use super::prefix_tree::PrefixTree;
use super::trace::HashId;
use crate::lengths::MAX_TOKENS;
use crate::{Seed, Synthesis};

/// A prompt as a trace describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) input_tokens: u32,
    pub(super) hash_ids: Vec<HashId>,
    /// Number of the session that the prompt belongs to.
    pub(super) session: u64,
}

/// Multiplies the prompts of a trace, whose blocks have `block_tokens` tokens.
///
/// A prompt longer than [`MAX_TOKENS`] afterwards loses its blocks, and one without tokens or with
/// more blocks than tokens for them is left as it is; they are rejected when they are generated.
pub(super) fn reshape(
    shapes: &mut [&mut Shape],
    settings: &Synthesis,
    block_tokens: u32,
    seed: Seed,
) {
    let fits = |shape: &Shape| {
        let most = shape.input_tokens.div_ceil(block_tokens) as usize;
        shape.input_tokens > 0 && shape.hash_ids.len() <= most
    };
    let mut tree = PrefixTree::default();
    for shape in shapes.iter().filter(|shape| fits(shape)) {
        tree.insert(&shape.hash_ids);
    }
    let roots = seed.derive("dataset.synthesis.root");
    let mut copies = Copies::default();
    for shape in shapes.iter_mut().filter(|shape| fits(shape)) {
        let prefix = &shape.hash_ids[..tree.shared(&shape.hash_ids)];
        let root = roots.below(shape.session, u64::from(settings.prefix_root_multiplier));
        let plan = Plan::new(shape.input_tokens, prefix.len(), settings, block_tokens);
        let has_blocks = !shape.hash_ids.is_empty();
        let hash_ids = if plan.input_tokens() > u64::from(MAX_TOKENS) {
            Vec::new()
        } else {
            copies.blocks(prefix, &plan, has_blocks, root, settings)
        };
        let input_tokens = u32::try_from(plan.input_tokens()).unwrap_or(u32::MAX);
        **shape = Shape { input_tokens, hash_ids, session: shape.session };
    }
}

/// The new lengths of a prompt.
struct Plan {
    prefix_tokens: u64,
    prefix_blocks: usize,
    own_tokens: u64,
    own_blocks: usize,
}

impl Plan {
    /// Plans a prompt of `input_tokens` whose prefix has `blocks` blocks. The last block of the
    /// prompt may be shorter than the others, and be in the prefix.
    fn new(input_tokens: u32, blocks: usize, settings: &Synthesis, block_tokens: u32) -> Self {
        let (input, block) = (u64::from(input_tokens), u64::from(block_tokens));
        let whole = blocks as u64 * block;
        let prefix = whole.min(input);
        let factor = settings.prefix_len_multiplier;
        let scaled = (copied(blocks, factor) as u64).saturating_mul(block);
        let prefix_tokens = if whole > input {
            // At least one token, as at least one block is kept.
            scaled.min(((prefix as f64 * factor) as u64).max(1))
        } else {
            scaled
        };
        let own = ((input - prefix) as f64 * settings.prompt_len_multiplier) as u64;
        // A request without input would be invalid.
        let own_tokens = if prefix_tokens == 0 { own.max(1) } else { own };
        Self {
            prefix_tokens,
            prefix_blocks: prefix_tokens.div_ceil(block) as usize,
            own_tokens,
            own_blocks: own_tokens.div_ceil(block) as usize,
        }
    }

    const fn input_tokens(&self) -> u64 {
        self.prefix_tokens.saturating_add(self.own_tokens)
    }
}

/// Returns the number of blocks that the first `blocks` blocks of a prefix become. Prompts with the
/// same blocks so far have the same copies of them, so that they share as much as before, times
/// `factor`.
fn copied(blocks: usize, factor: f64) -> usize {
    match blocks as f64 * factor {
        _ if blocks == 0 => 0,
        scaled if factor < 1.0 => (scaled as usize).max(1),
        scaled => scaled.ceil() as usize,
    }
}

/// The new identifiers of blocks.
#[derive(Default)]
struct Copies {
    /// The identifier of a copy: tree, block, number of the copy.
    known: HashMap<(u64, HashId, usize), HashId>,
    next: HashId,
}

impl Copies {
    fn blocks(
        &mut self,
        prefix: &[HashId],
        plan: &Plan,
        has_blocks: bool,
        root: u64,
        settings: &Synthesis,
    ) -> Vec<HashId> {
        let mut blocks = Vec::with_capacity(plan.prefix_blocks + plan.own_blocks);
        // A shorter prefix has the first blocks of the longer one.
        let factor = settings.prefix_len_multiplier.max(1.0);
        'prefix: for (index, block) in prefix.iter().enumerate() {
            for copy in 0..copied(index + 1, factor) - copied(index, factor) {
                if blocks.len() == plan.prefix_blocks {
                    break 'prefix;
                }
                let next = &mut self.next;
                blocks.push(*self.known.entry((root, *block, copy)).or_insert_with(|| new(next)));
            }
        }
        if has_blocks {
            blocks.extend((0..plan.own_blocks).map(|_| new(&mut self.next)));
        }
        blocks
    }
}

const fn new(next: &mut HashId) -> HashId {
    *next += 1;
    *next - 1
}

#[cfg(test)]
mod tests;
