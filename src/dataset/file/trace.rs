//! Common parts of the trace formats: prompts of a given length, and limits.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use chrono::{NaiveDate, NaiveDateTime, NaiveTime};
use serde_json::value::RawValue;

use base::units::{Nanos, wall};
use tokens::tokenizer::TokenCounter;

use super::synthesis::{self, Shape};
use super::{Fault, Loaded, json_reason};
use crate::account::{Conversations, LeftOut};
use crate::lengths::MAX_TOKENS;
use crate::words::Words;
use crate::{Conversation, Seed, Synthesis, Text, TraceSettings};
use std::sync::Arc;

/// Identifier of a block of a prompt; equal identifiers have the same text.
pub(super) type HashId = i128;

/// Generates the prompts that a trace describes, and collects remarks about it.
pub(super) struct Trace<'a> {
    counter: &'a TokenCounter,
    seed: Seed,
    corpus: &'static str,
    /// Created for the first prompt, since a trace may contain texts instead.
    words: Option<Arc<Words>>,
    block_tokens: u32,
    block_origin: BlockOrigin,
    max_input_tokens: Option<u32>,
    max_output_tokens: Option<u32>,
    synthesis: Synthesis,
    /// Numbers of the blocks with a hash ID.
    blocks: HashMap<HashId, u64>,
    next_block: u64,
    /// Requests that no conversation has, by reason.
    left_out: Vec<(LeftOut, u64)>,
    remarks: Remarks,
}

/// A prompt and its tokens, which are `None` if they must be counted.
pub(super) struct Prompt {
    pub(super) text: Text,
    pub(super) tokens: Option<u64>,
}

/// Where the number of tokens in a block is from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockOrigin {
    Settings,
    Format,
    File,
}

