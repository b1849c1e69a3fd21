//! Traces of `TraceLab` (`tracelab`): JSONL with one request of a coding agent per line.
//!
//! Lines with the same `session_id` are one agent. `timing_events` record when its user or a tool had
//! spoken, which is when the request was sent, and when the model did. `input_tokens_total` and
//! `prefix_tokens` are the length of the prompt and what the server had of it already: a prompt has the
//! first whole blocks of that length of the prompt before it, and new ones.
//!
//! A sub-agent is a session of its own without a reference to its agent. A session of the same `user` and
//! `project` is the sub-agent of the shortest call of a tool that starts agents during which all of it
//! took place. Each agent becomes a document of [`weka`](super::weka), and is read as one.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use tokens::tokenizer::TokenCounter;

use super::jsonl::from_object;
use super::lines::Lines;
use super::trace::{check_input, utc};
use super::weka::Documents;
use super::weka::document::{Agent, Document, Entry, Request, Scope};
use super::{Fault, Loaded};
use crate::account::LeftOut;
use crate::{Seed, TraceSettings};

/// Tokens of a block unless `--isl-block-size` is given.
const BLOCK_TOKENS: u32 = 64;
/// Shorter calls of tools that start agents mostly are errors.
const MIN_SPAWN_MILLIS: u64 = 10_000;
/// Maximum length of an ID.
const MAX_ID: usize = 150;

/// A request.
#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "fields have the names of the format")]
struct Round {
    session_id: String,
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    project: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    round_index: Option<i64>,
    #[serde(default)]
    input_tokens_total: Option<u32>,
    #[serde(default)]
    prefix_tokens: Option<u32>,
    #[serde(default)]
    output_tokens: Option<u32>,
    #[serde(default)]
    reasoning_output_tokens: Option<u32>,
    #[serde(default)]
    timing_events: Option<Vec<Event>>,
    #[serde(default)]
    tools: Option<Vec<Tool>>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    event_type: Option<String>,
    #[serde(default)]
    timestamp: Option<Time>,
}

/// A call of a tool.
#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "fields have the names of the format")]
struct Tool {
    #[serde(default)]
    tool_name: Option<String>,
    #[serde(default)]
    emitted_at: Option<Time>,
    #[serde(default)]
    result_at: Option<Time>,
    #[serde(default)]
    tool_wall_latency_ms: Option<f64>,
}

/// Nanoseconds since the epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct Time(i128);

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let time = utc(&text).ok_or_else(|| {
            format!("{text:?} is not a time; write times such as 2026-01-31T12:00:00Z")
        })?;
        Ok(Self(time))
    }
}

impl Time {
    /// Returns the seconds since `start`.
    fn since(self, start: Self) -> f64 {
        (self.0 - start.0) as f64 / 1e9
    }
}

/// A request that is sent.
struct Sent {
    at: Time,
    /// When the model had said everything.
    end: Option<Time>,
    round: Round,
}

impl Sent {
    /// Returns the request of a line; `None` if its time is not recorded.
    fn new(round: Round) -> Option<Self> {
        let times = |kinds: &'static [&str]| {
            let events = round.timing_events.iter().flatten();
            let is_one = |event: &&Event| {
                event.event_type.as_deref().is_some_and(|kind| kinds.contains(&kind))
            };
            events.filter(is_one).filter_map(|event| event.timestamp)
        };
        let said = || times(&["text", "reasoning", "tool_call"]);
        let at = times(&["user_message", "tool_result"]).max().or_else(|| said().min())?;
        Some(Self { at, end: said().max(), round })
    }

    /// Returns the request as one of a document that begins at `start`.
    fn request(&self, start: Time, before: Option<&Self>, hash_ids: Vec<i64>) -> Request {
        let Self { at, end, ref round } = *self;
        let output = round.output_tokens.unwrap_or(0);
        let think =
            |before: &Self| at.since(before.end.map_or(before.at, |end| end.max(before.at)));
        Request {
            t: at.since(start),
            input: round.input_tokens_total.unwrap_or(0).max(1),
            output: output.saturating_add(round.reasoning_output_tokens.unwrap_or(0)).max(1),
            model: round.model.clone().unwrap_or_else(|| "unknown".to_owned()),
            hash_ids,
            api_time: end.map(|end| end.since(at).max(0.0)),
            think_time: before.map(|before| think(before).max(0.0)),
            ..Request::default()
        }
    }
}

/// The requests of an agent.
struct Session {
    id: String,
    /// Its first line.
    line: u64,
    owner: (Option<String>, Option<String>),
    is_codex: bool,
    /// In the order in which they were sent.
    sent: Vec<Sent>,
    /// When the first and the last of all its events were.
    span: Option<(Time, Time)>,
    windows: Vec<Window>,
}

