use std::path::Path;

use serde_json::{Value, json};

use tokens::tokenizer::TokenCounter;

use super::super::read_from;
use super::*;
use crate::anonymous::Anonymizer;
use crate::{Branch, BranchStart, Conversation, FileFormat, Seed, TraceSettings};

fn read(text: &str, format: FileFormat) -> Vec<Conversation> {
    let settings = TraceSettings { block_tokens: of_blocks(format), ..TraceSettings::default() };
    let counter = TokenCounter::builtin();
    let found =
        read_from(text.as_bytes(), Path::new(""), Some(format), &settings, &counter, Seed(3));
    let found = found.unwrap_or_else(|fault| panic!("{fault:?} in\n{text}"));
    found.conversations.into_vec()
}

/// Tokens of a block in the tests of lengths.
fn of_blocks(format: FileFormat) -> Option<u32> {
    (format == FileFormat::MooncakeTrace).then_some(2)
}

/// The differences, without their words.
fn lost(written: &Written) -> Vec<(Lost, u64)> {
    written.lost.iter().map(|(what, count)| (*what, *count)).collect()
}

fn spoken(text: &str, delay: f64) -> Turn {
    let delay = Nanos::from_seconds(delay);
    Turn { texts: vec![text.into()], max_tokens: Some(3), delay, ..Turn::default() }
}

fn conversation(id: &str, turns: Vec<Turn>) -> Conversation {
    Conversation { id: id.into(), turns, ..Conversation::default() }
}

/// A root that starts a conversation after its first turn, for which the second one waits.
fn tree() -> Vec<Conversation> {
    let first = Turn { timestamp: Some(Nanos(2_000_000_000)), ..spoken("a", 0.0) };
    let branches = vec![Branch {
        conversation: 1,
        after: Some(0),
        join: Some(1),
        from: BranchStart::Response,
        is_fork: false,
    }];
    let root = Conversation { branches, ..conversation("x", vec![first, spoken("b", 1.0)]) };
    vec![root, Conversation { is_child: true, ..conversation("x", vec![spoken("c", 0.25)]) }]
}

/// The tokens of each text are its words.
#[test]
fn sessions_without_texts_have_their_lengths_and_first_blocks() {
    let mut all = tree();
    all[0].turns[0].texts = vec!["one two three four five six seven".into()];
    all[0].turns.push(Turn { starts_anew: true, ..spoken("one two three", 0.5) });
    let counter = TokenCounter::builtin();
    let mut anonymizer = Anonymizer::new(&all, &counter, 2, Vec::new());
    let (mut out, mut written) = (Vec::new(), Written::default());
    for document in anonymizer.documents() {
        mooncake::write_document(&document, &mut written, &mut out).unwrap();
    }
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = [
        json!({"session_id": "session-1", "timestamp": 0.0, "input_length": 7, "output_length": 3,
               "hash_ids": [1, 2, 3, 4]}),
        json!({"session_id": "agent-1", "timestamp": 250.0, "input_length": 1, "output_length": 3,
               "hash_ids": [5]}),
        // Its last two blocks and the one with the response are 6 to 8. It adds a word.
        json!({"session_id": "session-1", "delay": 1250.0, "input_length": 1, "output_length": 3}),
        json!({"session_id": "session-1-2", "timestamp": 1750.0, "input_length": 3,
               "output_length": 3, "hash_ids": [1, 9]}),
    ];
    assert_eq!(lines, expected);
    assert_eq!(lost(&written), [(Lost::Tree, 1), (Lost::Order, 1)]);
    let again = read(&text, FileFormat::MooncakeTrace);
    let turns: Vec<usize> = again.iter().map(|it| it.turns.len()).collect();
    assert_eq!(turns, [2, 1, 1]);
}
