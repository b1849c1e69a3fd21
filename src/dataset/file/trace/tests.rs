use std::path::Path;

use proptest::prelude::*;

use super::super::{FileFormat, Loaded, read_from};
use super::*;
use crate::{Conversation, Turn};

fn load(content: &str, settings: TraceSettings) -> Result<Loaded, Fault> {
    read_from(content.as_bytes(), Path::new(""), None, &settings, &TokenCounter::builtin(), Seed(3))
}

fn read(content: &str) -> Vec<Conversation> {
    load(content, TraceSettings::default()).unwrap().conversations.into_vec()
}

fn golden(name: &str) -> String {
    std::fs::read_to_string(Path::new("../../tests/golden/traces").join(name)).unwrap()
}

fn fault(content: &str) -> (u64, String) {
    match load(content, TraceSettings::default()) {
        Err(Fault::Line(line, reason)) => (line, reason),
        other => panic!("{content}: {other:?}"),
    }
}

fn text(turn: &Turn) -> String {
    turn.texts[0].to_string()
}

/// Returns timestamp and delay in milliseconds, input tokens and output tokens.
fn facts(turn: &Turn) -> (Option<f64>, f64, u64, Option<u32>) {
    let counted = TokenCounter::builtin().count(&text(turn));
    assert_eq!(turn.input_tokens, Some(counted));
    (turn.timestamp.map(Nanos::as_millis), turn.delay.as_millis(), counted, turn.max_tokens)
}

/// Returns the length in tokens of the common prefix of two texts.
fn shared_tokens(a: &str, b: &str) -> usize {
    let counter = TokenCounter::builtin();
    let (a, b) = (counter.encode(a), counter.encode(b));
    a.iter().zip(&b).take_while(|(a, b)| a == b).count()
}

#[test]
fn mooncake_lines_have_their_lengths_and_times() {
    let read = read(&golden("mooncake.jsonl"));
    let turns: Vec<Vec<_>> = read.iter().map(|c| c.turns.iter().map(facts).collect()).collect();
    let expected = [
        vec![(Some(0.0), 0.0, 1200, Some(52))],
        vec![(Some(105.0), 0.0, 1800, Some(26))],
        vec![(Some(274.5), 0.0, 1300, Some(52))],
        vec![(Some(300.0), 0.0, 600, Some(8))],
        vec![(Some(310.0), 0.0, 40, Some(5)), (None, 250.0, 30, Some(6))],
    ];
    assert_eq!(turns, expected);
    assert_eq!(&*read[4].id, "s");
    assert!(read.iter().all(|conversation| !conversation.standalone_turns));
}

#[test]
fn a_hash_id_is_a_block_of_the_same_text() {
    let read = read(&golden("mooncake.jsonl"));
    let texts: Vec<String> = read.iter().map(|c| text(&c.turns[0])).collect();
    // Lines 1 and 2 share exactly the first block of 512 tokens.
    let shared = shared_tokens(&texts[0], &texts[1]);
    assert!((512..514).contains(&shared), "{shared}");
    // Line 3 begins with the second block of line 1.
    let counter = TokenCounter::builtin();
    let tokens = counter.encode(&texts[0]);
    let second_block = counter.decode(&tokens[512..1024]);
    assert_eq!(shared_tokens(second_block.trim_start(), &texts[2]), 512);
    // Line 4 does not have hash IDs, so its text is unique.
    assert!(texts[..3].iter().all(|other| shared_tokens(other, &texts[3]) < 16));
}

#[test]
fn bailian_turns_are_linked_and_bear_their_history() {
    let read = read(&golden("bailian.jsonl"));
    let ids: Vec<&str> = read.iter().map(|conversation| &*conversation.id).collect();
    assert_eq!(ids, ["159", "161"]);
    assert!(read.iter().all(|conversation| conversation.standalone_turns));
    let turns: Vec<_> = read[0].turns.iter().map(facts).collect();
    assert_eq!(
        turns,
        [
            (Some(61_114.0), 0.0, 75, Some(132)),
            (Some(62_500.0), 0.0, 96, Some(80)),
            (Some(64_250.0), 0.0, 120, Some(9)),
        ]
    );
    // Four blocks of 16 tokens, then six of them.
    let texts: Vec<String> = read[0].turns.iter().map(text).collect();
    assert!((64..66).contains(&shared_tokens(&texts[0], &texts[1])));
    assert_eq!(shared_tokens(&texts[1], &texts[2]), 96);
    assert!((16..18).contains(&shared_tokens(&texts[0], &text(&read[1].turns[0]))));
}

#[test]
fn a_circle_of_parents_is_one_conversation() {
    let line = |chat: i64, parent: i64| {
        format!(
            r#"{{"chat_id": {chat}, "parent_chat_id": {parent}, "timestamp": 1, "input_length": 5, "output_length": 1}}"#
        )
    };
    let read = read(&[line(1, 2), line(2, 3), line(3, 1), line(4, 4), line(5, 99)].join("\n"));
    let turns: Vec<usize> = read.iter().map(|conversation| conversation.turns.len()).collect();
    assert_eq!(turns, [3, 1, 1]);
}

