use serde_json::{Value, json};

use base::setting::Named as _;
use client::endpoint::{self, EndpointType, ParsedResponse};
use client::record::{ResponseBody, SseEvent};

use super::*;
use crate::dialect;
use crate::script::ReasoningPlace;
use crate::timing::{Timing, TimingForm};

/// A chat response of three tokens, whose chunks are due at 110, 120 and 130.
pub(super) fn reply(fault: Option<Fault>) -> Reply {
    Reply {
        material: Arc::new(ReplyContent::new(&Script::default())),
        dialect: dialect("/v1/chat/completions"),
        id: 10,
        created: 1_700_000_000,
        model: "\"m\"".to_owned(),
        choices: 1,
        plain: false,
        wording: Wording::default(),
        tokens: 3,
        reasoning: 0,
        per_chunk: 1,
        form: Form::default(),
        finish: Finish::Length,
        usage: None,
        cached: None,
        fault,
        prelude: String::new(),
        report: None,
        ready: Nanos::ZERO,
        work: Nanos::ZERO,
    }
}

/// Returns the dialect of a POST to `path`.
fn dialect(path: &str) -> &'static dyn Dialect {
    dialect::find(&http::Method::POST, path).unwrap().0
}

pub(super) fn events(reply: Reply) -> Events {
    let script = Script { ttft: Nanos(10), itl: Nanos(10), ..Script::default() };
    let times = [Nanos(100), Nanos(100), script.ttft];
    let schedule = Schedule::new(&script, [1, reply.chunks()], times, reply.fault.as_ref());
    Events::new(reply, schedule)
}

/// Returns the data of an event.
fn data(event: &Event) -> &str {
    let text = std::str::from_utf8(&event.bytes).unwrap();
    text.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap()
}

pub(super) fn json(event: &Event) -> Value {
    serde_json::from_str(data(event)).unwrap()
}

