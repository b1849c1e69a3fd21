//! Common parts of the trace formats: prompts of a given length, and limits.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use serde_json::value::RawValue;

use super::{Fault, json_reason};
use crate::dataset::lengths::MAX_TOKENS;
use crate::dataset::words::Words;
use crate::dataset::{Seed, Text, TraceSettings};
use crate::tokenizer::TokenCounter;
use crate::units::Nanos;

/// Identifier of a block of a prompt; equal identifiers have the same text.
pub(super) type HashId = i128;

/// Generates the prompts that a trace describes, and collects remarks about it.
pub(super) struct Trace<'a> {
    counter: &'a TokenCounter,
    seed: Seed,
    /// Created for the first prompt, since a trace may contain texts instead.
    words: Option<Words>,
    block_tokens: u32,
    max_input_tokens: Option<u32>,
    max_output_tokens: Option<u32>,
    /// Numbers of the blocks with a hash ID.
    blocks: HashMap<HashId, u64>,
    next_block: u64,
    remarks: Remarks,
}

/// A prompt and its tokens, which are `None` if they must be counted.
pub(super) struct Prompt {
    pub(super) text: Text,
    pub(super) tokens: Option<u64>,
}

#[derive(Default)]
struct Remarks {
    too_long: u64,
    failed: u64,
    capped: u64,
    uncovered: u64,
    ignored: BTreeSet<String>,
}

impl<'a> Trace<'a> {
    /// Creates a generator of prompts whose blocks have `block_tokens` tokens unless the settings
    /// specify another size.
    pub(super) fn new(
        settings: &TraceSettings,
        block_tokens: u32,
        counter: &'a TokenCounter,
        seed: Seed,
    ) -> Result<Self, Fault> {
        let block_tokens = settings.block_tokens.unwrap_or(block_tokens);
        if !(1..=MAX_TOKENS).contains(&block_tokens) {
            let reason = format!("must be between 1 and {MAX_TOKENS} tokens, got {block_tokens}");
            return Err(Fault::Setting("--isl-block-size", reason));
        }
        Ok(Self {
            counter,
            seed,
            words: None,
            block_tokens,
            max_input_tokens: settings.max_input_tokens,
            max_output_tokens: settings.max_output_tokens,
            blocks: HashMap::new(),
            next_block: 0,
            remarks: Remarks::default(),
        })
    }

    /// Returns whether a prompt of this length is accepted; a rejected one is counted.
    pub(super) fn admits(&mut self, input_tokens: u32) -> bool {
        let admits = self.max_input_tokens.is_none_or(|most| input_tokens <= most);
        self.remarks.too_long += u64::from(!admits);
        admits
    }

    /// Counts a request that failed when the trace was recorded.
    pub(super) fn leave_out_failed(&mut self) {
        self.remarks.failed += 1;
    }

    /// Returns the output tokens to request, limited to the configured maximum.
    pub(super) fn output_tokens(&mut self, tokens: u32) -> Result<u32, String> {
        if tokens == 0 {
            return Err("the number of output tokens must be at least 1".to_owned());
        }
        let capped = self.max_output_tokens.map_or(tokens, |most| tokens.min(most));
        self.remarks.capped += u64::from(capped < tokens);
        Ok(capped)
    }

    /// Records the members of a line that are in neither list. Rejects members that would change
    /// the request and are not supported.
    pub(super) fn check_members(
        &mut self,
        line: &str,
        known: &[&str],
        unsupported: &[&str],
    ) -> Result<(), String> {
        let members: BTreeMap<String, &RawValue> =
            serde_json::from_str(line).map_err(|error| json_reason(&error))?;
        for name in members.into_keys() {
            if unsupported.contains(&name.as_str()) {
                return Err(format!(
                    "`{name}` is not supported yet; supported fields are {}",
                    known.join(", ")
                ));
            }
            if !known.contains(&name.as_str()) {
                self.remarks.ignored.insert(name);
            }
        }
        Ok(())
    }

