use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use tokens::tokenizer::TokenCounter;

use super::super::read_from;
use super::*;
use crate::account::Conversations;
use crate::{FileFormat, Seed};

/// A request at a time, of a session.
fn row(start: u64, prompt: &str, session: impl Into<Value>, more: Value) -> Value {
    let session = session.into();
    let mut row = json!({"timestamp_start_unix_ms": start, "prompt": prompt, "input_tokens": 5,
        "output_tokens": 3, "provided_session_id": session});
    if let (Value::Object(row), Value::Object(more)) = (&mut row, more) {
        row.extend(more);
    }
    row
}

fn load(content: &[u8], settings: &TraceSettings) -> Result<Loaded, Fault> {
    read_from(content, Path::new(""), None, settings, &TokenCounter::builtin(), Seed(3))
}

fn loaded(rows: &[Value], settings: &TraceSettings) -> Conversations {
    let lines: Vec<String> = rows.iter().map(Value::to_string).collect();
    load(lines.join("\n").as_bytes(), settings).unwrap().conversations
}

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/hub").join(name))
        .unwrap()
}

/// The prompts of each session.
fn prompts(read: &Conversations) -> Vec<Vec<String>> {
    let texts = |it: &Conversation| it.turns.iter().map(|turn| turn.texts[0].to_string()).collect();
    read.iter().map(texts).collect()
}

fn extra(turn: &Turn) -> Value {
    Value::Object(turn.extra.iter().cloned().collect())
}

/// Three requests: 900 ms, and those of a session at 1,000 and 2,500 ms, the first of which took 500 ms.
fn three() -> [Value; 3] {
    let hints = json!({"duration_e2e_ms": 500, "total_hashes": [7, u64::MAX],
                       "block_size": 64});
    let cancelled = json!({"output_tokens": 0, "total_hashes": null, "block_size": null});
    [
        row(2500, "ab", json!("s"), cancelled),
        row(1000, "a", json!("s"), hints),
        row(900, "c", Value::Null, json!({})),
    ]
}

#[test]
fn rows_of_a_session_are_turns_at_their_times_and_after_the_response_before() {
    let read = loaded(&three(), &TraceSettings::default());
    assert_eq!(prompts(&read), [vec!["c"], vec!["a", "ab"]]);
    assert_eq!([&*read[0].id, &*read[1].id], ["", "s"]);
    assert!(read.iter().all(|it| it.standalone_turns));
    let millis = |time: Nanos| time.as_millis();
    let times = |it: &Conversation| -> Vec<_> {
        let times = |turn: &Turn| (millis(turn.timestamp.unwrap()), millis(turn.delay));
        it.turns.iter().map(times).collect()
    };
    // 2,500 - (1,000 + 500) ms after the response.
    assert_eq!(times(&read[0]), [(0.0, 0.0)]);
    assert_eq!(times(&read[1]), [(100.0, 0.0), (1600.0, 1000.0)]);
    let recorded = read[1].turns.iter().map(|turn| turn.recorded.unwrap());
    let recorded: Vec<_> = recorded.map(|it| (millis(it.start), millis(it.end))).collect();
    assert_eq!(recorded, [(0.0, 500.0), (1500.0, 1500.0)]);
}

#[test]
fn requests_have_their_output_length_and_hints_for_the_cache() {
    let read_with = |settings: TraceSettings| {
        let read = loaded(&three(), &settings);
        let [first, second] = &read[1].turns[..] else { panic!("{read:?}") };
        assert_eq!([first.max_tokens, second.max_tokens], [Some(3), Some(1)]);
        [extra(first), extra(second)]
    };
    let default = TraceSettings::default();
    let hashes = json!([7, u64::MAX]);
    let hints = json!({"min_tokens": 3, "hash_ids": hashes, "block_size": 64});
    assert_eq!(read_with(default), [hints, json!({"min_tokens": 1})]);
    let omits = TraceSettings { omits_kv_hints: true, ..default };
    assert_eq!(read_with(omits), [json!({"min_tokens": 3}), json!({"min_tokens": 1})]);
    // With the flag, all formats get the minimum later.
    for given in [true, false] {
        let set = TraceSettings { force_min_tokens: Some(given), ..default };
        assert_eq!(read_with(set), [json!({"hash_ids": hashes, "block_size": 64}), json!({})]);
    }
}

#[test]
fn the_session_is_in_either_column() {
    let both = |provided: Value, derived: Value| {
        row(1, "a", provided, json!({"poor_man_session_id": derived}))
    };
    let rows =
        [both(json!("x"), json!(1)), both(json!("y"), json!(1)), both(Value::Null, json!(2))];
    let turns = |rows: &[Value], session_column| {
        let read = loaded(rows, &TraceSettings { session_column, ..TraceSettings::default() });
        read.iter().map(|it| (it.id.to_string(), it.turns.len())).collect::<Vec<_>>()
    };
    let named = |names: &[(&str, usize)]| -> Vec<(String, usize)> {
        names.iter().map(|(name, turns)| ((*name).to_owned(), *turns)).collect()
    };
    assert_eq!(turns(&rows, SessionColumn::Provided), named(&[("x", 1), ("y", 1), ("", 1)]));
    assert_eq!(turns(&rows, SessionColumn::Derived), named(&[("1", 2), ("2", 1)]));
    // A table may have only the other column.
    let mut only = rows.map(|row| row.as_object().unwrap().clone());
    for row in &mut only {
        row.remove("provided_session_id");
    }
    let only = only.map(Value::Object);
    assert_eq!(turns(&only, SessionColumn::Provided), named(&[("1", 2), ("2", 1)]));
}