#[test]
fn events_of_a_chat() {
    let all: Vec<_> = events(reply(None)).collect();
    let outline: Vec<_> = all.iter().map(|event| (event.due.0, event.tokens)).collect();
    assert_eq!(outline, [(110, 0), (110, 1), (120, 1), (130, 1), (130, 0)]);
    let kinds: Vec<_> = all.iter().map(|event| event.kind).collect();
    let content = EventKind::Content;
    assert_eq!(kinds, [EventKind::Open, content, content, content, EventKind::End]);
    assert_eq!(
        json(&all[0]),
        json!({
            "id": "chatcmpl-000000000000000a", "object": "chat.completion.chunk",
            "created": 1_700_000_000, "model": "m",
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""},
                         "logprobs": null, "finish_reason": null}]
        })
    );
    let mut text = String::new();
    Vocabulary::new(0).append(&mut text, 0, 3);
    let sent: String = all[1..4]
        .iter()
        .map(|event| json(event)["choices"][0]["delta"]["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(sent, text);
    let reasons: Vec<_> =
        all[..4].iter().map(|event| json(event)["choices"][0]["finish_reason"].clone()).collect();
    assert_eq!(reasons, [json!(null), json!(null), json!(null), json!("length")]);
    assert_eq!(data(&all[4]), "[DONE]");
}

#[test]
fn chunks_do_not_mix_reasoning_and_content() {
    let reply = Reply { tokens: 8, reasoning: 3, per_chunk: 2, ..reply(None) };
    assert_eq!(reply.chunks(), 5);
    let kinds: Vec<_> = events(reply)
        .filter(|event| event.tokens > 0)
        .map(|event| (event.tokens, json(&event)["choices"][0]["delta"].get("content").is_some()))
        .collect();
    assert_eq!(kinds, [(2, false), (1, false), (2, true), (2, true), (1, true)]);
}

#[test]
fn choices_take_turns_at_the_same_times() {
    let reply = Reply {
        dialect: dialect("/v1/completions"),
        choices: 2,
        tokens: 2,
        usage: Some(5),
        ..reply(None)
    };
    let all: Vec<_> = events(reply).collect();
    let outline: Vec<_> =
        all.iter().map(|event| (event.due.0, event.choice, event.tokens)).collect();
    assert_eq!(
        outline,
        [(110, 0, 1), (110, 1, 1), (120, 0, 1), (120, 1, 1), (120, 0, 0), (120, 0, 0)]
    );
    let usage = &json(&all[4])["usage"];
    assert_eq!(*usage, json!({"prompt_tokens": 5, "total_tokens": 9, "completion_tokens": 4}));
}

#[test]
fn each_event_says_what_it_is() {
    use EventKind::{Content, Empty, End, Error, Open, Reasoning, Usage};
    let kinds = |reply| events(reply).map(|event| event.kind).collect::<Vec<_>>();
    let chat = Reply { choices: 2, tokens: 2, reasoning: 1, usage: Some(5), ..reply(None) };
    let choices: Vec<_> = events(chat).map(|event| (event.kind, event.choice)).collect();
    let expected = [
        (Open, 0),
        (Open, 1),
        (Reasoning, 0),
        (Reasoning, 1),
        (Content, 0),
        (Content, 1),
        (Usage, 0),
        (End, 0),
    ];
    assert_eq!(choices, expected);
    // What TensorRT-LLM reports follows the end marker.
    let timing = Some(Timing::for_form(TimingForm::TensorrtLlm));
    let script = Script { timing, ..Script::default() };
    let report = Report::new(&script, 1, [Nanos(0), Nanos(10)], 1, 1);
    let reported = Reply { report, tokens: 1, usage: Some(5), ..reply(None) };
    assert_eq!(kinds(reported), [Open, Content, Usage, End, End]);
    assert_eq!(kinds(Reply { tokens: 0, ..reply(None) }), [Open, Empty, End]);
    let failed = reply(Some(Fault::ErrorEvent { after_events: 1 }));
    assert_eq!(kinds(failed), [Open, Content, Error, End]);
}

/// Returns the kinds and due times of the events of a reply of this form.
fn timed(form: Form, reply: Reply) -> Vec<(EventKind, u64)> {
    events(Reply { form, ..reply }).map(|event| (event.kind, event.due.0)).collect()
}

/// The request was admitted at 100.
#[test]
fn what_precedes_the_first_token_may_be_early() {
    use EventKind::{Content, Empty, End, Open};
    let early_role = Form { early_role: true, ..Form::default() };
    let rest = [(Content, 110), (Content, 120), (Content, 130), (End, 130)];
    let with = |first: &[(EventKind, u64)]| [first, &rest[..]].concat();
    assert_eq!(timed(early_role, reply(None)), with(&[(Open, 100)]));
    let empty_first = Form { empty_first: true, ..Form::default() };
    assert_eq!(timed(empty_first, reply(None)), with(&[(Open, 100), (Empty, 100)]));
    let completion = Reply { dialect: dialect("/v1/completions"), ..reply(None) };
    assert_eq!(timed(empty_first, completion), with(&[(Empty, 100)]));
    // Each choice has one; other dialects do not have any.
    let two: Vec<_> = events(Reply { form: empty_first, choices: 2, ..reply(None) })
        .filter(|event| event.kind == Empty)
        .map(|event| (event.choice, event.tokens, json(&event)["choices"].clone()))
        .collect();
    let choice = |index| json!([{"index": index, "delta": {"content": ""}, "logprobs": null, "finish_reason": null}]);
    assert_eq!(two, [(0, 0, choice(0)), (1, 0, choice(1))]);
    let gemini =
        Reply { dialect: dialect("/v1beta/models/m:streamGenerateContent"), ..reply(None) };
    assert!(timed(empty_first, gemini).iter().all(|(kind, due)| *kind != Empty && *due > 100));
}

/// An empty event is not one of the content events that faults count.
#[test]
fn faults_do_not_count_empty_events() {
    use EventKind::{Content, Empty, End, Error, Open};
    let empty_first = Form { empty_first: true, ..Form::default() };
    let error = reply(Some(Fault::ErrorEvent { after_events: 0 }));
    let expected = [(Open, 100), (Empty, 100), (Error, 110), (End, 110)];
    assert_eq!(timed(empty_first, error), expected);
    let cut = reply(Some(Fault::CutStream { after_events: 1, mid_event: false }));
    assert_eq!(timed(empty_first, cut), [(Open, 100), (Empty, 100), (Content, 110)]);
}

/// The deltas of a chat's events until the end, and the message of the whole response, of five
/// tokens, the first three of which are reasoning.
fn chat_of(form: Form) -> (Vec<Value>, Value) {
    let reply = || Reply { form, tokens: 5, reasoning: 3, per_chunk: 2, ..lettered(None) };
    let all: Vec<_> = events(reply()).collect();
    let told = &all[..all.len() - 1];
    let deltas = told.iter().map(|event| json(event)["choices"][0]["delta"].clone()).collect();
    let body: Value = serde_json::from_slice(&reply().whole()).unwrap();
    (deltas, body["choices"][0].clone())
}

/// A reply whose tokens are " a b c d e".
fn lettered(fault: Option<Fault>) -> Reply {
    let vocabulary = Vocabulary::in_order(&["a", "b", "c", "d", "e", "f"]);
    Reply {
        material: Arc::new(ReplyContent { vocabulary, embedding: String::new() }),
        ..reply(fault)
    }
}

#[test]
fn reasoning_is_where_the_script_says() {
    let role = json!({"role": "assistant", "content": ""});
    for place in [ReasoningPlace::ReasoningContent, ReasoningPlace::Reasoning] {
        let name = place.name();
        let (deltas, whole) = chat_of(Form { reasoning_place: place, ..Form::default() });
        let expected =
            [role.clone(), json!({name: " a b"}), json!({name: " c"}), json!({"content": " d e"})];
        assert_eq!(deltas, expected);
        let message =
            json!({"role": "assistant", name: " a b c", "content": " d e", "refusal": null});
        assert_eq!(whole["message"], message);
    }
    let reasoning_place = ReasoningPlace::Think;
    let (deltas, whole) = chat_of(Form { reasoning_place, ..Form::default() });
    let contents = ["<think> b", " </think>", " d e"].map(|text| json!({"content": text}));
    assert_eq!(deltas, [&[role][..], &contents].concat());
    let content = "<think> b </think> d e";
    let message = json!({"role": "assistant", "content": content, "refusal": null});
    assert_eq!(whole["message"], message);
}

#[test]
fn a_tool_call_has_the_tokens_in_its_arguments() {
    let form = Form { tool_calls: true, ..Form::default() };
    let (deltas, whole) = chat_of(form);
    let call = |arguments: &str| {
        json!({"id": "call_000000000000000a", "type": "function",
               "function": {"name": "answer", "arguments": arguments}})
    };
    let mut first = call("");
    first["index"] = json!(0);
    let arguments = json!([{"index": 0, "function": {"arguments": "{\"text\":\" e\"}"}}]);
    let expected = [
        json!({"role": "assistant", "content": null}),
        json!({"reasoning_content": " a b"}),
        json!({"reasoning_content": " c"}),
        json!({"tool_calls": [first]}),
        json!({"tool_calls": arguments}),
    ];
    assert_eq!(deltas, expected);
    let message = json!({"role": "assistant", "reasoning_content": " a b c", "content": null,
                         "tool_calls": [call("{\"text\":\" e\"}")], "refusal": null});
    assert_eq!(whole["message"], message);
    assert_eq!(whole["finish_reason"], "tool_calls");
    let (_, whole) = chat_of(Form { reasoning_place: ReasoningPlace::Think, ..form });
    assert_eq!(whole["message"]["content"], "<think> b </think>");
}

#[test]
fn a_tool_call_begins_with_its_first_token() {
    use EventKind::{Content, Empty, End, Open, ToolCall};
    let form = Form { tool_calls: true, empty_first: true, ..Form::default() };
    let two = Reply { form, choices: 2, tokens: 2, ..reply(None) };
    let all: Vec<_> = events(two).collect();
    let outline: Vec<_> =
        all.iter().map(|event| (event.kind, event.choice, event.tokens, event.due.0)).collect();
    let expected = [
        (Open, 0, 0, 100),
        (Open, 1, 0, 100),
        (Empty, 0, 0, 100),
        (Empty, 1, 0, 100),
        (ToolCall, 0, 0, 110),
        (ToolCall, 0, 1, 110),
        (ToolCall, 1, 0, 110),
        (ToolCall, 1, 1, 110),
        (ToolCall, 0, 1, 120),
        (ToolCall, 1, 1, 120),
        (End, 0, 0, 120),
    ];
    assert_eq!(outline, expected);
    let call = |event: &Event| json(event)["choices"][0]["delta"]["tool_calls"][0].clone();
    assert_eq!(call(&all[4])["id"], "call_000000000000000a");
    assert_eq!(call(&all[6])["id"], "call_000000000000000b");
    assert_eq!(json(&all[8])["choices"][0]["finish_reason"], "tool_calls");
    // A completion does not have any, nor do reasoning alone and what follows the end.
    let completion = Reply { form, dialect: dialect("/v1/completions"), tokens: 1, ..reply(None) };
    let kinds = |reply| events(reply).map(|event| event.kind).collect::<Vec<_>>();
    assert_eq!(kinds(completion), [Empty, Content, End]);
    let form = Form { tool_calls: true, ..Form::default() };
    let thought = Reply { form, tokens: 1, reasoning: 1, ..reply(None) };
    assert_eq!(kinds(thought), [Open, EventKind::Reasoning, End]);
    let late = Fault::Corrupt(Corruption::AfterEnd);
    let late = Reply { form, tokens: 1, ..reply(Some(late)) };
    assert_eq!(kinds(late), [Open, ToolCall, ToolCall, Content, End]);
}

/// Any text is valid JSON in the arguments, which are the same streamed and whole.
#[test]
fn arguments_are_json_whatever_the_text() {
    for fault in [None, Some(Fault::Corrupt(Corruption::Blank))] {
        let form = Form { tool_calls: true, ..Form::default() };
        let prompt = "Repeat the following words exactly, and nothing else: a \"quoted\" \\ back";
        let copying = || Wording::default().copying(prompt);
        let reply =
            || Reply { form, wording: copying(), tokens: 9, per_chunk: 2, ..reply(fault.clone()) };
        let piece = |event: &Event| {
            let delta = json(event)["choices"][0]["delta"].clone();
            delta["tool_calls"][0]["function"]["arguments"].as_str().unwrap().to_owned()
        };
        let calls = events(reply()).filter(|event| event.kind == EventKind::ToolCall);
        let streamed: String = calls.map(|event| piece(&event)).collect();
        let body: Value = serde_json::from_slice(&reply().whole()).unwrap();
        let call = &body["choices"][0]["message"]["tool_calls"][0]["function"];
        assert_eq!(call["arguments"], streamed);
        let arguments: Value = serde_json::from_str(&streamed).unwrap();
        // Its first token is the beginning of the object.
        let text = reply().plain_text();
        let rest = text.strip_prefix('a').unwrap_or_else(|| &text[text.len() / 9..]);
        assert_eq!(arguments, json!({"text": rest}));
        let is_copied = reply().plain_text().starts_with("a \"quoted\" \\ back");
        assert_eq!(is_copied, fault.is_none());
    }
}

#[test]
fn the_end_may_be_late() {
    use EventKind::{Content, End, Open, Usage};
    let form = Form { end_delay: Nanos(7), ..Form::default() };
    let all = timed(form, Reply { tokens: 1, usage: Some(5), ..reply(None) });
    assert_eq!(all, [(Open, 110), (Content, 110), (Usage, 117), (End, 117)]);
}

#[test]
fn faults_change_the_events_that_they_name() {
    let with = |fault| events(reply(Some(fault))).collect::<Vec<_>>();
    let plain: Vec<_> = events(reply(None)).collect();

    let empty = with(Fault::EmptyStream);
    assert_eq!(empty.iter().map(data).collect::<Vec<_>>(), ["[DONE]"]);

    assert_eq!(with(Fault::NoDone), plain[..4]);

    let garbage = with(Fault::GarbageJson { at_event: 1 });
    assert!(serde_json::from_str::<Value>(data(&garbage[2])).is_err());
    assert_eq!((&garbage[..2], &garbage[3..]), (&plain[..2], &plain[3..]));

    let error = with(Fault::ErrorEvent { after_events: 2 });
    assert_eq!(error[..3], plain[..3]);
    assert_eq!(json(&error[3])["error"]["code"], 500);
    assert_eq!((data(&error[4]), error.len()), ("[DONE]", 5));
}

#[test]
fn an_error_event_makes_the_request_an_error() {
    let finish = |after_events| {
        let mut events = events(reply(Some(Fault::ErrorEvent { after_events })));
        let errors = events.by_ref().filter(|event| data(event).contains("error")).count();
        (errors, events.finish())
    };
    assert_eq!(finish(0), (1, Finish::Error));
    assert_eq!(finish(3), (1, Finish::Error));
    assert_eq!(finish(4), (0, Finish::Length));
}

#[test]
fn cuts_are_before_within_or_after_an_event() {
    let cuts = |after_events, mid_event| -> Vec<_> {
        events(reply(Some(Fault::CutStream { after_events, mid_event })))
            .map(|event| event.cut.map(|cut| (cut, event.bytes.len())))
            .collect()
    };
    // The role comes before the first token; nothing comes after the cut.
    let at_once = cuts(0, false);
    assert!(matches!(at_once[..], [Some((0, _))]));
    let after_two = cuts(2, false);
    assert!(matches!(after_two[..], [None, None, Some((cut, length))] if cut == length));
    let within_third = cuts(2, true);
    assert!(
        matches!(within_third[..], [None, None, None, Some((cut, length))] if cut == length / 2)
    );
    assert!(cuts(9, true).iter().all(Option::is_none));
}

#[test]
fn a_whole_chat() {
    let reply = Reply { reasoning: 1, usage: Some(4), ..reply(None) };
    let body: Value = serde_json::from_slice(&reply.whole()).unwrap();
    let text = |first, count| {
        let mut text = String::new();
        Vocabulary::new(0).append(&mut text, first, count);
        text
    };
    assert_eq!(
        body,
        json!({
            "id": "chatcmpl-000000000000000a", "object": "chat.completion",
            "created": 1_700_000_000, "model": "m",
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "reasoning_content": text(0, 1),
                            "content": text(1, 2), "refusal": null},
                "logprobs": null, "finish_reason": "length"
            }],
            "usage": {"prompt_tokens": 4, "total_tokens": 7, "completion_tokens": 3,
                      "completion_tokens_details": {"reasoning_tokens": 1}}
        })
    );
}

