//! ShareGPT: the first question of each conversation, with the length of its
//! answer as the requested output length.

use std::sync::Arc;

use serde::Deserialize;

use super::{Conversation, Turn};
use crate::tokenizer::TokenCounter;

/// Shortest question and answer, in tokens.
const SHORTEST: u64 = 4;
/// Longest question.
const LONGEST_QUESTION: u64 = 1024;
/// Longest question and answer together.
const LONGEST: u64 = 2048;

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    conversations: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    from: String,
    value: String,
}

/// Reads the JSON array. Entries without a question and an answer are left
/// out, as are those with less than 4 tokens in either, more than 1024 in the
/// question or more than 2048 in both.
pub(super) fn parse(text: &str, counter: &TokenCounter) -> Result<Vec<Conversation>, String> {
    let entries: Vec<Entry> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let total = entries.len();
    let conversations: Vec<_> =
        entries.into_iter().filter_map(|entry| conversation(entry, counter)).collect();
    if conversations.len() < total {
        tracing::info!(
            "ShareGPT: {} of {total} entries fit the length limits",
            conversations.len()
        );
    }
    Ok(conversations)
}

fn conversation(entry: Entry, counter: &TokenCounter) -> Option<Conversation> {
    let question = entry.conversations.iter().position(|message| message.from == "human")?;
    let answer = entry.conversations.get(question + 1)?;
    let question = &entry.conversations[question];
    let (asked, answered) = (counter.count(&question.value), counter.count(&answer.value));
    let fits = asked >= SHORTEST
        && answered >= SHORTEST
        && asked <= LONGEST_QUESTION
        && asked + answered <= LONGEST;
    fits.then(|| Conversation {
        id: entry.id.unwrap_or_default().into(),
        turns: vec![Turn {
            texts: vec![Arc::from(question.value.as_str())],
            max_tokens: u32::try_from(answered).ok(),
            ..Turn::default()
        }],
        ..Conversation::default()
    })
}
