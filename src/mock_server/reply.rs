//! Answers as bytes: whole, or event by event with their due times. Pure.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;

use super::activity::Finish;
use super::request::Dialect;
use super::schedule::Schedule;
use super::script::Fault;
use super::vocabulary::Vocabulary;
use crate::units::Nanos;

/// What is answered to one request.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) vocabulary: Arc<Vocabulary>,
    pub(super) dialect: Dialect,
    pub(super) id: u64,
    /// Seconds since the Unix epoch.
    pub(super) created: u64,
    /// The model's name as a JSON string.
    pub(super) model: String,
    pub(super) choices: u64,
    /// Tokens of each choice, reasoning included.
    pub(super) tokens: u64,
    /// How many of them are reasoning.
    pub(super) reasoning: u64,
    pub(super) per_chunk: u64,
    pub(super) finish: Finish,
    /// The prompt's tokens, if usage is told.
    pub(super) usage: Option<u64>,
    pub(super) fault: Option<Fault>,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) due: Nanos,
    pub(super) bytes: Bytes,
    pub(super) tokens: u64,
    /// Which choice its tokens belong to.
    pub(super) choice: u64,
    /// After how many of its bytes the connection closes.
    pub(super) cut: Option<usize>,
}

impl Event {
    /// The tokens that the client gets whole.
    pub(super) fn served_tokens(&self) -> u64 {
        if self.cut.is_some_and(|cut| cut < self.bytes.len()) { 0 } else { self.tokens }
    }
}

/// What an `error` event, or a body in its place, says.
const ERROR: &str = r#"{"error":{"message":"The script fails this request.","type":"InternalServerError","param":null,"code":500}}"#;

impl Reply {
    /// `{"id":…,"object":…,"created":…,"model":…,`
    fn opening(&self, stream: bool) -> String {
        let (prefix, object) = match (self.dialect, stream) {
            (Dialect::Chat, true) => ("chatcmpl", "chat.completion.chunk"),
            (Dialect::Chat, false) => ("chatcmpl", "chat.completion"),
            (Dialect::Completions, _) => ("cmpl", "text_completion"),
            (Dialect::Embeddings, _) => ("embd", "list"),
        };
        let Self { id, created, model, .. } = self;
        format!(
            r#"{{"id":"{prefix}-{id:016x}","object":"{object}","created":{created},"model":{model},"#
        )
    }

    /// The tokens of `choice` from the `first`th on. Each choice begins elsewhere in the text.
    fn append_text(&self, out: &mut String, choice: u64, first: u64, count: u64) {
        self.vocabulary.append(out, first + 17 * choice, count);
    }