/// The server's and the client's side of each dialect that streams text, and the client's side that
/// detects the dialect.
pub(super) fn both_sides() -> Vec<(&'static dyn Dialect, std::sync::Arc<dyn endpoint::Endpoint>)> {
    let streams = |kind: &&EndpointType| kind.traits().supports_streaming;
    let config = |endpoint_type| endpoint::Config::new(endpoint_type, true);
    let pairs = |kind: &EndpointType| {
        let config = [*kind, EndpointType::RAW].map(config);
        let path = config[0].path("m");
        let dialect = dialect(path.split('?').next().unwrap());
        config.map(|config| (dialect, endpoint::build(&config)))
    };
    // Without a path of its own, a dialect is not served by the mock server.
    let has_path = |kind: &&EndpointType| !kind.traits().path.is_empty();
    let produces = |kind: &&EndpointType| kind.traits().produces_tokens;
    let kinds = EndpointType::ALL.iter().filter(streams).filter(produces).filter(has_path);
    kinds.flat_map(pairs).collect()
}

/// Parses a stream. One item of `events` may contain several events, so the text is split again.
pub(super) fn read_stream(client: &dyn endpoint::Endpoint, events: Events) -> ParsedResponse {
    let text: String =
        events.map(|event| String::from_utf8(event.bytes.to_vec()).unwrap()).collect();
    let mut body = ResponseBody { is_event_stream: true, ..ResponseBody::default() };
    for part in text.split_terminator("\n\n") {
        let start = body.bytes.len() as u32;
        body.bytes.extend_from_slice(part.as_bytes());
        let end = body.bytes.len() as u32;
        body.events.push(SseEvent { arrival: Nanos(1).into(), start, end });
    }
    client.parse(&body)
}

