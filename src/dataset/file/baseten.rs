//! Traces of Baseten (`baseten_trace`): a table with a request per row, with its prompt and its times.
//!
//! Prompts are sent as they were recorded, each with its whole history. Rows with the same session are the
//! turns of a conversation, which have both a time of their own and a delay after the response before
//! them.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use base::units::Nanos;

use super::mapping::{Mapping, Prompts, Rows};
use super::trace::{TimeUnit, Trace, check_input};
use super::{Fault, Loaded, Row, RowPlace, mooncake};
use crate::account::LeftOut;
use crate::{Conversation, Recorded, SessionColumn, TraceSettings, Turn};

/// The format `baseten_trace`.
pub(super) const FORMAT: Mapping = Mapping {
    members: &["timestamp_start_unix_ms", "prompt", "input_tokens", "output_tokens"],
    block_tokens: mooncake::BLOCK_TOKENS,
    prompts: Prompts::Recorded,
    rows: Rows::Objects(read),
};

#[derive(Deserialize)]
struct Request {
    timestamp_start_unix_ms: u64,
    prompt: String,
    input_tokens: u32,
    output_tokens: u32,
    #[serde(default)]
    duration_e2e_ms: Option<u64>,
    #[serde(default)]
    total_hashes: Option<Vec<u64>>,
    #[serde(default)]
    block_size: Option<u32>,
}

/// A request that is sent, with its times in milliseconds.
struct Sent {
    place: RowPlace,
    start: u64,
    end: u64,
    turn: Turn,
}

/// The requests of a session, which has a name unless it is a single row.
#[derive(Default)]
struct Session {
    name: String,
    sent: Vec<Sent>,
}

/// Reads all rows. Times count from the earliest row, also if it is left out; sessions come in the order of
/// their starts.
fn read(
    rows: &mut dyn Iterator<Item = Row>,
    mut trace: Trace<'_>,
    settings: &TraceSettings,
) -> Result<Loaded, Fault> {
    let mut sessions: Vec<Session> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut first = u64::MAX;
    for row in rows {
        let (place, row) = row?;
        let fault = |why| place.fault(why);
        let name = session(&row, settings.session_column).map_err(fault)?;
        let row = serde_json::from_value::<Request>(Value::Object(row));
        let row = row.map_err(|error| fault(error.to_string()))?;
        let start = row.timestamp_start_unix_ms;
        let end = start.saturating_add(row.duration_e2e_ms.unwrap_or(0));
        first = first.min(start);
        let Some(turn) = turn(row, settings, &mut trace).map_err(fault)? else { continue };
        let new = sessions.len();
        let at = name.clone().map_or(new, |name| *places.entry(name).or_insert(new));
        if at == new {
            sessions.push(Session { name: name.unwrap_or_default(), sent: Vec::new() });
        }
        sessions[at].sent.push(Sent { place, start, end, turn });
    }
    for session in &mut sessions {
        session.sent.sort_by_key(|sent| sent.start);
    }
    sessions.sort_by_key(|session| session.sent.first().map(|sent| sent.start));
    let conversations = sessions.into_iter().map(|session| session.conversation(first, &trace));
    let conversations = conversations.collect::<Result<Vec<_>, _>>()?;
    Ok(trace.loaded(conversations))
}

/// Returns the name of the session of a row, which is in the wanted column, or in the other one if the
/// table does not have that; `None` if the row is a session of its own.
fn session(row: &Map<String, Value>, wanted: SessionColumn) -> Result<Option<String>, String> {
    let columns = match wanted {
        SessionColumn::Provided => ["provided_session_id", "poor_man_session_id"],
        SessionColumn::Derived => ["poor_man_session_id", "provided_session_id"],
    };
    let found = columns.iter().find_map(|name| row.get_key_value(*name));
    match found {
        None | Some((_, Value::Null)) => Ok(None),
        Some((_, Value::String(text))) => Ok(Some(text.clone())),
        Some((_, Value::Number(number))) => Ok(Some(number.to_string())),
        Some((name, _)) => Err(format!("`{name}` is neither a text nor a number")),
    }
}

/// Returns the turn of a row, without its times; `None` if it is left out.
fn turn(
    row: Request,
    settings: &TraceSettings,
    trace: &mut Trace<'_>,
) -> Result<Option<Turn>, String> {
    if row.prompt.is_empty() {
        trace.leave_out(LeftOut::WithoutPrompt, 1);
        return Ok(None);
    }
    check_input(row.input_tokens.max(1))?;
    if !trace.admits(row.input_tokens) {
        return Ok(None);
    }
    // Requests that were cancelled do not have output.
    let max_tokens = trace.output_tokens(row.output_tokens.max(1))?;
    let mut extra = Vec::new();
    let mut add = |name: &str, value: Value| extra.push((name.to_owned(), value));
    // Otherwise it is a setting for traces of all formats.
    if settings.force_min_tokens.is_none() {
        add("min_tokens", max_tokens.into());
    }
    if !settings.omits_kv_hints {
        if let Some(hashes) = row.total_hashes.filter(|hashes| !hashes.is_empty()) {
            add("hash_ids", json!(hashes));
        }
        if let Some(tokens) = row.block_size {
            add("block_size", tokens.into());
        }
    }
    let (texts, max_tokens) = (vec![row.prompt.into()], Some(max_tokens));
    Ok(Some(Turn { texts, extra, max_tokens, ..Turn::default() }))
}

impl Session {
    /// Returns the conversation, whose times count from `first`.
    fn conversation(self, first: u64, trace: &Trace<'_>) -> Result<Conversation, Fault> {
        let nanos = |millis: u64| Nanos(millis.saturating_mul(1_000_000));
        let begin = self.sent.first().map_or(first, |sent| sent.start);
        let mut turns = Vec::with_capacity(self.sent.len());
        let mut before = begin;
        for Sent { place, start, end, turn } in self.sent {
            let timestamp = trace.instant((start - first) as f64, TimeUnit::Milliseconds);
            turns.push(Turn {
                timestamp: Some(timestamp.map_err(|why| place.fault(why))?),
                delay: nanos(start.saturating_sub(before)),
                recorded: Some(Recorded { start: nanos(start - begin), end: nanos(end - begin) }),
                ..turn
            });
            before = end;
        }
        let id = self.name.into();
        Ok(Conversation { id, standalone_turns: true, turns, ..Conversation::default() })
    }
}

#[cfg(test)]
mod tests;
