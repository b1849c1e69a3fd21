use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};

use tokens::tokenizer::TokenCounter;

use super::super::{Fault, Loaded, read_from};
use crate::account::LeftOut;
use crate::{Conversation, FileFormat, ReplayOutputs, Seed, TraceSettings};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/otel-traces").join(name)
}

fn read(bytes: &[u8], outputs: Option<ReplayOutputs>) -> Result<Loaded, Fault> {
    let settings = TraceSettings { replay_outputs: outputs, ..TraceSettings::default() };
    read_from(bytes, Path::new(""), None, &settings, &TokenCounter::builtin(), Seed(3))
}

fn loaded(bytes: &[u8]) -> Loaded {
    read(bytes, None).unwrap_or_else(|fault| panic!("{fault:?}"))
}

/// The messages of each turn.
fn messages(conversation: &Conversation) -> Vec<Value> {
    let json =
        |turn: &crate::Turn| serde_json::from_str(turn.messages.as_ref().unwrap().get()).unwrap();
    conversation.turns.iter().map(json).collect()
}

fn delays(conversation: &Conversation) -> Vec<f64> {
    conversation.turns.iter().map(|turn| turn.delay.as_seconds()).collect()
}

/// A span of a request in seconds, with further attributes.
fn call(id: u32, parent: u32, times: (f64, f64), attributes: Value) -> Value {
    span(id, parent, times, "chat m", [("gen_ai.operation.name", json!("chat"))], attributes)
}

