//! The common parts of OpenAI's older dialects.

use std::fmt::Write as _;

use serde::Deserialize;

use crate::reply::{Chunk, Reply};
use crate::request::{self, Ask, BadRequest, Message, Prompt, Prompts, Text, missing};

/// The body of a request. Members that are not needed here are ignored.
#[derive(Deserialize)]
pub(super) struct Body<'a> {
    #[serde(borrow)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    messages: Option<Vec<Message<'a>>>,
    #[serde(borrow)]
    prompt: Option<Prompts<'a>>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<i64>,
    max_completion_tokens: Option<i64>,
    n: Option<i64>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

impl<'a> Body<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<Self, BadRequest> {
        request::json(body)
    }

    /// Requests `n` choices for the messages.
    pub(super) fn chat(mut self) -> Result<Ask<'a>, BadRequest> {
        let messages = self.messages.take().ok_or_else(|| missing("messages"))?;
        let prompts = messages.into_iter().flat_map(Message::texts).collect();
        let choices = self.n()?;
        self.ask(prompts, choices)
    }

    /// Requests `n` choices for each prompt.
    pub(super) fn completions(mut self) -> Result<Ask<'a>, BadRequest> {
        let prompts: Vec<_> = self.prompt.take().ok_or_else(|| missing("prompt"))?.into();
        let choices = self.n()?.saturating_mul(prompts.len() as u64);
        self.ask(prompts, choices)
    }

    fn n(&self) -> Result<u64, BadRequest> {
        request::in_range("n", self.n.unwrap_or(1), request::MAX_CHOICES)
    }

    fn ask(self, prompts: Vec<Prompt<'a>>, choices: u64) -> Result<Ask<'a>, BadRequest> {
        let named = match (self.max_completion_tokens, self.max_tokens) {
            (Some(n), _) => Some(("max_completion_tokens", n)),
            (None, Some(n)) => Some(("max_tokens", n)),
            (None, None) => None,
        };
        let stream = self.stream.unwrap_or(false);
        let include_usage = self.stream_options.and_then(|options| options.include_usage);
        Ask {
            model: self.model.map(|text| text.0),
            stream,
            tell_usage: !stream || include_usage.unwrap_or(false),
            ..Ask::from_prompts(prompts)
        }
        .with_choices(choices)?
        .limited(named)
    }
}

/// Returns `{"id":…,"object":…,"created":…,"model":…,`.
pub(super) fn opening(reply: &Reply, prefix: &str, object: &str) -> String {
    let Reply { id, created, model, .. } = reply;
    format!(
        r#"{{"id":"{prefix}-{id:016x}","object":"{object}","created":{created},"model":{model},"#
    )
}

/// Appends the rest of a whole body: a list with an entry for each choice, and usage.
pub(super) fn list(reply: &Reply, out: &mut String, name: &str, append: impl Fn(&mut String, u64)) {
    let _ = write!(out, r#""{name}":["#);
    for choice in 0..reply.choices {
        if choice > 0 {
            out.push(',');
        }
        append(out, choice);
    }
    out.push(']');
    if let Some(prompt_tokens) = reply.usage {
        out.push(',');
        append_usage(reply, out, prompt_tokens);
    }
    if let Some(report) = &reply.report {
        out.push_str(&report.beside_usage());
        out.push_str(&report.beside_choices());
    }
    out.push('}');
}

fn finish_label(reply: &Reply) -> &'static str {
    if reply.calls_tool() { "tool_calls" } else { reply.finish.label() }
}