    fn append_usage(&self, out: &mut String, prompt_tokens: u64) {
        let completion_tokens = self.tokens * self.choices;
        let total_tokens = prompt_tokens + completion_tokens;
        let _ = write!(
            out,
            r#""usage":{{"prompt_tokens":{prompt_tokens},"total_tokens":{total_tokens},"completion_tokens":{completion_tokens}"#
        );
        if self.reasoning > 0 {
            let reasoning = self.reasoning * self.choices;
            let _ =
                write!(out, r#","completion_tokens_details":{{"reasoning_tokens":{reasoning}}}"#);
        }
        out.push('}');
    }

    /// The body of an answer that is not streamed.
    pub(super) fn whole(&self, embedding: &str) -> Bytes {
        match self.fault {
            Some(Fault::EmptyStream) => return Bytes::new(),
            _ if self.fails_whole() => return Bytes::from_static(ERROR.as_bytes()),
            _ => {}
        }
        let mut body = self.opening(false);
        let list = if self.dialect == Dialect::Embeddings { "data" } else { "choices" };
        let _ = write!(body, r#""{list}":["#);
        for choice in 0..self.choices {
            if choice > 0 {
                body.push(',');
            }
            self.append_choice(&mut body, choice, embedding);
        }
        body.push(']');
        if let Some(prompt_tokens) = self.usage {
            body.push(',');
            self.append_usage(&mut body, prompt_tokens);
        }
        body.push('}');
        if matches!(self.fault, Some(Fault::GarbageJson { at_event: 0 })) {
            body.truncate(body.len() / 2);
        }
        Bytes::from(body)
    }

    /// Whether a whole body says an error instead.
    fn fails_whole(&self) -> bool {
        self.fault == Some(Fault::ErrorEvent { after_events: 0 })
    }

    /// The tokens in a whole body.
    pub(super) fn whole_tokens(&self) -> u64 {
        let bears_text = !self.fails_whole() && self.fault != Some(Fault::EmptyStream);
        if bears_text { self.tokens * self.choices } else { 0 }
    }

    /// Why an answer that is not streamed ends.
    pub(super) fn whole_finish(&self) -> Finish {
        if self.fails_whole() { Finish::Error } else { self.finish }
    }

    fn append_choice(&self, body: &mut String, choice: u64, embedding: &str) {
        let _ = write!(body, r#"{{"index":{choice},"#);
        match self.dialect {
            Dialect::Embeddings => {
                let _ = write!(body, r#""object":"embedding","embedding":{embedding}}}"#);
                return;
            }
            Dialect::Completions => {
                body.push_str(r#""text":""#);
                self.append_text(body, choice, 0, self.tokens);
                body.push('"');
            }
            Dialect::Chat => {
                body.push_str(r#""message":{"role":"assistant","#);
                if self.reasoning > 0 {
                    body.push_str(r#""reasoning_content":""#);
                    self.append_text(body, choice, 0, self.reasoning);
                    body.push_str(r#"","#);
                }
                body.push_str(r#""content":""#);
                self.append_text(body, choice, self.reasoning, self.tokens - self.reasoning);
                body.push_str(r#"","refusal":null}"#);
            }
        }
        let _ = write!(body, r#","logprobs":null,"finish_reason":"{}"}}"#, self.finish.label());
    }

    /// Steps that its schedule has: chunks of reasoning, then of content. At least one.
    pub(super) fn chunks(&self) -> u64 {
        let content = self.tokens - self.reasoning;
        let chunks = self.reasoning.div_ceil(self.per_chunk) + content.div_ceil(self.per_chunk);
        chunks.max(1)
    }

    /// How much of a whole body of `length` bytes is sent, if not all.
    pub(super) fn whole_cut(&self, length: usize) -> Option<usize> {
        self.cut(0, true, length)
    }

    /// Where an event of `length` bytes, before which `content_sent` were
    /// sent, is cut.
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

/// The events of a reply, one after the other.
#[derive(Debug)]
pub(super) struct Events {
    reply: Reply,
    schedule: Schedule,
    due: Nanos,
    next: Next,
    opening: String,
    content_sent: u64,
    /// Whether the `error` event was sent.
    failed: bool,
    /// Whether the connection closes here; nothing follows then.
    cut: bool,
}

/// The event that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Role { choice: u64 },
    Chunk { first: u64, choice: u64 },
    Error,
    Usage,
    Done,
    Nothing,
}

impl Events {
    pub(super) fn new(reply: Reply, mut schedule: Schedule) -> Self {
        let next = match (&reply.fault, reply.dialect) {
            (Some(Fault::EmptyStream), _) => Next::Done,
            (_, Dialect::Chat) => Next::Role { choice: 0 },
            _ => Next::Chunk { first: 0, choice: 0 },
        };
        let opening = reply.opening(true);
        let due = schedule.next_due();
        Self { reply, schedule, due, next, opening, content_sent: 0, failed: false, cut: false }
    }

    /// Why the stream ends, once it has ended.
    pub(super) fn finish(&self) -> Finish {
        if self.cut {
            Finish::Abort
        } else if self.failed {
            Finish::Error
        } else {
            self.reply.finish
        }
    }

    /// Whether the connection closes after the stream.
    pub(super) fn closes_after(&self) -> bool {
        self.reply.fault == Some(Fault::CloseAfterEach)
    }

    fn role(&mut self, choice: u64) -> Event {
        self.next = if choice + 1 < self.reply.choices {
            Next::Role { choice: choice + 1 }
        } else {
            Next::Chunk { first: 0, choice: 0 }
        };
        let mut data = self.data();
        let _ = write!(
            data,
            r#""choices":[{{"index":{choice},"delta":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null}}]}}"#
        );
        self.event(data, 0, choice)
    }

    fn chunk(&mut self, first: u64, choice: u64) -> Event {
        let Reply { tokens, reasoning, per_chunk, choices, dialect, .. } = self.reply;
        let boundary = if first < reasoning { reasoning } else { tokens };
        let count = per_chunk.min(boundary - first);
        let after = first + count;
        self.next = match (choice + 1 < choices, after < tokens) {
            (true, _) => Next::Chunk { first, choice: choice + 1 },
            (false, true) => Next::Chunk { first: after, choice: 0 },
            (false, false) => self.after_content(),
        };
        let mut data = self.data();
        let _ = write!(data, r#""choices":[{{"index":{choice},"#);
        let close = match dialect {
            Dialect::Chat if first < reasoning => {
                data.push_str(r#""delta":{"reasoning_content":""#);
                r#""}"#
            }
            Dialect::Chat => {
                data.push_str(r#""delta":{"content":""#);
                r#""}"#
            }
            _ => {
                data.push_str(r#""text":""#);
                "\""
            }
        };
        self.reply.append_text(&mut data, choice, first, count);
        data.push_str(close);
        data.push_str(r#","logprobs":null,"finish_reason":"#);
        if after < tokens {
            data.push_str("null");
        } else {
            let _ = write!(data, "\"{}\"", self.reply.finish.label());
        }
        data.push_str("}]}");
        if self.reply.fault == Some(Fault::GarbageJson { at_event: self.content_sent }) {
            data.truncate(data.len() / 2);
        }
        let event = self.event(data, count, choice);
        self.content_sent += 1;
        // The next step's time; what follows the last step is due with it.
        if matches!(self.next, Next::Chunk { choice: 0, .. }) {
            self.due = self.schedule.next_due();
        }
        event
    }

    fn after_content(&self) -> Next {
        if self.reply.usage.is_some() { Next::Usage } else { self.after_usage() }
    }

    fn after_usage(&self) -> Next {
        if self.reply.fault == Some(Fault::NoDone) { Next::Nothing } else { Next::Done }
    }

    fn usage(&mut self) -> Event {
        self.next = self.after_usage();
        let mut data = self.data();
        data.push_str(r#""choices":[],"#);
        self.reply.append_usage(&mut data, self.reply.usage.unwrap_or_default());
        data.push('}');
        self.event(data, 0, 0)
    }

    fn literal(&mut self, json: &str, next: Next) -> Event {
        self.next = next;
        self.event(format!("data: {json}"), 0, 0)
    }

    fn data(&self) -> String {
        let mut data = String::with_capacity(self.opening.len() + 128);
        data.push_str("data: ");
        data.push_str(&self.opening);
        data
    }

    fn event(&self, mut data: String, tokens: u64, choice: u64) -> Event {
        data.push_str("\n\n");
        let cut = self.reply.cut(self.content_sent, tokens > 0, data.len());
        Event { due: self.due, bytes: Bytes::from(data), tokens, choice, cut }
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let fails = self.reply.fault == Some(Fault::ErrorEvent { after_events: self.content_sent });
        if fails && !self.failed && !matches!(self.next, Next::Role { .. }) {
            self.failed = true;
            self.next = Next::Error;
        }
        let event = match self.next {
            Next::Role { choice } => self.role(choice),
            Next::Chunk { first, choice } => self.chunk(first, choice),
            Next::Error => self.literal(ERROR, Next::Done),
            Next::Usage => self.usage(),
            Next::Done => self.literal("[DONE]", Next::Nothing),
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
