use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use tokens::tokenizer::TokenCounter;

use super::super::read_from;
use super::*;
use crate::{FileFormat, Seed, TraceSettings};

fn load(text: &str, settings: TraceSettings) -> Result<Vec<Conversation>, Fault> {
    let counter = TokenCounter::builtin();
    read_from(text.as_bytes(), Path::new(""), None, &settings, &counter, Seed(3))
        .map(|loaded| loaded.conversations.into_vec())
}

fn request(t: f64, input: u32, ids: &[i64], more: Value) -> Value {
    let mut request = json!({"t": t, "type": "n", "model": "m", "in": input, "out": 7,
                             "hash_ids": ids, "stop": ""});
    if let (Value::Object(request), Value::Object(more)) = (&mut request, more) {
        request.extend(more);
    }
    request
}

fn trace(id: &str) -> Value {
    let agent = json!({"t": 3.0, "type": "subagent", "agent_id": "a1",
        "subagent_type": "Explore", "duration_ms": 4000, "status": "completed", "models": [],
        "requests": [request(3.5, 40, &[9, 8, 7], json!({"api_time": 1.0, "type": "s"})),
                     request(6.0, 48, &[9, 8, 7], json!({}))]});
    let idle = json!({"t": 7.0, "type": "subagent", "agent_id": "a2", "subagent_type": "x",
        "status": "async_launched", "models": [], "requests": []});
    json!({"id": id, "models": ["m"], "block_size": 16, "hash_id_scope": "local", "requests": [
        request(0.0, 40, &[1, 2, 3], json!({"api_time": 2.0})),
        agent,
        request(9.0, 64, &[1, 2, 4, 5], json!({"think_time": 0.25})),
        idle,
        request(9.5, 64, &[1, 2, 4, 5], json!({})),
    ]})
}

#[test]
fn agents_wait_for_their_sub_agents() {
    let text = format!("{:#}\n{}", trace("x"), trace("y"));
    let read = load(&text, TraceSettings::default()).unwrap();
    let ids: Vec<(&str, bool)> = read.iter().map(|it| (&*it.id, it.is_child)).collect();
    assert_eq!(ids, [("x", false), ("y", false), ("x::sa:a1", true), ("y::sa:a1", true)]);
    let branch = Branch {
        conversation: 3,
        after: Some(0),
        join: Some(1),
        from: BranchStart::Response,
        is_fork: false,
    };
    assert_eq!(read[1].branches, [branch]);
    let delays = |it: &Conversation| -> Vec<f64> {
        it.turns.iter().map(|turn| turn.delay.as_seconds()).collect()
    };
    // 9 − 2 s after the first response, and not before the sub-agent has ended, which begins with that
    // response: 3.5 − 3 s after its entry.
    assert_eq!(delays(&read[0]), [0.0, 7.0, 0.5]);
    assert!(read[0].waits_beside_branches);
    assert_eq!(delays(&read[2]), [0.5, 1.5]);
    let settings = TraceSettings { uses_think_time: true, ..TraceSettings::default() };
    assert_eq!(delays(&load(&text, settings).unwrap()[0]), [0.0, 0.25, 0.5]);
    let texts = |it: &Conversation| -> Vec<String> {
        it.turns.iter().map(|turn| turn.as_text().texts[0].to_string()).collect()
    };
    let of_x = texts(&read[0]);
    assert_eq!(of_x[1], of_x[2]);
    assert_ne!(of_x[0], texts(&read[1])[0]);
    assert_eq!(read[0].turns[1].input_tokens, Some(64));
    assert_eq!(read[0].turns[1].max_tokens, Some(7));
}

#[test]
fn sub_agents_run_beside_each_other_and_have_their_own() {
    let agent = |t: f64, id: &str, requests: Value| json!({"t": t, "type": "subagent", "agent_id": id, "requests": requests});
    let slow = agent(3.0, "slow", json!([request(3.0, 40, &[1], json!({"api_time": 9.0}))]));
    let inner = agent(5.5, "inner", json!([request(5.5, 40, &[1], json!({}))]));
    let outer = json!([request(4.0, 40, &[1], json!({"api_time": 1.0})), inner]);
    let text = json!({"id": "x", "block_size": 16, "hash_id_scope": "global", "timestamp": 250.0,
        "requests": [request(0.0, 40, &[1], json!({"api_time": 2.0})), slow,
                     agent(4.0, "outer", outer), request(13.0, 40, &[1], json!({}))]});
    let other = text.to_string().replace("\"x\"", "\"y\"");
    let read = load(&format!("{text}\n{other}"), TraceSettings::default()).unwrap();
    let ids: Vec<&str> = read.iter().map(|it| &*it.id).collect();
    let names =
        ["x", "y", "x::sa:outer::sa:inner", "x::sa:slow", "x::sa:outer", "y::sa:outer::sa:inner"];
    assert_eq!(ids[..6], names);
    let delay = |at: usize, turn: usize| read[at].turns[turn].delay.as_seconds();
    // Both count from the first response at 2 s, and the agent goes on 1 s after the slow one.
    assert_eq!((delay(3, 0), delay(4, 0), delay(0, 1)), (1.0, 2.0, 1.0));
    assert_eq!(delay(2, 0), 0.5);
    assert_eq!(read[4].branches[0].conversation, 2);
    assert_eq!(read[0].turns[0].timestamp, Some(Nanos(250_000_000)));
    // The hash IDs of both documents are the same blocks.
    let start = |at: usize| read[at].turns[0].as_text().texts[0].to_string()[..20].to_owned();
    assert_eq!(start(0), start(1));
}

