//! Generated prompts, as they are sent, and as a dry run shows them.

use mock_server::{Config, MockServer};
use serde_json::Value;
use tokenizers::Tokenizer;

use crate::support::run::{Run, aiperf, profile};

#[test]
fn lengths_are_drawn_from_the_range() {
    let flags = "--isl 100 --osl 8 --random-range-ratio 0.5 --request-count 40 --random-seed 3";
    for (style, inputs) in [("vllm", 50..=150), ("sglang", 50..=100)] {
        for corpus in ["sonnet", "coding", "random"] {
            let mut flags: Vec<&str> = flags.split(' ').collect();
            // A test that gives lengths itself.
            flags.extend(["--random-corpus-style", style, "--prompt-corpus", corpus]);
            let records = run_with(&flags).text("profile_export.jsonl");
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

/// Returns the input length and the requested output length of each request, in order of the
/// requests.
fn lengths(run: &Run) -> Vec<(u64, u64)> {
    let mut requests: Vec<(u64, u64, u64)> = run
        .text("profile_export.jsonl")
        .lines()
        .map(|line| {
            let record: Value = serde_json::from_str(line).unwrap();
            let input = record["metrics"]["input_sequence_length"]["value"].as_u64().unwrap();
            let metadata = &record["metadata"];
            let output = metadata["requested_output_tokens"].as_u64().unwrap();
            (metadata["session_num"].as_u64().unwrap(), input, output)
        })
        .collect();
    requests.sort_unstable();
    requests.into_iter().map(|(_, input, output)| (input, output)).collect()
}

/// Runs with these flags, and no lengths besides.
fn run_with(flags: &[&str]) -> Run {
    let server = MockServer::start(Config::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let output = aiperf(&["profile", "-m", "mock-model", "--tokenizer", "builtin"])
        .args(["--url", &server.url(), "--streaming", "--ui", "none", "--artifact-dir"])
        .arg(directory.path())
        .args(flags)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Run { output, directory }
}

#[test]
fn lengths_of_another_run_are_drawn_again_in_pairs() {
    let pairs = "20,3:50;40,7:30;60,1:20";
    let flags = ["--seq-dist", pairs, "--request-count", "30", "--random-seed", "5"];
    let first = run_with(&flags);
    // The server stops at the requested length.
    let records = first.directory.path().join("profile_export.jsonl");
    let again = run_with(&["--lengths-from", records.to_str().unwrap(), "--request-count", "30"]);
    for run in [&first, &again] {
        for pair in lengths(run) {
            assert!([(20, 3), (40, 7), (60, 1)].contains(&pair), "{pair:?}");
        }
    }
    let summary: Value = serde_json::from_str(&again.text("profile_export_aiperf.json")).unwrap();
    let recorded = &summary["run_info"]["config"]["dataset"]["parts"][0]["source"]["synthetic"];
    assert_eq!(recorded["recorded_lengths"]["requests"], 30);
}

/// A correlation of 1: the longer the input, the longer the output.
#[test]
fn correlated_lengths_rise_together() {
    let run = run_with(&[
        "--isl",
        "lognormal:mean=60,sigma=0.5",
        "--osl",
        "uniform:min=1,max=40",
        "--length-correlation",
        "1",
        "--request-count",
        "40",
    ]);
    let mut pairs = lengths(&run);
    pairs.sort_unstable();
    assert!(pairs.windows(2).all(|two| two[0].1 <= two[1].1), "{pairs:?}");
    // Forty draws from forty lengths: fewer than ten different ones would be one in 10^15.
    let distinct: std::collections::BTreeSet<u64> =
        pairs.iter().map(|(_, output)| *output).collect();
    assert!(distinct.len() >= 10, "{pairs:?}");
}

#[test]
fn lengths_that_contradict_each_other_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lengths.csv");
    std::fs::write(&file, "input,output\n10,20\n").unwrap();
    let file = file.to_str().unwrap();
    for (flags, why) in [
        (vec!["--lengths-from", file, "--isl", "3"], "cannot be used with"),
        (vec!["--lengths-from", file, "--osl", "3"], "remove --osl"),
        (vec!["--lengths-from", "/nowhere.csv"], "/nowhere.csv"),
        (
            vec!["--isl", "lognormal:mean=5,sigma=1", "--isl-stddev", "3"],
            "requires a number as --isl",
        ),
        (vec!["--isl", "4", "--osl", "4", "--length-correlation", "1.5"], "between -1 and 1"),
        (vec!["--length-correlation", "0.5"], "--isl"),
        (vec!["--isl", "lognormal:mean=5"], "exactly two of mean, median and sigma"),
        (
            vec!["--isl", "lognormal:mean=5,sigma=1", "--osl", "4", "--random-range-ratio", "0.5"],
            "requires numbers as --isl and --osl",
        ),
    ] {
        let output = aiperf(&["profile", "-m", "m", "--url", "http://127.0.0.1:1"])
            .args(&flags)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {error}");
        assert!(error.contains(why), "{flags:?}: {error}");
    }
}

/// Three prompts of a file for twelve requests: nine are the same as an earlier one. Generated prompts repeat
/// because their number was given.
#[test]
fn prompts_that_repeat_unasked_are_said() {
    let server = MockServer::start(Config::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("prompts.jsonl");
    std::fs::write(&file, "{\"text\":\"one\"}\n{\"text\":\"two\"}\n{\"text\":\"three\"}\n")
        .unwrap();
    let count = ["--request-count", "12", "--input-file", file.to_str().unwrap()];
    let said = profile(&server.url(), &count).succeeded().stdout();
    assert!(said.contains("! prompts-repeat: 9 of 12 requests (75.0%) were sent before"), "{said}");
    let given = ["--request-count", "12", "--num-dataset-entries", "3"];
    let said = profile(&server.url(), &given).succeeded().stdout();
    assert!(!said.contains("prompts-repeat"), "{said}");
    let fresh = profile(&server.url(), &["--request-count", "12"]).succeeded().stdout();
    assert!(!fresh.contains("prompts-repeat"), "{fresh}");
}
