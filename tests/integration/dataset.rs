//! Datasets as a run loads them: complete and reproducible, with clear errors for invalid ones.

use std::collections::HashSet;
use std::path::Path;

use base::environment::Environment;
use base::units::Nanos;
use dataset::{
    Config, Conversation, Corpus, Dataset, DatasetError, FileFormat, Length, ModelSelection,
    NormalDistribution, SequenceDistribution, Source, Synthetic, Text, TraceSettings,
};
use tokens::hub::Hub;
use tokens::tokenizer::TokenCounter;

fn synthetic() -> Synthetic {
    Synthetic {
        entries: 20,
        input_tokens: Length::Normal(NormalDistribution::exactly(50.0)),
        length_correlation: None,
        recorded_lengths: None,
        sequence_distribution: None,
        range: None,
        corpus: Corpus::Prose,
        batch_size: 1,
        sends_token_ids: false,
        turns: NormalDistribution::exactly(1.0),
        turn_delay_ms: NormalDistribution::exactly(0.0),
        prefix_pool_size: 0,
        prefix_length: 0,
        shared_system_prompt_length: None,
        user_context_prompt_length: None,
        system_prompt: None,
        images: None,
        pictures: None,
        audio: None,
        video: None,
    }
}

fn config(source: Source) -> Config {
    Config { random_seed: Some(42), ..Config::new(source, vec!["m".to_owned()]) }
}

/// A hub that may not be used.
fn hub() -> Hub {
    Hub::new(Environment::new(&|name| (name == "HF_HUB_OFFLINE").then(|| "1".to_owned())))
}

fn load(config: &Config) -> Result<Vec<Conversation>, DatasetError> {
    Dataset::load(config, &TokenCounter::builtin(), true, &hub())
        .map(|dataset| dataset.conversations.into_vec())
}

fn generate(synthetic: Synthetic) -> Vec<Conversation> {
    load(&config(Source::Synthetic(synthetic))).unwrap_or_else(|error| panic!("{error}"))
}

fn count(text: &str) -> u64 {
    TokenCounter::builtin().count(text)
}

/// Returns the texts of all first turns.
fn first_texts(conversations: &[Conversation]) -> Vec<String> {
    conversations.iter().map(|conversation| conversation.turns[0].texts[0].to_string()).collect()
}

#[test]
fn prompts_are_distinct_and_exact() {
    let conversations = generate(synthetic());
    assert_eq!(conversations.len(), 20);
    let texts = first_texts(&conversations);
    assert_eq!(texts.iter().collect::<HashSet<_>>().len(), 20);
    assert!(texts.iter().all(|text| count(text) == 50));
    for conversation in &conversations {
        assert_eq!(conversation.turns.len(), 1);
        assert_eq!(conversation.turns[0].input_tokens, Some(50));
        assert_eq!(conversation.context_tokens, Some(0));
        assert_eq!(conversation.turns[0].max_tokens, None);
    }
}

/// Returns how many first turns request each of `models`.
fn requests_of(conversations: &[Conversation], models: &[&str]) -> Vec<usize> {
    let count = |model: &&str| {
        conversations.iter().filter(|conversation| *conversation.turns[0].model == **model).count()
    };
    models.iter().map(count).collect()
}

