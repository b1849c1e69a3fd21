//! Captures of Amazon `SageMaker` endpoints (`sagemaker_data_capture`): JSONL with one request per
//! line, as its data capture stores them.
//!
//! A line has `eventMetadata` with `inferenceTime`, and `captureData` with the request
//! (`endpointInput`) and maybe the response (`endpointOutput`), each as JSON text or as base64 of
//! it. Requests are bodies of the chat API: their messages, tools and number of output tokens are
//! sent again, each as a session of its own, in the order of their times.

use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Deserialize;
use serde_json::value::RawValue;

use base::units::wall;

use super::jsonl::from_object;
use super::lines::Lines;
use super::mapping::{Mapping, Prompts, Rows};
use super::mooncake::{self, check_messages, checked_tools};
use super::trace::{TimeUnit, Trace};
use super::{Fault, Loaded};
use crate::{Conversation, Turn};

/// The format `sagemaker_data_capture`.
pub(super) const FORMAT: Mapping = Mapping {
    members: &["captureData", "eventMetadata"],
    block_tokens: mooncake::BLOCK_TOKENS,
    prompts: Prompts::Recorded,
    rows: Rows::Text(|input, trace| {
        let mut captures = Captures::new(trace);
        captures.read(Lines::new(input))?;
        captures.finish()
    }),
};

