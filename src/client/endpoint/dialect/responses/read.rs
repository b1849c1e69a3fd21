//! Parses responses of OpenAI Responses, streamed or not.
//!
//! Content is in the deltas: text, refusals, arguments of calls, reasoning or its summary; the name
//! of a call is in the event that adds its item. A stream repeats content at the end of a part, an
//! item and the response; this counts only if no delta contained it before.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::endpoint::envelope::enveloped;
use crate::endpoint::reader::{Answer, ContentKinds, Reader, null_is_empty};
use crate::endpoint::structure::{self, Content, TextKind, open_object};
use crate::endpoint::text::{Number, Text};

/// The parts for which deltas have arrived.
#[derive(Default)]
pub(in crate::endpoint) struct Events {
    parts: Vec<PartId>,
}

/// The part of the response that an event belongs to.
#[derive(PartialEq, Eq)]
struct PartId {
    is_reasoning: bool,
    item: String,
    output: Option<u64>,
    content: Option<u64>,
}

/// An event or a whole response; only events have a `type`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    delta: Content<'a>,
    #[serde(borrow)]
    item_id: Text<'a>,
    output_index: Number,
    content_index: Number,
    summary_index: Number,
    // The content of a completed part, in a member that depends on its type.
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    refusal: Text<'a>,
    #[serde(borrow)]
    arguments: Text<'a>,
    #[serde(borrow)]
    input: Text<'a>,
    #[serde(borrow)]
    code: Text<'a>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    // llama.cpp reports its times beside the response.
    #[serde(borrow)]
    timings: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Text<'a>,
}

enveloped! {
    /// A response, complete or in progress.
    struct Response<'a> {
        #[serde(borrow, default)]
        status: Text<'a>,
        #[serde(borrow, default)]
        incomplete_details: Option<Incomplete<'a>>,
        #[serde(borrow, default, deserialize_with = "null_is_empty")]
        output: Vec<Item<'a>>,
        #[serde(borrow, default)]
        output_text: Text<'a>,
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Incomplete<'a> {
    #[serde(borrow)]
    reason: Text<'a>,
}

open_object! {
    /// An item of the output.
    struct Item<'a> {
        "type" => kind: Text<'a>,
        "content" => content: Option<Vec<Part<'a>>>,
        "summary" => summary: Text<'a>,
        "name" => name: Text<'a>,
        "arguments" => arguments: Text<'a>,
        "input" => input: Text<'a>,
    }
}

open_object! {
    struct Part<'a> {
        "text" => text: Content<'a>,
        "refusal" => refusal: Content<'a>,
    }
}

impl Reader for Events {
    fn read(&mut self, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        let event: Event<'_> = serde_json::from_slice(json)?;
        let kind = &*event.kind.0;
        if !(kind.starts_with("response.") || kind == "error") {
            return Self::whole(&event, json, answer);
        }
        match kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                self.delta(&event, false);
                answer.content(TextKind::Output, "delta", &event.delta);
            }
            "response.function_call_arguments.delta"
            | "response.mcp_call_arguments.delta"
            | "response.custom_tool_call_input.delta"
            | "response.code_interpreter_call_code.delta" => {
                self.delta(&event, false);
                answer.call(&event.delta.text);
            }
            "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => {
                self.delta(&event, true);
                answer.content(TextKind::Reasoning, "delta", &event.delta);
            }
            other if other.rsplit('.').next() == Some("delta") => {
                if let Some(kind) = structure::kind_of_event(other) {
                    self.delta(&event, kind == TextKind::Reasoning);
                    answer.content(kind, "delta", &event.delta);
                    answer.note_place(other, "");
                }
            }
            "response.output_text.done"
            | "response.refusal.done"
            | "response.function_call_arguments.done"
            | "response.mcp_call_arguments.done"
            | "response.custom_tool_call_input.done"
            | "response.code_interpreter_call_code.done"
                if self.is_new(&event, false) =>
            {
                // An event has only one of these.
                let Event { text, refusal, arguments, input, code, .. } = &event;
                answer.output(&text.0);
                answer.output(&refusal.0);
                for text in [arguments, input, code] {
                    answer.call(&text.0);
                }
            }
            "response.reasoning_text.done" | "response.reasoning_summary_text.done"
                if self.is_new(&event, true) =>
            {
                answer.reasoning(&event.text.0);
            }
            "response.output_item.added" => {
                if let Some(item) = event.item {
                    answer.call(&serde_json::from_str::<Item<'_>>(item.get())?.name.0);
                }
            }
            "response.output_item.done" => {
                if let Some(item) = event.item {
                    serde_json::from_str::<Item<'_>>(item.get())?.count_call(answer);
                }
            }
            "error" => answer.report_json(event.error.map_or(json, |error| error.get().as_bytes())),
            // The events for the three outcomes of a response, and for its start.
            _ => {
                if let Some(timings) = event.timings {
                    answer.reports.member("timings", timings);
                }
                answer.report_raw(event.error);
                let response = event.response.map(|response| serde_json::from_str(response.get()));
                let response: Response<'_> = response.transpose()?.unwrap_or_default();
                response.read(kind, answer);
            }
        }
        Ok(())
    }
}