/// 4000 draws with a share of 3/4 have a standard deviation of √(4000 × 3/4 × 1/4) = 27.4.
#[test]
fn models_are_drawn_in_proportion_to_their_weights() {
    let mut config = config(Source::Synthetic(Synthetic {
        entries: 4000,
        input_tokens: Length::Normal(NormalDistribution::exactly(2.0)),
        ..synthetic()
    }));
    config.models = vec!["a".to_owned(), "never".to_owned(), "b".to_owned()];
    config.model_selection = ModelSelection::Weighted;
    config.model_weights = vec![3.0, 0.0, 1.0];
    let conversations = load(&config).unwrap();
    let counts = requests_of(&conversations, &["a", "never", "b"]);
    assert!(counts[0].abs_diff(3000) < 5 * 28 && counts[1] == 0, "{counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), 4000);
    assert_eq!(fingerprint(&conversations), fingerprint(&load(&config).unwrap()));
}

/// 900 draws with a share of 1/3 have a standard deviation of √(900 × 1/3 × 2/3) = 14.1.
#[test]
fn a_conversation_has_one_adapter() {
    let mut config = config(Source::Synthetic(Synthetic {
        entries: 900,
        input_tokens: Length::Normal(NormalDistribution::exactly(2.0)),
        turns: NormalDistribution::exactly(2.0),
        ..synthetic()
    }));
    let adapters = ["x", "y", "z"];
    config.lora_modules = adapters.map(str::to_owned).to_vec();
    let conversations = load(&config).unwrap();
    assert!(conversations.iter().all(|found| found.turns[0].model == found.turns[1].model));
    let counts = requests_of(&conversations, &adapters);
    assert!(counts.iter().all(|count| count.abs_diff(300) < 5 * 15), "{counts:?}");
    config.random_seed = Some(43);
    assert_ne!(requests_of(&load(&config).unwrap(), &adapters), counts);
}

#[test]
fn weights_and_adapters_fit_the_models() {
    let mut config = config(Source::Synthetic(synthetic()));
    let refused = |config: &Config| config.check().unwrap_err().to_string();
    config.model_selection = ModelSelection::Weighted;
    assert!(refused(&config).contains("add --model-weights"));
    config.model_weights = vec![1.0, 2.0];
    assert!(refused(&config).contains("2 weights for 1 models"));
    config.model_weights = vec![0.0];
    assert!(refused(&config).contains("above 0"));
    config.model_weights = vec![1.0];
    config.check().unwrap();
    config.model_selection = ModelSelection::Random;
    assert!(refused(&config).contains("applies to the strategy weighted"));
    config.model_weights.clear();
    config.lora_modules = vec!["x".to_owned()];
    config.check().unwrap();
    config.models.push("b".to_owned());
    assert!(refused(&config).contains("one model"));
}

/// Formats the complete content of a conversation.
fn fingerprint(conversations: &[Conversation]) -> String {
    format!("{conversations:?}")
}

#[test]
fn the_seed_decides_everything() {
    let with_seed = |seed| {
        let mut config = config(Source::Synthetic(Synthetic {
            input_tokens: Length::Normal(NormalDistribution { mean: 50.0, stddev: 10.0 }),
            turns: NormalDistribution { mean: 3.0, stddev: 1.0 },
            turn_delay_ms: NormalDistribution { mean: 100.0, stddev: 20.0 },
            prefix_pool_size: 3,
            prefix_length: 5,
            ..synthetic()
        }));
        config.parts[0].output_tokens =
            Some(Length::Normal(NormalDistribution { mean: 20.0, stddev: 4.0 }));
        config.models = vec!["a".to_owned(), "b".to_owned()];
        config.model_selection = ModelSelection::Random;
        config.random_seed = seed;
        fingerprint(&load(&config).unwrap())
    };
    assert_eq!(with_seed(Some(1)), with_seed(Some(1)));
    assert_ne!(with_seed(Some(1)), with_seed(Some(2)));
    assert_ne!(with_seed(None), with_seed(None));
}

#[test]
fn prompts_do_not_depend_on_other_settings() {
    let plain = generate(synthetic());
    let mut config = config(Source::Synthetic(Synthetic { entries: 10, ..synthetic() }));
    config.parts[0].output_tokens =
        Some(Length::Normal(NormalDistribution { mean: 20.0, stddev: 4.0 }));
    config.models = vec!["a".to_owned(), "b".to_owned()];
    let other = load(&config).unwrap();
    assert_eq!(first_texts(&plain)[..10], first_texts(&other));
    assert_eq!(plain[9].id, other[9].id);
}

#[test]
fn lengths_turns_and_delays_have_the_means_asked_for() {
    let mut config = config(Source::Synthetic(Synthetic {
        entries: 1000,
        input_tokens: Length::Normal(NormalDistribution { mean: 40.0, stddev: 8.0 }),
        turns: NormalDistribution { mean: 4.0, stddev: 0.5 },
        turn_delay_ms: NormalDistribution { mean: 200.0, stddev: 20.0 },
        ..synthetic()
    }));
    config.parts[0].delay_ratio = 0.5;
    config.parts[0].output_tokens =
        Some(Length::Normal(NormalDistribution { mean: 30.0, stddev: 6.0 }));
    let conversations = load(&config).unwrap();
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;

    let turns = mean(conversations.iter().map(|c| c.turns.len() as f64).collect());
    // About 4000 turns; the limits are four standard errors.
    assert!((turns - 4.0).abs() < 4.0 * 0.58 / 1000f64.sqrt(), "{turns}");
    let all = || conversations.iter().flat_map(|c| &c.turns);
    let inputs = mean(all().map(|turn| turn.input_tokens.unwrap() as f64).collect());
    assert!((inputs - 40.0).abs() < 4.0 * 8.0 / 3900f64.sqrt(), "{inputs}");
    let outputs = mean(all().map(|turn| f64::from(turn.max_tokens.unwrap())).collect());
    assert!((outputs - 30.0).abs() < 4.0 * 6.0 / 3900f64.sqrt(), "{outputs}");

    assert!(conversations.iter().all(|c| c.turns[0].delay == Nanos::ZERO));
    let later = conversations.iter().flat_map(|c| &c.turns[1..]);
    let delay = mean(later.map(|turn| turn.delay.as_millis()).collect());
    assert!((delay - 100.0).abs() < 4.0 * 10.0 / 2900f64.sqrt(), "{delay}");
}

#[test]
fn pairs_of_lengths_stay_together() {
    let mut config = config(Source::Synthetic(Synthetic {
        entries: 400,
        sequence_distribution: SequenceDistribution::parse("10,100:25;30,300:75").ok(),
        ..synthetic()
    }));
    config.parts[0].output_tokens = Some(Length::Normal(NormalDistribution::exactly(7.0)));
    let pairs: Vec<(u64, u32)> = load(&config)
        .unwrap()
        .iter()
        .map(|c| (c.turns[0].input_tokens.unwrap(), c.turns[0].max_tokens.unwrap()))
        .collect();
    assert!(pairs.iter().all(|pair| [(10, 100), (30, 300)].contains(pair)));
    let short = pairs.iter().filter(|pair| pair.0 == 10).count();
    // Expected 100, standard deviation sqrt(400 · 0.25 · 0.75) = 8.7.
    assert!(short.abs_diff(100) < 35, "{short}");
}

#[test]
fn batches_hold_texts_of_their_own() {
    let conversations = generate(Synthetic { batch_size: 3, ..synthetic() });
    let texts: HashSet<String> =
        conversations.iter().flat_map(|c| &c.turns[0].texts).map(Text::to_string).collect();
    assert_eq!(texts.len(), 60);
    assert!(conversations.iter().all(|c| c.turns[0].input_tokens == Some(150)));
}

#[test]
fn prefixes_come_from_the_pool_and_open_first_turns_only() {
    let conversations = generate(Synthetic {
        entries: 200,
        turns: NormalDistribution::exactly(2.0),
        prefix_pool_size: 4,
        prefix_length: 30,
        ..synthetic()
    });
    let prefixes: HashSet<String> = conversations
        .iter()
        .map(|c| c.turns[0].texts[0].to_string().chars().take(60).collect::<String>())
        .collect();
    assert_eq!(prefixes.len(), 4);
    for conversation in &conversations {
        let first = &conversation.turns[0];
        assert_eq!(count(&first.texts[0].to_string()), 30 + 50);
        assert_eq!(first.input_tokens, Some(80));
        assert_eq!(conversation.turns[1].input_tokens, Some(50));
    }
}

#[test]
fn system_prompts_are_shared_and_contexts_are_not() {
    let conversations = generate(Synthetic {
        shared_system_prompt_length: Some(25),
        user_context_prompt_length: Some(12),
        ..synthetic()
    });
    let systems: HashSet<_> = conversations.iter().map(|c| c.system.clone().unwrap()).collect();
    let contexts: HashSet<_> =
        conversations.iter().map(|c| c.user_context.clone().unwrap()).collect();
    assert_eq!((systems.len(), contexts.len()), (1, 20));
    assert!(systems.iter().all(|text| count(text) == 25));
    assert!(contexts.iter().all(|text| count(text) == 12));
    assert!(conversations.iter().all(|c| c.context_tokens == Some(37)));

    let verbatim = generate(Synthetic { system_prompt: Some("Be brief.".into()), ..synthetic() });
    assert_eq!(verbatim[3].system.as_deref(), Some("Be brief."));
    assert_eq!(verbatim[3].context_tokens, Some(3));
}

#[test]
fn models_take_turns() {
    let mut config = config(Source::Synthetic(Synthetic {
        entries: 2,
        turns: NormalDistribution::exactly(2.0),
        ..synthetic()
    }));
    config.models = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
    let models: Vec<String> = load(&config)
        .unwrap()
        .iter()
        .flat_map(|c| c.turns.iter().map(|turn| turn.model.to_string()))
        .collect();
    assert_eq!(models, ["a", "b", "c", "a"]);
}

#[test]
fn nothing_is_counted_for_endpoints_without_text() {
    let config = config(Source::Synthetic(synthetic()));
    let dataset = Dataset::load(&config, &TokenCounter::builtin(), false, &hub()).unwrap();
    for conversation in &dataset.conversations {
        assert_eq!(conversation.context_tokens, None);
        assert_eq!(conversation.turns[0].input_tokens, None);
    }
}

#[test]
fn settings_that_make_no_dataset_name_their_flag() {
    let fault = |synthetic| config(Source::Synthetic(synthetic)).check().unwrap_err().to_string();
    let not_a_number = NormalDistribution::exactly(f64::NAN);
    let negative = NormalDistribution { mean: 10.0, stddev: -1.0 };
    for (synthetic, flag) in [
        (Synthetic { entries: 0, ..synthetic() }, "--num-dataset-entries: "),
        (Synthetic { batch_size: 0, ..synthetic() }, "--batch-size: "),
        (Synthetic { input_tokens: Length::Normal(not_a_number), ..synthetic() }, "--isl: "),
        (Synthetic { turns: negative, ..synthetic() }, "--session-turns-mean: "),
        (Synthetic { prefix_pool_size: 2, ..synthetic() }, "--num-prefix-prompts: "),
        (
            Synthetic { shared_system_prompt_length: Some(0), ..synthetic() },
            "--shared-system-prompt-length: ",
        ),
        (
            Synthetic { user_context_prompt_length: Some(20_000_000), ..synthetic() },
            "--user-context-prompt-length: ",
        ),
    ] {
        let words = fault(synthetic);
        assert!(words.starts_with(flag), "{words}");
    }
    let mut negative_ratio = config(Source::Synthetic(synthetic()));
    negative_ratio.parts[0].delay_ratio = -1.0;
    let words = negative_ratio.check().unwrap_err().to_string();
    assert!(words.starts_with("--session-delay-ratio: "), "{words}");
    let mut without_model = config(Source::Synthetic(synthetic()));
    without_model.models.clear();
    assert!(without_model.check().unwrap_err().to_string().starts_with("--model: "));
}

fn from_file(path: &Path, format: Option<FileFormat>) -> Config {
    config(Source::File {
        path: path.to_owned(),
        format,
        traces: TraceSettings::default(),
        entries: 1,
        batch_size: 1,
    })
}

#[test]
fn files_are_completed_as_generated_conversations_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("prompts.jsonl");
    std::fs::write(
        &path,
        "{\"text\": \"Hello, world!\", \"max_tokens\": 5}\n{\"text\": \"1234567890\", \"model\": \"own\"}\n",
    )
    .unwrap();
    let mut config = from_file(&path, None);
    config.parts[0].output_tokens = Some(Length::Normal(NormalDistribution::exactly(9.0)));
    let conversations = load(&config).unwrap();
    let turns: Vec<_> = conversations.iter().map(|c| &c.turns[0]).collect();
    assert_eq!((turns[0].max_tokens, turns[1].max_tokens), (Some(5), Some(9)));
    assert_eq!((&*turns[0].model, &*turns[1].model), ("m", "own"));
    // Each of these four is a token of o200k.
    assert_eq!((turns[0].input_tokens, turns[1].input_tokens), (Some(4), Some(4)));
    let ids: Vec<&str> = conversations.iter().map(|c| &*c.id).collect();
    assert_eq!(ids, ["session_000000", "session_000001"]);
    assert_eq!(fingerprint(&conversations), fingerprint(&load(&config).unwrap()));
}