/// The members of a captured request that are sent again.
const KNOWN: &[&str] = &["messages", "tools", "max_tokens", "max_completion_tokens"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    event_metadata: EventMetadata,
    capture_data: CaptureData,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventMetadata {
    inference_time: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CaptureData {
    endpoint_input: Part,
    endpoint_output: Option<Part>,
}

/// A request or a response.
#[derive(Deserialize)]
struct Part {
    data: Option<String>,
    encoding: Option<String>,
}

#[derive(Deserialize)]
struct Body {
    messages: Option<Box<RawValue>>,
    tools: Option<Box<RawValue>>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
}

/// The part of a response that is read.
#[derive(Deserialize)]
struct Response {
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u32>,
}

/// Requests of one or several files.
pub(super) struct Captures<'a> {
    trace: Trace<'a>,
    /// With their times in nanoseconds since the epoch.
    requests: Vec<(i128, Turn)>,
    /// The time of the earliest request, also if it is left out.
    first: Option<i128>,
}

impl<'a> Captures<'a> {
    pub(super) const fn new(trace: Trace<'a>) -> Self {
        Self { trace, requests: Vec::new(), first: None }
    }

    /// Reads the lines of a file.
    pub(super) fn read(&mut self, lines: Lines<'_>) -> Result<(), Fault> {
        for line in lines {
            let line = line?;
            self.add(&line.text).map_err(|why| Fault::Line(line.number, why))?;
        }
        Ok(())
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        let line: Line = from_object(text)?;
        let time = &line.event_metadata.inference_time;
        let time = wall::parsed(time).ok_or_else(|| {
            format!(
                "`inferenceTime` is {time:?}; expected a time with its offset, such as \
                 2026-11-21T15:04:05Z"
            )
        })?;
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        let capture = line.capture_data;
        let tokens = capture.endpoint_output.and_then(|output| {
            let response: Response = serde_json::from_str(&decoded(output).ok()?).ok()?;
            response.usage?.prompt_tokens
        });
        if tokens.is_none_or(|tokens| self.trace.admits(tokens)) {
            let body = decoded(capture.endpoint_input)
                .map_err(|why| format!("`endpointInput` cannot be read: {why}"))?;
            let turn = turn(&body, &mut self.trace)?;
            self.requests.push((time, turn));
        }
        Ok(())
    }

    /// Returns the requests in the order of their times, which count from the earliest one.
    pub(super) fn finish(mut self) -> Result<Loaded, Fault> {
        let first = self.first.unwrap_or_default();
        self.requests.sort_by_key(|(time, _)| *time);
        let trace = &self.trace;
        let conversation = |(time, turn): (i128, Turn)| -> Result<Conversation, Fault> {
            let seconds = (time - first) as f64 / 1e9;
            let timestamp = trace
                .instant(seconds, TimeUnit::Seconds)
                .map_err(|why| Fault::Setting("--synthesis-speedup-ratio", why))?;
            let turn = Turn { timestamp: Some(timestamp), ..turn };
            let turns = vec![turn];
            Ok(Conversation { standalone_turns: true, turns, ..Conversation::default() })
        };
        let conversations =
            self.requests.into_iter().map(conversation).collect::<Result<Vec<_>, _>>()?;
        Ok(self.trace.loaded(conversations))
    }
}

/// Returns the JSON text of a request or a response.
fn decoded(part: Part) -> Result<String, String> {
    let data = part.data.ok_or("`data` is missing")?;
    match part.encoding.as_deref() {
        Some("JSON") => Ok(data),
        None | Some("BASE64") => {
            let bytes = BASE64_STANDARD.decode(data).map_err(|error| error.to_string())?;
            String::from_utf8(bytes).map_err(|_| "not valid UTF-8".to_owned())
        }
        Some(other) => Err(format!("`encoding` is {other:?}; expected JSON or BASE64")),
    }
}

fn turn(text: &str, trace: &mut Trace<'_>) -> Result<Turn, String> {
    let in_request = |why| format!("in the request: {why}");
    let body: Body = from_object(text).map_err(in_request)?;
    trace.check_members(text, KNOWN, &[])?;
    let messages = body.messages.ok_or(
        "the request does not have `messages`; only requests of the chat API can be replayed",
    )?;
    check_messages(&messages).map_err(in_request)?;
    let tools = body.tools.map(checked_tools).transpose().map_err(in_request)?;
    let tokens = body.max_tokens.or(body.max_completion_tokens);
    let max_tokens = tokens.map(|tokens| trace.output_tokens(tokens)).transpose();
    Ok(Turn {
        messages: Some(Arc::from(messages)),
        tools,
        max_tokens: max_tokens.map_err(in_request)?,
        ..Turn::default()
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use tokens::tokenizer::TokenCounter;

    use super::super::read_from;
    use super::*;
    use crate::{FileFormat, Seed, Synthesis, TraceSettings};

    fn load(content: &str, settings: TraceSettings) -> Result<Loaded, Fault> {
        let counter = TokenCounter::builtin();
        read_from(content.as_bytes(), Path::new(""), None, &settings, &counter, Seed(3))
    }

    /// A line with a request at `time`, encoded as base64 or not, and its response.
    fn line(time: &str, request: &Value, is_base64: bool, prompt_tokens: u32) -> String {
        let part = |body: &Value| {
            let text = body.to_string();
            if is_base64 {
                json!({"data": BASE64_STANDARD.encode(text), "encoding": "BASE64"})
            } else {
                json!({"data": text, "encoding": "JSON", "mode": "INPUT"})
            }
        };
        let response = json!({"usage": {"prompt_tokens": prompt_tokens}});
        json!({
            "captureData": {"endpointInput": part(request), "endpointOutput": part(&response)},
            "eventMetadata": {"eventId": "a", "inferenceTime": time},
            "eventVersion": "0",
        })
        .to_string()
    }

    fn chat(text: &str) -> Value {
        json!({"messages": [{"role": "user", "content": text}], "max_tokens": 9, "seed": 1})
    }

    #[test]
    fn captures_are_sent_in_the_order_of_their_times() {
        let tools = json!({"messages": [{"role": "user", "content": "b"}], "tools": [{"name": "f"}],
                           "max_completion_tokens": 21});
        let content = [
            line("2026-11-21T15:04:05.5Z", &chat("a"), false, 5),
            line("2026-11-21T16:04:04+01:00", &tools, true, 7),
            line("2026-11-21T15:04:03Z", &chat("too long"), true, 50),
        ];
        let settings = TraceSettings {
            max_input_tokens: Some(49),
            max_output_tokens: Some(40),
            synthesis: Synthesis {
                speedup_ratio: 2.0,
                output_len_multiplier: 2.0,
                ..Synthesis::default()
            },
            ..TraceSettings::default()
        };
        let loaded = load(&content.join("\n"), settings).unwrap();
        let turns: Vec<_> = loaded.conversations.iter().map(|c| &c.turns[0]).collect();
        let facts: Vec<_> = turns
            .iter()
            .map(|turn| (turn.timestamp.unwrap().as_millis(), turn.max_tokens.unwrap()))
            .collect();
        assert_eq!(facts, [(500.0, 40), (1250.0, 18)]);
        let mut messages = turns.iter().map(|turn| turn.messages.as_ref().unwrap().get());
        assert_eq!(messages.next(), Some(r#"[{"role":"user","content":"b"}]"#));
        assert_eq!(messages.next(), Some(r#"[{"role":"user","content":"a"}]"#));
        assert_eq!(turns[0].tools.as_ref().unwrap().get(), r#"[{"name":"f"}]"#);
        assert_eq!(
            loaded.note(),
            ": 1 longer than --synthesis-max-isl left out; 1 capped to --synthesis-max-osl, 1 \
             ignored fields (`seed`)"
        );
    }

    #[test]
    fn faults_are_named() {
        let at = "2026-11-21T15:04:05Z";
        let good = line(at, &chat("x"), false, 1);
        let changed = |path: &str, value: Value| {
            let mut line: Value = serde_json::from_str(&good).unwrap();
            *line.pointer_mut(path).unwrap() = value;
            line.to_string()
        };
        let data = "/captureData/endpointInput/data";
        for (line, words) in [
            (line("yesterday", &chat("x"), false, 1), "expected a time with its offset"),
            (line("2026-11-21T15:04:05", &chat("x"), false, 1), "expected a time with its offset"),
            (line(at, &json!({"prompt": "x"}), false, 1), "does not have `messages`"),
            (line(at, &json!([1]), false, 1), "in the request: not a JSON object"),
            (line(at, &json!({"messages": []}), true, 1), "must contain messages"),
            (changed(data, Value::Null), "`data` is missing"),
            (
                changed("/captureData/endpointInput/encoding", json!("CSV")),
                "expected JSON or BASE64",
            ),
            (changed("/captureData/endpointInput/encoding", json!("BASE64")), "cannot be read"),
            (changed("/captureData/endpointInput", Value::Null), "invalid type: null"),
        ] {
            match load(&format!("{good}\n{line}"), TraceSettings::default()) {
                Err(Fault::Line(2, reason)) => assert!(reason.contains(words), "{reason}"),
                other => panic!("{line}: {other:?}"),
            }
        }
        let settings = TraceSettings {
            synthesis: Synthesis { prompt_len_multiplier: 2.0, ..Synthesis::default() },
            ..TraceSettings::default()
        };
        let refused = load(&good, settings);
        assert!(matches!(refused, Err(Fault::Setting("--synthesis-prompt-len-multiplier", _))));
    }

    proptest! {
        #[test]
        fn any_request_is_read_or_rejected(data in "\\PC{0,40}", is_base64: bool) {
            let encoding = if is_base64 { "BASE64" } else { "JSON" };
            let line = json!({
                "captureData": {"endpointInput": {"data": data, "encoding": encoding}},
                "eventMetadata": {"inferenceTime": "2026-11-21T15:04:05Z"},
            });
            let loaded = read_from(
                line.to_string().as_bytes(),
                Path::new(""),
                Some(FileFormat::SageMakerDataCapture),
                &TraceSettings::default(),
                &TokenCounter::builtin(),
                Seed(3),
            );
            prop_assert!(matches!(loaded, Ok(_) | Err(Fault::Line(1, _))));
        }
    }
}
