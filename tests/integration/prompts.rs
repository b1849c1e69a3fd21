//! Generated prompts, as they are sent, and as a dry run shows them.

use aiperf::mock_server::{Config, MockServer};
use serde_json::Value;
use tokenizers::Tokenizer;

use crate::support::run::{aiperf, profile};

#[test]
fn lengths_are_drawn_from_the_range() {
    let server = MockServer::start(Config::default()).unwrap();
    let flags = "--isl 100 --osl 8 --random-range-ratio 0.5 --request-count 40 --random-seed 3";
    for (style, inputs) in [("vllm", 50..=150), ("sglang", 50..=100)] {
        for corpus in ["sonnet", "coding", "random"] {
            let mut flags: Vec<&str> = flags.split(' ').collect();
            // A test that gives lengths itself.
            flags.extend(["--random-corpus-style", style, "--prompt-corpus", corpus]);
            let directory = tempfile::tempdir().unwrap();
            let output = aiperf(&["profile", "-m", "mock-model", "--tokenizer", "builtin"])
                .args(["--url", &server.url(), "--streaming", "--ui", "none", "--artifact-dir"])
                .arg(directory.path())
                .args(flags)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let text = std::fs::read_to_string(directory.path().join("profile_export.jsonl"));
            let records = text.unwrap();
            let lengths = records.lines().map(|line| {
                let record: Value = serde_json::from_str(line).unwrap();
                let input = &record["metrics"]["input_sequence_length"]["value"];
                let output = &record["metadata"]["requested_output_tokens"];
                (input.as_u64().unwrap(), output.as_u64().unwrap())
            });
            let lengths: Vec<(u64, u64)> = lengths.collect();
            assert_eq!(lengths.len(), 40);
            let outputs = if style == "vllm" { 4..=12 } else { 4..=8 };
            for (input, output) in &lengths {
                assert!(inputs.contains(input) && outputs.contains(output), "{input} {output}");
            }
            // Forty draws from at least 51 lengths: fewer than ten different ones would be one in
            // 10^25.
            let mut distinct: Vec<u64> = lengths.iter().map(|(input, _)| *input).collect();
            distinct.sort_unstable();
            distinct.dedup();
            assert!(distinct.len() >= 10, "{distinct:?}");
        }
    }
}

#[test]
fn generated_text_is_written_to_outputs() {
    let server = MockServer::start(Config::default()).unwrap();
    let run = profile(&server.url(), &["--request-count", "3", "--export-outputs-json"]);
    assert!(run.output.status.success(), "{}", String::from_utf8_lossy(&run.output.stderr));
    let outputs: Value = serde_json::from_str(&run.text("outputs.json")).unwrap();
    assert_eq!(outputs["schema_version"], "1.0");
    let entries = outputs["data"].as_array().unwrap();
    assert_eq!(entries.len(), 3);
    for (session, entry) in entries.iter().enumerate() {
        assert_eq!((&entry["session_num"], &entry["turn_index"]), (&session.into(), &0.into()));
        assert!(!entry["response_text"].as_str().unwrap().is_empty());
        assert_eq!(entry["metrics"]["input_sequence_length"], 20);
        assert_eq!(entry["metrics"]["output_sequence_length"], 4);
        assert!(entry["metrics"]["time_to_first_token"].as_f64().unwrap() > 0.0);
    }
}

/// 800 tokens are 50 blocks of 16, and 19 of 20 prompts share them with the first one.
#[test]
fn a_dry_run_sends_nothing_and_shows_what_prompts_share() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("run");
    let flags = "--shared-system-prompt-length 800 --isl 200 --osl 50 --request-count 20";
    let dry_run = |form: &str| {
        // There is no server.
        let mut command = aiperf(&["profile", "-m", "m", "--tokenizer", "builtin"]);
        command.args(["--url", "http://127.0.0.1:1", "--artifact-dir"]).arg(&place);
        let output = command.args(flags.split(' ')).arg(form).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(!place.exists());
        String::from_utf8(output.stdout).unwrap()
    };
    let shown: Value = serde_json::from_str(&dry_run("--dry-run=json")).unwrap();
    assert_eq!(shown["requests"], 20);
    assert_eq!(shown["input_tokens"], 20_000.0);
    assert_eq!(shown["output_tokens_requested"], 1000.0);
    assert_eq!(shown["input_sequence_length"]["p50"], 1000.0);
    assert_eq!(shown["prefixes"]["shared_tokens"], 19 * 800);
    assert_eq!(shown["prefixes"]["shared_ratio"], 0.76);
    let table = dry_run("--dry-run");
    assert!(table.contains("20,000 input, 1,000 output requested"), "{table}");
    assert!(table.contains("76.0% of the tokens"), "{table}");
}

