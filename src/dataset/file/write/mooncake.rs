//! Writes `mooncake_trace`: a request per line. The lines of a session are the turns of a conversation.

use std::io::{self, Write};

pub(crate) use super::super::mooncake::BLOCK_TOKENS;
use super::super::mooncake::Line;
use super::super::trace::HashId;
use super::messages::{Said, Whole, array, text, whole};
use super::weka::{Document, Entry, Request};
use super::{Lost, Names, Written, millis, own, wait};
use crate::dataset::{Conversation, Turn};
use crate::units::Nanos;

/// The deepest tree of conversations that is written.
const MAX_DEPTH: usize = 32;

/// Writes all conversations with their texts. Those that others start are sessions of their own.
pub(super) fn write(conversations: &[Conversation], out: &mut impl Write) -> io::Result<Written> {
    let (names, written) = (Names::default(), Written::default());
    let mut writer = Writer { all: conversations, names, written, out };
    for root in conversations.iter().filter(|it| !it.is_child) {
        let start = own(root).first().and_then(|turn| turn.timestamp);
        writer.written.conversations += 1;
        writer.session(root, start, 0)?;
    }
    Ok(writer.written)
}

/// What the lines of a session have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prompts {
    /// The new text, after the texts and responses before it.
    Texts,
    /// Bodies.
    Payloads,
    /// All messages.
    Messages,
}

fn prompts(of: &Conversation) -> Prompts {
    let turns = own(of);
    let later = turns.get(1..).unwrap_or_default();
    let is_text = |turn: &Turn| text(turn).is_some();
    let continues = |turn: &Turn| !turn.starts_anew;
    let has_answers = turns.iter().take(later.len()).any(|turn| turn.answer_is_recorded);
    if turns.iter().all(|turn| turn.raw_payload.is_some()) {
        Prompts::Payloads
    } else if of.inherited_turns == 0
        && (later.is_empty() || !of.standalone_turns)
        && !has_answers
        && turns.iter().all(is_text)
        && later.iter().all(continues)
    {
        Prompts::Texts
    } else {
        Prompts::Messages
    }
}

struct Writer<'a, W> {
    all: &'a [Conversation],
    names: Names,
    written: Written,
    out: &'a mut W,
}

