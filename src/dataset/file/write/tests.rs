use std::path::Path;

use proptest::prelude::*;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::super::read_from;
use super::*;
use crate::dataset::anonymous::Anonymizer;
use crate::dataset::{Branch, BranchStart, FileFormat, Media, Seed, TraceSettings};
use crate::tokenizer::TokenCounter;

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

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

fn written(all: &[Conversation], format: Format) -> (String, Written) {
    let mut out = Vec::new();
    let written = write(all, format, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), written)
}

/// The differences, without their words.
fn lost(written: &Written) -> Vec<(Lost, u64)> {
    written.lost.iter().map(|(what, count)| (*what, *count)).collect()
}

/// The messages of a turn itself.
fn said(turn: &Turn) -> Vec<Value> {
    let of_text =
        |text: &crate::dataset::Text| json!({"role": "user", "content": text.to_string()});
    match (&turn.messages, &turn.raw_payload) {
        (Some(messages), _) => serde_json::from_str(messages.get()).unwrap(),
        (_, Some(body)) => vec![serde_json::from_str(body.get()).unwrap()],
        _ => turn.texts.iter().map(of_text).collect(),
    }
}

/// What a conversation sends, and what it starts. A response of the run is `null`.
fn sent(all: &[Conversation], at: usize) -> Value {
    let of = &all[at];
    let mut history: Vec<Value> = Vec::new();
    let mut requests = Vec::new();
    for (place, turn) in of.all_turns().enumerate() {
        if of.standalone_turns || turn.starts_anew || turn.raw_payload.is_some() {
            history.clear();
        }
        history.extend(said(turn));
        if place >= of.inherited_turns {
            requests.push(json!({
                "messages": history, "tools": turn.tools, "max_tokens": turn.max_tokens,
                "extra": turn.extra, "delay": turn.delay.0, "model": &*turn.model,
                "timestamp": turn.timestamp.map(|at| at.0),
            }));
        }
        if !turn.answer_is_recorded {
            history.push(Value::Null);
        }
    }
    let relative = |turn: Option<usize>| turn.map(|turn| turn - of.inherited_turns);
    let started = of.branches.iter().map(|branch| {
        let (after, join) = (relative(branch.after), relative(branch.join));
        json!([after, join, sent(all, branch.conversation)])
    });
    let mut started: Vec<Value> = started.collect();
    started.sort_by_key(Value::to_string);
    json!({"id": &*of.id, "requests": requests, "started": started})
}

fn all_sent(all: &[Conversation]) -> Vec<Value> {
    let roots = (0..all.len()).filter(|at| !all[*at].is_child);
    roots.map(|root| sent(all, root)).collect()
}

/// How the turns of a conversation have their history.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Texts,
    Live,
    Recorded,
    Whole,
    Bodies,
}

fn any_turn() -> impl Strategy<Value = Turn> {
    (
        "[a-z\"\\\\\n é]{1,12}",
        proptest::option::of(1_u32..99),
        0_u64..9_000_000_000,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(text, max_tokens, delay, is_sampled, starts_anew)| {
            let seed = ("seed".to_owned(), json!(delay % 7));
            let extra = if is_sampled { vec![seed] } else { Vec::new() };
            let delay = Nanos(delay);
            Turn {
                texts: vec![text.into()],
                max_tokens,
                delay,
                extra,
                starts_anew,
                ..Turn::default()
            }
        })
}