#[test]
fn an_earlier_run_can_be_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("inputs.json");
    let document = serde_json::json!({"data": [{"session_id": "s", "payloads": [
        {"messages": [{"role": "user", "content": "Hi"}], "model": "own", "stream": true},
        {"messages": []},
    ]}]});
    std::fs::write(&path, serde_json::to_string_pretty(&document).unwrap()).unwrap();
    let mut config = from_file(&path, None);
    config.parts[0].output_tokens = Some(Length::Normal(NormalDistribution::exactly(9.0)));
    let conversations = load(&config).unwrap();
    let turns = &conversations[0].turns;
    assert_eq!((&*conversations[0].id, turns.len()), ("s", 2));
    assert_eq!((&*turns[0].model, &*turns[1].model), ("own", "m"));
    assert_eq!(turns[1].raw_payload.as_ref().unwrap().get(), "{\"messages\":[]}");
    assert_eq!((turns[0].input_tokens, turns[1].input_tokens), (Some(count("Hi")), None));
    assert!(turns.iter().all(|turn| turn.max_tokens.is_none()));
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let fault = |content: &[u8], format| {
        std::fs::write(&path, content).unwrap();
        let words = load(&from_file(&path, format)).unwrap_err().to_string();
        words.replace(path.to_str().unwrap(), "FILE")
    };
    assert_eq!(fault(b"", None), "FILE contains no usable conversation");
    assert_eq!(
        fault(b"[{\"conversations\": []}]", None),
        "FILE contains no usable conversation: 1 without a usable prompt left out"
    );
    assert_eq!(
        fault(b"{\"text\": \"a\"}\n{\"text\": \"\xff\"}\n", None),
        "FILE, line 2: invalid UTF-8 at byte 11"
    );
    assert_eq!(
        fault(b"{\"text\": \"a\"}\n\n{\"text\"}\n", Some(FileFormat::SingleTurn)),
        "FILE, line 3: expected `:` (column 8)"
    );
    assert_eq!(fault(b"{\"data\": [{\"payloads\": []}]}", None), "FILE, entry 1: no payloads");
    assert!(fault(b"{\"words\": \"a\"}", None).contains("use --custom-dataset-type"));

    let missing = load(&from_file(&directory.path().join("absent"), None)).unwrap_err();
    assert!(missing.to_string().starts_with("cannot read the dataset "), "{missing}");
    let directory_error = load(&from_file(directory.path(), None)).unwrap_err().to_string();
    assert!(
        directory_error.ends_with(
            "contains no usable conversation: the directory does not contain a .jsonl or .json file"
        ),
        "{directory_error}"
    );
}

