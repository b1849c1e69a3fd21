//! OpenAI chat completions.

use std::fmt::Write as _;

use super::{Call, Dialect, Route, json_string, openai};
use crate::reply::{Chunk, Reply};
use crate::request::{Ask, BadRequest};
use crate::script::ReasoningPlace;

/// `/v1/chat/completions`.
#[derive(Debug)]
pub(super) struct Chat;

impl Dialect for Chat {
    fn routes(&self) -> &'static [Route] {
        const { &[Route::generate("/v1/chat/completions")] }
    }

    fn read<'a>(&self, call: &Call<'a>) -> Result<Ask<'a>, BadRequest> {
        openai::Body::read(call.body)?.chat()
    }

    fn reasons(&self) -> bool {
        true
    }

    fn can_call_tools(&self) -> bool {
        true
    }

    fn whole(&self, reply: &Reply) -> Vec<u8> {
        let mut out = openai::opening(reply, "chatcmpl", "chat.completion");
        openai::list(reply, &mut out, "choices", |out, choice| {
            let _ = write!(out, r#"{{"index":{choice},"message":{{"role":"assistant","#);
            append_message(reply, choice, out);
            out.push_str(r#","refusal":null}"#);
            openai::finish_choice(reply, out);
        });
        out.into_bytes()
    }

    fn prelude(&self, reply: &Reply) -> String {
        openai::opening(reply, "chatcmpl", "chat.completion.chunk")
    }

    /// One event with the role of each choice.
    fn openings(&self, reply: &Reply) -> u64 {
        reply.choices
    }

    fn open(&self, reply: &Reply, at: u64, out: &mut String) {
        openai::data(reply, out);
        let content = if reply.calls_tool() { "null" } else { "\"\"" };
        let _ = write!(
            out,
            r#""choices":[{{"index":{at},"delta":{{"role":"assistant","content":{content}}},"logprobs":null,"finish_reason":null}}]}}"#
        );
    }

    fn call(&self, reply: &Reply, choice: u64, out: &mut String) {
        openai::data(reply, out);
        let _ =
            write!(out, r#""choices":[{{"index":{choice},"delta":{{"tool_calls":[{{"index":0,"#);
        append_call(reply, choice, out);
        out.push_str(r#""}}]},"logprobs":null,"finish_reason":null}]}"#);
    }

    fn chunk(&self, reply: &Reply, chunk: &Chunk, out: &mut String) {
        let Chunk { choice, first, count, is_reasoning, .. } = *chunk;
        openai::data(reply, out);
        let _ = write!(out, r#""choices":[{{"index":{choice},"delta":{{"#);
        if is_reasoning {
            append_reasoning(reply, choice, first, count, out);
        } else if reply.calls_tool() && first < reply.tokens {
            out.push_str(r#""tool_calls":[{"index":0,"function":{"arguments":""#);
            append_arguments(reply, choice, first, count, out);
            out.push_str(r#""}}]"#);
        } else {
            out.push_str(r#""content":""#);
            reply.append_text(out, choice, first, count);
            out.push('"');
        }
        out.push('}');
        openai::finish_chunk(reply, chunk, out);
    }

    fn closings(&self, reply: &Reply) -> u64 {
        openai::closings(reply)
    }

    fn end_marker(&self, reply: &Reply) -> u64 {
        openai::end_marker(reply)
    }

    fn close(&self, reply: &Reply, at: u64, out: &mut String) {
        openai::close(reply, at, out);
    }

    fn can_continue(&self) -> bool {
        true
    }

    fn closes_after_error(&self) -> bool {
        true
    }
}

/// Appends the members of a whole message besides its role.
fn append_message(reply: &Reply, choice: u64, out: &mut String) {
    let Reply { tokens, reasoning, .. } = *reply;
    let rest = tokens - reasoning;
    let thinks_aloud = reasoning > 0 && reply.form.reasoning_place == ReasoningPlace::Think;
    if reasoning > 0 && !thinks_aloud {
        append_reasoning(reply, choice, 0, reasoning, out);
        out.push(',');
    }
    out.push_str(r#""content":"#);
    if thinks_aloud || !reply.calls_tool() {
        out.push('"');
        if thinks_aloud {
            append_thought(reply, choice, 0, reasoning, out);
        }
        if !reply.calls_tool() {
            reply.append_text(out, choice, reasoning, rest);
        }
        out.push('"');
    } else {
        out.push_str("null");
    }
    if reply.calls_tool() {
        out.push_str(r#","tool_calls":[{"#);
        append_call(reply, choice, out);
        append_arguments(reply, choice, reasoning, rest, out);
        out.push_str(r#""}}]"#);
    }
}

/// Appends the member with tokens of reasoning.
fn append_reasoning(reply: &Reply, choice: u64, first: u64, count: u64, out: &mut String) {
    out.push_str(match reply.form.reasoning_place {
        ReasoningPlace::ReasoningContent => r#""reasoning_content":""#,
        ReasoningPlace::Reasoning => r#""reasoning":""#,
        ReasoningPlace::Think => r#""content":""#,
    });
    append_thought(reply, choice, first, count, out);
    out.push('"');
}

/// Appends tokens of reasoning. In the content, the first and the last of them are tags, as of models
/// that generate these as tokens.
fn append_thought(reply: &Reply, choice: u64, first: u64, count: u64, out: &mut String) {
    let is_aloud = reply.form.reasoning_place == ReasoningPlace::Think;
    let begins = u64::from(is_aloud && first == 0);
    let ends = u64::from(is_aloud && first + count == reply.reasoning);
    if begins > 0 {
        out.push_str("<think>");
    }
    reply.append_text(out, choice, first + begins, count.saturating_sub(begins + ends));
    if ends > 0 {
        out.push_str(" </think>");
    }
}

/// Appends the members of a tool call, up to the text of its arguments.
fn append_call(reply: &Reply, choice: u64, out: &mut String) {
    let id = reply.id.wrapping_add(choice);
    let _ = write!(
        out,
        r#""id":"call_{id:016x}","type":"function","function":{{"name":"answer","arguments":""#
    );
}

/// Appends tokens in the arguments of a tool call: all of them are a JSON object with a text, whose
/// beginning is the first token.
fn append_arguments(reply: &Reply, choice: u64, first: u64, count: u64, out: &mut String) {
    let begins = u64::from(first == reply.reasoning);
    if begins > 0 {
        out.push_str(r#"{\"text\":\""#);
    }
    let mut text = String::new();
    reply.append_text(&mut text, choice, first + begins, count - begins);
    // It is in a JSON string that is itself in one.
    let quoted = json_string(&text);
    out.push_str(&quoted[1..quoted.len() - 1]);
    if first + count == reply.tokens {
        out.push_str(r#"\"}"#);
    }
}