/// Gives turns what their kind has.
fn shaped(kind: Kind, turns: Vec<Turn>, id: String) -> Conversation {
    let last = turns.len() - 1;
    let shape = |(at, turn): (usize, Turn)| {
        let user = json!({"role": "user", "content": turn.texts[0].to_string()});
        let before = json!({"role": "assistant", "content": "before", "tool_calls": [{"id": at}]});
        let answered = (kind == Kind::Recorded && at > 0 && !turn.starts_anew).then_some(before);
        let system = (at == 0).then(|| json!({"role": "system", "content": "s"}));
        let listed: Vec<Value> = answered.into_iter().chain(system).chain([user]).collect();
        let tools = raw(&json!([{"type": "function", "function": {"name": "f"}}])).into();
        let starts_anew = turn.starts_anew && kind == Kind::Recorded && at > 0;
        match kind {
            Kind::Texts => Turn { starts_anew: false, ..turn },
            Kind::Bodies => Turn {
                raw_payload: Some(raw(&json!({"messages": listed, "seed": at})).into()),
                texts: Vec::new(),
                extra: Vec::new(),
                starts_anew: false,
                max_tokens: None,
                ..turn
            },
            _ => Turn {
                messages: Some(raw(&Value::from(listed)).into()),
                tools: Some(tools),
                texts: Vec::new(),
                starts_anew,
                answer_is_recorded: kind == Kind::Recorded && at < last,
                ..turn
            },
        }
    };
    let mut turns: Vec<Turn> = turns.into_iter().enumerate().map(shape).collect();
    // Nobody has the response before a turn that begins anew.
    for at in 1..turns.len() {
        turns[at - 1].answer_is_recorded &= !turns[at].starts_anew;
    }
    let standalone_turns = kind == Kind::Whole;
    Conversation { id: id.into(), turns, standalone_turns, ..Conversation::default() }
}

fn any_conversation(kinds: &'static [Kind]) -> impl Strategy<Value = (Kind, Vec<Turn>)> {
    (proptest::sample::select(kinds), proptest::collection::vec(any_turn(), 1..4))
}

/// A child: its turns, its parent among those before it, and where it starts and ends.
type Child = ((Kind, Vec<Turn>), usize, usize, usize, bool);