/// The first words of a prompt: what a prefix cache would find again.
fn beginning(conversation: &Conversation) -> String {
    conversation.turns[0].texts[0].to_string().split(' ').take(4).collect::<Vec<_>>().join(" ")
}

#[test]
fn parts_are_one_dataset_and_do_not_begin_alike() {
    let longer = Synthetic {
        input_tokens: Length::Normal(NormalDistribution::exactly(80.0)),
        ..synthetic()
    };
    let alone = load(&config(Source::Synthetic(synthetic()))).unwrap();
    let mut both = config(Source::Synthetic(synthetic()));
    both.parts.push(Source::Synthetic(longer).into());
    let all = load(&both).unwrap();
    let tokens: Vec<_> = all.iter().map(|it| it.turns[0].input_tokens).collect();
    assert_eq!(tokens, [vec![Some(50); 20], vec![Some(80); 20]].concat());
    // The first part is the dataset of a run with nothing else; no prompt of the other begins as one of it.
    let texts = |of: &[Conversation]| of.iter().map(beginning).collect::<HashSet<_>>();
    assert_eq!(texts(&all[..20]), texts(&alone));
    assert!(texts(&all[..20]).is_disjoint(&texts(&all[20..])));
    let ids: Vec<&str> = all.iter().map(|it| &*it.id).collect();
    let expected: Vec<String> = (0..40).map(|index| format!("session_{index:06}")).collect();
    assert_eq!(ids, expected);
}
