use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use base::units::Nanos;
use tokens::tokenizer::TokenCounter;

use super::super::read_from;
use super::*;
use crate::{Seed, TraceSettings};

fn load(lines: &[Value]) -> Result<Vec<Conversation>, Fault> {
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    let (settings, counter) = (TraceSettings::default(), TokenCounter::builtin());
    read_from(text.join("\n").as_bytes(), Path::new(""), None, &settings, &counter, Seed(3))
        .map(|loaded| loaded.conversations.into_vec())
}

fn user(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

fn session(id: &str, turns: &[Value]) -> Value {
    json!({"session_id": id, "turns": turns})
}

fn turn(text: &str, more: Value) -> Value {
    let mut turn = json!({"messages": user(text)});
    if let (Value::Object(turn), Value::Object(more)) = (&mut turn, more) {
        turn.extend(more);
    }
    turn
}

fn plain(text: &str) -> Value {
    turn(text, json!({}))
}

fn texts(conversation: &Conversation) -> Vec<String> {
    let messages = conversation.all_turns().filter_map(|turn| turn.messages.as_ref());
    let first = |messages: &Arc<RawValue>| {
        let messages: Value = serde_json::from_str(messages.get()).unwrap();
        messages[0]["content"].as_str().unwrap().to_owned()
    };
    messages.map(first).collect()
}

#[test]
fn forks_have_the_turns_of_their_parents_and_spawns_do_not() {
    let read = load(&[
        session("grandchild", &[plain("g")]),
        session("fork", &[plain("f1"), turn("f2", json!({"forks": ["grandchild"]}))]),
        session(
            "root",
            &[
                turn("r1", json!({"spawns": ["side"], "max_tokens": 5, "extra": {"seed": 1}})),
                turn("r2", json!({"forks": [{"child": "fork", "background": true}], "delay": 20})),
                plain("r3"),
            ],
        ),
        session("side", &[plain("s")]),
    ])
    .unwrap();
    let ids: Vec<(&str, bool)> = read.iter().map(|c| (&*c.id, c.is_child)).collect();
    let expected = [("root", false), ("grandchild", true), ("fork", true), ("side", true)];
    assert_eq!(ids, expected);
    assert_eq!(texts(&read[0]), ["r1", "r2", "r3"]);
    assert_eq!(
        (texts(&read[1]), read[1].inherited_turns),
        (["r1", "r2", "f1", "f2", "g"].map(str::to_owned).to_vec(), 4)
    );
    assert_eq!(read[2].inherited_turns, 2);
    assert_eq!((texts(&read[3]), read[3].inherited_turns), (vec!["s".to_owned()], 0));
    let side = Branch {
        after: Some(0),
        join: Some(1),
        conversation: 3,
        from: BranchStart::Response,
        is_fork: false,
    };
    let fork = Branch {
        after: Some(1),
        join: None,
        conversation: 2,
        from: BranchStart::Response,
        is_fork: true,
    };
    assert_eq!(read[0].branches, [side, fork]);
    assert_eq!(read[2].branches[0].after, Some(3));
    let first = &read[0].turns[0];
    assert_eq!((first.max_tokens, &first.extra), (Some(5), &vec![("seed".to_owned(), json!(1))]));
    assert_eq!(read[0].turns[1].delay, Nanos(20_000_000));
}

#[test]
fn spawns_are_joined_where_they_say() {
    let delayed = json!({"spawns": [{"children": ["a", "b"], "join_at": 2}, "c"]});
    let mut root = session("root", &[turn("1", delayed), plain("2"), plain("3")]);
    root["pre_session_spawns"] = json!(["c"]);
    let child = |id: &str| session(id, &[plain(id)]);
    let read = load(&[root, child("a"), child("b"), child("c")]).unwrap();
    let branches = read[0].branches.iter();
    let facts: Vec<_> = branches.map(|it| (it.conversation, it.after, it.join)).collect();
    let expected =
        [(3, None, None), (1, Some(0), Some(2)), (2, Some(0), Some(2)), (3, Some(0), Some(1))];
    assert_eq!(facts, expected);
    // No turn could wait for a spawn of the last one.
    let read = load(&[session("r", &[turn("1", json!({"spawns": ["a"]}))]), child("a")]).unwrap();
    assert_eq!(read[0].branches[0].join, None);
}

#[test]
fn faults_are_named() {
    let a = || session("a", &[plain("a")]);
    let forks = |id: &str| turn("x", json!({"forks": [id]}));
    let system = json!({"messages": [{"role": "system", "content": "x"}]});
    for (lines, line, words) in [
        (vec![a(), a()], 2, "already used by an earlier line"),
        (vec![a(), session("b", &[])], 2, "must not be empty"),
        (vec![session("b", &[forks("z")])], 1, "\"z\" does not exist in the file"),
        (vec![session("b", &[forks("a"), plain("y")]), a()], 1, "turn 1: the fork \"a\" ends"),
        (vec![session("b", &[forks("a")]), session("c", &[forks("a")]), a()], 2, "one place only"),
        (
            vec![session("b", &[forks("c")]), session("c", &[forks("b")])],
            1,
            "that it starts itself",
        ),
        (vec![session("b", &[forks("b")])], 1, "that it starts itself"),
        (vec![session("b", &[plain("x"), system.clone()])], 1, "turn 2: only the first turn"),
        (vec![session("b", &[forks("s")]), session("s", &[system])], 2, "system message of its"),
        (
            vec![session(
                "b",
                &[turn("x", json!({"spawns": [{"children": ["a"], "join_at": 1}]}))],
            )],
            1,
            "`join_at` is 1",
        ),
        (vec![session("b", &[turn("x", json!({"temperature": 1}))])], 1, "unknown field"),
        (vec![session("b", &[turn("x", json!({"delay": -1}))])], 1, "must not be negative"),
        (vec![session("b", &[turn("x", json!({"max_tokens": 0}))])], 1, "at least 1"),
        (vec![session("b", &[json!({"messages": []})])], 1, "must contain messages"),
        (
            vec![json!({"session_id": "b", "orchestrator": true, "spawns": ["a"]})],
            1,
            "begins with a request",
        ),
        (
            vec![session("b", &[turn("x", json!({"spawns": ["a", {"children": ["a"]}]}))]), a()],
            1,
            "started twice",
        ),
    ] {
        match load(&lines) {
            Err(Fault::Line(number, why)) => {
                assert!(number == line && why.contains(words), "{lines:?}: {number}: {why}");
            }
            other => panic!("{lines:?}: {other:?}"),
        }
    }
    let mut odd = a();
    odd["context_mode"] = json!("deltas");
    assert!(matches!(load(&[odd]), Err(Fault::Line(1, why)) if why.contains("unknown value")));
}

#[test]
fn recorded_responses_are_messages_of_the_next_turn() {
    let answered = json!([{"role": "assistant", "content": "r"}, {"role": "user", "content": "2"}]);
    let mut recorded = session("a", &[plain("1"), json!({"messages": answered})]);
    recorded["context_mode"] = json!("deltas_with_responses");
    let forked = turn("1", json!({"forks": ["b"], "timestamp": 1500}));
    let mut parent = session("c", &[forked]);
    parent["context_mode"] = json!("deltas_with_responses");
    let fork = session("b", &[json!({"messages": answered})]);
    let read = load(&[recorded, parent, fork]).unwrap();
    assert!(read[0].turns[0].answer_is_recorded && !read[0].standalone_turns);
    assert_eq!(read[1].turns[0].timestamp, Some(Nanos(1_500_000_000)));
    // The fork has the recorded response of its parent, but its own are those of the run.
    let recorded: Vec<bool> = read[2].all_turns().map(|turn| turn.answer_is_recorded).collect();
    assert_eq!(recorded, [true, false]);
}

proptest! {
    /// Every file is rejected, or a forest in which children come last and branches are valid.
    #[test]
    fn any_connections_are_a_forest_or_rejected(
        edges in prop::collection::vec(
            (prop::collection::vec(0usize..5, 0..3), prop::collection::vec(0usize..5, 0..2)), 1..5)
    ) {
        let line = |(index, (spawns, forks)): (usize, &(Vec<usize>, Vec<usize>))| {
            let ids = |them: &[usize]| them.iter().map(ToString::to_string).collect::<Vec<_>>();
            session(&index.to_string(), &[
                turn("1", json!({"spawns": ids(spawns)})),
                turn("2", json!({"forks": ids(forks)})),
            ])
        };
        let lines: Vec<Value> = edges.iter().enumerate().map(line).collect();
        if let Ok(read) = load(&lines) {
            let roots = read.iter().filter(|conversation| !conversation.is_child).count();
            prop_assert!(roots > 0 && read[..roots].iter().all(|root| !root.is_child));
            for conversation in &read {
                for branch in &conversation.branches {
                    let child = &read[branch.conversation];
                    prop_assert!(child.is_child);
                    let inherited = if branch.is_fork { branch.after.unwrap() + 1 } else { 0 };
                    prop_assert_eq!(child.inherited_turns, inherited);
                    prop_assert_eq!(
                        texts(child)[..inherited].to_vec(),
                        texts(conversation)[..inherited].to_vec()
                    );
                }
            }
        }
    }
}
