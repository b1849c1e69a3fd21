//! Traces of agents by Exgentic (`exgentic`): a row per session, with its `harness`, its `models` and the
//! `spans` of what it did.
//!
//! A request is a span of the type `llm_call`, or one without a type that is a `chat` of the GenAI
//! conventions. Its `attributes` have its messages, tools, settings and numbers of tokens
//! ([`messages`]). It is sent as it was recorded, with its whole history, and as long after the response
//! before it.

mod messages;

use std::collections::HashSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use base::units::Nanos;
use tokens::tokenizer::TokenCounter;

use self::messages::Attributes;
use super::trace::{Trace, check_input, utc};
use super::{Fault, Loaded, Row, RowPlace, mooncake};
use crate::account::LeftOut;
use crate::{Conversation, Recorded, Seed, TraceSettings, Turn};

/// Providers that names of models may begin with.
const PROVIDERS: [&str; 4] = ["openai/azure/", "azure/", "aws/", "gcp/"];

/// The status code of a span that failed.
const ERROR: i64 = 2;

#[derive(Deserialize)]
struct Session {
    session_id: String,
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Span {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    status: Option<Status>,
    #[serde(default)]
    start_time: Option<String>,
    #[serde(default)]
    end_time: Option<String>,
    #[serde(default)]
    attributes: Option<Attributes>,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: Option<i64>,
}

impl Span {
    fn is_request(&self) -> bool {
        let operation = self.attributes.as_ref().and_then(|it| it.get("gen_ai.operation.name"));
        match self.kind.as_deref() {
            Some(kind) => kind == "llm_call",
            None => operation.is_some_and(|it| it == "chat"),
        }
    }
}

/// A request that is sent, with its times in nanoseconds since the epoch.
struct Sent {
    start: i128,
    end: i128,
    turn: Turn,
}

/// The sessions that have been read.
struct Sessions<'a> {
    trace: Trace<'a>,
    /// Columns, and the values that rows to use have.
    filters: &'a [(String, String)],
    conversations: Vec<Conversation>,
    ids: HashSet<String>,
    /// Number of requests that were sent before the response to the one before had arrived.
    overlapping: u64,
}

/// Returns whether a row with these members is of this format.
pub(super) fn has(members: &Map<String, Value>) -> bool {
    ["harness", "session_id", "spans"].iter().all(|name| members.contains_key(*name))
}

/// Reads the rows that pass the `filters`, up to the maximum number of conversations.
pub(super) fn read(
    rows: impl Iterator<Item = Row>,
    filters: &[(String, String)],
    settings: &TraceSettings,
    counter: &TokenCounter,
    seed: Seed,
) -> Result<Loaded, Fault> {
    let mut sessions = Sessions {
        trace: Trace::new(settings, mooncake::BLOCK_TOKENS, counter, seed)?,
        filters,
        conversations: Vec::new(),
        ids: HashSet::new(),
        overlapping: 0,
    };
    let most = settings.entries.unwrap_or(usize::MAX);
    let mut is_stopped = false;
    for row in rows {
        is_stopped = sessions.conversations.len() >= most;
        if is_stopped {
            break;
        }
        let (place, row) = row?;
        sessions.add(row, place)?;
    }
    let mut loaded = sessions.finish();
    if is_stopped {
        loaded.conversations.stop_at_limit();
    }
    Ok(loaded)
}

