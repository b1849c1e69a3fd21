//! OpenAI Responses.

use std::fmt::Write as _;

use serde::Deserialize;

use super::{Call, Dialect, Route, SCRIPTED};
use crate::activity::Finish;
use crate::reply::{Chunk, Reply};
use crate::request::{self, Ask, BadRequest, Message, Prompt, Text, missing};

/// `/v1/responses`. Reasoning is a separate item before the message.
#[derive(Debug)]
pub(super) struct Responses;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    input: Option<Input<'a>>,
    #[serde(borrow)]
    instructions: Option<Text<'a>>,
    stream: Option<bool>,
    max_output_tokens: Option<i64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Input<'a> {
    Text(#[serde(borrow)] Text<'a>),
    Items(#[serde(borrow)] Vec<Message<'a>>),
}

impl Dialect for Responses {
    fn routes(&self) -> &'static [Route] {
        const { &[Route::generate("/v1/responses")] }
    }

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest> {
        let body: Body<'a> = request::json(call.body)?;
        let mut prompts: Vec<_> = body.instructions.map(Prompt::from).into_iter().collect();
        match body.input.ok_or_else(|| missing("input"))? {
            Input::Text(text) => prompts.push(text.into()),
            Input::Items(items) => prompts.extend(items.into_iter().flat_map(Message::texts)),
        }
        Ask {
            model: body.model.map(|text| text.0),
            stream: body.stream.unwrap_or(false),
            ..Ask::from_prompts(prompts)
        }
        .limited(body.max_output_tokens.map(|n| ("max_output_tokens", n)))
    }

    fn reasons(&self) -> bool {
        true
    }

    fn whole(&self, reply: &Reply) -> Vec<u8> {
        let mut out = String::new();
        response(reply, &mut out, status(reply));
        out.into_bytes()
    }

    /// The response, twice, and the first item with its part.
    fn openings(&self, _reply: &Reply) -> u64 {
        OPENINGS
    }

    fn open(&self, reply: &Reply, at: u64, out: &mut String) {
        let first = if reply.reasoning > 0 { Item::Reasoning } else { Item::Message };
        match at {
            0 => response_event(reply, at, "response.created", "in_progress", out),
            1 => response_event(reply, at, "response.in_progress", "in_progress", out),
            2 => first.added(reply, at, out),
            _ => first.part(reply, at, "added", "", out),
        }
    }

    fn chunk(&self, reply: &Reply, chunk: &Chunk, out: &mut String) {
        let mut number = OPENINGS + chunk.at;
        if reply.reasoning > 0 && !chunk.is_reasoning {
            if chunk.first == reply.reasoning {
                Item::Reasoning.close(reply, number, out);
                out.push_str("\n\n");
                Item::Message.added(reply, number + 3, out);
                out.push_str("\n\n");
                Item::Message.part(reply, number + 4, "added", "", out);
                out.push_str("\n\n");
            }
            number += BETWEEN;
        }
        let item = if chunk.is_reasoning { Item::Reasoning } else { Item::Message };
        item.event(reply, number, &format!("{}.delta", item.part_event()), out);
        out.push_str(r#""content_index":0,"delta":""#);
        reply.append_text(out, chunk.choice, chunk.first, chunk.count);
        out.push_str(r#"","logprobs":[]}"#);
    }

    /// The three ends of the last item, and that of the response.
    fn closings(&self, _reply: &Reply) -> u64 {
        4
    }

    fn close(&self, reply: &Reply, at: u64, out: &mut String) {
        let number = last_chunk(reply) + 1 + at;
        let has_text = reply.tokens > reply.reasoning || reply.reasoning == 0;
        let item = if has_text { Item::Message } else { Item::Reasoning };
        if at == 3 {
            let kind = match reply.finish {
                Finish::Length => "response.incomplete",
                _ => "response.completed",
            };
            response_event(reply, number, kind, status(reply), out);
        } else {
            item.close_event(reply, number, at, out);
        }
    }

    fn error_event(&self) -> String {
        format!(
            r#"event: error
data: {{"type":"error","code":"server_error","message":"{SCRIPTED}","param":null,"sequence_number":0}}"#
        )
    }
}

/// Number of events before the first chunk.
const OPENINGS: u64 = 4;
/// Number of events between reasoning and text.
const BETWEEN: u64 = 5;

/// Returns the sequence number of the last chunk.
fn last_chunk(reply: &Reply) -> u64 {
    let has_both = reply.reasoning > 0 && reply.tokens > reply.reasoning;
    OPENINGS + reply.content_events() - 1 + if has_both { BETWEEN } else { 0 }
}

/// The items of a response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Item {
    Reasoning,
    Message,
}

impl Item {
    /// Returns `response.…`, the name of the events of its part without their suffixes.
    const fn part_event(self) -> &'static str {
        match self {
            Self::Reasoning => "response.reasoning_text",
            Self::Message => "response.output_text",
        }
    }

    fn index(self, reply: &Reply) -> u64 {
        u64::from(self == Self::Message && reply.reasoning > 0)
    }

    fn id(self, reply: &Reply) -> String {
        let prefix = if self == Self::Reasoning { "rs" } else { "msg" };
        format!("{prefix}_{:016x}", reply.id)
    }

    fn text(self, reply: &Reply) -> String {
        match self {
            Self::Reasoning => reply.text(0, reply.reasoning),
            Self::Message => reply.text(reply.reasoning, reply.tokens - reply.reasoning),
        }
    }

    /// Appends an event about the item, up to its own members.
    fn event(self, reply: &Reply, number: u64, kind: &str, out: &mut String) {
        let (id, index) = (self.id(reply), self.index(reply));
        begin(kind, number, out);
        let _ = write!(out, r#""item_id":"{id}","output_index":{index},"#);
    }

    fn added(self, reply: &Reply, number: u64, out: &mut String) {
        self.whole_event(reply, number, "added", out);
    }

    /// Appends the event with the whole item, at its beginning or end.
    fn whole_event(self, reply: &Reply, number: u64, end: &str, out: &mut String) {
        begin(&format!("response.output_item.{end}"), number, out);
        let _ = write!(out, r#""output_index":{},"item":"#, self.index(reply));
        self.append(reply, end == "done", out);
        out.push('}');
    }

    /// Appends the event with a part of the item, at its beginning or end.
    fn part(self, reply: &Reply, number: u64, end: &str, text: &str, out: &mut String) {
        self.event(reply, number, &format!("response.content_part.{end}"), out);
        out.push_str(r#""content_index":0,"part":"#);
        self.append_part(text, out);
        out.push('}');
    }

    fn close(self, reply: &Reply, number: u64, out: &mut String) {
        for at in 0..3 {
            if at > 0 {
                out.push_str("\n\n");
            }
            self.close_event(reply, number + at, at, out);
        }
    }

    fn close_event(self, reply: &Reply, number: u64, at: u64, out: &mut String) {
        let text = self.text(reply);
        match at {
            0 => {
                self.event(reply, number, &format!("{}.done", self.part_event()), out);
                let _ = write!(out, r#""content_index":0,"text":"{text}"}}"#);
            }
            1 => self.part(reply, number, "done", &text, out),
            _ => self.whole_event(reply, number, "done", out),
        }
    }

    fn append_part(self, text: &str, out: &mut String) {
        let _ = match self {
            Self::Reasoning => write!(out, r#"{{"type":"reasoning_text","text":"{text}"}}"#),
            Self::Message => write!(
                out,
                r#"{{"type":"output_text","annotations":[],"logprobs":[],"text":"{text}"}}"#
            ),
        };
    }

    fn append(self, reply: &Reply, is_done: bool, out: &mut String) {
        let id = self.id(reply);
        let kind = match self {
            Self::Reasoning => r#""type":"reasoning","summary":[]"#,
            Self::Message => r#""type":"message","role":"assistant""#,
        };
        let status = if is_done { status(reply) } else { "in_progress" };
        let _ = write!(out, r#"{{"id":"{id}",{kind},"status":"{status}","content":["#);
        if is_done {
            self.append_part(&self.text(reply), out);
        }
        out.push_str("]}");
    }
}

/// Appends `event: …`, and its data up to the sequence number.
fn begin(kind: &str, number: u64, out: &mut String) {
    let _ = write!(out, "event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{number},");
}

fn response_event(reply: &Reply, number: u64, kind: &str, status: &str, out: &mut String) {
    begin(kind, number, out);
    out.push_str(r#""response":"#);
    response(reply, out, status);
    out.push('}');
}

const fn status(reply: &Reply) -> &'static str {
    match reply.finish {
        Finish::Length => "incomplete",
        _ => "completed",
    }
}

/// Appends the response object, with its output and usage once it has ended.
fn response(reply: &Reply, out: &mut String, status: &str) {
    let Reply { id, created, model, tokens, reasoning, .. } = reply;
    let _ = write!(
        out,
        r#"{{"id":"resp_{id:016x}","object":"response","created_at":{created},"status":"{status}","error":null,"incomplete_details":"#
    );
    let limited = if status == "incomplete" { r#"{"reason":"max_output_tokens"}"# } else { "null" };
    let _ = write!(out, r#"{limited},"model":{model},"output":["#);
    let has_ended = status != "in_progress";
    if has_ended && !reply.is_empty() {
        if *reasoning > 0 {
            Item::Reasoning.append(reply, true, out);
            out.push(',');
        }
        Item::Message.append(reply, true, out);
    }
    out.push_str(r#"],"usage":"#);
    match reply.usage.filter(|_| has_ended) {
        None => out.push_str("null"),
        Some(prompt) => {
            let [tokens, reasoning] = [*tokens, *reasoning].map(|count| reply.reported(count));
            let total = prompt + tokens;
            let cached = reply.cached.unwrap_or(0);
            let _ = write!(
                out,
                r#"{{"input_tokens":{prompt},"input_tokens_details":{{"cached_tokens":{cached}}},"output_tokens":{tokens},"output_tokens_details":{{"reasoning_tokens":{reasoning}}},"total_tokens":{total}}}"#
            );
        }
    }
    out.push('}');
}
