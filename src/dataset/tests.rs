use std::io::Write;

use proptest::prelude::*;

use super::seed::Seed;
use super::*;
use crate::tokenizer::TokenCounter;

fn synthetic() -> Synthetic {
    Synthetic {
        entries: 20,
        input_tokens: Spread { mean: 64.0, stddev: 0.0 },
        sequence_distribution: None,
        batch_size: 1,
        turns: Spread::ONE,
        turn_delay_ms: Spread { mean: 0.0, stddev: 0.0 },
        delay_ratio: 1.0,
        prefix_pool_size: 0,
        prefix_length: 0,
        shared_system_prompt_length: None,
        user_context_prompt_length: None,
        system_prompt: None,
    }
}

fn config(source: Source) -> Config {
    Config {
        source,
        models: vec!["m".into()],
        model_selection: ModelSelection::RoundRobin,
        sampling: None,
        output_tokens: None,
        random_seed: None,
    }
}

fn generate(synthetic: Synthetic, seed: u64) -> Vec<Conversation> {
    let config = config(Source::Synthetic(synthetic));
    Dataset::load(&config, &TokenCounter::builtin(), true, Seed(seed)).unwrap().conversations
}

/// Loads `text` as a file of `format`.
fn load(text: &str, format: Option<FileFormat>) -> Result<Vec<Conversation>, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let source = Source::File { path: file.path().to_owned(), format };
    let counter = TokenCounter::builtin();
    Dataset::load(&config(source), &counter, true, Seed(1))
        .map(|dataset| dataset.conversations)
        .map_err(|error| error.to_string())
}

#[test]
fn prompts_have_exactly_the_tokens_asked_for() {
    let counter = TokenCounter::builtin();
    let corpus = corpus::Corpus::new(&counter);
    let mut rng = Seed(5).stream("test");
    for length in (1..600).step_by(7) {
        let prompt = corpus.prompt(length, &mut rng);
        assert_eq!(prompt.tokens, length as u64);
        assert_eq!(counter.count(&prompt.text), length as u64);
    }
}

#[test]
fn a_loaded_tokenizer_gives_exact_prompts_too() {
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tiny-model");
    let source = crate::tokenizer::Source::Path(tiny.into());
    let counter = TokenCounter::load(&source, &|_| None).unwrap();
    let corpus = corpus::Corpus::new(&counter);
    let mut rng = Seed(5).stream("test");
    for length in [1, 2, 17, 128, 500] {
        let prompt = corpus.prompt(length, &mut rng);
        assert_eq!(counter.count(&prompt.text), length as u64);
    }
}

#[test]
fn a_seed_gives_the_same_conversations_again() {
    let texts = |seed| -> Vec<Arc<str>> {
        generate(synthetic(), seed).iter().map(|c| Arc::clone(&c.turns[0].texts[0])).collect()
    };
    assert_eq!(texts(1), texts(1));
    assert_ne!(texts(1), texts(2));
    let mut distinct = texts(1);
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 20);
}

#[test]
fn lengths_follow_their_spread() {
    let spread = Spread { mean: 100.0, stddev: 10.0 };
    let made = generate(Synthetic { entries: 400, input_tokens: spread, ..synthetic() }, 1);
    let lengths: Vec<f64> = made.iter().map(|c| c.turns[0].input_tokens.unwrap() as f64).collect();
    let mean = lengths.iter().sum::<f64>() / 400.0;
    let variance = lengths.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / 400.0;
    // Five standard errors: 10/√400 · 5 of the mean, 10/√800 · 5 of the stddev.
    assert!((mean - 100.0).abs() < 2.5, "{mean}");
    assert!((variance.sqrt() - 10.0).abs() < 1.8, "{variance}");
}

#[test]
fn context_prefix_batch_and_turns_are_made() {
    let made = generate(
        Synthetic {
            entries: 3,
            batch_size: 2,
            turns: Spread { mean: 3.0, stddev: 0.0 },
            turn_delay_ms: Spread { mean: 200.0, stddev: 0.0 },
            delay_ratio: 0.5,
            prefix_pool_size: 1,
            prefix_length: 10,
            shared_system_prompt_length: Some(12),
            user_context_prompt_length: Some(7),
            ..synthetic()
        },
        1,
    );
    let counter = TokenCounter::builtin();
    assert_eq!(made[0].system, made[2].system);
    assert_ne!(made[0].user_context, made[1].user_context);
    assert_eq!(made[0].context_tokens, Some(19));
    let turns = &made[0].turns;
    assert_eq!((turns.len(), turns[0].texts.len()), (3, 2));
    assert_eq!((turns[0].delay, turns[1].delay), (Nanos::ZERO, Nanos(100_000_000)));
    assert_eq!(turns[1].input_tokens, Some(128));
    let prefixed: u64 = turns[0].texts.iter().map(|text| counter.count(text)).sum();
    assert_eq!(turns[0].input_tokens, Some(prefixed));
    assert!(prefixed >= 2 * 72, "{prefixed}");
    let start = |text: &str| text.chars().take(20).collect::<String>();
    assert_eq!(start(&turns[0].texts[0]), start(&made[1].turns[0].texts[1]));
}