/// The values are those of AIPerf's own functions.
#[test]
fn sub_agents_start_and_join_when_the_recorded_ones_did() {
    let read = |t: f64, inner: f64, duration: f64| {
        let agent = json!({"t": t, "type": "subagent", "agent_id": "a", "duration_ms": duration,
            "requests": [request(inner, 16, &[7], json!({"api_time": 1.0})),
                         request(5.0, 32, &[7, 8], json!({"api_time": 1.0}))]});
        let text = json!({"id": "x", "block_size": 16, "hash_id_scope": "local", "requests": [
            request(0.0, 16, &[1], json!({"api_time": 2.0})), agent,
            request(8.0, 32, &[1, 2], json!({}))]});
        let read = load(&text.to_string(), TraceSettings::default()).unwrap();
        let Branch { after, from, join, .. } = read[0].branches[0];
        let delays = read[1].turns.iter().map(|turn| turn.delay.as_seconds()).collect();
        (after, from, join, delays)
    };
    let seconds = |delays: &[f64]| delays.to_vec();
    let (issue, response) = (BranchStart::Issue, BranchStart::Response);
    assert_eq!(read(3.0, 3.0, 4000.0), (Some(0), response, Some(1), seconds(&[0.0, 1.0])));
    // It began 1.5 s after the request, which was being answered.
    assert_eq!(read(1.0, 1.5, 4000.0), (Some(0), issue, Some(1), seconds(&[1.5, 2.5])));
    // It ended after the next request, which therefore did not wait for it.
    assert_eq!(read(3.0, 3.0, 6000.0), (Some(0), response, None, seconds(&[0.0, 1.0])));
}

#[test]
fn sub_agents_among_the_requests_are_conversations_of_their_own() {
    let api = |seconds: f64| json!({"api_time": seconds});
    let text = json!({"id": "x", "block_size": 16, "hash_id_scope": "local", "requests": [
        request(0.0, 64, &[1, 2, 3, 4], api(2.0)), request(3.0, 80, &[1, 2, 3, 4, 5], api(10.0)),
        request(4.0, 48, &[1, 2, 9], api(1.0)), request(6.0, 64, &[1, 2, 9, 10], api(1.0)),
        request(20.0, 96, &[1, 2, 3, 4, 5, 6], api(1.0))]});
    let read = load(&text.to_string(), TraceSettings::default()).unwrap();
    let ids: Vec<(&str, usize)> = read.iter().map(|it| (&*it.id, it.turns.len())).collect();
    assert_eq!(ids, [("x", 3), ("x::fa:000", 2)]);
    let (from, join) = (BranchStart::Issue, Some(2));
    let branch = Branch { conversation: 1, after: Some(1), from, join, is_fork: false };
    assert_eq!(read[0].branches, [branch]);
    // 4 − 3 s after the second request, and 6 − 5 s after its own response.
    let delays: Vec<f64> = read[1].turns.iter().map(|turn| turn.delay.as_seconds()).collect();
    assert_eq!(delays, [1.0, 1.0]);
}

#[test]
fn whole_trees_are_left_out() {
    // The longest requests have 64 + 7 tokens, and those of the second trace 90 + 7.
    let long = trace("y").to_string().replace("48", "90");
    let text = format!("{long}\n{}\n{}\n{}", trace("x"), trace("z"), trace("w"));
    let settings = TraceSettings {
        max_context_tokens: Some(71),
        entries: Some(2),
        ..TraceSettings::default()
    };
    let read = load(&text, settings).unwrap();
    let ids: Vec<&str> = read.iter().map(|it| &*it.id).collect();
    assert_eq!(ids, ["x", "z", "x::sa:a1", "z::sa:a1"]);
    assert_eq!(read[1].branches[0].conversation, 3);
    let settings = TraceSettings { max_context_tokens: Some(70), ..settings };
    let counter = TokenCounter::builtin();
    let loaded =
        read_from(text.as_bytes(), Path::new(""), None, &settings, &counter, Seed(3)).unwrap();
    // Each trace has five requests.
    let note = ": 20 longer than --max-context-length left out; 71 tokens needed by the shortest \
                conversation";
    assert!(loaded.conversations.is_empty());
    assert_eq!(loaded.note(), note);
}

