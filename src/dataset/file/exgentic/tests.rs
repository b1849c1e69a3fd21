use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use super::super::read_from;
use super::*;
use crate::FileFormat;
use crate::account::Conversations;

/// A span with a request, from and until these seconds of a minute.
fn span((start, end): (u32, u32), attributes: Value) -> Value {
    let time = |seconds: u32| format!("2026-01-31T12:00:{seconds:02}.250");
    let mut all = json!({"gen_ai.usage.input_tokens": 40, "gen_ai.usage.output_tokens": 9,
        "gen_ai.input.messages": r#"[{"role": "user", "parts": [{"type": "text", "content": "a"}]}]"#});
    if let (Value::Object(all), Value::Object(attributes)) = (&mut all, attributes) {
        all.extend(attributes);
    }
    json!({"type": "llm_call", "status": {"code": 1}, "start_time": time(start),
           "end_time": time(end), "attributes": all})
}

fn row(id: &str, spans: &[Value]) -> Value {
    json!({"harness": "claude_code", "session_id": id, "models": ["openai/azure/GPT-5"],
           "benchmark": "swe", "spans": spans})
}

fn load(content: &str, settings: &TraceSettings) -> Result<Loaded, Fault> {
    let counter = TokenCounter::builtin();
    read_from(content.as_bytes(), Path::new(""), None, settings, &counter, Seed(3))
}

fn loaded(rows: &[Value], settings: &TraceSettings) -> Conversations {
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    load(&lines.join("\n"), settings).unwrap().conversations
}

fn json_of(raw: Option<&Arc<RawValue>>) -> Value {
    raw.map_or(Value::Null, |raw| serde_json::from_str(raw.get()).unwrap())
}

#[test]
fn requests_have_their_recorded_messages_and_settings() {
    let parts = json!([
        {"role": "developer", "parts": [{"type": "text", "content": "b"}]},
        {"role": "assistant", "parts": [
            {"type": "thinking", "thinking": "hm"}, {"type": "text", "content": "c"},
            {"type": "text", "content": "d"},
            {"type": "tool_call", "id": "1", "name": "f", "arguments": {"x": 1}}]},
        {"role": "user", "parts": [
            {"type": "tool_call_response", "id": "1", "result": {"y": 2}},
            {"type": "tool_call_response", "id": "2", "result": "z"},
            {"type": "text", "content": "e"}]},
        {"role": "user", "parts": []},
    ]);
    let tools = json!([{"type": "function", "name": "f", "description": "g", "parameters": {}}]);
    let full = json!({"gen_ai.system_instructions": "be brief", "gen_ai.input.messages": parts,
        "gen_ai.tool.definitions": tools.to_string(), "gen_ai.request.max_tokens": 100,
        "gen_ai.request.temperature": 0.5, "gen_ai.request.stop_sequences": ["\n"]});
    let listed = json!([{"type": "text", "content": "in "}, {"type": "text", "content": "parts"}]);
    let listed = json!({"gen_ai.system_instructions": listed.to_string(),
        "gen_ai.request.stop_sequences": [], "gen_ai.tool.definitions": "[]"});
    let spans = [span((1, 2), full), span((3, 4), listed)];
    let read = loaded(&[row("s", &spans)], &TraceSettings::default());
    let turns = &read[0].turns;
    assert!(read[0].standalone_turns);
    assert_eq!(
        json_of(turns[0].messages.as_ref()),
        json!([
            {"role": "system", "content": "be brief"},
            {"role": "system", "content": "b"},
            {"role": "assistant", "content": "cd", "reasoning_content": "hm", "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "{\"y\":2}"},
            {"role": "tool", "tool_call_id": "2", "content": "z"},
            {"role": "user", "content": "e"},
            {"role": "user", "content": ""},
        ])
    );
    let function = json!({"name": "f", "description": "g", "parameters": {}});
    let declared = json!([{"type": "function", "function": function}]);
    assert_eq!(json_of(turns[0].tools.as_ref()), declared);
    let extra = turns[0].extra.iter().map(|(name, value)| format!("{name} {value}"));
    assert_eq!(extra.collect::<Vec<_>>(), ["temperature 0.5", "stop [\"\\n\"]"]);

    let system = json!({"role": "system", "content": "in parts"});
    let user = json!({"role": "user", "content": "a"});
    assert_eq!(json_of(turns[1].messages.as_ref()), json!([system, user]));
    assert!(turns[1].tools.is_none() && turns[1].extra.is_empty());
    // The recorded limit, or else the recorded output.
    assert_eq!([turns[0].max_tokens, turns[1].max_tokens], [Some(100), Some(9)]);
}

#[test]
fn requests_are_sent_in_the_order_and_at_the_distances_of_their_times() {
    // In order: 2 to 5 s, 10 to 20 s, and 15 to 18 s, which began before the end of the one before.
    let spans = [(10, 20), (15, 18), (2, 5)].map(|times| span(times, json!({})));
    let read = load(&row("s", &spans).to_string(), &TraceSettings::default()).unwrap();
    assert!(read.note().starts_with(": 1 sent before the response"), "{}", read.note());
    let turns = &read.conversations[0].turns;
    let seconds = |time: Nanos| time.as_seconds();
    let delays: Vec<f64> = turns.iter().map(|turn| seconds(turn.delay)).collect();
    assert_eq!(delays, [0.0, 5.0, 0.0]);
    let recorded = turns.iter().map(|turn| turn.recorded.unwrap());
    let recorded: Vec<_> = recorded.map(|it| (seconds(it.start), seconds(it.end))).collect();
    assert_eq!(recorded, [(0.0, 3.0), (8.0, 18.0), (13.0, 16.0)]);
    // An evaluation does not say when its sessions are to start.
    assert!(turns.iter().all(|turn| turn.timestamp.is_none()));
}

#[test]
fn only_requests_with_a_response_and_messages_are_sent() {
    let with = |mut span: Value, member: &str, value: Value| {
        span[member] = value;
        span
    };
    let plain = |attributes| span((1, 2), attributes);
    let spans = [
        with(plain(json!({})), "status", json!({"code": 2})),
        plain(json!({"gen_ai.usage.output_tokens": 0})),
        plain(json!({"gen_ai.usage.input_tokens": 0})),
        plain(json!({"gen_ai.input.messages": null})),
        plain(json!({"gen_ai.usage.input_tokens": 41})),
        plain(json!({"gen_ai.usage.output_tokens": 8})),
        with(plain(json!({"gen_ai.operation.name": "chat"})), "type", Value::Null),
        // Not requests.
        with(plain(json!({})), "type", "tool_call".into()),
        with(plain(json!({"gen_ai.operation.name": "chat"})), "type", "agent".into()),
        with(plain(json!({})), "type", Value::Null),
    ];
    let (max_input_tokens, max_output_tokens) = (Some(40), Some(8));
    let settings =
        TraceSettings { max_input_tokens, max_output_tokens, ..TraceSettings::default() };
    let rows = [row("s", &spans), row("empty", &spans[..1])];
    let read = loaded(&rows, &settings);
    let turns: Vec<usize> = read.iter().map(|it| it.turns.len()).collect();
    assert_eq!(turns, [2]);
    assert!(read[0].turns.iter().all(|turn| turn.max_tokens == Some(8)));
    let account = read.account();
    assert_eq!(account.read(), 8);
    for (why, count) in [(LeftOut::Failed, 4), (LeftOut::WithoutPrompt, 1), (LeftOut::MaxInput, 1)]
    {
        assert_eq!(account.left_out(why), count, "{account:?}");
    }
}

#[test]
fn the_first_sessions_are_taken() {
    let rows = ["a", "b", "c"].map(|id| row(id, &[span((1, 2), json!({}))]));
    let settings = TraceSettings { entries: Some(2), ..TraceSettings::default() };
    let ids: Vec<_> = loaded(&rows, &settings).iter().map(|it| it.id.to_string()).collect();
    assert_eq!(ids, ["a", "b"]);
}

#[test]
fn filters_are_columns_and_models() {
    let counter = TokenCounter::builtin();
    let kept = |column: &str, value: &str| {
        let filters = [(column.to_owned(), value.to_owned())];
        let settings = TraceSettings::default();
        let row = row("s", &[span((1, 2), json!({})), span((3, 4), json!({}))]);
        let rows = [Ok((RowPlace::Entry(1), row.as_object().unwrap().clone()))].into_iter();
        read(rows, &filters, &settings, &counter, Seed(1)).map(|read| {
            let read = read.conversations;
            (read.len(), read.account().left_out(LeftOut::Filtered))
        })
    };
    for (column, value, expected) in [
        ("harness", "claude_code", (1, 0)),
        ("harness", "Claude_Code", (1, 0)),
        ("harness", "codex", (0, 2)),
        ("benchmark", "swe", (1, 0)),
        ("source_model", "gpt-5", (1, 0)),
        ("source_model", "aws/GPT-5", (1, 0)),
        ("source_model", "gpt", (0, 2)),
        ("models", "gpt-5", (0, 2)),
    ] {
        assert_eq!(kept(column, value).unwrap(), expected, "{column}={value}");
    }
    match kept("x", "y") {
        Err(Fault::Setting("--dataset-filter", why)) => {
            assert!(why.contains("a column \"x\""), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn faults_are_named() {
    let one = |attributes: Value| row("s", &[span((1, 2), attributes)]).to_string();
    let good = one(json!({}));
    let late = row("s", &[span((3, 2), json!({}))]).to_string();
    let timeless = late.replace("2026-01-31T12:00:03.250", "yesterday");
    let part = json!([{"role": "user", "parts": [{"type": "image"}]}]);
    for (content, line, words) in [
        (format!("{good}\n\n{good}"), 3, "session_id \"s\" is already used"),
        (late, 1, "span 0: `end_time` is before"),
        (timeless, 1, "span 0: `start_time` is not a time"),
        (r#"{"harness": "h", "session_id": "s", "spans": 1}"#.to_owned(), 1, "invalid type"),
        (one(json!({"gen_ai.usage.input_tokens": -1})), 1, "not a number of tokens"),
        (one(json!({"gen_ai.request.max_tokens": 0})), 1, "at least 1"),
        (one(json!({"gen_ai.request.temperature": "hot"})), 1, "invalid value \"hot\""),
        (one(json!({"gen_ai.request.stop_sequences": [1]})), 1, "invalid value [1]"),
        (one(json!({"gen_ai.input.messages": part})), 1, "unknown type \"image\""),
        (one(json!({"gen_ai.input.messages": [{"parts": []}]})), 1, "does not have a `role`"),
        (one(json!({"gen_ai.input.messages": [{"role": "user"}]})), 1, "a list of `parts`"),
        (one(json!({"gen_ai.input.messages": "x"})), 1, "not a list of objects"),
        (one(json!({"gen_ai.system_instructions": 1})), 1, "not a list of objects"),
        (one(json!({"gen_ai.tool.definitions": [{"type": "x"}]})), 1, "unknown type \"x\""),
    ] {
        match load(&content, &TraceSettings::default()) {
            Err(Fault::Line(number, why)) => {
                assert!(number == line && why.contains(words), "{number}: {why}");
            }
            other => panic!("{words}: {other:?}"),
        }
    }
}

/// Any JSON value with the names of the format.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        prop::sample::select(vec!["text", "tool_call", "tool_call_response", "[{}]", "function"])
            .prop_map(Value::from),
    ];
    let names = vec!["role", "parts", "type", "content", "id", "arguments", "result", "name"];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let member = (prop::sample::select(names.clone()), inner.clone());
        let member = member.prop_map(|(name, value)| (name.to_owned(), value));
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            prop::collection::vec(member, 0..4).prop_map(|it| Value::Object(Map::from_iter(it))),
        ]
    })
}

proptest! {
    #[test]
    fn any_row_is_read_or_rejected(
        attributes in prop::collection::vec(
            (
                prop::sample::select(vec![
                    "gen_ai.input.messages", "gen_ai.system_instructions",
                    "gen_ai.tool.definitions", "gen_ai.usage.input_tokens",
                    "gen_ai.usage.output_tokens", "gen_ai.request.max_tokens",
                    "gen_ai.request.temperature", "gen_ai.request.stop_sequences",
                ]),
                any_value(),
            ),
            0..4,
        ),
        times in prop::collection::vec("\\PC{0,12}|[0-9]{4}-01-01T00:00:00Z", 2),
        spans in any_value(),
    ) {
        let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value));
        let mut request = span((1, 2), Value::Object(attributes.collect()));
        let timed = json!({"type": "llm_call", "start_time": times[0], "end_time": times[1],
                           "attributes": request["attributes"].clone()});
        for spans in [json!([request.take(), timed]), spans] {
            let content = json!({"harness": "h", "session_id": "s", "spans": spans}).to_string();
            let counter = TokenCounter::builtin();
            let format = Some(FileFormat::Exgentic);
            drop(read_from(content.as_bytes(), Path::new(""), format, &TraceSettings::default(),
                           &counter, Seed(3)));
        }
    }
}