impl<W: Write> Writer<'_, W> {
    /// Writes a conversation that starts at `start`, and those that it starts. Returns when the last of
    /// them ends, if responses take no time.
    fn session(
        &mut self,
        of: &Conversation,
        start: Option<Nanos>,
        depth: usize,
    ) -> io::Result<Option<Nanos>> {
        let name = self.names.unique(&of.id);
        let prompts = prompts(of);
        let mut now = self.started(of, None, start, depth)?;
        let mut before = None;
        for (at, turn) in (of.inherited_turns..).zip(of.own_turns()) {
            let is_first = before.is_none();
            if depth > 0 || !is_first {
                now = now.map(|now| Nanos(now.0.saturating_add(wait(before, turn).0)));
            }
            let (timestamp, delay) = match turn.timestamp {
                Some(at) => (Some(at), turn.delay),
                // The time includes the delay.
                None if is_first && now.is_some() => (now, Nanos::ZERO),
                None => (None, turn.delay),
            };
            let mut line = Line {
                session_id: Some(name.clone()),
                timestamp: timestamp.map(Nanos::as_millis),
                delay: millis(delay),
                ..Line::default()
            };
            self.fill(&mut line, of, at, prompts);
            if line.text_input.is_some() || line.messages.is_some() || line.payload.is_some() {
                self.written.requests += 1;
                write_line(&line, self.out)?;
            } else {
                self.written.lose(Lost::Body, 1);
            }
            now = self.started(of, Some(at), now, depth)?;
            before = Some(turn);
        }
        Ok(now)
    }

    /// Writes the conversations that start after the turn `after` of another one.
    fn started(
        &mut self,
        of: &Conversation,
        after: Option<usize>,
        at: Option<Nanos>,
        depth: usize,
    ) -> io::Result<Option<Nanos>> {
        let mut end = at;
        for branch in of.branches.iter().filter(|branch| branch.after == after) {
            let Some(child) = self.all.get(branch.conversation) else { continue };
            if depth >= MAX_DEPTH {
                self.written.lose(Lost::Depth, 1);
                continue;
            }
            self.written.lose(Lost::Tree, 1);
            let ended = self.session(child, at, depth + 1)?;
            end = end.max(ended.filter(|_| branch.join.is_some()));
        }
        Ok(end)
    }

    /// Sets the prompt of the turn `at`.
    fn fill(&mut self, line: &mut Line, of: &Conversation, at: usize, prompts: Prompts) {
        let Some(turn) = of.turn(at) else { return };
        let has_names = turn.texts.iter().any(|text| text.name().is_some());
        self.written.lose(Lost::Names, u64::from(has_names));
        self.written.lose(Lost::Media, u64::from(!turn.media.is_empty()));
        if let (Prompts::Payloads, Some(body)) = (prompts, &turn.raw_payload) {
            line.payload = Some((**body).to_owned());
            return;
        }
        self.written.lose(Lost::Model, u64::from(!turn.model.is_empty()));
        line.output_length = turn.max_tokens.filter(|tokens| *tokens > 0);
        let mut extra = turn.extra.iter().cloned().collect();
        if prompts == Prompts::Texts {
            line.text_input = text(turn);
        } else if let Some(Whole { said, lacks_response }) = whole(of, at) {
            self.written.lose(Lost::Response, u64::from(lacks_response));
            let Said { messages, tools, extra: further } = said;
            line.messages = Some(array(&messages));
            (line.tools, extra) = (tools, further);
        }
        line.extra = Some(extra).filter(|extra| !extra.is_empty());
    }
}

/// Writes the requests of a document. Each that continues the one before it is a turn of the same session;
/// any other begins one, with its time.
pub(crate) fn write_document(
    document: &Document,
    written: &mut Written,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut sessions = Sessions { start: document.start_seconds(), written, out };
    sessions.write(document.id(), document.entries())
}

struct Sessions<'a, W> {
    /// When the document starts, in seconds.
    start: Option<f64>,
    written: &'a mut Written,
    out: &'a mut W,
}

impl<W: Write> Sessions<'_, W> {
    fn write(&mut self, name: &str, entries: &[Entry]) -> io::Result<()> {
        let (mut names, mut session) = (Names::default(), String::new());
        let mut before: Option<f64> = None;
        for entry in entries {
            let request = match entry {
                Entry::Request(request) => request,
                Entry::Agent(agent) => {
                    self.written.lose(Lost::Tree, 1);
                    self.write(&agent.id, &agent.requests)?;
                    continue;
                }
            };
            let Request { t, input, output, ref hash_ids, ref tools, added, .. } = *request;
            self.written.lose(Lost::Tools, u64::from(!tools.is_empty()));
            let tokens = |tokens: u64| Some(u32::try_from(tokens).unwrap_or(u32::MAX));
            let line = if let (Some(before), Some(added)) = (before, added) {
                Line {
                    delay: Some((t - before) * 1e3).filter(|millis| *millis > 0.0),
                    input_length: tokens(added),
                    ..Line::default()
                }
            } else {
                self.written.lose(Lost::Order, u64::from(before.is_some()));
                session = names.unique(name);
                let first = self.start.is_none().then_some(t * 1e3);
                Line {
                    timestamp: self.start.map(|start| (start + t) * 1e3),
                    delay: first.filter(|millis| *millis > 0.0 && before.is_none()),
                    input_length: tokens(input),
                    hash_ids: Some(hash_ids.iter().map(|id| HashId::from(*id)).collect()),
                    ..Line::default()
                }
            };
            let session_id = Some(session.clone());
            write_line(&Line { session_id, output_length: Some(output), ..line }, self.out)?;
            before = Some(t);
        }
        Ok(())
    }
}

fn write_line(line: &Line, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}
