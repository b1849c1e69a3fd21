//! Anthropic Messages.

use std::fmt::Write as _;

use serde::Deserialize;

use super::{Call, Dialect, Route, SCRIPTED, json_string};
use crate::activity::Finish;
use crate::reply::{Chunk, Reply};
use crate::request::{self, Ask, BadRequest, Content, Message, Text, missing};

/// `/v1/messages`. Reasoning is a thinking block before the text.
#[derive(Debug)]
pub(super) struct Messages;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    messages: Option<Vec<Message<'a>>>,
    #[serde(borrow)]
    system: Option<Content<'a>>,
    stream: Option<bool>,
    max_tokens: Option<i64>,
}

impl Dialect for Messages {
    fn routes(&self) -> &'static [Route] {
        const { &[Route::generate("/v1/messages")] }
    }

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest> {
        let body: Body<'a> = request::json(call.body)?;
        let messages = body.messages.ok_or_else(|| missing("messages"))?;
        let limit = body.max_tokens.ok_or_else(|| missing("max_tokens"))?;
        let mut prompts = body.system.map(Content::texts).unwrap_or_default();
        prompts.extend(messages.into_iter().flat_map(Message::texts));
        Ask {
            model: body.model.map(|text| text.0),
            stream: body.stream.unwrap_or(false),
            ..Ask::from_prompts(prompts)
        }
        .limited(Some(("max_tokens", limit)))
    }

    fn reasons(&self) -> bool {
        true
    }

    fn whole(&self, reply: &Reply) -> Vec<u8> {
        let Reply { id, model, tokens, reasoning, .. } = reply;
        let mut out = format!(
            r#"{{"id":"msg_{id:016x}","type":"message","role":"assistant","model":{model},"content":["#
        );
        if *reasoning > 0 {
            out.push_str(r#"{"type":"thinking","thinking":""#);
            reply.append_text(&mut out, 0, 0, *reasoning);
            let _ = write!(out, r#"","signature":"{SIGNATURE}"}},"#);
        }
        out.push_str(r#"{"type":"text","text":""#);
        reply.append_text(&mut out, 0, *reasoning, tokens - reasoning);
        let _ = write!(out, r#""}}],"stop_reason":"{}","stop_sequence":null"#, stop_reason(reply));
        append_usage(reply, &mut out, *tokens);
        out.push('}');
        out.into_bytes()
    }

    /// The message, the first block, and a ping.
    fn openings(&self, _reply: &Reply) -> u64 {
        3
    }

    fn open(&self, reply: &Reply, at: u64, out: &mut String) {
        let Reply { id, model, .. } = reply;
        match at {
            0 => {
                let _ = write!(
                    out,
                    r#"event: message_start
data: {{"type":"message_start","message":{{"id":"msg_{id:016x}","type":"message","role":"assistant","model":{model},"content":[],"stop_reason":null,"stop_sequence":null"#
                );
                append_usage(reply, out, 0);
                out.push_str("}}");
            }
            1 => start_block(0, reply.reasoning > 0, out),
            _ => out.push_str("event: ping\ndata: {\"type\":\"ping\"}"),
        }
    }

    fn chunk(&self, reply: &Reply, chunk: &Chunk, out: &mut String) {
        let index = u64::from(reply.reasoning > 0 && !chunk.is_reasoning);
        if index == 1 && chunk.first == reply.reasoning {
            delta(0, r#""signature_delta","signature":""#, out);
            let _ = write!(out, "{SIGNATURE}\"}}}}\n\n");
            stop_block(0, out);
            out.push_str("\n\n");
            start_block(1, false, out);
            out.push_str("\n\n");
        }
        let kind = if chunk.is_reasoning {
            r#""thinking_delta","thinking":""#
        } else {
            r#""text_delta","text":""#
        };
        delta(index, kind, out);
        reply.append_text(out, chunk.choice, chunk.first, chunk.count);
        out.push_str(r#""}}"#);
    }

    /// The end of the last block, the message delta, and the end of the stream.
    fn closings(&self, _reply: &Reply) -> u64 {
        3
    }

    fn close(&self, reply: &Reply, at: u64, out: &mut String) {
        match at {
            0 => {
                let has_both = reply.reasoning > 0 && reply.tokens > reply.reasoning;
                stop_block(u64::from(has_both), out);
            }
            1 => {
                let _ = write!(
                    out,
                    r#"event: message_delta
data: {{"type":"message_delta","delta":{{"stop_reason":"{}","stop_sequence":null}}"#,
                    stop_reason(reply)
                );
                append_usage(reply, out, reply.tokens);
                out.push('}');
            }
            _ => out.push_str("event: message_stop\ndata: {\"type\":\"message_stop\"}"),
        }
    }

    fn error_event(&self) -> String {
        format!("event: error\ndata: {}", self.error(SCRIPTED, "", None, 500))
    }

    fn error(&self, message: &str, _kind: &str, _param: Option<&str>, code: u16) -> String {
        let kind = match code {
            400 => "invalid_request_error",
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            _ => "api_error",
        };
        let message = json_string(message);
        format!(r#"{{"type":"error","error":{{"type":"{kind}","message":{message}}}}}"#)
    }
}

/// The signature that the client must send back with the thinking.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

fn start_block(index: u64, is_thinking: bool, out: &mut String) {
    let block = if is_thinking {
        r#"{"type":"thinking","thinking":"","signature":""}"#
    } else {
        r#"{"type":"text","text":""}"#
    };
    let _ = write!(
        out,
        r#"event: content_block_start
data: {{"type":"content_block_start","index":{index},"content_block":{block}}}"#
    );
}

/// Appends a delta up to its text.
fn delta(index: u64, kind: &str, out: &mut String) {
    let _ = write!(
        out,
        r#"event: content_block_delta
data: {{"type":"content_block_delta","index":{index},"delta":{{"type":{kind}"#
    );
}

fn stop_block(index: u64, out: &mut String) {
    let _ = write!(
        out,
        r#"event: content_block_stop
data: {{"type":"content_block_stop","index":{index}}}"#
    );
}

const fn stop_reason(reply: &Reply) -> &'static str {
    match reply.finish {
        Finish::Length => "max_tokens",
        _ => "end_turn",
    }
}

fn append_usage(reply: &Reply, out: &mut String, output_tokens: u64) {
    if let Some(prompt) = reply.usage {
        let cached = reply.cached.unwrap_or(0);
        let computed = prompt - cached;
        let output_tokens = reply.reported(output_tokens);
        let _ = write!(
            out,
            r#","usage":{{"input_tokens":{computed},"cache_creation_input_tokens":0,"cache_read_input_tokens":{cached},"output_tokens":{output_tokens}}}"#
        );
    }
}