#[test]
fn burst_gpt_rows_are_requests_but_for_those_that_failed() {
    let loaded = load(&golden("burst_gpt.csv"), TraceSettings::default()).unwrap();
    let turns: Vec<_> = loaded.conversations.iter().map(|c| facts(&c.turns[0])).collect();
    assert_eq!(
        turns,
        [
            (Some(5000.0), 0.0, 472, Some(18)),
            (Some(45_000.0), 0.0, 1087, Some(230)),
            (Some(118_500.0), 0.0, 417, Some(276)),
        ]
    );
    assert_eq!(loaded.note(), ": 1 failed when recorded left out");
}

#[test]
fn lines_may_bring_their_own_prompts() {
    let read = read(concat!(
        r#"{"text_input": "Hello", "output_length": 4, "tenant": "x"}"#,
        "\n",
        r#"{"session_id": "m", "messages": [{"role": "user", "content": "Hi"}], "timestamp": 7}"#,
        "\n",
        r#"{"session_id": "m", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}], "delay": 3}"#,
        "\n",
        r#"{"payload": {"prompt": "x", "max_tokens": 9}}"#,
        "\n",
        r#"{"messages": [{"role": "user", "content": "Hi"}], "tools": [{"name": "f"}]}"#,
    ));
    assert_eq!(read[3].turns[0].tools.as_ref().unwrap().get(), r#"[{"name": "f"}]"#);
    assert_eq!(text(&read[0].turns[0]), "Hello");
    assert_eq!(read[0].turns[0].max_tokens, Some(4));
    assert_eq!((&*read[1].id, read[1].turns.len(), read[1].standalone_turns), ("m", 2, true));
    assert_eq!(
        read[1].turns[0].messages.as_ref().unwrap().get(),
        r#"[{"role": "user", "content": "Hi"}]"#
    );
    assert_eq!(read[1].turns[1].delay, Nanos(3_000_000));
    assert_eq!(read[2].turns[0].max_tokens, Some(9));
    assert!(read[2].turns[0].raw_payload.is_some());
}

#[test]
fn settings_bound_lengths_and_say_what_a_block_is() {
    let content = concat!(
        r#"{"input_length": 100, "output_length": 9, "hash_ids": [1, 2, 3, 4, 5, 6, 7]}"#,
        "\n",
        r#"{"input_length": 101, "output_length": 3}"#,
        "\n",
        r#"{"input_length": 40, "hash_ids": [1, 9], "user": "u"}"#,
    );
    let settings = TraceSettings {
        block_tokens: Some(16),
        max_input_tokens: Some(100),
        max_output_tokens: Some(5),
        ..TraceSettings::default()
    };
    let loaded = load(content, settings).unwrap();
    let turns: Vec<_> = loaded.conversations.iter().map(|c| facts(&c.turns[0])).collect();
    assert_eq!(turns, [(None, 0.0, 100, Some(5)), (None, 0.0, 40, None)]);
    let texts: Vec<String> = loaded.conversations.iter().map(|c| text(&c.turns[0])).collect();
    assert!((16..18).contains(&shared_tokens(&texts[0], &texts[1])));
    assert_eq!(
        loaded.note(),
        ": 1 longer than --synthesis-max-isl left out; 1 capped to --synthesis-max-osl, 1 longer than their \
         hash_ids, with unique text for the rest, 1 ignored fields (`user`)"
    );
}

#[test]
fn settings_that_go_with_no_trace_are_refused() {
    let settings = TraceSettings { block_tokens: Some(16), ..TraceSettings::default() };
    match load(r#"{"text": "Hi"}"#, settings) {
        Err(Fault::Setting("--isl-block-size", reason)) => assert!(reason.contains("the file")),
        other => panic!("{other:?}"),
    }
    let settings = TraceSettings { block_tokens: Some(0), ..TraceSettings::default() };
    let zero = load(r#"{"input_length": 5}"#, settings);
    assert!(matches!(zero, Err(Fault::Setting("--isl-block-size", _))), "{zero:?}");
}

#[test]
fn faults_of_mooncake_lines_are_named() {
    for (line, words) in [
        (r#"{"timestamp": 1}"#, "one of `input_length`, `text_input`"),
        (r#"{"input_length": 5, "text_input": "x"}"#, "one of `input_length`"),
        (r#"{"text_input": "x", "hash_ids": [1]}"#, "`hash_ids` requires `input_length`"),
        (r#"{"text_input": ""}"#, "the text is empty"),
        (r#"{"input_length": 0}"#, "the number of input tokens must be between 1 and"),
        (r#"{"input_length": -5}"#, "invalid value: integer `-5`"),
        (r#"{"input_length": 655, "hash_ids": [0, 1, 2]}"#, "3 blocks of 512 tokens exceed"),
        (r#"{"input_length": 5, "output_length": 0}"#, "output tokens must be at least 1"),
        (r#"{"input_length": 5, "timestamp": -1}"#, "timestamp must be at least 0, got -1 ms"),
        (r#"{"input_length": 5, "timestamp": 1e300}"#, "must be at least 0"),
        (r#"{"input_length": 5, "delay": -1}"#, "must not be negative, got -1 ms"),
        (r#"{"messages": []}"#, "must contain messages"),
        (r#"{"messages": [{"content": "x"}]}"#, "each with a `role`"),
        (r#"{"messages": 3}"#, "not an array of messages"),
        (r#"{"messages": [{"role": "user"}], "tools": {}}"#, "`tools` is not an array of objects"),
        (r#"{"input_length": 5, "tools": []}"#, "`tools` requires `messages`"),
        (r#"{"payload": 3}"#, "not a JSON object"),
        (r#"{"input_length": 5, "message_mode": "delta"}"#, "\"delta\" is not supported yet"),
        (r#"{"input_length": 5, "type": "single_turn"}"#, "read as mooncake_trace"),
        (r#"{"session_id": "s", "payload": {}}"#, "another kind of prompt"),
        ("{", "EOF"),
    ] {
        let first = r#"{"session_id": "s", "input_length": 5}"#;
        let (number, reason) = fault(&format!("{first}\n{line}\n"));
        assert_eq!(number, 2, "{line}");
        assert!(reason.contains(words), "{line}: {reason}");
    }
}

#[test]
fn faults_of_bailian_lines_and_burst_gpt_rows_are_named() {
    let line = r#"{"chat_id": 1, "timestamp": 1, "input_length": 5, "output_length": 1}"#;
    for (second, words) in [
        (line, "chat_id 1 is already used by an earlier line"),
        (r#"{"chat_id": 2, "timestamp": 1, "input_length": 5}"#, "missing field `output_length`"),
        (
            r#"{"chat_id": 2, "timestamp": -1, "input_length": 5, "output_length": 1}"#,
            "timestamp must be at least 0, got -1 s",
        ),
    ] {
        let (number, reason) = fault(&format!("{line}\n{second}"));
        assert!(number == 2 && reason.contains(words), "{second}: {reason}");
    }
    let header = "Timestamp,Request tokens,Response tokens";
    for (row, words) in [
        ("x,1,2", "\"x\" is not a valid `Timestamp` in seconds"),
        ("1,-1,2", "\"-1\" is not a valid number of tokens for `Request tokens`"),
        ("1,1,2.5", "number of tokens for `Response tokens`"),
        ("1,1", "expected 3 columns, as in the header, got 2"),
        ("NaN,1,1", "must be at least 0"),
    ] {
        let (number, reason) = fault(&format!("{header}\n0,1,1\n{row}\n"));
        assert!(number == 3 && reason.contains(words), "{row}: {reason}");
    }
}

#[test]
fn formats_are_told_from_the_first_line() {
    let format = |content: &str| {
        let loaded = load(content, TraceSettings::default());
        loaded.map(|loaded| loaded.conversations.len())
    };
    assert_eq!(format(r#"{"timestamp": 1, "input_length": 5}"#).unwrap(), 1);
    assert_eq!(
        format("\u{feff}Model, Timestamp ,Request tokens,Response tokens\nm,1,2,3\n").unwrap(),
        1
    );
    let named = read_from(
        "Timestamp,Model\n".as_bytes(),
        Path::new(""),
        Some(FileFormat::BurstGptTrace),
        &TraceSettings::default(),
        &TokenCounter::builtin(),
        Seed(3),
    );
    match named {
        Err(Fault::Line(1, reason)) => {
            assert!(reason.contains("does not contain the column `Request tokens`"));
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Each prompt has its own length, and shares as many tokens with another one as their common
    /// first blocks contain.
    #[test]
    fn prompts_share_what_their_hash_ids_share(
        rows in prop::collection::vec((prop::collection::vec(0u8..6, 1..8), 1u32..16, 1u32..90), 1..6)
    ) {
        let lines: Vec<String> = rows.iter().map(|(ids, last, _)| {
            let input = (ids.len() as u32 - 1) * 16 + last;
            serde_json::json!({"input_length": input, "hash_ids": ids}).to_string()
        }).collect();
        let settings = TraceSettings { block_tokens: Some(16), ..TraceSettings::default() };
        let read = load(&lines.join("\n"), settings).unwrap().conversations;
        let texts: Vec<String> = read.iter().map(|c| text(&c.turns[0])).collect();
        for ((ids, last, _), conversation) in rows.iter().zip(&read) {
            let expected = (ids.len() as u64 - 1) * 16 + u64::from(*last);
            prop_assert_eq!(facts(&conversation.turns[0]).2, expected);
        }
        for (a, (a_ids, ..)) in rows.iter().enumerate() {
            for (b, (b_ids, ..)) in rows.iter().enumerate().skip(a + 1) {
                let whole = a_ids.len().min(b_ids.len()) - 1;
                let common = a_ids.iter().zip(b_ids).take(whole).take_while(|(a, b)| a == b).count();
                prop_assert!(shared_tokens(&texts[a], &texts[b]) >= common * 16);
            }
        }
    }
}
