//! Parses responses of Anthropic Messages, streamed or not.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::endpoint::reader::{Answer, Reader, null_is_empty};
use crate::endpoint::structure::{Content, TextKind, open_object};
use crate::endpoint::text::Text;

/// Whether the stream is complete.
#[derive(Default)]
pub(in crate::endpoint) struct Events {
    stopped: bool,
}

/// An event, or a whole message.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    // The message that `message_start` opens; a text in errors of other formats.
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    content_block: Option<Block<'a>>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, deserialize_with = "null_is_empty")]
    content: Vec<Block<'a>>,
    #[serde(borrow)]
    model: Text<'a>,
    #[serde(borrow)]
    stop_reason: Text<'a>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// The message at the start of a stream.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Start<'a> {
    #[serde(borrow)]
    model: Text<'a>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

open_object! {
    /// A content block: text, thinking, or tool use.
    struct Block<'a> {
        "type" => kind: Text<'a>,
        "text" => text: Content<'a>,
        "thinking" => thinking: Content<'a>,
        "name" => name: Text<'a>,
        "input" => input: Option<&'a RawValue>,
    }
}

open_object! {
    /// A change to a block (its signature is not content) or to the message.
    struct Delta<'a> {
        "text" => text: Content<'a>,
        "thinking" => thinking: Content<'a>,
        "partial_json" => partial_json: Text<'a>,
        "stop_reason" => stop_reason: Text<'a>,
    }
}

impl Reader for Events {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        let event: Event<'_> = serde_json::from_slice(json)?;
        let start = event.message.filter(|message| message.get().starts_with('{'));
        if let Some(start) = start {
            let start: Start<'_> = serde_json::from_str(start.get())?;
            answer.model(&start.model);
            answer.usage(start.usage);
        }
        if event.error.is_some() {
            answer.report_raw(event.error);
        } else if start.is_none() && event.message.is_some() {
            answer.report_json(json);
        }
        for block in &event.content {
            block.read(answer);
            // Only for a whole message: in a stream, the input follows in deltas.
            if let Some(input) = block.input {
                answer.calls.more(input.get());
                answer.call(input.get());
            }
        }
        if let Some(block) = &event.content_block {
            block.read(answer);
        }
        if let Some(delta) = &event.delta {
            answer.content(TextKind::Output, "text", &delta.text);
            answer.content(TextKind::Reasoning, "thinking", &delta.thinking);
            answer.calls.more(&delta.partial_json.0);
            answer.call(&delta.partial_json.0);
            answer.extra(answer.found_now(), &delta.extra);
            answer.finish_reason(&delta.stop_reason.0);
        }
        answer.model(&event.model);
        answer.finish_reason(&event.stop_reason.0);
        answer.usage(event.usage);
        self.stopped |= event.kind.0 == "message_stop";
        Ok(())
    }

    fn is_complete(&self, answer: &Answer) -> bool {
        self.stopped || answer.has_finish_reason()
    }

    /// Marks `input_tokens` as excluding tokens read from and written to the cache; they are added,
    /// so that a prompt has all its tokens, as in the other dialects.
    fn end(&mut self, answer: &mut Answer) {
        answer.usage.leaves_out_cache = true;
        answer.calls.may_be_empty = true;
    }
}

impl Block<'_> {
    fn read(&self, answer: &mut Answer) {
        if self.kind.0 == "tool_use" {
            answer.calls.whole("");
        }
        answer.content(TextKind::Output, "text", &self.text);
        answer.content(TextKind::Reasoning, "thinking", &self.thinking);
        answer.call(&self.name.0);
        // What a tool returned was not generated.
        if !self.kind.0.ends_with("_result") {
            answer.extra(answer.found_now(), &self.extra);
        }
    }
}