/// Trees that `dag_jsonl` can express.
fn forest(roots: Vec<(Kind, Vec<Turn>)>, children: Vec<Child>) -> Vec<Conversation> {
    let mut all: Vec<Conversation> = Vec::new();
    let mut kinds = Vec::new();
    for (at, (kind, turns)) in roots.into_iter().enumerate() {
        kinds.push(kind);
        all.push(shaped(kind, turns, format!("root {at}")));
    }
    for ((kind, turns), parent, after, join, is_fork) in children {
        let (parent, at) = (parent % all.len(), all.len());
        let mut child =
            Conversation { is_child: true, ..shaped(kind, turns, format!("child {at}")) };
        let of = &mut all[parent];
        let own = of.turns.len() - of.inherited_turns;
        let after = of.inherited_turns + after % own;
        let later = of.turns.len() - after - 1;
        let join = (later > 0).then(|| after + 1 + join % later.max(1));
        let is_fork = is_fork && kinds[parent] == Kind::Recorded && kind == Kind::Recorded;
        // With the recorded responses, a fork can be waited for too.
        let begins_anew = |of: &Conversation| of.turns.iter().any(|turn| turn.starts_anew);
        let stays_fork =
            is_fork && after.is_multiple_of(2) && !begins_anew(of) && !begins_anew(&child);
        let join = if stays_fork { None } else { join };
        if is_fork {
            let mut inherited: Vec<Turn> = of.turns[..=after].to_vec();
            inherited[after].answer_is_recorded = true;
            let answer =
                json!([{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]);
            child.turns[0].messages = Some(raw(&answer).into());
            child.inherited_turns = inherited.len();
            inherited.append(&mut child.turns);
            child.turns = inherited;
        }
        of.branches.push(Branch {
            conversation: at,
            after: Some(after),
            join,
            from: BranchStart::Response,
            is_fork,
        });
        kinds.push(kind);
        all.push(child);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn trees_are_read_as_they_were_written(
        roots in proptest::collection::vec(
            any_conversation(&[Kind::Texts, Kind::Live, Kind::Recorded, Kind::Whole]), 1..3),
        children in proptest::collection::vec(
            (any_conversation(&[Kind::Texts, Kind::Live, Kind::Recorded, Kind::Whole]),
             0_usize..9, 0_usize..9, 0_usize..9, any::<bool>()), 0..5),
        start in 0_u64..9_000_000_000_000,
    ) {
        let mut all = forest(roots, children);
        all[0].turns[0].timestamp = Some(Nanos(start));
        all[0].turns[0].model = "m".into();
        let (text, written) = written(&all, Format::DagJsonl);
        let again = read(&text, FileFormat::DagJsonl);
        prop_assert_eq!(all_sent(&all), all_sent(&again), "{}", text);
        prop_assert_eq!(lost(&written), []);
        let own: usize = all.iter().map(|it| super::own(it).len()).sum();
        prop_assert_eq!(written.requests, own as u64);
    }

    #[test]
    fn sessions_are_read_as_they_were_written(
        all in proptest::collection::vec(
            any_conversation(&[Kind::Texts, Kind::Recorded, Kind::Whole, Kind::Bodies]), 1..5),
        start in 0_u64..9_000_000_000_000,
    ) {
        let named = all.into_iter().enumerate();
        let mut all: Vec<_> =
            named.map(|(at, (kind, turns))| shaped(kind, turns, format!("s {at}"))).collect();
        all[0].turns[0].timestamp = Some(Nanos(start));
        let (text, written) = written(&all, Format::MooncakeTrace);
        let again = read(&text, FileFormat::MooncakeTrace);
        prop_assert_eq!(all_sent(&all), all_sent(&again), "{}", text);
        prop_assert_eq!(lost(&written), []);
    }
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

#[test]
fn sessions_of_a_tree_start_when_the_recorded_ones_did() {
    let (text, written) = written(&tree(), Format::MooncakeTrace);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // 2 s, and 0.25 s later if the response takes no time.
    let expected = [
        json!({"session_id": "x", "timestamp": 2000.0, "output_length": 3, "text_input": "a"}),
        json!({"session_id": "x-2", "timestamp": 2250.0, "output_length": 3, "text_input": "c"}),
        json!({"session_id": "x", "delay": 1000.0, "output_length": 3, "text_input": "b"}),
    ];
    assert_eq!(lines, expected);
    assert_eq!(lost(&written), [(Lost::Tree, 1)]);
    assert_eq!((written.conversations, written.requests), (1, 3));
}

#[test]
fn what_a_format_cannot_express_is_counted() {
    let media = vec![Media::cached_image("u")];
    let pictured = Turn { media, model: "m".into(), ..spoken("a", 0.0) };
    let system = json!([{"role": "system", "content": "s"}, {"role": "user", "content": "b"}]);
    let live = |text: &str| Turn { messages: Some(raw(&system).into()), ..spoken(text, 0.0) };
    let body = |body: Value| Turn { raw_payload: Some(raw(&body).into()), ..Turn::default() };
    let all = [
        conversation("a", vec![pictured]),
        conversation("b", vec![live("a"), live("b")]),
        conversation("c", vec![body(json!({"prompt": "x"}))]),
        conversation("d", vec![Turn { texts: Vec::new(), ..spoken("", 0.0) }]),
    ];
    let (_, mooncake) = written(&all, Format::MooncakeTrace);
    let expected = [(Lost::Media, 1), (Lost::Body, 1), (Lost::Model, 1), (Lost::Response, 1)];
    assert_eq!(lost(&mooncake), expected);
    assert_eq!(mooncake.requests, 4);
    let (text, dag) = written(&all, Format::DagJsonl);
    // Only a first turn may have a system message, so that each is written with all messages.
    assert!(text.contains("message_array_with_responses"), "{text}");
    assert_eq!(lost(&dag), [(Lost::Media, 1), (Lost::Body, 2), (Lost::Response, 1)]);
    assert_eq!((dag.conversations, dag.requests), (2, 3));
    assert!(dag.differences().all(|(count, words)| count > 0 && !words.is_empty()));
}

#[test]
fn waits_that_a_tree_cannot_express_are_counted() {
    let branch = |conversation, after, join| Branch {
        conversation,
        after,
        join,
        from: BranchStart::Response,
        is_fork: false,
    };
    let mut all = vec![conversation("x", vec![spoken("a", 0.0), spoken("b", 0.0)])];
    all[0].branches = vec![branch(1, None, Some(1)), branch(2, Some(0), None)];
    for id in ["y", "z"] {
        all.push(Conversation { is_child: true, ..conversation(id, vec![spoken("c", 0.0)]) });
    }
    let (_, dag) = written(&all, Format::DagJsonl);
    assert_eq!(lost(&dag), [(Lost::Join, 1), (Lost::NoJoin, 1)]);
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
