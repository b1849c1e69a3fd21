//! Responses as bytes: whole, or event by event with their due times. Pure.

mod text;

use std::sync::Arc;

use bytes::Bytes;

use base::units::Nanos;

use super::activity::Finish;
use super::dialect::{Dialect, SCRIPTED};
use super::schedule::{Schedule, mix, unit};
use super::script::{Corruption, Fault, Form, Script};
use super::timing::Report;
use super::vocabulary::Vocabulary;
use super::write_log::EventKind;

pub(super) use self::text::Wording;

/// The material of a server's responses.
#[derive(Debug)]
pub(super) struct ReplyContent {
    pub(super) vocabulary: Vocabulary,
    /// A vector as a JSON array, the same for every input.
    pub(super) embedding: String,
}

impl ReplyContent {
    pub(super) fn new(script: &Script) -> Self {
        Self {
            vocabulary: Vocabulary::new(script.seed),
            embedding: embedding(script.seed, script.embedding_dimensions),
        }
    }
}

/// Returns a vector of length 1 in a random direction.
fn embedding(seed: u64, dimensions: usize) -> String {
    let values: Vec<_> =
        (0..dimensions as u64).map(|index| 2.0 * unit(mix(seed, index)) - 1.0).collect();
    let length = values.iter().map(|value| value * value).sum::<f64>().sqrt();
    let values: Vec<_> = values.iter().map(|value| format!("{:.9}", value / length)).collect();
    format!("[{}]", values.join(","))
}

/// The response to one request.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) material: Arc<ReplyContent>,
    pub(super) dialect: &'static dyn Dialect,
    pub(super) id: u64,
    /// Creation time in seconds since the Unix epoch.
    pub(super) created: u64,
    /// The model's name as a JSON string.
    pub(super) model: String,
    pub(super) choices: u64,
    /// Whether a response that is not streamed is plain text.
    pub(super) plain: bool,
    pub(super) wording: Wording,
    /// Number of tokens of each choice, including reasoning.
    pub(super) tokens: u64,
    /// Number of these tokens that are reasoning.
    pub(super) reasoning: u64,
    pub(super) per_chunk: u64,
    pub(super) form: Form,
    pub(super) finish: Finish,
    /// Number of prompt tokens, if usage is reported.
    pub(super) usage: Option<u64>,
    /// Number of prompt tokens that were cached, if there is a prefix cache.
    pub(super) cached: Option<u64>,
    pub(super) fault: Option<Fault>,
    /// The beginning that all events of its stream have in common, from the dialect.
    pub(super) prelude: String,
    /// What is reported of its times.
    pub(super) report: Option<Report>,
    /// Due time of the last step of a response that is not streamed.
    pub(super) ready: Nanos,
    /// Time from the request's arrival until then.
    pub(super) work: Nanos,
}

/// Some tokens of one choice, either all or none of them reasoning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    pub(super) choice: u64,
    /// Index of its first token within the choice.
    pub(super) first: u64,
    pub(super) count: u64,
    /// Number of chunks, of any choice, before it.
    pub(super) at: u64,
    pub(super) is_reasoning: bool,
    /// Whether it is the choice's last chunk.
    pub(super) is_last: bool,
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) kind: EventKind,
    pub(super) due: Nanos,
    pub(super) bytes: Bytes,
    pub(super) tokens: u64,
    /// The choice that its tokens belong to.
    pub(super) choice: u64,
    /// Number of its bytes after which the connection is closed.
    pub(super) cut: Option<usize>,
}

impl Event {
    /// Returns the number of tokens that the client receives completely.
    pub(super) fn served_tokens(&self) -> u64 {
        if self.cut.is_some_and(|cut| cut < self.bytes.len()) { 0 } else { self.tokens }
    }
}

impl Reply {
    /// Ends the output early, if the script has it end.
    pub(super) fn truncate(&mut self) {
        if self.corruption() == Some(Corruption::Truncated) && self.tokens > 0 {
            self.tokens = (self.tokens / 3).max(1);
            self.reasoning = self.reasoning.min(self.tokens);
            self.finish = Finish::Stop;
        }
    }