/// When sub-agents may have worked.
#[derive(Clone, Copy)]
struct Window {
    start: Time,
    end: Time,
    /// How long its agent waited.
    millis: f64,
}

impl Session {
    fn new(rounds: Vec<(u64, Round)>, min_spawn_millis: u64) -> Option<Self> {
        let (line, first) = rounds.first()?;
        let mut session = Self {
            id: first.session_id.clone(),
            line: *line,
            owner: (first.user.clone(), first.project.clone()),
            is_codex: first.provider.as_deref() == Some("codex"),
            sent: Vec::new(),
            span: None,
            windows: Vec::new(),
        };
        let events = || rounds.iter().flat_map(|(_, it)| it.timing_events.iter().flatten());
        let tools = || rounds.iter().flat_map(|(_, it)| it.tools.iter().flatten());
        let called = tools().flat_map(|tool| [tool.emitted_at, tool.result_at]);
        let times = || events().map(|event| event.timestamp).chain(called.clone()).flatten();
        session.span = times().min().zip(times().max());
        session.windows = if session.is_codex {
            of_codex(&tools().collect::<Vec<_>>()).into_iter().collect()
        } else {
            of_claude(tools(), min_spawn_millis).collect()
        };
        session.sent = rounds.into_iter().filter_map(|(_, round)| Sent::new(round)).collect();
        session.sent.sort_by_key(|sent| (sent.at, sent.round.round_index.unwrap_or(0)));
        Some(session)
    }

    /// Returns the requests as those of a document that begins at `start`. `next` is the next new block.
    fn requests(&self, start: Time, block_tokens: u32, next: &mut i64) -> Vec<Request> {
        let mut requests: Vec<Request> = Vec::new();
        let mut before: Option<&Sent> = None;
        for sent in &self.sent {
            let total = sent.round.input_tokens_total.unwrap_or(0);
            let prefix = sent.round.prefix_tokens.unwrap_or(0).min(total);
            let known = requests.last().map_or(&[][..], |last| &last.hash_ids);
            let kept = known.len().min((prefix / block_tokens) as usize);
            let mut hash_ids = known[..kept].to_vec();
            let new = i64::from(total / block_tokens - kept as u32);
            hash_ids.extend(*next..*next + new);
            *next += new;
            requests.push(sent.request(start, before, hash_ids));
            before = Some(sent);
        }
        requests
    }
}

/// Claude's tools wait for the sub-agent that they start.
fn of_claude<'t>(
    tools: impl Iterator<Item = &'t Tool>,
    min_spawn_millis: u64,
) -> impl Iterator<Item = Window> {
    let is_spawn = |tool: &&Tool| matches!(tool.tool_name.as_deref(), Some("Agent" | "Task"));
    tools.filter(is_spawn).filter_map(move |tool| {
        let millis = tool.tool_wall_latency_ms.filter(|it| *it >= min_spawn_millis as f64)?;
        Some(Window { start: tool.emitted_at?, end: tool.result_at?, millis: millis.floor() })
    })
}

/// Codex starts sub-agents by one tool and waits for them by another, so that all of a session have the
/// time from the first start to the last end.
fn of_codex(tools: &[&Tool]) -> Option<Window> {
    let called = |name: &'static str| {
        tools.iter().filter(move |tool| tool.tool_name.as_deref() == Some(name))
    };
    let start = called("spawn_agent").filter_map(|tool| tool.emitted_at).min()?;
    let end = called("wait_agent").filter_map(|tool| tool.result_at).max()?;
    let millis = (end.since(start) * 1000.0).floor();
    (end > start).then_some(Window { start, end, millis })
}

/// Returns of each session which one it is a sub-agent of, and in which window.
fn parents(sessions: &[Session]) -> Vec<Option<(usize, Window)>> {
    let mut windows: HashMap<_, Vec<(usize, Window)>> = HashMap::new();
    for (at, session) in sessions.iter().enumerate() {
        // An agent must have sent a request before its sub-agent begins.
        let first = session.sent.first().map(|sent| sent.at);
        let own = session.windows.iter().filter(|it| first.is_some_and(|at| at <= it.start));
        windows.entry(&session.owner).or_default().extend(own.map(|window| (at, *window)));
    }
    let parent = |(at, session): (usize, &Session)| {
        let (begin, end) = session.span.filter(|_| !session.sent.is_empty())?;
        let around = windows[&session.owner]
            .iter()
            .filter(|(parent, window)| *parent != at && window.start <= begin && end <= window.end);
        let rank = |(parent, it): &&(usize, Window)| {
            (it.end.0 - it.start.0, it.start, &sessions[*parent].id)
        };
        around.min_by_key(rank).copied()
    };
    sessions.iter().enumerate().map(parent).collect()
}

