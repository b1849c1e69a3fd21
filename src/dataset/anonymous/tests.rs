use proptest::prelude::*;
use serde_json::{Value, json, value::to_raw_value};

use tokens::hub::Hub;

use super::super::file::write::mooncake;
use super::*;
use crate::BranchStart;
use crate::{Config, Dataset, FileFormat, Source, TraceSettings};

fn turn(text: &str, max_tokens: u32, delay: f64) -> Turn {
    Turn {
        model: "SECRET/MODEL".into(),
        texts: vec![text.into()],
        max_tokens: Some(max_tokens),
        delay: Nanos::from_seconds(delay),
        ..Turn::default()
    }
}

fn conversation(turns: Vec<Turn>) -> Conversation {
    Conversation { id: "SECRET-IDENTIFIER".into(), turns, ..Conversation::default() }
}

/// The documents of `conversations` with blocks of `block` tokens.
fn documents(conversations: &[Conversation], block: u32, keeps: &[Names]) -> Vec<Value> {
    let counter = TokenCounter::builtin();
    let mut anonymizer = Anonymizer::new(conversations, &counter, block, keeps.to_vec());
    anonymizer.documents().map(|document| serde_json::to_value(document).unwrap()).collect()
}

/// The same as lines of a `mooncake_trace`.
fn sessions(conversations: &[Conversation], block: u32) -> String {
    let counter = TokenCounter::builtin();
    let mut anonymizer = Anonymizer::new(conversations, &counter, block, Vec::new());
    let (mut out, mut written) = (Vec::new(), Written::default());
    for document in anonymizer.documents() {
        mooncake::write_document(&document, &mut written, &mut out).unwrap();
    }
    String::from_utf8(out).unwrap()
}

fn encoded(text: &str) -> usize {
    TokenCounter::builtin().encode(text).len()
}

#[test]
fn later_prompts_begin_with_earlier_ones_and_their_responses() {
    let first = "one two three four five six seven";
    let turns = vec![turn(first, 3, 0.0), turn("eight nine", 5, 1.5)];
    let [document] = &documents(&[conversation(turns)], 2, &[])[..] else { panic!() };
    let requests = document["requests"].as_array().unwrap();
    let whole = encoded(first) + 3 + encoded("eight nine");
    assert_eq!((encoded(first), encoded("eight nine")), (7, 2));
    assert_eq!(requests[0]["in"], 7);
    assert_eq!(requests[1]["in"], whole);
    assert_eq!(requests[0]["hash_ids"], json!([1, 2, 3, 4]));
    // The fourth block is whole in the second request, with a token of the response.
    assert_eq!(requests[1]["hash_ids"], json!([1, 2, 3, 5, 6, 7]));
    assert_eq!((&requests[1]["t"], &requests[1]["out"]), (&json!(1.5), &json!(5)));
    assert_eq!(
        (&document["models"], &requests[0]["model"]),
        (&json!(["model-1"]), &json!("model-1"))
    );
}

/// Logs have the greatest number of 32 bits for requests without a limit. It is kept, but no prompt has a
/// response of as many tokens.
#[test]
fn a_request_without_a_limit_has_no_history_of_its_length() {
    let first = "one two three four five six seven";
    for output in [i32::MAX.unsigned_abs(), u32::MAX] {
        let turns = vec![turn(first, output, 0.0), turn("eight nine", output, 1.5)];
        let [document] = &documents(&[conversation(turns)], 2, &[])[..] else { panic!() };
        let requests = document["requests"].as_array().unwrap();
        assert_eq!(requests[0]["out"], output);
        assert_eq!(requests[1]["in"], encoded(first) + encoded("eight nine"));
    }
}

#[test]
fn sub_agents_and_tools_are_kept_without_their_names() {
    let tools = json!([{"type": "function", "function": {"name": "find_secret"}}]);
    let with_tools =
        Turn { tools: Some(to_raw_value(&tools).unwrap().into()), ..turn("a b", 2, 0.5) };
    let root = Conversation {
        branches: vec![Branch {
            conversation: 1,
            after: Some(0),
            join: Some(1),
            from: BranchStart::Response,
            is_fork: false,
        }],
        ..conversation(vec![
            Turn { timestamp: Some(Nanos(7_000_000_000)), ..with_tools },
            turn("c", 2, 1.0),
        ])
    };
    let child = Conversation { is_child: true, ..conversation(vec![turn("d e f", 4, 0.25)]) };
    let all = [root, child];
    let [document] = &documents(&all, 64, &[])[..] else { panic!() };
    let entries = document["requests"].as_array().unwrap();
    assert_eq!(document["timestamp"], 0.0);
    assert_eq!(entries[0]["tools"], json!(["tool-1"]));
    let agent = &entries[1];
    assert_eq!((&agent["type"], &agent["agent_id"]), (&json!("subagent"), &json!("agent-1")));
    // 0.5 s, then the sub-agent after 0.25 s, then the next turn after another second.
    assert_eq!((&agent["t"], &agent["requests"][0]["t"]), (&json!(0.5), &json!(0.75)));
    assert_eq!(entries[2]["t"], 1.75);
    let kept = &documents(&all, 64, &[Names::Models, Names::Tools])[0];
    assert_eq!(kept["requests"][0]["tools"], json!(["find_secret"]));
    assert_eq!(kept["models"], json!(["SECRET/MODEL"]));
}