    /// Returns what usage reports of a number of generated tokens.
    pub(super) fn reported(&self, tokens: u64) -> u64 {
        if self.corruption() == Some(Corruption::Usage) { tokens / 2 } else { tokens }
    }

    /// Returns whether the tokens after those of reasoning are in a tool call.
    pub(super) fn calls_tool(&self) -> bool {
        self.form.tool_calls && self.dialect.can_call_tools() && self.tokens > self.reasoning
    }

    /// Returns whether all tokens are in one event.
    pub(super) fn is_burst(&self) -> bool {
        self.corruption() == Some(Corruption::Burst)
    }

    /// Returns whether the stream omits its end marker.
    pub(super) fn lacks_end(&self) -> bool {
        self.fault == Some(Fault::NoDone)
    }

    /// Returns whether the response is successful but empty.
    pub(super) fn is_empty(&self) -> bool {
        self.fault == Some(Fault::EmptyStream)
    }

    /// Returns the body of a response that is not streamed.
    pub(super) fn whole(&self) -> Bytes {
        if self.is_empty() {
            return Bytes::new();
        }
        if self.fails_whole() {
            return Bytes::from(self.dialect.error(SCRIPTED, "InternalServerError", None, 500));
        }
        let mut body = self.dialect.whole(self);
        if matches!(self.fault, Some(Fault::GarbageJson { at_event: 0 })) {
            body.truncate(body.len() / 2);
        }
        Bytes::from(body)
    }

    /// Returns whether a whole body contains an error instead.
    fn fails_whole(&self) -> bool {
        self.fault == Some(Fault::ErrorEvent { after_events: 0 })
    }

    /// Returns the number of tokens in a whole body.
    pub(super) fn whole_tokens(&self) -> u64 {
        if self.is_empty() || self.fails_whole() { 0 } else { self.tokens * self.choices }
    }

    /// Returns the finish reason of a response that is not streamed.
    pub(super) fn whole_finish(&self) -> Finish {
        if self.fails_whole() { Finish::Error } else { self.finish }
    }

    /// Returns the number of steps of its schedule: chunks of reasoning, then of content. At least
    /// one.
    pub(super) fn chunks(&self) -> u64 {
        let content = self.tokens - self.reasoning;
        let chunks = self.reasoning.div_ceil(self.per_chunk) + content.div_ceil(self.per_chunk);
        chunks.max(1)
    }

    /// Returns the number of content events of each choice in a stream. At least one.
    pub(super) fn content_events(&self) -> u64 {
        if self.is_burst() {
            u64::from(self.reasoning > 0 && self.reasoning < self.tokens) + 1
        } else {
            self.chunks()
        }
    }

    /// Returns how much of a whole body of `length` bytes is sent, if not all.
    pub(super) fn whole_cut(&self, length: usize) -> Option<usize> {
        self.cut(0, true, length)
    }

    /// Returns where an event of `length` bytes that follows `content_sent` content events is cut.
    fn cut(&self, content_sent: u64, is_content: bool, length: usize) -> Option<usize> {
        let Some(Fault::CutStream { after_events, mid_event }) = self.fault else { return None };
        if mid_event {
            (is_content && content_sent == after_events).then_some(length / 2)
        } else if after_events == 0 {
            Some(0)
        } else {
            (is_content && content_sent + 1 == after_events).then_some(length)
        }
    }
}

/// The events of a response, in order.
#[derive(Debug)]
pub(super) struct Events {
    reply: Reply,
    schedule: Schedule,
    due: Nanos,
    /// Due time of the events before the first token.
    opening_due: Nanos,
    next: Next,
    openings: u64,
    /// Number of events without a text between those and the first token.
    empties: u64,
    closings: u64,
    /// The closing event that is the end marker.
    end_marker: u64,
    content_sent: u64,
    /// Whether the `error` event was sent.
    failed: bool,
    /// Whether the connection was closed, so that nothing follows.
    cut: bool,
}