#[test]
fn models_go_round() {
    let mut config = config(Source::Synthetic(synthetic()));
    config.models = vec!["a".into(), "b".into()];
    let made = Dataset::load(&config, &TokenCounter::builtin(), true, Seed(1)).unwrap();
    let models: Vec<&str> = made.conversations.iter().map(|c| &*c.turns[0].model).collect();
    assert_eq!(models[..4], ["a", "b", "a", "b"]);
}

#[test]
fn single_turn_lines_are_read() {
    let text = concat!(
        "{\"text\": \"hello world\", \"output_length\": 5, \"model\": \"x\"}\n\n",
        "{\"texts\": [\"a\", {\"name\": \"n\", \"contents\": [\"b\"]}], \"role\": \"system\"}\n",
    );
    let made = load(text, None).unwrap();
    assert_eq!(made.len(), 2);
    let turn = &made[0].turns[0];
    assert_eq!((&*turn.texts[0], turn.max_tokens, &*turn.model), ("hello world", Some(5), "x"));
    assert_eq!(turn.input_tokens, Some(2));
    assert_eq!(made[1].turns[0].texts, [Arc::from("a"), Arc::from("b")]);
    assert_eq!(made[1].turns[0].role.as_deref(), Some("system"));
    assert_eq!(&*made[1].turns[0].model, "m");
}

#[test]
fn multi_turn_lines_are_read() {
    let text =
        r#"{"session_id": "s1", "turns": [{"text": "hi"}, {"text": "more", "delay": 1500}]}"#;
    let made = load(text, None).unwrap();
    assert_eq!((&*made[0].id, made[0].turns.len()), ("s1", 2));
    assert_eq!(made[0].turns[1].delay, Nanos(1_500_000_000));
}

#[test]
fn inputs_json_is_sent_as_it_is() {
    let text =
        "{\n \"data\": [{\"session_id\": \"a\", \"payloads\": [{\"model\": \"q\",  \"x\": 1}]}]\n}";
    let made = load(text, None).unwrap();
    let turn = &made[0].turns[0];
    assert_eq!(turn.raw_payload.as_ref().unwrap().get(), "{\"model\": \"q\",  \"x\": 1}");
    assert_eq!((&*turn.model, turn.input_tokens), ("q", None));
}

#[test]
fn share_gpt_takes_the_first_question_within_the_limits() {
    let text = r#"[
        {"id": "x", "conversations": [
            {"from": "system", "value": "be terse"},
            {"from": "human", "value": "What is the capital of France?"},
            {"from": "gpt", "value": "It is the city of Paris."}]},
        {"id": "short", "conversations": [
            {"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello there, how are you?"}]},
        {"id": "alone", "conversations": [{"from": "human", "value": "Is anybody out there at all?"}]}
    ]"#;
    let made = load(text, None).unwrap();
    assert_eq!(made.len(), 1);
    assert_eq!(&*made[0].id, "x");
    assert_eq!(&*made[0].turns[0].texts[0], "What is the capital of France?");
    // It | is | the | city | of | Paris | .
    assert_eq!(made[0].turns[0].max_tokens, Some(7));
}

#[test]
fn a_bad_line_is_named_with_its_number_and_reason() {
    for (text, reason) in [
        ("{\"text\": \"a\"}\n{\"text\": 5}\n", "line 2: invalid type: integer"),
        ("{\"text\": \"a\"}\nnot json\n", "line 2: expected"),
        ("{\"text\": \"a\", \"txet\": \"b\"}", "line 1: unknown field `txet`"),
        ("{}", "neither `text` nor `texts`"),
        ("{\"text\": \"a\", \"images\": []}", "`image`, which aiperf does not support yet"),
        ("{\"text\": \"a\", \"delay\": -1}", "`delay`"),
        ("", "no conversation"),
        ("\n\n", "no conversation"),
    ] {
        let message = load(text, None).unwrap_err();
        assert!(message.contains(reason), "{text:?}: {message}");
    }
    let empty_turns = load("{\"turns\": []}", Some(FileFormat::MultiTurn)).unwrap_err();
    assert!(empty_turns.contains("`turns` is empty"), "{empty_turns}");
    let no_payload = r#"{"data": [{"session_id": "a", "payloads": []}]}"#;
    assert!(load(no_payload, None).unwrap_err().contains("session `a` has no payloads"));
}

#[test]
fn a_missing_file_is_named() {
    let source = Source::File { path: "/nowhere/prompts.jsonl".into(), format: None };
    let error =
        Dataset::load(&config(source), &TokenCounter::builtin(), true, Seed(1)).unwrap_err();
    assert!(error.to_string().contains("/nowhere/prompts.jsonl"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_file_is_read_or_refused(text in "(\\{\"text\": \"a\"\\}|[\\[\\]{}\":,a-z0-9 \n]){0,40}") {
        for format in [
            None,
            Some(FileFormat::SingleTurn),
            Some(FileFormat::MultiTurn),
            Some(FileFormat::InputsJson),
            Some(FileFormat::ShareGpt),
        ] {
            let _ = load(&text, format);
        }
    }
}