#[expect(clippy::needless_pass_by_value, reason = "tests pass literals")]
fn span<const N: usize>(
    id: u32,
    parent: u32,
    (start, end): (f64, f64),
    name: &str,
    own: [(&str, Value); N],
    attributes: Value,
) -> Value {
    let nanos =
        |seconds: f64| format!("{}", 1_795_530_000_000_000_000_u64 + (seconds * 1e9) as u64);
    let any = |value: &Value| match value {
        Value::String(text) => json!({"stringValue": text}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
        other => json!({"stringValue": other.to_string()}),
    };
    let own = own.map(|(name, value)| (name.to_owned(), value));
    let all = own.into_iter().chain(attributes.as_object().cloned().unwrap_or_default());
    let attributes: Vec<Value> =
        all.map(|(key, value)| json!({"key": key, "value": any(&value)})).collect();
    let parent = if parent == 0 { String::new() } else { format!("{parent:016x}") };
    json!({"traceId": "41caf6095dac3fd512e80a6887e4e17e", "spanId": format!("{id:016x}"),
           "parentSpanId": parent, "name": name, "startTimeUnixNano": nanos(start),
           "endTimeUnixNano": nanos(end), "attributes": attributes})
}

fn agent(id: u32, parent: u32, times: (f64, f64), attributes: Value) -> Value {
    let own = [("gen_ai.operation.name", json!("invoke_agent"))];
    span(id, parent, times, "invoke_agent a", own, attributes)
}

/// A file with a line for each span.
fn file(spans: &[Value]) -> Vec<u8> {
    let line = |span: &Value| {
        json!({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).to_string() + "\n"
    };
    spans.iter().map(line).collect::<String>().into_bytes()
}

fn said(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

/// What a request of these messages with this response has as attributes.
fn content(input: &[Value], output: &str) -> Value {
    json!({"gen_ai.input.messages": input, "gen_ai.output.messages": [said("assistant", output)]})
}

fn call_of_weather(arguments: &str) -> Value {
    let function = json!({"name": "get_weather", "arguments": arguments});
    json!({"role": "assistant", "content": null,
           "tool_calls": [{"id": "call_1", "type": "function", "function": function}]})
}

#[test]
fn the_same_agent_is_read_from_every_instrumentation() {
    // The delay is the start of the second span minus the end of the first one.
    for (name, arguments, delay, limit) in [
        ("genai-openai-1.3b0", r#"{"location":"Paris"}"#, 5_845_097, 9),
        ("traceloop-openai-0.62.4", r#"{"location":"Paris"}"#, 320_248, 9),
        // Without the usage of the stream, there is only the limit of the request.
        ("traceloop-openai-0.40.14", r#"{"location": "Paris"}"#, 197_015, 64),
        ("openinference-openai-0.1.66", r#"{"location": "Paris"}"#, 7_088_674, 9),
    ] {
        let bytes = std::fs::read(golden(&format!("{name}.otlp.jsonl"))).unwrap();
        for outputs in [None, Some(ReplayOutputs::Recorded)] {
            let loaded = read(&bytes, outputs).unwrap();
            let [conversation] = &loaded.conversations[..] else { panic!("{name}") };
            assert_eq!(&*conversation.id, "conv_1");
            let expected = [
                json!([
                    said("system", "Answer briefly."),
                    said("user", "What is the weather in Paris?")
                ]),
                json!([call_of_weather(arguments),
                       {"role": "tool", "content": "rain, 14 degrees", "tool_call_id": "call_1"}]),
            ];
            assert_eq!(messages(conversation), expected, "{name}");
            let [first, second] = &conversation.turns[..] else { panic!("{name}") };
            assert_eq!((first.answer_is_recorded, second.starts_anew), (true, false), "{name}");
            assert_eq!((first.max_tokens, second.max_tokens), (Some(9), Some(limit)), "{name}");
            assert_eq!(second.delay.0, delay, "{name}");
            assert_eq!(first.timestamp.map(|at| at.0), Some(0));
            assert_eq!(first.extra, [("temperature".to_owned(), json!(0.2))], "{name}");
            let tools = json!([{"type": "function", "function": {"name": "get_weather",
                "description": "Weather of a place", "parameters": {"type": "object",
                "properties": {"location": {"type": "string"}}, "required": ["location"]}}}]);
            for turn in [first, second] {
                let declared: Value =
                    serde_json::from_str(turn.tools.as_ref().unwrap().get()).unwrap();
                assert_eq!(declared, tools, "{name}");
            }
            assert!(loaded.note().contains("recorded models (mock-model)"), "{}", loaded.note());
        }
    }
}

#[test]
fn requests_that_ran_beside_each_other_do_so_again() {
    let bytes = std::fs::read(golden("inference-perf-fan_in_dependencies.json")).unwrap();
    let loaded = loaded(&bytes);
    let [main, second, third] = &loaded.conversations[..] else { panic!("{loaded:?}") };
    assert_eq!(
        [main, second, third].map(|it| (&*it.id, it.is_child)),
        [("session_003", false), ("session_003/1", true), ("session_003/2", true)]
    );
    // The last request starts 1 s after the later of two that begin 0.5 and 1 s after the first.
    assert_eq!(delays(main), [0.0, 1.0]);
    assert_eq!((delays(second), delays(third)), (vec![0.5], vec![1.0]));
    let branches: Vec<_> =
        main.branches.iter().map(|it| (it.conversation, it.after, it.join, it.is_fork)).collect();
    assert_eq!(branches, [(1, Some(0), Some(1), false), (2, Some(0), Some(1), false)]);
    let roles = |messages: &Value| -> Vec<String> {
        let all = messages.as_array().unwrap().iter();
        all.map(|it| it["role"].as_str().unwrap().to_owned()).collect()
    };
    // The first response is the server's own; those of the others are not its history.
    let sent = messages(main);
    assert!(!main.turns[0].answer_is_recorded);
    assert_eq!(roles(&sent[0]), ["user"]);
    assert_eq!(roles(&sent[1]), ["user", "assistant", "user", "assistant", "user"]);
    assert_eq!(sent[1][0]["content"], "What are the main features of JavaScript?");
    assert_eq!(
        main.turns.iter().map(|it| it.max_tokens).collect::<Vec<_>>(),
        [Some(500), Some(1500)]
    );
}

#[test]
fn a_history_that_was_changed_begins_anew() {
    let name = "inference-perf-customer_support_escalation.json";
    let loaded = loaded(&std::fs::read(golden(name)).unwrap());
    let main = &loaded.conversations[0];
    let anew: Vec<bool> = main.turns.iter().map(|turn| turn.starts_anew).collect();
    // The coordinator's requests 1, 4, 5, 8 and 9, of which 4 and 8 have other words than before.
    assert_eq!(anew, [false, true, false, true, false]);
    // 4 waits for 2 and 3, which end at 6 and 6.5 s, and 8 for 6 and 7, which end at 21 and 25 s.
    assert_eq!(delays(main), [0.0, 0.5, 5.0, 1.0, 1.0]);
    let specialists = &loaded.conversations[1..];
    assert_eq!(
        specialists.iter().map(delays).collect::<Vec<_>>(),
        [vec![1.0], vec![1.5], vec![1.0, 1.0]]
    );
    let joins: Vec<_> = main.branches.iter().map(|branch| (branch.after, branch.join)).collect();
    assert_eq!(joins, [(Some(0), Some(1)), (Some(0), Some(1)), (Some(2), Some(3))]);
    let length = |at: usize| messages(main)[at].as_array().unwrap().len();
    assert_eq!([0, 1, 2, 3, 4].map(length), [1, 3, 1, 7, 1]);
}

#[test]
fn recorded_responses_are_sent_if_asked_for() {
    let bytes = std::fs::read(golden("inference-perf-simple_chain.json")).unwrap();
    let contents = |outputs: ReplayOutputs| -> Vec<Vec<String>> {
        let loaded = read(&bytes, Some(outputs)).unwrap();
        let [conversation] = &loaded.conversations[..] else { panic!("{loaded:?}") };
        let is_recorded = outputs == ReplayOutputs::Recorded;
        let flags: Vec<bool> =
            conversation.turns.iter().map(|turn| turn.answer_is_recorded).collect();
        assert_eq!(flags, [is_recorded, is_recorded, false]);
        let roles = |messages: Value| {
            let all = messages.as_array().unwrap().clone().into_iter();
            all.map(|it| it["role"].as_str().unwrap().to_owned()).collect()
        };
        messages(conversation).into_iter().map(roles).collect()
    };
    let user = || vec!["user".to_owned()];
    let both = || vec!["assistant".to_owned(), "user".to_owned()];
    assert_eq!(contents(ReplayOutputs::Live), [user(), user(), user()]);
    assert_eq!(contents(ReplayOutputs::Recorded), [user(), both(), both()]);
}

/// An agent of two requests, between which a sub-agent sends two itself.
fn family() -> Vec<Value> {
    let (a, b) = (said("user", "a"), said("user", "b"));
    let (sub, more) = (said("user", "sub"), said("user", "more"));
    vec![
        agent(1, 0, (0.0, 20.0), json!({"gen_ai.conversation.id": "c"})),
        call(2, 1, (1.0, 2.0), content(std::slice::from_ref(&a), "to sub")),
        span(3, 1, (2.0, 11.0), "t", [("gen_ai.operation.name", json!("execute_tool"))], json!({})),
        agent(4, 3, (2.5, 10.5), json!({})),
        call(5, 4, (3.0, 5.0), content(std::slice::from_ref(&sub), "half")),
        call(6, 4, (7.0, 10.0), content(&[sub, said("assistant", "half"), more], "whole")),
        call(7, 1, (12.0, 13.0), content(&[a, said("assistant", "to sub"), b], "done")),
    ]
}

#[test]
fn sub_agents_are_conversations_of_their_own() {
    let loaded = loaded(&file(&family()));
    let [root, child] = &loaded.conversations[..] else { panic!("{loaded:?}") };
    assert_eq!((&*root.id, &*child.id, child.is_child), ("c", "c/1", true));
    let [branch] = root.branches[..] else { panic!("{root:?}") };
    assert_eq!((branch.conversation, branch.after, branch.join), (1, Some(0), Some(1)));
    // The sub-agent began 1 s after the first response, and ended at 10 s, 2 s before the second.
    assert_eq!((delays(root), delays(child)), (vec![0.0, 2.0], vec![1.0, 2.0]));
    assert_eq!(messages(child)[1], json!([said("user", "more")]));
}

#[test]
fn two_continuations_of_a_response_are_forks() {
    let a = said("user", "a");
    let then = |text: &str| [a.clone(), said("assistant", "x"), said("user", text)];
    let spans = [
        call(1, 0, (0.0, 1.0), content(std::slice::from_ref(&a), "x")),
        call(2, 0, (2.0, 3.0), content(&then("b"), "y")),
        call(3, 0, (2.5, 3.5), content(&then("c"), "z")),
    ];
    let loaded = loaded(&file(&spans));
    let [root, fork] = &loaded.conversations[..] else { panic!("{loaded:?}") };
    let [branch] = root.branches[..] else { panic!("{root:?}") };
    assert!(branch.is_fork && branch.after == Some(0) && branch.join.is_none());
    assert_eq!((fork.inherited_turns, fork.turns.len()), (1, 2));
    assert_eq!(messages(fork), [json!([a]), json!([said("user", "c")])]);
    assert_eq!(loaded.conversations.account().read(), 3);
}

#[test]
fn spans_without_messages_become_prompts_of_their_lengths() {
    let of_vllm = |id, times, input: u32, output: u32| {
        let lengths = json!({"gen_ai.usage.prompt_tokens": input,
                             "gen_ai.usage.completion_tokens": output});
        span(id, 0, times, "llm_request", [("gen_ai.request.id", json!("r"))], lengths)
    };
    let spans = [
        of_vllm(1, (0.0, 1.0), 100, 20),
        of_vllm(2, (3.0, 4.0), 150, 10),
        // Shorter than the one before with its response.
        of_vllm(3, (4.5, 5.0), 155, 5),
    ];
    let loaded = loaded(&file(&spans));
    let [conversation] = &loaded.conversations[..] else { panic!("{loaded:?}") };
    let turns: Vec<_> = conversation
        .turns
        .iter()
        .map(|turn| (turn.input_tokens, turn.max_tokens, turn.starts_anew))
        .collect();
    let expected =
        [(Some(100), Some(20), false), (Some(30), Some(10), false), (Some(155), Some(5), true)];
    assert_eq!(turns, expected);
    assert_eq!(delays(conversation), [0.0, 2.0, 0.5]);
    assert!(loaded.note().contains("3 with generated prompts"), "{}", loaded.note());
}

#[test]
fn what_is_not_sent_is_counted() {
    let mut failed = call(3, 99, (2.0, 3.0), content(&[said("user", "x")], "y"));
    failed["status"] = json!({"code": 2});
    let mut sampled = call(4, 1, (0.5, 5.0), content(&[said("user", "x")], "y"));
    sampled["traceState"] = json!("ot=th:8");
    let cut = json!({"gen_ai.input.messages": "[{\"role\": \"us", "gen_ai.usage.input_tokens": 7});
    let whole = content(&[said("user", "q")], "y");
    let embeddings = [("gen_ai.operation.name", json!("embeddings"))];
    let spans = [
        agent(1, 0, (1.0, 20.0), json!({})),
        failed,
        sampled.clone(),
        sampled,
        call(5, 1, (6.0, 7.0), json!({})),
        call(6, 1, (8.0, 9.0), cut),
        call(7, 1, (10.0, 12.0), whole.clone()),
        // The server's own span of the same request.
        span(8, 7, (10.1, 11.9), "llm_request", [("gen_ai.request.id", json!("r"))], json!({})),
        span(9, 1, (13.0, 14.0), "e", embeddings, json!({})),
    ];
    let loaded = loaded(&file(&spans));
    let account = loaded.conversations.account();
    assert_eq!((account.read(), account.kept()), (6, 3));
    let left_out = [LeftOut::Failed, LeftOut::WithoutPrompt, LeftOut::Filtered];
    assert_eq!(left_out.map(|why| account.left_out(why)), [1, 1, 1]);
    for words in [
        "1 spans again",
        "1 requests recorded by two spans",
        "1 with attributes that were cut",
        "1 without their parent span",
        "1 started before their parent span",
        "1 sampled; all stand for 6 requests",
        "1 with generated prompts",
    ] {
        assert!(loaded.note().contains(words), "{words}: {}", loaded.note());
    }
    assert_eq!(messages(&loaded.conversations[0])[1][0]["role"], "user");
}

#[test]
fn content_in_log_records_is_that_of_their_spans() {
    let spans = file(&[call(1, 0, (0.0, 1.0), json!({})), call(2, 0, (2.0, 3.0), json!({}))]);
    let part = |text: &str| json!({"stringValue": text});
    let list = |role: &str, text: &str| {
        let message = json!([{"role": role, "parts": [{"type": "text", "content": text}]}]);
        part(&message.to_string())
    };
    let record = |id: u32, more: Value| {
        let mut record = json!({"traceId": "41caf6095dac3fd512e80a6887e4e17e",
                                "spanId": format!("{id:016x}")});
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        record
    };
    let pair = |key: &str, value: Value| json!({"key": key, "value": value});
    let of_body = |text: &str| json!({"kvlistValue": {"values": [pair("content", part(text))]}});
    let records = json!([
        record(
            1,
            json!({"eventName": "gen_ai.client.inference.operation.details", "attributes": [
            pair("gen_ai.input.messages", list("user", "hi")),
            pair("gen_ai.output.messages", list("assistant", "ho"))]})
        ),
        record(
            2,
            json!({"attributes": [pair("event.name", part("gen_ai.system.message"))],
                         "body": of_body("s")})
        ),
        record(
            2,
            json!({"attributes": [pair("event.name", part("gen_ai.user.message"))],
                         "body": of_body("u")})
        ),
    ]);
    let logs = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).to_string();
    for bytes in [[spans.clone(), logs.clone().into_bytes()], [(logs + "\n").into_bytes(), spans]] {
        let loaded = loaded(&bytes.concat());
        let [conversation] = &loaded.conversations[..] else { panic!("{loaded:?}") };
        let expected =
            [json!([said("user", "hi")]), json!([said("system", "s"), said("user", "u")])];
        assert_eq!(messages(conversation), expected);
        assert!(conversation.turns[1].starts_anew);
    }
}

/// Sessions of aiperf, some of which start others: what its traces say of them is read again.
#[test]
fn own_traces_have_the_sessions_that_were_sent() {
    use base::semconv::attribute;

    // Session n starts at 0.25 n s; its turns take 1 s each, with 0.5 s in between. After the first
    // turn of every third one, a sub-agent runs from 0.2 to 0.9 s after it, which the second awaits.
    let sessions = 300;
    let mut spans = Vec::new();
    let mut turn = |session: u32, conversation: String, (start, end), input: u32| {
        let attributes = json!({
            attribute::GEN_AI_CONVERSATION_ID: conversation,
            attribute::AIPERF_SESSION_NUMBER: session,
            attribute::GEN_AI_USAGE_INPUT_TOKENS: input,
            attribute::GEN_AI_USAGE_OUTPUT_TOKENS: 7,
        });
        // Each request is a trace of its own.
        let mut span = call(1, 0, (start, end), attributes);
        span["traceId"] = format!("{:032x}", spans.len() + 1).into();
        spans.push(span);
    };
    for session in 0..sessions {
        let start = 0.25 * f64::from(session);
        let (main, sub) = (format!("m{session}"), format!("s{session}"));
        let has_agent = session % 3 == 0;
        let second = if has_agent { 2.25 } else { 1.5 };
        turn(session, main.clone(), (start, start + 1.0), 20 + session);
        turn(session, main, (start + second, start + second + 1.0), 20 + session + 7 + 5);
        if has_agent {
            turn(session, sub, (start + 1.2, start + 1.9), 9);
        }
    }
    let loaded = loaded(&file(&spans));
    let (roots, children): (Vec<_>, Vec<_>) =
        loaded.conversations.iter().partition(|conversation| !conversation.is_child);
    assert_eq!((roots.len(), children.len()), (300, 100));
    for (session, root) in roots.iter().enumerate() {
        let has_agent = session % 3 == 0;
        let at = root.turns[0].timestamp.unwrap().as_seconds();
        assert!((at - 0.25 * session as f64).abs() < 1e-6, "{session}: {at}");
        let tokens: Vec<_> = root.turns.iter().map(|it| (it.input_tokens, it.max_tokens)).collect();
        assert_eq!(tokens, [(Some(20 + session as u64), Some(7)), (Some(5), Some(7))]);
        let wait = root.turns[1].delay.as_seconds();
        assert!((wait - if has_agent { 0.35 } else { 0.5 }).abs() < 1e-6, "{session}: {wait}");
        let branches: Vec<_> = root.branches.iter().map(|it| (it.after, it.join)).collect();
        assert_eq!(branches, if has_agent { vec![(Some(0), Some(1))] } else { vec![] });
    }
    for child in children {
        assert_eq!(child.turns.iter().map(|it| it.input_tokens).collect::<Vec<_>>(), [Some(9)]);
        assert!((child.turns[0].delay.as_seconds() - 0.2).abs() < 1e-6);
    }
}

/// Two sub-agents beside each other, of which the first has a response before the second begins: with the
/// conversation that started them, neither is taken for one that the other started.
#[test]
fn own_traces_have_the_conversation_that_started_another_one() {
    use base::semconv::attribute;

    let mut spans = Vec::new();
    for (conversation, parent, times) in [
        ("m", "", (0.0, 1.0)),
        ("a", "m", (1.1, 1.2)),
        ("b", "m", (1.3, 1.4)),
        ("inner", "b", (1.5, 1.6)),
        ("a", "m", (1.5, 1.7)),
        ("b", "m", (1.8, 1.9)),
        ("m", "", (2.0, 3.0)),
    ] {
        let attributes = json!({
            attribute::GEN_AI_CONVERSATION_ID: conversation,
            attribute::AIPERF_CONVERSATION_PARENT: parent,
            attribute::AIPERF_SESSION_NUMBER: 0,
            attribute::GEN_AI_USAGE_INPUT_TOKENS: 9,
            attribute::GEN_AI_USAGE_OUTPUT_TOKENS: 7,
        });
        let mut span = call(1, 0, times, attributes);
        span["traceId"] = format!("{:032x}", spans.len() + 1).into();
        spans.push(span);
    }
    let loaded = loaded(&file(&spans));
    let all = &loaded.conversations;
    let facts = |at: usize| -> Vec<_> {
        let branches = all[at].branches.iter();
        branches.map(|it| (it.conversation, it.after, it.join)).collect()
    };
    assert_eq!(all.iter().map(|it| it.turns.len()).collect::<Vec<_>>(), [2, 2, 2, 1]);
    assert_eq!(facts(0), [(1, Some(0), Some(1)), (2, Some(0), Some(1))]);
    assert_eq!((facts(1), facts(2)), (vec![], vec![(3, Some(0), Some(1))]));
}

/// What is compared between two readings.
fn shown(loaded: &Loaded) -> Vec<String> {
    loaded.conversations.iter().map(|conversation| format!("{conversation:?}")).collect()
}

#[test]
fn every_encoding_has_the_same_spans() {
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
    use opentelemetry_proto::tonic::trace::v1 as proto;
    use prost::Message as _;

    let spans = family();
    let plain = file(&spans);
    let expected = shown(&loaded(&plain));
    let text = |span: &Value, name: &str| span[name].as_str().unwrap_or_default().to_owned();
    let id = |span: &Value, name: &str| -> Vec<u8> {
        let digits = text(span, name);
        (0..digits.len() / 2)
            .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
            .collect()
    };
    let protobuf = |span: &Value| {
        let pairs = span["attributes"].as_array().unwrap().iter().map(|pair| KeyValue {
            key: text(pair, "key"),
            value: Some(AnyValue {
                value: Some(any_value::Value::StringValue(text(&pair["value"], "stringValue"))),
            }),
            ..KeyValue::default()
        });
        let span = proto::Span {
            trace_id: id(span, "traceId"),
            span_id: id(span, "spanId"),
            parent_span_id: id(span, "parentSpanId"),
            name: text(span, "name"),
            start_time_unix_nano: text(span, "startTimeUnixNano").parse().unwrap(),
            end_time_unix_nano: text(span, "endTimeUnixNano").parse().unwrap(),
            attributes: pairs.collect(),
            ..proto::Span::default()
        };
        let scope = proto::ScopeSpans { spans: vec![span], ..proto::ScopeSpans::default() };
        let resource =
            proto::ResourceSpans { scope_spans: vec![scope], ..proto::ResourceSpans::default() };
        proto::TracesData { resource_spans: vec![resource] }.encode_to_vec()
    };
    let framed = |message: Vec<u8>| {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&length[..], &message].concat()
    };
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 3).unwrap();
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    let document = |outer: &str, scope: &str| {
        let mut inner = serde_json::Map::new();
        inner.insert(scope.to_owned(), json!([{"spans": spans}]));
        let mut outside = serde_json::Map::new();
        outside.insert(outer.to_owned(), json!([inner]));
        format!("{:#}", Value::Object(outside)).into_bytes()
    };
    let base64 = |span: &Value| {
        use base64::prelude::{BASE64_STANDARD, Engine as _};
        let mut span = span.clone();
        for name in ["traceId", "spanId", "parentSpanId"] {
            span[name] = BASE64_STANDARD.encode(id(&span, name)).into();
        }
        span
    };
    let jaeger = |span: &Value| {
        let micros = |name: &str| text(span, name).parse::<u64>().unwrap() / 1000;
        let tags = span["attributes"].as_array().unwrap().iter();
        let tags: Vec<Value> = tags
            .map(|pair| {
                json!({"key": pair["key"], "type": "string",
                               "value": pair["value"]["stringValue"]})
            })
            .collect();
        let parent = text(span, "parentSpanId");
        let references = json!([{"refType": "CHILD_OF", "traceID": span["traceId"],
                                 "spanID": parent}]);
        json!({"traceID": span["traceId"], "spanID": span["spanId"], "operationName": span["name"],
               "startTime": micros("startTimeUnixNano"), "tags": tags,
               "duration": micros("endTimeUnixNano") - micros("startTimeUnixNano"),
               "references": if parent.is_empty() { json!([]) } else { references }})
    };
    let of_jaeger = json!({"data": [{"traceID": "41caf6095dac3fd512e80a6887e4e17e",
                           "spans": spans.iter().map(jaeger).collect::<Vec<_>>()}]});
    let messages = || spans.iter().map(protobuf);
    for (name, bytes) in [
        ("document", document("resourceSpans", "scopeSpans")),
        ("Tempo", document("batches", "instrumentationLibrarySpans")),
        ("base64", file(&spans.iter().map(base64).collect::<Vec<_>>())),
        ("Jaeger", of_jaeger.to_string().into_bytes()),
        ("Jaeger on lines", format!("{of_jaeger:#}").into_bytes()),
        ("protobuf", messages().flat_map(framed).collect()),
        ("protobuf, zstd", messages().flat_map(|it| framed(zstd(&it))).collect()),
        ("JSON, zstd", framed(zstd(&plain))),
        ("whole, zstd", zstd(&plain)),
        ("whole, gzip", gzip(&plain)),
        ("gzip of gzip", gzip(&gzip(&plain))),
    ] {
        let loaded = read(&bytes, None).unwrap_or_else(|fault| panic!("{name}: {fault:?}"));
        assert_eq!(shown(&loaded), expected, "{name}");
    }
}

#[test]
fn faults_are_named() {
    let good = String::from_utf8(file(&family()[..1])).unwrap();
    let changed = |from: &str, to: &str| {
        let line = good.replace(from, to);
        assert_ne!(line, good);
        format!("{good}{line}").into_bytes()
    };
    for (bytes, words) in [
        (changed("startTimeUnixNano", "start"), "valid `startTimeUnixNano`"),
        (changed("\"spanId\"", "\"id\""), "`spanId`"),
        (format!("{good}{{\"spans\": 3}}").into_bytes(), "expected a list of objects"),
        (format!("{good}{{\"resourceSpans\": [").into_bytes(), "EOF while parsing"),
        (format!("{good}{{\"x\": 1}}").into_bytes(), "expected traces"),
    ] {
        match read(&bytes, None) {
            Err(Fault::Line(2, why)) => assert!(why.contains(words), "{why}"),
            other => panic!("{words}: {other:?}"),
        }
    }
    let cut = [&[0, 0, 0, 9][..], b"{\"batches"].concat();
    for (bytes, words) in [
        (cut[..6].to_vec(), "ends after 2 of the 9 bytes"),
        ([&[0, 0, 0, 2, 1, 2], &cut[..2]].concat(), "not OTLP traces or logs"),
        (vec![0, 0], "within the length"),
        (vec![8, 0, 0, 1, 3], "more than"),
    ] {
        match read(&bytes, None) {
            Err(Fault::Entry(1, why)) => assert!(why.contains(words), "{why}"),
            other => panic!("{words}: {other:?}"),
        }
    }
}

#[test]
fn responses_of_other_formats_cannot_be_chosen() {
    let line = br#"{"text": "a"}"#;
    let refused = read(line, Some(ReplayOutputs::Live));
    assert!(matches!(refused, Err(Fault::Setting("--replay-outputs", _))));
    assert!(read(line, None).is_ok());
}

proptest! {
    // Each case reads a file twice.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_spans_is_irrelevant(order in Just((0..7).collect::<Vec<usize>>()).prop_shuffle()) {
        let spans = family();
        let shuffled: Vec<Value> = order.iter().map(|at| spans[*at].clone()).collect();
        prop_assert_eq!(shown(&loaded(&file(&shuffled))), shown(&loaded(&file(&spans))));
    }

    /// Calls at any times, which may repeat earlier ones, are all sent once, and in a tree.
    #[test]
    fn any_calls_are_a_tree(
        calls in prop::collection::vec((0u32..9, 1u32..9, 0usize..6, any::<bool>(), 0u32..4), 1..16),
        // Prompts of given lengths take long to generate.
        has_lengths in prop::bool::weighted(0.1),
    ) {
        let mut spans = vec![
            agent(101, 0, (0.0, 1.0), json!({})),
            agent(102, 101, (0.0, 1.0), json!({})),
            agent(103, 102, (0.0, 1.0), json!({})),
        ];
        let mut histories: Vec<Vec<Value>> = vec![vec![said("user", "start")]];
        for (at, (start, length, of, has_content, parent)) in calls.iter().enumerate() {
            let mut history = histories[of % histories.len()].clone();
            let text = format!("answer {at}");
            let attributes = if *has_content || !has_lengths {
                content(&history, &text)
            } else {
                json!({"gen_ai.usage.input_tokens": 40 + 10 * start, "gen_ai.usage.output_tokens": 5})
            };
            let times = (f64::from(*start), f64::from(start + length));
            let parent = if *parent == 0 { 0 } else { 100 + parent };
            spans.push(call(at as u32 + 1, parent, times, attributes));
            history.extend([said("assistant", &text), said("user", "more")]);
            histories.push(history);
        }
        let loaded = loaded(&file(&spans));
        let account = loaded.conversations.account();
        prop_assert_eq!((account.read(), account.kept()), (calls.len() as u64, calls.len() as u64));
        let roots = loaded.conversations.iter().filter(|it| !it.is_child).count();
        prop_assert_eq!(roots, 1);
        let mut started = vec![0; loaded.conversations.len()];
        for conversation in &loaded.conversations {
            let turns = conversation.len();
            prop_assert!(turns > conversation.inherited_turns);
            for branch in &conversation.branches {
                started[branch.conversation] += 1;
                let after = branch.after.map_or(0, |after| after + 1);
                prop_assert!(branch.join.is_none_or(|join| (after.max(1)..turns).contains(&join)));
                prop_assert!(after <= turns);
                let child = &loaded.conversations[branch.conversation];
                prop_assert_eq!(child.inherited_turns, if branch.is_fork { after } else { 0 });
            }
        }
        prop_assert!(started[..roots].iter().all(|count| *count == 0));
        prop_assert!(started[roots..].iter().all(|count| *count == 1));
    }

    #[test]
    fn any_bytes_are_read_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let settings = TraceSettings::default();
        let (counter, format) = (TokenCounter::builtin(), Some(FileFormat::Otel));
        drop(read_from(&bytes[..], Path::new(""), format, &settings, &counter, Seed(3)));
    }

    #[test]
    fn any_attributes_are_read(
        pairs in prop::collection::vec((
            "(gen_ai.prompt|gen_ai.completion|llm.input_messages|llm.output_messages|llm.tools|\
              llm.request.functions)\\.[0-9]{1,2}(\\.[a-z0-9_]{1,9}){0,3}|gen_ai.input.messages|\
              gen_ai.output.messages|gen_ai.prompt|gen_ai.completion|input.value|output.value|\
              ai.prompt.messages|ai.response.toolCalls|ai.prompt.tools|llm.invocation_parameters|\
              gen_ai.system_instructions|gen_ai.tool.definitions",
            "(\\[|\\{|\"|messages|role|:|content|parts|type|tool_calls|\\}|\\]|,|[0-9]|user){0,8}|\
              \\[\\{\"role\":\"user\",\"(content|parts)\":(\"x\"|\\[3,\\{\"type\":\"text\"\\}\\]|7)\\}\\]",
        ), 0..8),
        kind in prop::sample::select(vec![
            ("gen_ai.operation.name", "chat"), ("llm.request.type", "chat"),
            ("openinference.span.kind", "LLM"), ("ai.operationId", "ai.generateText.doGenerate"),
            ("langsmith.span.kind", "llm"),
        ]),
    ) {
        let attributes: Value = Value::Object(
            pairs.into_iter().map(|(key, value)| (key, Value::from(value))).collect(),
        );
        let own = [(kind.0, json!(kind.1))];
        let loaded = read(&file(&[span(1, 0, (0.0, 1.0), "x", own, attributes)]), None);
        let account = loaded.unwrap().conversations.account();
        prop_assert_eq!(account.read(), 1);
    }
}