/// The next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// An event before the first token: an opening one, then one without a text.
    Open {
        at: u64,
    },
    /// The beginning of a tool call.
    Call {
        choice: u64,
    },
    Chunk {
        first: u64,
        choice: u64,
    },
    Late,
    Error,
    Close {
        at: u64,
    },
    Nothing,
}

impl Events {
    pub(super) fn new(mut reply: Reply, mut schedule: Schedule) -> Self {
        let dialect = reply.dialect;
        reply.prelude = dialect.prelude(&reply);
        let (openings, closings) = (dialect.openings(&reply), dialect.closings(&reply));
        let end_marker = dialect.end_marker(&reply);
        let has_empty = reply.form.empty_first && dialect.can_be_empty();
        let empties = if has_empty { reply.choices } else { 0 };
        let due = schedule.next_due();
        let is_early = reply.form.early_role || has_empty;
        let opening_due = if is_early { schedule.at_once() } else { due };
        let mut events = Self {
            reply,
            schedule,
            due,
            opening_due,
            next: Next::Nothing,
            openings,
            empties,
            closings,
            end_marker,
            content_sent: 0,
            failed: false,
            cut: false,
        };
        events.next = if events.reply.is_empty() { events.end() } else { events.opening(0) };
        events
    }

    /// Returns why the stream ended, once it has ended.
    pub(super) fn finish(&self) -> Finish {
        if self.cut {
            Finish::Abort
        } else if self.failed {
            Finish::Error
        } else {
            self.reply.finish
        }
    }

    /// Returns whether the connection is closed after the stream.
    pub(super) fn closes_after(&self) -> bool {
        self.reply.fault == Some(Fault::CloseAfterEach)
    }

    fn opening(&self, at: u64) -> Next {
        if at < self.openings + self.empties { Next::Open { at } } else { self.tokens(0, 0) }
    }

    /// Returns the next event of a choice, whose token `first` is next.
    fn tokens(&self, first: u64, choice: u64) -> Next {
        if first == self.reply.reasoning && self.reply.calls_tool() {
            Next::Call { choice }
        } else {
            Next::Chunk { first, choice }
        }
    }

    fn closing(&self, at: u64) -> Next {
        let told = self.closings.saturating_sub(u64::from(self.reply.lacks_end()));
        if at < told { Next::Close { at } } else { Next::Nothing }
    }

    /// Returns the last closing event.
    const fn end(&self) -> Next {
        match self.closings.checked_sub(1) {
            Some(at) => Next::Close { at },
            None => Next::Nothing,
        }
    }

    fn open(&mut self, at: u64) -> Event {
        self.next = self.opening(at + 1);
        let mut data = self.data();
        let event = if let Some(choice) = at.checked_sub(self.openings) {
            let first = self.reply.tokens;
            let nothing =
                Chunk { choice, first, count: 0, at: 0, is_reasoning: false, is_last: false };
            self.reply.dialect.chunk(&self.reply, &nothing, &mut data);
            self.event(EventKind::Empty, data, 0, choice)
        } else {
            self.reply.dialect.open(&self.reply, at, &mut data);
            self.event(EventKind::Open, data, 0, at % self.reply.choices)
        };
        Event { due: self.opening_due, ..event }
    }

    fn call(&mut self, choice: u64) -> Event {
        self.next = Next::Chunk { first: self.reply.reasoning, choice };
        let mut data = self.data();
        self.reply.dialect.call(&self.reply, choice, &mut data);
        self.event(EventKind::ToolCall, data, 0, choice)
    }