#[test]
fn forks_continue_the_responses_of_their_parent() {
    let turns = vec![turn("a b c d", 8, 0.0), turn("e", 2, 0.0)];
    let parent = Conversation {
        branches: vec![Branch {
            conversation: 2,
            after: Some(0),
            join: None,
            from: BranchStart::Response,
            is_fork: true,
        }],
        ..conversation(turns.clone())
    };
    let forked = vec![turns[0].clone(), turn("f", 2, 0.0)];
    let fork = Conversation { is_child: true, inherited_turns: 1, ..conversation(forked) };
    let twin = conversation(turns);
    let found = documents(&[parent, twin, fork], 4, &[]);
    let ids = |entry: &Value| -> Vec<u64> {
        entry["hash_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
    };
    let (own, other) = (ids(&found[0]["requests"][2]), ids(&found[1]["requests"][1]));
    assert_eq!(own.len(), 4);
    // The prompt of the first turn is the same everywhere, its response only in the tree.
    assert_eq!(own[0], other[0]);
    assert_ne!(own[1], other[1]);
    let mut anonymizer_root = found[0]["requests"].as_array().unwrap().iter();
    let agent = anonymizer_root.find(|it| it["type"] == "subagent").unwrap();
    assert_eq!(ids(&agent["requests"][0])[..3], own[..3]);
}

/// All texts of eight letters in `text`.
fn windows(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.windows(8).map(|window| window.iter().collect()).collect()
}

fn any_turn() -> impl Strategy<Value = (String, u32, u32)> {
    ("[αβγδ ж]{1,60}", 1_u32..50, 0_u32..5000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// No eight letters of any text are in the result; and what is read from it has the same tree, times
    /// and lengths, and prompts have as many blocks in common as their tokens have.
    #[test]
    fn nothing_is_told_but_lengths_times_and_what_prompts_share(
        all in proptest::collection::vec(
            (proptest::collection::vec(any_turn(), 1..4), any::<bool>()), 1..4),
        shared in "[αβγδ ]{8,80}",
        block in 1_u32..9,
    ) {
        let mut conversations: Vec<Conversation> = Vec::new();
        for (turns, standalone_turns) in &all {
            let turns = turns.iter().map(|(text, output, delay)| {
                let messages = json!([{"role": "user", "content": text}]);
                Turn {
                    messages: Some(to_raw_value(&messages).unwrap().into()),
                    ..turn("", *output, f64::from(*delay) / 1e3)
                }
            });
            let system = Some(shared.as_str().into());
            let turns = turns.collect();
            conversations.push(Conversation {
                system, standalone_turns: *standalone_turns, ..conversation(turns)
            });
        }
        let found = documents(&conversations, block, &[]);
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        let text = lines.join("\n");
        let sessions = sessions(&conversations, block);
        let texts = all.iter().flat_map(|(turns, _)| turns.iter().map(|(text, ..)| text.as_str()));
        for secret in texts.chain([shared.as_str(), "SECRET-IDENTIFIER", "SECRET/MODEL"]) {
            for window in windows(secret) {
                prop_assert!(!text.contains(&window), "{window} in {text}");
                prop_assert!(!sessions.contains(&window), "{window} in {sessions}");
            }
        }

        let place = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(place.path(), &text).unwrap();
        let source = Source::File {
            path: place.path().to_owned(),
            format: Some(FileFormat::WekaTrace),
            traces: TraceSettings::default(),
            entries: 1,
            batch_size: 1,
        };
        let config = Config { random_seed: Some(1), ..Config::new(source, vec!["m".to_owned()]) };
        let hub = Hub::new(base::environment::Environment::process());
        let read = Dataset::load(&config, &TokenCounter::builtin(), true, &hub).unwrap();
        prop_assert_eq!(read.conversations.len(), conversations.len());
        let mut prompts: Vec<(Vec<u32>, Vec<Value>)> = Vec::new();
        for (((turns, standalone), read), document) in all.iter().zip(&read.conversations).zip(&found) {
            prop_assert_eq!(read.turns.len(), turns.len());
            let mut before = 0;
            for (at, ((text, output, delay), read)) in turns.iter().zip(&read.turns).enumerate() {
                let own = encoded(text);
                let history = if *standalone || at == 0 { encoded(&shared) } else { before };
                let input = (history + own).max(1) as u64;
                prop_assert_eq!(document["requests"][at]["in"].as_u64(), Some(input));
                prop_assert_eq!(read.input_tokens, Some(input));
                prop_assert_eq!(read.max_tokens, Some(*output));
                let difference = read.delay.as_seconds() - f64::from(*delay) / 1e3;
                prop_assert!(difference.abs() < 1e-6);
                before = history + own + *output as usize;
                if *standalone || at == 0 {
                    let counter = TokenCounter::builtin();
                    let tokens = [counter.encode(&shared), counter.encode(text)].concat();
                    let ids = document["requests"][at]["hash_ids"].as_array().unwrap().clone();
                    prompts.push((tokens, ids));
                }
            }
        }
        for (one, of_one) in &prompts {
            for (other, of_other) in &prompts {
                let common = one.iter().zip(other).take_while(|(a, b)| a == b).count();
                let ids = of_one.iter().zip(of_other).take_while(|(a, b)| a == b).count();
                let whole = if one == other { one.len().div_ceil(block as usize) } else { common / block as usize };
                prop_assert_eq!(ids, whole);
            }
        }
    }
}
