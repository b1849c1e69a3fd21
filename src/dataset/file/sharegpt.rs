//! ShareGPT: a JSON array of conversations between a human and a model.
//!
//! The first human message becomes the prompt, the answer right after it the
//! requested output length. Left out, and counted, are conversations without
//! such a pair, those whose prompt or answer has fewer than 4 tokens, whose
//! prompt has more than 1024, or both together more than 2048.

use std::fmt;
use std::io::Read;

use serde::de::{DeserializeSeed, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Fault, Loaded, document_fault};
use crate::dataset::{Conversation, Turn};
use crate::tokenizer::TokenCounter;

const MIN_TOKENS: u64 = 4;
const MAX_PROMPT_TOKENS: u64 = 1024;
const MAX_TOTAL_TOKENS: u64 = 2048;

#[derive(Deserialize)]
struct Entry {
    conversations: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    from: String,
    value: String,
}

/// Reads the array entry by entry, so that a large file is never in memory whole.
pub(super) fn read(input: impl Read, counter: &TokenCounter) -> Result<Loaded, Fault> {
    let mut deserializer = serde_json::Deserializer::from_reader(input);
    let selection = Entries { counter }.deserialize(&mut deserializer).map_err(document_fault)?;
    deserializer.end().map_err(document_fault)?;
    Ok(Loaded { note: selection.note(), conversations: selection.chosen })
}

/// Conversations that were taken, and how many were not.
#[derive(Default)]
struct Selection {
    chosen: Vec<Conversation>,
    without_pair: u64,
    too_short: u64,
    too_long: u64,
}

impl Selection {
    fn consider(&mut self, entry: &Entry, counter: &TokenCounter) {
        let Some((prompt, answer)) = first_exchange(&entry.conversations) else {
            self.without_pair += 1;
            return;
        };
        let (asked, answered) = (counter.count(prompt), counter.count(answer));
        if asked < MIN_TOKENS || answered < MIN_TOKENS {
            self.too_short += 1;
        } else if asked > MAX_PROMPT_TOKENS || asked + answered > MAX_TOTAL_TOKENS {
            self.too_long += 1;
        } else {
            let turn = Turn {
                texts: vec![prompt.into()],
                max_tokens: u32::try_from(answered).ok(),
                ..Turn::default()
            };
            self.chosen.push(Conversation { turns: vec![turn], ..Conversation::default() });
        }
    }

    fn note(&self) -> String {
        let Self { without_pair, too_short, too_long, .. } = self;
        if without_pair + too_short + too_long == 0 {
            return String::new();
        }
        format!(
            " (left out: {without_pair} without a human message and its answer, \
             {too_short} too short, {too_long} too long)"
        )
    }
}

/// The first human message and the answer right after it.
fn first_exchange(messages: &[Message]) -> Option<(&str, &str)> {
    let is_human = |message: &Message| matches!(message.from.as_str(), "human" | "user");
    let is_model =
        |message: &Message| matches!(message.from.as_str(), "gpt" | "chatgpt" | "assistant");
    let first = messages.iter().position(is_human)?;
    let answer = messages.get(first + 1).filter(|message| is_model(message))?;
    Some((&messages[first].value, &answer.value))
}

/// Reads the array, one entry in memory at a time.
struct Entries<'a> {
    counter: &'a TokenCounter,
}

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = Selection;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Selection, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = Selection;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of ShareGPT conversations")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Selection, A::Error> {
        let mut selection = Selection::default();
        while let Some(entry) = entries.next_element::<Entry>()? {
            selection.consider(&entry, self.counter);
        }
        Ok(selection)
    }
}
