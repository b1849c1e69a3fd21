use std::io::Write as _;
use std::path::Path;

use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use serde_json::json;

use super::super::read_from;
use super::*;
use crate::{Branch, BranchStart, Conversation, FileFormat};

/// A time of so many seconds.
fn at(seconds: f64) -> String {
    format!("2026-01-31T12:{:02}:{:06.3}Z", (seconds / 60.0) as u32, seconds % 60.0)
}

/// A request from `sent` to `end` seconds.
fn round(session: &str, index: i64, (sent, end): (f64, f64), (total, prefix): (u32, u32)) -> Value {
    json!({"session_id": session, "round_index": index, "input_tokens_total": total,
           "prefix_tokens": prefix, "newly_append_tokens": total - prefix, "user": "u",
           "project": "p", "provider": "claude", "model": "m", "output_tokens": 5,
           "reasoning_output_tokens": 2, "timing_events": [
               {"event_type": "tool_result", "timestamp": at(sent - 0.5)},
               {"event_type": "user_message", "timestamp": at(sent)},
               {"event_type": "text", "timestamp": at(end)}]})
}

fn tool(name: &str, (start, end): (f64, f64)) -> Value {
    json!({"tool_name": name, "emitted_at": at(start), "result_at": at(end),
           "tool_wall_latency_ms": (end - start) * 1000.0})
}

fn with_tools(mut round: Value, tools: &[Value]) -> Value {
    round["tools"] = tools.into();
    round
}

fn text(rounds: &[Value]) -> String {
    rounds.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
}

fn load(content: &[u8], settings: TraceSettings) -> Result<Vec<Conversation>, Fault> {
    let counter = TokenCounter::builtin();
    read_from(content, Path::new(""), None, &settings, &counter, Seed(3))
        .map(|loaded| loaded.conversations.into_vec())
}

fn loaded(rounds: &[Value]) -> Vec<Conversation> {
    load(text(rounds).as_bytes(), TraceSettings::default()).unwrap()
}

fn ids(conversations: &[Conversation]) -> Vec<&str> {
    conversations.iter().map(|it| &*it.id).collect()
}

/// The three rounds and their blocks are those of AIPerf's own function.
#[test]
fn a_prompt_has_the_known_blocks_of_the_one_before() {
    // In another order than that of their times; the last two were sent at the same time.
    let rounds = [
        round("s", 3, (20.0, 21.0), (100, 64)),
        round("s", 2, (20.0, 24.0), (330, 190)),
        round("s", 9, (10.0, 12.0), (200, 0)),
    ];
    let lines: Vec<(u64, Round)> =
        (1..).zip(rounds.clone().map(|it| serde_json::from_value(it).unwrap())).collect();
    let session = Session::new(lines, MIN_SPAWN_MILLIS).unwrap();
    let blocks = |tokens| -> Vec<Vec<i64>> {
        let requests = session.requests(session.sent[0].at, tokens, &mut 1);
        requests.into_iter().map(|it| it.hash_ids).collect()
    };
    assert_eq!(blocks(64), [vec![1, 2, 3], vec![1, 2, 4, 5, 6], vec![1]]);
    // ⌊200/100⌋ = 2; ⌊190/100⌋ = 1 is kept of ⌊330/100⌋ = 3; ⌊64/100⌋ = 0.
    assert_eq!(blocks(100), [vec![1, 2], vec![1, 3, 4], vec![5]]);
    // A prompt that is sent before the response to the one before it is of a sub-agent.
    assert_eq!(ids(&loaded(&rounds)), ["s", "s::aux:000"]);
    let [mut last, second, first] = rounds;
    last["timing_events"] = round("s", 3, (26.0, 27.0), (100, 64))["timing_events"].take();
    let read = loaded(&[last, second, first]);
    assert_eq!(ids(&read), ["s"]);
    let turns = &read[0].turns;
    let tokens: Vec<_> = turns.iter().map(|turn| turn.input_tokens).collect();
    assert_eq!(tokens, [Some(200), Some(330), Some(100)]);
    assert!(turns.iter().all(|turn| turn.max_tokens == Some(7)));
    // The second prompt keeps 128 tokens, and of the 202 others ⌈7/64⌉ = 1 block is the response.
    let roles: Vec<&str> =
        turns[1].prompt.as_ref().unwrap().messages().iter().map(|it| it.role).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    // 20 − 12 and 26 − 24 s after the responses.
    let delays: Vec<f64> = turns.iter().map(|turn| turn.delay.as_seconds()).collect();
    assert_eq!(delays, [0.0, 8.0, 2.0]);
}

/// An agent with a call of a tool from 12 to 40 s, and a session from 15 to 30 s.
fn family() -> Vec<Value> {
    let tools = [tool("Bash", (12.0, 60.0)), tool("Task", (12.0, 40.0))];
    vec![
        with_tools(round("claude:1", 0, (10.0, 12.0), (200, 0)), &tools),
        round("claude:1", 1, (40.0, 42.0), (260, 192)),
        round("claude:2", 0, (15.5, 17.0), (128, 0)),
        round("claude:2", 1, (19.0, 30.0), (192, 128)),
    ]
}