#[test]
fn a_dry_run_of_a_sweep_is_rejected() {
    let output = aiperf(&["profile", "-m", "m", "--concurrency", "1,2", "--dry-run"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("shows a single run"));
}

/// The tokenizer's own library encodes the texts of the same run without the flag.
#[test]
fn prompts_are_sent_as_the_token_ids_of_their_texts() {
    let server = MockServer::start(Config::default()).unwrap();
    let tokenizer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tiny-model");
    let sent = |endpoint: &str, extra: &str| {
        let directory = tempfile::tempdir().unwrap();
        let output = aiperf(&["profile", "-m", "mock-model", "--endpoint-type", endpoint])
            .args(["--url", &server.url(), "--tokenizer", tokenizer, "--ui", "none"])
            .args("--isl 30 --batch-size 2 --request-count 4 --random-seed 3".split(' '))
            .args("--num-prefix-prompts 2 --prefix-prompt-length 10".split(' '))
            .args(["--prompt-corpus", "random", "--export-level", "raw", "--artifact-dir"])
            .arg(directory.path())
            .args(extra.split_whitespace())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = |name: &str| -> Vec<Value> {
            let text = std::fs::read_to_string(directory.path().join(name)).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let name = if endpoint == "completions" { "prompt" } else { "input" };
        let raw = lines("profile_export_raw.jsonl").into_iter();
        let mut prompts: Vec<Value> = raw.map(|it| it["payload"][name].clone()).collect();
        prompts.sort_by_key(Value::to_string);
        (prompts, lines("profile_export.jsonl"))
    };
    let library = Tokenizer::from_file(format!("{tokenizer}/tokenizer.json")).unwrap();
    let ids = |text: &str| library.encode(text, false).unwrap().get_ids().to_vec();
    for endpoint in ["completions", "embeddings"] {
        let (texts, _) = sent(endpoint, "");
        let prompts = texts.iter().map(|batch| {
            let batch = batch.as_array().unwrap().iter();
            Value::from(
                batch.map(|text| ids(text.as_str().unwrap()).into()).collect::<Vec<Value>>(),
            )
        });
        let mut expected: Vec<Value> = prompts.collect();
        expected.sort_by_key(Value::to_string);
        let (found, records) = sent(endpoint, "--prompt-token-ids");
        assert_eq!(found, expected);
        for record in records {
            let value = |tag: &str| record["metrics"][tag]["value"].as_u64();
            // Two prompts, each with a prefix of 10 tokens, a space and 30 more tokens.
            assert_eq!(value("input_sequence_length"), Some(80), "{record}");
            assert_eq!(value("usage_prompt_tokens"), Some(80), "{record}");
        }
    }
    // The system prompt and the context are in each prompt.
    let flags =
        "--prompt-token-ids --shared-system-prompt-length 20 --user-context-prompt-length 5";
    let (found, records) = sent("completions", flags);
    for prompts in &found {
        let lengths = prompts.as_array().unwrap().iter().map(|ids| ids.as_array().unwrap().len());
        assert_eq!(lengths.collect::<Vec<_>>(), [65, 65]);
        let system = |batch: &Value| batch[0].as_array().unwrap()[..20].to_vec();
        assert_eq!(system(prompts), system(&found[0]));
    }
    for record in records {
        assert_eq!(record["metrics"]["input_sequence_length"]["value"], 130);
        assert_eq!(record["metrics"]["usage_prompt_tokens"]["value"], 130);
    }
}

#[test]
fn token_ids_are_only_sent_where_they_mean_the_same_to_the_server() {
    let refused = |arguments: &str| {
        let output = aiperf(&["profile", "-m", "m", "--prompt-token-ids"])
            .args(arguments.split(' '))
            .output()
            .unwrap();
        assert_ne!(output.status.code(), Some(0));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let tokenizer = concat!("--tokenizer ", env!("CARGO_MANIFEST_DIR"), "/tests/golden/tiny-model");
    let said = refused("--endpoint-type completions --tokenizer builtin");
    assert!(said.contains("--prompt-token-ids: the token IDs of the builtin tokenizer"), "{said}");
    let said = refused(&format!("--endpoint-type chat {tokenizer}"));
    assert!(said.contains("chat requests contain texts; use completions"), "{said}");
    let file = format!("--endpoint-type completions {tokenizer} --input-file {}", file!());
    let said = refused(&file);
    assert!(said.contains("--prompt-token-ids: applies to generated prompts"), "{said}");
    let busts = format!("--endpoint-type completions {tokenizer} --cache-bust system-prefix");
    assert!(refused(&busts).contains("cannot be used with"), "{}", refused(&busts));
}

/// The texts have as many tokens as words, with a common tokenizer.
#[test]
fn batches_are_drawn_from_a_pool() {
    let server = MockServer::start(Config::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pool.jsonl");
    let lines = [
        r#"{"text": "one"}"#,
        r#"{"texts": ["two", {"name": "n", "contents": ["three"]}]}"#,
        r#"{"text": "four"}"#,
    ];
    std::fs::write(&file, lines.join("\n")).unwrap();
    let flags = "--endpoint-type embeddings --batch-size 3 --request-count 30 --random-seed 4";
    let flags: Vec<&str> = flags.split(' ').chain(["--export-level", "raw"]).collect();
    let sent = |format: &str| {
        let of_file = ["--input-file", file.to_str().unwrap(), "--custom-dataset-type", format];
        profile(&server.url(), &[&flags[..], &of_file].concat())
    };
    let inputs = || {
        let run = sent("random-pool");
        assert_eq!(run.exit_code(), Some(0), "{}", run.stderr());
        for record in run.records() {
            assert_eq!(record["metrics"]["input_sequence_length"]["value"], 3);
        }
        let lines = run.text("profile_export_raw.jsonl");
        let input = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            serde_json::from_value(line["payload"]["input"].clone()).unwrap()
        };
        let mut inputs: Vec<Vec<String>> = lines.lines().map(input).collect();
        inputs.sort();
        inputs
    };
    let drawn = inputs();
    assert_eq!(drawn.len(), 30);
    assert!(drawn.iter().all(|input| input.len() == 3));
    let mut texts: Vec<&str> = drawn.iter().flatten().map(String::as_str).collect();
    texts.sort_unstable();
    texts.dedup();
    // That one of the four texts is not among 90 draws has a probability of 10^-11.
    assert_eq!(texts, ["four", "one", "three", "two"]);
    assert_eq!(drawn, inputs());
    let refused = sent("single-turn");
    assert_ne!(refused.exit_code(), Some(0));
    assert!(
        refused.stderr().contains("--batch-size: applies to generated prompts and to a file of")
    );
}
