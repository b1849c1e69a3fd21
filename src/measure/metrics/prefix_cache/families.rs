//! The prompts that begin alike, such as those with the same system message.

use std::collections::HashMap;

use super::{BLOCK_BYTES, PromptBlocks, Sums};

/// Maximum number of families; further prompts are in none.
const MAX_FAMILIES: usize = 1024;

/// Maximum number of blocks of which it is known whether all prompts of a family have them.
const MAX_COMMON: usize = 1024;

/// Number of characters of the text that is shown.
const SHOWN: usize = 40;

/// The families, by the first block of their prompts.
#[derive(Debug, Default)]
pub(super) struct Families {
    by_first: HashMap<u64, u32>,
    families: Vec<Family>,
}

/// The prompts with the same first block.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) sums: Sums,
    /// The prefixes that all prompts have, the shortest first.
    common: Vec<u64>,
    /// The beginning of their text.
    pub(super) starts_with: String,
}

impl Families {
    /// Adds a prompt. Returns the number of its family, from 1; 0 if it is in none.
    pub(super) fn add(&mut self, prompt: &PromptBlocks, sums: &Sums) -> u32 {
        let Some(first) = prompt.own().first() else { return 0 };
        let at = match self.by_first.get(first) {
            Some(at) => *at,
            None if self.families.len() == MAX_FAMILIES => return 0,
            None => {
                let text = String::from_utf8_lossy(&prompt.text[..BLOCK_BYTES]);
                self.families.push(Family {
                    sums: Sums::default(),
                    common: prompt.own().iter().take(MAX_COMMON).copied().collect(),
                    starts_with: text.chars().take(SHOWN).collect(),
                });
                let at = self.families.len() as u32;
                self.by_first.insert(*first, at);
                at
            }
        };
        let family = &mut self.families[at as usize - 1];
        family.sums.add(sums);
        let common = family.common.iter().zip(prompt.own()).take_while(|(a, b)| a == b).count();
        family.common.truncate(common);
        at
    }

    /// Returns the families of several prompts, each with its number.
    pub(super) fn several(&self) -> impl Iterator<Item = (u32, &Family)> {
        (1..).zip(&self.families).filter(|(_, family)| family.sums.requests > 1)
    }
}

impl Family {
    /// Returns the number of bytes that all prompts begin with, in whole blocks.
    pub(super) const fn common_bytes(&self) -> u64 {
        (self.common.len() * BLOCK_BYTES) as u64
    }
}
