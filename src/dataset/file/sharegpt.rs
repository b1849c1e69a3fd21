//! ShareGPT: a JSON array of conversations between a human and a model.
//!
//! A human message becomes a prompt, and the response right after it determines the requested
//! output length. Of a file, this is the first human message; of the public dataset, each one with
//! a response is a turn. Some conversations are left out and counted: those without such a pair,
//! and those in which a pair has fewer than 4 tokens in the prompt or the response, more than 1024
//! tokens in the prompt, or more than 2048 tokens in both together.

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

/// Which messages of a conversation are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    First,
    All,
}

/// Reads the array entry by entry, so that a large file is never in memory as a whole.
pub(super) fn read(input: impl Read, counter: &TokenCounter, sent: Sent) -> Result<Loaded, Fault> {
    let mut deserializer = serde_json::Deserializer::from_reader(input);
    let selection =
        Entries { counter, sent }.deserialize(&mut deserializer).map_err(document_fault)?;
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
    fn consider(&mut self, entry: &Entry, counter: &TokenCounter, sent: Sent) {
        let messages = &entry.conversations;
        let pairs = match sent {
            Sent::First => first_exchange(messages).into_iter().collect(),
            Sent::All => exchanges(messages),
        };
        if pairs.is_empty() {
            self.without_pair += 1;
            return;
        }
        let mut turns = Vec::new();
        for (prompt, answer) in pairs {
            let (asked, answered) = (counter.count(prompt), counter.count(answer));
            if asked < MIN_TOKENS || answered < MIN_TOKENS {
                self.too_short += 1;
                return;
            }
            if asked > MAX_PROMPT_TOKENS || asked + answered > MAX_TOTAL_TOKENS {
                self.too_long += 1;
                return;
            }
            turns.push(Turn {
                texts: vec![prompt.into()],
                max_tokens: u32::try_from(answered).ok(),
                ..Turn::default()
            });
        }
        self.chosen.push(Conversation { turns, ..Conversation::default() });
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

fn is_human(message: &Message) -> bool {
    matches!(message.from.as_str(), "human" | "user")
}

fn is_model(message: &Message) -> bool {
    matches!(message.from.as_str(), "gpt" | "chatgpt" | "assistant")
}

/// Returns the first human message and the response right after it.
fn first_exchange(messages: &[Message]) -> Option<(&str, &str)> {
    let first = messages.iter().position(is_human)?;
    let answer = messages.get(first + 1).filter(|message| is_model(message))?;
    Some((&messages[first].value, &answer.value))
}

/// Returns each human message that has a response right after it, apart from other messages.
fn exchanges(messages: &[Message]) -> Vec<(&str, &str)> {
    let of_both: Vec<&Message> =
        messages.iter().filter(|message| is_human(message) || is_model(message)).collect();
    let pairs = of_both.windows(2).filter(|pair| is_human(pair[0]) && is_model(pair[1]));
    pairs.map(|pair| (&*pair[0].value, &*pair[1].value)).collect()
}

/// Reader of the array, with one entry in memory at a time.
struct Entries<'a> {
    counter: &'a TokenCounter,
    sent: Sent,
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
            selection.consider(&entry, self.counter, self.sent);
        }
        Ok(selection)
    }
}