#[test]
fn a_session_within_a_call_of_a_tool_is_a_sub_agent() {
    let read = loaded(&family());
    assert_eq!(ids(&read), ["claude_1", "claude_1::sa:claude_2"]);
    let branch = Branch {
        conversation: 1,
        after: Some(0),
        join: Some(1),
        from: BranchStart::Response,
        is_fork: false,
    };
    assert_eq!(read[0].branches, [branch]);
    assert!(read[1].is_child);
    // 15.5 − 12 s after the start of the call, and 19 − 17 s after the first response.
    let delays: Vec<f64> = read[1].turns.iter().map(|turn| turn.delay.as_seconds()).collect();
    assert_eq!(delays, [3.5, 2.0]);
}

#[test]
fn other_sessions_are_agents_of_their_own() {
    let changed = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut rounds = family();
        change(&mut rounds);
        ids(&loaded(&rounds)).join(" ")
    };
    let apart = "claude_1 claude_2";
    assert_eq!(changed(&|it| it[2]["project"] = "q".into()), apart);
    assert_eq!(changed(&|it| it[3]["timing_events"][2]["timestamp"] = at(40.5).into()), apart);
    assert_eq!(changed(&|it| it[0]["tools"][1]["tool_name"] = "Bash".into()), apart);
    assert_eq!(changed(&|it| it[0]["tools"][1]["tool_wall_latency_ms"] = 9999.into()), apart);
    let nested = "claude_1 claude_1::sa:claude_2";
    assert_eq!(changed(&|it| it[0]["tools"][1]["tool_wall_latency_ms"] = 10000.into()), nested);
    // The child of a child is an agent.
    let grandchild = |it: &mut Vec<Value>| {
        it[2]["tools"] = json!([tool("Agent", (17.0, 29.0))]);
        it.push(round("claude:3", 0, (20.0, 21.0), (64, 0)));
    };
    // It is inside of the calls of both, of which that of the child is the shorter one.
    assert_eq!(changed(&grandchild), "claude_1 claude_3 claude_1::sa:claude_2");
}

#[test]
fn codex_starts_and_waits_by_different_tools() {
    let mut rounds = family();
    rounds[0]["tools"] = json!([
        tool("spawn_agent", (13.0, 13.1)),
        tool("spawn_agent", (14.0, 14.1)),
        tool("wait_agent", (20.0, 39.0))
    ]);
    rounds[0]["provider"] = "codex".into();
    let read = loaded(&rounds);
    assert_eq!(ids(&read), ["claude_1", "claude_1::sa:claude_2"]);
    // From 13 s on.
    assert_eq!(read[1].turns[0].delay.as_seconds(), 2.5);
}

#[test]
fn the_shortest_call_can_be_set_and_files_can_be_compressed() {
    let content = text(&family());
    let settings = TraceSettings { min_spawn_millis: Some(28_001), ..TraceSettings::default() };
    let read = load(content.as_bytes(), settings).unwrap();
    assert_eq!(ids(&read), ["claude_1", "claude_2"]);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content.as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    let whole = load(&packed, TraceSettings::default()).unwrap();
    assert_eq!(format!("{whole:?}"), format!("{:?}", loaded(&family())));
    match load(&packed[..packed.len() / 2], TraceSettings::default()) {
        Err(Fault::Read(_)) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn faults_are_named() {
    let changed = |name: &str, value: Value| {
        let mut rounds = family();
        rounds[1][name] = value;
        text(&rounds)
    };
    for (content, line, words) in [
        (changed("session_id", Value::Null), 2, "expected a string"),
        (changed("input_tokens_total", (-1).into()), 2, "expected u32"),
        (changed("input_tokens_total", u32::MAX.into()), 2, "tokens"),
        (changed("timing_events", json!([{"timestamp": "noon"}])), 2, "\"noon\" is not a time"),
        (
            text(&[round("a:b", 0, (1.0, 2.0), (9, 0)), round("a/b", 0, (1.0, 2.0), (9, 0))]),
            2,
            "already used",
        ),
    ] {
        match load(content.as_bytes(), TraceSettings::default()) {
            Err(Fault::Line(number, why)) => {
                assert!(number == line && why.contains(words), "{number}: {why}");
            }
            other => panic!("{words}: {other:?}"),
        }
    }
}

#[test]
fn ids_have_plain_characters() {
    assert_eq!(cleaned("codex:// é1-2_3.4"), "codex_1-2_3.4");
    assert_eq!(cleaned(&"x".repeat(200)).len(), 150);
}

proptest! {
    #[test]
    fn any_line_is_read_or_rejected(
        line in "\\PC{0,60}",
        total in 0_u32..3000,
        prefix: u32,
        time in "[0-9T:.Z-]{0,20}",
        latency: f64,
    ) {
        let tools = json!([{"tool_name": "Task", "emitted_at": at(1.0), "result_at": at(0.0),
                            "tool_wall_latency_ms": latency}]);
        let mut odd = round("s", -1, (9.0, 3.0), (total, 0));
        odd["prefix_tokens"] = prefix.into();
        odd["tools"] = tools;
        odd["session_id"] = line.clone().into();
        let mut late = odd.clone();
        late["timing_events"][1]["timestamp"] = time.into();
        let counter = TokenCounter::builtin();
        for content in [line, text(&[odd.clone()]), text(&[odd, late])] {
            drop(read_from(content.as_bytes(), Path::new(""), Some(FileFormat::TraceLab),
                           &TraceSettings::default(), &counter, Seed(3)));
        }
    }
}