    fn chunk(&mut self, first: u64, choice: u64) -> Event {
        let Reply { tokens, reasoning, per_chunk, choices, .. } = self.reply;
        let per_chunk = if self.reply.is_burst() { tokens.max(1) } else { per_chunk };
        let is_reasoning = first < reasoning;
        let count = per_chunk.min(if is_reasoning { reasoning } else { tokens } - first);
        let after = first + count;
        let is_last = after >= tokens;
        self.next = match (choice + 1 < choices, is_last) {
            (true, _) => self.tokens(first, choice + 1),
            (false, false) => self.tokens(after, 0),
            (false, true) if self.has_late() => Next::Late,
            (false, true) => self.closing(0),
        };
        let at = self.content_sent;
        let event = self.content(Chunk { choice, first, count, at, is_reasoning, is_last });
        // The due time of the next step; what follows the last step is due with it.
        if matches!(self.next, Next::Chunk { choice: 0, .. } | Next::Call { choice: 0 }) {
            self.due = self.schedule.next_due();
        }
        event
    }

    /// Returns whether content follows the end.
    fn has_late(&self) -> bool {
        let is_late = self.reply.corruption() == Some(Corruption::AfterEnd);
        is_late && self.reply.dialect.can_continue()
    }

    /// Returns one more token of the first choice.
    fn late(&mut self) -> Event {
        self.next = self.closing(0);
        let (first, at) = (self.reply.tokens, self.content_sent);
        self.content(Chunk { choice: 0, first, count: 1, at, is_reasoning: false, is_last: false })
    }

    fn content(&mut self, chunk: Chunk) -> Event {
        let Chunk { choice, count, at, is_reasoning, .. } = chunk;
        let mut data = self.data();
        self.reply.dialect.chunk(&self.reply, &chunk, &mut data);
        if self.reply.fault == Some(Fault::GarbageJson { at_event: at }) {
            garble(&mut data);
        }
        let kind = match is_reasoning {
            _ if count == 0 => EventKind::Empty,
            true => EventKind::Reasoning,
            false if chunk.first < self.reply.tokens && self.reply.calls_tool() => {
                EventKind::ToolCall
            }
            false => EventKind::Content,
        };
        let event = self.event(kind, data, count, choice);
        self.content_sent += 1;
        event
    }

    fn error(&mut self) -> Event {
        let dialect = self.reply.dialect;
        self.next = if dialect.closes_after_error() { self.end() } else { Next::Nothing };
        self.event(EventKind::Error, dialect.error_event(), 0, 0)
    }

    fn close(&mut self, at: u64) -> Event {
        self.next = self.closing(at + 1);
        let mut data = self.data();
        self.reply.dialect.close(&self.reply, at, &mut data);
        let kind = if at < self.end_marker { EventKind::Usage } else { EventKind::End };
        let due = self.schedule.after_silence(self.due + self.reply.form.end_delay);
        Event { due, ..self.event(kind, data, 0, 0) }
    }

    fn data(&self) -> String {
        String::with_capacity(self.reply.prelude.len() + 128)
    }

    fn event(&self, kind: EventKind, mut data: String, tokens: u64, choice: u64) -> Event {
        data.push_str("\n\n");
        let cut = self.reply.cut(self.content_sent, tokens > 0, data.len());
        Event { kind, due: self.due, bytes: Bytes::from(data), tokens, choice, cut }
    }
}

/// Breaks the JSON of the last event in `data`.
fn garble(data: &mut String) {
    let start = data.rfind("data:").unwrap_or(0);
    let half = start.midpoint(data.len());
    data.truncate(data.floor_char_boundary(half));
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let fails = self.reply.fault == Some(Fault::ErrorEvent { after_events: self.content_sent });
        if fails && !self.failed && !matches!(self.next, Next::Open { .. }) {
            self.failed = true;
            self.next = Next::Error;
        }
        let event = match self.next {
            Next::Open { at } => self.open(at),
            Next::Call { choice } => self.call(choice),
            Next::Chunk { first, choice } => self.chunk(first, choice),
            Next::Late => self.late(),
            Next::Error => self.error(),
            Next::Close { at } => self.close(at),
            Next::Nothing => return None,
        };
        if event.cut.is_some() {
            self.cut = true;
            self.next = Next::Nothing;
        }
        Some(event)
    }
}

#[cfg(test)]
mod tests;