impl Sessions<'_> {
    /// Adds the conversation of a row, unless a filter excludes it or none of its requests is sent.
    ///
    /// # Errors
    ///
    /// Fails if a request cannot be sent as it was, or if another row has the
    /// same `session_id`.
    fn add(&mut self, row: Map<String, Value>, place: RowPlace) -> Result<(), Fault> {
        let is_kept =
            is_kept(&row, self.filters).map_err(|why| Fault::Setting("--dataset-filter", why))?;
        let session = serde_json::from_value::<Session>(Value::Object(row));
        let session = session.map_err(|error| place.fault(error.to_string()))?;
        if is_kept {
            return self.add_session(session).map_err(|why| place.fault(why));
        }
        let requests = session.spans.iter().filter(|span| span.is_request()).count();
        self.trace.leave_out(LeftOut::Filtered, requests as u64);
        Ok(())
    }

    fn add_session(&mut self, session: Session) -> Result<(), String> {
        let Session { session_id, spans } = session;
        let mut requests = Vec::new();
        for (at, span) in spans.into_iter().enumerate().filter(|(_, span)| span.is_request()) {
            let request = self.request(span).map_err(|why| format!("span {at}: {why}"))?;
            requests.extend(request);
        }
        requests.sort_by_key(|request| request.start);
        let Some(first) = requests.first().map(|request| request.start) else { return Ok(()) };
        if !self.ids.insert(session_id.clone()) {
            return Err(format!(
                "the session_id {session_id:?} is already used by another session"
            ));
        }
        let nanos = |time: i128| Nanos(u64::try_from(time.max(0)).unwrap_or(u64::MAX));
        let mut turns = Vec::with_capacity(requests.len());
        let mut before = first;
        for Sent { start, end, turn } in requests {
            self.overlapping += u64::from(start < before);
            let recorded = Recorded { start: nanos(start - first), end: nanos(end - first) };
            let delay = nanos(start - before);
            turns.push(Turn { delay, recorded: Some(recorded), ..turn });
            before = end;
        }
        let id = session_id.into();
        let conversation =
            Conversation { id, standalone_turns: true, turns, ..Conversation::default() };
        self.conversations.push(conversation);
        Ok(())
    }

    /// Returns the request of a span; `None` if it is left out.
    fn request(&mut self, span: Span) -> Result<Option<Sent>, String> {
        let attributes = span.attributes.unwrap_or_default();
        let tokens = |name: &str| {
            let count = attributes.get(name).and_then(Value::as_u64);
            let count = count.and_then(|count| u32::try_from(count).ok());
            count.ok_or_else(|| format!("`{name}` is not a number of tokens"))
        };
        let has_failed = span.status.is_some_and(|status| status.code == Some(ERROR));
        let lengths = if has_failed {
            (0, 0)
        } else {
            (tokens("gen_ai.usage.input_tokens")?, tokens("gen_ai.usage.output_tokens")?)
        };
        let (input @ 1.., output @ 1..) = lengths else {
            self.trace.leave_out(LeftOut::Failed, 1);
            return Ok(None);
        };
        check_input(input)?;
        let messages = messages::messages(&attributes)?;
        if messages.is_empty() {
            self.trace.leave_out(LeftOut::WithoutPrompt, 1);
            return Ok(None);
        }
        if !self.trace.admits(input) {
            return Ok(None);
        }
        let most = "gen_ai.request.max_tokens";
        let most = match attributes.get(most) {
            None | Some(Value::Null) => output,
            Some(_) => tokens(most)?,
        };
        let time = |name: &str, text: Option<&String>| {
            let time = text.and_then(|text| utc(text));
            time.ok_or_else(|| format!("`{name}` is not a time such as 2026-01-31T12:00:00Z"))
        };
        let start = time("start_time", span.start_time.as_ref())?;
        let end = time("end_time", span.end_time.as_ref())?;
        if end < start {
            return Err("`end_time` is before `start_time`".to_owned());
        }
        let turn = Turn {
            messages: Some(raw(&messages)?),
            tools: messages::tools(&attributes)?.as_deref().map(raw).transpose()?,
            max_tokens: Some(self.trace.output_tokens(most)?),
            extra: messages::settings(&attributes)?,
            ..Turn::default()
        };
        Ok(Some(Sent { start, end, turn }))
    }

    fn finish(mut self) -> Loaded {
        let words = "sent before the response to the request before had arrived, now after it";
        self.trace.remark(self.overlapping, words);
        self.trace.loaded(self.conversations)
    }
}

/// Returns whether `row` has the values of all `filters`, in any case. `source_model` is one of its
/// models, with or without its provider.
fn is_kept(row: &Map<String, Value>, filters: &[(String, String)]) -> Result<bool, String> {
    for (column, wanted) in filters {
        let is_wanted = match (&**column, row.get(column)) {
            ("source_model", _) => {
                let models = row.get("models").and_then(Value::as_array).into_iter().flatten();
                models.filter_map(Value::as_str).any(|name| model(name) == model(wanted))
            }
            (_, Some(value)) => {
                value.as_str().is_some_and(|value| value.eq_ignore_ascii_case(wanted))
            }
            (_, None) => {
                return Err(format!(
                    "the dataset does not have a column {column:?}; filter traces of Exgentic by \
                     harness, source_model or, if they have it, benchmark"
                ));
            }
        };
        if !is_wanted {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the name of a model in lower case without its provider.
fn model(name: &str) -> String {
    let name = name.to_lowercase();
    let without = PROVIDERS.iter().find_map(|provider| name.strip_prefix(provider));
    without.map(str::to_owned).unwrap_or(name)
}

fn raw(values: &[Value]) -> Result<Arc<RawValue>, String> {
    serde_json::value::to_raw_value(values).map(Arc::from).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