/// Parses a body that is not streamed.
pub(super) fn read_whole(client: &dyn endpoint::Endpoint, reply: &Reply) -> ParsedResponse {
    let bytes = reply.whole();
    let end = bytes.len() as u32;
    let event = SseEvent { arrival: Nanos(1).into(), start: 0, end };
    let body = ResponseBody { bytes: bytes.to_vec(), is_event_stream: false, events: vec![event] };
    client.parse(&body)
}

/// A response of 7 tokens, 3 of which are reasoning if the dialect supports it.
fn reply_of(dialect: &'static dyn Dialect, fault: Option<Fault>) -> Reply {
    let reasoning = if dialect.reasons() { 3 } else { 0 };
    Reply { dialect, tokens: 7, reasoning, per_chunk: 2, usage: Some(5), ..reply(fault) }
}

fn check_answer(parsed: &ParsedResponse, dialect: &dyn Dialect) {
    let text = |first, count| {
        let mut text = String::new();
        Vocabulary::new(0).append(&mut text, first, count);
        text
    };
    let reasoning = if dialect.reasons() { 3 } else { 0 };
    assert_eq!(parsed.error, None, "{dialect:?}");
    assert_eq!(parsed.output_text, text(reasoning, 7 - reasoning), "{dialect:?}");
    assert_eq!(parsed.reasoning_text, text(0, reasoning), "{dialect:?}");
    let name = format!("{dialect:?}");
    let counts = parsed.usage.map(|usage| (usage.prompt_tokens, usage.completion_tokens));
    let told = (name != "SolidoRag").then_some((Some(5), Some(7)));
    assert_eq!(counts, told, "{name}");
    // A transcript ends with its audio; Solido does not report a finish reason.
    let says_no_reason = ["AudioTranscription", "SolidoRag"].contains(&&*name);
    assert_eq!(parsed.finish_reasons.is_empty(), says_no_reason, "{name}");
}