/// Appends the end of a choice in a whole body.
pub(super) fn finish_choice(reply: &Reply, out: &mut String) {
    let _ = write!(out, r#","logprobs":null,"finish_reason":"{}""#, finish_label(reply));
    if let Some(report) = &reply.report {
        out.push_str(&report.in_choice());
    }
    out.push('}');
}

/// Appends the beginning of an event.
pub(super) fn data(reply: &Reply, out: &mut String) {
    out.push_str("data: ");
    out.push_str(&reply.prelude);
}

/// Appends the end of a chunk.
pub(super) fn finish_chunk(reply: &Reply, chunk: &Chunk, out: &mut String) {
    out.push_str(r#","logprobs":null,"finish_reason":"#);
    if chunk.is_last {
        let _ = write!(out, "\"{}\"", finish_label(reply));
    } else {
        out.push_str("null");
    }
    out.push_str("}]");
    if let Some(report) = reply.report.filter(|_| chunk.is_last) {
        out.push_str(&report.beside_choices());
    }
    out.push('}');
}

/// Returns the number of closing events: usage if it is reported, `[DONE]`, and a report after it.
pub(super) fn closings(reply: &Reply) -> u64 {
    let has_report = reply.report.is_some_and(|report| report.after_end().is_some());
    1 + u64::from(reply.usage.is_some()) + u64::from(has_report)
}

/// Returns the index of `[DONE]` among the closing events.
pub(super) fn end_marker(reply: &Reply) -> u64 {
    u64::from(reply.usage.is_some())
}

pub(super) fn close(reply: &Reply, at: u64, out: &mut String) {
    match reply.usage {
        Some(prompt_tokens) if at == 0 => {
            data(reply, out);
            out.push_str(r#""choices":[],"#);
            append_usage(reply, out, prompt_tokens);
            if let Some(report) = &reply.report {
                out.push_str(&report.beside_usage());
            }
            out.push('}');
        }
        _ if at == end_marker(reply) => out.push_str("data: [DONE]"),
        _ => out.push_str(&reply.report.and_then(|report| report.after_end()).unwrap_or_default()),
    }
}

fn append_usage(reply: &Reply, out: &mut String, prompt_tokens: u64) {
    let completion_tokens = reply.reported(reply.tokens * reply.choices);
    let total_tokens = prompt_tokens + completion_tokens;
    let _ = write!(
        out,
        r#""usage":{{"prompt_tokens":{prompt_tokens},"total_tokens":{total_tokens},"completion_tokens":{completion_tokens}"#
    );
    if let Some(cached) = reply.cached {
        let _ = write!(out, r#","prompt_tokens_details":{{"cached_tokens":{cached}}}"#);
    }
    if reply.reasoning > 0 {
        let reasoning = reply.reported(reply.reasoning * reply.choices);
        let _ = write!(out, r#","completion_tokens_details":{{"reasoning_tokens":{reasoning}}}"#);
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn body(body: &str) -> Body<'_> {
        Body::read(body.as_bytes()).unwrap()
    }

    fn text(text: &str) -> Prompt<'_> {
        Prompt::Text(Cow::Borrowed(text))
    }

    #[test]
    fn a_chat_request() {
        let ask = body(
            r#"{"model":"m","messages":[{"role":"system","content":"be \"terse\""},
            {"role":"user","content":[{"type":"text","text":"look"},
             {"type":"image_url","image_url":{"url":"data:"}}]},
            {"role":"assistant","content":null,"tool_calls":[]}],
            "stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":7,
            "max_tokens":9,"min_tokens":7,"ignore_eos":true,"temperature":0.5,"unknown":[{}]}"#,
        );
        assert_eq!(
            ask.chat().unwrap(),
            Ask {
                model: Some(Cow::Borrowed("m")),
                prompts: vec![text("be \"terse\""), text("look")],
                stream: true,
                tell_usage: true,
                max_tokens: Some(7),
                choices: 1,
                plain: false,
            }
        );
    }

    #[test]
    fn prompts_in_each_form() {
        let prompts = |input: &str| {
            let json = format!(r#"{{"prompt":{input}}}"#);
            let ask = body(&json).completions().unwrap();
            let lengths: Vec<_> = ask
                .prompts
                .iter()
                .map(|prompt| match prompt {
                    Prompt::Text(text) => (text.to_string(), 0),
                    Prompt::TokenIds(ids) => (String::new(), ids.len()),
                })
                .collect();
            (ask.choices, lengths)
        };
        let words = |list: &[&str]| list.iter().map(|w| ((*w).to_owned(), 0)).collect::<Vec<_>>();
        assert_eq!(prompts(r#""a""#), (1, words(&["a"])));
        assert_eq!(prompts(r#"["a","b"]"#), (2, words(&["a", "b"])));
        assert_eq!(prompts("[5,6,7]"), (1, vec![(String::new(), 3)]));
        assert_eq!(prompts("[[5,6],[7]]"), (2, vec![(String::new(), 2), (String::new(), 1)]));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(body("{}").chat().unwrap_err().param, Some("messages"));
        assert_eq!(body("{}").completions().unwrap_err().param, Some("prompt"));
        let completions = |json| body(json).completions().unwrap_err();
        assert_eq!(completions(r#"{"prompt":"a","max_tokens":0}"#).param, Some("max_tokens"));
        assert!(
            completions(r#"{"prompt":["a","b"],"max_tokens":524289}"#)
                .message
                .contains("from 1 to 524288")
        );
        assert!(body(r#"{"prompt":[]}"#).completions().is_err());
        assert!(body(r#"{"messages":[],"n":5000}"#).chat().is_err());
        let cut = Body::read(br#"{"messages":[{"role":"#).err().unwrap();
        assert!(cut.message.contains("EOF"));
    }
}