/// The values are those of AIPerf's own functions: the trace of three requests has 0 of 2, 2 of 4 and 3
/// of 4 blocks known.
#[test]
fn known_blocks_are_counted_over_all_conversations_of_a_trace() {
    let known = |text: &Value| -> Vec<Vec<(u32, u32)>> {
        let known_blocks = |turn: &Turn| turn.known_blocks.map(|it| (it.known, it.all)).unwrap();
        let read = load(&text.to_string(), TraceSettings::default()).unwrap();
        read.iter().map(|it| it.turns.iter().map(known_blocks).collect()).collect()
    };
    let api = |seconds: f64| json!({"api_time": seconds});
    let mut text = json!({"id": "t3", "block_size": 4, "hash_id_scope": "local", "system_tokens": 4,
        "requests": [request(0.0, 10, &[1, 2], api(2.0)), request(5.0, 18, &[1, 2, 3, 4], api(1.0)),
                     request(9.0, 17, &[1, 2, 3, 5], api(1.0))]});
    assert_eq!(known(&text), [[(0, 2), (2, 4), (3, 4)]]);
    // A sub-agent before the second request, whose times count from its entry.
    let agent = json!({"t": 3.0, "type": "subagent", "agent_id": "a", "duration_ms": 1000, "requests": [
        request(0.5, 16, &[1, 2, 3, 7], api(0.5)), request(7.0, 20, &[1, 2, 3, 7, 4], api(0.5))]});
    text["requests"].as_array_mut().unwrap().push(agent);
    assert_eq!(known(&text), [vec![(0, 2), (3, 4), (3, 4)], vec![(2, 4), (5, 5)]]);
}

#[test]
fn messages_begin_with_the_system_message_of_the_trace() {
    let roles = |text: &Value| -> Vec<Vec<&'static str>> {
        let read = load(&text.to_string(), TraceSettings::default()).unwrap();
        let first_role = |turn: &Turn| turn.prompt.as_ref().unwrap().messages()[0].role;
        read.iter().map(|it| it.turns.iter().map(first_role).collect()).collect()
    };
    let api = |seconds: f64| json!({"api_time": seconds});
    let inner = json!([request(3.0, 48, &[9, 8, 7], api(1.0))]);
    let mut text = json!({"id": "x", "block_size": 16, "hash_id_scope": "local",
        "tool_tokens": 10, "system_tokens": 7, "requests": [
        request(0.0, 64, &[1, 2, 3, 4], api(2.0)),
        // Two sub-agents that are not entries: the first one has the system message too.
        request(1.0, 48, &[1, 2, 6], api(5.0)), request(1.5, 48, &[1, 5, 6], api(5.0)),
        {"t": 3.0, "type": "subagent", "agent_id": "a", "system_tokens": 1, "requests": inner}]});
    let expected = [vec!["system"], vec!["system"], vec!["user"], vec!["system"]];
    assert_eq!(roles(&text), expected);
    text["system_tokens"] = json!(100);
    match load(&text.to_string(), TraceSettings::default()) {
        Err(Fault::Entry(1, why)) => {
            // ⌈110/16⌉ = 7.
            assert!(why.contains("110 tokens, which are 7 blocks"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn faults_are_named() {
    let twice = format!("{}\n{}", trace("x"), trace("x"));
    let other = trace("y").to_string().replace("\"block_size\":16", "\"block_size\":32");
    let zero = trace("x").to_string().replace("\"block_size\":16", "\"block_size\":0");
    for (text, entry, words) in [
        (twice, 2, "already used"),
        (zero, 1, "at least 1"),
        (trace("x").to_string().replace("9.5", "9.5e300"), 1, "out of range"),
    ] {
        match load(&text, TraceSettings::default()) {
            Err(Fault::Entry(number, why)) => {
                assert!(number == entry && why.contains(words), "{number}: {why}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    // Blocks may differ between traces, unless their prompts are changed together.
    let text = format!("{}\n{other}", trace("x"));
    let read = load(&text, TraceSettings::default()).unwrap();
    assert_eq!(read[1].turns[0].input_tokens, Some(40));
    let mut settings = TraceSettings::default();
    settings.synthesis.prefix_root_multiplier = 2;
    match load(&text, settings) {
        Err(Fault::Entry(2, why)) => assert!(why.contains("16 tokens"), "{why}"),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn any_document_is_read_or_rejected(text in "\\PC{0,60}", t: f64, input in 0u32..3000) {
        let (settings, counter) = (TraceSettings::default(), TokenCounter::builtin());
        let request = request(0.0, input, &[1], json!({"t": t}));
        let document = json!({"id": "x", "block_size": 16, "requests": [request]}).to_string();
        for content in [text, document] {
            drop(read_from(
                content.as_bytes(),
                Path::new(""),
                Some(FileFormat::WekaTrace),
                &settings,
                &counter,
                Seed(3),
            ));
        }
    }
}