#[derive(Default)]
struct Remarks {
    capped: u64,
    cut: u64,
    literal: u64,
    uncovered: u64,
    ignored: BTreeSet<String>,
    /// Further remarks, in their order.
    further: Vec<(u64, String)>,
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
        let block_origin = match settings.block_tokens {
            Some(_) => BlockOrigin::Settings,
            None => BlockOrigin::Format,
        };
        let block_tokens = settings.block_tokens.unwrap_or(block_tokens);
        if !(1..=MAX_TOKENS).contains(&block_tokens) {
            let reason = format!("must be between 1 and {MAX_TOKENS} tokens, got {block_tokens}");
            return Err(Fault::Setting("--isl-block-size", reason));
        }
        let corpus = settings.corpus.unwrap_or_default();
        let Some(corpus) = corpus.text() else {
            let reason = "the blocks of a trace are made of words; use prose, sonnet or coding";
            return Err(Fault::Setting("--prompt-corpus", reason.to_owned()));
        };
        Ok(Self {
            counter,
            seed,
            corpus,
            words: None,
            block_tokens,
            block_origin,
            max_input_tokens: settings.max_input_tokens,
            max_output_tokens: settings.max_output_tokens,
            synthesis: settings.synthesis,
            blocks: HashMap::new(),
            next_block: 0,
            left_out: Vec::new(),
            remarks: Remarks::default(),
        })
    }

    /// Sets the number of tokens in a block to that of the file, unless it is a setting, and returns it.
    ///
    /// # Errors
    ///
    /// Fails if it is 0, or not the same in all parts of a trace whose prompts are changed.
    pub(super) fn use_block(&mut self, tokens: u32) -> Result<u32, String> {
        if !(1..=MAX_TOKENS).contains(&tokens) {
            return Err(format!("`block_size` must be at least 1 and at most {MAX_TOKENS}"));
        }
        match self.block_origin {
            BlockOrigin::Settings => {}
            BlockOrigin::File if tokens != self.block_tokens && self.changes_prompts() => {
                return Err(format!(
                    "its blocks have {tokens} tokens, but those before {} tokens; use one \
                     --isl-block-size",
                    self.block_tokens
                ));
            }
            BlockOrigin::Format | BlockOrigin::File => {
                (self.block_tokens, self.block_origin) = (tokens, BlockOrigin::File);
            }
        }
        Ok(self.block_tokens)
    }

    /// Returns whether [`Self::reshape`] changes prompts.
    pub(super) const fn changes_prompts(&self) -> bool {
        self.synthesis.changes_prompts()
    }

    /// Returns whether a prompt of this length is accepted; a rejected one is counted.
    pub(super) fn admits(&mut self, input_tokens: u32) -> bool {
        let admits = self.max_input_tokens.is_none_or(|most| input_tokens <= most);
        self.leave_out(LeftOut::MaxInput, u64::from(!admits));
        admits
    }

    /// Counts requests that are left out.
    pub(super) fn leave_out(&mut self, why: LeftOut, requests: u64) {
        match self.left_out.iter_mut().find(|(other, _)| *other == why) {
            Some((_, number)) => *number += requests,
            None => self.left_out.push((why, requests)),
        }
    }

    /// Counts a request whose prompt is a text, which has the length that it has.
    pub(super) fn leave_as_is(&mut self) {
        self.remarks.literal += u64::from(self.synthesis.changes_prompts());
    }

    /// Notes that something is so for a number of requests, in words that follow it.
    pub(super) fn remark(&mut self, count: u64, words: impl Into<String>) {
        self.remarks.further.push((count, words.into()));
    }

    /// Changes the prompts according to the settings; they must be all prompts of the trace.
    pub(super) fn reshape<'s>(&mut self, shapes: impl IntoIterator<Item = &'s mut Shape>) {
        if !self.changes_prompts() {
            return;
        }
        let mut shapes: Vec<&mut Shape> = shapes.into_iter().collect();
        synthesis::reshape(&mut shapes, &self.synthesis, self.block_tokens, self.seed);
        let Some(most) = self.max_input_tokens else { return };
        for shape in shapes.into_iter().filter(|shape| shape.input_tokens > most) {
            shape.input_tokens = most;
            shape.hash_ids.truncate(most.div_ceil(self.block_tokens) as usize);
            self.remarks.cut += 1;
        }
    }

    /// Converts a time in `unit`s to an instant of the run, sped up according to the settings.
    pub(super) fn instant(&self, value: f64, unit: TimeUnit) -> Result<Nanos, String> {
        instant(value, unit)?;
        instant(value / self.synthesis.speedup_ratio, unit)
    }

    /// Returns the output tokens to request, multiplied and limited to the configured maximum.
    pub(super) fn output_tokens(&mut self, tokens: u32) -> Result<u32, String> {
        if tokens == 0 {
            return Err("the number of output tokens must be at least 1".to_owned());
        }
        let tokens = self.multiplied_output(tokens);
        let capped = self.max_output_tokens.map_or(tokens, |most| tokens.min(most));
        self.remarks.capped += u64::from(capped < tokens);
        Ok(capped)
    }

    /// Returns the output tokens to request, at least 1, without a limit.
    pub(super) fn multiplied_output(&self, tokens: u32) -> u32 {
        let scaled = f64::from(tokens) * self.synthesis.output_len_multiplier;
        scaled.round_ties_even().clamp(1.0, f64::from(u32::MAX)) as u32
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

    /// Generates a prompt of the tokens of `shape`: a block for each of its hash IDs, the last one
    /// cut to the length, and unique text for the rest.
    pub(super) fn prompt(&mut self, shape: &Shape) -> Result<Prompt, String> {
        let Shape { input_tokens, ref hash_ids, .. } = *shape;
        check_input(input_tokens)?;
        if hash_ids.len() > input_tokens.div_ceil(self.block_tokens) as usize {
            return Err(format!(
                "{} blocks of {} tokens exceed the {input_tokens} input tokens; \
                 set the number of tokens in a block with --isl-block-size",
                hash_ids.len(),
                self.block_tokens
            ));
        }
        let blocks = self.blocks_of(input_tokens, hash_ids);
        let words = self.words()?;
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

    /// Returns what blocks are made of.
    pub(super) fn words(&mut self) -> Result<Arc<Words>, String> {
        let words = match &mut self.words {
            Some(words) => words,
            none => none.insert(Words::new(self.corpus, self.counter, self.seed)?.into()),
        };
        Ok(Arc::clone(words))
    }

    /// Counts a prompt with whole blocks that do not have a hash ID.
    pub(super) fn leave_uncovered(&mut self) {
        self.remarks.uncovered += 1;
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

    /// Returns the trace as it was read, with what was left out.
    pub(super) fn loaded(self, conversations: Vec<Conversation>) -> Loaded {
        let note = self.note();
        let mut conversations = Conversations::from(conversations);
        for (why, requests) in self.left_out {
            conversations.leave_out(why, requests);
        }
        Loaded { conversations, note }
    }

    /// Returns a note on what was changed or ignored; empty if there was nothing.
    fn note(&self) -> String {
        let Remarks { capped, cut, literal, uncovered, ignored, further } = &self.remarks;
        let names: Vec<String> = ignored.iter().map(|name| format!("`{name}`")).collect();
        let mut note = String::new();
        let mut say = |count: usize, what: &str| {
            if count > 0 {
                // Writing to a string cannot fail.
                let _ = write!(note, "{}{count} {what}", if note.is_empty() { "" } else { ", " });
            }
        };
        say(*capped as usize, "capped to --synthesis-max-osl");
        say(*cut as usize, "cut to --synthesis-max-isl after the change of their lengths");
        say(*literal as usize, "with texts, whose lengths are unchanged");
        say(*uncovered as usize, "longer than their hash_ids, with unique text for the rest");
        say(names.len(), &format!("ignored fields ({})", names.join(", ")));
        for (count, words) in further {
            say(*count as usize, words);
        }
        note
    }
}

/// Checks the length of a prompt.
pub(super) fn check_input(tokens: u32) -> Result<(), String> {
    if (1..=MAX_TOKENS).contains(&tokens) {
        return Ok(());
    }
    Err(format!("the number of input tokens must be between 1 and {MAX_TOKENS}, got {tokens}"))
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

/// Returns a time as text in nanoseconds since the epoch, in UTC if it does not have an offset; `None` if
/// it is not one.
pub(super) fn utc(text: &str) -> Option<i128> {
    let without_offset = || {
        let formats = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"];
        let time = formats.iter().find_map(|it| NaiveDateTime::parse_from_str(text, it).ok());
        let date = || Some(text.parse::<NaiveDate>().ok()?.and_time(NaiveTime::MIN));
        Some(wall::since_epoch(&time.or_else(date)?.and_utc()))
    };
    wall::parsed(text).or_else(without_offset)
}

#[cfg(test)]
mod tests;