/// Reads all lines.
pub(super) fn read(
    lines: Lines<'_>,
    settings: &TraceSettings,
    counter: &TokenCounter,
    seed: Seed,
) -> Result<Loaded, Fault> {
    let mut documents = Documents::new(settings, counter, seed)?;
    let block_tokens = settings.block_tokens.unwrap_or(BLOCK_TOKENS);
    let min_spawn_millis = settings.min_spawn_millis.unwrap_or(MIN_SPAWN_MILLIS);
    let sessions: Vec<Session> = grouped(lines)?
        .into_iter()
        .filter_map(|rounds| {
            let all = rounds.len();
            let session = Session::new(rounds, min_spawn_millis)?;
            // Lines that do not say when they were sent cannot be replayed.
            documents.leave_out(LeftOut::WithoutPrompt, (all - session.sent.len()) as u64);
            Some(session)
        })
        .collect();
    let parents = parents(&sessions);
    // A sub-agent of a sub-agent is an agent of its own.
    let is_root = |at: usize| parents[at].is_none_or(|(parent, _)| parents[parent].is_some());
    let mut children: Vec<Vec<(usize, Window)>> = vec![Vec::new(); sessions.len()];
    for (at, parent) in parents.iter().enumerate() {
        if let Some((parent, window)) = parent.filter(|_| !is_root(at)) {
            children[parent].push((at, window));
        }
    }
    for (at, session) in sessions.iter().enumerate().filter(|(at, _)| is_root(*at)) {
        if session.sent.is_empty() {
            continue;
        }
        if documents.is_full() {
            break;
        }
        let own = children[at].iter().map(|(child, window)| (&sessions[*child], *window));
        let document = document(session, own, block_tokens);
        documents.add(document).map_err(|why| Fault::Line(session.line, why))?;
    }
    documents.finish()
}

/// Returns the lines of each session, in the order of their first ones.
fn grouped(lines: Lines<'_>) -> Result<Vec<Vec<(u64, Round)>>, Fault> {
    let mut sessions: Vec<Vec<(u64, Round)>> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for line in lines {
        let line = line?;
        let fault = |why| Fault::Line(line.number, why);
        let round: Round = from_object(&line.text).map_err(fault)?;
        check_input(round.input_tokens_total.unwrap_or(0).max(1)).map_err(fault)?;
        let place = *places.entry(round.session_id.clone()).or_insert(sessions.len());
        if place == sessions.len() {
            sessions.push(Vec::new());
        }
        sessions[place].push((line.number, round));
    }
    Ok(sessions)
}

/// Returns the document of an agent and its sub-agents, which have the same blocks.
fn document<'s>(
    session: &Session,
    children: impl Iterator<Item = (&'s Session, Window)>,
    block_tokens: u32,
) -> Document {
    let start = session.sent.first().map_or(Time(0), |sent| sent.at);
    let mut next = 1;
    let requests = session.requests(start, block_tokens, &mut next);
    let mut agents: Vec<Agent> = children
        .map(|(child, window)| Agent {
            t: window.start.since(start),
            id: cleaned(&child.id),
            duration_ms: Some(window.millis),
            tool_tokens: None,
            system_tokens: None,
            requests: child
                .requests(start, block_tokens, &mut next)
                .into_iter()
                .map(Entry::Request)
                .collect(),
        })
        .collect();
    agents.sort_by(|one, other| one.t.total_cmp(&other.t));
    let mut agents = agents.into_iter().peekable();
    let mut entries = Vec::new();
    let mut requests = requests.into_iter().peekable();
    while let Some(request) = requests.next() {
        entries.push(Entry::Request(request));
        let later = requests.peek().map_or(f64::INFINITY, |request| request.t);
        while let Some(agent) = agents.next_if(|agent| agent.t < later) {
            entries.push(Entry::Agent(agent));
        }
    }
    Document {
        id: cleaned(&session.id),
        block_size: block_tokens,
        hash_id_scope: Scope::Local,
        tool_tokens: None,
        system_tokens: None,
        timestamp: None,
        requests: entries,
    }
}

/// Returns an ID in which each sequence of other characters than letters, digits, `.`, `_` and `-` is one
/// `_`.
fn cleaned(id: &str) -> String {
    let mut cleaned = String::new();
    let mut is_other = false;
    for letter in id.chars() {
        let was_other = is_other;
        is_other = !letter.is_ascii_alphanumeric() && !"._-".contains(letter);
        if !is_other {
            cleaned.push(letter);
        } else if !was_other {
            cleaned.push('_');
        }
    }
    cleaned.truncate(MAX_ID);
    cleaned
}

/// Returns whether a line with these members is of this format.
pub(super) fn has(members: &Map<String, Value>) -> bool {
    [
        "session_id",
        "round_index",
        "input_tokens_total",
        "prefix_tokens",
        "newly_append_tokens",
        "timing_events",
    ]
    .iter()
    .all(|name| members.contains_key(*name))
}

#[cfg(test)]
mod tests;
