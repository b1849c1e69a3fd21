//! ShareGPT: a JSON array of conversations between a human and a model.
//!
//! The first human message becomes the prompt, and the response right after it determines the
//! requested output length. Some conversations are left out and counted: those without such a pair,
//! with fewer than 4 tokens in the prompt or the response, with more than 1024 tokens in the
//! prompt, or with more than 2048 tokens in both together.

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

/// Reads the array entry by entry, so that a large file is never in memory as a whole.
pub(super) fn read(input: impl Read, counter: &TokenCounter) -> Result<Loaded, Fault> {
    let mut deserializer = serde_json::Deserializer::from_reader(input);
    let selection = Entries { counter }.deserialize(&mut deserializer).map_err(document_fault)?;
    deserializer.end().map_err(document_fault)?;
    Ok(Loaded { note: selection.note(), conversations: selection.chosen })
}

/// The selected conversations, and the number of those left out.
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
            " (skipped: {without_pair} without a human message and a response, \
             {too_short} too short, {too_long} too long)"
        )
    }
}

/// Returns the first human message and the response right after it.
fn first_exchange(messages: &[Message]) -> Option<(&str, &str)> {
    let is_human = |message: &Message| matches!(message.from.as_str(), "human" | "user");
    let is_model =
        |message: &Message| matches!(message.from.as_str(), "gpt" | "chatgpt" | "assistant");
    let first = messages.iter().position(is_human)?;
    let answer = messages.get(first + 1).filter(|message| is_model(message))?;
    Some((&messages[first].value, &answer.value))
}

/// Reader of the array, with one entry in memory at a time.
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