    /// Generates a prompt of `input_tokens` tokens: a block for each of `hash_ids`, the last one
    /// cut to the length, and unique text for the rest.
    pub(super) fn prompt(
        &mut self,
        input_tokens: u32,
        hash_ids: &[HashId],
    ) -> Result<Prompt, String> {
        if !(1..=MAX_TOKENS).contains(&input_tokens) {
            return Err(format!(
                "the number of input tokens must be between 1 and {MAX_TOKENS}, got {input_tokens}"
            ));
        }
        if hash_ids.len() > input_tokens.div_ceil(self.block_tokens) as usize {
            return Err(format!(
                "{} blocks of {} tokens exceed the {input_tokens} input tokens; \
                 set the number of tokens in a block with --isl-block-size",
                hash_ids.len(),
                self.block_tokens
            ));
        }
        let blocks = self.blocks_of(input_tokens, hash_ids);
        let words = match &mut self.words {
            Some(words) => words,
            none => none.insert(Words::new(self.counter, self.seed)?),
        };
        let mut pieces = Vec::new();
        let written: u32 =
            blocks.iter().map(|(block, tokens)| words.write(*block, *tokens, &mut pieces)).sum();
        // Chat templates strip leading space.
        if let Some(first) = pieces.first_mut() {
            *first = first.trim_start();
        }
        let tokens = words.adds_up().then_some(u64::from(written));
        Ok(Prompt { text: Text::joined(&pieces), tokens })
    }

    /// Returns the numbers of the blocks of a prompt, each with its tokens.
    fn blocks_of(&mut self, input_tokens: u32, hash_ids: &[HashId]) -> Vec<(u64, u32)> {
        let mut left = input_tokens;
        let mut blocks = Vec::with_capacity(hash_ids.len() + 1);
        for id in hash_ids {
            let tokens = left.min(self.block_tokens);
            blocks.push((self.block(*id), tokens));
            left -= tokens;
        }
        if left > 0 {
            self.remarks.uncovered += u64::from(!hash_ids.is_empty());
            blocks.push((self.new_block(), left));
        }
        blocks
    }

    fn block(&mut self, id: HashId) -> u64 {
        if let Some(block) = self.blocks.get(&id) {
            return *block;
        }
        let block = self.new_block();
        self.blocks.insert(id, block);
        block
    }

    fn new_block(&mut self) -> u64 {
        self.next_block += 1;
        self.next_block - 1
    }

    /// Returns a note on what was left out, changed or ignored; empty if there was nothing.
    pub(super) fn note(&self) -> String {
        let Remarks { too_long, failed, capped, uncovered, ignored } = &self.remarks;
        let names: Vec<String> = ignored.iter().map(|name| format!("`{name}`")).collect();
        let mut note = String::new();
        let mut say = |count: usize, what: &str| {
            if count > 0 {
                // Writing to a string cannot fail.
                let _ = write!(note, "{} {count} {what}", if note.is_empty() { ":" } else { "," });
            }
        };
        say(*too_long as usize, "skipped because longer than --synthesis-max-isl");
        say(*failed as usize, "skipped because failed, without tokens");
        say(*capped as usize, "capped to --synthesis-max-osl");
        say(*uncovered as usize, "longer than their hash_ids, with unique text for the rest");
        say(names.len(), &format!("ignored fields ({})", names.join(", ")));
        note
    }
}

/// Converts a time in `unit`s to an instant on the time axis of a trace.
pub(super) fn instant(value: f64, unit: TimeUnit) -> Result<Nanos, String> {
    let (nanos, word) = match unit {
        TimeUnit::Seconds => (value * 1e9, "s"),
        TimeUnit::Milliseconds => (value * 1e6, "ms"),
    };
    // Later instants are beyond any trace, and their sums would overflow.
    if (0.0..=9.2e18).contains(&nanos) {
        Ok(Nanos(nanos.round() as u64))
    } else {
        Err(format!("the timestamp must be at least 0, got {value} {word}"))
    }
}

/// Unit of a timestamp.
#[derive(Clone, Copy)]
pub(super) enum TimeUnit {
    Seconds,
    Milliseconds,
}

#[cfg(test)]
mod tests;