#[test]
fn each_dialect_is_read_by_its_client() {
    for (dialect, client) in both_sides() {
        let reply = reply_of(dialect, None);
        let (chunks, thoughts) = (reply.chunks(), reply.reasoning.div_ceil(reply.per_chunk));
        let parsed = read_stream(&*client, events(reply));
        check_answer(&parsed, dialect);
        assert_eq!(parsed.content.len() as u64, chunks, "{dialect:?}");
        let bears_thought = parsed.content.iter().filter(|piece| !piece.is_output).count();
        assert_eq!(bears_thought as u64, thoughts, "{dialect:?}");

        check_answer(&read_whole(&*client, &reply_of(dialect, None)), dialect);
    }
}

#[test]
fn each_dialect_fails_as_the_script_says() {
    for (dialect, client) in both_sides() {
        let error = |fault| {
            let parsed = read_stream(&*client, events(reply_of(dialect, Some(fault))));
            parsed.error.map(|error| (error.name, error.message))
        };
        let (_, message) = error(Fault::ErrorEvent { after_events: 1 }).unwrap();
        assert_eq!(message, SCRIPTED, "{dialect:?}");
        let (name, _) = error(Fault::GarbageJson { at_event: 2 }).unwrap();
        assert_eq!(name, "InvalidJson", "{dialect:?}");
        let (name, _) = error(Fault::EmptyStream).unwrap();
        assert_eq!(name, "EmptyResponse", "{dialect:?}");
    }
}