impl Events {
    fn whole(event: &Event<'_>, json: &[u8], answer: &mut Answer) -> Result<(), serde_json::Error> {
        let response: Response<'_> = serde_json::from_slice(json)?;
        response.read("", answer);
        if !answer.has_content() && event.message.non_empty().is_some() {
            answer.report_json(json);
        }
        Ok(())
    }

    /// Records that a delta of this part has arrived.
    fn delta(&mut self, event: &Event<'_>, is_reasoning: bool) {
        let is_same = |part: &PartId| part.is_of(event, is_reasoning);
        if !event.delta.is_empty() && !self.parts.last().is_some_and(is_same) {
            self.parts.push(PartId {
                is_reasoning,
                item: event.item_id.0.to_string(),
                output: event.output_index.whole(),
                content: event.part().whole(),
            });
        }
    }

    /// Returns whether no delta of this part has arrived.
    fn is_new(&self, event: &Event<'_>, is_reasoning: bool) -> bool {
        !self.parts.iter().any(|part| part.is_of(event, is_reasoning))
    }
}

impl PartId {
    fn is_of(&self, event: &Event<'_>, is_reasoning: bool) -> bool {
        self.is_reasoning == is_reasoning
            && self.item == event.item_id.0
            && self.output == event.output_index.whole()
            && self.content == event.part().whole()
    }
}

impl Event<'_> {
    /// Returns the index of the part in its item.
    fn part(&self) -> Number {
        if self.summary_index.0.is_some() { self.summary_index } else { self.content_index }
    }
}

impl Response<'_> {
    /// Reads the response in an event of this type.
    fn read(&self, event: &str, answer: &mut Answer) {
        let envelope = self.envelope();
        answer.model(envelope.model);
        answer.usage(envelope.usage);
        answer.reports.members(&envelope.reports);
        answer.report_raw(envelope.error);
        let reason = self.incomplete_details.as_ref().map_or("", |details| &details.reason.0);
        let status = match event.strip_prefix("response.") {
            Some(outcome @ ("failed" | "incomplete" | "cancelled")) => outcome,
            _ => &*self.status.0,
        };
        match status {
            _ if !reason.is_empty() => answer.finish_reason(reason),
            "completed" | "incomplete" | "failed" | "cancelled" => answer.finish_reason(status),
            _ => {}
        }
        if answer.has_content() {
            return;
        }
        for item in &self.output {
            item.read(answer);
            item.count_call(answer);
        }
        if !answer.has_content() {
            answer.output(&self.output_text.0);
        }
    }
}

impl Item<'_> {
    /// Counts the item if it is a call of a function, complete with its arguments.
    fn count_call(&self, answer: &mut Answer) {
        if self.kind.0 == "function_call" {
            answer.calls.whole(&self.arguments.0);
        }
    }

    fn read(&self, answer: &mut Answer) {
        let is_reasoning = self.kind.0 == "reasoning";
        let parts = self.content.as_deref().unwrap_or_default();
        if is_reasoning && parts.iter().all(|part| part.text.is_empty()) {
            answer.reasoning(&self.summary.0);
        }
        for part in parts {
            let kind = if is_reasoning { TextKind::Reasoning } else { TextKind::Output };
            answer.content(kind, "content[].text", &part.text);
            answer.content(TextKind::Output, "content[].refusal", &part.refusal);
            answer.extra(ContentKinds::default(), &part.extra);
        }
        for text in [&self.name, &self.arguments, &self.input] {
            answer.call(&text.0);
        }
        // What a tool returned was not generated.
        if matches!(&*self.kind.0, "message" | "reasoning" | "") {
            answer.extra(answer.found_now(), &self.extra);
        }
    }
}