#[test]
fn what_is_left_out_is_counted_and_times_count_from_it() {
    let rows = [
        row(100, "a", Value::Null, json!({"input_tokens": 6})),
        row(150, "", Value::Null, json!({})),
        row(175, "b", Value::Null, json!({"output_tokens": 9})),
    ];
    let (max_input_tokens, max_output_tokens) = (Some(5), Some(8));
    let settings =
        TraceSettings { max_input_tokens, max_output_tokens, ..TraceSettings::default() };
    let read = loaded(&rows, &settings);
    assert_eq!(prompts(&read), [["b"]]);
    let turn = &read[0].turns[0];
    assert_eq!((turn.timestamp, turn.max_tokens), (Some(Nanos(75_000_000)), Some(8)));
    let account = read.account();
    let left_out = [LeftOut::MaxInput, LeftOut::WithoutPrompt].map(|why| account.left_out(why));
    assert_eq!(left_out, [1, 1], "{account:?}");
}

#[test]
fn parquet_files_are_read_row_by_row() {
    let read = load(&golden("baseten.parquet"), &TraceSettings::default()).unwrap().conversations;
    assert_eq!(prompts(&read), [vec!["One"], vec!["Two", "Two and three"]]);
    assert_eq!(&*read[1].id, "s");
    let turns = &read[1].turns;
    let times: Vec<_> = turns.iter().map(|it| (it.timestamp.unwrap().0, it.delay.0)).collect();
    assert_eq!(times, [(50_000_000, 0), (250_000_000, 150_000_000)]);
    let hints = json!({"min_tokens": 4, "hash_ids": [11, 12], "block_size": 64});
    assert_eq!(extra(&turns[0]), hints);
    assert_eq!(extra(&turns[1]), json!({"min_tokens": 1, "block_size": 64}));
    // Compressed again, or damaged.
    let packed = zstd::encode_all(&*golden("baseten.parquet"), 1).unwrap();
    assert_eq!(load(&packed, &TraceSettings::default()).unwrap().conversations.len(), 2);
    let damaged = &golden("baseten.parquet")[..200];
    assert!(matches!(load(damaged, &TraceSettings::default()), Err(Fault::Entry(1, _))));
}

#[test]
fn other_formats_are_named() {
    let why = |content: &[u8], format| {
        let counter = TokenCounter::builtin();
        let settings = TraceSettings::default();
        match read_from(content, Path::new(""), format, &settings, &counter, Seed(3)) {
            Err(Fault::Setting(flag, why)) => format!("{flag} {why}"),
            other => panic!("{other:?}"),
        }
    };
    let arrow = why(b"ARROW1\0\0", None);
    assert!(arrow.contains("convert it to Parquet"), "{arrow}");
    let pool = why(&golden("baseten.parquet"), Some(FileFormat::RandomPool));
    assert!(pool.starts_with("--custom-dataset-type a Parquet file"), "{pool}");
}

#[test]
fn faults_are_named() {
    let one = |more: Value| row(1, "a", json!("s"), more).to_string();
    let latest = format!("{}\n{}", one(json!({})), row(u64::MAX, "a", Value::Null, json!({})));
    for (content, line, words) in [
        (one(json!({"input_tokens": -1})), 1, "invalid value: integer `-1`"),
        (one(json!({"output_tokens": null})), 1, "invalid type: null"),
        (one(json!({"prompt": 5})), 1, "invalid type: integer `5`"),
        (one(json!({"total_hashes": [-5]})), 1, "invalid value: integer `-5`"),
        (one(json!({"provided_session_id": []})), 1, "`provided_session_id` is neither"),
        (one(json!({"input_tokens": u32::MAX})), 1, "input tokens must be between"),
        (latest, 2, "the timestamp must be at least 0"),
    ] {
        match load(content.as_bytes(), &TraceSettings::default()) {
            Err(Fault::Line(number, why)) => {
                assert!(number == line && why.contains(words), "{number}: {why}");
            }
            other => panic!("{words}: {other:?}"),
        }
    }
}

proptest! {
    #[test]
    fn any_row_is_read_or_rejected(
        starts in prop::collection::vec(any::<u64>(), 1..4),
        duration in prop::option::of(any::<u64>()),
        tokens in any::<(u32, u32)>(),
        session in prop::option::of("[ab]"),
        hashes in prop::collection::vec(any::<u64>(), 0..3),
        block_size: i64,
    ) {
        let rows = starts.iter().map(|start| {
            let more = json!({"input_tokens": tokens.0, "output_tokens": tokens.1,
                "duration_e2e_ms": duration, "total_hashes": hashes, "block_size": block_size});
            format!("{}\n", row(*start, "a", json!(session), more))
        });
        drop(load(rows.collect::<String>().as_bytes(), &TraceSettings::default()));
    }

    #[test]
    fn damaged_parquet_files_are_rejected_or_read(at: prop::sample::Index, byte: u8) {
        let mut content = golden("baseten.parquet");
        let at = at.index(content.len());
        content[at] = byte;
        drop(load(&content, &TraceSettings::default()));
    }
}
