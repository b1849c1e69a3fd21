//! ShareGPT: a JSON array of conversations between a human and a model.
//!
//! A human message becomes a prompt, and the response right after it determines the requested
//! output length. Of a file, this is the first human message; of the public dataset, each one with
//! a response is a turn. Some conversations are left out and counted: those without such a pair,
//! and those in which a pair has fewer than 4 tokens in the prompt or the response, more than 1024
//! tokens in the prompt, or more than 2048 tokens in both together. Messages have `from` and `value`,
//! or `role` and `content`; an entry without messages is left out, too.

use std::cell::Cell;

use serde::de::DeserializeSeed as _;
use serde_json::Value;

use base::input::Input;
use base::input::json::{self, Each};
use tokens::tokenizer::TokenCounter;

use super::{Fault, Loaded, document_fault};
use crate::account::{Conversations, LeftOut};
use crate::said::{self, Role, Said};
use crate::{Conversation, Turn};

const MIN_TOKENS: u64 = 4;
const MAX_PROMPT_TOKENS: u64 = 1024;
const MAX_TOTAL_TOKENS: u64 = 2048;

/// Which messages of a conversation are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    First,
    All,
}

/// Reads the array entry by entry, so that a large file is never in memory as a whole.
pub(super) fn read(input: Input<'_>, counter: &TokenCounter, sent: Sent) -> Result<Loaded, Fault> {
    let meter = input.meter();
    let (row, mut has_odd_row) = (Cell::new(0_usize), false);
    let mut chosen = Conversations::default();
    let entries = Each::new(&meter, "an array of ShareGPT conversations", |entry: Value| {
        row.set(row.get() + 1);
        match said::chat(&entry) {
            Ok(messages) => consider(&mut chosen, &messages, counter, sent),
            Err(why) => {
                chosen.leave_out(LeftOut::WithoutPrompt, 1);
                if !std::mem::replace(&mut has_odd_row, true) {
                    let row = row.get();
                    tracing::warn!("row {row}: {why}; rows without messages are left out");
                }
            }
        }
        Ok(())
    });
    let fault = |error| match document_fault(error) {
        Fault::Line(line, why) => Fault::Line(line, format!("row {}: {why}", row.get() + 1)),
        other => other,
    };
    let mut document = json::documents(input);
    entries.deserialize(&mut document).map_err(fault)?;
    document.end().map_err(document_fault)?;
    Ok(chosen.into())
}

/// Adds the conversation of `messages` to `chosen`, or the reason why it is left out.
fn consider(chosen: &mut Conversations, messages: &[Said], counter: &TokenCounter, sent: Sent) {
    let all = exchanges(messages);
    let pairs = match sent {
        Sent::First => first_exchange(messages).into_iter().collect(),
        Sent::All => all.clone(),
    };
    if pairs.is_empty() {
        return chosen.leave_out(LeftOut::WithoutPrompt, all.len().max(1) as u64);
    }
    chosen.leave_out(LeftOut::LaterTurn, (all.len() - pairs.len()) as u64);
    match pairs.iter().map(|(prompt, answer)| turn(prompt, answer, counter)).collect() {
        Ok(turns) => chosen.push(Conversation { turns, ..Conversation::default() }),
        Err(why) => chosen.leave_out(why, pairs.len() as u64),
    }
}

fn turn(prompt: &str, answer: &str, counter: &TokenCounter) -> Result<Turn, LeftOut> {
    let (asked, answered) = (counter.count(prompt), counter.count(answer));
    if asked < MIN_TOKENS || answered < MIN_TOKENS {
        return Err(LeftOut::TooShort);
    }
    if asked > MAX_PROMPT_TOKENS || asked + answered > MAX_TOTAL_TOKENS {
        return Err(LeftOut::TooLong);
    }
    Ok(Turn {
        texts: vec![prompt.into()],
        max_tokens: u32::try_from(answered).ok(),
        ..Turn::default()
    })
}

fn is_human(message: &Said) -> bool {
    message.role == Role::User
}

fn is_model(message: &Said) -> bool {
    message.role == Role::Model
}

/// Returns the first human message and the response right after it.
fn first_exchange(messages: &[Said]) -> Option<(&str, &str)> {
    let first = messages.iter().position(is_human)?;
    let answer = messages.get(first + 1).filter(|message| is_model(message))?;
    Some((&messages[first].text, &answer.text))
}

/// Returns each human message that has a response right after it, apart from other messages.
fn exchanges(messages: &[Said]) -> Vec<(&str, &str)> {
    let of_both: Vec<&Said> =
        messages.iter().filter(|message| is_human(message) || is_model(message)).collect();
    let pairs = of_both.windows(2).filter(|pair| is_human(pair[0]) && is_model(pair[1]));
    pairs.map(|pair| (&*pair[0].text, &*pair[1].text)).collect()
}
